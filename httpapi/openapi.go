package httpapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"kist/embed"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
	"kist/kv/transfer/format"
	"kist/search"
)

// object is JSON of the document.
type object = map[string]any

// param is a parameter of an operation.
type param struct {
	in, name, doc string
	schema        object
	example       any
}

// content is a body: its media type, schema and an example.
type content struct {
	media    string
	name     string // of the schema in the document; "" leaves it where it stands
	schema   object
	example  any // nil: made from the schema
	optional bool
}

// reply is what a successful operation answers.
type reply struct {
	status int
	doc    string
	body   *content // nil: none
}

// placeholder stands for the base address in the shipped document.
const placeholder = "{base_url}"

// Document is the OpenAPI document of the API (version 3.0.3), made from the
// routes and the fields, as JSON of which the outer levels are indented. It has
// the operations for programs alone: pages, their assets and probes are not in
// it. The address of its server is the text {base_url}.
func Document() ([]byte, error) {
	d := &document{schemas: object{}, responses: object{}, parameters: object{}, examples: object{}}
	for _, e := range enums() {
		d.schemas[e.name] = object{"type": "string", "enum": e.words, "description": e.doc, "example": e.words[0]}
		d.schemas[maybePrefix+e.name] = e.orNull()
	}
	for _, c := range components() {
		schema := shapeOf(c.value, c.mode)
		nameEnums(schema)
		d.schemas[c.name] = schema
	}
	file := uploadedFile()
	nameEnums(file)
	d.schemas["UploadedFile"] = file
	d.schemas["CaptchaChallenge"], d.schemas["CaptchaChallenge2"] = challengeSchemas()
	d.schemas["UploadedFiles"] = members(object{"files": object{"type": "array", "description": "The files, in the order sent.", "items": ref("UploadedFile")}}, "files")
	maybe := shapeOf(&record.Shown{Record: record.Record{Kind: record.Files}}, shown)
	maybe["nullable"] = true
	nameEnums(maybe)
	d.schemas["MaybeFile"] = maybe
	d.schemas["Error"] = members(object{
		"error":             object{"type": "string", "description": "A sentence for a person.", "example": "There is no such note."},
		"code":              object{"type": "string", "description": "A word for a program.", "example": "not_found"},
		"fields":            object{"type": "object", "additionalProperties": object{"type": "string"}, "description": "With 422: what is wrong, by field.", "example": object{}},
		"captcha":           captchaAsked(),
		"requestId":         object{"type": "string", "description": "The request's name in the log.", "example": "5f2b6c0e9d1a4b7c8e3f0a12"},
		"error_description": object{"type": "string", "description": "In the device flow: the sentence; error is the code of RFC 8628.", "example": "The user has not decided yet."},
		"interval":          object{"type": "integer", "description": "In the device flow: seconds to wait between two polls.", "example": 5},
	}, "error", "code", "requestId")
	d.schemas["Error"].(object)["description"] = "What every failed operation of the API answers."
	paths := object{}
	var tags []object
	seen := map[string]bool{}
	for _, r := range new(Server).table() {
		if !r.documented() {
			continue
		}
		if paths[r.path] == nil {
			paths[r.path] = object{}
		}
		paths[r.path].(object)[strings.ToLower(r.method)] = d.operation(r)
		if !seen[r.tag] {
			seen[r.tag] = true
			tags = append(tags, object{"name": r.tag, "description": tagDocs[r.tag]})
		}
	}
	if err := d.dropUnused(paths); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err := enc.Encode(object{
		"openapi": "3.0.3",
		"info": object{
			"title": "kist", "version": "1.0.0", "license": object{"name": "MIT", "url": "https://spdx.org/licenses/MIT.html"},
			"contact": object{"name": "The administrator of this server", "url": placeholder + "/about"},
			"description": "Keeps and shares files, bookmarks, notes, snippets, recipes, games and short links. " +
				"Booleans may also be sent as \"true\" and \"false\", numbers as decimal text; unknown members are ignored; null on create means absent; " +
				"the tags of a file may be sent back as they are answered. " +
				"Every address that answers GET answers HEAD alike, without the body, and every address answers OPTIONS with the methods it knows; " +
				"any other method is answered 405 with Allow. JSON answers of 1 KiB and more are compressed for clients that accept gzip. None of this is listed. " +
				"Bookmarks, notes, snippets, recipes and games are experimental: their shapes may change.",
		},
		"servers":  []object{{"url": placeholder}},
		"security": []object{{"ApiKeyAuth": []string{}}, {"Session": []string{}}},
		"tags":     tags,
		"paths":    paths,
		"components": object{
			"securitySchemes": object{"ApiKeyAuth": object{
				"type": "apiKey", "in": "header", "name": "x-api-key",
				"description": "An API key. It may be sent as Authorization: ApiKey … or Bearer … instead.",
			}, "Session": object{
				"type": "apiKey", "in": "cookie", "name": "kist_session",
				"description": "The session of a browser that is signed in; over HTTPS the cookie is __Host-kist_session. Unsafe methods are refused when another site sends them.",
			}},
			"schemas":    d.schemas,
			"responses":  d.responses,
			"parameters": d.parameters,
			"examples":   d.examples,
		},
	})
	return fold(b.Bytes()), err
}

// captchaAsked is the schema of a challenge that is part of a refusal.
func captchaAsked() object {
	v := members(object{
		"provider":  object{"type": "string", "enum": []string{string(record.CaptchaPow)}, "description": "What it is for.", "example": record.CaptchaPow},
		"challenge": ref("CaptchaChallenge"),
	}, "provider", "challenge")
	v["description"] = "With the code captcha_required at a sign-in: what to solve and send in the header x-captcha-token."
	return v
}

// documented reports whether the operation is one for programs: it is in the
// document, and pages are not.
func (r *route) documented() bool {
	return strings.HasPrefix(r.path, apiPath) && (r.reply.body == nil || r.reply.body.media != htmlMedia)
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

// A served document is the shipped one with the base address filled in.
type served struct {
	plain, packed       []byte // as it is, and compressed by gzip
	plainTag, packedTag string // strong entity tags
}

func serveDocument(base string) (*served, error) {
	quoted, err := json.Marshal(base)
	if err != nil {
		return nil, fmt.Errorf("base address: %w", err)
	}
	v := &served{plain: bytes.ReplaceAll(embed.OpenAPI, []byte(placeholder), quoted[1:len(quoted)-1])}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write(v.plain)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	v.packed = packed.Bytes()
	sum := sha256.Sum256(v.plain)
	v.plainTag = `"` + hex.EncodeToString(sum[:12]) + `"`
	v.packedTag = `"` + hex.EncodeToString(sum[:12]) + `-gzip"`
	return v, nil
}

// readSchema answers with the document.
func (s *Server) readSchema(c *request) error {
	v, err := s.schema()
	if err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("Content-Type", jsonType)
	h.Set("Cache-Control", "no-cache")
	body, tag := v.plain, v.plainTag
	if takesGzip(c.r) {
		h.Set("Content-Encoding", "gzip")
		body, tag = v.packed, v.packedTag
	}
	return c.unlessUnchanged(tag, func() []byte { return body })
}

// A document is made of named parts, so that each is written once and
// generators of code name them alike.
type document struct{ schemas, responses, parameters, examples object }

// tagDocs describe the groups of operations.
var tagDocs = map[string]string{
	"account":         "The caller's own account and its API keys.",
	"admin":           "Accounts, settings and figures of the instance, for administrators.",
	"app":             "What the app needs beside the rest.",
	"bookmarks":       "Kept addresses of pages.",
	"captcha":         "Proof that a visitor is no program.",
	"files":           "Files, and uploads of them.",
	"folders":         "Folders that files lie in.",
	"games":           "Entries of a game list.",
	"moving":          "Import from other programs, and export of everything.",
	"notes":           "Texts in Markdown.",
	"public":          "What visitors may do with what is shared.",
	"recipes":         "Recipes.",
	"remote upload":   "Files that the server fetches from an address.",
	"search":          "Search in everything.",
	"server":          "The server itself.",
	"session":         "Signing in, by password or by the device flow.",
	"shorten":         "Short links.",
	"snippets":        "Code and plain text.",
	"tags":            "Tags, which are shared by all kinds. The paths that name a kind lead to the same tags.",
	"tus":             "Resumable uploads by the protocol tus 1.0.0.",
	"upload-requests": "Links at which others leave files.",
	"webhooks":        "Addresses that are told of what happens.",
}

// An enum is a named list of words.
type enum struct {
	name, doc string
	words     []string
}

// enums are the lists of words that the API uses. A schema with the words of
// one refers to it by its name.
func enums() []enum {
	return []enum{
		{"CaptchaProvider", "What tells people from programs.", field.Words(record.CaptchaProviders)},
		{"DeliveryState", "How far a delivery is.", deliveryStates},
		{"DeviceAction", "What to do with a device that asks to be let in.", deviceActions},
		{"Event", "Something that happened.", eventNames},
		{"FileSort", "An order of files.", field.Words(kv.Sorts(record.Files))},
		{"FileType", "A coarse kind of content.", record.ClassNames()},
		{"GameStatus", "How far one is with a game.", field.Words(record.GameStatuses)},
		{"ImportFormat", "A format of exports.", field.Words(format.Formats)},
		{"ImportState", "How far an import is.", field.Words(record.ImportStates)},
		{"IndexState", "How the search index is.", search.Phases()},
		{"ItemKind", "A kind of item.", kindNames()},
		{"LimitAction", "What happens when the limit of views is reached.", field.Words(record.Actions)},
		{"ListSort", "An order of a short list.", field.Words(shortSorts)},
		{"Program", "A program that kist can be set up in.", field.Words(programNames())},
		{"Reachability", "Whether a page can be reached.", field.Words(record.Reaches)},
		{"RecordSort", "An order of records.", field.Words(kv.Sorts(record.Notes))},
		{"RemoteUploadAction", "What to do with a remote upload.", fetchActions},
		{"RemoteUploadState", "How far a remote upload is.", field.Words(record.FetchStates)},
		{"Role", "What a user may do.", field.Words(record.Roles)},
		{"Scope", "What an API key may be used for.", scopeNames},
		{"UploadAction", "What to do with a file that waits for approval.", record.Verdicts},
		{"UploadState", "How far a file that was sent is.", field.Words(record.States)},
		{"WebhookEvent", "An event that a webhook is told of; * is all.", webhookEvents},
		{"WebhookFormat", "The form of what a webhook is sent.", field.Words(record.Formats)},
	}
}

// nameEnums puts the name of an enum wherever enumOf refers to its words.
func nameEnums(schema any) {
	switch v := schema.(type) {
	case object:
		if e, ok := v["$ref"].(enumRef); ok {
			v["$ref"] = enumAddress(e)
		}
		for _, part := range v {
			nameEnums(part)
		}
	case []object:
		for _, part := range v {
			nameEnums(part)
		}
	}
}

// enumAddress is the address of the named schema that has the words.
func enumAddress(e enumRef) string {
	for _, one := range enums() {
		if !slices.Equal(one.words, e.words) {
			continue
		}
		if e.nullable {
			return schemasPath + maybePrefix + one.name
		}
		return schemasPath + one.name
	}
	panic("no enum in the document has the words " + strings.Join(e.words, ", "))
}

// maybePrefix begins the names of enums that may also be null. OpenAPI 3.0 has
// no other way to say this of a reference.
const maybePrefix = "Maybe"

// orNull is the schema of a word of the enum, or null.
func (e *enum) orNull() object {
	words := make([]any, 0, len(e.words)+1)
	for _, w := range e.words {
		words = append(words, w)
	}
	return object{"type": "string", "nullable": true, "enum": append(words, nil), "description": e.doc, "example": e.words[0]}
}

// dropUnused leaves out the enums that nothing refers to.
func (d *document) dropUnused(paths object) error {
	used, err := json.Marshal([]object{paths, d.schemas, d.parameters})
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
func (d *document) parameter(p object) object {
	name := p["in"].(string) + title(strings.ReplaceAll(p["name"].(string), "-", ""))
	if at, ok := p["schema"].(object)["$ref"].(string); ok {
		name += at[strings.LastIndexByte(at, '/')+1:]
	}
	if d.parameters[name] == nil {
		d.parameters[name] = p
	}
	if !reflect.DeepEqual(d.parameters[name], p) {
		return p
	}
	return object{"$ref": "#/components/parameters/" + name}
}

func (d *document) operation(r route) object {
	op := object{"operationId": r.id, "tags": []string{r.tag}, "summary": r.summary}
	var params []object
	for segment := range strings.SplitSeq(r.path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			params = append(params, d.parameter(object{
				"name": name, "in": "path", "required": true, "description": pathParams[name].doc,
				"schema": object{"type": "string"}, "example": pathParams[name].example,
			}))
		}
	}
	for _, p := range r.args {
		nameEnums(p.schema)
		params = append(params, d.parameter(object{"name": p.name, "in": p.in, "description": p.doc, "schema": p.schema, "example": p.example}))
	}
	if params != nil {
		op["parameters"] = params
	}
	switch {
	case r.access.open:
		op["security"] = []object{}
		op["description"] = "No credential is needed."
	case r.access.anyKey && r.access.admin:
		op["description"] = "Any API key of an administrator will do."
	case r.access.anyKey:
		op["description"] = "Any API key will do."
	case r.access.browser:
		op["security"] = []object{{"Session": []string{}}}
		op["description"] = "Only for a browser that is signed in."
	case r.access.session:
		op["description"] = "For a browser that is signed in; an API key needs the scope admin, and its user must be an administrator."
	default:
		op["description"] = "An API key needs the scope " + string(r.access.scope) + "."
	}
	if r.body != nil {
		op["requestBody"] = object{"required": !r.body.optional, "content": d.media(r.body)}
	}
	answers := object{strconv.Itoa(r.reply.status): d.answer(r.reply.doc, r.reply.body)}
	if r.plain != nil {
		answers[strconv.Itoa(r.reply.status)] = d.answer(r.reply.doc+" As text, to Accept: text/plain, "+r.plain.doc+".", r.reply.body, textOf(r.plain.example))
	}
	for _, status := range r.statuses() {
		if status < 400 {
			answers[strconv.Itoa(status)] = d.answer(statusText(status)+".", map[int]*content{http.StatusPartialContent: r.reply.body}[status])
		} else {
			answers[strconv.Itoa(status)] = d.failed(status, r.plain != nil)
		}
	}
	op["responses"] = answers
	return op
}

// failed refers to the answer with an error status, which is the same for all
// operations but those that answer with text too.
func (d *document) failed(status int, plain bool) object {
	name := strings.NewReplacer(" ", "", "-", "").Replace(statusText(status))
	bodies := []*content{jsonOf(ref("Error"), failure(status))}
	if plain {
		name += "OrText"
		bodies = append(bodies, textOf("A sentence that says why.\n"))
	}
	if d.responses[name] == nil {
		d.responses[name] = d.answer(statusText(status)+".", bodies...)
	}
	return object{"$ref": "#/components/responses/" + name}
}

// statuses are those that the operation may answer with beside the one that it
// is for: errors, 206, 304, and 200 with a page where that is a redirect.
func (r *route) statuses() []int {
	all := append([]int{http.StatusBadRequest, http.StatusMisdirectedRequest, http.StatusInternalServerError}, r.fails...)
	if !r.access.open {
		all = append(all, http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable)
		if r.method != http.MethodGet {
			all = append(all, http.StatusInsufficientStorage)
		}
	}
	if r.body != nil && (r.access.scope == record.ScopeWrite || r.access.scope == record.ScopeUpload) {
		all = append(all, http.StatusTooManyRequests) // too much was written
	}
	if r.body != nil {
		all = append(all, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// failure is an example of the answer with an error status.
func failure(status int) object {
	of := map[int][2]string{
		http.StatusBadRequest:                   {"malformed", "The body is not valid JSON: it ends too early."},
		http.StatusUnauthorized:                 {"unknown_key", "This API key is not known."},
		http.StatusForbidden:                    {"scope_missing", "This API key does not have the scope write."},
		http.StatusNotFound:                     {"not_found", "There is no such item."},
		http.StatusConflict:                     {"slug_taken", "This slug is in use already."},
		http.StatusGone:                         {"expired", "This item has expired."},
		http.StatusPreconditionFailed:           {"precondition_failed", "The content is not the one that the request names."},
		http.StatusRequestEntityTooLarge:        {"too_large", "The body is larger than 1048576 bytes."},
		http.StatusUnsupportedMediaType:         {"unsupported_media_type", "The body must be JSON, with the Content-Type application/json."},
		http.StatusRequestedRangeNotSatisfiable: {"bad_range", "The content does not have the range that was asked for."},
		http.StatusMisdirectedRequest:           {"misdirected", "This server has another address than the one in your request. Its operator sets the address with --base-url."},
		http.StatusUnprocessableEntity:          {"invalid_fields", "The title is required."},
		http.StatusLocked:                       {"upload_busy", "Another request works on this upload."},
		http.StatusTooManyRequests:              {"too_many_guesses", "Too many wrong passwords. Try again later."},
		http.StatusInternalServerError:          {"internal", "Something went wrong on the server. The log says more under this request id."},
		http.StatusServiceUnavailable:           {"busy", "Too many passwords are being checked; try again in a moment."},
		http.StatusInsufficientStorage:          {"disk_full", "The server's disk is full. Nothing was stored."},
		http.StatusMethodNotAllowed:             {"method_not_allowed", "This address does not know the method."},
		statusChecksum:                          {"checksum_mismatch", "The body is not what its checksum says. Nothing of it was kept."},
	}[status]
	e := object{"code": of[0], "error": of[1], "requestId": "5f2b6c0e9d1a4b7c8e3f0a12"}
	if status == http.StatusUnprocessableEntity {
		e["fields"] = object{"title": "is required"}
	}
	return e
}

// pathParams says what the parameters of paths are, with an example of each.
var pathParams = map[string]struct{ doc, example string }{
	"id":     {"Id; for records the slug does as well.", "01890a5d-ac96-774b-bcce-b302099a8057"},
	"slug":   {"Slug; for files the id does as well.", "summer-24"},
	"itemId": {"Id of the item.", "01890a5d-ac96-774b-bcce-b302099a8057"},
	"secret": {"End of the upload's address, which only its sender knows.", "7Nc0yq…"},

	"token": {"Token of the link, which is a secret.", "4Jc0…"},
	"name":  {"Name of the file.", "kist.css"},

	"username":   {"Name of the user.", "ann"},
	"deliveryId": {"Id of the delivery.", "01890a5d-ac96-774b-bcce-b302099a8057"},
}

// answer is an answer with a body in one of several types; a nil one is none.
func (d *document) answer(doc string, bodies ...*content) object {
	a := object{"description": doc}
	of := object{}
	for _, body := range bodies {
		if body != nil {
			maps.Copy(of, d.media(body))
			a["content"] = of
		}
	}
	return a
}

func (d *document) media(c *content) object {
	if c.schema == nil {
		c.schema = d.schemas[c.name].(object)
	}
	nameEnums(c.schema)
	example := c.example
	if example == nil {
		example = d.example(c.schema)
	}
	if c.name == "" {
		return object{c.media: object{"schema": c.schema, "example": example}}
	}
	d.schemas[c.name] = c.schema
	d.examples[c.name] = object{"value": example}
	return object{c.media: object{"schema": ref(c.name), "examples": object{"default": object{"$ref": "#/components/examples/" + c.name}}}}
}

// example makes an example of a schema out of those of its members.
func (d *document) example(schema object) any {
	if at, ok := schema["$ref"].(string); ok {
		named, _ := d.schemas[strings.TrimPrefix(at, schemasPath)].(object)
		return d.example(named)
	}
	if e, ok := schema["example"]; ok {
		return e
	}
	if either, ok := schema["oneOf"].([]object); ok {
		return d.example(either[0])
	}
	if named, ok := schema["allOf"].([]object); ok {
		return d.example(named[0])
	}
	switch schema["type"] {
	case "object":
		out := object{}
		members, _ := schema["properties"].(object)
		for name, m := range members {
			out[name] = d.example(m.(object))
		}
		return out
	case "array":
		items, _ := schema["items"].(object)
		return []any{d.example(items)}
	case "integer":
		return 1
	case "boolean":
		return true
	}
	return "text"
}

// Shapes of the document.

// schemasPath begins the addresses of named schemas.
const schemasPath = "#/components/schemas/"

func ref(name string) object { return object{"$ref": schemasPath + name} }

// enumRef stands for the name of an enum until the document is written.
type enumRef struct {
	words    []string
	nullable bool
}

// enumOf refers to the enum of the words.
func enumOf(words []string, nullable bool) object { return object{"$ref": enumRef{words, nullable}} }

func members(of object, required ...string) object {
	out := object{"type": "object", "properties": of}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

func jsonOf(schema object, example any) *content {
	return &content{media: jsonType, schema: schema, example: example}
}

// named gives the schema of a body a name in the document.
func named(name string, c *content) *content {
	c.name = name
	return c
}

// bodyOf is JSON of a component.
func bodyOf(name string) *content { return &content{media: jsonType, name: name} }

func maybe(c *content) *content {
	c.optional = true
	return c
}

func dataOf(name string) *content {
	return named(name+"Answer", jsonOf(members(object{"data": ref(name)}, "data"), nil))
}

func envelope(name, beside string, schema object, example any) *content {
	schema["example"] = example
	return named(name+"Created", jsonOf(members(object{"data": ref(name), beside: schema}, "data", beside), nil))
}

func arrayOf(name string) *content {
	return named(name+"List", jsonOf(allOf(name), nil))
}

// allOf is the schema of a list of a component.
func allOf(name string) object {
	return object{"type": "array", "description": "The list, or a page of it.", "items": ref(name)}
}

// listOf is a page of a list.
func listOf(name string) *content {
	return named(name+"List", jsonOf(members(object{"data": allOf(name), "total": wholeTotal, "nextCursor": nextCursor}, "data", "total", "nextCursor"), nil))
}

var (
	wholeTotal = object{"type": "integer", "format": "int64", "description": "Of the whole list.", "example": 1}
	nextCursor = object{"type": "string", "nullable": true, "example": nil, "description": "Start of the next page; null at the end."}
)

func pageOfRecords(k *record.Kind) *content { return listOf(title(k.Name)) }

var done = reply{http.StatusOK, "Done.", named("Done", jsonOf(members(object{"ok": object{"type": "boolean", "enum": []bool{true}}}, "ok"), object{"ok": true}))}

// deletionLink and thumbnailLink are addresses that answers to creations have
// beside the record.
func deletionLink() object {
	return object{"type": "string", "format": "uri", "description": "Where anyone who knows the address can delete this, on a page that asks first. It is told this once.", "example": "https://kist.example.org" + deletionPath + "AZClx2Jq"}
}

func thumbnailLink() object {
	return object{"type": "string", "format": "uri", "description": "A small picture of it; absent where none can be made.", "example": "https://kist.example.org/t/summer-24"}
}

// createdOf is the answer to a new record of a kind.
func createdOf(k *record.Kind) *content {
	c := envelope(title(k.Name), "url", object{"type": "string", "format": "uri", "description": "Where others reach it."}, "https://kist.example.org/v/summer-24")
	of, needed := c.schema["properties"].(object), []string{"data", "url", "deletionUrl"}
	of["deletionUrl"] = deletionLink()
	if k == record.Bookmarks {
		of["duplicateOf"] = object{
			"type": "array", "items": shapeOf(new(duplicate), shown), "example": []any{},
			"description": "Bookmarks of the same page that were there before, the oldest first, ten at most.",
		}
		needed = append(needed, "duplicateOf")
	}
	c.schema["required"] = needed
	return c
}

func uploaded() *content {
	return named("Uploaded", jsonOf(object{"oneOf": []object{ref("UploadedFile"), ref("UploadedFiles")}}, nil))
}

// uploadedFile is the schema of a file as the answer to its upload has it.
func uploadedFile() object {
	file := shapeOf(&record.Shown{Record: record.Record{Kind: record.Files}}, shown)
	of := file["properties"].(object)
	of["thumbnailUrl"], of["deletionUrl"] = thumbnailLink(), deletionLink()
	file["required"] = append(file["required"].([]string), "deletionUrl")
	return file
}

func textOf(example string) *content {
	return &content{media: "text/plain", schema: object{"type": "string"}, example: example}
}

func pageOf() *content {
	return &content{media: htmlMedia, schema: object{"type": "string"}, example: "<!doctype html>…"}
}

func bytesOf() *content {
	return &content{media: "*/*", schema: object{"type": "string", "format": "binary"}, example: "…"}
}

const htmlMedia = "text/html"

// formBody is the body of a form of a page. It is not in the document.
var formBody = &content{media: "application/x-www-form-urlencoded"}

func multipartOf() *content {
	schema := shapeOf(record.Upload{Form: record.NewForm(record.Files)}, create)
	of := schema["properties"].(object)
	of["file"] = object{"type": "array", "items": object{"type": "string", "format": "binary"}, "description": "The content; several parts make several files.", "example": []string{"…"}}
	schema["required"] = []string{"file"}
	return &content{media: "multipart/form-data", schema: schema}
}

// A component is a named schema.
type component struct {
	name  string
	value field.Shaped
	mode  mode
}

// mode says how a shape is used: shown, read to create, or read to change.
type mode int

const (
	shown mode = iota
	create
	edit
)

func components() []component {
	file := record.NewForm(record.Files)
	all := []component{
		{"FileEdit", record.FileEdit{Form: file}, edit},
		{"Folder", new(shownFolder), shown},
		{"FolderCreate", record.FolderForm(record.Folder{}), create},
		{"FolderEdit", record.FolderForm(record.Folder{}), edit},
		{"Tag", new(shownTag), shown},
		{"TagCreate", record.TagForm(record.Tag{}), create},
		{"TagEdit", record.TagForm(record.Tag{}), edit},
		{"TagMerge", new(mergeForm), create},
		{"User", new(shownUser), shown},
		{"UserCreate", newUserForm(), create},
		{"UserEdit", newUserEdit(), edit},
		{"MeEdit", new(meForm), edit},
		{"Key", new(shownKey), shown},
		{"KeyCreate", &keyForm{fresh: true}, create},
		{"KeyEdit", new(keyForm), edit},
		{"Settings", new(record.Settings), shown},
		{"SettingsEdit", new(record.Settings), edit},
		{"Stats", new(stats), shown},
		{"Health", new(health), shown},
		{"SearchResult", &result{Shown: record.Shown{Record: record.Record{Kind: record.Notes}}}, shown},
		{"Password", new(passwordForm), create},
		{"Login", new(loginForm), create},
		{"Session", new(shownSession), shown},
		{"Device", new(deviceForm), create},
		{"DevicePoll", new(tokenForm), create},
		{"DeviceDecision", new(verifyForm), create},
		{"Webhook", new(shownWebhook), shown},
		{"WebhookCreate", blankWebhook(), create},
		{"WebhookEdit", blankWebhook(), edit},
		{"Delivery", new(shownDelivery), shown},
		{"UploadRequest", new(record.ShownRequest), shown},
		{"UploadRequestCreate", new(record.RequestForm), create},
		{"UploadRequestEdit", new(record.RequestForm), edit},
		{"UploadItem", new(record.Item), shown},
		{"UploadDecision", new(record.Decision), create},
		{"UploadReceipt", record.Receipt{Item: new(record.Item)}, shown},
		{"CaptchaToken", new(tokenOfCaptcha), create},
		{"ResumableUpload", new(shownUpload), shown},
		{"SentUpload", &shownUpload{Upload: kv.Upload{Request: uuid.Max}}, shown},
		{"Import", new(shownImport), shown},
		{"Setup", new(shownSetup), shown},
		{"SetupCreate", new(setupForm), create},
		{"SetupMade", new(madeSetup), shown},
		{"RemoteUpload", new(shownFetch), shown},
	}
	for _, k := range record.Kinds {
		all = append(all, component{title(k.Name), &record.Shown{Record: record.Record{Kind: k}}, shown})
		if k != record.Files {
			all = append(all, component{title(k.Name) + "Create", record.NewForm(k), create}, component{title(k.Name) + "Edit", record.NewForm(k), edit},
				component{"Shared" + title(k.Name), &record.Shown{Record: record.Record{Kind: k}, Visitor: true}, shown})
		}
	}
	return all
}

// shapeOf is the schema of an object of the shape in the given use.
func shapeOf(v field.Shaped, m mode) object {
	of := object{}
	var required []string
	for _, f := range field.Of(v).Members() {
		if m == shown && f.Traits&field.WriteOnly != 0 || m != shown && f.Traits&field.ReadOnly != 0 {
			continue
		}
		as := f.Schema()
		switch m {
		case create:
			as.Nullable = f.Traits&field.Required == 0
		case edit:
			as.Nullable = f.Clears()
		}
		s := schemaOf(as)
		if at := s["$ref"]; at != nil { // nothing may stand beside a reference
			s = object{"allOf": []object{s}}
		}
		if f.Doc != "" {
			s["description"] = f.Doc
		}
		if f.Example != "" {
			s["example"] = json.RawMessage(f.Example)
		}
		of[f.Name] = s
		if m == shown || m == create && f.Traits&field.Required != 0 {
			required = append(required, f.Name)
		}
	}
	out := object{"type": "object", "properties": of}
	if required != nil {
		out["required"] = required
	}
	return out
}

// schemaOf writes a schema down.
func schemaOf(s field.Schema) object {
	out := object{"type": s.Type}
	put := func(name string, v any, there bool) {
		if there {
			out[name] = v
		}
	}
	put("format", s.Format, s.Format != "")
	put("pattern", s.Pattern, s.Pattern != "")
	put("minLength", s.MinLength, s.MinLength > 0)
	put("maxLength", s.MaxLength, s.MaxLength > 0)
	put("maxItems", s.MaxItems, s.MaxItems > 0)
	put("nullable", true, s.Nullable)
	if s.Min != nil {
		put("minimum", *s.Min, true)
	}
	if s.Max != nil {
		put("maximum", *s.Max, true)
	}
	switch {
	case len(s.Enum) == 1: // a word that says what the object is
		put("enum", s.Enum, true)
	case s.Enum != nil && s.Nullable:
		return enumOf(s.Enum, true)
	case s.Enum != nil:
		return enumOf(s.Enum, false)
	}
	if s.Free {
		put("additionalProperties", true, true)
	}
	if s.Items != nil {
		name := "items"
		if s.Free {
			name = "additionalProperties"
		}
		put(name, schemaOf(*s.Items), true)
	}
	if s.Members != nil {
		of := object{}
		var names []string
		for _, m := range s.Members {
			ms := schemaOf(m.Schema())
			if ms["$ref"] != nil {
				ms = object{"allOf": []object{ms}}
			}
			if m.Doc != "" {
				ms["description"], ms["example"] = m.Doc, json.RawMessage(m.Example)
			}
			of[m.Name] = ms
			names = append(names, m.Name)
		}
		put("properties", of, true)
		put("required", names, len(names) > 0)
	}
	return out
}
