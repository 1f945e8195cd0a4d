// The box for new items: text, links and files. It owns nothing that stays, and uses nothing of view. The pages of
// home.js and kind.js make a box with addBox.
import { add, addActions, button, find, grow, h, hasPointer, icon, isAddress, problemText, t, toast } from './dom.js';
import { fieldOf, kinds } from './kinds.js';
import { showSaved } from './list.js';
import { go } from './router.js';
import { api, base, create, draftKey, loadModule, sendFiles, showProblem, storage } from './session.js';

const publicFields = (isPublic) => isPublic && { isPublic: true };

// whatText is what the box asks for.
function whatText(k, file) {
  if (file) return t('add.dropFiles');
  return k ? k.prompt : t('add.dropAny');
}

// addOptions are the options of the box: what the user chooses for the next items besides who can see them. They are
// loaded when they are first opened (see boxOptions of share.js).
function addOptions(visibility) {
  let options = null;
  const panel = h('div.options', { hidden: true });
  const opener = h('button.quiet', { type: 'button', 'aria-expanded': 'false' }, t('add.options'));
  opener.onclick = async () => {
    try {
      const m = await loadModule('share');
      options ??= m.boxOptions(panel, opener, visibility);
      options.toggle();
    } catch (e) { showProblem(e); }
  };
  return { panel, opener, isSettled: async () => options?.isSettled() ?? true, chosen: () => options?.chosen() ?? {} };
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

  async function addFiles(files) {
    if (!await options.isSettled()) return;
    const { tags, folderId, ...rest } = optionsFor(kinds.file);
    sendFiles(files, {
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
    addFiles([...picker.files]);
    picker.value = '';
  });
  draw();

  const values = () => ({ ...typed(k), ...fields(), isPublic: !!visibility.value });
  const box = { node: form, area, picker, values, clear, type, addFiles, fetchFile };
  form.box = box;
  return box;
}

addActions({
  choose(el) {
    el.closest('form').box.picker.click();
    loadModule('uploads').catch(() => {});
  },
  'choose-folder': () => loadModule('drops').then((m) => m.chooseFolder()).catch(showProblem),
  'fetch-it': (el) => el.closest('form').box.fetchFile(),
});
