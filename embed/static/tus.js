// Resumable uploads (tus 1.0.0) of large files. app.js and up.js load it for the first one.
//
// Where a file is gone on with is remembered until it is complete, so that it goes on after the page was closed too, when
// the same file is chosen again.
const most = 32 << 20; // bytes of one request: some proxies take no more than 100 MB at once
const version = { 'Tus-Resumable': '1.0.0' };

const coded = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));

const named = (file, ...more) => coded(JSON.stringify([file.name, file.size, file.lastModified, ...more]));

// What a kit says of whose uploads it is: place names a file for the memory, where null is not to be remembered; begin says
// where it begins and with what; made is what the server says was made of it.
export const ofOwner = (user, base) => ({
  place: (u) => u.fields.password ? null : `tus.${user}.${named(u.file, u.fields)}`,
  begin: (u) => ({ path: `${base}/api/v1/tus`, fields: { filetype: u.file.type, ...u.fields } }),
  made: (data) => data.file,
});
export const ofSender = (api, slug, ask) => ({
  place: (u) => `up.${slug}.${named(u.file)}`,
  begin: async () => ({ path: `${api}upload-requests/p/${encodeURIComponent(slug)}/tus`, ...await ask() }),
  made: (data) => data.item,
});

// resume uploads what the server does not have of u.file; kit.arrived and kit.again are told how it ended, u.sent and
// u.xhr say how it goes.
export async function resume(u, kit) {
  const mine = u.turn = {}; // another turn, or none, ends this one
  const place = kit.place(u);
  u.at ??= place && kit.memory.get(place);
  const forget = () => { u.at = null; if (place) kit.memory.set(place, null); };
  try {
    let offset = 0;
    if (u.at) {
      const got = await ask('HEAD', u.at);
      if ([404, 410].includes(got.status)) forget();
      else if (got.status !== 200) return mine === u.turn && kit.again(u, got.status === 423 ? 503 : got.status, got.data); // busy
      else offset = got.offset;
    }
    if (!u.at) {
      const { path, fields, headers } = await kit.begin(u);
      if (mine !== u.turn) return;
      const said = { filename: u.file.name, ...fields };
      const got = await ask('POST', path, null, {
        ...headers, 'Upload-Length': u.file.size, 'Upload-Metadata': Object.entries(said).map(([name, value]) => `${name} ${coded(String(value))}`.trim()).join(','),
      });
      if (got.status !== 201) return mine === u.turn && kit.again(u, got.status, got.data);
      u.at = got.location;
      if (place) kit.memory.set(place, u.at);
    }
    while (offset < u.file.size) {
      if (mine !== u.turn) return;
      u.sent = offset;
      const got = await ask('PATCH', u.at, u.file.slice(offset, offset + most), { 'Upload-Offset': offset, 'Content-Type': 'application/offset+octet-stream' }, (n) => {
        if (mine === u.turn) kit.progress(u, offset + n);
      });
      if (mine !== u.turn) return;
      if (got.status !== 204) return kit.again(u, got.status, got.data);
      if (!(got.offset > offset)) throw new Error('the server takes nothing');
      offset = got.offset;
      u.tries = 0;
    }
    const end = await ask('GET', u.at);
    if (mine !== u.turn) return;
    const made = end.data && kit.made(end.data);
    if (end.status !== 200 || !made) return kit.again(u, end.status === 200 ? 500 : end.status, end.data);
    forget();
    kit.arrived(u, made);
  } catch {
    if (mine === u.turn) kit.again(u, 0, null);
  }

  function ask(method, path, body, headers, progress) {
    return new Promise((done) => {
      const xhr = u.xhr = new XMLHttpRequest();
      if (progress) xhr.upload.onprogress = (e) => progress(e.loaded);
      xhr.onloadend = () => {
        let data = null;
        try { data = JSON.parse(xhr.responseText); } catch { /* the status says it */ }
        done({ status: xhr.status, data, offset: Number(xhr.getResponseHeader('Upload-Offset')), location: xhr.getResponseHeader('Location') });
      };
      xhr.open(method, path);
      for (const [name, value] of Object.entries({ ...version, ...headers })) xhr.setRequestHeader(name, value);
      xhr.send(body);
    });
  }
}

// pause ends the request under way; resume goes on.
export function pause(u) {
  u.turn = null;
  u.xhr?.abort();
}

// cancel forgets the upload, here and on the server.
export function cancel(u, kit) {
  pause(u);
  const place = kit.place(u);
  if (place) kit.memory.set(place, null);
  if (!u.at) return;
  const xhr = new XMLHttpRequest(); // what it cannot reach ends on its own after a day
  xhr.open('DELETE', u.at);
  xhr.setRequestHeader('Tus-Resumable', '1.0.0');
  xhr.send();
}
