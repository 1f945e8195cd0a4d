// Lists of records: their sources and their rows. It owns the selected records, the shapes of pictures, and what
// follows when a record is changed. Of view it uses list, signal, grid, cards, face, accepts and redraw. Pages make a
// list with listOf; every module that changes a record calls change, updateRows or showSaved.
import {
  addActions, all, button, capitalize, dayName, find, h, handledEvents, icon, iconButton, itemOf, marked, painted,
  picture, t, tn, toast, when,
} from './dom.js';
import {
  apiPathOf, excerptOf, fromOwner, isMedia, kindOf, kinds, pageOf, placeOf, shareAddressOf, shows, tagNames,
  thumbnailOf, titleOf, visits,
} from './kinds.js';
import {
  api, base, copyLink, countChange, countItems, loadModule, refreshFolders, refreshTags, showProblem,
  storage, tagColor, takeAnswer, view,
} from './session.js';

// ---- Sources ----

// filters are the parameters of a page that the lists of the API know. They refuse others.
const filters = ['q', 'tag', 'tags', 'favorite', 'public', 'sort', 'folder', 'type', 'status', 'unreachable', 'url'];

// A Source reads the lists of several kinds page by page and merges them, newest first.
export class Source {
  constructor(names, params, page) {
    this.heads = names.map((name) => {
      const k = kinds[name];
      return { k, items: [], cursor: '', total: 0, first: takeAnswer(k.api) };
    });
    Object.assign(this, { names, params, page });
  }

  // again is the same source from its beginning, as it is now.
  again() { return new Source(this.names, this.params, this.page); }

  get total() { return this.heads.reduce((n, head) => n + head.total, 0); }
  get ended() { return this.heads.every((head) => head.cursor === null && !head.items.length); }

  async fill(head, n, signal) {
    let answer = head.first;
    head.first = null;
    if (!answer) {
      const known = [...new URLSearchParams(this.params)].filter(([name]) => filters.includes(name));
      const query = new URLSearchParams(known);
      query.set('limit', head.cursor ? n : this.page);
      query.set('brief', 'true');
      if (head.cursor) query.set('cursor', head.cursor);
      answer = await api('GET', `${head.k.api}?${query}`, undefined, { signal });
    }
    head.items.push(...answer.data);
    head.cursor = answer.nextCursor;
    head.total = answer.total;
  }

  // next returns up to n records. It asks the server only if it would have nothing to return.
  async next(n, signal) {
    const out = [];
    while (out.length < n) {
      const dry = this.heads.filter((head) => !head.items.length && head.cursor !== null);
      if (dry.length && out.length) break;
      await Promise.all(dry.map((head) => this.fill(head, n, signal)));
      const full = this.heads.filter((head) => head.items.length);
      if (!full.length) break;
      const newest = full.reduce((a, b) => a.items[0].createdAt >= b.items[0].createdAt ? a : b);
      out.push(newest.items.shift());
    }
    return out;
  }

  // count corrects the total after a record was added or deleted.
  count(r, n) {
    const head = this.heads.find((x) => x.k === kindOf(r));
    if (head) head.total += n;
  }
}

// fetchRecord reads a record with its whole text, which lists shorten.
export const fetchRecord = async (r) => (await api('GET', apiPathOf(r))).data;

// ---- Rows ----

export function tagChip(name) {
  const el = h('a.chip', { href: `${base}/search?tag=${encodeURIComponent(name)}` }, h('i'), name);
  const color = tagColor(name);
  if (color) el.style.setProperty('--tag', color);
  return el;
}

// sharing says how an item is shared; nothing if it is simply private.
export function sharing(r) {
  const k = kindOf(r), out = [];
  const over = r.expiresAt && Date.parse(r.expiresAt) <= Date.now();
  if (r.isPublic && !over) out.push(h('span.badge.on', {}, t('list.public')));
  if (over) out.push(h('span.badge.warn', {}, t('list.expired')));
  else if (r.expiresAt) out.push(h('span', {}, tn('list.expires', { when: when(r.expiresAt) })));
  if (r.hasPassword) out.push(h('span', { title: t('list.needsPassword') }, icon('lock'), ' ', t('list.password')));
  const n = r[k.counter] ?? 0, some = r.viewsOfLimit ?? 0;
  if (r[k.limit]) out.push(t(k.counter === 'clicks' ? 'list.ofClicks' : 'list.ofViews', { some, n: r[k.limit] }));
  else if (n || k.counter === 'clicks') out.push(visits(k, n));
  return out;
}

// tileHeight is the least height of the rows of a grid. At first a phone shows two pictures side by side. tileWidth
// tells the browser about how wide a picture is, so that it chooses a file. A phone with a simple screen needs only the
// small ones.
const onPhone = () => innerWidth < 600;
export const tileHeight = () => storage.get('tile', onPhone() ? 120 : 180);
export const tileWidth = () => `${Math.round(tileHeight() * (onPhone() ? 1.2 : 1.8))}px`;

function thumbnail(r, face) {
  if (face?.picture) return face.picture;
  const letters = kindOf(r).badge?.(r);
  const pic = h('span.pic', {}, face?.letter ?? (letters ? h('b', {}, letters) : icon(kindOf(r).icon)));
  if (face) {
    if (r.iconUrl) pic.append(picture('img.favicon', `${base}/t/${placeOf(r)}`));
    if (r.kind === 'bookmark' || r.coverUrl || r.imageUrl || r.coverId || r.photoId) addCover(pic, r, [4000, 15000]);
  } else if (r.iconUrl) {
    pic.append(picture('img.favicon', `${base}/t/${placeOf(r)}`));
  } else if (isMedia(r)) {
    const files = `${thumbnailOf(r, 'small')} 256w, ${thumbnailOf(r)} 480w`;
    pic.append(view?.grid ? picture('img', thumbnailOf(r), { sizes: tileWidth() }, files)
      : picture('img', thumbnailOf(r, 'row')));
  }
  return pic;
}

// addCover shows the picture of a bookmark's page, a game or a recipe. The server may still have to fetch it: it is
// asked again after each of the waits.
function addCover(pic, r, [wait, ...more]) {
  const img = picture('img.cover', `${base}/t/${placeOf(r)}?size=picture&v=${r.photoId ?? r.coverId ?? ''}`);
  const again = () => { if (pic.isConnected) addCover(pic, r, more); };
  img.onerror = () => { if (wait && (r.imageUrl || r.coverUrl)) setTimeout(again, wait); };
  pic.append(img);
}

// shapes are the widths of pictures divided by their heights, by id. A grid learns them as the pictures load. The
// browser keeps them, so that the tiles of the next visit are in their places from the beginning.
const shapes = new Map(storage.get('shapes', []));
const maxShapes = 1000;
addEventListener('pagehide', () => storage.set('shapes', [...shapes]));

document.addEventListener('load', (e) => {
  const row = e.target.matches?.('.pic img') && itemOf(e.target);
  if (!row) return;
  if (shapes.size >= maxShapes) shapes.clear();
  const shape = e.target.naturalWidth / e.target.naturalHeight;
  shapes.set(row.dataset.id, Math.min(3, Math.max(0.4, shape)).toFixed(3));
  row.style.setProperty('--shape', shapes.get(row.dataset.id));
}, true);

// pickBox selects a row. Chromium stores the state of all fields after scrolling, but for those with autocomplete off:
// 50 ms for 10 000.
const pickBox = (r, title) => h('label.pick', {}, h('input', {
  type: 'checkbox', autocomplete: 'off', 'aria-label': t('list.select', { title }), act: 'pick',
  checked: selected.has(r.id),
}));

const rowTools = (r, title) => h('div.acts', {},
  iconButton('star', 'star', t('list.favourite'), {
    'aria-pressed': String(!!r.isFavorite), class: 'quiet square star',
  }),
  iconButton('share-item', 'share', t('list.shareOf', { title })),
  iconButton('row-menu', 'more', t('list.more', { title }), { title: t('common.more'), 'aria-haspopup': 'true' }));

function recordRow(r) {
  const k = kindOf(r), title = titleOf(r), href = k.href?.(r), hit = r.found;
  const asNodes = (parts) => parts.filter(Boolean).map((m) => typeof m === 'string' ? h('span', {}, m) : m);

  const name = hit?.title === title ? marked(title, hit.highlight.title) : title;
  const face = view?.cards ? view.face(r) : null;
  const meta = asNodes(face?.meta ?? k.meta(r));
  const excerpt = excerptOf(r, title), found = excerpt ? marked(excerpt, hit.highlight.ranges) : [];
  const same = excerpt && (r.kind === 'note' ? meta[0] : meta.find((m) => shows(m.textContent, excerpt)));
  if (same) same.replaceChildren(...found);

  const open = href ? { href, target: '_blank', rel: 'noopener noreferrer' } : { href: pageOf(r) };
  const row = h(isMedia(r) ? 'div.item.media' : 'div.item', { role: 'listitem' },
    !r.owner && pickBox(r, title),
    !face?.body && h('a.see', { ...open, tabindex: '-1', 'aria-hidden': 'true' }, thumbnail(r, face)),
    h('div.what', {},
      h('a.name', open, name),
      excerpt && !same && h('div.excerpt', {}, found),
      face?.body,
      h('div.meta', {},
        meta,
        r.owner ? h('span', {}, fromOwner(r)) : asNodes(sharing(r)),
        tagNames(r).map(tagChip),
        r.waiting && h('span.badge.warn', {}, t('list.waiting')),
        r.createdAt && when(r.createdAt))),
    !r.owner && rowTools(r, title));

  row.record = r;
  row.classList.toggle('picked', selected.has(r.id));
  row.dataset.id = r.id;
  if (shapes.has(r.id)) row.style.setProperty('--shape', shapes.get(r.id));
  return row;
}

// fillMenu fills the menu of a row, which few rows need.
const fillMenu = (menu) => loadModule('menu').then((m) => m.fillMenu(menu)).catch(showProblem);

document.addEventListener('toggle', (e) => {
  if (!e.target.matches?.('details.menu')) return;
  itemOf(e.target).classList.toggle('open', e.target.open);
  if (e.target.open) fillMenu(e.target);
}, true);

// If a picture cannot be loaded, the letters under it show.
document.addEventListener('error', (e) => { if (e.target.matches?.('.pic img')) e.target.remove(); }, true);

export const rowsOf = (r) => all(`.item[data-id="${r.id}"]`);

// focusedAction is the action of the focused button in an element.
export const focusedAction = (el) => el.contains(document.activeElement) && document.activeElement.dataset.act;

// keepMenu moves an open menu into the new row of its record.
function keepMenu(menu, row) {
  find('[data-act="row-menu"]', row).replaceWith(menu);
  row.classList.add('open');
  fillMenu(menu);
}

// updateRows redraws the rows of a changed record. Dialogs that show the record listen to the event.
export function updateRows(r) {
  countChange();
  for (const row of rowsOf(r)) {
    if (row.matches('.tile')) continue;
    const focused = row.contains(document.activeElement), act = focusedAction(row);
    const menu = find('details.menu[open]', row);
    const next = recordRow(r);
    row.replaceWith(next);
    if (menu) keepMenu(menu, next);
    if (!focused) continue;
    const same = act && find(`[data-act="${act}"]`, next);
    (same || menu?.firstChild || find('a.name', next)).focus({ preventScroll: true });
  }
  view?.list?.showSelection();
  document.dispatchEvent(new CustomEvent('record', { detail: r }));
}

// redrawAll redraws every row that does not have the focus.
export function redrawAll() {
  for (const row of all('#main .item:not(.tile)')) {
    if (row.record && !row.contains(document.activeElement)) row.replaceWith(recordRow(row.record));
  }
}

// ---- The list of a page ----

// chunkSize is how many rows a chunk of a list has, and how many chunks a large one.
const chunkSize = 10;
const dateRow = (name) => h('div.date', { role: 'listitem' }, h('h2', {}, name));

// firstRows is how many rows a list shows before it makes more.
const firstRows = 12;

// rowsAtOnce is how many rows a list makes before it lets the browser handle events.
const rowsAtOnce = 6;

// listOf shows the records of a source, with a button for more and a bar for the selection. empty makes what replaces
// an empty list; counted is called with the number of records. dated is the time of a record, if there are headings
// between days, and byHand loads more only when the button is pressed. The rows of a list without pictures are in
// chunks. Browsers leave out chunks that are not in the window, so scrolling costs the same in a long list.
export function listOf(source, {
  page = 50, empty, grid = false, cards = '', dated = null, counted = null, byHand = false,
}) {
  const look = cards ? `.cardlist.of-${cards}` : grid ? '.grid' : '';
  const ul = h(`div.list${look}`, { role: 'list', 'aria-label': t('list.items') });
  const state = h('div.state', { 'aria-live': 'polite' });
  const more = h('button.wide', { type: 'button', act: 'more', hidden: true });
  const bar = h('div.bulk', { role: 'toolbar', 'aria-label': t('list.selectionActions'), hidden: true });
  let busy = false;

  async function load(signal) {
    if (busy) return;
    busy = true;
    more.disabled = true;
    ul.ariaBusy = 'true';
    if (!ul.firstChild) state.replaceChildren(h('p.soft', {}, t('common.loading')));
    try {
      // What came with the page is shown before the rest is asked for, beginning with what a window shows.
      for (let left = page, first = true; first || (left > 0 && !source.ended); first = false) {
        const records = await source.next(left, signal);
        for (const r of records) {
          if (!seen.has(r.id)) append(recordRow(r));
          if (seen.size === firstRows) {
            showState();
            await painted();
          } else if (seen.size % rowsAtOnce === 0) {
            state.replaceChildren(); // the text that says that the list loads would move
            await handledEvents();
          }
        }
        left -= records.length;
        showState();
      }
      // The end of the list may still be near the window.
      near.unobserve(more);
      if (!byHand) near.observe(more);
    } catch (e) {
      if (e.name === 'AbortError') return void near.observe(more); // the page may be shown again
      state.replaceChildren(h('p.alert', { role: 'alert' }, e.message), button('more', t('common.again')));
    } finally {
      busy = more.disabled = false;
      ul.ariaBusy = null;
    }
  }

  // append adds a row, below a heading if it is the first of its day. showState hides headings without rows.
  const seen = new Set();
  let day = '', appended = 0;
  function append(row) {
    seen.add(row.dataset.id);
    const rowDay = dated && dayName(dated(row.record));
    if (rowDay && rowDay !== day) {
      day = rowDay;
      ul.append(dateRow(day));
    }
    if (grid || cards) return ul.append(row);

    if (appended % (chunkSize * chunkSize) === 0) ul.append(h('div.chunk.large', { role: 'none' }));
    if (appended % chunkSize === 0) ul.lastChild.append(h('div.chunk', { role: 'none' }));
    appended++;
    return ul.lastChild.lastChild.append(row);
  }

  function showState() {
    const n = ul.getElementsByClassName('item').length;
    if (dated) for (const date of all('.date', ul)) date.hidden = !date.nextElementSibling?.matches('.item');
    ul.hidden = !n;
    more.hidden = source.ended;
    more.textContent = t('list.showMore', { n, total: source.total });
    if (n) state.replaceChildren();
    else if (source.ended) state.replaceChildren(empty());
    counted?.(Math.max(source.total, n));
  }

  // count corrects the total by n for each record.
  function count(records, n) {
    for (const r of records) source.count(r, n);
    showState();
  }

  function prepend(r) {
    find(`.item[data-id="${r.id}"]`, ul)?.remove();
    source.count(r, 1);
    const row = recordRow(r);
    seen.add(r.id);
    row.classList.add('new');
    if (!ul.firstChild) append(row);
    else (find('.chunk .chunk', ul) ?? ul).prepend(row);

    // The row goes below the heading of its day, or gets one.
    const next = row.nextElementSibling, name = dated && dayName(dated(r));
    if (dated && next?.textContent === name) row.before(next);
    else if (dated && !row.previousElementSibling) row.before(dateRow(name));
    showState();
  }

  const near = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting) && !more.hidden) load(view?.signal);
  }, { rootMargin: '400px' });
  const node = h('section', { 'aria-label': t('list.list') }, ul, state, more, bar);
  const list = { source, ul, node, bar, load, count, prepend, showSelection, ended: () => source.ended };
  function showSelection() {
    if (selected.size || !bar.hidden) withSelection((m) => m.showSelection(list));
  }
  return list;
}

// ---- The selection ----

// selected has the selected records by id. unshown are the ids of those that were selected because they match, which
// need no row. selection.js fills them.
export const selected = new Map(), unshown = new Set();
export const selection = () => [...selected.values()];

// clearSelection clears the selection, and what shows it.
export function clearSelection() {
  if (!selected.size) return;
  selected.clear();
  unshown.clear();
  document.body.classList.remove('selecting');
  const { ul, bar } = view?.list ?? {};
  if (!ul) return; // the page is drawn again
  bar.hidden = true;
  ul.classList.remove('picking');
  for (const row of all('.item', ul)) unpick(row);
}

// unpick shows that a row is not selected.
export function unpick(row) {
  row.classList.remove('picked');
  const box = find('.pick input', row);
  if (box) box.checked = false;
}

// withSelection uses the module of the selection, which is loaded for the first one.
const withSelection = (use) => loadModule('selection').then(use).catch(showProblem);

addActions({
  more: () => view.list.load(view.signal),
  // Few rows need a menu, so the first press makes it.
  'row-menu'(el) {
    const summary = h('summary.quiet.square', { 'aria-label': el.ariaLabel, title: el.title }, icon('more'));
    const menu = h('details.menu', { open: true }, summary, h('div.pop'));
    el.replaceWith(menu);
    summary.focus();
  },
  pick(el, e) {
    const { record } = itemOf(el);
    if (el.checked) selected.set(record.id, record);
    else selected.delete(record.id);
    withSelection((m) => m.pick(el, e.shiftKey));
  },
  'pick-none': clearSelection,
});

// ---- Changing records ----

// anyTag stands for the tag of a record that a list has shown: lists do not have the tags.
export const anyTag = '*';

// change changes a record as the user has seen it, and returns what it is then. If the same was changed elsewhere, the
// problem has the present record; other changes stay.
export async function change(r, body) {
  const send = async (etag) => (await api('PATCH', apiPathOf(r), body, { etag })).data;
  try {
    return await send(r.etag ?? anyTag);
  } catch (e) {
    const clashes = (name) => JSON.stringify(e.record[name]) !== JSON.stringify(r[name]);
    if (!e.record || Object.keys(body).some(clashes)) throw e;
    return await send(e.record.etag);
  }
}

// saveRecord changes a record and reports whether the server did.
export async function saveRecord(r, body) {
  try {
    updateRows(await change(r, body));
    return true;
  } catch (e) {
    if (e.record) updateRows(e.record);
    showProblem(e);
    return false;
  }
}

// ---- What follows a change ----

// withBookmarks uses the module of bookmarks. Nothing waits for it, and nothing is lost if it cannot be loaded.
export const withBookmarks = (use) => void loadModule('bookmarks').then(use, () => {});

// showSaved shows a record that was saved. duplicates are other bookmarks of the same page.
export function showSaved(r, fresh, duplicates) {
  if (r.kind === 'bookmark') withBookmarks((m) => m.showSaved(r, duplicates));
  if (tagNames(r).some((n) => !tagColor(n))) refreshTags().then(() => updateRows(r));
  if (r.kind === 'file') refreshFolders().then(() => view?.redraw?.());
  if (!fresh) {
    updateRows(r);
    toast(t('common.saved'), { time: 2500 });
    return;
  }
  countChange();
  countItems(r.kind, 1);
  if (view?.accepts?.(r)) view.list.prepend(r);
  // The module of bookmarks shows its own message for duplicates.
  if (duplicates?.length) return;
  const action = r.isPublic || r.kind === 'shortlink' ? t('common.copyLink') : t('common.share');
  const run = () => r.isPublic ? copyLink(shareAddressOf(r)) : openShare(r);
  toast(t('editor.added', { kind: capitalize(kindOf(r).one) }), { action, run });
}

// copyItemLink copies the link of an item. If only the owner can open it, the message says so.
export function copyItemLink(r) {
  if (r.isPublic) return copyLink(shareAddressOf(r));
  const more = { action: t('common.share'), run: () => openShare(r) };
  return copyLink(shareAddressOf(r), t('list.privateLinkCopied'), more);
}

// openShare opens the share dialog for a record as it is now. What a list has shown may be old.
export async function openShare(r) {
  try { (await loadModule('share')).share(r.etag ? r : await fetchRecord(r)); } catch (e) { showProblem(e); }
}
