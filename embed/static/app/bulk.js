// Changing the selected records, and folders.
import { shorten, t, toast } from './dom.js';
import { openForm } from './forms.js';
import { apiPathOf, tagNames } from './kinds.js';
import { updateRows } from './list.js';
import { go, rerender } from './router.js';
import { api, base, deleteLater, hideFolder, Problem, refreshFolders, refreshTags, showProblem } from './session.js';

// saveEach changes several records, four at a time. At the end it shows done, or how many could not be changed.
async function saveEach(records, bodyOf, done) {
  const queue = [...records];
  let problem = null, failures = 0;
  const progress = records.length > 8 && toast(t('list.changing', { n: records.length }), { time: 60000 });
  await Promise.all(Array.from({ length: 4 }, async () => {
    for (let r; (r = queue.shift());) {
      try { updateRows((await api('PATCH', apiPathOf(r), bodyOf(r))).data); } catch (e) { problem = e; failures++; }
    }
  }));
  if (progress) progress.end();
  refreshTags();
  if (problem) showProblem(new Problem(t('list.notChanged', { n: failures, why: problem.message })));
  else toast(done, { time: 3000 });
}

export function tagEach(records) {
  const present = [...new Set(records.flatMap(tagNames))];
  openForm({
    title: t('list.tagsTitle', { n: records.length }), button: t('common.apply'),
    fields: [{ name: 'more', label: t('list.addTags'), type: 'tags' }, ...(present.length ? [{ name: 'less', label: t('list.removeTags'), type: 'checks', choices: Object.fromEntries(present.map((n) => [n, n])) }] : [])],
    run: ({ more, less = [] }) => {
      saveEach(records, (r) => ({ tags: [...new Set([...tagNames(r), ...more])].filter((n) => !less.includes(n)) }), t('list.tagsChanged'));
    },
  });
}

export function moveEach(records) {
  openForm({
    title: t('list.moveTitle', { n: records.length }), button: t('list.move'), text: t('list.moveHint'),
    fields: [{ name: 'folderName', label: t('list.folder'), type: 'folder' }],
    run: ({ folderName }) => {
      const move = async () => {
        await saveEach(records, () => folderName.trim() ? { folderName } : { folderId: null }, t('list.moved'));
        await refreshFolders();
        rerender();
      };
      move();
    },
  });
}

export function shareEach(records) {
  openForm({
    title: t('list.shareTitle', { n: records.length }), button: t('common.apply'),
    fields: [{ name: 'isPublic', label: t('list.whoSeesThem'), type: 'choice', choices: { true: t('common.anyone'), false: t('common.onlyMe') } },
      { name: 'isFavorite', label: t('kind.favourites'), type: 'choice', choices: { true: t('list.mark'), false: t('list.unmark') } }],
    run: (now) => {
      const body = Object.fromEntries(Object.entries(now).filter(([, v]) => v !== null).map(([n, v]) => [n, v === 'true']));
      if (Object.keys(body).length) saveEach(records, () => body, t('list.changed'));
    },
  });
}

export const newFolder = () => openForm({
  title: t('folder.new'), fields: [{ name: 'name', label: t('forms.name'), required: true }], button: t('folder.create'),
  run: async (now) => {
    const folder = (await api('POST', 'folders', now)).data;
    await refreshFolders();
    go(`${base}/files?folder=${folder.id}`);
  },
});

export const renameFolder = (folder) => openForm({
  title: t('folder.rename', { name: folder.name }), fields: [{ name: 'name', label: t('forms.name'), required: true }], values: folder,
  run: async (now) => { await api('PATCH', `folders/${folder.id}`, now); await refreshFolders(); rerender(); },
});

export function deleteFolder(folder) {
  const restore = hideFolder(folder);
  go(`${base}/files`);
  deleteLater(t('folder.deleted', { name: shorten(folder.name) }), [`folders/${folder.id}`], () => { restore(); rerender(); });
}
