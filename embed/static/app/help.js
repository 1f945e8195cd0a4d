// The dialogs with the keyboard shortcuts and with all pages. It owns the list of shortcuts and uses nothing of view.
// app.js calls showHelp and showMenu.
import { all, h, t, tn } from './dom.js';
import { openDialog } from './forms.js';
import { base, storage } from './session.js';

const shortcuts = [
  ['/', t('shortcuts.search')],
  ['n', t('shortcuts.new')],
  ['↑ ↓ or j k', t('shortcuts.move')],
  ['Enter', t('shortcuts.open')],
  ['e', t('shortcuts.edit')],
  ['s', t('shortcuts.share')],
  ['c', t('shortcuts.copy')],
  ['f', t('shortcuts.favourite')],
  ['x', t('shortcuts.select')],
  ['Delete', t('shortcuts.delete')],
  ['u', t('shortcuts.undo')],
  ['Ctrl S or Ctrl Enter', t('shortcuts.save')],
  ['← → Space i', t('shortcuts.viewer')],
  ['Esc', t('shortcuts.escape')],
  ['g then h f b n s r a l t', t('shortcuts.go')],
  ['?', t('shortcuts.this')],
];

// words join the keys of a shortcut.
const words = { or: t('shortcuts.or'), then: t('shortcuts.then') };
// keysOf writes the keys of a shortcut.
const keysOf = (keys) => keys.split(' ').map((part) => words[part] ? ` ${words[part]} ` : [h('kbd', {}, part), ' ']);

export function showHelp() {
  const d = openDialog(t('shortcuts.title'));
  const on = h('input', { type: 'checkbox', checked: storage.get('keys', true) });
  on.onchange = () => storage.set('keys', on.checked);
  const handbook = h('a', { href: `${base}/help` }, t('shortcuts.handbook'));
  const reference = h('a', { href: `${base}/api/v1/reference` }, t('shortcuts.api'));
  d.body.append(
    h('dl.keys', {}, shortcuts.map(([keys, what]) => [h('dt', {}, keysOf(keys)), h('dd', {}, what)])),
    h('label.check', {}, on, h('span', {}, t('shortcuts.use'))),
    h('p.soft', {}, tn('shortcuts.more', { handbook, api: reference })));
}

// showMenu lists all pages. It replaces the navigation where there is no space for it.
export function showMenu() {
  const d = openDialog(t('app.everything'));
  const links = all('.rail a:not(.brand)').map((a) => {
    const copy = a.cloneNode(true);
    copy.className = '';
    return copy;
  });
  d.body.append(h('nav.sheet-nav', { 'aria-label': t('app.pages') }, links));
  d.body.addEventListener('click', (e) => { if (e.target.closest('a')) d.el.close(); });
}
