// Creates and lists a note, uploads a file and gets an error, with the client that orval
// generates from the document. Its addresses begin with the path.
import { createNote, listNotes, readNote, uploadFiles } from "./orval/kist.js";
import { check, env } from "./check.js";

const plain = globalThis.fetch;
globalThis.fetch = (to, init) => plain(new URL(String(to), env("KIST_URL")), init);
const options = { headers: { "x-api-key": env("KIST_KEY") } };

const made = await createNote({ content: "text", tags: ["a"] }, options);
if (made.status !== 201) throw new Error(made.data.error);
const note = made.data.data;
check("note", note.content === "text" && note.expiresAt === null && note.tags[0] === "a");

const list = await listNotes({ limit: 10, tag: ["a"] }, options);
if (list.status !== 200) throw new Error(list.data.error);
check("list", list.data.data.some((n) => n.id === note.id));

const uploaded = await uploadFiles({ file: [new File(["content"], "a.txt")] }, options);
if (uploaded.status !== 201) throw new Error(uploaded.data.error);
const file = "files" in uploaded.data ? uploaded.data.files[0] : uploaded.data;
check("file", file?.originalName === "a.txt" && file.size === 7);

const missing = await readNote("none", options);
check("error", missing.status === 404 && missing.data.code === "not_found");
