// Changing the selected records, and folders. It owns the forms that do so, and uses nothing of view. selection.js and
// the page of files call it.
import { changeAll, deleteLater, restoreItems, trash } from './deleting.js';
import { all, shorten, t, toast } from './dom.js';
import { openForm } from './forms.js';
import { tagNames } from './kinds.js';
import { change, clearSelection, fetchRecord, updateRows } from './list.js';
import { go, rerender } from './router.js';
import {
  api, base, countChange, countItems, hideFolder, Problem, refreshFolders, refreshTags, setTrashed, showProblem, start,
} from './session.js';

// While many records are changed, a message says so.
const patience = 600e3;

// saveEach changes several records in the same way, and redraws those that are shown. At the end it shows done, or how
// many could not be changed.
async function saveEach(records, set, done) {
  const progress = records.length > 8 && toast(t('list.changing', { n: records.length }), { time: patience });
  const problems = await changeAll(records, { set });
  const shown = new Set(all('#main .item').map((row) => row.dataset.id));
  const queue = records.filter((r) => shown.has(r.id) && !problems.has(r));
  const readQueue = async () => {
    while (queue.length) await fetchRecord(queue.shift()).then(updateRows, () => {}); // it is changed, if not shown
  };
  await Promise.all(Array.from({ length: 4 }, readQueue));
  if (progress) progress.end();
  refreshTags();
  if (!problems.size) return void toast(done, { time: 3000 });
  showProblems(problems);
}

function showProblems(problems) {
  const [first] = problems.values();
  showProblem(new Problem(t('list.notChanged', { n: problems.size, why: first.message })));
}

// deleteEach asks, deletes many records, and reads the page again. The message at the end offers to restore them.
export function deleteEach(records) {
  const n = records.length, kept = start.trashDays > 0;
  openForm({
    title: t('list.deleteTitle', { n }), button: t('common.delete'), danger: true,
    text: kept ? t('list.deleteToTrash', { n: start.trashDays }) : t('list.deleteForGood'),
    run: () => { deleteNow(records, kept); },
  });
}

async function deleteNow(records, kept) {
  const progress = toast(t('list.changing', { n: records.length }), { time: patience });
  const problems = await trash(records), gone = records.filter((r) => !problems.has(r));
  progress.end();
  if (kept) setTrashed(gone.length, true);
  for (const r of gone) countItems(r.kind, -1);
  const renew = () => {
    countChange();
    refreshTags();
    clearSelection();
    return rerender();
  };
  await renew();

  const restore = () => restoreItems(gone).then(renew).catch(showProblem);
  const undo = kept && gone.length > 0 && { action: t('common.undo'), run: restore };
  toast(t('list.deleted', { n: gone.length }), undo || {});
  if (problems.size) showProblems(problems);
}

export function tagEach(records) {
  const present = [...new Set(records.flatMap(tagNames))];
  const choices = Object.fromEntries(present.map((n) => [n, n]));
  const less = { name: 'removeTags', label: t('list.removeTags'), type: 'checks', choices };
  openForm({
    title: t('list.tagsTitle', { n: records.length }), button: t('common.apply'),
    fields: [{ name: 'addTags', label: t('list.addTags'), type: 'tags' }, ...(present.length ? [less] : [])],
    run: (now) => { saveEach(records, now, t('list.tagsChanged')); },
  });
}

export function moveEach(records) {
  openForm({
    title: t('list.moveTitle', { n: records.length }), button: t('list.move'), text: t('list.moveHint'),
    fields: [{ name: 'folderName', label: t('list.folder'), type: 'folder' }],
    run: async (now) => {
      // The first file goes by the name of the folder, which may be new, and the others follow it.
      const folderName = now.folderName.trim();
      const folder = folderName ? (await change(records[0], { folderName })).folder : null;
      const move = async () => {
        await saveEach(records, { folderId: folder?.id ?? null }, t('list.moved'));
        await refreshFolders();
        rerender();
      };
      move();
    },
  });
}

export function shareEach(records) {
  const whoSees = { true: t('common.anyone'), false: t('common.onlyMe') };
  const marks = { true: t('list.mark'), false: t('list.unmark') };
  openForm({
    title: t('list.shareTitle', { n: records.length }), button: t('common.apply'),
    fields: [
      { name: 'isPublic', label: t('list.whoSeesThem'), type: 'choice', choices: whoSees },
      { name: 'isFavorite', label: t('kind.favourites'), type: 'choice', choices: marks },
    ],
    run: (now) => {
      const chosen = Object.entries(now).filter(([, v]) => v !== null);
      const set = Object.fromEntries(chosen.map(([n, v]) => [n, v === 'true']));
      if (Object.keys(set).length) saveEach(records, set, t('list.changed'));
    },
  });
}

export const newFolder = () => openForm({
  title: t('folder.new'), button: t('folder.create'),
  fields: [{ name: 'name', label: t('forms.name'), required: true }],
  run: async (now) => {
    const folder = (await api('POST', 'folders', now)).data;
    await refreshFolders();
    go(`${base}/files?folder=${folder.id}`);
  },
});

export const renameFolder = (folder) => openForm({
  title: t('folder.rename', { name: folder.name }),
  fields: [{ name: 'name', label: t('forms.name'), required: true }],
  values: folder,
  run: async (now) => {
    await api('PATCH', `folders/${folder.id}`, now);
    await refreshFolders();
    rerender();
  },
});

export function deleteFolder(folder) {
  const restore = hideFolder(folder);
  go(`${base}/files`);
  deleteLater(t('folder.deleted', { name: shorten(folder.name) }), [`folders/${folder.id}`], () => {
    restore();
    rerender();
  });
}
