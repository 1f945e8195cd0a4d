// The editor of a record.
import { addActions, ago, all, button, find, grow, h, hasPointer, icon, iconButton, t } from './dom.js';
import { Form, openDialog } from './forms.js';
import { apiPathOf, fieldOf, kinds, shareAddressOf, tagNames, titleOf } from './kinds.js';
import { openShare, removeRecords, showSaved, withBookmarks } from './list.js';
import { api, create, draftKey, localAddress, showProblem, storage } from './session.js';

const visibilityFields = [
  { name: 'isPublic', label: t('editor.anyone'), type: 'check' },
  { name: 'isFavorite', label: t('kind.favourite'), type: 'check' },
];
const slugField = (k) => ({
  name: 'slug', label: t('editor.slug'), plain: true, alias: 'newSlug',
  hint: t('editor.slugHint'),
});

// valuesOf returns the values that the editor shows for a record; r is null for a new one.
function valuesOf(k, r) {
  const values = {};
  for (const f of k.fields) values[f.name] = r?.[f.name] ?? ({ number: null, choice: null, time: null, check: false }[f.type] ?? '');
  if (k === kinds.file) values.folderName = r?.folder?.name ?? '';
  values.tags = r ? tagNames(r) : [];
  values.slug = r?.slug ?? '';
  values.isPublic = r?.isPublic ?? false;
  values.isFavorite = r?.isFavorite ?? false;
  if (k === kinds.collection && !r) Object.assign(values, { allowDownload: true, sort: 'manual' });
  return values;
}

const equal = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// changesOf returns what to send to the server: all entered values of a new record, only changed ones of an existing one.
function changesOf(k, old, now, fresh) {
  const out = {};
  for (const [name, value] of Object.entries(now)) {
    const v = typeof value === 'string' && !fieldOf(k, name)?.keepSpaces ? value.trim() : value;
    if (fresh ? v === '' || v === null || equal(v, []) : equal(v, old[name])) continue;
    if (name === 'slug' && !v) continue;
    out[name] = v;
  }
  if (fresh) for (const f of k.fields) if (f.keepSpaces) out[f.name] = now[f.name];
  if (k === kinds.file) {
    if ('slug' in out) { out.newSlug = out.slug; delete out.slug; }
    if (out.folderName === '') { out.folderId = null; delete out.folderName; }
  }
  return out;
}

// editor is the open dialog.
let editor = null;

const closeEditor = (reason) => editor?.el.close(reason);

// openEditor opens the editor for a record, or for a new one if r is null. values replaces empty fields of a new
// record, draft names the draft that this browser keeps, and onclose is called with the reason and
// what was saved, if anything was.
export async function openEditor(k, r, { values = {}, draft: draftName = 'new', onclose = null } = {}) {
  closeEditor('replaced');
  const fresh = !r;
  let saved = null;
  const old = valuesOf(k, r), initial = { ...old, ...values };
  const key = draftKey(`${k.name}.${fresh ? draftName : r.id}`);
  let timer = 0;
  const d = openDialog(fresh ? t('editor.new', { kind: k.one }) : titleOf(r), {
    panel: true, onclose: (reason) => {
      clearTimeout(timer);
      if (reason !== 'done') keepDraft();
      if (editor === d) editor = null;
      onclose?.(reason, saved);
    },
  });
  editor = d;
  d.record = r;
  const form = new Form([...k.fields, { name: 'tags', label: t('tags.title'), type: 'tags' }, slugField(k), ...visibilityFields], initial);
  const status = h('small.soft', { 'aria-live': 'polite' });
  const save = h('button.main', {}, fresh ? t('editor.add', { kind: k.one }) : t('common.save'));
  const node = h('form', { novalidate: true }, form.node, h('div.row.foot', {}, save, button('dialog-close', t('common.cancel')), status));
  form.node.append(h('details.field', {}, h('summary', {}, t('editor.linkAndVisibility')), form.controls.slice(-3).map((c) => c.node)));

  function keepDraft() {
    const now = form.draft;
    storage.set(key, equal(now, initial) || fresh && equal(now, old) ? null : { at: new Date().toISOString(), values: now });
  }
  function dropDraft() {
    clearTimeout(timer);
    storage.set(key, null);
  }

  node.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(() => { keepDraft(); status.textContent = storage.get(key) ? t('editor.kept') : ''; }, 300);
  });
  node.addEventListener('submit', async (e) => {
    e.preventDefault();
    if (!form.check()) return;
    const body = changesOf(k, old, form.values, fresh);
    if (!fresh && !Object.keys(body).length) { dropDraft(); return d.el.close('done'); }
    save.disabled = true;
    keepDraft();
    try {
      const answer = fresh ? await create(k.api, body) : await api('PATCH', apiPathOf(r), body);
      dropDraft();
      saved = answer?.data;
      d.el.close('done');
      if (!answer) return;
      showSaved(answer.data, fresh, answer.duplicateOf);
    } catch (problem) {
      form.showProblem(problem);
    } finally {
      save.disabled = false;
    }
  });
  if (fresh && k === kinds.bookmark) {
    const [address] = form.controls, watch = () => withBookmarks((m) => m.watch(address));
    if (address.get()) watch();
    else address.el.addEventListener('change', watch, { once: true });
  }
  if (!fresh) {
    d.tools.prepend(
      h('a.button.quiet.square', { href: localAddress(r.kind === 'bookmark' ? r.url : shareAddressOf(r)), target: '_blank', rel: 'noopener noreferrer', 'aria-label': t('common.open'), title: t('common.open') }, icon('open')),
      iconButton('editor-share', 'share', t('common.share')), iconButton('editor-delete', 'trash', t('common.delete')));
  }
  d.body.append(node);
  const draft = storage.get(key);
  if (draft && !equal(draft.values, initial)) {
    form.set(draft.values);
    const note = h('p.note', {}, h('span', {}, t('editor.draft', { when: ago(draft.at) })), button('none', t('editor.discard')));
    find('button', note).onclick = () => { storage.set(key, null); form.set(initial); note.remove(); };
    node.prepend(note);
  }
  for (const area of all('textarea', node)) grow(area);
  const first = form.controls.find((c) => fresh && c.f.type !== 'check' && !c.input.value) ?? form.controls[0];
  if (fresh || hasPointer()) first.input.focus();
}

document.addEventListener('record', (e) => { if (editor?.record?.id === e.detail.id) editor.record = e.detail; });

addActions({
  'editor-share': () => openShare(editor.record),
  'editor-delete': () => { const r = editor.record; closeEditor('deleted'); removeRecords([r]); },
});
