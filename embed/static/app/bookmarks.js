// Messages about a new bookmark: that the page is already bookmarked, and the page's title and icon once the server has
// read them. It owns nothing that stays, and uses nothing of view. list.js and the editor call it by withBookmarks.
import { find, h, isAddress, t, toast } from './dom.js';
import { fetchRecord, updateRows } from './list.js';
import { go } from './router.js';
import { api, base } from './session.js';

// listOfAddress is the page that lists the bookmarks of an address.
const listOfAddress = (url) => `${base}/bookmarks?url=${encodeURIComponent(url)}`;

// watch shows below the address of a new bookmark whether that address is already bookmarked.
export function watch(control) {
  const hint = h('p.hint', { 'aria-live': 'polite' });
  let checked = '';
  control.el.addEventListener('input', () => {
    checked = '';
    hint.replaceChildren();
  });
  control.el.addEventListener('change', check);
  control.node.append(hint);
  check();

  async function check() {
    const url = control.get();
    checked = url;
    if (!url || !isAddress(url)) return;
    const { total } = await api('GET', `bookmarks?limit=1&url=${encodeURIComponent(url)}`).catch(() => ({ total: 0 }));
    if (!total || checked !== url) return; // the user has typed another one meanwhile
    hint.replaceChildren(t('bookmark.known'), ' ', h('a', { href: listOfAddress(url) }, t('common.show')));
  }
}

// showSaved says whether there are duplicates, and redraws the bookmark when the server has read the page.
export function showSaved(r, duplicates) {
  if (duplicates?.length) {
    toast(t('bookmark.duplicate'), { action: t('common.show'), run: () => go(listOfAddress(r.url)) });
  }
  awaitPage(r, [2000, 5000, 15000]);
}

// awaitPage checks after each of the waits whether the server has read the page.
function awaitPage(r, [wait, ...more]) {
  if (r.reachable !== 'unknown' || !wait) return;
  setTimeout(async () => {
    const now = find(`.item[data-id="${r.id}"]`) && await fetchRecord(r).catch(() => null);
    if (!now) return;
    if (now.reachable !== 'unknown') updateRows(now);
    else awaitPage(now, more);
  }, wait);
}
