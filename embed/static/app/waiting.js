// Changes of texts that wait on this device for the server. It uses nothing of view. The reader shows them, and the
// editor takes them back.
import { h, t } from './dom.js';
import { kindOf } from './kinds.js';
import { fetchRecord, updateRows } from './list.js';
import { eachWaiting } from './offline.js';
import { draftKey, storage } from './session.js';

// asTyped are nodes with the texts of a record as they wait for the server, which would make a page of them; null if the
// texts are as the server has them.
export function asTyped(r) {
  const { old, values } = r.waiting, texts = kindOf(r).fields.filter((f) => f.type === 'text');
  if (texts.every((f) => old[f.name] === values[f.name])) return null;
  const some = texts.filter((f) => r[f.name]);
  return [h('p.note', {}, t('waiting.asTyped')),
    ...some.flatMap((f) => [some.length > 1 && h('h3', {}, f.label), h('p.said', {}, r[f.name])]).filter(Boolean)];
}

// takeBack forgets a change that waits for the server, by the name of its draft, and shows the record without it.
export async function takeBack(r, name) {
  storage.set(draftKey(name), null);
  await eachWaiting((at) => { if (at.value.draft?.name === name) at.delete(); });
  updateRows(await fetchRecord(r));
}
