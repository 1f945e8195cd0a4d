// The menu of a row. It owns nothing that stays, and uses nothing of view. list.js calls fillMenu when the user opens a
// menu, and when the record of an open one has changed.
import { button, find, h, icon, itemOf, t } from './dom.js';
import { focusedAction } from './list.js';
import { localAddress } from './session.js';

// fillMenu puts into a menu what can be done with the record of its row.
export function fillMenu(menu) {
  const r = itemOf(menu).record;
  const item = (act, name, label) => button(act, label, {}, icon(name), label);
  const at = r.kind === 'bookmark' ? r.url : localAddress(r.url);
  const opened = { href: at, target: '_blank', rel: 'noopener noreferrer' };
  const saved = { href: localAddress(r.url), download: r.originalName };
  const pop = find('.pop', menu);
  const act = focusedAction(pop);
  pop.replaceChildren(
    h('a.button', opened, icon('open'), t('common.open')),
    ...(r.kind === 'file' ? [h('a.button', saved, icon('download'), t('common.download'))] : []),
    item('edit', 'edit', t('common.edit')),
    item('share-item', 'share', t('list.share')),
    item('copy', 'copy', t('common.copyLink')),
    item('publish', r.isPublic ? 'lock' : 'check', r.isPublic ? t('list.private') : t('list.publish')),
    item('delete', 'trash', t('common.delete')));
  if (act) find(`[data-act="${act}"]`, pop)?.focus({ preventScroll: true });

  // It opens upwards if it would end below the window and there is room above.
  pop.classList.remove('up');
  const low = pop.getBoundingClientRect().bottom > innerHeight - 70;
  pop.classList.toggle('up', low && menu.getBoundingClientRect().top > pop.offsetHeight);
}
