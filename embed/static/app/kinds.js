// The kinds of records. Everything that is particular to one kind is in its row.
import { bytes, h, hostOf, icon } from './dom.js';
import { base, start } from './session.js';

const statuses = { wishlist: 'Wishlist', backlog: 'Backlog', playing: 'Playing', finished: 'Finished', dropped: 'Dropped' };
export const fileTypes = { image: 'Pictures', video: 'Videos', audio: 'Audio', text: 'Text', pdf: 'PDF', other: 'Other' };
const languages = ['bash', 'c', 'cpp', 'csharp', 'css', 'diff', 'docker', 'go', 'html', 'ini', 'java', 'javascript', 'json', 'kotlin', 'lua', 'make', 'markdown', 'nginx', 'php', 'powershell', 'python', 'ruby', 'rust', 'sql', 'swift', 'toml', 'typescript', 'xml', 'yaml'];

const excerpt = (text) => (text ?? '').replace(/^[#>\s*-]+/gm, '').replace(/\*\*|__|\x60/g, '').replace(/\s+/g, ' ').trim().slice(0, 140);
const firstLine = (text) => (text ?? '').split('\n').find((l) => l.trim())?.trim().slice(0, 120) ?? '';

// A row has:
//   api, path     where the kind is in the API and in the app
//   one, many     its name
//   fields        the fields of its form; keepSpaces sends a text without trimming it
//   quick, prompt the field that the box at the top of its page fills, and the placeholder of that box
//   title, meta   what a list shows of a record; badge is shown in place of the icon, href replaces the item's own page
//   counter, limit, unit  what counts its visits, what limits them, and what one visit is called
//   none          the text of an empty list
export const kinds = {
  file: {
    api: 'files', path: 'files', one: 'file', many: 'Files', title: (r) => r.originalName,
    fields: [
      { name: 'originalName', label: 'Name', required: true },
      { name: 'folderName', label: 'Folder', type: 'folder' },
      { name: 'description', label: 'Description', type: 'text' },
    ],
    meta: (r) => [bytes(r.size), r.folder && h('span', {}, icon('folder'), ' ', r.folder.name)],
    badge: (r) => (/\.([a-z0-9]{1,4})$/i.exec(r.originalName)?.[1] ?? '').toUpperCase(),
    none: 'Drop a file here, paste a picture, or choose some. They stay private until you share them.',
  },
  bookmark: {
    api: 'bookmarks', path: 'bookmarks', one: 'bookmark', many: 'Bookmarks', title: (r) => r.title || r.url,
    fields: [
      { name: 'url', label: 'Address', type: 'url', required: true },
      { name: 'title', label: 'Title' },
      { name: 'description', label: 'Description', type: 'text' },
    ],
    quick: 'url', prompt: 'Paste an address to keep',
    href: (r) => r.url,
    badge: (r) => hostOf(r.url)[0].toUpperCase(),
    meta: (r) => [r.reachable === 'no' && h('span.badge.warn', { title: `The page could not be reached since ${new Date(r.unreachableSince).toLocaleDateString()}` }, 'unreachable'), h('span.cutoff', {}, hostOf(r.url)), r.description && h('span.cutoff', {}, excerpt(r.description))],
    none: 'Paste the address of a page above, or use the browser extension. It gets its title on its own.',
  },
  note: {
    api: 'notes', path: 'notes', one: 'note', many: 'Notes', title: (r) => r.title || firstLine(r.content).replace(/^#+\s*/, '') || 'Untitled note',
    fields: [
      { name: 'title', label: 'Title' },
      { name: 'content', label: 'Text', type: 'text', tall: true, keepSpaces: true, hint: 'Markdown: # heading, **bold**, - list, [link](address).' },
      { name: 'sourceUrl', label: 'Source' },
    ],
    quick: 'content', prompt: 'Write a note …',
    meta: (r) => [r.title && r.content && h('span.cutoff', {}, excerpt(r.content))],
    none: 'Write one above. Notes are Markdown. A note without a title shows its first line.',
  },
  snippet: {
    api: 'snippets', path: 'snippets', one: 'snippet', many: 'Snippets', title: (r) => r.title || firstLine(r.content) || 'Untitled snippet',
    fields: [
      { name: 'title', label: 'Title' },
      { name: 'language', label: 'Language', list: languages },
      { name: 'content', label: 'Code', type: 'text', tall: true, keepSpaces: true, mono: true },
    ],
    quick: 'content', prompt: 'Paste some code or a command', mono: true,
    badge: (r) => (r.language ?? '').slice(0, 4).toUpperCase(),
    meta: (r) => [r.title && r.content && h('code.cutoff', {}, firstLine(r.content))],
    none: 'Paste a command or a piece of code above, to have it at hand on every device.',
  },
  recipe: {
    api: 'recipes', path: 'recipes', one: 'recipe', many: 'Recipes', title: (r) => r.title,
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
    api: 'games', path: 'games', one: 'game', many: 'Games', title: (r) => r.title,
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
    api: 'shorten', path: 'links', one: 'short link', many: 'Links', counter: 'clicks', limit: 'maxClicks', unit: 'click',
    title: (r) => (r.url ?? '').replace(start.url, ''),
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
export const kindByPath = Object.fromEntries(Object.values(kinds).map((k) => [k.path, k]));

export const kindOf = (r) => kinds[r.kind];
export const titleOf = (r) => kindOf(r).title(r);
export const apiPathOf = (r) => `${kindOf(r).api}/${r.id}`;
export const pageOf = (r) => `${base}/${kindOf(r).path}/${r.slug}`;
export const shareAddressOf = (r) => r.shareUrl ?? r.viewUrl ?? r.url;
export const tagNames = (r) => (r.tags ?? []).map((t) => t.name ?? t);

// isPicture reports whether browsers can show a file in an img element.
export const isPicture = (r) => r.kind === 'file' && /^image\/(png|jpe?g|gif|webp|avif|bmp)/.test(r.mimeType);
