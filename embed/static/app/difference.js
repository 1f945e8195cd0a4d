// What differs between two texts, by lines and then by words. It owns nothing that stays, and uses nothing of view.
// versions.js and conflict.js call differing.
import { add, h } from './dom.js';

// The most differences that are looked for in a part of a text. Beyond them, the part counts as replaced.
const maxEdits = 500;

// edits compares two lists by the algorithm of Myers. It returns runs [op, items]: '=' for items in both, '-' only in
// a, '+' only in b.
function edits(a, b) {
  let from = 0, end = 0;
  while (from < a.length && from < b.length && a[from] === b[from]) from++;
  while (end < a.length - from && end < b.length - from && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const x = a.slice(from, a.length - end), y = b.slice(from, b.length - end);
  return [['=', a.slice(0, from)], ...middle(x, y), ['=', a.slice(a.length - end)]].filter(([, items]) => items.length);
}

function middle(a, b) {
  const replaced = [['-', a], ['+', b]];
  if (!a.length || !b.length) return replaced;
  const limit = Math.min(a.length + b.length, maxEdits), reach = new Int32Array(2 * limit + 3), trace = [];
  for (let d = 0; d <= limit; d++) {
    trace.push(reach.slice(limit - d, limit + d + 3));
    for (let k = -d; k <= d; k += 2) {
      const at = limit + 1 + k;
      let i = k === -d || k !== d && reach[at - 1] < reach[at + 1] ? reach[at + 1] : reach[at - 1] + 1;
      while (i < a.length && i - k < b.length && a[i] === b[i - k]) i++;
      reach[at] = i;
      if (i >= a.length && i - k >= b.length) return path(a, b, trace);
    }
  }
  return replaced;
}

// path reads the runs from the trace, from the end to the beginning.
function path(a, b, trace) {
  const out = [];
  const push = (op, item) => {
    if (out.at(-1)?.[0] === op) out.at(-1)[1].push(item);
    else out.push([op, [item]]);
  };
  let i = a.length, j = b.length;
  for (let d = trace.length - 1; d >= 0; d--) {
    const reach = trace[d], k = i - j, at = d + 1 + k;
    const down = k === -d || k !== d && reach[at - 1] < reach[at + 1];
    const before = d === 0 ? 0 : down ? reach[at + 1] : reach[at - 1];
    const start = d === 0 ? 0 : before - (down ? k + 1 : k - 1);
    while (i > before && j > start && a[i - 1] === b[j - 1]) {
      push('=', a[i - 1]);
      i--;
      j--;
    }
    if (d === 0) break;
    if (down) {
      j--;
      push('+', b[j]);
    } else {
      i--;
      push('-', a[i]);
    }
  }
  for (const run of out) run[1].reverse();
  return out.reverse();
}

const linesOf = (text) => text.match(/[^\n]*\n|[^\n]+/g) ?? [];
const wordsOf = (text) => text.match(/\s+|[\p{L}\p{M}\p{N}_]+|[^\s\p{L}\p{M}\p{N}_]/gu) ?? [];

// difference compares two texts: first their lines, then the words of lines that differ. It returns runs [op, text].
export function difference(a, b) {
  const runs = edits(linesOf(a), linesOf(b)).map(([op, lines]) => [op, lines.join('')]), out = [];
  const push = (op, text) => {
    if (out.at(-1)?.[0] === op) out.at(-1)[1] += text;
    else if (text) out.push([op, text]);
  };
  for (let i = 0; i < runs.length; i++) {
    const [op, text] = runs[i], next = runs[i + 1];
    if (op === '=' || !next || next[0] === '=') {
      push(op, text);
      continue;
    }
    const [old, now] = op === '-' ? [text, next[1]] : [next[1], text];
    for (const [o, words] of edits(wordsOf(old), wordsOf(now))) push(o, words.join(''));
    i++;
  }
  return out;
}

// Longer unchanged parts are cut.
const context = 160;

function shown([op, text], i, runs) {
  if (op !== '=') return h(op === '-' ? 'del' : 'ins', {}, text);
  if (text.length < 3 * context) return text;
  return [i > 0 && text.slice(0, context), h('span.soft', {}, ' … '), i < runs.length - 1 && text.slice(-context)];
}

// differing shows what differs between two texts of a field.
export function differing(f, old, now) {
  const el = h(f.mono ? 'div.changes.mono' : 'div.changes', { tabindex: '0', role: 'region', 'aria-label': f.label });
  return add(el, difference(old, now).map(shown));
}
