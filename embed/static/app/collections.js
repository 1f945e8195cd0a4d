// Collections: many items behind one link. Making one, and arranging what is in it. It owns the dialog that arranges
// items, and uses nothing of view. The router calls arrange, shareFolder and shareTogether; uploads.js calls
// shareTogether too.
import { add, button, find, h, icon, iconButton, t, toast } from './dom.js';
import { openDialog, openForm } from './forms.js';
import { apiPathOf, isPicture, kindOf, titleOf } from './kinds.js';
import { change, openShare, updateRows } from './list.js';
import { api, base, countChange, countItems, Problem, showProblem } from './session.js';

const reasonOf = { password: t('collections.password'), limit: t('collections.limit'), end: t('collections.end') };

const most = 500; // on a page of the API

// make asks for a title and makes a public collection of a source.
async function make(title, source) {
  const r = (await api('POST', 'collections', { title, isPublic: true, source })).data;
  countChange();
  countItems('collection', 1);
  openShare(r);
}

// shareFolder makes a collection of what is in a folder, now and later.
export const shareFolder = (folder) => openForm({
  title: t('collections.shareFolder'), text: t('collections.liveHint'), button: t('common.share'),
  fields: [{ name: 'title', label: t('collections.title'), required: true }], values: { title: folder.name },
  run: (now) => make(now.title, { folderId: folder.id }),
});

// shareTogether makes a collection of items, or adds them to one.
export async function shareTogether(records) {
  let others = [];
  try {
    const listed = (await api('GET', `collections?limit=${most}&sort=updated`)).data;
    others = listed.filter((r) => !r.source.folderId && !r.source.tag);
  } catch (e) { return showProblem(e); }
  const ids = records.map((r) => r.id);
  const choices = Object.fromEntries(others.map((r) => [r.id, r.title]));
  const addTo = { name: 'to', label: t('collections.orAddTo'), type: 'choice', choices };
  return openForm({
    title: t('collections.together', { n: ids.length }), text: t('collections.togetherHint'), button: t('common.share'),
    fields: [{ name: 'title', label: t('collections.title') }, ...(others.length ? [addTo] : [])],
    run: async ({ title, to }) => {
      if (!to && !title.trim()) throw new Problem('', 0, { title: t('forms.required') });
      if (!to) return make(title, { items: ids });
      const r = (await api('POST', `collections/${to}/items`, { add: ids })).data;
      updateRows(r);
      return toast(t('collections.added', { title: r.title }), { action: t('common.share'), run: () => openShare(r) });
    },
  });
}

// itemsOf reads the items of a collection, and why some of them are left out, by id.
async function itemsOf(r) {
  const items = [], reasons = {};
  for (let cursor = ''; cursor !== null;) {
    const page = await api('GET', `${apiPathOf(r)}/items?brief=true&limit=${most}${cursor && '&cursor=' + cursor}`);
    items.push(...page.data);
    for (const out of page.leftOut) reasons[out.id] = out.reason;
    cursor = page.nextCursor;
  }
  return { items, reasons };
}

// arrange opens the list of a collection's items, to move them, take them out and choose the cover.
export async function arrange(r) {
  let read;
  try { read = await itemsOf(r); } catch (e) { return showProblem(e); }
  const { items, reasons } = read;
  const live = r.source.folderId || r.source.tag, movable = !live && r.sort === 'manual';
  const d = openDialog(titleOf(r), { panel: true });
  const list = h('ol.arrange');
  const status = h('p.soft', { 'aria-live': 'polite' });
  const outside = Object.keys(reasons).length;
  const rows = () => [...list.children];

  // save changes the collection. Changes are sent one after the other, because each refers to the order before it. If
  // one fails, the list is as it was before that, and those that wait are not sent.
  let saved = [], failures = 0, last = Promise.resolve();
  const save = (send) => {
    const now = rows(), after = failures;
    last = last.then(async () => {
      if (after !== failures) return;
      try {
        r = await send();
        saved = now;
        updateRows(r);
      } catch (e) {
        failures++;
        list.replaceChildren(...saved);
        showProblem(e);
      }
    });
    return last;
  };
  // Moving an item says where it goes, so it needs no order that the user has seen.
  const arranged = async (method, path, body) => (await api(method, `${apiPathOf(r)}/${path}`, body)).data;
  // move puts a row before another one, or at the end.
  const move = (row, next) => {
    if (next === row || row.nextElementSibling === next) return;
    const focused = row.contains(document.activeElement) && document.activeElement;
    list.insertBefore(row, next);
    focused?.focus?.();
    status.textContent = t('collections.moved', { i: rows().indexOf(row) + 1, n: rows().length });
    const before = next?.dataset.id ?? null;
    save(() => arranged('PATCH', `items/${row.dataset.id}`, { before }));
  };
  // remove takes a row out. The focus goes to its neighbour.
  const remove = (row) => {
    const next = row.nextElementSibling ?? row.previousElementSibling;
    row.remove();
    find('button:last-child', next ?? list)?.focus();
    save(() => arranged('POST', 'items', { remove: [row.dataset.id] }));
  };
  const up = (row) => row.previousElementSibling && move(row, row.previousElementSibling);
  const down = (row) => row.nextElementSibling && move(row, row.nextElementSibling.nextElementSibling);

  // ---- The rows ----

  const tool = (name, label, run, more = {}) => {
    const b = iconButton('none', name, label, { class: 'quiet square', ...more });
    b.onclick = run;
    return b;
  };
  const coverButton = (item, title) => {
    const choose = async () => {
      await save(() => change(r, { cover: r.cover === item.id ? null : item.id }));
      for (const b of list.querySelectorAll('.star')) {
        b.setAttribute('aria-pressed', String(b.closest('li').dataset.id === r.cover));
      }
    };
    const look = { class: 'quiet square star', 'aria-pressed': String(r.cover === item.id) };
    return tool('star', t('collections.cover', { title }), choose, look);
  };

  function rowOf(item) {
    const title = titleOf(item), reason = reasons[item.id], small = `${base}/t/${item.slug}?size=row`;
    const pic = isPicture(item) ? h('img', { src: small, alt: '', loading: 'lazy' }) : icon(kindOf(item).icon);
    const row = h('li', { draggable: movable ? 'true' : null },
      h('span.pic', {}, pic),
      h('span.grow', {}, title, reason && h('span.badge.warn', {}, t('collections.hidden'), ' ', reasonOf[reason])));
    row.dataset.id = item.id;
    add(row,
      isPicture(item) && coverButton(item, title),
      movable && tool('up', t('collections.up', { title }), () => up(row)),
      movable && tool('down', t('collections.down', { title }), () => down(row)),
      !live && tool('close', t('collections.remove', { title }), () => remove(row)));
    return row;
  }

  // ---- Dragging, and keys ----

  let dragged = null;
  list.addEventListener('dragstart', (e) => {
    dragged = e.target.closest('li');
    e.dataTransfer.effectAllowed = 'move';
  });
  list.addEventListener('dragend', () => { dragged = null; });
  list.addEventListener('dragover', (e) => { if (dragged) e.preventDefault(); });
  list.addEventListener('drop', (e) => {
    const over = e.target.closest('li');
    if (!dragged || !over) return;
    e.preventDefault();
    const box = over.getBoundingClientRect();
    move(dragged, e.clientY > box.top + box.height / 2 ? over.nextElementSibling : over);
    dragged = null;
  });
  list.addEventListener('keydown', (e) => {
    const row = e.target.closest('li');
    if (!movable || !e.altKey || !row || e.key !== 'ArrowUp' && e.key !== 'ArrowDown') return;
    e.preventDefault();
    (e.key === 'ArrowUp' ? up : down)(row);
  });

  // ---- The dialog ----

  list.append(...items.map(rowOf));
  saved = rows();
  add(d.body,
    h('p.soft', {}, live ? t('collections.live') : movable ? t('collections.arrangeHint') : t('collections.sorted')),
    outside > 0 && h('p.alert', {}, t('collections.outside', { n: outside })),
    status,
    list,
    h('div.row.foot', {}, button('dialog-close', t('common.close'))));
  find('button', list)?.focus();
  return d;
}
