// Creates, lists, reads, edits and removes one thing of every kind, by the types
// that openapi-typescript makes of the document. KIST_URL and KIST_KEY name the
// server and an API key.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { env: Record<string, string | undefined> };

type Schemas = components["schemas"];

const env = (name: string): string => {
  const value = process.env[name];
  if (value === undefined) throw new Error(name + " is not set");
  return value;
};

const api = createClient<paths>({ baseUrl: env("KIST_URL"), headers: { "x-api-key": env("KIST_KEY") } });

// must is the data of an answer that is no error.
async function must<T>(answer: Promise<{ data?: T; error?: Schemas["Error"]; response: Response }>): Promise<T> {
  const { data, error, response } = await answer;
  if (error !== undefined || data === undefined) throw new Error(`${response.url}: ${response.status} ${JSON.stringify(error)}`);
  return data;
}

function check(what: string, ok: boolean): void {
  if (!ok) throw new Error(what);
}

// made holds what every new record has: no null where there is none.
function made(r: { id: string; createdAt: string; expiresAt: string | null; url: string }): string {
  check("createdAt", new Date(r.createdAt).getTime() > 0 && r.createdAt.slice(-1) === "Z" && r.expiresAt === null);
  check("url", new URL(r.url).protocol.startsWith("http"));
  return r.id.slice();
}

const at = (id: string) => ({ params: { path: { id } } });

async function bookmark(): Promise<void> {
  const id = made((await must(api.POST("/api/v1/bookmarks", { body: { url: "https://go.dev/", title: "Go" } }))).data);
  const list = await must(api.GET("/api/v1/bookmarks", { params: { query: { limit: 10, sort: "updated" } } }));
  check("listed", list.data.some((r) => r.id === id) && list.nextCursor === null);
  const read = (await must(api.GET("/api/v1/bookmarks/{id}", at(id)))).data;
  check("an unset address is null", read.imageUrl === null && read.reachable === "unknown");
  const edited = (await must(api.PATCH("/api/v1/bookmarks/{id}", { ...at(id), body: { imageUrl: "https://go.dev/a.png" } }))).data;
  check("edited", edited.imageUrl === "https://go.dev/a.png");
  check("removed", (await must(api.DELETE("/api/v1/bookmarks/{id}", at(id)))).ok);
}

async function note(): Promise<void> {
  const id = made((await must(api.POST("/api/v1/notes", { body: { content: "text", tags: ["a"] } }))).data);
  check("listed", (await must(api.GET("/api/v1/notes", { params: { query: { tag: ["a"] } } }))).data.some((r) => r.id === id));
  check("read", (await must(api.GET("/api/v1/notes/{id}", at(id)))).data.content === "text");
  check("edited", (await must(api.PATCH("/api/v1/notes/{id}", { ...at(id), body: { title: "T", expiresAt: null } }))).data.title === "T");
  check("removed", (await must(api.DELETE("/api/v1/notes/{id}", at(id)))).ok);
}

async function snippet(): Promise<void> {
  const id = made((await must(api.POST("/api/v1/snippets", { body: { content: "x := 1", language: "go" } }))).data);
  check("listed", (await must(api.GET("/api/v1/snippets"))).data.some((r) => r.id === id));
  check("read", (await must(api.GET("/api/v1/snippets/{id}", at(id)))).data.language === "go");
  check("edited", (await must(api.PATCH("/api/v1/snippets/{id}", { ...at(id), body: { language: "" } }))).data.language === "");
  check("removed", (await must(api.DELETE("/api/v1/snippets/{id}", at(id)))).ok);
}

async function recipe(): Promise<void> {
  const id = made((await must(api.POST("/api/v1/recipes", { body: { title: "Pancakes" } }))).data);
  check("listed", (await must(api.GET("/api/v1/recipes"))).data.some((r) => r.id === id));
  check("read", (await must(api.GET("/api/v1/recipes/{id}", at(id)))).data.title === "Pancakes");
  check("edited", (await must(api.PATCH("/api/v1/recipes/{id}", { ...at(id), body: { ingredients: "2 eggs" } }))).data.ingredients === "2 eggs");
  check("removed", (await must(api.DELETE("/api/v1/recipes/{id}", at(id)))).ok);
}

async function game(): Promise<void> {
  const id = made((await must(api.POST("/api/v1/games", { body: { title: "Outer Wilds", status: "playing", maxViewsAction: "delete" } }))).data);
  check("listed", (await must(api.GET("/api/v1/games"))).data.some((r) => r.id === id));
  const read = (await must(api.GET("/api/v1/games/{id}", at(id)))).data;
  check("read", read.rating === null && read.coverUrl === null && read.status === "playing");
  check("edited", (await must(api.PATCH("/api/v1/games/{id}", { ...at(id), body: { rating: 10, status: null } }))).data.rating === 10);
  check("removed", (await must(api.DELETE("/api/v1/games/{id}", at(id)))).ok);
}

async function shortlink(): Promise<void> {
  const id = made((await must(api.POST("/api/v1/shorten", { body: { originalUrl: "https://go.dev/doc" } }))).data);
  check("listed", (await must(api.GET("/api/v1/shorten"))).data.some((r) => r.id === id));
  check("read", (await must(api.GET("/api/v1/shorten/{id}", at(id)))).data.clicks === 0);
  check("edited", (await must(api.PATCH("/api/v1/shorten/{id}", { ...at(id), body: { maxClicks: 3 } }))).data.maxClicks === 3);
  check("removed", (await must(api.DELETE("/api/v1/shorten/{id}", at(id)))).ok);
}

async function file(): Promise<void> {
  const answer = await must(api.POST("/api/v1/upload", {
    body: { file: [], name: "a.txt" },
    bodySerializer: (body) => {
      const form = new FormData();
      form.set("file", new Blob(["content"]), "b.txt");
      if (body.name) form.set("name", body.name);
      return form;
    },
  }));
  const one = "files" in answer ? answer.files[0] : answer;
  if (one === undefined) throw new Error("no file was made");
  made(one);
  const { id } = one;
  check("named", one.originalName === "a.txt" && one.size === 7 && one.folder === null);
  check("listed", (await must(api.GET("/api/v1/files", { params: { query: { type: "text", folder: "unfiled" } } }))).data.some((r) => r.id === id));
  check("read", (await must(api.GET("/api/v1/files/{slug}", { params: { path: { slug: id } } }))).data.sha256.length === 64);
  check("edited", (await must(api.PATCH("/api/v1/files/{slug}", { params: { path: { slug: id } }, body: { folderName: "F" } }))).data.folder?.name === "F");
  check("removed", (await must(api.DELETE("/api/v1/files/{slug}", { params: { path: { slug: id } } }))).ok);
}

async function tag(): Promise<void> {
  const id = (await must(api.POST("/api/v1/tags", { body: { name: "travel" } }))).data.id.slice();
  check("listed", (await must(api.GET("/api/v1/tags"))).some((t) => t.id === id));
  check("edited", (await must(api.PATCH("/api/v1/tags/{id}", { ...at(id), body: { color: "abc" } }))).data.color === "#AABBCC");
  check("removed", (await must(api.DELETE("/api/v1/tags/{id}", at(id)))).ok);
}

async function folder(): Promise<void> {
  const id = (await must(api.POST("/api/v1/folders", { body: { name: "Holidays" } }))).data.id.slice();
  check("listed", (await must(api.GET("/api/v1/folders", { params: { query: { sort: "title" } } }))).data.some((f) => f.id === id));
  check("edited", (await must(api.PATCH("/api/v1/folders/{id}", { ...at(id), body: { name: "Summer" } }))).data.name === "Summer");
  check("removed", (await must(api.DELETE("/api/v1/folders/{id}", at(id)))).ok);
}

async function uploadRequest(): Promise<void> {
  const id = (await must(api.POST("/api/v1/upload-requests", { body: { title: "Photos", allowedTypes: ["image/*"] } }))).data.id.slice();
  check("listed", (await must(api.GET("/api/v1/upload-requests"))).data.some((q) => q.id === id));
  check("read", (await must(api.GET("/api/v1/upload-requests/{id}", at(id)))).data.maxUploads === null);
  check("edited", (await must(api.PATCH("/api/v1/upload-requests/{id}", { ...at(id), body: { maxUploads: 5 } }))).data.maxUploads === 5);
  check("queue", (await must(api.GET("/api/v1/upload-requests/{id}/queue", { params: { path: { id }, query: { status: "pending" } } }))).items.length === 0);
  check("removed", (await must(api.DELETE("/api/v1/upload-requests/{id}", at(id)))).ok);
}

async function webhook(): Promise<void> {
  const events: Schemas["WebhookEvent"][] = ["note.created", "file.uploaded"];
  const id = (await must(api.POST("/api/v1/integrations/webhooks", { body: { url: "https://example.org/hook", events } }))).data.id.slice();
  check("listed", (await must(api.GET("/api/v1/integrations/webhooks"))).webhooks.some((h) => h.id === id));
  check("read", (await must(api.GET("/api/v1/integrations/webhooks/{id}", at(id)))).data.format === "json");
  check("edited", !(await must(api.PATCH("/api/v1/integrations/webhooks/{id}", { ...at(id), body: { enabled: false } }))).data.enabled);
  check("removed", (await must(api.DELETE("/api/v1/integrations/webhooks/{id}", at(id)))).ok);
}

async function key(): Promise<void> {
  const answer = await must(api.POST("/api/v1/keys", { body: { name: "laptop", scopes: ["read"] } }));
  const id = answer.data.id.slice();
  check("secret", answer.key.startsWith("kist_"));
  check("listed", (await must(api.GET("/api/v1/keys"))).data.some((k) => k.id === id));
  check("edited", (await must(api.PATCH("/api/v1/keys/{id}", { ...at(id), body: { disabled: true } }))).data.disabled);
  check("removed", (await must(api.DELETE("/api/v1/keys/{id}", at(id)))).ok);
}

for (const drive of [bookmark, note, snippet, recipe, game, shortlink, file, tag, folder, uploadRequest, webhook, key]) {
  await drive();
  console.log("ok", drive.name);
}
const missing = await api.GET("/api/v1/notes/{id}", at("01890a5d-ac96-774b-bcce-b302099a8057"));
check("an error is typed", missing.error?.code === "not_found" && missing.error.requestId.length > 0);
