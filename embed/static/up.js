// Sends files from the page of an upload link, one after another, and shows the progress. It sends large files in
// pieces. They continue after a pause or a lost connection, and when the user closes the page and chooses the same file
// again. Without this script, the form itself sends the files.
import { bytes as size, fill, known, seconds as time, t } from './text.js';

(() => {
  const form = document.getElementById("up");
  if (!form) return;
  const { api, slug, captcha, key, worker, brand, ink } = form.dataset;
  const max = Number(form.dataset.max);
  const $ = (id) => document.getElementById(id);
  const input = $("file"), list = $("list"), drop = $("drop"), send = $("send"), work = $("work"), said = $("said");
  const files = [];
  const large = 8 << 20; // larger files are sent in pieces
  let busy = false, sent = 0;

  if (brand) {
    document.body.style.setProperty("--brand", brand);
    document.body.style.setProperty("--brand-ink", ink);
  }
  $("hint").hidden = false;
  input.required = false;

  const make = (name, text, props) => Object.assign(document.createElement(name), { textContent: text ?? "" }, props);

  // ---- The list ----

  // rowFor makes the row of a file, with its buttons.
  function rowFor(file) {
    const f = { file, state: "waits", row: make("li"), note: make("small", size(file.size)) };
    f.bar = make("progress", "", { max: 1, value: 0, hidden: true });
    f.bar.setAttribute("aria-label", t("up.progressOf", { name: file.name }));
    f.again = make("button", "", { type: "button", className: "quiet" });
    f.again.onclick = () => {
      if (f.state === "sends") return halt(f);
      mark(f, "waits", size(file.size));
      run();
    };
    f.drop = make("button", "", { type: "button", className: "quiet", onclick: () => remove(f) });
    const tools = make("span");
    tools.append(f.again, f.drop);
    f.row.append(make("b", file.name), f.note, tools, f.bar);
    return f;
  }

  function add(all) {
    for (const file of all) {
      const f = rowFor(file);
      mark(f, "waits", size(file.size));
      files.push(f);
      list.append(f.row);
      if (file.size > max) mark(f, "refused", t("up.tooLarge", { size: size(file.size), limit: size(max) }));
    }
    form.classList.toggle("chosen", files.length > 0);
    if (files.length && captcha === "pow") pass().catch(() => {});
    if (captcha && captcha !== "pow") widget();
  }

  function remove(f) {
    f.state = "removed";
    f.timer = clearTimeout(f.timer);
    if (f.tus) f.tus.cancel(f, f.client);
    else f.xhr?.abort();
    f.leave?.();
    files.splice(files.indexOf(f), 1);
    form.classList.toggle("chosen", files.length > 0);
    f.row.remove();
    input.focus();
  }

  function mark(f, state, text) {
    f.state = state;
    f.note.textContent = text;
    f.note.className = state === "failed" || state === "refused" ? "bad" : "";
    f.bar.hidden = state !== "sends" && state !== "halts";
    const label = (b, text) => {
      b.hidden = !text;
      b.textContent = text;
      b.setAttribute("aria-label", `${text} ${f.file.name}`);
    };
    const pauses = f.file.size > large ? t("up.pause") : "";
    label(f.again, { failed: t("up.retry"), halts: t("up.resume"), sends: pauses }[state] ?? "");
    label(f.drop, { sends: t("up.cancel"), halts: t("up.cancel"), done: "" }[state] ?? t("up.remove"));
  }

  input.addEventListener("change", take);
  let depth = 0;
  const over = (by) => {
    depth = Math.max(0, depth + by);
    drop.classList.toggle("over", depth > 0);
  };
  const carries = (e) => [...(e.dataTransfer?.types ?? [])].includes("Files");
  addEventListener("dragenter", (e) => {
    if (!carries(e)) return;
    e.preventDefault();
    over(1);
  });
  addEventListener("dragleave", () => over(-1));
  addEventListener("dragover", (e) => { if (carries(e)) e.preventDefault(); });
  addEventListener("drop", (e) => {
    if (!carries(e)) return;
    e.preventDefault();
    depth = 0;
    over(0);
    add([...e.dataTransfer.files]);
  });
  addEventListener("beforeunload", (e) => { if (files.some((f) => f.state === "sends")) e.preventDefault(); });

  // ---- The captcha ----

  let held = null; // {pass, until}, or the promise of it

  // saidBy is what an answer says in the language of the page, if that has a text, or in English.
  const saidBy = (data) => {
    const text = data?.code ? known(`errors.${data.code}`, data.error) : data?.error;
    return text && fill(text, { when: t("up.later") });
  };

  async function json(path, body) {
    const headers = { "content-type": "application/json" };
    const answer = await fetch(api + path, body && { method: "POST", headers, body: JSON.stringify(body) });
    const data = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(saidBy(data) ?? t("up.unreachable"));
    return data;
  }

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
    mine.script = make("script", "", { src: form.dataset.script, onerror: broken });
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
    if (!captcha) return "";
    const now = await held;
    if (now && Date.now() < now.until) return now.pass;
    const next = captcha === "pow" ? prove() : ask();
    held = next;
    next.catch(() => { if (held === next) held = null; });
    return (await next).pass;
  }

  // ---- Sending ----

  // meter shows the progress of a file, its speed and the remaining time.
  function meter(f) {
    let since = performance.now(), before, rate = 0;
    return (gone, total) => {
      const now = performance.now();
      before ??= gone;
      f.bar.value = total ? gone / total : 0;
      if (now - since < 300) return;
      const speed = Math.max(0, gone - before) * 1000 / (now - since);
      rate = rate ? rate * 0.7 + speed * 0.3 : speed;
      since = now;
      before = gone;
      const left = rate && time((total - gone) / rate);
      const values = { sent: size(gone), all: size(total), rate: size(rate), time: left };
      f.note.textContent = t(rate ? "up.progressLeft" : "up.progress", values);
    };
  }

  function arrived(f, item) {
    sent++;
    const left = document.getElementById("left");
    if (left) {
      const n = Math.max(0, Number(left.dataset.n) - 1);
      left.dataset.n = n;
      left.textContent = n ? t("up.left", { n }) : t("up.noneLeft");
    }
    mark(f, "done", item?.status === "pending" ? t("up.waiting") : t("up.sent"));
  }

  // missed shows why a file was not received, and whether another try may help.
  function missed(f, status, text) {
    if (status === 401) return location.reload();
    const mayHelp = status === 0 || status >= 429 || status === 400;
    const why = text ?? (status ? t("up.status", { status: String(status) }) : t("up.unreachable"));
    mark(f, mayHelp ? "failed" : "refused", why);
  }

  // ---- In pieces ----

  const storage = {
    get(key) { try { return localStorage.getItem("kist." + key); } catch { return null; } },
    set(key, value) {
      try {
        if (value === null) localStorage.removeItem("kist." + key);
        else localStorage.setItem("kist." + key, value);
      } catch { /* full or forbidden: uploads then work but cannot be resumed later */ }
    },
  };

  function halt(f) {
    f.timer = clearTimeout(f.timer);
    f.tus?.pause(f);
    mark(f, "halts", t("up.paused", { sent: size(f.sent ?? 0), all: size(f.file.size) }));
    f.leave?.();
  }

  // passes reports whether a status is likely to be gone at the next try. An upload in pieces can begin again.
  function passes(status, inPieces) {
    if (status === 0 || status === 408 || status === 425) return true;
    return status >= 500 && status !== 507 || inPieces && [404, 409, 410].includes(status);
  }

  // pieces returns when the file was received, or when only the user can continue.
  async function pieces(f) {
    mark(f, "sends", t("up.sending"));
    let tus;
    try { tus = await import(form.dataset.tus); } catch { return missed(f, 0); }
    if (f.state !== "sends") return; // removed or paused
    f.tus = tus;
    f.tries = 0;
    await new Promise((done) => {
      f.leave = done;
      let why, fresh = false;
      const shows = meter(f);
      const go = () => {
        f.timer = 0;
        tus.resume(f, f.client);
      };
      const ask = async () => {
        why = undefined;
        try {
          const proof = await pass();
          const fields = { name: $("name").value, message: $("message").value };
          return { fields, headers: proof && { "x-captcha-pass": proof } };
        } catch (e) {
          why = e.message;
          throw e;
        }
      };
      f.client = {
        ...tus.ofSender(api, slug, ask),
        storage,
        done: (_, item) => {
          arrived(f, item);
          done();
        },
        progress: (_, gone) => {
          f.sent = gone;
          shows(gone, f.file.size);
        },
        retry(_, status, data) {
          if (status === 400 && data?.code === "captcha_required" && !fresh) {
            held = null;
            fresh = true;
            return go();
          }
          if (why || !passes(status, f.at) || f.tries >= 10) {
            missed(f, status, why ?? saidBy(data));
            return done();
          }
          const wait = Math.min(30000, 1000 * 3 ** f.tries);
          f.tries++;
          f.note.textContent = t("up.retrying", { time: time(wait / 1000) });
          f.timer = setTimeout(go, wait);
        },
      };
      f.go = go;
      go();
    });
    f.leave = null;
  }

  addEventListener("online", () => {
    for (const f of files.filter((one) => one.timer)) {
      clearTimeout(f.timer);
      f.go();
    }
  });

  // ---- In one piece ----

  function transfer(f, proof) {
    return new Promise((done) => {
      const x = new XMLHttpRequest();
      f.xhr = x;
      const body = new FormData();
      body.append("name", $("name").value);
      body.append("message", $("message").value);
      body.append("file", f.file);
      const shows = meter(f);
      x.upload.onprogress = (e) => shows(e.loaded, e.total);
      x.onload = () => {
        let data = {};
        try { data = JSON.parse(x.responseText); } catch { /* a proxy answered */ }
        done({ status: x.status, data });
      };
      x.onerror = () => done({ status: 0, data: {} });
      x.onabort = () => done(null);
      x.open("POST", `${api}upload-requests/p/${encodeURIComponent(slug)}/files`);
      if (proof) x.setRequestHeader("x-captcha-pass", proof);
      x.send(body);
    });
  }

  // attempt sends a file once, with a proof if the link asks for one. The answer is null if the file was removed.
  async function attempt(f) {
    try {
      return await transfer(f, await pass());
    } catch (e) { return { status: 0, data: { error: e.message } }; }
  }

  async function one(f) {
    if (f.file.size > large) return pieces(f);
    mark(f, "sends", t("up.sending"));
    let answer = await attempt(f);
    if (answer?.status === 400 && answer.data.code === "captcha_required") { // the proof was used or is too old
      held = null;
      answer = await attempt(f);
    }
    if (!answer) return; // removed
    if (answer.status === 201) return arrived(f, answer.data.items?.[0]);
    missed(f, answer.status, saidBy(answer.data));
  }

  // summary says how the sending ended.
  function summary() {
    const halts = files.filter((f) => f.state === "halts").length;
    const left = files.filter((f) => f.state !== "done").length - halts;
    if (left) return t("up.notSent", { left, n: files.length });
    if (halts) return t("up.pausedHelp", { n: halts });
    return sent ? t("up.thanks", { n: sent }) : "";
  }

  async function run() {
    if (busy) return;
    busy = true;
    send.disabled = true;
    said.textContent = "";
    const next = () => files.find((f) => f.state === "waits");
    for (let f = next(); f; f = next()) await one(f);
    busy = false;
    send.disabled = false;
    said.textContent = summary();
    said.scrollIntoView({ block: "nearest" });
  }

  // take adds the files in the field to the list. They may have been chosen before this script ran, or restored by the
  // browser.
  function take() {
    if (!input.files.length) return;
    add([...input.files]);
    input.value = "";
  }
  take();

  form.addEventListener("submit", (e) => {
    e.preventDefault();
    take();
    if (files.some((f) => f.state === "waits")) run();
    else {
      said.textContent = t("up.chooseFirst");
      input.focus();
    }
  });
})();
