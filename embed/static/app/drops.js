// Files and text that are dropped or pasted anywhere on a page. It owns what is dragged over the window. Of view it
// uses name, kind, box and sendFiles. The app loads it after the first rows; drops and pastes come from the browser.
import { find, h, icon, localDateTime, t, toast } from './dom.js';
import { kinds } from './kinds.js';
import { go } from './router.js';
import { base, loadModule, sendFiles, showProblem, storage, view } from './session.js';

function addFiles(files) {
  if (view?.sendFiles) view.sendFiles(files);
  else if (view?.box && (view.name === 'home' || view.kind === kinds.file)) view.box.addFiles(files);
  else sendFiles(files, { isPublic: storage.get('public') ? 'true' : 'false' });
}

// chooseFolder adds the files of a folder that the user chooses, as if it were dropped.
export const chooseFolder = async () => (await loadModule('uploads')).chooseFolder(addFiles);

function addText(text) {
  if (!text) return;
  const k = view?.name === 'kind' ? view.kind : null;
  if (view?.box?.area.isConnected) view.box.type(text);
  else if (k && k !== kinds.file) go(`${base}/${k.path}/new?${new URLSearchParams({ [k.quick]: text })}`);
  else go(base + '/').then(() => view.box.type(text));
}

const veil = h('div.veil', { hidden: true, 'aria-hidden': 'true' }, h('p', {}, icon('upload'), t('add.drop')));
document.body.append(veil);

// depth counts the elements that a drag has entered but not left.
let depth = 0;
// ownDrag is true while a part of this page is dragged, which cannot be dropped here.
let ownDrag = false;
const carries = (e, ...types) => types.some((type) => [...(e.dataTransfer?.types ?? [])].includes(type));
const canDrop = (e) => !ownDrag && carries(e, 'Files', 'text/uri-list', 'text/plain');
const inField = (e) => e.target.matches?.('textarea, input');

addEventListener('dragstart', () => { ownDrag = true; });
addEventListener('dragend', () => { ownDrag = false; });
addEventListener('dragenter', (e) => {
  if (!canDrop(e)) return;
  depth++;
  veil.hidden = false;
  if (carries(e, 'Files')) loadModule('uploads').catch(() => {});
});
addEventListener('dragleave', () => {
  depth = Math.max(0, depth - 1);
  veil.hidden = depth === 0;
});
addEventListener('dragover', (e) => {
  if (canDrop(e) && !inField(e)) {
    e.preventDefault();
    e.dataTransfer.dropEffect = 'copy';
  } else if (carries(e, 'Files')) {
    e.preventDefault();
  }
});
addEventListener('drop', (e) => {
  depth = 0;
  veil.hidden = true;
  const files = carries(e, 'Files');
  if (e.defaultPrevented || !canDrop(e) || !files && inField(e)) return; // a text has taken it
  e.preventDefault();
  if (files) addDropped(e.dataTransfer);
  else addText(droppedText(e.dataTransfer));
});

// addDropped adds the files of a drop, and those in its folders. After the event, nothing can be read from it.
async function addDropped({ files, items }) {
  const plain = [...files], entriesOf = (i) => [i.webkitGetAsEntry?.(), i.getAsFile()];
  const entries = [...items].filter((i) => i.kind === 'file').map(entriesOf);
  if (!entries.some(([entry]) => entry?.isDirectory)) return addFiles(plain);
  try {
    const found = await (await loadModule('uploads')).filesIn(entries);
    if (found.unread) toast(t('add.unread', { n: found.unread }), { bad: true });
    addFiles(found.files);
  } catch (e) { showProblem(e); }
}

// droppedText is the first address of a drop, or else its text.
function droppedText(transfer) {
  const address = transfer.getData('text/uri-list').split('\n').find((l) => l && l[0] !== '#');
  return address || transfer.getData('text/plain');
}

// renamed gives a picture from the clipboard a name with the time: they all have the same.
export function renamed(file) {
  if (!/^image\.\w+$/.test(file.name)) return file;
  const stamp = localDateTime(new Date()).replace('T', ' ').replace(':', '.');
  return new File([file], file.name.replace('image', t('add.pasted', { stamp })), { type: file.type });
}

addEventListener('paste', (e) => {
  const files = [...(e.clipboardData?.files ?? [])];
  if (e.defaultPrevented) return; // a text has taken it
  if (files.length) {
    e.preventDefault();
    return addFiles(files.map(renamed));
  }
  if (find('dialog[open]') || inField(e)) return;
  const text = e.clipboardData?.getData('text/plain');
  if (!text?.trim()) return;
  e.preventDefault();
  addText(text.trim());
});
