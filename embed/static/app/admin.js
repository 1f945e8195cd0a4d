// The admin page.
import { add, addActions, button, bytes, emptyState, h, icon, iconButton, itemOf, newID, number, plural, toast, when } from './dom.js';
import { openForm, settingsForm } from './forms.js';
import { kinds } from './kinds.js';
import { rerender } from './router.js';
import { api, heading, load, me, Problem, showProblem, start } from './session.js';

// journalCard and damagedCard show damage: of the journal, and of files whose content is damaged or missing.
function journalCard(journal) {
  if (!journal?.damaged.length) return null;
  return h('div.card', { id: 'journal' }, h('h2', {}, 'Damaged records'),
    h('p', {}, journal.healedAt ? ['The files that hold the records were damaged. They were replaced ', when(journal.healedAt), ', and no record was lost. Check the disk.']
      : 'The files that hold the records are damaged and could not be replaced. Make a backup now, and check the disk before you stop the server.'),
    h('ul', {}, journal.damaged.slice(0, 10).map((text) => h('li', {}, text))));
}

function damagedCard(files) {
  const bad = files && [...files.damaged, ...files.missing];
  if (!bad?.length) return null;
  const total = files.damagedTotal + files.missingTotal;
  return h('div.card', { id: 'damaged' }, h('h2', {}, 'Damaged files'),
    h('p', {}, `The content of ${plural(total, 'file')} is damaged or missing. Upload the same ${total === 1 ? 'file' : 'files'} again, or run `,
      h('code', {}, 'kist restore --missing'), ' with a backup. Both put the content back and change nothing else.'),
    h('ul', {}, bad.slice(0, 10).map((f) => h('li', {}, f.name, h('small.soft', {}, ` of ${f.owner}, found `, when(f.foundAt))))),
    total > 10 && bad.length > 10 && h('p.soft', {}, `and ${number(total - 10)} more. For all of them, run `, h('code', {}, 'kist verify')));
}

export default async function page(v) {
  const [users, settings, stats, health] = await Promise.all([
    load('admin/users', 'admin/users?limit=500&sort=title', v.signal), load('admin/settings', 'admin/settings', v.signal), load('admin/stats', 'admin/stats', v.signal),
    load('admin/health', 'admin/health', v.signal),
  ]);
  if (!users || !settings) { add(v.out, heading('Admin'), emptyState('This page is for administrators.')); return 'Admin'; }
  const s = settings.data, others = { captchaProvider: ['turnstile', 'hcaptcha'] };
  const off = h('input', { type: 'checkbox', id: newID(), role: 'switch', checked: !s.apiTokensDisabled, act: 'tokens' });
  add(v.out, heading('Admin'), h('div.cards', {}, journalCard(health?.data.journal), damagedCard(health?.data.files),
    h('div.card', {}, h('h2', {}, 'Storage'), h('p.figure', {}, bytes(stats?.data.bytes ?? 0)),
      h('p.soft', {}, [plural(stats?.data.users ?? 0, 'account'), ...Object.values(kinds).map((k) => plural(stats?.data.counts?.[k.name] ?? 0, k.one))].join(' · '))),
    h('div.card', {}, h('h2', {}, 'API keys'), h('label.check', { for: off.id }, off, h('span', {}, 'Allow API keys')),
      h('p.soft', {}, 'Turning this off blocks every user’s keys immediately: scripts, extensions and connected devices. Signing in still works.')),
    settingsForm('Limits', [
      { name: 'defaultQuotaBytes', label: 'Default quota per user', type: 'size', placeholder: 'no limit', hint: 'For example 50 GB. You can set a different quota for each user.' },
      { name: 'maxUploadBytes', label: 'Largest file', type: 'size', placeholder: bytes(start.maxUpload) },
    ], s, 'Save', async (now) => { await api('PATCH', 'admin/settings', now); toast('Saved.'); }),
    settingsForm('Bookmark checks', [
      { name: 'linkChecks', label: 'Check bookmarked pages', type: 'check', hint: 'Fetches missing titles, descriptions and icons, and finds dead links. The sites see this server’s IP address.' },
    ], s, 'Save', async (now) => { await api('PATCH', 'admin/settings', now); toast('Saved.'); }),
    settingsForm('Captcha for upload requests', [
      { name: 'captchaProvider', label: 'Provider', type: 'choice', none: 'Server default', choices: { pow: 'Built in: proof of work', turnstile: 'Cloudflare Turnstile', hcaptcha: 'hCaptcha', none: 'None' } },
      { name: 'captchaSiteKey', label: 'Site key', plain: true, onlyFor: others },
      { name: 'captchaSecret', label: 'Secret', type: 'password', onlyFor: others, autocomplete: 'new-password', placeholder: s.hasCaptchaSecret ? 'set; type to change it' : '' },
      { name: 'captchaVerifyUrl', label: 'Verification URL', type: 'url', onlyFor: others, placeholder: 'the provider’s own' },
    ], s, 'Save', async ({ captchaSecret, ...now }) => {
      await api('PATCH', 'admin/settings', captchaSecret ? { ...now, captchaSecret } : now);
      toast('Saved.');
    })),
  h('div.head', {}, h('h2', {}, 'Users'), h('small.soft', {}, plural(users.total, 'account')), h('div.row', {}, button('user-new', '', { class: 'main' }, icon('plus'), 'New user'))),
  h('ul.list', { 'aria-label': 'Users' }, users.data.map((u) => {
    const row = h('li.item.plain', {}, h('span.pic', {}, h('b', {}, (u.displayName || u.username).slice(0, 2).toUpperCase())),
      h('div.what', {}, h('span.name', {}, u.displayName || u.username),
        h('div.meta', {}, h('span', {}, u.username), u.role === 'admin' && h('span.badge.on', {}, 'administrator'), u.disabled && h('span.badge.warn', {}, 'disabled'), u.apiTokensDisabled && h('span.badge.warn', {}, 'keys off'),
          h('span', {}, u.quotaEffectiveBytes ? `${bytes(u.usedBytes)} of ${bytes(u.quotaEffectiveBytes)}` : bytes(u.usedBytes)), h('span', {}, plural(itemsOf(u), 'item')))),
      h('div.acts', {}, iconButton('user-edit', 'edit', `Edit ${u.username}`), u.id !== me.id && iconButton('user-delete', 'trash', `Delete ${u.username}`)));
    row.user = u;
    return row;
  })));
  return 'Admin';
}

function editUser(u) {
  openForm({
    title: u ? `Edit ${u.username}` : 'New user', button: u ? 'Save' : 'Add user',
    fields: [
      { name: 'username', label: 'User name', required: true, plain: true, half: true },
      { name: 'displayName', label: 'Display name', half: true },
      { name: 'password', label: u ? 'New password' : 'Password', type: 'password', required: !u, autocomplete: 'new-password', placeholder: u ? 'unchanged' : '', hint: u ? 'At least 8 characters. A new password signs the user out and revokes connected devices.' : 'At least 8 characters.' },
      { name: 'role', label: 'Role', type: 'choice', required: true, half: true, choices: { user: 'User', admin: 'Administrator' } },
      { name: 'quotaBytes', label: 'Storage', type: 'size', placeholder: 'default', half: true },
      { name: 'apiTokensDisabled', label: 'API keys are off', type: 'check' },
      { name: 'disabled', label: 'Account disabled', type: 'check' },
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
    title: `Delete ${u.username}?`, danger: true, button: 'Delete account', text: `This deletes the account and everything in it: ${plural(itemsOf(u), 'item')}, ${bytes(u.usedBytes)}. It cannot be undone. To keep the content, disable the account instead.`,
    fields: [{ name: 'name', label: `Type ${u.username} to confirm`, required: true, plain: true }],
    run: async ({ name }) => {
      if (name !== u.username) throw new Problem('', 0, { name: 'must be the name of the user' });
      await api('DELETE', `admin/users/${u.id}`);
      rerender();
      toast(`Deleted ${u.username}.`);
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
      toast(off ? 'API keys are off for everyone.' : 'API keys work again.');
    } catch (e) { el.checked = off; showProblem(e); }
  },
  'user-new': () => editUser(null),
  'user-edit': (el) => editUser(userOf(el)),
  'user-delete': (el) => deleteUser(userOf(el)),
});
