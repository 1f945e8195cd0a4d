// The import and export page.
import { add, addActions, button, h, meter, newID, number, plural, toast, when } from './dom.js';
import { kinds } from './kinds.js';
import { api, base, heading, load, showProblem } from './session.js';

const formats = {
  '': 'Detect automatically', netscape: 'Browser bookmarks (HTML)', firefox: 'Firefox backup (JSON)', chrome: 'Chrome’s Bookmarks file', linkding: 'linkding (JSON)', karakeep: 'Karakeep (JSON)',
  linkwarden: 'Linkwarden (JSON)', wallabag: 'wallabag (JSON)', omnivore: 'Omnivore (zip)', pocket: 'Pocket (CSV or zip)', raindrop: 'Raindrop (CSV)', instapaper: 'Instapaper (CSV)', csv: 'Other bookmarks (CSV)', shlink: 'Shlink (CSV)', folder: 'Files (zip or tar)', kist: 'Kist export',
};
const states = { running: 'running', done: 'done', stopped: 'stopped', failed: 'failed' };
const nouns = { tag: 'tag', folder: 'folder', ...Object.fromEntries(Object.values(kinds).map((k) => [k.name, k.one])) };

// summaryOf says what an import did.
function summaryOf(x) {
  const made = Object.entries(x.made).map(([kind, n]) => plural(n, nouns[kind] ?? kind)).join(', ') || 'Nothing';
  return `${made} ${x.dryRun ? 'would be imported' : 'imported'}. Of ${plural(x.entries, 'entry', 'entries')}, ${number(x.there)} ${x.there === 1 ? 'was' : 'were'} there already${x.updated ? ` (${number(x.updated)} ${x.dryRun ? 'would be ' : ''}filled in)` : ''} and ${number(x.refused)} ${x.dryRun ? 'would be ' : ''}skipped.`;
}

// draw shows an import in its row.
function draw(row, x) {
  const running = x.state === 'running';
  row.replaceChildren(h('summary', {}, h('span', {}, x.name), h(x.state === 'done' ? 'span.badge.on' : running ? 'span.badge' : 'span.badge.warn', {}, states[x.state]),
    x.dryRun && h('span.badge', {}, 'dry run'), when(x.createdAt)),
  running ? meter(x.progress / 100) : '', h('p', {}, summaryOf(x)), x.error ? h('p.alert', {}, x.error) : '',
  x.remarks.length ? h('ul', { 'aria-label': 'Report' }, x.remarks.map((r) => h('li', {}, h('b', {}, r.refused ? 'Skipped' : 'Note'), ` ${r.at}${r.name ? `, ${r.name}` : ''}: ${r.text}`))) : '',
  x.moreRemarks ? h('p.soft', {}, `… and ${number(x.moreRemarks)} more.`) : '',
  running ? h('div.row', {}, button('import-stop', 'Stop', { 'aria-label': `Stop the import of ${x.name}` })) : '');
  row.import = x;
}

// follow redraws an import until it has ended or the user leaves the page.
async function follow(row, signal) {
  try {
    for (let wait = 200; row.import.state === 'running' && !signal.aborted; wait = Math.min(wait * 1.5, 3000)) {
      await new Promise((done) => setTimeout(done, wait));
      draw(row, (await api('GET', `import/${row.import.id}`, undefined, { signal })).data);
    }
    if (row.import.state !== 'running') toast(`The import of ${row.import.name} is ${states[row.import.state]}.`, { bad: row.import.state === 'failed' });
  } catch (e) { showProblem(e); }
}

function rowOf(x, signal) {
  const row = h('details', { 'data-id': x.id });
  draw(row, x);
  if (x.state === 'running') { row.open = true; follow(row, signal); }
  row.addEventListener('toggle', async () => {
    if (!row.open || row.import.state === 'running' || row.import.remarks.length || row.full) return;
    row.full = true; // lists leave out the rows of the report
    try { draw(row, (await api('GET', `import/${x.id}`)).data); } catch (e) { row.full = false; showProblem(e); }
  });
  return row;
}

addActions({
  async 'import-stop'(el) {
    el.disabled = true;
    try { await api('DELETE', `import/${el.closest('details').import.id}`); } catch (e) { el.disabled = false; showProblem(e); }
  },
});

export default async function page(v) {
  const list = (await load('import', 'import', v.signal))?.data ?? [];
  const file = h('input', { type: 'file', id: newID(), name: 'import', required: true });
  const format = h('select', { id: newID() }, Object.entries(formats).map(([value, label]) => h('option', { value }, label)));
  const update = h('input', { type: 'checkbox', id: newID() });
  const dry = h('input', { type: 'checkbox', id: newID() });
  const submit = h('button.main', {}, 'Import file');
  const rows = h('div', {}, list.map((x) => rowOf(x, v.signal)));
  const form = h('form.card', { 'aria-label': 'Import' }, h('h2', {}, 'Import'),
    h('p.soft', {}, 'Import an export of another program or of kist. Duplicates are skipped.'),
    h('div.field', {}, h('label', { for: file.id }, 'File'), file), h('div.field', {}, h('label', { for: format.id }, 'Format'), format),
    h('label.check', { for: dry.id }, dry, h('span', {}, 'Dry run (change nothing)')),
    h('label.check', { for: update.id }, update, h('span', {}, 'Fill in empty fields of existing items and add tags')), h('div.row', {}, submit));
  form.onsubmit = async (e) => {
    e.preventDefault();
    const body = new FormData();
    if (format.value) body.append('format', format.value);
    if (update.checked) body.append('update', 'true');
    if (dry.checked) body.append('dryRun', 'true');
    body.append('file', file.files[0], file.files[0].name);
    submit.disabled = true;
    submit.textContent = 'Sending …';
    try {
      rows.prepend(rowOf((await api('POST', 'import', body)).data, v.signal));
    } catch (problem) { showProblem(problem); } finally { submit.disabled = false; submit.textContent = 'Import file'; }
  };
  add(v.out, heading('Import and export'), h('div.cards', {}, form,
    h('div.card', {}, h('h2', {}, 'Export'), h('p.soft', {}, 'Everything you have, in one zip that another instance of Kist can import. It contains the password hashes of locked items. Keep it private.'),
      h('div.row', {}, h('a.button', { href: `${base}/api/v1/export`, download: '' }, 'Export everything')))), rows);
  return 'Import and export';
};
