// The form of a kind, as the server describes it.

/** h makes an element. */
export const h = (name, props, ...children) => {
  const el = Object.assign(document.createElement(name), props);
  el.append(...children);
  return el;
};

const control = (f, id) => {
  const common = { id, name: `own.${f.name}`, autocomplete: 'off' };
  switch (f.type) {
    case 'text': return h('textarea', { ...common, maxLength: f.maxLength });
    case 'choice': {
      const choices = Object.entries(f.choices).map(([value, text]) => h('option', { value }, text));
      return h('select', common, h('option', { value: '' }, '—'), ...choices);
    }
    case 'check': return h('input', { ...common, type: 'checkbox' });
    case 'number': return h('input', { ...common, type: 'number', min: f.min ?? '', max: f.max ?? '' });
    case 'time': return h('input', { ...common, type: 'datetime-local' });
  }
  return h('input', { ...common, type: 'text', inputMode: f.type === 'url' ? 'url' : '', maxLength: f.maxLength });
};

/**
 * draw makes the controls of fields. What the page has for the title, the address and the first longer text is filled
 * in.
 */
export function draw(fields, page) {
  const addresses = fields.filter((f) => f.type === 'url');
  // Of several addresses, which one is the page's is unknown.
  const address = addresses.find((f) => f.required) ?? (addresses.length === 1 ? addresses[0] : null);
  const longer = fields.find((f) => f.type === 'text');
  const filled = { [longer?.name]: page.text, [address?.name]: page.url, title: page.title };
  return fields.map((f) => {
    const id = `own-${f.name}`;
    const el = control(f, id), text = filled[f.name];
    if (text) el.value = f.maxLength ? [...text].slice(0, f.maxLength).join('') : text;
    if (f.type === 'check') return h('label', { className: 'check' }, el, f.label);
    const label = Object.assign(h('label', {}, f.label), { htmlFor: id });
    const hint = f.hint ? [h('p', { className: 'hint', textContent: f.hint })] : [];
    return h('div', { className: 'field' }, label, el, ...hint);
  });
}

/** valueOf is what a control holds. */
function valueOf(f, el) {
  if (f.type === 'check') return el.checked;
  if (f.type === 'time' && el.value) return new Date(el.value).toISOString();
  return f.keepSpaces ? el.value : el.value.trim();
}

/** valuesOf are what the controls of fields hold. Those that are empty are left out, unless the server needs them. */
export function valuesOf(fields, node) {
  const values = {};
  for (const f of fields) {
    const v = valueOf(f, node.querySelector(`#own-${f.name}`));
    if (v !== '' || f.keepSpaces) values[f.name] = v;
  }
  return values;
}
