// The page of remote uploads: files that the server fetches from other addresses. It owns the list of fetches and asks
// for their progress while the page is shown. It fills view.out and stops with view.signal. The router calls the page.
import { add, addActions, button, bytes, emptyState, find, h, meter, newID, problemText, t, tn, when } from './dom.js';
import { heading, load } from './heading.js';
import { api, base, Problem, showProblem } from './session.js';

const badges = {
  waiting: 'span.badge',
  running: 'span.badge',
  done: 'span.badge.on',
  failed: 'span.badge.warn',
  cancelled: 'span.badge.warn',
};
const states = {
  waiting: t('remote.queued'),
  running: t('remote.running'),
  done: t('remote.done'),
  failed: t('remote.failed'),
  cancelled: t('remote.cancelled'),
};
const isOpen = (x) => x.state === 'waiting' || x.state === 'running';

// nameOf is the name of a file, or the end of its address while the name is unknown.
const nameOf = (x) => x.name || x.url.split(/[?#]/)[0].replace(/\/+$/, '').split('/').pop();

// shown is the list on the page: its jobs, its elements, and wake, which ends the wait of follow.
let shown = null;

// progress says how much of a file has been fetched.
function progress(x) {
  if (x.state === 'running' && x.total) return t('uploads.of', { sent: bytes(x.bytes), all: bytes(x.total) });
  if (x.state === 'running') return x.bytes ? bytes(x.bytes) : t('remote.connecting');
  if (x.state === 'done') return bytes(x.bytes);
  if (x.state === 'waiting' && x.tries) return tn('remote.nextTry', { when: when(x.nextTryAt) });
  return '';
}

// actsOf are the buttons of a fetch.
function actsOf(x, name) {
  if (isOpen(x)) return button('fetch-cancel', t('common.cancel'), { 'aria-label': t('remote.cancelOf', { name }) });
  const retry = button('fetch-retry', t('remote.retry'), { 'aria-label': t('remote.retryOf', { name }) });
  const forget = button('fetch-forget', t('remote.clear'), { 'aria-label': t('remote.clearOf', { name }) });
  return x.state === 'done' ? forget : [retry, forget];
}

function rowOf(x) {
  const name = nameOf(x);
  const ending = (/\.([a-z0-9]{1,4})$/i.exec(x.name)?.[1] ?? '').toUpperCase();
  const row = h('li.item.plain', { 'data-id': x.id },
    h('span.pic', { 'aria-hidden': 'true' }, h('b', {}, ending)),
    h('div.what', {},
      x.file ? h('a.name', { href: `${base}/files/${x.file.slug}` }, name) : h('span.name', {}, name),
      h('div.meta', {},
        h(badges[x.state], {}, states[x.state]),
        h('span', {}, progress(x)),
        h('span.cutoff', { title: x.url }, x.url)),
      x.state === 'running' && x.total ? meter(x.bytes / x.total) : null,
      x.error ? h('p.error', {}, x.error) : null),
    h('div.acts', {}, actsOf(x, name)));
  row.job = x;
  return row;
}

// draw redraws the rows that have changed. The others keep the focus.
function draw(jobs) {
  shown.jobs = jobs;
  const oldRows = new Map([...shown.list.children].map((row) => [row.dataset.id, row]));
  const rows = jobs.map((x) => {
    const row = oldRows.get(x.id);
    const same = row && JSON.stringify(row.job) === JSON.stringify(x);
    if (same) return row;
    const fresh = rowOf(x);
    if (row?.contains(document.activeElement)) queueMicrotask(() => find('.acts button', fresh)?.focus());
    return fresh;
  });
  const before = [...shown.list.children];
  if (rows.length !== before.length || rows.some((row, i) => before[i] !== row)) shown.list.replaceChildren(...rows);

  const n = jobs.filter(isOpen).length;
  shown.status.textContent = jobs.length ? (n ? t('uploads.toGo', { n }) : t('remote.allDone')) : '';
  shown.clear.hidden = n === jobs.length;
  shown.none.hidden = jobs.length > 0;
}

const wait = (ms) => new Promise((done) => {
  shown.wake = done;
  setTimeout(done, ms);
});

// follow asks the server for progress until the user leaves the page.
async function follow(signal) {
  for (let pause = 500; !signal.aborted; pause = Math.min(pause * 1.5, 3000)) {
    const before = JSON.stringify(shown.jobs);
    await wait(shown.jobs.some(isOpen) ? pause : 3600e3);
    if (signal.aborted) return;
    if (document.hidden || !shown.jobs.some(isOpen)) continue;
    try {
      draw((await api('GET', 'remote-upload', undefined, { signal })).jobs);
      if (JSON.stringify(shown.jobs) !== before) pause = 500;
    } catch (e) {
      if (e.name === 'AbortError') return;
      pause = 3000; // gives the server time to come back
    }
  }
}

// change sends a request, then shows the updated list.
async function change(el, run) {
  el.disabled = true;
  try {
    await run();
    draw((await api('GET', 'remote-upload')).jobs);
    shown.wake?.();
  } catch (e) {
    showProblem(e);
  } finally {
    el.disabled = false;
  }
}

const jobOf = (el) => el.closest('[data-id]').job;
addActions({
  'fetch-cancel': (el) => change(el, () => api('PATCH', `remote-upload/${jobOf(el).id}`, { action: 'cancel' })),
  'fetch-retry': (el) => change(el, () => api('PATCH', `remote-upload/${jobOf(el).id}`, { action: 'retry' })),
  'fetch-forget': (el) => change(el, () => api('DELETE', `remote-upload/${jobOf(el).id}`)),
  'fetch-clear': (el) => change(el, () => api('DELETE', 'remote-upload')),
});

// addForm asks for addresses and has the server fetch what is there.
function addForm() {
  const urls = h('textarea', { id: newID(), rows: '3', spellcheck: 'false', required: true });
  const folder = h('input', { id: newID(), autocomplete: 'off' });
  const visibility = h('select', { 'aria-label': t('remote.whoSees') },
    h('option', { value: '' }, t('common.onlyMe')), h('option', { value: '1' }, t('common.anyone')));
  const problem = h('p.error', { role: 'alert', id: newID(), hidden: true });
  const submit = h('button.main', {}, t('remote.fetch'));
  const form = h('form.card', { 'aria-label': t('remote.title'), novalidate: true },
    h('div.field', {}, h('label', { for: urls.id }, t('remote.urls')), urls, problem),
    h('div.field', {}, h('label', { for: folder.id }, t('list.folder')), folder),
    h('div.row', {}, visibility, submit));
  urls.setAttribute('aria-describedby', problem.id);
  const showError = (text) => {
    problem.textContent = text;
    problem.hidden = !text;
    urls.setAttribute('aria-invalid', String(!!text));
  };

  async function send(lines) {
    const own = folder.value.trim() ? { folderName: folder.value } : {};
    try {
      await api('POST', 'remote-upload', { urls: lines, isPublic: !!visibility.value, ...own });
      urls.value = '';
    } catch (x) {
      if (!(x instanceof Problem) || !x.fields) throw x;
      showError(x.fields.urls ? t('remote.invalid', { why: problemText(x.fields.urls) }) : x.message);
    }
  }
  form.onsubmit = async (e) => {
    e.preventDefault();
    const lines = urls.value.split(/\s+/).filter(Boolean);
    if (!lines.length) {
      showError(t('remote.needURL'));
      urls.focus();
      return;
    }
    showError('');
    await change(submit, () => send(lines));
  };
  return form;
}

export default async function page(v) {
  const jobs = (await load('remote-upload', 'remote-upload', v.signal))?.jobs ?? [];
  shown = {
    jobs,
    list: h('ul.list', { 'aria-label': t('remote.list') }),
    status: h('small.soft', { role: 'status' }),
    wake: null,
    clear: button('fetch-clear', t('remote.clearAll')),
    none: emptyState(t('remote.none'), t('remote.noneHint')),
  };
  add(v.out,
    heading(t('remote.title')),
    h('p.soft', {}, t('remote.hint')),
    h('div.cards', {}, addForm()),
    h('div.head', {}, h('h2', {}, t('remote.recent')), shown.status, h('div.row', {}, shown.clear)),
    shown.list,
    shown.none);
  draw(jobs);
  v.signal.addEventListener('abort', () => shown.wake?.());
  follow(v.signal);
  return t('remote.title');
};
