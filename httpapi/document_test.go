package httpapi_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"kist/httpapi"
	"kist/httpapi/api"
	"kist/httpapi/apitest"
	"kist/httpapi/public"
	"kist/httpapi/session"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/history"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/transfer"
	"kist/kv/transfer/format"
	"kist/search"
)

// challengeSchemas are the schemas of challenges of both versions.
func challengeSchemas() (one, two web.Object) {
	text, number := web.Object{"type": "string"}, web.Object{"type": "integer"}
	one = members(web.Object{"algorithm": text, "challenge": text, "maxnumber": number, "salt": text, "signature": text},
		"algorithm", "challenge", "maxnumber", "salt", "signature")
	parameters := members(web.Object{
		"algorithm": text, "cost": number, "expiresAt": web.Object{
			"type": "integer", "description": "In seconds since 1970.",
		}, "keyLength": number, "keyPrefix": text, "nonce": text, "salt": text,
	}, "algorithm", "cost", "expiresAt", "keyLength", "keyPrefix", "nonce", "salt")
	return one, members(web.Object{"parameters": parameters, "signature": text}, "parameters", "signature")
}

// makeDocument is the OpenAPI document of the API (version 3.0.3), made from the
// routes and the fields, as JSON of which the outer levels are indented. It has
// the operations for programs alone: pages, their assets and probes are not in
// it. The address of its server is the text {base_url}. It fills in the shared
// schemas of the operations, so it must not run twice at once.
func makeDocument() ([]byte, error) {
	d := &document{
		schemas: web.Object{}, responses: web.Object{}, parameters: web.Object{}, examples: web.Object{},
		headers: web.Object{},
	}
	for _, e := range enums() {
		d.schemas[e.name] = web.Object{"type": "string", "enum": e.words, "description": e.doc, "example": e.words[0]}
		d.schemas[maybePrefix+e.name] = e.orNull()
	}
	for _, c := range components() {
		schema := shapeOf(c.value, c.mode)
		nameEnums(schema)
		d.schemas[c.name] = schema
	}
	file := fileSchema()
	nameEnums(file)
	d.schemas["UploadedFile"] = file
	d.schemas["CaptchaChallenge"], d.schemas["CaptchaChallenge2"] = challengeSchemas()
	d.schemas["UploadedFiles"] = members(
		web.Object{
			"files": web.Object{
				"type": "array", "description": "The files, in the order sent.", "items": web.Ref("UploadedFile"),
			},
		},
		"files",
	)
	maybe := shapeOf(&record.Shown{Record: record.Record{Kind: record.Files}}, showing)
	maybe["nullable"] = true
	var codes []string
	for _, c := range web.ErrorCodes {
		codes = append(codes, c.Code)
	}
	nameEnums(maybe)
	d.schemas["MaybeFile"] = maybe
	d.schemas["Error"] = members(web.Object{
		"error": web.Object{
			"type": "string", "description": "A sentence for a person.", "example": "There is no such note.",
		},
		"code": web.Object{
			"type": "string", "example": "not_found", "x-extensible-enum": codes,
			"description": "A word for a program. Later versions may have more; the status says what to do about an unknown " +
				"one. The handbook lists their meanings on the page error-codes.",
		},
		"fields": web.Object{
			"type": "object", "additionalProperties": web.Object{"type": "string"},
			"description": "With 422: what is wrong, by field. With the code not_owner: the fields that only the owner may change.",
			"example":     web.Object{},
		},
		"captcha": captchaAsked(),
		"ticket": web.Object{
			"type": "string", "description": "With the code second_factor_required: the ticket for the second step.",
			"example": "2mUq…",
		},
		"passkey": web.Object{
			"type": "object", "additionalProperties": true,
			"description": "With the code second_factor_required: options for navigator.credentials.get, if the account has a passkey.",
			"example":     web.Object{},
		},
		"methods": web.Object{
			"type": "array", "items": web.Object{"type": "string"},
			"description": "With the code second_factor_required: the members of the next request that can answer the second step.",
			"example":     []string{"code", "recoveryCode"},
		},
		"id": web.Object{
			"type": "string", "format": "uuid",
			"description": "With the code answered_before: id of what the earlier request made.",
			"example":     "01890a5d-ac96-774b-bcce-b302099a8057",
		},
		"kind": web.Object{
			"type": "string", "description": "With the code answered_before: what the earlier request made: key, passkey or invitation.",
			"example": web.MadeKey,
		},
		"data": web.Object{
			"type": "object", "additionalProperties": true,
			"description": "With the code changed_elsewhere: the record as it is now, if the caller may read it.",
			"example":     web.Object{},
		},
		"requestId": web.Object{
			"type": "string", "description": "Id of the request in the log.", "example": "5f2b6c0e9d1a4b7c8e3f0a12",
		},
		"error_description": web.Object{
			"type": "string", "description": "In the device flow: the sentence. error is then the code of RFC 8628.",
			"example": "The user has not decided yet.",
		},
		"interval": web.Object{
			"type": "integer", "description": "In the device flow: seconds to wait between two polls.", "example": 5,
		},
	}, "error", "code", "requestId")
	d.schemas["Error"].(web.Object)["description"] = "The answer of every failed operation of the API."
	paths := web.Object{}
	var tags []web.Object
	seen := map[string]bool{}
	for _, r := range httpapi.Table() {
		if !apitest.Documented(&r) {
			continue
		}
		if paths[r.Path] == nil {
			paths[r.Path] = web.Object{}
		}
		paths[r.Path].(web.Object)[strings.ToLower(r.Method)] = d.operation(r)
		if !seen[r.Tag] {
			seen[r.Tag] = true
			tag := web.Object{"name": r.Tag, "description": tagDocs[r.Tag]}
			if experimental[r.Tag] {
				tag["x-experimental"] = true
			}
			tags = append(tags, tag)
		}
	}
	for _, part := range []web.Object{d.schemas, d.parameters, d.headers, paths} {
		size(part)
	}
	if err := d.dropUnused(paths); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err := enc.Encode(web.Object{
		"openapi": "3.0.3",
		"info": web.Object{
			"title": "kist", "version": "1.0.0", "x-kist-version": httpapi.VersionPlaceholder, "license": web.Object{
				"name": "MIT", "url": "https://spdx.org/licenses/MIT.html",
			},
			"contact": web.Object{"name": "The administrator of this server", "url": httpapi.Placeholder + "/about"},
			"description": "Keeps and shares files, bookmarks, notes, snippets, recipes, games and short links. " +
				"Booleans may also be sent as \"true\" and \"false\", numbers as decimal text. Unknown members are ignored, but " +
				"refused with 422 if the request has Prefer: handling=strict; the answer then has Preference-Applied. So are " +
				"unknown fields of forms and unknown metadata of resumable uploads. Unknown parameters of addresses that need a " +
				"credential are refused with 400, and those of other addresses for such a request. When creating, null means absent. " +
				"The tags of a file may be sent back in the form of an answer. " +
				"The following is not listed for each operation. Every answer has X-Request-Id. Every address with GET also has HEAD, with the same answer " +
				"without the body. OPTIONS lists the methods of an address. " +
				"Any other method gets 405 with Allow. JSON answers of 1 KiB or more are compressed for clients that accept gzip. " +
				"Bookmarks, notes, snippets, recipes and games are experimental: their shapes may change.",
		},
		"servers":  []web.Object{{"url": httpapi.Placeholder}},
		"security": []web.Object{{"ApiKeyAuth": []string{}}, {sessionScheme: []string{}}},
		"tags":     tags,
		"paths":    paths,
		"components": web.Object{
			"securitySchemes": web.Object{"ApiKeyAuth": web.Object{
				"type": "apiKey", "in": "header", "name": "x-api-key",
				"description": "An API key. It may be sent as Authorization: ApiKey … or Bearer … instead.",
			}, sessionScheme: web.Object{
				"type": "apiKey", "in": "cookie", "name": "kist_session",
				"description": "The session of a browser that is signed in. Over HTTPS the cookie is __Host-kist_session. " +
					"Unsafe methods are refused if another site sends them.",
			}},
			"schemas":    d.schemas,
			"responses":  d.responses,
			"parameters": d.parameters,
			"examples":   d.examples,
			"headers":    d.headers,
		},
	})
	return fold(b.Bytes()), err
}

// captchaAsked is the schema of a challenge that is part of a refusal.
func captchaAsked() web.Object {
	v := members(web.Object{
		"provider": web.Object{
			"type": "string", "enum": []string{string(people.CaptchaPow)}, "description": "The provider of the challenge.",
			"example": people.CaptchaPow,
		},
		"challenge": web.Ref("CaptchaChallenge"),
	}, "provider", "challenge")
	v["description"] = "With the code captcha_required when signing in: the challenge whose solution must be sent in " +
		"the header x-captcha-token."
	return v
}

// foldedDepth is how deep the document is indented: each member of a schema and
// each answer of an operation has its line. Spaces were a third of it.
const foldedDepth = 5

// fold joins the lines of JSON, indented by one space for each level, that are
// deeper than foldedDepth.
func fold(text []byte) []byte {
	out := make([]byte, 0, len(text))
	folded := false
	for l := range bytes.Lines(text) {
		inner := bytes.TrimLeft(l, " ")
		depth := len(l) - len(inner)
		if depth > foldedDepth || depth == foldedDepth && folded && (inner[0] == '}' || inner[0] == ']') {
			out = append(bytes.TrimRight(out, "\n"), inner...)
		} else {
			out = append(out, l...)
		}
		folded = depth > foldedDepth
	}
	return out
}

// A document is made of named parts, so that each is written once and
// generators of code name them alike.
type document struct{ schemas, responses, parameters, examples, headers web.Object }

// sessionScheme is the name of the credential of a browser. No schema may have the same name.
const sessionScheme = "SessionCookie"

// tagDocs describe the groups of operations.
var tagDocs = map[string]string{
	"account":             "The caller's own account and its API keys.",
	"admin":               "Accounts, settings and figures of the instance, for administrators.",
	"app":                 "Other operations for the app.",
	"bookmarks":           "Addresses of web pages.",
	"collections":         "Items that are shared together, with one address.",
	"captcha":             "Proof that a visitor is not a bot.",
	"files":               "Files and their uploads.",
	"folders":             "Folders for files.",
	"games":               "Entries of a game list.",
	"import-and-export":   "Import from other programs, and export of everything.",
	"notes":               "Texts in Markdown.",
	"public":              "Operations for visitors on shared items and upload links.",
	"recipes":             "Recipes.",
	"records":             "Items of any kind.",
	"upload-from-address": "Files that the server fetches from an address.",
	"search":              "Search in all items.",
	"server":              "The server itself.",
	"sign-in":             "Passwords, passkeys, one-time codes, sessions, and the device flow for programs.",
	"short-links":         "Short addresses that lead elsewhere.",
	"snippets":            "Code and plain text.",
	"tags":                "Tags, which are shared by all kinds. The paths that name a kind lead to the same tags.",
	"trash":               "Deleted items, which can be restored until they are deleted for good.",
	"tus":                 "Resumable uploads by the protocol tus 1.0.0.",
	"upload-requests":     "Links where others can send files.",
	"webhooks":            "Addresses that are notified of events.",
}

// maybePrefix begins the names of enums that may also be null. In OpenAPI 3.0, a reference
// cannot be nullable in another way.
const maybePrefix = "Maybe"

// An enum is a named list of words.
type enum struct {
	name, doc string
	words     []string
}

// enums are the lists of words that the API uses. A schema with the words of
// one refers to it by its name.
func enums() []enum {
	return []enum{
		{"Accent", "Colour of what can be pressed in the app.", field.Words(people.Accents)},
		{"ActivityEvent", "What happened in an account.", field.Words(people.ActivityEvents)},
		{"BulkAction", "What can be done with many items.", field.Words(api.BulkActions)},
		{"CaptchaProvider", "How visitors prove that they are not bots.", field.Words(people.CaptchaProviders)},
		{"CollectionOrder", "An order of a collection.", field.Words(record.Arrangements)},
		{"DeliveryState", "State of a delivery.", api.DeliveryStates},
		{"Delivered", "What a visit delivered.", field.Words(history.AllDelivered)},
		{"DeviceAction", "Decision about a device that asks to connect.", session.DeviceActions},
		{"DeviceClass", "A kind of device.", field.Words(history.DeviceClasses)},
		{"Event", "An event.", api.EventNames},
		{"FileSort", "An order of files.", field.Words(catalog.Sorts(record.Files))},
		{"FileType", "A coarse kind of content.", record.ClassNames()},
		{"GameSort", "An order of games.", field.Words(catalog.Sorts(record.Games))},
		{"GameStatus", "State of a game.", field.Words(record.GameStatuses)},
		{"ImportFormat", "A format of exports.", field.Words(format.Formats)},
		{"ImportState", "State of an import.", field.Words(transfer.ImportStates)},
		{"IndexState", "State of the search index.", search.Phases()},
		{"ItemKind", "A kind of item.", web.KindNames()},
		{"MemberRole", "What a member of a collection may do.", field.Words(record.MemberRoles)},
		{"LimitAction", "What happens when the limit of views is reached.", field.Words(record.Actions)},
		{"EndAction", "What happens when an item expires.", field.Words(record.EndActions)},
		{"LeftOutReason", "Why visitors of a collection do not see an item.", field.Words(record.Exclusions)},
		{"ListSort", "An order of a short list.", field.Words(web.ShortSorts)},
		{"SetupProgram", "A program that can be set up to use kist.", field.Words(api.ProgramNames())},
		{"Reachability", "Whether a page can be reached.", field.Words(record.Reaches)},
		{"Metadata", "What visitors get of the metadata in a file.", record.MetadataWords},
		{"MetadataKind", "What metadata is about.", record.MetadataKinds},
		{"RecordSort", "An order of records.", field.Words(catalog.Sorts(record.Notes))},
		{"RemoteUploadAction", "What to do with a remote upload.", upload.FetchActions},
		{"RemoteUploadState", "State of a remote upload.", field.Words(jobs.FetchStates)},
		{"Language", "A language of pages and the app.", field.Words(people.Languages)},
		{"Role", "What a user may do.", field.Words(people.Roles)},
		{"Scope", "What an API key may be used for.", api.ScopeNames},
		{"Theme", "Brightness of the app.", field.Words(people.Themes)},
		{"NotCollected", "Why a received file is not in the collection.", field.Words(catalog.UncollectedReasons)},
		{"SentState", "State of a file for its sender.", field.Words(upload.SentStates)},
		{"UploadAction", "Decision about a file waiting for approval.", inbox.Verdicts},
		{"UploadState", "State of a received file.", field.Words(inbox.States)},
		{"WebhookEvent", "An event for a webhook; * means all.", api.WebhookEvents},
		{"WebhookFormat", "The format of a webhook's deliveries.", field.Words(jobs.Formats)},
	}
}

// nameEnums puts the name of an enum wherever enumOf refers to its words.
func nameEnums(schema any) {
	switch v := schema.(type) {
	case web.Object:
		if e, ok := v["$ref"].(web.EnumRef); ok {
			v["$ref"] = enumAddress(e)
		}
		for _, part := range v {
			nameEnums(part)
		}
	case []web.Object:
		for _, part := range v {
			nameEnums(part)
		}
	}
}

// enumAddress is the address of the named schema that has the words.
func enumAddress(e web.EnumRef) string {
	for _, one := range enums() {
		if !slices.Equal(one.words, e.Words) {
			continue
		}
		if e.Nullable {
			return web.SchemasPath + maybePrefix + one.name
		}
		return web.SchemasPath + one.name
	}
	panic("no enum in the document has the words " + strings.Join(e.Words, ", "))
}

// orNull is the schema of a word of the enum, or null. OpenAPI 3.0 has null among the words, but
// oapi-codegen makes a constant "<nil>" of it, unless it has the name of another one.
func (e *enum) orNull() web.Object {
	words := make([]any, 0, len(e.words)+1)
	for _, w := range e.words {
		words = append(words, w)
	}
	return web.Object{
		"type": "string", "nullable": true, "enum": append(words, nil), "description": e.doc, "example": e.words[0],
		"x-enum-varnames": append(slices.Clone(e.words), e.words[0]),
	}
}

// size gives every integer the size that holds its values: generators take 32 bits for one
// without a format, which is too little for a size in bytes.
func size(v any) {
	switch v := v.(type) {
	case []web.Object:
		for _, part := range v {
			size(part)
		}
	case web.Object:
		if v["type"] == "integer" && v["format"] == nil {
			v["format"] = "int64"
		}
		for _, part := range v {
			size(part)
		}
	}
}

// dropUnused removes the enums that nothing refers to.
func (d *document) dropUnused(paths web.Object) error {
	used, err := json.Marshal([]web.Object{paths, d.schemas, d.parameters})
	if err != nil {
		return err
	}
	for _, e := range enums() {
		for _, name := range []string{e.name, maybePrefix + e.name} {
			if !bytes.Contains(used, []byte(`/`+name+`"`)) {
				delete(d.schemas, name)
			}
		}
	}
	return nil
}

// parameter refers to a parameter that several operations have.
func (d *document) parameter(p web.Object) web.Object {
	name := p["in"].(string) + web.Title(strings.ReplaceAll(p["name"].(string), "-", ""))
	if at, ok := p["schema"].(web.Object)["$ref"].(string); ok {
		name += at[strings.LastIndexByte(at, '/')+1:]
	}
	if d.parameters[name] == nil {
		d.parameters[name] = p
	}
	if !reflect.DeepEqual(d.parameters[name], p) {
		return p
	}
	return web.Object{"$ref": "#/components/parameters/" + name}
}

func (d *document) operation(r httpapi.Route) web.Object {
	summary, more, _ := strings.Cut(r.Summary, ". ")
	op := web.Object{"operationId": r.ID, "tags": []string{r.Tag}, "summary": strings.TrimSuffix(summary, ".") + "."}
	if r.Deprecated {
		op["deprecated"] = true
	}
	if experimental[r.Tag] {
		op["x-experimental"] = true
	}
	var params []web.Object
	for segment := range strings.SplitSeq(r.Path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			params = append(params, d.parameter(web.Object{
				"name": name, "in": "path", "required": true, "description": pathParams[name],
				"schema": web.Object{"type": "string"},
			}))
		}
	}
	for _, p := range r.Args {
		nameEnums(p.Schema)
		params = append(
			params,
			d.parameter(web.Object{"name": p.Name, "in": p.In, "description": p.Doc, "schema": p.Schema}),
		)
	}
	if params != nil {
		op["parameters"] = params
	}
	switch {
	case r.Access.Open:
		op["security"] = []web.Object{}
		op["description"] = "No credential is needed."
	case r.Access.AnyKey && r.Access.Admin:
		op["description"] = "Any API key of an administrator will do."
	case r.Access.AnyKey:
		op["description"] = "Any API key will do."
	case r.Access.Browser:
		op["security"] = []web.Object{{sessionScheme: []string{}}}
		op["description"] = "Only for a browser that is signed in."
	case r.Access.Session:
		op["description"] = "For a browser that is signed in; an API key needs the scope admin, and its user must be an " +
			"administrator."
	default:
		op["description"] = "An API key needs the scope " + string(r.Access.Scope) + "."
		if r.Access.Reads {
			op["description"] = "An API key needs the scopes " + string(r.Access.Scope) + " and read."
		}
	}
	if r.Access.Confirms != nil {
		op["description"] = op["description"].(string) + recentDoc
	}
	if more != "" { // the last paragraph says who may call
		op["description"] = more + "\n\n" + op["description"].(string)
	}
	if r.Body != nil {
		op["requestBody"] = web.Object{"required": !r.Body.Optional, "content": d.request(r.ID, r.Body)}
	}
	answers := web.Object{strconv.Itoa(r.Reply.Status): d.answer(r.Reply.Doc, d.media(r.ID, r.Reply.Body))}
	if r.Plain != "" {
		// in words, so that generated clients type the answer as JSON alone
		answers[strconv.Itoa(r.Reply.Status)].(web.Object)["description"] = r.Reply.Doc + " With Accept: text/plain, the " +
			"answer is text: " + r.Plain + ". An error is then a sentence with the reason."
	}
	if of := d.headersOf(&r); len(of) > 0 {
		answers[strconv.Itoa(r.Reply.Status)].(web.Object)["headers"] = of
	}
	for _, status := range apitest.Statuses(&r) {
		if status < 400 {
			answers[strconv.Itoa(status)] = d.answer(
				statusText(status)+".", d.media(r.ID, map[int]*web.Content{http.StatusPartialContent: r.Reply.Body}[status]),
			)
		} else {
			answers[strconv.Itoa(status)] = d.failed(status)
		}
	}
	op["responses"] = answers
	return op
}

// experimental are the groups whose shapes may change.
var experimental = wordSet("bookmarks", "notes", "snippets", "recipes", "games")

// headersOf describes the headers of the answer when the operation succeeds.
func (d *document) headersOf(r *httpapi.Route) web.Object {
	names := slices.Clone(r.Headers)
	if r.At != "" {
		names = append(names, "Location")
	}
	tagged := slices.ContainsFunc(r.Args, func(p web.Param) bool { return p.Name == web.IfNoneMatch.Name })
	if apitest.AnswersRecord(r) || tagged {
		names = append(names, "ETag")
	}
	if r.Tus {
		names = append(names, "Tus-Resumable")
	}
	if r.Deprecated {
		names = append(names, "Deprecation")
	}
	of := web.Object{}
	for _, name := range names {
		of[name] = d.header(name)
	}
	return of
}

// header refers to the description of a header of answers.
func (d *document) header(name string) web.Object {
	h, ok := headers[name]
	if !ok {
		panic("no description of the header " + name)
	}
	d.headers[name] = web.Object{"description": h.doc, "schema": h.schema}
	return web.Object{"$ref": "#/components/headers/" + name}
}

var (
	headerText   = web.Object{"type": "string"}
	headerNumber = web.Object{"type": "integer", "format": "int64", "minimum": 0}
)

// headers describes the headers of answers.
var headers = map[string]struct {
	doc    string
	schema web.Object
}{
	"Deprecation": {"Since when the operation is deprecated (RFC 9745).", headerText},
	"ETag": {
		"Entity tag, for If-Match and If-None-Match. That of a record changes with every change of it, but not when it is opened.",
		headerText,
	},
	"Location": {"Address of what was made.", web.Object{"type": "string", "format": "uri-reference"}},
	"Retry-After": {
		"Seconds to wait before the next try. It is always there with 429.", web.Object{"type": "integer", "minimum": 1},
	},
	"Tus-Checksum-Algorithm": {"The algorithms for Upload-Checksum.", headerText},
	"Tus-Extension":          {"The extensions of tus that the server has.", headerText},
	"Tus-Max-Size":           {"The most bytes that an upload may have.", headerNumber},
	"Tus-Resumable":          {"The version of tus.", headerText},
	"Tus-Version":            {"The versions of tus that the server has.", headerText},
	"Upload-Defer-Length":    {"1 while the length is unknown.", headerText},
	"Upload-Expires":         {"When the unfinished upload is removed.", headerText},
	"Upload-Length":          {"Total bytes, if they are known.", headerNumber},
	"Upload-Metadata":        {"The metadata that the upload was started with.", headerText},
	"Upload-Offset":          {"Number of bytes that the server has.", headerNumber},
	"X-Kist-Id":              {"Id of the file, once the upload is complete.", headerText},
	"X-Kist-Item":            {"Id of the received item, once the upload is complete.", headerText},
	"X-Kist-Slug":            {"Slug of the file, once the upload is complete.", headerText},
	"X-Kist-Status":          {"Status of the received item, once the upload is complete.", headerText},
	"X-Kist-Take-Back":       {"Secret of the received item, once the upload is complete: see takeBack.", headerText},
	"X-Kist-Url":             {"Address of the file, once the upload is complete.", headerText},
	"X-Request-Id":           {"Id of the request in the log. Every answer has it.", headerText},
}

// recentDoc is what the document says of operations that need a recent sign-in.
const recentDoc = " A session must have been confirmed in the last ten minutes (403, recent_sign_in_required), or " +
	"the body has the member currentPassword: see confirm."

// failed refers to the answer with an error status, which is the same for all operations.
func (d *document) failed(status int) web.Object {
	name := strings.NewReplacer(" ", "", "-", "").Replace(statusText(status))
	if d.responses[name] == nil {
		answer := d.answer(
			statusText(status)+".", web.Object{web.JSONType: web.Object{"schema": web.Ref("Error"), "example": failure(status)}},
		)
		of := web.Object{"X-Request-Id": d.header("X-Request-Id")}
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			of["Retry-After"] = d.header("Retry-After")
		}
		answer["headers"] = of
		d.responses[name] = answer
	}
	return web.Object{"$ref": "#/components/responses/" + name}
}

// failure is an example of the answer with an error status.
func failure(status int) web.Object {
	of := map[int][2]string{
		http.StatusBadRequest:   {"malformed", "The body is not valid JSON: it ends too early."},
		http.StatusUnauthorized: {"unknown_key", "This API key is not known."},
		http.StatusForbidden:    {"scope_missing", "This API key does not have the scope write."},
		http.StatusNotFound:     {"not_found", "There is no such item."},
		http.StatusConflict:     {"slug_taken", "This slug is in use already."},
		http.StatusGone:         {"expired", "This item has expired."},
		http.StatusPreconditionFailed: {
			"precondition_failed", "The content has changed: it does not match the request's conditions.",
		},
		http.StatusRequestEntityTooLarge: {"too_large", "The body is larger than 1048576 bytes."},
		http.StatusUnsupportedMediaType: {
			"unsupported_media_type", "The body must be JSON, with the Content-Type application/json.",
		},
		http.StatusRequestedRangeNotSatisfiable: {"bad_range", "The content does not have the requested range."},
		http.StatusMisdirectedRequest: {
			"misdirected",
			"This server does not answer at the address in your request. Its operator sets the address with --base-url.",
		},
		http.StatusUnprocessableEntity: {"invalid_fields", "The title is required."},
		http.StatusLocked:              {"upload_busy", "Another request is working on this upload."},
		http.StatusTooManyRequests:     {"too_many_guesses", "Too many wrong passwords. Try again later."},
		http.StatusInternalServerError: {
			"internal", "Something went wrong on the server. The server's log has details under this request id.",
		},
		http.StatusServiceUnavailable:  {"busy", "Too many passwords are being checked; try again in a moment."},
		http.StatusInsufficientStorage: {"disk_full", "The server's disk is full. Nothing was stored."},
		http.StatusMethodNotAllowed:    {"method_not_allowed", "This address does not support this method."},
		web.StatusChecksum:             {"checksum_mismatch", "The body does not match its checksum. Nothing was stored."},
	}[status]
	e := web.Object{"code": of[0], "error": of[1], "requestId": "5f2b6c0e9d1a4b7c8e3f0a12"}
	if status == http.StatusUnprocessableEntity {
		e["fields"] = web.Object{"title": "is required"}
	}
	return e
}

// pathParams describes the parameters of paths. They have no example: nobody has a thing with
// the same id.
var pathParams = map[string]string{
	"id":         "Id. For records, also the slug.",
	"slug":       "Slug. For files, also the id.",
	"version":    "Id of the version.",
	"itemId":     "Id of the item.",
	"userId":     "Id of the account.",
	"secret":     "End of the upload's address, which only its sender knows.",
	"takeBack":   "Secret of the sent file, from takeBack or X-Kist-Take-Back.",
	"token":      "Token of the link. It is a secret.",
	"name":       "Name of the file.",
	"username":   "Name of the user.",
	"deliveryId": "Id of the delivery.",
}

// answer is an answer with a body, or without one if that is nil.
func (d *document) answer(doc string, body web.Object) web.Object {
	if body == nil {
		return web.Object{"description": doc}
	}
	return web.Object{"description": doc, "content": body}
}

// media describes the body of an answer; nil if there is none.
func (d *document) media(op string, c *web.Content) web.Object {
	if c == nil {
		return nil
	}
	s := d.schemaOf(op, c)
	if s.example == nil {
		s.example = d.example(s.of)
	}
	return d.body(c, s)
}

// request describes the body of a request. Its example can be sent unchanged: it leaves out what
// would have to fit the account.
func (d *document) request(op string, c *web.Content) web.Object {
	s := d.schemaOf(op, c)
	if s.example == nil {
		s.example = d.example(s.of)
	}
	if by := requestExamples[c.Name]; by != nil {
		s.example = by
	}
	if all, ok := s.example.(web.Object); ok && requestExamples[c.Name] == nil {
		required, _ := s.of["required"].([]string)
		maps.DeleteFunc(all, func(name string, _ any) bool {
			return personal[name] && !slices.Contains(required, name)
		})
	}
	return d.body(c, s)
}

// schemaOf is the schema of a body.
func (d *document) schemaOf(op string, c *web.Content) schema {
	s := schemaOfBody(op, c)
	if c.Name != "" {
		s = d.schemaNamed(c.Name)
	}
	nameEnums(s.of)
	return s
}

// body describes a body by its schema and example.
func (d *document) body(c *web.Content, s schema) web.Object {
	if c.Name == "" {
		return web.Object{c.Media: web.Object{"schema": s.of, "example": s.example}}
	}
	d.schemas[c.Name] = s.of
	d.examples[c.Name] = web.Object{"value": s.example}
	return web.Object{
		c.Media: web.Object{
			"schema": web.Ref(c.Name), "examples": web.Object{"default": web.Object{"$ref": "#/components/examples/" + c.Name}},
		},
	}
}

// example makes an example of a schema from the examples of its members.
func (d *document) example(schema web.Object) any {
	if at, ok := schema["$ref"].(string); ok {
		named, _ := d.schemas[strings.TrimPrefix(at, web.SchemasPath)].(web.Object)
		return d.example(named)
	}
	if e, ok := schema["example"]; ok {
		return e
	}
	if either, ok := schema["oneOf"].([]web.Object); ok {
		return d.example(either[0])
	}
	if named, ok := schema["allOf"].([]web.Object); ok {
		return d.example(named[0])
	}
	switch schema["type"] {
	case "object":
		out := web.Object{}
		members, _ := schema["properties"].(web.Object)
		for name, m := range members {
			out[name] = d.example(m.(web.Object))
		}
		return out
	case "array":
		items, _ := schema["items"].(web.Object)
		return []any{d.example(items)}
	case "integer":
		return 1
	case "boolean":
		return true
	}
	return "text"
}

// A component is a named schema.
type component struct {
	name  string
	value field.Shaped
	mode  mode
}

// confirmable is a form of an operation that session.RequireConfirmed guards.
type confirmable struct{ field.Shaped }

func (f confirmable) Fields(s *field.Set) {
	f.Shaped.Fields(s)
	s.Secret(session.CurrentPassword, new(field.Secret)).
		Says(
			"Confirms the request of a session that was not confirmed in the last ten minutes. API keys need none.",
			`"correct horse battery"`,
		)
}

func components() []component {
	all := []component{
		{"Folder", new(api.ShownFolder), showing},
		{"FolderCreate", record.FolderForm(record.Folder{}), creating},
		{"FolderEdit", record.FolderForm(record.Folder{}), editing},
		{"Tag", new(api.ShownTag), showing},
		{"TagCreate", record.TagForm(record.Tag{}), creating},
		{"TagEdit", record.TagForm(record.Tag{}), editing},
		{"TagMerge", new(api.MergeForm), creating},
		{"LeftOut", new(api.LeftOut), showing},
		{"CollectionItems", new(api.ItemsForm), creating},
		{"CollectionMember", new(api.MemberForm), creating},
		{"CollectionPlace", new(api.PlaceForm), editing},
		{"Tick", new(api.Tick), creating},
		{"Markdown", new(api.Markdown), creating},
		{"HTML", new(api.HTML), showing},
		{"User", new(session.ShownUser), showing},
		{"UserCreate", confirmable{api.NewUserForm()}, creating},
		{"UserEdit", confirmable{api.NewUserEdit()}, editing},
		{"Invitation", new(api.ShownInvitation), showing},
		{"InvitationCreate", confirmable{api.NewInvitationForm()}, creating},
		{"Join", new(api.JoinForm), creating},
		{"ResetCreate", confirmable{new(api.ResetUserForm)}, creating},
		{"MeEdit", new(api.MeForm), editing},
		{"Key", new(api.ShownKey), showing},
		{"CurrentKey", new(api.ShownCurrent), showing},
		{"KeyCreate", confirmable{&api.KeyForm{Fresh: true}}, creating},
		{"KeyEdit", confirmable{new(api.KeyForm)}, editing},
		{"Person", new(api.Person), showing},
		{"Settings", new(people.Settings), showing},
		{"SettingsEdit", confirmable{new(people.Settings)}, editing},
		{"Stats", new(api.Stats), showing},
		{"Health", new(httpapi.ShownHealth), showing},
		{"Backup", new(httpapi.ShownBackup), showing},
		{"BackupHealth", new(httpapi.BackupHealth), showing},
		{"SearchResult", &api.Result{Shown: record.Shown{Record: record.Record{Kind: record.Notes}}}, showing},
		{"Password", new(public.PasswordForm), creating},
		{"Login", new(session.LoginForm), creating},
		{"SecondFactor", new(session.StepForm), creating},
		{"PasskeyLogin", new(session.PasskeyForm), creating},
		{"PasskeyCreate", confirmable{new(session.NewPasskeyForm)}, creating},
		{"PasskeyEdit", confirmable{new(session.ShownPasskey)}, editing},
		{"Passkey", new(session.ShownPasskey), showing},
		{"Confirm", new(session.ConfirmForm), creating},
		{"Security", new(session.ShownSecurity), showing},
		{"Codes", confirmable{new(session.CodesForm)}, creating},
		{"Session", new(session.ShownSession), showing},
		{"Identity", new(session.ShownIdentity), showing},
		{"IdentityLink", confirmable{new(session.LinkForm)}, creating},
		{"IdentityAddress", new(session.LinkAddress), showing},
		{"Device", new(session.DeviceForm), creating},
		{"DevicePoll", new(session.TokenForm), creating},
		{"DeviceDecision", confirmable{new(session.VerifyForm)}, creating},
		{"Webhook", new(api.ShownWebhook), showing},
		{"WebhookCreate", confirmable{api.BlankWebhook()}, creating},
		{"WebhookEdit", confirmable{api.BlankWebhook()}, editing},
		{"Delivery", new(api.ShownDelivery), showing},
		{"Visits", new(api.ShownVisits), showing},
		{"Activity", new(api.ShownActivity), showing},
		{"Version", &api.ShownVersion{Version: new(record.Version)}, showing},
		{
			"TrashItem",
			&api.ShownTrash{TrashItem: catalog.TrashItem{Trashed: record.Trashed{Record: record.Record{Kind: record.Notes}}}},
			showing,
		},
		{"TrashRestore", new(api.RestoreForm), creating},
		{"Bulk", new(api.BulkForm), creating},
		{"Restored", &api.ShownRestored{Restored: catalog.Restored{Record: &record.Record{Kind: record.Notes}}}, showing},
		{"UploadRequest", new(inbox.ShownRequest), showing},
		{"UploadRequestCreate", new(inbox.RequestForm), creating},
		{"UploadRequestEdit", new(inbox.RequestForm), editing},
		{"UploadItem", new(inbox.Item), showing},
		{"UploadDecision", new(inbox.Decision), creating},
		{"UploadReceipt", inbox.Receipt{Item: new(inbox.Item)}, showing},
		{"CaptchaToken", new(session.TokenOfCaptcha), creating},
		{"ResumableUpload", new(upload.ShownUpload), showing},
		{"SentFiles", new(upload.SecretsForm), creating},
		{"SentFile", new(upload.SentFile), showing},
		{"SentUpload", &upload.ShownUpload{Upload: inbox.Upload{Request: uuid.Max}}, showing},
		{"Import", new(api.ShownImport), showing},
		{"Setup", new(api.ShownSetup), showing},
		{"SetupCreate", confirmable{new(api.SetupForm)}, creating},
		{"SetupMade", new(api.MadeSetup), showing},
		{"RemoteUpload", new(upload.ShownFetch), showing},
	}
	for _, k := range record.Kinds {
		all = append(all, component{web.Title(k.Name), &record.Shown{Record: record.Record{Kind: k}}, showing})
		if k.Versioned() || k == record.Files {
			all = append(
				all, component{web.Title(k.Name) + "Version", &api.ShownVersion{Version: new(record.Version), Kind: k}, showing},
			)
		}
		all = append(all, component{web.Title(k.Name) + "Edit", record.Edit{Form: record.NewForm(k)}, editing})
		if k != record.Files {
			all = append(all, component{web.Title(k.Name) + "Create", record.NewForm(k), creating},
				component{"Shared" + web.Title(k.Name), &record.Shown{Record: record.Record{Kind: k}, Visitor: true}, showing})
		}
	}
	return all
}

// statusText names a status.
func statusText(status int) string {
	if status == web.StatusChecksum {
		return "Checksum Mismatch"
	}
	return http.StatusText(status)
}
