// The dialog with the keyboard shortcuts and the link to the handbook.
import { h } from './dom.js';
import { openDialog } from './forms.js';
import { base, storage } from './session.js';

const shortcuts = [
  ['/', 'Search'], ['n', 'New'], ['↑ ↓ or j k', 'Move through the list'], ['Enter', 'Open'], ['e', 'Edit'], ['s', 'Share'], ['c', 'Copy the link'], ['f', 'Favourite'],
  ['x', 'Select'], ['Delete', 'Delete, with five seconds to undo'], ['u', 'Undo'], ['Ctrl Enter', 'Save'], ['← → Space i', 'In the viewer: previous, next, play, details'], ['Esc', 'Close, or clear the selection'], ['g then h f b n s r a l t', 'Go to home, files, bookmarks, notes, snippets, recipes, games, links, tags'], ['?', 'This list'],
];

export function showHelp() {
  const d = openDialog('Keyboard and help');
  const on = h('input', { type: 'checkbox', checked: storage.get('keys', true) });
  on.onchange = () => storage.set('keys', on.checked);
  d.body.append(h('dl.keys', {}, shortcuts.flatMap(([keys, what]) => [h('dt', {}, keys.split(' ').map((part) => /^(or|then)$/.test(part) ? ` ${part} ` : [h('kbd', {}, part), ' '])), h('dd', {}, what)])),
    h('label.check', {}, on, h('span', {}, 'Use single-letter shortcuts')),
    h('p.soft', {}, 'You can drop files and paste pictures on every page. The ', h('a', { href: `${base}/help` }, 'handbook'), ' explains more. The ', h('a', { href: `${base}/api/v1/reference` }, 'API'), ' can do everything that these pages do.'));
}
