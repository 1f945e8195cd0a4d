// What the cards of a list show: the beginning of a text with its tasks, a picture, or a letter in a colour; and the
// collections that others share. It owns nothing that stays, and uses signal of view. kind.js calls it.
import { h, hostOf, t } from './dom.js';
import { belowTitle, titleOf } from './kinds.js';
import { takeAnswer } from './session.js';
import { face as collectionFace, hueOf, sharedTiles, whose } from './tiles.js';


const mostLines = 8;

// inline makes elements of the bold words and the code in a line of Markdown. Other marks are left out.
function inline(line) {
  return line.replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1').split(/(\*\*[^*]+\*\*|\x60[^\x60]+\x60)/).map((part) => {
    if (/^\*\*./.test(part)) return h('b', {}, part.slice(2, -2));
    if (/^\x60./.test(part)) return h('code', {}, part.slice(1, -1));
    return part.replace(/(^|\W)[*_]([^*_\n]+)[*_](?!\w)/g, '$1$2');
  });
}

// lineOf makes an element of a line; null for one without words. A line of a table is its cells.
function lineOf(line) {
  const task = /^\s*(?:[-*+]|\d+[.)])\s+\[([ xX])\]\s+(.*)/.exec(line);
  if (task) {
    const isDone = task[1] !== ' ';
    return h(isDone ? 'span.task.done' : 'span.task', {}, h('i', { 'aria-hidden': 'true' }, isDone ? '☑' : '☐'),
      h('span', {}, inline(task[2])));
  }
  const heading = /^#{1,6}\s+(.*)/.exec(line);
  if (heading) return h('b', {}, inline(heading[1]));
  const point = /^\s*([-*+]|\d+[.)])\s+(.*)/.exec(line);
  if (point) {
    return h('span.task', {}, h('i', {}, /\d/.test(point[1]) ? point[1] : '•'), h('span', {}, inline(point[2])));
  }
  if (/^[\s|:*_`~-]+$/.test(line) || /^(```|~~~)/.test(line)) return null;
  const cells = /^\s*\|(.*)\|\s*$/.exec(line);
  if (cells) return h('span', {}, inline(cells[1].split('|').map((c) => c.trim()).join(' · ')));
  return h('span', {}, inline(line.replace(/^[>\s]+/, '')));
}

// textFace is the beginning of a Markdown text.
function textFace(text) {
  const shown = [];
  for (const line of text.split('\n')) {
    if (shown.length === mostLines) break;
    const el = lineOf(line);
    if (el) shown.push(el);
  }
  return h('div.excerpt', {}, shown);
}

const codeFace = (text) => h('pre.excerpt', {}, h('code', {}, text.split('\n').slice(0, 9).join('\n')));

// letter stands for a picture that is not there.
function letter(name, of) {
  const el = h('b.letter', {}, [...name.trim()][0]?.toUpperCase());
  el.style.setProperty('--hue', hueOf(of));
  return el;
}

// faceOf says how a record is shown on a card: letter is what its picture covers, body what stands below its name,
// and meta what it says of itself.
export function faceOf(r) {
  const title = titleOf(r);
  switch (r.kind) {
    case 'note': return { body: textFace(belowTitle(r)), meta: [] };
    case 'snippet': return { body: codeFace(r.content ?? ''), meta: [r.language] };
    case 'bookmark': return { letter: letter(hostOf(r.url), hostOf(r.url)) };
    case 'recipe': return { letter: letter(title, r.id) };
    case 'game': return { letter: letter(title, r.id) };
    case 'collection': return { picture: collectionFace(r), meta: [t('kind.items', { n: r.itemCount }), whose(r)] };
    case 'shortlink': return {
      body: h('div.excerpt.leads', {}, '→\u00a0', h('b', {}, hostOf(r.originalUrl ?? '')),
        h('span', {}, (r.originalUrl ?? '').replace(/^https?:\/\/[^/]*/, ''))),
      meta: [r.description],
    };
  }
  return {};
}

// sharedPart is filled when what others share is read.
export function sharedPart(v) {
  const node = h('div.overview.shared-with');
  sharedTiles(v, takeAnswer('shared')).then((part) => { if (part) node.replaceWith(part); });
  return node;
}
