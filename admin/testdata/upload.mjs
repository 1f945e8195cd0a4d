// Uploads a file with tus-js-client, which is found in a folder:
// node upload.mjs FOLDER FILE ENDPOINT SIZE-OF-PIECES KEY. It prints where the upload is.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';

const [, , folder, file, endpoint, pieces, key] = process.argv;
const tus = createRequire(`${folder}/`)('tus-js-client');
const upload = new tus.Upload(readFileSync(file), {
  endpoint,
  chunkSize: Number(pieces) || Infinity,
  retryDelays: Array(10_000).fill(20),
  headers: key ? { 'x-api-key': key } : {},
  metadata: { filename: 'a.bin', filetype: 'application/octet-stream' },
  onSuccess: () => console.log(new URL(upload.url).pathname),
  onError: (e) => {
    console.error(String(e));
    process.exit(1);
  },
});
upload.start();
