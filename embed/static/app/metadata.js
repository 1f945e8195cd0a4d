// What visitors get of the metadata in pictures and films.
import { h, t } from './dom.js';
import { saveRecord } from './list.js';

const metadataKinds = {
  gps: t('metadata.gps'), camera: t('metadata.camera'), serial: t('metadata.serial'), time: t('metadata.time'), text: t('metadata.text'),
  thumbnail: t('metadata.thumbnail'), other: t('metadata.other'),
};

// metadataLine says what others get of the metadata in a picture or film, with a switch if its owner has a choice; null
// if there is nothing to say.
export function metadataLine(r) {
  const what = (r.metadataFound ?? []).map((kind) => metadataKinds[kind]).join(', ');
  const says = {
    removed: () => t('metadata.removed', { what }), unreadable: () => t('metadata.unreadable'),
    kept: () => what ? t('metadata.kept', { what }) : /^(image|video)/.test(r.mimeType) && t('metadata.format'),
  }[r.metadata]?.();
  if (!says) return null;
  const on = h('input', { type: 'checkbox', role: 'switch', checked: r.stripMetadata });
  on.onchange = async () => { if (!await saveRecord(r, { stripMetadata: on.checked })) on.checked = !on.checked; };
  return h('div.metadata', {}, h('p.soft', {}, says), (r.metadata === 'removed' || !r.stripMetadata) && h('label.check', {}, on, h('span', {}, t('metadata.remove'))));
}
