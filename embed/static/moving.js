// The page of imports and exports. app.js loads it when it is asked for and hands over what its pages are made with.
export default function moving(kit) {
  const { h, add, api, base, kinds, button, when, plural, number, toast, failed, heading, load, meter, newID, acts } = kit;

  const formats = {
    '': 'Detect automatically', netscape: 'Bookmarks of a browser (HTML)', firefox: 'Firefox backup (JSON)', chrome: 'Chrome’s file Bookmarks', linkding: 'linkding (JSON)', karakeep: 'Karakeep (JSON)',
    linkwarden: 'Linkwarden (JSON)', wallabag: 'wallabag (JSON)', omnivore: 'Omnivore (zip)', pocket: 'Pocket (CSV or zip)', raindrop: 'Raindrop (CSV)', instapaper: 'Instapaper (CSV)', csv: 'Other bookmarks in CSV', shlink: 'Shlink (CSV)', folder: 'Files in a zip or tar', kist: 'An export of kist',
  };
  const states = { running: 'under way', done: 'done', stopped: 'stopped', failed: 'failed' };
  const words = { tag: 'tag', folder: 'folder' };
  for (const [name, k] of Object.entries(kinds)) words[name] = k.one;

  // sum says what an import made.
  function sum(x) {
    const made = Object.entries(x.made).map(([kind, n]) => plural(n, words[kind] ?? kind)).join(', ') || 'Nothing';
    return `${made} ${x.dryRun ? 'would be imported' : 'imported'}. Of ${plural(x.entries, 'entry', 'entries')}, ${number(x.there)} ${x.there === 1 ? 'was' : 'were'} there already${x.updated ? ` (${number(x.updated)} ${x.dryRun ? 'would be ' : ''}filled in)` : ''} and ${number(x.refused)} ${x.dryRun ? 'would be ' : ''}skipped.`;
  }

  // fill draws an import into its row.
  function fill(row, x) {
    const runs = x.state === 'running';
    row.replaceChildren(h('summary', {}, h('span', {}, x.name), h(x.state === 'done' ? 'span.badge.on' : runs ? 'span.badge' : 'span.badge.warn', {}, states[x.state]),
      x.dryRun && h('span.badge', {}, 'dry run'), when(x.createdAt)),
    runs ? meter(x.progress / 100) : '', h('p', {}, sum(x)), x.error ? h('p.alert', {}, x.error) : '',
    x.remarks.length ? h('ul', { 'aria-label': 'Report' }, x.remarks.map((r) => h('li', {}, h('b', {}, r.refused ? 'Skipped' : 'Note'), ` ${r.at}${r.name ? `, ${r.name}` : ''}: ${r.text}`))) : '',
    x.moreRemarks ? h('p.soft', {}, `… and ${number(x.moreRemarks)} more.`) : '',
    runs ? h('div.row', {}, button('import-stop', 'Stop', { 'aria-label': `Stop the import of ${x.name}` })) : '');
    row.import = x;
  }

  // follow draws an import again until it is over, or the page is left.
  async function follow(row, signal) {
    try {
      for (let wait = 200; row.import.state === 'running' && !signal.aborted; wait = Math.min(wait * 1.5, 3000)) {
        await new Promise((go) => setTimeout(go, wait));
        fill(row, (await api('GET', `import/${row.import.id}`, undefined, { signal })).data);
      }
      if (row.import.state !== 'running') toast(`The import of ${row.import.name} is ${states[row.import.state]}.`, { bad: row.import.state === 'failed' });
    } catch (e) { failed(e); }
  }

  function rowOf(x, signal) {
    const row = h('details', { 'data-id': x.id });
    fill(row, x);
    if (x.state === 'running') { row.open = true; follow(row, signal); }
    row.addEventListener('toggle', async () => {
      if (!row.open || row.import.state === 'running' || row.import.remarks.length || row.full) return;
      row.full = true; // lists come without the rows of reports
      try { fill(row, (await api('GET', `import/${x.id}`)).data); } catch (e) { row.full = false; failed(e); }
    });
    return row;
  }

  Object.assign(acts, {
    async 'import-stop'(el) {
      el.disabled = true;
      try { await api('DELETE', `import/${el.closest('details').import.id}`); } catch (e) { el.disabled = false; failed(e); }
    },
  });

  return async function page(v) {
    const list = (await load('import', 'import', v.signal))?.data ?? [];
    const file = h('input', { type: 'file', id: newID(), name: 'import', required: true });
    const format = h('select', { id: newID() }, Object.entries(formats).map(([value, label]) => h('option', { value }, label)));
    const update = h('input', { type: 'checkbox', id: newID() });
    const dry = h('input', { type: 'checkbox', id: newID() });
    const go = h('button.main', {}, 'Import file');
    const rows = h('div', {}, list.map((x) => rowOf(x, v.signal)));
    const form = h('form.card', { 'aria-label': 'Import' }, h('h2', {}, 'Import'),
      h('p.soft', {}, 'Import an export of another program or of kist. Duplicates are skipped.'),
      h('div.field', {}, h('label', { for: file.id }, 'File'), file), h('div.field', {}, h('label', { for: format.id }, 'Format'), format),
      h('label.check', { for: dry.id }, dry, h('span', {}, 'Dry run (change nothing)')),
      h('label.check', { for: update.id }, update, h('span', {}, 'Fill in empty fields of existing items and add tags')), h('div.row', {}, go));
    form.onsubmit = async (e) => {
      e.preventDefault();
      const body = new FormData();
      if (format.value) body.append('format', format.value);
      if (update.checked) body.append('update', 'true');
      if (dry.checked) body.append('dryRun', 'true');
      body.append('file', file.files[0], file.files[0].name);
      go.disabled = true;
      go.textContent = 'Sending …';
      try {
        rows.prepend(rowOf((await api('POST', 'import', body)).data, v.signal));
      } catch (problem) { failed(problem); } finally { go.disabled = false; go.textContent = 'Import file'; }
    };
    add(v.out, heading('Import and export'), h('div.cards', {}, form,
      h('div.card', {}, h('h2', {}, 'Export'), h('p.soft', {}, 'Everything you have, in one zip that another kist can import. It contains the password hashes of locked items. Keep it private.'),
        h('div.row', {}, h('a.button', { href: `${base}/api/v1/export`, download: '' }, 'Export everything')))), rows);
    return 'Import and export';
  };
}
