// Amounts of ingredients. A line is scaled only if it is certain which of its numbers are amounts. All of it is pure.

const vulgar = {
  '½': 1 / 2, '⅓': 1 / 3, '⅔': 2 / 3, '¼': 1 / 4, '¾': 3 / 4,
  '⅕': 1 / 5, '⅖': 2 / 5, '⅗': 3 / 5, '⅘': 4 / 5, '⅙': 1 / 6, '⅚': 5 / 6, '⅐': 1 / 7,
  '⅛': 1 / 8, '⅜': 3 / 8, '⅝': 5 / 8, '⅞': 7 / 8, '⅑': 1 / 9, '⅒': 1 / 10,
};

// Words of a line, in English and German. Measures are what an amount can be given in as well as a count.
const metric = 'g|gr|grams?|gramm|grammes?|mg|ml|millilit(?:er|re)s?|cc';
const measure = `(?:${metric}|kg|kilos?|kilogramm?s?|oz|ounces?|lbs?|pounds?|pfund|pfd|`
  + 'cl|dl|l|lit(?:er|re)s?|fl\\.? oz|cups?|tassen?|tbsps?|tablespoons?|tsps?|teaspoons?|el|tl|esslöffel|teelöffel|'
  + 'pints?|pts?|quarts?|qts?|gallons?)';
const fixed = '(?:cm|mm|inch(?:es)?|in|zoll|'
  + 's|secs?|seconds?|sek|sekunden?|mins?|minutes?|minuten?|h|hrs?|hours?|std|stunden?|days?|tagen?)';
const roughly = '(?:ca|circa|about|approx|approximately|around|roughly|etwa|ungefähr|rund|je|'
  + 'scant|heaping|gehäufte?|knapp|gut)';
const counted = 'one|two|three|four|five|six|half|ein|eine|einen|einer|zwei|drei|vier|fünf|sechs|halbe|halber|halbes';
const ends = String.raw`(?![\p{L}\p{N}])`; // the end of a word
const begins = String.raw`(?:^|[^\p{L}\p{N}])`;

const marks = `[${Object.keys(vulgar).join('')}]`;
const slash = '[/⁄∕]';
const joint = String.raw`(?:\s+(?:(?:and|und)\s+|&\s*)?|&|[-–])`; // between a whole number and its fraction
const grouped = String.raw`[1-9]\d{0,2}(?:(?:,\d{3})+(?:\.\d+)?|(?:\.\d{3})+(?:,\d+)?|(?:['’]\d{3})+|(?:\s000)+)`;
const fraction = String.raw`(?:\d+${joint})?\d+${slash}\d+|(?:\d+${joint}?)?${marks}`;
const number = String.raw`(?:${fraction}|${grouped}|\d*[.,]\d{1,2}|0?[.,]\d+|\d+)(?![\d/⁄∕]|${marks}|[.,'’]\d)`;
const to = String.raw`(?:\s*[-–—‒−~]\s*|\s+(?:to|or|bis|oder|à|ou)\s+)`;
const amount = String.raw`(${number})(?:(${to})(${number}))?`;

const rule = (source, flags = 'iu') => new RegExp(source, flags);
const leading = rule(String.raw`^\s*(?:[~≈]\s*|${roughly}\.?\s+)*${amount}`);
const follows = rule(String.raw`^(?:$|\s|\(|(?:${measure}|[x×])${ends}|[x×]\s?\d)`);
const isFixed = rule(String.raw`^\s*(?:[%‰°]|${fixed}${ends}|[x×]\s*\d+\s*${fixed}${ends})`);
const isMetric = rule(String.raw`^\s?(?:${metric})${ends}`);
const startsWithWord = rule(String.raw`^\s*(?:${counted})${ends}`);

// An equivalent repeats the amount in another measure: 1 cup (240 ml), 8 oz/225 g.
const again = String.raw`(?:\(|[/=|])\s*(?:[~≈=]\s*|${roughly}\.?\s+)?${amount}`;
const equivalent = rule(String.raw`^\s*${measure}\.?\s*${again}(?=\s*${measure}\.?(?:\s*\))?${ends})`);

// Numbers that stay as they are when the first is scaled: sizes of what is counted, percentages, lengths, times, types.
const sizes = String.raw`[\d.,⁄/]+(?:${marks})?(?:\s*[-–]\s*[\d.,⁄/]+)?`;
const harmless = [
  String.raw`^\s*\(\s*${sizes}[\s-]*${measure}\.?${ends}[^()\d]*\)`,
  String.raw`^\s*[x×]\s*${sizes}\s*${measure}${ends}`,
  String.raw`${begins}(?:à|a|je|each|of)\s+${sizes}[\s-]*${measure}${ends}`,
  String.raw`${sizes}[\s-]*${measure}\.?\s+(?:each|apiece|je)${ends}`,
  String.raw`${sizes}\s*(?:[%‰]|°)`,
  String.raw`${sizes}[\s-]*${fixed}${ends}`,
  String.raw`(?:type|typ|tipo|nr\.?|no\.?)\s*\d+`,
  String.raw`${begins}[TW]\d+`,
].map((source) => rule(source, 'giu'));

// A longer line is no line of a list. The rules would take long for it.
const longest = 300;

// read reads a number of the form above. A kind of grouped can be thousands or decimals: 1.250 kg.
function read(text) {
  const parts = new RegExp(`^(?:(\\d+)\\D+?)?(\\d+)${slash}(\\d+)$`).exec(text);
  if (parts) {
    const [, whole, over, under] = parts.map(Number);
    return { kind: 'fraction', value: over > 0 && over < under ? (whole || 0) + over / under : NaN };
  }
  const mark = text.at(-1);
  if (mark in vulgar) return { kind: 'fraction', value: (parseInt(text, 10) || 0) + vulgar[mark] };
  const group = rule(`^(?:${grouped})$`).test(text) && /\D/.exec(text)[0];
  if (group) {
    const tail = text.replaceAll(group, '');
    const sure = !'.,'.includes(group) || tail.length < text.length - 1 || /[.,]/.test(tail);
    return { kind: 'grouped', group, sure, value: Number(tail.replace(',', '.')) };
  }
  if (/^0\d/.test(text)) return { kind: 'plain', value: NaN }; // 00 is a type of flour
  return { kind: 'plain', decimal: /[.,]/.exec(text)?.[0], value: Number(text.replace(',', '.')) };
}

// written writes a value as the number that it comes from: 1½ and not 1.5 in a kitchen, and no more digits than a
// scale shows. It is null if two readings of the number lead to different texts.
function written(value, from, decimal) {
  const whole = Math.round(value);
  const text = (n) => String(n).replace('.', from.decimal ?? decimal);
  if (from.kind === 'grouped') {
    if (from.sure) return value < 1000 ? text(Number(value.toFixed(1))) : grouping(whole, from.group);
    return value >= 1000 && Number.isInteger(value) ? grouping(value, from.group) : null;
  }
  if (whole >= 1 && Math.abs(value - whole) < 0.005) return String(whole);
  const below = Math.floor(value), part = value - below;
  const usual = from.kind === 'fraction' ? Object.keys(vulgar) : ['½', '⅓', '⅔', '¼', '¾'];
  const mark = value < 10 && usual.find((m) => Math.abs(vulgar[m] - part) < 0.005);
  return mark ? (below || '') + mark : text(value < 1000 ? Number(value.toPrecision(3)) : whole);
}

const grouping = (n, by) => String(n).replace(/\B(?=(?:\d{3})+$)/g, by);

// scaledAmount returns the text of an amount, of one number or from one to another, for a number of times; null if it
// is not certain. after is what follows it.
function scaledAmount([, low, between, high], times, after, decimal) {
  const numbers = [low, high].filter(Boolean).map(read);
  if (numbers.some((n) => !(n.value > 0)) || numbers[1]?.value < numbers[0].value) return null;
  if (isMetric.test(after)) for (const n of numbers) n.sure = true; // nobody writes milligrams so
  const texts = numbers.map((n) => written(n.value * times, n, decimal));
  return texts.includes(null) ? null : texts.join(between ?? '');
}

/**
 * changes says how a line changes for a number of times the recipe: a list of [from, to, text], each for a part of the
 * line. It is empty for a line without numbers, and null for a line whose amount is not certain, which stays as it is.
 * decimal is the decimal sign where the line has none.
 */
export function changes(line, times, decimal = '.') {
  if (!/\p{N}/u.test(line)) return startsWithWord.test(line) ? null : [];
  if (line.length > longest) return null;
  const out = [];
  let found = leading.exec(line), rest = line;
  // take scales the amount at the end of what was found, and goes on behind it.
  const take = () => {
    const at = line.length - rest.length + found[0].length, from = at - found.slice(1, 4).join('').length;
    rest = line.slice(at);
    out.push([from, at, scaledAmount(found, times, rest, decimal)]);
  };
  if (!found) return null;
  take();
  if (!follows.test(rest) || isFixed.test(rest)) return null;
  while ((found = equivalent.exec(rest))) take();
  for (const known of harmless) rest = rest.replace(known, ' ');
  return /\p{N}/u.test(rest) || out.some(([, , text]) => text === null) ? null : out;
}

/** scaled is a line of a list of ingredients for a number of times the recipe. It is right, or the line as it is. */
export function scaled(line, times, decimal = '.') {
  if (times === 1) return line;
  let out = '', at = 0;
  for (const [from, to, text] of changes(line, times, decimal) ?? []) {
    out += line.slice(at, from) + text;
    at = to;
  }
  return out + line.slice(at);
}
