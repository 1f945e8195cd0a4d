// The control of when something ends. There is one wherever the app asks for it: sharing, upload requests, keys and
// invitations. It uses nothing of view. The modules with such a field import expiryField, and forms.js makes it.
import { h, localDateTime, t } from './dom.js';

const hours = { hour: 1, day: 24, week: 24 * 7, month: 24 * 30, year: 24 * 365 };
const labels = {
  never: t('share.never'),
  hour: t('share.hour'),
  day: t('share.day'),
  week: t('share.week'),
  month: t('share.month'),
  year: t('share.year'),
  other: t('share.pick'),
};

// endOf is the time so long from now.
export const endOf = (span) => new Date(Date.now() + hours[span] * 36e5).toISOString();

// expiryField is a field for forms whose value is a time, or null for never. A required one begins with a week.
// mostDays leaves out longer times.
export const expiryField = (more) => ({ name: 'expiresAt', label: t('share.expires'), make, ...more });

function make(c, value) {
  const { required, mostDays = Infinity } = c.f;
  const fits = (span) => span === 'never' ? !required : !(hours[span] > mostDays * 24);
  const options = Object.keys(labels).filter(fits).map((span) => h('option', { value: span }, labels[span]));
  const select = h('select', { id: c.id, name: c.f.name }, options);
  const error = c.id + '-error';
  const time = h('input', { type: 'datetime-local', 'aria-label': t('share.expiresAt'), 'aria-describedby': error });
  const show = () => { time.hidden = select.value !== 'other'; };
  select.addEventListener('change', show);

  c.el = h('div.expiry', {}, select, time);
  c.get = () => {
    if (select.value === 'other') return time.value ? new Date(time.value).toISOString() : null;
    return select.value === 'never' ? null : endOf(select.value);
  };
  c.set = (v) => {
    select.value = v ? 'other' : required ? 'week' : 'never';
    time.value = v ? localDateTime(v) : '';
    show();
  };
  c.flaw = () => select.value === 'other' && !time.value ? t('forms.required') : '';
  c.set(value);
  // What is wrong is said of the part that is filled in.
  Object.defineProperty(c, 'input', { get: () => time.hidden ? select : time });
  return c;
}
