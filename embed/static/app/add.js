// Adding items: the box for text, links and files, and files or text dropped or pasted anywhere on a page. It owns the
// box and what is dragged over the window. Of view it uses name, kind and box. The pages of home.js and kind.js make a
// box with addBox; drops and pastes come from the browser.
import {
  add, addActions, button, find, grow, h, hasPointer, icon, isAddress, localDateTime, problemText, t, toast,
} from './dom.js';
import { fieldOf, kinds } from './kinds.js';
import { showSaved } from './list.js';
import { go } from './router.js';
import { api, base, create, draftKey, loadModule, showProblem, storage, view } from './session.js';

const publicFields = (isPublic) => isPublic && { isPublic: true };

async function upload(files, fields) {
  try {
    (await loadModule('uploads')).sendFiles(files, fields);
  } catch (e) {
    toast(e.message, { bad: true, action: t('common.again'), run: () => upload(files, fields) });
  }
}

// whatText is what the box asks for.
function whatText(k, file) {
  if (file) return t('add.dropFiles');
  return k ? k.prompt : t('add.dropAny');
}

// addOptions makes the options of the box: what the user chooses for the next items besides who can see them. They are
// loaded when they are first opened. chosen gets what is set; isSettled takes over what the user has typed but not
// applied, and if it cannot, the options say why.
function addOptions(visibility) {
  let chosen = {}, settle = null;
  const panel = h('div.options', { hidden: true });
  const opener = h('button.quiet', { type: 'button', 'aria-expanded': 'false' }, t('add.options'));

  const itemNow = () => ({ kind: 'file', isPublic: !!visibility.value, ...chosen, hasPassword: !!chosen.password });
  async function choose({ isPublic, ...more }) {
    if (isPublic) visibility.value = '1';
    chosen = Object.fromEntries(Object.entries({ ...chosen, ...more }).filter(([, v]) => v && v.length !== 0));
    const n = Object.keys(chosen).filter((name) => !/Action$/.test(name)).length;
    opener.textContent = n ? t('add.optionsSet', { n }) : t('add.options');
  }
  function show(on) {
    panel.hidden = !on;
    opener.setAttribute('aria-expanded', String(on));
  }

  opener.onclick = async () => {
    try {
      if (!settle) {
        const made = (await loadModule('share')).optionsOf(itemNow, choose);
        add(panel, made.nodes);
        settle = made.settle;
      }
      show(panel.hidden);
      if (!panel.hidden) find('button', panel).focus();
    } catch (e) { showProblem(e); }
  };
  async function isSettled() {
    if (!settle || await settle()) return true;
    show(true);
    find('[aria-invalid]', panel)?.focus();
    return false;
  }
  return { panel, opener, isSettled, chosen: () => chosen };
}

// folderButton has the user choose a folder, whose files are then added as if it were dropped.
export const folderButton = (props) =>
  button('choose-folder', '', props, icon('folder'), t('add.chooseFolder'));

// addBox makes the box for one kind, or for all kinds if kind is null. fields are added to every new item.
export function addBox({ kind = null, fields = () => ({}) } = {}) {
  const k = kind && kinds[kind], file = k === kinds.file, any = !k || file;
  const key = draftKey('box.' + (kind ?? 'any'));
  const mono = k && fieldOf(k, k.quick).mono;
  const label = any ? t('add.anything') : t('editor.new', { kind: k.one });
  const area = h('textarea', {
    rows: '1', 'aria-label': label, spellcheck: mono ? 'false' : null, class: mono ? 'mono' : null,
    placeholder: whatText(k, file), value: storage.get(key, ''),
  });
  const picker = h('input', { type: 'file', multiple: true, hidden: true });
  const visibility = h('select', { 'aria-label': t('add.whoSees') },
    h('option', { value: '' }, t('common.onlyMe')), h('option', { value: '1' }, t('common.anyone')));
  visibility.value = storage.get('public', '');
  visibility.onchange = () => storage.set('public', visibility.value);
  const options = addOptions(visibility);

  // optionsFor are the fields of a new item of a kind. The page may give it tags and a folder too.
  function optionsFor(of) {
    const { folderName, maxViews, tags = [], ...rest } = options.chosen(), { tags: more = [], ...own } = fields();
    if (maxViews) rest[of.limit] = maxViews;
    if (of === kinds.file && folderName) Object.assign(rest, { folderName, folderId: undefined });
    const every = [...new Set([...more, ...tags])];
    return { ...own, ...rest, ...(every.length && { tags: every }) };
  }

  const buttons = h('span.does');
  const problem = h('p.error', { role: 'alert', hidden: true });
  const form = h('form.add', { 'aria-label': label, novalidate: true },
    file ? h('p.soft', {}, icon('upload'), h('span', {}, t('add.dropFolders'))) : area,
    problem,
    h('div.row', {},
      h('span.row', {},
        any && [button('choose', '', {}, icon('upload'), t('add.choose')), folderButton()],
        visibility,
        any && options.opener),
      buttons,
      file && h('a.button', { href: `${base}/remote-upload` }, t('add.fromURL'))),
    options.panel,
    picker);

  // choices are the kinds that the text can become, each with the label of its button. Enter creates the first.
  function choices() {
    const text = area.value.trim();
    if (file || !k && !text) return [];
    if (k) return [[k, k.full ? t('add.write', { kind: k.one }) : t('editor.add', { kind: k.one })]];
    return isAddress(text)
      ? [[kinds.bookmark, t('add.addBookmark')], [kinds.shortlink, t('add.shorten')]]
      : [[kinds.note, t('add.addNote')], [kinds.snippet, t('add.asSnippet')]];
  }

  function otherButton([other, text]) {
    const b = h('button', { type: 'button', value: other.name }, text);
    b.onclick = () => createOf(other);
    return b;
  }

  function draw() {
    storage.set(key, area.value || null);
    grow(area);
    const [first, ...others] = choices();
    const fetches = !k && isAddress(area.value), hasMore = k && !file && !k.full;
    buttons.replaceChildren();
    add(buttons,
      others.map(otherButton),
      fetches && h('button', { type: 'button', act: 'fetch-it' }, t('add.fetch')),
      hasMore && h('button.quiet', { type: 'button', act: 'new' }, t('add.allFields')),
      first && h('button.main', {}, first[1]));
  }

  // typed puts the text of the box into its field.
  function typed(of) {
    const text = area.value.trim();
    if (!text) return {};
    return { [of.quick]: fieldOf(of, of.quick).keepSpaces ? area.value : text };
  }

  function clear() {
    area.value = '';
    draw();
  }

  function complain(e) {
    const texts = Object.values(e.fields ?? {});
    const why = texts.map(problemText).join(t('add.and'));
    problem.textContent = texts.length ? t('add.invalid', { why }) : e.message;
    problem.hidden = false;
  }

  async function createOf(of) {
    if (of.full || !area.value.trim()) return go(`${base}/${of.path}/new`);
    if (!await options.isSettled()) return;
    const body = { ...typed(of), ...optionsFor(of), ...publicFields(visibility.value) };
    problem.hidden = true;
    const isURL = fieldOf(of, of.quick).type === 'url';
    if (isURL && !/^\w+:/.test(body[of.quick])) body[of.quick] = 'https://' + body[of.quick];

    const save = find('.main', buttons);
    if (save) save.disabled = true;
    try {
      const answer = await create(of.api, body);
      clear();
      if (answer) showSaved(answer.data, true, answer.duplicateOf);
    } catch (e) {
      complain(e);
    } finally {
      if (save) save.disabled = false;
      if (hasPointer()) area.focus();
    }
  }

  // fetchFile asks the server to fetch the file at the address.
  async function fetchFile() {
    if (!await options.isSettled()) return;
    problem.hidden = true;
    const body = { url: area.value.trim(), ...optionsFor(kinds.file), ...publicFields(visibility.value) };
    try {
      await api('POST', 'remote-upload', body);
      clear();
      toast(t('add.fetching'), { action: t('common.show'), run: () => go(`${base}/remote-upload`) });
    } catch (e) { complain(e); }
  }

  async function sendFiles(files) {
    if (!await options.isSettled()) return;
    const { tags, folderId, ...rest } = optionsFor(kinds.file);
    upload(files, {
      ...rest,
      ...(folderId && { folderId }),
      ...(tags && { newTags: tags.join(',') }),
      isPublic: visibility.value ? 'true' : 'false',
    });
  }

  function type(text) {
    area.value = area.value ? `${area.value}\n${text}` : text;
    area.focus();
    draw();
  }

  form.addEventListener('submit', (e) => {
    e.preventDefault();
    const [first] = choices();
    if (first) createOf(first[0]);
  });
  area.addEventListener('input', () => {
    problem.hidden = true;
    draw();
  });
  // Enter alone ends a text of one line.
  area.addEventListener('keydown', (e) => {
    if (e.key !== 'Enter' || e.isComposing) return;
    const severalLines = !k || fieldOf(k, k.quick).type === 'text';
    const ends = !e.shiftKey && (!severalLines || isAddress(area.value));
    if (!e.ctrlKey && !e.metaKey && !ends) return;
    e.preventDefault();
    form.requestSubmit();
  });
  picker.addEventListener('change', () => {
    sendFiles([...picker.files]);
    picker.value = '';
  });
  draw();

  const values = () => ({ ...typed(k), ...fields(), isPublic: !!visibility.value });
  const box = { node: form, area, picker, values, clear, type, sendFiles, fetchFile };
  form.box = box;
  return box;
}

addActions({
  choose(el) {
    el.closest('form').box.picker.click();
    loadModule('uploads').catch(() => {});
  },
  'choose-folder': () => loadModule('uploads').then((m) => m.chooseFolder(addFiles)).catch(showProblem),
  'fetch-it': (el) => el.closest('form').box.fetchFile(),
});

// ---- Dropping and pasting ----

function addFiles(files) {
  if (view?.sendFiles) view.sendFiles(files);
  else if (view?.box && (view.name === 'home' || view.kind === kinds.file)) view.box.sendFiles(files);
  else upload(files, { isPublic: storage.get('public') ? 'true' : 'false' });
}

function addText(text) {
  if (!text) return;
  const k = view?.name === 'kind' ? view.kind : null;
  if (view?.box?.area.isConnected) view.box.type(text);
  else if (k && k !== kinds.file) go(`${base}/${k.path}/new?${new URLSearchParams({ [k.quick]: text })}`);
  else go(base + '/').then(() => view.box.type(text));
}

const veil = h('div.veil', { hidden: true, 'aria-hidden': 'true' }, h('p', {}, icon('upload'), t('add.drop')));
document.body.append(veil);

// depth counts the elements that a drag has entered but not left.
let depth = 0;
// ownDrag is true while a part of this page is dragged, which cannot be dropped here.
let ownDrag = false;
const carries = (e, ...types) => types.some((type) => [...(e.dataTransfer?.types ?? [])].includes(type));
const canDrop = (e) => !ownDrag && carries(e, 'Files', 'text/uri-list', 'text/plain');
const inField = (e) => e.target.matches?.('textarea, input');

addEventListener('dragstart', () => { ownDrag = true; });
addEventListener('dragend', () => { ownDrag = false; });
addEventListener('dragenter', (e) => {
  if (!canDrop(e)) return;
  depth++;
  veil.hidden = false;
  if (carries(e, 'Files')) loadModule('uploads').catch(() => {});
});
addEventListener('dragleave', () => {
  depth = Math.max(0, depth - 1);
  veil.hidden = depth === 0;
});
addEventListener('dragover', (e) => {
  if (canDrop(e) && !inField(e)) {
    e.preventDefault();
    e.dataTransfer.dropEffect = 'copy';
  } else if (carries(e, 'Files')) {
    e.preventDefault();
  }
});
addEventListener('drop', (e) => {
  depth = 0;
  veil.hidden = true;
  const files = carries(e, 'Files');
  if (e.defaultPrevented || !canDrop(e) || !files && inField(e)) return; // a text has taken it
  e.preventDefault();
  if (files) addDropped(e.dataTransfer);
  else addText(droppedText(e.dataTransfer));
});

// addDropped adds the files of a drop, and those in its folders. After the event, nothing can be read from it.
async function addDropped({ files, items }) {
  const plain = [...files], entriesOf = (i) => [i.webkitGetAsEntry?.(), i.getAsFile()];
  const entries = [...items].filter((i) => i.kind === 'file').map(entriesOf);
  if (!entries.some(([entry]) => entry?.isDirectory)) return addFiles(plain);
  try {
    const found = await (await loadModule('uploads')).filesIn(entries);
    if (found.unread) toast(t('add.unread', { n: found.unread }), { bad: true });
    addFiles(found.files);
  } catch (e) { showProblem(e); }
}

// droppedText is the first address of a drop, or else its text.
function droppedText(transfer) {
  const address = transfer.getData('text/uri-list').split('\n').find((l) => l && l[0] !== '#');
  return address || transfer.getData('text/plain');
}

// renamed gives a picture from the clipboard a name with the time: they all have the same.
export function renamed(file) {
  if (!/^image\.\w+$/.test(file.name)) return file;
  const stamp = localDateTime(new Date()).replace('T', ' ').replace(':', '.');
  return new File([file], file.name.replace('image', t('add.pasted', { stamp })), { type: file.type });
}

addEventListener('paste', (e) => {
  const files = [...(e.clipboardData?.files ?? [])];
  if (e.defaultPrevented) return; // a text has taken it
  if (files.length) {
    e.preventDefault();
    return addFiles(files.map(renamed));
  }
  if (find('dialog[open]') || inField(e)) return;
  const text = e.clipboardData?.getData('text/plain');
  if (!text?.trim()) return;
  e.preventDefault();
  addText(text.trim());
});
