// The choice of the user when what they changed was changed elsewhere too. It owns its dialog and uses nothing of view.
// The editor calls openConflict.
import { differing } from './difference.js';
import { add, ago, h, t, tn } from './dom.js';
import { openDialog } from './forms.js';

// openConflict shows what changed here and elsewhere since the text that the user began with, and asks what stays. when
// is the time of the other change; null if the record was deleted. fields have the texts of the fields that differ:
// old, mine and theirs. The others are what the buttons do. keepBoth gets a function that names the second one; null if
// there cannot be two. The dialog closes when that is done. If it is closed without a choice, the editor below it still
// has the user's text.
export function openConflict({ when, fields, keepMine, takeTheirs, keepBoth }) {
  const d = openDialog(when ? t('conflict.title') : t('conflict.gone'), { panel: true });
  const problem = h('p.alert', { role: 'alert', hidden: true });

  // The choices.
  const second = keepBoth && (() => keepBoth((title) => when ? t('conflict.copy', { title }) : title));
  const choices = when ? [[t('conflict.mine'), keepMine], [t('conflict.theirs'), takeTheirs]] : [];
  if (second) choices.push([when ? t('conflict.both') : t('conflict.asNew'), second]);
  const buttons = choices.map(([label, run], i) => {
    const b = h(i === 0 ? 'button.main' : 'button', { type: 'button' }, label);
    b.onclick = async () => {
      problem.hidden = true;
      for (const other of buttons) other.disabled = true;
      try {
        await run();
        d.el.close('done');
      } catch (e) {
        problem.textContent = e.message;
        problem.hidden = false;
      } finally {
        for (const other of buttons) other.disabled = false;
      }
    };
    return b;
  });

  // What differs.
  const side = (label, f, now) => now !== f.old && [h('p.soft', {}, label), differing(f, f.old, now)];
  const shown = (f) => [
    h('h3', {}, f.label),
    side(t('conflict.elsewhere'), f, f.theirs),
    side(t('conflict.here'), f, f.mine),
  ];
  const del = h('del', {}, t('conflict.removed')), ins = h('ins', {}, t('conflict.added'));
  const legend = h('p.soft', {}, tn('conflict.legend', { del, ins }));
  const text = when ? t('conflict.text', { when: ago(when) }) : t('conflict.goneText');
  add(d.body,
    h('p.soft', {}, text),
    problem,
    h('div.row', {}, buttons),
    fields.length > 0 && h('div.versions', {}, legend, fields.map(shown)));
  buttons[0].focus();
}
