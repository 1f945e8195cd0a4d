// The settings of the server: sections of fields, each of which is saved when it is changed. The message about that
// takes it back. It owns the forms and what the server has of them, and uses nothing of view. admin.js shows them.
import { bytes, h, t, toast } from './dom.js';
import { Form, openForm } from './forms.js';
import { api, setTrashed, start } from './session.js';

const isElsewhere = (provider) => ['turnstile', 'hcaptcha'].includes(provider);
const check = (name, label, hint) => ({ name, label, hint, type: 'check', role: 'switch' });

// sections are the fields of each, by its title.
function sections() {
  const elsewhere = { captchaProvider: isElsewhere };
  return {
    [t('settings.limits')]: [
      {
        name: 'defaultQuotaBytes', label: t('settings.defaultQuota'), type: 'size', placeholder: t('common.noLimit'),
        hint: t('settings.defaultQuotaHint'),
      },
      { name: 'maxUploadBytes', label: t('common.largestFile'), type: 'size', placeholder: bytes(start.maxUpload) },
      {
        name: 'trashDays', label: t('settings.trashDays'), type: 'number', min: 0, max: 3650, required: true,
        hint: t('settings.trashHint'),
      },
    ],
    [t('settings.privacy')]: [
      check('stripMetadata', t('settings.stripMetadata'), t('settings.stripMetadataHint')),
      check('listPeople', t('settings.listPeople'), t('settings.listPeopleHint')),
      check('linkChecks', t('settings.checkPages'), t('settings.checkPagesHint')),
    ],
    [t('settings.security')]: [
      check('allowsKeys', t('settings.allowKeys'), t('settings.allowKeysHint')),
      {
        name: 'securityContact', label: t('settings.securityContact'), plain: true,
        placeholder: 'mailto:security@example.org', hint: t('settings.securityHint'),
      },
    ],
    [t('settings.captcha')]: [
      {
        name: 'captchaProvider', label: t('settings.provider'), type: 'choice', none: t('settings.serverDefault'),
        choices: {
          pow: t('settings.pow'),
          turnstile: 'Cloudflare Turnstile',
          hcaptcha: 'hCaptcha',
          none: t('settings.noCaptcha'),
        },
      },
      {
        name: 'captchaSiteKey', label: t('settings.siteKey'), plain: true, onlyFor: elsewhere,
        hint: t('settings.bothKeys'),
      },
      {
        name: 'captchaSecret', label: t('settings.secret'), type: 'password', onlyFor: elsewhere,
        autocomplete: 'new-password',
      },
      {
        name: 'captchaVerifyUrl', label: t('settings.verifyURL'), type: 'url', onlyFor: elsewhere,
        placeholder: t('settings.providersOwn'),
      },
    ],
  };
}

// A form asks for what the API turns off, and shows no secret.
const valuesOf = (s) => ({ ...s, allowsKeys: !s.apiTokensDisabled, captchaSecret: '' });
const bodyOf = ({ allowsKeys, ...now }) => allowsKeys === undefined ? now : { ...now, apiTokensDisabled: !allowsKeys };

const only = (values, names) => Object.fromEntries(names.map((name) => [name, values[name]]));

// lacksKeys reports whether a captcha elsewhere does not have its keys yet. The server takes them together.
const lacksKeys = (now, saved) => isElsewhere(now.captchaProvider) &&
  !(now.captchaSiteKey && (now.captchaSecret || saved.hasCaptchaSecret));

// agrees asks before the trash is turned off, which empties it, or is kept for fewer days, and resolves to whether the
// user wants that.
const agrees = (days, n) => new Promise((resolve) => {
  const title = days ? t('settings.trashLessTitle', { n: days }) : t('settings.trashOffTitle');
  const text = days ? t('settings.trashLessText') : t('settings.trashOffText', { n });
  const asks = { title, text, button: t(days ? 'settings.trashLess' : 'settings.trashOff') };
  openForm({ ...asks, danger: true, run: async () => {}, onclose: (reason) => resolve(reason === 'done') });
});

function saidOf({ allowsKeys }) {
  if (allowsKeys === undefined) return t('common.saved');
  return t(allowsKeys ? 'settings.keysOnNow' : 'settings.keysOffNow');
}

// settingsOf are the sections. s are the settings as the server has them.
export function settingsOf(s) {
  let saved = s, last = Promise.resolve(); // what the server has, and the changes on their way, one after another

  function section([title, fields]) {
    const form = new Form(fields, valuesOf(saved));
    let shown = form.values; // of what the server has; sizes are rounded

    function show(names) {
      form.set(only(valuesOf(saved), names));
      form.showRelevant();
      if (saved.hasCaptchaSecret) form.control('captchaSecret')?.el.setAttribute('placeholder', t('common.unchanged'));
      shown = { ...shown, ...only(form.values, names) };
    }
    async function write(body, names) {
      saved = (await api('PATCH', 'admin/settings', body)).data;
      start.trashDays = saved.trashDays;
      show(names);
    }

    async function save() {
      const values = form.values, names = Object.keys(values).filter((name) => values[name] !== shown[name]);
      if (!names.length || lacksKeys(values, saved) || !form.check(false)) return;
      form.showProblem(null);
      const now = only(values, names), before = bodyOf(only(valuesOf(saved), names));
      try {
        const shortens = now.trashDays < saved.trashDays; // false without a number
        const { trashed } = shortens ? (await api('GET', 'admin/stats')).data : {};
        if (trashed && !await agrees(now.trashDays, trashed)) return show(names);
        const isLost = trashed || now.captchaSecret && saved.hasCaptchaSecret;
        await write(bodyOf(now), names);
        if (now.trashDays === 0) setTrashed(0);
        toast(saidOf(now), isLost ? {} : { action: t('common.undo'), run: () => undo(before, names) });
      } catch (problem) {
        // What was typed stays. A switch shows what holds.
        show(names.filter((name) => fields.some((f) => f.name === name && f.type === 'check')));
        form.showProblem(problem, false);
      }
    }
    async function undo(before, names) {
      try {
        await write(before, names);
      } catch (problem) { form.showProblem(problem, false); }
    }

    show([]);
    const node = h('form', { novalidate: true, 'aria-label': title }, h('h3', {}, title), form.node);
    node.onsubmit = (e) => e.preventDefault();
    node.onchange = () => { last = last.then(save); };
    return node;
  }

  return h('div.card.sectioned', {}, Object.entries(sections()).map(section));
}
