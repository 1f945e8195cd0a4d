// Sends files from the page of an upload link, one after another, and shows the progress. It sends large files in
// pieces. They continue after a pause or a lost connection, and when the user closes the page and chooses the same file
// again. For an hour the device keeps the secrets of what was sent: the user sees what became of it, and can take it
// back. Without this script, the form itself sends the files.
import { bytes as size, fill, known, seconds as time, t } from './text.js';

(() => {
  const form = document.getElementById("up");
  if (!form) return;
  const { api, slug, captcha, brand, ink } = form.dataset;
  const max = Number(form.dataset.max);
  const $ = (id) => document.getElementById(id);
  const input = $("file"), list = $("list"), drop = $("drop"), send = $("send"), work = $("work"), said = $("said");
  const all = $("all"), bar = $("bar"), sum = $("sum"), more = $("more"), look = $("look");
  const files = [];
  const large = 8 << 20; // larger files are sent in pieces
  let busy = false, sent = 0;

  if (brand) {
    document.body.style.setProperty("--brand", brand);
    document.body.style.setProperty("--brand-ink", ink);
  }
  $("hint").hidden = false;
  $("choose").hidden = false;
  form.classList.add("live");
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
    f.pic = make("canvas", "", { width: edge, height: edge, hidden: true });
    f.row.append(f.pic, make("b", file.name), f.note, tools, f.bar);
    return f;
  }

  // ---- The pictures ----

  const edge = 96, mostPictures = 200;
  let drawn = Promise.resolve(), pictures = 0;

  // draw shows a small version of a picture. One at a time is in memory as a whole.
  function draw(f) {
    if (!f.file.type.startsWith("image/") || pictures >= mostPictures) return;
    pictures++;
    drawn = drawn.then(async () => {
      if (!f.row.isConnected) return;
      const address = URL.createObjectURL(f.file), img = new Image();
      try {
        img.src = address;
        await img.decode();
        const side = Math.min(img.naturalWidth, img.naturalHeight);
        const x = (img.naturalWidth - side) / 2, y = (img.naturalHeight - side) / 2;
        f.pic.getContext("2d").drawImage(img, x, y, side, side, 0, 0, edge, edge);
        f.pic.hidden = false;
      } catch { /* the browser cannot show it */ } finally { URL.revokeObjectURL(address); }
    });
  }

  function add(chosen) {
    again();
    for (const file of chosen) {
      const f = rowFor(file);
      mark(f, "waits", size(file.size));
      files.push(f);
      list.append(f.row);
      draw(f);
      if (file.size > max) mark(f, "refused", t("up.tooLarge", { size: size(file.size), limit: size(max) }));
    }
    form.classList.toggle("chosen", files.length > 0);
    if (files.length && captcha) proves().then((p) => p.begin()).catch(() => {});
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
    f.bar.hidden = f.file.size <= large || state !== "sends" && state !== "halts";
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

  // prover is the module that solves captchas, which only some links need.
  let prover = null;
  const proves = () => {
    prover ??= import(form.dataset.proof).then(
      (module) => module.prover({ form, json, work }),
      () => {
        prover = null;
        throw new Error(t("up.unreachable"));
      });
    return prover;
  };
  const pass = async () => captcha ? (await proves()).pass() : "";

  // ---- Sending ----

  // meter shows the progress of a file, its speed and the remaining time.
  function meter(f) {
    let since = performance.now(), before, rate = 0;
    return (gone, total) => {
      const now = performance.now();
      before ??= gone;
      f.bar.value = total ? gone / total : 0;
      f.gone = Math.min(gone, f.file.size);
      measure();
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

  // measure shows how much of all files was sent.
  let begun = null; // when and with how many bytes the sending began
  function measure() {
    const those = files.filter((f) => f.state !== "refused"), done = those.filter((f) => f.state === "done").length;
    const total = those.reduce((n, f) => n + f.file.size, 0);
    const gone = those.reduce((n, f) => n + (f.state === "done" ? f.file.size : f.gone ?? 0), 0);
    begun ??= { at: performance.now(), gone };
    const passed = (performance.now() - begun.at) / 1000, rate = passed > 1 && (gone - begun.gone) / passed;
    bar.value = total ? gone / total : 0;
    const values = { n: done, of: those.length, sent: size(gone), all: size(total) };
    const soon = rate > 0 ? ` · ${t("up.soon", { time: time((total - gone) / rate) })}` : "";
    sum.textContent = t("up.sum", values) + soon;
  }

  // leave changes how many files the link still takes.
  function leave(by) {
    const left = $("left");
    if (!left) return;
    const n = Math.max(0, Number(left.dataset.n) + by);
    left.dataset.n = n;
    left.textContent = n ? t("up.left", { n }) : t("up.noneLeft");
    if (form.hidden) more.hidden = !n;
  }

  function arrived(f, item) {
    sent++;
    leave(-1);
    if (item?.takeBack) keep(item.takeBack);
    mark(f, "done", item?.status === "pending" ? t("up.waiting") : t("up.sent"));
    measure();
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

  // ---- What was sent ----

  const hour = 36e5, mostKept = 500;
  const kept = () => {
    try {
      return JSON.parse(storage.get("sent." + slug) ?? "[]").filter(([, at]) => Date.now() - at < hour);
    } catch { return []; }
  };
  function store(secrets) {
    storage.set("sent." + slug, secrets.length ? JSON.stringify(secrets.slice(-mostKept)) : null);
    look.hidden = !secrets.length;
  }
  const keep = (secret) => store([...kept(), [secret, Date.now()]]);
  store(kept());

  look.onclick = async () => {
    look.disabled = true;
    try {
      const { show } = await import(form.dataset.sent);
      await show({ api, json, saidBy, kept, store, leave, place: $("sent") });
    } catch (e) {
      said.textContent = e instanceof TypeError ? t("up.unreachable") : e.message;
    }
    look.disabled = false;
  };

  // again goes on after everything was sent.
  function again() {
    if (!form.hidden) return;
    for (const f of files.splice(0)) f.row.remove();
    pictures = 0;
    form.classList.remove("chosen");
    form.hidden = false;
    more.hidden = true;
    said.textContent = "";
    document.body.classList.remove("thanks");
  }
  more.onclick = () => {
    again();
    input.focus();
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
            fresh = true;
            return proves().then((p) => p.again()).then(go, go);
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
      await proves().then((p) => p.again()).catch(() => {});
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
    begun = null;
    measure();
    all.hidden = false;
    const next = () => files.find((f) => f.state === "waits");
    for (let f = next(); f; f = next()) await one(f);
    busy = false;
    send.disabled = false;
    all.hidden = true;
    said.textContent = summary();
    if (files.length && files.every((f) => f.state === "done")) {
      form.hidden = true;
      more.hidden = $("left")?.dataset.n === "0";
      document.body.classList.add("thanks");
      (more.hidden ? look : more).focus();
    }
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
