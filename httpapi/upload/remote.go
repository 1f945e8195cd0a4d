package upload

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
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
)

// Bounds of a request for remote uploads.
const (
	MaxSecrets  = 10 // different passwords, because each takes a while to hash
	MaxReported = 10 // entries whose problems are reported
)

type remoteForm struct {
	url string
	*record.Form
}

func NewRemoteForm() *remoteForm { return &remoteForm{Form: record.NewForm(record.Files)} }

func (f *remoteForm) Fields(s *field.Set) {
	s.URL("url", &f.url, field.Required, field.Filled).Says("Address of the file.", `"https://example.org/holiday.mp4"`)
	record.Upload{Form: f.Form}.Fields(s)
}

// keptNames are the members of a remoteForm that are stored in the queue.
var keptNames = func() (names []string) {
	for _, f := range field.Of(NewRemoteForm()).Fields() {
		if f.Name != "url" && f.Name != "password" {
			names = append(names, f.Name)
		}
	}
	return names
}()

// FetchForm reads the form of a queued file.
func FetchForm(fields string) (*record.Form, error) {
	form := record.NewForm(record.Files)
	if err := fillFetchForm(form, fields); err != nil { // not an error of the current request
		return nil, fmt.Errorf("the fields of a remote upload: %w", errors.New(err.Error()))
	}
	return form, nil
}

func fillFetchForm(form *record.Form, fields string) error {
	in, err := field.Parse([]byte(fields))
	if err != nil {
		return err
	}
	return field.Create(record.Upload{Form: form}, in)
}

// remoteFile is one file of a request: its place in the request and its form.
type remoteFile struct {
	list       string // "", urls or items
	no         int    // in the list, from 1
	in         field.Object
	ownMembers field.Object // an item's own members, without those for all files
	form       *remoteForm
}

// kept is what is stored in the queue: the given members with their parsed values, which are
// bounded, unlike the original text.
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

// remoteFilesOf reads the files of a request, from url, urls and items in this order. urls may be a
// single text and items a single object, as Apple's Shortcuts send them. Members beside these lists
// apply to each file, unless an item has its own value; null does not count as one.
func remoteFilesOf(in field.Object) ([]remoteFile, error) {
	bad := field.Problems{}
	list := func(name string) []any {
		switch v := in[name].(type) {
		case nil:
			return nil
		case []any:
			if len(v) > jobs.MaxFetches {
				bad[name] = fmt.Sprintf("must have at most %d entries", jobs.MaxFetches)
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
		all = append(all, remoteFile{list: "items", no: i + 1, in: with(one), ownMembers: one})
	}
	if len(all) > 1 {
		for _, name := range []string{"slug", "name"} {
			if t, _ := in[name].(string); t != "" {
				bad[name] = "can be given to one file only; use items"
			}
		}
	}
	if len(all) == 0 && len(bad) == 0 {
		bad["url"] = "is required, unless there are urls or items"
	}
	return all, web.JoinProblems(bad)
}

// decodeRemoteFiles reads the forms of the files. Its error names the problems by the numbers of
// the entries.
func decodeRemoteFiles(c *web.Request, all []remoteFile) error {
	bad := field.Problems{}
	entries, more := map[string][]string{}, map[string]int{}
	for i := range all {
		w := &all[i]
		w.form = NewRemoteForm()
		problems := field.Create(w.form, w.in)
		unknown := c.RefuseUnknown(w.form, w.ownMembers)
		var refused error
		if why := c.Site.Outbound.Refuses(w.form.url); why != "" {
			refused = field.Problems{"url": why}
		}
		err := web.JoinProblems(problems, unknown, w.form.CheckNew(c.Site.Store.Now()), refused)
		if err == nil {
			continue
		}
		var wrong *record.Error
		if !errors.As(err, &wrong) {
			return err
		}
		text := ""
		owned := field.Problems{}
		for name, why := range wrong.Fields {
			switch {
			case w.ownMembers[name] != nil, w.list == "items" && name == "url":
				owned[name] = why
			case name == "url" && w.list != "":
				text = " " + why
			default: // report a problem that all share once
				bad[name] = why
			}
		}
		if len(owned) > 0 {
			text = ": " + owned.Error()
		}
		switch {
		case text == "":
		case len(entries[w.list]) == MaxReported:
			more[w.list]++
		default:
			entries[w.list] = append(entries[w.list], fmt.Sprintf("number %d%s", w.no, text))
		}
	}
	for list, texts := range entries {
		bad[list] = "has a bad entry: " + strings.Join(texts, "; ")
		if more[list] > 0 {
			bad[list] += fmt.Sprintf("; and %d more", more[list])
		}
	}
	return web.JoinProblems(bad)
}

var StartRemoteUpload = web.Operation{
	Tag: "upload-from-address", Summary: "Makes the server fetch files from addresses in the background. Either all of them " +
		"are queued, or none. At most 100 can be waiting.",
	Body:  web.BodyOf("RemoteUploadCreate"),
	Reply: web.Reply{Status: 202, Doc: "The queued remote uploads.", Body: web.ListOf("RemoteUpload")},
	Fails: []int{409},
	Serve: startRemoteUpload,
}

func startRemoteUpload(c *web.Request) error {
	in, err := c.ReadObject(web.SmallBody, nil)
	if err != nil {
		return err
	}
	if err := web.JoinProblems(c.RefuseUnknown(NewRemoteForm(), in, "urls", "items")); err != nil {
		return err
	}
	all, err := remoteFilesOf(in)
	if err != nil {
		return err
	}
	if err := decodeRemoteFiles(c, all); err != nil {
		return err
	}
	hashes := map[string]string{"": ""}
	for _, w := range all {
		t := w.form.Password
		if _, done := hashes[t.Text]; done {
			continue
		}
		if len(hashes) > MaxSecrets {
			return record.Bad(field.Problems{"password": fmt.Sprintf("must not be more than %d different ones", MaxSecrets)})
		}
		hashes[t.Text], err = c.Hash(t)
		if err != nil {
			return err
		}
	}
	queued := make([]jobs.Fetch, len(all))
	for i, w := range all {
		fields, err := w.kept()
		if err != nil {
			return err
		}
		queued[i] = jobs.Fetch{
			Owner: c.Owner(), By: c.Caller.Key.ID, URL: w.form.url, Fields: fields, Password: hashes[w.form.Password.Text], Slug: w.form.Slug,
			Name: w.form.Body.(*record.File).OriginalName,
		}
	}
	defer c.Site.Fetches.Rescan()
	return c.Create(func(tx *kv.Tx) (web.Created, error) {
		for i := range queued {
			f, err := jobs.AddFetch(tx, queued[i])
			if err != nil {
				return web.Created{}, err
			}
			queued[i] = *f
		}
		shown, err := showFetches(c, tx, queued)
		return web.Created{Append: func(dst []byte) ([]byte, error) {
			return append(web.AppendAll(append(dst, `{"jobs":`...), shown), '}'), nil
		}}, err
	})
}

// ShownFetch is a remote upload as its owner sees it.
type ShownFetch struct {
	jobs.Fetch
	file []byte // JSON of the resulting file, or nil
}

func (v *ShownFetch) Fields(s *field.Set) {
	text := field.Schema{Type: "string"}
	s.ID("id", &v.ID, field.Always).Says("Id of the remote upload.", web.SampleID)
	s.URL("url", &v.URL, field.Always).Says("Address of the file.", `"https://example.org/holiday.mp4"`)
	s.Text("name", &v.Name, record.MaxFileName).Says("Name of the file; empty while unknown.", `"holiday.mp4"`)
	field.Choice(s, "state", &v.State, jobs.FetchStates).
		Says(
			"State of the remote upload; waiting means for a free slot or for another attempt. Finished ones are listed for a week.",
			`"running"`,
		)
	s.Number("bytes", &v.Bytes, 0, 1<<62).Says("Bytes received.", `1048576`)
	s.MaybeNumber("total", &v.Total, 0, 1<<62).Says("Total bytes; null if unknown.", `20971520`)
	s.Shown("tries", field.Schema{Type: "integer"}, func(dst []byte) []byte {
		return fmt.Append(dst, v.Tries)
	}).Says("Number of attempts, at most five.", `1`)
	s.Time("nextTryAt", &v.Due).Says("When the next attempt may start; null if it is not waiting.", `null`)
	s.Shown("error", text, func(dst []byte) []byte { return field.AppendString(dst, v.Problem) }).
		Says("The error of the last attempt; empty if there was none.", `""`)
	s.Shown("file", field.Schema{
		Type: "object", Nullable: true, Members: field.Of(new(madeFile)).Members(),
	}, func(dst []byte) []byte {
		if v.file == nil {
			return append(dst, "null"...)
		}
		return append(dst, v.file...)
	}).Says(
		"The resulting file; null before it exists and after it was deleted.",
		`{"id":`+web.SampleID+`,"slug":"summer-24","url":"https://kist.example.org/x/summer-24"}`,
	)
	s.Time("createdAt", &v.Created, field.Always).Says("When it was requested.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("endedAt", &v.Ended).Says("When it ended; null if it has not.", `null`)
}

type madeFile struct{ record.Shown }

func (v *madeFile) Fields(s *field.Set) {
	text := field.Schema{Type: "string"}
	s.ID("id", &v.ID, field.Always).Says("Id of the file.", web.SampleID)
	s.Shown("slug", text, func(dst []byte) []byte {
		return field.AppendString(dst, v.Slug)
	}).Says("Its slug.", `"summer-24"`)
	s.Shown("url", field.Schema{Type: "string", Format: "uri"}, v.AppendURL).Says(
		"Address for others.", `"https://kist.example.org/x/summer-24"`,
	)
}

func showFetch(s *web.Site, tx *kv.Tx, f *jobs.Fetch) (*ShownFetch, error) {
	v := &ShownFetch{Fetch: *f}
	if at := s.Fetches.Running(f.ID); at != nil && f.State == jobs.FetchRuns {
		v.Bytes = max(v.Bytes, at.Bytes.Load())
	}
	if f.File == uuid.Nil {
		return v, nil
	}
	r, err := catalog.Owned(tx, f.Owner, record.Files, f.File)
	if kv.Missing(err) {
		return v, nil
	}
	if err != nil {
		return nil, err
	}
	v.file = field.AppendJSON(nil, &madeFile{record.Shown{Record: *r, Base: s.Base}})
	return v, nil
}

func showFetches(c *web.Request, tx *kv.Tx, all []jobs.Fetch) (shown []*ShownFetch, err error) {
	shown = make([]*ShownFetch, len(all))
	for i := range all {
		v, err := showFetch(c.Site, tx, &all[i])
		if err != nil {
			return nil, err
		}
		v.Problem = Hide(c, v.Problem)
		shown[i] = v
	}
	return shown, nil
}

var ListRemoteUploads = web.Operation{
	Tag: "upload-from-address",
	Summary: "Lists the files that the server is fetching or has fetched, newest first. A key without the scope read " +
		"sees only those that it requested. Clients may use this to check a key of any scope.",
	Reply: web.Reply{Status: 200, Doc: "The remote uploads.", Body: web.ListOf("RemoteUpload")}, Serve: listRemoteUploads,
}

// listRemoteUploads lists the caller's remote uploads, newest first. Clients use it to check any
// key. A key without the scope read sees only those that it requested.
func listRemoteUploads(c *web.Request) error {
	var shown []*ShownFetch
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		all, err := jobs.Fetches(tx, c.Owner())
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(f jobs.Fetch) bool { return !maySee(c, f.By) })
		slices.Reverse(all)
		shown, err = showFetches(c, tx, all)
		return err
	}); err != nil {
		return err
	}
	return web.RespondWhole(c, shown, `{"jobs":`, "}")
}

// requestedFetch reads a remote upload that the caller may see.
func requestedFetch(c *web.Request, tx *kv.Tx, id record.ID) (*jobs.Fetch, error) {
	f, err := jobs.ReadFetch(tx, c.Owner(), id)
	if err != nil {
		return nil, err
	}
	if !maySee(c, f.By) {
		return nil, record.NotFound("remote upload")
	}
	return f, nil
}

// Hide removes the addresses of hosts from a sentence of package outbound, unless the caller is an
// administrator, because they reveal the server's network.
func Hide(c *web.Request, text string) string {
	if c.Caller.User.Role == people.Admin {
		return text
	}
	return outbound.Hide(text)
}

func answerFetch(c *web.Request, id record.ID) error {
	var v *ShownFetch
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		f, err := requestedFetch(c, tx, id)
		if err != nil {
			return err
		}
		v, err = showFetch(c.Site, tx, f)
		if err != nil {
			return err
		}
		v.Problem = Hide(c, v.Problem)
		return nil
	}); err != nil {
		return err
	}
	return c.RespondData(http.StatusOK, v)
}

var ReadRemoteUpload = web.ReadOp(
	"upload-from-address", "Shows the state and the result of a remote upload.", "The remote upload.", "RemoteUpload",
	readRemoteUpload, 404,
)

func readRemoteUpload(c *web.Request) error {
	id, err := c.IDArg("remote upload")
	if err != nil {
		return err
	}
	return answerFetch(c, id)
}

// FetchAction is an action on a remote upload.
type FetchAction struct{ action string }

// The actions.
const (
	cancelFetch = "cancel"
	retryFetch  = "retry"
)

var FetchActions = []string{cancelFetch, retryFetch}

func (f *FetchAction) Fields(s *field.Set) {
	field.Choice(s, "action", &f.action, FetchActions, field.Required).
		Says("cancel stops the remote upload; retry starts a failed or cancelled one again.", `"retry"`)
}

var DecideRemoteUpload = web.Operation{
	Tag: "upload-from-address", Summary: "Cancels or retries a remote upload.",
	Body:  web.BodyOf("RemoteUploadDecision"),
	Reply: web.Reply{Status: 200, Doc: "The remote upload.", Body: web.DataOf("RemoteUpload")},
	Fails: []int{404, 409}, Serve: decideRemoteUpload,
}

func decideRemoteUpload(c *web.Request) error {
	id, err := c.IDArg("remote upload")
	if err != nil {
		return err
	}
	form := new(FetchAction)
	if err := web.JoinProblems(c.DecodeNew(form)); err != nil {
		return err
	}
	verb := jobs.CancelFetch
	if form.action == retryFetch {
		verb = func(tx *kv.Tx, owner, id record.ID) error {
			return jobs.RetryFetch(tx, owner, id, c.Caller.Key.ID)
		}
	}
	if err := c.UpdateAsCaller(func(tx *kv.Tx) error {
		if _, err := requestedFetch(c, tx, id); err != nil {
			return err
		}
		return verb(tx, c.Owner(), id)
	}); err != nil {
		return err
	}
	if form.action == cancelFetch {
		c.Site.Fetches.Cancel(id)
	}
	c.Site.Fetches.Rescan()
	return answerFetch(c, id)
}

var RemoveRemoteUpload = web.DoneOp(
	"upload-from-address", "Forgets a remote upload, and cancels it if it has not ended. Its file stays.", removeRemoteUpload,
	404,
)

func removeRemoteUpload(c *web.Request) error {
	id, err := c.IDArg("remote upload")
	if err != nil {
		return err
	}
	if err := c.Site.Store.Update(func(tx *kv.Tx) error {
		if _, err := requestedFetch(c, tx, id); err != nil {
			return err
		}
		return jobs.RemoveFetch(tx, c.Owner(), id)
	}); err != nil {
		return err
	}
	c.Site.Fetches.Cancel(id)
	return c.RespondOK()
}

var ClearRemoteUploads = web.DoneOp(
	"upload-from-address", "Forgets all remote uploads that have ended. Their files stay.", clearRemoteUploads,
)

func clearRemoteUploads(c *web.Request) error {
	if err := c.Site.Store.Update(func(tx *kv.Tx) error { return jobs.ClearFetches(tx, c.Owner()) }); err != nil {
		return err
	}
	return c.RespondOK()
}
