// The own picture of a recipe or a game, in its form: it is chosen, sent and shown here. It uses nothing of view. The
// editor calls drawPicture.
import { add, find, h, shorten, t, toast } from './dom.js';
import { placeOf, thumbnailOf } from './kinds.js';
import { api, base, loadModule, showProblem } from './session.js';

// types are what every browser shows. A phone makes a JPEG of other pictures then.
const types = 'image/jpeg,image/png,image/gif,image/webp,image/avif';

// drawPicture shows the picture that the control c of the record r has now, or that of the address in the field url,
// and lets the user choose another one.
export async function drawPicture(c, r, url, choosing) {
  c.drawn ??= pictureParts(c, r, url);
  if (choosing) c.drawn.file.click();
  else await c.drawn.show();
}

// pictureParts adds what a control has beside its button.
function pictureParts(c, r, url) {
  const img = h('img', { alt: '', hidden: true }), unseen = h('small.soft', { hidden: true }, t('own.unseen'));
  const remove = h('button.quiet', { type: 'button', hidden: true }, t('uploads.remove'));
  const file = h('input', { type: 'file', accept: types, hidden: true });
  let address = r && !r[c.f.name] && r[url]; // as long as its picture can be shown
  let sending = null, sent = {}; // the file that is being sent, and what was chosen last: its id and where it is here
  const changed = () => c.el.dispatchEvent(new Event('input', { bubbles: true }));

  async function sourceOf(id) {
    if (sending || id && id === sent.id) return sent.src;
    if (id ? id === r?.[c.f.name] : address) return `${base}/t/${placeOf(r)}?size=picture&v=${id ?? ''}`;
    return id ? thumbnailOf((await api('GET', `files/${id}`)).data) : '';
  }
  async function show() {
    const id = c.get(), src = await sourceOf(id);
    if (id !== c.get()) return;
    unseen.hidden = true;
    img.hidden = !src;
    if (src) img.src = src;
    remove.hidden = !src;
  }
  img.onerror = () => {
    img.hidden = true;
    unseen.hidden = !c.get() && !sending; // one at an address may not be there yet
  };

  // choose sends a file, and shows it meanwhile.
  async function choose(one) {
    sending = one;
    sent = { src: URL.createObjectURL(one) };
    changed();
    await show();
    const end = (id) => {
      if (sending !== one) return;
      sending = null;
      sent.id = id;
      c.set(id ?? c.get());
      changed();
    };
    const failed = (why) => {
      if (why) toast(t('pictures.failed', { name: shorten(one.name), why }), { bad: true });
      end(null);
    };
    try {
      (await loadModule('uploads')).sendFiles([one], { attach: 'true' }, (record) => end(record.id), failed);
    } catch (e) {
      end(null);
      showProblem(e);
    }
  }
  file.onchange = () => {
    if (file.files[0]) choose(file.files[0]);
    file.value = '';
  };
  remove.onclick = () => {
    if (sending) { // what was there before stays
      sending = null;
      show().catch(showProblem);
      return changed();
    }
    if (!c.get()) {
      address = '';
      find(`[name=${url}]`, c.el.closest('form')).value = '';
    }
    c.set(null);
    c.input.focus();
    return changed();
  };
  c.waits = () => sending ? 1 : 0;
  c.el.prepend(img, unseen);
  add(c.el, remove, file);
  return { file, show };
}
