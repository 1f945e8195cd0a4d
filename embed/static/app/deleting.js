// Deleting records and what else can be undone, restoring records, and changing many at once. It owns the messages that
// wait for Undo. Of view it uses list. Whatever deletes or restores calls it.
import { shorten, t, toast } from './dom.js';
import { apiPathOf, titleOf } from './kinds.js';
import { anyTag, fetchRecord, rowsOf, selected, unpick, updateRows } from './list.js';
import { api, countChange, countItems, Problem, refreshTags, setTrashed, showProblem, start, view } from './session.js';

// ---- Later ----

const waiting = new Set(); // the messages

// deleteLater shows a message and deletes the paths of the API when it disappears, records only if they still have the
// tags. If the user presses Undo or the server refuses, it calls undo.
export function deleteLater(text, paths, undo, tags = []) {
  const message = toast(text, {
    action: t('common.undo'),
    done: async (pressed) => {
      waiting.delete(message);
      if (pressed) return undo();
      const remove = (path, i) => api('DELETE', path, undefined, { etag: tags[i], keepalive: true });
      const results = await Promise.allSettled(paths.map(remove));
      const failure = results.find((r) => r.status === 'rejected' && r.reason.status !== 404);
      if (failure) { undo(); showProblem(failure.reason); }
      refreshTags();
    },
  });
  waiting.add(message);
}

// A page that nobody sees any more deletes immediately: the phone may be locked, and the page never run again.
const endWaiting = () => { for (const message of waiting) message.end(); };
addEventListener('pagehide', endWaiting);
document.addEventListener('visibilitychange', () => { if (document.hidden) endWaiting(); });

// ---- Records ----

// mostAtOnce is how many records one request can change or list.
export const mostAtOnce = 500;

// restoreItems restores records from the trash. It returns what the server says of each: its id, slug and former slug.
export async function restoreItems(records) {
  const { data } = await api('POST', 'trash/restore', { ids: records.map((r) => r.id) });
  setTrashed(-data.length, true);
  countChange();
  for (const r of data) countItems(r.kind, 1);
  const moved = data.filter((r) => r.formerSlug);
  if (moved.length) toast(t('list.newSlug', { n: moved.length, slug: moved[0].slug }));
  refreshTags();
  return data;
}

// hide removes the rows of records from the page. It returns a function that shows them again.
function hide(records) {
  const removed = [];
  for (const r of records) {
    for (const row of rowsOf(r)) {
      const mark = document.createComment('');
      row.replaceWith(mark);
      removed.push([row, mark]);
    }
    selected.delete(r.id);
    countItems(r.kind, -1);
  }
  const list = view?.list, listed = removed.length ? records : [];
  list?.showSelection();
  list?.count(listed, -1);
  return (back) => {
    const ids = new Set(back.map((r) => r.id));
    for (const [row, mark] of removed) {
      if (!mark.isConnected || !ids.has(row.record.id)) continue;
      unpick(row);
      mark.replaceWith(row);
    }
    list?.count(listed.filter((r) => ids.has(r.id)), 1);
  };
}

// remove moves a record to the trash as the user has seen it. What the server found out about it meanwhile does not
// matter.
async function remove(r) {
  const send = (etag) => api('DELETE', apiPathOf(r), undefined, { etag, keepalive: true });
  try {
    return await send(r.etag ?? anyTag);
  } catch (e) {
    if (e.record?.updatedAt !== r.updatedAt) throw e;
    return await send(e.record.etag);
  }
}

// trash moves records to the trash and returns the problems, by record.
export async function trash(records) {
  if (records.length > 1) return changeAll(records, { action: 'trash' }, { keepalive: true });
  try {
    await remove(records[0]);
    return new Map();
  } catch (e) { return new Map([[records[0], e]]); }
}

// changeAll changes many records in one way (see POST /bulk) and returns the problems, by record. The user is asked
// before the page is left.
export async function changeAll(records, way, options) {
  const problems = new Map(), stay = (e) => e.preventDefault();
  if (records.length > mostAtOnce) addEventListener('beforeunload', stay);
  for (let at = 0; at < records.length; at += mostAtOnce) {
    const part = records.slice(at, at + mostAtOnce);
    try {
      const { data } = await api('POST', 'bulk', { ids: part.map((r) => r.id), ...way }, options);
      data.forEach((one, i) => {
        const status = one.code === 'not_found' ? 404 : 409;
        if (!one.ok) problems.set(part[i], new Problem(one.error, status, null, one.code));
      });
    } catch (e) { for (const r of part) problems.set(r, e); }
  }
  removeEventListener('beforeunload', stay);
  return problems;
}

const deletedText = (records) => records.length === 1
  ? t('list.deletedOne', { title: shorten(titleOf(records[0])) })
  : t('list.deleted', { n: records.length });

// removeRecords moves records to the trash. The message offers to restore them. Without a trash, the server deletes
// them when the message is gone.
export function removeRecords(records) {
  if (!records.length) return;
  countChange();
  const show = hide(records);
  const unhide = (back) => {
    for (const r of back) countItems(r.kind, 1);
    show(back);
  };
  const text = deletedText(records);
  const tags = records.map((r) => r.etag ?? anyTag);
  if (!start.trashDays) return deleteLater(text, records.map(apiPathOf), () => unhide(records), tags);

  const failed = [];
  const deleted = trash(records).then((problems) => {
    setTrashed(records.length - problems.size, true);
    for (const [r, problem] of problems) if (problem.status !== 404) failed.push(r);
    if (failed.length) {
      unhide(failed);
      showProblem(problems.get(failed[0]));
    }
    for (const r of failed) if (problems.get(r).record) updateRows(problems.get(r).record);
    refreshTags();
  });
  const restore = async () => {
    await deleted;
    try {
      const back = await restoreItems(records.filter((r) => !failed.includes(r)));
      for (const r of records) delete r.etag; // it has another one now
      show(records.filter((r) => back.some((b) => b.id === r.id)));
      for (const b of back) if (b.formerSlug) updateRows(await fetchRecord(b));
    } catch (e) { showProblem(e); }
  };
  return toast(text, { action: t('common.undo'), run: restore });
}
