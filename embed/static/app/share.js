// The share dialog: who can open an item, its link, the conditions, and who opened it. Every choice is saved at once.
import { add, all, ago, button, day, find, h, icon, locale, number, t, toast } from './dom.js';
import { copyText, Form, openDialog } from './forms.js';
import { apiPathOf, kindOf, shareAddressOf, titleOf, visits } from './kinds.js';
import { updateRows } from './list.js';
import { api, base, Problem } from './session.js';

const ends = { never: t('share.never'), hour: t('share.hour'), day: t('share.day'), week: t('share.week'), month: t('share.month'), other: t('share.pick') };
const milliseconds = { hour: 36e5, day: 864e5, week: 6048e5, month: 2592e6 };
const endOf = (span) => new Date(Date.now() + milliseconds[span]).toISOString();

// The conditions: what each says in one line, the fields of its form, and what the form changes.
const conditions = {
  expires: {
    says: (r) => r.expiresAt ? t('list.expires', { when: ago(r.expiresAt) }) : t('share.neverExpires'),
    fields: () => [
      { name: 'ends', label: t('share.expires'), type: 'choice', required: true, choices: ends },
      { name: 'expiresAt', label: t('share.expiresAt'), type: 'time', onlyFor: { ends: ['other'] } },
    ],
    values: (r) => ({ ends: r.expiresAt ? 'other' : 'never', expiresAt: r.expiresAt }),
    changes(r, now) {
      if (now.ends === 'other' && !now.expiresAt) throw new Problem('', 0, { expiresAt: t('forms.required') });
      const end = now.ends === 'never' ? null : now.ends === 'other' ? now.expiresAt : endOf(now.ends);
      const sameMinute = end && r.expiresAt && Math.abs(Date.parse(end) - Date.parse(r.expiresAt)) < 60e3;
      return sameMinute ? {} : { expiresAt: end };
    },
  },
  password: {
    says: (r) => r.hasPassword ? t('share.hasPassword') : t('share.noPassword'),
    fields: (r) => [{ name: 'password', label: r.hasPassword ? t('share.newPassword') : t('share.password'), type: 'password', autocomplete: 'new-password', required: true }],
    values: () => ({ password: '' }),
    changes: (r, now) => ({ password: now.password }),
    remove: (r) => r.hasPassword && [t('share.removePassword'), { password: '' }],
  },
  limit: {
    says: (r) => r[kindOf(r).limit] ? visits(kindOf(r), r[kindOf(r).limit]) : t('common.noLimit'),
    fields: (r) => [
      { name: kindOf(r).limit, label: kindOf(r).counter === 'clicks' ? t('share.clickLimit') : t('share.viewLimit'), type: 'number', min: 1, placeholder: t('common.noLimit') },
      { name: 'maxViewsAction', label: t('share.atLimit'), type: 'choice', required: true, choices: { make_private: t('share.makePrivate'), delete: t('share.delete') } },
    ],
    values: (r) => ({ [kindOf(r).limit]: r[kindOf(r).limit], maxViewsAction: r.maxViewsAction ?? 'make_private' }),
    changes: (r, now) => now[kindOf(r).limit] === null ? { [kindOf(r).limit]: null } : now,
  },
};

// share opens the dialog for a record.
export function share(r) {
  const k = kindOf(r), d = openDialog(t('share.title', { title: titleOf(r) }));
  d.el.classList.add('sharing');
  let open = ''; // the condition whose form is shown
  const status = h('p.error', { role: 'alert', hidden: true });

  // save changes the record and draws the dialog again. It keeps the focus on the button that was pressed.
  async function save(body, done = null) {
    const saved = open;
    status.hidden = true;
    try {
      if (Object.keys(body).length) { r = (await api('PATCH', apiPathOf(r), body)).data; updateRows(r); }
      if (open === saved) open = '';
      draw();
      if (done) toast(done, { time: 3000 });
    } catch (e) {
      status.textContent = e.message;
      status.hidden = false;
    }
  }
  const segment = (isPublic, label) => {
    const b = h('button', { type: 'button', 'aria-pressed': String(r.isPublic === isPublic) }, label);
    b.onclick = () => r.isPublic !== isPublic && save({ isPublic });
    return b;
  };
  const preset = (label, body) => { const b = h('button.quiet', { type: 'button' }, label); b.onclick = () => save({ isPublic: true, ...body }, t('common.saved')); return b; };

  function linkRow() {
    const address = shareAddressOf(r);
    const code = h('img.code', { hidden: true, alt: t('common.qrOf', { address }), width: '200', height: '200' });
    const show = h('button', { type: 'button', 'aria-expanded': 'false' }, t('common.qr'));
    show.onclick = () => {
      code.src ||= `${base}/api/v1/qr?text=${encodeURIComponent(address)}`;
      code.hidden = !code.hidden;
      show.setAttribute('aria-expanded', String(!code.hidden));
    };
    const send = navigator.share && h('button', { type: 'button' }, icon('share'), t('share.send'));
    if (send) send.onclick = () => navigator.share({ title: titleOf(r), url: address }).catch(() => {}); // the user may close it
    const copy = h('button.main', { type: 'button' }, icon('copy'), t('common.copyLink'));
    copy.onclick = async () => {
      const input = find('input.mono', d.body);
      if (await copyText(address)) toast(t('common.linkCopied'), { time: 2500 });
      else input.select();
    };
    return [h('input.mono', { readonly: true, value: address, 'aria-label': t('forms.link') }), h('div.row', {}, copy, show, send,
      r.kind === 'file' && button('copy-text', t('share.file'), { class: 'quiet', 'data-text': r.url, 'aria-label': t('common.copyOf', { label: t('share.file') }) })), code];
  }

  function conditionForm(name) {
    const c = conditions[name], form = new Form(c.fields(r), c.values(r)), removal = c.remove?.(r);
    const node = h('form.part', { novalidate: true }, form.node, h('div.row', {}, h('button.main', {}, t('common.apply')), h('button', { type: 'button', class: 'cancel' }, t('common.cancel')),
      removal && h('button', { type: 'button', class: 'danger remove' }, removal[0])));
    node.onsubmit = async (e) => {
      e.preventDefault();
      if (!form.check()) return;
      try {
        const body = c.changes(r, form.values);
        r = Object.keys(body).length ? (await api('PATCH', apiPathOf(r), body)).data : r;
        await save({});
        updateRows(r);
      } catch (problem) { form.showProblem(problem); }
    };
    find('.cancel', node).onclick = () => { open = ''; draw(); };
    if (removal) find('.remove', node).onclick = () => save(removal[1]);
    return node;
  }

  function draw() {
    const focused = all('button', d.body).indexOf(document.activeElement);
    const line = h('div.row.conditions', {}, Object.entries(conditions).map(([name, c]) => {
      const b = h('button.quiet', { type: 'button', 'aria-expanded': String(open === name), 'data-part': name }, c.says(r));
      b.onclick = () => { open = open === name ? '' : name; draw(); find('.part input, .part select', d.body)?.focus(); };
      return b;
    }));
    d.body.replaceChildren();
    add(d.body, h('div.segments', { role: 'group', 'aria-label': t('share.who') }, segment(false, t('common.onlyMe')), segment(true, t('common.anyone'))),
      r.isPublic ? linkRow() : h('p.soft', {}, t('share.onlyYou')), status, line, open && conditionForm(open),
      h('div.row', {}, preset(k.counter === 'clicks' ? t('share.oneClick') : t('share.oneView'), { [k.limit]: (r[k.counter] ?? 0) + 1 }), preset(t('share.aWeek'), { expiresAt: endOf('week') })),
      visitsOf());
    all('button', d.body)[focused]?.focus();
  }

  // ---- Who opened it ----

  let shown = null; // the visits, once they are asked for
  function visitsOf() {
    const box = h('details.visits', { open: shown !== null }, h('summary', {}, t('share.soFar', { count: visits(k, r[k.counter] ?? 0) })));
    const fill = () => box.append(...visitsShown(shown), logChoice());
    if (shown) fill();
    box.ontoggle = async () => {
      if (!box.open) { shown = null; return; }
      if (shown) return;
      try {
        shown = await api('GET', apiPathOf(r).replace(/[^/]+$/, r.kind === 'file' ? r.slug : r.id) + '/visits');
        fill();
      } catch (e) { box.append(h('p.error', { role: 'alert' }, e.message)); }
    };
    return box;
  }
  function logChoice() {
    const log = h('input', { type: 'checkbox', checked: r.logVisits });
    log.onchange = () => save({ logVisits: log.checked });
    return h('label.check', {}, log, h('span', {}, t('share.log')));
  }

  draw();
  find(`.segments [aria-pressed="${r.isPublic}"]`, d.body).focus();
}

const days = 30;

// visitsShown are the parts that show visits: a curve of the last days, devices, hosts and the log.
function visitsShown(v) {
  const today = Math.floor(Date.now() / 864e5), counts = new Array(days).fill(0);
  const devices = { phone: 0, desktop: 0, program: 0 }, hosts = {};
  for (const one of v.days) {
    const at = days - 1 - (today - Date.parse(one.day) / 864e5);
    if (at >= 0) counts[at] = one.views;
    for (const name of Object.keys(devices)) devices[name] += one.devices[name];
    for (const [host, n] of Object.entries(one.referrers)) hosts[host] = (hosts[host] ?? 0) + n;
  }
  if (!v.lastAt) return [h('p.soft', {}, t('share.noVisits'))];
  const most = Math.max(1, ...counts), step = 300 / (days - 1);
  const curve = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  curve.setAttribute('viewBox', '-2 -2 304 54');
  curve.setAttribute('class', 'curve');
  curve.setAttribute('role', 'img');
  curve.setAttribute('aria-label', t('share.curve', { n: counts.reduce((a, b) => a + b, 0) }));
  const lineOf = document.createElementNS('http://www.w3.org/2000/svg', 'polyline');
  lineOf.setAttribute('points', counts.map((n, i) => `${(i * step).toFixed(1)},${(50 - 50 * n / most).toFixed(1)}`).join(' '));
  curve.append(lineOf);
  const common = Object.entries(hosts).sort((a, b) => b[1] - a[1]).slice(0, 8);
  const names = { phone: t('share.phones'), desktop: t('share.computers'), program: t('share.programs') };
  return [
    h('p.soft', {}, t('share.last', { when: ago(v.lastAt) })), curve,
    h('p', {}, Object.entries(devices).filter(([, n]) => n).map(([name, n]) => `${names[name]} ${number(n)}`).join(' · ')),
    common.length > 0 && h('p', {}, common.map(([host, n]) => `${host} ${number(n)}`).join(' · ')),
    v.log.length > 0 && h('ul.log', {}, v.log.slice(0, 100).map((one) => h('li', {}, h('time', { datetime: one.at }, new Date(one.at).toLocaleString(locale, { dateStyle: 'medium', timeStyle: 'short' })), ` · ${names[one.device]}`,
      one.network && ` · ${one.network}`, one.referrer && ` · ${one.referrer}`))),
  ].filter(Boolean);
}
