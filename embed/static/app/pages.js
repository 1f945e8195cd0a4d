// The pages that every visit loads: home and the kinds.
import { addBox } from './add.js';
import { add, addActions, all, button, bytes, emptyState, find, h, icon, iconButton, isAddress, lower, number, picture, t, toast } from './dom.js';
import { countOf, fieldOf, fileTypes, isPicture, kindOf, kinds, pageOf, thumbnailOf, titleOf } from './kinds.js';
import { listOf, moveFocus, Source, tileHeight, tileWidth } from './list.js';
import { addPages, go, rerender, withBulk, withParam } from './router.js';
import { api, base, folderFields, folderOf, folders, heading, loadModule, me, pendingNow, showProblem, storage, tags, takeAnswer, view } from './session.js';

// ---- Home and the pages of kinds ----

// filterNames are the parameters of an address that filter a list.
const filterNames = ['tag', 'favorite', 'public', 'type', 'status', 'folder', 'unreachable', 'url', 'q'];

// filter is a select that changes one parameter of the page's address.
function filter(name, label, choices, params, otherwise = '') {
  const el = h('select', { 'aria-label': label, 'data-param': name }, Object.entries(choices).map(([v, text]) => h('option', { value: v }, text)));
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
  const names = tags.filter((tag) => tag.counts?.[k.name] || p.get('tag') === tag.name).map((tag) => tag.name);
  return names.length ? filter('tag', t('tags.tag'), { '': t('tags.all'), ...Object.fromEntries(names.map((n) => [n, n])) }, p) : document.createComment('');
}

function folderBar(p) {
  const folder = folderOf(p);
  const link = (label, value, count) => h('a.chip.big', { href: `${base}/files${withParam(p, 'folder', value)}`, 'aria-current': (p.get('folder') ?? '') === value ? 'true' : null }, value && value !== 'unfiled' ? icon('folder') : null, label, count !== undefined && h('small', {}, ' ' + number(count)));
  return h('div.filters.folders', { role: 'group', 'aria-label': t('kind.folders') }, link(t('kind.allFiles'), ''), link(t('kind.unfiled'), 'unfiled'),
    folders.map((f) => link(f.name, f.id, f.count)), iconButton('folder-new', 'plus', t('folder.new')),
    folder && button('folder-share', '', { class: 'quiet', 'aria-label': t('folder.shareOf', { name: folder.name }) }, icon('share'), t('folder.share')),
    folder && iconButton('folder-rename', 'edit', t('folder.renameOf', { name: folder.name })), folder && iconButton('folder-delete', 'trash', t('folder.deleteOf', { name: folder.name })));
}

// overview shows what waits for review, the newest pictures and favourites.
async function overview(v) {
  const ask = async (name, path) => (takeAnswer(name) ?? await api('GET', path, undefined, { signal: v.signal }).catch(() => null))?.data ?? [];
  const [files, hits] = await Promise.all([ask('pictures', 'files?brief=true&limit=25&type=image'), ask('favourites', 'search?limit=12&q=is:favorite')]);
  const pictures = files.filter(isPicture).map((r) => {
    const tile = h('li.item.tile', { 'data-id': r.id }, h('a', { href: pageOf(r), 'aria-label': titleOf(r) }, picture('img', thumbnailOf(r, 'row'), { width: '96', height: '96' })));
    tile.record = r;
    return tile;
  });
  const favourites = hits.filter((hit) => kinds[hit.kind]).map(({ record: r }) =>
    h('a.chip.big', kindOf(r).href ? { href: r.url, target: '_blank', rel: 'noopener noreferrer' } : { href: pageOf(r) }, icon(kindOf(r).icon), h('span.cutoff', {}, titleOf(r))));
  const part = (title, node) => h('section.overview', { 'aria-label': title }, h('h2', {}, title), node);
  return [pendingNow() > 0 && h('p.note', {}, h('span', {}, t('home.review', { n: pendingNow() })), h('a.button', { href: `${base}/upload-requests` }, t('common.show'))),
    pictures.length > 0 && part(fileTypes.image, h('ul.strip', {}, pictures)), favourites.length > 0 && part(t('kind.favourites'), h('div.filters', {}, favourites))];
}

// setupNote says how many steps to set up the server are left, until they are done or the note is closed.
function setupNote(left) {
  const node = h('p.note', {}, h('span', {}, t('home.setup', { n: left })), h('button', { type: 'button' }, t('common.show')), iconButton('none', 'close', t('common.dismiss')));
  const [show, close] = all('button', node);
  // The steps may be done elsewhere, such as on the command line.
  const read = () => loadModule('welcome').then((m) => m.setupLeft()).then((n) => {
    if (!node.isConnected) return;
    storage.set('setup', n);
    if (n) find('span', node).textContent = t('home.setup', { n });
    else node.remove();
  }, () => {});
  show.onclick = () => loadModule('welcome').then((m) => m.setupCard()).then((card) => node.replaceWith(card), showProblem);
  close.onclick = () => { storage.set('setup', 0); node.remove(); };
  return { node, read };
}

document.addEventListener('visibilitychange', () => { if (!document.hidden) view?.shown?.(); });

addPages({
  async home(v) {
    const total = Object.values(me.counts).reduce((a, b) => a + b, 0);
    v.box = addBox();
    // If another app shared something before the user signed in, the address has it.
    const [title, text, url] = ['title', 'text', 'url'].map((n) => v.params.get(n) ?? '');
    const shared = [title, text, url].filter(Boolean).join('\n'), page = [url, text].find(isAddress);
    if (page) setTimeout(() => go(`${base}/bookmarks/new?${new URLSearchParams({ url: page.trim(), title, description: page === url ? text : '' })}`));
    else if (shared) v.box.type(shared);
    if (v.params.get('again') === 'share') toast(t('home.signedOut'), { bad: true });
    if (v.params.get('again') === 'offline') toast(t('offline.files'), { bad: true });
    if (shared || v.params.has('again')) history.replaceState(null, '', base + '/');
    let greeting = null;
    v.list = listOf(new Source(Object.keys(kinds), {}, 12), {
      page: 40,
      empty() {
        find('main > #setup')?.remove(); // the greeting has it
        const node = greeting = h('div', {}, emptyState(t('home.empty'), t('home.emptyHint')));
        loadModule('welcome').then((m) => node.append(m.welcome()), () => {});
        return node;
      },
      // The list of what to set up stays when the first item comes.
      counted(n) { if (n && greeting) v.list.node.after(...all('#setup', greeting)); },
    });
    v.accepts = () => true;
    const left = me.role === 'admin' && total > 0 ? storage.get('setup', 0) : 0;
    const setup = left > 0 ? setupNote(left) : null;
    v.shown = () => setup?.node.isConnected && setup.read();
    add(v.out, v.box.node, setup?.node, total > 0 && await overview(v), h('div.head', {}, h('h1', {}, t('home.recent')), total > 0 && h('small.soft', {}, t('home.summary', { n: total, size: bytes(me.usedBytes ?? 0) }))), v.list.node);
    return t('home.title');
  },

  kind(v) {
    const k = v.kind, p = v.params, file = k === kinds.file, home = `${base}/${k.path}`;
    const count = h('small.soft');
    const filtered = filterNames.some((n) => p.get(n));
    const grid = file && storage.get('grid', ['image', 'video'].includes(p.get('type')));
    const cards = [kinds.bookmark, kinds.game, kinds.recipe].includes(k) ? k.name : '';
    v.grid = grid;
    v.cards = cards && storage.get(`cards-${cards}`, false);
    v.box = addBox({ kind: k.name, fields: () => ({ ...(file && folderFields(p)), ...(p.getAll('tag').length && { tags: p.getAll('tag') }) }) });
    v.box.node.hidden = grid; // only an empty grid shows it
    const query = new URLSearchParams();
    for (const [name, value] of p) if ([...filterNames, 'sort'].includes(name)) query.append(name, value);
    v.list = listOf(new Source([k.name], query, 50), {
      grid, cards: v.cards && cards, dated: grid && !p.get('sort'),
      counted: (n) => { count.textContent = countOf(k, n); filters.hidden = !n && !filtered; v.box.node.hidden = grid && n > 0; },
      empty: () => filtered
        ? emptyState(t('list.noMatches'), t('list.noMatchesHint'), h('a.button', { href: home }, t('list.showAll')))
        : emptyState(t('list.none', { kinds: lower(k.many) }), k.none),
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
      file && filter('type', t('kind.type'), { '': t('kind.allTypes'), ...fileTypes }, p),
      byTag,
      toggle('favorite', icon('star'), t('kind.favourites')),
      k === kinds.bookmark && toggle('unreachable', t('kind.unreachableOnes')),
      filter('public', t('kind.visibility'), { '': t('kind.anyVisibility'), true: t('kind.public'), false: t('kind.private') }, p),
      filter('sort', t('kind.order'), { newest: t('kind.newest'), oldest: t('kind.oldest'), updated: t('kind.updated'), title: t('kind.byName'), views: t('kind.mostViewed'), ...(file && { size: t('kind.largest') }), ...(k === kinds.game && { rating: t('kind.bestRated'), playtime: t('kind.mostPlayed') }) }, p, 'newest'),
      k === kinds.bookmark && p.get('url') && remove('url', h('span.cutoff', {}, p.get('url'))),
      p.get('q') && remove('q', t('format.quoted', { text: p.get('q') })));
    const title = (file && folderOf(p)?.name) || k.many;
    const statuses = k === kinds.game && h('div.filters', { role: 'group', 'aria-label': fieldOf(k, 'status').label }, Object.entries({ '': t('search.all'), ...fieldOf(k, 'status').choices }).map(([value, label]) =>
      h('a.chip.big', { href: home + withParam(p, 'status', value), 'aria-current': (p.get('status') ?? '') === value ? 'true' : null }, label)));
    add(v.out, heading(title, count,
      grid && tileSize(),
      (file || cards) && iconButton('view-list', 'list', t('kind.asList'), { 'aria-pressed': String(!grid && !v.cards) }),
      (file || cards) && iconButton('view-grid', 'grid', t('kind.asGrid'), { 'aria-pressed': String(grid || v.cards) }),
      button('new', '', { class: file ? 'main upload' : 'main', 'aria-keyshortcuts': 'n' }, icon(file ? 'upload' : 'plus'), file ? t('common.upload') : t('common.new'))),
    bar, v.box.node, statuses, filters, v.list.node);
    return title;
  },
});

// tileSize is a slider for the height of the rows of a grid.
function tileSize() {
  const el = h('input.tile', { type: 'range', min: 100, max: 340, step: 20, value: tileHeight(), 'aria-label': t('kind.tileSize') });
  const show = () => document.documentElement.style.setProperty('--tile', el.value + 'px');
  el.oninput = () => { storage.set('tile', Number(el.value)); show(); };
  el.onchange = () => { for (const img of all('#main .grid .pic img')) img.sizes = tileWidth(); };
  show();
  return el;
}

const showAs = (grid) => { storage.set(view.kind === kinds.file ? 'grid' : `cards-${view.kind.name}`, grid); rerender(); };

addActions({
  'view-list': () => showAs(false),
  'view-grid': () => showAs(true),

  'folder-new': () => withBulk((m) => m.newFolder()),
  'folder-rename'() { const f = folderOf(view.params); return withBulk((m) => m.renameFolder(f)); },
  'folder-delete'() { const f = folderOf(view.params); return withBulk((m) => m.deleteFolder(f)); },
});

// ---- Search ----

const field = find('#q');
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
