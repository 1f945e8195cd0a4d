// The service worker. Pages and records come from the server as long as it answers; otherwise what this browser has seen
// of them. What is added or shared meanwhile waits here and is sent later. settings comes from the server:
// version names the scripts and styles of this build, assets are their paths, kinds are the paths of records below the
// API's prefix, and base is the prefix of all paths.
/* global settings */
const { base, version, assets, kinds } = settings;
const files = `kist-files-${version}`, data = 'kist-data', waiting = 'kist-waiting';
const api = `${base}/api/v1/`;
const readable = 200; // the newest items that can be read offline
const pictures = 400; // thumbnails that are kept

addEventListener('install', (e) => e.waitUntil((async () => {
  await (await caches.open(files)).addAll(assets);
  await skipWaiting();
})()));

// Pages that are still open may load a script of the version before, so its files stay until the next update.
addEventListener('activate', (e) => e.waitUntil((async () => {
  const old = (await caches.keys()).filter((name) => name.startsWith('kist-files-') && name !== files);
  await Promise.all(old.slice(0, -1).map((name) => caches.delete(name)));
  await clients.claim();
})()));

// ---- Answers ----

// forget removes the copies of what belongs to the user. What waits stays: it exists nowhere else.
const forget = () => caches.delete(data);

// fresh returns the server's answer and keeps a copy, or the copy if the server does not answer.
async function fresh(request, key = request.url) {
  const cache = await caches.open(data);
  try {
    const answer = await fetch(request);
    if (answer.status === 401 || answer.redirected && new URL(answer.url).pathname === `${base}/login`) await forget();
    else if (answer.ok && !answer.redirected) await cache.put(key, answer.clone());
    return answer;
  } catch (problem) {
    const kept = await cache.match(key);
    if (kept) return kept;
    throw problem;
  }
}

async function page(request) {
  try {
    return await fresh(request);
  } catch (problem) {
    // Every page of the app is the same document. Its script shows the page of the address.
    const shell = await (await caches.open(data)).match(new URL(`${base}/`, location.href).href);
    if (shell) return shell;
    throw problem;
  }
}

// list returns a list of the API. Offline every list of a kind is its newest items.
async function list(request, path) {
  try {
    return await fresh(request);
  } catch (problem) {
    const cache = await caches.open(data);
    const kept = kinds.includes(path) && await cache.match(new URL(newest(path), location.href).href);
    if (kept) return kept;
    throw problem;
  }
}

const newest = (kind) => `${api}${kind}?limit=50&brief=true`;

// trim removes the oldest thumbnails.
async function trim() {
  const cache = await caches.open(data);
  const kept = (await cache.keys()).filter((r) => new URL(r.url).pathname.startsWith(`${base}/t/`));
  await Promise.all(kept.slice(0, Math.max(0, kept.length - pictures)).map((r) => cache.delete(r)));
}

const appPages = ['', 'search', 'tags', 'upload-requests', 'keys', 'webhooks', 'import', 'remote-upload', 'account', ...settings.pages];

addEventListener('fetch', (e) => {
  const { request } = e, url = new URL(request.url);
  if (url.origin !== location.origin || !url.pathname.startsWith(`${base}/`)) return;
  const path = url.pathname.slice(base.length + 1), [place] = path.split('/');
  if (request.method === 'POST' && path === 'share') e.respondWith(share(request));
  if (request.method !== 'GET') return;
  if (place === 'static') e.respondWith(caches.match(request).then((kept) => kept ?? fetch(request)));
  else if (path === 'login') e.waitUntil(forget());
  else if (request.mode === 'navigate') { if (appPages.includes(place)) e.respondWith(page(request)); }
  else if (url.pathname.startsWith(api)) {
    const asked = url.pathname.slice(api.length);
    if (['me', 'tags', 'folders'].includes(asked) || kinds.includes(asked.split('/')[0])) e.respondWith(list(request, asked));
  } else if (place === 'v' || place === 't') e.respondWith(fresh(request));
});

// ---- What can be read offline ----

// keep fetches the newest items that this browser does not have yet.
async function keep() {
  const cache = await caches.open(data);
  const lists = await Promise.all(kinds.map(async (kind) => (await (await fresh(new Request(newest(kind)))).json()).data));
  const records = lists.flat().sort((a, b) => b.createdAt.localeCompare(a.createdAt)).slice(0, readable);
  const wanted = new Set();
  for (const r of records) {
    const at = new URL(`${base}/v/${r.slug}`, location.href).href;
    wanted.add(at);
    const kept = await cache.match(at);
    if (kept && Date.parse(kept.headers.get('date')) > Date.parse(r.updatedAt)) continue;
    await fresh(new Request(at, { headers: { accept: 'text/html' } }));
  }
  for (const r of await cache.keys()) if (new URL(r.url).pathname.startsWith(`${base}/v/`) && !wanted.has(r.url)) await cache.delete(r);
  await trim();
}

// ---- What waits for the server ----

// open opens the database of what waits. Its keys are the order.
const open = () => new Promise((done, fail) => {
  const asked = indexedDB.open(waiting, 1);
  asked.onupgradeneeded = () => asked.result.createObjectStore('requests', { autoIncrement: true });
  asked.onsuccess = () => done(asked.result);
  asked.onerror = () => fail(asked.error);
});

// ask runs one request on the stored entries and returns its result once it is on the disk.
async function ask(mode, request) {
  const db = await open();
  try {
    return await new Promise((done, fail) => {
      const transaction = db.transaction('requests', mode, { durability: 'strict' });
      const asked = request(transaction.objectStore('requests'));
      transaction.oncomplete = () => done(asked.result);
      transaction.onabort = () => fail(transaction.error);
    });
  } finally { db.close(); }
}

// owner is the id of the user whose copies are here; "" if there are none.
const ownerKey = new URL(`${base}/sw.js?user`, location.href).href;
const owner = async () => (await (await caches.open(data)).match(ownerKey))?.text() ?? '';

// later stores a request. It has a path, and a body (JSON text) or the fields of a form. Its id makes repeats safe. Only
// its own user's session will send it.
async function later(entry) {
  const user = await owner();
  await ask('readwrite', (store) => store.add({ id: crypto.randomUUID(), ...entry, user }));
  await registration.sync?.register('send').catch(() => {});
}

async function share(request) {
  const form = await request.clone().formData();
  try {
    return await fetch(request);
  } catch {
    await later({ path: `${base}/share`, form: [...form] });
    return Response.redirect(`${base}/?queued=1`, 303);
  }
}

async function tell(message) {
  for (const client of await clients.matchAll({ type: 'window' })) client.postMessage(message);
}

let sending = null;

// send sends what waits, in order. What the server refuses is kept back and reported, so that nothing is lost silently.
const send = () => sending ??= (async () => {
  let sent = 0;
  try {
    const keys = await ask('readonly', (store) => store.getAllKeys());
    const me = keys.length > 0 && await fetch(api + 'me');
    const user = me && me.ok ? (await me.json()).data.id : null;
    for (const key of user ? keys : []) {
      const entry = await ask('readonly', (store) => store.get(key));
      if (!entry || entry.refused || entry.user && entry.user !== user) continue;
      const body = entry.form ? new FormData() : entry.body;
      for (const [name, value] of entry.form ?? []) body.append(name, value);
      const answer = await fetch(entry.path, {
        method: 'POST', body, redirect: 'manual',
        headers: { 'idempotency-key': entry.id, ...(entry.form ? {} : { 'content-type': 'application/json' }) },
      });
      if (answer.type === 'opaqueredirect' || answer.ok) {
        await ask('readwrite', (store) => store.delete(key));
        sent++;
      } else if ([401, 408, 429].includes(answer.status) || answer.status >= 500) {
        break; // later
      } else {
        const problem = await answer.json().catch(() => null);
        await ask('readwrite', (store) => store.put({ ...entry, refused: problem?.error ?? String(answer.status) }, key));
        await tell({ refused: problem?.error ?? String(answer.status) });
      }
    }
  } catch { /* still no server */ }
  if (sent) await tell({ sent });
})().finally(() => { sending = null; });

addEventListener('sync', (e) => { if (e.tag === 'send') e.waitUntil(send()); });

addEventListener('message', (e) => {
  const { later: entry, want, user } = e.data;
  const answer = (what) => e.ports[0]?.postMessage(what);
  if (entry) e.waitUntil(later(entry).then(() => answer({ kept: true }), () => answer({ kept: false })));
  if (want === 'send') e.waitUntil(send());
  if (want === 'keep') e.waitUntil(caches.open(data).then((cache) => cache.put(ownerKey, new Response(user))).then(keep).catch(() => {}));
  if (want === 'count') e.waitUntil(ask('readonly', (store) => store.count()).then(answer, () => answer(0)));
  if (want === 'forget') e.waitUntil(forget().then(answer));
});
