// The page of a collection: a board that its owner and its members arrange in place. The server draws it with the
// template of the public page; this module adds what the user may do, follows what others do, and loads further pages.
// It fills view.out and sets shown, pictures, choose and sendFiles of view. The router calls the page.
import { removeRecords } from './deleting.js';
import { add, all, emptyState, find, h, icon, iconButton, t, toast } from './dom.js';
import { openForm } from './forms.js';
import { isMedia, kindOf, pageOf, titleOf } from './kinds.js';
import { change, openShare } from './list.js';
import { go, rerender } from './router.js';
import {
  api, base, countChange, loadModule, localAddress, me, problemOf, showProblem, takeAnswer, view,
} from './session.js';

const pageItems = 100; // on a page of the server
const liveMilliseconds = 1e4;
const mostFollowed = 3; // pages that are read again every time
const gatherMilliseconds = 1000;

// fetchPage reads a page of a board: its HTML and its entity tag; null if it still has the tag.
async function fetchPage(address, signal, etag = '') {
  let answer;
  try {
    answer = await fetch(address, {
      signal, cache: 'no-store', redirect: 'manual',
      headers: { accept: 'text/html', ...(etag && { 'if-none-match': etag }) },
    });
  } catch (e) { throw e.name === 'AbortError' ? e : problemOf(0); }
  if (answer.status === 304) return null;
  if (answer.type === 'opaqueredirect') throw problemOf(401);
  if (!answer.ok) throw problemOf(answer.status, { error: t('board.gone') });
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  await useStyle(find('link[rel=stylesheet][href*="/board."]', page));
  const article = document.importNode(find('article.board', page), true);
  for (const el of all('[src]', article)) el.setAttribute('src', localAddress(el.getAttribute('src')));
  return { article, etag: answer.headers.get('etag') };
}

// useStyle adds the style sheet of a board to the page of the app, once, and waits for it.
async function useStyle(link) {
  const href = localAddress(new URL(link.getAttribute('href'), location.href).href);
  if (all('link[rel=stylesheet]').some((l) => l.href === new URL(href, location.href).href)) return;
  const sheet = h('link', { rel: 'stylesheet', href });
  const loaded = new Promise((done) => {
    sheet.onload = done;
    sheet.onerror = done;
  });
  document.head.append(sheet);
  await loaded;
}

// A Board is the page of one collection.
class Board {
  constructor(v) {
    this.v = v;
    this.path = `collections/${encodeURIComponent(v.id)}`;
    this.records = new Map(); // the items that were read, by id, in their order
    this.reads = 0; // how often the board was read again
    this.changes = 0; // that the server has not answered
    this.waiting = 0; // files of visitors, for the owner
    this.node = h('div.place');
    this.status = h('p.hide', { 'aria-live': 'polite' });
  }

  // may is what the user may do with the collection. What is in a live one follows from a folder or a tag.
  get may() {
    const { role, source, sort } = this.r, live = !!(source?.folderId || source?.tag);
    const edits = !role || role === 'edit';
    return {
      own: !role, edits, live,
      adds: !live && (edits || role === 'add'),
      arranges: edits && !live && sort === 'manual',
    };
  }

  async load() {
    const first = `${base}/${this.path}/board`, { signal } = this.v;
    const [record, page] = await Promise.all([
      takeAnswer('collections/{id}') ?? api('GET', this.path, undefined, { signal }),
      fetchPage(first, signal),
      this.readItems(''),
    ]);
    this.r = record.data;
    this.pages = [{ address: first, etag: page.etag }];
    this.show(page.article);
    this.readWaiting();
  }

  // readWaiting shows how many files of visitors wait for the owner.
  async readWaiting() {
    const { uploadRequestId: id } = this.r;
    if (!id) return;
    try {
      const { data } = await api('GET', `upload-requests/${id}`, undefined, { signal: this.v.signal });
      if (data.pendingCount === this.waiting) return;
      this.waiting = data.pendingCount;
      find('.does', this.node).replaceWith(this.tools());
    } catch { /* It is shown with the next answer. */ }
  }

  // loadCopy shows the copy that this device keeps, without what can be done. Items of which it has copies open.
  async loadCopy() {
    const { signal } = this.v, { article } = await fetchPage(`${base}/${this.path}/board`, signal);
    const { data: copies } = await api('GET', 'search?limit=200', undefined, { signal });
    for (const { record: r } of copies) {
      const link = find(`[data-id="${r.id}"] a`, article);
      if (link) link.href = kindOf(r).href?.(r) ?? pageOf(r);
    }
    this.r = { title: find('h1', article).textContent };
    this.node.replaceChildren(article);
  }

  // readItems reads the records of a page of items.
  async readItems(cursor) {
    const query = `items?brief=true&limit=${pageItems}${cursor && '&cursor=' + cursor}`;
    const page = await api('GET', `${this.path}/${query}`, undefined, { signal: this.v.signal });
    for (const r of page.data) this.records.set(r.id, r);
    this.cursor = page.nextCursor;
  }

  // show replaces the board, and keeps the focus on its item.
  show(article) {
    const active = this.node.contains(document.activeElement) ? document.activeElement : null;
    const focused = active?.closest('[data-id]'), tool = active?.closest('.does') && active.textContent;
    this.complete(article);
    find('header', article).append(this.tools());
    this.node.replaceChildren(article, this.status);
    const tile = focused && find(`[data-id="${focused.dataset.id}"]`, article);
    if (tile) (all('button', tile).find((b) => b.ariaLabel === active.ariaLabel) ?? find('a', tile)).focus();
    if (tool) all('.does > *', article).find((b) => b.textContent === tool)?.focus();
    if (this.records.size) return;
    find('p.none', article)?.remove();
    article.append(emptyState(t('board.empty'), this.may.adds ? t('board.emptyHint') : ''));
  }

  // complete adds to the tiles of a page what the user may do with them, and where they lead.
  complete(article) {
    for (const tile of all('[data-id]', article)) {
      const r = this.records.get(tile.dataset.id);
      if (!r) continue;
      const out = kindOf(r).href?.(r), link = find('a', tile);
      link.href = out ?? pageOf(r);
      if (out) Object.assign(link, { target: '_blank', rel: 'noopener noreferrer' });
      tile.draggable = this.may.arranges;
      const mine = !r.owner, acts = h('div.acts');
      add(acts,
        this.may.arranges && [this.stepper(tile, r, 'back', -1), this.stepper(tile, r, 'next', 1)],
        this.may.edits && r.kind === 'file' && isMedia(r) && this.coverButton(r),
        !this.may.live && (this.may.edits || mine) &&
          this.tool('close', t('board.remove', { title: titleOf(r) }), () => this.remove(tile)));
      if (acts.firstChild) tile.append(acts);
    }
    const more = find('nav.among', article);
    const next = find('[rel=next]', more ?? article)?.getAttribute('href');
    more?.remove();
    if (!next) return;
    const b = h('button.wide', { type: 'button' }, t('board.more'));
    b.onclick = () => this.more(b, next);
    article.append(b);
    new IntersectionObserver(([seen], observer) => {
      if (!seen.isIntersecting) return;
      observer.disconnect();
      b.click();
    }, { rootMargin: '600px' }).observe(b);
  }

  // more adds the next page of the board below.
  async more(b, next) {
    b.disabled = true;
    try {
      const [page] = await Promise.all([fetchPage(next, this.v.signal), this.cursor && this.readItems(this.cursor)]);
      b.remove();
      this.join(page.article);
      this.pages.push({ address: next, etag: page.etag });
    } catch (e) {
      b.disabled = false;
      showProblem(e);
    }
  }

  // join adds the tiles of a further page to the board. Pictures go on in the same rows.
  join(article) {
    const board = find('article', this.node), album = find('.album', board);
    find('header', article).remove();
    this.complete(article);
    for (const part of [...article.children]) {
      if (album && part.matches('.album')) album.append(...part.children);
      else board.append(part);
    }
  }

  // ---- What the user does ----

  tool(name, label, run, props = {}) {
    const b = iconButton('none', name, label, { class: 'quiet square', ...props });
    b.onclick = (e) => {
      e.preventDefault();
      run(b);
    };
    return b;
  }

  // stepper is a button that moves a tile by one place.
  stepper(tile, r, name, by) {
    const b = this.tool(name, t(by < 0 ? 'board.back' : 'board.on', { title: titleOf(r) }), () => this.step(tile, by));
    b.classList.add('step');
    return b;
  }

  coverButton(r) {
    const isCover = this.r.cover === r.id;
    return this.tool('star', t('board.cover', { title: titleOf(r) }), async () => {
      try {
        this.r = await change(this.r, { cover: isCover ? null : r.id });
        await this.refresh(true); // the page may be the same: the first picture is the cover of one without
      } catch (e) { showProblem(e); }
    }, { class: 'quiet square star', 'aria-pressed': String(isCover) });
  }

  tools() {
    const row = h('div.row.does'), { own, adds } = this.may;
    const act = (name, label, run, props = {}) => {
      const b = h('button', { type: 'button', ...props }, icon(name), label);
      b.onclick = run;
      return b;
    };
    const arrange = this.may.arranges && act('swap', t('board.arrange'), () => {
      arrange.ariaPressed = String(this.node.classList.toggle('arranging'));
    }, { 'aria-pressed': String(this.node.classList.contains('arranging')) });
    const { uploadRequestId: request } = this.r;
    const review = request && this.waiting > 0 && h('a.button', { href: `${base}/upload-requests?request=${request}` },
      icon('inbox'), t('guests.review', { n: this.waiting }));
    const zip = this.r.allowDownload && this.records.size > 0;
    add(row,
      adds && act('plus', t('board.add'), () => this.choose(), { class: 'main', 'aria-keyshortcuts': 'n' }),
      own && act('share', t('common.share'), () => openShare(this.r), { class: adds ? '' : 'main' }),
      review,
      own && adds && act('inbox', t(request ? 'guests.link' : 'guests.title'), () => this.guests()),
      this.records.size > 1 && arrange,
      own && act('edit', t('common.edit'), () => go(`${base}/collections/${this.r.slug}?edit=1`)),
      zip && h('a.button', { href: `${base}/x/${localAddress(this.r.shareUrl).split('/v/')[1]}.zip`, download: '' },
        icon('download'), t('common.download')),
      own ? act('trash', t('common.delete'), () => this.delete(), { class: 'quiet' })
        : act('close', t('board.leave'), () => this.leave(), { class: 'quiet' }));
    return row;
  }

  // delete goes to the list first, which then hides the collection until it can be brought back no more.
  async delete() {
    const { r } = this;
    await go(`${base}/collections`);
    removeRecords([r]);
  }

  leave() {
    openForm({
      title: t('board.leaveTitle', { title: this.r.title }), text: t('board.leaveText'), button: t('board.leave'),
      danger: true,
      run: async () => {
        await api('DELETE', `${this.path}/members/${me.id}`);
        countChange();
        go(`${base}/collections`);
      },
    });
  }

  async choose() {
    try {
      (await loadModule('picker')).openPicker({
        title: this.r.title, has: this.records, told: this.r.isPublic && t('board.public'),
        take: (ids) => this.collect(ids), send: (files) => this.sendFiles(files),
      });
    } catch (e) { showProblem(e); }
  }

  async guests() {
    try {
      await (await loadModule('requests')).openGuests(this.r, () => this.refresh(true).catch(showProblem));
    } catch (e) { showProblem(e); }
  }

  // collect puts items into the collection.
  async collect(ids) {
    if (!ids.length) return;
    await api('POST', `${this.path}/items`, { add: ids });
    countChange();
    toast(t('board.added', { n: ids.length }));
    await this.refresh(true);
  }

  // sendFiles uploads files and puts them into the collection, in their order: those that have come within a moment
  // together.
  async sendFiles(files) {
    let come = [], timer = 0;
    const put = () => {
      const ids = come.sort((a, b) => files.indexOf(a.file) - files.indexOf(b.file)).map((one) => one.id);
      come = [];
      this.collect(ids).catch(showProblem);
    };
    try {
      (await loadModule('uploads')).sendFiles(files, {}, ({ id }, file) => {
        come.push({ id, file });
        clearTimeout(timer);
        timer = setTimeout(put, gatherMilliseconds);
      });
    } catch (e) { showProblem(e); }
  }

  // send tells the server of a change that shows already. If it is refused, the board is read again.
  async send(method, path, body) {
    this.changes++;
    try {
      await api(method, `${this.path}/${path}`, body);
      countChange();
      return true;
    } catch (e) {
      showProblem(e);
      this.refresh(true).catch(() => {});
      return false;
    } finally {
      this.changes--;
    }
  }

  // remove takes an item out. The focus goes to its neighbour.
  async remove(tile) {
    const next = tile.nextElementSibling ?? tile.previousElementSibling, { id } = tile.dataset;
    const r = this.records.get(id), before = this.after(id);
    tile.remove();
    this.records.delete(id);
    (find('.acts button:last-child', next ?? this.node) ?? find('a', next ?? this.node))?.focus();
    if (!await this.send('POST', 'items', { remove: [id] })) return;
    const undo = async () => {
      if (!await this.send('POST', 'items', { add: [id] })) return;
      if (this.may.arranges && before) await this.send('PATCH', `items/${id}`, { before });
      this.refresh(true).catch(showProblem);
    };
    toast(t('board.removed'), r?.owner ? {} : { action: t('common.undo'), run: undo });
    if (!this.records.size) this.refresh(true).catch(() => {});
  }

  // after is the id of the item after another one; null at the end, and undefined if what comes next was not read.
  after(id) {
    const order = [...this.records.keys()];
    return order[order.indexOf(id) + 1] ?? (this.cursor ? undefined : null);
  }

  // move puts a tile before another one of its list, or at the end, and says so to the server: before which item it
  // goes, so that no order is needed that the user has seen.
  async move(tile, next) {
    if (next === tile || tile.nextElementSibling === next) return;
    const list = tile.parentElement, { id } = tile.dataset;
    const before = next ? next.dataset.id : this.after(list.lastElementChild.dataset.id);
    if (before === undefined) return;
    const focused = tile.contains(document.activeElement) && document.activeElement;
    list.insertBefore(tile, next);
    focused?.focus?.();
    const tiles = [...list.children];
    this.status.textContent = t('board.moved', { i: tiles.indexOf(tile) + 1, n: tiles.length });
    this.reorder(id, before);
    this.moving = (this.moving ?? Promise.resolve()).then(() => this.send('PATCH', `items/${id}`, { before }));
    await this.moving;
  }

  // reorder puts a record before another one, or at the end.
  reorder(id, before) {
    const records = [...this.records].filter(([other]) => other !== id);
    const at = before ? records.findIndex(([other]) => other === before) : records.length;
    records.splice(at, 0, [id, this.records.get(id)]);
    this.records = new Map(records);
  }

  // step moves a tile by one place.
  step(tile, by) {
    if (by < 0 && tile.previousElementSibling) this.move(tile, tile.previousElementSibling);
    if (by > 0 && tile.nextElementSibling) this.move(tile, tile.nextElementSibling.nextElementSibling);
  }

  watch() {
    let dragged = null;
    const tileOf = (e) => e.target.closest?.('[data-id]');
    this.node.addEventListener('dragstart', (e) => {
      dragged = this.may.arranges ? tileOf(e) : null;
      if (dragged) e.dataTransfer.effectAllowed = 'move';
    });
    this.node.addEventListener('dragend', () => { dragged = null; });
    this.node.addEventListener('dragover', (e) => { if (dragged) e.preventDefault(); });
    this.node.addEventListener('drop', (e) => {
      const over = tileOf(e);
      if (!dragged || !over || over.parentElement !== dragged.parentElement) return;
      e.preventDefault();
      const box = over.getBoundingClientRect();
      this.move(dragged, e.clientX > box.left + box.width / 2 ? over.nextElementSibling : over);
    });
    this.node.addEventListener('keydown', (e) => {
      const tile = tileOf(e);
      if (!tile || !e.altKey || !this.may.arranges) return;
      const back = ['ArrowUp', 'ArrowLeft'].includes(e.key), on = ['ArrowDown', 'ArrowRight'].includes(e.key);
      if (!back && !on) return;
      e.preventDefault();
      this.step(tile, back ? -1 : 1);
    });
  }

  // ---- What others do ----

  // refresh shows the board as it is now, if it has changed: as many pages as were shown before.
  async refresh(always = false) {
    const mine = ++this.reads, { signal } = this.v;
    const answers = await Promise.all(this.pages.map((p) => fetchPage(p.address, signal, always ? '' : p.etag)
      .catch((e) => { // it may have fewer pages now
        if (e.status === 404 && p !== this.pages[0]) return { etag: null };
        throw e;
      })));
    if (answers.every((page) => !page)) return;

    const record = (await api('GET', this.path, undefined, { signal })).data, records = new Map();
    const pages = await Promise.all(this.pages.map((p, i) => answers[i] ?? fetchPage(p.address, signal)));
    if (mine !== this.reads || this.changes) return;
    this.r = record;
    this.records = records;
    for (const [i] of pages.entries()) if (i === 0 || this.cursor) await this.readItems(i ? this.cursor : '');
    const shown = pages.filter((page) => page.article);
    this.pages = shown.map((page, i) => ({ address: this.pages[i].address, etag: page.etag }));
    this.show(shown[0].article);
    for (const page of shown.slice(1)) {
      find('article > button.wide', this.node)?.remove();
      this.join(page.article);
    }
  }

  // follow shows what others change while somebody looks at it, until the user leaves. It is called each
  // time the page or its window is shown.
  follow() {
    const { signal } = view;
    if (this.followed === signal) return;
    this.followed = signal;
    this.v = view; // a page that was kept comes back as another one
    const look = async () => {
      const looksOn = !document.hidden && this.pages.length <= mostFollowed && !find('dialog[open]');
      if (!looksOn || this.looking || this.changes || find(':active', this.node)) return;
      this.looking = true;
      try {
        await this.refresh();
        await this.readWaiting();
      } catch (e) {
        if (e.status === 404 && !signal.aborted) rerender(); // it is shared no more
      } finally {
        this.looking = false;
      }
    };
    const timer = setInterval(look, liveMilliseconds);
    document.addEventListener('visibilitychange', look, { signal });
    signal.addEventListener('abort', () => clearInterval(timer));
  }
}

export default async function (v) {
  const board = new Board(v);
  add(v.out, board.node);
  try {
    await board.load();
  } catch (e) {
    if (e.status !== 0) throw e;
    await board.loadCopy();
    return board.r.title;
  }
  board.watch();
  v.pictures = () => [...board.records.values()].filter(isMedia);
  v.shown = () => board.follow();
  v.choose = () => board.may.adds && board.choose();
  v.sendFiles = board.may.adds && ((files) => board.sendFiles(files));
  document.addEventListener('record', ({ detail: r }) => {
    if (board.records.has(r.id)) board.refresh().catch(() => {});
  }, { signal: v.signal });
  return board.r.title || kindOf(board.r).one;
}
