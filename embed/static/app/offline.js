// What the app does with its service worker: items can be read and added while the server does not answer. The user can
// turn it off on this device.
import { t, toast } from './dom.js';
import { kinds } from './kinds.js';
import { base, canOffline, draftKey, me, Problem, showProblem, storage, wantsOffline } from './session.js';

// While something waits, the page tries this often to send it.
const sendMilliseconds = 15e3;

let worker = null, started = null, timer = null;

// begin starts the service worker, sends what waits and keeps a copy of the newest items.
export const begin = () => started ??= start();

async function start() {
  if (!canOffline) return;
  if (!wantsOffline()) return void await forget();
  try {
    const registration = await navigator.serviceWorker.register(`${base}/sw.js`, { scope: `${base}/`, updateViaCache: 'none' });
    worker = (await navigator.serviceWorker.ready).active ?? registration.active;
  } catch { return; /* for example in a private window */ }
  worker.postMessage({ want: 'owner', user: me.id });
  worker.postMessage({ want: 'send' });
  worker.postMessage({ want: 'keep', user: me.id });
}

// end removes the service worker and everything that it keeps on this device, except what still waits to be sent.
export async function end() {
  if (worker) await request({ want: 'stop' });
  for (const registration of await navigator.serviceWorker.getRegistrations()) if (new URL(registration.scope).pathname === `${base}/`) await registration.unregister();
  await forget();
  worker = started = null;
}

async function forget() {
  for (const name of await caches.keys()) if (name.startsWith('kist-')) await caches.delete(name);
}

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

// sendLater keeps a new record on this device until the server answers. It reports whether it could.
export async function sendLater({ path, body, id }) {
  await begin();
  if (!worker) return false;
  const answer = await request({ later: { path: `${base}/api/v1/${path}`, body: JSON.stringify(body), id, user: me.id } });
  if (!answer?.kept) return false;
  timer ??= setInterval(() => worker?.postMessage({ want: 'send' }), sendMilliseconds);
  toast(t('offline.kept'));
  return true;
}

if (canOffline) {
  navigator.serviceWorker.addEventListener('message', (e) => {
    if (e.data.sent || e.data.refused) { clearInterval(timer); timer = null; }
    if (e.data.sent) toast(t('offline.sent', { n: e.data.sent }), { action: t('common.show'), run: () => location.reload() });
    const k = e.data.refused && Object.values(kinds).find((x) => e.data.path.endsWith('/' + x.api));
    if (k) storage.set(draftKey(`${k.name}.new`), { at: new Date().toISOString(), values: JSON.parse(e.data.body) });
    if (e.data.refused) showProblem(new Problem(t('offline.refused', { why: e.data.refused })));
  });
  const sendNow = () => worker?.postMessage({ want: 'send' });
  addEventListener('online', sendNow);
  document.addEventListener('visibilitychange', () => { if (timer && !document.hidden) sendNow(); });
}
