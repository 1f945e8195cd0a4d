// The dialogs for one record: the editor and the share dialog.
import { addActions, ago, all, button, capitalize, find, grow, h, hasPointer, icon, iconButton, plural, toast } from './dom.js';
import { copyLink, copyText, Form, openDialog, openForm } from './forms.js';
import { apiPathOf, fieldOf, kindOf, kinds, shareAddressOf, tagNames, titleOf } from './kinds.js';
import { fetchRecord, removeRecords, updateRows } from './list.js';
import { api, base, countChange, create, countItems, draftKey, loadModule, localAddress, Problem, refreshFolders, refreshTags, showProblem, storage, tagColor, view } from './session.js';

const visibilityFields = [
  { name: 'isPublic', label: 'Anyone with the link can see it', type: 'check' },
  { name: 'isFavorite', label: 'Favourite', type: 'check' },
];
const slugField = (k) => ({
  name: 'slug', label: 'Address', plain: true, alias: 'newSlug',
  hint: `The end of its address: letters, digits and . _ ~ @ -. Leave it empty for a random one${k.name === 'shortlink' ? ', such as …/s/k7Qm2xWb9a' : ''}.`,
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
  const d = openDialog(fresh ? `New ${k.one}` : titleOf(r), {
    panel: true, onclose: (reason) => {
      clearTimeout(timer);
      if (reason !== 'done') keepDraft();
      if (editor === d) editor = null;
      onclose?.(reason, saved);
    },
  });
  editor = d;
  d.record = r;
  const form = new Form([...k.fields, { name: 'tags', label: 'Tags', type: 'tags' }, slugField(k), ...visibilityFields], initial);
  const status = h('small.soft', { 'aria-live': 'polite' });
  const save = h('button.main', {}, fresh ? `Add ${k.one}` : 'Save');
  const node = h('form', { novalidate: true }, form.node, h('div.row.foot', {}, save, button('dialog-close', 'Cancel'), status));
  form.node.append(h('details.field', {}, h('summary', {}, 'Address and visibility'), form.controls.slice(-3).map((c) => c.node)));

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
    timer = setTimeout(() => { keepDraft(); status.textContent = storage.get(key) ? 'Kept on this device until you save' : ''; }, 300);
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
      h('a.button.quiet.square', { href: localAddress(r.kind === 'bookmark' ? r.url : shareAddressOf(r)), target: '_blank', rel: 'noopener noreferrer', 'aria-label': 'Open', title: 'Open' }, icon('open')),
      iconButton('editor-share', 'share', 'Share'), iconButton('editor-delete', 'trash', 'Delete'));
  }
  d.body.append(node);
  const draft = storage.get(key);
  if (draft && !equal(draft.values, initial)) {
    form.set(draft.values);
    const note = h('p.note', {}, h('span', {}, `What you typed ${ago(draft.at)} was kept and is shown here. `), button('none', 'Start over'));
    find('button', note).onclick = () => { storage.set(key, null); form.set(initial); note.remove(); };
    node.prepend(note);
  }
  for (const area of all('textarea', node)) grow(area);
  const first = form.controls.find((c) => fresh && c.f.type !== 'check' && !c.input.value) ?? form.controls[0];
  if (fresh || hasPointer()) first.input.focus();
}

// withBookmarks uses the module of bookmarks. Nothing waits for it, and nothing is lost if it cannot be loaded.
const withBookmarks = (use) => void loadModule('bookmarks').then(use, () => {});

// showSaved shows a record that was saved. duplicates are other bookmarks of the same page.
export function showSaved(r, fresh, duplicates) {
  if (r.kind === 'bookmark') withBookmarks((m) => m.showSaved(r, duplicates));
  if (tagNames(r).some((n) => !tagColor(n))) refreshTags().then(() => updateRows(r));
  if (r.kind === 'file') refreshFolders().then(() => view?.redraw?.());
  if (!fresh) {
    updateRows(r);
    toast('Saved.', { time: 2500 });
    return;
  }
  countChange();
  countItems(r.kind, 1);
  if (view?.accepts?.(r)) view.list.prepend(r);
  // The module of bookmarks shows its own message for duplicates.
  if (duplicates?.length) return;
  const action = r.isPublic || r.kind === 'shortlink' ? 'Copy link' : 'Share';
  toast(`${capitalize(kindOf(r).one)} added.`, { action, run: () => r.isPublic ? copyLink(shareAddressOf(r)) : share(r) });
}

// ---- Sharing ----

const ends = { never: 'Never', hour: 'In an hour', day: 'In a day', week: 'In a week', month: 'In a month', other: 'At …' };
const milliseconds = { hour: 36e5, day: 864e5, week: 6048e5, month: 2592e6 };

// shareChanges returns the changes in the share dialog to send to the server.
function shareChanges(r, k, now) {
  const body = {};
  if (now.isPublic !== r.isPublic) body.isPublic = now.isPublic;
  if (now.password) body.password = now.password;
  else if (now.noPassword) body.password = '';
  if (now[k.limit] !== (r[k.limit] ?? null)) body[k.limit] = now[k.limit];
  if (now[k.limit] && now.maxViewsAction !== (r.maxViewsAction ?? 'make_private')) body.maxViewsAction = now.maxViewsAction;
  const span = milliseconds[now.ends];
  const end = now.ends === 'never' ? null : span ? new Date(Date.now() + span).toISOString() : now.expiresAt;
  if (now.ends === 'other' && !end) throw new Problem('', 0, { expiresAt: 'is needed' });
  const sameMinute = end && r.expiresAt && Math.abs(Date.parse(end) - Date.parse(r.expiresAt)) < 60e3;
  if (!sameMinute && end !== (r.expiresAt ?? null)) body.expiresAt = end;
  return body;
}

function share(r) {
  const k = kindOf(r);
  const address = shareAddressOf(r);
  const linkField = (text, label) => h('div.field', {}, h('span.label', {}, label),
    h('span.join', {}, h('input.mono', { readonly: true, value: text, 'aria-label': label }), button('copy-text', '', { 'data-text': text, 'aria-label': `Copy: ${label}` }, icon('copy'), 'Copy')));
  const links = h('div.shared', {}, linkField(address, r.kind === 'file' ? 'Link to its page' : 'Link'),
    r.kind === 'file' && linkField(r.url, 'Link to the file itself'),
    h('details.qr', {}, h('summary', {}, 'QR code')),
    h('p.soft', {}, `${plural(r[k.counter] ?? 0, k.unit)} so far.`));
  find('.qr', links).addEventListener('toggle', (e) => {
    if (e.target.open && !find('img', e.target)) e.target.append(h('img', { src: `${base}/api/v1/qr?text=${encodeURIComponent(address)}`, alt: `QR code of ${address}`, width: '200', height: '200' }));
  });
  const d = openForm({
    title: `Share ${titleOf(r)}`,
    fields: [
      { name: 'isPublic', label: 'Anyone with the link can see it', type: 'check' },
      { name: 'password', label: r.hasPassword ? 'New password' : 'Password', type: 'password', autocomplete: 'new-password', placeholder: r.hasPassword ? 'set; type to change it' : 'none' },
      ...(r.hasPassword ? [{ name: 'noPassword', label: 'Remove the password', type: 'check' }] : []),
      { name: k.limit, label: `Maximum ${k.unit}s`, type: 'number', min: 1, half: true, placeholder: 'no limit' },
      { name: 'maxViewsAction', label: 'After that', type: 'choice', required: true, half: true, choices: { make_private: 'make it private', delete: 'delete it' } },
      { name: 'ends', label: 'Ends', type: 'choice', required: true, half: true, choices: ends },
      { name: 'expiresAt', label: 'Date and time', type: 'time', half: true, onlyFor: { ends: ['other'] } },
    ],
    values: { ...r, password: '', maxViewsAction: r.maxViewsAction ?? 'make_private', ends: r.expiresAt ? 'other' : 'never' },
    run: async (now) => {
      const body = shareChanges(r, k, now);
      if (!Object.keys(body).length) return;
      const saved = (await api('PATCH', apiPathOf(r), body)).data;
      updateRows(saved);
      if (editor?.record?.id === r.id) editor.record = saved;
      if (saved.isPublic && !r.isPublic) toast(await copyText(address) ? 'Public. The link is copied.' : 'Public.');
      else toast(saved.isPublic ? 'Saved.' : 'Private: only you can see it.', { time: 3000 });
    },
  });
  d.body.prepend(links);
  d.el.classList.add('sharing');
  find('[name=isPublic]', d.el).focus();
}

// openShare opens the share dialog. A search result does not have all fields, so the record may have to be read first.
export async function openShare(r) {
  try { share('isPublic' in r ? r : await fetchRecord(r)); } catch (e) { showProblem(e); }
}

addActions({
  'editor-share': () => share(editor.record),
  'editor-delete': () => { const r = editor.record; closeEditor('deleted'); removeRecords([r]); },
});
