// What scripts add to a recipe: ticks and amounts. The public page and the reader of the app share it. It stores nothing and
// sends no requests. Without it the page is complete.
import { changes } from './amounts.js';
import { el } from './item.js';

// lineOf is a line of a list of ingredients in the text nodes of an element. set shows it for a number of times the recipe.
// A line whose amount is not certain stays, and note says so. scales is whether anything in the line changes.
function lineOf(node, note) {
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT), nodes = [];
  while (walker.nextNode()) nodes.push(walker.currentNode);
  const texts = nodes.map((n) => n.data), line = texts.join('');
  const starts = texts.map((_, i) => texts.slice(0, i).join('').length);
  const decimal = new Intl.NumberFormat(document.documentElement.lang || undefined).format(1.5)[1];

  // textsFor are the texts of the nodes; null if they stay as they are because an amount is not certain.
  function textsFor(times) {
    const list = changes(line, times, decimal), out = [...texts];
    if (!list) return null;
    for (const [from, to, text] of list.reverse()) {
      const i = starts.findLastIndex((start) => start <= from), start = starts[i];
      if (to > start + texts[i].length) return null; // it is written in two nodes
      out[i] = out[i].slice(0, from - start) + text + out[i].slice(to - start);
    }
    return out;
  }

  const said = el('small', { className: 'soft unscaled', textContent: note });
  function set(times) {
    const now = times === 1 ? texts : textsFor(times);
    nodes.forEach((n, i) => { n.data = (now ?? texts)[i]; });
    if (now) said.remove();
    else node.append(said);
  }
  const doubled = textsFor(2);
  return { set, scales: !!doubled && doubled.join('') !== line };
}

// addTicks lets a cook tick the lines of a list, and take half or twice of everything.
function addTicks(section, texts) {
  const prose = section.querySelector('.prose');
  if (!prose || prose.querySelector('input')) return;
  // Lines that are no list are a paragraph with breaks, or follow a line of a list with breaks.
  for (const p of prose.querySelectorAll(':scope > p:has(br), li:has(> br)')) {
    const lines = [[]];
    for (const node of [...p.childNodes]) if (node.nodeName === 'BR') lines.push([]); else lines.at(-1).push(node);
    const rows = lines.map((line) => el('li', {}, ...line));
    p.replaceWith(...(p.nodeName === 'LI' ? rows : [el('ul', {}, ...rows)]));
  }
  const lines = [];
  for (const li of prose.querySelectorAll('li')) {
    const label = el('label', {}, el('input', { type: 'checkbox' }), el('span', {}, ...[...li.childNodes].filter((n) => !/^[UO]L$/.test(n.nodeName))));
    li.prepend(label);
    li.classList.add('tick');
    lines.push(lineOf(label.lastChild, texts.unscaled));
  }
  if (!lines.some((line) => line.scales)) return;
  const choices = [[0.5, '½×'], [1, '1×'], [2, '2×'], [3, '3×']].map(([times, label]) => {
    const b = el('button', { type: 'button', className: 'quiet', textContent: label, ariaPressed: String(times === 1) });
    b.addEventListener('click', () => {
      for (const line of lines) line.set(times);
      for (const other of b.parentNode.children) other.ariaPressed = String(other === b);
    });
    return b;
  });
  const group = el('div', { className: 'amounts', ariaLabel: texts.amounts }, ...choices);
  group.setAttribute('role', 'group');
  section.querySelector('h2').after(group);
}

// cook lets a cook use the ingredients below a node. texts has the texts amounts and unscaled.
export function cook(root, texts) {
  for (const section of root.querySelectorAll('.field-ingredients')) addTicks(section, texts);
}

const recipe = document.querySelector('script[data-amounts]');
if (recipe) cook(document.querySelector('main.shared'), recipe.dataset);
