// Solves the captcha of an upload link, once for many files. The page of the link loads it if the link asks for one.
import { t } from './text.js';

const make = (name, props) => Object.assign(document.createElement(name), props);

// prover solves the captcha that a form names. json sends a request to the API, and work is where the user reads what
// is going on. pass is what a request needs, again forgets it, and begin is called when files were chosen.
export function prover({ form, json, work }) {
  const { captcha, key, worker } = form.dataset;
  const $ = (id) => document.getElementById(id);
  let held = null; // {pass, until}, or the promise of it

  async function trade(token) {
    const { pass, expiresAt } = await json("captcha/verify", { token });
    return { pass, until: Date.parse(expiresAt) - 60000 };
  }

  // solve finds the number that a challenge asks for.
  const solve = (challenge) => new Promise((done, fail) => {
    const w = new Worker(worker);
    w.onmessage = (e) => {
      w.terminate();
      done(e.data);
    };
    w.onerror = () => {
      w.terminate();
      fail(new Error(t("up.captchaFailed")));
    };
    w.postMessage(challenge);
  });

  async function prove() {
    work.textContent = t("up.checking");
    try {
      const c = await json("captcha/challenge");
      const number = await solve(c);
      const { algorithm, challenge, salt, signature } = c;
      return await trade(btoa(JSON.stringify({ algorithm, challenge, number, salt, signature })));
    } finally {
      work.textContent = "";
    }
  }

  let shown = null; // the provider's widget, its token, and the functions that wait for the token

  function widget() {
    if (shown) return;
    const mine = {};
    shown = mine;
    const broken = () => { // this widget is lost: the next try makes a new one
      if (shown === mine) shown = null;
      mine.script.remove();
      work.textContent = t("up.captchaMissing");
      mine.fail?.(new Error(work.textContent));
    };
    const place = $("widget");
    place.hidden = false;
    place.replaceChildren();
    mine.script = make("script", { src: form.dataset.script, onerror: broken });
    mine.script.onload = () => {
      try {
        mine.id = window[captcha].render(place, {
          sitekey: key,
          size: place.clientWidth < 304 ? "compact" : "normal",
          theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light",
          callback: (token) => {
            mine.token = token;
            mine.wake?.();
          },
          "expired-callback": () => { mine.token = null; },
          "error-callback": () => { mine.token = null; },
        });
      } catch { broken(); }
    };
    document.head.append(mine.script);
  }

  async function ask() {
    widget();
    const mine = shown;
    if (!mine.token) {
      work.textContent = t("up.solve");
      await new Promise((done, fail) => {
        mine.wake = done;
        mine.fail = fail;
      });
      work.textContent = "";
    }
    const token = mine.token;
    mine.token = null;
    try { return await trade(token); } finally { window[captcha].reset(mine.id); }
  }

  async function pass() {
    const now = await held;
    if (now && Date.now() < now.until) return now.pass;
    const next = captcha === "pow" ? prove() : ask();
    held = next;
    next.catch(() => { if (held === next) held = null; });
    return (await next).pass;
  }

  return {
    pass,
    again: () => { held = null; },
    begin: () => captcha === "pow" ? pass() : widget(),
  };
}
