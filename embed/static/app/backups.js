// The backups that the server makes by schedule: their section of the admin page, and the note on the home page if they
// fail. It owns both. admin.js calls backupSection; app.js calls begin if the page says that a backup has failed. Of
// view it uses name.
import {
  addActions, button, bytes, copyText, exactly, find, h, icon, itemOf, locale, t, tn, toast, when,
} from './dom.js';
import { openForm } from './forms.js';
import { downloadLink } from './heading.js';
import { rerender } from './router.js';
import { api, base, showProblem, view } from './session.js';

const inList = (time) => new Date(time).toLocaleString(locale, { dateStyle: 'short', timeStyle: 'short' });

const units = { d: 'backups.days', w: 'backups.weeks', m: 'backups.months', y: 'backups.years' };

// kept says in words how many backups stay: "7d,4w" is 7 days, 4 weeks.
const kept = (keep) => keep.split(',').map((part) => t(units[part.at(-1)], { n: parseInt(part, 10) })).join(', ');

// schedule says when backups are made, and where.
function schedule(s) {
  if (!s) {
    const init = h('code', {}, 'kist backup init DIR'), flag = h('code', {}, 'kist serve --backup-to DIR');
    return h('p.soft', {}, tn('backups.none', { init, flag }));
  }
  const next = s.running ? t('backups.running') : s.nextAt && t('backups.next', { when: exactly(s.nextAt) });
  return [
    s.error && h('p.warn', { role: 'status' }, s.error),
    h('p.soft', {}, tn('backups.schedule', { time: s.at, folder: h('code', {}, s.folder) }), ' ', next),
    h('p.soft', {}, t('backups.keeps', { list: kept(s.keep) })),
  ];
}

// card is about the last backup and the next one. health is what the server says of itself.
function card({ lastBackupAt, backup }) {
  return h('div.card', { id: 'backup' },
    h('p.soft', {}, t('backups.last')),
    h('p.figure', {}, lastBackupAt ? when(lastBackupAt) : t('backups.never')),
    schedule(backup),
    h('div.row', {},
      backup && button('backup-now', t('backups.now'), { class: 'main', disabled: backup.running }),
      downloadLink('admin/backup', t('backups.download'))),
    h('p.soft', {}, tn('backups.hint', { command: h('code', {}, 'kist restore') }), ' ',
      tn('backups.other', { command: h('code', {}, 'kist verify') })));
}

function backupRow(b) {
  const label = t('backups.restoreOne', { when: exactly(b.at) });
  const row = h('li.item.plain', {},
    h('span.pic', {}, icon(b.ok ? 'check' : 'close')),
    h('div.what', {},
      h('span.name', { title: exactly(b.at) }, inList(b.at)),
      h('div.meta', {},
        h(b.ok ? 'span.badge.on' : 'span.badge.warn', {}, t(b.ok ? 'backups.good' : 'backups.bad')),
        b.size > 0 && h('span', {}, bytes(b.size)),
        b.checkedAt && h('span', {}, tn('backups.checked', { when: when(b.checkedAt) })),
        b.error && h('span', {}, b.error))),
    h('div.acts', {}, button('backup-restore', t('backups.restore'), { 'aria-label': label })));
  row.backup = b;
  return row;
}

// backupSection is everything about backups: how they are doing, what can be asked for, and the list of those by
// schedule. While one is being made, it looks until signal ends whether it is done.
export function backupSection(health, all, signal) {
  const scheduled = health.backup;
  if (scheduled?.running) look(signal);
  return [
    h('div.head', {},
      h('h2', {}, t('backups.title')),
      scheduled && h('small.soft', {}, t('backups.count', { n: all.length }))),
    card(health),
    all.length > 0 && h('ul.list', { id: 'backups', 'aria-label': t('backups.title') }, all.map(backupRow)),
  ];
}

async function backUpNow(el) {
  el.disabled = true;
  try {
    await api('POST', 'admin/backups');
    toast(t('backups.begun'));
  } catch (e) { showProblem(e); }
  rerender();
}

// pause is how long to wait before looking whether a backup is done.
const pause = 2000;

function look(signal) {
  setTimeout(async () => {
    if (signal.aborted) return;
    try {
      const { backup } = (await api('GET', 'admin/health', undefined, { signal })).data;
      if (backup?.running) return void look(signal);
    } catch { return; }
    rerender();
  }, pause);
}

// quoted is a path as a shell takes it.
const quoted = (path) => /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;

function restore(b) {
  const command = `kist restore ${quoted(b.path)}`;
  openForm({
    title: t('backups.restoreTitle', { when: exactly(b.at) }), text: t('backups.restoreText'),
    button: t('common.copy'),
    fields: [{ name: 'command', label: t('backups.command'), type: 'text', readonly: true }], values: { command },
    run: async () => { toast(await copyText(command) ? t('backups.copied') : command); },
  });
}

// begin says on the home page that the backups fail, each time that page is shown.
export function begin() {
  const main = find('#main');
  const say = () => {
    if (view?.name !== 'home' || find('#backup-note')) return;
    main.prepend(h('p.note', { id: 'backup-note', role: 'status' },
      h('span', {}, t('backups.failing')),
      h('a.button', { href: `${base}/admin` }, t('common.show'))));
  };
  new MutationObserver(say).observe(main, { childList: true });
  say();
}

addActions({ 'backup-restore': (el) => restore(itemOf(el).backup), 'backup-now': backUpNow });
