// Creates and lists a note, uploads a file and gets an error, with the client that
// @hey-api/openapi-ts generates from the document.
import { client } from "./hey-api/client.gen.js";
import { createNote, listNotes, readNote, uploadFiles } from "./hey-api/sdk.gen.js";
import { check, env } from "./check.js";

client.setConfig({ baseUrl: env("KIST_URL"), auth: (scheme) => (scheme.name === "x-api-key" ? env("KIST_KEY") : undefined) });

const made = await createNote({ body: { content: "text", tags: ["a"] }, throwOnError: true });
const note = made.data.data;
check("note", note.content === "text" && note.expiresAt === null && note.tags[0] === "a");

const list = await listNotes({ query: { limit: 10, tag: ["a"] }, throwOnError: true });
check("list", list.data.data.some((n) => n.id === note.id));

const uploaded = await uploadFiles({ body: { file: [new File(["content"], "a.txt")] }, throwOnError: true });
const file = "files" in uploaded.data ? uploaded.data.files[0] : uploaded.data;
check("file", file?.originalName === "a.txt" && Number(file.size) === 7);

const missing = await readNote({ path: { id: "none" } });
check("error", missing.error?.code === "not_found" && missing.error.requestId.length > 0);
