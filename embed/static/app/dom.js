// Elements, formats, actions of buttons, and short messages. It owns the actions by name and the box of messages, and
// uses nothing of view. Every module of the app calls it. No text is ever read as HTML.
import { lang, lazily, locale, t } from './text.js';

export { bytes, fill, known, locale, number, problemText, remarkText, seconds, t, tn } from './text.js';

// ---- Elements ----

export const find = (selector, root = document) => root.querySelector(selector);
export const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// h makes an element: h('a.name', {href}, 'text', node). It leaves out children that are null, undefined or false.
export function h(what, props, ...children) {
  const [name, ...classes] = what.split('.');
  const el = document.createElement(name || 'div');
  if (classes.length) el.className = classes.join(' ');
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === 'value' || key === 'checked' || key === 'indeterminate') el[key] = value;
    else if (key === 'act') el.dataset.act = value;
    else el.setAttribute(key, value === true ? '' : value);
  }
  add(el, children);
  return el;
}

// add appends children to an element as h does.
export function add(el, ...children) {
  el.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return el;
}

// icon draws a symbol that the page defines. That of a download is the symbol of an upload, upside down.
export function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('class', { more: 'i dots', download: 'i down' }[name] ?? 'i');
  svg.setAttribute('aria-hidden', 'true');
  const use = document.createElementNS('http://www.w3.org/2000/svg', 'use');
  use.setAttribute('href', '#i-' + (name === 'download' ? 'upload' : name));
  svg.append(use);
  return svg;
}

// button makes a button that runs the action of a name when it is pressed (see addActions).
export const button = (act, label, props, ...inside) =>
  h('button', { type: 'button', act, ...props }, ...(inside.length ? inside : [label]));
export const iconButton = (act, name, label, props) =>
  button(act, label, { class: 'quiet square', 'aria-label': label, title: label, ...props }, icon(name));

// painted waits until the browser has drawn the page, which it does not while the tab is in the background.
export const painted = () => new Promise((done) => {
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)));
  setTimeout(done, 100);
});

// handledEvents waits until the browser has handled the events that wait for it.
export const handledEvents = () => new Promise((done) => { setTimeout(done); });

// picture is an image that is asked for once the page around it is drawn.
export function picture(what, src, props, srcset = '') {
  const img = h(what, { alt: '', loading: 'lazy', decoding: 'async', ...props });
  painted().then(() => { Object.assign(img, srcset ? { srcset, src } : { src }); });
  return img;
}

let lastID = 0;
export const newID = () => 'e' + ++lastID;

// marked is a text with search matches marked. Ranges count UTF-16 code units, as JavaScript does.
export function marked(text, ranges) {
  const out = [];
  let at = 0;
  for (const [from, to] of ranges) {
    out.push(text.slice(at, from), h('mark', {}, text.slice(from, to)));
    at = to;
  }
  return [...out, text.slice(at)].filter((part) => part !== '');
}

// emptyState replaces a list that has no items.
export function emptyState(title, text, ...more) {
  return h('div.none', {}, h('p', {}, h('b', {}, title)), text && h('p.soft', {}, text), more);
}

// meter is a progress bar; part is between 0 and 1.
export function meter(part) {
  const percent = Math.min(100, part * 100);
  const el = h('div.bar', { role: 'img', 'aria-label': t('common.percent', { n: Math.round(percent) }) }, h('i'));
  el.firstChild.style.width = percent + '%';
  return el;
}

// itemOf is the list row that contains an element.
export const itemOf = (el) => el.closest('.item');

// currentRow is the row that has the focus.
export const currentRow = () => document.activeElement?.closest?.('#main .item');

// moveFocus moves the focus by a number of rows.
export function moveFocus(by) {
  const rows = all('#main .item');
  if (!rows.length) return;
  const at = rows.indexOf(currentRow());
  const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, at + by));
  const row = rows[next];
  (find('a.name', row) ?? find('a, button, input', row))?.focus();
  row.scrollIntoView({ block: 'nearest' });
}

// moveFocusVertically moves the focus to the nearest item of the next or the previous line of a grid.
export function moveFocusVertically(by) {
  const now = currentRow()?.getBoundingClientRect();
  if (!now) return moveFocus(by);
  let best = null, least = Infinity;
  for (const row of all('#main .item')) {
    const box = row.getBoundingClientRect(), lines = (box.top - now.top) * by;
    if (lines < 1) continue;
    const distance = lines * 10 + Math.abs(box.left + box.width / 2 - now.left - now.width / 2);
    if (distance < least) [best, least] = [row, distance];
  }
  find('a.name', best ?? document.createElement('i'))?.focus();
  best?.scrollIntoView({ block: 'nearest' });
  return null;
}

// hasPointer is false on touch screens, where focusing a field opens the keyboard.
export const hasPointer = () => matchMedia('(pointer: fine)').matches;

// Where the style sheet can, it lets a text area grow with its text.
const growsAlone = CSS.supports('field-sizing', 'content');
export function grow(area) {
  if (growsAlone) return;
  area.style.height = 'auto';
  area.style.height = area.scrollHeight + 2 + 'px';
}

// ---- Numbers, sizes, times and addresses as people read and write them ----

// lower makes the first letter small where nouns are written so: in English.
export const lower = (word) => lang === 'en' ? word[0].toLowerCase() + word.slice(1) : word;
export const capitalize = (word) => word[0].toUpperCase() + word.slice(1);
export const shorten = (text) => text.length > 48 ? text.slice(0, 46) + '…' : text;

const relative = lazily(() => new Intl.RelativeTimeFormat(locale, { numeric: 'auto', style: 'short' }));

export function ago(time) {
  const s = (new Date(time) - Date.now()) / 1000;
  const size = Math.abs(s);
  if (size < 45) return s > 0 ? t('format.soon') : t('format.now');
  if (size < 3600) return relative().format(Math.round(s / 60), 'minute');
  if (size < 86400) return relative().format(Math.round(s / 3600), 'hour');
  if (size < 7 * 86400) return relative().format(Math.round(s / 86400), 'day');
  return day(time);
}

// day writes a date, with the year unless it is this one.
export function day(time) {
  const d = new Date(time);
  const year = d.getFullYear() === new Date().getFullYear() ? undefined : 'numeric';
  return d.toLocaleDateString(locale, { day: 'numeric', month: 'short', year });
}

// dayName is a heading for what happened on a day: a recent day, or the month of an older one.
export function dayName(time) {
  const d = new Date(time), midnight = new Date().setHours(0, 0, 0, 0), days = Math.ceil((midnight - d) / 864e5);
  if (days <= 1) {
    const named = new Intl.RelativeTimeFormat(locale, { numeric: 'auto' });
    return capitalize(named.format(-Math.max(0, days), 'day'));
  }
  if (days < 7) return d.toLocaleDateString(locale, { weekday: 'long', day: 'numeric', month: 'long' });
  return d.toLocaleDateString(locale, { month: 'long', year: 'numeric' });
}

// exactly is what the title of a rounded time says. when is the rounded time with that title.
export const exactly = (time) => new Date(time).toLocaleString(locale, { dateStyle: 'medium', timeStyle: 'short' });
export const when = (time) => h('time', { datetime: time, title: exactly(time) }, ago(time));

// localDateTime formats a time for a datetime-local field.
export function localDateTime(time) {
  const d = new Date(time);
  return new Date(d - d.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

export function hostOf(address) {
  try { return new URL(address).host.replace(/^www\./, ''); } catch { return address; }
}

export const isAddress = (text) => /^https?:\/\/[^\s/]+\S*$/i.test(text.trim());

// copyText puts text on the clipboard and reports whether it could.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { /* not allowed, or the page came over plain HTTP: copy a selection instead */ }
  const area = h('textarea.hide', { value: text, 'aria-hidden': 'true', tabindex: '-1' });
  const focused = document.activeElement;
  (find('dialog[open]') ?? document.body).append(area);
  area.select();
  let ok = false;
  try { ok = document.execCommand('copy'); } catch { /* ok stays false */ }
  area.remove();
  focused?.focus?.();
  return ok;
}

// ---- Actions ----

// An element with data-act="NAME" runs the action of that name when it is clicked.
const actions = {};

// addActions registers actions by name. Each is called with the element and the event.
export const addActions = (more) => { Object.assign(actions, more); };

// runAction runs an action without a click. It returns false if no action has that name.
export function runAction(name) {
  if (!actions[name]) return false;
  actions[name]();
  return true;
}

document.addEventListener('click', (e) => {
  for (const menu of all('details.menu[open]')) {
    if (!menu.contains(e.target) || e.target.closest('.pop')) menu.open = false;
  }
  const el = e.target.closest('[data-act]');
  if (!el || !actions[el.dataset.act] || el.matches('input[type=color]')) return;
  if (!el.matches('input')) e.preventDefault();
  actions[el.dataset.act](el, e);
});

// ---- Messages ----

// toast shows a message. It disappears after some time, unless it reports an error or the user is pointing at it.
// The button labelled action calls run. done is called when the message is gone; its argument says whether the button
// was pressed.
export function toast(text, { action = '', run = null, bad = false, time = 5000, done = null } = {}) {
  const el = h('div.toast', { role: bad ? 'alert' : null, class: bad ? 'toast bad' : 'toast' }, h('p', {}, text),
    action && button('toast-run', action), iconButton('toast-close', 'close', t('common.dismiss')));

  // The time stops while the user points at the message.
  let left = time, since = 0, timer = 0;
  const pause = () => {
    clearTimeout(timer);
    if (since) left -= performance.now() - since;
    since = 0;
  };
  const resume = () => {
    pause();
    if (bad) return;
    since = performance.now();
    timer = setTimeout(() => el.end(), Math.max(left, 800));
  };
  for (const event of ['pointermove', 'focusin']) el.addEventListener(event, pause);
  for (const event of ['pointerleave', 'focusout']) el.addEventListener(event, resume);
  el.end = (pressed = false) => {
    if (!el.isConnected) return;
    pause();
    el.remove();
    if (pressed) run?.();
    done?.(pressed);
  };

  const box = find('#toasts');
  // What is outside of a modal dialog cannot be pressed.
  const host = all('dialog:modal').at(-1) ?? document.body;
  if (box.parentNode !== host) host.append(box);
  box.append(el);
  while (box.children.length > 4) box.firstElementChild.end();
  // An open dialog covers the page, so the messages are raised above it.
  if (box.showPopover) {
    box.popover = 'manual';
    if (box.matches(':popover-open')) box.hidePopover();
    box.showPopover();
  }
  resume();
  return el;
}

addActions({
  'toast-close': (el) => el.closest('.toast').end(),
  'toast-run': (el) => el.closest('.toast').end(true),
});
