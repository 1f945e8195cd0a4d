// The page of tags: their colours, and adding, renaming, merging and deleting them. It owns the rows of tags;
// session.js owns the tags. It fills view.out, and uses name and redraw of view. The router calls the page, and app.js
// addLabels.
import { deleteLater } from './deleting.js';
import { add, addActions, all, button, emptyState, find, h, iconButton, itemOf, t, toast } from './dom.js';
import { openForm } from './forms.js';
import { heading } from './heading.js';
import { countOf, kinds } from './kinds.js';
import { redrawAll } from './list.js';
import { rerender } from './router.js';
import { api, base, countChange, hideTag, loadLabels, refreshTags, showProblem, tags, view } from './session.js';

// addLabels reads the tags and folders that did not come with the page, and shows them.
export async function addLabels() {
  try {
    await loadLabels();
    // Cached pages lack the labels.
    countChange();
    redrawAll();
    view?.redraw?.();
  } catch (e) {
    // The page of tags shows its own error.
    if (view?.name === 'tags' || e.status === 401) return;
    toast(t('app.nolabels', { why: e.message }), { bad: true, action: t('common.again'), run: addLabels });
  }
}

const tagOf = (el) => itemOf(el).tag;

// usesOf has a link for each kind of which items have a tag.
function usesOf(tag, tagged) {
  if (!tag.count) return h('span', {}, t('tags.unused'));
  const used = Object.values(kinds).filter((k) => tag.counts?.[k.name]);
  return used.map((k) => h('a', { href: `${base}/${k.path}?${tagged}` }, countOf(k, tag.counts[k.name])));
}

function tagRow(tag) {
  const { name } = tag, tagged = `tag=${encodeURIComponent(name)}`;
  const color = h('input.color', {
    type: 'color', value: tag.color.toLowerCase(), 'aria-label': t('tags.colour', { name }), act: 'tag-color',
  });
  const row = h('li.item.plain', {},
    color,
    h('div.what', {},
      h('a.name', { href: `${base}/search?${tagged}` }, name),
      h('div.meta', {}, usesOf(tag, tagged))),
    h('div.acts', {},
      iconButton('tag-rename', 'edit', t('tags.rename', { name })),
      tags.length > 1 && button('tag-merge', t('tags.merge'), { 'aria-label': t('tags.mergeOf', { name }) }),
      iconButton('tag-delete', 'trash', t('tags.deleteOf', { name }))));
  row.tag = tag;
  return row;
}

export default async function (v) {
  await loadLabels();
  const sorted = [...tags].sort((a, b) => b.count - a.count || a.name.localeCompare(b.name));
  const input = h('input', { 'aria-label': t('tags.new'), placeholder: t('tags.new') });
  const form = h('form', { novalidate: true, 'aria-label': t('tags.new') },
    input, h('button.main', {}, t('common.add')));
  form.onsubmit = async (e) => {
    e.preventDefault();
    if (!input.value.trim()) return input.focus();
    try {
      await api('POST', 'tags', { name: input.value });
      await refreshTags();
      rerender();
      find('.quick input').focus();
    } catch (problem) { showProblem(problem); }
  };
  const search = h('input', { type: 'search', 'aria-label': t('tags.filter'), placeholder: t('tags.filter') });
  search.oninput = () => {
    const part = search.value.trim().toLowerCase();
    for (const row of all('#main .item')) row.hidden = !row.tag.name.toLowerCase().includes(part);
  };
  add(v.out,
    heading(t('tags.title'), h('small.soft', {}, t('tags.count', { n: tags.length }))),
    h('div.quick', {}, form, tags.length > 5 && search),
    sorted.length
      ? h('ul.list', { 'aria-label': t('tags.title') }, sorted.map(tagRow))
      : emptyState(t('tags.empty'), t('tags.emptyHint')));
  return t('tags.title');
}

document.addEventListener('change', async (e) => {
  if (e.target.dataset.act !== 'tag-color') return;
  try {
    await api('PATCH', `tags/${tagOf(e.target).id}`, { color: e.target.value });
    refreshTags();
    countChange();
  } catch (problem) { showProblem(problem); }
});

addActions({
  'tag-rename'(el) {
    const tag = tagOf(el);
    openForm({
      title: t('tags.rename', { name: tag.name }),
      fields: [{ name: 'name', label: t('forms.name'), required: true }],
      values: tag,
      run: async (now) => {
        await api('PATCH', `tags/${tag.id}`, now);
        await refreshTags();
        rerender();
      },
    });
  },
  'tag-merge'(el) {
    const tag = tagOf(el), { name } = tag;
    const choices = Object.fromEntries(tags.filter((x) => x !== tag).map((x) => [x.id, x.name]));
    openForm({
      title: t('tags.mergeTitle', { name }), text: t('tags.mergeHint', { name }), button: t('tags.merge'),
      fields: [{ name: 'into', label: t('tags.into'), type: 'choice', required: true, choices }],
      run: async (now) => {
        await api('POST', `tags/${tag.id}/merge`, now);
        await refreshTags();
        rerender();
        toast(t('tags.merged', { name }));
      },
    });
  },
  'tag-delete'(el) {
    const row = itemOf(el), tag = row.tag, mark = document.createComment('');
    row.replaceWith(mark);
    const restore = hideTag(tag);
    const count = () => { find('#main .head small').textContent = t('tags.count', { n: tags.length }); };
    count();
    deleteLater(t('tags.deleted', { name: tag.name }), [`tags/${tag.id}`], () => {
      restore();
      if (!mark.isConnected) return;
      mark.replaceWith(row);
      count();
    });
  },
});
