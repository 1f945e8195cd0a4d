package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"kist/embed"
	"kist/httpapi/api"
	"kist/httpapi/public"
	"kist/httpapi/session"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/record"
)

// table lists every operation of the server.
func (s *Server) table() []web.Route {
	rows := []web.Route{
		{
			Method: "GET", Path: "/healthz", Id: "health", Tag: "server", Summary: "Says whether the server is alive.",
			Access: web.Anyone, Reply: web.Reply{Status: 200, Doc: "Alive.", Body: web.TextOf("ok\n")}, AtContentOrigin: true, Serve: public.Healthy,
		},
		{
			Method: "GET", Path: "/readyz", Id: "ready", Tag: "server", Summary: "Says whether the server can store what it is sent, and is not being stopped.",
			Access: web.Anyone, Reply: web.Reply{Status: 200, Doc: "Ready.", Body: web.TextOf("ok\n")}, Fails: []int{503}, Serve: s.ready,
		},
		{
			Method: "GET", Path: "/metrics", Id: "readMetrics", Tag: "server", Summary: "Figures in the text format of Prometheus; 404 unless they are turned on.",
			Access: web.Watches, Reply: web.Reply{Status: 200, Doc: "The figures.", Body: web.TextOf("kist_users 3\n")}, Fails: []int{404}, Serve: s.readMetrics,
		},
		{
			Method: "GET", Path: "/healthz/{token}", Id: "probe", Tag: "server", Summary: "Tells kist doctor what reaches the server of a request.",
			Access: web.Anyone, Reply: web.Reply{Status: 200, Doc: "What the server sees.", Body: web.JSONOf(web.Object{"type": "object"}, web.Object{"client": "192.0.2.1"})}, Fails: []int{404}, AtContentOrigin: true, Serve: s.probed,
		},
		{
			Method: "POST", Path: "/healthz/{token}", Id: "probeBody", Tag: "server", Summary: "Tells kist doctor that a body would reach the server; it is not read.",
			Access: web.Anyone, Reply: web.Reply{Status: 200, Doc: "What the server sees.", Body: web.JSONOf(web.Object{"type": "object"}, web.Object{"client": "192.0.2.1"})}, Fails: []int{404}, Serve: s.probed,
		},
		{
			Method: "GET", Path: web.ApiPath + "openapi", Id: "readSchema", Tag: "server", Summary: "The schema of this API.",
			Access: web.Anyone, Args: []web.Param{web.IfNoneMatch}, Reply: web.Reply{Status: 200, Doc: "The OpenAPI document.", Body: web.Named("Document", web.JSONOf(web.Object{"type": "object", "additionalProperties": true}, web.Object{"openapi": "3.0.3"}))}, Fails: []int{304}, Serve: s.readSchema,
		},
		{
			Method: "GET", Path: web.ApiPath + "reference", Id: "readReference", Tag: "server", Summary: "An interactive view of the schema.",
			Access: web.Anyone, Reply: web.Reply{Status: 200, Doc: "The page.", Body: web.PageOf()}, Serve: readReference,
		},
		{
			Method: "GET", Path: "/static/{name}", Id: "readAsset", Tag: "server", Summary: "A style sheet, script or picture of the pages.",
			Access: web.Anyone, Args: []web.Param{web.IfNoneMatch}, Reply: web.Reply{Status: 200, Doc: "The file.", Body: web.BytesOf()}, Fails: []int{304, 404}, Serve: readAsset,
		},
		{
			Method: "GET", Path: "/extension.zip", Id: "readExtension", Tag: "server", Summary: "The browser extension for Chromium and Firefox, ready to load.",
			Access: web.Anyone, Args: []web.Param{web.IfNoneMatch}, Reply: web.Reply{Status: 200, Doc: "The archive.", Body: &web.Content{Media: "application/zip", Schema: web.Object{"type": "string", "format": "binary"}, Example: "…"}},
			Fails: []int{304}, Serve: s.readExtension,
		},
		{
			Method: "GET", Path: "/claim/{token}", Id: "readClaim", Tag: "server", Summary: "The page that makes the first administrator.",
			Access: web.Anyone, Reply: web.Reply{Status: 200, Doc: "The form.", Body: web.PageOf()}, Fails: []int{404}, Serve: api.ReadClaim,
		},
		{
			Method: "POST", Path: "/claim/{token}", Id: "claim", Tag: "server", Summary: "Makes the first administrator and an API key; works once.",
			Access: web.Anyone, Body: web.FormBody, Reply: web.Reply{Status: 201, Doc: "The page with the key.", Body: web.PageOf()},
			Fails: []int{400, 404, 409, 413, 415, 422, 503}, Serve: api.Claim,
		},

		{
			Method: "GET", Path: "/x/{slug}", Id: "readRaw", Tag: "public",
			Summary: "The bytes of a shared file, or the text of a shared note or snippet; an extension after the slug is ignored.",
			Access:  web.Visitors, Args: slices.Concat(web.SharePassword, web.Conditional), Reply: web.Reply{Status: 200, Doc: "The content.", Body: web.BytesOf()},
			Fails: []int{206, 302, 304, 401, 404, 410, 412, 416, 429, 503}, AtContentOrigin: true, Slugs: true, Serve: public.ReadRaw,
		},
		{
			Method: "GET", Path: "/s/{slug}", Id: "followLink", Tag: "public", Summary: "Redirects a short link and counts the click.",
			Access: web.Visitors, Args: web.SharePassword, Reply: web.Reply{Status: 302, Doc: "On to the target, in Location.", Body: nil},
			Fails: []int{200, 401, 404, 410, 429, 503}, Slugs: true, Serve: public.Follow,
		},

		{
			Method: "GET", Path: web.ApiPath + "files", Id: "listFiles", Tag: "files", Summary: "Lists files.",
			Access: web.Reads, Args: listParams(record.Files), Reply: web.Reply{Status: 200, Doc: "A page of files.", Body: web.PageOfRecords(record.Files)}, Serve: api.ListRecords(record.Files),
		},
		{
			Method: "GET", Path: web.ApiPath + "upload", Id: "listUploads", Tag: "files", Summary: "Lists files, as /files does.",
			Access: web.Reads, Args: listParams(record.Files), Reply: web.Reply{Status: 200, Doc: "A page of files.", Body: web.PageOfRecords(record.Files)}, Serve: api.ListRecords(record.Files),
		},
		{
			Method: "POST", Path: web.ApiPath + "upload", Id: "uploadFiles", Tag: "files", Summary: "Uploads one or more files.",
			Access: web.Uploads, Args: []web.Param{idempotent},
			Body: multipartOf(), Reply: web.Reply{Status: 201, Doc: "The record of the file; of several, a list in files.", Body: uploaded()},
			Fails: []int{409}, Plain: web.BareAddress, Serve: upload.UploadFiles,
		},
		{
			Method: "GET", Path: web.ApiPath + "files/{slug}", Id: "readFile", Tag: "files", Summary: "Reads the record of a file, by slug or id.",
			Access: web.Reads, Reply: web.Reply{Status: 200, Doc: "The record.", Body: web.DataOf("File")}, Fails: []int{404}, Serve: api.ReadRecord(record.Files, "slug"),
		},
		{
			Method: "PATCH", Path: web.ApiPath + "files/{slug}", Id: "editFile", Tag: "files", Summary: "Changes the record of a file.",
			Access: web.Writes, Body: web.BodyOf("FileEdit"), Reply: web.Reply{Status: 200, Doc: "The record.", Body: web.DataOf("File")},
			Fails: []int{404, 409}, Serve: api.EditRecord(record.Files, "slug"),
		},
		{
			Method: "DELETE", Path: web.ApiPath + "files/{slug}", Id: "removeFile", Tag: "files", Summary: "Deletes a file.",
			Access: web.Writes, Reply: web.DoneReply, Fails: []int{404}, Serve: api.RemoveRecord(record.Files, "slug"),
		},

		{
			Method: "GET", Path: web.ApiPath + "folders", Id: "listFolders", Tag: "folders", Summary: "Lists folders.",
			Access: web.Reads, Args: web.PageParams(web.ShortSorts), Reply: web.Reply{Status: 200, Doc: "A page of folders.", Body: web.ListOf("Folder")}, Serve: api.ListFolders,
		},
		{
			Method: "POST", Path: web.ApiPath + "folders", Id: "createFolder", Tag: "folders", Summary: "Makes a folder.",
			Access: web.Writes, Body: web.BodyOf("FolderCreate"), Reply: web.Reply{Status: 201, Doc: "The folder.", Body: web.DataOf("Folder")}, Fails: []int{409}, Serve: api.CreateFolder,
		},
		{
			Method: "PATCH", Path: web.ApiPath + "folders/{id}", Id: "editFolder", Tag: "folders", Summary: "Changes a folder.",
			Access: web.Writes, Body: web.BodyOf("FolderEdit"), Reply: web.Reply{Status: 200, Doc: "The folder.", Body: web.DataOf("Folder")}, Fails: []int{404, 409}, Serve: api.EditFolder,
		},
		{
			Method: "DELETE", Path: web.ApiPath + "folders/{id}", Id: "removeFolder", Tag: "folders", Summary: "Deletes a folder; its files stay.",
			Access: web.Writes, Reply: web.DoneReply, Fails: []int{404}, Serve: api.RemoveFolder,
		},

		{
			Method: "GET", Path: web.ApiPath + "me", Id: "readMe", Tag: "account", Summary: "Reads the caller's account, with usage and quota.",
			Access: web.Reads, Reply: web.Reply{Status: 200, Doc: "The account.", Body: web.DataOf("User")}, Serve: api.ReadMe,
		},
		{
			Method: "PATCH", Path: web.ApiPath + "me", Id: "editMe", Tag: "account", Summary: "Changes the caller's name or password.",
			Access: web.Writes, Body: web.BodyOf("MeEdit"), Reply: web.Reply{Status: 200, Doc: "The account.", Body: web.DataOf("User")}, Fails: []int{409, 429}, Serve: api.EditMe,
		},
		{
			Method: "GET", Path: web.ApiPath + "keys", Id: "listKeys", Tag: "account", Summary: "Lists the caller's API keys.",
			Access: web.OwnAccount, Args: web.PageParams(web.ShortSorts), Reply: web.Reply{Status: 200, Doc: "A page of keys.", Body: web.ListOf("Key")}, Serve: api.ListKeys,
		},
		{
			Method: "POST", Path: web.ApiPath + "keys", Id: "createKey", Tag: "account", Summary: "Makes an API key; the secret is shown this once.",
			Access: web.OwnAccount, Body: web.BodyOf("KeyCreate"), Reply: web.Reply{Status: 201, Doc: "The key and its secret.", Body: web.Envelope("Key", "key", web.Object{"type": "string"}, "kist_…")}, Serve: api.CreateKey,
		},
		{
			Method: "PATCH", Path: web.ApiPath + "keys/{id}", Id: "editKey", Tag: "account", Summary: "Renames an API key, or turns it off or on.",
			Access: web.OwnAccount, Body: web.BodyOf("KeyEdit"), Reply: web.Reply{Status: 200, Doc: "The key.", Body: web.DataOf("Key")}, Fails: []int{404}, Serve: api.EditKey,
		},
		{
			Method: "DELETE", Path: web.ApiPath + "keys/{id}", Id: "removeKey", Tag: "account", Summary: "Revokes an API key.",
			Access: web.OwnAccount, Reply: web.DoneReply, Fails: []int{404}, Serve: api.RemoveKey,
		},

		{
			Method: "GET", Path: web.ApiPath + "admin/users", Id: "listUsers", Tag: "admin", Summary: "Lists accounts.",
			Access: web.Manages, Args: web.PageParams(web.ShortSorts), Reply: web.Reply{Status: 200, Doc: "A page of accounts.", Body: web.ListOf("User")}, Serve: api.ListUsers,
		},
		{
			Method: "POST", Path: web.ApiPath + "admin/users", Id: "createUser", Tag: "admin", Summary: "Makes an account.",
			Access: web.Manages, Body: web.BodyOf("UserCreate"), Reply: web.Reply{Status: 201, Doc: "The account.", Body: web.DataOf("User")}, Fails: []int{409}, Serve: api.CreateUser,
		},
		{
			Method: "GET", Path: web.ApiPath + "admin/users/{id}", Id: "readUser", Tag: "admin", Summary: "Reads an account.",
			Access: web.Manages, Reply: web.Reply{Status: 200, Doc: "The account.", Body: web.DataOf("User")}, Fails: []int{404}, Serve: api.ReadUser,
		},
		{
			Method: "PATCH", Path: web.ApiPath + "admin/users/{id}", Id: "editUser", Tag: "admin", Summary: "Changes an account.",
			Access: web.Manages, Body: web.BodyOf("UserEdit"), Reply: web.Reply{Status: 200, Doc: "The account.", Body: web.DataOf("User")}, Fails: []int{404, 409}, Serve: api.EditUser,
		},
		{
			Method: "DELETE", Path: web.ApiPath + "admin/users/{id}", Id: "removeUser", Tag: "admin", Summary: "Deletes an account and everything of it.",
			Access: web.Manages, Reply: web.DoneReply, Fails: []int{404, 409}, Serve: api.RemoveUser,
		},
		{
			Method: "GET", Path: web.ApiPath + "admin/settings", Id: "readSettings", Tag: "admin", Summary: "Reads the settings of the instance.",
			Access: web.Manages, Reply: web.Reply{Status: 200, Doc: "The settings.", Body: web.DataOf("Settings")}, Serve: api.ReadSettings,
		},
		{
			Method: "PATCH", Path: web.ApiPath + "admin/settings", Id: "editSettings", Tag: "admin", Summary: "Changes the settings of the instance.",
			Access: web.Manages, Body: web.BodyOf("SettingsEdit"), Reply: web.Reply{Status: 200, Doc: "The settings.", Body: web.DataOf("Settings")}, Serve: api.EditSettings,
		},
		{
			Method: "GET", Path: web.ApiPath + "admin/stats", Id: "readStats", Tag: "admin", Summary: "Counts what the instance keeps.",
			Access: web.Manages, Reply: web.Reply{Status: 200, Doc: "The figures.", Body: web.DataOf("Stats")}, Serve: api.ReadStats,
		},
		{
			Method: "GET", Path: web.ApiPath + "admin/health", Id: "readHealth", Tag: "admin", Summary: "Says what is known to be wrong with the data of the instance.",
			Access: web.Manages, Reply: web.Reply{Status: 200, Doc: "What is known.", Body: web.DataOf("Health")}, Serve: readHealth,
		},
	}
	rows = append(rows, web.Route{
		Method: "GET", Path: web.ApiPath + "search", Id: "search", Tag: "search", Summary: "Looks for records of every kind, the best first and of equals the newest.",
		Access: web.Reads, Args: api.SearchParams(), Reply: web.Reply{Status: 200, Doc: "A page of results. incomplete says that the index is being made and not all could be read.", Body: api.ResultsOf()}, Serve: api.SearchAll,
	})
	rows = append(rows, session.SessionRoutes()...)
	rows = append(rows, public.ViewRoutes()...)
	rows = append(rows, web.Route{
		Method: "GET", Path: "/{slug}", Id: "viewAnything", Tag: "public", Summary: "Whatever the slug is: the page of an item, the target of a short link, or an upload link.",
		Access: web.Visitors, Args: web.SharePassword, Reply: web.Reply{Status: 200, Doc: "The page.", Body: web.PageOf()}, Fails: []int{302, 303, 401, 404, 410, 429, 503}, Slugs: true, Serve: viewAnything,
	})
	rows = append(rows, api.WebhookRoutes()...)
	rows = append(rows, upload.RequestRoutes()...)
	rows = append(rows, upload.IntakeRoutes()...)
	rows = append(rows, session.CaptchaRoutes()...)
	for _, r := range slices.Concat(upload.TusRoutes(), upload.SentRoutes()) {
		r.Tus = true
		rows = append(rows, r)
	}
	rows = append(rows, api.TransferRoutes()...)
	rows = append(rows, api.SetupRoutes()...)
	rows = append(rows, public.DeletionRoutes()...)
	rows = append(rows, upload.RemoteRoutes()...)
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
		if r := &rows[i]; r.Repeatable() {
			r.Args = append(slices.Clone(r.Args), idempotent)
			r.Serve = s.idempotent(r.Serve)
		}
	}
	return rows
}

// recordRoutes are the operations that all kinds but files have.
func recordRoutes(k *record.Kind) []web.Route {
	name, at := web.Title(k.Name), web.ApiPath+k.Path
	return []web.Route{
		{
			Method: "GET", Path: at, Id: "list" + name + "s", Tag: k.Path, Summary: "Lists the caller's " + k.Name + "s.",
			Access: web.Reads, Args: listParams(k), Reply: web.Reply{Status: 200, Doc: "A page of them.", Body: web.PageOfRecords(k)}, Serve: api.ListRecords(k),
		},
		{
			Method: "POST", Path: at, Id: "create" + name, Tag: k.Path, Summary: "Makes a " + k.Name + ".",
			Access: web.Writes, Body: web.BodyOf(name + "Create"), Reply: web.Reply{Status: 201, Doc: "The record and its address.", Body: createdOf(k)},
			Fails: []int{409}, Plain: web.BareAddress, Serve: api.CreateRecord(k),
		},
		{
			Method: "GET", Path: at + "/{id}", Id: "read" + name, Tag: k.Path, Summary: "Reads a " + k.Name + ", by id or slug.",
			Access: web.Reads, Reply: web.Reply{Status: 200, Doc: "The record.", Body: web.DataOf(name)}, Fails: []int{404}, Serve: api.ReadRecord(k, "id"),
		},
		{
			Method: "PATCH", Path: at + "/{id}", Id: "edit" + name, Tag: k.Path, Summary: "Changes a " + k.Name + ".",
			Access: web.Writes, Body: web.BodyOf(name + "Edit"), Reply: web.Reply{Status: 200, Doc: "The record.", Body: web.DataOf(name)}, Fails: []int{404, 409}, Serve: api.EditRecord(k, "id"),
		},
		{
			Method: "DELETE", Path: at + "/{id}", Id: "remove" + name, Tag: k.Path, Summary: "Deletes a " + k.Name + ".",
			Access: web.Writes, Reply: web.DoneReply, Fails: []int{404}, Serve: api.RemoveRecord(k, "id"),
		},
		{
			Method: "POST", Path: at + "/p/{slug}", Id: "readShared" + name, Tag: "public", Summary: name + "s that are shared, for visitors: reads one.",
			Access: web.Visitors, Args: web.SharePassword, Body: web.Maybe(web.BodyOf("Password")), Reply: web.Reply{Status: 200, Doc: "The record.", Body: web.DataOf("Shared" + name)},
			Fails: []int{401, 404, 410, 429, 503}, Slugs: true, Serve: public.ReadPublic(k),
		},
	}
}

func tagRoutes(at string) []web.Route {
	name := ""
	for part := range strings.SplitSeq(strings.TrimSuffix(at, "s"), "-") {
		name += web.Title(part)
	}
	path := web.ApiPath + at
	return []web.Route{
		{
			Method: "GET", Path: path, Id: "list" + name + "s", Tag: "tags", Summary: "Lists the caller's tags.",
			Access: web.Reads, Reply: web.Reply{Status: 200, Doc: "All tags.", Body: web.ArrayOf("Tag")}, Serve: api.ListTags,
		},
		{
			Method: "POST", Path: path, Id: "create" + name, Tag: "tags", Summary: "Makes a tag.",
			Access: web.Writes, Body: web.BodyOf("TagCreate"), Reply: web.Reply{Status: 201, Doc: "The tag.", Body: web.DataOf("Tag")}, Fails: []int{409}, Serve: api.CreateTag,
		},
		{
			Method: "PATCH", Path: path + "/{id}", Id: "edit" + name, Tag: "tags", Summary: "Renames or recolours a tag.",
			Access: web.Writes, Body: web.BodyOf("TagEdit"), Reply: web.Reply{Status: 200, Doc: "The tag.", Body: web.DataOf("Tag")}, Fails: []int{404, 409}, Serve: api.EditTag,
		},
		{
			Method: "DELETE", Path: path + "/{id}", Id: "remove" + name, Tag: "tags", Summary: "Deletes a tag; what had it stays.",
			Access: web.Writes, Reply: web.DoneReply, Fails: []int{404}, Serve: api.RemoveTag,
		},
		{
			Method: "POST", Path: path + "/{id}/merge", Id: "merge" + name, Tag: "tags", Summary: "Puts another tag in the place of this one.",
			Access: web.Writes, Body: web.BodyOf("TagMerge"), Reply: web.Reply{Status: 200, Doc: "The other tag.", Body: web.DataOf("Tag")}, Fails: []int{404}, Serve: api.MergeTag,
		},
	}
}

// listParams are the parameters of a list of the kind.
func listParams(k *record.Kind) []web.Param {
	text := web.Object{"type": "string"}
	flag := web.Object{"type": "boolean"}
	all := append(web.PageParams(kv.Sorts(k)),
		web.Param{In: "query", Name: "q", Doc: "Text to look for.", Schema: text, Example: "beach"},
		web.Param{In: "query", Name: "tag", Doc: "Name of a tag; repeat it to ask for several at once.", Schema: web.Object{"type": "array", "items": text}, Example: []string{"travel"}},
		web.Param{In: "query", Name: "tags", Doc: "Names of tags, separated by commas; all must match.", Schema: text, Example: "travel,2024"},
		web.Param{In: "query", Name: "favorite", Doc: "Favourites only, or all others.", Schema: flag, Example: true},
		web.Param{In: "query", Name: "public", Doc: "Public ones only, or all others.", Schema: flag, Example: true},
		web.Param{In: "query", Name: "brief", Doc: "Cuts contents, ingredients and instructions to 300 characters.", Schema: flag, Example: false},
	)
	if k == record.Files {
		all = append(all,
			web.Param{In: "query", Name: "folder", Doc: "Id or name of a folder, or unfiled.", Schema: text, Example: "Holidays"},
			web.Param{In: "query", Name: "type", Doc: "Kind of file.", Schema: web.Ref("FileType"), Example: "image"})
	}
	if k == record.Bookmarks {
		all = append(all,
			web.Param{In: "query", Name: "url", Doc: "Bookmarks of the page that this address leads to, as far as addresses tell: a fragment, parameters that only track and a slash at the end do not count.", Schema: web.Object{"type": "string", "format": "uri"}, Example: "https://go.dev/"},
			web.Param{In: "query", Name: "unreachable", Doc: "Bookmarks whose page cannot be reached, or all others.", Schema: flag, Example: true})
	}
	return all
}

// viewAnything answers at the root with whatever the slug is.
func viewAnything(c *web.Request) error {
	r, owned, err := public.Find(c, c.Arg("slug"), record.Kinds)
	if web.IsMissing(err) {
		if q, err := upload.OpenRequest(c, c.Arg("slug")); err == nil {
			return session.Redirect(c, "/up/"+url.PathEscape(q.Slug))
		}
	}
	err = public.Unlock(c, r, owned, err)
	if r != nil && r.Kind == record.Links {
		return public.FollowLink(c, r, owned, err)
	}
	return public.View(c, r, owned, err)
}

func readReference(c *web.Request) error { return c.RespondPage(http.StatusOK, embed.ReferencePage{}) }

// readAsset answers with a file of the pages. Its name changes with its
// content, so that it may be kept for good.
func readAsset(c *web.Request) error {
	a, ok := embed.Static(c.Arg("name"))
	if !ok {
		return record.NotFound("file")
	}
	h := c.W.Header()
	h.Set("Content-Type", a.Type)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body, tag := a.Bytes, a.ETag
	if a.GzipETag != "" && web.TakesGzip(c.R) {
		h.Set("Content-Encoding", "gzip")
		body, tag = a.Gzip, a.GzipETag
	}
	return c.UnlessUnchanged(tag, body)
}

// readExtension answers with the browser extension. Its address stays when it
// changes, so that it is asked for again each time, at the cost of its tag.
func (s *Server) readExtension(c *web.Request) error {
	archive, err := s.extension()
	if err != nil {
		return err
	}
	h := c.W.Header()
	h.Set("Content-Type", "application/zip")
	h.Set("Content-Disposition", `attachment; filename="kist-extension.zip"`)
	h.Set("Cache-Control", "public, no-cache")
	return c.UnlessUnchanged(archive.ETag, func() []byte { return archive.Bytes })
}
