// The pop-up of the toolbar button.
import { ext } from './browser.js';
import { api, connection, ended, forms, freshForms, settings } from './client.js';
import { draw, h, valuesOf } from './form.js';
import { locale, t } from './text.js';
import { addressOf, bookmarkOf, copy, copyLink, cut, isWeb, namesOf, recent, selectionOf, tagsAfter } from './save.js';
import { translate } from './translate.js';

translate();
const at = (id) => document.getElementById(id);
const form = at('form');
let tab;
let kept = null; // the bookmark of the page, if there is one
let saved = ''; // the address of the last saved item, if others can open it
let tags = [];
let usual = ''; // who can see new items

function problem(text) {
  at('problem').textContent = text;
  at('problem').hidden = !text;
}

async function unconnected(why) {
  at('why').textContent = why || await ended() || t('extension.notYet');
  at('unconnected').hidden = false;
  form.hidden = at('recent-section').hidden = true;
  at('connect').focus();
}

/** failed shows a problem. The user's input stays. */
const failed = (e) => e.connect ? unconnected(e.message) : problem(e.message);

const kindNow = () => form.elements.kind.value;

// A field that the user edited keeps its text when the kind changes. The pop-up fills in the others again.
const wrote = new Set();
const sending = new Set(); // the fields that the user edited before the save that is under way
form.addEventListener('input', ({ target }) => wrote.add(target.name));

/** seen clears the sign on the button and returns the problem that it stood for. */
async function seen() {
  const { problem: text } = await ext.storage.session.get('problem');
  await ext.storage.session.remove('problem');
  await ext.action.setBadgeText({ text: '' });
  return text;
}

let selection = '';
let all = []; // the kinds with their forms
let drawn = null; // the kind whose own form is shown

// What the form calls a kind that it has a place for.
const places = { bookmark: 'bookmark', note: 'note', shortlink: 'link', file: 'file' };

/** showOthers offers the kinds that the form has no place for. */
function showOthers() {
  const others = all.filter((k) => !places[k.name] && k.name !== 'collection'), chosen = kindNow();
  at('others').replaceChildren(at('others').firstElementChild, ...others.map((k) => {
    const value = `own:${k.name}`;
    const choice = h('input', { type: 'radio', name: 'kind', value, checked: chosen === value });
    return h('label', {}, choice, capitalized(k.one));
  }));
  at('others').hidden = !others.length;
  if (!kindNow()) form.elements.kind[0].checked = true;
}

/** showCollections offers the collections that items can be added to. */
async function showCollections() {
  const all = (await api('GET', 'collections?limit=200&sort=updated')).data;
  const list = all.filter((r) => !r.source.folderId && !r.source.tag);
  const select = at('collection');
  select.append(...list.map((r) => h('option', { value: r.id }, r.title)));
  at('collection-field').hidden = !list.length;
}

/** showOwn draws the form of a kind, with what the tab has for it, or none. */
function showOwn(k) {
  for (const id of ['title-field', 'text-field']) at(id).hidden = !!k;
  at('own').hidden = !k;
  if (k === drawn) return;
  drawn = k;
  const page = { url: isWeb(tab.url) ? tab.url : '', title: tab.title ?? '', text: selection };
  at('own').replaceChildren(...(k ? draw(k.fields, page) : []));
}

// What the form calls the fields of its kinds, and the button.
const titles = {
  note: t('extension.formTitle'),
  bookmark: t('extension.formTitle'),
  link: t('extension.formDescription'),
  file: t('extension.formFileName'),
  screenshot: t('extension.formName'),
};
const titleFields = { link: 'description', file: 'originalName', screenshot: 'originalName' };
const saveLabels = {
  bookmark: t('extension.saveBookmark'),
  note: t('extension.saveNote'),
  link: t('extension.saveLink'),
  file: t('extension.saveFile'),
  screenshot: t('extension.saveShot'),
};

/** adapt shows the form for the chosen kind. */
function adapt() {
  const kind = kindNow();
  const own = all.find((k) => `own:${k.name}` === kind);
  showOwn(own ?? null);
  if (own) adaptOwn(own);
  else adaptKnown(kind);
}

/** adaptOwn names what is around the form of a kind that the form has no place for. */
function adaptOwn(k) {
  at('limit-label').textContent = k.counter === 'clicks' ? t('extension.clickLimit') : t('extension.viewLimit');
  at('save').textContent = t('extension.saveOf', { kind: k.one });
  at('already').hidden = true;
}

/** adaptKnown names the fields for a kind and fills in those that the user has not edited. */
function adaptKnown(kind) {
  const { fields } = all.find((k) => places[k.name] === (kind === 'screenshot' ? 'file' : kind));
  const most = (name) => fields.find((f) => f.name === name).maxLength;
  const edits = kind === 'bookmark' && kept;
  at('title-label').textContent = titles[kind];
  at('text-label').textContent = kind === 'note' ? t('extension.formText') : t('extension.formDescription');
  at('text-field').hidden = kind === 'link';
  at('limit-label').textContent = kind === 'link' ? t('extension.clickLimit') : t('extension.viewLimit');
  at('save').textContent = edits ? t('extension.saveChanges') : saveLabels[kind];
  at('already').hidden = !edits;
  at('title').maxLength = most(titleFields[kind] ?? 'title');
  at('text').maxLength = most(kind === 'note' ? 'content' : 'description');

  const fill = (name, text) => {
    const field = form.elements[name];
    if (!wrote.has(name) && !sending.has(name)) field.value = field.maxLength > 0 ? cut(text, field.maxLength) : text;
  };
  fill('title', edits ? kept.title : kind === 'file' ? '' : tab.title ?? '');
  fill('text', edits ? kept.description ?? '' : kind === 'note' || kind === 'bookmark' ? selection : '');
  fill('tags', edits ? namesOf(kept).join(', ') : '');
  fill('isPublic', edits ? (kept.isPublic ? '1' : '') : usual);
}
form.addEventListener('change', ({ target }) => { if (target.name === 'kind') adapt(); });

/** fieldsOf are what the form f has for a kind. */
const fieldsOf = (kind, f) => ({
  url: tab.url,
  title: f.title,
  name: f.title,
  text: kind === 'link' ? '' : f.text,
  tags: f.tags,
  isPublic: !!f.isPublic,
  password: f.password,
  limit: f.limit.trim(),
  atLimit: f.atLimit,
  tab: { id: tab.id, windowId: tab.windowId },
  ...(kind === 'bookmark' && kept && { seen: kept }),
  ...(drawn && { kind: drawn.name, values: valuesOf(drawn.fields, at('own')) }),
});

/** clear makes the form ready for the next item. What the user typed during the save stays. */
function clear(f) {
  drawn = null;
  for (const name of ['password', 'limit']) {
    if (form.elements[name].value === f[name]) form.elements[name].value = '';
  }
}

/** showSaved shows what was saved. The user may already be editing or saving the next item. */
async function showSaved(f, done) {
  saved = done.record?.isPublic ? done.address : '';
  if (f.collection && done.record) {
    await api('POST', `collections/${f.collection}/items`, { add: [done.record.id] }).catch(failed);
  }
  const said = (await settings()).copy && await copyLink(done);
  at('saved').hidden = false;
  at('saved-text').textContent = [done.text, said].filter(Boolean).join(' ');
  at('copy-saved').hidden = !saved;
  await showRecent().catch(failed);
  freshTags();
}

form.onsubmit = async (event) => {
  event.preventDefault();
  if (at('save').disabled) return;
  const kind = kindNow();
  const f = Object.fromEntries(new FormData(form));
  problem('');
  at('saved').hidden = true;
  if (f.limit && !/^[1-9]\d{0,9}$/.test(f.limit.trim())) {
    problem(t('extension.badLimit'));
    at('limit').focus();
    return;
  }
  const fields = fieldsOf(kind, f), what = drawn ? 'record' : kind;
  at('save').disabled = true;
  at('save').textContent = t('extension.saving');
  wrote.forEach((name) => sending.add(name));
  wrote.clear(); // what is typed from now on is for the next time
  const answer = await ext.runtime.sendMessage({ save: what, fields }).catch((e) => ({ problem: e.message }));

  if (answer?.saved) {
    if (kind === 'bookmark') kept = answer.saved.record; // as this save left it, not as others have changed it since
    clear(f);
  } else {
    sending.forEach((name) => wrote.add(name)); // the text of the user stays
    if (answer) await seen();
    const why = answer?.problem ?? t('extension.interrupted');
    const message = answer?.record ? changed(fields.seen, answer.record) : why;
    failed({ connect: answer?.connect, message });
    if (answer?.record) { // the user has seen it now, and what they typed stays
      kept = answer.record;
      form.elements.tags.value = tagsAfter(fields.seen, f.tags, kept);
    }
  }
  sending.clear();
  adapt();
  at('save').disabled = false;
  if (document.activeElement === document.body) at('save').focus(); // disabling the button took the focus away
  if (answer?.saved) await showSaved(f, answer.saved);
};

/** changed says what was changed elsewhere in a bookmark. */
function changed(before, now) {
  const labels = { title: t('extension.formTitle'), description: t('extension.formDescription') };
  const changes = Object.keys(labels).filter((name) => before[name] !== now[name]);
  const parts = changes.map((name) => `${labels[name]}: ${cut(now[name] || '–', 200)}`);
  return [t('extension.changedElsewhere'), ...parts].join(' ');
}

form.onkeydown = (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) form.requestSubmit();
};

/** copying copies text and shows that on the button for a moment. */
async function copying(button, text) {
  clearTimeout(button.timer);
  button.label ??= button.textContent;
  const said = await copy(text) ? t('extension.copied') : t('extension.notCopied');
  button.textContent = said;
  at('said').textContent = said;
  button.timer = setTimeout(() => {
    button.textContent = button.label;
    at('said').textContent = '';
  }, 1500);
}

at('copy-saved').onclick = () => copying(at('copy-saved'), saved);
at('options').onclick = at('connect').onclick = async () => {
  await ext.runtime.openOptionsPage();
  close();
};

const capitalized = (word) => word[0].toUpperCase() + word.slice(1);

/** recentRow shows a saved item, with a button that copies its link if others can open it. */
function recentRow(r) {
  const title = r.title || r.originalName || r.description || r.originalUrl || r.content?.split('\n')[0] || r.url;
  const button = h('button', { className: 'quiet', type: 'button', textContent: t('extension.copy') });
  button.setAttribute('aria-label', t('extension.copyOf', { title }));
  button.onclick = () => copying(button, addressOf(r));
  const link = h('a', { href: addressOf(r), target: '_blank', rel: 'noopener', title }, h('span', {}, title));
  const kind = capitalized(all.find((k) => k.name === r.kind)?.one ?? 'file');
  return h('li', {}, link, h('small', {}, kind), ...(r.isPublic ? [button] : []));
}

async function showRecent() {
  const list = await recent();
  at('recent').replaceChildren(...list.map(recentRow));
  at('recent-section').hidden = !list.length;
}

// ---- Suggestions for tags ----

const list = at('tag-list');
const input = at('tags');
let active = -1;

async function freshTags() {
  tags = (await api('GET', 'tags').catch(() => tags)).sort((a, b) => b.count - a.count || a.name.localeCompare(b.name));
  if (document.activeElement === input) suggest(); // the user typed before the tags came
}

/** suggestionsFor are tags that begin with what is typed, and then those that have it inside. */
function suggestionsFor(part, had) {
  if (!part) return [];
  const nameOf = (tag) => tag.name.toLowerCase();
  const left = tags.filter((tag) => !had.has(nameOf(tag)) && nameOf(tag) !== part);
  const begin = left.filter((tag) => nameOf(tag).startsWith(part));
  const have = left.filter((tag) => nameOf(tag).includes(part));
  return [...new Set([...begin, ...have])].slice(0, 6);
}

function suggest() {
  const names = input.value.split(',');
  const part = names.pop().trim().toLowerCase();
  const found = suggestionsFor(part, new Set(names.map((n) => n.trim().toLowerCase())));
  list.replaceChildren(...found.map(({ name, count }, i) => {
    const el = h('li', { id: `tag-${i}`, role: 'option' },
      h('span', {}, name), h('small', { className: 'hint' }, String(count)));
    el.onpointerdown = (event) => {
      event.preventDefault();
      choose(name);
    };
    el.dataset.name = name;
    return el;
  }));
  move(-1);
  list.hidden = !found.length;
  input.setAttribute('aria-expanded', String(!list.hidden));
}

function move(to) {
  active = to;
  [...list.children].forEach((el, i) => el.setAttribute('aria-selected', String(i === to)));
  if (to < 0) input.removeAttribute('aria-activedescendant');
  else input.setAttribute('aria-activedescendant', `tag-${to}`);
}

function choose(name) {
  const names = input.value.split(',').slice(0, -1).map((n) => n.trim()).filter(Boolean);
  input.value = [...names, name].join(', ') + ', ';
  wrote.add('tags');
  suggest();
}

input.oninput = suggest;
input.onblur = () => {
  list.hidden = true;
  input.setAttribute('aria-expanded', 'false');
};
input.onkeydown = (event) => {
  if (list.hidden) return;
  const n = list.children.length;
  if (event.key === 'ArrowDown') move((active + 1) % n);
  else if (event.key === 'ArrowUp') move(active <= 0 ? n - 1 : active - 1);
  else if (event.key === 'Enter' && active >= 0) choose(list.children[active].dataset.name);
  else if (event.key === 'Escape') input.onblur();
  else return;
  event.preventDefault();
};

// ---- The start ----

/** shown is the tab that the pop-up is for. If the pop-up is opened as a page, its address has the id of the tab. */
async function shown() {
  const id = Number(new URLSearchParams(location.search).get('tab'));
  return id ? ext.tabs.get(id) : (await ext.tabs.query({ active: true, currentWindow: true }))[0];
}

/** showKept says below the address that the page has a bookmark, which the form then changes. */
function showKept(b) {
  kept = b;
  if (!b) return;
  const date = new Date(b.createdAt).toLocaleDateString(locale);
  const link = h('a', { href: addressOf(b), target: '_blank', rel: 'noopener' }, t('extension.showIt'));
  at('already').replaceChildren(t('extension.savedOn', { date }), ' ', link);
}

tab = await shown();
const now = await connection();
at('home').href = now?.server ?? '';
const before = await seen();
if (!now) {
  await unconnected();
} else {
  if (before) problem(t('extension.lastTime', { problem: before }));
  at('where').textContent = tab.url ?? '';
  for (const el of form.elements.kind) {
    el.disabled = !isWeb(tab.url) && !['note', 'screenshot'].includes(el.value);
    el.checked = el.value === (isWeb(tab.url) ? 'bookmark' : 'note');
  }
  all = await forms();
  showOthers();
  usual = (await settings()).isPublic ? '1' : '';
  form.hidden = false;
  adapt();
  at('title').focus();
  at('title').select();
  await Promise.all([
    selectionOf(tab, 0).then((text) => { selection = text; }),
    bookmarkOf(tab.url).then(showKept),
    freshTags(),
    showRecent(),
    showCollections().catch(() => {}), // a server may be too old to have them
    freshForms().then(forms).then((kinds) => {
      if (JSON.stringify(kinds) === JSON.stringify(all)) return; // what was typed stays
      all = kinds;
      showOthers();
    }),
  ].map((p) => p.catch(failed)));
  adapt();
}
