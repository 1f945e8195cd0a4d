// The owner's app: one page, shown out of the data that came with it and of the API. No text is ever read as HTML.
'use strict';
(() => {

// ---- What came with the page ----

const start = JSON.parse(document.getElementById('start').textContent);
const { base } = start;
let me = start.answers.me?.data ?? { id: '', username: '', role: 'user', counts: {} };
let tags = start.answers.tags ?? [];
let folders = start.answers.folders?.data ?? [];

// An answer that came along counts for the first page alone.
function take(name) {
  const answer = start.answers[name];
  delete start.answers[name];
  return answer ?? null;
}

const main = document.getElementById('main');
const find = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// ---- Making elements ----

// h makes an element: h('a.name', {href}, 'text', node). Children that are null are left out.
function h(what, props, ...children) {
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

function add(el, ...children) {
  el.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return el;
}

function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('class', name === 'more' ? 'i dots' : 'i');
  svg.setAttribute('aria-hidden', 'true');
  const use = document.createElementNS('http://www.w3.org/2000/svg', 'use');
  use.setAttribute('href', '#i-' + name);
  svg.append(use);
  return svg;
}

const button = (act, label, props, ...inside) => h('button', { type: 'button', act, ...props }, ...(inside.length ? inside : [label]));
const iconButton = (act, name, label, props) => button(act, label, { class: 'quiet square', 'aria-label': label, title: label, ...props }, icon(name));

let serial = 0;
const newID = () => 'e' + ++serial;

// ---- Words and numbers ----

const plural = (n, one, many = one + 's') => `${number(n)}\u00a0${n === 1 ? one : many}`;
const number = (n) => new Intl.NumberFormat().format(n);

function bytes(n) {
  if (n < 1000) return plural(n, 'byte');
  let unit = -1;
  do { n /= 1000; unit++; } while (n >= 999.5 && unit < 4);
  return `${n < 99.95 ? n.toFixed(1).replace(/\.0$/, '') : Math.round(n)}\u00a0${['kB', 'MB', 'GB', 'TB', 'PB'][unit]}`;
}

// size reads what a person writes for a number of bytes; NaN if it is not a size, null if it is empty.
function size(text) {
  if (!text.trim()) return null;
  const m = /^\s*([\d.,]+)\s*([kmgtp]?)(i?)b?(?:ytes?)?\s*$/i.exec(text);
  if (!m) return NaN;
  return Math.round(Number(m[1].replace(',', '.')) * (m[3] ? 1024 : 1000) ** ' kmgtp'.indexOf(m[2].toLowerCase() || ' '));
}

function seconds(s) {
  if (s < 60) return `${Math.max(1, Math.round(s))} s`;
  if (s < 3600) return `${Math.round(s / 60)} min`;
  return `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`;
}

const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto', style: 'short' });

function ago(time) {
  const s = (Date.parse(time) - Date.now()) / 1000;
  const size = Math.abs(s);
  if (size < 45) return s > 0 ? 'in a moment' : 'just now';
  if (size < 3600) return relative.format(Math.round(s / 60), 'minute');
  if (size < 86400) return relative.format(Math.round(s / 3600), 'hour');
  if (size < 7 * 86400) return relative.format(Math.round(s / 86400), 'day');
  return day(time);
}

function day(time) {
  const d = new Date(time);
  const year = d.getFullYear() === new Date().getFullYear() ? undefined : 'numeric';
  return d.toLocaleDateString(undefined, { day: 'numeric', month: 'short', year });
}

const when = (time) => h('time', { datetime: time, title: new Date(time).toLocaleString() }, ago(time));

function hostOf(address) {
  try { return new URL(address).host.replace(/^www\./, ''); } catch { return address; }
}

const isAddress = (text) => /^https?:\/\/[^\s/]+\S*$/i.test(text.trim());

// here is an address of this server as the page reached it, which may be another way than the configured one.
const here = (address) => address.startsWith(start.url) ? base + address.slice(start.url.length) : address;

// ---- What is remembered on this device ----

const memory = {
  get(key, otherwise = null) {
    try { return JSON.parse(localStorage.getItem('kist.' + key)) ?? otherwise; } catch { return otherwise; }
  },
  set(key, value) {
    try {
      if (value === null) localStorage.removeItem('kist.' + key);
      else localStorage.setItem('kist.' + key, JSON.stringify(value));
    } catch { /* full or forbidden: it is a convenience */ }
  },
};
const draftKey = (name) => `draft.${me.id}.${name}`;

// ---- The API ----

// A Problem says what happened and what to do. Fields has what is wrong with each.
class Problem extends Error {
  constructor(text, status = 0, fields = null) {
    super(text);
    this.status = status;
    this.fields = fields;
  }
}

function problemOf(status, data) {
  if (status === 0) return new Problem('The server cannot be reached. Look at the connection and try again; what you typed is still here.');
  if (status === 401) {
    signedOut();
    return new Problem('You are signed out. Sign in again; what you typed is still here.', status);
  }
  const text = data?.error ?? `The server answered with status ${status}. Try again in a moment.`;
  return new Problem(status === 500 && data?.requestId ? `${text} (${data.requestId})` : text, status, data?.fields);
}

async function api(method, path, body, options) {
  let answer;
  try {
    answer = await fetch(`${base}/api/v1/${path}`, {
      method, ...options,
      ...(body === undefined ? {} : body instanceof FormData ? { body } : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    });
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    throw problemOf(0);
  }
  const data = await answer.json().catch(() => null);
  if (!answer.ok) throw problemOf(answer.status, data);
  return data;
}

let toldSignedOut = false;
function signedOut() {
  if (toldSignedOut) return;
  toldSignedOut = true;
  toast('You are signed out.', {
    bad: true, action: 'Sign in', done: () => { toldSignedOut = false; },
    run: () => { location.href = `${base}/login?next=${encodeURIComponent(location.pathname.slice(base.length) + location.search)}`; },
  });
}

const failed = (e) => { if (e.name !== 'AbortError') toast(e.message, { bad: true }); };

async function readTags() {
  tags = await api('GET', 'tags');
  for (const list of all('datalist#tag-names')) list.replaceChildren(...tags.map((t) => h('option', { value: t.name })));
}

async function readFolders() { folders = (await api('GET', 'folders?limit=500&sort=title')).data; }

// What is fresh is told where something has changed; when it cannot be had, what is known goes on.
const freshTags = () => readTags().catch(() => {});
const freshFolders = () => readFolders().catch(() => {});

// late is what is too much to come with every page. It is asked for when the page is there, and again after a failure.
const missing = [!start.answers.tags && readTags, !start.answers.folders && readFolders].filter(Boolean);
let asked = null;
const late = () => asked ??= Promise.all(missing.map((read) => read())).catch((e) => { asked = null; throw e; });

const folderOf = (params) => folders.find((f) => f.id === params.get('folder') || f.name === params.get('folder'));

// folderFields puts a file into the folder of an address, which may be unknown yet.
function folderFields(params) {
  const asks = params.get('folder'), folder = folderOf(params);
  if (folder) return { folderId: folder.id };
  if (!asks || asks === 'unfiled') return {};
  return /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/.test(asks) ? { folderId: asks } : { folderName: asks };
}

// ---- Messages, with a way back ----

// toast shows a message, which goes after a while unless it is a bad one or someone is at it.
function toast(text, { action = '', run = null, bad = false, time = 5000, done = null } = {}) {
  const el = h('div.toast', { role: bad ? 'alert' : null, class: bad ? 'toast bad' : 'toast' }, h('p', {}, text),
    action && button('toast-run', action), iconButton('toast-close', 'close', 'Dismiss'));
  let left = time, since = 0, timer = 0;
  const pause = () => { clearTimeout(timer); if (since) left -= performance.now() - since; since = 0; };
  const go = () => { pause(); if (bad) return; since = performance.now(); timer = setTimeout(() => el.end(), Math.max(left, 800)); };
  el.end = (chosen = false) => {
    if (!el.isConnected) return;
    pause();
    el.remove();
    if (chosen) run?.();
    done?.(chosen);
  };
  for (const [event, what] of [['pointermove', pause], ['pointerleave', go], ['focusin', pause], ['focusout', go]]) el.addEventListener(event, what);
  const box = find('#toasts');
  box.append(el);
  while (box.children.length > 4) box.firstElementChild.end();
  // An open dialog is above everything else, so the messages go up with it.
  if (box.showPopover) {
    box.popover = 'manual';
    if (box.matches(':popover-open')) box.hidePopover();
    box.showPopover();
  }
  go();
  return el;
}

// waiting holds what is to be deleted when nobody takes it back.
const waiting = new Set();

// later does something in five seconds unless it is undone. Paths are what leaving the page deletes at once.
function later(text, paths, undo) {
  const one = { paths };
  waiting.add(one);
  toast(text, {
    action: 'Undo', time: 5000,
    done: async (chosen) => {
      if (!waiting.delete(one)) return;
      if (chosen) return undo();
      const results = await Promise.allSettled(paths.map((p) => api('DELETE', p)));
      const bad = results.find((r) => r.status === 'rejected' && r.reason.status !== 404);
      if (bad) { undo(); failed(bad.reason); }
      freshTags();
    },
  });
}

addEventListener('pagehide', () => {
  for (const one of waiting) {
    for (const path of one.paths) fetch(`${base}/api/v1/${path}`, { method: 'DELETE', keepalive: true }).catch(() => {});
  }
  waiting.clear();
});

// copy puts text on the clipboard. Over plain http there is no clipboard for scripts but the old way.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { /* the old way, then */ }
  const area = h('textarea.hide', { value: text, 'aria-hidden': 'true', tabindex: '-1' });
  const at = document.activeElement;
  (find('dialog[open]') ?? document.body).append(area);
  area.select();
  let ok = false;
  try { ok = document.execCommand('copy'); } catch { /* ok stays false */ }
  area.remove();
  at?.focus?.();
  return ok;
}

async function copyAddress(address) {
  if (await copy(address)) toast('Link copied.');
  else ask({ title: 'Copy the link', text: 'This browser does not let the page copy. Select the address and copy it.', fields: [{ name: 'at', label: 'Address', readonly: true }], values: { at: address }, button: '' });
}

// ---- Kinds: everything that is particular to one is in its row ----

const statuses = { wishlist: 'Wishlist', backlog: 'Backlog', playing: 'Playing', finished: 'Finished', dropped: 'Dropped' };
const classes = { image: 'Pictures', video: 'Videos', audio: 'Audio', text: 'Text', pdf: 'PDF', other: 'Other' };
const languages = ['bash', 'c', 'cpp', 'csharp', 'css', 'diff', 'docker', 'go', 'html', 'ini', 'java', 'javascript', 'json', 'kotlin', 'lua', 'make', 'markdown', 'nginx', 'php', 'powershell', 'python', 'ruby', 'rust', 'sql', 'swift', 'toml', 'typescript', 'xml', 'yaml'];
const excerpt = (text) => (text ?? '').replace(/^[#>\s*-]+/gm, '').replace(/\*\*|__|\x60/g, '').replace(/\s+/g, ' ').trim().slice(0, 140);
const firstLine = (text) => (text ?? '').split('\n').find((l) => l.trim())?.trim().slice(0, 120) ?? '';

const kinds = {
  file: {
    api: 'files', at: 'files', one: 'file', many: 'Files', title: (r) => r.originalName,
    fields: [
      { name: 'originalName', label: 'Name', required: true },
      { name: 'folderName', label: 'Folder', type: 'folder' },
      { name: 'description', label: 'Description', type: 'text' },
    ],
    meta: (r) => [bytes(r.size), r.folder && h('span', {}, icon('folder'), ' ', r.folder.name)],
    pic: (r) => (/\.([a-z0-9]{1,4})$/i.exec(r.originalName)?.[1] ?? '').toUpperCase(),
    none: 'Drop a file here, paste a picture, or choose some. They stay private until you share them.',
  },
  bookmark: {
    api: 'bookmarks', at: 'bookmarks', one: 'bookmark', many: 'Bookmarks', title: (r) => r.title || r.url,
    fields: [
      { name: 'url', label: 'Address', type: 'url', required: true },
      { name: 'title', label: 'Title' },
      { name: 'description', label: 'Description', type: 'text' },
    ],
    quick: 'url', prompt: 'Paste an address to keep',
    href: (r) => r.url,
    pic: (r) => hostOf(r.url)[0].toUpperCase(),
    meta: (r) => [r.reachable === 'no' && h('span.badge.warn', { title: `The page could not be reached since ${new Date(r.unreachableSince).toLocaleDateString()}` }, 'unreachable'), h('span.cutoff', {}, hostOf(r.url)), r.description && h('span.cutoff', {}, excerpt(r.description))],
    none: 'Paste the address of a page above, or use the browser extension. It gets its title on its own.',
  },
  note: {
    api: 'notes', at: 'notes', one: 'note', many: 'Notes', title: (r) => r.title || firstLine(r.content).replace(/^#+\s*/, '') || 'Untitled note',
    fields: [
      { name: 'title', label: 'Title' },
      { name: 'content', label: 'Text', type: 'text', tall: true, keep: true, hint: 'Markdown: # heading, **bold**, - list, [link](address).' },
      { name: 'sourceUrl', label: 'Source' },
    ],
    quick: 'content', prompt: 'Write a note …',
    meta: (r) => [r.title && r.content && h('span.cutoff', {}, excerpt(r.content))],
    none: 'Write one above. Notes are Markdown; the first line stands in for a title.',
  },
  snippet: {
    api: 'snippets', at: 'snippets', one: 'snippet', many: 'Snippets', title: (r) => r.title || firstLine(r.content) || 'Untitled snippet',
    fields: [
      { name: 'title', label: 'Title' },
      { name: 'language', label: 'Language', list: languages },
      { name: 'content', label: 'Code', type: 'text', tall: true, keep: true, mono: true },
    ],
    quick: 'content', prompt: 'Paste some code or a command', mono: true,
    pic: (r) => (r.language ?? '').slice(0, 4).toUpperCase(),
    meta: (r) => [r.title && r.content && h('code.cutoff', {}, firstLine(r.content))],
    none: 'Paste a command or a piece of code above, to have it at hand on every device.',
  },
  recipe: {
    api: 'recipes', at: 'recipes', one: 'recipe', many: 'Recipes', title: (r) => r.title,
    fields: [
      { name: 'title', label: 'Dish', required: true },
      { name: 'description', label: 'Description', type: 'text' },
      { name: 'ingredients', label: 'Ingredients', type: 'text', hint: 'One on each line, as a list: - 2 eggs' },
      { name: 'instructions', label: 'Instructions', type: 'text', tall: true, hint: 'One step on each line: 1. Whisk' },
    ],
    quick: 'title', prompt: 'Name of a dish', full: true,
    meta: (r) => [h('span.cutoff', {}, excerpt(r.description || r.ingredients))],
    none: 'Write down the first dish: type its name above and go on to the ingredients.',
  },
  game: {
    api: 'games', at: 'games', one: 'game', many: 'Games', title: (r) => r.title,
    fields: [
      { name: 'title', label: 'Title', required: true },
      { name: 'platform', label: 'Platform', half: true, list: ['PC', 'Steam Deck', 'Switch', 'PlayStation', 'Xbox', 'Board'] },
      { name: 'status', label: 'Status', type: 'choice', half: true, choices: statuses },
      { name: 'rating', label: 'Rating, 0 to 10', type: 'number', min: 0, max: 10, half: true },
      { name: 'playtimeMinutes', label: 'Minutes played', type: 'number', min: 0, half: true },
      { name: 'notes', label: 'Notes', type: 'text' },
      { name: 'coverUrl', label: 'Cover picture (address)', type: 'url' },
      { name: 'storeUrl', label: 'Shop page (address)', type: 'url' },
    ],
    quick: 'title', prompt: 'Title of a game',
    meta: (r) => [r.status && h('span.badge', {}, statuses[r.status]), r.platform, r.rating !== null && r.rating !== undefined && `★ ${r.rating}`,
      r.playtimeMinutes > 0 && (r.playtimeMinutes < 90 ? `${r.playtimeMinutes} min` : `${Math.round(r.playtimeMinutes / 60)} h`)],
    none: 'Type a title above. Wishlist, backlog, finished: the list can be shared.',
  },
  shortlink: {
    api: 'shorten', at: 'links', one: 'short link', many: 'Links', counter: 'clicks', limit: 'maxClicks', unit: 'click',
    title: (r) => (r.url ?? '').replace(start.url, ''), // its end tells one from another
    fields: [
      { name: 'originalUrl', label: 'Leads to', type: 'url', required: true },
      { name: 'description', label: 'Description' },
    ],
    quick: 'originalUrl', prompt: 'Paste a long address to shorten',
    meta: (r) => [h('span.cutoff', {}, '→ ' + (r.originalUrl ?? '').replace(/^https?:\/\//, '')), r.description && h('span.cutoff', {}, r.description)],
    none: 'Paste a long address above to get a short one, and see how often it is used.',
  },
};
for (const [name, k] of Object.entries(kinds)) {
  Object.assign(k, { name, counter: k.counter ?? 'views', limit: k.limit ?? 'maxViews', unit: k.unit ?? 'view' });
}
const byPlace = Object.fromEntries(Object.values(kinds).map((k) => [k.at, k]));

const kindOf = (r) => kinds[r.kind];
const titleOf = (r) => kindOf(r).title(r);
const pathOf = (r) => `${kindOf(r).api}/${r.id}`;
const placeOf = (r) => `${base}/${kindOf(r).at}/${r.slug}`;
const addressOf = (r) => r.shareUrl ?? r.viewUrl ?? r.url;
const tagNames = (r) => (r.tags ?? []).map((t) => t.name ?? t);
const tagColor = (name) => tags.find((t) => t.name.toLowerCase() === name.toLowerCase())?.color;

// changed counts what was changed, so that a page kept for the way back is not shown when it is out of date.
let changed = 0;

// ---- Rows of lists ----

function chip(name) {
  const el = h('a.chip', { href: `${base}/search?tag=${encodeURIComponent(name)}` }, h('i'), name);
  const color = tagColor(name);
  if (color) el.style.setProperty('--tag', color);
  return el;
}

// sharing says how an item is shared, where that is not simply private.
function sharing(r) {
  const k = kindOf(r), out = [];
  const over = r.expiresAt && Date.parse(r.expiresAt) <= Date.now();
  if (r.isPublic && !over) out.push(h('span.badge.on', {}, 'public'));
  if (over) out.push(h('span.badge.warn', {}, 'expired'));
  else if (r.expiresAt) out.push(`ends ${ago(r.expiresAt)}`);
  if (r.hasPassword) out.push(h('span', { title: 'Visitors need a password' }, icon('lock'), ' password'));
  const n = r[k.counter] ?? 0;
  if (r[k.limit]) out.push(`${number(n)} of ${plural(r[k.limit], k.unit)}`);
  else if (n || k.unit === 'click') out.push(plural(n, k.unit));
  return out;
}

const shownAsPicture = (r) => r.kind === 'file' && /^image\/(png|jpe?g|gif|webp|avif|bmp)/.test(r.mimeType);

function pictureOf(r) {
  const letters = kindOf(r).pic?.(r);
  const pic = h('span.pic', {}, letters ? h('b', {}, letters) : icon(r.kind));
  if (shownAsPicture(r) || r.iconUrl) {
    pic.append(h(r.iconUrl ? 'img.favicon' : 'img', { src: `${base}/t/${r.slug}`, alt: '', loading: 'lazy', decoding: 'async' }));
  }
  return pic;
}

function rowOf(r) {
  const k = kindOf(r), title = titleOf(r), out = k.href?.(r), hit = r.found;
  const name = hit?.title === title ? marked(title, hit.highlight.title) : title;
  const meta = k.meta(r).filter(Boolean).map((m) => typeof m === 'string' ? h('span', {}, m) : m);
  let where = hit?.highlight.ranges?.length > 0 ? hit.highlight.text : '';
  if (title.includes(where) || where === r.slug && hit.highlight.title?.length > 0) where = ''; // what stands there already is not said again
  const same = where && meta.find((m) => m.textContent === where);
  if (same) {
    same.replaceChildren();
    add(same, marked(where, hit.highlight.ranges));
    where = '';
  }
  const row = h('li.item', {},
    h('label.pick', {}, h('input', { type: 'checkbox', 'aria-label': `Select ${title}`, act: 'pick', checked: selected.has(r.id) }), pictureOf(r)),
    h('div.what', {},
      out ? h('a.name', { href: out, target: '_blank', rel: 'noopener noreferrer' }, name) : h('a.name', { href: placeOf(r) }, name),
      where && h('div.excerpt', {}, marked(where, hit.highlight.ranges)),
      h('div.meta', {}, meta,
        sharing(r).map((m) => typeof m === 'string' ? h('span', {}, m) : m),
        tagNames(r).map(chip), r.createdAt && when(r.createdAt))),
    h('div.acts', {},
      iconButton('star', 'star', 'Favourite', { 'aria-pressed': String(!!r.isFavorite), class: 'quiet square star' }),
      iconButton('share-item', 'share', `Share ${title}`),
      h('details.menu', {}, h('summary.quiet.square', { 'aria-label': `More for ${title}`, title: 'More' }, icon('more')), h('div.pop'))));
  row.record = r;
  row.dataset.id = r.id;
  return row;
}

function fillMenu(menu) {
  const r = menu.closest('.item').record;
  const item = (act, name, label) => button(act, label, {}, icon(name), label);
  find('.pop', menu).replaceChildren(
    h('a.button', { href: r.kind === 'bookmark' ? r.url : here(r.url), target: '_blank', rel: 'noopener noreferrer' }, icon('open'), 'Open'),
    item('edit', 'edit', 'Edit'),
    item('share-item', 'share', 'Share …'),
    item('copy', 'copy', 'Copy link'),
    item('publish', r.isPublic ? 'lock' : 'check', r.isPublic ? 'Make private' : 'Make public'),
    item('delete', 'trash', 'Delete'));
  const pop = find('.pop', menu);
  pop.classList.remove('up');
  pop.classList.toggle('up', pop.getBoundingClientRect().bottom > innerHeight - 70 && menu.getBoundingClientRect().top > pop.offsetHeight);
}

// put shows a record again wherever it is on the page.
function put(r) {
  changed++;
  for (const row of all(`.item[data-id="${r.id}"]`)) {
    const had = row.contains(document.activeElement) && document.activeElement.dataset.act;
    const next = rowOf(r);
    row.replaceWith(next);
    if (had) find(`[data-act="${had}"]`, next)?.focus();
  }
  if (view?.list) view.list.picked();
}

// ---- Lists ----

// A Source reads lists page by page, several kinds in one order.
class Source {
  constructor(names, params, page, sorted = 'newest') {
    this.heads = names.map((name) => ({ k: kinds[name], items: [], cursor: '', total: 0, first: take(kinds[name].api) }));
    Object.assign(this, { params, page, sorted });
  }

  get total() { return this.heads.reduce((n, head) => n + head.total, 0); }
  get ended() { return this.heads.every((head) => head.cursor === null && !head.items.length); }

  async fill(head, signal) {
    let answer = head.first;
    head.first = null;
    if (!answer) {
      const query = new URLSearchParams(this.params);
      query.set('limit', this.page);
      query.set('brief', 'true');
      if (head.cursor) query.set('cursor', head.cursor);
      answer = await api('GET', `${head.k.api}?${query}`, undefined, { signal });
    }
    head.items.push(...answer.data);
    head.cursor = answer.nextCursor;
    head.total = answer.total;
  }

  async next(n, signal) {
    const out = [];
    while (out.length < n) {
      await Promise.all(this.heads.filter((head) => !head.items.length && head.cursor !== null).map((head) => this.fill(head, signal)));
      const full = this.heads.filter((head) => head.items.length);
      if (!full.length) break;
      const best = full.reduce((a, b) => a.items[0].createdAt >= b.items[0].createdAt ? a : b);
      out.push(best.items.shift());
    }
    return out;
  }
}

// A Search reads the answers of the search over all kinds, page by page. Each record knows where its words were found.
class Search {
  constructor(params) { Object.assign(this, { params, cursor: '', total: 0, first: take('search') }); }

  get ended() { return this.cursor === null; }

  async next(n, signal) {
    const query = new URLSearchParams(this.params);
    query.set('limit', n);
    if (this.cursor) query.set('cursor', this.cursor);
    const answer = this.first ?? await api('GET', `search?${query}`, undefined, { signal });
    this.first = null;
    this.cursor = answer.nextCursor ?? null;
    this.total = answer.total;
    this.incomplete = answer.incomplete;
    return answer.data.filter((hit) => kinds[hit.kind]).map((hit) => ({ ...hit.record, found: hit }));
  }
}

// marked is text with what was found in it. The ranges count UTF-16 code units, as strings do here.
function marked(text, ranges) {
  const out = [];
  let at = 0;
  for (const [start, end] of ranges) {
    out.push(text.slice(at, start), h('mark', {}, text.slice(start, end)));
    at = end;
  }
  return [...out, text.slice(at)].filter((part) => part !== '');
}

const selected = new Map();

// list is the part of a page that shows records, with its own "more" and the bar for several at once.
function listOf(source, { page = 50, empty, grid = false, counted = null }) {
  const ul = h(grid ? 'ul.list.grid' : 'ul.list', { 'aria-label': 'Items' });
  const state = h('div.state', { 'aria-live': 'polite' });
  const more = h('button.wide', { type: 'button', act: 'more', hidden: true });
  const bar = h('div.bulk', { role: 'toolbar', 'aria-label': 'For what is selected', hidden: true });
  const self = { ul, node: h('section', { 'aria-label': 'List' }, ul, state, more, bar) };
  let busy = false;

  self.load = async (signal) => {
    if (busy) return;
    busy = true;
    more.disabled = true;
    if (!ul.children.length) state.replaceChildren(h('p.soft', {}, 'Loading …'));
    try {
      const rows = (await source.next(page, signal)).filter((r) => !find(`.item[data-id="${r.id}"]`, ul)).map(rowOf);
      ul.append(...rows);
      self.settle();
    } catch (e) {
      if (e.name === 'AbortError') return;
      state.replaceChildren(h('p.alert', { role: 'alert' }, e.message), button('more', 'Try again'));
    } finally {
      busy = false;
      more.disabled = false;
    }
  };

  self.settle = () => {
    const n = ul.children.length;
    ul.hidden = !n;
    more.hidden = source.ended;
    more.textContent = `Show more (${number(n)} of ${number(source.total)})`;
    if (n) state.replaceChildren();
    else if (source.ended) state.replaceChildren(empty());
    counted?.(Math.max(source.total, n));
  };

  // lose takes records off the count, or with -1 puts them back.
  self.lose = (records, n = 1) => {
    for (const r of records) {
      const head = source.heads?.find((x) => x.k === kindOf(r));
      if (head) head.total -= n;
      else if (!source.heads) source.total -= n;
    }
    self.settle();
  };

  self.picked = () => {
    const shown = all('.item', ul).map((row) => row.record);
    for (const id of selected.keys()) if (!shown.some((r) => r.id === id)) selected.delete(id);
    for (const row of shown) if (selected.has(row.id)) selected.set(row.id, row);
    const n = selected.size;
    ul.classList.toggle('picking', n > 0);
    bar.hidden = !n;
    if (!n) return;
    const had = bar.contains(document.activeElement) && document.activeElement.dataset.act;
    const files = [...selected.values()].every((r) => r.kind === 'file');
    bar.replaceChildren(
      h('b', { 'aria-live': 'polite' }, number(n), h('span', {}, ' selected')),
      n < shown.length && button('pick-all', 'All'),
      files && button('bulk-folder', 'Move', {}, icon('folder'), 'Move'),
      button('bulk-tag', 'Tag', {}, icon('tag'), 'Tag'),
      button('bulk-share', 'Sharing', {}, icon('share'), 'Sharing'),
      button('bulk-delete', 'Delete', { class: 'danger' }, icon('trash'), 'Delete'),
      iconButton('pick-none', 'close', 'Clear the selection'));
    if (!bar.firstElementChild) return;
    for (const child of [...bar.childNodes]) if (child.nodeType === 3) child.remove();
    if (had) find(`[data-act="${had}"]`, bar)?.focus();
  };

  self.prepend = (r) => {
    find(`.item[data-id="${r.id}"]`, ul)?.remove();
    const head = source.heads?.find((x) => x.k === kindOf(r));
    if (head) head.total++;
    const row = rowOf(r);
    row.classList.add('new');
    ul.prepend(row);
    self.settle();
  };

  if ('IntersectionObserver' in window) {
    new IntersectionObserver((seen) => { if (seen.some((s) => s.isIntersecting) && !more.hidden) self.load(view?.signal); }, { rootMargin: '400px' }).observe(more);
  }
  return self;
}

// ---- Forms ----

// control makes the field of a form: what the user sees, and how its value is read and set.
function control(f, value) {
  const id = newID();
  const c = { f, id };
  let el;
  const common = { id, name: f.name, autocomplete: f.autocomplete ?? 'off', 'aria-required': f.required ? 'true' : null, readonly: f.readonly };
  switch (f.type) {
    case 'text':
      el = h('textarea', { ...common, rows: f.tall ? 8 : 2, spellcheck: f.mono ? 'false' : null, class: [f.mono && 'mono', f.tall && 'tall'].filter(Boolean).join(' ') || null });
      el.addEventListener('input', () => grow(el));
      break;
    case 'choice':
      el = h('select', common, f.required ? null : h('option', { value: '' }, f.none ?? '—'), Object.entries(f.choices).map(([v, t]) => h('option', { value: v }, t)));
      break;
    case 'check':
      el = h('input', { ...common, type: 'checkbox' });
      break;
    case 'checks':
      el = h('div.checks', { id, role: 'group', 'aria-label': f.label }, Object.entries(f.choices).map(([v, t]) =>
        h('label.check', {}, h('input', { type: 'checkbox', value: v, name: f.name }), h('span', {}, t))));
      break;
    case 'tags':
      return tagControl(c, f, value);
    default: {
      const list = f.type === 'folder' ? folders.map((x) => x.name) : f.list;
      const type = { number: 'number', password: 'password', color: 'color', time: 'datetime-local', url: 'url' }[f.type] ?? 'text';
      el = h('input', {
        ...common, type, min: f.min, max: f.max, placeholder: f.placeholder, list: list ? id + '-list' : null,
        inputmode: f.type === 'url' ? 'url' : null, spellcheck: f.type && f.type !== 'text' ? 'false' : null, autocapitalize: f.type === 'url' || f.plain ? 'none' : null,
      });
      if (list) c.extra = h('datalist', { id: id + '-list' }, list.map((v) => h('option', { value: v })));
    }
  }
  c.el = el;
  c.get = () => {
    switch (f.type) {
      case 'check': return el.checked;
      case 'checks': return all('input:checked', el).map((x) => x.value);
      case 'number': return el.value === '' ? null : Number(el.value);
      case 'choice': return el.value || null;
      case 'time': return el.value ? new Date(el.value).toISOString() : null;
      case 'size': return size(el.value);
      default: return el.value;
    }
  };
  c.set = (v) => {
    if (f.type === 'check') el.checked = !!v;
    else if (f.type === 'checks') for (const x of all('input', el)) x.checked = (v ?? []).includes(x.value);
    else if (f.type === 'time') el.value = v ? local(v) : '';
    else if (f.type === 'size') el.value = v ? bytes(v) : '';
    else if (f.type !== 'choice' || !f.required || v) el.value = v ?? '';
  };
  c.set(value);
  return dress(c);
}

// local is an instant as a field for date and time writes it.
function local(time) {
  const d = new Date(time);
  return new Date(d - d.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

// dress puts the label, the hint and the place of an error around a field.
function dress(c) {
  const { f, id } = c;
  const error = h('p.error', { id: id + '-error', hidden: true });
  const hint = f.hint && h('p.hint', { id: id + '-hint' }, f.hint);
  const described = [f.hint && id + '-hint', id + '-error'].filter(Boolean).join(' ');
  (c.input ?? c.el).setAttribute('aria-describedby', described);
  c.fail = (text) => {
    error.hidden = !text;
    error.textContent = text ? `${f.label} ${text}.` : '';
    (c.input ?? c.el)[text ? 'setAttribute' : 'removeAttribute']('aria-invalid', 'true');
  };
  c.el.addEventListener('input', () => c.fail(''));
  c.node = f.type === 'check'
    ? h('div.field', {}, h('label.check', { for: id }, c.el, h('span', {}, f.label)), hint, error)
    : h(f.half ? 'div.field.half' : 'div.field', {},
      f.type === 'checks' ? h('span.label', {}, f.label) : h('label', { for: c.input?.id ?? id }, f.label, f.required ? null : f.optional && h('small', {}, ' optional')),
      c.el, c.extra, hint, error);
  return c;
}

// Where the style sheet can, it lets a text area grow with its text.
const grows = CSS.supports('field-sizing', 'content');
function grow(el) {
  if (grows) return;
  el.style.height = 'auto';
  el.style.height = el.scrollHeight + 2 + 'px';
}

function tagControl(c, f, value) {
  let names = [];
  const input = h('input', { id: c.id, type: 'text', list: 'tag-names', placeholder: 'Add a tag', autocomplete: 'off', maxlength: '64', enterkeyhint: 'enter' });
  const el = h('div.tags', {}, input);
  if (!find('#tag-names')) document.body.append(h('datalist', { id: 'tag-names' }, tags.map((t) => h('option', { value: t.name }))));
  const draw = () => {
    for (const old of all('.chip', el)) old.remove();
    for (const name of names) {
      const one = h('span.chip', {}, h('i'), name, h('button', { type: 'button', 'aria-label': `Remove tag ${name}` }, icon('close')));
      const color = tagColor(name);
      if (color) one.style.setProperty('--tag', color);
      find('button', one).onclick = () => { names = names.filter((n) => n !== name); draw(); input.focus(); el.dispatchEvent(new Event('input', { bubbles: true })); };
      input.before(one);
    }
  };
  const commit = () => {
    for (const part of input.value.split(',')) {
      const name = part.trim().replace(/\s+/g, ' ');
      if (name && !names.some((n) => n.toLowerCase() === name.toLowerCase())) names.push(name);
    }
    input.value = '';
    draw();
  };
  input.addEventListener('keydown', (e) => {
    if ((e.key === 'Enter' || e.key === ',') && input.value.trim() && !e.ctrlKey && !e.metaKey) { e.preventDefault(); commit(); input.dispatchEvent(new Event('input', { bubbles: true })); }
    if (e.key === 'Backspace' && !input.value && names.length) { names.pop(); draw(); input.dispatchEvent(new Event('input', { bubbles: true })); }
  });
  input.addEventListener('change', commit);
  el.addEventListener('click', (e) => { if (e.target === el) input.focus(); });
  Object.assign(c, { el, input, get: () => { commit(); return [...names]; }, set: (v) => { names = [...(v ?? [])]; draw(); } });
  c.peek = () => [...names, ...(input.value.trim() ? [input.value.trim()] : [])];
  c.set(value);
  return dress(c);
}

// A Form is a set of fields with a place for what went wrong.
class Form {
  constructor(fields, values) {
    this.controls = fields.map((f) => control(f, values[f.name]));
    this.alert = h('p.alert', { role: 'alert', hidden: true });
    this.node = h('div.fields', {}, this.alert, this.controls.map((c) => c.node));
    this.node.addEventListener('change', () => this.sync());
    this.sync();
  }

  // sync hides the fields that another one's value makes pointless.
  sync() {
    for (const c of this.controls) {
      for (const [name, values] of Object.entries(c.f.onlyFor ?? {})) c.node.hidden = !values.includes(this.controls.find((x) => x.f.name === name).get());
    }
  }

  get values() { return Object.fromEntries(this.controls.map((c) => [c.f.name, c.get()])); }
  get shown() { return Object.fromEntries(this.controls.filter((c) => c.f.type !== 'password').map((c) => [c.f.name, (c.peek ?? c.get)()])); }

  set(values) { for (const c of this.controls) if (c.f.name in values) { c.set(values[c.f.name]); if (c.f.type === 'text') grow(c.el); } }

  // complain shows what is wrong beside the fields, and the rest above them.
  complain(problem) {
    let first = null;
    const rest = [];
    for (const c of this.controls) c.fail('');
    for (const [name, text] of Object.entries(problem?.fields ?? {})) {
      const c = this.controls.find((x) => x.f.name === name || x.f.alias === name);
      if (!c) { rest.push(`${name} ${text}.`); continue; }
      c.fail(text);
      c.node.closest('details')?.setAttribute('open', '');
      first ??= c;
    }
    const text = !problem ? '' : problem.fields ? rest.join(' ') : problem.message;
    this.alert.hidden = !text;
    this.alert.textContent = text;
    if (first) (first.input ?? first.el).focus();
    else if (text) this.alert.scrollIntoView({ block: 'nearest' });
  }

  // check says what a person can see is missing before it is sent.
  check() {
    const fields = {};
    for (const c of this.controls) {
      const v = c.get();
      if (c.f.required && (v === '' || v === null)) fields[c.f.name] = 'is needed';
      if (c.f.type === 'size' && Number.isNaN(v)) fields[c.f.name] = 'is a size such as 500 MB or 10 GB';
      if (c.f.same && v !== this.controls.find((x) => x.f.name === c.f.same).get()) fields[c.f.name] = 'must be the same';
    }
    if (!Object.keys(fields).length) return true;
    this.complain({ fields });
    return false;
  }
}

// ---- Dialogs ----

function dialog(title, { panel = false, onclose = null } = {}) {
  const id = newID();
  const before = document.activeElement;
  const heading = h('h2', { id, tabindex: '-1', autofocus: true }, title); // else the first button has the focus, which closes
  const tools = h('div.tools', {}, iconButton('dialog-close', 'close', 'Close'));
  const body = h('div.body');
  const el = h(panel ? 'dialog.panel' : 'dialog', { 'aria-labelledby': id }, h('header', {}, heading, tools), body);
  el.addEventListener('close', () => {
    el.remove();
    if (before?.isConnected) before.focus({ preventScroll: true });
    onclose?.(el.returnValue);
  });
  el.addEventListener('pointerdown', (e) => { if (e.target === el) el.down = true; });
  el.addEventListener('click', (e) => { if (e.target === el && el.down) el.close(); el.down = false; });
  document.body.append(el);
  el.showModal();
  return { el, heading, tools, body };
}

// ask shows a small form in a dialog and calls run with its values; what run throws is shown there.
function ask({ title, text = '', fields = [], values = {}, button: label = 'Save', danger = false, run = null, after = null, onclose = null }) {
  const d = dialog(title, { onclose });
  const form = new Form(fields, values);
  const go = label && h('button', { class: danger ? 'danger' : 'main' }, label);
  const node = h('form', { novalidate: true }, text && h('p.soft', {}, text), form.node, after,
    h('div.row.foot', {}, go, button('dialog-close', label ? 'Cancel' : 'Close')));
  node.addEventListener('submit', async (e) => {
    e.preventDefault();
    if (!form.check()) return;
    go.disabled = true;
    try {
      await run(form.values);
      d.el.close('done');
    } catch (problem) {
      form.complain(problem);
    } finally {
      go.disabled = false;
    }
  });
  d.body.append(node);
  (find('input:not([type=checkbox]), textarea, select', node) ?? find('button', node)).focus();
  for (const area of all('textarea', node)) grow(area);
  return { ...d, form };
}

// ---- The editor ----

const shareFields = [
  { name: 'isPublic', label: 'Anyone with the link can see it', type: 'check' },
  { name: 'isFavorite', label: 'Favourite', type: 'check' },
];
const slugOf = (k) => ({ name: 'slug', label: 'Address', plain: true, alias: 'newSlug', hint: `The end of its address: letters, digits and . _ ~ @ -. Empty makes one up${k.name === 'shortlink' ? ', such as …/s/k7Qm2xWb9a' : ''}.` });

function editable(k, r) {
  const values = {};
  for (const f of k.fields) values[f.name] = r?.[f.name] ?? (f.type === 'number' || f.type === 'choice' ? null : '');
  if (k === kinds.file) values.folderName = r?.folder?.name ?? '';
  values.tags = r ? tagNames(r) : [];
  values.slug = r?.slug ?? '';
  values.isPublic = r?.isPublic ?? false;
  values.isFavorite = r?.isFavorite ?? false;
  return values;
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// changesOf is what has to be sent: of a new record what was given, of an old one what is different now.
function changesOf(k, old, now, fresh) {
  const out = {};
  for (const [name, value] of Object.entries(now)) {
    const v = typeof value === 'string' && !k.fields.find((f) => f.name === name)?.keep ? value.trim() : value;
    if (fresh ? v === '' || v === null || same(v, []) : same(v, old[name])) continue;
    if (name === 'slug' && !v) continue;
    out[name] = v;
  }
  if (fresh) for (const f of k.fields) if (f.keep) out[f.name] = now[f.name];
  if (k === kinds.file) {
    if ('slug' in out) { out.newSlug = out.slug; delete out.slug; }
    if (out.folderName === '') { out.folderId = null; delete out.folderName; }
  }
  return out;
}

let editor = null;

// edit opens the editor for a record, or for a new one with some values, whose draft has the name.
async function edit(k, r, given = {}, onclose = null, name = 'new') {
  editor?.el.close('replaced');
  const fresh = !r;
  const old = editable(k, r);
  const key = draftKey(`${k.name}.${fresh ? name : r.id}`);
  const d = dialog(fresh ? `New ${k.one}` : titleOf(r), { panel: true, onclose: (why) => { clearTimeout(timer); if (why !== 'done') keep(); if (editor === me_) editor = null; onclose?.(why); } });
  const me_ = editor = d;
  d.record = r;
  const form = new Form([...k.fields, { name: 'tags', label: 'Tags', type: 'tags' }, slugOf(k), ...shareFields], { ...old, ...given });
  const status = h('small.soft', { 'aria-live': 'polite' });
  const go = h('button.main', {}, fresh ? `Add ${k.one}` : 'Save');
  const node = h('form', { novalidate: true }, form.node, h('div.row.foot', {}, go, button('dialog-close', 'Cancel'), status));
  const rest = h('details.field', {}, h('summary', {}, 'Address and visibility'), form.controls.slice(-3).map((c) => c.node));
  form.node.append(rest);
  let timer = 0;
  const keep = () => {
    const now = form.shown;
    memory.set(key, same(now, { ...old, ...given }) || fresh && same(now, old) ? null : { at: new Date().toISOString(), values: now });
  };
  node.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(() => { keep(); status.textContent = memory.get(key) ? 'Kept on this device until you save' : ''; }, 300);
  });
  node.addEventListener('submit', async (e) => {
    e.preventDefault();
    if (!form.check()) return;
    const body = changesOf(k, old, form.values, fresh);
    if (!fresh && !Object.keys(body).length) { clearTimeout(timer); timer = 0; memory.set(key, null); return d.el.close('done'); }
    go.disabled = true;
    keep();
    try {
      const answer = fresh ? await api('POST', k.api, body) : await api('PATCH', pathOf(r), body);
      clearTimeout(timer);
      timer = 0;
      memory.set(key, null);
      d.el.close('done');
      settled(answer.data, fresh, answer.duplicateOf);
    } catch (problem) {
      form.complain(problem);
    } finally {
      go.disabled = false;
    }
  });
  if (fresh && k === kinds.bookmark) {
    const [c] = form.controls, watch = () => ofBookmarks((m) => m.watch(c));
    if (c.get()) watch();
    else c.el.addEventListener('change', watch, { once: true });
  }
  d.form = form;
  d.submit = () => node.requestSubmit();
  if (!fresh) {
    d.tools.prepend(
      h('a.button.quiet.square', { href: here(r.kind === 'bookmark' ? r.url : addressOf(r)), target: '_blank', rel: 'noopener noreferrer', 'aria-label': 'Open', title: 'Open' }, icon('open')),
      iconButton('editor-share', 'share', 'Share'), iconButton('editor-delete', 'trash', 'Delete'));
    if (r.kind === 'file') d.body.append(preview(r));
  }
  d.body.append(node);
  const draft = memory.get(key);
  if (draft && !same(draft.values, { ...old, ...given })) {
    form.set(draft.values);
    const told = h('p.note', {}, h('span', {}, `What you typed ${ago(draft.at)} was kept and is shown here. `), button('none', 'Start over'));
    find('button', told).onclick = () => { memory.set(key, null); form.set({ ...old, ...given }); told.remove(); };
    node.prepend(told);
  }
  for (const area of all('textarea', node)) grow(area);
  const empty = form.controls.find((c) => fresh && c.f.type !== 'check' && !(c.input ?? c.el).value) ?? form.controls[0];
  if (fresh || matchMedia('(pointer: fine)').matches) (empty.input ?? empty.el).focus();
}

function preview(r) {
  const picture = shownAsPicture(r) || r.mimeType.startsWith('image/') && r.size < 2e7;
  const el = picture ? h('img', { src: here(r.url), alt: r.description || '' }) : h('span.pic', {}, icon('file'));
  if (!picture) shown(r).then((at) => at && el.replaceWith(at), () => {});
  return h('div.preview', {}, el,
    h('p.soft', {}, `${bytes(r.size)} · ${r.mimeType} · added `, when(r.createdAt)),
    h('div.row', {}, h('a.button', { href: here(r.url), download: r.originalName }, icon('file'), 'Download'), button('editor-copy', 'Copy link', {}, icon('copy'), 'Copy link')));
}

// shown is what visitors see of a file on its page: a player, or text; null is nothing.
async function shown(r) {
  const page = await fetch(`${base}/v/${r.slug}`, { headers: { accept: 'text/html' } });
  return new DOMParser().parseFromString(await page.text(), 'text/html').querySelector('.shown');
}

// ofBookmarks does something with the module of bookmarks, which nothing waits for.
const ofBookmarks = (does) => void module('bookmarks').then(does, () => {});

// settled shows a record that was saved; twins are bookmarks of the same page.
function settled(r, fresh, twins) {
  if (r.kind === 'bookmark') ofBookmarks((m) => m.saved(r, twins));
  if (tagNames(r).some((n) => !tagColor(n))) freshTags().then(() => put(r));
  if (r.kind === 'file') freshFolders().then(() => view?.redraw?.());
  if (fresh) {
    changed++;
    me.counts[r.kind] = (me.counts[r.kind] ?? 0) + 1;
    if (view?.takes?.(r)) view.list.prepend(r);
    if (!twins?.length) toast(`${cap(kindOf(r).one)} added.`, { action: r.isPublic || r.kind === 'shortlink' ? 'Copy link' : 'Share', run: () => r.isPublic ? copyAddress(addressOf(r)) : share(r) });
  } else {
    put(r);
    toast('Saved.', { time: 2500 });
  }
}

const cap = (word) => word[0].toUpperCase() + word.slice(1);

// whole is the record with all of its text, which lists cut short.
async function whole(r) { return (await api('GET', pathOf(r))).data; }

// ---- Sharing ----

function share(r) {
  const k = kindOf(r);
  const address = addressOf(r);
  const field = (text, label) => h('div.field', {}, h('span.label', {}, label),
    h('span.join', {}, h('input.mono', { readonly: true, value: text, 'aria-label': label }), button('copy-text', '', { 'data-text': text, 'aria-label': `Copy: ${label}` }, icon('copy'), 'Copy')));
  const ends = { never: 'Never', hour: 'In an hour', day: 'In a day', week: 'In a week', month: 'In a month', other: 'At …' };
  const fields = [
    { name: 'isPublic', label: 'Anyone with the link can see it', type: 'check' },
    { name: 'password', label: r.hasPassword ? 'New password' : 'Password', type: 'password', autocomplete: 'new-password', placeholder: r.hasPassword ? 'set; type to change it' : 'none' },
    ...(r.hasPassword ? [{ name: 'noPassword', label: 'Remove the password', type: 'check' }] : []),
    { name: k.limit, label: `Most ${k.unit}s`, type: 'number', min: 1, half: true, placeholder: 'no limit' },
    { name: 'maxViewsAction', label: 'After that', type: 'choice', required: true, half: true, choices: { make_private: 'make it private', delete: 'delete it' } },
    { name: 'ends', label: 'Ends', type: 'choice', required: true, half: true, choices: ends },
    { name: 'expiresAt', label: 'Date and time', type: 'time', half: true, onlyFor: { ends: ['other'] } },
  ];
  const old = { ...r, password: '', maxViewsAction: r.maxViewsAction ?? 'make_private', ends: r.expiresAt ? 'other' : 'never' };
  const side = h('div.shared', {}, field(address, r.kind === 'file' ? 'Link to its page' : 'Link'),
    r.kind === 'file' && field(r.url, 'Link to the file itself'),
    h('details.qr', {}, h('summary', {}, 'QR code')),
    h('p.soft', {}, `${plural(r[k.counter] ?? 0, k.unit)} so far.`));
  find('.qr', side).addEventListener('toggle', (e) => {
    if (e.target.open && !find('img', e.target)) e.target.append(h('img', { src: `${base}/api/v1/qr?text=${encodeURIComponent(address)}`, alt: `QR code of ${address}`, width: '200', height: '200' }));
  });
  const d = ask({
    title: `Share ${titleOf(r)}`, fields, values: old, after: null, button: 'Save',
    run: async (now) => {
      const body = {};
      if (now.isPublic !== r.isPublic) body.isPublic = now.isPublic;
      if (now.password) body.password = now.password;
      else if (now.noPassword) body.password = '';
      if (now[k.limit] !== (r[k.limit] ?? null)) body[k.limit] = now[k.limit];
      if (now[k.limit] && now.maxViewsAction !== (r.maxViewsAction ?? 'make_private')) body.maxViewsAction = now.maxViewsAction;
      const span = { hour: 36e5, day: 864e5, week: 6048e5, month: 2592e6 }[now.ends];
      const end = now.ends === 'never' ? null : span ? new Date(Date.now() + span).toISOString() : now.expiresAt;
      if (now.ends === 'other' && !end) throw new Problem('', 0, { expiresAt: 'is needed' });
      if (!(end && r.expiresAt && Math.abs(Date.parse(end) - Date.parse(r.expiresAt)) < 60e3) && end !== (r.expiresAt ?? null)) body.expiresAt = end;
      if (!Object.keys(body).length) return;
      const answer = await api('PATCH', pathOf(r), body);
      put(answer.data);
      if (editor?.record?.id === r.id) editor.record = answer.data;
      if (answer.data.isPublic && !r.isPublic) {
        toast(await copy(address) ? 'Public. The link is copied.' : 'Public.');
      } else toast(answer.data.isPublic ? 'Saved.' : 'Private: only you can see it.', { time: 3000 });
    },
  });
  d.body.prepend(side);
  d.el.classList.add('sharing');
  find('[name=isPublic]', d.el).focus();
}

// ---- Deleting and changing several ----

function remove(records) {
  if (!records.length) return;
  changed++;
  const undone = [];
  for (const r of records) {
    for (const row of all(`.item[data-id="${r.id}"]`)) {
      const mark = document.createComment('');
      row.replaceWith(mark);
      undone.push([row, mark]);
    }
    selected.delete(r.id);
    me.counts[r.kind]--;
  }
  const list = view?.list;
  list?.picked();
  list?.lose(undone.length ? records : []);
  const text = records.length === 1 ? `Deleted “${clip(titleOf(records[0]))}”.` : `Deleted ${number(records.length)} items.`;
  later(text, records.map(pathOf), () => {
    for (const [row, mark] of undone) if (mark.isConnected) mark.replaceWith(row);
    for (const r of records) me.counts[r.kind]++;
    list?.lose(undone.length ? records : [], -1);
  });
}

const clip = (text) => text.length > 48 ? text.slice(0, 46) + '…' : text;

// eachOf changes several records, four at a time, and says at the end what did not work.
async function eachOf(records, bodyOf, done) {
  const todo = [...records];
  let bad = null, failedCount = 0;
  const told = records.length > 8 && toast(`Changing ${plural(records.length, 'item')} …`, { time: 60000 });
  await Promise.all(Array.from({ length: 4 }, async () => {
    for (let r; (r = todo.shift());) {
      try { put((await api('PATCH', pathOf(r), bodyOf(r))).data); } catch (e) { bad = e; failedCount++; }
    }
  }));
  told?.end?.();
  freshTags();
  if (bad) failed(new Problem(`${plural(failedCount, 'item')} could not be changed: ${bad.message}`));
  else toast(done, { time: 3000 });
}

// ---- Uploads ----

const uploads = { queue: [], node: find('#uploads'), most: 3, finished: [], large: 8 << 20 };
const going = (u) => ['waits', 'runs', 'pauses', 'halts'].includes(u.state);

function token() {
  const b = crypto.getRandomValues(new Uint8Array(16));
  return [...b].map((x) => x.toString(16).padStart(2, '0')).join('');
}

// send queues files, with the fields that go with them.
function send(files, fields = {}) {
  if (!files.length) return;
  for (const file of files) {
    const u = { file, fields: { ...fields, ...file.kist }, key: token(), state: 'waits', sent: 0, rate: 0, tries: 0, text: '' };
    u.bar = h('i');
    u.status = h('span');
    u.acts = h('div.acts');
    u.row = h('li.item', {}, h('span.pic', {}, icon('upload')), h('div.what', {}, h('span.name', {}, file.name), h('div.meta', {}, u.status),
      u.track = h('div.bar', { role: 'progressbar', 'aria-label': `Upload of ${file.name}`, 'aria-valuemin': '0', 'aria-valuemax': '100' }, u.bar)), u.acts);
    u.row.upload = u;
    uploads.queue.push(u);
    if (file.size > start.maxUpload) fail(u, `It has ${bytes(file.size)}; the limit is ${bytes(start.maxUpload)}. An administrator can raise it.`, true);
  }
  if (!find('ul', uploads.node)) uploads.node.append(h('div.head', {}, h('h2', {}, 'Uploads'), h('small.soft', { 'aria-live': 'polite' }), button('uploads-clear', 'Close', { class: 'quiet' })), h('ul.list'));
  find('ul', uploads.node).append(...uploads.queue.filter((u) => !u.row.isConnected).map((u) => u.row));
  uploads.node.hidden = false;
  pump();
}

function pump() {
  const running = uploads.queue.filter((u) => u.state === 'runs').length;
  for (const u of uploads.queue.filter((x) => x.state === 'waits').slice(0, uploads.most - running)) transfer(u);
  drawUploads();
}

// resumed uploads a large file such that it goes on where it broke off.
async function resumed(u) {
  Object.assign(u, { state: 'runs', rate: 0, text: '' });
  try {
    u.tus ??= await import(start.modules.tus);
  } catch {
    return again(u, 0, null);
  }
  if (u.state !== 'runs') return; // paused or cancelled meanwhile
  let at = performance.now(), had = null;
  u.tus.resume(u, { ...u.tus.ofOwner(me.id, base), memory, again, arrived, progress: (_, sent) => {
    const now = performance.now();
    had ??= u.sent;
    u.sent = sent;
    if (now - at > 200) {
      const rate = Math.max(0, sent - had) / (now - at) * 1000;
      u.rate = u.rate ? u.rate * 0.7 + rate * 0.3 : rate;
      [at, had] = [now, sent];
      drawUploads();
    }
  } });
}

function transfer(u) {
  if (u.file.size > uploads.large) return resumed(u);
  const xhr = u.xhr = new XMLHttpRequest();
  const form = new FormData();
  for (const [name, value] of Object.entries(u.fields)) form.append(name, value);
  form.append('file', u.file, u.file.name);
  Object.assign(u, { state: 'runs', sent: 0, rate: 0, text: '' });
  let at = performance.now(), had = 0;
  xhr.upload.onprogress = (e) => {
    const now = performance.now();
    u.sent = Math.min(u.file.size, e.loaded / e.total * u.file.size);
    if (now - at > 200) {
      const rate = (e.loaded - had) / (now - at) * 1000;
      u.rate = u.rate ? u.rate * 0.7 + rate * 0.3 : rate;
      [at, had] = [now, e.loaded];
      drawUploads();
    }
  };
  xhr.onload = () => {
    let data = null;
    try { data = JSON.parse(xhr.responseText); } catch { /* the status says it */ }
    if (xhr.status === 201) return arrived(u, data);
    again(u, xhr.status, data);
  };
  xhr.onerror = () => again(u, 0, null);
  xhr.onabort = () => {};
  xhr.open('POST', `${base}/api/v1/upload`);
  xhr.setRequestHeader('Idempotency-Key', u.key);
  xhr.send(form);
}

// again tries once more what may work later; the key keeps it from being kept twice.
function again(u, status, data) {
  const maybe = status === 0 || status === 408 || status === 425 || status === 429 || status >= 500 && status !== 507 || u.at && [404, 409, 410].includes(status);
  if (!maybe || u.tries >= (u.at ? 10 : 3)) return fail(u, problemOf(status, data).message, !maybe);
  u.state = 'pauses';
  const wait = Math.min(30000, 1000 * 3 ** u.tries++);
  u.text = `Broke off; tries again in ${seconds(wait / 1000)}`;
  u.timer = setTimeout(() => { u.state = 'waits'; pump(); }, wait);
  pump();
}

function fail(u, text, forGood) {
  Object.assign(u, { state: 'failed', text, forGood });
  if (uploads.queue.some((x) => x.state !== 'failed')) pump();
  else drawUploads();
}

function arrived(u, data) {
  Object.assign(u, { state: 'done', sent: u.file.size, record: data });
  uploads.finished.push(data);
  changed++;
  me.counts.file = (me.counts.file ?? 0) + 1;
  me.usedBytes += data.size;
  if (view?.takes?.(data)) view.list.prepend(data);
  setTimeout(() => { uploads.queue = uploads.queue.filter((x) => x !== u); u.row.remove(); drawUploads(); }, 4000);
  pump();
  if (uploads.queue.some(going)) return;
  finished(uploads.finished.splice(0));
}

async function finished(records) {
  if (records.some((r) => tagNames(r).some((n) => !tagColor(n)))) freshTags();
  freshFolders().then(() => view?.redraw?.());
  const copied = await copy(records.map((r) => addressOf(r)).join('\n'));
  const what = records.length === 1 ? `“${clip(records[0].originalName)}” is uploaded.` : `${plural(records.length, 'file')} uploaded.`;
  const open = records.every((r) => r.isPublic);
  const links = copied ? ` The ${records.length === 1 ? 'link is' : 'links are'} copied${open ? '' : ', and for you alone until you share'}.` : '';
  toast(what + links, copied && open ? {} : !copied ? { time: 10000, action: 'Copy link', run: () => copyAddress(records.map(addressOf).join('\n')) }
    : { time: 8000, action: 'Make public', run: () => eachOf(records, () => ({ isPublic: true }), 'Public. The link works for everyone now.') });
}

function drawUploads() {
  const q = uploads.queue;
  const list = find('ul', uploads.node);
  if (!list) return;
  for (const u of q) {
    const part = u.file.size ? u.sent / u.file.size : u.state === 'done' ? 1 : 0;
    u.bar.style.width = (part * 100).toFixed(1) + '%';
    u.track.setAttribute('aria-valuenow', Math.round(part * 100));
    u.row.dataset.state = u.state;
    const left = u.rate ? (u.file.size - u.sent) / u.rate : 0;
    u.status.textContent = {
      waits: `${bytes(u.file.size)}, waits`, pauses: u.text, failed: u.text, halts: `Paused at ${bytes(u.sent)} of ${bytes(u.file.size)}`, done: `${bytes(u.file.size)}, done`,
      runs: part >= 1 ? 'Being stored …' : `${bytes(u.sent)} of ${bytes(u.file.size)}${u.rate ? ` · ${bytes(u.rate)}/s · ${seconds(left)} left` : ''}`,
    }[u.state];
    if (u.drawn !== u.state) {
      u.drawn = u.state;
      const had = u.acts.contains(document.activeElement);
      u.acts.replaceChildren(...{
        waits: [button('upload-cancel', 'Cancel')], runs: [...(u.file.size > uploads.large ? [button('upload-pause', 'Pause')] : []), button('upload-cancel', 'Cancel')],
        halts: [button('upload-retry', 'Resume'), button('upload-cancel', 'Cancel')], pauses: [button('upload-retry', 'Retry now'), button('upload-cancel', 'Cancel')],
        failed: [...(u.forGood ? [] : [button('upload-retry', 'Retry')]), button('upload-cancel', 'Remove', { class: 'quiet' })],
        done: [button('copy-text', 'Copy link', { 'data-text': u.record ? addressOf(u.record) : '' })],
      }[u.state]);
      if (had) find('button', u.acts)?.focus();
    }
  }
  const left = q.filter(going);
  const done = q.filter((u) => u.state === 'done').length;
  const text = left.length ? `${plural(left.length, 'file')} to go` : done ? `${plural(done, 'file')} done` : '';
  const told = find('small', uploads.node);
  if (told.textContent !== text) told.textContent = text;
  find('[data-act="uploads-clear"]', uploads.node).hidden = left.length > 0;
  uploads.node.hidden = !q.length;
}

// What waited for the network goes on as soon as it is back.
addEventListener('online', () => { for (const u of uploads.queue.filter((x) => x.state === 'pauses')) { clearTimeout(u.timer); u.state = 'waits'; } pump(); });

addEventListener('beforeunload', (e) => { if (uploads.queue.some(going)) e.preventDefault(); });

// dropped finds the files in what was dropped, folders included: the name of a folder becomes that of theirs.
async function dropped(data) {
  const entries = [...(data.items ?? [])].filter((i) => i.kind === 'file').map((i) => [i.webkitGetAsEntry?.(), i.getAsFile()]);
  const out = [];
  const walk = async (entry, folder) => {
    if (entry.isFile) {
      const file = await new Promise((yes, no) => entry.file(yes, no));
      if (folder) file.kist = { folderName: folder };
      return out.push(file);
    }
    const reader = entry.createReader();
    for (let part; (part = await new Promise((yes, no) => reader.readEntries(yes, no))).length;) {
      for (const e of part) await walk(e, folder || entry.name);
    }
  };
  for (const [entry, file] of entries) {
    if (entry?.isDirectory) await walk(entry, '').catch(() => {});
    else if (file) out.push(file);
  }
  return out.length ? out : [...(data.files ?? [])];
}

// ---- The box that takes anything ----

function addBox({ kind = null, fields = () => ({}) } = {}) {
  const k = kind && kinds[kind];
  const key = draftKey('box.' + (kind ?? 'any'));
  const any = !k || k === kinds.file;
  const label = any ? 'Add anything' : `New ${k.one}`;
  const area = h('textarea', {
    rows: '1', 'aria-label': label, spellcheck: k?.mono ? 'false' : null, class: k?.mono ? 'mono' : null,
    placeholder: k === kinds.file ? 'Drop files here or paste a picture' : any ? 'Drop files, paste a picture, a link or some text …' : k.prompt, value: memory.get(key, ''),
  });
  const picker = h('input', { type: 'file', multiple: true, hidden: true });
  const visibility = h('select', { 'aria-label': 'Who can see what is added' }, h('option', { value: '' }, 'Only me'), h('option', { value: '1' }, 'Anyone with the link'));
  visibility.value = memory.get('public', '');
  visibility.onchange = () => memory.set('public', visibility.value);
  const does = h('span.does');
  const problem = h('p.error', { role: 'alert', hidden: true });
  const form = h('form.add', { 'aria-label': label, novalidate: true }, k === kinds.file ? null : area, problem,
    h('div.row', {}, h('span.row', {}, any && button('choose', 'Choose files', {}, icon('upload'), 'Choose files'), visibility), does,
      k === kinds.file && h('a.button', { href: `${base}/remote-upload` }, 'From an address')), picker);
  if (k === kinds.file) form.prepend(h('p.soft', {}, icon('upload'), h('span', {}, 'Drop files or folders here, paste a picture, or choose.')));
  // What typed text becomes: the first is what Enter does.
  const choices = () => {
    const text = area.value.trim();
    if (k) return k === kinds.file ? [] : [[k, k.full ? `Write the ${k.one}` : `Add ${k.one}`]];
    if (!text) return [];
    return isAddress(text) ? [[kinds.bookmark, 'Add bookmark'], [kinds.shortlink, 'Shorten']] : [[kinds.note, 'Add note'], [kinds.snippet, 'As snippet']];
  };
  const draw = () => {
    memory.set(key, area.value || null);
    grow(area);
    does.replaceChildren(
      ...choices().slice(1).map(([kk, t]) => { const b = h('button', { type: 'button', value: kk.name }, t); b.onclick = () => make(kk); return b; }),
      ...(!k && isAddress(area.value) ? [h('button', { type: 'button', act: 'fetch-it' }, 'Fetch the file')] : []),
      ...(k && k !== kinds.file && !k.full ? [h('button.quiet', { type: 'button', act: 'new' }, 'All fields')] : []),
      ...choices().slice(0, 1).map(([, t]) => h('button.main', {}, t)));
  };
  const given = (kk) => {
    const text = area.value.trim();
    const first = k?.quick ?? kk.quick;
    return text ? { [first]: kk.fields.find((f) => f.name === first)?.keep ? area.value : text } : {};
  };
  const forget = () => { area.value = ''; draw(); };
  const complain = (e) => {
    const why = Object.values(e.fields ?? {});
    problem.textContent = why.length ? `This ${why.join(' and ')}.` : e.message;
    problem.hidden = false;
  };
  // fetchIt has the server get the file at the address.
  form.fetchIt = async () => {
    problem.hidden = true;
    try {
      await api('POST', 'remote-upload', { url: area.value.trim(), ...(visibility.value && { isPublic: true }) });
      forget();
      toast('The server fetches the file.', { action: 'Show', run: () => go(`${base}/remote-upload`) });
    } catch (e) { complain(e); }
  };
  const make = async (kk) => {
    const body = { ...given(kk), ...fields(), ...(visibility.value && { isPublic: true }) };
    problem.hidden = true;
    if (kk.full || !area.value.trim()) return go(`${base}/${kk.at}/new`);
    if (kk.fields.find((f) => f.name === kk.quick).type === 'url' && !/^\w+:/.test(body[kk.quick])) body[kk.quick] = 'https:' + '//' + body[kk.quick];
    if (kk === kinds.snippet && k !== kinds.snippet) body.content = area.value;
    const main_ = find('.main', does);
    if (main_) main_.disabled = true;
    try {
      const answer = await api('POST', kk.api, body);
      forget();
      settled(answer.data, true, answer.duplicateOf);
    } catch (e) {
      complain(e);
    } finally {
      if (main_) main_.disabled = false;
      if (matchMedia('(pointer: fine)').matches) area.focus();
    }
  };
  Object.assign(form, { given: () => ({ ...given(k), ...fields(), isPublic: !!visibility.value }), forget });
  form.addEventListener('submit', (e) => { e.preventDefault(); const [first] = choices(); if (first) make(first[0]); });
  area.addEventListener('input', () => { problem.hidden = true; draw(); });
  area.addEventListener('keydown', (e) => {
    const lines = !k || k.fields?.find((f) => f.name === k.quick)?.type === 'text';
    if (e.key === 'Enter' && !e.isComposing && (e.ctrlKey || e.metaKey || !e.shiftKey && (!lines || isAddress(area.value)))) { e.preventDefault(); form.requestSubmit(); }
  });
  picker.addEventListener('change', () => { form.files([...picker.files]); picker.value = ''; });
  form.files = (files) => {
    const { tags: names, ...rest } = fields();
    send(files, { ...rest, ...(names?.length && { newTags: names.join(',') }), isPublic: visibility.value ? 'true' : 'false' });
  };
  form.type = (text) => { area.value = area.value ? `${area.value}\n${text}` : text; area.focus(); draw(); };
  form.area = area;
  form.picker = picker;
  draw();
  return form;
}

// ---- Pages ----

let view = null; // what is shown: {key, signal, list, box, takes}
const kept = new Map(); // pages for the way back

// topics are the pages of the handbook that belong to pages of the app.
const topics = { search: 'search', bookmark: 'bookmarks', 'upload-requests': 'collecting', keys: 'programs', webhooks: 'webhooks', import: 'moving', 'remote-upload': 'remote-upload', account: 'signing-in', admin: 'configuration' };

function heading(title, count, ...tools) {
  const topic = topics[view.kind?.name ?? view.name];
  return h('div.head', {}, h('h1', {}, title), count, topic && h('a.button.quiet', { href: `${base}/help/${topic}` }, 'Help'), h('div.row', {}, tools));
}

function nothing(title, text, ...more) {
  return h('div.none', {}, h('p', {}, h('b', {}, title)), text && h('p.soft', {}, text), more);
}

// selectOf changes one parameter of the page's address.
function selectOf(name, label, choices, params, otherwise = '') {
  const el = h('select', { 'aria-label': label, 'data-param': name }, Object.entries(choices).map(([v, t]) => h('option', { value: v }, t)));
  el.value = params.get(name) ?? otherwise;
  if (el.selectedIndex < 0) el.value = otherwise;
  return el;
}

function withParam(params, name, value) {
  const next = new URLSearchParams(params);
  if (value) next.set(name, value);
  else next.delete(name);
  const text = next.toString();
  return text ? '?' + text : '';
}

// What lists are narrowed to by the page's address, beside words.
const narrows = ['tag', 'favorite', 'public', 'type', 'folder', 'unreachable', 'url'];

const pages = {
  home(v) {
    const count = Object.values(me.counts).some(Boolean) && h('small.soft', {}, [plural(Object.values(me.counts).reduce((a, b) => a + b, 0), 'item'), bytes(me.usedBytes ?? 0)].join(' · '));
    v.box = addBox();
    const asked = ['title', 'text', 'url'].map((n) => v.params.get(n)).filter(Boolean).join('\n');
    if (asked) v.box.type(asked);
    if (v.params.get('again') === 'files') toast('You were signed out, so the files were not kept. Share the files again.', { bad: true });
    if (asked || v.params.has('again')) history.replaceState(null, '', base + '/');
    v.list = listOf(new Source(Object.keys(kinds), {}, 12), {
      page: 40,
      empty: () => nothing('Nothing is here yet.', 'Drop a file on this page, paste a link, or write something into the box above.'),
    });
    v.takes = () => true;
    add(v.out, v.box, h('div.head', {}, h('h1', {}, 'Recent'), count), v.list.node);
    return 'Home';
  },

  kind(v) {
    const k = v.kind, p = v.params, file = k === kinds.file;
    const count = h('small.soft');
    const filters = [...narrows, 'q'].filter((n) => p.get(n));
    const grid = file && memory.get('grid', false);
    v.box = addBox({ kind: k.name, fields: () => ({ ...(file && folderFields(p)), ...(p.getAll('tag').length && { tags: p.getAll('tag') }) }) });
    const query = new URLSearchParams();
    for (const [name, value] of p) if ([...narrows, 'q', 'sort'].includes(name)) query.append(name, value);
    v.list = listOf(new Source([k.name], query, 50), {
      grid, counted: (n) => { count.textContent = plural(n, k.one); narrow.hidden = !n && !filters.length; },
      empty: () => filters.length
        ? nothing('No matches.', 'Nothing matches these filters.', h('a.button', { href: `${base}/${k.at}` }, 'Show all'))
        : nothing(`No ${k.many.toLowerCase()} yet.`, k.none),
    });
    v.takes = (r) => r.kind === k.name && !p.get('q') && !p.get('type') && (!p.get('folder') || [r.folder?.id ?? 'unfiled', r.folder?.name].includes(p.get('folder')));
    const tagSelect = () => {
      const names = tags.filter((t) => t.counts?.[k.name] || p.get('tag') === t.name).map((t) => t.name);
      return names.length ? selectOf('tag', 'Tag', { '': 'All tags', ...Object.fromEntries(names.map((n) => [n, n])) }, p) : document.createComment('');
    };
    let byTag = tagSelect(), bar = file && folderBar(p);
    // Tags and folders may come, or change, when the page is there.
    v.redraw = () => {
      if (byTag !== document.activeElement) byTag.replaceWith(byTag = tagSelect());
      if (!file) return;
      const had = bar.contains(document.activeElement) && document.activeElement.getAttribute('href');
      bar.replaceWith(bar = folderBar(p));
      if (had) all('a', bar).find((a) => a.getAttribute('href') === had)?.focus();
    };
    add(v.out, heading(k.many, count,
      file && iconButton('view-list', 'list', 'As a list', { 'aria-pressed': String(!grid) }),
      file && iconButton('view-grid', 'grid', 'As a grid', { 'aria-pressed': String(grid) }),
      button('new', '', { class: file ? 'main upload' : 'main', 'aria-keyshortcuts': 'n' }, icon(file ? 'upload' : 'plus'), file ? 'Upload' : 'New')));
    if (file) add(v.out, bar);
    const narrow = h('div.filters', {},
      file && selectOf('type', 'Type', { '': 'All types', ...classes }, p),
      byTag,
      h('a.chip.big', { href: `${base}/${k.at}${withParam(p, 'favorite', p.get('favorite') ? '' : 'true')}`, 'aria-current': p.get('favorite') ? 'true' : null }, icon('star'), 'Favourites'),
      k === kinds.bookmark && h('a.chip.big', { href: `${base}/${k.at}${withParam(p, 'unreachable', p.get('unreachable') ? '' : 'true')}`, 'aria-current': p.get('unreachable') ? 'true' : null }, 'Unreachable'),
      selectOf('public', 'Visibility', { '': 'Public and private', true: 'Public', false: 'Private' }, p),
      selectOf('sort', 'Order', { newest: 'Newest', oldest: 'Oldest', updated: 'Last changed', title: 'By name', views: `Most ${k.unit}s`, ...(file && { size: 'Largest' }) }, p, 'newest'),
      k === kinds.bookmark && p.get('url') && h('a.chip', { href: `${base}/${k.at}${withParam(p, 'url', '')}` }, h('span.cutoff', {}, p.get('url')), icon('close')),
      p.get('q') && h('a.chip', { href: `${base}/${k.at}${withParam(p, 'q', '')}` }, `“${p.get('q')}”`, icon('close')));
    add(v.out, v.box, narrow, v.list.node);
    return k.many;
  },

  search(v) {
    const p = v.params, box = find('#q');
    const words = (p.get('q') ?? '').trim();
    if (document.activeElement !== box) box.value = words || p.getAll('tag').map((t) => `tag:${t.includes(' ') ? `"${t}"` : t}`).join(' ');
    const query = new URLSearchParams(words && { q: words });
    const kind = kinds[p.get('kind')] ? p.get('kind') : '', tagged = p.getAll('tag');
    if (kind) query.set('kind', kind);
    for (const t of tagged) query.append('tag', t);
    const count = h('small.soft', { 'aria-live': 'polite' });
    const source = new Search(query);
    v.list = listOf(source, {
      page: 40, counted: (n) => { count.textContent = plural(n, 'item') + (source.incomplete ? ' so far: the search index is being made' : ''); },
      empty: () => nothing('Nothing was found.', 'Try fewer or other words. "words in a row", tag:x, kind:note, is:favorite and -word narrow a search.'),
    });
    const title = words ? `“${words}”` : tagged.join(' + ') || 'Everything';
    add(v.out, heading(title, count), h('div.filters', { role: 'group', 'aria-label': 'Kind' },
      [['', 'All'], ...Object.values(kinds).map((k) => [k.name, k.many])].map(([n, t]) =>
        h('a.chip.big', { href: `${base}/search${withParam(p, 'kind', n)}`, 'aria-current': n === kind ? 'true' : null }, t))), v.list.node);
    return words ? `Search: ${words}` : 'Search';
  },

  async tags(v) {
    await late();
    const sorted = [...tags].sort((a, b) => b.count - a.count || a.name.localeCompare(b.name));
    const form = h('form.quick', { novalidate: true, 'aria-label': 'New tag' }, h('input', { 'aria-label': 'New tag', placeholder: 'New tag', maxlength: '64' }), h('button.main', {}, 'Add'));
    form.onsubmit = async (e) => {
      e.preventDefault();
      const input = find('input', form);
      if (!input.value.trim()) return input.focus();
      try {
        await api('POST', 'tags', { name: input.value, color: palette[tags.length % palette.length] });
        await freshTags();
        rerender();
        find('form.quick input').focus();
      } catch (problem) { failed(problem); }
    };
    add(v.out, heading('Tags', h('small.soft', {}, plural(tags.length, 'tag'))), form,
      sorted.length ? h('ul.list', { 'aria-label': 'Tags' }, sorted.map((t) => {
        const color = h('input.color', { type: 'color', value: t.color.toLowerCase(), 'aria-label': `Colour of ${t.name}`, act: 'tag-color' });
        const row = h('li.item.plain', {}, color,
          h('div.what', {}, h('a.name', { href: `${base}/search?tag=${encodeURIComponent(t.name)}` }, t.name),
            h('div.meta', {}, t.count ? Object.values(kinds).filter((k) => t.counts?.[k.name]).map((k) =>
              h('a', { href: `${base}/${k.at}?tag=${encodeURIComponent(t.name)}` }, plural(t.counts[k.name], k.one))) : h('span', {}, 'not in use'))),
          h('div.acts', {}, iconButton('tag-rename', 'edit', `Rename ${t.name}`), sorted.length > 1 && button('tag-merge', 'Merge', { 'aria-label': `Merge ${t.name} into another tag` }), iconButton('tag-delete', 'trash', `Delete ${t.name}`)));
        row.tag = t;
        return row;
      })) : nothing('No tags yet.', 'Add tags to your items, and they appear here.'));
    return 'Tags';
  },

  async account(v) {
    const [sessions, keys] = await Promise.all([load('me/sessions', 'me/sessions?limit=500', v.signal), load('keys', 'keys?limit=500', v.signal)]);
    const held = keys?.data ?? [];
    const quota = me.quotaEffectiveBytes;
    const used = h('div.card', {}, h('h2', {}, 'Storage'), h('p', {}, quota ? `${bytes(me.usedBytes)} of ${bytes(quota)}` : `${bytes(me.usedBytes)}, without a limit`),
      quota ? meter(me.usedBytes / quota) : null,
      h('p.soft', {}, Object.values(kinds).map((k) => plural(me.counts[k.name] ?? 0, k.one)).join(' · ')));
    const profile = inline('Profile', [{ name: 'displayName', label: 'Display name', autocomplete: 'name' }], me, 'Save', async (now) => {
      me = (await api('PATCH', 'me', now)).data;
      toast('Saved.');
    });
    const password = inline('Password', [
      { name: 'currentPassword', label: 'Current password', type: 'password', autocomplete: 'current-password', required: true },
      { name: 'password', label: 'New password', type: 'password', autocomplete: 'new-password', required: true, hint: 'At least 8 characters. A few unrelated words are easy to remember and hard to guess.' },
      { name: 'repeat', label: 'Confirm new password', type: 'password', autocomplete: 'new-password', required: true, same: 'password' },
      ...(held.length ? [{
        name: 'revoke', label: 'Also revoke', type: 'checks', choices: Object.fromEntries(held.map((k) => [k.id, k.device ? `${k.name} (connected device)` : `${k.name} (API key)`])),
      }] : []),
    ], { revoke: held.filter((k) => k.device).map((k) => k.id) }, 'Change password', async ({ repeat, ...now }, form) => {
      await api('PATCH', 'me', now);
      form.set({ currentPassword: '', password: '', repeat: '' });
      toast(`Password changed. Other browsers are signed out.${now.revoke?.length ? ` ${plural(now.revoke.length, 'key')} revoked.` : ''}`);
      rerender();
    });
    const out = h('form', { method: 'post', action: `${base}/logout` }, h('button', {}, 'Sign out'));
    add(v.out, heading('Account', h('small.soft', {}, `${me.username}${me.role === 'admin' ? ', administrator' : ''}`), out), h('div.cards', {}, used, profile, password), sessions && sessionList(sessions.data));
    return 'Account';
  },

  admin: async (v) => (await module('admin'))(v),
  'upload-requests': async (v) => (await module('requests'))(v),
  keys: async (v) => (await module('keys'))(v),
  webhooks: async (v) => (await module('webhooks'))(v),
  import: async (v) => (await module('moving'))(v),
  'remote-upload': async (v) => (await module('remote'))(v),
};

// module is a page that is loaded when it is first opened.
const modules = {};
function module(name) {
  modules[name] ??= import(start.modules[name]).then((m) => m.default({
    h, add, find, all, icon, button, iconButton, plural, number, bytes, when, hostOf, api, load, ask, dialog, toast, failed, later, clip, copy, copyAddress, heading, nothing, rerender, rowOfEvent, meter, newID, acts, kinds, inline, start, Problem, base, here, pending, sessionList, put, whole, go, isAddress, get me() { return me; },
  }), () => { delete modules[name]; throw problemOf(0); });
  return modules[name];
}

// pending shows how many uploads wait: so many more, or a number.
let waits = start.pending ?? 0;
function pending(more, count = waits + more) {
  waits = Math.max(0, count);
  for (const el of all('.rail .waits')) {
    el.hidden = !waits;
    el.firstChild.textContent = waits > 999 ? '999+' : waits;
  }
}
pending(0);
setInterval(() => {
  if (document.hidden) return;
  fetch(`${base}/api/v1/upload-requests/queue?limit=1`).then((a) => a.ok && a.json()).then((q) => q && pending(null, q.total), () => {});
}, 60e3);

// load is an answer that came along or is fetched; null where the caller may not have it.
async function load(name, path, signal) {
  const had = take(name);
  if (had) return had;
  try {
    return await api('GET', path, undefined, { signal });
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    if (e.status !== 404 && e.status !== 403) failed(e);
    return null;
  }
}

function meter(part) {
  const el = h('div.bar', { role: 'img', 'aria-label': `${Math.round(part * 100)} percent` }, h('i'));
  el.firstChild.style.width = Math.min(100, part * 100) + '%';
  return el;
}

// inline is a form on a page of settings.
function inline(title, fields, values, label, run) {
  const form = new Form(fields, values);
  const go = h('button', {}, label);
  const node = h('form.card', { novalidate: true, 'aria-label': title }, h('h2', {}, title), form.node, h('div.row', {}, go));
  node.onsubmit = async (e) => {
    e.preventDefault();
    if (!form.check()) return;
    go.disabled = true;
    try { form.complain(null); await run(form.values, form); } catch (problem) { form.complain(problem); } finally { go.disabled = false; }
  };
  return node;
}

const palette = ['#0F6B5C', '#3F7FD0', '#D98A2B', '#8A5BC7', '#C2473D', '#2E8B57', '#B0568F', '#5B6B7C'];

function folderBar(p) {
  const folder = folderOf(p);
  const link = (label, value, count) => h('a.chip.big', { href: `${base}/files${withParam(p, 'folder', value)}`, 'aria-current': (p.get('folder') ?? '') === value ? 'true' : null }, value && value !== 'unfiled' ? icon('folder') : null, label, count !== undefined && h('small', {}, ' ' + number(count)));
  return h('div.filters.folders', { role: 'group', 'aria-label': 'Folders' }, link('All files', ''), link('Unfiled', 'unfiled'),
    folders.map((f) => link(f.name, f.id, f.count)), iconButton('folder-new', 'plus', 'New folder'),
    folder && iconButton('folder-rename', 'edit', `Rename the folder ${folder.name}`), folder && iconButton('folder-delete', 'trash', `Delete the folder ${folder.name}; its files stay`));
}

function browserName(agent) {
  const name = /Edg\//.test(agent) ? 'Edge' : /Firefox\//.test(agent) ? 'Firefox' : /Chrome\//.test(agent) ? 'Chrome' : /Safari\//.test(agent) ? 'Safari' : agent.slice(0, 40) || 'Browser';
  const on = /Android/.test(agent) ? 'Android' : /iPhone|iPad/.test(agent) ? 'iOS' : /Windows/.test(agent) ? 'Windows' : /Mac OS/.test(agent) ? 'macOS' : /Linux/.test(agent) ? 'Linux' : '';
  return on ? `${name} on ${on}` : name;
}

function sessionList(sessions) {
  return [h('div.head', {}, h('h2', {}, 'Signed in'), h('small.soft', {}, plural(sessions.length, 'browser'))),
    h('ul.list', { 'aria-label': 'Browsers that are signed in' }, sessions.map((s) => {
      const row = h('li.item.plain', {}, h('span.pic', {}, icon('user')), h('div.what', {}, h('span.name', {}, browserName(s.agent)),
        h('div.meta', {}, s.current && h('span.badge.on', {}, 'this one'), h('span', {}, s.address), h('span', {}, 'since ', when(s.createdAt)), s.lastUsedAt && h('span', {}, 'used ', when(s.lastUsedAt)))),
      h('div.acts', {}, !s.current && button('session-end', 'Sign out', { 'aria-label': `Sign out ${browserName(s.agent)}` })));
      row.session = s;
      return row;
    })), sessions.length > 1 && h('div.row', {}, button('sessions-end', 'Sign out all others'))];
}

// ---- From address to page ----

function parse(url) {
  const path = url.pathname.slice(base.length).replace(/^\/+|\/+$/g, '');
  const [place, id] = path.split('/');
  const params = url.searchParams;
  if (!place) return { name: 'home', key: 'home', params };
  if (byPlace[place]) return { name: 'kind', kind: byPlace[place], id: id && decodeURIComponent(id), key: place + url.search, params };
  if (pages[place] && !id && place !== 'home' && place !== 'kind') return { name: place, key: place + url.search, params };
  return null;
}

// show draws what the address asks for. A single item is opened above whatever is there.
async function show(to, { back = false } = {}) {
  if (to.id && view) {
    openItem(to);
    return;
  }
  if (editor) { editor.leaving = true; editor.el.close('left'); }
  if (view && view.key === to.key && back) return;
  leave();
  const aborter = new AbortController();
  view = { ...to, aborter, signal: aborter.signal };
  const was = back && kept.get(to.key);
  for (const a of all('.rail a[data-nav]')) {
    const on = parse(new URL(a.href))?.name === to.name && (to.name !== 'kind' || a.dataset.nav === to.kind.name);
    if (on) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  find('.rail .all').toggleAttribute('aria-current', !all('.rail a[aria-current]').some((a) => !a.classList.contains('more')));
  if (was && was.changed === changed && Date.now() - was.at < 12e4) {
    Object.assign(view, was.view, { aborter, signal: aborter.signal });
    main.replaceChildren(...was.nodes);
    document.title = was.title;
    scrollTo(0, was.scroll);
    return;
  }
  const mine = view;
  view.out = document.createDocumentFragment();
  try {
    const title = await pages[to.name](view);
    if (view !== mine) return;
    main.replaceChildren(view.out); // not before: an empty page would flash
    document.title = `${title} · kist`;
  } catch (e) {
    if (e.name === 'AbortError') return;
    main.replaceChildren(h('p.alert', { role: 'alert' }, e.message), button('again', 'Try again'));
  }
  if (!back) scrollTo(0, 0);
  await mine.list?.load(mine.signal);
  if (to.id && view === mine) openItem(to);
}

function leave() {
  selected.clear();
  if (!view) return;
  view.aborter.abort();
  kept.set(view.key, { view, nodes: [...main.childNodes], title: document.title, scroll: scrollY, changed, at: Date.now() });
  if (kept.size > 6) kept.delete(kept.keys().next().value);
}

// rerender draws the page again, and leaves the eye and the focus where they were.
async function rerender() {
  kept.clear();
  changed++;
  const at = scrollY, v = view, had = document.activeElement?.closest('#main [data-act]');
  const same = had && `[data-act="${had.dataset.act}"]` + (had.ariaLabel ? `[aria-label="${CSS.escape(had.ariaLabel)}"]` : '');
  view = null;
  await show({ name: v.name, kind: v.kind, key: v.key, params: v.params });
  scrollTo(0, at);
  if (same && document.activeElement === document.body) find('#main ' + same)?.focus();
}

async function openItem(to) {
  const close = (why) => {
    if (why === 'left' || why === 'replaced' || editor?.leaving) return;
    const under = view ? addressOfView() : `${base}/${to.kind.at}`;
    if (history.state?.over) {
      returning = new Promise((done) => { addEventListener('popstate', done, { once: true }); });
      history.back();
    }
    else history.replaceState(null, '', under);
    if (view) document.title = view.title ?? document.title;
  };
  if (to.id === 'new') {
    // What was begun in the box goes on in the editor.
    const box = view?.kind === to.kind && to.kind !== kinds.file ? view.box : null;
    const asked = {}; // by the address, as the bookmarklet does
    for (const name of ['url', 'title', 'description']) {
      asked[name] = to.params.get(name) ?? '';
      to.params.delete(name);
    }
    if (asked.url) return edit(to.kind, null, asked, close, asked.url);
    return edit(to.kind, null, box?.given() ?? {}, (why) => { if (why === 'done') box?.forget(); close(why); });
  }
  const answer = take(`${to.kind.api}/{${to.kind === kinds.file ? 'slug' : 'id'}}`);
  try {
    const r = answer?.data ?? (await api('GET', `${to.kind.api}/${encodeURIComponent(to.id)}`)).data;
    await edit(to.kind, r, {}, close);
  } catch (e) {
    failed(e.status === 404 ? new Problem(`There is no such ${to.kind.one}; it may have been deleted.`) : e);
    close('');
  }
}

const addressOfView = () => view.name === 'home' ? base + '/' : view.name === 'kind' ? `${base}/${view.kind.at}${withParam(view.params, '', '')}` : `${base}/${view.name}${withParam(view.params, '', '')}`;

// returning is a step back under way, which the next step must not overtake.
let returning = null;

async function go(href, { replace = false } = {}) {
  await returning;
  returning = null;
  const url = new URL(href, location.href);
  const to = url.origin === location.origin && url.pathname.startsWith(base + '/') ? parse(url) : null;
  if (!to) { location.href = href; return; }
  history[replace ? 'replaceState' : 'pushState'](to.id ? { over: !replace } : null, '', url);
  await show(to);
}

addEventListener('popstate', () => {
  const to = parse(new URL(location.href));
  if (to) show(to, { back: true });
  else location.reload();
});

// ---- What is done by a click ----

const rowOfEvent = (el) => el.closest('.item');

// current is the row that the keyboard is at.
const current = () => document.activeElement?.closest?.('#main .item');

async function save(r, body) {
  try { put((await api('PATCH', pathOf(r), body)).data); return true; } catch (e) { failed(e); return false; }
}

let lastPicked = null;

const acts = {
  menu() {
    const d = dialog('Everything');
    d.body.append(h('nav.sheet-nav', { 'aria-label': 'All pages' }, all('.rail a:not(.brand)').map((a) => { const c = a.cloneNode(true); c.className = ''; return c; })));
    d.body.addEventListener('click', (e) => { if (e.target.closest('a')) d.el.close(); });
  },
  help,
  'dialog-close': (el) => el.closest('dialog').close(),
  'toast-close': (el) => el.closest('.toast').end(),
  'toast-run': (el) => el.closest('.toast').end(true),
  'copy-text': (el) => copyAddress(el.dataset.text),
  more: () => view.list.load(view.signal),
  again: () => rerender(),
  new: () => create(),
  choose: (el) => find('input[type=file]', el.closest('form')).click(),
  'fetch-it': (el) => el.closest('form').fetchIt(),

  pick(el, e) {
    const row = rowOfEvent(el);
    const rows = all('.item', row.parentElement);
    const range = e.shiftKey && lastPicked?.isConnected ? rows.slice(...[rows.indexOf(lastPicked), rows.indexOf(row)].sort((a, b) => a - b).map((n, i) => n + i)) : [row];
    for (const one of range) {
      find('.pick input', one).checked = el.checked;
      if (el.checked) selected.set(one.record.id, one.record);
      else selected.delete(one.record.id);
    }
    lastPicked = row;
    view.list.picked();
  },
  'pick-all'() {
    for (const row of all('.item', view.list.ul)) { selected.set(row.record.id, row.record); find('.pick input', row).checked = true; }
    view.list.picked();
  },
  'pick-none'() {
    selected.clear();
    for (const box of all('.pick input')) box.checked = false;
    view.list?.picked();
  },
  'bulk-delete': () => remove([...selected.values()]),
  'bulk-tag'() {
    const records = [...selected.values()];
    const had = [...new Set(records.flatMap(tagNames))];
    ask({
      title: `Tags of ${plural(records.length, 'item')}`, button: 'Change',
      fields: [{ name: 'more', label: 'Add', type: 'tags' }, ...(had.length ? [{ name: 'less', label: 'Take away', type: 'checks', choices: Object.fromEntries(had.map((n) => [n, n])) }] : [])],
      run: ({ more, less = [] }) => {
        eachOf(records, (r) => ({ tags: [...new Set([...tagNames(r), ...more])].filter((n) => !less.includes(n)) }), 'Tags changed.');
      },
    });
  },
  'bulk-folder'() {
    const records = [...selected.values()];
    ask({
      title: `Move ${plural(records.length, 'file')}`, button: 'Move', text: 'A folder that is not there yet is made. Leave it empty to take them out of their folders.',
      fields: [{ name: 'folderName', label: 'Folder', type: 'folder' }],
      run: async ({ folderName }) => {
        eachOf(records, () => folderName.trim() ? { folderName } : { folderId: null }, 'Moved.').then(async () => { await freshFolders(); rerender(); });
      },
    });
  },
  'bulk-share'() {
    const records = [...selected.values()];
    ask({
      title: `Sharing of ${plural(records.length, 'item')}`, button: 'Change',
      fields: [{ name: 'isPublic', label: 'Who can see them', type: 'choice', choices: { true: 'Anyone with the link', false: 'Only me' } },
        { name: 'isFavorite', label: 'Favourites', type: 'choice', choices: { true: 'Mark as favourites', false: 'Remove the mark' } }],
      run: (now) => {
        const body = Object.fromEntries(Object.entries(now).filter(([, v]) => v !== null).map(([n, v]) => [n, v === 'true']));
        if (Object.keys(body).length) eachOf(records, () => body, 'Changed.');
      },
    });
  },

  star: (el) => { const r = rowOfEvent(el).record; el.setAttribute('aria-pressed', String(!r.isFavorite)); save(r, { isFavorite: !r.isFavorite }); },
  'share-item': (el) => shareAny(rowOfEvent(el).record),
  edit: (el) => go(placeOf(rowOfEvent(el).record)),
  copy: (el) => { const r = rowOfEvent(el).record; copyAddress(addressOf(r)); },
  publish: async (el) => {
    const r = rowOfEvent(el).record;
    if (await save(r, { isPublic: !r.isPublic })) toast(r.isPublic ? 'Private: only you can see it.' : 'Public: anyone with the link can see it.', r.isPublic ? {} : { action: 'Copy link', run: () => copyAddress(addressOf(r)) });
  },
  delete: (el) => removeRow(rowOfEvent(el)),
  'editor-share': () => share(editor.record),
  'editor-copy': () => copyAddress(addressOf(editor.record)),
  'editor-delete': () => { const r = editor.record; editor.el.close('deleted'); remove([r]); },

  'upload-cancel': (el) => {
    const u = el.closest('.item').upload;
    clearTimeout(u.timer);
    u.state = 'cancelled';
    if (u.tus) u.tus.cancel(u, { ...u.tus.ofOwner(me.id, base), memory });
    else u.xhr?.abort();
    uploads.queue = uploads.queue.filter((x) => x !== u);
    u.row.remove();
    pump();
    if (!uploads.queue.some(going) && uploads.finished.length) finished(uploads.finished.splice(0));
  },
  'upload-pause': (el) => { const u = el.closest('.item').upload; u.state = 'halts'; u.tus?.pause(u); pump(); },
  'upload-retry': (el) => { const u = el.closest('.item').upload; clearTimeout(u.timer); Object.assign(u, { state: 'waits', tries: 0 }); pump(); },
  'uploads-clear': () => { for (const u of uploads.queue) u.row.remove(); uploads.queue = []; drawUploads(); },
  'view-list': () => { memory.set('grid', false); rerender(); },
  'view-grid': () => { memory.set('grid', true); rerender(); },

  'folder-new': () => ask({
    title: 'New folder', fields: [{ name: 'name', label: 'Name', required: true }], button: 'Make the folder',
    run: async (now) => { const f = (await api('POST', 'folders', now)).data; await freshFolders(); go(`${base}/files?folder=${f.id}`); },
  }),
  'folder-rename'() {
    const f = folderOf(view.params);
    ask({ title: `Rename ${f.name}`, fields: [{ name: 'name', label: 'Name', required: true }], values: f, run: async (now) => { await api('PATCH', `folders/${f.id}`, now); await freshFolders(); rerender(); } });
  },
  'folder-delete'() {
    const f = folderOf(view.params);
    folders = folders.filter((x) => x !== f);
    go(`${base}/files`);
    later(`Deleted the folder “${clip(f.name)}”; its files stay.`, [`folders/${f.id}`], () => { folders.push(f); rerender(); });
  },

  'tag-rename'(el) {
    const t = rowOfEvent(el).tag;
    ask({
      title: `Rename ${t.name}`, fields: [{ name: 'name', label: 'Name', required: true }], values: t,
      run: async (now) => { await api('PATCH', `tags/${t.id}`, now); await freshTags(); rerender(); },
    });
  },
  'tag-merge'(el) {
    const t = rowOfEvent(el).tag;
    ask({
      title: `Merge ${t.name}`, text: `Everything with the tag “${t.name}” gets the other one in its place. This cannot be undone.`, button: 'Merge',
      fields: [{ name: 'into', label: 'Into', type: 'choice', required: true, choices: Object.fromEntries(tags.filter((x) => x !== t).map((x) => [x.id, x.name])) }],
      run: async (now) => { await api('POST', `tags/${t.id}/merge`, now); await freshTags(); rerender(); toast(`Merged “${t.name}”.`); },
    });
  },
  'tag-delete'(el) {
    const row = rowOfEvent(el), t = row.tag, mark = document.createComment('');
    row.replaceWith(mark);
    tags = tags.filter((x) => x !== t);
    later(`Deleted the tag “${t.name}”; what had it stays.`, [`tags/${t.id}`], () => { tags.push(t); if (mark.isConnected) mark.replaceWith(row); });
  },

  async 'session-end'(el) {
    const row = rowOfEvent(el);
    try { await api('DELETE', `me/sessions/${row.session.id}`); row.remove(); toast('Signed out there.'); } catch (e) { failed(e); }
  },
  async 'sessions-end'() {
    try { await api('DELETE', 'me/sessions'); rerender(); toast('Signed out everywhere else.'); } catch (e) { failed(e); }
  },

  async tokens(el) {
    const off = !el.checked;
    try {
      await api('PATCH', 'admin/settings', { apiTokensDisabled: off });
      toast(off ? 'API keys are off for everyone.' : 'API keys work again.');
    } catch (e) { el.checked = off; failed(e); }
  },
  'user-new': () => userForm(null),
  'user-edit': (el) => userForm(rowOfEvent(el).user),
  'user-delete'(el) {
    const u = rowOfEvent(el).user;
    ask({
      title: `Delete ${u.username}?`, danger: true, button: 'Delete account', text: `This deletes the account and everything in it: ${plural(Object.values(u.counts).reduce((a, b) => a + b, 0), 'item')}, ${bytes(u.usedBytes)}. It cannot be undone. To keep the content, disable it instead.`,
      fields: [{ name: 'name', label: `Type ${u.username} to go on`, required: true, plain: true }],
      run: async ({ name }) => {
        if (name !== u.username) throw new Problem('', 0, { name: 'must be the name of the user' });
        await api('DELETE', `admin/users/${u.id}`);
        rerender();
        toast(`Deleted ${u.username}.`);
      },
    });
  },
};

function userForm(u) {
  ask({
    title: u ? `Edit ${u.username}` : 'New user', button: u ? 'Save' : 'Add the user',
    fields: [
      { name: 'username', label: 'User name', required: true, plain: true, half: true },
      { name: 'displayName', label: 'Display name', half: true },
      { name: 'password', label: u ? 'New password' : 'Password', type: 'password', required: !u, autocomplete: 'new-password', placeholder: u ? 'as it is' : '', hint: u ? 'At least 8 characters. A new one signs the user out and revokes connected devices.' : 'At least 8 characters.' },
      { name: 'role', label: 'Role', type: 'choice', required: true, half: true, choices: { user: 'User', admin: 'Administrator' } },
      { name: 'quotaBytes', label: 'Storage', type: 'size', placeholder: 'as for all', half: true },
      { name: 'apiTokensDisabled', label: 'API keys are off', type: 'check' },
      { name: 'disabled', label: 'Account disabled', type: 'check' },
    ],
    values: u ?? { role: 'user' },
    run: async (now) => {
      if (!now.password) delete now.password;
      if (u && u.quotaBytes && now.quotaBytes && bytes(now.quotaBytes) === bytes(u.quotaBytes)) delete now.quotaBytes; // it was rounded to be shown
      if (u) await api('PATCH', `admin/users/${u.id}`, now);
      else await api('POST', 'admin/users', now);
      rerender();
    },
  });
}

// shareAny opens the share dialog; a result of the search does not have all that it needs.
async function shareAny(r) {
  try { share('isPublic' in r ? r : await whole(r)); } catch (e) { failed(e); }
}

function removeRow(row) {
  const next = row.nextElementSibling ?? row.previousElementSibling;
  remove([row.record]);
  find('a.name', next ?? main)?.focus();
}

const news = { keys: 'key-new', webhooks: 'hook-new', admin: 'user-new' };

function create() {
  if (view?.name === 'kind' && view.kind !== kinds.file) go(`${base}/${view.kind.at}/new`);
  else if (view?.kind === kinds.file) view.box.picker.click();
  else if (view?.box) view.box.area.focus();
  else if (view?.name === 'tags') find('form.quick input').focus();
  else if (acts[news[view?.name]]) acts[news[view.name]]();
  else go(base + '/');
}

document.addEventListener('click', (e) => {
  for (const menu of all('details.menu[open]')) if (!menu.contains(e.target) || e.target.closest('.pop')) menu.open = false;
  const el = e.target.closest('[data-act]');
  if (el && acts[el.dataset.act] && !el.matches('input[type=color]')) {
    if (!el.matches('input')) e.preventDefault();
    return acts[el.dataset.act](el, e);
  }
  const a = e.target.closest('a[href]');
  if (!a || a.target || a.hasAttribute('download') || e.button || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey || a.classList.contains('skip')) return;
  const url = new URL(a.href);
  if (url.origin !== location.origin || !url.pathname.startsWith(base + '/') || !parse(url)) return;
  e.preventDefault();
  go(a.href);
});

document.addEventListener('toggle', (e) => { if (e.target.matches?.('details.menu') && e.target.open) fillMenu(e.target); }, true);

document.addEventListener('change', async (e) => {
  const el = e.target;
  if (el.dataset.param) {
    const value = el.value === (el.dataset.param === 'sort' ? 'newest' : '') ? '' : el.value;
    await go(location.pathname + withParam(view.params, el.dataset.param, value));
    find(`[data-param="${el.dataset.param}"]`)?.focus();
  }
  if (el.dataset.act === 'tag-color') {
    try { await api('PATCH', `tags/${rowOfEvent(el).tag.id}`, { color: el.value }); freshTags(); changed++; } catch (problem) { failed(problem); }
  }
});

// A picture that cannot be shown leaves the letters that are under it.
document.addEventListener('error', (e) => { if (e.target.matches?.('.pic img')) e.target.remove(); }, true);

// ---- Searching ----

const searchForm = find('.top form');
let searchTimer = 0;
function searchNow() {
  clearTimeout(searchTimer);
  const q = find('#q').value.trim();
  if (q) go(`${base}/search?q=${encodeURIComponent(q)}`, { replace: view?.name === 'search' });
  else if (view?.name === 'search') go(base + '/', { replace: true });
}
searchForm.addEventListener('submit', (e) => {
  e.preventDefault();
  // Once the results are there, Enter goes to the first of them.
  if (view?.name === 'search' && view.params.get('q') === find('#q').value.trim() && all('#main .item').length) step(1);
  else searchNow();
});
find('#q').addEventListener('input', () => { clearTimeout(searchTimer); searchTimer = setTimeout(searchNow, 250); });

// ---- Keys ----

const shortcuts = [
  ['/', 'Search'], ['n', 'New'], ['↑ ↓ or j k', 'Move in the list'], ['Enter', 'Open'], ['e', 'Edit'], ['s', 'Share'], ['c', 'Copy the link'], ['f', 'Favourite'],
  ['x', 'Select'], ['Delete', 'Delete, with five seconds to undo'], ['u', 'Undo'], ['Ctrl Enter', 'Save'], ['Esc', 'Close, or leave the selection'], ['g then h f b n s r a l t', 'Go to home, files, bookmarks, notes, snippets, recipes, games, links, tags'], ['?', 'This list'],
];

function help() {
  const d = dialog('Keyboard and help');
  const on = h('input', { type: 'checkbox', checked: memory.get('keys', true) });
  on.onchange = () => memory.set('keys', on.checked);
  d.body.append(h('dl.keys', {}, shortcuts.flatMap(([key, what]) => [h('dt', {}, key.split(' ').map((part) => /^(or|then)$/.test(part) ? ` ${part} ` : [h('kbd', {}, part), ' '])), h('dd', {}, what)])),
    h('label.check', {}, on, h('span', {}, 'Keys of one letter work')),
    h('p.soft', {}, 'Files can be dropped on every page and pictures pasted anywhere. More is in the ', h('a', { href: `${base}/help` }, 'handbook'), '. Everything here is also in the ', h('a', { href: `${base}/api/v1/reference` }, 'API'), '.'));
}

let chord = 0;
const places = { h: '', f: 'files', b: 'bookmarks', n: 'notes', s: 'snippets', r: 'recipes', a: 'games', l: 'links', t: 'tags' };

function step(way) {
  const rows = all('#main .item');
  if (!rows.length) return;
  const at = rows.indexOf(current());
  const row = at < 0 ? rows[way > 0 ? 0 : rows.length - 1] : rows[Math.max(0, Math.min(rows.length - 1, at + way))];
  (find('a.name', row) ?? find('a, button, input', row))?.focus();
  row.scrollIntoView({ block: 'nearest' });
}

document.addEventListener('keydown', (e) => {
  if (e.isComposing || e.defaultPrevented) return;
  const open = all('dialog[open]').pop();
  const typing = e.target.matches?.('input:not([type=checkbox], [type=color]), textarea, select');
  if ((e.ctrlKey || e.metaKey) && e.key === 'Enter' && open) { e.preventDefault(); find('form', open)?.requestSubmit(); return; }
  if (e.key === 'Escape' && !open) {
    const menu = find('details.menu[open]');
    if (menu) { menu.open = false; find('summary', menu).focus(); return; }
    if (typing) { e.target.blur(); return; }
    if (selected.size) { acts['pick-none'](); return; }
    all('.toast').pop()?.end();
    return;
  }
  if (open || e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.target.id === 'q' && e.key === 'ArrowDown') { e.preventDefault(); step(1); return; }
  if (typing) return;
  const menu = e.target.closest?.('details.menu[open]');
  if (menu && /^Arrow(Up|Down)$/.test(e.key)) {
    e.preventDefault();
    const items = all('.pop > *', menu);
    items[(items.indexOf(document.activeElement) + (e.key === 'ArrowDown' ? 1 : items.length)) % items.length]?.focus();
    return;
  }
  if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
    const wide = find('#main .list.grid') ? Math.max(1, getComputedStyle(find('#main .list.grid')).gridTemplateColumns.split(' ').length) : 1;
    if (all('#main .item').length) { e.preventDefault(); step(e.key === 'ArrowDown' ? wide : -wide); }
    return;
  }
  if ((e.key === 'ArrowLeft' || e.key === 'ArrowRight') && find('#main .list.grid') && current()) { e.preventDefault(); step(e.key === 'ArrowRight' ? 1 : -1); return; }
  const row = current();
  if (e.key === 'Delete' && row?.record) { e.preventDefault(); if (selected.size) remove([...selected.values()]); else removeRow(row); return; }
  if (e.key.length > 1 || !memory.get('keys', true)) return;
  if (Date.now() - chord < 1200 && e.key in places) { chord = 0; e.preventDefault(); go(`${base}/${places[e.key]}`); return; }
  const record = row?.record;
  const keys = {
    '/': () => { find('#q').focus(); find('#q').select(); }, n: create, '?': help, j: () => step(1), k: () => step(-1), g: () => { chord = Date.now(); },
    u: () => all('.toast').reverse().find((t) => find('[data-act="toast-run"]', t)?.textContent === 'Undo')?.end(true),
    ...(record && {
      e: () => go(placeOf(record)), s: () => shareAny(record), c: () => copyAddress(addressOf(record)), f: () => save(record, { isFavorite: !record.isFavorite }), x: () => find('.pick input', row).click(),
    }),
  };
  if (keys[e.key]) { e.preventDefault(); keys[e.key](); }
});

// ---- Dropping and pasting ----

const veil = h('div.veil', { hidden: true, 'aria-hidden': 'true' }, h('p', {}, icon('upload'), 'Drop to add'));
document.body.append(veil);
let depth = 0;
const takesDrop = (e) => [...(e.dataTransfer?.types ?? [])].some((t) => t === 'Files' || t === 'text/uri-list' || t === 'text/plain');
// What is dragged within the page is not for dropping.
let inside = false;
addEventListener('dragstart', () => { inside = true; });
addEventListener('dragend', () => { inside = false; });
addEventListener('dragenter', (e) => { if (takesDrop(e) && !inside) { depth++; veil.hidden = false; } });
addEventListener('dragleave', () => { depth = Math.max(0, depth - 1); veil.hidden = depth === 0; });
addEventListener('dragover', (e) => { if (takesDrop(e) && !inside && !e.target.matches?.('textarea, input')) { e.preventDefault(); e.dataTransfer.dropEffect = 'copy'; } else if ([...(e.dataTransfer?.types ?? [])].includes('Files')) e.preventDefault(); });
addEventListener('drop', async (e) => {
  depth = 0;
  veil.hidden = true;
  const files = [...(e.dataTransfer?.types ?? [])].includes('Files');
  if (inside || !takesDrop(e) || !files && e.target.matches?.('textarea, input')) return;
  e.preventDefault();
  if (files) return filesCame(await dropped(e.dataTransfer));
  textCame(e.dataTransfer.getData('text/uri-list').split('\n').find((l) => l && l[0] !== '#') || e.dataTransfer.getData('text/plain'));
});

function filesCame(files) {
  if (view?.box && (view.name === 'home' || view.kind === kinds.file)) view.box.files(files);
  else send(files, { isPublic: memory.get('public') ? 'true' : 'false' });
}

function textCame(text) {
  if (!text) return;
  if (view?.box?.area.isConnected) view.box.type(text);
  else go(base + '/').then(() => view.box.type(text));
}

addEventListener('paste', (e) => {
  const files = [...(e.clipboardData?.files ?? [])];
  if (files.length) {
    e.preventDefault();
    // Pictures from the clipboard all have the same name.
    const stamp = local(new Date()).replace('T', ' ').replace(':', '.');
    return filesCame(files.map((f) => /^image\.\w+$/.test(f.name) ? new File([f], f.name.replace('image', `pasted ${stamp}`), { type: f.type }) : f));
  }
  if (find('dialog[open]') || e.target.matches?.('input, textarea')) return;
  const text = e.clipboardData?.getData('text/plain');
  if (text?.trim()) { e.preventDefault(); textCame(text.trim()); }
});

// ---- Begin ----

// complete shows what comes late on the page that is there, or says that it did not come.
async function complete() {
  try {
    await late();
    changed++; // pages kept for the way back have neither
    for (const row of all('#main .item')) if (row.record && !row.contains(document.activeElement)) row.replaceWith(rowOf(row.record));
    view?.redraw?.();
  } catch (e) {
    if (view?.name !== 'tags' && e.status !== 401) toast(`Tags and folders are missing here. ${e.message}`, { bad: true, action: 'Try again', run: complete }); // the page of tags says it on its own
  }
}
if (missing.length) complete();
if (!(start.answers.me)) failed(new Problem('Your account could not be read. Load the page again in a moment.'));
show(parse(new URL(location.href)) ?? parse(new URL(base + '/', location.href)));
})();
