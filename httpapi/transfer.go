package httpapi

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
	"kist/kv/transfer"
	"kist/kv/transfer/format"
)

// How many imports, and how many exports, are worked on at once; others wait,
// and are told to come back.
const (
	importsAtOnce = 2
	exportsAtOnce = 2
)

// imports are the imports under way, one of an owner at most.
type imports struct {
	mu       sync.Mutex
	running  map[record.ID]*runningImport // by owner; nil: it is received
	ended    bool
	ctx      context.Context
	stop     context.CancelFunc
	work     sync.WaitGroup
	imports  chan struct{}
	exporter chan struct{}
}

// begin readies the movers. They end with end.
func (m *imports) begin() {
	m.running = map[record.ID]*runningImport{}
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.imports, m.exporter = make(chan struct{}, importsAtOnce), make(chan struct{}, exportsAtOnce)
}

// end stops the imports and returns when all are written down.
func (m *imports) end() {
	m.mu.Lock()
	m.ended = true
	m.mu.Unlock()
	m.stop()
	m.work.Wait()
}

// claim keeps the owner's turn.
func (m *imports) claim(owner record.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return kv.ErrClosed
	}
	if _, busy := m.running[owner]; busy {
		return &record.Error{Fault: record.Taken, Code: "import_running", Text: "An import of yours is under way; wait until it is done, or stop it."}
	}
	m.running[owner] = nil
	return nil
}

// free gives the owner's turn back.
func (m *imports) free(owner record.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.running, owner)
}

// of is the owner's import that runs, or nil.
func (m *imports) of(owner, id record.ID) *runningImport {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one := m.running[owner]; one != nil && one.now.ID == id {
		return one
	}
	return nil
}

// runningImport is an import under way.
type runningImport struct {
	mu   sync.Mutex
	now  record.Import
	read atomic.Int64 // bytes of the source
	size int64        // bytes that are read in all
	fill bool         // what is there already is filled in
	stop context.CancelFunc
}

// counting counts what is read of a source.
type counting struct {
	io.ReaderAt
	n *atomic.Int64
}

func (c counting) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, at)
	c.n.Add(int64(n))
	return n, err
}

// tell notes how far the import is.
func (m *runningImport) tell(r *record.Moved) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Moved = *r
	m.now.Moved.Made = maps.Clone(r.Made)
}

// showRunning is the import as it is now, and its progress in per cent.
func showRunning(m *runningImport) *shownImport {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &shownImport{m.now, min(99, m.read.Load()*100/max(m.size, 1))}
}

// shownImport is an import as its owner sees it.
type shownImport struct {
	record.Import
	progress int64
}

func (v *shownImport) Fields(s *field.Set) {
	count := func(name, doc, example string, n *int) {
		s.Shown(name, field.Schema{Type: "integer"}, func(dst []byte) []byte { return strconv.AppendInt(dst, int64(*n), 10) }).Says(doc, example)
	}
	s.ID("id", &v.ID, field.Always).Says("Id of the import.", sampleID)
	s.Text("name", &v.Name, 255).Says("Name of the file.", `"bookmarks.html"`)
	s.Text("format", &v.Moved.Format, 32).Says("Its format.", `"netscape"`)
	s.Bool("dryRun", &v.Moved.DryRun).Says("Whether nothing is kept.", `false`)
	field.Choice(s, "state", &v.State, record.ImportStates).
		Says("How far it is; stopped is by you, or by the server's end. What was imported by then stays, and the same file may be imported again.", `"done"`)
	s.Number("progress", &v.progress, 0, 100).Says("How much of the file was read, in per cent.", `100`)
	count("entries", "Entries that were read.", `120`, &v.Moved.Entries)
	s.Shown("made", field.Schema{Type: "object", Free: true, Items: &field.Schema{Type: "integer"}}, func(dst []byte) []byte {
		dst = append(dst, '{')
		for i, kind := range sortedKeys(v.Moved.Made) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(field.AppendString(dst, kind), ':')
			dst = strconv.AppendInt(dst, v.Moved.Made[kind], 10)
		}
		return append(dst, '}')
	}).Says("What was made, or would be by a dry run: how many of each kind, and of tags and folders.", `{"bookmark":117}`)
	count("there", "Entries that were there already. Without update they were not changed.", `1`, &v.Moved.There)
	count("updated", "Of those, how many were filled in, or would be by a dry run.", `0`, &v.Moved.Updated)
	count("refused", "Entries that cannot be kept.", `2`, &v.Moved.Refused)
	remark := field.ObjectOf(new(shownRemark))
	s.Shown("remarks", field.Schema{Type: "array", Items: &remark}, func(dst []byte) []byte {
		all := make([]shownRemark, len(v.Moved.Remarks))
		dst = append(dst, '[')
		for i := range all {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = field.AppendJSON(dst, &shownRemark{v.Moved.Remarks[i]})
		}
		return append(dst, ']')
	}).Says("A row for each entry that was refused or filled in, for what could not be kept of others, and for each column or member that was not read; 5000 at most. Lists of imports leave them out.",
		`[{"at":"line 12","name":"A bookmarklet","refused":true,"text":"The URL must be an absolute http or https address."}]`)
	count("moreRemarks", "Rows beyond those.", `0`, &v.Moved.More)
	s.Text("error", &v.Problem, 1000).Says("Why it failed or was stopped; empty if it was not.", `""`)
	s.Time("createdAt", &v.Created, field.Always).Says("When it began.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("endedAt", &v.Ended).Says("When it ended; null while it runs.", `"2026-01-02T03:04:15.678Z"`)
}

// shownRemark is a row of a report.
type shownRemark struct{ record.Remark }

func (v *shownRemark) Fields(s *field.Set) {
	s.Text("at", &v.At, 512).Says("Where the entry stands.", `"line 12"`)
	s.Text("name", &v.Name, 512).Says("What people know it by.", `"A bookmarklet"`)
	s.Bool("refused", &v.Refused).Says("Whether it was not kept.", `true`)
	s.Text("text", &v.Text, 512).Says("Why, or what could not be kept.", `"The URL must be an absolute http or https address."`)
}

// importForm is what is said of a file that is imported.
type importForm struct {
	format      format.Format
	dry, update bool
}

func (f *importForm) Fields(s *field.Set) {
	field.MaybeChoice(s, "format", &f.format, format.Formats).Says("The format; told by the content if absent.", `"netscape"`)
	s.Bool("dryRun", &f.dry).Says("Says what would be made, and makes nothing.", `false`)
	s.Bool("update", &f.update).Says("Fills in the empty fields of items that are there already and adds tags; nothing is overwritten.", `false`)
}

// startImport takes a file and begins to import it.
func startImport(c *request) error {
	if err := c.s.movers.claim(c.owner()); err != nil {
		return err
	}
	begun := false
	defer func() {
		if !begun {
			c.s.movers.free(c.owner())
		}
	}()
	room, err := c.s.uploadBudget(c.owner())
	if err != nil {
		return err
	}
	room.left = room.disk // it is laid aside and not kept
	parts, fields, err := c.readMultipart(room)
	defer func() {
		for _, p := range parts {
			if p.stage != nil {
				_ = p.stage.Drop() // what cannot be removed now is removed by the next sweep
			}
		}
	}()
	if err != nil {
		return err
	}
	form := new(importForm)
	var one error
	if len(parts) != 1 {
		one = field.Problems{"file": "must be one file"}
	}
	if err := joinProblems(field.Create(form, fields), one); err != nil {
		return err
	}
	source, done, err := transfer.Lay(c.s.Blobs, c.s.Store, parts[0].stage)
	if err != nil {
		return err
	}
	defer func() {
		if !begun {
			done()
		}
	}()
	if form.format == "" {
		var why format.Unreadable
		if form.format, err = format.Detect(source); errors.As(err, &why) {
			return record.Bad(map[string]string{"file": "cannot be imported: " + string(why)})
		}
		if err != nil {
			return err
		}
	}
	m := &runningImport{size: source.Size * form.format.Passes(), fill: form.update}
	source.R = counting{source.R, &m.read}
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		i, err := tx.AddImport(c.owner(), parts[0].name, record.Moved{Format: string(form.format), DryRun: form.dry, Made: map[string]int64{}, Remarks: []record.Remark{}})
		if err == nil {
			m.now = *i
		}
		return err
	}); err != nil {
		return err
	}
	if begun = c.s.movers.run(m, func(ctx context.Context) {
		defer done()
		c.s.runImport(ctx, m, source, room.file)
	}); !begun {
		return kv.ErrClosed
	}
	return c.respondData(http.StatusAccepted, showRunning(m))
}

// run works on an import in the background. It reports false if the server is ending.
func (m *imports) run(one *runningImport, work func(context.Context)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return false
	}
	ctx, cancel := context.WithCancel(m.ctx)
	one.stop = cancel
	m.running[one.now.Owner] = one
	m.work.Go(func() {
		defer m.free(one.now.Owner)
		defer cancel()
		work(ctx)
	})
	return true
}

// runImport imports, and writes down what came of it.
func (s *site) runImport(ctx context.Context, one *runningImport, source format.Source, limit int64) {
	in := &transfer.Import{
		Store: s.Store, Blobs: s.Blobs, Owner: one.now.Owner, DryRun: one.now.Moved.DryRun, Update: one.fill, MaxFile: limit, Tell: one.tell,
	}
	name := format.Format(one.now.Moved.Format)
	var err error
	select {
	case s.movers.imports <- struct{}{}:
		var report *record.Moved
		report, err = in.Run(ctx, name, format.Read(name, source))
		<-s.movers.imports
		one.tell(report)
	case <-ctx.Done():
		err = ctx.Err()
	}
	// It runs, for those who ask, until what came of it is written down.
	one.mu.Lock()
	last := one.now
	one.mu.Unlock()
	now := &last
	var why format.Unreadable
	switch {
	case err == nil:
		now.State = record.ImportDone
	case errors.Is(err, context.Canceled):
		now.State, now.Problem = record.ImportStopped, "It was stopped. What was imported stays."
	case errors.As(err, &why):
		now.State, now.Problem = record.ImportFailed, string(why)
	default:
		e, status := clientError(err)
		if now.State, now.Problem = record.ImportFailed, e.Text; status == http.StatusInternalServerError {
			s.Log.Error("an import failed", "import", now.ID, "error", err)
			now.Problem = "Something went wrong on the server. The log says more under the import's id."
		}
	}
	now.Ended = s.Store.Now()
	if err := s.Store.Update(func(tx *kv.Tx) error { return tx.SaveImport(&last) }); err != nil && !missing(err) {
		s.Log.Error("what came of an import is not written down", "import", last.ID, "error", err)
	}
}

// showImport is the import as its owner sees it.
func (s *site) showImport(i *record.Import) *shownImport {
	if one := s.movers.of(i.Owner, i.ID); one != nil {
		return showRunning(one)
	}
	v := &shownImport{*i, 100}
	if i.State == record.ImportRuns {
		v.State, v.Problem = record.ImportStopped, "The server was stopped meanwhile. What was imported stays; import the file again to go on."
	}
	return v
}

func listImports(c *request) error {
	return answerList(c,
		func(tx *kv.Tx) ([]record.Import, error) { return tx.Imports(c.owner()) },
		func(i *record.Import) (record.ID, string) { return i.ID, i.Name },
		func(_ *kv.Tx, i *record.Import) (*shownImport, error) {
			v := c.s.showImport(i)
			v.Moved.Remarks = nil
			return v, nil
		})
}

// anImport reads the import that the path names.
func (c *request) anImport() (i *record.Import, err error) {
	id, err := c.uuid("import")
	if err != nil {
		return nil, err
	}
	err = c.s.Store.View(func(tx *kv.Tx) error { i, err = tx.Import(c.owner(), id); return err })
	return i, err
}

func readImport(c *request) error {
	i, err := c.anImport()
	if err != nil {
		return err
	}
	return c.respondData(http.StatusOK, c.s.showImport(i))
}

// stopImport ends an import that runs; one that is over stays as it is.
func stopImport(c *request) error {
	i, err := c.anImport()
	if err != nil {
		return err
	}
	if one := c.s.movers.of(i.Owner, i.ID); one != nil {
		one.stop()
	}
	return c.respondOK()
}

// export answers with all that the caller keeps.
func export(c *request) error {
	select {
	case c.s.movers.exporter <- struct{}{}:
		defer func() { <-c.s.movers.exporter }()
	default:
		return &record.Error{Fault: record.Busy, Code: "busy", Text: "Others are being exported; try again in a moment.", Retry: 10 * time.Second}
	}
	h := c.w.Header()
	hostile(h, "application/zip", "kist-"+c.caller.User.Name+c.s.Store.Now().Format("-2006-01-02")+".zip", true, false)
	h.Set("Cache-Control", "private, no-store")
	if c.r.Method == http.MethodHead {
		c.w.WriteHeader(http.StatusOK)
		return nil
	}
	x, err := transfer.NewExport(c.s.Store, c.s.Blobs, c.owner())
	if err != nil {
		return err
	}
	defer x.Close()
	return x.Write(c.w)
}

// transferRoutes are the ways in and out for all that an account keeps.
func transferRoutes() []route {
	schema := shapeOf(new(importForm), create)
	schema["properties"].(object)["file"] = object{"type": "string", "format": "binary", "description": "What was exported elsewhere.", "example": "…"}
	schema["required"] = []string{"file"}
	const at = apiPath + "import"
	return []route{
		{
			method: "POST", path: at, id: "startImport", tag: "moving", summary: "Takes in what another program, or kist, has exported. It goes on in the background; ask for it by its id.",
			access: wholes, body: &content{media: "multipart/form-data", schema: schema}, reply: reply{202, "The import, which has begun.", dataOf("Import")}, fails: []int{409}, serve: startImport,
		},
		{
			method: "GET", path: at, id: "listImports", tag: "moving", summary: "Lists the last ten imports.",
			access: wholes, args: pageParams(shortSorts), reply: reply{200, "A page of imports.", listOf("Import")}, serve: listImports,
		},
		{
			method: "GET", path: at + "/{id}", id: "readImport", tag: "moving", summary: "Says how far an import is, and what came of it.",
			access: wholes, reply: reply{200, "The import.", dataOf("Import")}, fails: []int{404}, serve: readImport,
		},
		{
			method: "DELETE", path: at + "/{id}", id: "stopImport", tag: "moving", summary: "Stops an import; what was imported stays.",
			access: wholes, reply: done, fails: []int{404}, serve: stopImport,
		},
		{
			method: "GET", path: apiPath + "export", id: "export", tag: "moving", summary: "Everything that the caller keeps, as one zip. It has the hashes of items' passwords: keep it to yourself.",
			access: wholes, reply: reply{200, "The export.", &content{media: "application/zip", schema: object{"type": "string", "format": "binary"}, example: "…"}}, serve: export,
		},
	}
}
