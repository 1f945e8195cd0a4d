// Uploads a file with tus-js-client, which is found in a folder:
// node upload.mjs FOLDER FILE ENDPOINT SIZE-OF-PIECES KEY [CLIENT]. It prints where the upload is.
// CLIENT parallel uploads three parts side by side, and uppy does so by way of Uppy.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';

const [, , folder, file, endpoint, pieces, key, client] = process.argv;
if (client === 'uppy') {
  const load = async (name) => (await import(`${folder}/node_modules/@uppy/${name}/lib/index.js`)).default;
  const [Uppy, Tus] = [await load('core'), await load('tus')];
  const uppy = new Uppy({ id: 'kist' }).use(Tus, { endpoint, headers: key ? { 'x-api-key': key } : {}, parallelUploads: 3, allowedMetaFields: ['filename'], storeFingerprintForResuming: false });
  const data = readFileSync(file); // what tus-js-client takes in Node.js in place of a Blob
  data.size = data.length;
  uppy.addFile({ name: 'a.bin', type: 'application/octet-stream', data, meta: { filename: 'a.bin' } });
  const result = await uppy.upload();
  if (result.failed.length) {
    console.error(String(result.failed[0].error));
    process.exit(1);
  }
  console.log(new URL(result.successful[0].uploadURL).pathname);
  process.exit(0);
}
const tus = createRequire(`${folder}/`)('tus-js-client');
const upload = new tus.Upload(readFileSync(file), {
  endpoint,
  chunkSize: Number(pieces) || Infinity,
  retryDelays: Array(10_000).fill(20),
  parallelUploads: client === 'parallel' ? 3 : 1,
  headers: key ? { 'x-api-key': key } : {},
  metadata: { filename: 'a.bin', filetype: 'application/octet-stream' },
  onSuccess: () => console.log(new URL(upload.url).pathname),
  onError: (e) => {
    console.error(String(e));
    process.exit(1);
  },
});
upload.start();
