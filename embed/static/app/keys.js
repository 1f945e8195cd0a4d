// The page of API keys and connected devices, where users set up other programs.
import { add, addActions, all, button, emptyState, find, h, icon, iconButton, itemOf, newID, plural, shorten, toast, when } from './dom.js';
import { copyText, openDialog, openForm } from './forms.js';
import { sessionList } from './pages.js';
import { rerender } from './router.js';
import { api, base, heading, load, me, showProblem } from './session.js';

const scopes = { all: 'Full access to my items', read: 'Read', write: 'Write', upload: 'Upload only', admin: 'Manage keys and the server' };

function keyRow(key) {
  const over = key.expiresAt && Date.parse(key.expiresAt) < Date.now();
  const row = h('li.item.plain', {}, h('span.pic', {}, icon('key')),
    h('div.what', {}, h('span.name', {}, key.name),
      h('div.meta', {}, h('span', {}, key.scopes.map((x) => scopes[x] ?? x).join(', ')), key.disabled && h('span.badge.warn', {}, 'off'), over && h('span.badge.warn', {}, 'expired'),
        h('span', {}, key.lastUsedAt ? ['used ', when(key.lastUsedAt)] : 'never used'), key.expiresAt && !over && h('span', {}, 'ends ', when(key.expiresAt)), h('span', {}, 'created ', when(key.createdAt)))),
    h('div.acts', {}, button('key-toggle', key.disabled ? 'Turn on' : 'Turn off', { 'aria-label': `${key.disabled ? 'Turn on' : 'Turn off'} ${key.name}` }), iconButton('key-edit', 'edit', `Rename ${key.name}`), iconButton('key-delete', 'trash', `Revoke ${key.name}`)));
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
  const link = h('a.button', { href: code, draggable: 'true' }, icon('bookmark'), 'Save to kist');
  link.onclick = (e) => { e.preventDefault(); toast('Drag this to the bookmarks bar.'); };
  return link;
}

// showSetup shows how to set up a program: its files, and the steps to take.
function showSetup(s) {
  const d = openDialog(`Set up ${s.name}`);
  const saves = s.files.map((f) => {
    if (s.program === 'bookmarklet') return bookmarklet(f.content.trim());
    const b = h('button.main', { type: 'button' }, `Save ${f.name}`);
    b.onclick = () => save(f);
    return b;
  });
  d.body.append(...[
    s.key && h('p', {}, `Kist created a key named ${s.key.name}. It is part of the text below and is shown only once. Anyone with the key has its permissions.`),
    saves.length && h('div.row', {}, saves),
    h('ol.steps', {}, s.steps.map((step) => h('li', {}, h('p', {}, step.text), step.copy && h('div.row', {}, h('pre.copy', { tabindex: '0', 'aria-label': 'To copy' }, step.copy),
      button('setup-copy', '', { 'data-text': step.copy, 'aria-label': `Copy ${step.copy.slice(0, 40)}` }, icon('copy'), 'Copy'))))),
    h('div.row', {}, button('dialog-close', 'Done')),
  ].filter(Boolean));
  (saves[0] ?? find('[data-act]', d.body)).focus();
}

async function chooseProgram() {
  const list = (await api('GET', 'setups')).data;
  const d = openDialog('Set up a program');
  const isPublic = h('input', { type: 'checkbox', id: newID() });
  const submit = h('button.main', {}, 'Set up');
  const choices = list.map((p, i) => {
    const input = h('input', { type: 'radio', name: 'program', id: newID(), value: p.program, checked: i === 0 });
    return h('label.check', { for: input.id }, input, h('span', {}, h('b', {}, p.name), h('br'), h('small.soft', {}, p.description)));
  });
  const visibility = h('label.check', { for: isPublic.id }, isPublic, h('span', {}, 'Anyone with the link can see what the program sends'));
  const form = h('form', {}, h('div', { role: 'radiogroup', 'aria-label': 'Program' }, choices), visibility, h('div.row.foot', {}, submit, button('dialog-close', 'Cancel')));
  form.onchange = () => { visibility.hidden = !list.find((p) => p.program === new FormData(form).get('program')).scopes.length; };
  form.onsubmit = async (e) => {
    e.preventDefault();
    submit.disabled = true;
    try {
      const setup = (await api('POST', 'setups', { program: new FormData(form).get('program'), isPublic: isPublic.checked })).data;
      d.el.close('done');
      rerender();
      showSetup(setup);
    } catch (problem) { showProblem(problem); } finally { submit.disabled = false; }
  };
  d.body.append(form);
  find('input', form).focus();
}

addActions({
  'key-new'() {
    openForm({
      title: 'New API key', button: 'Create key',
      fields: [
        { name: 'name', label: 'Name', required: true, placeholder: 'laptop', hint: 'Helps you recognise it later.' },
        { name: 'scopes', label: 'Permissions', type: 'checks', choices: me.role === 'admin' ? scopes : Object.fromEntries(Object.entries(scopes).filter(([n]) => n !== 'admin')) },
        { name: 'ends', label: 'Ends', type: 'choice', required: true, choices: { never: 'Never', 30: 'In 30 days', 90: 'In 90 days', 365: 'In a year' } },
      ],
      values: { scopes: ['all'], ends: 'never' },
      run: async ({ name, scopes: chosen, ends }) => {
        const answer = await api('POST', 'keys', { name, scopes: chosen.length ? chosen : ['all'], ...(ends !== 'never' && { expiresAt: new Date(Date.now() + ends * 864e5).toISOString() }) });
        rerender();
        const d = openDialog('Your new key');
        d.body.append(h('p', {}, 'Copy it now: it is shown only once. Anyone with this key has these permissions.'), h('pre.copy', { tabindex: '0', 'aria-label': 'API key' }, answer.key),
          h('div.row', {}, button('copy-key', 'Copy the key', { class: 'main', 'data-text': answer.key }, icon('copy'), 'Copy the key'), button('dialog-close', 'Done')));
        find('[data-act="copy-key"]', d.el).focus();
      },
    });
  },
  'copy-key': async (el) => { if (await copyText(el.dataset.text)) toast('Key copied.'); else toast('This browser does not let the page copy. Select the key and copy it.', { bad: true }); },
  async 'key-toggle'(el) {
    const key = itemOf(el).key;
    try { await api('PATCH', `keys/${key.id}`, { disabled: !key.disabled }); rerender(); } catch (e) { showProblem(e); }
  },
  'key-edit'(el) {
    const key = itemOf(el).key;
    openForm({ title: `Rename ${key.name}`, fields: [{ name: 'name', label: 'Name', required: true }], values: key, run: async (now) => { await api('PATCH', `keys/${key.id}`, now); rerender(); } });
  },
  // The page reports a key as revoked only after the server has revoked it, which cannot be undone.
  'key-delete'(el) {
    const { key } = itemOf(el);
    openForm({
      title: `Revoke ${key.name}?`, button: 'Revoke', danger: true,
      text: key.device ? 'The device loses access at once and has to connect again.' : 'Anything that uses this key loses access at once. This cannot be undone.',
      run: async () => {
        await api('DELETE', `keys/${key.id}`);
        rerender();
        toast(`Revoked “${shorten(key.name)}”.`);
      },
    });
  },
  async setup() { try { await chooseProgram(); } catch (e) { showProblem(e); } },
  'setup-copy': async (el) => { if (await copyText(el.dataset.text)) toast('Copied.'); else toast('This browser does not let the page copy. Select the text and copy it.', { bad: true }); },
});

export default async function page(v) {
  const [keys, sessions] = await Promise.all([load('keys', 'keys?limit=500', v.signal), load('me/sessions', 'me/sessions?limit=500', v.signal)]);
  const held = keys?.data ?? [];
  const made = held.filter((x) => !x.device), devices = held.filter((x) => x.device);
  const rows = (list, label, none) => list.length ? h('ul.list', { 'aria-label': label }, list.map(keyRow)) : h('p.soft', {}, none);
  add(v.out, heading('API keys', h('small.soft', {}, plural(made.length, 'key')), keys && button('key-new', '', { class: 'main' }, icon('plus'), 'New key')),
    h('p.soft', {}, 'A key lets a script, a phone’s shortcut or another program act for you. ', h('a', { href: `${base}/api/v1/reference` }, 'API reference')),
    me.apiTokensDisabled && h('p.alert', {}, 'An administrator has turned off your keys. None of them works.'),
    keys ? rows(made, 'API keys', 'No keys yet.') : emptyState('Keys cannot be shown.', me.role === 'admin' ? 'Load the page again in a moment.' : 'Ask an administrator for one.'),
    keys && h('div.row', {}, button('setup', 'Set up a program')),
    h('div.head', {}, h('h2', {}, 'Connected devices'), devices.length ? h('small.soft', {}, plural(devices.length, 'device')) : null),
    rows(devices, 'Connected devices', 'No device is connected. Browser extensions and command-line clients connect with a code.'),
    h('div.row', {}, h('a.button', { href: `${base}/device` }, 'Enter a code'), h('a.button', { href: `${base}/extension.zip`, download: '' }, 'Browser extension')),
    h('p.soft', {}, 'The extension saves pages, links, pictures and selected text from Chromium, Chrome, Edge and Firefox. Unpack it first. In Chromium, Chrome and Edge, turn on Developer mode on the extensions page, press Load unpacked and choose the folder. In Firefox, open about:debugging and load its manifest.json.'),
    sessions && sessionList(sessions.data));
  return 'Keys and devices';
};
