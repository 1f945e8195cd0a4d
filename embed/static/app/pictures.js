// Pictures in the text of a note or a recipe: they are uploaded as parts of it, and each takes the place of the line
// that stands for it until then. It uses nothing of view. The text areas of forms call insertFiles.
import { renamed } from './drops.js';
import { shorten, t, toast } from './dom.js';
import { replaceLine } from './forms.js';
import { sendFiles } from './uploads.js';

// wordsFor are what stands for a file in a text: its name, without the end and what Markdown would read.
const wordsFor = (file) => file.name.replace(/\.[^.]*$/, '').replace(/[\[\]\\\n]/g, ' ').trim();

// insertFiles uploads files. added has the line of the text area that stands for each.
export function insertFiles(area, lines, added) {
  for (const [line, file] of added) insertFile(area, lines, line, renamed(file));
}

function insertFile(area, lines, line, file) {
  const name = shorten(file.name);
  let text = null;
  // The line can come back: undone, or pasted.
  const settle = () => {
    if (text !== null && area.value.includes(line)) replaceLine(area, lines, line, text);
  };
  area.addEventListener('input', settle);
  sendFiles([file], { attach: 'true' }, (record) => {
    text = `![${wordsFor(file)}](kist:${record.id})`;
    if (!area.isConnected) toast(t('pictures.late', { name }), { time: 10000 });
    else if (!area.value.includes(line)) toast(t('pictures.deleted', { name }), { time: 10000 });
    settle();
  }, (why) => {
    text = '';
    if (why) toast(t('pictures.failed', { name, why }), { bad: true });
    settle();
  });
}
