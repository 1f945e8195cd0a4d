// The editor of a record, with the draft that this browser keeps. It owns the one open editor and decides what happens
// when the record was changed elsewhere meanwhile. It uses nothing of view. The router calls openNew, and with the
// reader and the viewer openEditor.
import { removeRecords } from './deleting.js';
import { addActions, ago, all, button, grow, h, hasPointer, icon, iconButton, t } from './dom.js';
import { Form, openDialog } from './forms.js';
import { apiPathOf, fieldOf, kinds, shareAddressOf, tagNames, titleOf } from './kinds.js';
import { fetchRecord, openShare, showSaved, updateRows, withBookmarks } from './list.js';
import { api, create, draftKey, loadModule, localAddress, nowOrLater, showProblem, storage } from './session.js';

const visibilityFields = [
  { name: 'isPublic', label: t('editor.anyone'), type: 'check' },
  { name: 'isFavorite', label: t('kind.favourite'), type: 'check' },
];
const slugField = {
  name: 'slug', label: t('editor.slug'), plain: true, alias: 'newSlug',
  hint: t('editor.slugHint'),
};

// pictures are the fields of the own file that is the picture of a recipe or a game, and of the address that may be it,
// and what the picture is called.
const pictures = {
  recipe: ['photoId', 'imageUrl', t('editor.photo')], game: ['coverId', 'coverUrl', t('editor.cover')],
};

// pictureField is the field of that file of r, a record or null. own.js draws what there is beside the button.
const pictureField = (r, name, url, label) => ({
  name, type: 'own', label,
  make(c, value) {
    const draw = (choosing) => loadModule('own').then((m) => m.drawPicture(c, r, url, choosing)).catch(showProblem);
    c.input = h('button', { type: 'button', id: c.id }, icon('plus'), t('editor.choose'));
    c.input.onclick = () => draw(true);
    c.el = h('div.photo', { role: 'group', 'aria-label': label }, c.input);
    c.get = () => value;
    c.set = (v) => {
      value = v ?? null;
      if (c.drawn || value || r?.[url]) draw(false);
    };
    c.set(value);
    return c;
  },
});

// valuesOf returns the values that the editor shows for a record; r is null for a new one.
function valuesOf(k, r) {
  const values = {};
  const empty = { number: null, choice: null, time: null, check: false };
  const [own, url] = pictures[k.name] ?? [];
  for (const f of k.fields) {
    if (f.name === url) values[own] = r?.[own] ?? null; // in the order of the form
    values[f.name] = r?.[f.name] ?? empty[f.type] ?? '';
  }
  if (k === kinds.file) values.folderName = r?.folder?.name ?? '';
  values.tags = r ? tagNames(r) : [];
  values.slug = r?.slug ?? '';
  values.isPublic = r?.isPublic ?? false;
  values.isFavorite = r?.isFavorite ?? false;
  if (k === kinds.collection && !r) Object.assign(values, { allowDownload: true, sort: 'manual' });
  return values;
}

const equal = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// missingIn are the tags of a list that are not in another one.
const missingIn = (other, names) => names.filter((n) => !other.some((o) => o.toLowerCase() === n.toLowerCase()));

// changesOf returns what to send to the server: all entered values of a new record, only changed ones of an existing
// one. Of the tags of an existing one, it names those that come and go, because others may have changed meanwhile.
function changesOf(k, old, now, fresh) {
  const out = {};
  for (const [name, value] of Object.entries(now)) {
    if (name === 'tags' && !fresh) {
      const addTags = missingIn(old.tags, value), removeTags = missingIn(value, old.tags);
      Object.assign(out, addTags.length && { addTags }, removeTags.length && { removeTags });
      continue;
    }
    const v = typeof value === 'string' && !fieldOf(k, name)?.keepSpaces ? value.trim() : value;
    if (fresh ? v === '' || v === null || equal(v, []) : equal(v, old[name])) continue;
    if (name === 'slug' && !v) continue;
    out[name] = v;
  }
  if (fresh) for (const f of k.fields) if (f.keepSpaces) out[f.name] = now[f.name];
  if (k === kinds.file && 'slug' in out) {
    out.newSlug = out.slug;
    delete out.slug;
  }
  if (k === kinds.file && out.folderName === '') {
    out.folderId = null;
    delete out.folderName;
  }
  return out;
}

// merged are the values that a record has once the changes from old to now are made to it.
function merged(old, now, theirs) {
  const out = { ...theirs };
  for (const name of Object.keys(now)) if (!equal(now[name], old[name])) out[name] = now[name];
  if (!now.tags) return out;
  const added = missingIn(old.tags, now.tags), removed = missingIn(now.tags, old.tags);
  out.tags = [...missingIn(removed, theirs.tags), ...missingIn(theirs.tags, added)];
  return out;
}

// wordsOf is the value of a field as a text, to show what differs.
function wordsOf(f, v) {
  if (f.type === 'check' || f.make) return v ? '✓' : '–';
  return Array.isArray(v) ? v.join(', ') : String(f.choices?.[v] ?? v ?? '');
}

// continueList begins the next line of a Markdown list as the one before. A line without words ends the list.
function continueList(e) {
  const { target: area, inputType } = e, { selectionStart: at, selectionEnd: end, value } = area;
  if (inputType !== 'insertLineBreak' || area.name !== 'content' || at !== end) return;
  const line = value.slice(value.lastIndexOf('\n', at - 1) + 1, at);
  const [, space, mark, gap, box, words] = /^(\s*)([-*+]|\d+[.)])(\s+)(\[[ xX]\]\s+)?(.*)/.exec(line) ?? [];
  if (!mark) return;
  e.preventDefault();
  if (!words.trim()) area.setSelectionRange(at - line.length, at);
  const next = mark.replace(/\d+/, (n) => Number(n) + 1), begun = `\n${space}${next}${gap}${box ? '[ ] ' : ''}`;
  document.execCommand(words.trim() ? 'insertText' : 'delete', false, begun); // it can be undone
}

// Of these kinds a second one can be made of what is in the form.
const canBeTwo = (k) => k !== kinds.file && k !== kinds.collection;

// editor is the open dialog.
let editor = null;

const closeEditor = (reason) => editor?.el.close(reason);

// openNew opens the editor for a new record at an address. The parameters of the address can fill fields, as the
// bookmarklet does; they are then taken from them.
export async function openNew({ kind, params }, onclose) {
  const values = {};
  for (const name of ['url', 'title', 'description', kind.quick]) {
    values[name] ??= params.get(name) ?? '';
    params.delete(name);
  }
  if (values.url) return openEditor(kind, null, { values, draft: values.url, onclose });
  const typed = values[kind.quick] ? { [kind.quick]: values[kind.quick] } : {};
  return openEditor(kind, null, { values: typed, onclose });
}

// openEditor opens the editor for a record, or for a new one if r is null. values replaces empty fields of a new
// record, draft names the draft that this browser keeps, and onclose is called with the reason and
// what was saved, if anything was.
export async function openEditor(k, r, { values = {}, draft: draftName = 'new', onclose = null } = {}) {
  const fresh = !r;
  if (!fresh && !r.etag) r = await fetchRecord(r);
  closeEditor('replaced');

  let saved = null;
  const name = `${k.name}.${fresh ? draftName : r.id}`, key = draftKey(name);
  const draft = storage.get(key) ?? r?.waiting;
  // What the form was filled from: the values, and the entity tag of the record, so that a save replaces nothing else.
  let old = valuesOf(k, r), etag = r?.etag, unseen = false;
  const stale = !fresh && draft?.etag && draft.etag !== etag;
  if (stale || r?.waiting) ({ old, etag } = draft);
  const initial = () => ({ ...old, ...values });

  // The dialog.
  let timer = 0;
  const d = openDialog(fresh ? t('editor.new', { kind: k.one }) : titleOf(r), {
    panel: true, onclose: (reason) => {
      clearTimeout(timer);
      if (!['done', 'kept'].includes(reason)) keepDraft();
      if (editor === d) editor = null;
      if (saved?.waiting) updateRows(saved);
      onclose?.(reason, saved);
    },
  });
  editor = d;
  d.record = r;
  const tagsField = { name: 'tags', label: t('tags.title'), type: 'tags' };
  // Of what others own, only the words can be changed.
  const words = k.fields.filter((f) => !/url$/i.test(f.name) && f.type !== 'folder')
    .map((f) => ({ ...f, foreign: true }));
  const [own, url, label] = pictures[k.name] ?? [];
  const ofKind = k.fields.flatMap((f) => f.name === url ? [pictureField(r, own, url, label), f] : [f]);
  const fields = r?.owner ? words : [...ofKind, tagsField, slugField, ...visibilityFields];
  const form = new Form(fields, initial());
  if (k === kinds.note) form.node.addEventListener('beforeinput', continueList);
  const status = h('small.soft', { 'aria-live': 'polite' });
  const save = h('button.main', {}, fresh ? t('editor.add', { kind: k.one }) : t('common.save'));
  const node = h('form', { novalidate: true },
    form.node, h('div.row.foot', {}, save, button('dialog-close', t('common.cancel')), status));
  if (!r?.owner) {
    form.node.append(h('details.field', {},
      h('summary', {}, t('editor.linkAndVisibility')), form.controls.slice(-3).map((c) => c.node)));
  }

  // ---- The draft ----

  // draftNow is what this browser keeps of the form; null if nothing was typed.
  function draftNow() {
    const now = form.draft;
    if (equal(now, initial()) || fresh && equal(now, old)) return null;
    return { at: new Date().toISOString(), values: now, ...(!fresh && { old, etag }) };
  }
  const keepDraft = () => storage.set(key, draftNow());
  function dropDraft() {
    clearTimeout(timer);
    storage.set(key, null);
  }

  node.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (editor !== d) return; // a picture came too late
      keepDraft();
      if (!save.disabled) status.textContent = storage.get(key) ? t('editor.kept') : '';
    }, 300);
  });

  // ---- Saving, and changes from elsewhere ----

  // finish closes the editor with what the server has now.
  function finish(record) {
    dropDraft();
    saved = record;
    d.el.close('done');
  }

  // send sends what the user changed, over the record that they have seen, or has this device keep it.
  function send(body) {
    const path = apiPathOf(r), id = crypto.randomUUID?.(); // only with HTTPS, like a service worker
    const request = { method: 'PATCH', path, body, etag, id, draft: { name, ...draftNow() } };
    return nowOrLater(() => api('PATCH', path, body, { etag }), request);
  }

  // clashing are the fields that were changed here and elsewhere, to different values. Tags never clash.
  const clashing = (mine, now) => fields.filter(({ name: n, type }) => type !== 'tags' &&
    !equal(mine[n], old[n]) && !equal(now[n], old[n]) && !equal(mine[n], now[n]));

  // takeIn lets the form go on with the record as it is now, and with what the user has changed.
  function takeIn(theirs) {
    const mine = form.values, now = valuesOf(k, theirs), both = merged(old, mine, now);
    unseen ||= !equal(now, old);
    [r, old, etag] = [theirs, now, theirs.etag];
    d.record = theirs;
    d.heading.textContent = titleOf(theirs);
    if (!equal(mine, both)) form.set(both);
  }
  d.takeIn = (theirs) => {
    if (!clashing(form.values, valuesOf(k, theirs)).length) takeIn(theirs);
  };

  // ask lets the user choose what stays. theirs is the record as it was changed elsewhere, or null if it is gone.
  async function ask(theirs) {
    const mine = form.values, now = theirs && valuesOf(k, theirs);
    const differ = theirs ? fields.filter(({ name: n }) => [mine, now].some((v) => !equal(v[n], old[n]))) : [];
    const texts = differ.map((f) => {
      const [before, here, elsewhere] = [old, mine, now].map((v) => wordsOf(f, v[f.name]));
      return { ...f, old: before, mine: here, theirs: elsewhere };
    });
    const keepBoth = async (second) => {
      const { slug, isPublic, ...rest } = mine; // the second one has a link of its own, and nobody else sees it
      if (rest.title) rest.title = second(rest.title);
      const answer = await create(k.api, changesOf(k, {}, rest, true));
      finish(theirs);
      if (theirs) updateRows(theirs);
      if (answer) showSaved(answer.data, true, answer.duplicateOf);
    };
    (await loadModule('conflict')).openConflict({
      when: theirs?.updatedAt, keepBoth: canBeTwo(k) ? keepBoth : null,
      keepMine() {
        takeIn(theirs);
        return saveForm();
      },
      takeTheirs() {
        finish(theirs);
        updateRows(theirs);
      },
      fields: texts,
    });
  }

  async function saveForm() {
    const body = changesOf(k, old, form.values, fresh);
    if (!fresh && !Object.keys(body).length) return finish(r);
    if (unseen && k.versioned) body.keepVersion = true;
    keepDraft();
    try {
      const answer = fresh ? await create(k.api, body) : await send(body);
      if (!answer && !fresh) {
        clearTimeout(timer); // it may be sent, and its draft gone, before this is closed
        node.inert = true;
        saved = await fetchRecord(r).catch(() => null); // with what waits
        return d.el.close('kept'); // the draft shows what was typed until it is sent
      }
      finish(answer?.data);
      if (answer) showSaved(answer.data, fresh, answer.duplicateOf);
    } catch (e) {
      if (e.record?.etag === etag) throw e; // something between here and the server changes the tags
      if (e.record && !clashing(form.values, valuesOf(k, e.record)).length) {
        takeIn(e.record);
        return saveForm();
      }
      if (!e.record && (fresh || e.status !== 404 || !canBeTwo(k))) throw e;
      await ask(e.record);
    }
    return null;
  }
  // uploaded waits for the files that the texts wait for. It returns false if the editor was closed meanwhile.
  async function uploaded() {
    for (let n = form.waits; n && editor === d; n = form.waits) {
      status.textContent = t('editor.waits', { n });
      await new Promise((go) => { node.addEventListener('input', go, { once: true }); });
    }
    status.textContent = '';
    return editor === d;
  }
  node.addEventListener('submit', async (e) => {
    e.preventDefault();
    if (save.disabled || !form.check()) return;
    save.disabled = true;
    try {
      if (await uploaded() && form.check()) await saveForm();
    } catch (problem) {
      form.showProblem(problem);
    } finally {
      save.disabled = false;
    }
  });

  // ---- The start ----

  // fillDraft puts what the user had typed before into the form, and says so.
  function fillDraft() {
    form.set(draft.values);
    const clashes = stale && clashing(form.values, valuesOf(k, r)).length > 0;
    if (stale && !clashes) takeIn(r);
    const discard = button('none', t('editor.discard'));
    const note = h('p.note', {}, h('span', {}, t('editor.draft', { when: ago(draft.at) })), discard);
    discard.onclick = () => {
      if (r?.waiting) return loadModule('waiting').then((m) => m.takeBack(r, name)).then(() => d.el.close('done'));
      [old, etag] = [valuesOf(k, r), r?.etag];
      storage.set(key, null);
      form.set(initial());
      note.remove();
    };
    if (equal(form.draft, initial())) storage.set(key, null); // it was sent meanwhile
    else node.prepend(note);
    if (clashes) ask(r).catch((e) => form.showProblem(e));
  }

  if (fresh && k === kinds.bookmark) watchAddress(form);
  if (!fresh) d.tools.prepend(...toolsOf(k, r));
  d.body.append(node);
  if (draft && !equal(draft.values, initial())) fillDraft();
  for (const area of all('textarea', node)) grow(area);
  const first = form.controls.find((c) => fresh && c.f.type !== 'check' && !c.input.value) ?? form.controls[0];
  if (fresh || hasPointer()) first.input.focus();
}

// watchAddress says below the address of a new bookmark whether there is one already, once it has an address.
function watchAddress(form) {
  const [address] = form.controls, watch = () => withBookmarks((m) => m.watch(address));
  if (address.get()) watch();
  else address.el.addEventListener('change', watch, { once: true });
}

// toolsOf are the buttons above the form of a record that exists.
function toolsOf(k, r) {
  const open = h('a.button.quiet.square', {
    href: localAddress(r.kind === 'bookmark' ? r.url : shareAddressOf(r)), target: '_blank', rel: 'noopener noreferrer',
    'aria-label': t('common.open'), title: t('common.open'),
  }, icon('open'));
  if (r.owner) return [open];
  return [
    open,
    iconButton('editor-share', 'share', t('common.share')),
    ...(k === kinds.file ? [iconButton('editor-replace', 'history', t('editor.replace'))] : []),
    iconButton('editor-delete', 'trash', t('common.delete')),
  ];
}

// The share dialog above the editor changes the record too.
document.addEventListener('record', ({ detail: r }) => {
  if (r.etag && editor?.record?.id === r.id) editor.takeIn(r);
});

addActions({
  'editor-share': () => openShare(editor.record),
  'editor-replace': () => loadModule('replace').then((m) => m.openReplace(editor.record)).catch(showProblem),
  'editor-delete'() {
    const r = editor.record;
    closeEditor('deleted');
    removeRecords([r]);
  },
});
