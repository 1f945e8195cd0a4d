// The page of upload requests: links where others can send files, and the files waiting for approval.
import { addActions, all, button, bytes, emptyState, find, h, icon, iconButton, itemOf, plural, toast, when } from './dom.js';
import { openDialog, openForm } from './forms.js';
import { rerender } from './router.js';
import { addPending, api, base, heading, load, localAddress, Problem, setPending, showProblem } from './session.js';

const path = (r) => `upload-requests/${r.id}`;
const itemPath = (i) => `upload-requests/${i.uploadRequestId}/queue/${i.itemId}`;
const contentOf = (i) => `${base}/api/v1/${itemPath(i)}/content`;
const isPicture = (i) => /^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml)$/.test(i.mimeType);
const isText = (i) => /^text\/|\/(json|yaml|toml|xml|x-sh)$|\+(json|xml)$/.test(i.mimeType) && i.mimeType !== 'image/svg+xml';
const maxShown = 100; // files of a list
const chosen = () => all('#main .queue .pick input:checked').map((x) => itemOf(x).upload);

// ---- The queue ----

function queueRow(i, titles, picks) {
  const pic = h('span.pic', {}, icon('file'), isPicture(i) && i.status === 'pending' && i.fileSize < 8e6 && h('img', { src: contentOf(i), alt: '', loading: 'lazy' }));
  const pick = picks && h('label.pick', {}, h('input', { type: 'checkbox', 'aria-label': `Choose ${i.fileName}`, act: 'upload-pick' }), pic);
  const what = h('div.what', {},
    i.status === 'approved' && i.fileSlug ? h('a.name', { href: `${base}/files/${i.fileId}` }, i.fileName) : h('span.name', {}, i.fileName),
    h('div.meta', {}, h('span', {}, bytes(i.fileSize)), i.uploaderName && h('span', {}, `from ${i.uploaderName}`), titles && h('span', {}, titles.get(i.uploadRequestId) ?? ''), when(i.createdAt),
      i.status === 'approved' && h('span.badge.on', {}, 'approved'), i.status === 'rejected' && h('span.badge.warn', {}, 'rejected')),
    i.message && h('p.soft.said', {}, i.message));
  const row = h('li.item.plain', {}, pick || pic, what, i.status === 'pending' && h('div.acts', {},
    button('upload-look', 'Look', { 'aria-label': `Look at ${i.fileName}` }),
    iconButton('upload-approve', 'check', `Approve ${i.fileName}`), iconButton('upload-reject', 'trash', `Reject ${i.fileName}`)));
  row.upload = i;
  return row;
}

function queue(items, total, titles) {
  const bulk = h('div.row.decide', { role: 'toolbar', 'aria-label': 'Actions for the chosen files' }, button('upload-all', 'Choose all'), button('upload-approve-chosen', 'Approve', { disabled: true }), button('upload-reject-chosen', 'Reject', { disabled: true, class: 'danger' }));
  return [bulk, h('ul.list.queue', { 'aria-label': 'Files waiting for approval' }, items.map((i) => queueRow(i, titles, true))), total > items.length && h('p.soft', {}, `${plural(total - items.length, 'more file')} after these.`)];
}

// showChosen enables the buttons for the chosen files and shows how many there are.
function showChosen() {
  const n = chosen().length;
  for (const [act, label] of [['upload-approve-chosen', 'Approve'], ['upload-reject-chosen', 'Reject']]) {
    const b = find(`[data-act="${act}"]`);
    if (!b) continue;
    b.disabled = !n;
    b.textContent = n ? `${label} ${n}` : label;
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
  if (done) toast(action === 'approve' ? `${plural(done, 'file')} approved. Approved files are private.` : `${plural(done, 'file')} rejected.`);
  await rerender();
}

async function look(i) {
  const d = openDialog(i.fileName);
  const body = h('div.look', {}, h('p.soft', {}, `${bytes(i.fileSize)}, ${i.mimeType}`));
  d.body.append(body, h('div.row', {},
    button('look-approve', 'Approve', { class: 'main' }), button('look-reject', 'Reject', { class: 'danger' }),
    h('a.button', { href: contentOf(i), target: '_blank', rel: 'noopener' }, 'Open in a new tab')));
  find('[data-act="look-approve"]', d.el).upload = find('[data-act="look-reject"]', d.el).upload = i;
  if (isPicture(i)) body.prepend(h('img', { src: contentOf(i), alt: `The picture ${i.fileName}` }));
  else if (isText(i)) {
    try {
      const answer = await fetch(contentOf(i), { headers: i.fileSize ? { range: 'bytes=0-65535' } : {} });
      if (!answer.ok) throw new Problem('The file cannot be read.');
      body.prepend(h('pre', { tabindex: '0' }, await answer.text()), i.fileSize > 65536 ? h('p.soft', {}, 'This is the beginning of the file.') : '');
    } catch (e) { showProblem(e); }
  } else body.prepend(h('p', {}, 'There is no preview for this kind of file.'));
}

// ---- The links ----

function requestRow(r) {
  const over = r.expiresAt && Date.parse(r.expiresAt) < Date.now();
  const row = h('li.item.plain', {}, h('span.pic', {}, icon('upload')),
    h('div.what', {}, h('a.name', { href: `${base}/upload-requests?request=${r.id}` }, r.title),
      h('div.meta', {}, !r.isActive && h('span.badge.warn', {}, 'off'), over && h('span.badge.warn', {}, 'expired'), r.pendingCount ? h('span.badge.on', {}, `${r.pendingCount} waiting`) : null,
        h('span', {}, r.maxUploads ? `${r.uploadsCount} of ${plural(r.maxUploads, 'file')}` : plural(r.uploadsCount, 'file')), h('span', {}, plural(r.viewsCount, 'visit')),
        r.hasPassword && h('span', {}, 'password'), r.requiresCaptcha && h('span', {}, 'captcha'), !r.requiresApproval && h('span', {}, 'without approval'), r.expiresAt && !over && h('span', {}, 'ends ', when(r.expiresAt)))),
    h('div.acts', {}, button('request-link', 'Link', { 'aria-label': `Link of ${r.title}` }), iconButton('request-edit', 'edit', `Edit ${r.title}`), iconButton('request-delete', 'trash', `Delete ${r.title}`)));
  row.request = r;
  return row;
}

function showLink(r) {
  const address = localAddress(r.url).startsWith('/') ? location.origin + localAddress(r.url) : r.url;
  const d = openDialog(`Link of ${r.title}`);
  d.body.append(h('p.soft', {}, 'Anyone with this link can send you files.'),
    h('span.join', {}, h('input.mono', { readonly: true, value: address, 'aria-label': 'Link' }), button('copy-text', '', { 'data-text': address }, icon('copy'), 'Copy')),
    h('img.qr', { src: `${base}/api/v1/qr?text=${encodeURIComponent(address)}`, alt: `QR code of ${address}`, width: '200', height: '200' }),
    h('div.row', {}, h('a.button', { href: address, target: '_blank', rel: 'noopener' }, 'Open the page')));
}

function editRequest(r) {
  const old = r ? { ...r, password: '', allowedTypes: r.allowedTypes.join(', ') } : { isActive: true, requiresApproval: true, perUserWindowHours: 24 };
  const d = openForm({
    title: r ? `Edit ${r.title}` : 'New upload request', button: r ? 'Save' : 'Create link', values: old,
    fields: [
      { name: 'title', label: 'Title', required: true, placeholder: 'Photos of the wedding' },
      { name: 'description', label: 'Message to senders', type: 'text' },
      { name: 'folderName', label: 'Folder for received files', type: 'folder', half: true },
      { name: 'slug', label: 'End of the link', plain: true, half: true, placeholder: 'random' },
      { name: 'requiresApproval', label: 'Files wait until I approve them', type: 'check' },
      { name: 'isActive', label: 'The link accepts files', type: 'check' },
      { name: 'requiresCaptcha', label: 'Senders must solve a captcha', type: 'check' },
      { name: 'password', label: r?.hasPassword ? 'New password' : 'Password', type: 'password', autocomplete: 'new-password', placeholder: r?.hasPassword ? 'set; type to change it' : 'none' },
      ...(r?.hasPassword ? [{ name: 'noPassword', label: 'Remove the password', type: 'check' }] : []),
      { name: 'expiresAt', label: 'Ends', type: 'time', half: true },
      { name: 'maxUploads', label: 'Maximum number of files', type: 'number', min: 1, half: true, placeholder: 'no limit' },
      { name: 'maxFileSize', label: 'Largest file', type: 'size', half: true, placeholder: 'no limit' },
      { name: 'maxTotalSize', label: 'All files together', type: 'size', half: true, placeholder: 'no limit' },
      { name: 'allowedTypes', label: 'Allowed types', plain: true, placeholder: 'image/*, .pdf' },
      { name: 'perUserUploadLimit', label: 'Maximum files per sender', type: 'number', min: 1, half: true, placeholder: 'no limit' },
      { name: 'perUserWindowHours', label: 'within this many hours', type: 'number', min: 1, half: true },
      { name: 'brandColor', label: 'Colour of the page', plain: true, half: true, placeholder: '#0F6B5C' },
    ],
    run: async (now) => {
      const body = {};
      for (const [name, value] of Object.entries(now)) {
        if (name === 'noPassword' || name === 'password' || value === before[name]) continue;
        if (Number.isNaN(value)) throw new Problem('', 0, { [name]: 'must be a size such as 50 MB' });
        if (name === 'slug' && !value) continue;
        body[name] = value;
      }
      if (now.password) body.password = now.password;
      else if (now.noPassword) body.password = '';
      if (!r) body.title = now.title;
      const answer = r ? await api('PATCH', path(r), body) : await api('POST', 'upload-requests', body);
      await rerender();
      if (!r) showLink(answer.data);
    },
  });
  const before = d.form.values;
}

addActions({
  'request-new': () => editRequest(null),
  'request-edit': (el) => editRequest(itemOf(el).request),
  'request-link': (el) => showLink(itemOf(el).request),
  'request-delete'(el) {
    const r = itemOf(el).request;
    openForm({
      title: `Delete ${r.title}?`, danger: true, button: 'Delete link',
      text: r.pendingCount ? `${plural(r.pendingCount, 'file')} waiting for approval will be deleted too. Approved files are kept.` : 'Approved files are kept.',
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
  'upload-reject': (el) => decide([itemOf(el).upload], 'reject'),
  'upload-approve-chosen': () => decide(chosen(), 'approve'),
  'upload-reject-chosen': () => decide(chosen(), 'reject'),
  'upload-look': (el) => look(itemOf(el).upload),
  'look-approve': (el) => { el.closest('dialog').close(); decide([el.upload], 'approve'); },
  'look-reject': (el) => { el.closest('dialog').close(); decide([el.upload], 'reject'); },
});

export default async function page(v) {
  const id = v.params.get('request');
  if (id) {
    const [r, q] = await Promise.all([api('GET', `upload-requests/${encodeURIComponent(id)}`, undefined, { signal: v.signal }), api('GET', `upload-requests/${encodeURIComponent(id)}/queue?status=pending&limit=${maxShown}`, undefined, { signal: v.signal })]);
    // The server lists the oldest first. The page shows the newest.
    const from = Math.max(0, r.data.uploadsCount - maxShown);
    const done = (await api('GET', `upload-requests/${encodeURIComponent(id)}/queue?limit=${maxShown}&offset=${from}`, undefined, { signal: v.signal })).items.filter((i) => i.status !== 'pending').reverse();
    const waiting = q.items;
    v.out.append(heading(r.data.title, h('small.soft', {}, plural(r.data.uploadsCount, 'file'))), h('ul.list', { 'aria-label': 'Link' }, requestRow(r.data)));
    if (waiting.length) v.out.append(h('div.head', {}, h('h2', {}, 'Waiting for you')), ...queue(waiting, q.total, null).filter(Boolean));
    if (done.length) v.out.append(h('div.head', {}, h('h2', {}, 'Decided')), h('ul.list', { 'aria-label': 'Decided' }, done.map((i) => queueRow(i, null, false))));
    if (!r.data.uploadsCount) v.out.append(emptyState('No files received yet.', 'Send the link to the people who have the files.'));
    return r.data.title;
  }
  const [list, waiting] = await Promise.all([load('upload-requests', 'upload-requests?limit=500', v.signal), load('upload-requests/queue', 'upload-requests/queue?limit=50', v.signal)]);
  const links = list?.data ?? [], items = waiting?.items ?? [];
  setPending(waiting?.total ?? 0);
  v.out.append(heading('Upload requests', h('small.soft', {}, plural(links.length, 'link')), button('request-new', '', { class: 'main', 'aria-label': 'New request' }, icon('plus'), 'New')),
    h('p.soft', {}, 'A link where others can send you files without an account.'));
  if (items.length) v.out.append(h('div.head', {}, h('h2', {}, 'Waiting for you'), h('small.soft', {}, plural(waiting.total, 'file'))), ...queue(items, waiting.total, new Map(links.map((r) => [r.id, r.title]))).filter(Boolean), h('div.head', {}, h('h2', {}, 'Links')));
  v.out.append(links.length ? h('ul.list', { 'aria-label': 'Upload requests' }, links.map(requestRow)) : emptyState('No links yet.', 'Create one and send it to others.'));
  return 'Upload requests';
};
