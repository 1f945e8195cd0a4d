// Tiles of collections: a cover or a mosaic of pictures, the title, and who else is there. It owns nothing that stays,
// and uses nothing of view. The home page, the page of collections and faces.js call them.
import { h, icon, picture, t } from './dom.js';
import { kinds, personName } from './kinds.js';
import { api, base, localAddress } from './session.js';

const initialsOf = (person) =>
  personName(person).split(/\s+/).slice(0, 2).map((word) => [...word][0]).join('').toUpperCase();

// hueOf is the colour of a name: one of twelve, the same on every page. The server has the same rule for boards.
export const hueOf = (name) =>
  Math.floor([...name].reduce((sum, c) => (sum * 31 + c.codePointAt(0)) % 360, 7) / 30) * 30 + 15;

function initials(person) {
  const el = h('i', { title: personName(person) }, initialsOf(person));
  el.style.setProperty('--hue', hueOf(personName(person)));
  return el;
}

const mostInitials = 3;
export const roles = { see: t('tiles.see'), add: t('tiles.add'), edit: t('tiles.edit') };

// whose says who owns a collection and what the user may do in it, or shows who else is in it.
export function whose(r) {
  if (r.owner) return h('span.who', {}, initials(r.owner), h('span', {}, personName(r.owner), ' · ', roles[r.role]));
  const members = r.members ?? [], more = members.length - mostInitials;
  if (!members.length) return null;
  return h('span.who', { role: 'img', 'aria-label': t('tiles.with', { names: members.map(personName).join(', ') }) },
    members.slice(0, mostInitials).map(initials), more > 0 && h('span', {}, `+${more}`));
}

// face is the mosaic of a collection's pictures, or its first letter in a colour of its own.
export function face(r) {
  const at = localAddress(r.shareUrl).replace('/v/', '/t/');
  const shown = (r.pictures ?? []).length === 4 && !r.cover ? r.pictures : (r.pictures ?? []).slice(0, 1);
  const size = shown.length > 1 ? 'row' : 'small';
  const pics = shown.map((id) => picture('img', `${at}/${id}?size=${size}`));
  // The letter shows if a picture cannot be loaded.
  for (const img of pics) img.onerror = () => img.remove();
  const el = h('span.face', { 'aria-hidden': 'true' }, h('b', {}, [...r.title.trim()][0]?.toUpperCase()), pics);
  el.style.setProperty('--hue', hueOf(r.id));
  return el;
}

export function tileOf(r) {
  const tile = h('li', {},
    h('a', { href: `${base}/${kinds.collection.path}/${r.slug}` },
      face(r),
      h('b.name', {}, r.title),
      h('span.meta', {}, h('span', {}, t('kind.items', { n: r.itemCount })), whose(r))));
  tile.dataset.id = r.id;
  return tile;
}

// newTile leads to the form for a new collection.
const newTile = () => h('li.fresh', {},
  h('a', { href: `${base}/${kinds.collection.path}/new` }, h('span.face', {}, icon('plus')),
    h('b.name', {}, t('tiles.new'))));

const shelf = (records, ...more) => h('ul.shelf', {}, records.map(tileOf), more);

// ownTiles are the user's collections, and the tile for a new one.
export const ownTiles = (records) => shelf(records, newTile());

// sharedTiles are the collections that others share with the user, with a heading and more in it; null if nobody does.
export async function sharedTiles(v, answer, more = null) {
  const path = 'collections?from=others&limit=500&sort=updated';
  const shared = answer ?? await api('GET', path, undefined, { signal: v.signal }).catch(() => null);
  if (!shared?.data.length) return null;
  const title = t('tiles.shared');
  const head = h('div.head', {}, h('h2', {}, title), more);
  return h('section.overview', { 'aria-label': title }, head, shelf(shared.data));
}
