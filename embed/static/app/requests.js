// The page of upload requests: links where others can send files, and the files waiting for approval.
import { addActions, all, button, bytes, emptyState, find, h, icon, iconButton, itemOf, shorten, t, tn, toast, when } from './dom.js';
import { openDialog, openForm } from './forms.js';
import { rerender } from './router.js';
import { addPending, api, base, heading, load, localAddress, Problem, setPending, showProblem } from './session.js';

const path = (r) => `upload-requests/${r.id}`;
const itemPath = (i) => `upload-requests/${i.uploadRequestId}/queue/${i.itemId}`;
const contentOf = (i) => `${base}/api/v1/${itemPath(i)}/content`;
const isPicture = (i) => /^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml)$/.test(i.mimeType);
const isText = (i) => /^text\/|\/(json|yaml|toml|xml|x-sh)$|\+(json|xml)$/.test(i.mimeType) && i.mimeType !== 'image/svg+xml';
const maxShown = 100; // files of a list
const usualColor = '#0f6b5c';
const chosen = () => all('#main .queue .pick input:checked').map((x) => itemOf(x).upload);

// ---- The queue ----

function queueRow(i, titles, picks) {
  const pic = h('span.pic', {}, icon('file'), isPicture(i) && i.status === 'pending' && i.fileSize < 8e6 && h('img', { src: contentOf(i), alt: '', loading: 'lazy' }));
  const pick = picks && h('label.pick', {}, h('input', { type: 'checkbox', 'aria-label': t('requests.choose', { name: i.fileName }), act: 'upload-pick' }), pic);
  const what = h('div.what', {},
    i.status === 'approved' && i.fileSlug ? h('a.name', { href: `${base}/files/${i.fileId}` }, i.fileName) : h('span.name', {}, i.fileName),
    h('div.meta', {}, h('span', {}, bytes(i.fileSize)), i.uploaderName && h('span', {}, t('requests.from', { name: i.uploaderName })), titles && h('span', {}, titles.get(i.uploadRequestId) ?? ''), when(i.createdAt),
      i.status === 'approved' && h('span.badge.on', {}, t('requests.approved')), i.status === 'rejected' && h('span.badge.warn', {}, t('requests.rejected'))),
    i.message && h('p.soft.said', {}, i.message));
  const row = h('li.item.plain', {}, pick || pic, what, i.status === 'pending' && h('div.acts', {},
    button('upload-look', t('requests.preview'), { 'aria-label': t('requests.previewOf', { name: i.fileName }) }),
    iconButton('upload-approve', 'check', t('requests.approveOf', { name: i.fileName })), iconButton('upload-reject', 'trash', t('requests.rejectOf', { name: i.fileName }))));
  row.upload = i;
  return row;
}

function queue(items, total, titles) {
  const bulk = h('div.row.decide', { role: 'toolbar', 'aria-label': t('requests.chosenActions') }, button('upload-all', t('requests.chooseAll')), button('upload-approve-chosen', t('requests.approve'), { disabled: true }), button('upload-reject-chosen', t('requests.reject'), { disabled: true, class: 'danger' }));
  return [bulk, h('ul.list.queue', { 'aria-label': t('requests.waitingFiles') }, items.map((i) => queueRow(i, titles, true))), total > items.length && h('p.soft', {}, t('requests.moreFiles', { n: total - items.length }))];
}

// showChosen enables the buttons for the chosen files and shows how many there are.
function showChosen() {
  for (const box of all('#main .queue .pick input')) itemOf(box).classList.toggle('picked', box.checked);
  const n = chosen().length;
  for (const [act, none, some] of [['upload-approve-chosen', 'requests.approve', 'requests.approveSome'], ['upload-reject-chosen', 'requests.reject', 'requests.rejectSome']]) {
    const b = find(`[data-act="${act}"]`);
    if (!b) continue;
    b.disabled = !n;
    b.textContent = n ? t(some, { n }) : t(none);
  }
}

// decide approves or rejects several files, one after another. It skips files that were decided elsewhere meanwhile.
async function decide(uploads, action) {
  let done = 0;
  try {
    for (const i of uploads) {
      try {
        await api('PATCH', itemPath(i), { action });
        done++;
      } catch (e) {
        if (e.status !== 409 && e.status !== 404) throw e;
      }
    }
  } catch (e) { showProblem(e); }
  addPending(-done);
  if (done) toast(action === 'approve' ? t('requests.approvedText', { n: done }) : t('requests.rejectedText', { n: done }));
  await rerender();
}

// reject asks before files are rejected, which deletes them.
const reject = (uploads) => openForm({
  title: uploads.length === 1 ? t('requests.rejectTitle', { name: shorten(uploads[0].fileName) }) : t('requests.rejectSomeTitle', { n: uploads.length }),
  text: t('requests.rejectText'), button: t('requests.reject'), danger: true, run: () => decide(uploads, 'reject'),
});

async function look(i) {
  const d = openDialog(i.fileName);
  const body = h('div.look', {}, h('p.soft', {}, `${bytes(i.fileSize)}, ${i.mimeType}`));
  d.body.append(body, h('div.row', {},
    button('look-approve', t('requests.approve'), { class: 'main' }), button('look-reject', t('requests.reject'), { class: 'danger' }),
    h('a.button', { href: contentOf(i), target: '_blank', rel: 'noopener' }, t('requests.openTab'))));
  find('[data-act="look-approve"]', d.el).upload = find('[data-act="look-reject"]', d.el).upload = i;
  if (isPicture(i)) body.prepend(h('img', { src: contentOf(i), alt: t('requests.picture', { name: i.fileName }) }));
  else if (isText(i)) {
    try {
      const answer = await fetch(contentOf(i), { headers: i.fileSize ? { range: 'bytes=0-65535' } : {} });
      if (!answer.ok) throw new Problem(t('requests.unreadable'));
      body.prepend(h('pre', { tabindex: '0' }, await answer.text()), i.fileSize > 65536 ? h('p.soft', {}, t('requests.beginning')) : '');
    } catch (e) { showProblem(e); }
  } else body.prepend(h('p', {}, t('requests.noPreview')));
}

// ---- The links ----

function requestRow(r) {
  const over = r.expiresAt && Date.parse(r.expiresAt) < Date.now();
  const row = h('li.item.plain', {}, h('span.pic', {}, icon('inbox')),
    h('div.what', {}, h('a.name', { href: `${base}/upload-requests?request=${r.id}` }, r.title),
      h('div.meta', {}, !r.isActive && h('span.badge.warn', {}, t('requests.off')), over && h('span.badge.warn', {}, t('list.expired')), r.pendingCount ? h('span.badge.on', {}, t('requests.waitingCount', { n: r.pendingCount })) : null,
        h('span', {}, r.maxUploads ? t('requests.filesOf', { some: r.uploadsCount, n: r.maxUploads }) : t('uploads.files', { n: r.uploadsCount })), h('span', {}, t('requests.visits', { n: r.viewsCount })),
        r.hasPassword && h('span', {}, t('list.password')), r.requiresCaptcha && h('span', {}, t('requests.captcha')), !r.requiresApproval && h('span', {}, t('requests.noReview')), r.expiresAt && !over && h('span', {}, tn('list.expires', { when: when(r.expiresAt) })))),
    h('div.acts', {}, button('request-link', t('requests.link'), { 'aria-label': t('requests.linkOf', { title: r.title }) }), iconButton('request-edit', 'edit', t('requests.editOf', { title: r.title })), iconButton('request-delete', 'trash', t('requests.deleteOf', { title: r.title }))));
  row.request = r;
  return row;
}

function showLink(r) {
  const address = localAddress(r.url).startsWith('/') ? location.origin + localAddress(r.url) : r.url;
  const d = openDialog(t('requests.linkOf', { title: r.title }));
  d.body.append(h('p.soft', {}, t('requests.anyoneSends')),
    h('span.join', {}, h('input.mono', { readonly: true, value: address, 'aria-label': t('forms.link') }), button('copy-text', '', { 'data-text': address }, icon('copy'), t('common.copy'))),
    h('img.qr', { src: `${base}/api/v1/qr?text=${encodeURIComponent(address)}`, alt: t('common.qrOf', { address }), width: '200', height: '200' }),
    h('div.row', {}, h('a.button', { href: address, target: '_blank', rel: 'noopener' }, t('requests.openPage'))));
}

function editRequest(r) {
  const old = r ? { ...r, password: '', allowedTypes: r.allowedTypes.join(', '), branded: !!r.brandColor, brandColor: (r.brandColor || usualColor).toLowerCase() } : { isActive: true, requiresApproval: true, perUserWindowHours: 24, brandColor: usualColor };
  const d = openForm({
    title: r ? t('requests.editOf', { title: r.title }) : t('requests.new'), button: r ? t('common.save') : t('requests.create'), values: old,
    fields: [
      { name: 'title', label: t('requests.formTitle'), required: true, placeholder: t('requests.sample') },
      { name: 'description', label: t('requests.message'), type: 'text' },
      { name: 'folderName', label: t('requests.folder'), type: 'folder', half: true },
      { name: 'expiresAt', label: t('share.expires'), type: 'time', half: true },
      { name: 'isActive', label: t('requests.accept'), type: 'check' },
      { name: 'requiresApproval', label: t('requests.review'), type: 'check' },
      { name: 'requiresCaptcha', label: t('requests.requireCaptcha'), type: 'check' },
      { name: 'password', label: r?.hasPassword ? t('share.newPassword') : t('share.password'), type: 'password', autocomplete: 'new-password', placeholder: r?.hasPassword ? t('common.unchanged') : t('share.none') },
      ...(r?.hasPassword ? [{ name: 'noPassword', label: t('share.removePassword'), type: 'check' }] : []),
      { name: 'maxUploads', label: t('requests.maxFiles'), type: 'number', min: 1, half: true, placeholder: t('common.noLimit') },
      { name: 'maxFileSize', label: t('common.largestFile'), type: 'size', half: true, placeholder: t('common.noLimit') },
      { name: 'maxTotalSize', label: t('requests.totalSize'), type: 'size', half: true, placeholder: t('common.noLimit') },
      { name: 'allowedTypes', label: t('requests.types'), plain: true, placeholder: 'image/*, .pdf' },
      { name: 'perUserUploadLimit', label: t('requests.perSender'), type: 'number', min: 1, half: true, placeholder: t('common.noLimit') },
      { name: 'perUserWindowHours', label: t('requests.perHours'), type: 'number', min: 1, half: true },
      { name: 'slug', label: t('requests.slug'), plain: true, placeholder: t('requests.generated') },
      { name: 'branded', label: t('requests.branded'), type: 'check' },
      { name: 'brandColor', label: t('requests.colour'), type: 'color', onlyFor: { branded: [true] } },
    ],
    run: async (now) => {
      const body = {};
      for (const [name, value] of Object.entries(now)) {
        if (['noPassword', 'password', 'branded', 'brandColor'].includes(name) || value === before[name]) continue;
        if (Number.isNaN(value)) throw new Problem('', 0, { [name]: t('requests.badSize') });
        if (name === 'slug' && !value) continue;
        body[name] = value;
      }
      if (now.password) body.password = now.password;
      else if (now.noPassword) body.password = '';
      const color = now.branded ? now.brandColor : '';
      if (color !== (before.branded ? before.brandColor : '')) body.brandColor = color;
      if (!r) body.title = now.title;
      const answer = r ? await api('PATCH', path(r), body) : await api('POST', 'upload-requests', body);
      await rerender();
      if (!r) showLink(answer.data);
    },
  });
  const before = d.form.values;
  const group = (label, ...names) => {
    d.form.node.append(h('details.field', {}, h('summary', {}, label), h('div.fields', {}, names.map((name) => d.form.control(name)?.node).filter(Boolean))));
  };
  group(t('requests.protection'), 'requiresApproval', 'requiresCaptcha', 'password', 'noPassword');
  group(t('requests.limits'), 'maxUploads', 'maxFileSize', 'maxTotalSize', 'allowedTypes', 'perUserUploadLimit', 'perUserWindowHours');
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
  'look-approve': (el) => { el.closest('dialog').close(); decide([el.upload], 'approve'); },
  'look-reject': (el) => { el.closest('dialog').close(); reject([el.upload]); },
});

export default async function page(v) {
  const id = v.params.get('request');
  if (id) {
    const [r, q] = await Promise.all([api('GET', `upload-requests/${encodeURIComponent(id)}`, undefined, { signal: v.signal }), api('GET', `upload-requests/${encodeURIComponent(id)}/queue?status=pending&limit=${maxShown}`, undefined, { signal: v.signal })]);
    // The server lists the oldest first. The page shows the newest.
    const from = Math.max(0, r.data.uploadsCount - maxShown);
    const done = (await api('GET', `upload-requests/${encodeURIComponent(id)}/queue?limit=${maxShown}&offset=${from}`, undefined, { signal: v.signal })).items.filter((i) => i.status !== 'pending').reverse();
    const waiting = q.items;
    v.out.append(heading(r.data.title, h('small.soft', {}, t('uploads.files', { n: r.data.uploadsCount }))), h('ul.list', { 'aria-label': t('forms.link') }, requestRow(r.data)));
    if (waiting.length) v.out.append(h('div.head', {}, h('h2', {}, t('requests.waiting'))), ...queue(waiting, q.total, null).filter(Boolean));
    if (done.length) v.out.append(h('div.head', {}, h('h2', {}, t('requests.decided'))), h('ul.list', { 'aria-label': t('requests.decided') }, done.map((i) => queueRow(i, null, false))));
    if (!r.data.uploadsCount) v.out.append(emptyState(t('requests.empty'), t('requests.emptyHint')));
    return r.data.title;
  }
  const [list, waiting] = await Promise.all([load('upload-requests', 'upload-requests?limit=500', v.signal), load('upload-requests/queue', 'upload-requests/queue?limit=50', v.signal)]);
  const links = list?.data ?? [], items = waiting?.items ?? [];
  setPending(waiting?.total ?? 0);
  v.out.append(heading(t('requests.title'), h('small.soft', {}, t('requests.links', { n: links.length })), button('request-new', '', { class: 'main', 'aria-label': t('requests.newRequest') }, icon('plus'), t('common.new'))),
    h('p.soft', {}, t('requests.intro')));
  if (items.length) v.out.append(h('div.head', {}, h('h2', {}, t('requests.waiting')), h('small.soft', {}, t('uploads.files', { n: waiting.total }))), ...queue(items, waiting.total, new Map(links.map((r) => [r.id, r.title]))).filter(Boolean), h('div.head', {}, h('h2', {}, t('requests.linksTitle'))));
  v.out.append(links.length ? h('ul.list', { 'aria-label': t('requests.title') }, links.map(requestRow)) : emptyState(t('requests.none'), t('requests.noneHint')));
  return t('requests.title');
};
