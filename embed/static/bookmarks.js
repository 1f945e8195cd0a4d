// What is told of bookmarks when they are made: that there is one of the page
// already, what the page says of itself, and its icon.
export default ({ h, find, api, base, toast, go, put, whole, isAddress }) => {
  // same is the page that lists the bookmarks of an address.
  const same = (url) => `${base}/bookmarks?url=${encodeURIComponent(url)}`;

  // watch tells under the address of a new bookmark that it is there already.
  function watch(control) {
    const told = h('p.hint', { 'aria-live': 'polite' });
    let asked = '';
    control.el.addEventListener('input', () => { asked = ''; told.replaceChildren(); });
    control.el.addEventListener('change', look);
    control.node.append(told);
    look();
    async function look() {
      const url = asked = control.get();
      if (!url || !isAddress(url)) return;
      const { total } = await api('GET', `bookmarks?limit=1&url=${encodeURIComponent(url)}`).catch(() => ({ total: 0 }));
      if (total && asked === url) told.replaceChildren('You have this already. ', h('a', { href: same(url) }, 'Show'));
    }
  }

  // saved tells of other bookmarks of the page, and shows the bookmark again when
  // the server has read the page.
  function saved(r, twins) {
    if (twins?.length) toast('Bookmark added. You had one of this page already.', { action: 'Show', run: () => go(same(r.url)) });
    filled(r, [2000, 5000, 15000]);
  }

  function filled(r, [wait, ...more]) {
    if (r.reachable !== 'unknown' || !wait) return;
    setTimeout(async () => {
      const now = find(`.item[data-id="${r.id}"]`) && await whole(r).catch(() => null);
      if (!now) return;
      if (now.reachable !== 'unknown') put(now);
      else filled(now, more);
    }, wait);
  }

  return { watch, saved };
};
