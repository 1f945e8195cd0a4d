// The pages that every visit loads: home, the kinds, search, tags and the account.
import { addBox } from './add.js';
import { add, addActions, all, button, bytes, emptyState, find, h, icon, iconButton, itemOf, meter, number, plural, shorten, toast, when } from './dom.js';
import { openForm, settingsForm } from './forms.js';
import { fileTypes, kinds } from './kinds.js';
import { listOf, moveFocus, Source } from './list.js';
import { addPages, go, rerender, withParam } from './router.js';
import { api, base, countChange, deleteLater, folderFields, folderOf, folders, heading, hideFolder, hideTag, load, loadLabels, loadModule, me, refreshFolders, refreshTags, setMe, showProblem, storage, tags, takeAnswer, view } from './session.js';

// ---- Home and the pages of kinds ----

// filterNames are the parameters of an address that filter a list.
const filterNames = ['tag', 'favorite', 'public', 'type', 'folder', 'unreachable', 'url', 'q'];

// filter is a select that changes one parameter of the page's address.
function filter(name, label, choices, params, otherwise = '') {
  const el = h('select', { 'aria-label': label, 'data-param': name }, Object.entries(choices).map(([v, t]) => h('option', { value: v }, t)));
  el.value = params.get(name) ?? otherwise;
  if (el.selectedIndex < 0) el.value = otherwise;
  return el;
}

document.addEventListener('change', async (e) => {
  const { param } = e.target.dataset;
  if (!param) return;
  const value = e.target.value === (param === 'sort' ? 'newest' : '') ? '' : e.target.value;
  await go(location.pathname + withParam(view.params, param, value));
  find(`[data-param="${param}"]`)?.focus();
});

function tagFilter(k, p) {
  const names = tags.filter((t) => t.counts?.[k.name] || p.get('tag') === t.name).map((t) => t.name);
  return names.length ? filter('tag', 'Tag', { '': 'All tags', ...Object.fromEntries(names.map((n) => [n, n])) }, p) : document.createComment('');
}

function folderBar(p) {
  const folder = folderOf(p);
  const link = (label, value, count) => h('a.chip.big', { href: `${base}/files${withParam(p, 'folder', value)}`, 'aria-current': (p.get('folder') ?? '') === value ? 'true' : null }, value && value !== 'unfiled' ? icon('folder') : null, label, count !== undefined && h('small', {}, ' ' + number(count)));
  return h('div.filters.folders', { role: 'group', 'aria-label': 'Folders' }, link('All files', ''), link('Unfiled', 'unfiled'),
    folders.map((f) => link(f.name, f.id, f.count)), iconButton('folder-new', 'plus', 'New folder'),
    folder && iconButton('folder-rename', 'edit', `Rename the folder ${folder.name}`), folder && iconButton('folder-delete', 'trash', `Delete the folder ${folder.name}; its files stay`));
}

addPages({
  home(v) {
    const total = Object.values(me.counts).reduce((a, b) => a + b, 0);
    v.box = addBox();
    // If another app shared something before the user signed in, the address has it.
    const shared = ['title', 'text', 'url'].map((n) => v.params.get(n)).filter(Boolean).join('\n');
    if (shared) v.box.type(shared);
    if (v.params.get('again') === 'files') toast('You were signed out, so the files were not kept. Share the files again.', { bad: true });
    if (v.params.has('queued')) toast('The server cannot be reached. Saved on this device, and sent when the server is back.');
    if (shared || v.params.has('again') || v.params.has('queued')) history.replaceState(null, '', base + '/');
    v.list = listOf(new Source(Object.keys(kinds), {}, 12), {
      page: 40,
      empty: () => emptyState('Nothing is here yet.', 'Drop a file on this page, paste a link, or write something in the box above.'),
    });
    v.accepts = () => true;
    add(v.out, v.box.node, h('div.head', {}, h('h1', {}, 'Recent'), total > 0 && h('small.soft', {}, `${plural(total, 'item')} · ${bytes(me.usedBytes ?? 0)}`)), v.list.node);
    return 'Home';
  },

  kind(v) {
    const k = v.kind, p = v.params, file = k === kinds.file, home = `${base}/${k.path}`;
    const count = h('small.soft');
    const filtered = filterNames.some((n) => p.get(n));
    const grid = file && storage.get('grid', ['image', 'video'].includes(p.get('type')));
    v.grid = grid;
    v.box = addBox({ kind: k.name, fields: () => ({ ...(file && folderFields(p)), ...(p.getAll('tag').length && { tags: p.getAll('tag') }) }) });
    const query = new URLSearchParams();
    for (const [name, value] of p) if ([...filterNames, 'sort'].includes(name)) query.append(name, value);
    v.list = listOf(new Source([k.name], query, 50), {
      grid, dated: grid && !p.get('sort'),
      counted: (n) => { count.textContent = plural(n, k.one); filters.hidden = !n && !filtered; v.box.node.hidden = grid && n > 0; },
      empty: () => filtered
        ? emptyState('No matches.', 'Nothing matches these filters.', h('a.button', { href: home }, 'Show all'))
        : emptyState(`No ${k.many.toLowerCase()} yet.`, k.none),
    });
    v.accepts = (r) => r.kind === k.name && !p.get('q') && !p.get('type') && (!p.get('folder') || [r.folder?.id ?? 'unfiled', r.folder?.name].includes(p.get('folder')));

    // Tags and folders can be loaded, or change, while the page is shown.
    let byTag = tagFilter(k, p), bar = file && folderBar(p);
    v.redraw = () => {
      if (byTag !== document.activeElement) byTag.replaceWith(byTag = tagFilter(k, p));
      if (!file) return;
      const focused = bar.contains(document.activeElement) && document.activeElement.getAttribute('href');
      bar.replaceWith(bar = folderBar(p));
      if (focused) all('a', bar).find((a) => a.getAttribute('href') === focused)?.focus();
    };

    const toggle = (name, ...label) => h('a.chip.big', { href: home + withParam(p, name, p.get(name) ? '' : 'true'), 'aria-current': p.get(name) ? 'true' : null }, label);
    const remove = (name, ...label) => h('a.chip', { href: home + withParam(p, name, '') }, label, icon('close'));
    const filters = h('div.filters', {},
      file && filter('type', 'Type', { '': 'All types', ...fileTypes }, p),
      byTag,
      toggle('favorite', icon('star'), 'Favourites'),
      k === kinds.bookmark && toggle('unreachable', 'Unreachable'),
      filter('public', 'Visibility', { '': 'Public and private', true: 'Public', false: 'Private' }, p),
      filter('sort', 'Order', { newest: 'Newest', oldest: 'Oldest', updated: 'Last changed', title: 'By name', views: `Most ${k.unit}s`, ...(file && { size: 'Largest' }) }, p, 'newest'),
      k === kinds.bookmark && p.get('url') && remove('url', h('span.cutoff', {}, p.get('url'))),
      p.get('q') && remove('q', `“${p.get('q')}”`));
    add(v.out, heading(k.many, count,
      grid && tileSize(),
      file && iconButton('view-list', 'list', 'As a list', { 'aria-pressed': String(!grid) }),
      file && iconButton('view-grid', 'grid', 'As a grid', { 'aria-pressed': String(grid) }),
      button('new', '', { class: file ? 'main upload' : 'main', 'aria-keyshortcuts': 'n' }, icon(file ? 'upload' : 'plus'), file ? 'Upload' : 'New')),
    bar, v.box.node, filters, v.list.node);
    return k.many;
  },
});

// tileSize is a slider for the height of the rows of a grid.
function tileSize() {
  const el = h('input.tile', { type: 'range', min: 100, max: 340, step: 20, value: storage.get('tile', 180), 'aria-label': 'Size of pictures' });
  const show = () => document.documentElement.style.setProperty('--tile', el.value + 'px');
  el.oninput = () => { storage.set('tile', Number(el.value)); show(); };
  show();
  return el;
}

const showAs = (grid) => { storage.set('grid', grid); rerender(); };

addActions({
  'view-list': () => showAs(false),
  'view-grid': () => showAs(true),

  'folder-new': () => openForm({
    title: 'New folder', fields: [{ name: 'name', label: 'Name', required: true }], button: 'Create folder',
    run: async (now) => {
      const folder = (await api('POST', 'folders', now)).data;
      await refreshFolders();
      go(`${base}/files?folder=${folder.id}`);
    },
  }),
  'folder-rename'() {
    const folder = folderOf(view.params);
    openForm({
      title: `Rename ${folder.name}`, fields: [{ name: 'name', label: 'Name', required: true }], values: folder,
      run: async (now) => { await api('PATCH', `folders/${folder.id}`, now); await refreshFolders(); rerender(); },
    });
  },
  'folder-delete'() {
    const folder = folderOf(view.params);
    const restore = hideFolder(folder);
    go(`${base}/files`);
    deleteLater(`Deleted the folder “${shorten(folder.name)}”; its files stay.`, [`folders/${folder.id}`], () => { restore(); rerender(); });
  },
});

// ---- Search ----

// A Search reads search results page by page. The found field of each record says where the words were found.
class Search {
  constructor(params) { Object.assign(this, { params, cursor: '', total: 0, first: takeAnswer('search') }); }

  get ended() { return this.cursor === null; }

  async next(n, signal) {
    const query = new URLSearchParams(this.params);
    query.set('limit', n);
    if (this.cursor) query.set('cursor', this.cursor);
    const answer = this.first ?? await api('GET', `search?${query}`, undefined, { signal });
    this.first = null;
    this.cursor = answer.nextCursor ?? null;
    this.total = answer.total;
    this.incomplete = answer.incomplete;
    return answer.data.filter((hit) => kinds[hit.kind]).map((hit) => ({ ...hit.record, found: hit }));
  }

  count(_, n) { this.total += n; }
}

const field = find('#q');

addPages({
  search(v) {
    const p = v.params;
    const words = (p.get('q') ?? '').trim(), tagged = p.getAll('tag'), kind = kinds[p.get('kind')] ? p.get('kind') : '';
    if (document.activeElement !== field) field.value = words || tagged.map((t) => `tag:${t.includes(' ') ? `"${t}"` : t}`).join(' ');
    const query = new URLSearchParams(words && { q: words });
    if (kind) query.set('kind', kind);
    for (const t of tagged) query.append('tag', t);
    const count = h('small.soft', { 'aria-live': 'polite' });
    const source = new Search(query);
    v.list = listOf(source, {
      page: 40, counted: (n) => { count.textContent = plural(n, 'item') + (source.incomplete ? ' so far: the search index is being built' : ''); },
      empty: () => emptyState('Nothing was found.', 'Try fewer or other words. "words in a row", tag:x, kind:note, is:favorite and -word narrow a search.'),
    });
    const title = words ? `“${words}”` : tagged.join(' + ') || 'Everything';
    add(v.out, heading(title, count), h('div.filters', { role: 'group', 'aria-label': 'Kind' },
      [['', 'All'], ...Object.values(kinds).map((k) => [k.name, k.many])].map(([n, t]) =>
        h('a.chip.big', { href: `${base}/search${withParam(p, 'kind', n)}`, 'aria-current': n === kind ? 'true' : null }, t))), v.list.node);
    return words ? `Search: ${words}` : 'Search';
  },
});

let timer = 0;
function search() {
  clearTimeout(timer);
  const words = field.value.trim();
  if (words) go(`${base}/search?q=${encodeURIComponent(words)}`, { replace: view?.name === 'search' });
  else if (view?.name === 'search') go(base + '/', { replace: true });
}

field.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(search, 250); });
find('.top form').addEventListener('submit', (e) => {
  e.preventDefault();
  // If the results are already shown, Enter moves to the first of them.
  if (view?.name === 'search' && view.params.get('q') === field.value.trim() && all('#main .item').length) moveFocus(1);
  else search();
});

// ---- Tags ----

// New tags take these colours in turn.
const palette = ['#0F6B5C', '#3F7FD0', '#D98A2B', '#8A5BC7', '#C2473D', '#2E8B57', '#B0568F', '#5B6B7C'];

const tagOf = (el) => itemOf(el).tag;

function tagRow(t) {
  const tagged = `tag=${encodeURIComponent(t.name)}`;
  const row = h('li.item.plain', {}, h('input.color', { type: 'color', value: t.color.toLowerCase(), 'aria-label': `Colour of ${t.name}`, act: 'tag-color' }),
    h('div.what', {}, h('a.name', { href: `${base}/search?${tagged}` }, t.name),
      h('div.meta', {}, t.count ? Object.values(kinds).filter((k) => t.counts?.[k.name]).map((k) =>
        h('a', { href: `${base}/${k.path}?${tagged}` }, plural(t.counts[k.name], k.one))) : h('span', {}, 'not in use'))),
    h('div.acts', {}, iconButton('tag-rename', 'edit', `Rename ${t.name}`), tags.length > 1 && button('tag-merge', 'Merge', { 'aria-label': `Merge ${t.name} into another tag` }), iconButton('tag-delete', 'trash', `Delete ${t.name}`)));
  row.tag = t;
  return row;
}

addPages({
  async tags(v) {
    await loadLabels();
    const sorted = [...tags].sort((a, b) => b.count - a.count || a.name.localeCompare(b.name));
    const input = h('input', { 'aria-label': 'New tag', placeholder: 'New tag' });
    const form = h('form.quick', { novalidate: true, 'aria-label': 'New tag' }, input, h('button.main', {}, 'Add'));
    form.onsubmit = async (e) => {
      e.preventDefault();
      if (!input.value.trim()) return input.focus();
      try {
        await api('POST', 'tags', { name: input.value, color: palette[tags.length % palette.length] });
        await refreshTags();
        rerender();
        find('form.quick input').focus();
      } catch (problem) { showProblem(problem); }
    };
    add(v.out, heading('Tags', h('small.soft', {}, plural(tags.length, 'tag'))), form,
      sorted.length ? h('ul.list', { 'aria-label': 'Tags' }, sorted.map(tagRow)) : emptyState('No tags yet.', 'Add tags to your items, and they appear here.'));
    return 'Tags';
  },
});

document.addEventListener('change', async (e) => {
  if (e.target.dataset.act !== 'tag-color') return;
  try {
    await api('PATCH', `tags/${tagOf(e.target).id}`, { color: e.target.value });
    refreshTags();
    countChange();
  } catch (problem) { showProblem(problem); }
});

addActions({
  'tag-rename'(el) {
    const t = tagOf(el);
    openForm({
      title: `Rename ${t.name}`, fields: [{ name: 'name', label: 'Name', required: true }], values: t,
      run: async (now) => { await api('PATCH', `tags/${t.id}`, now); await refreshTags(); rerender(); },
    });
  },
  'tag-merge'(el) {
    const t = tagOf(el);
    openForm({
      title: `Merge ${t.name}`, text: `Items with the tag “${t.name}” get the other tag instead. This cannot be undone.`, button: 'Merge',
      fields: [{ name: 'into', label: 'Into', type: 'choice', required: true, choices: Object.fromEntries(tags.filter((x) => x !== t).map((x) => [x.id, x.name])) }],
      run: async (now) => { await api('POST', `tags/${t.id}/merge`, now); await refreshTags(); rerender(); toast(`Merged “${t.name}”.`); },
    });
  },
  'tag-delete'(el) {
    const row = itemOf(el), t = row.tag, mark = document.createComment('');
    row.replaceWith(mark);
    const restore = hideTag(t);
    deleteLater(`Deleted the tag “${t.name}”; the items stay.`, [`tags/${t.id}`], () => { restore(); if (mark.isConnected) mark.replaceWith(row); });
  },
});

// ---- Account ----

function storageCard() {
  const quota = me.quotaEffectiveBytes;
  return h('div.card', {}, h('h2', {}, 'Storage'), h('p', {}, quota ? `${bytes(me.usedBytes)} of ${bytes(quota)}` : `${bytes(me.usedBytes)}, no limit`),
    quota ? meter(me.usedBytes / quota) : null,
    h('p.soft', {}, Object.values(kinds).map((k) => plural(me.counts[k.name] ?? 0, k.one)).join(' · ')));
}

const profileForm = () => settingsForm('Profile', [{ name: 'displayName', label: 'Display name', autocomplete: 'name' }], me, 'Save', async (now) => {
  setMe((await api('PATCH', 'me', now)).data);
  toast('Saved.');
});

const passwordForm = (keys) => settingsForm('Password', [
  { name: 'currentPassword', label: 'Current password', type: 'password', autocomplete: 'current-password', required: true },
  { name: 'password', label: 'New password', type: 'password', autocomplete: 'new-password', required: true, hint: 'At least 8 characters. A few unrelated words are easy to remember and hard to guess.' },
  { name: 'repeat', label: 'Confirm new password', type: 'password', autocomplete: 'new-password', required: true, same: 'password' },
  ...(keys.length ? [{
    name: 'revoke', label: 'Also revoke', type: 'checks', choices: Object.fromEntries(keys.map((k) => [k.id, k.device ? `${k.name} (connected device)` : `${k.name} (API key)`])),
  }] : []),
], { revoke: keys.filter((k) => k.device).map((k) => k.id) }, 'Change password', async ({ repeat, ...now }, form) => {
  await api('PATCH', 'me', now);
  form.set({ currentPassword: '', password: '', repeat: '' });
  toast(`Password changed. Other browsers are signed out.${now.revoke?.length ? ` ${plural(now.revoke.length, 'key')} revoked.` : ''}`);
  rerender();
});

function browserName(agent) {
  const name = /Edg\//.test(agent) ? 'Edge' : /Firefox\//.test(agent) ? 'Firefox' : /Chrome\//.test(agent) ? 'Chrome' : /Safari\//.test(agent) ? 'Safari' : agent.slice(0, 40) || 'Browser';
  const system = /Android/.test(agent) ? 'Android' : /iPhone|iPad/.test(agent) ? 'iOS' : /Windows/.test(agent) ? 'Windows' : /Mac OS/.test(agent) ? 'macOS' : /Linux/.test(agent) ? 'Linux' : '';
  return system ? `${name} on ${system}` : name;
}

function sessionRow(s) {
  const name = browserName(s.agent);
  const row = h('li.item.plain', {}, h('span.pic', {}, icon('user')), h('div.what', {}, h('span.name', {}, name),
    h('div.meta', {}, s.current && h('span.badge.on', {}, 'this browser'), h('span', {}, s.address), h('span', {}, 'since ', when(s.createdAt)), s.lastUsedAt && h('span', {}, 'used ', when(s.lastUsedAt)))),
  h('div.acts', {}, !s.current && button('session-end', 'Sign out', { 'aria-label': `Sign out ${name}` })));
  row.session = s;
  return row;
}

// sessionList lists the browsers that are signed in.
export const sessionList = (sessions) => [h('div.head', {}, h('h2', {}, 'Signed in'), h('small.soft', {}, plural(sessions.length, 'browser'))),
  h('ul.list', { 'aria-label': 'Browsers that are signed in' }, sessions.map(sessionRow)),
  sessions.length > 1 && h('div.row', {}, button('sessions-end', 'Sign out all others'))];

// deviceCard has the choices for this browser.
async function deviceCard() {
  const offline = await loadModule('offline').catch(() => null);
  if (!offline?.supported) return null;
  const box = h('input', { type: 'checkbox', role: 'switch', checked: offline.chosen() });
  box.onchange = () => offline.choose(box.checked);
  return h('section.card', { 'aria-label': 'This device' }, h('h2', {}, 'This device'),
    h('label.check', {}, box, h('span', {}, 'Use the app offline')),
    h('p.hint', {}, 'This browser keeps a copy of your newest 200 items to read without the server. What you add or share meanwhile is sent later. Turning it off or signing out removes the copy.'));
}

addPages({
  async account(v) {
    const [sessions, keys] = await Promise.all([load('me/sessions', 'me/sessions?limit=500', v.signal), load('keys', 'keys?limit=500', v.signal)]);
    const signOut = h('form', { method: 'post', action: `${base}/logout` }, h('button', {}, 'Sign out'));
    add(v.out, heading('Account', h('small.soft', {}, `${me.username}${me.role === 'admin' ? ', administrator' : ''}`), signOut),
      h('div.cards', {}, storageCard(), profileForm(), passwordForm(keys?.data ?? []), await deviceCard()), sessions && sessionList(sessions.data));
    return 'Account';
  },
});

addActions({
  async 'session-end'(el) {
    const row = itemOf(el);
    try { await api('DELETE', `me/sessions/${row.session.id}`); row.remove(); toast('Signed out that browser.'); } catch (e) { showProblem(e); }
  },
  async 'sessions-end'() {
    try { await api('DELETE', 'me/sessions'); rerender(); toast('Signed out everywhere else.'); } catch (e) { showProblem(e); }
  },
});
