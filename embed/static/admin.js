// The admin page. app.js loads it when it is asked for and hands over what its pages are made with.
export default function admin(kit) {
  const { h, add, heading, nothing, button, iconButton, icon, plural, number, bytes, when, api, load, toast, inline, newID, kinds, start } = kit;

  // journalCard and damagedCard tell an administrator of damage: to the journal,
  // and to files whose bytes are damaged or gone.
  function journalCard(journal) {
    if (!journal?.damaged.length) return null;
    return h('div.card', { id: 'journal' }, h('h2', {}, 'Damaged records'),
      h('p', {}, journal.healedAt ? ['The files that hold the records were damaged. They were replaced ', when(journal.healedAt), ', and no record was lost. Check the disk.']
        : 'The files that hold the records are damaged and could not be replaced. Make a backup now, and check the disk before you stop the server.'),
      h('ul', {}, journal.damaged.slice(0, 10).map((text) => h('li', {}, text))));
  }

  function damagedCard(files) {
    const all = files && [...files.damaged, ...files.missing];
    if (!all?.length) return null;
    const total = files.damagedTotal + files.missingTotal;
    return h('div.card', { id: 'damaged' }, h('h2', {}, 'Damaged files'),
      h('p', {}, `The content of ${plural(total, 'file')} is damaged or missing. Upload the same ${total === 1 ? 'file' : 'files'} again, or run `,
        h('code', {}, 'kist restore --missing'), ' with a backup. Both put the content back and change nothing else.'),
      h('ul', {}, all.slice(0, 10).map((f) => h('li', {}, f.name, h('small.soft', {}, ` of ${f.owner}, found `, when(f.foundAt))))),
      total > 10 && all.length > 10 && h('p.soft', {}, `and ${number(total - 10)} more. For all of them, run `, h('code', {}, 'kist verify')));
  }

  return async (v) => {
    const [users, settings, stats, health] = await Promise.all([
      load('admin/users', 'admin/users?limit=500&sort=title', v.signal), load('admin/settings', 'admin/settings', v.signal), load('admin/stats', 'admin/stats', v.signal),
      load('admin/health', 'admin/health', v.signal),
    ]);
    if (!users || !settings) { add(v.out, heading('Admin'), nothing('This page is for administrators.')); return 'Admin'; }
    const s = settings.data, others = { captchaProvider: ['turnstile', 'hcaptcha'] };
    const off = h('input', { type: 'checkbox', id: newID(), role: 'switch', checked: !s.apiTokensDisabled, act: 'tokens' });
    add(v.out, heading('Admin'), h('div.cards', {}, journalCard(health?.data.journal), damagedCard(health?.data.files),
      h('div.card', {}, h('h2', {}, 'Storage'), h('p.figure', {}, bytes(stats?.data.bytes ?? 0)),
        h('p.soft', {}, [plural(stats?.data.users ?? 0, 'account'), ...Object.values(kinds).map((k) => plural(stats?.data.counts?.[k.name] ?? 0, k.one))].join(' · '))),
      h('div.card', {}, h('h2', {}, 'API keys'), h('label.check', { for: off.id }, off, h('span', {}, 'Allow API keys')),
        h('p.soft', {}, 'Turning this off blocks every user’s keys immediately: scripts, extensions and connected devices. Signing in still works.')),
      inline('Limits', [
        { name: 'defaultQuotaBytes', label: 'Default quota per user', type: 'size', placeholder: 'no limit', hint: 'For example 50 GB. You can set a different quota for each user.' },
        { name: 'maxUploadBytes', label: 'Largest file', type: 'size', placeholder: bytes(start.maxUpload) },
      ], s, 'Save', async (now) => { await api('PATCH', 'admin/settings', now); toast('Saved.'); }),
      inline('Bookmark checks', [
        { name: 'linkChecks', label: 'Check bookmarked pages', type: 'check', hint: 'Fetches missing titles, descriptions and icons, and finds dead links. The sites see this server’s IP address.' },
      ], s, 'Save', async (now) => { await api('PATCH', 'admin/settings', now); toast('Saved.'); }),
      inline('Captcha for upload requests', [
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
            h('span', {}, u.quotaEffectiveBytes ? `${bytes(u.usedBytes)} of ${bytes(u.quotaEffectiveBytes)}` : bytes(u.usedBytes)), h('span', {}, plural(Object.values(u.counts).reduce((a, b) => a + b, 0), 'item')))),
        h('div.acts', {}, iconButton('user-edit', 'edit', `Edit ${u.username}`), u.id !== kit.me.id && iconButton('user-delete', 'trash', `Delete ${u.username}`)));
      row.user = u;
      return row;
    })));
    return 'Admin';
  };
}
