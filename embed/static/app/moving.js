// The import and export page. It owns the list of imports and follows those that run while the page is shown. It fills
// view.out and stops with view.signal. The router calls the page.
import { add, addActions, button, h, meter, newID, problemText, remarkText, t, toast, when } from './dom.js';
import { downloadLink, heading, load } from './heading.js';
import { countOf, kinds } from './kinds.js';
import { api, Problem, showProblem } from './session.js';

const formats = {
  '': t('import.detect'),
  netscape: t('import.netscape'),
  firefox: t('import.firefox'),
  chrome: t('import.chrome'),
  linkding: 'linkding (JSON)',
  karakeep: 'Karakeep (JSON)',
  linkwarden: 'Linkwarden (JSON)',
  wallabag: 'wallabag (JSON)',
  omnivore: 'Omnivore (zip)',
  pocket: t('import.pocket'),
  raindrop: 'Raindrop (CSV)',
  instapaper: 'Instapaper (CSV)',
  csv: t('import.csv'),
  shlink: 'Shlink (CSV, JSON)',
  yourls: 'YOURLS (CSV, JSON)',
  kutt: 'Kutt (CSV, JSON)',
  bitly: 'Bitly (CSV, JSON)',
  shortlinks: t('import.shortlinks'),
  grouvee: 'Grouvee (CSV, JSON)',
  playnite: 'Playnite (CSV)',
  mealie: 'Mealie (JSON, zip)',
  tandoor: 'Tandoor (JSON, zip)',
  paprika: 'Paprika (paprikarecipes)',
  markdown: t('import.markdown'),
  keep: 'Google Keep (zip)',
  folder: t('import.folder'),
  kist: t('import.kist'),
};
const states = {
  running: t('import.running'),
  done: t('import.done'),
  stopped: t('import.stopped'),
  failed: t('import.failed'),
};

// made says how many items of a kind, tags or folders there are.
function made(kind, n) {
  if (kind === 'tag') return t('tags.count', { n });
  return kind === 'folder' ? t('folder.count', { n }) : countOf(kinds[kind], n);
}

// summaryOf says what an import did: what it made, and how its entries ended.
function summaryOf(x) {
  const known = Object.entries(x.made).filter(([kind]) => kinds[kind] || ['tag', 'folder'].includes(kind));
  const list = known.map(([kind, n]) => made(kind, n)).join(', ');
  const imported = Math.max(0, x.entries - x.there - x.refused);
  const counts = { n: x.entries, imported, there: x.there, refused: x.refused };
  return [
    list && t(x.dryRun ? 'import.wouldMake' : 'import.made', { list }),
    t(x.dryRun ? 'import.wouldCounts' : 'import.counts', counts),
    x.updated && t(x.dryRun ? 'import.wouldUpdate' : 'import.updated', { n: x.updated }),
  ].filter(Boolean).join(' ');
}

// places are the words for where an entry is, as the server says them.
const places = {
  line: t('import.line'),
  entry: t('import.entry'),
  column: t('import.column'),
  member: t('import.member'),
  attribute: t('import.attribute'),
  file: t('import.fileIn'),
  folder: t('import.folderIn'),
};

const placeOf = (at) => at.replace(/(^|, )([a-z]+)(?= [\d"])/g, (all, before, word) => before + (places[word] ?? word));

// said is a sentence of a report in the language of the user.
function said(text) {
  const [, why] = /^The (?:[a-z]+ )?URL (.+)\.$/.exec(text) ?? [];
  return why ? t('import.badURL', { why: problemText(why) }) : remarkText(text);
}

// remarkOf says what happened to an entry that was not simply imported.
const remarkOf = (r) => h('li', {},
  h('b', {}, r.refused ? t('import.skipped') : t('import.note')),
  ` ${placeOf(r.at)}${r.name ? `, ${r.name}` : ''}: ${said(r.text)}`);

const badgeOf = (state) => ({ done: 'span.badge.on', running: 'span.badge' }[state] ?? 'span.badge.warn');

// draw shows an import in its row.
function draw(row, x) {
  const running = x.state === 'running';
  row.replaceChildren();
  add(row,
    h('summary', {},
      h('span', {}, x.name),
      h(badgeOf(x.state), {}, states[x.state]),
      x.dryRun && h('span.badge', {}, t('import.dryRun')),
      when(x.createdAt)),
    running && meter(x.progress / 100),
    h('p', {}, summaryOf(x)),
    x.error && h('p.alert', {}, said(x.error)),
    x.remarks.length > 0 && h('section.report', {},
      h('h3', {}, t('import.report')), h('ul', {}, x.remarks.map(remarkOf))),
    x.moreRemarks > 0 && h('p.soft', {}, t('import.moreRemarks', { n: x.moreRemarks })),
    running && h('div.row', {},
      button('import-stop', t('import.stop'), { 'aria-label': t('import.stopOf', { name: x.name }) })));
  row.import = x;
}

// follow redraws an import until it has ended or the user leaves the page.
async function follow(row, signal) {
  try {
    for (let wait = 200; row.import.state === 'running' && !signal.aborted; wait = Math.min(wait * 1.5, 3000)) {
      await new Promise((done) => setTimeout(done, wait));
      draw(row, (await api('GET', `import/${row.import.id}`, undefined, { signal })).data);
    }
    const { name, state } = row.import;
    if (state === 'running') return;
    toast(t('import.ended', { name, state: states[state] }), { bad: state === 'failed' });
  } catch (e) { showProblem(e); }
}

function rowOf(x, signal) {
  const row = h('details', { 'data-id': x.id });
  draw(row, x);
  if (x.state === 'running') {
    row.open = true;
    follow(row, signal);
  }
  row.addEventListener('toggle', async () => {
    if (!row.open || row.import.state === 'running' || row.import.remarks.length || row.full) return;
    row.full = true; // lists leave out the rows of the report
    try {
      draw(row, (await api('GET', `import/${x.id}`)).data);
    } catch (e) {
      row.full = false;
      showProblem(e);
    }
  });
  return row;
}

addActions({
  async 'import-stop'(el) {
    el.disabled = true;
    try {
      await api('DELETE', `import/${el.closest('details').import.id}`);
    } catch (e) {
      el.disabled = false;
      showProblem(e);
    }
  },
});

// importForm sends a file. started is called with the import that the server has begun.
function importForm(started) {
  const file = h('input', { type: 'file', id: newID(), name: 'import', required: true });
  const choices = Object.entries(formats).map(([value, label]) => h('option', { value }, label));
  const format = h('select', { id: newID() }, choices);
  const update = h('input', { type: 'checkbox', id: newID() });
  const dry = h('input', { type: 'checkbox', id: newID() });
  const submit = h('button.main', {}, t('import.importFile'));
  const form = h('form.card', { 'aria-label': t('import.title') },
    h('h2', {}, t('import.title')),
    h('p.soft', {}, t('import.intro')),
    h('div.field', {}, h('label', { for: file.id }, t('import.file')), file),
    h('div.field', {}, h('label', { for: format.id }, t('import.format')), format),
    h('label.check', { for: dry.id }, dry, h('span', {}, t('import.dry'))),
    h('label.check', { for: update.id }, update, h('span', {}, t('import.update'))),
    h('div.row', {}, submit));

  form.onsubmit = async (e) => {
    e.preventDefault();
    const body = new FormData();
    if (format.value) body.append('format', format.value);
    if (update.checked) body.append('update', 'true');
    if (dry.checked) body.append('dryRun', 'true');
    body.append('file', file.files[0], file.files[0].name);
    submit.disabled = true;
    submit.textContent = t('import.sending');
    try {
      started((await api('POST', 'import', body)).data);
    } catch (problem) {
      const [, why] = /^cannot be imported: (.*)$/s.exec(problem.fields?.file ?? '') ?? [];
      showProblem(why ? new Problem(t('import.refused', { why: remarkText(why) })) : problem);
    } finally {
      submit.disabled = false;
      submit.textContent = t('import.importFile');
    }
  };
  return form;
}

export default async function page(v) {
  const list = (await load('import', 'import', v.signal))?.data ?? [];
  const rows = h('div', {}, list.map((x) => rowOf(x, v.signal)));
  const earlier = h('div.head', { hidden: !list.length }, h('h2', {}, t('import.earlier')));
  const form = importForm((x) => {
    rows.prepend(rowOf(x, v.signal));
    earlier.hidden = false;
  });
  const exportCard = h('div.card', {},
    h('h2', {}, t('import.export')),
    h('p.soft', {}, t('import.exportHint')),
    h('div.row', {}, downloadLink('export', t('import.exportAll'))),
    h('p.soft', {}, t('import.bookmarksHint')),
    h('div.row', {},
      downloadLink('export?format=html', t('import.bookmarksHTML')),
      downloadLink('export?format=json', t('import.bookmarksJSON'))));
  add(v.out, heading(t('import.pageTitle')), h('div.cards', {}, form, exportCard), earlier, rows);
  return t('import.pageTitle');
}
