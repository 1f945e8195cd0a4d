// What waits on this device for the server, for those who show it, send it, take it back or sign out. It uses nothing
// of view. The reader, the editor, the page of the account and offline.js call it.
import { h, t, toast } from './dom.js';
import { kindOf } from './kinds.js';
import { fetchRecord, updateRows } from './list.js';
import { eachWaiting, stop } from './offline.js';
import { draftKey, me, storage } from './session.js';

// asTyped are nodes with the texts of a record as they wait for the server, which would make a page of them; null if
// the texts are as the server has them.
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

// sent tells that what waited was sent. The draft of a change goes, unless the user has typed more since.
export function sent({ sent: n, drafts }) {
  for (const draft of drafts) {
    const key = draftKey(draft.name), [kind, id] = draft.name.split('.');
    if (JSON.stringify(storage.get(key)?.values) === JSON.stringify(draft.values)) storage.set(key, null);
    fetchRecord({ kind, id }).then(updateRows, () => {});
  }
  toast(t('waiting.sent', { n }), { action: t('common.show'), run: () => location.reload() });
}

// unsent is how many drafts and new items of the user this device keeps that the server does not have.
export async function unsent() {
  let waiting = 0;
  await eachWaiting((at) => { if (!at.value.draft) waiting++; }).catch(() => {}); // for example in a private window
  return storage.keys(draftKey('')).length + waiting;
}

// forgetUser removes what this device keeps for the user: drafts, what waits, unfinished uploads and copies of items.
export async function forgetUser() {
  for (const key of [...storage.keys(draftKey('')), ...storage.keys(`tus.${me.id}.`)]) storage.set(key, null);
  await eachWaiting((at) => at.delete()).catch(() => {});
  await stop();
}
