// Pictures in the text of a note or a recipe: they are uploaded as parts of it and stand at the cursor. It uses nothing
// of view. The text areas of forms call insertFiles.
import { renamed } from './add.js';
import { sendFiles } from './uploads.js';

// wordsFor are what stands for a file in a text: its name, without the end and what Markdown would read.
const wordsFor = (file) => file.name.replace(/\.[^.]*$/, '').replace(/[\[\]\\\n]/g, ' ').trim();

// insertAt puts a line of its own at the cursor of a text area.
function insertAt(area, line) {
  const { value, selectionEnd: at } = area;
  const before = at && value[at - 1] !== '\n' ? '\n' : '', after = value[at] === '\n' ? '' : '\n';
  area.setRangeText(before + line + after, at, at, 'end');
  area.dispatchEvent(new Event('input', { bubbles: true }));
}

// insertFiles uploads files, and shows each in the text of the area once it is there.
export function insertFiles(area, files) {
  sendFiles([...files].map(renamed), { attach: 'true' }, (record, file) => {
    insertAt(area, `![${wordsFor(file)}](kist:${record.id})`);
  });
}
