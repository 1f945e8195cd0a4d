// The viewer shows the pictures and films of the current list, one at a time and as large as the screen.
import { add, all, bytes, find, h, icon, iconButton, t, when } from './dom.js';
import { openEditor } from './editor.js';
import { openDialog } from './forms.js';
import { isMedia, isPicture, kinds, tagNames, thumbnailOf, titleOf } from './kinds.js';
import { copyItemLink, fetchRecord, openShare, removeRecords, saveRecord, sharing, tagChip } from './list.js';
import { metadataLine } from './metadata.js';
import { base, loadModule, localAddress, showProblem, storage, view } from './session.js';

// Larger pictures show a smaller version until they are loaded.
const largePicture = 2e6;
const slideMilliseconds = 5000;
const swipePixels = 50;

// sequence is the records that the viewer can show: those of the strip on the home page or the list, or only r.
function sequence(r) {
  for (const list of [...all('#main .strip'), view?.list?.ul].filter(Boolean)) {
    const listed = all('.item', list).map((row) => row.record).filter(isMedia);
    if (listed.some((x) => x.id === r.id)) return listed;
  }
  return [r];
}

function stageOf(r) {
  const src = localAddress(r.url);
  if (!isPicture(r)) {
    const video = h('video', { src, poster: thumbnailOf(r), controls: true, playsinline: true, preload: 'metadata', 'aria-label': titleOf(r) });
    video.addEventListener('loadeddata', () => loadModule('film').then((m) => m.restorePoster(r, video), () => {}), { once: true });
    return video;
  }
  const img = h('img', { src, alt: r.description || titleOf(r), draggable: 'false' });
  if (r.size < largePicture) return img;
  const box = h('div.loading', {}, h('img', { src: thumbnailOf(r, 'screen'), alt: '' }), img);
  img.addEventListener('load', () => box.classList.remove('loading'));
  return box;
}

function factsOf(r) {
  const fact = (label, ...value) => h('div', {}, h('dt', {}, label), h('dd', {}, value));
  return h('div', {}, h('h3', {}, titleOf(r)), r.description && h('p.text', {}, r.description),
    h('dl', {}, fact(t('viewer.size'), bytes(r.size)), fact(t('viewer.type'), r.mimeType), fact(t('viewer.added'), when(r.createdAt)), r.folder && fact(t('viewer.folder'), r.folder.name),
      fact(t('viewer.visibility'), r.isPublic ? sharing(r) : t('reader.private'))), metadataLine(r), h('div.row', {}, tagNames(r).map(tagChip)));
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
  const star = iconButton('none', 'star', t('list.favourite'), { class: 'quiet square star', 'aria-keyshortcuts': 'f' });
  const download = h('a.button.quiet.square', { 'aria-label': t('common.download'), title: t('common.download') }, icon('download'));
  const back = iconButton('none', 'back', t('viewer.previous'), { class: 'step back' }), next = iconButton('none', 'next', t('viewer.next'), { class: 'step next' });

  const film = () => find('video', stage);
  function draw() {
    const list = sequence(r), at = list.findIndex((x) => x.id === r.id);
    d.heading.textContent = titleOf(r);
    count.textContent = t(view?.list && !view.list.ended() && list.length > 1 ? 'viewer.countSoFar' : 'viewer.count', { at: at + 1, all: list.length });
    star.setAttribute('aria-pressed', String(!!r.isFavorite));
    Object.assign(download, { href: localAddress(r.url), download: r.originalName });
    back.hidden = at === 0;
    next.hidden = at === list.length - 1;
    if (!panel.hidden) panel.replaceChildren(factsOf(r), edit);
    if (!d.el.contains(document.activeElement) || document.activeElement.hidden) d.heading.focus();
    return [list, at];
  }
  const changed = (e) => { if (e.detail.id === r.id) { r = e.detail; draw(); } };
  document.addEventListener('record', changed);
  function show(to) {
    r = to;
    stage.replaceChildren(stageOf(r));
    const [list, at] = draw();
    for (const near of [list[at + 1], list[at - 1]]) if (near && isPicture(near) && near.size < 10 * largePicture) new Image().src = localAddress(near.url);
    if (at > list.length - 4 && view?.list && !view.list.ended()) view.list.load(view.signal).then(() => d.el.open && draw());
  }
  function move(by) {
    const list = sequence(r), to = list[list.findIndex((x) => x.id === r.id) + by];
    if (!to) return false;
    show(to);
    onmove(to);
    return true;
  }
  function play() {
    const video = film();
    if (video) return video.paused ? video.play() : video.pause();
    if (slides) { clearInterval(slides); slides = 0; return null; }
    slides = setInterval(() => { if (!film() && !move(1)) { clearInterval(slides); slides = 0; } }, slideMilliseconds);
    return null;
  }
  const actions = {
    ArrowRight: () => move(1), ArrowLeft: () => move(-1), ' ': play,
    i: () => { panel.hidden = !panel.hidden; d.el.classList.toggle('detailed', !panel.hidden); info.setAttribute('aria-pressed', String(!panel.hidden)); draw(); },
    e: async () => {
      try { r = await fetchRecord(r); } catch (e) { return showProblem(e); }
      d.el.close('replaced');
      return openEditor(kinds.file, r, { onclose: (reason, saved) => { if (reason === 'left' || reason === 'deleted') return onclose(reason); if (saved) onmove(saved); return openViewer(saved ?? r, { onclose, onmove }); } });
    },
    s: () => openShare(r),
    c: () => copyItemLink(r),
    f: () => saveRecord(r, { isFavorite: !r.isFavorite }),
    Delete: () => {
      const gone = r;
      if (!move(1) && !move(-1)) d.el.close('deleted');
      removeRecords([gone]);
      if (d.el.open) draw();
    },
  };
  const tool = (key, name, label) => { const b = iconButton('none', name, label, { 'aria-keyshortcuts': key }); b.onclick = actions[key]; return b; };
  const info = tool('i', 'info', t('viewer.details'));
  const edit = h('button', { type: 'button' }, icon('edit'), t('common.edit'));
  edit.onclick = actions.e;
  star.onclick = actions.f;
  back.onclick = actions.ArrowLeft;
  next.onclick = actions.ArrowRight;
  d.tools.prepend(info, tool('s', 'share', t('common.share')), star, tool('e', 'edit', t('common.edit')), download, tool('Delete', 'trash', t('common.delete')));
  d.heading.after(count);
  add(d.body, stage, back, next, panel);

  d.el.addEventListener('keydown', (e) => {
    if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || e.target.closest('input, textarea, select') || e.target.closest('dialog') !== d.el) return;
    if (e.key === ' ' && e.target.closest('button, a, video') || e.target.matches('video') && /^Arrow/.test(e.key)) return;
    if (!actions[e.key] || e.key.length === 1 && e.key !== ' ' && !storage.get('keys', true)) return;
    e.preventDefault();
    actions[e.key]();
  });
  let from = null;
  stage.addEventListener('pointerdown', (e) => { from = e.isPrimary && e.pointerType !== 'mouse' && !e.target.matches('video') ? e : null; });
  stage.addEventListener('pointerup', (e) => {
    if (!from) return;
    const x = e.clientX - from.clientX, y = e.clientY - from.clientY;
    from = null;
    if (Math.abs(x) > swipePixels && Math.abs(x) > 2 * Math.abs(y)) move(x < 0 ? 1 : -1);
    else if (y > 2 * swipePixels && y > 2 * Math.abs(x)) d.el.close('');
  });
  stage.addEventListener('click', (e) => { if (e.target === stage) d.el.close(''); });
  show(r);
}
