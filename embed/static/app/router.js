// Finding and showing the page of an address, and the actions of its records. It owns the history, the pages kept for
// going back and the life of view: it makes view with name, kind, key, params, signal, aborter and out, and calls its
// shown, list, box and aborter. Pages register with addPages; everything that leads elsewhere calls go or rerender.
import { addActions, all, button, emptyState, find, h, itemOf, t, toast } from './dom.js';
import { canEdit, editorOf, isMedia, kindByPath, kinds, pageOf, shareAddressOf } from './kinds.js';
import { clearSelection, copyItemLink, openShare, saveRecord } from './list.js';
import {
  api, base, changes, copyLink, countChange, draftKey, loadModule, markCurrent, Problem, setView, showProblem, storage,
  takeAnswer, view,
} from './session.js';

// ---- Addresses ----

const main = find('#main');
const pages = {};

// addPages registers pages by name. Each fills view.out and returns the title of the tab.
export const addPages = (more) => { Object.assign(pages, more); };

// parse finds the page of an address; null if the app has none.
function parse(url) {
  const path = url.pathname.slice(base.length).replace(/^\/+|\/+$/g, '');
  const [place, id] = path.split('/');
  const params = new URLSearchParams(url.search), edit = params.has('edit');
  params.delete('edit');
  const key = place + withParam(params, '', '');
  if (path === 'account/security') return { name: 'security', key: path, params };
  if (!place) return { name: 'home', key: 'home', params };
  const kind = kindByPath[place];
  if (kind === kinds.collection && id && id !== 'new' && !edit) {
    return { name: 'board', kind, id: decodeURIComponent(id), key: path, params };
  }
  if (kind) return { name: 'kind', kind, id: id && decodeURIComponent(id), edit, key, params };
  if (pages[place] && !id && place !== 'home' && place !== 'kind') return { name: place, key, params };
  return null;
}

// withParam is the query of an address with one parameter changed.
export function withParam(params, name, value) {
  const next = new URLSearchParams(params);
  if (value) next.set(name, value);
  else next.delete(name);
  const text = next.toString();
  return text ? '?' + text : '';
}

// ---- Showing a page ----

// keptPages are cached pages for going back, by key.
const keptPages = new Map();
const maxKept = 6;
const keptMilliseconds = 12e4;

// opening ends what is still loading an item when the user goes elsewhere.
let opening = new AbortController();

// settings are the pages that the sections of the settings lead to.
const settings = ['account', 'security', 'keys', 'webhooks', 'import', 'remote-upload', 'admin'];

function isCurrent(to) {
  if (to.kind) return (a) => a.dataset.nav === to.kind.name;
  const inSettings = settings.includes(to.name);
  return (a) => a.dataset.nav === 'settings' ? inSettings : parse(new URL(a.href))?.name === to.name;
}

// show draws a page. A single item opens above the current page.
async function show(to, { back = false } = {}) {
  opening.abort();
  opening = new AbortController();
  const opens = to.id && to.name === 'kind'; // an item, above the page
  if (opens && view) {
    openItem(to);
    return;
  }
  for (const dialog of all('dialog:is(.panel, .viewer)')) dialog.close('left');
  if (view && view.key === to.key && back) return;

  leave();
  const aborter = new AbortController();
  const page = { ...to, aborter, signal: aborter.signal };
  setView(page);
  markCurrent(isCurrent(to));
  find('.sections').hidden = !settings.includes(to.name);
  find('.sections [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' }); // of the row on a phone
  const kept = back && keptFor(to.key);
  if (kept) return showKept(page, kept);

  page.out = document.createDocumentFragment();
  try {
    const title = await pages[to.name](page);
    if (view !== page) return;
    // The old page stays until the new one is complete, to avoid a flash of an empty page.
    setMain(page.out);
    document.title = `${title} · kist`;
    page.shown?.();
  } catch (e) {
    if (e.name === 'AbortError') return;
    if (e.status === 404 && page.kind) showMissing(page.kind, e.message);
    else setMain(h('p.alert', { role: 'alert' }, e.message), button('again', t('common.again')));
  }

  if (!back) scrollTo(0, 0);
  await page.list?.load(page.signal);
  if (opens && view === page) openItem(to);
}

// keptFor is the page of a key as it was left, if nothing has changed since and it is not old.
function keptFor(key) {
  const kept = keptPages.get(key);
  return kept && kept.changes === changes && Date.now() - kept.at < keptMilliseconds ? kept : null;
}

// showKept shows a page as it was left.
function showKept(page, kept) {
  const { aborter, signal } = page;
  Object.assign(page, kept.view, { aborter, signal });
  setMain(...kept.nodes);
  document.title = kept.title;
  scrollTo(0, kept.scroll);
  page.shown?.();
}

// setMain puts a page into the window. Grids use its whole width.
function setMain(...nodes) {
  main.replaceChildren(...nodes);
  main.parentElement.classList.toggle('wide', !!find('.grid', main));
}

// leave caches the current page for going back.
function leave() {
  clearSelection();
  if (!view) return;
  view.aborter.abort();
  const nodes = [...main.childNodes];
  keptPages.set(view.key, { view, nodes, title: document.title, scroll: scrollY, changes, at: Date.now() });
  if (keptPages.size > maxKept) keptPages.delete(keptPages.keys().next().value);
}

// lastFocused is what had the focus last outside of dialogs and messages, if it is part of the page. The button that
// was pressed may be disabled or removed meanwhile, which takes the focus from it.
let lastFocused = null;
document.addEventListener('focusin', ({ target }) => {
  if (!target.closest('dialog, #toasts')) lastFocused = target !== main && main.contains(target) ? target : null;
});
document.addEventListener('pointerdown', ({ target }) => {
  if (!target.closest('dialog, #toasts')) lastFocused = null;
});

const alike = (el) => all(el.dataset.act ? `[data-act="${el.dataset.act}"]` : el.localName, main);
const nameOf = (el) => el && (el.ariaLabel ?? el.textContent);

// rerender draws the page again. It keeps the scroll position, and the focus: on the button with the same name, or at
// the same place if its name has changed.
export async function rerender() {
  keptPages.clear();
  countChange();
  const { name, kind, id, key, params } = view;
  const scroll = scrollY, from = lastFocused, at = from ? alike(from).indexOf(from) : 0, called = nameOf(from);

  setView(null);
  await show({ name, kind, id: name === 'board' ? id : undefined, key, params });
  if (view?.key !== key) return; // the user has left
  scrollTo(0, scroll);

  if (!from || document.activeElement !== document.body || find('dialog[open]')) return;
  const now = alike(from);
  const sameName = nameOf(now[at]) !== called && now.find((el) => nameOf(el) === called);
  (sameName || now[at] || main).focus({ preventScroll: true });
}

// ---- Showing an item ----

// goingBack is a pending step back in the history. The next step waits for it.
let goingBack = null;

// closeItem restores the address of the page under an item.
function closeItem(to, reason) {
  if (reason === 'left' || reason === 'replaced') return;
  if (history.state?.over) {
    goingBack = new Promise((done) => { addEventListener('popstate', done, { once: true }); });
    history.back();
  } else {
    history.replaceState(null, '', view ? addressOfView() : `${base}/${to.kind.path}`);
  }
}

function addressOfView() {
  if (view.name === 'home') return `${base}/`;
  const path = view.name === 'board' ? view.key : view.kind?.path ?? view.name;
  return `${base}/${path}${withParam(view.params, '', '')}`;
}

// readItem reads the record of an address. Without the server, a record of the list does for reading.
async function readItem(to, signal) {
  try {
    return (await api('GET', `${to.kind.api}/${encodeURIComponent(to.id)}`, undefined, { signal })).data;
  } catch (e) {
    const listed = all('#main .item').map((row) => row.record).find((r) => r?.slug === to.id);
    if (e.status !== 0 || to.edit || !listed) throw e;
    return { ...listed, brief: true };
  }
}

// showMissing replaces the page of an address that leads to nothing.
function showMissing(kind, text) {
  view.key = ''; // this is not the page of the list
  document.title = `${text} · kist`;
  main.replaceChildren(emptyState(text, '', h('a.button', { href: `${base}/${kind.path}` }, kind.many)));
}

const moduleFor = (r, edit) => loadModule(edit ? 'editor' : isMedia(r) ? 'viewer' : 'reader');

async function openItem(to) {
  const { signal } = opening;
  const answer = takeAnswer(`${to.kind.api}/{${to.kind === kinds.file ? 'slug' : 'id'}}`);
  try {
    const onclose = (reason) => closeItem(to, reason);
    if (to.id === 'new') {
      const editor = await loadModule('editor');
      signal.throwIfAborted();
      await editor.openNew(to, onclose);
      return;
    }
    const r = answer?.data ?? await readItem(to, signal);
    const onmove = (next) => history.replaceState(history.state, '', pageOf(next));

    // What the user has not saved yet comes first.
    const edit = canEdit(r) && (to.edit || !r.waiting && storage.get(draftKey(`${to.kind.name}.${r.id}`)));
    const m = await moduleFor(r, edit);
    signal.throwIfAborted();
    if (edit) await m.openEditor(to.kind, r, { onclose });
    else if (isMedia(r)) m.openViewer(r, { onclose, onmove });
    else await m.openReader(r, { onclose, signal });
  } catch (e) {
    if (e.name === 'AbortError') return;
    const missing = e.status === 404 && t('list.missing', { kind: to.kind.one });
    if (missing && !history.state?.over) return showMissing(to.kind, missing);
    showProblem(missing ? new Problem(missing) : e);
    closeItem(to, '');
  }
}

// ---- Moving ----

// closed waits until what is closing has closed. The close event of a dialog comes later than its end, and may make a
// step back. An editor whose form is inert closes as soon as it knows what was saved.
async function closed() {
  const end = (el) => new Promise((done) => { el.addEventListener('close', done, { once: true }); });
  await Promise.all(all('dialog:not([open]), dialog:has(form[inert])').map(end));
  await goingBack;
  goingBack = null;
}

// go shows the page of an address, or loads the address if the app has no page for it.
export async function go(href, { replace = false } = {}) {
  await closed();
  const url = new URL(href, location.href);
  const to = ownPage(url);
  if (!to) {
    location.href = href;
    return;
  }
  history[replace ? 'replaceState' : 'pushState'](to.id && to.name === 'kind' ? { over: !replace } : null, '', url);
  await show(to);
}

const ownPage = (url) => url.origin === location.origin && url.pathname.startsWith(base + '/') ? parse(url) : null;

// showFirst shows the page of the loaded address.
export const showFirst = () => show(parse(new URL(location.href)) ?? parse(new URL(base + '/', location.href)));

addEventListener('popstate', () => {
  const to = parse(new URL(location.href));
  if (to) show(to, { back: true });
  else location.reload();
});

// opensHere reports whether a click on a link is for this tab.
const opensHere = (a, e) =>
  !a.target && !a.hasAttribute('download') && !e.button && !e.ctrlKey && !e.metaKey && !e.shiftKey && !e.altKey;

document.addEventListener('click', (e) => {
  const a = e.target.closest('a[href]');
  if (!a || !opensHere(a, e) || a.classList.contains('skip')) return;
  if (a.getAttribute('href').startsWith('#')) { // within a text
    e.preventDefault();
    document.getElementById(decodeURIComponent(a.hash.slice(1)))?.scrollIntoView();
    return;
  }
  if (e.target.closest('[data-act]') || !ownPage(new URL(a.href))) return;
  e.preventDefault();
  go(a.href);
});

addActions({ again: () => rerender() });

// ---- Actions of records ----

// withDeleting uses the module that deletes.
export const withDeleting = (use) => loadModule('deleting').then(use).catch(showProblem);

// removeRow deletes the record of a row and moves the focus to a neighbouring row.
export function removeRow(row) {
  const rows = all('#main .item'), at = rows.indexOf(row);
  const neighbour = rows[at + 1] ?? rows[at - 1];
  withDeleting((m) => m.removeRecords([row.record]));
  find('a.name', neighbour ?? find('#main'))?.focus();
}

const recordOf = (el) => itemOf(el).record;

addActions({
  star(el) {
    const r = recordOf(el);
    el.setAttribute('aria-pressed', String(!r.isFavorite));
    saveRecord(r, { isFavorite: !r.isFavorite });
  },
  'share-item': (el) => openShare(recordOf(el)),
  edit: (el) => go(editorOf(recordOf(el))),
  copy: (el) => copyItemLink(recordOf(el)),
  async publish(el) {
    const r = recordOf(el);
    if (!await saveRecord(r, { isPublic: !r.isPublic })) return;
    if (r.isPublic) toast(t('list.nowPrivate'));
    else toast(t('list.nowPublic'), { action: t('common.copyLink'), run: () => copyLink(shareAddressOf(r)) });
  },
  delete: (el) => removeRow(itemOf(el)),
});
