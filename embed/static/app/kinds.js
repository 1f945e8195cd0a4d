// The kinds of records. The server describes them (start.kinds); this module owns how a list shows them: the title, the
// meta line and the badge of a record, and the addresses of what belongs to one. It uses nothing of view. Every module
// that shows or links records calls it.
import { bytes, day, fill, h, hostOf, icon, t } from './dom.js';
import { base, start } from './session.js';

export const fileTypes = {
  image: t('kind.image'),
  video: t('kind.video'),
  audio: t('kind.audio'),
  text: t('kind.text'),
  pdf: t('kind.pdf'),
  other: t('kind.other'),
};

// The YAML at the beginning of a Markdown text.
const frontMatter = /^---\n.+:[^]*?\n---\s*/;
const afterFrontMatter = (text) => (text ?? '').replace(frontMatter, '');

// titled is the title in the front matter of a Markdown text.
const titled = (text) => /^title: *["']?(.+?)["']?$/m.exec(frontMatter.exec(text))?.[1];

// firstOf splits a Markdown text into its first line with words, without marks, and the lines below.
function firstOf(text) {
  const lines = afterFrontMatter(text).split('\n'), at = lines.findIndex(plain);
  return at < 0 ? ['', []] : [plain(lines[at]).replace(/^[☐☑] /, ''), lines.slice(at + 1)];
}

// cutTitle ends a long line after a word.
const cutTitle = (line) => line.length > 80 ? line.slice(0, 80).replace(/\s+\S*$/, '') + '…' : line;

// titleIn is the title that a Markdown text has: that of its front matter, or its first line, as far as that is short.
const titleIn = (text) => titled(text) ?? cutTitle(firstOf(text)[0]);

// belowTitle is what the text of a note says below its title: not again what the title has of it.
export function belowTitle({ title, content }) {
  const [line, rest] = firstOf(content), of = title || titled(content);
  if (of) return line === of ? rest.join('\n') : afterFrontMatter(content);
  const more = line.slice(cutTitle(line).length - 1).trim();
  return [...cutTitle(line) !== line ? ['… ' + more] : [], ...rest].join('\n');
}

// plain is a Markdown text without its marks: of tables, lists and headings, callouts, footnotes, links, bold words and
// italic ones.
const plain = (text) => text
  .replace(/^[ :-]*\|[ :|-]*$|^ *\||\| *$/gm, '')
  .replace(/^[#>\s*-]+/gm, '')
  .replace(/^\[ \] /gm, '☐ ')
  .replace(/^\[[xX]\] /gm, '☑ ')
  .replace(/!\[[^\]]*\]\(kist:[^)]*\)/g, '')
  .replace(/!?\[([^\]]*)\]\([^)]*\)|\[[!^]\S+?\]:?/g, '$1')
  .replace(/\*+|__|\x60/g, '')
  .replace(/(^|\W)_([^_\n]+)_(?!\w)/g, '$1$2')
  .replace(/\s+/g, ' ')
  .trim();

const excerpt = (text) => plain(afterFrontMatter(text)).slice(0, 140);

const firstLine = (text) => text.split('\n').find((l) => l.trim())?.trim().slice(0, 120) ?? '';
const cutoff = (text) => text && h('span.cutoff', {}, text);

export const fieldOf = (k, name) => k.fields.find((f) => f.name === name);

// How most kinds are shown: title, meta and badge stand for a record in a list, and href replaces the item's own page.
const look = {
  title(r) {
    const f = [fieldOf(this, 'title'), fieldOf(this, this.quick)].find((x) => x && r[x.name]);
    if (f && f.type !== 'text') return String(r[f.name]);
    const text = f && r[f.name];
    return (f?.mono ? firstLine(text) : titleIn(text)) || t('kind.untitled', { kind: this.one });
  },
  meta(r) {
    const title = this.title(r);
    return this.fields.filter((f) => r[f.name] || r[f.name] === 0).map((f) => {
      const v = r[f.name];
      if (f.choices) return h('span.badge', {}, f.choices[v]);
      if (f.type === 'number') return `${f.label} ${v}`;
      if (f.type === 'check') return f.label;
      if (f.type === 'time') return `${f.label} ${day(v)}`;
      return v !== title && cutoff(f.type === 'url' ? hostOf(v) : excerpt(v));
    });
  },
};

const unreachableBadge = (r) =>
  h('span.badge.warn', { title: t('kind.unreachableSince', { date: day(r.unreachableSince) }) }, t('kind.unreachable'));

const playtime = (minutes) => minutes < 90 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;

const looks = {
  file: {
    meta: (r) => [bytes(r.size), r.folder && h('span', {}, icon('folder'), ' ', r.folder.name)],
    badge: (r) => (/\.([a-z0-9]{1,4})$/i.exec(r.originalName)?.[1] ?? '').toUpperCase(),
  },
  bookmark: {
    href: (r) => r.url,
    badge: (r) => hostOf(r.url)[0].toUpperCase(),
    meta: (r) => [
      r.reachable === 'no' && unreachableBadge(r),
      r.behindSignIn && h('span.badge', { title: t('kind.behindSignInMeans') }, t('kind.behindSignIn')),
      cutoff(hostOf(r.url)),
      cutoff(excerpt(r.description)),
    ],
  },
  note: { meta: (r) => [cutoff(excerpt(belowTitle(r)))] },
  snippet: {
    badge: (r) => (r.language ?? '').slice(0, 4).toUpperCase(),
    meta: (r) => [r.title && r.content && h('code.cutoff', {}, firstLine(r.content))],
  },
  recipe: { meta: (r) => [cutoff(excerpt(r.description || r.ingredients))] },
  game: {
    meta: (r) => [
      r.status && h('span.badge', {}, fieldOf(kinds.game, 'status').choices[r.status]),
      r.platform,
      r.rating !== null && r.rating !== undefined && `★ ${r.rating}`,
      r.playtimeMinutes > 0 && playtime(r.playtimeMinutes),
    ],
  },
  collection: {
    meta: (r) => [
      t('kind.items', { n: r.itemCount }),
      r.size > 0 && bytes(r.size),
      r.leftOut > 0 && h('span.badge.warn', {}, t('kind.leftOut', { n: r.leftOut })),
      cutoff(r.description),
    ],
  },
  shortlink: {
    title: (r) => (r.url ?? '').replace(start.url, ''),
    meta: (r) => [cutoff('→ ' + (r.originalUrl ?? '').replace(/^https?:\/\//, '')), cutoff(r.description)],
  },
};

// A kind is what the server says of it, and its look.
export const kinds = Object.fromEntries(start.kinds.map((k) => [k.name, { ...look, ...k, ...looks[k.name] }]));
export const kindByPath = Object.fromEntries(Object.values(kinds).map((k) => [k.path, k]));

// countOf writes a number of items of a kind, and visits a number of views or clicks.
export const countOf = (k, n) => fill(k.count, { n });
export const visits = (k, n) => t(k.counter === 'clicks' ? 'kind.clicks' : 'kind.views', { n });

export const kindOf = (r) => kinds[r.kind];
export const titleOf = (r) => kindOf(r).title(r);
export const apiPathOf = (r) => `${kindOf(r).api}/${r.id}`;
export const pageOf = (r) => `${base}/${kindOf(r).path}/${r.slug ?? r.id}`;
export const editorOf = (r) => pageOf(r) + '?edit=1';
// placeOf is where its page and its pictures are, below /v/ and /t/: what others own is reached through a collection.
export const placeOf = (r) => r.slug ?? new URL(shareAddressOf(r)).pathname.split('/v/')[1];
// canEdit reports whether the user may change the words of a record; fromOwner says whose it is.
export const canEdit = (r) => !r.owner || r.role === 'edit';
export const fromOwner = (r) => t('list.from', { name: personName(r.owner) });
// personName is how a person wants to be called.
export const personName = (person) => person.displayName || person.name;
// thumbnailOf is the address of a small version of a file. Other bytes have another address: a browser does not ask
// again for a picture that the page shows already.
export const thumbnailOf = (r, size = '') =>
  `${base}/t/${placeOf(r)}?v=${(r.sha256 ?? '').slice(0, 8)}${size && `&size=${size}`}`;
// shareAddressOf is the address to give to others: the redirect of a short link, the page of everything else.
export const shareAddressOf = (r) => (r.kind === 'shortlink' ? r.url : (r.shareUrl ?? r.viewUrl ?? r.url));
export const tagNames = (r) => (r.tags ?? []).map((tag) => tag.name ?? tag);

// excerptOf is the part of a record where a search found its words; '' if the title already shows it.
export function excerptOf(r, title) {
  if (!(r.found?.highlight.ranges?.length > 0)) return '';
  const { text, title: inTitle } = r.found.highlight;
  return title.includes(text) || text === r.slug && inTitle?.length > 0 ? '' : text;
}

// shows reports whether a text of a row is an excerpt, or its beginning: long texts are cut off in the row.
export const shows = (text, excerpt) =>
  text === excerpt || text.length > 80 && excerpt.startsWith(text.replace(/…$/, '').trim());

// isMedia reports whether the viewer can show a record.
export const isMedia = (r) => isPicture(r) || r.kind === 'file' && /^video\/(mp4|webm|ogg|quicktime)/.test(r.mimeType);

// isPicture reports whether an img element can show a file, or a small version of it if there is one.
const pictures = /^image\/(png|jpe?g|gif|webp|avif|bmp|tiff|svg|hei[cf]|jxl|x-(adobe|canon|nikon|sony|pentax|fuji))/;
export const isPicture = (r) => r.kind === 'file' && pictures.test(r.mimeType);

// isForBrowser reports whether only the browser can make a small version of what the viewer shows.
export const isForBrowser = (r) => isMedia(r) && !/^image\/(png|jpe?g|gif|webp|bmp)/.test(r.mimeType);
