// What scripts add to a recipe: ticks and amounts. The public page and the reader of the app share it. It stores
// nothing and sends no requests. Without it the page is complete.
import { changes } from './amounts.js';
import { el } from './item.js';

// lineOf is a line of a list of ingredients in the text nodes of an element. set shows it for a number of times the
// recipe. A line whose amount is not certain stays, and note says so. scales is whether anything in the line changes.
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

// makeList makes rows of lines that are no list: of a paragraph with breaks, or of a row of a list with breaks.
function makeList(p) {
  const lines = [[]];
  for (const node of [...p.childNodes]) {
    if (node.nodeName === 'BR') lines.push([]);
    else lines.at(-1).push(node);
  }
  const rows = lines.map((line) => el('li', {}, ...line));
  p.replaceWith(...(p.nodeName === 'LI' ? rows : [el('ul', {}, ...rows)]));
}

// addTick puts a box to tick before a row. Lists inside of the row stay outside of its label.
function addTick(li) {
  const inside = [...li.childNodes].filter((n) => !/^[UO]L$/.test(n.nodeName));
  const label = el('label', {}, el('input', { type: 'checkbox' }), el('span', {}, ...inside));
  li.prepend(label);
  li.classList.add('tick');
  return label.lastChild;
}

// timesButton shows all lines for a number of times the recipe.
function timesButton(lines, times, textContent) {
  const b = el('button', { type: 'button', className: 'quiet', textContent, ariaPressed: String(times === 1) });
  b.addEventListener('click', () => {
    for (const line of lines) line.set(times);
    for (const other of b.parentNode.children) other.ariaPressed = String(other === b);
  });
  return b;
}

// addTicks lets a cook tick the lines of a list, and take half or twice of everything.
function addTicks(section, texts) {
  const prose = section.querySelector('.prose');
  if (!prose || prose.querySelector('input')) return;
  for (const p of prose.querySelectorAll(':scope > p:has(br), li:has(> br)')) makeList(p);
  const lines = [...prose.querySelectorAll('li')].map((li) => lineOf(addTick(li), texts.unscaled));
  if (!lines.some((line) => line.scales)) return;

  const choices = [[0.5, '½×'], [1, '1×'], [2, '2×'], [3, '3×']];
  const buttons = choices.map(([times, label]) => timesButton(lines, times, label));
  const group = el('div', { className: 'amounts', ariaLabel: texts.amounts }, ...buttons);
  group.setAttribute('role', 'group');
  section.querySelector('h2').after(group);
}

// cook lets a cook use the ingredients below a node. texts has the texts amounts and unscaled.
export function cook(root, texts) {
  for (const section of root.querySelectorAll('.field-ingredients')) addTicks(section, texts);
}

const recipe = document.querySelector('script[data-amounts]');
if (recipe) cook(document.querySelector('main.shared'), recipe.dataset);
