// The page of search results. It owns what reads them. It fills view.out, reads view.params and sets view.list. The
// router calls the page; the field above all pages is in pages.js.
import { add, emptyState, find, h, t } from './dom.js';
import { heading } from './heading.js';
import { kinds } from './kinds.js';
import { listOf } from './list.js';
import { withParam } from './router.js';
import { api, base, takeAnswer } from './session.js';

// A Search reads search results page by page. The found field of each record says where the words were found.
class Search {
  constructor(params) { Object.assign(this, { params, page: 40, cursor: '', total: 0, first: takeAnswer('search') }); }

  get ended() { return this.cursor === null; }

  // again is the same search from its beginning, as it is now.
  again() { return new Search(this.params); }

  async next(n, signal) {
    const query = new URLSearchParams(this.params);
    query.set('limit', n);
    query.set('from', 'all');
    if (this.cursor) query.set('cursor', this.cursor);
    const answer = this.first ?? await api('GET', `search?${query}`, undefined, { signal });
    this.first = null;
    this.cursor = answer.nextCursor ?? null;
    this.total = answer.total;
    this.incomplete = answer.incomplete;
    this.copies = answer.copies;
    return answer.data.filter((hit) => kinds[hit.kind]).map((hit) => ({ ...hit.record, found: hit }));
  }

  count(_, n) { this.total += n; }
}

// wordsFor is a search for tags as the user would type it.
const wordsFor = (tagged) => tagged.map((name) => `tag:${name.includes(' ') ? `"${name}"` : name}`).join(' ');

// kindChips choose the kind of what is shown.
function kindChips(p, kind) {
  const chip = (name, label) => h('a.chip.big', {
    href: `${base}/search${withParam(p, 'kind', name)}`, 'aria-current': name === kind ? 'true' : null,
  }, label);
  return h('div.filters', { role: 'group', 'aria-label': t('search.kind') },
    chip('', t('search.all')), Object.values(kinds).map((k) => chip(k.name, k.many)));
}

export default function (v) {
  const p = v.params, field = find('#q');
  const words = (p.get('q') ?? '').trim(), tagged = p.getAll('tag'), kind = kinds[p.get('kind')] ? p.get('kind') : '';
  if (document.activeElement !== field) field.value = words || wordsFor(tagged);

  const query = new URLSearchParams(words && { q: words });
  if (kind) query.set('kind', kind);
  for (const name of tagged) query.append('tag', name);
  const count = h('small.soft', { 'aria-live': 'polite' }), copies = h('p.soft', { hidden: true });
  const source = new Search(query);
  v.list = listOf(source, {
    page: source.page,
    counted(n) {
      count.textContent = t(source.incomplete ? 'search.incomplete' : 'search.count', { n });
      copies.hidden = !source.copies;
      if (source.copies) copies.textContent = t('search.copies', { n: source.copies });
    },
    empty: () => emptyState(t('search.empty'), t('search.emptyHint')),
  });

  const title = words ? t('format.quoted', { text: words }) : tagged.join(' + ') || t('search.everything');
  add(v.out, heading(title, count), kindChips(p, kind), copies, v.list.node);
  return words ? t('search.titleOf', { words }) : t('search.title');
}
