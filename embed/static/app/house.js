// Who of the people on this server shares a collection: their names, and what each may do. It uses nothing of view. The
// share dialog shows it.
import { add, all, find, h, iconButton, t, toast } from './dom.js';
import { apiPathOf, personName } from './kinds.js';
import { updateRows } from './list.js';
import { api, countChange, me, showProblem } from './session.js';
import { roles } from './tiles.js';

// houseOf is the part of the share dialog for a collection. changed is called with the collection as it is now. It is
// empty where nobody else is.
export function houseOf(r, changed) {
  const node = h('section.house', { 'aria-label': t('house.title'), hidden: true });
  let people = [];
  const live = r.source?.folderId || r.source?.tag;
  const choices = Object.entries(roles).filter(([role]) => !live || role !== 'add');

  // set gives a person a role, or takes it back if that is ''.
  async function set(id, role) {
    const isNew = !r.members?.some((m) => m.userId === id);
    try {
      const at = `${apiPathOf(r)}/members/${id}`;
      if (role) await api('PUT', at, { role });
      else await api('DELETE', at);
      r = (await api('GET', apiPathOf(r))).data;
      countChange();
      draw();
      updateRows(r);
      changed(r);
      const member = r.members?.find((m) => m.userId === id);
      if (member && isNew && r.isPublic) toast(t('house.public', { name: personName(member) }));
    } catch (e) {
      draw();
      showProblem(e);
    }
  }

  const roleOf = (member) => {
    const el = h('select', { 'aria-label': t('house.roleOf', { name: personName(member) }) },
      choices.map(([role, text]) => h('option', { value: role, selected: role === member.role }, text)));
    el.onchange = () => set(member.userId, el.value);
    return el;
  };

  function draw() {
    const active = node.contains(document.activeElement) && document.activeElement.ariaLabel;
    const members = r.members ?? [];
    const others = people.filter((p) => p.id !== me.id && !members.some((m) => m.userId === p.id));
    node.hidden = !members.length && !others.length;
    const chooser = h('select', { 'aria-label': t('house.choose') },
      h('option', { value: '' }, t('house.choose')),
      others.map((p) => h('option', { value: p.id }, personName(p))));
    chooser.onchange = () => chooser.value && set(chooser.value, 'see');
    const rows = members.map((m) => {
      const out = iconButton('none', 'close', t('house.remove', { name: personName(m) }), { class: 'quiet square' });
      out.onclick = () => set(m.userId, '');
      return h('li', {}, h('span.grow', {}, personName(m)), roleOf(m), out);
    });
    node.replaceChildren();
    add(node, h('h3', {}, t('house.title')), rows.length > 0 && h('ul', {}, rows), others.length > 0 && chooser);
    if (active) (all('select, button', node).find((el) => el.ariaLabel === active) ?? find('select', node))?.focus();
  }

  api('GET', 'people?limit=500').then(({ data }) => {
    people = data;
    draw();
  }, draw); // only administrators may see who is here
  return node;
}
