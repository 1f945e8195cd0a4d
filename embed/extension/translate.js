// Puts the texts into a page of the extension. An element with data-t has the text of that key, and data-t-NAME gives
// the attribute NAME a text. The elements inside one with data-t take the places of the names that they have in
// data-name.
import { lang, t, tn } from './text.js';

export function translate() {
  document.documentElement.lang = lang;
  document.documentElement.dir = t('format.dir');
  for (const el of document.querySelectorAll('[data-t]')) {
    const inside = Object.fromEntries([...el.children].map((child) => [child.dataset.name, child]));
    el.replaceChildren(...tn(el.dataset.t, inside));
  }
  for (const name of ['placeholder', 'aria-label']) {
    for (const el of document.querySelectorAll(`[data-t-${name}]`)) {
      el.setAttribute(name, t(el.getAttribute(`data-t-${name}`)));
    }
  }
}
