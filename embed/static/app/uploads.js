// Uploads: a queue that sends a few files at once, and the tray that shows how far it is. It is loaded when the first
// file is added. It owns the queue and the tray; tus.js sends large files in parts. Of view it uses list, accepts and
// redraw. session.js calls sendFiles, and drops.js filesIn and chooseFolder.
import { addActions, button, bytes, find, h, icon, iconButton, itemOf, seconds, shorten, t } from './dom.js';
import { isForBrowser, tagNames } from './kinds.js';
import { copyItemLink, openShare } from './list.js';
import {
  base, countChange, countItems, loadModule, me, problemOf, refreshFolders, refreshTags, showProblem, start, storage,
  tagColor, view,
} from './session.js';

const parallel = 3;
const large = 8 << 20; // larger files are uploaded in parts, so that they can be resumed
const maxTries = 3, maxTriesInParts = 10;
const fewFiles = 3; // so many are shown in rows at once
const mostRows = 200;
const fileWork = 32 << 10; // the bytes that take as long as what comes with each file
const quiet = 10000; // milliseconds between what a screen reader says

// ---- The queue ----

// An upload is waiting, running, retrying (after an error), paused (by the user), failed or done. What was cancelled or
// removed is in none of the sets. Each set has its uploads in the order in which they came to it.
const states = ['failed', 'running', 'retrying', 'paused', 'waiting', 'done'];
const sets = Object.fromEntries(states.map((state) => [state, new Set()]));
const sizes = Object.fromEntries(states.map((state) => [state, 0])); // bytes of the files of each set
const { failed, running, retrying, paused, waiting, done } = sets;

// What the tray shows goes from the first file after an end to the next end.
let isOver = true;
let count = 0; // files of the tray, with those that were cancelled
let cancelled = false; // whether all were
let finished = []; // records of the files uploaded, but for those that others took

const openCount = () => running.size + retrying.size + paused.size + waiting.size;
const allCount = () => openCount() + failed.size + done.size;
const allBytes = () => sizes.running + sizes.retrying + sizes.paused + sizes.waiting + sizes.done;
const isFew = () => count <= fewFiles;
const uploadOf = (el) => itemOf(el).upload;

function sentBytes() {
  let sent = sizes.done;
  for (const set of [running, retrying, paused]) for (const u of set) sent += u.sent;
  return sent;
}

// move gives an upload another state.
function move(u, state, more) {
  if (sets[u.state]?.delete(u)) sizes[u.state] -= u.file.size;
  Object.assign(u, { state }, more);
  if (!sets[state]) return;
  sets[state].add(u);
  sizes[state] += u.file.size;
}

// idempotencyKey lets the server recognise a request that is sent again.
const hex = (byte) => byte.toString(16).padStart(2, '0');
const idempotencyKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map(hex).join('');

// sendFiles queues files. The fields are sent with each of them, and added is called with the record and the
// file of each. A file with failed is not tried again by the user: that is called with the reason, which is '' if the
// user has cancelled it.
export function sendFiles(files, fields = {}, added = null, failedWith = null) {
  if (!files.length) return;
  if (isOver) begin();
  for (const file of files) {
    const u = {
      file, fields: { ...fields, ...file.kist }, added, failed: failedWith, no: count++,
      sent: 0, rate: 0, tries: 0, text: '',
    };
    const { maxUpload } = start, why = () => t('uploads.tooLarge', { size: bytes(file.size), limit: bytes(maxUpload) });
    if (file.size > maxUpload) fail(u, why(), true);
    else move(u, 'waiting');
  }
  startNext();
  draw();
}

// reopen has the tray show how far all are, after an end.
function reopen() {
  clearTimeout(closing);
  const now = performance.now();
  [isOver, cancelled, pace] = [false, false, { began: now, at: now, work: workDone(), rate: 0 }];
}

// begin empties the tray for new files, but for what failed.
function begin() {
  for (const u of done) move(u, 'gone');
  [finished, count] = [[], failed.size];
  reopen();
}

// startNext starts as many waiting uploads as may run at once. Those that are tried again keep their turn, so that not
// all fail while the server is away.
function startNext() {
  while (waiting.size && running.size + retrying.size < parallel) {
    const [u] = waiting;
    run(u);
  }
  if (!isOver && !openCount()) end();
  drawSoon();
}

function run(u) {
  if (u.file.size > large) uploadInParts(u);
  else uploadWhole(u);
}

// follow returns a function that is called with the number of bytes sent. It measures the rate and shows the progress.
function follow(u) {
  let since = performance.now(), before = null;
  return (sent) => {
    const now = performance.now();
    before ??= u.sent;
    u.sent = sent;
    if (now - since <= 200) return;
    const rate = Math.max(0, sent - before) / (now - since) * 1000;
    u.rate = u.rate ? u.rate * 0.7 + rate * 0.3 : rate;
    [since, before] = [now, sent];
    drawSoon();
  };
}

// uploadInParts uploads a large file so that it can be resumed.
async function uploadInParts(u) {
  move(u, 'running', { rate: 0, text: '' });
  try {
    u.tus ??= await loadModule('tus');
  } catch {
    return retry(u, 0, null);
  }
  if (u.state !== 'running') return; // paused or cancelled meanwhile
  const progress = follow(u);
  const owner = u.tus.ofOwner(me.id, base);
  u.tus.resume(u, { ...owner, storage, retry, done: showDone, progress: (_, sent) => progress(sent) });
}

function uploadWhole(u) {
  const xhr = new XMLHttpRequest();
  u.xhr = xhr;
  u.key ??= idempotencyKey();
  const form = new FormData();
  for (const [name, value] of Object.entries(u.fields)) form.append(name, value);
  form.append('file', u.file, u.file.name);
  move(u, 'running', { sent: 0, rate: 0, text: '' });
  const progress = follow(u);
  // The fields do not count.
  xhr.upload.onprogress = (e) => progress(Math.min(u.file.size, e.loaded / e.total * u.file.size));
  xhr.onload = () => {
    let data = null;
    try { data = JSON.parse(xhr.responseText); } catch { /* the status is enough */ }
    if (xhr.status === 201) return showDone(u, data);
    retry(u, xhr.status, data);
  };
  xhr.onerror = () => retry(u, 0, null);
  xhr.open('POST', `${base}/api/v1/upload`);
  xhr.setRequestHeader('Idempotency-Key', u.key); // prevents a duplicate if the upload is sent again
  xhr.send(form);
}

// isTemporary reports whether a status suggests that another try can help. An upload in parts can begin again.
function isTemporary(status, inParts) {
  if (status === 0 || status === 408 || status === 425 || status === 429) return true;
  return status >= 500 && status !== 507 || inParts && [404, 409, 410].includes(status);
}

// retry tries again later if the status suggests that this can help. Otherwise the upload fails.
function retry(u, status, data) {
  const temporary = isTemporary(status, u.at), most = u.at ? maxTriesInParts : maxTries;
  if (!temporary || u.tries >= most) {
    fail(u, status ? problemOf(status, data).message : t('tray.unreachable'), !temporary);
    return startNext();
  }
  const wait = Math.min(30000, 1000 * 3 ** u.tries);
  u.tries++;
  move(u, 'retrying', { text: t('tray.retrying', { time: seconds(wait / 1000) }) });
  u.timer = setTimeout(() => {
    run(u);
    drawSoon();
  }, wait);
  drawSoon();
}

function fail(u, text, forGood) {
  move(u, u.failed ? 'gone' : 'failed', { text, forGood });
  u.failed?.(text);
}

// showDone shows that a file was uploaded, with the record that the server created.
function showDone(u, record) {
  move(u, 'done', { sent: u.file.size, record });
  if (!u.added) finished.push(record);
  countChange();
  if (!u.fields.attach) countItems('file', 1);
  me.usedBytes += record.size;
  u.added?.(record, u.file);
  if (!u.fields.attach && view?.accepts?.(record)) view.list.prepend(record);
  if (isForBrowser(record)) loadModule('poster').then((m) => m.sendPoster(record, u.file), () => {});
  startNext();
}

// cancel ends an upload. What the server has of it is deleted.
function cancel(u) {
  clearTimeout(u.timer);
  move(u, 'gone');
  if (u.tus) u.tus.cancel(u, { ...u.tus.ofOwner(me.id, base), storage });
  else u.xhr?.abort();
  u.failed?.('');
}

// again has an upload that failed or was paused wait for its turn.
function again(u) {
  clearTimeout(u.timer);
  if (isOver) reopen();
  move(u, 'waiting', { tries: 0 });
}

// end has the page take over what was uploaded. The tray closes on its own where nobody has to look at it: what was
// uploaded for a collection is told by its page.
function end() {
  isOver = true;
  if (finished.some((r) => tagNames(r).some((n) => !tagColor(n)))) refreshTags();
  if (finished.length) refreshFolders().then(() => view?.redraw?.());
  // A list with filters or in another order shows them where they belong.
  if (finished.some((r) => !find(`.item[data-id="${r.id}"]`))) loadModule('live').then((m) => m.look(), () => {});
  if (failed.size || finished.length && !isFew()) return;
  const close = () => {
    if (!isOver) return;
    if (panel.matches(':hover, :focus-within')) closing = setTimeout(close, 2000);
    else clear();
  };
  closing = setTimeout(close, finished.length ? 10000 : 4000);
}

// ---- The tray ----

const panel = find('#uploads');
const line = h('p', { 'aria-hidden': 'true' });
const spoken = h('p.hide', { 'aria-live': 'polite' });
const fill = h('i');
const track = h('div.bar', {
  role: 'progressbar', 'aria-label': t('tray.progress'), 'aria-valuemin': '0', 'aria-valuemax': '100',
}, fill);
const list = h('ul.list', { id: 'upload-list' });
const closer = iconButton('uploads-clear', 'close', t('common.close'));
const details = button('uploads-details', '', { class: 'quiet', 'aria-controls': 'upload-list' },
  t('tray.details'), icon('down'));
const retryAll = button('uploads-again', t('common.again'));
const cancelAll = button('uploads-cancel', t('tray.cancelAll'));
const share = button('uploads-share', '', { class: 'main' });
const buttons = h('div.row', {}, details, cancelAll, retryAll, share);
panel.append(h('div.told', {}, line, closer), spoken, track, buttons, list);

let closing = 0; // the timer that closes the tray
let isOpened = false; // whether the user wants to see the details
let pace = null; // how fast all go: when and with how much done it was measured, and the rate per millisecond
let drawing = 0;
const drawSoon = () => { drawing ||= setTimeout(draw, 100); };

// The messages and the end of the page stand above the tray.
new ResizeObserver(() => {
  document.documentElement.style.setProperty('--tray', panel.hidden ? '0px' : `${panel.offsetHeight + 8}px`);
}).observe(panel);

const workDone = () => sentBytes() + done.size * fileWork;
const workOfAll = () => allBytes() + (openCount() + done.size) * fileWork;

// secondsLeft is how long the rest takes at the rate of the last seconds, or 0 if nobody can know.
function secondsLeft() {
  const now = performance.now(), passed = now - pace.at, work = workDone();
  if (passed >= 500) {
    const latest = Math.max(0, work - pace.work) / passed;
    pace.rate += (latest - pace.rate) * (pace.rate ? 1 - Math.exp(-passed / 5000) : 1);
    Object.assign(pace, { at: now, work });
  }
  return pace.rate && running.size && now - pace.began > 2000 ? (workOfAll() - work) / pace.rate / 1000 : 0;
}

// amounts writes how many bytes of all were sent. The unit is written once where it is the same.
function amounts() {
  const all = bytes(allBytes()), n = sentBytes(), sent = bytes(n), [amount, unit] = sent.split('\u00a0');
  return t('uploads.of', { sent: !n ? 0 : unit && all.endsWith(`\u00a0${unit}`) ? amount : sent, all });
}

// progressText says how far all are.
function progressText() {
  if (isFew()) return t('uploads.toGo', { n: openCount() });
  const left = secondsLeft(), [stuck] = running.size ? [] : retrying;
  return [
    t('tray.files', { some: done.size, n: allCount() }),
    failed.size && t('tray.failed', { n: failed.size }),
    amounts(),
    stuck ? stuck.text : left && t('tray.left', { time: seconds(left) }),
  ].filter(Boolean).join(' · ');
}

// endTexts say what came of all.
function endTexts() {
  const n = done.size, [only] = done;
  const isPrivate = n && finished.length === n && finished.every((r) => !r.isPublic);
  return [
    cancelled && t('tray.cancelled'),
    n === 1 && count === 1 ? t('tray.one', { name: shorten(only.file.name) })
      : n ? t('tray.many', { n })
        : cancelled && t('tray.none'),
    isPrivate && t('tray.private', { n }),
    failed.size && t('tray.notUploaded', { n: failed.size }),
  ].filter(Boolean);
}

// say has a screen reader read a text, but not each change of it.
function say(text) {
  const now = performance.now();
  if (spoken.textContent === text || !isOver && now - (spoken.at ?? -quiet) < quiet) return;
  spoken.textContent = text;
  spoken.at = now;
}

function draw() {
  clearTimeout(drawing);
  drawing = 0;
  if (isOver && !failed.size && !done.size && !cancelled) return clear();
  panel.hidden = false;
  const [first, ...more] = isOver ? endTexts() : [progressText()], text = [first, ...more].join(' ');
  line.replaceChildren(h('b', {}, first), ...more.map((sentence) => ` ${sentence}`));
  say(text);

  const part = workDone() / (workOfAll() || 1);
  fill.style.width = (part * 100).toFixed(1) + '%';
  track.setAttribute('aria-valuenow', Math.floor(part * 100));
  track.setAttribute('aria-valuetext', text);
  track.hidden = isOver || isFew();

  const focused = panel.contains(document.activeElement);
  closer.hidden = !isOver;
  cancelAll.hidden = isOver || isFew();
  retryAll.hidden = !isOver || ![...failed].some((u) => !u.forGood);
  share.hidden = !isOver || !finished.length;
  share.textContent = finished.length > 1 ? t('tray.together')
    : t(finished[0]?.isPublic ? 'common.copyLink' : 'list.share');
  const shown = isFew() && (!isOver || failed.size > 0);
  details.hidden = shown || allCount() < 2 && !failed.size;
  details.setAttribute('aria-expanded', String(isOpened));
  drawList(shown || isOpened && !details.hidden);
  if (focused && !panel.contains(document.activeElement)) find('button:not([hidden])', panel)?.focus();
}

// drawList shows rows, at the end only those of what failed, if anything did.
function drawList(on) {
  list.hidden = !on;
  if (!on) return list.replaceChildren();
  const shown = isOver && failed.size ? ['failed'] : states, rows = [];
  for (const state of shown) {
    for (const u of sets[state]) {
      if (rows.length === mostRows) break;
      rows.push(u);
    }
  }
  if (isFew()) rows.sort((a, b) => a.no - b.no);
  for (const u of rows) drawRow(u);
  const left = (isOver && failed.size || allCount()) - rows.length;
  const nodes = rows.map((u) => u.row), more = left > 0 && h('li.more', {}, t('tray.more', { n: left }));
  if (more) nodes.push(more);
  const same = nodes.length === list.children.length && rows.every((u, i) => list.children[i] === u.row);
  if (same && more) list.lastChild.textContent = more.textContent;
  if (same) return;
  const focused = list.contains(document.activeElement) && document.activeElement;
  list.replaceChildren(...nodes);
  if (focused) focused.focus();
}

function clear() {
  for (const set of Object.values(sets)) for (const u of set) move(u, 'gone');
  clearTimeout(closing);
  const focused = panel.contains(document.activeElement);
  [isOver, cancelled, finished, count, isOpened] = [true, false, [], 0, false];
  list.replaceChildren();
  spoken.textContent = '';
  panel.hidden = true;
  if (focused) find('#main').focus();
}

// ---- Rows ----

function statusOf(u, part) {
  switch (u.state) {
    case 'waiting': return t('tray.waiting');
    case 'paused': return t('tray.paused', { sent: bytes(u.sent), all: bytes(u.file.size) });
    case 'done': return t('tray.done', { size: bytes(u.file.size) });
    case 'running': break;
    default: return u.text;
  }
  if (part >= 1) return t('tray.saving');
  const values = { sent: bytes(u.sent), all: bytes(u.file.size) };
  if (!u.rate) return t('uploads.of', values);
  return t('tray.leftOf', { ...values, rate: bytes(u.rate), time: seconds((u.file.size - u.sent) / u.rate) });
}

function buttonsOf(u) {
  const cancelIt = button('upload-cancel', t('common.cancel'));
  switch (u.state) {
    case 'waiting': return [cancelIt];
    case 'running': return u.file.size > large ? [button('upload-pause', t('tray.pause')), cancelIt] : [cancelIt];
    case 'paused': return [button('upload-retry', t('tray.resume')), cancelIt];
    case 'retrying': return [button('upload-retry', t('tray.retryNow')), cancelIt];
    case 'failed': {
      const remove = button('upload-cancel', t('uploads.remove'), { class: 'quiet' });
      return u.forGood ? [remove] : [button('upload-retry', t('tray.retry')), remove];
    }
    default: return u.added ? [] : [button('upload-share', t(u.record.isPublic ? 'common.copyLink' : 'list.share'))];
  }
}

function makeRow(u) {
  u.bar = h('i');
  u.status = h('span');
  u.acts = h('div.acts');
  u.track = h('div.bar', {
    role: 'progressbar', 'aria-label': t('uploads.uploadOf', { name: u.file.name }), 'aria-valuemin': '0',
    'aria-valuemax': '100',
  }, u.bar);
  u.row = h('li.item', {},
    h('div.what', {}, h('span.name', { title: u.file.name }, u.file.name), h('div.meta', {}, u.status), u.track),
    u.acts);
  u.row.upload = u;
}

function drawRow(u) {
  if (!u.row) makeRow(u);
  const part = u.file.size ? u.sent / u.file.size : u.state === 'done' ? 1 : 0;
  u.bar.style.width = (part * 100).toFixed(1) + '%';
  u.track.setAttribute('aria-valuenow', Math.round(part * 100));
  u.row.dataset.state = u.state;
  u.status.textContent = statusOf(u, part);
  if (u.drawn === u.state) return;
  u.drawn = u.state;
  const focused = u.acts.contains(document.activeElement);
  u.acts.replaceChildren(...buttonsOf(u));
  if (focused) find('button', u.acts)?.focus();
}

// ---- Actions ----

// shareOne copies the link of a file if it opens for someone, and else asks who may open it.
const shareOne = (r) => r.isPublic ? copyItemLink(r) : openShare(r);

// shareAll shares what was uploaded. The tray closes when all have one link.
function shareAll() {
  if (finished.length === 1) return shareOne(finished[0]);
  const uploads = [...done].filter((u) => !u.added);
  return loadModule('collections').then((m) => m.shareUploads(uploads, clear)).catch(showProblem);
}

addActions({
  'upload-share': (el) => shareOne(uploadOf(el).record),
  'upload-cancel'(el) {
    cancel(uploadOf(el));
    startNext();
    draw();
  },
  'upload-pause'(el) {
    const u = uploadOf(el);
    move(u, 'paused');
    u.tus?.pause(u);
    startNext();
    draw();
  },
  'upload-retry'(el) {
    again(uploadOf(el));
    startNext();
    draw();
  },
  'uploads-details'() {
    isOpened = !isOpened;
    draw();
  },
  'uploads-cancel'() {
    cancelled = true;
    for (const set of [waiting, running, retrying, paused]) for (const u of set) cancel(u);
    startNext();
    draw();
  },
  'uploads-again'() {
    for (const u of failed) if (!u.forGood) again(u);
    startNext();
    draw();
  },
  'uploads-share': shareAll,
  'uploads-clear': clear,
});

// When the network is back, interrupted uploads continue at once.
addEventListener('online', () => {
  for (const u of [...retrying]) {
    clearTimeout(u.timer);
    run(u);
  }
  drawSoon();
});

addEventListener('beforeunload', (e) => { if (openCount()) e.preventDefault(); });

// ---- Folders ----

// longestName is how long the name of a folder can be. between stands between the names of a folder and those in it.
const longestName = 512, between = ' / ';

// isJunk is true for the names of files that systems put into folders for themselves.
const isJunk = (name) => /^(\.DS_Store|Thumbs\.db|desktop\.ini)$/i.test(name);

// folderOf is the name of the folder here for the names of a folder and those around it.
function folderOf(names) {
  const path = names.join(between);
  return path.length > longestName ? '…' + path.slice(1 - longestName) : path;
}

// filesIn finds the files in the entries of a drop. A file in a folder gets the path of its folder as the name of its
// folder here, so files of different folders stay apart. Junk is left out. unread is how many files and folders could
// not be read.
export async function filesIn(entries) {
  const files = [];
  let unread = 0;
  // walk adds the files in an entry. What cannot be read is counted, and the rest still comes.
  async function walk(entry, names) {
    try {
      if (entry.isFile) {
        if (isJunk(entry.name)) return;
        const file = await new Promise((take, refuse) => entry.file(take, refuse));
        return void files.push(Object.assign(file, { kist: { folderName: folderOf(names) } }));
      }
      const reader = entry.createReader(), inside = [...names, entry.name];
      const readPart = () => new Promise((take, refuse) => reader.readEntries(take, refuse));
      for (let part = await readPart(); part.length; part = await readPart()) {
        for (const e of part) await walk(e, inside);
      }
    } catch { unread++; }
  }
  for (const [entry, file] of entries) {
    if (entry?.isDirectory) await walk(entry, []);
    else if (file) files.push(file);
  }
  return { files, unread };
}

// chosenIn are the files of a chosen folder, as filesIn finds those of a dropped one.
function chosenIn(files) {
  const found = [...files].filter((file) => !isJunk(file.name));
  for (const file of found) {
    const names = file.webkitRelativePath.split('/').slice(0, -1);
    if (names.length) file.kist = { folderName: folderOf(names) };
  }
  return found;
}

const folderPicker = h('input', { type: 'file', webkitdirectory: true, hidden: true });
document.body.append(folderPicker);

// chooseFolder has the user choose a folder, and calls send with the files in it.
export function chooseFolder(send) {
  folderPicker.onchange = () => {
    const files = chosenIn(folderPicker.files);
    folderPicker.value = '';
    send(files);
  };
  folderPicker.click();
}
