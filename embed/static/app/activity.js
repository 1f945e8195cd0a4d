// What happened in an account, latest first, under headings by day. It owns the entries and nothing else, and uses
// nothing of view. account.js and security.js call activity with a part of their page to fill.
import { deviceName } from './devices.js';
import { add, dayName, exactly, h, known, t } from './dom.js';
import { load } from './heading.js';
import { kinds } from './kinds.js';
import { api, base } from './session.js';

// subjectOf names what an entry is about, with a link if it is an item.
function subjectOf(e) {
  const k = kinds[e.kind];
  if (k && e.subjectId) return h('a.cutoff', { href: `${base}/${k.path}/${e.subjectId}` }, e.name || k.one);
  return e.name && h('span.cutoff', {}, deviceName(e.name));
}

function entry(e) {
  return h('li.item.plain', {}, h('div.what', {},
    h('span.name', {}, known('events.' + e.event, e.event), e.count > 1 && ` (${e.count}×)`),
    h('div.meta', {},
      subjectOf(e),
      e.address && h('span', {}, e.address),
      e.by && h('span', {}, t('activity.by', { name: e.by })),
      e.changes.length > 0 && h('span', {}, e.changes.join(', ')),
      h('time', { datetime: e.at }, exactly(e.at)))));
}

// activity fills an element with entries of a path of the API: the latest, as many as given, and more on request.
export async function activity(into, path, signal, latest = 50) {
  const list = h('ul.list', { 'aria-label': t('activity.title') });
  const more = h('button.wide', { type: 'button', hidden: true }, t('activity.more'));
  let cursor = '', last = '';
  const show = (answer) => {
    for (const e of answer.data) {
      const heading = dayName(e.at);
      if (heading !== last) list.append(h('li.date', {}, h('h3', {}, heading)));
      last = heading;
      list.append(entry(e));
    }
    cursor = answer.nextCursor;
    more.hidden = !cursor;
    more.disabled = false;
    if (!list.children.length) list.replaceWith(h('p.soft', {}, t('activity.none')));
  };
  more.onclick = async () => {
    more.disabled = true;
    try {
      show(await api('GET', `${path}?limit=50&cursor=${encodeURIComponent(cursor)}`, undefined, { signal }));
    } catch (e) {
      more.disabled = false;
      more.before(h('p.error', { role: 'alert' }, e.message));
    }
  };
  add(into, list, more);

  const first = await load(path, `${path}?limit=${latest}`, signal);
  if (first) return show(first);
  const again = h('button', { type: 'button' }, t('common.again'));
  const failed = h('p.note', { role: 'alert' }, h('span', {}, t('activity.failed')), again);
  again.onclick = () => {
    for (const el of [failed, list, more]) el.remove();
    return activity(into, path, signal, latest);
  };
  list.replaceWith(failed);
}
