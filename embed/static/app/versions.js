// Earlier texts of a note, snippet or recipe, with what differs from the current text.
import { add, bytes, deviceName, emptyState, h, t, tn, toast, when } from './dom.js';
import { openDialog } from './forms.js';
import { apiPathOf, kindOf } from './kinds.js';
import { fetchRecord, updateRows } from './list.js';
import { api, showProblem } from './session.js';

// The most differences that are looked for in a part of a text. Beyond them, the part counts as replaced.
const maxEdits = 500;

// edits compares two lists by the algorithm of Myers. It returns runs [op, items]: '=' for items in both, '-' only in a, '+'
// only in b.
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
  const push = (op, item) => { if (out.at(-1)?.[0] === op) out.at(-1)[1].push(item); else out.push([op, [item]]); };
  let i = a.length, j = b.length;
  for (let d = trace.length - 1; d >= 0; d--) {
    const reach = trace[d], k = i - j, at = d + 1 + k;
    const down = k === -d || k !== d && reach[at - 1] < reach[at + 1];
    const before = d === 0 ? 0 : down ? reach[at + 1] : reach[at - 1];
    const start = d === 0 ? 0 : before - (down ? k + 1 : k - 1);
    while (i > before && j > start && a[i - 1] === b[j - 1]) { push('=', a[i - 1]); i--; j--; }
    if (d === 0) break;
    if (down) push('+', b[--j]);
    else push('-', a[--i]);
  }
  for (const run of out) run[1].reverse();
  return out.reverse();
}

const linesOf = (text) => text.match(/[^\n]*\n|[^\n]+/g) ?? [];
const wordsOf = (text) => text.match(/\s+|[\p{L}\p{M}\p{N}_]+|[^\s\p{L}\p{M}\p{N}_]/gu) ?? [];

// difference compares two texts: first their lines, then the words of lines that differ. It returns runs [op, text].
export function difference(a, b) {
  const runs = edits(linesOf(a), linesOf(b)).map(([op, lines]) => [op, lines.join('')]), out = [];
  const push = (op, text) => { if (out.at(-1)?.[0] === op) out.at(-1)[1] += text; else if (text) out.push([op, text]); };
  for (let i = 0; i < runs.length; i++) {
    const [op, text] = runs[i], next = runs[i + 1];
    if (op === '=' || !next || next[0] === '=') { push(op, text); continue; }
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

// compared shows what differs between a version and the present record, field by field.
function compared(k, old, now) {
  const text = (r, f) => f.choices?.[r[f.name]] ?? String(r[f.name] ?? '');
  const parts = k.fields.filter((f) => text(old, f) !== text(now, f)).map((f) => [h('h3', {}, f.label),
    h(f.mono ? 'div.changes.mono' : 'div.changes', { tabindex: '0', role: 'region', 'aria-label': f.label }, difference(text(old, f), text(now, f)).map(shown))]);
  return parts.length ? [h('p.soft', {}, tn('versions.legend', { del: h('del', {}, t('versions.then')), ins: h('ins', {}, t('versions.now')) })), parts] : h('p.soft', {}, t('versions.same'));
}

// openVersions shows the timeline of a record. restored is called with the record after a version was restored.
export async function openVersions(r, restored) {
  const at = `${apiPathOf(r)}/versions`;
  let list, now;
  try { [list, now] = await Promise.all([api('GET', `${at}?limit=500`), fetchRecord(r)]); } catch (e) { return showProblem(e); }
  const d = openDialog(t('versions.title'), { panel: true });
  const entry = (v) => {
    const body = h('div', {}, h('p.soft', {}, t('common.loading')));
    const el = h('details', {}, h('summary', {}, tn('versions.before', { when: when(v.at) }), v.by && h('span', {}, t('common.by', { name: deviceName(v.by) })), h('span.soft', {}, bytes(v.size))), body);
    el.addEventListener('toggle', async () => {
      if (!el.open || el.loaded) return;
      try {
        const { data } = await api('GET', `${at}/${v.id}`);
        el.loaded = true;
        const restore = h('button', { type: 'button' }, t('versions.restore'));
        restore.onclick = async () => {
          restore.disabled = true;
          try {
            const answer = await api('POST', `${at}/${v.id}/restore`);
            d.el.close('done');
            updateRows(answer.data);
            toast(t('versions.restored'));
            restored(answer.data);
          } catch (e) { showProblem(e); restore.disabled = false; }
        };
        body.replaceChildren();
        add(body, compared(kindOf(r), data, now), h('div.row', {}, restore));
      } catch (e) { body.replaceChildren(h('p.alert', { role: 'alert' }, e.message)); }
    });
    return el;
  };
  add(d.body, list.data.length ? [h('p.soft', {}, t('versions.hint')), h('div.versions', {}, list.data.map(entry))] : emptyState(t('versions.none'), t('versions.noneHint')));
  return null;
}
