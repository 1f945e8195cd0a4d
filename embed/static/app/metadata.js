// What visitors get of the metadata in pictures and films. It owns the line that says so, and uses nothing of view. The
// reader and the viewer call metadataLine.
import { h, t } from './dom.js';
import { saveRecord } from './list.js';

const metadataKinds = {
  gps: t('metadata.gps'),
  camera: t('metadata.camera'),
  serial: t('metadata.serial'),
  time: t('metadata.time'),
  text: t('metadata.text'),
  thumbnail: t('metadata.thumbnail'),
  other: t('metadata.other'),
};

// stateOf says what others get of the metadata; nothing if there is nothing to say.
function stateOf(r) {
  const what = (r.metadataFound ?? []).map((kind) => metadataKinds[kind]).join(', ');
  switch (r.metadata) {
    case 'removed': return t('metadata.removed', { what });
    case 'unreadable': return t('metadata.unreadable');
    case 'kept': break;
    default: return '';
  }
  if (what) return t('metadata.kept', { what });
  return /^(image|video)/.test(r.mimeType) ? t('metadata.format') : '';
}

// metadataLine says what others get of the metadata in a picture or film, with a switch if its owner has a choice; null
// if there is nothing to say.
export function metadataLine(r) {
  const state = stateOf(r);
  if (!state) return null;
  const on = h('input', { type: 'checkbox', role: 'switch', checked: r.stripMetadata });
  on.onchange = async () => {
    const saved = await saveRecord(r, { stripMetadata: on.checked });
    if (!saved) on.checked = !on.checked;
  };
  const canChoose = r.metadata === 'removed' || !r.stripMetadata;
  return h('div.metadata', {},
    h('p.soft', {}, state),
    canChoose && h('label.check', {}, on, h('span', {}, t('metadata.remove'))));
}
