// Earlier texts of a note, snippet or recipe, with what differs from the current text. It owns its dialog and uses
// nothing of view. The reader calls openVersions.
import { deviceName } from './devices.js';
import { differing } from './difference.js';
import { add, bytes, emptyState, h, t, tn, toast, when } from './dom.js';
import { openDialog } from './forms.js';
import { apiPathOf, kindOf } from './kinds.js';
import { fetchRecord, updateRows } from './list.js';
import { api, showProblem } from './session.js';

export { difference } from './difference.js';

// compared shows what differs between a version and the present record, field by field.
function compared(k, old, now) {
  const text = (r, f) => f.choices?.[r[f.name]] ?? String(r[f.name] ?? '');
  const parts = k.fields.filter((f) => text(old, f) !== text(now, f))
    .map((f) => [h('h3', {}, f.label), differing(f, text(old, f), text(now, f))]);
  if (!parts.length) return h('p.soft', {}, t('versions.same'));
  const del = h('del', {}, t('versions.then')), ins = h('ins', {}, t('versions.now'));
  return [h('p.soft', {}, tn('versions.legend', { del, ins })), parts];
}

// openVersions shows the timeline of a record. restored is called with the record after a version was restored.
export async function openVersions(r, restored) {
  const at = `${apiPathOf(r)}/versions`;
  let list, now;
  try {
    [list, now] = await Promise.all([api('GET', `${at}?limit=500`), fetchRecord(r)]);
  } catch (e) { return showProblem(e); }

  const d = openDialog(t('versions.title'), { panel: true });
  const entry = (v) => {
    const body = h('div', {}, h('p.soft', {}, t('common.loading')));
    const summary = h('summary', {},
      tn('versions.before', { when: when(v.at) }),
      v.by && h('span', {}, t('common.by', { name: deviceName(v.by) })),
      h('span.soft', {}, bytes(v.size)));
    const el = h('details', {}, summary, body);
    el.addEventListener('toggle', async () => {
      if (!el.open || el.loaded) return;
      try {
        const { data } = await api('GET', `${at}/${v.id}`);
        el.loaded = true;
        const restore = h('button', { type: 'button' }, t('versions.restore'));
        restore.onclick = async () => {
          restore.disabled = true;
          try {
            const answer = await api('POST', `${at}/${v.id}/restore`, undefined, { etag: now.etag });
            d.el.close('done');
            updateRows(answer.data);
            toast(t('versions.restored'));
            restored(answer.data);
          } catch (e) {
            showProblem(e);
            restore.disabled = false;
            if (!e.record) return;
            now = e.record; // it was changed elsewhere: now the user sees how
            updateRows(now);
            draw();
          }
        };
        const draw = () => {
          body.replaceChildren();
          add(body, compared(kindOf(r), data, now), h('div.row', {}, restore));
        };
        draw();
      } catch (e) { body.replaceChildren(h('p.alert', { role: 'alert' }, e.message)); }
    });
    return el;
  };
  const shown = () => [h('p.soft', {}, t('versions.hint')), h('div.versions', {}, list.data.map(entry))];
  add(d.body, list.data.length ? shown() : emptyState(t('versions.none'), t('versions.noneHint')));
  return null;
}
