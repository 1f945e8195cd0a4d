package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/httpapi/worker"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/transfer"
	"kist/kv/transfer/format"
)

// ShowRunning is the current state of an import, with its progress in per cent.
func ShowRunning(m *worker.RunningImport) *ShownImport {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	return &ShownImport{m.Now, min(99, m.Read.Load()*100/max(m.Size, 1))}
}

// ShownImport is an import as its owner sees it.
type ShownImport struct {
	transfer.ImportRun
	Progress int64
}

func (v *ShownImport) Fields(s *field.Set) {
	count := func(name, doc, example string, n *int) {
		s.Shown(name, field.Schema{Type: "integer"}, func(dst []byte) []byte {
			return strconv.AppendInt(dst, int64(*n), 10)
		}).Says(doc, example)
	}
	s.ID("id", &v.ID, field.Always).Says("Id of the import.", web.SampleID)
	s.Text("name", &v.Name, record.MaxFileName).Says("Name of the file.", `"bookmarks.html"`)
	s.Text("format", &v.Moved.Format, 32).Says("Its format.", `"netscape"`)
	s.Bool("dryRun", &v.Moved.DryRun).Says("Whether this is a dry run, which imports nothing.", `false`)
	field.Choice(s, "state", &v.State, transfer.ImportStates).
		Says(
			"State of the import. It is stopped by its owner, or when the server stops. Items that were imported before that "+
				"stay, and the same file may be imported again.",
			`"done"`,
		)
	s.Number("progress", &v.Progress, 0, 100).Says("Part of the file that was read, in per cent.", `100`)
	count("entries", "Entries read.", `120`, &v.Moved.Entries)
	s.Shown("made", field.Schema{
		Type: "object", Free: true, Items: &field.Schema{Type: "integer"},
	}, func(dst []byte) []byte {
		return web.AppendNumbers(dst, web.SortedKeys(v.Moved.Made), v.Moved.Made)
	}).Says(
		"Number of created items of each kind, tags and folders; for a dry run, what would be created.", `{"bookmark":117}`,
	)
	count("there", "Entries that already existed. Without update they were not changed.", `1`, &v.Moved.There)
	count(
		"updated", "Number of existing entries that were filled in, or would be without the dry run.", `0`, &v.Moved.Updated,
	)
	count("refused", "Entries that could not be imported.", `2`, &v.Moved.Refused)
	remark := field.ObjectOf(new(shownRemark))
	s.Shown("remarks", field.Schema{Type: "array", Items: &remark}, func(dst []byte) []byte {
		return field.AppendList(dst, v.Moved.Remarks, func(dst []byte, r transfer.Remark) []byte {
			return field.AppendJSON(dst, &shownRemark{r})
		})
	}).Says("A row for each entry that was refused or filled in, for data of other entries that could not be imported, "+
		"and for each column or member that was not read; at most 5000 rows. Lists of imports leave them out.",
		`[{"at":"line 12","name":"A bookmarklet","refused":true,"text":"The URL must be an absolute http or https address."}]`)
	count("moreRemarks", "Number of further rows.", `0`, &v.Moved.More)
	s.Text("error", &v.Problem, 1000).Says("Why the import failed or was stopped; otherwise empty.", `""`)
	s.Time("createdAt", &v.Created, field.Always).Says("When the import started.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("endedAt", &v.Ended).Says("When the import ended; null while it is running.", `"2026-01-02T03:04:15.678Z"`)
}

// shownRemark is a row of a report.
type shownRemark struct{ transfer.Remark }

func (v *shownRemark) Fields(s *field.Set) {
	s.Text("at", &v.At, record.MaxName).Says("Place of the entry in the file.", `"line 12"`)
	s.Text("name", &v.Name, record.MaxName).Says("Name of the entry for people.", `"A bookmarklet"`)
	s.Bool("refused", &v.Refused).Says("Whether the entry was skipped.", `true`)
	s.Text("text", &v.Text, record.MaxName).Says(
		"Why it was skipped, or which data could not be imported.", `"The URL must be an absolute http or https address."`,
	)
}

// ImportForm has the options of an import.
type ImportForm struct {
	format      format.Format
	dry, update bool
}

func (f *ImportForm) Fields(s *field.Set) {
	field.MaybeChoice(s, "format", &f.format, format.Formats).Says(
		"The format. If absent, it is detected from the content.", `"netscape"`,
	)
	s.Bool("dryRun", &f.dry).Says("Reports what would be imported, and imports nothing.", `false`)
	s.Bool("update", &f.update).Says(
		"Fills in empty fields of existing items and adds tags. Nothing is overwritten.", `false`,
	)
}

var StartImport = web.Operation{
	Tag: "import-and-export", Summary: "Imports an export of another program or of kist. The import runs in the background; ask " +
		"for its state by its id.",
	Args: []web.Param{web.IdempotencyArg}, Body: web.MultipartForm,
	Reply: web.Reply{Status: 202, Doc: "The import, which has started.", Body: web.DataOf("Import")}, Fails: []int{409},
	Serve: startImport,
}

func startImport(c *web.Request) error {
	key, err := web.IdempotencyKey(c.R)
	if err != nil {
		return err
	}
	earlier, err := upload.LoadIdempotentAnswer(c, key)
	if err == nil {
		return repeatImport(c, key, earlier)
	}
	if !kv.Missing(err) {
		return err
	}
	if err := c.Site.Imports.Claim(c.Owner()); err != nil {
		return err
	}
	begun := false
	defer func() {
		if !begun {
			c.Site.Imports.Free(c.Owner())
		}
	}()
	// Another request with the same key may have ended before this one had its claim.
	earlier, err = upload.LoadIdempotentAnswer(c, key)
	if err == nil {
		return repeatImport(c, key, earlier)
	}
	if !kv.Missing(err) {
		return err
	}
	budget, err := upload.BudgetOf(c.Site, c.Owner())
	if err != nil {
		return err
	}
	budget.Left = budget.Disk // the file is only stored temporarily
	came := upload.NewIntake(c.Site)
	defer came.Close()
	fields, err := came.ReadForm(c, budget)
	if err != nil {
		return err
	}
	form := new(ImportForm)
	var one error
	if len(came.Files) != 1 {
		one = field.Problems{"file": "must be one file"}
	}
	if err := web.JoinProblems(c.RefuseUnknown(form, fields), field.Create(form, fields), one); err != nil {
		return err
	}
	stage := came.Files[0].Stage()
	source, done, err := transfer.Lay(c.Site.Blobs, c.Site.Store, stage)
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
		form.format, err = format.Detect(source)
		if errors.As(err, &why) {
			return record.Bad(map[string]string{"file": "cannot be imported: " + string(why)})
		}
		if err != nil {
			return err
		}
	}
	m := &worker.RunningImport{Size: source.Size * form.format.Passes(), Fill: form.update}
	source.R = worker.Counting{ReaderAt: source.R, N: &m.Read}
	var body []byte
	if err := c.UpdateAsCaller(func(tx *kv.Tx) error {
		i, err := transfer.AddImport(
			tx, c.Owner(), came.Files[0].Name,
			transfer.Moved{
				Format: string(form.format), DryRun: form.dry, Made: map[string]int64{}, Remarks: []transfer.Remark{},
			},
		)
		if err != nil {
			return err
		}
		m.Now = *i
		body = append(field.AppendJSON([]byte(`{"data":`), ShowRunning(m)), '}')
		if key == "" {
			return nil
		}
		return jobs.SaveIdempotentAnswer(
			tx, c.Owner(), key, jobs.IdempotentAnswer{Request: upload.Fingerprint(c, key, came.Files, fields), Body: body},
		)
	}); err != nil {
		return err
	}
	begun = c.Site.Imports.Run(m, func(ctx context.Context) {
		defer done()
		runImport(c.Site, ctx, m, source, budget.File)
	})
	if !begun {
		return kv.ErrClosed
	}
	return c.RespondJSON(http.StatusAccepted, body)
}

// repeatImport answers an import that was answered before, after the whole request was read.
func repeatImport(c *web.Request, key string, earlier *jobs.IdempotentAnswer) error {
	came := upload.NewIntake(c.Site)
	defer came.Close()
	fields, err := came.ReadForm(c, upload.UnlimitedBudget())
	if err != nil {
		return err
	}
	body, err := earlier.For(upload.Fingerprint(c, key, came.Files, fields))
	if err != nil {
		return err
	}
	return c.RespondJSON(http.StatusAccepted, body)
}

func runImport(s *web.Site, ctx context.Context, one *worker.RunningImport, source format.Source, limit int64) {
	in := &transfer.Import{
		Store: s.Store, Blobs: s.Blobs, Owner: one.Now.Owner, DryRun: one.Now.Moved.DryRun, Update: one.Fill, MaxFile: limit, Tell: one.Tell,
	}
	name := format.Format(one.Now.Moved.Format)
	run := func() error {
		if err := s.Imports.Turns.Take(ctx); err != nil {
			return err
		}
		defer s.Imports.Turns.Give()
		report, err := in.Run(ctx, name, format.Read(name, source))
		one.Tell(report)
		return err
	}
	err := run()

	// It counts as running until the result is stored.
	one.Mu.Lock()
	last := one.Now
	one.Mu.Unlock()
	now := &last
	var why format.Unreadable
	switch {
	case err == nil:
		now.State = transfer.ImportDone
	case errors.Is(err, context.Canceled):
		now.State, now.Problem = transfer.ImportStopped, "The import was stopped. Imported items stay."
	case errors.As(err, &why):
		now.State, now.Problem = transfer.ImportFailed, string(why)
	default:
		e, status := web.ClientError(err)
		now.State, now.Problem = transfer.ImportFailed, e.Text
		if status == http.StatusInternalServerError {
			s.Log.Error("an import failed", "import", now.ID, "error", err)
			now.Problem = "Something went wrong on the server. The server's log has details under the import's id."
		}
	}
	now.Ended = s.Store.Now()
	if err := s.Store.Update(func(tx *kv.Tx) error {
		a := people.Activity{Owner: last.Owner, Event: people.ImportFinished, Name: last.Name}
		if last.Moved.DryRun || last.State != transfer.ImportDone {
			return transfer.SaveImport(tx, &last)
		}
		return errors.Join(transfer.SaveImport(tx, &last), people.Note(tx, a))
	}); err != nil && !kv.Missing(err) {
		s.Log.Error("cannot store the result of an import", "import", last.ID, "error", err)
	}
}

func showImport(s *web.Site, i *transfer.ImportRun) *ShownImport {
	if one := s.Imports.Of(i.Owner, i.ID); one != nil {
		return ShowRunning(one)
	}
	v := &ShownImport{*i, 100}
	if i.State == transfer.ImportRuns {
		v.State, v.Problem = transfer.ImportStopped, "The server was stopped during the import. Imported items stay. To "+
			"continue, import the file again."
	}
	return v
}

var ListImports = web.ListOp("import-and-export", "Lists the last ten imports.", "A page of imports.", "Import", listImports)

func listImports(c *web.Request) error {
	return web.AnswerList(c,
		func(tx *kv.Tx) ([]transfer.ImportRun, error) { return transfer.Imports(tx, c.Owner()) },
		func(i *transfer.ImportRun) (record.ID, string) { return i.ID, i.Name },
		func(_ *kv.Tx, i *transfer.ImportRun) (*ShownImport, error) {
			v := showImport(c.Site, i)
			v.Moved.Remarks = nil
			return v, nil
		})
}

func importInPath(c *web.Request) (i *transfer.ImportRun, err error) {
	id, err := c.IDArg("import")
	if err != nil {
		return nil, err
	}
	err = c.Site.Store.View(func(tx *kv.Tx) error { i, err = transfer.ReadImport(tx, c.Owner(), id); return err })
	return i, err
}

var ReadImport = web.ReadOp(
	"import-and-export", "Shows the state and the result of an import.", "The import.", "Import", readImport, 404,
)

func readImport(c *web.Request) error {
	i, err := importInPath(c)
	if err != nil {
		return err
	}
	return c.RespondData(http.StatusOK, showImport(c.Site, i))
}

var StopImport = web.DoneOp("import-and-export", "Stops an import. Imported items stay.", stopImport, 404)

// stopImport stops a running import. One that has ended stays as it is.
func stopImport(c *web.Request) error {
	i, err := importInPath(c)
	if err != nil {
		return err
	}
	if one := c.Site.Imports.Of(i.Owner, i.ID); one != nil {
		one.Stop()
	}
	return c.RespondOK()
}

var ExportAccount = web.Operation{
	Tag: "import-and-export", Summary: "Everything that the caller has, as one zip. It contains the password hashes of items, so " +
		"keep it private. Or only the bookmarks, with titles, descriptions, tags and dates, for other programs.",
	Args: []web.Param{{
		In: "query", Name: "format",
		Doc: "zip is everything, for kist. html and json are the bookmarks: html for browsers, linkding and most others, " +
			"json for Karakeep.",
		Schema: web.Object{"type": "string", "enum": field.Words(transfer.Forms), "default": string(transfer.Zip)},
	}},
	Reply: web.Reply{Status: 200, Doc: "The export.", Body: web.BytesOf()},
	Serve: exportAccount,
}

func exportAccount(c *web.Request) error {
	values, err := c.Query()
	if err != nil {
		return err
	}
	args := web.Arguments{Values: values}
	form := transfer.Form(cmp.Or(args.Get("format"), string(transfer.Zip)))
	if !slices.Contains(transfer.Forms, form) {
		args.Refuse("format must be one of: " + web.Join(transfer.Forms))
	}
	if err := args.Err(); err != nil {
		return err
	}
	if err := c.Site.Imports.BeginExport(c.Owner()); err != nil {
		return err
	}
	defer c.Site.Imports.EndExport(c.Owner())

	name := "kist-"
	if form != transfer.Zip {
		name = "bookmarks-"
	}
	name += c.Caller.User.Name + c.Site.Store.Now().Format("-2006-01-02") + "." + string(form)
	h := c.W.Header()
	web.SetContentHeaders(h, form.MediaType(), "", name, true, false)
	h.Set("Cache-Control", "private, no-store")
	if c.R.Method == http.MethodHead {
		c.W.WriteHeader(http.StatusOK)
		return nil
	}
	x, err := transfer.NewExport(c.Site.Store, c.Site.Blobs, c.Owner(), form)
	if err != nil {
		return err
	}
	defer x.Close()
	return x.Write(c.W)
}
