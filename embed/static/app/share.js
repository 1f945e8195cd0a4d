// The share dialog: who can open an item, its link, the conditions, and who opened it. Every choice is saved at once.
// It owns the conditions and their form, and uses nothing of view. list.js calls share for a record; the box for new
// items (add.js) calls boxOptions and shows the same conditions.
import { add, ago, all, day, exactly, find, h, icon, number, t, tn, toast, when } from './dom.js';
import { endOf, expiryField } from './expiry.js';
import { copyText, Form, openDialog } from './forms.js';
import { apiPathOf, kindOf, kinds, shareAddressOf, titleOf, visits } from './kinds.js';
import { change as changeRecord, updateRows } from './list.js';
import { api, base, copyLink, loadModule, showProblem } from './session.js';

// The conditions: the name of each, whether it is set, what it says, the exact value where that is a rounded one, the
// fields of its form, and what the form changes.
const conditions = {
  expires: {
    label: () => t('share.expires'),
    isSet: (r) => !!r.expiresAt,
    says(r) {
      if (!r.expiresAt) return t('share.neverExpires');
      if (Date.parse(r.expiresAt) <= Date.now()) return t('list.expired');
      return r.expiryAction === 'delete' ? t('share.deletes', { when: ago(r.expiresAt) }) : ago(r.expiresAt);
    },
    exact: (r) => r.expiresAt && exactly(r.expiresAt),
    fields: () => [
      expiryField(),
      {
        name: 'expiryAction', label: t('share.atEnd'), type: 'choice', required: true,
        choices: { hide: t('share.hide'), delete: t('share.delete') }, onlyFor: { expiresAt: Boolean },
      },
    ],
    values: (r) => ({ expiresAt: r.expiresAt, expiryAction: r.expiryAction ?? 'hide' }),
    changes(r, { expiresAt, expiryAction }) {
      const sameMinute = Math.abs(Date.parse(expiresAt) - Date.parse(r.expiresAt)) < 60e3;
      const same = sameMinute || expiresAt === (r.expiresAt ?? null);
      return { ...!same && { expiresAt }, ...expiryAction !== (r.expiryAction ?? 'hide') && { expiryAction } };
    },
  },
  password: {
    label: () => t('share.password'),
    isSet: (r) => r.hasPassword,
    says: (r) => r.hasPassword ? t('share.hasPassword') : t('share.none'),
    fields: (r) => [{
      name: 'password', label: r.hasPassword ? t('share.newPassword') : t('share.password'), type: 'password',
      autocomplete: 'new-password', required: true,
    }],
    values: () => ({ password: '' }),
    changes: (r, now) => ({ password: now.password }),
    remove: (r) => r.hasPassword && [t('share.removePassword'), { password: '' }],
  },
  limit: {
    label: (r) => t(kindOf(r).counter === 'clicks' ? 'share.clicks' : 'share.views'),
    isSet: (r) => !!r[kindOf(r).limit],
    says: (r) => r[kindOf(r).limit] ? t('share.atMost', { n: r[kindOf(r).limit] }) : t('common.noLimit'),
    fields: (r) => [
      {
        name: kindOf(r).limit, label: kindOf(r).counter === 'clicks' ? t('share.clickLimit') : t('share.viewLimit'),
        type: 'number', min: 1, placeholder: t('common.noLimit'),
      },
      {
        name: 'maxViewsAction', label: t('share.atLimit'), type: 'choice', required: true,
        choices: { make_private: t('share.makePrivate'), delete: t('share.delete') },
      },
    ],
    values: (r) => ({ [kindOf(r).limit]: r[kindOf(r).limit], maxViewsAction: r.maxViewsAction ?? 'make_private' }),
    changes: (r, now) => now[kindOf(r).limit] === null ? { [kindOf(r).limit]: null } : now,
  },
};

// oneLabel is the label of the preset that lets a record be opened once.
function oneLabel(k) {
  if (k === kinds.file) return t('share.oneDownload');
  return k.counter === 'clicks' ? t('share.oneClick') : t('share.oneView');
}

// termsOf shows presets, and below them the conditions of an item, a row each, whose controls open in place. item
// returns the item as it is now. change is called with what the user changes, and returns a promise. settle saves what
// the user has typed but not applied, and resolves to whether it could; it is called before anything that relies on the
// conditions.
export function termsOf(item, change) {
  const node = h('div.terms');
  const status = h('p.error', { role: 'alert', hidden: true });
  let open = '', editor = null; // the condition whose form is shown, and that form, which stays while it is open

  function close() {
    const closed = open;
    open = '';
    draw();
    find(`[data-part="${closed}"]`, node)?.focus();
  }
  async function settle() {
    if (!editor?.isChanged()) return true;
    if (!await editor.save()) return false;
    open = '';
    draw();
    return true;
  }
  // set keeps the focus on the button that was pressed.
  async function set(body) {
    status.hidden = true;
    try {
      await change(body);
      close();
    } catch (e) {
      status.textContent = e.message;
      status.hidden = false;
    }
  }
  // preset sets a condition, or takes it back if it is set so.
  const preset = (label, isSet, field, value) => {
    const b = h('button.link', { type: 'button', 'aria-pressed': String(isSet) }, isSet && icon('check'), label);
    b.onclick = async () => {
      if (!await settle()) return;
      await set(isSet ? { [field]: null } : { isPublic: true, [field]: value });
    };
    return b;
  };

  function formOf(name) {
    const c = conditions[name], r = item();
    const form = new Form(c.fields(r), c.values(r)), removal = c.remove?.(r);
    const apply = h('button.main', { type: 'button' }, t('common.apply'));
    const part = h('div.part', {},
      form.node,
      h('div.row', {},
        apply,
        h('button', { type: 'button', class: 'cancel' }, t('common.cancel')),
        removal && h('button', { type: 'button', class: 'danger remove' }, removal[0])));

    const before = JSON.stringify(form.values);
    const save = async () => {
      if (!form.check()) return false;
      try {
        const body = c.changes(item(), form.values);
        if (Object.keys(body).length) await change(body);
        return true;
      } catch (problem) {
        form.showProblem(problem);
        return false;
      }
    };

    apply.onclick = async () => { if (await save()) close(); };
    // The conditions may be part of a form, which must not be sent.
    part.onkeydown = (e) => {
      if (e.key !== 'Enter' || !e.target.matches('input')) return;
      e.preventDefault();
      apply.click();
    };
    find('.cancel', part).onclick = close;
    if (removal) find('.remove', part).onclick = () => set(removal[1]);
    const isChanged = () => form.isUnclear || JSON.stringify(form.values) !== before;
    return { name, node: part, isChanged, save };
  }

  // rowOf names a condition and says what it is. It opens and closes the form.
  function rowOf(r, [name, c]) {
    const look = { type: 'button', 'aria-expanded': String(open === name), 'data-part': name, title: c.exact?.(r) };
    const inside = [h('span', {}, `${c.label(r)}:`), ' ', h('b', {}, c.says(r))];
    const b = h(c.isSet(r) ? 'button.set' : 'button', look, inside);
    b.onclick = async () => {
      const next = open === name ? '' : name;
      if (!await settle()) return;
      open = next;
      draw();
      find('.part :is(input, select):not([hidden])', node)?.focus();
    };
    return [b, open === name && editor.node];
  }

  function draw() {
    // An item that gets a limit, or is published again, starts to count at 0. A public one with a limit goes on.
    const r = item(), k = kindOf(r), once = r.isPublic && r[k.limit] ? (r.viewsOfLimit ?? 0) + 1 : 1;
    const outside = () => all('button', node).filter((b) => !b.closest('.part'));
    const active = document.activeElement, focused = outside().indexOf(active);
    if (editor?.name !== open) editor = open ? formOf(open) : null;

    const week = endOf('week'), isWeek = Math.abs(Date.parse(r.expiresAt) - Date.parse(week)) < 36e5;
    const presets = h('div.row.presets', {},
      preset(oneLabel(k), r.isPublic && r[k.limit] === once, k.limit, once),
      preset(t('share.aWeek'), isWeek, 'expiresAt', week));
    node.replaceChildren();
    add(node, presets, status, h('div.conditions', {}, Object.entries(conditions).map((one) => rowOf(r, one))));
    (node.contains(active) ? active : outside()[focused])?.focus();
  }
  draw();
  return { node, draw, settle };
}

// boxOptions puts the choices for items that do not exist yet into a panel: the conditions, the folder of files, and
// tags. opener is the button that opens and closes the panel, and visibility the choice of who can see items. chosen is
// what is set; isSettled takes over what the user has typed but not applied, and if it cannot, the panel says why.
export function boxOptions(panel, opener, visibility) {
  let chosen = {};
  const itemNow = () => ({ kind: 'file', isPublic: !!visibility.value, ...chosen, hasPassword: !!chosen.password });
  async function choose({ isPublic, ...more }) {
    if (isPublic) visibility.value = '1';
    chosen = Object.fromEntries(Object.entries({ ...chosen, ...more }).filter(([, v]) => v && v.length !== 0));
    const n = Object.keys(chosen).filter((name) => !/Action$/.test(name)).length;
    opener.textContent = n ? t('add.optionsSet', { n }) : t('add.options');
  }
  function show(on) {
    panel.hidden = !on;
    opener.setAttribute('aria-expanded', String(on));
  }

  const form = new Form([
    { name: 'folderName', label: t('list.folder'), type: 'folder', half: true },
    { name: 'tags', label: t('tags.title'), type: 'tags', half: true },
  ], {});
  for (const event of ['input', 'change']) form.node.addEventListener(event, () => choose(form.draft));
  const terms = termsOf(itemNow, choose);
  add(panel, form.node, terms.node);

  function toggle() {
    show(panel.hidden);
    if (!panel.hidden) find('button', panel).focus();
  }
  async function isSettled() {
    if (await terms.settle()) return true;
    show(true);
    find('[aria-invalid]', panel)?.focus();
    return false;
  }
  return { toggle, isSettled, chosen: () => chosen };
}

// share opens the dialog for a record.
export function share(r) {
  const k = kindOf(r), d = openDialog(t('share.title', { title: titleOf(r) }));
  d.el.classList.add('sharing');
  const change = async (body) => {
    try {
      r = await changeRecord(r, body);
    } catch (e) {
      if (e.record) { // the dialog shows what it is now, for the user to decide again
        r = e.record;
        updateRows(r);
        draw();
        terms.draw();
      }
      throw e;
    }
    updateRows(r);
    draw();
  };
  const terms = termsOf(() => r, change);
  // settled runs something once what the user has typed is saved.
  const settled = (run) => async () => { if (await terms.settle()) await run(); };
  const leave = (e) => {
    e.preventDefault();
    settled(() => d.el.close())();
  };
  d.el.addEventListener('cancel', leave);
  // Browsers close a dialog at the second Escape, whatever its cancel event says.
  d.el.addEventListener('keydown', (e) => { if (e.key === 'Escape' && !e.isComposing) leave(e); });

  // The people of this server come first: sharing with them needs no link.
  let house = null;
  if (r.kind === 'collection') {
    house = h('div');
    loadModule('house').then((m) => {
      const place = house;
      house = m.houseOf(r, (now) => {
        r = now;
        draw();
      });
      place.replaceWith(house);
    }, showProblem);
  }

  // ---- Who can open it, and its link ----

  const segment = (isPublic, label) => {
    const chosen = r.isPublic === isPublic;
    const b = h('button', { type: 'button', 'aria-pressed': String(chosen) }, chosen && icon('check'), label);
    b.onclick = settled(() => r.isPublic !== isPublic && change({ isPublic }).then(terms.draw, showProblem));
    return b;
  };

  let coded = false; // whether the QR code is shown
  const codeOf = (address) => h('img.code', {
    alt: t('common.qrOf', { address }), width: '200', height: '200',
    src: `${base}/api/v1/qr?text=${encodeURIComponent(address)}`,
  });

  function linkRow() {
    const address = shareAddressOf(r);
    const link = h('input.mono', { readonly: true, value: address, 'aria-label': t('forms.link') });
    link.oncopy = terms.settle; // by hand
    const copy = h('button.main', { type: 'button' }, icon('copy'), t('common.copyLink'));
    copy.onclick = settled(async () => {
      if (await copyText(address)) toast(t('common.linkCopied'), { time: 2500 });
      else find('input.mono', d.body).select();
    });
    const show = h('button', { type: 'button', 'aria-expanded': String(coded) }, t('common.qr'));
    show.onclick = settled(() => {
      coded = !coded;
      draw();
    });
    const send = navigator.share && h('button', { type: 'button' }, icon('share'), t('share.send'));
    const sent = { title: titleOf(r), url: address };
    if (send) send.onclick = settled(() => navigator.share(sent).catch(() => {})); // the user may close it
    const fileLabel = t('common.copyOf', { label: t('share.file') });
    const file = r.kind === 'file' && h('button.quiet', { type: 'button', 'aria-label': fileLabel }, t('share.file'));
    if (file) file.onclick = settled(() => copyLink(r.url));
    return [link, h('div.row', {}, copy, show, send, file), coded && codeOf(address)];
  }

  function draw() {
    const active = document.activeElement, focused = all('button', d.body).indexOf(active);
    const segments = h('div.segments', { role: 'group', 'aria-label': t('share.who') },
      segment(false, t(r.members?.length ? 'share.members' : 'common.onlyMe')), segment(true, t('common.anyone')));
    d.body.replaceChildren();
    add(d.body,
      house,
      segments,
      r.isPublic ? linkRow() : h('p.soft', {}, t(r.members?.length ? 'share.onlyMembers' : 'share.onlyYou')),
      terms.node,
      visitsOf());
    (d.body.contains(active) ? active : all('button', d.body)[focused])?.focus();
  }

  // ---- Who opened it ----

  let shown = null; // the visits, once they are asked for
  function visitsOf() {
    const summary = t('share.soFar', { count: visits(k, r[k.counter] ?? 0) });
    const box = h('details.visits', { open: shown !== null }, h('summary', {}, summary));
    const fill = () => box.append(...visitsShown(shown), logChoice());
    if (shown) fill();
    box.ontoggle = async () => {
      if (!box.open) {
        shown = null;
        return;
      }
      if (shown) return;
      try {
        const path = apiPathOf(r).replace(/[^/]+$/, r.kind === 'file' ? r.slug : r.id);
        shown = await api('GET', `${path}/visits`);
        fill();
      } catch (e) { box.append(h('p.error', { role: 'alert' }, e.message)); }
    };
    return box;
  }
  function logChoice() {
    const log = h('input', { type: 'checkbox', checked: r.logVisits });
    log.onchange = () => change({ logVisits: log.checked }).catch(showProblem);
    return h('label.check', {}, log, h('span', {}, t('share.log')));
  }

  draw();
  find('.segments [aria-pressed="true"]', d.body).focus();
}

const days = 30;

// countsOf adds up the visits of each of the last days, and those by device and by host.
function countsOf(v, today) {
  const byDay = new Array(days).fill(0), devices = { phone: 0, desktop: 0, program: 0 }, hosts = {};
  for (const one of v.days) {
    const at = days - 1 - (today - Date.parse(one.day) / 864e5);
    if (at >= 0) byDay[at] = one.views;
    for (const name of Object.keys(devices)) devices[name] += one.devices[name];
    for (const [host, n] of Object.entries(one.referrers)) hosts[host] = (hosts[host] ?? 0) + n;
  }
  return { byDay, devices, hosts };
}

function svg(name, attributes) {
  const el = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) el.setAttribute(key, value);
  return el;
}

// curveOf draws the visits of the last days.
function curveOf(byDay) {
  const most = Math.max(1, ...byDay), step = 300 / (days - 1);
  const point = (n, i) => `${(i * step).toFixed(1)},${(50 - 50 * n / most).toFixed(1)}`;
  const curve = svg('svg', {
    viewBox: '-2 -2 304 54', preserveAspectRatio: 'none', class: 'curve', role: 'img',
    'aria-label': t('share.curve', { n: byDay.reduce((a, b) => a + b, 0) }),
  });
  curve.append(svg('polyline', { points: byDay.map(point).join(' ') }));
  return curve;
}

const deviceNames = { phone: t('share.phones'), desktop: t('share.computers'), program: t('share.programs') };

// logRow says when and how someone opened an item.
function logRow(one) {
  return h('li', {},
    h('time', { datetime: one.at }, exactly(one.at)),
    ` · ${deviceNames[one.device]}`,
    one.network && ` · ${one.network}`,
    one.referrer && ` · ${one.referrer}`);
}

// visitsShown are the parts that show visits: a curve of the last days, devices, hosts and the log.
function visitsShown(v) {
  if (!v.lastAt) return [h('p.soft', {}, t('share.noVisits'))];
  const today = Math.floor(Date.now() / 864e5);
  const { byDay, devices, hosts } = countsOf(v, today);
  const used = Object.entries(devices).filter(([, n]) => n);
  const common = Object.entries(hosts).sort((a, b) => b[1] - a[1]).slice(0, 8);
  const numbers = (list, nameOf) => list.map(([name, n]) => `${nameOf(name)} ${number(n)}`).join(' · ');
  const dayLabels = [today - days + 1, today].map((n) => h('span', {}, day((n + 0.5) * 864e5)));
  return [
    h('p.soft', {}, tn('share.last', { when: when(v.lastAt) })),
    h('div', {}, curveOf(byDay), h('div.ends', { 'aria-hidden': 'true' }, dayLabels)),
    h('p', {}, numbers(used, (name) => deviceNames[name])),
    common.length > 0 && h('p', {}, numbers(common, (host) => host)),
    v.log.length > 0 && h('ul.log', {}, v.log.slice(0, 100).map(logRow)),
  ].filter(Boolean);
}
