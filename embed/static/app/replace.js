// Other bytes for a file under its link, and the earlier ones. It owns its dialog and sends the bytes. It uses nothing
// of view. The editor calls openReplace.
import { deviceName } from './devices.js';
import { add, bytes, h, t, tn, toast, when } from './dom.js';
import { openDialog } from './forms.js';
import { apiPathOf, isForBrowser } from './kinds.js';
import { fetchRecord, updateRows } from './list.js';
import { api, base, loadModule, problemOf, showProblem, start } from './session.js';

// send sends a file as the new bytes of a record, and returns the answer's record. progress is called with percents.
function send(r, file, progress) {
  return new Promise((done, fail) => {
    const xhr = new XMLHttpRequest();
    xhr.upload.onprogress = (e) => progress(Math.round(e.loaded / e.total * 100));
    xhr.onload = () => {
      let data = null;
      try { data = JSON.parse(xhr.responseText); } catch { /* the status is enough */ }
      if (xhr.status === 200) done(data.data);
      else fail(problemOf(xhr.status, data));
    };
    xhr.onerror = () => fail(problemOf(0));
    xhr.open('PUT', `${base}/api/v1/${apiPathOf(r)}/content?name=${encodeURIComponent(file.name)}`);
    xhr.setRequestHeader('If-Match', r.etag);
    xhr.setRequestHeader('Content-Type', file.type || 'application/octet-stream');
    xhr.send(file);
  });
}

// openReplace shows what takes the place of a file and what was there before.
export async function openReplace(r) {
  const at = `${apiPathOf(r)}/versions`;
  let list;
  try {
    [list, r] = await Promise.all([api('GET', `${at}?limit=500`), fetchRecord(r)]);
  } catch (e) { return showProblem(e); }

  const d = openDialog(t('replace.title'));
  const picker = h('input', { type: 'file', hidden: true });
  const choose = h('button.main', { type: 'button' }, t('replace.choose'));
  const bar = h('i');
  const track = h('div.bar', { role: 'progressbar', 'aria-valuemin': '0', 'aria-valuemax': '100', hidden: true }, bar);
  const progress = (percent) => {
    bar.style.width = `${percent}%`;
    track.setAttribute('aria-valuenow', String(percent));
  };

  // attempt runs what changes the file. If it was changed elsewhere, the next attempt is about the file as it is now.
  async function attempt(run, said) {
    d.el.inert = true;
    try {
      const saved = await run();
      d.el.close('done');
      updateRows(await fetchRecord(saved));
      toast(said);
    } catch (e) {
      if (e.record) {
        r = await fetchRecord(r);
        updateRows(r);
      }
      showProblem(e);
    } finally {
      d.el.inert = false;
      track.hidden = true;
    }
  }

  choose.onclick = () => picker.click();
  picker.onchange = () => {
    const [file] = picker.files;
    picker.value = '';
    if (!file) return;
    if (file.size > start.maxUpload) {
      toast(t('uploads.tooLarge', { size: bytes(file.size), limit: bytes(start.maxUpload) }));
      return;
    }
    track.setAttribute('aria-label', t('uploads.uploadOf', { name: file.name }));
    track.hidden = false;
    progress(0);
    attempt(async () => {
      const saved = await send(r, file, progress);
      if (isForBrowser(saved)) loadModule('poster').then((m) => m.sendPoster(saved, file), () => {});
      return saved;
    }, t('replace.replaced'));
  };

  const earlier = (v) => {
    const restore = h('button', { type: 'button' }, t('trash.restore'));
    restore.onclick = () => attempt(async () => {
      const answer = await api('POST', `${at}/${v.id}/restore`, undefined, { etag: r.etag });
      return answer.data;
    }, t('versions.restored'));
    return h('li.item.plain', {},
      h('div.what', {},
        h('span.name', {}, tn('versions.before', { when: when(v.at) })),
        h('div.meta', {},
          h('span', {}, bytes(v.size)),
          v.by && h('span', {}, t('common.by', { name: deviceName(v.by) })))),
      h('div.acts', {}, restore));
  };

  add(d.body,
    h('p.soft', {}, t('replace.hint')),
    h('p.soft', {}, start.trashDays ? t('replace.kept', { n: start.trashDays }) : t('replace.gone')),
    h('div.row', {}, choose, picker),
    track,
    list.data.length > 0 && [h('h3', {}, t('replace.earlier')), h('ul.list', {}, list.data.map(earlier))]);
  return null;
}
