// What scripts add to an item: Copy buttons, and ticks and amounts in recipes. The public page and the reader of the app
// share it. It stores nothing and sends no requests. Without it the page is complete.

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

const fractions = { '½': 1 / 2, '⅓': 1 / 3, '⅔': 2 / 3, '¼': 1 / 4, '¾': 3 / 4, '⅛': 1 / 8 };
const one = String.raw`\d+\s+\d+/\d+|\d+/\d+|\d+(?:[.,]\d+)?(?:\s?[½⅓⅔¼¾⅛])?|[½⅓⅔¼¾⅛]`;
const amount = new RegExp(String.raw`^(\s*(?:[a-z]{1,6}\.?\s)?)(${one})(?:(\s*[-–]\s*)(${one}))?(?![\d/])`, 'i');

// valueOf reads an amount such as 2, 1.5, 1,5, 3/4, 1 1/2, ½ and 1½.
function valueOf(text) {
  let sum = 0;
  for (const part of text.replace(/([½⅓⅔¼¾⅛])/, ' $1').trim().split(/\s+/)) {
    const [over, under] = part.split('/');
    sum += fractions[part] ?? Number(over.replace(',', '.')) / (under ? Number(under) : 1);
  }
  return sum;
}

// spoken writes an amount for a kitchen: 1½ and not 1.5, and never more digits than a scale shows.
function spoken(value) {
  const whole = Math.floor(value + 0.02), rest = value - whole;
  const close = Object.entries(fractions).find(([, f]) => Math.abs(f - rest) < 0.02);
  if (value < 10 && close) return (whole || '') + close[0];
  if (Math.abs(rest) < 0.02) return String(whole);
  return new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3, useGrouping: false }).format(value);
}

// scaled is a line of a list of ingredients for a number of times the recipe. Only the amount at its beginning changes.
export const scaled = (line, times) => times === 1 ? line : line.replace(amount, (all, before, from, dash, to) =>
  before + spoken(valueOf(from) * times) + (to ? dash + spoken(valueOf(to) * times) : ''));

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
  const first = [];
  for (const li of prose.querySelectorAll('li')) {
    const label = el('label', {}, el('input', { type: 'checkbox' }), el('span', {}, ...[...li.childNodes].filter((n) => !/^[UO]L$/.test(n.nodeName))));
    li.prepend(label);
    li.classList.add('tick');
    const text = label.lastChild.firstChild;
    if (text?.nodeType === Node.TEXT_NODE && amount.test(text.data)) first.push([text, text.data]);
  }
  if (!first.length) return;
  const choices = [[0.5, '½×'], [1, '1×'], [2, '2×'], [3, '3×']].map(([times, label]) => {
    const b = el('button', { type: 'button', className: 'quiet', textContent: label, ariaPressed: String(times === 1) });
    b.addEventListener('click', () => {
      for (const [node, line] of first) node.data = scaled(line, times);
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

// enhance adds all of this to the item below a node. texts has the texts copy, copied, select and amounts.
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
