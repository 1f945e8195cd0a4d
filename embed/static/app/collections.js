// Collections: many items behind one link. Making one. It uses nothing of view. kind.js calls shareFolder,
// selection.js shareTogether, and uploads.js shareUploads.
import { t, toast } from './dom.js';
import { openForm } from './forms.js';
import { openShare, updateRows } from './list.js';
import { api, countChange, countItems, Problem, showProblem } from './session.js';

const most = 500; // on a page of the API

// make asks for a title and makes a public collection of a source.
async function make(title, source) {
  const r = (await api('POST', 'collections', { title, isPublic: true, source })).data;
  countChange();
  countItems('collection', 1);
  openShare(r);
}

// shareFolder makes a collection of what is in a folder, now and later.
export const shareFolder = (folder) => openForm({
  title: t('collections.shareFolder'), text: t('collections.liveHint'), button: t('common.share'),
  fields: [{ name: 'title', label: t('collections.title'), required: true }], values: { title: folder.name },
  run: (now) => make(now.title, { folderId: folder.id }),
});

// shareUploads makes a collection of what was uploaded, in the order of folders and names, or adds it to one, and calls
// shared then. Files of one folder have its name as a suggestion.
export function shareUploads(uploads, shared) {
  const { compare } = new Intl.Collator(undefined, { numeric: true });
  const folder = (u) => u.fields.folderName ?? '';
  const sorted = [...uploads].sort((a, b) => compare(folder(a), folder(b)) || compare(a.file.name, b.file.name));
  const names = new Set(sorted.map((u) => folder(u).split(' / ')[0]));
  return shareTogether(sorted.map((u) => u.record), names.size === 1 ? [...names][0] : '', shared);
}

// shareTogether makes a collection of items, or adds them to one, and calls shared then. title is what a new one may be
// called.
export async function shareTogether(records, title = '', shared = () => {}) {
  let others = [];
  try {
    const listed = (await api('GET', `collections?limit=${most}&sort=updated&from=all`)).data;
    others = listed.filter((r) => !r.source?.folderId && !r.source?.tag && r.role !== 'see');
  } catch (e) { return showProblem(e); }
  const ids = records.map((r) => r.id);
  const choices = Object.fromEntries(others.map((r) => [r.id, r.title]));
  const addTo = { name: 'to', label: t('collections.orAddTo'), type: 'choice', choices };
  return openForm({
    title: t('collections.together', { n: ids.length }), text: t('collections.togetherHint'), button: t('common.share'),
    fields: [{ name: 'title', label: t('collections.title') }, ...(others.length ? [addTo] : [])], values: { title },
    run: async ({ title: chosen, to }) => {
      if (!to && !chosen.trim()) throw new Problem('', 0, { title: t('forms.required') });
      if (!to) return make(chosen, { items: ids }).then(shared);
      const r = (await api('POST', `collections/${to}/items`, { add: ids })).data;
      shared();
      updateRows(r);
      return toast(t('collections.added', { title: r.title }), { action: t('common.share'), run: () => openShare(r) });
    },
  });
}
