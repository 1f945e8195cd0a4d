package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"kist/embed"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
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
// routes and the fields, as JSON of which the outer levels are indented. The
// address of its server is the text {base_url}.
func Document() ([]byte, error) {
	d := document{components: object{}}
	for _, c := range components() {
		d.components[c.name] = c.schema()
	}
	d.components["Error"] = object{
		"type": "object", "required": []string{"error", "code", "requestId"},
		"description": "What every failed operation of the API answers.",
		"properties": object{
			"error":     object{"type": "string", "description": "A sentence for a person.", "example": "There is no such note."},
			"code":      object{"type": "string", "description": "A word for a program.", "example": "not_found"},
			"fields":    object{"type": "object", "additionalProperties": object{"type": "string"}, "description": "With 422: what is wrong, by field.", "example": object{}},
			"requestId": object{"type": "string", "description": "The request's name in the log.", "example": "5f2b6c0e9d1a4b7c8e3f0a12"},
		},
	}
	paths := object{}
	var tags []object
	seen := map[string]bool{}
	for _, r := range new(Server).table() {
		if paths[r.path] == nil {
			paths[r.path] = object{}
		}
		paths[r.path].(object)[strings.ToLower(r.method)] = d.operation(r)
		if !seen[r.tag] {
			seen[r.tag] = true
			tags = append(tags, object{"name": r.tag})
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err := enc.Encode(object{
		"openapi": "3.0.3",
		"info": object{
			"title": "kist", "version": "1.0.0", "license": object{"name": "MIT"},
			"description": "Keeps and shares files, bookmarks, notes, snippets, recipes, games and short links. " +
				"Booleans may also be sent as \"true\" and \"false\", numbers as decimal text; unknown members are ignored; null on create means absent; " +
				"the tags of a file may be sent back as they are answered. " +
				"Every address that answers GET answers HEAD alike, without the body, and every address answers OPTIONS with the methods it knows; " +
				"any other method is answered 405 with Allow. None of this is listed. " +
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
			"schemas": d.components,
		},
	})
	return fold(b.Bytes()), err
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

// servedSchema is the shipped document with the base address filled in.
func servedSchema(base string) ([]byte, error) {
	quoted, err := json.Marshal(base)
	if err != nil {
		return nil, fmt.Errorf("base address: %w", err)
	}
	return bytes.Replace(embed.OpenAPI, []byte(`"`+placeholder+`"`), quoted, 1), nil
}

type document struct{ components object }

func (d *document) operation(r route) object {
	op := object{"operationId": r.id, "tags": []string{r.tag}, "summary": r.summary}
	var params []object
	for segment := range strings.SplitSeq(r.path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			params = append(params, object{
				"name": name, "in": "path", "required": true, "description": pathParams[name].doc,
				"schema": object{"type": "string"}, "example": pathParams[name].example,
			})
		}
	}
	for _, p := range r.args {
		params = append(params, object{"name": p.name, "in": p.in, "description": p.doc, "schema": p.schema, "example": p.example})
	}
	if params != nil {
		op["parameters"] = params
	}
	switch {
	case r.door.open:
		op["security"] = []object{}
	case r.door.held && r.door.admin:
		op["description"] = "Any API key of an administrator will do."
	case r.door.held:
		op["description"] = "Any API key will do."
	case r.door.browser:
		op["security"] = []object{{"Session": []string{}}}
		op["description"] = "Only for a browser that is signed in."
	case r.door.yours:
		op["description"] = "For a browser that is signed in; an API key needs the scope admin, and its user must be an administrator."
	default:
		op["description"] = "An API key needs the scope " + string(r.door.scope) + "."
	}
	if r.body != nil {
		op["requestBody"] = object{"required": !r.body.optional, "content": d.media(r.body)}
	}
	answers := object{strconv.Itoa(r.reply.status): d.answer(r.reply.doc, r.reply.body)}
	if r.plain != nil {
		answers[strconv.Itoa(r.reply.status)] = d.answer(r.reply.doc+" As text, to Accept: text/plain, "+r.plain.doc+".", r.reply.body, textOf(r.plain.example))
	}
	for _, status := range r.statuses() {
		switch {
		case status < 400:
			answers[strconv.Itoa(status)] = d.answer(statusText(status)+".", map[int]*content{http.StatusOK: pageOf(), http.StatusPartialContent: r.reply.body}[status])
		case r.plain != nil:
			answers[strconv.Itoa(status)] = d.answer(statusText(status)+".", jsonOf(ref("Error"), failure(status)), textOf("A sentence that says why.\n"))
		case strings.HasPrefix(r.path, apiPath):
			answers[strconv.Itoa(status)] = d.answer(statusText(status)+".", jsonOf(ref("Error"), failure(status)))
		default:
			answers[strconv.Itoa(status)] = object{"description": statusText(status) + ".", "content": object{
				"text/plain": object{"schema": object{"type": "string"}, "example": "There is no such item.\n"},
				"text/html":  object{"schema": object{"type": "string"}, "example": "<!doctype html>…"},
			}}
		}
	}
	op["responses"] = answers
	return op
}

// statuses are those that the operation may answer with beside the one that it
// is for: errors, 206, 304, and 200 with a page where that is a redirect.
func (r *route) statuses() []int {
	all := append([]int{http.StatusBadRequest, http.StatusInternalServerError}, r.fails...)
	if !r.door.open {
		all = append(all, http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable)
		if r.method != http.MethodGet {
			all = append(all, http.StatusInsufficientStorage)
		}
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
		http.StatusUnprocessableEntity:          {"invalid_fields", "Title is required."},
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
	example := c.example
	if example == nil {
		example = d.example(c.schema)
	}
	return object{c.media: object{"schema": c.schema, "example": example}}
}

// example makes an example of a schema out of those of its members.
func (d *document) example(schema object) any {
	if at, ok := schema["$ref"].(string); ok {
		named, _ := d.components[strings.TrimPrefix(at, "#/components/schemas/")].(object)
		return d.example(named)
	}
	if e, ok := schema["example"]; ok {
		return e
	}
	if either, ok := schema["oneOf"].([]object); ok {
		return d.example(either[0])
	}
	if parts, ok := schema["allOf"].([]object); ok {
		out := object{}
		for _, part := range parts {
			maps.Copy(out, d.example(part).(object))
		}
		return out
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

func ref(name string) object { return object{"$ref": "#/components/schemas/" + name} }

func members(of object, required ...string) object {
	return object{"type": "object", "properties": of, "required": required}
}

func jsonOf(schema object, example any) *content {
	return &content{media: jsonType, schema: schema, example: example}
}

func bodyOf(name string) *content { return &content{media: jsonType, schema: ref(name)} }

func maybe(c *content) *content {
	c.optional = true
	return c
}

func dataOf(name string) *content {
	return jsonOf(members(object{"data": ref(name)}, "data"), nil)
}

func envelope(name, beside string, schema object, example any) *content {
	schema["example"] = example
	return jsonOf(members(object{"data": ref(name), beside: schema}, "data", beside), nil)
}

func arrayOf(name string) *content { return jsonOf(object{"type": "array", "items": ref(name)}, nil) }

func listOf(name string) *content {
	return jsonOf(members(object{
		"data":       object{"type": "array", "items": ref(name)},
		"total":      object{"type": "integer", "description": "Of the whole list."},
		"nextCursor": object{"type": "string", "nullable": true, "example": nil, "description": "Start of the next page; null at the end."},
	}, "data", "total", "nextCursor"), nil)
}

func pageOfRecords(k *record.Kind) *content { return listOf(title(k.Name)) }

var done = reply{http.StatusOK, "Done.", jsonOf(members(object{"ok": object{"type": "boolean", "enum": []bool{true}}}, "ok"), object{"ok": true})}

// deletionLink and thumbnailLink are addresses that answers to creations have
// beside the record.
func deletionLink() object {
	return object{"type": "string", "format": "uri", "description": "Where whoever knows the address can delete this, on a page that asks first. It is told this once.", "example": "https://kist.example.org" + deletionPath + "AZCl…"}
}

func thumbnailLink() object {
	return object{"type": "string", "format": "uri", "description": "A small picture of it; absent where none can be made.", "example": "https://kist.example.org/t/summer-24"}
}

// createdOf is the answer to a new record of a kind.
func createdOf(k *record.Kind) *content {
	c := envelope(title(k.Name), "url", object{"type": "string", "format": "uri"}, "https://kist.example.org/v/summer-24")
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
	file := object{"allOf": []object{ref("File"), members(object{"thumbnailUrl": thumbnailLink(), "deletionUrl": deletionLink()}, "deletionUrl")}}
	return jsonOf(object{"oneOf": []object{file, members(object{"files": object{"type": "array", "items": file}}, "files")}}, nil)
}

func textOf(example string) *content {
	return &content{media: "text/plain", schema: object{"type": "string"}, example: example}
}

func pageOf() *content {
	return &content{media: "text/html", schema: object{"type": "string"}, example: "<!doctype html>…"}
}

func bytesOf() *content {
	return &content{media: "*/*", schema: object{"type": "string", "format": "binary"}, example: "…"}
}

func formOf(v field.Shaped) *content {
	return &content{media: "application/x-www-form-urlencoded", schema: shapeOf(v, create)}
}

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

func (c component) schema() object { return shapeOf(c.value, c.mode) }

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
		{"UserEdit", newUserForm(), edit},
		{"MeEdit", new(meForm), edit},
		{"Key", new(shownKey), shown},
		{"KeyCreate", &keyForm{fresh: true}, create},
		{"KeyEdit", new(keyForm), edit},
		{"Settings", new(record.Settings), shown},
		{"SettingsEdit", new(record.Settings), edit},
		{"Stats", new(stats), shown},
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
		s := schemaOf(f.Schema())
		switch {
		case m == create && f.Traits&field.Required == 0, m == edit && f.Clears():
			nullable(s)
		case m != shown:
			delete(s, "nullable")
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

func nullable(s object) {
	s["nullable"] = true
	if words, ok := s["enum"].([]any); ok && !slices.Contains(words, nil) {
		s["enum"] = append(words, nil)
	}
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
	if s.Min != nil {
		put("minimum", *s.Min, true)
	}
	if s.Max != nil {
		put("maximum", *s.Max, true)
	}
	if s.Enum != nil {
		words := make([]any, len(s.Enum))
		for i, w := range s.Enum {
			words[i] = w
		}
		out["enum"] = words
	}
	if s.Nullable {
		nullable(out)
	}
	if s.Items != nil {
		name := "items"
		if s.Free {
			name = "additionalProperties"
		}
		out[name] = schemaOf(*s.Items)
	}
	if s.Members != nil {
		of := object{}
		var names []string
		for _, m := range s.Members {
			ms := schemaOf(m.Schema())
			if m.Doc != "" {
				ms["description"], ms["example"] = m.Doc, json.RawMessage(m.Example)
			}
			of[m.Name] = ms
			names = append(names, m.Name)
		}
		out["properties"], out["required"] = of, names
	}
	return out
}
