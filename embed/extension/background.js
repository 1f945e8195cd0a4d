// The part that runs without a page: menus, shortcuts and the saving itself. Closing the pop-up does not stop an
// upload.
import { ext } from './browser.js';
import { connection, settings } from './client.js';
import { copyLink, isWeb, kinds, selectionOf } from './save.js';
import { t } from './text.js';

// Scripts that run in web pages must not be able to read the key.
ext.storage.local.setAccessLevel?.({ accessLevel: 'TRUSTED_CONTEXTS' });

const media = ['image', 'video', 'audio'];
const entries = [
  ['page:bookmark', t('extension.pageBookmark'), ['page']],
  ['page:link', t('extension.pageLink'), ['page']],
  ['page:file', t('extension.pageFile'), ['page']],
  ['page:screenshot', t('extension.shot'), ['page', 'image']],
  ['selection:note', t('extension.selectionNote'), ['selection']],
  ['link:bookmark', t('extension.linkBookmark'), ['link']],
  ['link:link', t('extension.linkLink'), ['link']],
  ['link:file', t('extension.linkFile'), ['link']],
  ['media:file', t('extension.mediaFile'), media],
  ['media:bookmark', t('extension.mediaBookmark'), media],
  ['media:link', t('extension.mediaLink'), media],
];

ext.runtime.onInstalled.addListener(async ({ reason }) => {
  await ext.contextMenus.removeAll();
  for (const [id, title, contexts] of entries) ext.contextMenus.create({ id, title, contexts });
  if (reason === 'install' && !await connection()) ext.runtime.openOptionsPage();
});

/** clickedOn is what a menu was opened on: its address and its title. */
function clickedOn(what, info, tab) {
  switch (what) {
    case 'link': return { url: info.linkUrl, title: info.linkText ?? info.selectionText };
    case 'media': return { url: info.srcUrl, title: '' };
    default: return { url: info.pageUrl ?? tab?.url, title: tab?.title };
  }
}

ext.contextMenus.onClicked.addListener((info, tab) => {
  const [what, kind] = info.menuItemId.split(':');
  quickly(kind, { ...clickedOn(what, info, tab), tab, frame: info.frameId ?? 0, fallback: info.selectionText });
});

ext.commands.onCommand.addListener(async (command, given) => {
  const kind = { 'save-page': 'bookmark', 'save-selection': 'note', 'save-screenshot': 'screenshot' }[command];
  if (!kind) return;
  const tab = given ?? (await ext.tabs.query({ active: true, lastFocusedWindow: true }))[0];
  quickly(kind, { url: tab?.url, title: tab?.title, tab, frame: 0 });
});

/** quickly saves without asking anything and reports the result. */
async function quickly(kind, f) {
  const chosen = await settings();
  try {
    const saved = await work(async () => {
      if (kind === 'note') f.text = await selectionOf(f.tab, f.frame) || f.fallback;
      return kinds[kind]({ ...f, isPublic: chosen.isPublic });
    });
    const said = chosen.copy && await copyLink(saved, f.tab);
    if (chosen.notify) await tell(said ? `${saved.text} ${said}` : saved.text, saved.address || saved.see);
  } catch (e) {
    await tell(e.message, e.connect ? own + 'options.html' : '');
  }
}

const own = ext.runtime.getURL('');
const colours = { '✓': '#0f6b5c', '!': '#a1400c' };
let clear;

/** badge shows a sign on the button; '' removes it. */
async function badge(sign) {
  clearTimeout(clear);
  await ext.action.setBadgeBackgroundColor({ color: colours[sign] ?? '#62666f' });
  await ext.action.setBadgeTextColor({ color: '#ffffff' });
  await ext.action.setBadgeText({ text: sign });
  if (sign === '✓') clear = setTimeout(() => ext.action.setBadgeText({ text: '' }), 4000);
}

/** failed keeps the problem for the pop-up, and marks the button until the user opens the pop-up. */
async function failed(problem) {
  await ext.storage.session.set({ problem });
  await badge('!');
}

let savings = 0; // in progress

// If the browser stopped this script during a save, say so when it runs again.
const recovered = ext.storage.session.get('saving').then(async ({ saving }) => {
  if (!saving) return;
  await ext.storage.session.remove('saving');
  await failed(t('extension.interrupted'));
});

// Browsers stop this script 30 seconds after the last event or extension API call, even if it is waiting for an answer.
// storage.session.set is such a call, and onChanged is such an event.
const alive = () => ext.storage.session.set({ saving: Date.now() });
ext.storage.onChanged.addListener(() => {});

/** work runs a save and shows its state on the button. */
async function work(save) {
  await recovered;
  savings++;
  const timer = setInterval(alive, 20_000);
  try {
    await alive();
    await badge('…');
    const saved = await save();
    await over(saved.later ? '' : '✓');
    return saved;
  } catch (e) {
    await ext.storage.session.set({ problem: e.message });
    await over('!');
    throw e;
  } finally {
    clearInterval(timer);
  }
}

/** over shows how a save ended, unless an earlier failure is still unseen or another save is in progress. */
async function over(sign) {
  savings--;
  if (!savings) await ext.storage.session.remove('saving');
  const { problem } = await ext.storage.session.get('problem');
  await badge(problem ? '!' : savings ? '…' : sign);
}

/** tell shows a notification. A click on it opens the address. */
async function tell(message, address) {
  const id = await ext.notifications.create({ type: 'basic', iconUrl: own + 'icons/128.png', title: 'kist', message });
  if (address) await ext.storage.session.set({ [`at:${id}`]: address });
}

ext.notifications.onClicked.addListener(async (id) => {
  const { [`at:${id}`]: address } = await ext.storage.session.get(`at:${id}`);
  if (isWeb(address) || address?.startsWith(own)) await ext.tabs.create({ url: address });
  await ext.notifications.clear(id);
});

ext.notifications.onClosed.addListener((id) => ext.storage.session.remove(`at:${id}`));

// The pop-up asks this script to save. The answer is {saved} or {problem, connect, record}. Messages from web pages are
// ignored.
ext.runtime.onMessage.addListener((message, sender, answer) => {
  if (sender.id !== ext.runtime.id || !sender.url?.startsWith(own)) return false;
  if (!Object.hasOwn(kinds, message?.save ?? '')) return false;
  const failure = (e) => ({ problem: e.message, connect: !!e.connect, record: e.record });
  work(() => kinds[message.save](message.fields))
    .then((saved) => answer({ saved }), (e) => answer(failure(e)));
  return true;
});
