// Saving: the requests for each kind of item.
import { ext } from './browser.js';
import { api, connection, formOf, forms } from './client.js';
import { passes, pause, Problem } from './connect.js';
import { copied, fetched, selected } from './page.js';
import { problemText, t } from './text.js';

/** addressOf is the address to give to others: the redirect of a short link, the page of everything else. */
export const addressOf = (r) => (r.kind === 'shortlink' ? r.url : (r.shareUrl ?? r.viewUrl ?? r.url));

export const isWeb = (address) => /^https?:\/\//i.test(address ?? '');

/** cut returns the beginning of a text, at most max characters. */
export const cut = (text, max) => [...(text ?? '').slice(0, 2 * max)].slice(0, max).join('');

/** inPage runs a function of page.js in a tab and returns its value, or null if the browser does not allow that. */
async function inPage(tab, func, args = [], frame = 0) {
  if (!tab?.id) return null;
  try {
    const target = { tabId: tab.id, frameIds: [frame] };
    const [{ result }] = await ext.scripting.executeScript({ target, func, args });
    return result ?? null;
  } catch {
    return null;
  }
}

/** selectionOf is the text selected in a tab, with its line breaks; '' if nothing is selected or it cannot be read. */
export async function selectionOf(tab, frame) {
  const text = await inPage(tab, selected, [], frame) ?? '';
  return text.replace(/^\s*\n|\s+$/g, '');
}

/** copy puts text on the clipboard. If the browser refuses and a tab is given, a script in that tab tries. */
export async function copy(text, tab) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return await inPage(tab, copied, [text]) === true;
  }
}

/**
 * copyLink puts the link of what was saved on the clipboard if others can open it. It returns what to say about that.
 */
export async function copyLink({ record, address }, tab) {
  if (!record || !address) return '';
  if (!record.isPublic) return t('extension.notShared');
  return await copy(address, tab) ? t('extension.linkCopied') : '';
}

/** fit cuts a text to what a field of a kind takes. */
export const fit = (k, name, text) => cut(text, k.fields.find((f) => f.name === name).maxLength);

/** share has the fields that all kinds have. */
const share = ({ isPublic, password, limit, atLimit }, name = 'maxViews') => ({
  isPublic: !!isPublic,
  ...(password && { password }),
  ...(limit && { [name]: Number(limit), maxViewsAction: atLimit || 'make_private' }),
});

/** tagsOf are the names in a list that a person typed, separated by commas. */
const tagsOf = (text) => [...new Set((text ?? '').split(',').map((t) => t.trim()).filter(Boolean))];

const needWeb = (address) => {
  if (!isWeb(address)) throw new Problem(t('extension.needWeb'));
};

/** bookmark saves an address. With seen, a bookmark as the user has seen it, it changes that bookmark. */
export async function bookmark(f) {
  needWeb(f.url);
  const k = await formOf('bookmark');
  const fields = { title: fit(k, 'title', f.title), description: fit(k, 'description', f.text), ...share(f) };
  if (f.seen) return done(await change(f.seen, fields, tagsOf(f.tags)), t('extension.bookmarkChanged'));
  const { data } = await api('POST', 'bookmarks', { url: f.url, ...fields, tags: tagsOf(f.tags) });
  return done(data, t('extension.bookmarkSaved'));
}

/** namesOf are the names of the tags of a record. */
export const namesOf = (r) => r.tags.map((tag) => tag.name ?? tag);

/** missing are the names of tags that are not among others. */
const missing = (others, names) => names.filter((n) => !others.some((o) => o.toLowerCase() === n.toLowerCase()));

/** tagsAfter is a typed list of tags for a record that was changed elsewhere: with what the user and others changed. */
export function tagsAfter(seen, typed, now) {
  const before = namesOf(seen), wanted = tagsOf(typed), gone = missing(wanted, before);
  return [...missing(gone, namesOf(now)), ...missing(namesOf(now), missing(before, wanted))].join(', ');
}

/**
 * change sends what differs between a bookmark as the user has seen it and what they want, and returns the bookmark. It
 * names the tags that come and go, because others may have changed meanwhile. If the same field was changed elsewhere,
 * the problem has the present bookmark as record.
 */
async function change(seen, fields, tags) {
  const body = Object.fromEntries(Object.entries(fields).filter(([name, v]) => v !== (seen[name] ?? '')));
  const addTags = missing(namesOf(seen), tags), removeTags = missing(tags, namesOf(seen));
  Object.assign(body, addTags.length && { addTags }, removeTags.length && { removeTags });
  if (!Object.keys(body).length) return seen;
  const send = async (etag) => (await api('PATCH', `bookmarks/${seen.id}`, body, etag)).data;
  try {
    return await send(seen.etag);
  } catch (e) {
    const clashes = (name) => (e.record[name] ?? '') !== (seen[name] ?? '');
    if (!e.record || Object.keys(body).some(clashes)) throw e;
    return await send(e.record.etag);
  }
}

/** note saves a text with the address of its page. */
export async function note(f) {
  if (!f.text?.trim() && !f.title?.trim()) throw new Problem(t('extension.noText'));
  const { data } = await api('POST', 'notes', {
    title: fit(await formOf('note'), 'title', f.title),
    content: f.text ?? '',
    ...(isWeb(f.url) && { sourceUrl: f.url }),
    tags: tagsOf(f.tags),
    ...share(f),
  });
  return done(data, t('extension.noteSaved'));
}

/** link creates a short link. */
export async function link(f) {
  needWeb(f.url);
  const k = await formOf('shortlink');
  const { data } = await api('POST', 'shorten', {
    originalUrl: f.url,
    ...(f.title && { description: fit(k, 'description', f.title) }),
    tags: tagsOf(f.tags),
    ...share(f, k.limit),
  });
  return done(data, t('extension.linkCreated'));
}

/** record saves an item of a kind that the extension knows only by its form. */
export async function record(f) {
  const k = await formOf(f.kind);
  if (!k) throw new Problem(t('extension.noKind'));
  try {
    const { data } = await api('POST', k.api, { ...f.values, tags: tagsOf(f.tags), ...share(f, k.limit) });
    return done(data, t('extension.kindSaved', { kind: k.one[0].toUpperCase() + k.one.slice(1) }));
  } catch (e) {
    const label = (name) => k.fields.find((x) => x.name === name)?.label ?? name;
    const say = ([name, what]) => `${label(name)} ${problemText(what)}.`;
    if (e.fields) e.message = Object.entries(e.fields).map(say).join(' ');
    throw e;
  }
}

/** described has the description of a file, if there is one. */
const described = async (f) => f.text && { description: fit(await formOf('file'), 'description', f.text) };

async function upload(blob, name, f) {
  const form = new FormData();
  const fields = {
    ...await described(f),
    ...(f.tags && { newTags: tagsOf(f.tags).join(',') }),
    ...share(f),
  };
  for (const [field, value] of Object.entries(fields)) form.append(field, String(value));
  form.append('file', blob, name);
  return api('POST', 'upload', form);
}

/** The largest file that a page can hand over, in bytes. */
const maxInPage = 32 << 20;

/**
 * file uploads what is at an address. The extension or the page in the tab reads it, if the site allows that. Otherwise
 * the server fetches it, if it may.
 */
export async function file(f) {
  const got = await grab(f.url, f.tab, f.frame);
  if (got) return done(await upload(got.blob, nameOf(f.name, got, f.url), f), t('extension.fileSaved'));
  if (isWeb(f.url)) return remote(f);
  throw new Problem(t('extension.notReadable'));
}

/** How long remote follows a fetch by the server, in milliseconds. Nobody watches a button for longer. */
const following = 25_000;

/**
 * remoteName is a typed name for what the server fetches. It gets the extension of the address, if that says the type.
 */
function remoteName(f) {
  const typed = cut(f.name?.trim(), 200);
  // The extension of an address is often that of a script, such as php.
  const said = /\.([a-z0-9]+)$/i.exec(new URL(f.url).pathname)?.[1].toLowerCase();
  return typed && [...Object.values(endings), 'jpeg'].includes(said) ? ended(typed, said) : typed;
}

/** startRemote has the server fetch a file and returns the job. */
async function startRemote(f) {
  const name = remoteName(f);
  try {
    const body = { url: f.url, ...(name && { name }), ...await described(f), tags: tagsOf(f.tags), ...share(f) };
    return (await api('POST', 'remote-upload', body)).jobs[0];
  } catch (e) {
    // The server does not fetch files, or this key does not allow it.
    if ([403, 404, 405].includes(e.status)) throw new Problem(t('extension.notReadable'));
    if (e.fields?.url) throw new Problem(t('extension.refused', { why: e.fields.url }));
    throw e;
  }
}

/**
 * remote has the server fetch a file and follows the fetch for a while. If it is still running then, the result has
 * later, and see is the address of the page that shows it.
 */
export async function remote(f, { sleep = pause, now = Date.now } = {}) {
  const ends = now() + following;
  let job = await startRemote(f);
  const { id } = job;
  for (let wait = 0.25; ['waiting', 'running'].includes(job.state) && now() < ends; wait = Math.min(2, wait * 1.5)) {
    await sleep(wait);
    try {
      ({ data: job } = await api('GET', `remote-upload/${id}`));
    } catch (e) {
      if (!passes(e)) throw e; // otherwise ask again
    }
  }
  switch (job.state) {
    case 'done': {
      const text = t('extension.fetched');
      if (!job.file) return { address: '', text };
      const { data } = await api('GET', `files/${job.file.id}`).catch(() => ({ data: job.file }));
      return done(data, text);
    }
    case 'failed':
      throw new Problem(t('extension.failedToo', { why: job.error }));
    case 'cancelled':
      throw new Problem(t('extension.cancelled'));
  }
  const { server } = await connection();
  return {
    address: '', later: true, see: `${server}/remote-upload`,
    text: job.error ? t('extension.retrying', { why: job.error }) : t('extension.fetching'),
  };
}

/**
 * grab reads what is at an address, or returns null if nothing may. The page reads addresses of its own site, with the
 * user's cookies. The extension reads others without cookies. If it may not, the page tries.
 */
async function grab(address, tab, frame = 0) {
  if (!/^(https?|data|blob|file):/i.test(address ?? '')) return null;
  const byPage = async (own) => {
    const got = await inPage(tab, fetched, [address, maxInPage, own], frame);
    return got && { blob: await (await fetch(got.data)).blob(), disposition: got.disposition };
  };
  return await byPage(true) ?? await byExtension(address) ?? await byPage(false);
}

/** byExtension reads an address without cookies; null if the site does not allow that or has nothing there. */
async function byExtension(address) {
  if (/^(blob|file):/i.test(address)) return null;
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), 20_000);
  try {
    const answer = await fetch(address, { credentials: 'omit', signal: stop.signal });
    clearTimeout(timer); // the time limit is for the beginning of the answer
    if (!answer.ok) return null;
    return { blob: await answer.blob(), disposition: answer.headers.get('content-disposition') ?? '' };
  } catch {
    return null;
  } finally {
    clearTimeout(timer);
  }
}

const endings = {
  'image/png': 'png',
  'image/jpeg': 'jpg',
  'image/gif': 'gif',
  'image/webp': 'webp',
  'image/avif': 'avif',
  'image/svg+xml': 'svg',
  'text/html': 'html',
  'text/plain': 'txt',
  'application/pdf': 'pdf',
  'video/mp4': 'mp4',
  'video/webm': 'webm',
  'audio/mpeg': 'mp3',
  'audio/ogg': 'ogg',
};

/** namedBy is the file name in a Content-Disposition header (RFC 6266), or '' if it has none. */
function namedBy(disposition = '') {
  const coded = /filename\*=utf-8''([^;\s]+)/i.exec(disposition)?.[1];
  try { if (coded) return decodeURIComponent(coded); } catch { /* try the plain name */ }
  return /filename="?([^";]+)/i.exec(disposition)?.[1].trim() ?? '';
}

/** ended adds an extension to a name that has none. */
const ended = (name, ending) => !ending || /\.[a-z0-9]{1,5}$/i.test(name) ? name : `${name}.${ending}`;

/**
 * nameOf is the name of a file: the given one, else the server's, else the address's. It gets a matching extension.
 */
export function nameOf(given, { blob, disposition }, address) {
  let name = (given ?? '').trim();
  if (!name) name = namedBy(disposition);
  if (!name && isWeb(address)) {
    const { pathname, hostname } = new URL(address);
    const last = pathname.split('/').filter(Boolean).pop() ?? hostname.replaceAll('.', '-');
    try { name = decodeURIComponent(last); } catch { name = last; }
  }
  name = cut(name.replace(/[\u0000-\u001f\u007f/\\:*?"<>|]+/g, ' ').trim(), 200) || 'file';
  return ended(name, endings[blob.type.split(';')[0]]);
}

/** screenshot uploads a picture of what a tab shows. */
export async function screenshot(f) {
  let shot;
  try {
    shot = await ext.tabs.captureVisibleTab(f.tab.windowId, { format: 'png' });
  } catch {
    throw new Problem(t('extension.noShot'));
  }
  const blob = await (await fetch(shot)).blob();

  const now = new Date(Date.now() - new Date().getTimezoneOffset() * 60_000).toISOString();
  const title = cut(f.title || t('extension.screenshot'), 120);
  const name = [title, now.slice(0, 10), now.slice(11, 19).replaceAll(':', '.')].join(' ') + '.png';
  const note = f.text || (isWeb(f.url) ? f.url : '');
  return done(await upload(blob, nameOf(name, { blob }, ''), { ...f, text: note }), t('extension.shotSaved'));
}

const done = (record, text) => ({ record, address: addressOf(record), text });

export const kinds = { bookmark, note, link, file, screenshot, record };

/** bookmarkOf is the newest bookmark of the page at an address, or null. */
export async function bookmarkOf(address) {
  if (!isWeb(address)) return null;
  const { data: [found] } = await api('GET', `bookmarks?limit=1&url=${encodeURIComponent(address)}`);
  return found ? (await api('GET', `bookmarks/${found.id}`)).data : null;
}

/** recent are the newest items of all kinds, newest first. */
export async function recent(most = 6) {
  const lists = await Promise.all((await forms()).map((k) => api('GET', `${k.api}?brief=true&limit=${most}`)));
  return lists.flatMap((l) => l.data).sort((a, b) => b.createdAt.localeCompare(a.createdAt)).slice(0, most);
}
