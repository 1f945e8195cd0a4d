// The beginning of the owner's app: one HTML page serves all its addresses, and the scripts show the page of the
// address, using the data that came with the HTML and the API. It owns the keyboard and what happens at the start. Of
// view it uses name, kind and box. The HTML page runs it, and nothing imports it.
import {
  addActions, all, currentRow, find, h, moveFocus, moveFocusVertically, painted, runAction, t, toast,
} from './dom.js';
import { editorOf, kinds } from './kinds.js';
import { clearSelection, copyItemLink, openShare, saveRecord, selection } from './list.js';
import './pages.js';
import { addPages, go, removeRow, showFirst, withDeleting } from './router.js';
import { base, labelsComeLater, loadModule, Problem, showProblem, start, storage, view } from './session.js';

// ---- Keyboard ----

// places are the pages that open with g and a letter.
const places = {
  h: '', f: 'files', b: 'bookmarks', n: 'notes', s: 'snippets', r: 'recipes', a: 'games', l: 'links', t: 'tags',
};
const chordMilliseconds = 1200;

// Most visits need neither the list of shortcuts nor the menu.
const withHelp = (use) => loadModule('help').then(use).catch(showProblem);
const showHelp = () => withHelp((m) => m.showHelp());

// newActions create an item on the pages that have no box.
const newActions = { keys: 'key-new', webhooks: 'hook-new', admin: 'user-new' };

// createNew starts a new item on the current page.
function createNew() {
  if (view?.name === 'kind' && view.kind !== kinds.file) go(`${base}/${view.kind.path}/new`);
  else if (view?.kind === kinds.file) view.box.picker.click();
  else if (view?.box) view.box.area.focus();
  else if (view?.choose) view.choose();
  else if (view?.name === 'tags') find('.quick input').focus();
  else if (!runAction(newActions[view?.name])) go(base + '/');
}

addActions({ help: showHelp, menu: () => withHelp((m) => m.showMenu()), new: createNew });

let chordStarted = 0;

function focusSearch() {
  find('#q').focus();
  find('#q').select();
}

function undoLast() {
  const canUndo = (el) => find('[data-act="toast-run"]', el)?.textContent === t('common.undo');
  all('.toast').reverse().find(canUndo)?.end(true);
}

// letterAction returns the action of a key that types a character. row is the row that has the focus.
function letterAction(key, row) {
  const r = row?.record;
  switch (key) {
    case '/': return focusSearch;
    case 'n': return createNew;
    case '?': return showHelp;
    case 'j': return () => moveFocus(1);
    case 'k': return () => moveFocus(-1);
    case 'g': return () => { chordStarted = Date.now(); };
    case 'u': return undoLast;
  }
  if (!r) return null;
  switch (key) {
    case 'e': return () => go(editorOf(r));
    case 's': return () => openShare(r);
    case 'c': return () => copyItemLink(r);
    case 'f': return () => saveRecord(r, { isFavorite: !r.isFavorite });
    case 'x': return () => find('.pick input', row)?.click();
  }
  return null;
}

// leaveOne closes or leaves the innermost open element.
function leaveOne(e, typing) {
  const menu = find('details.menu[open]');
  if (menu) {
    menu.open = false;
    find('summary', menu).focus();
    return;
  }
  if (typing) {
    e.target.blur();
    return;
  }
  if (selection().length) clearSelection();
  else all('.toast').pop()?.end();
}

function moveInMenu(menu, by) {
  const items = all('.pop > *', menu);
  const at = items.indexOf(document.activeElement);
  items[(at + (by > 0 ? 1 : items.length)) % items.length]?.focus();
}

// moveByArrow moves the focus in an open menu, or among the rows and the tiles of the page.
function moveByArrow(e, run) {
  const by = e.key === 'ArrowDown' || e.key === 'ArrowRight' ? 1 : -1;
  const menu = e.target.closest?.('details.menu[open]'), grid = find('#main .list.grid');
  if (e.key === 'ArrowRight' || e.key === 'ArrowLeft') {
    if (grid && currentRow()) run(() => moveFocus(by));
    return;
  }
  if (menu) run(() => moveInMenu(menu, by));
  else if (find('#main .item')) run(() => (grid ? moveFocusVertically : moveFocus)(by));
}

document.addEventListener('keydown', (e) => {
  if (e.isComposing || e.defaultPrevented) return;
  const dialog = all('dialog[open]').pop();
  const typing = e.target.matches?.('input:not([type=checkbox], [type=color]), textarea, select');
  const run = (action) => {
    e.preventDefault();
    action();
  };
  const saves = (e.ctrlKey || e.metaKey) && { Enter: 'form', s: '.panel form' }[e.key];
  if (saves && dialog) return run(() => find(saves, dialog)?.requestSubmit());
  if (e.key === 'Escape' && !dialog) return leaveOne(e, typing);
  if (dialog || e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.target.id === 'q' && e.key === 'ArrowDown') return run(() => moveFocus(1));
  if (typing) return;
  if (/^Arrow/.test(e.key)) return moveByArrow(e, run);

  const row = currentRow();
  if (e.key === 'Delete' && row?.record) {
    const records = selection();
    return run(() => records.length ? withDeleting((m) => m.removeRecords(records)) : removeRow(row));
  }

  // What is left are letters and signs, which the user can turn off.
  if (e.key.length > 1 || !storage.get('keys', true)) return;
  if (Date.now() - chordStarted < chordMilliseconds && e.key in places) {
    chordStarted = 0;
    return run(() => go(`${base}/${places[e.key]}`));
  }
  const action = letterAction(e.key, row);
  if (action) run(action);
});

// ---- Start ----

// These pages are loaded when they are first opened.
const page = (name) => async (v) => (await loadModule(name)).default(v);
addPages({
  account: page('account'),
  admin: page('admin'),
  home: page('home'),
  board: page('board'),
  import: page('moving'),
  keys: page('keys'),
  kind: page('kind'),
  'remote-upload': page('remote'),
  search: page('search'),
  security: page('security'),
  tags: page('tags'),
  trash: page('trash'),
  'upload-requests': page('requests'),
  webhooks: page('webhooks'),
});

// addLabels shows the tags and folders that did not come with the page.
const addLabels = () => loadModule('tags').then((m) => m.addLabels(), (e) => {
  toast(t('app.nolabels', { why: e.message }), { bad: true, action: t('common.again'), run: addLabels });
});

// What takes drops is loaded now, if it could not be loaded before.
addEventListener('dragenter', () => { loadModule('drops').catch(() => {}); });

// A name that does not fit is whole where the pointer rests on it.
document.addEventListener('pointerover', ({ target }) => {
  const el = target.closest?.('.name, .cutoff');
  if (!el || el.title) return;
  if (el.scrollWidth > el.clientWidth || el.scrollHeight > el.clientHeight + 2) el.title = el.textContent;
});

await painted(); // what came with the HTML
if (labelsComeLater) addLabels();
if (!start.answers.me) showProblem(new Problem(t('app.noaccount')));
// addRest adds what is not needed at once.
function addRest() {
  document.head.append(h('link', { rel: 'manifest', href: `${base}/manifest.webmanifest` }));
  for (const name of start.begin) loadModule(name).then((m) => m.begin?.(), () => {});
}

// The rest comes after the first rows, and after a second at the latest. Nothing is awaited here, because modules that
// import this one would wait for it.
const second = new Promise((done) => { setTimeout(done, 1000); });
Promise.race([showFirst(), second]).then(() => (window.requestIdleCallback ?? setTimeout)(addRest));
