// The state of the app: the user, the answers that came with the page, requests to the API, tags and folders, and the
// current page. It owns view (see the end of this file). Every module that talks to the server calls it.
import { ago, all, copyText, fill, find, h, known, t, toast } from './dom.js';

// ---- The user ----

export const start = JSON.parse(document.getElementById('start').textContent);
export const { base } = start;

export let me = start.answers.me?.data ?? { id: '', username: '', role: 'user', counts: {} };
export const setMe = (user) => { me = user; };

// countItems adds n to the number of the user's items of a kind.
export const countItems = (kind, n) => { me.counts[kind] = (me.counts[kind] ?? 0) + n; };

// takeAnswer returns an API answer that came with the page. It is used once: later pages ask for a new one.
export function takeAnswer(name) {
  const answer = start.answers[name];
  delete start.answers[name];
  if (answer?.etag) answer.data.etag = answer.etag;
  return answer ?? null;
}

// localAddress is an address of this server as the browser reached it. It can differ from the configured address.
export const localAddress = (address) =>
  address.startsWith(start.url) ? base + address.slice(start.url.length) : address;

// storage keeps values in this browser. The app works without it, so errors are ignored.
export const storage = {
  get(key, otherwise = null) {
    try { return JSON.parse(localStorage.getItem('kist.' + key)) ?? otherwise; } catch { return otherwise; }
  },
  set(key, value) {
    try {
      if (value === null) localStorage.removeItem('kist.' + key);
      else localStorage.setItem('kist.' + key, JSON.stringify(value));
    } catch { /* full or forbidden */ }
  },
  // keys are the keys with a beginning.
  keys(start) {
    try {
      return Object.keys(localStorage).filter((k) => k.startsWith('kist.' + start)).map((k) => k.slice('kist.'.length));
    } catch { return []; }
  },
};
// canOffline is whether this browser has service workers, which are only on HTTPS and on localhost, and wantsOffline
// whether the user wants copies of items on this device.
export const canOffline = 'serviceWorker' in navigator && isSecureContext;
export const wantsOffline = () => storage.get('offline', true);

export const draftKey = (name) => `draft.${me.id}.${name}`;

// ---- Requests ----

// A Problem says what happened and what to do. Its fields say what is wrong with each field of a form. If a record was
// not changed because it was changed elsewhere, record is what it is now.
export class Problem extends Error {
  constructor(text, status = 0, fields = null, code = '', record = null) {
    super(text);
    Object.assign(this, { status, fields, code, record });
  }
}

// problemOf describes a failed request. Status 0 means that there was no answer. wait is after how many seconds it may
// be tried again.
export function problemOf(status, data, wait = 0) {
  if (status === 0) {
    dispatchEvent(new Event('offline')); // as the browser says it
    return new Problem(t('app.unreachable'));
  }
  if (status === 401) {
    showSignedOut();
    return new Problem(t('app.signedOutHelp'), status);
  }
  const own = data?.code && fill(known(`errors.${data.code}`, data.error), { when: ago(Date.now() + wait * 1000) });
  const text = own ?? data?.error ?? t('app.status', { status: String(status) });
  const named = status === 500 && data?.requestId ? `${text} (${data.requestId})` : text;
  return new Problem(named, status, data?.fields, data?.code, status === 412 ? data?.data : null);
}

// tagOf is the entity tag of an answer as the server has written it. A proxy that compresses answers marks their tags.
const tagOf = (answer) => answer.headers.get('etag')?.replace(/^W\/|-\w+(?="$)/g, '');

// api sends a request and returns the answer. A record in it gets its entity tag as etag. id is a key that makes
// repeats safe, and etag the tag of the record as the user has seen it.
export async function api(method, path, body, { id = null, etag = null, ...options } = {}) {
  const form = body instanceof FormData;
  let answer;
  try {
    answer = await fetch(`${base}/api/v1/${path}`, {
      method, ...options,
      body: form || body === undefined ? body : JSON.stringify(body),
      headers: {
        ...(body !== undefined && !form && { 'content-type': 'application/json' }),
        ...(id && { 'idempotency-key': id }),
        ...(etag && { 'if-match': etag }),
      },
    });
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    throw problemOf(0);
  }
  const data = await answer.json().catch(() => null);
  if (data?.data && tagOf(answer)) data.data.etag = tagOf(answer);
  if (data?.code === 'recent_sign_in_required') {
    const confirmed = await (await loadModule('security')).confirm();
    if (confirmed) return api(method, path, body, { id, etag, ...options });
  }
  if (!answer.ok) throw problemOf(answer.status, data, Number(answer.headers.get('retry-after')) || 1);
  return data;
}

// create makes a record and returns the answer. If the server cannot be reached, this device may keep the record until
// it can; then the result is null.
export function create(path, body) {
  const id = crypto.randomUUID?.(); // only with HTTPS, like a service worker
  return nowOrLater(() => api('POST', path, body, { id }), { method: 'POST', path, body, id });
}

// nowOrLater sends a request, or has this device keep it if the server cannot be reached.
export async function nowOrLater(send, request) {
  try {
    return await send();
  } catch (e) {
    if (e.status !== 0 || !request.id) throw e;
    const kept = await (await loadModule('offline')).sendLater(request);
    if (!kept) throw e;
    return null;
  }
}

// loadModule loads a script that only some pages need, after its texts.
export async function loadModule(name) {
  try {
    if (start.texts[name]) await import(start.texts[name]);
    return await import(start.modules[name]);
  } catch { throw problemOf(0); }
}

// sendFiles uploads files. fields are what the new items begin with.
export async function sendFiles(files, fields) {
  try {
    (await loadModule('uploads')).sendFiles(files, fields);
  } catch (e) {
    toast(e.message, { bad: true, action: t('common.again'), run: () => sendFiles(files, fields) });
  }
}

// copyLink puts a link on the clipboard, or shows it to be copied. text and more are what it tells (see toast).
export async function copyLink(address, text = t('common.linkCopied'), more = {}) {
  if (await copyText(address)) return void toast(text, more);
  const forms = await loadModule('forms').catch(showProblem);
  forms?.openForm({
    title: t('forms.copyTitle'), text: t('forms.copyHint'), button: '',
    fields: [{ name: 'at', label: t('forms.link'), readonly: true }],
    values: { at: address },
  });
}

// showProblem tells of what went wrong. That the user is signed out was said before.
export const showProblem = (e) => {
  if (e.name !== 'AbortError' && e.status !== 401) toast(e.message, { bad: true });
};

let signedOutShown = false;
function showSignedOut() {
  if (signedOutShown) return;
  signedOutShown = true;
  toast(t('app.signedOut'), {
    bad: true, action: t('app.signIn'), done: () => { signedOutShown = false; },
    run: () => {
      const here = location.pathname.slice(base.length) + location.search;
      location.href = `${base}/login?next=${encodeURIComponent(here)}`;
    },
  });
}

// ---- Tags and folders ----

// Very long lists of tags or folders do not come with the page. They are loaded afterwards.
export let tags = start.answers.tags ?? [];
export let folders = start.answers.folders?.data ?? [];

async function readTags() {
  tags = await api('GET', 'tags');
  for (const list of all('datalist#tag-names')) list.replaceChildren(...tagOptions());
}

async function readFolders() { folders = (await api('GET', 'folders?limit=500&sort=title')).data; }

// These are called after a change. If they fail, the known tags and folders stay in use.
export const refreshTags = () => readTags().catch(() => {});
export const refreshFolders = () => readFolders().catch(() => {});

const missing = [!start.answers.tags && readTags, !start.answers.folders && readFolders].filter(Boolean);
export const labelsComeLater = missing.length > 0;

// loadLabels waits for the tags and folders that did not come with the page. After a failure, the next call tries
// again.
let loading = null;
export const loadLabels = () => loading ??= Promise.all(missing.map((read) => read())).catch((e) => {
  loading = null;
  throw e;
});

export const tagOptions = () => tags.map((tag) => h('option', { value: tag.name }));
export const tagColor = (name) => tags.find((tag) => tag.name.toLowerCase() === name.toLowerCase())?.color;

// folderOf is the folder named by the parameters of an address.
export function folderOf(params) {
  const folder = params.get('folder');
  return folders.find((f) => f.id === folder || f.name === folder);
}

// folderFields puts a file into the folder of an address. The folder may not be loaded yet.
export function folderFields(params) {
  const name = params.get('folder'), folder = folderOf(params);
  if (folder) return { folderId: folder.id };
  if (!name || name === 'unfiled') return {};
  return /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/.test(name) ? { folderId: name } : { folderName: name };
}

// hideTag and hideFolder hide what is about to be deleted. They return a function that shows it again.
export function hideTag(tag) {
  tags = tags.filter((other) => other !== tag);
  return () => { tags.push(tag); };
}
export function hideFolder(folder) {
  folders = folders.filter((f) => f !== folder);
  return () => { folders.push(folder); };
}

// ---- The trash ----

// setTrashed sets how many items are in the trash, or changes that number by n. The navigation shows it.
let trashed = 0;
export function setTrashed(n, more = false) {
  trashed = Math.max(0, more ? trashed + n : n);
  for (const el of all('.rail .trashed')) {
    el.hidden = !trashed;
    el.textContent = trashed > 999 ? '999+' : trashed;
  }
}
setTrashed(start.trashed ?? 0);

// ---- The current page ----

// view is the current page. The router sets name, kind, key, params, signal, aborter and out, which the page fills. A
// page can set list and box (its list of records and its box for new ones), grid, cards and face (how the list looks),
// accepts (whether a new record belongs on it), pictures (what the viewer can show beside one), choose (what n does),
// sendFiles (what is done with dropped files),
// redraw (called when tags or folders change) and shown (called when the
// page is shown, for the first time or again). Other modules only read it.
export let view = null;
export const setView = (v) => { view = v; };

// changes counts changes to records and labels. A cached page is shown only if the count is the same.
export let changes = 0;
export const countChange = () => { changes++; };

// markCurrent marks the navigation links that isCurrent accepts.
export function markCurrent(isCurrent) {
  for (const a of all('nav a[data-nav]')) {
    if (isCurrent(a)) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  const onMore = !all('.rail a[aria-current]').some((a) => !a.classList.contains('more'));
  find('.rail .all').toggleAttribute('aria-current', onMore);
}

// The navigation shows how many uploads from others are waiting for approval.
let pending = 0;
export const pendingNow = () => pending;
export const addPending = (n) => setPending(pending + n);
export function setPending(n) {
  pending = Math.max(0, n);
  for (const el of all('.rail .waits:not(.trashed)')) {
    el.hidden = !pending;
    el.firstChild.textContent = pending > 999 ? '999+' : pending;
  }
}
setPending(start.pending ?? 0);
export async function readPending() {
  if (document.hidden) return;
  try {
    const answer = await fetch(`${base}/api/v1/upload-requests/queue?limit=1`);
    if (answer.ok) setPending((await answer.json()).total);
  } catch { /* the next time may succeed */ }
}
setInterval(readPending, 60e3);
