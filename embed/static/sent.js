// Shows a sender at an upload link what was sent from this device within the last hour, and takes it back. The page of
// the link loads it when the user asks.
import { bytes as size, t } from './text.js';

const atOnce = 100; // secrets in one request
const states = { pending: t("up.pending"), approved: t("up.approved"), rejected: t("up.rejected") };
const make = (name, text, props) => Object.assign(document.createElement(name), { textContent: text ?? "" }, props);

// rowOf is a sent file, with the button to take it back.
function rowOf(file, { api, saidBy, kept, store, leave }) {
  const row = make("li"), note = make("small", `${size(file.fileSize)} · ${states[file.status]}`);
  row.append(make("b", file.fileName), note);
  if (file.status === "rejected") return row;
  const tools = make("span"), b = make("button", t("up.takeBack"), { type: "button", className: "quiet" });
  b.setAttribute("aria-label", t("up.takeBackOf", { name: file.fileName }));
  b.onclick = async () => {
    b.disabled = true;
    try {
      const answer = await fetch(`${api}upload-requests/sent/${file.takeBack}`, { method: "DELETE" });
      const data = await answer.json().catch(() => ({}));
      if (!answer.ok && answer.status !== 404) throw new Error(saidBy(data) ?? t("up.unreachable"));
      store(kept().filter(([secret]) => secret !== file.takeBack));
      note.textContent = t("up.back");
      note.setAttribute("role", "status");
      if (answer.ok) leave(1);
      b.remove();
    } catch (e) {
      note.textContent = e instanceof TypeError ? t("up.unreachable") : e.message;
      note.className = "bad";
      b.disabled = false;
    }
  };
  tools.append(b);
  row.append(tools);
  return row;
}

// show lists the files whose secrets the page keeps, the newest first.
export async function show(page) {
  const secrets = page.kept(), rows = [];
  for (let i = 0; i < secrets.length; i += atOnce) {
    const some = secrets.slice(i, i + atOnce).map(([secret]) => secret);
    const { items } = await page.json("upload-requests/sent", { secrets: some });
    rows.push(...items.filter((file) => file.status !== "gone"));
  }
  const gone = new Set(secrets.map(([secret]) => secret));
  for (const file of rows) gone.delete(file.takeBack);
  page.store(page.kept().filter(([secret]) => !gone.has(secret))); // others came meanwhile
  const list = page.place.querySelector("ul");
  list.replaceChildren(...rows.reverse().map((file) => rowOf(file, page)));
  page.place.hidden = !rows.length;
  page.place.scrollIntoView({ block: "nearest" });
}
