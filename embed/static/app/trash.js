// The trash: what was deleted, to restore it or to delete it permanently. It owns the rows of the trash; session.js
// owns the number of items in it. It fills view.out, reads view.params and view.name, and stops with view.signal. The
// router calls the page.
import { restoreItems } from './deleting.js';
import { deviceName } from './devices.js';
import {
  add, addActions, all, button, bytes, day, emptyState, find, h, icon, itemOf, shorten, t, tn, toast, when,
} from './dom.js';
import { openForm } from './forms.js';
import { heading, load } from './heading.js';
import { kinds } from './kinds.js';
import { go, rerender, withParam } from './router.js';
import { api, base, setTrashed, showProblem, start, view } from './session.js';

const titleOf = (item) => item.title || t('kind.untitled', { kind: kinds[item.kind].one });

// byOf says who or what has deleted an item: a device, or the sender of a file, with the name they gave.
function byOf(by) {
  const [isSender, name] = /^sender(?:: (.*))?$/.exec(by) ?? [];
  if (!isSender) return t('common.by', { name: deviceName(by) });
  return name ? t('trash.takenBackBy', { name }) : t('trash.takenBack');
}

// lineOf says what an item is, and when and by what it was deleted.
const lineOf = (item) => h('div.meta', {},
  h('span', {}, item.versionOf ? t('trash.version') : kinds[item.kind].one),
  h('span', {}, bytes(item.size)),
  h('span', {}, tn('trash.deleted', { when: when(item.deletedAt) })),
  item.deletedBy && h('span.cutoff', {}, byOf(item.deletedBy)),
  h('span', {}, t('trash.until', { date: day(item.purgedAt) })));

function row(item) {
  const title = titleOf(item);
  const el = h('li.item.plain', {},
    h('span.pic', {}, icon(kinds[item.kind].icon)),
    h('div.what', {}, h('span.name', {}, title), lineOf(item)),
    h('div.acts', {},
      button('trash-restore', t('trash.restore'), { 'aria-label': t('trash.restoreOf', { title }) }),
      button('trash-purge', t('trash.purge'), { class: 'danger', 'aria-label': t('trash.purgeOf', { title }) })));
  el.item = item;
  return el;
}

// show fills a list page by page with what an address asks for.
function show(v, first, query) {
  const ul = h('ul.list', { 'aria-label': t('trash.title') });
  const more = h('button.wide', { type: 'button' }, t('trash.more'));
  let cursor = '';
  const append = (page) => {
    ul.append(...page.data.map(row));
    cursor = page.nextCursor;
    more.hidden = !cursor;
  };
  more.onclick = async () => {
    more.disabled = true;
    try {
      append(await api('GET', `trash?${query}&cursor=${encodeURIComponent(cursor)}`, undefined, { signal: v.signal }));
    } catch (e) { showProblem(e); }
    more.disabled = false;
  };
  append(first);
  return [ul, more];
}

// filterForm searches the trash, by kind or by words.
function filterForm(params) {
  const options = Object.values(kinds).map((k) => h('option', { value: k.name }, k.many));
  const kind = h('select', { 'aria-label': t('trash.kind') }, h('option', { value: '' }, t('trash.all')), options);
  kind.value = params.get('kind') ?? '';
  kind.onchange = () => go(`${base}/trash${withParam(params, 'kind', kind.value)}`);
  const words = h('input', {
    type: 'search', 'aria-label': t('trash.search'), placeholder: t('trash.search'), value: params.get('q') ?? '',
  });
  const form = h('form.quick', {}, words, kind);
  form.onsubmit = (e) => {
    e.preventDefault();
    go(`${base}/trash${withParam(params, 'q', words.value.trim())}`);
  };
  return form;
}

export default async function trash(v) {
  const query = new URLSearchParams({ limit: '50' });
  for (const name of ['kind', 'q']) if (v.params.get(name)) query.set(name, v.params.get(name));
  const filtered = v.params.has('kind') || v.params.has('q');
  const page = filtered
    ? await api('GET', `trash?${query}`, undefined, { signal: v.signal })
    : await load('trash', `trash?${query}`, v.signal);
  if (!page) return t('trash.title');
  if (!filtered) setTrashed(page.total);

  const any = page.total > 0;
  add(v.out,
    heading(t('trash.title'), h('small.soft', {}, t('trash.count', { n: page.total })),
      any && !filtered && button('trash-empty', t('trash.empty'), { class: 'danger' })),
    h('p.soft', {}, start.trashDays ? t('trash.hint', { n: start.trashDays }) : t('trash.off')),
    (filtered || any) && filterForm(v.params),
    page.data.length ? show(v, page, query) : emptyState(filtered ? t('trash.noMatch') : t('trash.none')));
  return t('trash.title');
}

// gone removes a row and corrects the counts.
function gone(el) {
  const next = el.nextElementSibling ?? el.previousElementSibling;
  el.remove();
  const n = all('#main .item').length;
  if (!n) return rerender();
  find('#main .head small').textContent = t('trash.count', { n });
  return find('button', next ?? el)?.focus();
}

addActions({
  async 'trash-restore'(el) {
    el.disabled = true;
    try {
      const { item } = itemOf(el), [got] = await restoreItems([item]);
      if (item.kind === 'file') gone(itemOf(el));
      else rerender(); // its pictures came back with it
      const open = () => go(`${base}/${kinds[item.kind].path}/${got.slug}`);
      toast(t('list.restored', { n: 1 }), { action: t('common.open'), run: open });
    } catch (e) {
      showProblem(e);
      el.disabled = false;
    }
  },
  'trash-purge'(el) {
    const { item } = itemOf(el);
    openForm({
      title: t('trash.purgeTitle', { title: shorten(titleOf(item)) }), text: t('trash.forGood'),
      button: t('trash.purge'), danger: true,
      run: async () => {
        await api('DELETE', `trash/${item.id}`);
        setTrashed(-1, true);
        gone(itemOf(el));
      },
    });
  },
  'trash-empty'() {
    openForm({
      title: t('trash.emptyTitle'), text: t('trash.forGood'), button: t('trash.empty'), danger: true,
      run: async () => {
        await api('DELETE', 'trash');
        setTrashed(0);
        if (view?.name === 'trash') rerender();
      },
    });
  },
});
