// The admin page.
import { add, addActions, ago, button, bytes, emptyState, h, icon, iconButton, itemOf, locale, meter, newID, t, tn, toast, when } from './dom.js';
import { openForm, settingsForm } from './forms.js';
import { countOf, kinds } from './kinds.js';
import { rerender } from './router.js';
import { api, downloadLink, heading, load, me, Problem, setTrashed, showProblem, start } from './session.js';

// journalCard and damagedCard show damage: of the journal, and of files whose content is damaged or missing.
function journalCard(journal) {
  if (!journal?.damaged.length) return null;
  return h('div.card', { id: 'journal' }, h('h2', {}, t('admin.damagedRecords')),
    h('p', {}, journal.healedAt ? tn('admin.healed', { when: when(journal.healedAt) })
      : t('admin.unhealed')),
    h('ul', {}, journal.damaged.slice(0, 10).map((text) => h('li', {}, text))));
}

function damagedCard(files) {
  const bad = files && [...files.damaged, ...files.missing];
  if (!bad?.length) return null;
  const total = files.damagedTotal + files.missingTotal;
  return h('div.card', { id: 'damaged' }, h('h2', {}, t('admin.damagedFiles')),
    h('p', {}, tn('admin.damagedText', { n: total, command: h('code', {}, 'kist restore --missing') })),
    h('ul', {}, bad.slice(0, 10).map((f) => h('li', {}, f.name, h('small.soft', {}, tn('admin.damagedOne', { owner: f.owner, when: when(f.foundAt) }))))),
    total > 10 && bad.length > 10 && h('p.soft', {}, tn('admin.damagedMore', { n: total - 10, command: h('code', {}, 'kist verify') })));
}

// A backup should not be older.
const oldBackup = 7 * 864e5;

function backupCard(last) {
  return h('div.card', { id: 'backup' }, h('h2', {}, t('instance.backup')), h('p.figure', {}, last ? when(last) : t('instance.backupNever')),
    h('p.soft', {}, tn('instance.backupHint', { command: h('code', {}, 'kist restore') })),
    h('div.row', {}, downloadLink('admin/backup', t('instance.backupDownload'))));
}

// More of a problem is only in the log.
const longestProblem = 120;

// checksOf are the checks of the health of the instance: name, state and text of each.
function checksOf({ journal, files, disk, clock, connection, lastBackupAt, store }, index) {
  const all = [];
  const add = (name, state, text) => all.push([name, state, text]);
  const bad = files.damagedTotal + files.missingTotal;
  if (!journal.damaged.length) add(t('instance.records'), 'ok', t('instance.recordsOK'));
  else if (journal.healedAt) add(t('instance.records'), 'warning', t('instance.recordsHealed'));
  else add(t('instance.records'), 'problem', t('instance.recordsBad'));

  if (bad) add(t('instance.files'), 'problem', t('instance.filesBad', { n: bad }));
  else add(t('instance.files'), 'ok', files.checkedAt ? t('instance.filesChecked', { when: ago(files.checkedAt) }) : t('instance.filesUnchecked'));

  add(t('instance.backup'), lastBackupAt && Date.now() - Date.parse(lastBackupAt) < oldBackup ? 'ok' : 'warning', lastBackupAt ? ago(lastBackupAt) : t('instance.backupNever'));

  if (store) {
    const at = (time) => time ? ago(time) : t('instance.storeNever');
    const gives = t(store.lagCommits ? 'instance.storeUntil' : 'instance.storeAll', { until: ago(Date.now() - 1000 * store.lagSeconds), slot: at(store.lastSlotAt), snapshot: at(store.lastSnapshotAt) })
      + (store.oldestAt ? ` ${t('instance.storeSince', { oldest: new Date(store.oldestAt).toLocaleString(locale, { dateStyle: 'medium', timeStyle: 'short' }) })}` : '');
    if (store.problem) add(t('instance.store'), 'problem', t('instance.storeFails', { problem: store.problem.length > longestProblem ? store.problem.slice(0, longestProblem) + ' …' : store.problem, slot: at(store.lastSlotAt) }));
    else if (!store.complete) add(t('instance.store'), 'warning', t('instance.storeCopying'));
    else if (!store.exact) add(t('instance.store'), 'warning', `${gives} ${t('instance.storeInexact')}`);
    else add(t('instance.store'), store.lagSeconds > 60 ? 'warning' : 'ok', gives);
  }
  if (disk.totalBytes) {
    const low = disk.freeBytes < 4 * disk.reserveBytes;
    add(t('instance.disk'), disk.freeBytes < disk.reserveBytes ? 'problem' : low ? 'warning' : 'ok',
      t(low ? 'instance.diskReserve' : 'instance.diskFree', { free: bytes(disk.freeBytes), total: bytes(disk.totalBytes), reserve: bytes(disk.reserveBytes) }));
  }
  if (clock.doubted) add(t('instance.clock'), 'problem', t('instance.clockDoubted'));
  else if (clock.aheadSeconds > 60) add(t('instance.clock'), 'problem', tn('instance.clockAhead', { command: h('code', {}, 'kist help repair') }));
  else add(t('instance.clock'), 'ok', t('instance.clockOK'));

  const flag = h('code.flag', {}, '--base-url'), url = new URL(start.url), isLocal = (name) => /^(localhost|127\..*|\[::1\])$/.test(name);
  if (isLocal(url.hostname)) add(t('instance.address'), 'warning', tn('instance.addressLocal', { url: start.url, flag }));
  else if (url.origin !== location.origin) add(t('instance.address'), 'warning', tn('instance.addressOther', { url: url.origin, here: location.origin, flag }));
  else add(t('instance.address'), 'ok', start.url);
  if (location.protocol === 'https:') add('HTTPS', 'ok', t('instance.httpsOn'));
  else if (isLocal(location.hostname)) add('HTTPS', 'ok', t('instance.httpsLocal'));
  else add('HTTPS', 'warning', t('instance.httpsOff'));

  if (connection.forwarded && !connection.trusted) add(t('instance.proxy'), 'problem', t('instance.proxyUntrusted'));
  else if (connection.trusted && !connection.forwarded) add(t('instance.proxy'), 'warning', t('instance.proxySilent'));
  else add(t('instance.proxy'), 'ok', t(connection.trusted ? 'instance.proxyTrusted' : 'instance.proxyNone'));

  if (index) add(t('instance.index'), index.state === 'ready' ? 'ok' : 'warning', t(index.state === 'ready' ? 'instance.indexReady' : 'instance.indexBuilding'));
  return all;
}

const states = { problem: t('instance.problem'), warning: t('instance.warning'), ok: t('instance.ok') };

// healthCard lists the checks, problems first.
function healthCard(health, index) {
  const all = checksOf(health, index);
  return h('div.card', { id: 'health' }, h('h2', {}, t('instance.health')),
    h('ul.checks', {}, Object.entries(states).map(([state, label]) => all.filter((c) => c[1] === state).map(([name, , text]) =>
      h(`li.${state}`, {}, h('b', { role: 'img', 'aria-label': label, title: label }, state === 'ok' ? icon('check') : '!'), h('span', {}, h('b', {}, name), ' ', h('span.soft', {}, text)))))),
    h('p.soft', {}, t('instance.version', { version: health.version })));
}

// The storage card names so many users.
const mostUsers = 5;

function storageCard(stats, users) {
  const of = users.filter((u) => u.usedBytes).sort((a, b) => b.usedBytes - a.usedBytes), total = of.reduce((n, u) => n + u.usedBytes, 0);
  return h('div.card', { id: 'storage' }, h('h2', {}, t('admin.storage')), h('p.figure', {}, bytes(stats?.bytes ?? 0)),
    h('p.soft', {}, [t('admin.accounts', { n: stats?.users ?? 0 }), ...Object.values(kinds).map((k) => countOf(k, stats?.counts?.[k.name] ?? 0))].join('\u00a0· ')), // no line begins with the dot
    of.length > 1 && h('ul.checks', { 'aria-label': t('instance.byUser') }, of.slice(0, mostUsers).map((u) => h('li', {}, h('span', {}, u.username, ' ', h('span.soft', {}, bytes(u.usedBytes)), meter(u.usedBytes / total))))));
}

export default async function page(v) {
  const [users, settings, stats, health] = await Promise.all([
    load('admin/users', 'admin/users?limit=500&sort=title', v.signal), load('admin/settings', 'admin/settings', v.signal), load('admin/stats', 'admin/stats', v.signal),
    load('admin/health', 'admin/health', v.signal),
  ]);
  if (!users || !settings) { add(v.out, heading(t('admin.title')), emptyState(t('admin.only'))); return t('admin.title'); }
  const s = settings.data, others = { captchaProvider: ['turnstile', 'hcaptcha'] };
  const off = h('input', { type: 'checkbox', id: newID(), role: 'switch', checked: !s.apiTokensDisabled, act: 'tokens' });
  add(v.out, heading(t('admin.title')), h('div.cards', {}, journalCard(health?.data.journal), damagedCard(health?.data.files),
    health && backupCard(health.data.lastBackupAt), health && healthCard(health.data, stats?.data.index), storageCard(stats?.data, users.data),
    h('div.card', {}, h('h2', {}, t('admin.keys')), h('label.check', { for: off.id }, off, h('span', {}, t('admin.allowKeys'))),
      h('p.soft', {}, t('admin.allowKeysHint'))),
    settingsForm(t('admin.limits'), [
      { name: 'defaultQuotaBytes', label: t('admin.defaultQuota'), type: 'size', placeholder: t('common.noLimit'), hint: t('admin.defaultQuotaHint') },
      { name: 'maxUploadBytes', label: t('common.largestFile'), type: 'size', placeholder: bytes(start.maxUpload) },
    ], s, t('common.save'), async (now) => { await api('PATCH', 'admin/settings', now); toast(t('common.saved')); }),
    settingsForm(t('admin.checks'), [
      { name: 'linkChecks', label: t('admin.checkPages'), type: 'check', hint: t('admin.checkPagesHint') },
    ], s, t('common.save'), async (now) => { await api('PATCH', 'admin/settings', now); toast(t('common.saved')); }),
    settingsForm(t('admin.metadata'), [
      { name: 'stripMetadata', label: t('admin.stripMetadata'), type: 'check', hint: t('admin.stripMetadataHint') },
    ], s, t('common.save'), async (now) => { await api('PATCH', 'admin/settings', now); toast(t('common.saved')); }),
    settingsForm(t('admin.trash'), [
      { name: 'trashDays', label: t('admin.trashDays'), type: 'number', min: 0, max: 3650, required: true, hint: t('admin.trashHint') },
    ], s, t('common.save'), saveTrash),
    settingsForm(t('admin.captcha'), [
      { name: 'captchaProvider', label: t('admin.provider'), type: 'choice', none: t('admin.serverDefault'), choices: { pow: t('admin.pow'), turnstile: 'Cloudflare Turnstile', hcaptcha: 'hCaptcha', none: t('admin.noCaptcha') } },
      { name: 'captchaSiteKey', label: t('admin.siteKey'), plain: true, onlyFor: others },
      { name: 'captchaSecret', label: t('admin.secret'), type: 'password', onlyFor: others, autocomplete: 'new-password', placeholder: s.hasCaptchaSecret ? t('common.unchanged') : '' },
      { name: 'captchaVerifyUrl', label: t('admin.verifyURL'), type: 'url', onlyFor: others, placeholder: t('admin.providersOwn') },
    ], s, t('common.save'), async ({ captchaSecret, ...now }) => {
      await api('PATCH', 'admin/settings', captchaSecret ? { ...now, captchaSecret } : now);
      toast(t('common.saved'));
    })),
  h('div.head', {}, h('h2', {}, t('admin.users')), h('small.soft', {}, t('admin.accounts', { n: users.total })), h('div.row', {}, button('user-new', '', { class: 'main' }, icon('plus'), t('admin.newUser')))),
  h('ul.list', { 'aria-label': t('admin.users') }, users.data.map((u) => {
    const row = h('li.item.plain', {}, h('span.pic', {}, h('b', {}, (u.displayName || u.username).slice(0, 2).toUpperCase())),
      h('div.what', {}, h('span.name', {}, u.displayName || u.username),
        h('div.meta', {}, u.displayName && u.displayName !== u.username && h('span', {}, u.username), u.role === 'admin' && h('span.badge.on', {}, t('admin.administrator')), u.disabled && h('span.badge.warn', {}, t('admin.disabled')), u.secondFactor && h('span.badge', {}, t('admin.secondFactor')), u.apiTokensDisabled && h('span.badge.warn', {}, t('admin.keysOff')),
          h('span', {}, u.quotaEffectiveBytes ? t('admin.usedOf', { used: bytes(u.usedBytes), limit: bytes(u.quotaEffectiveBytes) }) : bytes(u.usedBytes)), h('span', {}, t('search.count', { n: itemsOf(u) })))),
      h('div.acts', {}, iconButton('user-edit', 'edit', t('admin.editUser', { name: u.username })), u.id !== me.id && iconButton('user-reset', 'key', t('admin.resetUser', { name: u.username })), u.id !== me.id && iconButton('user-delete', 'trash', t('admin.deleteUser', { name: u.username }))));
    row.user = u;
    return row;
  })));
  return t('admin.title');
}

// saveTrash saves how long the trash keeps items. It asks before that empties the trash.
async function saveTrash(now) {
  const save = async () => { await api('PATCH', 'admin/settings', now); start.trashDays = now.trashDays; toast(t('common.saved')); };
  const { trashed } = now.trashDays ? { trashed: 0 } : (await api('GET', 'admin/stats')).data;
  if (!trashed) return save();
  return openForm({ title: t('admin.trashOffTitle'), text: t('admin.trashOffText', { n: trashed }), button: t('admin.trashOff'), danger: true, run: async () => { await save(); setTrashed(0); } });
}

function editUser(u) {
  openForm({
    title: u ? t('admin.editUser', { name: u.username }) : t('admin.newUser'), button: u ? t('common.save') : t('admin.addUser'),
    fields: [
      { name: 'username', label: t('admin.username'), required: true, plain: true, half: true },
      { name: 'displayName', label: t('account.displayName'), half: true },
      { name: 'password', label: u ? t('share.newPassword') : t('share.password'), type: 'password', required: !u, autocomplete: 'new-password', placeholder: u ? t('common.unchanged') : '', hint: u ? t('admin.passwordHint') : t('admin.passwordLength') },
      { name: 'role', label: t('admin.role'), type: 'choice', required: true, half: true, choices: { user: t('admin.member'), admin: t('admin.admin') } },
      { name: 'quotaBytes', label: t('admin.quota'), type: 'size', placeholder: t('admin.default'), half: true },
      { name: 'apiTokensDisabled', label: t('admin.tokensDisabled'), type: 'check' },
      { name: 'disabled', label: t('admin.accountDisabled'), type: 'check' },
    ],
    values: u ?? { role: 'user' },
    run: async (now) => {
      if (!now.password) delete now.password;
      if (u && u.quotaBytes && now.quotaBytes && bytes(now.quotaBytes) === bytes(u.quotaBytes)) delete now.quotaBytes; // the form shows a rounded value
      if (u) await api('PATCH', `admin/users/${u.id}`, now);
      else await api('POST', 'admin/users', now);
      rerender();
    },
  });
}

function deleteUser(u) {
  openForm({
    title: t('admin.deleteTitle', { name: u.username }), danger: true, button: t('admin.deleteAccount'), text: t('admin.deleteText', { n: itemsOf(u), size: bytes(u.usedBytes) }),
    fields: [{ name: 'name', label: t('admin.confirm', { name: u.username }), required: true, plain: true }],
    run: async ({ name }) => {
      if (name !== u.username) throw new Problem('', 0, { name: t('admin.wrongName') });
      await api('DELETE', `admin/users/${u.id}`);
      rerender();
      toast(t('admin.deleted', { name: u.username }));
    },
  });
}

function resetUser(u) {
  openForm({
    title: t('admin.resetUser', { name: u.username }), text: t('admin.resetText', { name: u.username }), button: t('admin.reset'), danger: true,
    fields: [{ name: 'revokeKeys', label: t('admin.resetKeys'), type: 'check', hint: t('admin.resetKeysHint') }],
    run: async (asked) => {
      const made = await api('POST', `admin/users/${u.id}/reset-login`, asked);
      rerender();
      const hint = t('admin.resetHint', { name: u.username }) + (made.keysKept ? ' ' + t('admin.resetKept', { n: made.keysKept }) : '');
      openForm({ title: t('admin.resetLink'), text: hint, fields: [{ name: 'at', label: t('forms.link'), readonly: true }], values: { at: made.url }, button: '' });
    },
  });
}

const itemsOf = (u) => Object.values(u.counts).reduce((a, b) => a + b, 0);
const userOf = (el) => itemOf(el).user;

addActions({
  async tokens(el) {
    const off = !el.checked;
    try {
      await api('PATCH', 'admin/settings', { apiTokensDisabled: off });
      toast(off ? t('admin.keysOffNow') : t('admin.keysOnNow'));
    } catch (e) { el.checked = off; showProblem(e); }
  },
  'user-new': () => editUser(null),
  'user-edit': (el) => editUser(userOf(el)),
  'user-reset': (el) => resetUser(userOf(el)),
  'user-delete': (el) => deleteUser(userOf(el)),
});
