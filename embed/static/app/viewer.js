// The viewer shows the pictures and films of the current list, one at a time and as large as the screen. It owns its
// dialog, the stage and the slides. Of view it uses list and signal, to know what comes next and to load more. The
// router calls openViewer.
import { removeRecords } from './deleting.js';
import { add, all, bytes, day, find, h, icon, iconButton, t, when } from './dom.js';
import { openEditor } from './editor.js';
import { openDialog } from './forms.js';
import {
  canEdit, fromOwner, isForBrowser, isMedia, isPicture, kinds, tagNames, thumbnailOf, titleOf,
} from './kinds.js';
import { copyItemLink, fetchRecord, openShare, saveRecord, sharing, tagChip } from './list.js';
import { metadataLine } from './metadata.js';
import { loadModule, localAddress, showProblem, storage, view } from './session.js';

// Larger pictures show a smaller version until they are loaded.
const largePicture = 2e6;
const slideMilliseconds = 5000;

// sequence is the records that the viewer can show: those of the strip on the home page, the list or the board, or
// only r.
function sequence(r) {
  for (const list of [...all('#main .strip'), view?.list?.ul].filter(Boolean)) {
    const listed = all('.item', list).map((row) => row.record).filter(isMedia);
    if (listed.some((x) => x.id === r.id)) return listed;
  }
  const others = view?.pictures?.() ?? [];
  return others.some((x) => x.id === r.id) ? others : [r];
}

// restore has the server get a small version of what an element shows, if it has none.
const restore = (r, el) => !r.owner && loadModule('poster').then((m) => m.restorePoster(r, el), () => {});

function filmOf(r, src) {
  const video = h('video', {
    src, poster: thumbnailOf(r), controls: true, playsinline: true, preload: 'metadata', 'aria-label': titleOf(r),
  });
  video.addEventListener('loadeddata', () => restore(r, video), { once: true });
  return video;
}

// pictureAddress is the address of a picture, or of its small version where most browsers cannot show the file.
const isShown = (r) => /^image\/(png|jpe?g|gif|webp|avif|bmp|svg)/.test(r.mimeType);
const pictureAddress = (r) => (isShown(r) ? localAddress(r.url) : thumbnailOf(r, 'screen'));

// fallBack shows the file of a picture without a small version, if this browser can, or says that it cannot.
function fallBack(r, img) {
  const file = localAddress(r.url), tried = isShown(r) || img.src.endsWith(file) || r.size > 10 * largePicture;
  if (!tried) img.src = file;
  else (img.closest('.loading') ?? img).replaceWith(h('p.unshown', {}, icon('file'), t('viewer.unshown')));
}

function stageOf(r) {
  if (!isPicture(r)) return filmOf(r, localAddress(r.url));
  const src = pictureAddress(r);
  const img = h('img', { src, alt: r.description || titleOf(r), draggable: 'false' });
  img.onerror = () => fallBack(r, img);
  if (isForBrowser(r)) img.addEventListener('load', () => img.src.endsWith(localAddress(r.url)) && restore(r, img));
  if (r.size < largePicture) return img;
  const box = h('div.loading', {}, h('img', { src: thumbnailOf(r, 'screen'), alt: '' }), img);
  img.addEventListener('load', () => box.classList.remove('loading'));
  return box;
}

// factsOf says what is known of a file. How and where a picture was taken is told to its owner only.
function factsOf(r) {
  const camera = [r.exif?.camera, r.exif?.lens].filter(Boolean).join(', '), place = r.exif?.location;
  const fact = (label, ...value) => h('div', {}, h('dt', {}, label), h('dd', {}, value));
  return h('div', {},
    h('h3', {}, titleOf(r)),
    r.description && h('p.text', {}, r.description),
    h('dl', {},
      fact(t('viewer.size'), bytes(r.size)),
      fact(t('viewer.type'), r.mimeType),
      r.takenAt && fact(t('viewer.taken'), day(r.takenAt)),
      camera && fact(t('viewer.camera'), camera),
      place && fact(t('viewer.place'), `${place.lat.toFixed(4)}, ${place.lon.toFixed(4)}`),
      fact(t('viewer.added'), when(r.createdAt)),
      r.folder && fact(t('viewer.folder'), r.folder.name),
      fact(t('viewer.visibility'), r.owner ? fromOwner(r) : r.isPublic ? sharing(r) : t('reader.private'))),
    metadataLine(r),
    h('div.row', {}, tagNames(r).map(tagChip)));
}

// isForField reports whether a key press belongs to a field, a button or a film rather than to the viewer.
function isForField(e) {
  const key = e.key, { target } = e;
  if (target.closest('input, textarea, select')) return true;
  return key === ' ' && target.closest('button, a, video') || target.matches('video') && /^Arrow/.test(key);
}

// openViewer opens the viewer for a record. onclose is called with the reason, onmove with each further record.
export function openViewer(r, { onclose, onmove }) {
  let slides = 0;
  const d = openDialog('', {
    onclose: (reason) => {
      clearInterval(slides);
      document.removeEventListener('record', changed);
      onclose(reason);
      if (reason === 'replaced') return;
      const row = find(`.item[data-id="${r.id}"]`);
      row?.scrollIntoView({ block: 'nearest' });
      find('a.name', row ?? document.createElement('i'))?.focus({ preventScroll: true });
    },
  });
  d.el.classList.add('viewer');
  const count = h('span.count', { 'aria-live': 'polite' });
  const stage = h('div.stage');
  const panel = h('aside', { 'aria-label': t('viewer.details'), hidden: true });
  const back = iconButton('none', 'back', t('viewer.previous'), { class: 'step back' });
  const next = iconButton('none', 'next', t('viewer.next'), { class: 'step next' });

  // ---- Showing a record ----

  const film = () => find('video', stage);
  const canGrow = () => view?.list && !view.list.ended();

  function draw() {
    const list = sequence(r), at = list.findIndex((x) => x.id === r.id);
    d.heading.textContent = titleOf(r);
    const soFar = canGrow() && list.length > 1;
    count.textContent = t(soFar ? 'viewer.countSoFar' : 'viewer.count', { at: at + 1, all: list.length });
    star.setAttribute('aria-pressed', String(!!r.isFavorite));
    Object.assign(download, { href: localAddress(r.url), download: r.originalName });
    for (const el of [star, share, remove]) el.hidden = !!r.owner;
    change.hidden = !canEdit(r);
    back.hidden = at === 0;
    next.hidden = at === list.length - 1;
    if (!panel.hidden) panel.replaceChildren(factsOf(r), canEdit(r) ? edit : '');
    if (!d.el.contains(document.activeElement) || document.activeElement.hidden) d.heading.focus();
    return [list, at];
  }
  const changed = (e) => {
    if (e.detail.id !== r.id) return;
    r = e.detail;
    draw();
  };
  document.addEventListener('record', changed);

  // show shows a record, and loads its neighbours and more of the list.
  function show(to) {
    r = to;
    stage.replaceChildren(stageOf(r));
    const [list, at] = draw();
    for (const near of [list[at + 1], list[at - 1]]) {
      if (near && isPicture(near) && near.size < 10 * largePicture) new Image().src = pictureAddress(near);
    }
    if (at > list.length - 4 && canGrow()) view.list.load(view.signal).then(() => d.el.open && draw());
  }
  function move(by) {
    const list = sequence(r), to = list[list.findIndex((x) => x.id === r.id) + by];
    if (!to) return false;
    show(to);
    onmove(to);
    return true;
  }

  // ---- What can be done ----

  function stopSlides() {
    clearInterval(slides);
    slides = 0;
  }
  function nextSlide() {
    if (film()) return;
    const moved = move(1);
    if (!moved) stopSlides();
  }
  function play() {
    const video = film();
    if (video) return video.paused ? video.play() : video.pause();
    if (slides) stopSlides();
    else slides = setInterval(nextSlide, slideMilliseconds);
    return null;
  }
  function toggleDetails() {
    panel.hidden = !panel.hidden;
    d.el.classList.toggle('detailed', !panel.hidden);
    info.setAttribute('aria-pressed', String(!panel.hidden));
    draw();
  }
  // editRecord opens the editor in place of the viewer, which comes back afterwards.
  async function editRecord() {
    try { r = await fetchRecord(r); } catch (e) { return showProblem(e); }
    d.el.close('replaced');
    const comeBack = (reason, saved) => {
      if (reason === 'left' || reason === 'deleted') return onclose(reason);
      if (saved) onmove(saved);
      return openViewer(saved ?? r, { onclose, onmove });
    };
    return openEditor(kinds.file, r, { onclose: comeBack });
  }
  function removeRecord() {
    const gone = r;
    const moved = move(1) || move(-1);
    if (!moved) d.el.close('deleted');
    removeRecords([gone]);
    if (d.el.open) draw();
  }
  const actions = {
    ArrowRight: () => move(1),
    ArrowLeft: () => move(-1),
    ' ': play,
    i: toggleDetails,
    e: editRecord,
    s: () => openShare(r),
    c: () => copyItemLink(r),
    f: () => saveRecord(r, { isFavorite: !r.isFavorite }),
    Delete: removeRecord,
  };

  // ---- Buttons, keys and gestures ----

  const tool = (key, name, label) => {
    const b = iconButton('none', name, label, { 'aria-keyshortcuts': key });
    b.onclick = actions[key];
    return b;
  };
  const info = tool('i', 'info', t('viewer.details'));
  const star = iconButton('none', 'star', t('list.favourite'), {
    class: 'quiet square star', 'aria-keyshortcuts': 'f',
  });
  const saveLabel = t('common.download');
  const download = h('a.button.quiet.square', { 'aria-label': saveLabel, title: saveLabel }, icon('download'));
  const edit = h('button', { type: 'button' }, icon('edit'), t('common.edit'));
  const [share, change, remove] = [
    tool('s', 'share', t('common.share')),
    tool('e', 'edit', t('common.edit')),
    tool('Delete', 'trash', t('common.delete')),
  ];
  star.onclick = actions.f;
  edit.onclick = actions.e;
  back.onclick = actions.ArrowLeft;
  next.onclick = actions.ArrowRight;
  d.tools.prepend(
    info,
    share,
    star,
    change,
    download,
    remove);
  d.heading.after(count);
  add(d.body, stage, back, next, panel);

  d.el.addEventListener('keydown', (e) => {
    if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || e.target.closest('dialog') !== d.el) return;
    if (isForField(e) || !actions[e.key] || r.owner && ['s', 'c', 'f', 'Delete'].includes(e.key)) return;
    if (e.key === 'e' && !canEdit(r)) return;
    if (e.key.length === 1 && e.key !== ' ' && !storage.get('keys', true)) return;
    e.preventDefault();
    actions[e.key]();
  });

  loadModule('zoom').then((m) => m.watchStage(d.el, stage, { move, close: () => d.el.close('') })).catch(() => {});
  stage.addEventListener('click', (e) => { if (e.target === stage) d.el.close(''); });

  show(r);
}
