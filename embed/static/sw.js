// The service worker. Pages and records come from the server as long as it answers; otherwise what this browser has
// seen of them. What is added, changed or shared meanwhile waits here and is sent later. offline.js starts it and talks
// to it by messages; it tells pages whether the server answers. settings comes from the server: version names the
// scripts and styles of this build, assets are their paths, kinds are the paths of records below the API's prefix, and
// base is the prefix of all paths.
/* global settings */
const { base, version, assets, kinds } = settings;
const files = `kist-files-${version}`, data = 'kist-data', waiting = 'kist-waiting';
const api = `${base}/api/v1/`;
const keepMilliseconds = 2 * 60e3; // the newest items are copied at most this often
const readable = 200; // the newest items that can be read, found and changed offline
const pictures = 400; // thumbnails that are kept
const newestPictures = 200; // of them, those of the newest items
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

let forgotten = 0; // how often the copies were removed

// forget removes the copies of what belongs to the user. What waits stays: it exists nowhere else.
const forget = () => {
  forgotten++;
  return caches.delete(data);
};

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

// away is whether the last request found no server.
let away = false;

async function setAway(now) {
  if (away === now) return;
  away = now;
  await tell({ away: now, ...now && await copies() });
}

// copies says how many items can be read here, and when they were copied: 0 while they never were.
async function copies() {
  const last = await caches.match(keptKey, { cacheName: data });
  return { n: last ? (await recordKeys()).length : 0, at: last ? Number(await last.text()) : 0 };
}

// reach returns the server's answer, and fails without one. It keeps a copy if keep is set, unless the copies were
// removed meanwhile: the next user may be there.
async function reach(request, keep) {
  const before = forgotten;
  let answer;
  try {
    answer = await fetch(request);
  } catch (problem) {
    if (!request.signal.aborted) await setAway(true);
    throw problem;
  }
  await setAway(false);
  if (answer.status === 401) await forget();
  else if ([403, 404, 410].includes(answer.status)) await drop(request.url);
  else if (keep && answer.ok && !answer.redirected && before === forgotten) await store(request.url, answer.clone());
  return answer;
}

// fresh returns the server's answer, or the copy if the server does not answer. It keeps a copy if keep is set.
async function fresh(request, keep) {
  try {
    return await reach(request, keep);
  } catch (problem) {
    const kept = await caches.match(request.url, { cacheName: data });
    if (kept) return kept;
    throw problem;
  }
}

// listPage reports whether an address is of a page without filters and items. There are few of them.
const listPage = (url) => !url.search && !url.pathname.slice(base.length + 1).includes('/');

async function page(request) {
  try {
    return await reach(request, listPage(new URL(request.url)));
  } catch (problem) {
    // Every page of the app is the same document. Its script shows the page of the address.
    const kept = await caches.match(request.url, { cacheName: data }) ?? await caches.match(shell, { cacheName: data });
    if (kept) return withoutLists(kept);
    throw problem;
  }
}

// withoutLists is a copy of a page without the lists that came with it, as there are newer copies of them.
async function withoutLists(kept) {
  const html = (await kept.text()).replace(/(id="start">)([^<]*)/, (_, begin, json) => {
    const { answers, ...start } = JSON.parse(json);
    const others = Object.entries(answers).filter(([name]) => !kinds.includes(name.split('/')[0]) && name !== 'search');
    return begin + JSON.stringify({ ...start, answers: Object.fromEntries(others) }).replaceAll('<', '\\u003c');
  });
  return new Response(html, { headers: headersOf(kept) });
}

// headersOf are the headers of a copy without those of its bytes.
function headersOf(kept) {
  const headers = new Headers(kept.headers);
  for (const name of ['content-encoding', 'content-length']) headers.delete(name);
  return headers;
}

const answerWith = (body, headers = {}) =>
  new Response(JSON.stringify(body), { headers: { ...headers, 'content-type': 'application/json' } });

// list returns a list or a record of the API. Offline every list of a kind is made of its newest items.
async function list(request, path) {
  const [kind, name, more] = path.split('/'), ofKind = kinds.includes(kind);
  if (!ofKind) return fresh(request, !name);
  try {
    const answer = await reach(request, request.url === absolute(newest(kind)));
    if (name && !more && answer.ok) await renew(kind, (await answer.clone().json()).data, answer.headers.get('etag'));
    return answer;
  } catch (problem) {
    const kept = name ? !more && await recordOf(kind, name) : await listOf(kind);
    if (!kept) throw problem;
    return name ? kept : answerWith(chosen(kept, new URL(request.url).searchParams));
  }
}

const newest = (kind) => `${api}${kind}?limit=50&brief=true`;

// trim removes the oldest thumbnails that are not wanted.
async function trim(wanted) {
  const cache = await caches.open(data);
  const kept = (await cache.keys()).filter((r) => placeOf(r.url) === 't' && !wanted.has(r.url));
  await Promise.all(kept.slice(0, Math.max(0, kept.length - pictures + newestPictures)).map((r) => cache.delete(r)));
}

// ---- Copies of records ----

const pathOf = (url) => new URL(url).pathname.slice(base.length + 1);
const placeOf = (url) => pathOf(url).split('/')[0];
const recordKey = (kind, id) => absolute(`${api}${kind}/${id}`);

// recordKeys are the addresses of the records that are kept with their whole texts.
async function recordKeys() {
  if (!await caches.has(data)) return [];
  const all = (await (await caches.open(data)).keys()).map((r) => r.url);
  return all.filter((url) => /^api\/v1\/[^/]+\/[^/]+$/.test(pathOf(url)) && kinds.includes(kindAt(url)));
}
const kindAt = (url) => pathOf(url).split('/')[2];

// renew replaces the copy of a record that has one, also in the list of its kind.
async function renew(kind, { etag: _, ...r }, etag) {
  const key = recordKey(kind, r.id);
  if (!await caches.match(key, { cacheName: data })) return;
  await store(key, answerWith({ data: r }, { date: new Date().toUTCString(), ...etag && { etag } }));
  const listed = await caches.match(absolute(newest(kind)), { cacheName: data });
  if (!listed) return;
  const list = await listed.json();
  list.data = list.data.map((other) => other.id === r.id ? r : other);
  await store(absolute(newest(kind)), answerWith(list, { date: listed.headers.get('date') ?? '' }));
}

// listOf are the newest records of a kind, with what waits for the server; null without a copy.
async function listOf(kind) {
  const kept = await caches.match(absolute(newest(kind)), { cacheName: data });
  return kept ? withWaiting(kind, (await kept.json()).data) : null;
}

// recordOf is an answer with the copy of a record, by its id or the name in its address, with what waits for the
// server; null without a copy.
async function recordOf(kind, name) {
  const listed = (await listOf(kind) ?? []).find((r) => r.slug === decodeURIComponent(name));
  const kept = await caches.match(recordKey(kind, listed?.id ?? name), { cacheName: data });
  if (!kept) return null;
  const [r] = await withWaiting(kind, [(await kept.json()).data]);
  return answerWith({ data: r }, { etag: kept.headers.get('etag') ?? '' });
}

// recordsAt are the copies at some addresses, with what waits for the server.
async function recordsAt(keys) {
  const cache = await caches.open(data);
  const all = await Promise.all(kinds.map(async (kind) => {
    const kept = await Promise.all(keys.filter((key) => kindAt(key) === kind).map((key) => cache.match(key)));
    const records = await Promise.all(kept.filter(Boolean).map((answer) => answer.json()));
    return withWaiting(kind, records.map((r) => r.data));
  }));
  return all.flat();
}

const newestFirst = (records) => records.sort((a, b) => b.createdAt.localeCompare(a.createdAt));

// withWaiting are records with the changes to them that wait for the server. Such a record has the draft of the change
// as waiting.
async function withWaiting(kind, records) {
  const user = await owner(), all = await ask('readonly', (store) => store.getAll()).catch(() => []);
  const changes = all.filter((e) => e.draft?.old && e.user === user);
  return records.map((r) => changes.filter((e) => e.path === `${api}${kind}/${r.id}`).reduce(withChange, r));
}

function withChange(r, { body, draft }) {
  // The record keeps its address until the server knows the new one.
  const { slug, newSlug, addTags = [], removeTags = [], ...fields } = JSON.parse(body);
  const without = (r.tags ?? []).filter((tag) => !removeTags.some((name) => folded(name) === folded(tagName(tag))));
  return { ...r, ...fields, tags: [...without, ...addTags], waiting: draft };
}

// ---- Searching the copies ----

const folded = (text) => text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();
const tagName = (tag) => tag.name ?? tag;

// wordsOf are the words of a text with a space before each, without case and accents.
const wordsOf = (text) => (folded(text).match(/[\p{L}\p{N}]+/gu) ?? []).map((word) => ` ${word}`).join('');

// said are the texts of a record, where a search looks: not its ids, times and addresses on this server.
const said = (r) => Object.entries(r).filter(([name, v]) => typeof v === 'string' && isSaid(name, r))
  .map(([, v]) => v).concat((r.tags ?? []).map(tagName)).join('\n');
const isSaid = (name, { kind }) => name === 'url' ? kind === 'bookmark'
  : name === 'originalUrl' || !/^(id|kind|sha256)$|(Id|At|Url)$/.test(name);

const states = {
  public: (r) => r.isPublic, private: (r) => !r.isPublic, favorite: (r) => r.isFavorite, favourite: (r) => r.isFavorite,
};

// hasTag, isKind, isState and hasWords are what a record can be searched for.
const searches = {
  tag: (name) => (r) => (r.tags ?? []).some((tag) => folded(tagName(tag)) === folded(name)),
  kind: (name) => (r) => r.kind === (name === 'link' ? 'shortlink' : name),
  is: (name) => states[name] ?? (() => false),
  words: (text) => (r) => wordsOf(said(r)).includes(wordsOf(text)),
};

// testsOf are what the records of a search pass, written as people write it: all of them.
const testsOf = (q) => [...q.matchAll(/(-?)(?:(tag|kind|is):)?("[^"]*"?|[^\s"]+)/g)].map(([, not, what, text]) => {
  const test = searches[what ?? 'words'](text.replaceAll('"', ''));
  return not ? (r) => !test(r) : test;
});

// chosen is the answer with those of some records that a query of the API asks for.
function chosen(records, query) {
  const tests = testsOf(query.get('q') ?? '');
  for (const name of [...query.getAll('tag'), ...query.get('tags')?.split(',') ?? []]) tests.push(searches.tag(name));
  if (query.get('favorite') === 'true') tests.push(states.favorite);
  if (query.get('public') === 'true') tests.push(states.public);
  if (query.get('public') === 'false') tests.push(states.private);
  if (query.get('kind')) tests.push(searches.kind(query.get('kind')));
  if (query.get('from') === 'others') tests.push((r) => r.owner);
  const found = records.filter((r) => tests.every((test) => test(r)));
  return { data: found.slice(0, Number(query.get('limit') ?? 50)), total: found.length, nextCursor: null };
}

// search returns the results of a search. Offline it looks at the copies, the newest first, and says so.
async function search(request) {
  try {
    return await reach(request, false);
  } catch (problem) {
    const keys = await recordKeys();
    if (!keys.length) throw problem;
    const answer = chosen(newestFirst(await recordsAt(keys)), new URL(request.url).searchParams);
    const hits = answer.data.map((r) => ({ kind: r.kind, record: r, title: '', highlight: {} }));
    return answerWith({ ...answer, data: hits, copies: keys.length });
  }
}

// ---- Pictures ----

const shrinks = /^image\/(png|jpe?g|gif|webp|avif|bmp|tiff)/;
const sizes = ['screen', 'picture', null, 'small', 'row'];

// picture returns a picture. Offline a smaller version of the same one does, that is kept here.
async function picture(request) {
  const [place, ...file] = pathOf(request.url).split('/');
  try {
    return await (place === 't' ? fresh(request, true) : fetch(request));
  } catch (problem) {
    if (!await caches.has(data)) throw problem;
    const cache = await caches.open(data), size = (url) => sizes.indexOf(new URL(url).searchParams.get('size'));
    const places = [file.join('/').replace(/\.\w+$/, '')];
    // What a collection or a text shows may be an item here.
    const [key] = (await recordKeys()).filter((url) => file.length > 1 && url.endsWith(`/${file.at(-1)}`));
    if (key) places.push((await (await cache.match(key)).json()).data.slug);
    const kept = (await cache.keys()).map((r) => r.url).filter((url) => places.some((at) => pathOf(url) === `t/${at}`));
    if (!kept.length) throw problem;
    return cache.match(kept.sort((a, b) => size(a) - size(b))[0]);
  }
}

// inApp reports whether a page of the app asks. What other pages show is not kept: a password may guard it.
async function inApp({ clientId }) {
  const client = await clients.get(clientId);
  return !!client && appPages.includes(placeOf(client.url));
}

const appPages = [
  '', 'search', 'tags', 'upload-requests', 'trash', 'keys', 'webhooks', 'import', 'remote-upload', 'account',
  ...settings.pages,
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
    if (asked === 'search') e.respondWith(search(request));
    else if (isKept(asked)) e.respondWith(list(request, asked));
  } else if (isBoard(request.url)) {
    e.respondWith(fresh(request, true));
  } else if (place === 'v') {
    e.respondWith(inApp(e).then((is) => is ? fresh(request, true) : fetch(request)));
  } else if (place === 't' || place === 'x' && request.destination === 'image') {
    e.respondWith(inApp(e).then((is) => is ? picture(request) : fetch(request)));
  }
});

// ---- What can be read offline ----

// readNewest reads the newest items of all kinds, newest first.
async function readNewest() {
  const lists = await Promise.all(kinds.map(async (kind) => {
    const answer = await reach(new Request(absolute(newest(kind))), true);
    return (await answer.json()).data.map((r) => ({ ...r, path: kind }));
  }));
  return newestFirst(lists.flat()).slice(0, readable);
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
    const there = place === 'v' || place === 't' && item || isBoard(url);
    if (there && !own.has(slug)) others.set(slug, [...others.get(slug) ?? [], url]);
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
  await reach(new Request(shell, { headers: { accept: 'text/html' } }), true);

  const wanted = new Set(), records = await readNewest(), still = async () => !stopped && await owner() === user;
  const want = async (at, accept, since) => {
    wanted.add(at);
    const kept = await cache.match(at);
    if (kept && (!since || Date.parse(kept.headers.get('date')) > Date.parse(since))) return;
    // Without a session this must not count as a view.
    if (await still()) await reach(new Request(at, { headers: { accept, 'x-purpose': 'prefetch' } }), true);
  };
  for (const r of records) {
    await want(recordKey(r.path, r.id), 'application/json', r.updatedAt);
    await want(pageOf(r), 'text/html', r.updatedAt);
  }
  const pages = (await cache.keys()).map((r) => r.url).filter((url) => placeOf(url) === 'v' || isBoard(url));
  for (const url of [...pages, ...await recordKeys()]) if (!wanted.has(url)) await cache.delete(url);
  if (!await still()) return;
  await store(keptKey, new Response(String(Date.now())));

  for (const at of await picturesOf(records)) await want(at, 'image/*').catch(() => {});
  await trim(wanted);
}

// pageOf is the address of the page of a record that is kept: that of the app for a collection.
const pageOf = (r) => absolute(r.kind === 'collection' ? `${base}/collections/${r.slug}/board` : `${base}/v/${r.slug}`);
const isBoard = (url) => /^collections\/[^/]+\/board$/.test(pathOf(url));

// picturesOf are the addresses of small versions of pictures: of files, and of what the pages of records show.
async function picturesOf(records) {
  const all = new Set();
  for (const r of records) {
    if (shrinks.test(r.mimeType)) all.add(`${base}/t/${r.slug}?v=${(r.sha256 ?? '').slice(0, 8)}`);
    const page = await caches.match(pageOf(r), { cacheName: data });
    if (!page || r.kind === 'file' || r.kind === 'collection') continue;
    for (const [, at] of (await page.text()).matchAll(/ src="([^"]+)"/g)) {
      if (at.startsWith(`${base}/t/`)) all.add(at.replaceAll('&amp;', '&').replace('?size=screen', ''));
    }
  }
  return [...all].slice(0, newestPictures).map(absolute);
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
  const { later: entry, renewed, path, want, user } = e.data;
  const answer = (what) => e.ports[0]?.postMessage(what);
  if (entry) e.waitUntil(later(entry).then(() => answer({ kept: true }), () => answer({ kept: false })));
  if (renewed) e.waitUntil(renew(path, renewed, renewed.etag));
  if (want === 'state') e.waitUntil(copies().then((kept) => answer({ away, ...kept })));
  if (want === 'send') e.waitUntil(send());
  if (want === 'owner') e.waitUntil(setOwner(user));
  if (want === 'keep') e.waitUntil(setOwner(user).then(() => keep(user)).catch(() => {}));
  if (want === 'stop') {
    stopped = true;
    e.waitUntil(forget().then(answer));
  }
});
