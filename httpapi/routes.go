package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kist/embed"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
)

// table lists every operation of the server.
func (s *Server) table() []route {
	rows := []route{
		{
			method: "GET", path: "/healthz", id: "health", tag: "server", summary: "Says whether the server is alive.",
			access: anyone, reply: reply{200, "Alive.", textOf("ok\n")}, atContentOrigin: true, serve: healthy,
		},
		{
			method: "GET", path: "/readyz", id: "ready", tag: "server", summary: "Says whether the server can store what it is sent, and is not being stopped.",
			access: anyone, reply: reply{200, "Ready.", textOf("ok\n")}, fails: []int{503}, serve: s.ready,
		},
		{
			method: "GET", path: "/metrics", id: "readMetrics", tag: "server", summary: "Figures in the text format of Prometheus; 404 unless they are turned on.",
			access: watches, reply: reply{200, "The figures.", textOf("kist_users 3\n")}, fails: []int{404}, serve: s.metrics,
		},
		{
			method: "GET", path: "/healthz/{token}", id: "probe", tag: "server", summary: "Tells kist doctor what reaches the server of a request.",
			access: anyone, reply: reply{200, "What the server sees.", jsonOf(object{"type": "object"}, object{"client": "192.0.2.1"})}, fails: []int{404}, atContentOrigin: true, serve: s.probed,
		},
		{
			method: "POST", path: "/healthz/{token}", id: "probeBody", tag: "server", summary: "Tells kist doctor that a body would reach the server; it is not read.",
			access: anyone, reply: reply{200, "What the server sees.", jsonOf(object{"type": "object"}, object{"client": "192.0.2.1"})}, fails: []int{404}, serve: s.probed,
		},
		{
			method: "GET", path: apiPath + "openapi", id: "readSchema", tag: "server", summary: "The schema of this API.",
			access: anyone, args: []param{ifNoneMatch}, reply: reply{200, "The OpenAPI document.", named("Document", jsonOf(object{"type": "object", "additionalProperties": true}, object{"openapi": "3.0.3"}))}, fails: []int{304}, serve: s.readSchema,
		},
		{
			method: "GET", path: apiPath + "reference", id: "readReference", tag: "server", summary: "An interactive view of the schema.",
			access: anyone, reply: reply{200, "The page.", pageOf()}, serve: readReference,
		},
		{
			method: "GET", path: "/static/{name}", id: "readAsset", tag: "server", summary: "A style sheet, script or picture of the pages.",
			access: anyone, args: []param{ifNoneMatch}, reply: reply{200, "The file.", bytesOf()}, fails: []int{304, 404}, serve: readAsset,
		},
		{
			method: "GET", path: "/extension.zip", id: "readExtension", tag: "server", summary: "The browser extension for Chromium and Firefox, ready to load.",
			access: anyone, args: []param{ifNoneMatch}, reply: reply{200, "The archive.", &content{media: "application/zip", schema: object{"type": "string", "format": "binary"}, example: "…"}},
			fails: []int{304}, serve: s.readExtension,
		},
		{
			method: "GET", path: "/claim/{token}", id: "readClaim", tag: "server", summary: "The page that makes the first administrator.",
			access: anyone, reply: reply{200, "The form.", pageOf()}, fails: []int{404}, serve: claimPage,
		},
		{
			method: "POST", path: "/claim/{token}", id: "claim", tag: "server", summary: "Makes the first administrator and an API key; works once.",
			access: anyone, body: formBody, reply: reply{201, "The page with the key.", pageOf()},
			fails: []int{400, 404, 409, 413, 415, 422, 503}, serve: claimed,
		},

		{
			method: "GET", path: "/x/{slug}", id: "readRaw", tag: "public",
			summary: "The bytes of a shared file, or the text of a shared note or snippet; an extension after the slug is ignored.",
			access:  visitors, args: slices.Concat(sharePassword, conditional), reply: reply{200, "The content.", bytesOf()},
			fails: []int{206, 302, 304, 401, 404, 410, 412, 416, 429, 503}, atContentOrigin: true, slugs: true, serve: raw,
		},
		{
			method: "GET", path: "/s/{slug}", id: "followLink", tag: "public", summary: "Redirects a short link and counts the click.",
			access: visitors, args: sharePassword, reply: reply{302, "On to the target, in Location.", nil},
			fails: []int{200, 401, 404, 410, 429, 503}, slugs: true, serve: follow,
		},

		{
			method: "GET", path: apiPath + "files", id: "listFiles", tag: "files", summary: "Lists files.",
			access: reads, args: listParams(record.Files), reply: reply{200, "A page of files.", pageOfRecords(record.Files)}, serve: listRecords(record.Files),
		},
		{
			method: "GET", path: apiPath + "upload", id: "listUploads", tag: "files", summary: "Lists files, as /files does.",
			access: reads, args: listParams(record.Files), reply: reply{200, "A page of files.", pageOfRecords(record.Files)}, serve: listRecords(record.Files),
		},
		{
			method: "POST", path: apiPath + "upload", id: "uploadFiles", tag: "files", summary: "Uploads one or more files.",
			access: uploads, args: []param{idempotent},
			body: multipartOf(), reply: reply{201, "The record of the file; of several, a list in files.", uploaded()},
			fails: []int{409}, plain: bareAddress, serve: upload,
		},
		{
			method: "GET", path: apiPath + "files/{slug}", id: "readFile", tag: "files", summary: "Reads the record of a file, by slug or id.",
			access: reads, reply: reply{200, "The record.", dataOf("File")}, fails: []int{404}, serve: readRecord(record.Files, "slug"),
		},
		{
			method: "PATCH", path: apiPath + "files/{slug}", id: "editFile", tag: "files", summary: "Changes the record of a file.",
			access: writes, body: bodyOf("FileEdit"), reply: reply{200, "The record.", dataOf("File")},
			fails: []int{404, 409}, serve: patchRecord(record.Files, "slug"),
		},
		{
			method: "DELETE", path: apiPath + "files/{slug}", id: "removeFile", tag: "files", summary: "Deletes a file.",
			access: writes, reply: done, fails: []int{404}, serve: removeRecord(record.Files, "slug"),
		},

		{
			method: "GET", path: apiPath + "folders", id: "listFolders", tag: "folders", summary: "Lists folders.",
			access: reads, args: pageParams(shortSorts), reply: reply{200, "A page of folders.", listOf("Folder")}, serve: listFolders,
		},
		{
			method: "POST", path: apiPath + "folders", id: "createFolder", tag: "folders", summary: "Makes a folder.",
			access: writes, body: bodyOf("FolderCreate"), reply: reply{201, "The folder.", dataOf("Folder")}, fails: []int{409}, serve: createFolder,
		},
		{
			method: "PATCH", path: apiPath + "folders/{id}", id: "editFolder", tag: "folders", summary: "Changes a folder.",
			access: writes, body: bodyOf("FolderEdit"), reply: reply{200, "The folder.", dataOf("Folder")}, fails: []int{404, 409}, serve: patchFolder,
		},
		{
			method: "DELETE", path: apiPath + "folders/{id}", id: "removeFolder", tag: "folders", summary: "Deletes a folder; its files stay.",
			access: writes, reply: done, fails: []int{404}, serve: removeFolder,
		},

		{
			method: "GET", path: apiPath + "me", id: "readMe", tag: "account", summary: "Reads the caller's account, with usage and quota.",
			access: reads, reply: reply{200, "The account.", dataOf("User")}, serve: readMe,
		},
		{
			method: "PATCH", path: apiPath + "me", id: "editMe", tag: "account", summary: "Changes the caller's name or password.",
			access: writes, body: bodyOf("MeEdit"), reply: reply{200, "The account.", dataOf("User")}, fails: []int{409, 429}, serve: patchMe,
		},
		{
			method: "GET", path: apiPath + "keys", id: "listKeys", tag: "account", summary: "Lists the caller's API keys.",
			access: ownAccount, args: pageParams(shortSorts), reply: reply{200, "A page of keys.", listOf("Key")}, serve: listKeys,
		},
		{
			method: "POST", path: apiPath + "keys", id: "createKey", tag: "account", summary: "Makes an API key; the secret is shown this once.",
			access: ownAccount, body: bodyOf("KeyCreate"), reply: reply{201, "The key and its secret.", envelope("Key", "key", object{"type": "string"}, "kist_…")}, serve: createKey,
		},
		{
			method: "PATCH", path: apiPath + "keys/{id}", id: "editKey", tag: "account", summary: "Renames an API key, or turns it off or on.",
			access: ownAccount, body: bodyOf("KeyEdit"), reply: reply{200, "The key.", dataOf("Key")}, fails: []int{404}, serve: patchKey,
		},
		{
			method: "DELETE", path: apiPath + "keys/{id}", id: "removeKey", tag: "account", summary: "Revokes an API key.",
			access: ownAccount, reply: done, fails: []int{404}, serve: removeKey,
		},

		{
			method: "GET", path: apiPath + "admin/users", id: "listUsers", tag: "admin", summary: "Lists accounts.",
			access: manages, args: pageParams(shortSorts), reply: reply{200, "A page of accounts.", listOf("User")}, serve: listUsers,
		},
		{
			method: "POST", path: apiPath + "admin/users", id: "createUser", tag: "admin", summary: "Makes an account.",
			access: manages, body: bodyOf("UserCreate"), reply: reply{201, "The account.", dataOf("User")}, fails: []int{409}, serve: createUser,
		},
		{
			method: "GET", path: apiPath + "admin/users/{id}", id: "readUser", tag: "admin", summary: "Reads an account.",
			access: manages, reply: reply{200, "The account.", dataOf("User")}, fails: []int{404}, serve: readUser,
		},
		{
			method: "PATCH", path: apiPath + "admin/users/{id}", id: "editUser", tag: "admin", summary: "Changes an account.",
			access: manages, body: bodyOf("UserEdit"), reply: reply{200, "The account.", dataOf("User")}, fails: []int{404, 409}, serve: patchUser,
		},
		{
			method: "DELETE", path: apiPath + "admin/users/{id}", id: "removeUser", tag: "admin", summary: "Deletes an account and everything of it.",
			access: manages, reply: done, fails: []int{404, 409}, serve: removeUser,
		},
		{
			method: "GET", path: apiPath + "admin/settings", id: "readSettings", tag: "admin", summary: "Reads the settings of the instance.",
			access: manages, reply: reply{200, "The settings.", dataOf("Settings")}, serve: readSettings,
		},
		{
			method: "PATCH", path: apiPath + "admin/settings", id: "editSettings", tag: "admin", summary: "Changes the settings of the instance.",
			access: manages, body: bodyOf("SettingsEdit"), reply: reply{200, "The settings.", dataOf("Settings")}, serve: patchSettings,
		},
		{
			method: "GET", path: apiPath + "admin/stats", id: "readStats", tag: "admin", summary: "Counts what the instance keeps.",
			access: manages, reply: reply{200, "The figures.", dataOf("Stats")}, serve: readStats,
		},
		{
			method: "GET", path: apiPath + "admin/health", id: "readHealth", tag: "admin", summary: "Says what is known to be wrong with the data of the instance.",
			access: manages, reply: reply{200, "What is known.", dataOf("Health")}, serve: readHealth,
		},
	}
	rows = append(rows, route{
		method: "GET", path: apiPath + "search", id: "search", tag: "search", summary: "Looks for records of every kind, the best first and of equals the newest.",
		access: reads, args: searchParams(), reply: reply{200, "A page of results. incomplete says that the index is being made and not all could be read.", resultsOf()}, serve: searchAll,
	})
	rows = append(rows, sessionRoutes()...)
	rows = append(rows, viewRoutes()...)
	rows = append(rows, route{
		method: "GET", path: "/{slug}", id: "viewAnything", tag: "public", summary: "Whatever the slug is: the page of an item, the target of a short link, or an upload link.",
		access: visitors, args: sharePassword, reply: reply{200, "The page.", pageOf()}, fails: []int{302, 303, 401, 404, 410, 429, 503}, slugs: true, serve: anything,
	})
	rows = append(rows, webhookRoutes()...)
	rows = append(rows, requestRoutes()...)
	rows = append(rows, intakeRoutes()...)
	rows = append(rows, captchaRoutes()...)
	for _, r := range slices.Concat(tusRoutes(), sentRoutes()) {
		r.tus = true
		rows = append(rows, r)
	}
	rows = append(rows, transferRoutes()...)
	rows = append(rows, setupRoutes()...)
	rows = append(rows, deletionRoutes()...)
	rows = append(rows, remoteRoutes()...)
	rows = append(rows, helpRoutes()...)
	for _, k := range record.Kinds[1:] {
		rows = append(rows, recordRoutes(k)...)
	}
	rows = append(rows, s.appRoutes()...)
	// One store of tags, under the names that clients know it by.
	for _, at := range []string{"tags", "bookmark-tags", "note-tags", "snippet-tags", "recipe-tags", "shortlink-tags"} {
		rows = append(rows, tagRoutes(at)...)
	}
	for i := range rows {
		if r := &rows[i]; r.repeatable() {
			r.args = append(slices.Clone(r.args), idempotent)
			r.serve = s.idempotent(r.serve)
		}
	}
	return rows
}

// recordRoutes are the operations that all kinds but files have.
func recordRoutes(k *record.Kind) []route {
	name, at := title(k.Name), apiPath+k.Path
	return []route{
		{
			method: "GET", path: at, id: "list" + name + "s", tag: k.Path, summary: "Lists the caller's " + k.Name + "s.",
			access: reads, args: listParams(k), reply: reply{200, "A page of them.", pageOfRecords(k)}, serve: listRecords(k),
		},
		{
			method: "POST", path: at, id: "create" + name, tag: k.Path, summary: "Makes a " + k.Name + ".",
			access: writes, body: bodyOf(name + "Create"), reply: reply{201, "The record and its address.", createdOf(k)},
			fails: []int{409}, plain: bareAddress, serve: createRecord(k),
		},
		{
			method: "GET", path: at + "/{id}", id: "read" + name, tag: k.Path, summary: "Reads a " + k.Name + ", by id or slug.",
			access: reads, reply: reply{200, "The record.", dataOf(name)}, fails: []int{404}, serve: readRecord(k, "id"),
		},
		{
			method: "PATCH", path: at + "/{id}", id: "edit" + name, tag: k.Path, summary: "Changes a " + k.Name + ".",
			access: writes, body: bodyOf(name + "Edit"), reply: reply{200, "The record.", dataOf(name)}, fails: []int{404, 409}, serve: patchRecord(k, "id"),
		},
		{
			method: "DELETE", path: at + "/{id}", id: "remove" + name, tag: k.Path, summary: "Deletes a " + k.Name + ".",
			access: writes, reply: done, fails: []int{404}, serve: removeRecord(k, "id"),
		},
		{
			method: "POST", path: at + "/p/{slug}", id: "readShared" + name, tag: "public", summary: name + "s that are shared, for visitors: reads one.",
			access: visitors, args: sharePassword, body: maybe(bodyOf("Password")), reply: reply{200, "The record.", dataOf("Shared" + name)},
			fails: []int{401, 404, 410, 429, 503}, slugs: true, serve: readPublic(k),
		},
	}
}

func tagRoutes(at string) []route {
	name := ""
	for part := range strings.SplitSeq(strings.TrimSuffix(at, "s"), "-") {
		name += title(part)
	}
	path := apiPath + at
	return []route{
		{
			method: "GET", path: path, id: "list" + name + "s", tag: "tags", summary: "Lists the caller's tags.",
			access: reads, reply: reply{200, "All tags.", arrayOf("Tag")}, serve: listTags,
		},
		{
			method: "POST", path: path, id: "create" + name, tag: "tags", summary: "Makes a tag.",
			access: writes, body: bodyOf("TagCreate"), reply: reply{201, "The tag.", dataOf("Tag")}, fails: []int{409}, serve: createTag,
		},
		{
			method: "PATCH", path: path + "/{id}", id: "edit" + name, tag: "tags", summary: "Renames or recolours a tag.",
			access: writes, body: bodyOf("TagEdit"), reply: reply{200, "The tag.", dataOf("Tag")}, fails: []int{404, 409}, serve: patchTag,
		},
		{
			method: "DELETE", path: path + "/{id}", id: "remove" + name, tag: "tags", summary: "Deletes a tag; what had it stays.",
			access: writes, reply: done, fails: []int{404}, serve: removeTag,
		},
		{
			method: "POST", path: path + "/{id}/merge", id: "merge" + name, tag: "tags", summary: "Puts another tag in the place of this one.",
			access: writes, body: bodyOf("TagMerge"), reply: reply{200, "The other tag.", dataOf("Tag")}, fails: []int{404}, serve: mergeTag,
		},
	}
}

func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

var sharePassword = []param{{"header", "x-share-password", "Password of the item, if it has one.", object{"type": "string", "maxLength": field.MaxSecret}, "open sesame"}, proofArg}

var ifNoneMatch = param{"header", "If-None-Match", "Entity tags that the client has; 304 if one is the content's.", object{"type": "string"}, `"9f86d081884c7d65"`}

// conditional are what an answer with bytes heeds of RFC 9110, sections 13 and
// 14.
var conditional = []param{
	{"header", "Range", "The bytes to answer, one range or several; more than 16 are answered with all.", object{"type": "string"}, "bytes=0-1023"},
	{"header", "If-Range", "Entity tag for which the ranges hold; all bytes are answered if the content has another.", object{"type": "string"}, `"9f86d081884c7d65"`},
	{"header", "If-Match", "Entity tags of which the content must have one; 412 otherwise.", object{"type": "string"}, `"9f86d081884c7d65"`},
	ifNoneMatch,
	{"header", "If-Modified-Since", "Of no effect, for content has no date; If-None-Match has.", object{"type": "string"}, "Thu, 01 Jan 2026 00:00:00 GMT"},
}

// pageParams are the parameters of every list.
func pageParams(sorts []kv.Sort) []param {
	return []param{
		{"query", "limit", "Records of a page, which ends sooner at 4 MiB: go on with nextCursor.", object{"type": "integer", "minimum": 1, "maximum": maxPage, "default": defaultPage}, 50},
		{"query", "offset", "Records to pass over; not together with cursor.", object{"type": "integer", "minimum": 0, "maximum": maxOffset}, 0},
		{"query", "cursor", "nextCursor of the page before.", object{"type": "string"}, "AQ"},
		{"query", "sort", "The order; newest if absent.", enumOf(field.Words(sorts), false), "newest"},
	}
}

// listParams are the parameters of a list of the kind.
func listParams(k *record.Kind) []param {
	text := object{"type": "string"}
	flag := object{"type": "boolean"}
	all := append(pageParams(kv.Sorts(k)),
		param{"query", "q", "Text to look for.", text, "beach"},
		param{"query", "tag", "Name of a tag; repeat it to ask for several at once.", object{"type": "array", "items": text}, []string{"travel"}},
		param{"query", "tags", "Names of tags, separated by commas; all must match.", text, "travel,2024"},
		param{"query", "favorite", "Favourites only, or all others.", flag, true},
		param{"query", "public", "Public ones only, or all others.", flag, true},
		param{"query", "brief", "Cuts contents, ingredients and instructions to 300 characters.", flag, false},
	)
	if k == record.Files {
		all = append(all,
			param{"query", "folder", "Id or name of a folder, or unfiled.", text, "Holidays"},
			param{"query", "type", "Kind of file.", ref("FileType"), "image"})
	}
	if k == record.Bookmarks {
		all = append(all,
			param{"query", "url", "Bookmarks of the page that this address leads to, as far as addresses tell: a fragment, parameters that only track and a slash at the end do not count.", object{"type": "string", "format": "uri"}, "https://go.dev/"},
			param{"query", "unreachable", "Bookmarks whose page cannot be reached, or all others.", flag, true})
	}
	return all
}

// anything answers at the root with whatever the slug is.
func anything(c *request) error {
	r, owned, err := c.find(c.arg("slug"), record.Kinds)
	if missing(err) {
		if q, err := c.openRequest(c.arg("slug")); err == nil {
			return c.redirect("/up/" + url.PathEscape(q.Slug))
		}
	}
	err = c.unlock(r, owned, err)
	if r != nil && r.Kind == record.Links {
		return c.follow(r, owned, err)
	}
	return c.view(r, owned, err)
}

func readReference(c *request) error { return c.respondPage(http.StatusOK, embed.ReferencePage{}) }

// readAsset answers with a file of the pages. Its name changes with its
// content, so that it may be kept for good.
func readAsset(c *request) error {
	a, ok := embed.Static(c.arg("name"))
	if !ok {
		return record.NotFound("file")
	}
	h := c.w.Header()
	h.Set("Content-Type", a.Type)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body, tag := a.Bytes, a.ETag
	if a.GzipETag != "" && takesGzip(c.r) {
		h.Set("Content-Encoding", "gzip")
		body, tag = a.Gzip, a.GzipETag
	}
	return c.unlessUnchanged(tag, body)
}

// readExtension answers with the browser extension. Its address stays when it
// changes, so that it is asked for again each time, at the cost of its tag.
func (s *Server) readExtension(c *request) error {
	archive, err := s.extension()
	if err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/zip")
	h.Set("Content-Disposition", `attachment; filename="kist-extension.zip"`)
	h.Set("Cache-Control", "public, no-cache")
	return c.unlessUnchanged(archive.ETag, func() []byte { return archive.Bytes })
}

// unlessUnchanged answers with the body, or with 304 if the client has what
// the entity tag is of.
func (c *request) unlessUnchanged(tag string, body func() []byte) error {
	h := c.w.Header()
	h.Set("Etag", tag)
	if unchanged(c.r, tag) {
		h.Del("Content-Type")
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	content := body()
	h.Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = c.w.Write(content) // the client may be gone
	return nil
}
