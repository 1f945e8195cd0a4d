// Texts in the reader's language. Another script, loaded before, has put them into globalThis.kist. Numbers, sizes and
// times follow the browser's region if it has the same language.
const { texts } = globalThis.kist;
export const { lang } = globalThis.kist;

export const locale = (navigator.languages ?? []).find((l) => l.split('-')[0] === lang) ?? lang;

// lazily makes a value when it is first used. A browser's first use of Intl takes as long as drawing a page, so no
// script uses it while it loads.
export const lazily = (make) => {
  let value;
  return () => value ??= make();
};

const numbers = lazily(() => new Intl.NumberFormat(locale));
const tenths = lazily(() => new Intl.NumberFormat(locale, { maximumFractionDigits: 1 }));
const plurals = lazily(() => new Intl.PluralRules(lang));

export const number = (n) => numbers().format(n);

// form chooses the plural form of a text for the number n.
const form = (text, n) => typeof text === 'object' ? text[plurals().select(n)] ?? text.other : text;
const shown = (value) => typeof value === 'number' ? number(value) : value;

// fill replaces the names in braces of a text by the values.
export const fill = (text, values = {}) => form(text, values.n)
  .replace(/\{(\w+)\}/g, (whole, name) => name in values ? shown(values[name]) : whole);

// t is the text of a key. The value n chooses its plural form.
export const t = (key, values) => fill(texts[key] ?? key, values);

// tn is t for a text with elements in it: the result is a list of texts and nodes.
export const tn = (key, values) => form(texts[key], values.n)
  .split(/\{(\w+)\}/).map((part, i) => i % 2 ? shown(values[part]) : part);

// known is the text of a key, or the other text if the key has no text.
export const known = (key, otherwise) => texts[key] ?? otherwise;

// escaped is a text for a regular expression that matches it.
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

// translated is what the server says in English, in the words of the group. Its English is the key; names in braces
// stand for what differs, which matches the pattern.
function translated(group, text, differs) {
  for (const key of Object.keys(texts).filter((name) => name.startsWith(`${group}.`))) {
    const parts = key.slice(group.length + 1).split(/\{(\w+)\}/);
    const pattern = parts.map((part, i) => i % 2 ? differs : escaped(part)).join('');
    const found = new RegExp(`^${pattern}$`, 's').exec(text);
    if (!found) continue;
    const names = parts.filter((_, i) => i % 2);
    return t(key, Object.fromEntries(names.map((name, i) => [name, found[i + 1]])));
  }
  return text;
}

// problemText is what the server says is wrong with a field.
export const problemText = (text) => translated('problems', text, '(\\S+)');

// remarkText is what the server says of an import.
export const remarkText = (text) => translated('remarks', text, '(.+)');

export function bytes(n) {
  if (n < 1000) return t('format.bytes', { n });
  let unit = -1;
  do {
    n /= 1000;
    unit++;
  } while (n >= 999.5 && unit < 4);
  const shortened = n < 99.95 ? tenths().format(n) : number(Math.round(n));
  return `${shortened}\u00a0${['kB', 'MB', 'GB', 'TB', 'PB'][unit]}`;
}

// seconds writes a duration.
export function seconds(s) {
  if (s < 60) return `${Math.max(1, Math.round(s))} s`;
  if (s < 3600) return `${Math.round(s / 60)} min`;
  return `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`;
}
