// The page of webhooks: addresses that are told what happens, and what was sent to each. It owns the rows of webhooks,
// their form and the log of deliveries. It fills view.out and stops with view.signal. The router calls the page.
import { deleteLater } from './deleting.js';
import {
  add, addActions, all, button, capitalize, emptyState, find, h, hostOf, icon, iconButton, itemOf, number, shorten, t,
  tn, toast, when,
} from './dom.js';
import { openDialog, openForm } from './forms.js';
import { heading, load } from './heading.js';
import { kinds } from './kinds.js';
import { rerender } from './router.js';
import { api, base, me, showProblem } from './session.js';

const path = 'integrations/webhooks';

const events = { '*': t('webhooks.all') };
for (const [name, k] of Object.entries(kinds)) {
  const one = capitalize(k.one);
  events[name === 'file' ? 'file.uploaded' : `${name}.created`] = t('webhooks.kindAdded', { kind: one });
  events[`${name}.updated`] = t('webhooks.kindChanged', { kind: one });
  events[`${name}.deleted`] = t('webhooks.kindDeleted', { kind: one });
  events[`${name}.restored`] = t('webhooks.kindRestored', { kind: one });
}
Object.assign(events, {
  'upload_request.received': t('webhooks.received'),
  'upload_request.approved': t('webhooks.approved'),
  'upload_request.rejected': t('webhooks.rejected'),
  'bookmark.unreachable': t('webhooks.unreachable'),
  'limit.reached': t('webhooks.limit'),
  'share.opened': t('webhooks.opened'),
  'item.expired': t('webhooks.expired'),
  ...me.role === 'admin' && { 'backup.failed': t('webhooks.backupFailed') },
});
const states = { done: t('webhooks.delivered'), waiting: t('webhooks.retrying'), parked: t('webhooks.failedState') };
const nameOf = (hook) => hook.name || hostOf(hook.url);

// stateBadge says whether a webhook works.
function stateBadge(hook) {
  if (!hook.enabled) return h('span.badge', {}, t('webhooks.off'));
  if (hook.pausedAt) return h('span.badge.warn', { title: t('webhooks.pausedHint') }, t('webhooks.paused'));
  if (hook.consecutiveFailures) return h('span.badge.warn', {}, t('webhooks.failing'));
  return hook.lastDeliveredAt ? h('span.badge.on', {}, t('webhooks.works')) : h('span.badge', {}, t('webhooks.unused'));
}

// hookLine says whether a webhook works, and what it is told.
function hookLine(hook) {
  const fails = hook.consecutiveFailures > 0 || hook.pausedAt;
  const everything = hook.events.includes('*');
  const told = everything ? t('webhooks.everything') : t('webhooks.eventCount', { n: hook.events.length });
  return h('div.meta', {},
    stateBadge(hook),
    h('span.cutoff', {}, formatNames[hook.format] ?? hostOf(hook.url)),
    h('span', {}, told),
    hook.lastDeliveredAt && h('span', {}, tn('webhooks.lastDelivered', { when: when(hook.lastDeliveredAt) })),
    hook.queued > 0 && h('span', {}, t('webhooks.waiting', { n: hook.queued })),
    fails && hook.lastError && h('span', {}, hook.lastError));
}

function hookRow(hook) {
  const name = nameOf(hook);
  const row = h('li.item.plain', {},
    h('span.pic', {}, icon('hook')),
    h('div.what', {}, h('span.name', {}, name), hookLine(hook)),
    h('div.acts', {},
      button('hook-test', t('webhooks.test'), { 'aria-label': t('webhooks.testOf', { name }) }),
      button('hook-log', t('webhooks.log'), { 'aria-label': t('webhooks.logOf', { name }) }),
      iconButton('hook-edit', 'edit', t('webhooks.editOf', { name })),
      iconButton('hook-delete', 'trash', t('webhooks.deleteOf', { name }))));
  row.hook = hook;
  return row;
}

export default async function page(v) {
  const answer = await load(path, path, v.signal);
  const list = answer?.data ?? [];
  const make = { class: 'main', 'aria-label': t('webhooks.new') };
  add(v.out,
    heading(t('webhooks.title'), h('small.soft', {}, t('webhooks.count', { n: list.length })),
      button('hook-new', '', make, icon('plus'), t('common.new'))),
    h('p.soft', {}, t('webhooks.intro'), ' ', h('a', { href: `${base}/api/v1/reference` }, t('common.reference'))),
    list.length
      ? h('ul.list', { 'aria-label': t('webhooks.title') }, list.map(hookRow))
      : emptyState(t('webhooks.none'), t('webhooks.noneHint')));
  return t('webhooks.title');
}

const formatNames = { discord: 'Discord', slack: 'Slack', ntfy: 'ntfy', gotify: 'Gotify' };
const formatOf = (name) => t('webhooks.message', { name: formatNames[name] });

let form = null; // of the edited webhook

// secretField signs what is sent.
const secretField = (hook) => ({
  inside: button('hook-secret', t('webhooks.make'), { class: 'quiet', 'aria-label': t('webhooks.generate') }),
  name: 'secret', label: hook?.hasSecret ? t('webhooks.newSecret') : t('webhooks.secret'), plain: true,
  placeholder: hook?.hasSecret ? t('common.unchanged') : t('webhooks.unsigned'), hint: t('webhooks.secretHint'),
});

function edit(hook) {
  ({ form } = openForm({
    title: hook ? t('webhooks.editTitle', { name: nameOf(hook) }) : t('webhooks.new'),
    button: hook ? t('common.save') : t('webhooks.add'),
    text: hook?.pausedAt ? t('webhooks.pausedText') : '',
    fields: [
      { name: 'name', label: t('forms.name'), half: true, placeholder: t('webhooks.sample') },
      {
        name: 'format', label: t('webhooks.format'), type: 'choice', required: true, half: true,
        choices: {
          json: 'JSON',
          discord: formatOf('discord'),
          slack: formatOf('slack'),
          ntfy: formatOf('ntfy'),
          gotify: formatOf('gotify'),
        },
      },
      { name: 'url', label: t('webhooks.url'), type: 'url', required: true },
      { name: 'events', label: t('webhooks.events'), type: 'checks', choices: events },
      secretField(hook),
      ...(hook?.hasSecret ? [{ name: 'unsigned', label: t('webhooks.stopSigning'), type: 'check' }] : []),
      { name: 'enabled', label: t('webhooks.send'), type: 'check' },
    ],
    values: hook ?? { format: 'json', events: ['*'], enabled: true },
    run: async ({ secret, unsigned, ...now }) => {
      if (now.events.includes('*')) now.events = ['*'];
      if (secret) now.secret = secret;
      else if (unsigned) now.secret = '';
      if (hook) await api('PATCH', `${path}/${hook.id}`, now);
      else await api('POST', path, now);
      rerender();
    },
  }));
}

// sentText is the request of a delivery as text; JSON is indented.
function sentText({ url, headers, body }) {
  let shown = body;
  try { shown = JSON.stringify(JSON.parse(body), null, 2); } catch { /* shortened */ }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return [`POST ${url}`, ...lines, '', shown].join('\n');
}

// entry is a delivery in a log. It expands to show the request and the answer.
function entry(hook, d) {
  const sent = d.request ? sentText(d.request) : '';
  const tried = [d.tries && t('webhooks.tries', { n: d.tries }), d.triedAt && `${number(d.tookMs)} ms`];
  const part = (title, label, text) => [h('h3', {}, title), h('pre', { tabindex: '0', 'aria-label': label }, text)];
  const el = h('details', { 'data-id': d.id },
    h('summary', {},
      h('span', {}, d.event),
      h(d.state === 'done' ? 'span.badge.on' : 'span.badge.warn', {}, states[d.state]),
      d.status && h('span', {}, String(d.status)),
      when(d.triedAt ?? d.createdAt)),
    d.error && h('p.alert', {}, d.error),
    h('p.soft', {},
      tried.filter(Boolean).join(' · '),
      d.nextTryAt && tn('webhooks.nextTry', { when: when(d.nextTryAt) })),
    sent && part(t('webhooks.sent'), t('webhooks.whatSent'), sent),
    d.answer && part(t('webhooks.answered'), t('webhooks.whatAnswered'), d.answer),
    h('div.row', {},
      button('hook-again', t('webhooks.again'), { 'aria-label': t('webhooks.againOf', { event: d.event }) })));
  el.hook = hook;
  return el;
}

async function log(hook) {
  const d = openDialog(t('webhooks.logTitle', { name: nameOf(hook) }), { panel: true });
  const fill = async () => {
    const { data } = await api('GET', `${path}/${hook.id}/deliveries`);
    const rows = data.length
      ? data.map((x) => entry(hook, x))
      : [emptyState(t('webhooks.logEmpty'), t('webhooks.logEmptyHint'))];
    d.body.replaceChildren(h('div.row', {}, button('hook-reload', t('webhooks.reload'))), ...rows);
  };
  d.body.reload = fill;
  try { await fill(); } catch (e) { showProblem(e); }
}

async function reload(el) {
  try { await el.closest('.body').reload(); } catch (e) { showProblem(e); }
}

addActions({
  'hook-new': () => edit(null),
  'hook-edit': (el) => edit(itemOf(el).hook),
  'hook-log': (el) => log(itemOf(el).hook),
  'hook-reload': reload,
  'hook-secret'() {
    const bytes = crypto.getRandomValues(new Uint8Array(32));
    form.set({ secret: 'whsec_' + btoa(String.fromCharCode(...bytes)) });
    toast(t('webhooks.copySecret'));
  },
  async 'hook-test'(el) {
    el.disabled = true;
    try {
      const answer = await api('POST', `${path}/${itemOf(el).hook.id}/test`);
      await rerender();
      const text = answer.ok ? t('webhooks.deliveredText', { status: String(answer.status) }) : answer.error;
      toast(text, { bad: !answer.ok });
    } catch (e) {
      showProblem(e);
    } finally {
      el.disabled = false;
    }
  },
  'hook-delete'(el) {
    const row = itemOf(el), mark = document.createComment('');
    const count = () => {
      find('#main .head small').textContent = t('webhooks.count', { n: all('#main .item').length });
    };
    row.replaceWith(mark);
    count();
    deleteLater(t('webhooks.deleted', { name: shorten(nameOf(row.hook)) }), [`${path}/${row.hook.id}`], () => {
      if (!mark.isConnected) return;
      mark.replaceWith(row);
      count();
    });
  },
  async 'hook-again'(el) {
    const d = el.closest('details');
    try {
      await api('POST', `${path}/${d.hook.id}/deliveries/${d.dataset.id}/redeliver`);
      toast(t('webhooks.sendingAgain'));
      await reload(el);
    } catch (e) { showProblem(e); }
  },
});
