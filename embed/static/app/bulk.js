// Changing the selected records, and folders. It owns the forms that do so, and uses nothing of view. The router and
// the pages call it by withBulk.
import { shorten, t, toast } from './dom.js';
import { openForm } from './forms.js';
import { tagNames } from './kinds.js';
import { change, changeAll, fetchRecord, updateRows } from './list.js';
import { go, rerender } from './router.js';
import {
  api, base, deleteLater, hideFolder, Problem, refreshFolders, refreshTags, showProblem,
} from './session.js';

// saveEach changes several records in the same way, and redraws them. At the end it shows done, or how many could not
// be changed.
async function saveEach(records, set, done) {
  const progress = records.length > 8 && toast(t('list.changing', { n: records.length }), { time: 60000 });
  const problems = await changeAll(records, { set });
  const queue = records.filter((r) => !problems.has(r));
  const readQueue = async () => {
    while (queue.length) await fetchRecord(queue.shift()).then(updateRows, () => {}); // it is changed, if not shown
  };
  await Promise.all(Array.from({ length: 4 }, readQueue));
  if (progress) progress.end();
  refreshTags();
  if (!problems.size) return void toast(done, { time: 3000 });
  const [first] = problems.values();
  showProblem(new Problem(t('list.notChanged', { n: problems.size, why: first.message })));
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
