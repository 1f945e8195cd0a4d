// Selecting records in a list, and what is done with those that are selected. It shows the bar for them, and what is
// selected is in list.js. Of view it uses list and signal. list.js calls pick and showSelection.
import { mostAtOnce, removeRecords } from './deleting.js';
import { add, addActions, all, button, find, h, icon, iconButton, itemOf, number, t, toast } from './dom.js';
import { focusedAction, selected, selection, unshown } from './list.js';
import { loadModule, showProblem, view } from './session.js';

// mostSelected is what one request can restore from the trash.
const mostSelected = 10_000;

// ---- The bar ----

// keepShown keeps what is selected up to date, and drops what the list does not show any more.
function keepShown(shown) {
  const now = new Map(shown.map((r) => [r.id, r]));
  for (const id of selected.keys()) {
    if (now.has(id)) selected.set(id, now.get(id));
    else if (!unshown.has(id)) selected.delete(id);
  }
}

// matchButton offers to select what the list has not shown yet, too.
function matchButton(source, shown) {
  if (source.ended || selected.size < shown || unshown.size) return null;
  const whole = source.total <= mostSelected, n = Math.min(source.total, mostSelected);
  return button('pick-matching', t(whole ? 'list.allMatching' : 'list.firstMatching', { n }));
}

// showSelection shows in a list what is selected, and the bar while something is.
export function showSelection({ source, ul, bar }) {
  const rows = all('.item', ul), shown = rows.map((row) => row.record);
  keepShown(shown);
  const own = shown.filter((r) => !r.owner).length;
  for (const row of rows) row.classList.toggle('picked', selected.has(row.record.id));
  const n = selected.size;
  document.body.classList.toggle('selecting', n > 0);
  ul.classList.toggle('picking', n > 0);
  bar.hidden = !n;
  if (!n) return;

  const act = focusedAction(bar);
  const files = selection().every((r) => r.kind === 'file');
  bar.replaceChildren();
  add(bar,
    h('b', { 'aria-live': 'polite' }, number(n), h('span', {}, ' ', t('list.selected'))),
    n < own && button('pick-all', t('list.all')),
    matchButton(source, own),
    files && button('bulk-folder', t('list.move'), {}, icon('folder'), t('list.move')),
    button('bulk-tag', t('list.tag'), {}, icon('tag'), t('list.tag')),
    button('bulk-together', t('list.together'), {}, icon('collection'), t('list.together')),
    button('bulk-share', t('list.sharing'), {}, icon('share'), t('list.sharing')),
    button('bulk-delete', t('common.delete'), { class: 'danger' }, icon('trash'), t('common.delete')),
    iconButton('pick-none', 'close', t('list.clear')));
  if (act) find(`[data-act="${act}"]`, bar)?.focus();
}

// ---- Selecting ----

// lastPicked is the row from which Shift selects.
let lastPicked = null;

// pick follows a change of the box of a row, which is selected or not by then. If many is true, the rows since the last
// one get the same.
export function pick(box, many) {
  const row = itemOf(box), rows = all('.item', view.list?.ul);
  if (many && lastPicked?.isConnected && rows.includes(row)) {
    const [from, to] = [rows.indexOf(lastPicked), rows.indexOf(row)].sort((a, b) => a - b);
    for (const one of rows.slice(from, to + 1)) {
      find('.pick input', one).checked = box.checked;
      if (box.checked) selected.set(one.record.id, one.record);
      else selected.delete(one.record.id);
    }
  }
  for (const id of unshown) if (!selected.has(id)) unshown.delete(id);
  lastPicked = row;
  if (view.list) showSelection(view.list);
}

function pickAll() {
  for (const row of all('.item', view.list.ul)) {
    if (row.record.owner) continue;
    selected.set(row.record.id, row.record);
    find('.pick input', row).checked = true;
  }
  showSelection(view.list);
}

// pickMatching selects everything that a list would show, which it reads.
async function pickMatching({ list, signal }) {
  const source = list.source.again();
  const found = [];
  while (!source.ended && found.length < mostSelected) found.push(...await source.next(mostAtOnce, signal));
  if (signal.aborted || !selected.size) return;
  for (const r of found.filter((x) => !x.owner).slice(0, mostSelected)) {
    selected.set(r.id, r);
    unshown.add(r.id);
  }
  for (const box of all('.pick input', list.ul)) box.checked = selected.has(itemOf(box).record.id);
  showSelection(list);
}

// ---- What is done with the selection ----

const withBulk = (use) => loadModule('bulk').then(use).catch(showProblem);

// together runs something with the module of bulk changes and the selection as it is now.
const together = (run) => {
  const records = selection();
  return withBulk((m) => run(m, records));
};

addActions({
  'pick-all': pickAll,
  async 'pick-matching'() {
    const progress = toast(t('list.reading'), { time: 600e3 });
    try {
      await pickMatching(view);
    } catch (e) { showProblem(e); } finally { progress.end(); }
  },
  'bulk-delete': () => (unshown.size ? together((m, records) => m.deleteEach(records)) : removeRecords(selection())),
  'bulk-tag': () => together((m, records) => m.tagEach(records)),
  'bulk-folder': () => together((m, records) => m.moveEach(records)),
  'bulk-share': () => together((m, records) => m.shareEach(records)),
  'bulk-together'() {
    const records = selection();
    loadModule('collections').then((m) => m.shareTogether(records)).catch(showProblem);
  },
});
