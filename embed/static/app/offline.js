// What the app keeps on this device: items can be read, found, changed and added while the server does not answer. The
// user can turn that off on this device. It owns the service worker (sw.js), what waits to be sent and the line that
// says that the server does not answer, and uses nothing of view. app.js starts it, session.js calls sendLater, and
// account.js lets the user choose and sign out.
import { exactly, find, h, locale, t, toast } from './dom.js';
import { apiPathOf, kinds } from './kinds.js';
import { go } from './router.js';
import { base, canOffline, draftKey, loadModule, me, Problem, showProblem, storage, wantsOffline } from './session.js';

// While something waits, the page tries this often to send it.
const sendMilliseconds = 15e3;

let worker = null, started = null, timer = null;

// begin starts the service worker, sends what waits and keeps a copy of the newest items.
export const begin = () => started ??= start();

async function start() {
  if (!canOffline) return;
  if (!wantsOffline()) return void await forget();
  try {
    const options = { scope: `${base}/`, updateViaCache: 'none' };
    const registration = await navigator.serviceWorker.register(`${base}/sw.js`, options);
    worker = (await navigator.serviceWorker.ready).active ?? registration.active;
  } catch { return; /* for example in a private window */ }
  worker.postMessage({ want: 'owner', user: me.id });
  worker.postMessage({ want: 'send' });
  worker.postMessage({ want: 'keep', user: me.id });
  const state = await request({ want: 'state' });
  if (state?.away) setAway(state);
}

// end removes the service worker and everything that it keeps on this device, except what still waits to be sent.
export async function end() {
  await stop();
  for (const registration of await navigator.serviceWorker.getRegistrations()) {
    if (new URL(registration.scope).pathname === `${base}/`) await registration.unregister();
  }
  worker = null;
  started = null;
}

// stop removes the copies. Nothing is copied again before the next page.
export async function stop() {
  if (worker) await request({ want: 'stop' });
  if (canOffline) await forget();
}

async function forget() {
  for (const name of await caches.keys()) if (name.startsWith('kist-')) await caches.delete(name);
}

// ---- Without the server ----

// The server is asked this often whether it answers again, while the page is seen.
const askMilliseconds = 5e3;

// line says that the server does not answer, and what is kept here.
const line = h('p.away', { role: 'status' });
find('.top').after(line);
let asking = null;

// setAway shows that the server does not answer. n is how many items were copied here, and at when.
function setAway({ n = 0, at = 0 }) {
  const today = new Date(at).toDateString() === new Date().toDateString();
  const when = today ? new Date(at).toLocaleTimeString(locale, { timeStyle: 'short' }) : exactly(at);
  const text = n ? t('offline.away', { n, when }) : t('offline.awayOnly');
  if (line.textContent !== text) line.textContent = text;
  asking ??= setInterval(() => { if (!document.hidden) askServer(); }, askMilliseconds);
}

// setBack ends that: the server has answered.
function setBack() {
  clearInterval(asking);
  asking = null;
  line.textContent = '';
}

// askServer shows whether the server answers.
async function askServer() {
  try {
    await fetch(`${base}/api/v1/me`, { method: 'HEAD' }); // past the worker
  } catch {
    return setAway(worker && await request({ want: 'state' }) || {});
  }
  setBack();
  return worker?.postMessage({ want: 'send' });
}

// eachWaiting calls run with a cursor on each request of the user that waits for the server. The worker may be off.
export const eachWaiting = (run) => new Promise((done, fail) => {
  const asked = indexedDB.open('kist-waiting', 1);
  asked.onupgradeneeded = () => asked.result.createObjectStore('requests', { autoIncrement: true });
  asked.onerror = () => fail(asked.error);
  asked.onsuccess = () => {
    const db = asked.result, transaction = db.transaction('requests', 'readwrite');
    transaction.objectStore('requests').openCursor().onsuccess = ({ target: { result: at } }) => {
      if (!at) return;
      if (at.value.user === me.id) run(at);
      at.continue();
    };
    transaction.oncomplete = () => {
      db.close();
      done();
    };
    transaction.onabort = () => {
      db.close();
      fail(transaction.error);
    };
  };
});

export async function choose(on) {
  storage.set('offline', on);
  await (on ? begin() : end());
}

const request = (message) => new Promise((done) => {
  const channel = new MessageChannel();
  channel.port1.onmessage = (e) => done(e.data);
  setTimeout(() => done(null), 3000);
  worker.postMessage(message, [channel.port2]);
});

// sendLater keeps a new record, or a change of one, on this device until the server answers. It reports whether it
// could.
export async function sendLater({ path, body, ...entry }) {
  await begin();
  if (!worker) return false;
  const later = { ...entry, path: `${base}/api/v1/${path}`, body: JSON.stringify(body), user: me.id };
  const answer = await request({ later });
  if (!answer?.kept) return false;
  timer ??= setInterval(() => worker?.postMessage({ want: 'send' }), sendMilliseconds);
  toast(t('offline.kept'));
  return true;
}

// refused keeps what the server refused as a draft. If a record was changed elsewhere meanwhile, its editor asks what
// stays.
function refused({ refused: why, status, entry }) {
  const { draft, only } = entry;
  if (draft && status !== 404) {
    const [name, id] = draft.name.split('.'), key = draftKey(draft.name);
    storage.set(key, storage.get(key) ?? draft); // the user may have typed more since
    const text = status === 412 ? t('offline.changed') : t('offline.refused', { why });
    const open = () => go(`${base}/${kinds[name].path}/${id}?edit=1`);
    return void toast(text, { bad: true, action: t('common.show'), run: open });
  }
  const k = !only && Object.values(kinds).find((x) => entry.path.startsWith(`${base}/api/v1/${x.api}`));
  const values = draft?.values ?? JSON.parse(entry.body);
  if (k) storage.set(draftKey(`${k.name}.new`), { at: new Date().toISOString(), values });
  return showProblem(new Problem(t('offline.refused', { why })));
}

if (canOffline) {
  navigator.serviceWorker.addEventListener('message', (e) => {
    if (e.data.away) setAway(e.data);
    if (e.data.away === false) setBack();
    if (!e.data.sent && !e.data.refused) return;
    clearInterval(timer);
    timer = null;
    if (e.data.sent) loadModule('waiting').then((m) => m.sent(e.data), showProblem);
    else refused(e.data);
  });
  document.addEventListener('visibilitychange', () => { if (timer && !document.hidden) askServer(); });
  // What was changed here is copied as it is now.
  document.addEventListener('record', ({ detail: r }) => {
    if (r.etag && !r.waiting && !r.owner) worker?.postMessage({ renewed: r, path: apiPathOf(r).split('/')[0] });
  });
}
for (const event of ['offline', 'online']) addEventListener(event, askServer);
