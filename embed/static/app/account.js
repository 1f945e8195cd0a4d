// The page of the account: profile, storage and the browsers that are signed in. It owns the rows of sessions and the
// sign-out. It fills view.out and stops with view.signal. The router calls the page; keys.js and security.js show its
// list of sessions.
import { deviceName } from './devices.js';
import { add, addActions, button, bytes, h, icon, itemOf, meter, t, tn, toast, when } from './dom.js';
import { openForm, settingsForm } from './forms.js';
import { heading, load, subheading } from './heading.js';
import { countOf, kinds } from './kinds.js';
import { rerender } from './router.js';
import { api, base, loadModule, me, setMe, showProblem } from './session.js';

function storageCard() {
  const quota = me.quotaEffectiveBytes;
  const used = bytes(me.usedBytes);
  const counts = Object.values(kinds).map((k) => countOf(k, me.counts[k.name] ?? 0));
  return h('div.card', {},
    h('h2', {}, t('account.storage')),
    h('p', {}, quota ? t('account.usedOf', { used, limit: bytes(quota) }) : t('account.usedUnlimited', { used })),
    quota ? meter(me.usedBytes / quota) : null,
    h('p.soft', {}, counts.join(' · ')));
}

const languages = { en: 'English', de: 'Deutsch' };

const profileForm = () => settingsForm(t('account.profile'), [
  { name: 'displayName', label: t('account.displayName'), autocomplete: 'name' },
  {
    name: 'language', label: t('account.language'), type: 'choice', none: t('account.browserLanguage'),
    choices: languages,
  },
  {
    name: 'theme', label: t('account.theme'), type: 'choice', half: true, none: t('account.system'),
    choices: { light: t('account.light'), dark: t('account.dark') },
  },
  {
    name: 'accent', label: t('account.accent'), type: 'choice', half: true, none: t('account.green'),
    choices: {
      blue: t('account.blue'), violet: t('account.violet'), rose: t('account.rose'), amber: t('account.amber'),
    },
  },
], me, t('common.save'), async (now) => {
  const before = me.language;
  setMe((await api('PATCH', 'me', now)).data);
  if (me.language !== before) return location.reload();
  for (const name of ['theme', 'accent']) {
    if (me[name]) document.documentElement.dataset[name] = me[name];
    else delete document.documentElement.dataset[name];
  }
  toast(t('common.saved'));
});

function sessionRow(s) {
  const name = deviceName(s.agent);
  const end = button('session-end', t('sessions.signOut'), { 'aria-label': t('sessions.signOutOf', { name }) });
  const row = h('li.item.plain', {},
    h('span.pic', {}, icon('user')),
    h('div.what', {},
      h('span.name', {}, name),
      h('div.meta', {},
        s.current && h('span.badge.on', {}, t('sessions.this')),
        h('span', {}, s.address),
        h('span', {}, tn('sessions.since', { when: when(s.createdAt) })),
        s.lastUsedAt && h('span', {}, tn('sessions.used', { when: when(s.lastUsedAt) })))),
    h('div.acts', {}, !s.current && end));
  row.session = s;
  return row;
}

// sessionList lists the browsers that are signed in.
export function sessionList(sessions) {
  const count = h('small.soft', {}, t('sessions.count', { n: sessions.length }));
  return [
    subheading(t('sessions.title'), count, sessions.length > 1 && button('sessions-end', t('sessions.signOutOthers'))),
    h('ul.list', { 'aria-label': t('sessions.list') }, sessions.map(sessionRow)),
  ];
}

// activityOf shows what happened in the account once the user asks for it.
function activityOf(v) {
  const box = h('details.activity', {}, h('summary', {}, h('h2', {}, t('account.activity'))));
  box.addEventListener('toggle', async () => {
    try { await (await loadModule('activity')).activity(box, 'activity', v.signal); } catch (e) { showProblem(e); }
  }, { once: true });
  return box;
}

// signOutForm ends the session. What this device keeps for the user goes with it. If the server does not have something
// of it yet, the user decides.
function signOutForm() {
  const save = h('button', {}, t('sessions.signOut'));
  const form = h('form', { method: 'post', action: `${base}/logout` }, save);
  form.onsubmit = async (e) => {
    e.preventDefault();
    save.disabled = true;
    try {
      const device = await loadModule('waiting'), n = await device.unsent();
      const leave = async () => {
        await device.forgetUser();
        form.submit();
      };
      if (!n) return await leave();
      openForm({
        title: t('sessions.signOutTitle'), text: t('sessions.unsent', { n }),
        button: t('sessions.signOut'), danger: true, run: leave,
      });
    } catch (problem) {
      showProblem(problem);
    } finally {
      save.disabled = false;
    }
  };
  return form;
}

export default async function page(v) {
  const sessions = await load('me/sessions', 'me/sessions?limit=500', v.signal);
  const name = me.role === 'admin' ? t('account.adminName', { name: me.username }) : me.username;
  const cards = h('div.cards', {}, storageCard(), profileForm());
  loadModule('cards').then((m) => add(cards, m.cards()), showProblem);
  add(v.out,
    heading(t('account.title'), h('small.soft', {}, name), signOutForm()),
    cards,
    sessions && sessionList(sessions.data),
    activityOf(v));
  return t('account.title');
}

addActions({
  async 'session-end'(el) {
    const row = itemOf(el);
    try {
      await api('DELETE', `me/sessions/${row.session.id}`);
      await rerender();
      toast(t('sessions.ended'));
    } catch (e) { showProblem(e); }
  },
  async 'sessions-end'() {
    try {
      await api('DELETE', 'me/sessions');
      rerender();
      toast(t('sessions.othersEnded'));
    } catch (e) { showProblem(e); }
  },
});
