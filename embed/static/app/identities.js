// The accounts at the sign-in service that this account is linked to.
import { addActions, button, find, h, itemOf, t, tn, toast, when } from './dom.js';
import { rerender } from './router.js';
import { api, load, showProblem, start } from './session.js';

function row(link) {
  const el = h('li.item.plain', {}, h('div.what', {}, h('span.name', {}, link.name || link.subject),
    h('div.meta', {}, h('span.cutoff', {}, link.issuer), link.lastUsedAt && h('span', {}, tn('identities.used', { when: when(link.lastUsedAt) })))),
  h('div.acts', {}, button('identity-remove', t('identities.remove'), { 'aria-label': t('identities.removeOf', { name: link.name || link.subject }) })));
  el.link = link;
  return el;
}

// identityCard has the links and a button that makes one; null if there is no sign-in service.
export async function identityCard(signal) {
  const links = start.issuer && await load('me/identities', 'me/identities?limit=500', signal);
  if (!links) return null;
  return h('section.card', { id: 'identities', 'aria-label': t('identities.title') }, h('h2', {}, t('identities.title')),
    links.data.length > 0 ? h('ul.list', { 'aria-label': t('identities.title') }, links.data.map(row)) : h('p.hint', {}, t('identities.none', { name: start.issuer })),
    h('div.row', {}, button('identity-link', t('identities.link', { name: start.issuer }))));
}

addActions({
  async 'identity-link'(el) {
    el.disabled = true;
    try {
      location.assign((await api('POST', 'me/identities', { next: location.pathname.slice(start.base.length) })).data.url);
    } catch (e) { el.disabled = false; showProblem(e); }
  },
  async 'identity-remove'(el) {
    try {
      await api('DELETE', `me/identities/${itemOf(el).link.id}`);
      await rerender();
      toast(t('identities.removed'));
      find('#identities button')?.focus();
    } catch (e) { showProblem(e); }
  },
});
