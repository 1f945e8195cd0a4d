// Lists of records: their sources, their rows, and the selection. It owns the selected records, the shapes of pictures,
// and what follows when a record is changed or deleted. Of view it uses list, signal, grid, cards, face, accepts
// and redraw. Pages make a list with listOf; every module that changes a record calls change, updateRows or showSaved.
import {
  add, addActions, ago, all, button, capitalize, dayName, find, h, handledEvents, icon, iconButton, itemOf, number,
  painted, picture, shorten, t, tn, toast, when,
} from './dom.js';
import {
  apiPathOf, fromOwner, isMedia, kindOf, kinds, pageOf, placeOf, shareAddressOf, tagNames, thumbnailOf, titleOf, visits,
} from './kinds.js';
import {
  api, base, copyLink, countChange, countItems, deleteLater, loadModule, localAddress, Problem, refreshFolders,
  refreshTags, restoreItems, setTrashed, showProblem, start, storage, tagColor, takeAnswer, view,
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

// marked is a text with search matches marked. Ranges count UTF-16 code units, as JavaScript does.
function marked(text, ranges) {
  const out = [];
  let at = 0;
  for (const [from, to] of ranges) {
    out.push(text.slice(at, from), h('mark', {}, text.slice(from, to)));
    at = to;
  }
  return [...out, text.slice(at)].filter((part) => part !== '');
}

// excerptOf is the part of a record where a search found its words; '' if the title already shows it.
function excerptOf(r, title) {
  if (!(r.found?.highlight.ranges?.length > 0)) return '';
  const { text, title: inTitle } = r.found.highlight;
  return title.includes(text) || text === r.slug && inTitle?.length > 0 ? '' : text;
}

// shows reports whether a text of a row is an excerpt, or its beginning: long texts are cut off in the row.
const shows = (text, excerpt) =>
  text === excerpt || text.length > 80 && excerpt.startsWith(text.replace(/…$/, '').trim());

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

// fillMenu fills the menu of a row when the user opens it.
function fillMenu(menu) {
  const r = itemOf(menu).record;
  const item = (act, name, label) => button(act, label, {}, icon(name), label);
  const at = r.kind === 'bookmark' ? r.url : localAddress(r.url);
  const opened = { href: at, target: '_blank', rel: 'noopener noreferrer' };
  const saved = { href: localAddress(r.url), download: r.originalName };
  const pop = find('.pop', menu);
  pop.replaceChildren(
    h('a.button', opened, icon('open'), t('common.open')),
    ...(r.kind === 'file' ? [h('a.button', saved, icon('download'), t('common.download'))] : []),
    item('edit', 'edit', t('common.edit')),
    item('share-item', 'share', t('list.share')),
    item('copy', 'copy', t('common.copyLink')),
    item('publish', r.isPublic ? 'lock' : 'check', r.isPublic ? t('list.private') : t('list.publish')),
    item('delete', 'trash', t('common.delete')));

  // It opens upwards if it would end below the window and there is room above.
  pop.classList.remove('up');
  const low = pop.getBoundingClientRect().bottom > innerHeight - 70;
  pop.classList.toggle('up', low && menu.getBoundingClientRect().top > pop.offsetHeight);
}

document.addEventListener('toggle', (e) => {
  if (!e.target.matches?.('details.menu')) return;
  itemOf(e.target).classList.toggle('open', e.target.open);
  if (e.target.open) fillMenu(e.target);
}, true);

// If a picture cannot be loaded, the letters under it show.
document.addEventListener('error', (e) => { if (e.target.matches?.('.pic img')) e.target.remove(); }, true);

const rowsOf = (r) => all(`.item[data-id="${r.id}"]`);

// focusedAction is the action of the focused button in an element.
const focusedAction = (el) => el.contains(document.activeElement) && document.activeElement.dataset.act;

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

  // keepShown keeps what is selected up to date, and drops what the list does not show any more.
  function keepShown(shown) {
    const now = new Map(shown.map((r) => [r.id, r]));
    for (const id of selected.keys()) {
      if (now.has(id)) selected.set(id, now.get(id));
      else if (!unshown.has(id)) selected.delete(id);
    }
  }

  // matchButton offers to select what the list has not shown yet, too.
  function matchButton(shown) {
    if (source.ended || selected.size < shown || unshown.size) return null;
    const all = source.total <= mostSelected, n = Math.min(source.total, mostSelected);
    return button('pick-matching', t(all ? 'list.allMatching' : 'list.firstMatching', { n }));
  }

  function showSelection() {
    const rows = all('.item', ul), shown = rows.map((row) => row.record);
    keepShown(shown);
    const own = shown.filter((r) => !r.owner).length;
    for (const row of rows) row.classList.toggle('picked', selected.has(row.record.id));
    const n = selected.size;
    document.body.classList.toggle('selecting', n > 0);
    ul.classList.toggle('picking', n > 0);
    bar.hidden = !n;
    if (!n) return;

    const act = focusedAction(bar);
    const files = [...selected.values()].every((r) => r.kind === 'file');
    bar.replaceChildren();
    add(bar,
      h('b', { 'aria-live': 'polite' }, number(n), h('span', {}, ' ', t('list.selected'))),
      n < own && button('pick-all', t('list.all')),
      matchButton(own),
      files && button('bulk-folder', t('list.move'), {}, icon('folder'), t('list.move')),
      button('bulk-tag', t('list.tag'), {}, icon('tag'), t('list.tag')),
      button('bulk-together', t('list.together'), {}, icon('collection'), t('list.together')),
      button('bulk-share', t('list.sharing'), {}, icon('share'), t('list.sharing')),
      button('bulk-delete', t('common.delete'), { class: 'danger' }, icon('trash'), t('common.delete')),
      iconButton('pick-none', 'close', t('list.clear')));
    if (act) find(`[data-act="${act}"]`, bar)?.focus();
  }

  const near = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting) && !more.hidden) load(view?.signal);
  }, { rootMargin: '400px' });
  const node = h('section', { 'aria-label': t('list.list') }, ul, state, more, bar);
  return { source, ul, node, load, count, prepend, showSelection, ended: () => source.ended };
}

// ---- The selection ----

// selected has the selected records by id. unshown are the ids of those that were selected because they match, which
// need no row. mostSelected is what one request can restore from the trash.
const selected = new Map(), unshown = new Set();
const mostSelected = 10_000;
let lastPicked = null;

export const selection = () => [...selected.values()];
export const selectsUnshown = () => unshown.size > 0;
export function clearSelection() {
  selected.clear();
  unshown.clear();
  document.body.classList.remove('selecting');
}

// selectMatching selects everything that the list of the page would show, which it reads.
export async function selectMatching({ list, signal }) {
  const source = list.source.again();
  const found = [];
  while (!source.ended && found.length < mostSelected) found.push(...await source.next(mostAtOnce, signal));
  if (signal.aborted || !selected.size) return;
  for (const r of found.filter((x) => !x.owner).slice(0, mostSelected)) {
    selected.set(r.id, r);
    unshown.add(r.id);
  }
  for (const box of all('.pick input', list.ul)) box.checked = selected.has(itemOf(box).record.id);
  list.showSelection();
}

// deselectAll clears the selection and shows it. It reports whether there was one.
export function deselectAll() {
  const any = selected.size > 0;
  clearSelection();
  for (const box of all('.pick input')) box.checked = false;
  view.list?.showSelection();
  return any;
}

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
    const row = itemOf(el);
    const rows = all('.item', view.list.ul);
    let picked = [row];
    if (e.shiftKey && lastPicked?.isConnected) {
      const [from, to] = [rows.indexOf(lastPicked), rows.indexOf(row)].sort((a, b) => a - b);
      picked = rows.slice(from, to + 1);
    }
    for (const one of picked) {
      find('.pick input', one).checked = el.checked;
      if (el.checked) selected.set(one.record.id, one.record);
      else selected.delete(one.record.id);
      if (!el.checked) unshown.delete(one.record.id);
    }
    lastPicked = row;
    view.list.showSelection();
  },
  'pick-all'() {
    for (const row of all('.item', view.list.ul)) {
      if (row.record.owner) continue;
      selected.set(row.record.id, row.record);
      find('.pick input', row).checked = true;
    }
    view.list.showSelection();
  },
  'pick-none': deselectAll,
});

// ---- The focus ----

// currentRow is the row that has the focus.
export const currentRow = () => document.activeElement?.closest?.('#main .item');

// moveFocus moves the focus by a number of rows.
export function moveFocus(by) {
  const rows = all('#main .item');
  if (!rows.length) return;
  const at = rows.indexOf(currentRow());
  const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, at + by));
  const row = rows[next];
  (find('a.name', row) ?? find('a, button, input', row))?.focus();
  row.scrollIntoView({ block: 'nearest' });
}

// moveFocusVertically moves the focus to the nearest item of the next or the previous line of a grid.
export function moveFocusVertically(by) {
  const now = currentRow()?.getBoundingClientRect();
  if (!now) return moveFocus(by);
  let best = null, least = Infinity;
  for (const row of all('#main .item')) {
    const box = row.getBoundingClientRect(), lines = (box.top - now.top) * by;
    if (lines < 1) continue;
    const distance = lines * 10 + Math.abs(box.left + box.width / 2 - now.left - now.width / 2);
    if (distance < least) [best, least] = [row, distance];
  }
  find('a.name', best ?? document.createElement('i'))?.focus();
  best?.scrollIntoView({ block: 'nearest' });
  return null;
}

// ---- Changing records ----

// anyTag stands for the tag of a record that a list has shown: lists do not have the tags.
const anyTag = '*';

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

// hide removes the rows of records from the page. It returns a function that shows them again.
function hide(records) {
  const removed = [];
  for (const r of records) {
    for (const row of rowsOf(r)) {
      const mark = document.createComment('');
      row.replaceWith(mark);
      removed.push([row, mark]);
    }
    selected.delete(r.id);
    countItems(r.kind, -1);
  }
  const list = view?.list, listed = removed.length ? records : [];
  list?.showSelection();
  list?.count(listed, -1);
  return (back) => {
    const ids = new Set(back.map((r) => r.id));
    for (const [row, mark] of removed) {
      if (mark.isConnected && ids.has(row.record.id)) mark.replaceWith(row);
    }
    list?.count(listed.filter((r) => ids.has(r.id)), 1);
  };
}

// remove moves a record to the trash as the user has seen it. What the server found out about it meanwhile does not
// matter.
async function remove(r) {
  const send = (etag) => api('DELETE', apiPathOf(r), undefined, { etag, keepalive: true });
  try {
    return await send(r.etag ?? anyTag);
  } catch (e) {
    if (e.record?.updatedAt !== r.updatedAt) throw e;
    return await send(e.record.etag);
  }
}

// trash moves records to the trash and returns the problems, by record.
export async function trash(records) {
  if (records.length > 1) return changeAll(records, { action: 'trash' }, { keepalive: true });
  try {
    await remove(records[0]);
    return new Map();
  } catch (e) { return new Map([[records[0], e]]); }
}

const mostAtOnce = 500;

// changeAll changes many records in one way (see POST /bulk) and returns the problems, by record. The user is asked
// before the page is left.
export async function changeAll(records, way, options) {
  const problems = new Map(), stay = (e) => e.preventDefault();
  if (records.length > mostAtOnce) addEventListener('beforeunload', stay);
  for (let at = 0; at < records.length; at += mostAtOnce) {
    const part = records.slice(at, at + mostAtOnce);
    try {
      const { data } = await api('POST', 'bulk', { ids: part.map((r) => r.id), ...way }, options);
      data.forEach((one, i) => {
        const status = one.code === 'not_found' ? 404 : 409;
        if (!one.ok) problems.set(part[i], new Problem(one.error, status, null, one.code));
      });
    } catch (e) { for (const r of part) problems.set(r, e); }
  }
  removeEventListener('beforeunload', stay);
  return problems;
}

const deletedText = (records) => records.length === 1
  ? t('list.deletedOne', { title: shorten(titleOf(records[0])) })
  : t('list.deleted', { n: records.length });

// removeRecords moves records to the trash. The message offers to restore them. Without a trash, the server deletes
// them when the message is gone.
export function removeRecords(records) {
  if (!records.length) return;
  countChange();
  const show = hide(records);
  const unhide = (back) => {
    for (const r of back) countItems(r.kind, 1);
    show(back);
  };
  const text = deletedText(records);
  const tags = records.map((r) => r.etag ?? anyTag);
  if (!start.trashDays) return deleteLater(text, records.map(apiPathOf), () => unhide(records), tags);

  const failed = [];
  const deleted = trash(records).then((problems) => {
    setTrashed(records.length - problems.size, true);
    for (const [r, problem] of problems) if (problem.status !== 404) failed.push(r);
    if (failed.length) {
      unhide(failed);
      showProblem(problems.get(failed[0]));
    }
    for (const r of failed) if (problems.get(r).record) updateRows(problems.get(r).record);
    refreshTags();
  });
  const restore = async () => {
    await deleted;
    try {
      const back = await restoreItems(records.filter((r) => !failed.includes(r)));
      for (const r of records) delete r.etag; // it has another one now
      show(records.filter((r) => back.some((b) => b.id === r.id)));
      for (const b of back) if (b.formerSlug) updateRows(await fetchRecord(b));
    } catch (e) { showProblem(e); }
  };
  return toast(text, { action: t('common.undo'), run: restore });
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
