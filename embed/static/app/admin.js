// The admin page: the health of the server, the accounts, its settings and backups. It owns the cards and the rows of
// users. It fills view.out and stops with view.signal. The router calls the page.
import { backupSection } from './backups.js';
import {
  add, addActions, ago, button, bytes, emptyState, exactly, h, icon, iconButton, itemOf, locale, meter, t, tn, toast,
  when,
} from './dom.js';
import { expiryField } from './expiry.js';
import { openDialog, openForm } from './forms.js';
import { heading, load, subheading } from './heading.js';
import { countOf, kinds } from './kinds.js';
import { rerender } from './router.js';
import { api, base, me, Problem, showProblem, start } from './session.js';
import { settingsOf } from './settings.js';

// ---- The health of the server ----


// journalCard and damagedCard show damage: of the journal, and of files whose content is damaged or missing.
function journalCard(journal) {
  if (!journal?.damaged.length) return null;
  const state = journal.healedAt ? tn('admin.healed', { when: when(journal.healedAt) }) : t('admin.unhealed');
  return h('div.card', { id: 'journal' },
    h('h2', {}, t('admin.damagedRecords')),
    h('p', {}, state),
    h('ul', {}, journal.damaged.slice(0, 10).map((text) => h('li', {}, text))));
}

function damagedCard(files) {
  const bad = files && [...files.damaged, ...files.missing];
  if (!bad?.length) return null;
  const total = files.damagedTotal + files.missingTotal;
  const row = (f) => h('li', {}, f.name,
    h('small.soft', {}, tn('admin.damagedOne', { owner: f.owner, when: when(f.foundAt) })));
  const restore = h('code', {}, 'kist restore --missing'), verify = h('code', {}, 'kist verify');
  return h('div.card', { id: 'damaged' },
    h('h2', {}, t('admin.damagedFiles')),
    h('p', {}, tn('admin.damagedText', { n: total, command: restore })),
    h('ul', {}, bad.slice(0, 10).map(row)),
    total > 10 && bad.length > 10 && h('p.soft', {}, tn('admin.damagedMore', { n: total - 10, command: verify })));
}

// A backup should not be older.
const oldBackup = 7 * 864e5;

// More of a problem is only in the log.
const longestProblem = 120;

// A check has a state and a text. These are the checks of the server's health, by what the server says.

function checkRecords({ damaged, healedAt }) {
  if (!damaged.length) return ['ok', t('instance.recordsOK')];
  return healedAt ? ['warning', t('instance.recordsHealed')] : ['problem', t('instance.recordsBad')];
}

function checkFiles({ damagedTotal, missingTotal, checkedAt }) {
  const bad = damagedTotal + missingTotal;
  if (bad) return ['problem', t('instance.filesBad', { n: bad })];
  return ['ok', checkedAt ? t('instance.filesChecked', { when: ago(checkedAt) }) : t('instance.filesUnchecked')];
}

function checkBackup(last, scheduled) {
  const fresh = last && Date.now() - Date.parse(last) < oldBackup;
  return [scheduled?.error ? 'problem' : fresh ? 'ok' : 'warning', last ? ago(last) : t('instance.never')];
}

function checkStore(store) {
  const at = (time) => time ? ago(time) : t('instance.storeNever');
  if (store.problem) {
    const long = store.problem.length > longestProblem;
    const problem = long ? store.problem.slice(0, longestProblem) + ' …' : store.problem;
    return ['problem', t('instance.storeFails', { problem, slot: at(store.lastSlotAt) })];
  }
  if (!store.complete) return ['warning', t('instance.storeCopying')];

  // What can be had back from the store, and since when.
  const until = ago(Date.now() - 1000 * store.lagSeconds);
  let gives = t(store.lagCommits ? 'instance.storeUntil' : 'instance.storeAll', {
    until, slot: at(store.lastSlotAt), snapshot: at(store.lastSnapshotAt),
  });
  if (store.oldestAt) {
    gives += ` ${t('instance.storeSince', { oldest: exactly(store.oldestAt) })}`;
  }
  if (!store.exact) return ['warning', `${gives} ${t('instance.storeInexact')}`];
  return [store.lagSeconds > 60 ? 'warning' : 'ok', gives];
}

function checkDisk({ freeBytes, totalBytes, reserveBytes }) {
  const low = freeBytes < 4 * reserveBytes;
  const sizes = { free: bytes(freeBytes), total: bytes(totalBytes), reserve: bytes(reserveBytes) };
  const state = freeBytes < reserveBytes ? 'problem' : low ? 'warning' : 'ok';
  return [state, t(low ? 'instance.diskReserve' : 'instance.diskFree', sizes)];
}

function checkClock({ doubted, aheadSeconds }) {
  if (doubted) return ['problem', t('instance.clockDoubted')];
  const command = h('code', {}, 'kist help repair');
  return aheadSeconds > 60 ? ['problem', tn('instance.clockAhead', { command })] : ['ok', t('instance.clockOK')];
}

const isLocalName = (name) => /^(localhost|127\..*|\[::1\])$/.test(name);

function checkAddress() {
  const flag = h('code.flag', {}, '--base-url'), { hostname, origin } = new URL(start.url);
  if (isLocalName(hostname)) return ['warning', tn('instance.addressLocal', { url: start.url, flag })];
  if (origin === location.origin) return ['ok', start.url];
  return ['warning', tn('instance.addressOther', { url: origin, here: location.origin, flag })];
}

function checkHTTPS() {
  if (location.protocol === 'https:') return ['ok', t('instance.httpsOn')];
  return isLocalName(location.hostname) ? ['ok', t('instance.httpsLocal')] : ['warning', t('instance.httpsOff')];
}

function checkProxy({ forwarded, trusted }) {
  if (forwarded && !trusted) return ['problem', t('instance.proxyUntrusted')];
  if (trusted && !forwarded) return ['warning', t('instance.proxySilent')];
  return ['ok', t(trusted ? 'instance.proxyTrusted' : 'instance.proxyNone')];
}

function checkIndex({ state }) {
  return state === 'ready' ? ['ok', t('instance.indexReady')] : ['warning', t('instance.indexBuilding')];
}

// checksOf are the checks of the health of the instance: name, state and text of each.
function checksOf({ journal, files, disk, clock, connection, lastBackupAt, backup, store }, index) {
  return [
    [t('instance.records'), ...checkRecords(journal)],
    [t('instance.files'), ...checkFiles(files)],
    [t('instance.backup'), ...checkBackup(lastBackupAt, backup)],
    store && [t('instance.store'), ...checkStore(store)],
    disk.totalBytes && [t('instance.disk'), ...checkDisk(disk)],
    [t('instance.clock'), ...checkClock(clock)],
    [t('instance.address'), ...checkAddress()],
    ['HTTPS', ...checkHTTPS()],
    [t('instance.proxy'), ...checkProxy(connection)],
    index && [t('instance.index'), ...checkIndex(index)],
  ].filter(Boolean);
}

const states = { problem: t('instance.problem'), warning: t('instance.warning'), ok: t('instance.ok') };

// checkRow shows a check.
function checkRow([name, state, text]) {
  const label = states[state];
  return h(`li.${state}`, {},
    h('b', { role: 'img', 'aria-label': label, title: label }, state === 'ok' ? icon('check') : '!'),
    h('span', {}, h('b', {}, name), ' ', h('span.soft', {}, text)));
}

// healthCard lists the checks, problems first.
function healthCard(health, index) {
  const all = checksOf(health, index);
  const rows = Object.keys(states).map((state) => all.filter((c) => c[1] === state).map(checkRow));
  return h('div.card', { id: 'health' },
    h('h2', {}, t('instance.health')),
    h('ul.checks', {}, rows),
    versionLine(health));
}

// versionLine says what the server was made from, as kist version does.
function versionLine({ version, commit, commitDate }) {
  if (!commit) return h('p.soft', {}, t('instance.version', { version }));
  const short = commit.slice(0, 10), date = new Date(commitDate).toLocaleDateString(locale, { dateStyle: 'medium' });
  return h('p.soft', { title: commit }, t('instance.built', { version, commit: short, date }));
}

// The storage card names so many users.
const mostUsers = 5;

function storageCard(stats, users) {
  const of = users.filter((u) => u.usedBytes).sort((a, b) => b.usedBytes - a.usedBytes);
  const total = of.reduce((n, u) => n + u.usedBytes, 0);
  const counts = Object.values(kinds).map((k) => countOf(k, stats?.counts?.[k.name] ?? 0));
  const userRow = (u) => h('li', {},
    h('span', {}, u.username, ' ', h('span.soft', {}, bytes(u.usedBytes)), meter(u.usedBytes / total)));
  return h('div.card', { id: 'storage' },
    h('h2', {}, t('admin.storage')),
    h('p.figure', {}, bytes(stats?.bytes ?? 0)),
    // No line begins with the dot.
    h('p.soft', {}, [t('admin.accounts', { n: stats?.users ?? 0 }), ...counts].join('\u00a0· ')),
    of.length > 1 && h('ul.checks', { 'aria-label': t('instance.byUser') }, of.slice(0, mostUsers).map(userRow)));
}

// ---- Users ----

// userLine says what a user is, and how much they store.
function userLine(u) {
  const used = bytes(u.usedBytes), limit = u.quotaEffectiveBytes;
  return h('div.meta', {},
    u.displayName && u.displayName !== u.username && h('span', {}, u.username),
    u.role === 'admin' && h('span.badge.on', {}, t('admin.administrator')),
    u.disabled && h('span.badge.warn', {}, t('admin.disabled')),
    u.secondFactor && h('span.badge', {}, t('admin.secondFactor')),
    u.apiTokensDisabled && h('span.badge.warn', {}, t('admin.keysOff')),
    h('span', {}, limit ? t('admin.usedOf', { used, limit: bytes(limit) }) : used),
    h('span', {}, t('search.count', { n: itemsOf(u) })));
}

function userRow(u) {
  const shown = u.displayName || u.username, name = u.username, other = u.id !== me.id;
  const row = h('li.item.plain', {},
    h('span.pic', {}, h('b', {}, shown.slice(0, 2).toUpperCase())),
    h('div.what', {}, h('span.name', {}, shown), userLine(u)),
    h('div.acts', {},
      iconButton('user-edit', 'edit', t('admin.editUser', { name })),
      other && iconButton('user-reset', 'key', t('admin.resetUser', { name })),
      other && iconButton('user-delete', 'trash', t('admin.deleteUser', { name }))));
  row.user = u;
  return row;
}

// invitationRow is an invitation that nobody has used yet. Those of others do not say what they share.
function invitationRow(v) {
  const row = h('li.item.plain', {},
    h('span.pic', {}, icon('share')),
    h('div.what', {}, h('span.name', {}, t('admin.invitation')), h('div.meta', {},
      v.role === 'admin' && h('span.badge.on', {}, t('admin.administrator')),
      h('span', {}, tn('list.expires', { when: when(v.expiresAt) })),
      v.createdBy.id !== me.id && h('span', {}, t('admin.invitedBy', { name: v.createdBy.name })),
      v.collections?.map((c) => h('span.cutoff', {}, c.title)))),
    h('div.acts', {}, button('invitation-delete', t('admin.takeBack'))));
  row.invitation = v;
  return row;
}

export default async function page(v) {
  const [users, settings, stats, health, backups, invitations] = await Promise.all([
    load('admin/users', 'admin/users?limit=500&sort=title', v.signal),
    load('admin/settings', 'admin/settings', v.signal),
    load('admin/stats', 'admin/stats', v.signal),
    load('admin/health', 'admin/health', v.signal),
    load('admin/backups', 'admin/backups', v.signal),
    load('admin/invitations', 'admin/invitations?limit=500', v.signal),
  ]);
  if (!users || !settings) {
    add(v.out, heading(t('admin.title')), emptyState(t('admin.only')));
    return t('admin.title');
  }
  add(v.out,
    heading(t('admin.title')),
    h('div.column', {},
      journalCard(health?.data.journal),
      damagedCard(health?.data.files),
      health && healthCard(health.data, stats?.data.index),
      storageCard(stats?.data, users.data),
      h('div.head', {},
        h('h2', {}, t('admin.users')),
        h('small.soft', {}, t('admin.accounts', { n: users.total })),
        h('div.row', {}, button('user-new', '', { class: 'main' }, icon('plus'), t('admin.invite')))),
      invitations?.data.length > 0 &&
        h('ul.list', { 'aria-label': t('admin.invitations') }, invitations.data.map(invitationRow)),
      h('ul.list', { 'aria-label': t('admin.users') }, users.data.map(userRow)),
      subheading(t('settings.title')),
      settingsOf(settings.data),
      health && backupSection(health.data, backups?.data ?? [], v.signal)));
  return t('admin.title');
}

const roleField = {
  name: 'role', label: t('admin.role'), type: 'choice', required: true, half: true,
  choices: { user: t('admin.member'), admin: t('admin.admin') },
};
const quotaField = {
  name: 'quotaBytes', label: t('admin.quota'), type: 'size', placeholder: t('admin.default'), half: true,
};

function editUser(u) {
  openForm({
    title: t('admin.editUser', { name: u.username }),
    fields: [
      { name: 'username', label: t('admin.username'), required: true, plain: true, half: true },
      { name: 'displayName', label: t('account.displayName'), half: true },
      {
        name: 'password', label: t('share.newPassword'), type: 'password', autocomplete: 'new-password',
        placeholder: t('common.unchanged'), hint: t('admin.passwordHint'),
      },
      roleField,
      quotaField,
      { name: 'apiTokensDisabled', label: t('admin.tokensDisabled'), type: 'check' },
      { name: 'disabled', label: t('admin.accountDisabled'), type: 'check' },
    ],
    values: u,
    run: async (now) => {
      if (!now.password) delete now.password;
      // The form shows a rounded value.
      const same = u.quotaBytes && now.quotaBytes && bytes(now.quotaBytes) === bytes(u.quotaBytes);
      if (same) delete now.quotaBytes;
      await api('PATCH', `admin/users/${u.id}`, now);
      rerender();
    },
  });
}

// An invitation shares so many collections at most. The form offers those that changed last.
const mostShared = 20;

// invite asks for what an invitation gives, and shows its link.
async function invite() {
  let own;
  try {
    own = (await api('GET', `collections?brief=true&sort=updated&limit=${mostShared}`)).data;
  } catch (e) { return showProblem(e); }
  const choices = { see: t('admin.maySee'), add: t('admin.mayAdd'), edit: t('admin.mayEdit') };
  return openForm({
    title: t('admin.inviteTitle'), text: t('admin.inviteText'), button: t('admin.makeLink'),
    fields: [
      roleField,
      quotaField,
      expiryField({ required: true, mostDays: 90, hint: own.length ? t('admin.inviteShare') : '' }),
      ...own.map((c) => ({ name: c.id, label: c.title, type: 'choice', none: t('admin.notShared'), choices })),
    ],
    values: { role: 'user' },
    run: async ({ role, quotaBytes, expiresAt, ...roles }) => {
      const shared = Object.entries(roles).filter(([, may]) => may).map(([id, may]) => ({ id, role: may }));
      const made = await api('POST', 'admin/invitations', { role, quotaBytes, expiresAt, collections: shared });
      rerender();
      showInvitation(made.url);
    },
  });
}

function showInvitation(url) {
  const address = new URL(url, location.href).href;
  const d = openDialog(t('admin.inviteLink'));
  d.body.append(
    h('p.soft', {}, t('admin.inviteOnce')),
    h('span.join', {},
      h('input.mono', { readonly: true, value: address, 'aria-label': t('forms.link') }),
      button('copy-text', '', { class: 'main', 'data-text': address }, icon('copy'), t('common.copy'))),
    h('img.qr', {
      src: `${base}/api/v1/qr?text=${encodeURIComponent(address)}`, alt: t('common.qrOf', { address }),
      width: '200', height: '200',
    }));
}

async function takeBack(v) {
  try {
    await api('DELETE', `admin/invitations/${v.id}`);
    rerender();
    toast(t('admin.takenBack'));
  } catch (e) { showProblem(e); }
}

function deleteUser(u) {
  openForm({
    title: t('admin.deleteTitle', { name: u.username }), danger: true, button: t('admin.deleteAccount'),
    text: t('admin.deleteText', { n: itemsOf(u), size: bytes(u.usedBytes) }),
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
    title: t('admin.resetUser', { name: u.username }), text: t('admin.resetText', { name: u.username }),
    button: t('admin.reset'), danger: true,
    fields: [{ name: 'revokeKeys', label: t('admin.resetKeys'), type: 'check', hint: t('admin.resetKeysHint') }],
    run: async (asked) => {
      const made = await api('POST', `admin/users/${u.id}/reset-login`, asked);
      rerender();
      const kept = made.keysKept ? ' ' + t('admin.resetKept', { n: made.keysKept }) : '';
      openForm({
        title: t('admin.resetLink'), text: t('admin.resetHint', { name: u.username }) + kept, button: '',
        fields: [{ name: 'at', label: t('forms.link'), readonly: true }], values: { at: made.url },
      });
    },
  });
}

const itemsOf = (u) => Object.values(u.counts).reduce((a, b) => a + b, 0);
const userOf = (el) => itemOf(el).user;

addActions({
  'user-new': invite,
  'invitation-delete': (el) => takeBack(itemOf(el).invitation),
  'user-edit': (el) => editUser(userOf(el)),
  'user-reset': (el) => resetUser(userOf(el)),
  'user-delete': (el) => deleteUser(userOf(el)),
});
