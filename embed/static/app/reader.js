// The reader shows one item as visitors see it, and what only its owner sees. The editor is one key away. It owns its
// dialog, and uses nothing of view. The router calls openReader.
import { removeRecords } from './deleting.js';
import { add, ago, all, exactly, find, h, icon, iconButton, t } from './dom.js';
import { openEditor } from './editor.js';
import { openDialog } from './forms.js';
import { canEdit, fromOwner, kindOf, placeOf, shareAddressOf, tagNames, titleOf } from './kinds.js';
import { copyItemLink, fetchRecord, openShare, saveRecord, sharing, tagChip } from './list.js';
import { metadataLine } from './metadata.js';
import { cook, enhance } from './page.js';
import { base, loadModule, localAddress, Problem, problemOf, showProblem, storage } from './session.js';

// fetchShown returns what the public page of an item shows below its title.
async function fetchShown(r, signal) {
  const at = new URL(`${base}/v/${placeOf(r)}`, location.href);
  let answer;
  try {
    answer = await fetch(at, { headers: { accept: 'text/html' }, signal });
  } catch (e) { throw e.name === 'AbortError' ? e : problemOf(0); }
  if (!answer.ok) throw problemOf(answer.status);

  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  for (const name of ['src', 'href']) {
    for (const el of all(`article.sheet [${name}]`, page)) {
      const address = el.getAttribute(name);
      if (!address.startsWith('#') && URL.canParse(address, at)) el.setAttribute(name, new URL(address, at));
    }
  }
  return all('article.sheet > :not(header, details)', page);
}

// nodesOf are how the reader shows a record: a text that waits for the server as it was typed.
const nodesOf = async (r, signal) => r.waiting && (await loadModule('waiting')).asTyped(r) || fetchShown(r, signal);

// stateLine says who can see an item, and when it was changed.
function stateLine(r) {
  const edited = Date.parse(r.updatedAt) - Date.parse(r.createdAt) > 1000;
  const at = edited ? r.updatedAt : r.createdAt;
  const said = t(edited ? 'reader.edited' : 'reader.added', { when: ago(at) });
  return h('div.meta', {},
    r.owner ? h('span', {}, fromOwner(r)) : !r.isPublic && h('span', {}, icon('lock'), ' ', t('reader.private')),
    !r.owner && sharing(r).map((part) => typeof part === 'string' ? h('span', {}, part) : part),
    h('time', { datetime: at, title: exactly(at) }, said),
    tagNames(r).map(tagChip));
}

// openReader opens the reader for a record. onclose is called with the reason.
export async function openReader(r, { onclose, signal }) {
  let shown;
  try {
    shown = await nodesOf(r, signal);
    signal?.throwIfAborted();
  } catch (e) {
    if (r.brief || e.name === 'AbortError') throw e; // its text is cut off
    showProblem(e);
    return openEditor(kindOf(r), r, { onclose });
  }

  // The dialog, which follows changes of the record.
  const awake = r.kind === 'recipe' ? loadModule('awake').then((m) => m.keepAwake(), () => null) : null;
  const d = openDialog(titleOf(r), {
    panel: true,
    onclose: (reason) => {
      awake?.then((end) => end?.());
      document.removeEventListener('record', changed);
      onclose(reason);
    },
  });
  d.el.classList.add('reader');
  const state = h('div');
  const body = h('article.shared');
  const show = (nodes) => {
    body.replaceChildren(...nodes.map((node) => document.importNode(node, true)));
    enhance(body, { copy: t('common.copy'), copied: t('reader.copied'), select: t('reader.select') });
    cook(body, { amounts: t('reader.amounts'), unscaled: t('reader.unscaled') });
  };
  const star = iconButton('none', 'star', t('list.favourite'), { class: 'quiet square star' });
  const draw = () => {
    star.setAttribute('aria-pressed', String(!!r.isFavorite));
    state.replaceChildren(stateLine(r), metadataLine(r) ?? '');
  };
  const changed = (e) => {
    if (e.detail.id !== r.id) return;
    const waited = r.waiting;
    r = e.detail;
    draw();
    if (waited || r.waiting) nodesOf(r).then(show, () => {});
  };
  document.addEventListener('record', changed);

  // What can be done, by key.
  const edit = async () => {
    try {
      if (r.brief || !r.etag || r.owner) r = await fetchRecord(r);
      if (!canEdit(r)) throw new Problem(t('reader.seeOnly'));
    } catch (e) { return showProblem(e); }
    d.el.close('replaced');
    const comeBack = (reason, saved) =>
      reason === 'left' || reason === 'deleted' ? onclose(reason) : openReader(saved ?? r, { onclose });
    return openEditor(kindOf(r), r, { onclose: comeBack });
  };
  const showRestored = (saved) => {
    d.el.close('replaced');
    openReader(saved, { onclose });
  };
  const own = !r.owner; // what others own can be read, and changed by those who may edit
  const timeline = own && kindOf(r).versioned && (async () => {
    try { (await loadModule('versions')).openVersions(r, showRestored); } catch (e) { showProblem(e); }
  });
  const actions = own ? {
    e: edit,
    s: () => openShare(r),
    c: () => copyItemLink(r),
    f: () => saveRecord(r, { isFavorite: !r.isFavorite }),
    h: timeline,
    Delete: () => {
      d.el.close('deleted');
      removeRecords([r]);
    },
  } : { e: canEdit(r) && edit };
  d.el.addEventListener('keydown', (e) => {
    if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || find('dialog[open] ~ dialog[open]')) return;
    if (e.target.closest('input:not([type=checkbox]), textarea, select') || !actions[e.key]) return;
    if (e.key.length === 1 && !storage.get('keys', true)) return;
    e.preventDefault();
    actions[e.key]();
  });

  // The buttons above the item.
  const tool = (key, name, label) => {
    const b = iconButton('none', name, label, { 'aria-keyshortcuts': key });
    b.onclick = actions[key];
    return b;
  };
  if (own) star.onclick = actions.f;
  const open = h('a.button.quiet.square', {
    href: localAddress(r.kind === 'bookmark' ? r.url : shareAddressOf(r)), target: '_blank', rel: 'noopener noreferrer',
    'aria-label': t('common.open'), title: t('common.open'),
  }, icon('open'));
  d.tools.prepend(
    ...(actions.e ? [tool('e', 'edit', t('common.edit'))] : []),
    ...(own ? [tool('s', 'share', t('common.share')), star] : []),
    ...(timeline ? [tool('h', 'history', t('reader.versions'))] : []),
    open,
    ...(own ? [tool('Delete', 'trash', t('common.delete'))] : []));

  add(d.body, d.heading, state, body);
  d.heading.focus(); // moving it took the focus away
  draw();
  show(shown);
  if (r.kind === 'note' && find('[data-line]', body)) {
    const fetchNodes = () => fetchShown(r);
    loadModule('ticks').then(
      (m) => m.watchTicks({ dialog: d.el, body, record: r, nodes: shown, show, fetchNodes }), showProblem,
    );
  }
}
