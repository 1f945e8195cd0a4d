// The page of webhooks.
import { add, addActions, button, capitalize, emptyState, h, hostOf, icon, iconButton, itemOf, number, plural, shorten, toast, when } from './dom.js';
import { openDialog, openForm } from './forms.js';
import { kinds } from './kinds.js';
import { rerender } from './router.js';
import { api, base, deleteLater, heading, load, showProblem } from './session.js';

const path = 'integrations/webhooks';

const events = { '*': 'All events' };
for (const [name, k] of Object.entries(kinds)) {
  const one = capitalize(k.one);
  events[name === 'file' ? 'file.uploaded' : `${name}.created`] = `${one} added`;
  events[`${name}.updated`] = `${one} changed`;
  events[`${name}.deleted`] = `${one} deleted`;
}
Object.assign(events, {
  'upload_request.received': 'Upload received', 'upload_request.approved': 'Upload approved', 'upload_request.rejected': 'Upload rejected',
  'bookmark.unreachable': 'Bookmarked page unreachable', 'limit.reached': 'Limit reached', 'item.expired': 'Item expired', 'webhook.test': 'Test',
});
const states = { done: 'delivered', waiting: 'will be retried', parked: 'given up' };
const nameOf = (hook) => hook.name || hostOf(hook.url);

// stateBadge says whether a webhook works.
function stateBadge(hook) {
  if (!hook.enabled) return h('span.badge', {}, 'off');
  if (hook.pausedAt) return h('span.badge.warn', { title: 'The target has failed for three days. Save a change or send a test to resume.' }, 'paused');
  if (hook.consecutiveFailures) return h('span.badge.warn', {}, 'failing');
  return hook.lastDeliveredAt ? h('span.badge.on', {}, 'works') : h('span.badge', {}, 'not used yet');
}

function hookRow(hook) {
  const name = nameOf(hook);
  const row = h('li.item.plain', {}, h('span.pic', {}, icon('hook')),
    h('div.what', {}, h('span.name', {}, name),
      h('div.meta', {}, stateBadge(hook), h('span.cutoff', {}, hook.format === 'discord' ? 'Discord' : hostOf(hook.url)),
        h('span', {}, hook.events.includes('*') ? 'everything' : plural(hook.events.length, 'event')),
        hook.lastDeliveredAt && h('span', {}, 'delivered ', when(hook.lastDeliveredAt)),
        hook.queued > 0 && h('span', {}, `${number(hook.queued)} waiting`),
        (hook.consecutiveFailures > 0 || hook.pausedAt) && hook.lastError && h('span', {}, hook.lastError))),
    h('div.acts', {}, button('hook-test', 'Test', { 'aria-label': `Test ${name}` }), button('hook-log', 'Log', { 'aria-label': `Log of ${name}` }),
      iconButton('hook-edit', 'edit', `Edit ${name}`), iconButton('hook-delete', 'trash', `Delete ${name}`)));
  row.hook = hook;
  return row;
}

export default async function page(v) {
  const answer = await load(path, path, v.signal);
  const list = answer?.data ?? [];
  add(v.out, heading('Webhooks', h('small.soft', {}, plural(list.length, 'webhook')), button('hook-new', '', { class: 'main', 'aria-label': 'New webhook' }, icon('plus'), 'New')),
    h('p.soft', {}, 'A webhook immediately tells another program or a Discord channel what happens here. ', h('a', { href: `${base}/api/v1/reference` }, 'API reference')),
    list.length ? h('ul.list', { 'aria-label': 'Webhooks' }, list.map(hookRow)) : emptyState('No webhooks yet.', 'Add the address of your automation or of a Discord channel’s webhook.'));
  return 'Webhooks';
}

let form = null; // of the edited webhook

function edit(hook) {
  ({ form } = openForm({
    title: hook ? `Edit ${nameOf(hook)}` : 'New webhook', button: hook ? 'Save' : 'Add webhook',
    text: hook?.pausedAt ? 'This webhook is paused because its target has failed for three days. Saving resumes it.' : '',
    fields: [
      { name: 'name', label: 'Name', half: true, placeholder: 'home automation' },
      { name: 'format', label: 'Format', type: 'choice', required: true, half: true, choices: { json: 'JSON', discord: 'Discord message' } },
      { name: 'url', label: 'Address', type: 'url', required: true },
      { name: 'events', label: 'Events', type: 'checks', choices: events },
      { name: 'secret', label: hook?.hasSecret ? 'New secret' : 'Secret', plain: true, placeholder: hook?.hasSecret ? 'unchanged' : 'not signed', hint: 'Signs deliveries so that the target can verify the sender. It is not shown again. If you replace it, the old secret stays valid for a day.' },
      ...(hook?.hasSecret ? [{ name: 'unsigned', label: 'Stop signing', type: 'check' }] : []),
      { name: 'enabled', label: 'Send events', type: 'check' },
    ],
    values: hook ?? { format: 'json', events: ['*'], enabled: true },
    after: h('div.row', {}, button('hook-secret', 'Generate a secret')),
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

// entry is a delivery in a log. It expands to show the request and the answer.
function entry(hook, d) {
  let sent = '';
  if (d.request) {
    let { body } = d.request;
    try { body = JSON.stringify(JSON.parse(body), null, 2); } catch { /* shortened */ }
    sent = [`POST ${d.request.url}`, ...Object.entries(d.request.headers).map(([name, value]) => `${name}: ${value}`), '', body].join('\n');
  }
  const el = h('details', { 'data-id': d.id },
    h('summary', {}, h('span', {}, d.event), h(d.state === 'done' ? 'span.badge.on' : 'span.badge.warn', {}, states[d.state]), d.status && h('span', {}, String(d.status)), when(d.triedAt ?? d.createdAt)),
    d.error && h('p.alert', {}, d.error),
    h('p.soft', {}, [d.tries && plural(d.tries, 'try', 'tries'), d.triedAt && `${number(d.tookMs)} ms`].filter(Boolean).join(' · '), d.nextTryAt && [' · again ', when(d.nextTryAt)]),
    sent && [h('h3', {}, 'Sent'), h('pre', { tabindex: '0', 'aria-label': 'What was sent' }, sent)],
    d.answer && [h('h3', {}, 'Answered'), h('pre', { tabindex: '0', 'aria-label': 'What was answered' }, d.answer)],
    h('div.row', {}, button('hook-again', 'Send again', { 'aria-label': `Send ${d.event} again` })));
  el.hook = hook;
  return el;
}

async function log(hook) {
  const d = openDialog(`Log of ${nameOf(hook)}`, { panel: true });
  const fill = async () => {
    const { data } = await api('GET', `${path}/${hook.id}/deliveries`);
    d.body.replaceChildren(h('div.row', {}, button('hook-reload', 'Load again')),
      ...(data.length ? data.map((x) => entry(hook, x)) : [emptyState('Nothing has been sent yet.', 'Deliveries and the target’s answers are listed here.')]));
  };
  d.body.reload = fill;
  try { await fill(); } catch (e) { showProblem(e); }
}

const reload = async (el) => { try { await el.closest('.body').reload(); } catch (e) { showProblem(e); } };

addActions({
  'hook-new': () => edit(null),
  'hook-edit': (el) => edit(itemOf(el).hook),
  'hook-log': (el) => log(itemOf(el).hook),
  'hook-reload': reload,
  'hook-secret'() {
    const bytes = crypto.getRandomValues(new Uint8Array(32));
    form.set({ secret: 'whsec_' + btoa(String.fromCharCode(...bytes)) });
    toast('Copy the secret before you save: it is not shown again.');
  },
  async 'hook-test'(el) {
    el.disabled = true;
    try {
      const answer = await api('POST', `${path}/${itemOf(el).hook.id}/test`);
      await rerender();
      toast(answer.ok ? `Delivered: the target answered ${answer.status}.` : answer.error, { bad: !answer.ok });
    } catch (e) { showProblem(e); } finally { el.disabled = false; }
  },
  'hook-delete'(el) {
    const row = itemOf(el), mark = document.createComment('');
    row.replaceWith(mark);
    deleteLater(`Deleted “${shorten(nameOf(row.hook))}”.`, [`${path}/${row.hook.id}`], () => mark.replaceWith(row));
  },
  async 'hook-again'(el) {
    const d = el.closest('details');
    try {
      await api('POST', `${path}/${d.hook.id}/deliveries/${d.dataset.id}/redeliver`);
      toast('Sending again.');
      await reload(el);
    } catch (e) { showProblem(e); }
  },
});
