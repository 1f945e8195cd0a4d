// The page of how the account signs in, and the dialog that confirms who uses the app. It owns passkeys, codes from a
// phone, recovery codes and the links to a sign-in service. It fills view.out and stops with view.signal. The router
// calls the page; session.js calls confirm when the server asks for a recent sign-in.
import { sessionList } from './account.js';
import { activity } from './activity.js';
import { add, addActions, button, find, h, icon, iconButton, itemOf, shorten, t, tn, toast, when } from './dom.js';
import { copyText, openDialog, openForm, settingsForm } from './forms.js';
import { heading, load, subheading } from './heading.js';
import { deviceList, keyList } from './keys.js';
import { rerender } from './router.js';
import { api, base, me, Problem, showProblem, start } from './session.js';

// ---- Passkeys in JSON, with bytes as base64url ----

const bytes = (text) =>
  Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0));
const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)))
  .replace(/\+/g, '-').replace(/\//g, '_').replace(/=/g, '');

// passkey asks the browser to use a passkey, or with create to make one, and returns its answer.
async function passkey(o, create = false) {
  o.challenge = bytes(o.challenge);
  if (create) o.user.id = bytes(o.user.id);
  for (const one of [...o.allowCredentials ?? [], ...o.excludeCredentials ?? []]) one.id = bytes(one.id);
  let c;
  try {
    c = await navigator.credentials[create ? 'create' : 'get']({ publicKey: o });
  } catch { throw new Problem(t('security.noAnswer')); }
  const r = c.response, response = { clientDataJSON: text(r.clientDataJSON) };
  for (const name of ['attestationObject', 'authenticatorData', 'signature', 'userHandle']) {
    if (r[name] && (create === (name === 'attestationObject'))) response[name] = text(r[name]);
  }
  if (create) response.transports = r.getTransports?.() ?? [];
  return JSON.stringify({ id: text(c.rawId), rawId: text(c.rawId), type: c.type, response });
}

// ---- Confirming ----

// proofFields are the fields that prove who the user is: the password, or without one a code from the phone.
function proofFields({ hasPassword, codesSince }) {
  const password = {
    name: 'password', label: t('security.password'), type: 'password', autocomplete: 'current-password',
  };
  const code = { name: 'code', label: t('security.code'), plain: true, autocomplete: 'one-time-code' };
  if (hasPassword) return [password];
  return codesSince ? [code] : [];
}

// issuerLink leads to the sign-in service, and back to this page.
function issuerLink() {
  const here = location.pathname.slice(base.length) + location.search;
  return h('a.button', { href: `${base}/login/oidc?next=${encodeURIComponent(here)}` },
    t('security.atIssuer', { issuer: start.issuer }));
}

// confirm asks who uses the app and returns whether the server was convinced.
export async function confirm() {
  const now = (await api('GET', 'me/security')).data;
  const linked = start.issuer && (await api('GET', 'me/identities')).total > 0;
  return new Promise((resolve) => {
    let sure = false;
    const prove = async (body) => {
      await api('POST', 'auth/confirm', body);
      sure = true;
    };
    const fields = proofFields(now), held = now.passkeys > 0 && now.passkeysPossible;
    const use = h('button', { type: 'button' }, t('security.usePasskey'));
    const d = openForm({
      title: t('security.confirmTitle'),
      text: t(fields.length || held || linked ? 'security.confirmText' : 'security.confirmNothing'),
      button: fields.length && t('security.confirm'),
      fields,
      after: h('div.row', {}, held && use, linked && issuerLink()),
      run: prove,
      onclose: () => resolve(sure),
    });
    use.onclick = async () => {
      try {
        const ask = await api('POST', 'auth/passkey/options');
        await prove({ ticket: ask.ticket, passkey: await passkey(ask.passkey) });
        d.el.close('done');
      } catch (e) { d.form.showProblem(e); }
    };
  });
}

// ---- The page ----

// showCodes shows new recovery codes, once.
function showCodes(codes) {
  if (!codes.length) return;
  const d = openDialog(t('security.recovery'));
  const all = codes.join('\n');
  const copy = { class: 'main', 'data-text': all };
  d.body.append(
    h('p', {}, t('security.keepCodes')),
    h('pre.copy', { tabindex: '0', 'aria-label': t('security.recovery') }, all),
    h('div.row', {},
      button('codes-copy', '', copy, icon('copy'), t('common.copy')),
      button('dialog-close', t('common.done'))));
  find('[data-act="codes-copy"]', d.el).focus();
}

function passkeyRow(p) {
  const row = h('li.item.plain', {},
    h('span.pic', {}, icon('key')),
    h('div.what', {},
      h('span.name', {}, p.name),
      h('div.meta', {},
        h('span', {}, tn('security.added', { when: when(p.createdAt) })),
        p.lastUsedAt && h('span', {}, tn('sessions.used', { when: when(p.lastUsedAt) })))),
    h('div.acts', {},
      iconButton('passkey-edit', 'edit', t('security.rename', { name: p.name })),
      iconButton('passkey-delete', 'trash', t('security.remove', { name: p.name }))));
  row.passkey = p;
  return row;
}

function identityRow(link) {
  const name = link.name || link.subject;
  const row = h('li.item.plain', {},
    h('div.what', {},
      h('span.name', {}, name),
      h('div.meta', {},
        h('span.cutoff', {}, link.issuer),
        link.lastUsedAt && h('span', {}, tn('identities.used', { when: when(link.lastUsedAt) })))),
    h('div.acts', {},
      button('identity-remove', t('identities.remove'), { 'aria-label': t('identities.removeOf', { name }) })));
  row.link = link;
  return row;
}

// identityCard has the accounts at the sign-in service that this account is linked to, and a button that links one.
const identityCard = (links) => h('section.card', { id: 'identities', 'aria-label': t('identities.title') },
  h('h2', {}, t('identities.title')),
  links.length > 0
    ? h('ul.list', { 'aria-label': t('identities.title') }, links.map(identityRow))
    : h('p.hint', {}, t('identities.none', { name: start.issuer })),
  h('div.row', {}, button('identity-link', t('identities.link', { name: start.issuer }))));

addActions({
  'codes-copy': async (el) => { if (await copyText(el.dataset.text)) toast(t('security.copied')); },
  async 'codes-on'() {
    try {
      const offer = await api('POST', 'me/codes');
      const d = openForm({
        title: t('security.codesOn'), text: t('security.scan'), button: t('security.turnOn'),
        fields: [
          { name: 'code', label: t('security.code'), required: true, plain: true, autocomplete: 'one-time-code' },
        ],
        before: h('div.qr', {},
          h('img', { src: offer.qr, alt: t('security.qr'), width: 220, height: 220 }),
          h('p.hint', {}, t('security.secret')),
          h('pre.copy', { tabindex: '0' }, offer.secret)),
        run: async ({ code }) => {
          const made = await api('PUT', 'me/codes', { secret: offer.secret, code });
          rerender();
          showCodes(made.recoveryCodes);
        },
      });
      find('input', d.el).focus();
    } catch (e) { showProblem(e); }
  },
  'codes-off'() {
    openForm({
      title: t('security.codesOff'), text: t('security.codesOffText'), button: t('security.turnOff'), danger: true,
      run: async () => {
        await api('DELETE', 'me/codes');
        rerender();
      },
    });
  },
  'recovery-new'() {
    openForm({
      title: t('security.renew'), text: t('security.renewText'), button: t('security.renew'),
      run: async () => {
        const made = await api('POST', 'me/recovery-codes');
        rerender();
        showCodes(made.recoveryCodes);
      },
    });
  },
  'passkey-new'() {
    openForm({
      title: t('security.newPasskey'), text: t('security.passkeyText'), button: t('security.add'),
      fields: [{ name: 'name', label: t('security.name'), required: true, placeholder: t('security.sample') }],
      run: async ({ name }) => {
        const ask = await api('POST', 'me/passkeys/options');
        const answer = await passkey(ask.passkey, true);
        const made = await api('POST', 'me/passkeys', { name, ticket: ask.ticket, passkey: answer });
        rerender();
        showCodes(made.recoveryCodes);
      },
    });
  },
  'passkey-edit'(el) {
    const p = itemOf(el).passkey;
    openForm({
      title: t('security.rename', { name: p.name }),
      fields: [{ name: 'name', label: t('security.name'), required: true }], values: p,
      run: async (now) => {
        await api('PATCH', `me/passkeys/${p.id}`, now);
        rerender();
      },
    });
  },
  'passkey-delete'(el) {
    const p = itemOf(el).passkey;
    openForm({
      title: t('security.remove', { name: p.name }), text: t('security.removeText'),
      button: t('security.removeButton'), danger: true,
      run: async () => {
        await api('DELETE', `me/passkeys/${p.id}`);
        rerender();
      },
    });
  },
  async 'identity-link'(el) {
    el.disabled = true;
    try {
      const next = location.pathname.slice(start.base.length);
      location.assign((await api('POST', 'me/identities', { next })).data.url);
    } catch (e) {
      el.disabled = false;
      showProblem(e);
    }
  },
  async 'identity-remove'(el) {
    try {
      await api('DELETE', `me/identities/${itemOf(el).link.id}`);
      await rerender();
      toast(t('identities.removed'));
      find('#identities button')?.focus();
    } catch (e) { showProblem(e); }
  },
});

// keyChoices are the keys that a new password can revoke, by id.
const keyChoices = (keys) => Object.fromEntries(keys.map((k) =>
  [k.id, t(k.device ? 'account.device' : 'account.key', { name: shorten(k.name) })]));

function passwordForm(keys) {
  const fields = [
    {
      name: 'currentPassword', label: t('account.currentPassword'), type: 'password',
      autocomplete: 'current-password', required: true,
    },
    {
      name: 'password', label: t('account.newPassword'), type: 'password',
      autocomplete: 'new-password', required: true, hint: t('account.passwordHint'),
    },
    {
      name: 'repeat', label: t('account.confirmPassword'), type: 'password',
      autocomplete: 'new-password', required: true, same: 'password',
    },
  ];
  if (keys.length) {
    fields.push({ name: 'revoke', label: t('account.alsoRevoke'), type: 'checks', choices: keyChoices(keys) });
  }
  const values = { revoke: keys.filter((k) => k.device).map((k) => k.id) };
  const change = async ({ repeat, ...now }, form) => {
    await api('PATCH', 'me', now);
    form.set({ currentPassword: '', password: '', repeat: '' });
    const revoked = now.revoke?.length ? ' ' + t('account.keysRevoked', { n: now.revoke.length }) : '';
    toast(t('account.passwordChanged') + revoked);
    rerender();
  };
  const node = settingsForm(t('account.password'), fields, values, t('account.changePassword'), change);
  // Password managers look for the name that belongs to a password.
  node.prepend(h('input', { hidden: true, autocomplete: 'username', value: me.username }));
  return node;
}

const passwordCard = () => h('div.card', {},
  h('h2', {}, t('security.password')),
  h('p.soft', {}, t('security.noPassword')));

const codesCard = ({ codesSince }) => h('div.card', {},
  h('h2', {}, t('security.codes')),
  h('p', {}, codesSince ? tn('security.codesSince', { when: when(codesSince) }) : t('security.codesNone')),
  h('p.soft', {}, t('security.codesHint')),
  h('div.row', {},
    button('codes-on', codesSince ? t('security.otherPhone') : t('security.codesOn')),
    codesSince && button('codes-off', t('security.turnOff'))));

const recoveryCard = (left) => h('div.card', {},
  h('h2', {}, t('security.recovery')),
  h('p', {}, t('security.left', { n: left })),
  h('p.soft', {}, t('security.recoveryHint')),
  h('div.row', {}, button('recovery-new', t('security.renew'))));

// passkeyList has the passkeys below a heading, and what is needed to make one.
function passkeyList(held, possible) {
  const make = possible && window.PublicKeyCredential
    && button('passkey-new', '', {}, icon('plus'), t('security.newPasskey'));
  const hint = possible
    ? t('security.passkeysHint')
    : tn('security.needHTTPS', { flag: h('code.flag', {}, '--base-url') });
  return [
    subheading(t('security.passkeys'), null, make),
    h('p.soft', {}, hint),
    held.length > 0 && h('ul.list', { 'aria-label': t('security.passkeys') }, held.map(passkeyRow)),
  ];
}

export default async function page(v) {
  const [security, passkeys, links, keys, sessions] = await Promise.all([
    load('me/security', 'me/security', v.signal),
    load('me/passkeys', 'me/passkeys?limit=500', v.signal),
    load('me/identities', 'me/identities?limit=500', v.signal),
    load('keys', 'keys?limit=500', v.signal),
    load('me/sessions', 'me/sessions?limit=500', v.signal),
  ]);
  const s = security?.data ?? {}, held = passkeys?.data ?? [];
  add(v.out,
    heading(t('security.title')),
    h('div.cards.two', {},
      !security || s.hasPassword ? passwordForm(keys?.data ?? []) : passwordCard(),
      codesCard(s),
      (s.codesSince || held.length > 0) && recoveryCard(s.recoveryCodes),
      start.issuer && links && identityCard(links.data)),
    passkeyList(held, s.passkeysPossible),
    keyList(keys, subheading),
    deviceList(keys),
    sessions && sessionList(sessions.data),
    subheading(t('account.activity')));
  await activity(v.out, 'activity', v.signal, 10);
  return t('security.title');
}
