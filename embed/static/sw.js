// The service worker. Pages and records come from the server as long as it answers; otherwise what this browser has
// seen of them. What is added or shared meanwhile waits here and is sent later. offline.js starts it and talks to it by
// messages. settings comes from the server: version names the scripts and styles of this build, assets are their paths,
// kinds are the paths of records below the API's prefix, and base is the prefix of all paths.
/* global settings */
const { base, version, assets, kinds } = settings;
const files = `kist-files-${version}`, data = 'kist-data', waiting = 'kist-waiting';
const api = `${base}/api/v1/`;
const keepMilliseconds = 10 * 60e3; // the newest items are copied at most this often
const readable = 200; // the newest items that can be read offline
const pictures = 400; // thumbnails that are kept
const mostWaiting = 500; // new items that wait for the server

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

// stopped is set when the user turns this off: the open page may still ask.
let stopped = false;

// forget removes the copies of what belongs to the user. What waits stays: it exists nowhere else.
const forget = () => caches.delete(data);

const absolute = (path) => new URL(path, location.href).href;
const shell = absolute(`${base}/`);
const keptKey = absolute(`${base}/sw.js?kept`); // when the newest items were copied

// store keeps a copy of an answer while somebody is signed in. A full disk loses the copy and not the answer.
async function store(key, answer) {
  if (stopped || !await caches.has(data)) return;
  try { await (await caches.open(data)).put(key, answer); } catch { /* no space */ }
}

// drop removes the copy of what is not there for the user any more.
async function drop(key) {
  if (await caches.has(data)) await (await caches.open(data)).delete(key);
}

// fresh returns the server's answer, or the copy if the server does not answer. It keeps a copy if keep is set.
async function fresh(request, keep) {
  let answer;
  try {
    answer = await fetch(request);
  } catch (problem) {
    const kept = await caches.match(request.url, { cacheName: data });
    if (kept) return kept;
    throw problem;
  }
  if (answer.status === 401) await forget();
  else if ([403, 404, 410].includes(answer.status)) await drop(request.url);
  else if (keep && answer.ok && !answer.redirected) await store(request.url, answer.clone());
  return answer;
}

// listPage reports whether an address is of a page without filters and items. There are few of them.
const listPage = (url) => !url.search && !url.pathname.slice(base.length + 1).includes('/');

async function page(request) {
  try {
    return await fresh(request, listPage(new URL(request.url)));
  } catch (problem) {
    // Every page of the app is the same document. Its script shows the page of the address.
    const kept = await caches.match(shell, { cacheName: data });
    if (kept) return kept;
    throw problem;
  }
}

// list returns a list of the API. Offline every list of a kind is its newest items.
async function list(request, path) {
  const newestOf = kinds.includes(path) && absolute(newest(path));
  try {
    return await fresh(request, newestOf ? request.url === newestOf : !path.includes('/'));
  } catch (problem) {
    const kept = newestOf && await caches.match(newestOf, { cacheName: data });
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

const appPages = [
  '', 'search', 'tags', 'upload-requests', 'keys', 'webhooks', 'import', 'remote-upload', 'account', ...settings.pages,
];

// isKept reports whether the answer of a path of the API can come from here.
const isKept = (path) => ['me', 'tags', 'folders'].includes(path) || kinds.includes(path.split('/')[0]);

addEventListener('fetch', (e) => {
  const { request } = e, url = new URL(request.url);
  if (url.origin !== location.origin || !url.pathname.startsWith(`${base}/`)) return;
  const path = url.pathname.slice(base.length + 1), [place] = path.split('/');
  if (request.method === 'POST' && path === 'share') e.respondWith(share(request));
  if (request.method !== 'GET') return;

  if (place === 'static') {
    e.respondWith(caches.match(request).then((kept) => kept ?? fetch(request)));
  } else if (path === 'login') {
    e.waitUntil(forget());
  } else if (request.mode === 'navigate') {
    if (appPages.includes(place)) e.respondWith(page(request));
  } else if (url.pathname.startsWith(api)) {
    const asked = url.pathname.slice(api.length);
    if (isKept(asked)) e.respondWith(list(request, asked));
  } else if (place === 'v' || place === 't') {
    e.respondWith(fresh(request, true));
  }
});

// ---- What can be read offline ----

// readNewest reads the newest items of all kinds, newest first.
async function readNewest() {
  const lists = await Promise.all(kinds.map(async (kind) => {
    const answer = await fresh(new Request(absolute(newest(kind))), true);
    return (await answer.json()).data;
  }));
  return lists.flat().sort((a, b) => b.createdAt.localeCompare(a.createdAt)).slice(0, readable);
}

// leave removes the copies of what the user does not see any more, such as a collection of another that they have left:
// its page, what is in it, and the pictures of that.
async function leave(cache) {
  const own = new Set(), others = new Map(); // names in addresses; the kept addresses under each
  for (const kind of kinds) {
    const list = await cache.match(absolute(newest(kind)));
    for (const r of list ? (await list.json()).data : []) own.add(r.slug);
  }
  for (const { url } of await cache.keys()) {
    const [place, slug, item] = new URL(url).pathname.slice(base.length + 1).split('/');
    const there = item ? ['v', 't'].includes(place) : place === 'v' && !own.has(slug);
    if (there) others.set(slug, [...others.get(slug) ?? [], url]);
  }
  for (const [slug, urls] of others) {
    // A public page is open to everybody, so this asks whether the user has a part in it.
    const answer = await fetch(`${base}/api/v1/collections/${slug}`);
    if ([401, 403, 404, 410].includes(answer.status)) await Promise.all(urls.map((url) => cache.delete(url)));
  }
}

// keep fetches the page of the app, and the newest items that this browser does not have yet, until the user signs out.
async function keep(user) {
  if (await owner() !== user) return;
  const cache = await caches.open(data), last = await cache.match(keptKey);
  await leave(cache);
  if (last && Math.abs(Date.now() - Number(await last.text())) < keepMilliseconds) return;

  // On the first visit, the page came without this worker.
  await fresh(new Request(shell, { headers: { accept: 'text/html' } }), true);

  const wanted = new Set();
  for (const r of await readNewest()) {
    const at = absolute(`${base}/v/${r.slug}`);
    wanted.add(at);
    const kept = await cache.match(at);
    if (kept && Date.parse(kept.headers.get('date')) > Date.parse(r.updatedAt)) continue;
    if (stopped || await owner() !== user) return;
    // Without a session this must not count as a view.
    await fresh(new Request(at, { headers: { accept: 'text/html', 'x-purpose': 'prefetch' } }), true);
  }

  for (const r of await cache.keys()) {
    if (new URL(r.url).pathname.startsWith(`${base}/v/`) && !wanted.has(r.url)) await cache.delete(r);
  }
  if (await owner() !== user) return;
  await trim();
  await store(keptKey, new Response(String(Date.now())));
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

// owner is the id of the user whose copies are here, or "".
const ownerKey = absolute(`${base}/sw.js?user`);
const owner = async () => (await caches.match(ownerKey, { cacheName: data }))?.text() ?? '';

// setOwner begins to keep copies for a user. A page can tell the worker after its user has signed out, so the server
// says whether they are signed in.
let owning = Promise.resolve(); // one at a time, because each may forget what the other has kept
const setOwner = (user) => {
  owning = owning.catch(() => {}).then(() => own(user));
  return owning;
};

async function own(user) {
  stopped = false;
  if (await owner() === user) return;
  const me = await fetch(api + 'me').catch(() => null);
  if (!me?.ok || (await me.json()).data.id !== user) return;
  await forget();
  await (await caches.open(data)).put(ownerKey, new Response(user));
}

// later stores a request: its method, path and body, the id that makes repeats safe, and the user whose session may
// send it. A change also has the entity tag of the record as the user has seen it, and a draft with all that they
// typed. It has what an earlier change to the same record has, which it replaces in one transaction: if it cannot be
// stored, that one stays. So does a request with the same only, which says what it sets.
async function later(entry) {
  const { draft, etag, only, user } = entry;
  const asBefore = (old) => draft && old.draft?.name === draft.name && old.etag === etag;
  const same = (old) => old.user === user && (only ? old.only === only : asBefore(old));
  await ask('readwrite', (store) => {
    const asked = store.openCursor();
    let others = 0;
    asked.addEventListener('success', ({ target: { result: at } }) => {
      if (at) {
        if (same(at.value)) at.delete();
        else others++;
        return at.continue();
      }
      if (others < mostWaiting) store.add(entry);
      else store.transaction.abort();
    });
    return asked;
  });
  await registration.sync?.register('send').catch(() => {});
}

// share receives what a phone shares. Without the server a text waits in the box of the home page, for the user to add:
// nobody can tell here whether a share sheet or another site has sent it. Files have to be shared again.
async function share(request) {
  const form = await request.clone().formData();
  try {
    return await fetch(request);
  } catch {
    const query = new URLSearchParams();
    for (const [name, value] of form) {
      if (typeof value === 'string') query.append(name, value);
      else if (value.size) query.set('again', 'offline');
    }
    return Response.redirect(`${base}/?${query}`, 303);
  }
}

// tell sends a message to the pages and reports whether there is one.
async function tell(message) {
  const pages = await clients.matchAll({ type: 'window' });
  for (const page of pages) page.postMessage(message);
  return pages.length > 0;
}

let sending = null;

// deliver sends an entry and returns the answer.
function deliver({ method = 'POST', path, body, etag, id }) {
  const safe = etag ? { 'if-match': etag } : { 'idempotency-key': id };
  return fetch(path, { method, body, headers: { ...safe, 'content-type': 'application/json' } });
}

// hand gives what the server refused back to a page, and reports whether there is one.
async function hand(answer, entry) {
  const why = (await answer.json().catch(() => null))?.error ?? String(answer.status);
  return tell({ refused: why, status: answer.status, entry });
}

// send sends what waits, in order, and returns how much still waits. What the server refuses goes back to the page,
// which keeps it as a draft; without a page it stays.
const send = () => sending ??= sendAll().finally(() => { sending = null; });

async function sendAll() {
  const keys = await ask('readonly', (store) => store.getAllKeys());
  const drafts = [];
  let sent = 0, left = keys.length;
  try {
    const me = keys.length > 0 && await fetch(api + 'me');
    const user = me && me.ok ? (await me.json()).data.id : null;
    for (const key of user ? keys : []) {
      const entry = await ask('readonly', (store) => store.get(key));
      if (entry?.user !== user) continue;
      const answer = await deliver(entry);
      if ([401, 408, 429].includes(answer.status) || answer.status >= 500) break; // later
      if (answer.ok) {
        sent++;
        if (entry.draft) drafts.push(entry.draft);
      } else {
        const handed = await hand(answer, entry);
        if (!handed) continue;
      }
      await ask('readwrite', (store) => store.delete(key));
      left--;
    }
  } catch { /* still no server */ }
  if (sent) await tell({ sent, drafts });
  return left;
}

// A failure makes the browser try again.
async function sendOrFail() {
  const left = await send();
  if (left) throw new Error('still waiting');
}
addEventListener('sync', (e) => { if (e.tag === 'send') e.waitUntil(sendOrFail()); });

addEventListener('message', (e) => {
  const { later: entry, want, user } = e.data;
  const answer = (what) => e.ports[0]?.postMessage(what);
  if (entry) e.waitUntil(later(entry).then(() => answer({ kept: true }), () => answer({ kept: false })));
  if (want === 'send') e.waitUntil(send());
  if (want === 'owner') e.waitUntil(setOwner(user));
  if (want === 'keep') e.waitUntil(setOwner(user).then(() => keep(user)).catch(() => {}));
  if (want === 'stop') {
    stopped = true;
    e.waitUntil(forget().then(answer));
  }
});
