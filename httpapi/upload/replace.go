package upload

import (
	"bytes"
	"cmp"
	"io"
	"mime"
	"net/http"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/media"
	"kist/kv/people"
	"kist/kv/record"
)

var ReplaceContent = web.Operation{
	Tag: "files",
	Summary: "Replaces the bytes of a file under the same link. The body is the new bytes, or a form with them " +
		"in the field file. Their type is worked out as for uploads. The former bytes become a version of the file. " +
		"Versions are kept as long as deleted items, 200 a file at most, and count.",
	Args: []web.Param{{
		In: "query", Name: "name", Doc: "The new name of the file. Without it the name in Content-Disposition is taken; " +
			"without both the name stays.",
		Schema: web.Object{"type": "string", "maxLength": record.MaxFileName},
	}},
	Body:  web.BytesOf(),
	Reply: web.Reply{Status: http.StatusOK, Doc: "The record.", Body: web.DataOf("File")},
	Fails: []int{404, 415}, Serve: replaceContent,
}.Conditional()

func replaceContent(c *web.Request) error {
	find := func(tx *kv.Tx) (*record.Record, catalog.Way, error) {
		r, err := catalog.ReachOwn(tx, c.Owner(), record.Files, c.Arg("slug"))
		if err != nil {
			return nil, catalog.Way{}, err
		}
		r.Body = bytes.Clone(r.Body)
		return r, catalog.OwnWay, nil
	}
	expected := func(tx *kv.Tx) (*record.Record, error) {
		r, way, err := find(tx)
		if err != nil {
			return nil, err
		}
		_, err = c.Expect(tx, r, way)
		return r, err
	}
	var before *record.Record
	if err := c.Site.Store.View(func(tx *kv.Tx) (err error) { before, err = expected(tx); return err }); err != nil {
		return c.FailChange(err, find)
	}
	in := NewIntake(c.Site)
	defer in.Close()
	if err := in.takeBody(c, before); err != nil {
		return err
	}
	if err := in.Keep(c.R.Context()); err != nil {
		return err
	}

	f, changed := in.Files[0], false
	content := f.Content()
	if err := c.UpdateAsCaller(func(tx *kv.Tx) error {
		r, err := expected(tx)
		if err != nil {
			return err
		}
		changed = r.Bytes.Ref != content.Ref
		if err := in.Carry(tx); err != nil {
			return err
		}
		return catalog.Replace(tx, r, f.Body(), content, c.Caller.Client())
	}); err != nil {
		return c.FailChange(err, find)
	}
	in.Recorded()
	if changed {
		if err := c.Site.Thumbs.DropPoster(c.Owner(), before.ID); err != nil {
			c.Site.Log.Warn("cannot remove the small version of a file that was replaced", "error", err)
		}
	}
	return c.RespondRecord(http.StatusOK, `{"data":`, find)
}

// takeBody takes the body of the request, as the new bytes of a file.
func (in *Intake) takeBody(c *web.Request, of *record.Record) error {
	query, err := c.Query()
	if err != nil {
		return err
	}
	old, err := of.Decode()
	if err != nil {
		return err
	}
	if err := checkBody(c); err != nil {
		return err
	}
	said := cmp.Or(query.Get("name"), saidName(c.R.Header.Get("Content-Disposition")))
	f := &File{Claimed: c.R.Header.Get("Content-Type")}
	f.Name = media.FileName(cmp.Or(said, old.(*record.File).OriginalName)) // the kind says so
	budget, err := replaceBudget(c, of)
	if err != nil {
		return err
	}
	kind, _, _ := mime.ParseMediaType(f.Claimed)
	if kind == web.MultipartForm.Media {
		return in.takeOne(c, budget, f.Name)
	}
	return in.takeBytes(c, f, budget)
}

// checkBody refuses a request whose body is not the whole of a file.
func checkBody(c *web.Request) error {
	if err := c.RefuseCompressed(); err != nil {
		return err
	}
	if c.R.ContentLength == 0 && c.R.Header.Get("Content-Length") == "" { // an empty file says its length
		return &record.Error{
			Fault: record.Malformed, Code: "malformed", Text: "The request has no body. It must be the bytes of the file.",
		}
	}
	if c.R.Header.Get("Content-Range") != "" { // RFC 9110, section 14.5: the rest of the file would be lost
		return &record.Error{
			Fault: record.Malformed, Code: "malformed",
			Text: "The body must be the whole file. Content-Range announces a part of it.",
		}
	}
	return nil
}

// takeBytes takes the body of the request, which is nothing but the bytes of the file.
func (in *Intake) takeBytes(c *web.Request, f *File, budget *Budget) error {
	kind, _, _ := mime.ParseMediaType(f.Claimed)
	if kind == web.FormBody.Media { // curl says it about every body
		f.Claimed = ""
	}
	if err := budget.ErrTooLarge(max(c.R.ContentLength, 0)); err != nil {
		return err
	}
	body := &longBody{c: c, r: c.LimitBody(budget.File + 1)}
	defer body.release()
	return in.Take(f, bodyErrors{body}, budget)
}

// takeOne is takeBody for a form with one file, as programs send uploads. named is the name for a file without one.
func (in *Intake) takeOne(c *web.Request, budget *Budget, named string) error {
	fields, err := in.ReadForm(c, budget)
	if err != nil {
		return err
	}
	if err := web.JoinProblems(c.RefuseUnknown(noFields{}, fields)); err != nil {
		return err
	}
	if len(in.Files) != 1 {
		return record.Bad(map[string]string{"file": "must be one file"})
	}
	if in.Files[0].Unnamed {
		in.Files[0].Name = named
	}
	return nil
}

// noFields is the shape of a form that has only a file.
type noFields struct{}

func (noFields) Fields(*field.Set) {}

// replaceBudget is BudgetOf for other bytes of a file. While the trash is off, the former ones make room for them.
func replaceBudget(c *web.Request, of *record.Record) (*Budget, error) {
	budget, err := BudgetOf(c.Site, c.Owner())
	if err != nil {
		return nil, err
	}
	var set people.Settings
	if err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
		set, err = people.ReadSettings(tx)
		return err
	}); err != nil {
		return nil, err
	}
	if set.TrashDays == 0 && budget.quota > 0 {
		budget.Left += of.Bytes.Size
	}
	return budget, nil
}

// bodyErrors reads a body, and fails with errors for the client.
type bodyErrors struct{ io.Reader }

func (b bodyErrors) Read(to []byte) (int, error) {
	n, err := b.Reader.Read(to)
	if err != nil && err != io.EOF { //nolint:errorlint // readers return it bare
		err = web.BodyError(err)
	}
	return n, err
}
