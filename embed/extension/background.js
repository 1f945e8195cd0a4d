// The part that runs without a page: menus, keys, and the saving itself, so that closing the pop-up ends no upload.
import { ext } from './browser.js';
import { connection, settings } from './client.js';
import { copy, isWeb, kinds, selectionOf } from './save.js';

const media = ['image', 'video', 'audio'];
const entries = [
  ['page:bookmark', 'Page as a bookmark', ['page']],
  ['page:link', 'Page as a short link', ['page']],
  ['page:file', 'Page as a file', ['page']],
  ['page:screenshot', 'Screenshot of what is visible', ['page', 'image']],
  ['selection:note', 'Selected text as a note', ['selection']],
  ['link:bookmark', 'Link as a bookmark', ['link']],
  ['link:link', 'Link as a short link', ['link']],
  ['link:file', 'What the link leads to, as a file', ['link']],
  ['media:file', 'Picture or recording as a file', media],
  ['media:bookmark', 'Its address as a bookmark', media],
  ['media:link', 'Its address as a short link', media],
];

ext.runtime.onInstalled.addListener(async ({ reason }) => {
  await ext.contextMenus.removeAll();
  for (const [id, title, contexts] of entries) ext.contextMenus.create({ id, title, contexts });
  if (reason === 'install' && !await connection()) ext.runtime.openOptionsPage();
});

ext.contextMenus.onClicked.addListener((info, tab) => {
  const [what, kind] = info.menuItemId.split(':');
  const address = { page: info.frameUrl ?? info.pageUrl ?? tab?.url, selection: info.pageUrl ?? tab?.url, link: info.linkUrl, media: info.srcUrl }[what];
  const title = what === 'page' || what === 'selection' ? tab?.title : what === 'link' ? info.linkText ?? info.selectionText : '';
  quickly(kind, { url: address, title, tab, frame: info.frameId ?? 0, fallback: info.selectionText });
});

ext.commands.onCommand.addListener(async (command, given) => {
  const kind = { 'save-page': 'bookmark', 'save-selection': 'note', 'save-screenshot': 'screenshot' }[command];
  if (!kind) return;
  const tab = given ?? (await ext.tabs.query({ active: true, lastFocusedWindow: true }))[0];
  quickly(kind, { url: tab?.url, title: tab?.title, tab, frame: 0 });
});

/** quickly saves without asking anything, and tells what came of it. */
async function quickly(kind, f) {
  const chosen = await settings();
  try {
    await mark('…');
    if (kind === 'note') f.text = await selectionOf(f.tab, f.frame) || f.fallback;
    const saved = await kinds[kind]({ ...f, isPublic: chosen.isPublic });
    await mark(saved.later ? '' : '✓');
    const told = chosen.copy && saved.address && await copy(saved.address, f.tab) ? `${saved.text} The link is copied.` : saved.text;
    if (chosen.notify) await tell(told, saved.address || saved.see);
  } catch (e) {
    await failed(e);
    await tell(e.message, e.connect ? ext.runtime.getURL('options.html') : '');
  }
}

const colours = { '✓': '#0f6b5c', '!': '#a1400c', '…': '#62666f' };
let clear;

/** mark shows a sign on the button, or none; a failure stays until the pop-up was opened. */
async function mark(sign) {
  clearTimeout(clear);
  await ext.action.setBadgeBackgroundColor({ color: colours[sign] ?? colours['…'] });
  await ext.action.setBadgeTextColor({ color: '#ffffff' });
  await ext.action.setBadgeText({ text: sign });
  if (sign === '✓') clear = setTimeout(() => ext.action.setBadgeText({ text: '' }), 4000);
}

async function failed(e) {
  await mark('!');
  await ext.storage.session.set({ problem: e.message });
}

/** tell shows a notification; a click on it opens the address. */
async function tell(message, address) {
  const id = await ext.notifications.create({ type: 'basic', iconUrl: ext.runtime.getURL('icons/128.png'), title: 'kist', message });
  if (address) await ext.storage.session.set({ [`at:${id}`]: address });
}

ext.notifications.onClicked.addListener(async (id) => {
  const { [`at:${id}`]: address } = await ext.storage.session.get(`at:${id}`);
  if (isWeb(address) || address?.startsWith(ext.runtime.getURL(''))) await ext.tabs.create({ url: address });
  await ext.notifications.clear(id);
});

ext.notifications.onClosed.addListener((id) => ext.storage.session.remove(`at:${id}`));

// The pop-up has things saved here. It is answered {saved}, or {problem, connect}.
ext.runtime.onMessage.addListener((message, sender, answer) => {
  if (sender.id !== ext.runtime.id || !Object.hasOwn(kinds, message.save ?? '')) return false;
  (async () => {
    try {
      await mark('…');
      const saved = await kinds[message.save](message.fields);
      await mark(saved.later ? '' : '✓');
      answer({ saved });
    } catch (e) {
      await failed(e);
      answer({ problem: e.message, connect: !!e.connect });
    }
  })();
  return true;
});
