// The page of API keys and connected devices, where users set up other programs. It owns the rows of keys and the
// dialogs of setups. It fills view.out and stops with view.signal. The router calls the page; security.js shows its
// lists of keys and devices.
import { sessionList } from './account.js';
import {
  add, addActions, all, button, emptyState, find, h, icon, iconButton, itemOf, known, newID, shorten, t, tn, toast,
  when,
} from './dom.js';
import { expiryField } from './expiry.js';
import { copyText, openDialog, openForm } from './forms.js';
import { heading, load, subheading } from './heading.js';
import { rerender } from './router.js';
import { api, base, me, showProblem } from './session.js';

const scopes = {
  all: t('keys.all'),
  read: t('keys.read'),
  write: t('keys.write'),
  upload: t('keys.upload'),
  admin: t('keys.admin'),
};

// keyLine says what a key may do, whether it works, and when it was used.
function keyLine(key) {
  const over = key.expiresAt && Date.parse(key.expiresAt) < Date.now();
  return h('div.meta', {},
    h('span', {}, key.scopes.map((x) => scopes[x] ?? x).join(', ')),
    key.disabled && h('span.badge.warn', {}, t('keys.off')),
    over && h('span.badge.warn', {}, t('list.expired')),
    h('span', {}, key.lastUsedAt ? tn('sessions.used', { when: when(key.lastUsedAt) }) : t('keys.unused')),
    key.expiresAt && !over && h('span', {}, tn('list.expires', { when: when(key.expiresAt) })),
    h('span', {}, tn('keys.createdAt', { when: when(key.createdAt) })));
}

function keyRow(key) {
  const { name } = key;
  const toggleLabel = t(key.disabled ? 'keys.enableOf' : 'keys.disableOf', { name });
  const row = h('li.item.plain', {},
    h('span.pic', {}, icon('key')),
    h('div.what', {}, h('span.name', {}, name), keyLine(key)),
    h('div.acts', {},
      button('key-toggle', key.disabled ? t('keys.enable') : t('keys.disable'), { 'aria-label': toggleLabel }),
      iconButton('key-edit', 'edit', t('keys.rename', { name })),
      iconButton('key-delete', 'trash', t('keys.revokeOf', { name }))));

  for (const span of all('.meta span', row)) if (!span.childNodes.length) span.remove();
  row.key = key;
  return row;
}

// save downloads a file.
function save(f) {
  const address = URL.createObjectURL(new Blob([f.content], { type: f.mediaType }));
  const link = h('a', { href: address, download: f.name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}

// bookmarklet is a link to drag to the bookmarks bar. The policy of this page does not let it run here.
function bookmarklet(code) {
  const link = h('a.button', { href: code, draggable: 'true' }, icon('bookmark'), t('keys.saveToKist'));
  link.onclick = (e) => {
    e.preventDefault();
    toast(t('keys.dragThis'));
  };
  return link;
}

// stepOf is a step of a setup, with what is to be copied.
function stepOf(step) {
  const label = step.copy && t('keys.copyOf', { text: step.copy.slice(0, 40) });
  return h('li', {},
    h('p', {}, known(`setups.${step.text}`, step.text)),
    step.copy && h('div.row', {},
      h('pre.copy', { tabindex: '0', 'aria-label': t('keys.toCopy') }, step.copy),
      button('setup-copy', '', { 'data-text': step.copy, 'aria-label': label }, icon('copy'), t('common.copy'))));
}

// showSetup shows how to set up a program: its files, and the steps to take.
function showSetup(s) {
  const d = openDialog(t('keys.setUpOf', { name: s.name }));
  const saves = s.files.map((f) => {
    if (s.program === 'bookmarklet') return bookmarklet(f.content.trim());
    const b = h('button.main', { type: 'button' }, t('keys.saveFile', { name: f.name }));
    b.onclick = () => save(f);
    return b;
  });
  d.body.append(...[
    s.key && h('p', {}, t('keys.created', { name: s.key.name })),
    saves.length && h('div.row', {}, saves),
    h('ol.steps', {}, s.steps.map(stepOf)),
    h('div.row', {}, button('dialog-close', t('common.done'))),
  ].filter(Boolean));
  (saves[0] ?? find('[data-act]', d.body)).focus();
}

function programChoice(p, isFirst) {
  const input = h('input', { type: 'radio', name: 'program', id: newID(), value: p.program, checked: isFirst });
  const what = known(`setups.${p.description}`, p.description);
  return h('label.check', { for: input.id }, input,
    h('span', {}, h('b', {}, p.name), h('br'), h('small.soft', {}, what)));
}

async function chooseProgram() {
  const list = (await api('GET', 'setups')).data;
  const d = openDialog(t('keys.setUpProgram'));
  const isPublic = h('input', { type: 'checkbox', id: newID() });
  const submit = h('button.main', {}, t('keys.setUp'));
  const choices = list.map((p, i) => programChoice(p, i === 0));
  const visibility = h('label.check', { for: isPublic.id }, isPublic, h('span', {}, t('keys.seesSent')));
  const form = h('form', {},
    h('div', { role: 'radiogroup', 'aria-label': t('keys.program') }, choices),
    visibility,
    h('div.row.foot', {}, submit, button('dialog-close', t('common.cancel'))));

  const chosen = () => new FormData(form).get('program');
  form.onchange = () => { visibility.hidden = !list.find((p) => p.program === chosen()).scopes.length; };
  form.onsubmit = async (e) => {
    e.preventDefault();
    submit.disabled = true;
    try {
      const setup = (await api('POST', 'setups', { program: chosen(), isPublic: isPublic.checked })).data;
      d.el.close('done');
      rerender();
      showSetup(setup);
    } catch (problem) {
      showProblem(problem);
    } finally {
      submit.disabled = false;
    }
  };
  d.body.append(form);
  find('input', form).focus();
}

// allowed are the permissions that the user can give a key.
function allowed() {
  if (me.role === 'admin') return scopes;
  const { admin, ...others } = scopes;
  return others;
}

// showKey shows a new key, once.
function showKey(key) {
  const d = openDialog(t('keys.yours'));
  d.body.append(
    h('p', {}, t('keys.copyNow')),
    h('pre.copy', { tabindex: '0', 'aria-label': t('keys.key') }, key),
    h('div.row', {},
      button('copy-key', '', { class: 'main', 'data-text': key }, icon('copy'), t('keys.copyKey')),
      button('dialog-close', t('common.done'))));
  find('[data-act="copy-key"]', d.el).focus();
}

function newKey() {
  openForm({
    title: t('keys.new'), button: t('keys.create'),
    fields: [
      { name: 'name', label: t('forms.name'), required: true, placeholder: t('keys.sample'), hint: t('keys.nameHint') },
      { name: 'scopes', label: t('keys.permissions'), type: 'checks', choices: allowed() },
      expiryField(),
    ],
    values: { scopes: ['all'] },
    run: async ({ scopes: chosen, ...now }) => {
      const answer = await api('POST', 'keys', { ...now, scopes: chosen.length ? chosen : ['all'] });
      rerender();
      showKey(answer.key);
    },
  });
}

// copying puts the text of a button on the clipboard and says whether that worked.
async function copying(el, done, failed) {
  const copied = await copyText(el.dataset.text);
  toast(t(copied ? done : failed), { bad: !copied });
}

addActions({
  'key-new': newKey,
  'copy-key': (el) => copying(el, 'keys.copied', 'keys.cannotCopyKey'),
  async 'key-toggle'(el) {
    const key = itemOf(el).key;
    try {
      await api('PATCH', `keys/${key.id}`, { disabled: !key.disabled });
      rerender();
    } catch (e) { showProblem(e); }
  },
  'key-edit'(el) {
    const key = itemOf(el).key;
    openForm({
      title: t('keys.rename', { name: key.name }),
      fields: [{ name: 'name', label: t('forms.name'), required: true }], values: key,
      run: async (now) => {
        await api('PATCH', `keys/${key.id}`, now);
        rerender();
      },
    });
  },
  // The page reports a key as revoked only after the server has revoked it, which cannot be undone.
  'key-delete'(el) {
    const { key } = itemOf(el);
    openForm({
      title: t('keys.revokeTitle', { name: key.name }), button: t('keys.revoke'), danger: true,
      text: key.device ? t('keys.revokeDevice') : t('keys.revokeKey'),
      run: async () => {
        await api('DELETE', `keys/${key.id}`);
        rerender();
        toast(t('keys.revoked', { name: shorten(key.name) }));
      },
    });
  },
  async setup() { try { await chooseProgram(); } catch (e) { showProblem(e); } },
  'setup-copy': (el) => copying(el, 'keys.textCopied', 'keys.cannotCopyText'),
});

const rows = (list, label, none) =>
  list.length ? h('ul.list', { 'aria-label': label }, list.map(keyRow)) : h('p.soft', {}, none);

// keyList has the API keys of an answer below a heading, which head makes as heading does.
export function keyList(keys, head) {
  const made = keys?.data.filter((x) => !x.device) ?? [];
  const make = keys && button('key-new', '', { class: head === heading && 'main' }, icon('plus'), t('keys.newKey'));
  return [
    head(t('keys.title'), h('small.soft', {}, t('keys.count', { n: made.length })), make),
    h('p.soft', {}, t('keys.intro'), ' ', h('a', { href: `${base}/api/v1/reference` }, t('common.reference'))),
    me.apiTokensDisabled && h('p.alert', {}, t('keys.allOff')),
    keys
      ? rows(made, t('keys.title'), t('keys.none'))
      : emptyState(t('keys.hidden'), me.role === 'admin' ? t('keys.reload') : t('keys.askAdmin')),
  ];
}

// deviceList has the connected devices of an answer, and a link to connect one.
export function deviceList(keys) {
  const devices = keys?.data.filter((x) => x.device) ?? [];
  const count = devices.length > 0 && h('small.soft', {}, t('keys.deviceCount', { n: devices.length }));
  return [
    subheading(t('keys.devices'), count, h('a.button', { href: `${base}/device` }, t('keys.enterCode'))),
    rows(devices, t('keys.devices'), t('keys.noDevices')),
  ];
}

// page also asks for a new key where its address says new: after the first administrator was made.
export default async function page(v) {
  v.shown = () => {
    if (!v.params.has('new')) return;
    v.params.delete('new');
    history.replaceState(null, '', `${base}/keys`);
    newKey();
  };
  const [keys, sessions] = await Promise.all([
    load('keys', 'keys?limit=500', v.signal),
    load('me/sessions', 'me/sessions?limit=500', v.signal),
  ]);
  add(v.out,
    keyList(keys, heading),
    keys && h('div.row', {}, button('setup', t('keys.setUpProgram'))),
    deviceList(keys),
    h('div.row', {}, h('a.button', { href: `${base}/extension.zip`, download: '' }, t('keys.extension'))),
    h('p.soft', {}, t('keys.extensionHint')),
    sessions && sessionList(sessions.data));
  return t('keys.pageTitle');
}
