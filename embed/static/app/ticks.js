// The tasks of a note can be ticked in the reader. A tick shows at once, and is sent after the ones before it. Without
// the server it waits on this device. It owns the boxes of a reader and uses nothing of view. The reader calls it.
import { all, find, h, t, toast } from './dom.js';
import { apiPathOf } from './kinds.js';
import { updateRows } from './list.js';
import { api, base, loadModule, me, nowOrLater, showProblem } from './session.js';

// requestOf is the request that sends a tick. A later one of the same task replaces it while it waits on this device.
const requestOf = (path, tick) => ({
  method: 'POST', path, body: tick, id: crypto.randomUUID?.(), only: `${path} ${tick.line} ${tick.text}`,
});

// What waits for its turn, by the path of its note. A page that ends gives it to the service worker, or sends it.
const queues = new Map();
addEventListener('pagehide', () => {
  const worker = navigator.serviceWorker?.controller;
  for (const [path, queue] of queues) {
    for (const tick of worker ? queue.splice(0) : queue.splice(1)) {
      const request = requestOf(path, tick), body = JSON.stringify(tick);
      if (!worker) api('POST', path, tick, { keepalive: true }).catch(() => {});
      else worker.postMessage({ later: { ...request, path: `${base}/api/v1/${path}`, body, user: me.id } });
    }
  }
  worker?.postMessage({ want: 'send' });
});

// An open reader asks this often what others have ticked.
const lookMilliseconds = 10e3;

const isBlock = (node) => /^(UL|OL|P|PRE|BLOCKQUOTE|TABLE|DIV)$/.test(node.nodeName);
const boxesIn = (root) => all('[data-line]', root);
const taskOf = (box) => ({ line: Number(box.dataset.line), text: box.dataset.task });
const isFor = (box, { line, text }) => Number(box.dataset.line) === line && box.dataset.task === text;

// textOf is what nodes show, whatever is ticked.
const textOf = (nodes) =>
  nodes.map((n) => n.outerHTML).join('').replaceAll(/ (checked=""|aria-label="(open|done)")/g, '');

// enable lets the user tick a box. Its line is its label.
function enable(box) {
  const li = box.closest('li'), first = box.parentNode === li ? li : box.parentNode;
  const inside = [...first.childNodes], end = inside.findIndex(isBlock);
  const line = end < 0 ? inside : inside.slice(0, end);
  box.disabled = false;
  box.removeAttribute('aria-label');
  const rest = h('span', {}, line.filter((n) => n !== box));
  const label = h('label', {}, h('span', {}, box), rest);
  if (first === li) li.prepend(label);
  else first.replaceWith(label);
  li.classList.add('tick');
}

// watchTicks begins with the nodes of a note as the server has them, shown in body. show shows others, and fetchNodes
// fetches them. It ends with the dialog.
export function watchTicks({ dialog, body, record, nodes, show, fetchNodes }) {
  const path = `${apiPathOf(record)}/ticks`, queue = [];
  let shown = textOf(nodes), tag = record.etag, sending = null, over = false;

  // eachWaiting calls run with each tick of this note that waits on this device.
  async function eachWaiting(run) {
    const offline = await loadModule('offline');
    await offline.eachWaiting(({ value }) => {
      if (value.path.endsWith(`/${path}`)) run(JSON.parse(value.body));
    }).catch(() => {}); // for example in a private window
  }

  const set = (tick) => {
    for (const box of boxesIn(body)) if (isFor(box, tick)) box.checked = tick.done;
  };

  // setWaiting shows the ticks that the server does not have yet.
  async function setWaiting() {
    await eachWaiting(set);
    queue.forEach(set);
  }

  // draw shows the note as the server has it now. The focus stays on its task.
  async function draw(now) {
    const text = textOf(now), news = now.flatMap((n) => boxesIn(n));
    if (text === shown) {
      boxesIn(body).forEach((box, i) => { box.checked = news[i].hasAttribute('checked'); });
    } else {
      const focused = document.activeElement, task = body.contains(focused) && focused.dataset.task;
      show(now);
      shown = text;
      boxesIn(body).forEach(enable);
      const same = boxesIn(body).find((box) => box.dataset.task === task);
      if (task !== false) (same ?? find('h2', dialog)).focus({ preventScroll: true });
    }
    await setWaiting();
  }

  // look shows the note as it is now, unless a tick is on its way.
  async function look() {
    if (over || queue.length) return;
    const now = await fetchNodes();
    if (!over && !queue.length) await draw(now);
  }

  // lookAgain is look if the note was changed since.
  async function lookAgain() {
    if (over || document.hidden || queue.length) return;
    try {
      const headers = tag ? { 'if-none-match': tag } : {};
      const answer = await fetch(`${base}/api/v1/${apiPathOf(record)}`, { headers });
      if (!answer.ok) return; // 304: it is the same
      tag = answer.headers.get('etag');
      await look();
    } catch { /* the next time may succeed */ }
  }

  // send sends a tick, or has this device keep it behind those that wait already. It returns null if it waits.
  async function send(tick) {
    let waits = false;
    await eachWaiting(() => { waits = true; });
    const request = requestOf(path, tick);
    if (!waits) return nowOrLater(() => api('POST', path, tick, { keepalive: true }), request);
    await (await loadModule('offline')).sendLater(request);
    navigator.serviceWorker.controller?.postMessage({ want: 'send' });
    return null;
  }

  async function sendOne(tick) {
    try {
      const answer = await send(tick);
      if (!answer) return false;
      tag = answer.data.etag;
      updateRows(answer.data);
    } catch (e) {
      set({ ...tick, done: !tick.done });
      if (e.status !== 409) showProblem(e);
      else toast(t('ticks.gone'), { bad: true });
    }
    return true;
  }

  async function sendAll() {
    while (queue.length) {
      const arrived = await sendOne(queue[0]);
      queue.shift();
      if (arrived && !queue.length) await look().catch(() => {}); // the ticks of others
    }
    queues.delete(path);
  }

  function tick(box) {
    queue.push({ ...taskOf(box), done: box.checked });
    queues.set(path, queue);
    sending ??= sendAll().finally(() => { sending = null; });
  }

  const sent = (e) => { if (e.data.sent || e.data.refused) look().catch(() => {}); };

  boxesIn(body).forEach(enable);
  body.addEventListener('change', (e) => { if (e.target.dataset.line) tick(e.target); });
  setWaiting();
  const timer = setInterval(lookAgain, lookMilliseconds);
  addEventListener('focus', lookAgain);
  document.addEventListener('visibilitychange', lookAgain);
  navigator.serviceWorker?.addEventListener('message', sent);
  dialog.addEventListener('close', () => {
    over = true;
    clearInterval(timer);
    removeEventListener('focus', lookAgain);
    document.removeEventListener('visibilitychange', lookAgain);
    navigator.serviceWorker?.removeEventListener('message', sent);
  });
}
