// The settings page: it connects the extension and has the settings for saving.
import { clientName, ext, firefox, originsOf } from './browser.js';
import {
  allowed, connected, connection, disconnect, ended, giveBack, pending, setPending, setSettings, settings,
} from './client.js';
import { begin, poll, Problem, serverOf, unsafe } from './connect.js';
import { t } from './text.js';
import { translate } from './translate.js';

translate();

const at = (id) => document.getElementById(id);
let waiting; // the AbortController of the polling

/** show updates the page from what is stored. */
async function show() {
  const [now, p, why] = await Promise.all([connection(), pending(), ended()]);
  at('connected').hidden = !now;
  at('waiting').hidden = !!now || !p;
  at('connect').hidden = !!now || !!p;
  at('ended').hidden = !why;
  at('ended').textContent = why;
  if (now) {
    at('connected-server').href = at('connected-server').textContent = now.server;
    at('connected-user').textContent = now.user && ' ' + t('extension.as', { name: now.user });
    at('barred').hidden = at('allow').hidden = await allowed(now.server);
  } else if (p) {
    at('waiting-server').textContent = new URL(p.server).host;
    at('code').textContent = p.code;
    at('again').href = p.page;
    wait(p);
  }
}

function problem(text) {
  at('server-problem').textContent = text;
  at('server-problem').hidden = !text;
  at('server').setAttribute('aria-invalid', String(!!text));
  if (text) at('server').focus();
}

/** wait polls until the user has decided. Only one poll runs at a time. */
async function wait(p) {
  if (waiting) return;
  waiting = new AbortController();
  const { signal } = waiting;
  try {
    await connected(p.server, await poll(p, { signal }));
    await show();
    at('connected-title').focus();
  } catch (e) {
    if (signal.aborted) return;
    if (!(e instanceof Problem)) throw e;
    await setPending(null);
    if (!await connection()) await giveBack(p.server);
    await show();
    if (await connection()) return; // connected, but the name of the user is unknown
    problem(e.message);
  } finally {
    if (waiting?.signal === signal) waiting = undefined;
  }
}

at('server-form').onsubmit = async (event) => {
  event.preventDefault();
  const button = event.submitter ?? event.target.querySelector('button');
  problem('');
  at('told').hidden = true;
  let server;
  try {
    server = serverOf(at('server').value);
  } catch (e) {
    problem(e.message);
    return;
  }
    // Browsers show the prompt only in direct response to a click, so nothing may be awaited before this.
  const asked = ext.permissions.request({ origins: originsOf(server) });
  button.disabled = true;
  try {
    if (!await asked) throw new Problem(t('extension.needPermission'));
    at('server').value = server;
    const p = await begin(server, clientName());
    await setPending(p);
    await show();
    at('waiting-title').focus();
    await ext.tabs.create({ url: p.page });
  } catch (e) {
    if (!await pending()) await giveBack(server);
    problem(e.message);
  } finally {
    button.disabled = false;
  }
};

at('server').oninput = () => {
  problem('');
  let text = t('extension.serverHint');
  try {
    if (unsafe(serverOf(at('server').value))) text = t('extension.unsafe');
  } catch { /* not typed to the end yet */ }
  at('server-hint').textContent = text;
};

at('cancel').onclick = async () => {
  waiting?.abort();
  waiting = undefined;
  const p = await pending();
  await setPending(null);
  if (p) {
    at('server').value = p.server;
    await giveBack(p.server);
  }
  await show();
  at('server').focus();
};

at('allow').onclick = async () => {
  // The page has the address, because nothing may be awaited between the click and this.
  await ext.permissions.request({ origins: originsOf(at('connected-server').href) });
  await show();
};

at('disconnect').onclick = async () => {
  const { server } = await connection() ?? {};
  const told = await disconnect();
  at('told').textContent = told ? '' : t('extension.disconnectedHere', { host: new URL(server).host });
  at('told').hidden = told;
  await show();
  at('server').value = server ?? '';
  at('server').focus();
};

at('settings').onchange = ({ target }) => {
  const value = target.type === 'checkbox' ? target.checked : !!target.value;
  return setSettings({ [target.name]: value });
};

ext.storage.onChanged.addListener((changed, area) => {
  if (area === 'local' && ('connection' in changed || 'ended' in changed)) show();
});

const chosen = await settings();
at('isPublic').value = chosen.isPublic ? '1' : '';
at('settings').elements.copy.checked = chosen.copy;
at('settings').elements.notify.checked = chosen.notify;

for (const { name, description, shortcut } of await ext.commands.getAll()) {
  const [what, key] = [document.createElement('dt'), document.createElement('dd')];
  what.textContent = name === '_execute_action' ? t('extension.openPopup') : description;
  key.append(shortcut ? Object.assign(document.createElement('kbd'), { textContent: shortcut }) : t('extension.none'));
  at('keys').append(what, key);
}
at('keys-hint').textContent = firefox ? t('extension.firefoxKeys') : t('extension.chromeKeys');

// A server that offers the extension for download writes its address here.
const from = await (await fetch('server.json')).json();
at('server').value ||= from.url;
await show();
at('server').dispatchEvent(new Event('input'));
