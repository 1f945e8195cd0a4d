// The pages of the kinds. It fills view.out and sets list, box, accepts, redraw, grid, cards and face of view; it reads
// name, kind and params. The router calls the page.
import { addBox, folderButton } from './add.js';
import { add, addActions, all, button, emptyState, find, h, icon, iconButton, lower, number, t } from './dom.js';
import { faceOf, sharedPart } from './faces.js';
import { heading } from './heading.js';
import { countOf, fieldOf, fileTypes, kinds } from './kinds.js';
import { listOf, Source, tileHeight, tileWidth } from './list.js';
import { go, rerender, withParam } from './router.js';
import { base, folderFields, folderOf, folders, loadModule, me, showProblem, storage, tags, view } from './session.js';

// ---- The pages of kinds ----

// filterNames are the parameters of an address that filter a list.
const filterNames = ['tag', 'favorite', 'public', 'type', 'status', 'folder', 'unreachable', 'url', 'q'];

// filter is a select that changes one parameter of the page's address.
function filter(name, label, choices, params, otherwise = '') {
  const options = Object.entries(choices).map(([v, text]) => h('option', { value: v }, text));
  const el = h('select', { 'aria-label': label, 'data-param': name }, options);
  el.value = params.get(name) ?? otherwise;
  if (el.selectedIndex < 0) el.value = otherwise;
  return el;
}

document.addEventListener('change', async (e) => {
  const { param } = e.target.dataset;
  if (!param) return;
  const value = e.target.value === (param === 'sort' ? 'newest' : '') ? '' : e.target.value;
  let to = withParam(view.params, param, value);
  // Pictures stand by when they were taken, unless the user has chosen another order.
  const isTypical = ['', 'taken'].includes(view.params.get('sort') ?? '');
  if (param === 'type' && isTypical) to = withParam(new URLSearchParams(to), 'sort', value === 'image' ? 'taken' : '');
  await go(location.pathname + to);
  find(`[data-param="${param}"]`)?.focus();
});

// chipTo is a link to the list as it is filtered otherwise.
const chipTo = (href, isCurrent, ...inside) =>
  h('a.chip.big', { href, 'aria-current': isCurrent ? 'true' : null }, inside);

function tagFilter(k, p) {
  const used = tags.filter((tag) => tag.counts?.[k.name] || p.get('tag') === tag.name);
  if (!used.length) return document.createComment('');
  const choices = { '': t('tags.all'), ...Object.fromEntries(used.map((tag) => [tag.name, tag.name])) };
  return filter('tag', t('tags.tag'), choices, p);
}

function folderBar(p) {
  const folder = folderOf(p), chosen = p.get('folder') ?? '';
  const link = (label, value, count) => chipTo(`${base}/files${withParam(p, 'folder', value)}`, chosen === value,
    value && value !== 'unfiled' ? icon('folder') : null, label,
    count !== undefined && h('small', {}, ' ' + number(count)));

  const shareLabel = folder && t('folder.shareOf', { name: folder.name });
  return h('div.filters.folders', { role: 'group', 'aria-label': t('kind.folders') },
    link(t('kind.allFiles'), ''),
    link(t('kind.unfiled'), 'unfiled'),
    folders.map((f) => link(f.name, f.id, f.count)),
    iconButton('folder-new', 'plus', t('folder.new')),
    folder && [
      button('folder-share', '', { class: 'quiet', 'aria-label': shareLabel }, icon('share'), t('folder.share')),
      iconButton('folder-rename', 'edit', t('folder.renameOf', { name: folder.name })),
      iconButton('folder-delete', 'trash', t('folder.deleteOf', { name: folder.name })),
    ]);
}

// statusChips filter games by their status.
function statusChips(k, p, home) {
  const { label, choices } = fieldOf(k, 'status'), chosen = p.get('status') ?? '';
  const chip = ([value, text]) => chipTo(home + withParam(p, 'status', value), chosen === value, text);
  return h('div.filters', { role: 'group', 'aria-label': label },
    Object.entries({ '': t('search.all'), ...choices }).map(chip));
}

// filterBar has what filters and sorts the list of a kind. byTag is the filter of tags.
function filterBar(k, p, home, byTag) {
  const file = k === kinds.file;
  const toggle = (name, ...label) => {
    const on = p.get(name);
    return chipTo(home + withParam(p, name, on ? '' : 'true'), on, label);
  };
  const remove = (name, ...label) => h('a.chip', { href: home + withParam(p, name, '') }, label, icon('close'));
  return h(siftOpen ? 'div.filters.sifted.open' : 'div.filters.sifted', {},
    file && filter('type', t('kind.type'), { '': t('kind.allTypes'), ...fileTypes }, p),
    byTag,
    toggle('favorite', icon('star'), t('kind.favourites')),
    k === kinds.bookmark && toggle('unreachable', t('kind.unreachableOnes')),
    filter('public', t('kind.visibility'), {
      '': t('kind.anyVisibility'), true: t('kind.public'), false: t('kind.private'),
    }, p),
    filter('sort', t('kind.order'), {
      newest: t('kind.newest'),
      oldest: t('kind.oldest'),
      updated: t('kind.updated'),
      title: t('kind.byName'),
      views: t('kind.mostViewed'),
      ...(file && { taken: t('kind.taken'), size: t('kind.largest') }),
      ...(k === kinds.game && { rating: t('kind.bestRated'), playtime: t('kind.mostPlayed') }),
    }, p, 'newest'),
    k === kinds.bookmark && p.get('url') && remove('url', h('span.cutoff', {}, p.get('url'))),
    p.get('q') && remove('q', t('format.quoted', { text: p.get('q') })));
}

// belongs reports whether a new record is one of the list that the parameters ask for.
function belongs(r, k, p) {
  if (r.kind !== k.name || p.get('q') || p.get('type')) return false;
  return !p.get('folder') || [r.folder?.id ?? 'unfiled', r.folder?.name].includes(p.get('folder'));
}

// manyItems is from how many items on a list has rows unless the user has chosen cards.
const manyItems = 200;

// showsCards reports whether a page of a kind shows cards: as the user has chosen, or unless there is much.
const showsCards = (k) => k !== kinds.file && storage.get(`cards-${k.name}`, (me.counts[k.name] ?? 0) <= manyItems);

// daysOf are the times by which a grid has headings, by its order.
const daysOf = { __proto__: null, '': (r) => r.createdAt, taken: (r) => r.takenAt ?? r.createdAt };

// siftOpen is whether the filters are shown where they are behind a button: on a phone.
let siftOpen = false;

// siftButton shows and hides the filters, and says how many are set.
function siftButton(p) {
  const n = [...filterNames, 'sort'].filter((name) => name !== 'folder' && p.get(name)).length;
  return button('sift', '', { class: 'quiet sift', 'aria-expanded': String(siftOpen), 'aria-label': t('kind.filters') },
    icon('admin'), n > 0 && h('b', {}, n));
}

export default function kindPage(v) {
  const k = v.kind, p = v.params, file = k === kinds.file, home = `${base}/${k.path}`;
  const chosen = filterNames.filter((n) => p.get(n)), filtered = chosen.length > 0;
  const grid = file && storage.get('grid', ['image', 'video'].includes(p.get('type')));
  v.grid = grid;
  v.cards = showsCards(k);
  if (v.cards) v.face = faceOf;

  const fields = () => ({
    ...folderFields(p),
    ...(p.getAll('tag').length && { tags: p.getAll('tag') }),
  });
  // The box of files is not shown, but what it does with chosen and dropped files holds for the whole page.
  if (file) {
    v.box = addBox({ kind: k.name, fields });
    v.box.node.hidden = true;
  }
  v.accepts = (r) => belongs(r, k, p);

  // The list.
  const query = new URLSearchParams();
  for (const [name, value] of p) if ([...filterNames, 'sort'].includes(name)) query.append(name, value);
  const count = h('small.soft'), make = { class: file ? 'main upload' : 'main', 'aria-keyshortcuts': 'n' };
  const makeIcon = icon(file ? 'upload' : 'plus'), makeText = file ? t('common.upload') : t('common.new');
  v.list = listOf(new Source([k.name], query, 50), {
    grid, cards: v.cards && k.name, dated: grid ? daysOf[p.get('sort') ?? ''] : null,
    counted(n) {
      count.textContent = countOf(k, n);
      for (const el of [filters, sift]) el.hidden = !n && !filtered;
    },
    empty: () => file && folderOf(p) && chosen.length === 1
      ? emptyState(t('folder.empty'), t('folder.emptyHint'))
      : filtered
        ? emptyState(t('list.noMatches'), t('list.noMatchesHint'), h('a.button', { href: home }, t('list.showAll')))
        : emptyState(t('list.none', { kinds: lower(k.many) }), k.none, h('div.row', {},
          button('new', makeText, { class: 'main' }), file && folderButton())),
  });

  // Tags and folders can be loaded, or change, while the page is shown.
  let byTag = tagFilter(k, p), bar = file && folderBar(p);
  const filters = filterBar(k, p, home, byTag), sift = siftButton(p);
  v.redraw = () => {
    if (byTag !== document.activeElement) {
      const next = tagFilter(k, p);
      byTag.replaceWith(next);
      byTag = next;
    }
    if (!file) return;
    const focused = bar.contains(document.activeElement) && document.activeElement.getAttribute('href');
    const next = folderBar(p);
    bar.replaceWith(next);
    bar = next;
    if (focused) all('a', bar).find((a) => a.getAttribute('href') === focused)?.focus();
  };

  // The head.
  const title = (file && folderOf(p)?.name) || k.many, tiled = grid || v.cards;
  add(v.out,
    heading(title, count,
      grid && tileSize(),
      sift,
      iconButton('view-list', 'list', t('kind.asList'), { 'aria-pressed': String(!tiled) }),
      iconButton('view-grid', 'grid', t('kind.asGrid'), { 'aria-pressed': String(!!tiled) }),
      file && folderButton({ class: 'quiet' }),
      button('new', '', make, makeIcon, makeText)),
    bar,
    k === kinds.game && statusChips(k, p, home),
    filters,
    file && v.box.node,
    v.list.node,
    k === kinds.collection && sharedPart(v));
  return title;
}

// tileSize is a slider for the height of the rows of a grid.
function tileSize() {
  const el = h('input.tile', {
    type: 'range', min: 100, max: 340, step: 20, value: tileHeight(), 'aria-label': t('kind.tileSize'),
  });
  const show = () => document.documentElement.style.setProperty('--tile', el.value + 'px');
  el.oninput = () => {
    storage.set('tile', Number(el.value));
    show();
  };
  el.onchange = () => { for (const img of all('#main .grid .pic img')) img.sizes = tileWidth(); };
  show();
  return el;
}

// showAs shows the page as a list or as a grid, now and the next time.
function showAs(grid) {
  storage.set(view.kind === kinds.file ? 'grid' : `cards-${view.kind.name}`, grid);
  rerender();
}

const withBulk = (use) => loadModule('bulk').then(use).catch(showProblem);

// withFolder runs something with the module of bulk changes and the folder of the page as it is now.
const withFolder = (run) => {
  const folder = folderOf(view.params);
  return withBulk((m) => run(m, folder));
};

addActions({
  sift(el) {
    siftOpen = !siftOpen;
    find('.sifted').classList.toggle('open', siftOpen);
    el.ariaExpanded = String(siftOpen);
  },
  'view-list': () => showAs(false),
  'view-grid': () => showAs(true),

  'folder-share'() {
    const folder = folderOf(view.params);
    loadModule('collections').then((m) => m.shareFolder(folder)).catch(showProblem);
  },
  'folder-new': () => withBulk((m) => m.newFolder()),
  'folder-rename': () => withFolder((m, folder) => m.renameFolder(folder)),
  'folder-delete': () => withFolder((m, folder) => m.deleteFolder(folder)),
});
