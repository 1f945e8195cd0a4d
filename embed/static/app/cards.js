// Cards of the page of the account: what this browser keeps, and who finds the user. It uses nothing of view. The page
// of the account loads it.
import { h, t, toast } from './dom.js';
import { api, canOffline, loadModule, me, setMe, showProblem, wantsOffline } from './session.js';

// switchCard is a card with one switch. choose is called with its state.
function switchCard(title, label, hint, checked, choose) {
  const box = h('input', { type: 'checkbox', role: 'switch', checked });
  box.onchange = () => choose(box.checked).catch((e) => {
    box.checked = !box.checked;
    showProblem(e);
  });
  return h('section.card', { 'aria-label': title }, h('h2', {}, title),
    h('label.check', {}, box, h('span', {}, label)),
    h('p.hint', {}, hint));
}

async function setFound(found) {
  setMe((await api('PATCH', 'me', { hidden: !found })).data);
  toast(t('common.saved'));
}

// cards are the cards of what is chosen with a switch.
export const cards = () => [
  canOffline && switchCard(
    t('offline.device'), t('offline.use'), t('offline.hint'), wantsOffline(),
    async (on) => (await loadModule('offline')).choose(on),
  ),
  switchCard(t('people.title'), t('people.find'), t('people.hint'), !me.hidden, setFound),
].filter(Boolean);
