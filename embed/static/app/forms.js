// Forms and dialogs: the controls of fields, forms in pages and in dialogs, and the problems that they show. It owns
// the open dialogs and gives the focus back when one closes. It uses nothing of view. Every module that asks the user
// for something calls openForm, openDialog or settingsForm.
import { addActions, all, button, bytes, find, grow, h, icon, iconButton, newID, problemText, t } from './dom.js';
import { api, copyLink, folders, loadModule, showProblem, tagColor, tagOptions } from './session.js';

export { copyText } from './dom.js';

// ---- Fields ----

// taken are the fields whose values must differ from those of other things, by the code of the error.
const taken = { slug_taken: 'slug', tag_taken: 'name', folder_taken: 'name', username_taken: 'username' };

// A field has a name, a label and a type. The types are text (several lines), choice, check, checks, tags, folder,
// number, size (bytes), password, url, color and own (a file); the default is one line of text. The control of a field
// with make is what that returns for its name and id. inside is a button that stands in a field of one line. onlyFor
// has the fields that it depends on, and a function that says for which of their values it is shown.

// parseBytes reads a size such as "10 GB". It returns null for an empty text and NaN for a text that is not a size.
function parseBytes(text) {
  if (!text.trim()) return null;
  const m = /^\s*([\d.,]+)\s*([kmgtp]?)(i?)b?(?:ytes?)?\s*$/i.exec(text);
  if (!m) return NaN;
  const unit = (m[3] ? 1024 : 1000) ** ' kmgtp'.indexOf(m[2].toLowerCase() || ' ');
  return Math.round(Number(m[1].replace(',', '.')) * unit);
}

// elementOf makes the element of a field, with the attributes that all have.
function elementOf(f, id, common) {
  switch (f.type) {
    case 'text': {
      const classes = [f.mono && 'mono', f.tall && 'tall'].filter(Boolean).join(' ');
      const area = h('textarea', {
        ...common, rows: f.tall ? 8 : 2, spellcheck: f.mono ? 'false' : null, class: classes || null,
      });
      area.addEventListener('input', () => grow(area));
      return area;
    }
    case 'choice': {
      const choices = Object.entries(f.choices).map(([v, text]) => h('option', { value: v }, text));
      return h('select', common, f.required ? null : h('option', { value: '' }, f.none ?? '—'), choices);
    }
    case 'check':
      return h('input', { ...common, type: 'checkbox', role: f.role });
    case 'checks': {
      const boxes = Object.entries(f.choices).map(([v, text]) =>
        h('label.check', {}, h('input', { type: 'checkbox', value: v, name: f.name }), h('span', {}, text)));
      return h('div.checks', { id, role: 'group', 'aria-label': f.label }, boxes);
    }
    default:
      return h('input', {
        ...common,
        type: inputTypes[f.type] ?? 'text',
        min: f.min,
        max: f.max,
        placeholder: f.placeholder,
        list: suggestionsOf(f) ? id + '-list' : null,
        inputmode: f.type === 'url' ? 'url' : null,
        spellcheck: f.type && f.type !== 'text' ? 'false' : null,
        autocapitalize: f.type === 'url' || f.plain ? 'none' : null,
      });
  }
}

const inputTypes = { number: 'number', password: 'password', color: 'color', url: 'url' };

// suggestionsOf are the values that a field of one line suggests, if it does.
const suggestionsOf = (f) => f.type === 'folder' ? folders.map((x) => x.name) : f.list;

// control makes the control of a field: its node, and functions that read and set its value.
function control(f, value) {
  const id = newID();
  const c = { f, id };
  if (f.make) return wrap(f.make(c, value));
  if (f.type === 'tags') return tagControl(c, value);

  const el = elementOf(f, id, {
    id, name: f.name, autocomplete: f.autocomplete ?? 'off', 'aria-required': f.required ? 'true' : null,
    readonly: f.readonly,
  });
  c.el = c.input = el;
  if (f.type === 'text' && f.maxLength > longestPlain && !f.mono) {
    const lines = new Map();
    c.extra = preview(el, f.label, f.foreign ? null : lines);
    c.waits = () => [...lines.keys()].filter((line) => el.value.includes(line)).length;
    c.peek = () => [...lines].reverse().reduce((text, l) => text.replace(partOf(text, l), ''), el.value);
  }
  const suggested = suggestionsOf(f);
  if (suggested) c.extra = h('datalist', { id: id + '-list' }, suggested.map((v) => h('option', { value: v })));

  c.get = () => {
    switch (f.type) {
      case 'check': return el.checked;
      case 'checks': return all('input:checked', el).map((x) => x.value);
      case 'number': return el.value === '' ? null : Number(el.value);
      case 'choice': return el.value || null;
      case 'size': return parseBytes(el.value);
      default: return el.value;
    }
  };
  c.set = (v) => {
    if (f.type === 'check') el.checked = !!v;
    else if (f.type === 'checks') for (const x of all('input', el)) x.checked = (v ?? []).includes(x.value);
    else if (f.type === 'size') el.value = v ? bytes(v) : '';
    else if (f.type !== 'choice' || !f.required || v) el.value = v ?? '';
  };
  c.set(value);
  return wrap(c);
}

// Longer texts than this are Markdown.
const longestPlain = 10_000;

// partOf is what to take out of a text, so that nothing is left of a line that addLine has put there.
const partOf = (text, [line, whole]) =>
  text.endsWith(whole) ? whole : text.includes(line + '\n') ? line + '\n' : line;

// addLine puts a line at the cursor of a text area that stands for a file until it is uploaded. lines are all of these,
// each with what was put around it.
function addLine(area, lines, { name }) {
  const { value, selectionEnd: at } = area, words = name.replace(/[\[\]\\\n]/g, ' ');
  let line = '';
  for (let n = 1; !line || value.includes(line) || lines.has(line); n++) {
    line = `![${t('forms.uploading', { name: n > 1 ? `${words} (${n})` : words })}]()`;
  }
  const whole = (value[at - 1] ?? '\n') === '\n' ? line : '\n' + line;
  lines.set(line, value[at] === '\n' ? whole : whole + '\n');
  area.setRangeText(lines.get(line), at, at, 'end');
  return line;
}

const noteInput = (area) => area.dispatchEvent(new Event('input', { bubbles: true }));

// replaceLine puts a text in the place of a line of addLine, wherever it is now; '' takes the line out.
export function replaceLine(area, lines, line, text) {
  while (area.value.includes(line)) {
    const part = text ? line : partOf(area.value, [line, lines.get(line)]), at = area.value.indexOf(part);
    area.setRangeText(text, at, at + part.length, 'preserve');
  }
  noteInput(area);
}

// preview lets the user switch between a text area and its text as pages show it. Into a text of one's own, which has
// lines for files, pictures can be put.
function preview(area, label, lines) {
  const shown = h('div.prose.rendered', {
    hidden: true, 'aria-label': t('forms.previewOf', { label }), role: 'region', tabindex: '0',
  });
  const write = h('button.quiet', { type: 'button', 'aria-pressed': 'true' }, t('forms.write'));
  const read = h('button.quiet', { type: 'button', 'aria-pressed': 'false' }, t('forms.preview'));
  const show = (reading) => {
    area.hidden = reading;
    shown.hidden = !reading;
    write.setAttribute('aria-pressed', String(!reading));
    read.setAttribute('aria-pressed', String(reading));
  };
  write.onclick = () => {
    show(false);
    area.focus();
  };
  read.onclick = async () => {
    try {
      const { html } = (await api('POST', 'markdown', { text: area.value })).data;
      shown.replaceChildren(...new DOMParser().parseFromString(html, 'text/html').body.childNodes);
      show(true);
    } catch (e) { showProblem(e); }
  };
  const file = h('input', { type: 'file', multiple: true, accept: 'image/*,video/*,audio/*', hidden: true });
  const add = h('button.quiet', { type: 'button' }, icon('plus'), t('forms.picture'));
  const insert = (files) => {
    const added = files.map((one) => [addLine(area, lines, one), one]);
    noteInput(area);
    loadModule('pictures').then((m) => m.insertFiles(area, lines, added), (e) => {
      for (const [line] of added) {
        replaceLine(area, lines, line, '');
        lines.delete(line);
      }
      showProblem(e);
    });
  };
  add.onclick = () => file.click();
  file.onchange = () => {
    insert([...file.files]);
    file.value = '';
    area.focus();
  };
  const take = (e) => {
    const from = e.clipboardData ?? e.dataTransfer, files = [...(from?.files ?? [])];
    if (!files.length || from.types.includes('text/plain')) return; // a table comes as text and as a picture
    e.preventDefault();
    insert(files);
  };
  if (lines) for (const event of ['paste', 'drop']) area.addEventListener(event, take);
  return [h('div.tabs', { role: 'group', 'aria-label': label }, write, read, lines && add, lines && file), shown];
}

// wrap puts the label, the hint and the place for an error around a control.
function wrap(c) {
  const { f, id } = c;
  const error = h('p.error', { id: id + '-error', hidden: true });
  const hint = f.hint && h('p.hint', { id: id + '-hint' }, f.hint);
  c.input.setAttribute('aria-describedby', [f.hint && id + '-hint', id + '-error'].filter(Boolean).join(' '));
  c.showError = (text) => {
    error.hidden = !text;
    error.textContent = text ? `${f.label.split(',')[0]} ${text}.` : '';
    c.input[text ? 'setAttribute' : 'removeAttribute']('aria-invalid', 'true');
  };
  c.el.addEventListener('input', () => c.showError(''));
  c.node = f.type === 'check'
    ? h('div.field', {}, h('label.check', { for: id }, c.el, h('span', {}, f.label)), hint, error)
    : h(f.half ? 'div.field.half' : 'div.field', {},
      ['checks', 'own'].includes(f.type) ? h('span.label', {}, f.label) : h('label', { for: id }, f.label),
      f.inside ? h('span.inside', {}, c.el, f.inside) : c.el, c.extra, hint, error);
  return c;
}

// tagControl is a field for tags: a chip for each, and an input that suggests the known tags.
function tagControl(c, value) {
  let names = [];
  const input = h('input', {
    id: c.id, type: 'text', list: 'tag-names', placeholder: t('forms.addTag'), autocomplete: 'off',
    enterkeyhint: 'enter',
  });
  const el = h('div.tags', {}, input);
  if (!find('#tag-names')) document.body.append(h('datalist', { id: 'tag-names' }, tagOptions()));

  const changed = () => el.dispatchEvent(new Event('input', { bubbles: true }));
  const chipOf = (name) => {
    const remove = h('button', { type: 'button', 'aria-label': t('forms.removeTag', { name }) }, icon('close'));
    remove.onclick = () => {
      names = names.filter((n) => n !== name);
      draw();
      input.focus();
      changed();
    };
    const chip = h('span.chip', {}, h('i'), name, remove);
    const color = tagColor(name);
    if (color) chip.style.setProperty('--tag', color);
    return chip;
  };
  const draw = () => {
    for (const old of all('.chip', el)) old.remove();
    for (const name of names) input.before(chipOf(name));
  };
  const commit = () => {
    for (const part of input.value.split(',')) {
      const name = part.trim().replace(/\s+/g, ' ');
      if (name && !names.some((n) => n.toLowerCase() === name.toLowerCase())) names.push(name);
    }
    input.value = '';
    draw();
  };

  input.addEventListener('keydown', (e) => {
    const ends = e.key === 'Enter' || e.key === ',';
    if (ends && input.value.trim() && !e.ctrlKey && !e.metaKey) {
      e.preventDefault();
      commit();
      changed();
    }
    if (e.key === 'Backspace' && !input.value && names.length) {
      names.pop();
      draw();
      changed();
    }
  });
  input.addEventListener('change', commit);
  el.addEventListener('click', (e) => { if (e.target === el) input.focus(); });

  const get = () => {
    commit();
    return [...names];
  };
  const set = (v) => {
    names = [...(v ?? [])];
    draw();
  };
  Object.assign(c, { el, input, get, set });

  // peek reads the value without completing the tag that the user is typing.
  c.peek = () => [...names, ...(input.value.trim() ? [input.value.trim()] : [])];
  c.set(value);
  return wrap(c);
}

// A Form is a set of fields with a place for problems above them.
export class Form {
  constructor(fields, values) {
    this.controls = fields.map((f) => control(f, values[f.name]));
    this.alert = h('p.alert', { role: 'alert', hidden: true });
    this.node = h('div.fields', {}, this.alert, this.controls.map((c) => c.node));
    this.node.addEventListener('change', () => this.showRelevant());
    this.showRelevant();
  }

  control(name) { return this.controls.find((c) => c.f.name === name); }

  // showRelevant hides fields that do not apply, depending on the values of other fields.
  showRelevant() {
    for (const c of this.controls) {
      for (const [name, fits] of Object.entries(c.f.onlyFor ?? {})) c.node.hidden = !fits(this.control(name).get());
    }
  }

  get values() { return Object.fromEntries(this.controls.map((c) => [c.f.name, c.get()])); }

  // waits is how many files the texts wait for.
  get waits() { return this.controls.reduce((n, c) => n + (c.waits?.() ?? 0), 0); }

  // draft has all values except passwords, which are never stored, and lines that stand for files.
  get draft() {
    const kept = this.controls.filter((c) => c.f.type !== 'password');
    return Object.fromEntries(kept.map((c) => [c.f.name, (c.peek ?? c.get)()]));
  }

  set(values) {
    for (const c of this.controls) {
      if (!(c.f.name in values)) continue;
      c.set(values[c.f.name]);
      if (c.f.type === 'text') grow(c.el);
    }
  }

  // showProblem shows a field's problem next to the field and everything else above the form. null clears all problems.
  // It leads the user there unless leads is false.
  showProblem(problem, leads = true) {
    let first = null;
    const rest = [], named = taken[problem?.code];
    const isTaken = this.controls.some((c) => c.f.name === named);
    const fields = problem?.fields ?? (isTaken ? { [named]: t('forms.taken') } : null);
    for (const c of this.controls) c.showError('');

    for (const [name, text] of Object.entries(fields ?? {})) {
      const c = this.controls.find((x) => x.f.name === name || x.f.alias === name);
      if (!c) {
        rest.push(`${name} ${problemText(text)}.`);
        continue;
      }
      c.showError(problemText(text));
      c.node.closest('details')?.setAttribute('open', '');
      first ??= c;
    }

    const text = !problem ? '' : fields ? rest.join(' ') : problem.message;
    this.alert.hidden = !text;
    this.alert.textContent = text;
    if (!leads) return;
    if (first) first.input.focus();
    else if (text) this.alert.scrollIntoView({ block: 'nearest' });
  }

  // flawOf says what the browser cannot read in a field, such as half of a date, or what is missing in it. The value of
  // the field is empty then.
  flawOf(c) {
    if (c.node.hidden) return '';
    return c.input.validity?.badInput ? t('forms.unclear') : c.flaw?.() ?? '';
  }

  // isUnclear is true if a field has a flaw.
  get isUnclear() { return this.controls.some((c) => this.flawOf(c)); }

  // check reports whether the form can be sent. If not, it shows what is wrong as showProblem does.
  check(leads = true) {
    const fields = {};
    for (const c of this.controls) {
      const v = c.get();
      const flaw = this.flawOf(c);
      if (flaw) fields[c.f.name] = flaw;
      if (!flaw && c.f.required && (v === '' || v === null)) fields[c.f.name] = t('forms.required');
      if (c.f.type === 'size' && Number.isNaN(v)) fields[c.f.name] = t('forms.badSize');
      if (c.f.same && v !== this.control(c.f.same).get()) fields[c.f.name] = t('forms.differs');
    }
    if (!Object.keys(fields).length) return true;
    this.showProblem({ fields }, leads);
    return false;
  }
}

// settingsForm is a form within a page. run is called with its values; the form shows the problem that run throws.
export function settingsForm(title, fields, values, label, run) {
  const form = new Form(fields, values);
  const save = h('button', {}, label);
  const node = h('form.card', { novalidate: true, 'aria-label': title },
    h('h2', {}, title), form.node, h('div.row', {}, save));
  node.onsubmit = async (e) => {
    e.preventDefault();
    if (!form.check()) return;
    const pressed = document.activeElement === save;
    save.disabled = true;
    try {
      form.showProblem(null);
      await run(form.values, form);
    } catch (problem) {
      form.showProblem(problem);
    } finally {
      save.disabled = false;
      // A disabled button loses the focus.
      if (pressed && document.activeElement === document.body) save.focus({ preventScroll: true });
    }
  };
  return node;
}

// ---- Dialogs ----

// cancel closes a dialog as Escape does: a listener of the event may keep it open.
function cancel(dialog) {
  if (dialog.dispatchEvent(new Event('cancel', { cancelable: true }))) dialog.close();
}

// openDialog opens an empty dialog. onclose is called with the reason that was passed to el.close.
export function openDialog(title, { panel = false, onclose = null } = {}) {
  const id = newID();
  const opener = document.activeElement;
  // Without autofocus here, the close button would get the focus.
  const heading = h('h2', { id, tabindex: '-1', autofocus: true }, title);
  const tools = h('div.tools', {}, iconButton('dialog-close', 'close', t('common.close')));
  const body = h('div.body');
  const el = h(panel ? 'dialog.panel' : 'dialog', { 'aria-labelledby': id }, h('header', {}, heading, tools), body);
  el.addEventListener('close', () => {
    const messages = find('#toasts', el);
    if (messages) {
      document.body.append(messages);
      messages.showPopover?.();
    }
    el.remove();
    // What opened the dialog may be gone, or in a menu that has closed.
    for (const next of [opener, find('a.name', opener?.closest('.item') ?? el), find('#main')]) {
      if (document.activeElement === document.body && next?.isConnected) next.focus({ preventScroll: true });
    }
    onclose?.(el.returnValue);
  });
  let pressedOutside = false;
  el.addEventListener('pointerdown', (e) => { if (e.target === el) pressedOutside = true; });
  el.addEventListener('click', (e) => {
    if (e.target === el && pressedOutside) cancel(el);
    pressedOutside = false;
  });
  document.body.append(el);
  el.showModal();
  return { el, heading, tools, body };
}

// openForm opens a dialog with a form and calls run with its values. The form shows the problem that run throws.
export function openForm({
  title, text = '', fields = [], values = {}, button: label = t('common.save'), danger = false,
  run = null, before = null, after = null, onclose = null,
}) {
  const d = openDialog(title, { onclose });
  const form = new Form(fields, values);
  const save = label && h('button', { class: danger ? 'danger' : 'main' }, label);
  const node = h('form', { novalidate: true },
    text && h('p.soft', {}, text),
    before ?? '',
    form.node,
    after,
    h('div.row.foot', {}, save, button('dialog-close', label ? t('common.cancel') : t('common.close'))));

  node.addEventListener('submit', async (e) => {
    e.preventDefault();
    if (!form.check()) return;
    save.disabled = true;
    try {
      await run(form.values);
      d.el.close('done');
    } catch (problem) {
      form.showProblem(problem);
    } finally {
      save.disabled = false;
    }
  });

  d.body.append(node);
  (find('input:not([type=checkbox]), textarea, select', node) ?? find('button', node)).focus();
  for (const area of all('textarea', node)) grow(area);
  return { ...d, form };
}

addActions({
  'dialog-close': (el) => cancel(el.closest('dialog')),
  'copy-text': (el) => copyLink(el.dataset.text),
});
