// Uploads: a queue that sends a few files at once and shows their progress. It is loaded when the first file is added.
// It owns the queue and its panel; tus.js sends large files in parts. Of view it uses list, accepts and redraw. add.js
// calls sendFiles and filesIn.
import { addActions, button, bytes, find, h, icon, itemOf, seconds, shorten, t, toast } from './dom.js';
import { isForBrowser, tagNames } from './kinds.js';
import { copyItemLink } from './list.js';
import {
  base, countChange, countItems, loadModule, me, problemOf, refreshFolders, refreshTags, showProblem, start, storage,
  tagColor, view,
} from './session.js';

const parallel = 3;
const large = 8 << 20; // larger files are uploaded in parts, so that they can be resumed
const maxTries = 3, maxTriesInParts = 10;
const panel = find('#uploads');

// An upload is waiting, running, retrying (after an error), paused (by the user), failed, done or cancelled.
let queue = [];
let uploaded = 0; // files since the panel was last empty
let finished = []; // records of the files uploaded since the queue was last empty, but for those that others took

const isOpen = (u) => ['waiting', 'running', 'retrying', 'paused'].includes(u.state);
const uploadOf = (el) => itemOf(el).upload;

// idempotencyKey lets the server recognise a request that is sent again.
const hex = (byte) => byte.toString(16).padStart(2, '0');
const idempotencyKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map(hex).join('');

// drawPanel puts the head and an empty list into the panel.
function drawPanel() {
  panel.append(
    h('div.head', {},
      h('h2', {}, t('uploads.title')),
      h('small.soft', { 'aria-live': 'polite' }),
      button('uploads-clear', t('common.close'), { class: 'quiet' })),
    h('ul.list'));
}

// uploadFor is a waiting upload of a file, with its row.
function uploadFor(file, fields, added, failed) {
  const u = {
    file, fields, added, failed, key: idempotencyKey(), state: 'waiting', sent: 0, rate: 0, tries: 0, text: '',
  };
  u.bar = h('i');
  u.status = h('span');
  u.acts = h('div.acts');
  u.track = h('div.bar', {
    role: 'progressbar', 'aria-label': t('uploads.uploadOf', { name: file.name }), 'aria-valuemin': '0',
    'aria-valuemax': '100',
  }, u.bar);
  u.row = h('li.item', {},
    h('span.pic', {}, icon('upload')),
    h('div.what', {}, h('span.name', {}, file.name), h('div.meta', {}, u.status), u.track),
    u.acts);
  u.row.upload = u;
  return u;
}

// sendFiles queues files. The fields are sent with each of them, and added is called with the record and the
// file of each. A file with failed is not tried again by the user: that is called with the reason, which is '' if the
// user has cancelled it.
export function sendFiles(files, fields = {}, added = null, failed = null) {
  if (!files.length) return;
  if (!find('ul', panel)) drawPanel();
  for (const file of files) {
    const u = uploadFor(file, { ...fields, ...file.kist }, added, failed);
    queue.push(u);
    find('ul', panel).append(u.row);
    if (file.size <= start.maxUpload) continue;
    fail(u, t('uploads.tooLarge', { size: bytes(file.size), limit: bytes(start.maxUpload) }), true);
  }
  panel.hidden = false;
  startNext();
}

// startNext starts as many waiting uploads as may run at once.
function startNext() {
  const running = queue.filter((u) => u.state === 'running').length;
  for (const u of queue.filter((x) => x.state === 'waiting').slice(0, parallel - running)) {
    if (u.file.size > large) uploadInParts(u);
    else uploadWhole(u);
  }
  draw();
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
    draw();
  };
}

// uploadInParts uploads a large file so that it can be resumed.
async function uploadInParts(u) {
  Object.assign(u, { state: 'running', rate: 0, text: '' });
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
  const form = new FormData();
  for (const [name, value] of Object.entries(u.fields)) form.append(name, value);
  form.append('file', u.file, u.file.name);
  Object.assign(u, { state: 'running', sent: 0, rate: 0, text: '' });
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
  if (!temporary || u.tries >= most) return fail(u, problemOf(status, data).message, !temporary);
  u.state = 'retrying';
  const wait = Math.min(30000, 1000 * 3 ** u.tries);
  u.tries++;
  u.text = t('uploads.retrying', { time: seconds(wait / 1000) });
  u.timer = setTimeout(() => {
    u.state = 'waiting';
    startNext();
  }, wait);
  startNext();
}

function fail(u, text, forGood) {
  Object.assign(u, { state: 'failed', text, forGood });
  if (u.failed) {
    drop(u);
    u.failed(text);
  }
  if (queue.some((x) => x.state !== 'failed')) startNext();
  else draw();
}

// showDone shows that a file was uploaded, with the record that the server created.
function showDone(u, record) {
  Object.assign(u, { state: 'done', sent: u.file.size, record });
  if (!u.added) finished.push(record);
  uploaded++;
  countChange();
  if (!u.fields.attach) countItems('file', 1);
  me.usedBytes += record.size;
  u.added?.(record, u.file);
  if (!u.fields.attach && view?.accepts?.(record)) view.list.prepend(record);
  if (isForBrowser(record)) loadModule('poster').then((m) => m.sendPoster(record, u.file), () => {});
  setTimeout(() => {
    drop(u);
    draw();
  }, 4000);
  startNext();
  if (!queue.some(isOpen)) allDone();
}

function drop(u) {
  queue = queue.filter((x) => x !== u);
  u.row.remove();
}

// allDone offers the links of the files that were uploaded since the queue was last empty. What was uploaded for a
// collection is told by its page.
function allDone() {
  const records = finished;
  finished = [];
  if (!records.length) return;
  if (records.some((r) => tagNames(r).some((n) => !tagColor(n)))) refreshTags();
  refreshFolders().then(() => view?.redraw?.());

  const n = records.length, one = n === 1;
  const text = one ? t('uploads.one', { name: shorten(records[0].originalName) }) : t('uploads.many', { n });
  const together = () => loadModule('collections').then((m) => m.shareTogether(records)).catch(showProblem);
  toast(records.every((r) => r.isPublic) ? text : `${text} ${t('uploads.private', { n })}`, {
    time: 10000, action: one ? t('uploads.copyLinks', { n: 1 }) : t('uploads.together'),
    run: () => one ? copyItemLink(records[0]) : together(),
  });
}

// ---- The panel ----

function statusOf(u, part) {
  switch (u.state) {
    case 'waiting': return t('uploads.waiting');
    case 'paused': return t('uploads.paused', { sent: bytes(u.sent), all: bytes(u.file.size) });
    case 'done': return t('uploads.done', { size: bytes(u.file.size) });
    case 'running': break;
    default: return u.text;
  }
  if (part >= 1) return t('uploads.saving');
  const values = { sent: bytes(u.sent), all: bytes(u.file.size) };
  if (!u.rate) return t('uploads.of', values);
  return t('uploads.left', { ...values, rate: bytes(u.rate), time: seconds((u.file.size - u.sent) / u.rate) });
}

function buttonsOf(u) {
  const cancel = button('upload-cancel', t('common.cancel'));
  switch (u.state) {
    case 'waiting': return [cancel];
    case 'running': return u.file.size > large ? [button('upload-pause', t('uploads.pause')), cancel] : [cancel];
    case 'paused': return [button('upload-retry', t('uploads.resume')), cancel];
    case 'retrying': return [button('upload-retry', t('uploads.retryNow')), cancel];
    case 'failed': {
      const remove = button('upload-cancel', t('uploads.remove'), { class: 'quiet' });
      return u.forGood ? [remove] : [button('upload-retry', t('uploads.retry')), remove];
    }
    default: return [button('upload-copy', t('common.copyLink'))];
  }
}

function drawRow(u) {
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

function draw() {
  for (const u of queue) drawRow(u);
  const open = queue.filter(isOpen).length, done = queue.filter((u) => u.state === 'done').length;
  const summary = open ? t('uploads.toGo', { n: open }) : done ? t('uploads.allDone', { n: uploaded }) : '';
  const label = find('small', panel);
  if (label.textContent !== summary) label.textContent = summary; // a screen reader reads every change
  find('[data-act="uploads-clear"]', panel).hidden = open > 0;
  panel.hidden = !queue.length;
  if (!queue.length) uploaded = 0;
}

addActions({
  'upload-copy': (el) => copyItemLink(uploadOf(el).record),
  'upload-cancel'(el) {
    const u = uploadOf(el);
    clearTimeout(u.timer);
    u.state = 'cancelled';
    if (u.tus) u.tus.cancel(u, { ...u.tus.ofOwner(me.id, base), storage });
    else u.xhr?.abort();
    drop(u);
    u.failed?.('');
    startNext();
    if (!queue.some(isOpen)) allDone();
  },
  'upload-pause'(el) {
    const u = uploadOf(el);
    u.state = 'paused';
    u.tus?.pause(u);
    startNext();
  },
  'upload-retry'(el) {
    const u = uploadOf(el);
    clearTimeout(u.timer);
    Object.assign(u, { state: 'waiting', tries: 0 });
    startNext();
  },
  'uploads-clear'() {
    for (const u of queue) u.row.remove();
    queue = [];
    draw();
  },
});

// When the network is back, interrupted uploads continue at once.
addEventListener('online', () => {
  for (const u of queue.filter((x) => x.state === 'retrying')) {
    clearTimeout(u.timer);
    u.state = 'waiting';
  }
  if (queue.length) startNext();
});

addEventListener('beforeunload', (e) => { if (queue.some(isOpen)) e.preventDefault(); });

// longestName is how long the name of a folder can be.
const longestName = 512;

// filesIn finds the files in the entries of a drop. A file in a folder gets the path of its folder as the name of its
// folder here, so files of different folders stay apart. unread is how many files and folders could not be read.
export async function filesIn(entries) {
  const files = [];
  let unread = 0;
  // walk adds the files in an entry. What cannot be read is counted, and the rest still comes.
  async function walk(entry, folder) {
    try {
      if (entry.isFile) {
        const file = await new Promise((done, fail) => entry.file(done, fail));
        return void files.push(Object.assign(file, { kist: { folderName: folder } }));
      }
      const path = folder ? `${folder}/${entry.name}` : entry.name;
      const inside = path.length > longestName ? '…' + path.slice(1 - longestName) : path;
      const reader = entry.createReader();
      const readPart = () => new Promise((done, fail) => reader.readEntries(done, fail));
      for (let part = await readPart(); part.length; part = await readPart()) {
        for (const e of part) await walk(e, inside);
      }
    } catch { unread++; }
  }
  for (const [entry, file] of entries) {
    if (entry?.isDirectory) await walk(entry, '');
    else if (file) files.push(file);
  }
  return { files, unread };
}
