// What scripts add to an item, such as Copy buttons. The public page and the reader of the app share it. It stores
// nothing and sends no requests. Without it the page is complete.

// el makes an element with properties.
export function el(name, props, ...children) {
  const e = Object.assign(document.createElement(name), props);
  e.append(...children);
  return e;
}

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
    const text = await copy(node) ? texts.copied : texts.select;
    button.textContent = text;
    said.textContent = text;
    clearTimeout(timer);
    timer = setTimeout(() => {
      button.textContent = texts.copy;
      said.textContent = '';
    }, 2000);
  });
  place.append(button, said);
}

// isPlain reports whether a key is pressed alone, and for the page.
const isPlain = (e) =>
  !e.altKey && !e.ctrlKey && !e.metaKey && !e.shiftKey && !e.defaultPrevented && !document.fullscreenElement;

// addTurning lets the arrow keys, and a swipe over a picture, lead to the next and the previous item of a collection.
// Escape leads back to the collection.
function addTurning(among) {
  const ways = { ArrowRight: '[rel=next]', ArrowLeft: '[rel=prev]', Escape: 'a:not([rel])' };
  const turn = (way) => among.querySelector(way)?.click();
  const keepsKeys = 'input,textarea,select,video,audio,pre,table,.table';
  document.addEventListener('keydown', (e) => {
    if (ways[e.key] && isPlain(e) && !e.target.closest(keepsKeys)) turn(ways[e.key]);
  });

  const picture = document.querySelector('.shown-image');
  let from = null;
  picture?.addEventListener('touchstart', (e) => {
    from = e.touches.length === 1 ? e.touches[0] : null;
  }, { passive: true });
  picture?.addEventListener('touchend', (e) => {
    if (!from || visualViewport?.scale > 1) return;
    const { clientX, clientY } = e.changedTouches[0], x = clientX - from.clientX;
    if (Math.abs(x) <= 60 || Math.abs(clientY - from.clientY) >= 40) return;
    turn(x < 0 ? ways.ArrowRight : ways.ArrowLeft);
  });
}

// enhance adds all of this to the item below a node. texts has the texts copy, copied and select.
export function enhance(root, texts) {
  for (const listing of root.querySelectorAll('.listing')) {
    const code = listing.querySelector('code');
    if (code) addCopy(code, listing.querySelector('figcaption'), texts);
  }
  for (const node of root.querySelectorAll(':not(script)[data-copy]')) addCopy(node, node.parentNode, texts);

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
