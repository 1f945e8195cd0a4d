// The home page: a box for anything, the collections of the user and those shared with them, what waits for review, and
// what is new. It fills view.out and sets list, box, accepts and shown of view. The router calls the page.
import { addBox } from './add.js';
import { add, all, bytes, emptyState, find, h, icon, iconButton, isAddress, number, picture, t, toast } from './dom.js';
import { fileTypes, isPicture, kindOf, kinds, pageOf, thumbnailOf, titleOf } from './kinds.js';
import { listOf, Source } from './list.js';
import { go } from './router.js';
import { api, base, loadModule, me, pendingNow, showProblem, start, storage, takeAnswer, view } from './session.js';
import { ownTiles, sharedTiles, tileOf } from './tiles.js';

// pictureTile shows a picture in the strip of the home page.
function pictureTile(r) {
  const shown = picture('img', thumbnailOf(r, 'row'), { width: '96', height: '96' });
  const tile = h('li.item.tile', { 'data-id': r.id },
    h('a', { href: pageOf(r), 'aria-label': titleOf(r) }, shown));
  tile.record = r;
  return tile;
}

function favouriteChip(r) {
  const out = kindOf(r).href && { href: r.url, target: '_blank', rel: 'noopener noreferrer' };
  return h('a.chip.big', out || { href: pageOf(r) }, icon(kindOf(r).icon), h('span.cutoff', {}, titleOf(r)));
}

// mostTiles is how many collections the page shows.
const mostTiles = 7; // with that for a new one, they fill two columns

// part is a part of the page with its heading.
const part = (title, node, ...more) => h('section.overview', { 'aria-label': title },
  h('div.head', {}, h('h2', {}, title), more), node);

const reviewNote = () => pendingNow() > 0 && h('p.note.review', {}, icon('inbox'),
  h('span', {}, t('home.review', { n: pendingNow() })),
  h('a.button', { href: `${base}/upload-requests` }, t('common.show')));

// overview shows what waits for review, collections and favourites. Who has no collection yet sees the newest pictures:
// listed, if they came with the page.
async function overview(v, hasItems, listed) {
  const ask = async (name, path) =>
    takeAnswer(name) ?? await api('GET', path, undefined, { signal: v.signal }).catch(() => ({ data: [], total: 0 }));
  const [own, shared, hits] = await Promise.all([
    ask('tiles', `collections?limit=${mostTiles}&sort=updated`),
    ask('shared', `collections?limit=${mostTiles}&sort=updated&from=others`),
    ask('favourites', 'search?limit=12&q=is:favorite'),
  ]);
  const none = own.data.length > 0 || !hasItems;
  const files = none ? [] : listed ?? (await ask('', 'files?brief=true&limit=12&type=image')).data;
  const pictures = files.filter(isPicture).map(pictureTile);
  const favourites = hits.data.filter((hit) => kinds[hit.kind]).map((hit) => favouriteChip(hit.record));
  const allOf = ({ total }) => total > mostTiles
    && h('a.button.quiet', { href: `${base}/collections` }, t('home.all', { n: number(total) }));
  const mine = hasItems && part(kinds.collection.many, ownTiles(own.data), allOf(own));
  const others = await sharedTiles(v, shared, allOf(shared));

  return [
    reviewNote(),
    ...own.data.length ? [mine, others] : [others, mine],
    pictures.length > 0 && part(fileTypes.image, h('ul.strip', {}, pictures)),
    favourites.length > 0 && part(t('kind.favourites'), h('div.filters', {}, favourites)),
  ];
}

// setupNote says how many steps to set up the server are left, until they are done or the note is closed.
function setupNote(left) {
  const node = h('p.note', {},
    h('span', {}, t('home.setup', { n: left })),
    h('button', { type: 'button' }, t('common.show')),
    iconButton('none', 'close', t('common.dismiss')));
  const [show, close] = all('button', node);

  // The steps may be done elsewhere, such as on the command line.
  async function read() {
    try {
      const n = await (await loadModule('welcome')).setupLeft();
      if (!node.isConnected) return;
      storage.set('setup', n);
      if (n) find('span', node).textContent = t('home.setup', { n });
      else node.remove();
    } catch { /* it says what it said before */ }
  }
  show.onclick = async () => {
    try { node.replaceWith(await (await loadModule('welcome')).setupCard()); } catch (e) { showProblem(e); }
  };
  close.onclick = () => {
    storage.set('setup', 0);
    node.remove();
  };
  return { node, read };
}

document.addEventListener('visibilitychange', () => {
  if (!document.hidden && view?.name === 'home') view.shown?.();
});

// takeShared takes over what another app shared before the user signed in: the address has it. A page becomes a
// bookmark, and other texts go into the box.
function takeShared(v) {
  const [title, text, url] = ['title', 'text', 'url'].map((n) => v.params.get(n) ?? '');
  const shared = [title, text, url].filter(Boolean).join('\n'), page = [url, text].find(isAddress);
  if (page) {
    const values = new URLSearchParams({ url: page.trim(), title, description: page === url ? text : '' });
    setTimeout(() => go(`${base}/bookmarks/new?${values}`));
  } else if (shared) {
    v.box.type(shared);
  }
  if (v.params.get('again') === 'share') toast(t('home.signedOut'), { bad: true });
  if (v.params.get('again') === 'offline') toast(t('offline.files'), { bad: true });
  if (shared || v.params.has('again')) history.replaceState(null, '', base + '/');
}

const countAll = () => Object.values(me.counts).reduce((a, b) => a + b, 0);
const sizeOfAll = () => countAll() > 0 ? t('home.summary', { n: countAll(), size: bytes(me.usedBytes ?? 0) }) : '';

// recentList is the list of what is new. An empty one greets the user. summary tells how much there is.
function recentList(summary) {
  let greeting = null;
  const names = Object.keys(kinds).filter((name) => name !== 'collection'); // they have tiles
  const list = listOf(new Source(names, {}, 12), {
    page: 12, byHand: true,
    empty() {
      find('main > #setup')?.remove(); // the greeting has it
      greeting = h('div', {}, emptyState(t('home.empty'), t('home.emptyHint')));
      const node = greeting;
      loadModule('welcome').then((m) => node.append(m.welcome()), () => {});
      return node;
    },
    counted(n) {
      summary.textContent = sizeOfAll();
      if (n && greeting) list.node.after(...all('#setup', greeting)); // it stays when the first item comes
    },
  });
  return {
    ...list,
    prepend(r) {
      const shelf = r.kind === 'collection' && find('.shelf');
      if (shelf) shelf.prepend(tileOf(r));
      else list.prepend(r);
    },
  };
}

export default async function (v) {
  const total = countAll(), summary = h('small.soft', {}, sizeOfAll());
  const files = start.answers.files?.data; // before the list takes them
  v.box = addBox();
  takeShared(v);
  v.list = recentList(summary);
  v.accepts = () => true;

  const left = me.role === 'admin' && total > 0 ? storage.get('setup', 0) : 0;
  const setup = left > 0 ? setupNote(left) : null;
  v.shown = () => setup?.node.isConnected && setup.read();

  add(v.out,
    h('h1.hide', {}, t('home.title')),
    v.box.node,
    setup?.node,
    await overview(v, total > 0, files),
    h('div.head', {}, h('h2', {}, t('home.recent')), summary),
    v.list.node);
  return t('home.title');
}
