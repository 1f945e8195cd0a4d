// The page of files that the server fetches from addresses. app.js loads it when it is asked for and hands over what its pages are made with.
export default function remote(kit) {
  const { h, add, find, api, base, button, bytes, when, plural, failed, heading, nothing, load, meter, newID, acts, Problem } = kit;

  const badges = { waiting: 'span.badge', running: 'span.badge', done: 'span.badge.on', failed: 'span.badge.warn', cancelled: 'span.badge.warn' };
  const under = (x) => x.state === 'waiting' || x.state === 'running';

  // nameOf is what a file is called; as long as its name is not known, the end of its address.
  const nameOf = (x) => x.name || x.url.split(/[?#]/)[0].replace(/\/+$/, '').split('/').pop();

  // at has the list that is shown, and wakes what follows it.
  let at = null;

  // progress says how far a fetch is.
  function progress(x) {
    if (x.state === 'running') return x.total ? `${bytes(x.bytes)} of ${bytes(x.total)}` : x.bytes ? bytes(x.bytes) : 'Connecting …';
    if (x.state === 'done') return bytes(x.bytes);
    if (x.state === 'waiting' && x.tries) return ['Next try ', when(x.nextTryAt)];
    return x.state === 'waiting' ? 'Waits for its turn' : '';
  }

  function rowOf(x) {
    const name = nameOf(x);
    const ending = (/\.([a-z0-9]{1,4})$/i.exec(x.name)?.[1] ?? '').toUpperCase();
    const row = h('li.item.plain', { 'data-id': x.id }, h('span.pic', { 'aria-hidden': 'true' }, h('b', {}, ending)), h('div.what', {},
      x.file ? h('a.name', { href: `${base}/files/${x.file.slug}` }, name) : h('span.name', {}, name),
      h('div.meta', {}, h(badges[x.state], {}, x.state), h('span', {}, progress(x)), h('span.cutoff', { title: x.url }, x.url)),
      x.state === 'running' && x.total ? meter(x.bytes / x.total) : null, x.error ? h('p.error', {}, x.error) : null),
    h('div.acts', {},
      under(x) ? button('fetch-cancel', 'Cancel', { 'aria-label': `Cancel ${name}` }) : null,
      x.state === 'failed' || x.state === 'cancelled' ? button('fetch-retry', 'Try again', { 'aria-label': `Try ${name} again` }) : null,
      under(x) ? null : button('fetch-forget', 'Forget', { 'aria-label': `Forget ${name}` })));
    row.job = x;
    return row;
  }

  // show draws the list again where it changed, so that what has the focus keeps it.
  function show(jobs) {
    at.jobs = jobs;
    const had = new Map([...at.list.children].map((row) => [row.dataset.id, row]));
    const rows = jobs.map((x) => {
      const row = had.get(x.id);
      const same = row && JSON.stringify(row.job) === JSON.stringify(x);
      if (same) return row;
      const fresh = rowOf(x);
      if (row?.contains(document.activeElement)) queueMicrotask(() => find('.acts button', fresh)?.focus());
      return fresh;
    });
    if (rows.length !== at.list.children.length || rows.some((row, i) => at.list.children[i] !== row)) at.list.replaceChildren(...rows);
    const n = jobs.filter(under).length;
    at.status.textContent = jobs.length ? (n ? `${plural(n, 'file')} to come` : 'Nothing to come') : '';
    at.clear.hidden = n === jobs.length;
    at.none.hidden = jobs.length > 0;
  }

  const wait = (ms) => new Promise((go) => { at.wake = go; setTimeout(go, ms); });

  // follow asks how far it is, until the page is left.
  async function follow(signal) {
    for (let pause = 500; !signal.aborted; pause = Math.min(pause * 1.5, 3000)) {
      const before = JSON.stringify(at.jobs);
      await wait(at.jobs.some(under) ? pause : 3600e3);
      if (signal.aborted) return;
      if (document.hidden || !at.jobs.some(under)) continue;
      try {
        show((await api('GET', 'remote-upload', undefined, { signal })).jobs);
        if (JSON.stringify(at.jobs) !== before) pause = 500;
      } catch (e) {
        if (e.name === 'AbortError') return;
        pause = 3000; // the server may be back by then
      }
    }
  }

  // change asks for something and shows the list as it is then.
  async function change(el, run) {
    el.disabled = true;
    try {
      await run();
      show((await api('GET', 'remote-upload')).jobs);
      at.wake?.();
    } catch (e) { failed(e); } finally { el.disabled = false; }
  }

  const jobOf = (el) => el.closest('[data-id]').job;
  Object.assign(acts, {
    'fetch-cancel': (el) => change(el, () => api('PATCH', `remote-upload/${jobOf(el).id}`, { action: 'cancel' })),
    'fetch-retry': (el) => change(el, () => api('PATCH', `remote-upload/${jobOf(el).id}`, { action: 'retry' })),
    'fetch-forget': (el) => change(el, () => api('DELETE', `remote-upload/${jobOf(el).id}`)),
    'fetch-clear': (el) => change(el, () => api('DELETE', 'remote-upload')),
  });

  return async function page(v) {
    const jobs = (await load('remote-upload', 'remote-upload', v.signal))?.jobs ?? [];
    const urls = h('textarea', { id: newID(), rows: '3', spellcheck: 'false', required: true });
    const folder = h('input', { id: newID(), maxlength: '512', autocomplete: 'off' });
    const visibility = h('select', { 'aria-label': 'Who can see the files' }, h('option', { value: '' }, 'Only me'), h('option', { value: '1' }, 'Anyone with the link'));
    const problem = h('p.error', { role: 'alert', id: newID(), hidden: true });
    const go = h('button.main', {}, 'Fetch');
    const form = h('form.card', { 'aria-label': 'Fetch from an address', novalidate: true },
      h('div.field', {}, h('label', { for: urls.id }, 'Addresses, one on each line'), urls, problem),
      h('div.field', {}, h('label', { for: folder.id }, 'Folder'), folder), h('div.row', {}, go, visibility));
    urls.setAttribute('aria-describedby', problem.id);
    const complain = (text) => {
      problem.textContent = text;
      problem.hidden = !text;
      urls.setAttribute('aria-invalid', String(!!text));
    };
    form.onsubmit = async (e) => {
      e.preventDefault();
      const lines = urls.value.split(/\s+/).filter(Boolean);
      if (!lines.length) { complain('Write the address of a file.'); urls.focus(); return; }
      complain('');
      await change(go, async () => {
        try {
          await api('POST', 'remote-upload', { urls: lines, isPublic: !!visibility.value, ...(folder.value.trim() ? { folderName: folder.value } : {}) });
          urls.value = '';
        } catch (x) {
          if (!(x instanceof Problem) || !x.fields) throw x;
          complain(x.fields.urls ? `The list ${x.fields.urls}.` : x.message);
        }
      });
    };
    at = {
      jobs, list: h('ul.list', { 'aria-label': 'Fetched files' }), status: h('small.soft', { role: 'status' }), wake: null,
      clear: button('fetch-clear', 'Forget what is over'), none: nothing('Nothing was fetched lately.', 'What is over is remembered here for a week. The files are among your files.'),
    };
    add(v.out, heading('Fetch from an address'), h('p.soft', {}, 'The server gets the files on its own; this page need not stay open.'), h('div.cards', {}, form),
      h('div.head', {}, h('h2', {}, 'Asked for lately'), at.status, h('div.row', {}, at.clear)), at.list, at.none);
    show(jobs);
    v.signal.addEventListener('abort', () => at.wake?.());
    follow(v.signal);
    return 'Fetch from an address';
  };
}
