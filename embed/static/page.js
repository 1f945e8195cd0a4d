// What scripts add to an item: Copy buttons, and ticks and amounts in recipes. The public page and the reader of the app
// share it. It stores nothing and sends no requests. Without it the page is complete.
import { changes } from './amounts.js';

// el makes an element with properties.
const el = (name, props, ...children) => { const e = Object.assign(document.createElement(name), props); e.append(...children); return e; };

// ---- Copying ----

// Without HTTPS, browsers offer only the older way, which copies the selection.
async function copy(node) {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(node.textContent);
      return true;
    } catch { /* not allowed: try the other way */ }
  }
  const chosen = getSelection();
  chosen.selectAllChildren(node);
  const done = document.execCommand('copy');
  if (done) chosen.removeAllRanges();
  return done;
}

function addCopy(node, place, texts) {
  const button = el('button', { type: 'button', className: 'quiet', textContent: texts.copy });
  const said = el('span', { className: 'sr', role: 'status' });
  let timer;
  button.addEventListener('click', async () => {
    button.textContent = said.textContent = (await copy(node)) ? texts.copied : texts.select;
    clearTimeout(timer);
    timer = setTimeout(() => { button.textContent = texts.copy; said.textContent = ''; }, 2000);
  });
  place.append(button, said);
}

// ---- Recipes ----

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

// addTurning lets the arrow keys, and a swipe over a picture, lead to the next and the previous item of a collection. Escape
// leads back to the collection.
function addTurning(among) {
  const ways = { ArrowRight: '[rel=next]', ArrowLeft: '[rel=prev]', Escape: 'a:not([rel])' };
  const turn = (way) => among.querySelector(way)?.click();
  document.addEventListener('keydown', (e) => {
    const meant = !e.altKey && !e.ctrlKey && !e.metaKey && !e.shiftKey && !e.defaultPrevented && !document.fullscreenElement;
    if (ways[e.key] && meant && !e.target.closest('input,textarea,select,video,audio,pre,table,.table')) turn(ways[e.key]);
  });
  const picture = document.querySelector('.shown-image');
  let from = null;
  picture?.addEventListener('touchstart', (e) => { from = e.touches.length === 1 ? e.touches[0] : null; }, { passive: true });
  picture?.addEventListener('touchend', (e) => {
    const { clientX, clientY } = e.changedTouches[0], x = from && clientX - from.clientX;
    if (Math.abs(x) > 60 && Math.abs(clientY - from.clientY) < 40 && !(visualViewport?.scale > 1)) turn(x < 0 ? ways.ArrowRight : ways.ArrowLeft);
  });
}

// enhance adds all of this to the item below a node. texts has the texts copy, copied, select, amounts and unscaled.
export function enhance(root, texts) {
  for (const listing of root.querySelectorAll('.listing')) {
    const code = listing.querySelector('code');
    if (code) addCopy(code, listing.querySelector('figcaption'), texts);
  }
  for (const node of root.querySelectorAll(':not(script)[data-copy]')) addCopy(node, node.parentNode, texts);
  for (const section of root.querySelectorAll('.field-ingredients')) addTicks(section, texts);

  // If the smaller version cannot be made, the picture itself is shown.
  for (const img of root.querySelectorAll('.shown a > img')) {
    const whole = () => { img.src = img.parentNode.href; };
    if (img.complete && !img.naturalWidth) whole();
    else img.addEventListener('error', whole, { once: true });
  }

  // An icon that does not load leaves no gap.
  for (const icon of root.querySelectorAll('.favicon')) {
    if (icon.complete && !icon.naturalWidth) icon.remove();
    else icon.addEventListener('error', () => icon.remove());
  }
}

const shared = document.querySelector('main.shared');
if (shared) enhance(shared, document.querySelector('script[data-copy]').dataset);
const among = document.querySelector('.among');
if (among) addTurning(among);
