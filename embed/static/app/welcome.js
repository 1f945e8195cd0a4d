// What an empty home page suggests, and what an administrator should set up. It owns the cards that say so. Of view it
// uses box. The home page calls welcome, setupCard and setupLeft.
import { addActions, button, h, icon, t } from './dom.js';
import { api, base, me, start, storage, view } from './session.js';

const isLocal = (url) => /^(localhost|127\..*|\[::1\])$/.test(new URL(url).hostname);

// phoneAddress is an address of this server that a phone can open, or "".
const phoneAddress = () => [start.url, location.origin + base].find((url) => !isLocal(url)) ?? '';

function phoneCard() {
  const address = phoneAddress(), code = `${base}/api/v1/qr?text=${encodeURIComponent(address)}`;
  return h('div.card', {},
    h('h2', {}, t('welcome.phone')),
    h('p.soft', {}, t(address ? 'welcome.phoneHint' : 'welcome.phoneLocal')),
    address
      ? h('img.qr', { src: code, alt: t('common.qrOf', { address }), width: '160', height: '160' })
      : h('div.row', {}, h('a.button', { href: `${base}/help/proxy-and-tls` }, t('welcome.phoneHow'))));
}

// setupSteps reads what an administrator should do: the text of each step, where it is done, and whether it is.
async function setupSteps() {
  const [health, users] = await Promise.all([api('GET', 'admin/health'), api('GET', 'admin/users?limit=1')]);
  return [
    [t('welcome.https'), '/help/proxy-and-tls', location.protocol === 'https:'],
    [t('welcome.backup'), '/admin', health.data.lastBackupAt],
    [t('welcome.user'), '/admin', users.total > 1],
  ];
}

const leftOf = (steps) => steps.filter(([, , done]) => !done).length;

// setupLeft is how many steps are left. The browser keeps the number for the next visit of the home page.
export const setupLeft = async () => leftOf(await setupSteps());

function setupStep([text, at, done]) {
  const label = t(done ? 'welcome.done' : 'welcome.open');
  return h(done ? 'li.ok' : 'li.todo', {},
    h('b', { role: 'img', 'aria-label': label, title: label }, done && icon('check')),
    h('span', {}, done ? text : h('a', { href: base + at }, text)));
}

// setupCard lists the steps, with what is done ticked off.
export async function setupCard() {
  const steps = await setupSteps();
  storage.set('setup', leftOf(steps));
  return h('div.card', { id: 'setup' },
    h('h2', {}, t('welcome.setup')),
    h('ul.checks', {}, steps.map(setupStep)));
}

// welcome is shown on a home page without items.
export function welcome() {
  const card = (title, hint, action) => h('div.card', {},
    h('h2', {}, title), h('p.soft', {}, hint), h('div.row', {}, action));
  const getExtension = h('a.button', { href: `${base}/help/browser-extension` }, t('welcome.extensionGet'));
  const cards = h('div.cards.welcome', {},
    card(t('welcome.file'), t('welcome.fileHint'), button('choose-first', t('add.choose'))),
    card(t('welcome.extension'), t('welcome.extensionHint'), getExtension),
    phoneCard());
  // The cards are of use without the list.
  if (me.role === 'admin') setupCard().then((setup) => cards.append(setup), () => {});
  return cards;
}

addActions({ 'choose-first': () => view.box.picker.click() });
