// The page of upload requests: links where others can send files, and the files waiting for approval. It owns the rows
// of both and what is decided about files; session.js owns the number that waits. It fills view.out, reads view.params
// and stops with view.signal. The router calls the page.
import {
  add, addActions, all, button, bytes, emptyState, find, h, icon, iconButton, itemOf, shorten, t, tn, toast, when,
} from './dom.js';
import { expiryField } from './expiry.js';
import { openDialog, openForm } from './forms.js';
import { heading, load } from './heading.js';
import { rerender } from './router.js';
import { addPending, api, base, localAddress, Problem, setPending, showProblem } from './session.js';

const path = (r) => `upload-requests/${r.id}`;
const itemPath = (i) => `upload-requests/${i.uploadRequestId}/queue/${i.itemId}`;
const contentOf = (i) => `${base}/api/v1/${itemPath(i)}/content`;
const isPicture = (i) => /^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml)$/.test(i.mimeType);
const textTypes = /^text\/|\/(json|yaml|toml|xml|x-sh)$|\+(json|xml)$/;
const isText = (i) => textTypes.test(i.mimeType) && i.mimeType !== 'image/svg+xml';
const maxShown = 100; // files of a list
const maxDecided = 500; // at once, and how many that wait are shown
const guestRules = { allowedTypes: ['image/*', 'video/*'], maxUploads: 200, maxTotalSize: 5e9 };
const usualColor = '#0f6b5c';
const collecting = new Set(); // ids of the links that were read whose files go into a collection
const chosen = () => all('#main .queue .pick input:checked').map((x) => itemOf(x).upload);

// ---- The queue ----

// pictureOf is the symbol of a file, or a small picture of one that waits.
function pictureOf(i) {
  const shown = isPicture(i) && i.status === 'pending' && i.fileSize < 8e6;
  return h('span.pic', {}, icon('file'), shown && h('img', { src: contentOf(i), alt: '', loading: 'lazy' }));
}

// fileLine says what came, from whom and when, and what was decided. titles are those of the links, if there are
// several.
function fileLine(i, titles) {
  return h('div.meta', {},
    h('span', {}, bytes(i.fileSize)),
    i.uploaderName && h('span', {}, t('requests.from', { name: i.uploaderName })),
    titles && h('span', {}, titles.get(i.uploadRequestId) ?? ''),
    when(i.createdAt),
    i.status === 'approved' && h('span.badge.on', {}, t('requests.approved')),
    i.notCollected && h('span.badge.warn', {}, t('requests.outside')),
    i.status === 'rejected' && h('span.badge.warn', {}, t('requests.rejected')));
}

function queueRow(i, titles, picks) {
  const name = i.fileName, pic = pictureOf(i);
  const choose = t('requests.choose', { name });
  const box = picks && h('input', { type: 'checkbox', 'aria-label': choose, act: 'upload-pick' });
  const row = h('li.item.plain', {},
    picks ? h('label.pick', {}, box, pic) : pic,
    h('div.what', {},
      i.status === 'approved' && i.fileSlug
        ? h('a.name', { href: `${base}/files/${i.fileId}` }, name)
        : h('span.name', {}, name),
      fileLine(i, titles),
      i.message && h('p.soft.said', {}, i.message)),
    i.status === 'pending' && h('div.acts', {},
      button('upload-look', t('requests.preview'), { 'aria-label': t('requests.previewOf', { name }) }),
      iconButton('upload-approve', 'check', t('requests.approveOf', { name })),
      iconButton('upload-reject', 'trash', t('requests.rejectOf', { name }))));
  row.upload = i;
  return row;
}

function queue(items, total, titles) {
  const bulk = h('div.row.decide', { role: 'toolbar', 'aria-label': t('requests.chosenActions') },
    button('upload-all', t('requests.chooseAll')),
    button('upload-approve-chosen', t('requests.approve'), { disabled: true }),
    button('upload-reject-chosen', t('requests.reject'), { disabled: true, class: 'danger' }));
  const rows = items.map((i) => queueRow(i, titles, true));
  return [
    bulk,
    h('ul.list.queue', { 'aria-label': t('requests.waitingFiles') }, rows),
    total > items.length && h('p.soft', {}, t('requests.moreFiles', { n: total - items.length })),
  ];
}

// showChosen enables the buttons for the chosen files and shows how many there are.
function showChosen() {
  for (const box of all('#main .queue .pick input')) itemOf(box).classList.toggle('picked', box.checked);
  const n = chosen().length;
  const show = (act, none, some) => {
    const b = find(`[data-act="${act}"]`);
    if (!b) return;
    b.disabled = !n;
    b.textContent = n ? t(some, { n }) : t(none);
  };
  show('upload-approve-chosen', 'requests.approve', 'requests.approveSome');
  show('upload-reject-chosen', 'requests.reject', 'requests.rejectSome');
}

// batchesOf are files by their links, up to as many as the server decides at once.
function batchesOf(uploads) {
  const batches = new Map();
  for (const i of uploads) {
    const batch = batches.get(i.uploadRequestId);
    if (batch?.[0].length < maxDecided) batch[0].push(i);
    else batches.set(i.uploadRequestId, [[i], ...batch ?? []]);
  }
  return [...batches.values()].flat();
}

// decideBatch approves or rejects files of one link, and adds those that it has decided to done: not what was decided
// elsewhere meanwhile. Files that cannot be decided together are decided one after another.
async function decideBatch(batch, action, done) {
  try {
    const body = { items: batch.map((i) => i.itemId), action };
    done.push(...(await api('PATCH', `upload-requests/${batch[0].uploadRequestId}/queue`, body)).items);
    return;
  } catch (e) {
    const isGone = e.status === 409 || e.status === 404;
    if (!e.status || batch.length === 1 && !isGone) throw e;
  }
  if (batch.length > 1) for (const i of batch) await decideBatch([i], action, done);
}

async function decide(uploads, action) {
  const done = [];
  try {
    for (const batch of batchesOf(uploads)) await decideBatch(batch, action, done);
  } catch (e) { showProblem(e); }
  addPending(-done.length);
  if (done.length) toast(saidOf(done, action));
  await rerender();
}

function saidOf(done, action) {
  const n = done.length, lone = done.filter((i) => i.notCollected).length;
  if (action === 'reject') return t('requests.rejectedText', { n });
  if (lone) return t('requests.notCollected', { n: lone });
  const collects = done.some((i) => collecting.has(i.uploadRequestId));
  return t(collects ? 'requests.collectedText' : 'requests.approvedText', { n });
}

// reject asks before files are rejected, which deletes them.
const reject = (uploads) => openForm({
  title: uploads.length === 1
    ? t('requests.rejectTitle', { name: shorten(uploads[0].fileName) })
    : t('requests.rejectSomeTitle', { n: uploads.length }),
  text: t('requests.rejectText'), button: t('requests.reject'), danger: true, run: () => decide(uploads, 'reject'),
});

// beginningOf is the text of a file in its charset, or the beginning of a long one.
async function beginningOf(i) {
  const answer = await fetch(contentOf(i), { headers: i.fileSize ? { range: 'bytes=0-65535' } : {} });
  if (!answer.ok) throw new Problem(t('requests.unreadable'));
  const [, charset = 'utf-8'] = /charset=([\w-]+)/.exec(answer.headers.get('content-type')) ?? [];
  return new TextDecoder(charset).decode(await answer.arrayBuffer());
}

// look shows a file before it is decided about.
async function look(i) {
  const d = openDialog(i.fileName);
  const approve = button('look-approve', t('requests.approve'), { class: 'main' });
  const refuse = button('look-reject', t('requests.reject'), { class: 'danger' });
  approve.upload = i;
  refuse.upload = i;
  const body = h('div.look', {}, h('p.soft', {}, `${bytes(i.fileSize)}, ${i.mimeType}`));
  const open = h('a.button', { href: contentOf(i), target: '_blank', rel: 'noopener' }, t('requests.openTab'));
  d.body.append(body, h('div.row', {}, approve, refuse, open));

  if (isPicture(i)) {
    body.prepend(h('img', { src: contentOf(i), alt: t('requests.picture', { name: i.fileName }) }));
  } else if (isText(i)) {
    try {
      const text = await beginningOf(i);
      const more = i.fileSize > 65536 ? h('p.soft', {}, t('requests.beginning')) : '';
      body.prepend(h('pre', { tabindex: '0' }, text), more);
    } catch (e) { showProblem(e); }
  } else {
    body.prepend(h('p', {}, t('requests.noPreview')));
  }
}

// ---- The links ----

// requestLine says whether a link works, how much was sent, and how it is protected.
function requestLine(r) {
  const over = r.expiresAt && Date.parse(r.expiresAt) < Date.now();
  const files = r.maxUploads
    ? t('requests.filesOf', { some: r.uploadsCount, n: r.maxUploads })
    : t('uploads.files', { n: r.uploadsCount });
  return h('div.meta', {},
    !r.isActive && h('span.badge.warn', {}, t('requests.off')),
    over && h('span.badge.warn', {}, t('list.expired')),
    r.pendingCount ? h('span.badge.on', {}, t('requests.waitingCount', { n: r.pendingCount })) : null,
    h('span', {}, files),
    h('span', {}, t('requests.visits', { n: r.viewsCount })),
    r.hasPassword && h('span', {}, t('list.password')),
    r.requiresCaptcha && h('span', {}, t('requests.captcha')),
    !r.requiresApproval && h('span', {}, t('requests.noReview')),
    r.collectionId && h('a', { href: `${base}/collections/${r.collectionId}` }, t('requests.intoCollection')),
    r.expiresAt && !over && h('span', {}, tn('list.expires', { when: when(r.expiresAt) })));
}

function requestRow(r) {
  const { title } = r;
  const row = h('li.item.plain', {},
    h('span.pic', {}, icon('inbox')),
    h('div.what', {}, h('a.name', { href: `${base}/upload-requests?request=${r.id}` }, title), requestLine(r)),
    h('div.acts', {},
      button('request-link', t('requests.link'), { 'aria-label': t('requests.linkOf', { title }) }),
      iconButton('request-edit', 'edit', t('requests.editOf', { title })),
      iconButton('request-delete', 'trash', t('requests.deleteOf', { title }))));
  row.request = r;
  return row;
}

// absolute is an address of this server as others can open it.
function absolute(address) {
  const local = localAddress(address);
  return local.startsWith('/') ? location.origin + local : address;
}

// linkOf shows an address to be copied, and as a picture to be scanned.
function linkOf(address) {
  const code = `${base}/api/v1/qr?text=${encodeURIComponent(address)}`;
  return [
    h('span.join', {},
      h('input.mono', { readonly: true, value: address, 'aria-label': t('forms.link') }),
      button('copy-text', '', { 'data-text': address }, icon('copy'), t('common.copy'))),
    h('img.qr', { src: code, alt: t('common.qrOf', { address }), width: '200', height: '200' }),
  ];
}

function showLink(r) {
  const address = absolute(r.url);
  const d = openDialog(t('requests.linkOf', { title: r.title }));
  d.body.append(
    h('p.soft', {}, t('requests.anyoneSends')),
    ...linkOf(address),
    h('div.row', {}, h('a.button', { href: address, target: '_blank', rel: 'noopener' }, t('requests.openPage'))));
}

// ---- Guests of a collection ----

// showGuests shows the link with which visitors add to a collection: that of its page, if they may see it.
function showGuests(collection, r) {
  const d = openDialog(t('guests.title'));
  const rules = h('a.button', { href: `${base}/upload-requests?request=${r.id}` }, t('guests.rules'));
  rules.onclick = () => d.el.close();
  const isOver = !r.isActive || r.expiresAt && Date.parse(r.expiresAt) < Date.now();
  add(d.body,
    isOver && h('p.alert', {}, t('guests.over')),
    h('p.soft', {}, t(collection.isPublic ? 'guests.both' : 'guests.only')),
    ...linkOf(absolute(collection.isPublic ? collection.shareUrl : r.url)),
    h('div.row', {}, rules));
}

// openGuests lets visitors add to a collection of the user's, or shows how they do it. changed is called when that
// began.
export async function openGuests(collection, changed) {
  const { title, id, uploadRequestId } = collection;
  if (uploadRequestId) {
    const { data } = await api('GET', `upload-requests/${uploadRequestId}`);
    return showGuests(collection, data);
  }
  const fields = fieldsOfRequest(null).filter((f) => ['requiresApproval', 'requiresName'].includes(f.name));
  openForm({
    title: t('guests.title'), text: t('guests.text'), button: t('guests.start'),
    fields, values: { requiresApproval: true, requiresName: true },
    run: async (values) => {
      const body = { ...guestRules, ...values, title: title || t('guests.untitled'), collectionId: id };
      const { data } = await api('POST', 'upload-requests', body);
      changed();
      showGuests(collection, data);
    },
  });
}

// valuesOfRequest are what the form of a link shows; r is null for a new one.
function valuesOfRequest(r) {
  if (!r) return { isActive: true, requiresApproval: true, perUserWindowHours: 24, brandColor: usualColor };
  return {
    ...r,
    password: '',
    allowedTypes: r.allowedTypes.join(', '),
    branded: !!r.brandColor,
    brandColor: (r.brandColor || usualColor).toLowerCase(),
  };
}

// fieldsOfRequest are the fields of the form of a link.
function fieldsOfRequest(r) {
  const none = t('common.noLimit');
  const password = r?.hasPassword
    ? { label: t('share.newPassword'), placeholder: t('common.unchanged') }
    : { label: t('share.password'), placeholder: t('share.none') };
  return [
    { name: 'title', label: t('requests.formTitle'), required: true, placeholder: t('requests.sample') },
    { name: 'description', label: t('requests.message'), type: 'text' },
    { name: 'folderName', label: t('requests.folder'), type: 'folder', half: true },
    expiryField({ half: true }),
    { name: 'isActive', label: t('requests.accept'), type: 'check' },
    { name: 'requiresApproval', label: t('requests.review'), type: 'check' },
    { name: 'requiresName', label: t('requests.requireName'), type: 'check' },
    { name: 'requiresCaptcha', label: t('requests.requireCaptcha'), type: 'check' },
    { name: 'password', ...password, type: 'password', autocomplete: 'new-password' },
    ...(r?.hasPassword ? [{ name: 'noPassword', label: t('share.removePassword'), type: 'check' }] : []),
    { name: 'maxUploads', label: t('requests.maxFiles'), type: 'number', min: 1, half: true, placeholder: none },
    { name: 'maxFileSize', label: t('common.largestFile'), type: 'size', half: true, placeholder: none },
    { name: 'maxTotalSize', label: t('requests.totalSize'), type: 'size', half: true, placeholder: none },
    { name: 'allowedTypes', label: t('requests.types'), plain: true, placeholder: 'image/*, .pdf' },
    {
      name: 'perUserUploadLimit', label: t('requests.perSender'), type: 'number', min: 1, half: true,
      placeholder: none,
    },
    { name: 'perUserWindowHours', label: t('requests.perHours'), type: 'number', min: 1, half: true },
    { name: 'slug', label: t('requests.slug'), plain: true, placeholder: t('requests.generated') },
    { name: 'branded', label: t('requests.branded'), type: 'check' },
    { name: 'brandColor', label: t('requests.colour'), type: 'color', onlyFor: { branded: Boolean } },
  ];
}

// changesOfRequest is what to send of a form: what the user has changed of what was in it before.
function changesOfRequest(before, now) {
  const body = {};
  for (const [name, value] of Object.entries(now)) {
    if (['noPassword', 'password', 'branded', 'brandColor'].includes(name) || value === before[name]) continue;
    if (name === 'slug' && !value) continue;
    body[name] = value;
  }
  if (now.password) body.password = now.password;
  else if (now.noPassword) body.password = '';
  const colorOf = (values) => values.branded ? values.brandColor : '';
  if (colorOf(now) !== colorOf(before)) body.brandColor = colorOf(now);
  return body;
}

function editRequest(r) {
  const d = openForm({
    title: r ? t('requests.editOf', { title: r.title }) : t('requests.new'),
    button: r ? t('common.save') : t('requests.create'),
    values: valuesOfRequest(r),
    fields: fieldsOfRequest(r),
    run: async (now) => {
      const body = changesOfRequest(before, now);
      if (!r) body.title = now.title;
      const answer = r ? await api('PATCH', path(r), body) : await api('POST', 'upload-requests', body);
      await rerender();
      if (!r) showLink(answer.data);
    },
  });
  const before = d.form.values;
  const group = (label, ...names) => {
    const nodes = names.map((name) => d.form.control(name)?.node);
    d.form.node.append(h('details.field', {}, h('summary', {}, label), h('div.fields', {}, nodes)));
  };
  group(t('requests.protection'), 'requiresApproval', 'requiresName', 'requiresCaptcha', 'password', 'noPassword');
  group(t('requests.limits'),
    'maxUploads', 'maxFileSize', 'maxTotalSize', 'allowedTypes', 'perUserUploadLimit', 'perUserWindowHours');
  group(t('requests.look'), 'slug', 'branded', 'brandColor');
}

addActions({
  'request-new': () => editRequest(null),
  'request-edit': (el) => editRequest(itemOf(el).request),
  'request-link': (el) => showLink(itemOf(el).request),
  'request-delete'(el) {
    const r = itemOf(el).request;
    openForm({
      title: t('requests.deleteTitle', { title: r.title }), danger: true, button: t('requests.deleteLink'),
      text: r.pendingCount ? t('requests.deleteText', { n: r.pendingCount }) : t('requests.kept'),
      run: async () => {
        await api('DELETE', path(r));
        addPending(-r.pendingCount);
        await rerender();
      },
    });
  },
  'upload-pick': showChosen,
  'upload-all'() {
    const boxes = all('#main .queue .pick input'), on = boxes.some((x) => !x.checked);
    for (const x of boxes) x.checked = on;
    showChosen();
  },
  'upload-approve': (el) => decide([itemOf(el).upload], 'approve'),
  'upload-reject': (el) => reject([itemOf(el).upload]),
  'upload-approve-chosen': () => decide(chosen(), 'approve'),
  'upload-reject-chosen': () => reject(chosen()),
  'upload-look': (el) => look(itemOf(el).upload),
  'look-approve'(el) {
    el.closest('dialog').close();
    decide([el.upload], 'approve');
  },
  'look-reject'(el) {
    el.closest('dialog').close();
    reject([el.upload]);
  },
});

function noteCollecting(links) {
  for (const r of links) collecting[r.collectionId ? 'add' : 'delete'](r.id);
}

// section is a part of the page with a heading.
const section = (title, count, ...inside) => [h('div.head', {}, h('h2', {}, title), count), inside];

// requestPage shows one link and its files: those that wait, and those that were decided.
async function requestPage(v, id) {
  const at = `upload-requests/${encodeURIComponent(id)}`;
  const read = (rest) => api('GET', at + rest, undefined, { signal: v.signal });
  const [{ data: r }, waiting] = await Promise.all([read(''), read(`/queue?status=pending&limit=${maxDecided}`)]);
  noteCollecting([r]);
  // The server lists the oldest first. The page shows the newest.
  const from = Math.max(0, r.uploadsCount - maxShown);
  const { items } = await read(`/queue?limit=${maxShown}&offset=${from}`);
  const decided = items.filter((i) => i.status !== 'pending').reverse();

  const decidedList = () => h('ul.list', { 'aria-label': t('requests.decided') },
    decided.map((i) => queueRow(i, null, false)));
  add(v.out,
    heading(r.title, h('small.soft', {}, t('uploads.files', { n: r.uploadsCount }))),
    h('ul.list', { 'aria-label': t('forms.link') }, requestRow(r)),
    waiting.items.length > 0 && section(t('requests.waiting'), null, queue(waiting.items, waiting.total, null)),
    decided.length > 0 && section(t('requests.decided'), null, decidedList()),
    !r.uploadsCount && emptyState(t('requests.empty'), t('requests.emptyHint')));
  return r.title;
}

export default async function page(v) {
  const id = v.params.get('request');
  if (id) return requestPage(v, id);

  const [list, waiting] = await Promise.all([
    load('upload-requests', 'upload-requests?limit=500', v.signal),
    load('upload-requests/queue', 'upload-requests/queue?limit=50', v.signal),
  ]);
  const links = list?.data ?? [], items = waiting?.items ?? [];
  setPending(waiting?.total ?? 0);
  noteCollecting(links);

  const make = { class: 'main', 'aria-label': t('requests.newRequest') };
  add(v.out,
    heading(t('requests.title'), h('small.soft', {}, t('requests.links', { n: links.length })),
      button('request-new', '', make, icon('plus'), t('common.new'))),
    h('p.soft', {}, t('requests.intro')));
  if (items.length) {
    const titles = new Map(links.map((r) => [r.id, r.title]));
    const count = h('small.soft', {}, t('uploads.files', { n: waiting.total }));
    add(v.out,
      section(t('requests.waiting'), count, queue(items, waiting.total, titles)),
      section(t('requests.linksTitle'), null));
  }
  add(v.out, links.length
    ? h('ul.list', { 'aria-label': t('requests.title') }, links.map(requestRow))
    : emptyState(t('requests.none'), t('requests.noneHint')));
  return t('requests.title');
}
