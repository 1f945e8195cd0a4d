// The dialog that chooses items for a collection: by searching among the user's own, or by uploading files. It owns its
// dialog, and uses nothing of view. The board calls openPicker.
import { add, h, icon, t } from './dom.js';
import { openDialog } from './forms.js';
import { isPicture, kindOf, kinds, thumbnailOf, titleOf } from './kinds.js';
import { api, showProblem } from './session.js';

const most = 60; // shown at once

// openPicker opens the dialog. has knows the items that are in the collection already, by id; told is what the user
// should know; take is called with the ids that were chosen, and returns a promise; send is called with files.
export function openPicker({ title, has, told, take, send }) {
  const d = openDialog(t('board.addTo', { title }), { panel: true });
  const chosen = new Set();
  const field = h('input', { type: 'search', placeholder: t('board.find'), 'aria-label': t('board.find') });
  const list = h('ul.picks');
  const done = h('button.main', { type: 'button' });
  const files = h('input', { type: 'file', multiple: true, hidden: true });
  const upload = h('button', { type: 'button' }, icon('upload'), t('common.upload'));

  const draw = () => {
    done.textContent = chosen.size ? t('board.addChosen', { n: chosen.size }) : t('board.add');
    done.disabled = !chosen.size;
  };

  function rowOf(r) {
    const box = h('input', { type: 'checkbox', checked: has.has(r.id) || chosen.has(r.id), disabled: has.has(r.id) });
    box.onchange = () => {
      if (box.checked) chosen.add(r.id);
      else chosen.delete(r.id);
      draw();
    };
    const small = isPicture(r) && h('img', { src: thumbnailOf(r, 'row'), alt: '', loading: 'lazy' });
    const pic = small || icon(kindOf(r).icon);
    return h('li', {}, h('label', {}, box, h('span.pic', {}, pic),
      h('span.grow', {}, titleOf(r), h('small.soft', {}, ' ', has.has(r.id) ? t('board.isIn') : kindOf(r).one))));
  }

  let asked = 0;
  async function search() {
    const mine = ++asked, query = new URLSearchParams({ limit: most });
    if (field.value.trim()) query.set('q', field.value.trim());
    try {
      const found = (await api('GET', `search?${query}`)).data;
      if (mine !== asked) return;
      const rows = found.filter((hit) => kinds[hit.kind] && hit.kind !== 'collection').map((hit) => rowOf(hit.record));
      const none = () => h('li.soft', {}, t(query.has('q') ? 'search.empty' : 'board.empty'));
      list.replaceChildren(...rows.length ? rows : [none()]);
    } catch (e) { showProblem(e); }
  }

  let timer = 0;
  field.oninput = () => {
    clearTimeout(timer);
    timer = setTimeout(search, 250);
  };
  done.onclick = async () => {
    done.disabled = true;
    try {
      await take([...chosen]);
      d.el.close('done');
    } catch (e) {
      showProblem(e);
      draw();
    }
  };
  upload.onclick = () => files.click();
  files.onchange = () => {
    send([...files.files]);
    d.el.close('done');
  };

  add(d.body,
    told && h('p.alert', {}, told),
    h('div.find', {}, field, upload, files),
    list,
    h('div.row.foot', {}, done));
  draw();
  search();
  field.focus();
}
