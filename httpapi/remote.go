package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"kist/httpapi/outbound"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
)

// Bounds of a request for remote uploads.
const (
	maxSecrets  = 10 // different passwords: each takes a while to hash
	maxReported = 10 // entries of which it is said what is wrong with them
)

// remoteForm is what is said of a file that is to be fetched.
type remoteForm struct {
	url string
	*record.Form
}

func newRemoteForm() *remoteForm { return &remoteForm{Form: record.NewForm(record.Files)} }

func (f *remoteForm) Fields(s *field.Set) {
	s.URL("url", &f.url, field.Required, field.Filled).Says("Address of the file.", `"https://example.org/holiday.mp4"`)
	record.Upload{Form: f.Form}.Fields(s)
}

// keptNames are the members of a remoteForm that go into the queue with what is
// said of the file.
var keptNames = func() (names []string) {
	for _, f := range field.Of(newRemoteForm()).Fields() {
		if f.Name != "url" && f.Name != "password" {
			names = append(names, f.Name)
		}
	}
	return names
}()

// fetchForm reads back what the queue has.
func fetchForm(fields string) (*record.Form, error) {
	in, err := field.Parse([]byte(fields))
	form := record.NewForm(record.Files)
	if err == nil {
		err = field.Create(record.Upload{Form: form}, in)
	}
	if err != nil { // it is nobody's fault who asks now
		return nil, fmt.Errorf("the fields of a remote upload: %w", errors.New(err.Error()))
	}
	return form, nil
}

// remoteFile is one file of a request: where it stands there, and what is said of it.
type remoteFile struct {
	list string // "", urls or items
	no   int    // in the list, from 1
	in   field.Object
	own  field.Object // of an item: what it says itself, without what is said of all
	form *remoteForm
}

// kept is what goes into the queue: of each name that was given the value as it
// was read, which is bounded, and not as it was written.
func (w *remoteFile) kept() (string, error) {
	read, err := field.Parse(field.AppendJSON(nil, w.form))
	if err != nil {
		return "", err
	}
	kept := field.Object{}
	for _, name := range keptNames {
		if w.in[name] != nil {
			kept[name] = read[name]
		}
	}
	fields, err := json.Marshal(kept)
	return string(fields), err
}

// remoteFilesOf reads which files a request is for, of url, urls and items in this
// order. One text counts as a list of it for urls, one object for items, as
// Apple's Shortcuts send them. What is said beside them is said of each file,
// except where an item says otherwise: null says nothing.
func remoteFilesOf(in field.Object) ([]remoteFile, error) {
	bad := field.Problems{}
	list := func(name string) []any {
		switch v := in[name].(type) {
		case nil:
			return nil
		case []any:
			if len(v) > kv.MaxFetches {
				bad[name] = fmt.Sprintf("must have at most %d entries", kv.MaxFetches)
				return nil
			}
			return v
		case string:
			if name == "urls" {
				return []any{v}
			}
		case field.Object:
			if name == "items" {
				return []any{v}
			}
		}
		bad[name] = "must be a list"
		return nil
	}
	shared := field.Object{"password": in["password"]}
	for _, name := range keptNames {
		shared[name] = in[name]
	}
	with := func(owned field.Object) field.Object {
		one := maps.Clone(shared)
		for name, v := range owned {
			if v != nil {
				one[name] = v
			}
		}
		return one
	}
	var all []remoteFile
	if in["url"] != nil {
		all = append(all, remoteFile{in: in})
	}
	for i, v := range list("urls") {
		all = append(all, remoteFile{list: "urls", no: i + 1, in: with(field.Object{"url": v})})
	}
	for i, v := range list("items") {
		one, ok := v.(field.Object)
		if !ok {
			bad["items"] = fmt.Sprintf("has a bad entry: number %d must be an object", i+1)
		}
		all = append(all, remoteFile{list: "items", no: i + 1, in: with(one), own: one})
	}
	if len(all) > 1 {
		for _, name := range []string{"slug", "name"} {
			if t, _ := in[name].(string); t != "" {
				bad[name] = "can be given to one file only; use items"
			}
		}
	}
	if len(all) == 0 && len(bad) == 0 {
		bad["url"] = "is required, or urls or items"
	}
	return all, joinProblems(bad)
}

// decodeRemoteFiles reads the forms of the files. Its error names what is wrong with each,
// by the numbers of the entries.
func (c *request) decodeRemoteFiles(all []remoteFile) error {
	bad := field.Problems{}
	entries, more := map[string][]string{}, map[string]int{}
	for i := range all {
		w := &all[i]
		w.form = newRemoteForm()
		problems := field.Create(w.form, w.in)
		var refused error
		if why := closed(c.s.Outbound, w.form.url); why != "" {
			refused = field.Problems{"url": why}
		}
		var wrong *record.Error
		if err := joinProblems(problems, w.form.CheckNew(c.s.Store.Now()), refused); err == nil {
			continue
		} else if !errors.As(err, &wrong) {
			return err
		}
		text := ""
		owned := field.Problems{}
		for name, why := range wrong.Fields {
			switch {
			case w.own[name] != nil, w.list == "items" && name == "url":
				owned[name] = why
			case name == "url" && w.list != "":
				text = " " + why
			default: // what is said of all is wrong once
				bad[name] = why
			}
		}
		if len(owned) > 0 {
			text = ": " + owned.Error()
		}
		switch {
		case text == "":
		case len(entries[w.list]) == maxReported:
			more[w.list]++
		default:
			entries[w.list] = append(entries[w.list], fmt.Sprintf("number %d%s", w.no, text))
		}
	}
	for list, texts := range entries {
		if bad[list] = "has a bad entry: " + strings.Join(texts, "; "); more[list] > 0 {
			bad[list] += fmt.Sprintf("; and %d more", more[list])
		}
	}
	return joinProblems(bad)
}

// startFetches queues files to be fetched: all that the request names, or none.
func startFetches(c *request) error {
	in, err := c.readObject(smallBody, nil)
	if err != nil {
		return err
	}
	all, err := remoteFilesOf(in)
	if err != nil {
		return err
	}
	if err := c.decodeRemoteFiles(all); err != nil {
		return err
	}
	hashes := map[string]string{"": ""}
	for _, w := range all {
		t := w.form.Password
		if _, done := hashes[t.Text]; done {
			continue
		}
		if len(hashes) > maxSecrets {
			return record.Bad(field.Problems{"password": fmt.Sprintf("must not be more than %d different ones", maxSecrets)})
		}
		if hashes[t.Text], err = c.hash(t); err != nil {
			return err
		}
	}
	queued := make([]record.Fetch, len(all))
	for i, w := range all {
		fields, err := w.kept()
		if err != nil {
			return err
		}
		queued[i] = record.Fetch{
			Owner: c.owner(), By: c.asker(), URL: w.form.url, Fields: fields, Password: hashes[w.form.Password.Text], Slug: w.form.Slug,
			Name: w.form.Body.(*record.File).OriginalName,
		}
	}
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		for i := range queued {
			f, err := tx.AddFetch(queued[i])
			if err != nil {
				return err
			}
			queued[i] = *f
		}
		return nil
	}); err != nil {
		return err
	}
	c.s.fetcher.rescan()
	return c.answerFetches(http.StatusAccepted, queued)
}

// asker is the API key that asks for a remote upload. A session is none: what its
// user has asked for goes on after they have signed out.
func (c *request) asker() record.ID {
	if c.caller.Key.Session {
		return uuid.Nil
	}
	return c.caller.Key.ID
}

// shownFetch is a remote upload as its owner sees it.
type shownFetch struct {
	record.Fetch
	file []byte // JSON of the file that was made; nil if there is none
}

func (v *shownFetch) Fields(s *field.Set) {
	text := field.Schema{Type: "string"}
	s.ID("id", &v.ID, field.Always).Says("Id of the remote upload.", sampleID)
	s.URL("url", &v.URL, field.Always).Says("Address of the file.", `"https://example.org/holiday.mp4"`)
	s.Text("name", &v.Name, record.MaxFileName).Says("Name of the file; empty as long as it is not known.", `"holiday.mp4"`)
	field.Choice(s, "state", &v.State, record.FetchStates).
		Says("How far it is; waiting is for its turn, or for another try. What is over is remembered for a week.", `"running"`)
	s.Number("bytes", &v.Bytes, 0, 1<<62).Says("Bytes that came in.", `1048576`)
	s.MaybeNumber("total", &v.Total, 0, 1<<62).Says("Bytes of the whole; null if that is not known.", `20971520`)
	s.Shown("tries", field.Schema{Type: "integer"}, func(dst []byte) []byte { return fmt.Append(dst, v.Tries) }).Says("How often it was tried, of five times.", `1`)
	s.Time("nextTryAt", &v.Due).Says("When it may be tried; null if it does not wait.", `null`)
	s.Shown("error", text, func(dst []byte) []byte { return field.AppendString(dst, v.Problem) }).
		Says("What the last try failed by; empty if it did not.", `""`)
	s.Shown("file", field.Schema{Type: "object", Nullable: true, Members: field.Of(new(madeFile)).Members()}, func(dst []byte) []byte {
		if v.file == nil {
			return append(dst, "null"...)
		}
		return append(dst, v.file...)
	}).Says("The file that was made; null if there is none, or none any more.", `{"id":`+sampleID+`,"slug":"summer-24","url":"https://kist.example.org/x/summer-24"}`)
	s.Time("createdAt", &v.Created, field.Always).Says("When it was asked for.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("endedAt", &v.Ended).Says("When it was over; null if it is not.", `null`)
}

// madeFile names the file that a remote upload became.
type madeFile struct{ record.Shown }

func (v *madeFile) Fields(s *field.Set) {
	text := field.Schema{Type: "string"}
	s.ID("id", &v.ID, field.Always).Says("Id of the file.", sampleID)
	s.Shown("slug", text, func(dst []byte) []byte { return field.AppendString(dst, v.Slug) }).Says("Its slug.", `"summer-24"`)
	s.Shown("url", field.Schema{Type: "string", Format: "uri"}, v.AppendURL).Says("Where others reach it.", `"https://kist.example.org/x/summer-24"`)
}

// showFetch is a remote upload as it is at this moment.
func (s *site) showFetch(tx *kv.Tx, f *record.Fetch) (*shownFetch, error) {
	v := &shownFetch{Fetch: *f}
	if at := s.fetcher.running(f.ID); at != nil && f.State == record.FetchRuns {
		v.Bytes = max(v.Bytes, at.bytes.Load())
	}
	if f.File == uuid.Nil {
		return v, nil
	}
	r, err := tx.Owned(f.Owner, record.Files, f.File)
	if missing(err) {
		return v, nil
	}
	if err == nil {
		v.file = field.AppendJSON(nil, &madeFile{record.Shown{Record: *r, Base: s.Base}})
	}
	return v, err
}

// answerFetches answers with remote uploads in the order given.
func (c *request) answerFetches(status int, all []record.Fetch) error {
	shown := make([]*shownFetch, len(all))
	if err := c.s.Store.View(func(tx *kv.Tx) (err error) {
		for i := range all {
			if shown[i], err = c.s.showFetch(tx, &all[i]); err != nil {
				return err
			}
			shown[i].Problem = c.hide(shown[i].Problem)
		}
		return nil
	}); err != nil {
		return err
	}
	return c.respond(status, func(dst []byte) ([]byte, error) {
		return append(appendAll(append(dst, `{"jobs":`...), shown), '}'), nil
	})
}

// listFetches lists the caller's remote uploads, newest first. Clients try any
// key here; one that may not read sees those that it asked for.
func listFetches(c *request) error {
	var all []record.Fetch
	if err := c.s.Store.View(func(tx *kv.Tx) (err error) { all, err = tx.Fetches(c.owner()); return err }); err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(f record.Fetch) bool { return !c.maySee(f.By) })
	slices.Reverse(all)
	return c.answerFetches(http.StatusOK, all)
}

// fetch reads a remote upload that the caller may know of.
func (c *request) fetch(tx *kv.Tx, id record.ID) (*record.Fetch, error) {
	f, err := tx.Fetch(c.owner(), id)
	if err == nil && !c.maySee(f.By) {
		return nil, record.NotFound("remote upload")
	}
	return f, err
}

// hide takes the addresses of hosts out of a sentence of package outbound,
// unless the caller is an administrator: they tell of the server's network.
func (c *request) hide(text string) string {
	if c.caller.User.Role == record.Admin {
		return text
	}
	return outbound.Hide(text)
}

// answerFetch answers with the remote upload that the path names.
func (c *request) answerFetch(id record.ID) error {
	var v *shownFetch
	if err := c.s.Store.View(func(tx *kv.Tx) error {
		f, err := c.fetch(tx, id)
		if err == nil {
			v, err = c.s.showFetch(tx, f)
		}
		if err == nil {
			v.Problem = c.hide(v.Problem)
		}
		return err
	}); err != nil {
		return err
	}
	return c.respondData(http.StatusOK, v)
}

func readFetch(c *request) error {
	id, err := c.uuid("remote upload")
	if err != nil {
		return err
	}
	return c.answerFetch(id)
}

// fetchAction is what is to be done with a remote upload.
type fetchAction struct{ action string }

// What may be done.
const (
	cancelFetch = "cancel"
	retryFetch  = "retry"
)

var fetchActions = []string{cancelFetch, retryFetch}

func (f *fetchAction) Fields(s *field.Set) {
	field.Choice(s, "action", &f.action, fetchActions, field.Required).
		Says("cancel ends it; retry tries again what failed or was cancelled.", `"retry"`)
}

func patchFetch(c *request) error {
	id, err := c.uuid("remote upload")
	if err != nil {
		return err
	}
	form := new(fetchAction)
	if err := joinProblems(c.decodeNew(form)); err != nil {
		return err
	}
	verb := (*kv.Tx).CancelFetch
	if form.action == retryFetch {
		verb = func(tx *kv.Tx, owner, id record.ID) error { return tx.RetryFetch(owner, id, c.asker()) }
	}
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		if _, err := c.fetch(tx, id); err != nil {
			return err
		}
		return verb(tx, c.owner(), id)
	}); err != nil {
		return err
	}
	if form.action == cancelFetch {
		c.s.fetcher.cancel(id)
	}
	c.s.fetcher.rescan()
	return c.answerFetch(id)
}

func removeFetch(c *request) error {
	id, err := c.uuid("remote upload")
	if err != nil {
		return err
	}
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		if _, err := c.fetch(tx, id); err != nil {
			return err
		}
		return tx.RemoveFetch(c.owner(), id)
	}); err != nil {
		return err
	}
	c.s.fetcher.cancel(id)
	return c.respondOK()
}

func clearFetches(c *request) error {
	if err := c.s.Store.Update(func(tx *kv.Tx) error { return tx.ClearFetches(c.owner()) }); err != nil {
		return err
	}
	return c.respondOK()
}

// remoteBody is what a request for remote uploads may say.
func remoteBody() *content {
	item := shapeOf(newRemoteForm(), create)
	schema := shapeOf(newRemoteForm(), create)
	delete(schema, "required")
	of := schema["properties"].(object)
	of["url"].(object)["nullable"] = true
	of["urls"] = object{
		"type": "array", "nullable": true, "maxItems": kv.MaxFetches, "items": object{"type": "string", "format": "uri"},
		"description": "Addresses of several files; one address may also stand without a list. What is said beside them is said of each; name and slug of one alone.", "example": []string{"https://example.org/a.pdf"},
	}
	of["items"] = object{
		"type": "array", "nullable": true, "maxItems": kv.MaxFetches, "items": item,
		"description": "Several files, with what is said of each; one may also stand without a list. What is said beside them is said of each that does not say otherwise.", "example": []object{{"url": "https://example.org/b.pdf", "slug": "b"}},
	}
	return named("RemoteUploadCreate", jsonOf(schema, object{"url": "https://example.org/holiday.mp4", "isPublic": true}))
}

// remoteRoutes are the operations on files that the server fetches.
func remoteRoutes() []route {
	const at = apiPath + "remote-upload"
	jobs := func() *content {
		return named("RemoteUploadList", jsonOf(members(object{"jobs": allOf("RemoteUpload")}, "jobs"), nil))
	}
	return []route{
		{
			method: "GET", path: at, id: "listRemoteUploads", tag: "remote upload",
			summary: "Lists the files that the server fetches or fetched, newest first; to a key without the scope read, those that it asked for. A check for keys of any scope.",
			access:  holders, reply: reply{200, "The remote uploads.", jobs()}, serve: listFetches,
		},
		{
			method: "POST", path: at, id: "startRemoteUpload", tag: "remote upload",
			summary: "Has the server fetch files from addresses, in the background: all that are named, or none. At most 100 wait at once.",
			access:  uploads, body: remoteBody(), reply: reply{202, "The remote uploads, which wait for their turn.", jobs()}, fails: []int{409}, serve: startFetches,
		},
		{
			method: "DELETE", path: at, id: "clearRemoteUploads", tag: "remote upload", summary: "Forgets the remote uploads that are over; the files stay.",
			access: writes, reply: done, serve: clearFetches,
		},
		{
			method: "GET", path: at + "/{id}", id: "readRemoteUpload", tag: "remote upload", summary: "Says how far a remote upload is, and what came of it.",
			access: uploads, reply: reply{200, "The remote upload.", dataOf("RemoteUpload")}, fails: []int{404}, serve: readFetch,
		},
		{
			method: "PATCH", path: at + "/{id}", id: "decideRemoteUpload", tag: "remote upload", summary: "Cancels a remote upload, or tries it again.",
			access: uploads, body: named("RemoteUploadDecision", jsonOf(shapeOf(new(fetchAction), create), nil)), reply: reply{200, "The remote upload.", dataOf("RemoteUpload")}, fails: []int{404, 409}, serve: patchFetch,
		},
		{
			method: "DELETE", path: at + "/{id}", id: "removeRemoteUpload", tag: "remote upload", summary: "Cancels a remote upload if it is not over, and forgets it; the file it made stays.",
			access: uploads, reply: done, fails: []int{404}, serve: removeFetch,
		},
	}
}
