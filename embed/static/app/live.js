// What others have changed meanwhile: when the user comes back to the window, the list of the page and the number of
// uploads that wait are read again. It uses list and signal of view. app.js calls begin.
import { all, find } from './dom.js';
import { selection, updateRows } from './list.js';
import { rerender } from './router.js';
import { countChange, readPending, view } from './session.js';

const mark = (r) => `${r.id} ${r.updatedAt}`;

// isBusy reports whether the user is in the middle of something that a new list would end.
const isBusy = () => selection().length > 0 ||
  find('dialog[open], details.menu[open], .toast [data-act="toast-run"]') ||
  document.activeElement?.matches('#main :is(input:not([type=checkbox]), textarea)');

// renew shows what is new in the list of the page. If the user has loaded more of it, only changed rows are drawn.
async function renew(page) {
  const { list } = page, shown = all('.item', list.ul).map((row) => row.record);
  const source = list.source.again(), records = await source.next(source.page, page.signal);
  if (view !== page || isBusy()) return;
  const isSame = records.every((r, i) => shown[i] && mark(r) === mark(shown[i])) && source.total === list.source.total;
  if (isSame) return;

  countChange();
  if (shown.length <= records.length + 1) return rerender();
  const known = new Map(shown.map((r) => [r.id, mark(r)]));
  for (const r of records) if (known.has(r.id) && known.get(r.id) !== mark(r)) updateRows(r);
}

// look reads again what the page shows, unless the user is in the middle of something.
let looking = false;
export async function look() {
  if (document.hidden || looking) return;
  looking = true;
  try {
    await readPending();
    if (view?.list?.source && !isBusy()) await renew(view);
  } catch { /* the next time may succeed */ } finally {
    looking = false;
  }
}

export function begin() {
  document.addEventListener('visibilitychange', look);
  addEventListener('focus', look);
}
