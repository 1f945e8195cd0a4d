// Resumable uploads (tus 1.0.0) of large files, for the owner's app and for the page of an upload link.
//
// The address of an upload is stored in the browser until the upload is complete. When the user chooses the same file
// again, even after closing the page, the upload goes on where it stopped.
const partSize = 32 << 20; // bytes of one request: some proxies accept no more than 100 MB
const version = { 'Tus-Resumable': '1.0.0' };

const base64 = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));

const fileKey = (file, ...more) => base64(JSON.stringify([file.name, file.size, file.lastModified, ...more]));

// ofOwner and ofSender are the parts of a client that differ between the owner and a sender:
//   storageKey is where the address of an upload is stored; null does not store it
//   begin gives the path of a new upload, its fields and its headers
//   resultOf is the record of the finished upload in the server's answer
// The caller adds storage (get and set), and progress, retry and done, which are called with the upload.
export const ofOwner = (user, base) => ({
  storageKey: (u) => u.fields.password ? null : `tus.${user}.${fileKey(u.file, u.fields)}`,
  begin: (u) => ({ path: `${base}/api/v1/tus`, fields: { filetype: u.file.type, ...u.fields } }),
  resultOf: (data) => data.file,
});
export const ofSender = (api, slug, ask) => ({
  storageKey: (u) => `up.${slug}.${fileKey(u.file)}`,
  begin: async () => ({ path: `${api}upload-requests/p/${encodeURIComponent(slug)}/tus`, ...await ask() }),
  resultOf: (data) => data.item,
});

// metadataOf writes the name and the fields of an upload as the header Upload-Metadata has them.
const metadataOf = (u, fields) => Object.entries({ filename: u.file.name, ...fields })
  .map(([name, value]) => `${name} ${base64(String(value))}`.trim()).join(',');

// resume sends the part of u.file that the server does not have. It sets u.sent and u.xhr, and calls client.done or
// client.retry at the end.
export async function resume(u, client) {
  const turn = {}; // pause or another call replaces it, which ends this call
  u.turn = turn;
  const key = client.storageKey(u);
  u.at ??= key && client.storage.get(key);
  const forget = () => {
    u.at = null;
    if (key) client.storage.set(key, null);
  };
  const retry = (status, data) => turn === u.turn && client.retry(u, status, data);
  try {
    // How much does the server have?
    let offset = 0;
    if (u.at) {
      const got = await send('HEAD', u.at);
      if (got.status === 423) return retry(503, got.data); // another request holds it
      if ([404, 410].includes(got.status)) forget();
      else if (got.status !== 200) return retry(got.status, got.data);
      else offset = got.offset;
    }

    // A new upload.
    if (!u.at) {
      const { path, fields, headers } = await client.begin(u);
      if (turn !== u.turn) return;
      const lengths = { 'Upload-Length': u.file.size, 'Upload-Metadata': metadataOf(u, fields) };
      const got = await send('POST', path, null, { ...headers, ...lengths });
      if (got.status !== 201) return retry(got.status, got.data);
      u.at = got.location;
      if (key) client.storage.set(key, u.at);
    }

    // Its parts.
    const progress = (n) => { if (turn === u.turn) client.progress(u, offset + n); };
    while (offset < u.file.size) {
      if (turn !== u.turn) return;
      u.sent = offset;
      const part = u.file.slice(offset, offset + partSize);
      const headers = { 'Upload-Offset': offset, 'Content-Type': 'application/offset+octet-stream' };
      const got = await send('PATCH', u.at, part, headers, progress);
      if (turn !== u.turn) return;
      if (got.status !== 204) return client.retry(u, got.status, got.data);
      if (!(got.offset > offset)) throw new Error('the server stored nothing');
      offset = got.offset;
      u.tries = 0;
    }

    // What it has become.
    const end = await send('GET', u.at);
    if (turn !== u.turn) return;
    const result = end.data && client.resultOf(end.data);
    if (end.status !== 200 || !result) return client.retry(u, end.status === 200 ? 500 : end.status, end.data);
    forget();
    client.done(u, result);
  } catch {
    retry(0, null);
  }

  function send(method, path, body, headers, progress) {
    return new Promise((done) => {
      const xhr = new XMLHttpRequest();
      u.xhr = xhr;
      if (progress) xhr.upload.onprogress = (e) => progress(e.loaded);
      xhr.onloadend = () => {
        let data = null;
        try { data = JSON.parse(xhr.responseText); } catch { /* the status is enough */ }
        done({
          status: xhr.status,
          data,
          offset: Number(xhr.getResponseHeader('Upload-Offset')),
          location: xhr.getResponseHeader('Location'),
        });
      };
      xhr.open(method, path);
      for (const [name, value] of Object.entries({ ...version, ...headers })) xhr.setRequestHeader(name, value);
      xhr.send(body);
    });
  }
}

// pause ends the running request. resume continues the upload.
export function pause(u) {
  u.turn = null;
  u.xhr?.abort();
}

// cancel forgets the upload, here and on the server.
export function cancel(u, client) {
  pause(u);
  const key = client.storageKey(u);
  if (key) client.storage.set(key, null);
  if (!u.at) return;
  const xhr = new XMLHttpRequest(); // if this fails, the server deletes the upload after a day
  xhr.open('DELETE', u.at);
  xhr.setRequestHeader('Tus-Resumable', '1.0.0');
  xhr.send();
}
