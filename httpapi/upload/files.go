// Package upload receives files: forms, resumable uploads of owners and senders, upload links
// and their queue, and remote uploads.
package upload

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"strconv"
	"strings"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/jobs"
	"kist/kv/record"
)

var UploadFiles = web.Operation{
	Tag: "files", Summary: "Uploads one or more files.",
	Args: []web.Param{web.IdempotencyArg}, Body: web.MultipartForm,
	Reply: web.Reply{
		Status: 201, Doc: "The record of the file. For several files, a list in files.", Body: web.BodyOf("Uploaded"),
	},
	Fails: []int{409},
	Plain: web.BareAddress, Headers: []string{"Location"}, Serve: uploadFiles,
}

// uploadFiles takes files in a form.
func uploadFiles(c *web.Request) error { return addUpload(c, (*Intake).ReadForm) }

// addUpload stores the files that take takes, with the fields that it returns, and answers with their records: a single
// one flat, several in a list.
func addUpload(c *web.Request, take func(*Intake, *web.Request, *Budget) (field.Object, error)) error {
	key, err := web.IdempotencyKey(c.R)
	if err != nil {
		return err
	}
	earlier, err := LoadIdempotentAnswer(c, key)
	if err != nil && !kv.Missing(err) {
		return err
	}
	budget := UnlimitedBudget()
	if earlier == nil {
		budget, err = BudgetOf(c.Site, c.Owner())
		if err != nil {
			return err
		}
	}
	in := NewIntake(c.Site)
	defer in.Close()
	fields, err := take(in, c, budget)
	if err != nil {
		return err
	}
	if earlier != nil {
		body, err := earlier.For(Fingerprint(c, key, in.Files, fields))
		if err != nil {
			return err
		}
		return c.AnswerUploaded(body)
	}
	form := record.NewForm(record.Files)
	shape := record.Upload{Form: form}
	unknown, problems := c.RefuseUnknown(shape, fields), field.Create(shape, fields)
	err = web.JoinProblems(unknown, problems, form.CheckNew(c.Site.Store.Now()), fileProblems(form, in.Files))
	if err != nil {
		return err
	}
	hash, err := c.Hash(form.Password)
	if err != nil {
		return err
	}

	in.NameFirst(form)
	if err := in.Keep(c.R.Context()); err != nil {
		return err
	}
	request := Fingerprint(c, key, in.Files, fields)
	added := false // not if another request with the key was faster
	var body []byte
	err = c.UpdateAsCaller(func(tx *kv.Tx) (err error) {
		add := func() ([]byte, error) {
			added = true
			return in.AddFiles(c, tx, form, hash)
		}
		if key == "" {
			body, err = add()
		} else {
			body, err = jobs.AnswerOnce(tx, c.Owner(), key, request, add)
		}
		return err
	})
	if err != nil {
		return err
	}
	if added {
		in.Recorded()
	}
	return c.AnswerUploaded(body)
}

// LoadIdempotentAnswer is the answer to an earlier request with the same key; Missing if there is
// none.
func LoadIdempotentAnswer(c *web.Request, key string) (a *jobs.IdempotentAnswer, err error) {
	if key == "" {
		return nil, record.NotFound("answer")
	}
	err = c.Site.Store.View(func(tx *kv.Tx) error {
		a, err = jobs.FindAnswer(tx, c.Owner(), key)
		return err
	})
	return a, err
}

// Fingerprint identifies an upload by its method and path, by the names, types and contents of its
// files in order, and by the fields in any order. It includes the Idempotency-Key, so that a
// password among the fields cannot be found by trying passwords against the stored fingerprint.
func Fingerprint(c *web.Request, key string, files []*File, fields field.Object) []byte {
	h := hmac.New(sha256.New, []byte(key))
	add := func(text string) { // different lists of texts give different bytes
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(text)))) // cannot fail
		_, _ = io.WriteString(h, text)
	}
	add(c.R.Method)
	add(c.R.URL.Path)
	add(strconv.Itoa(len(files)))
	for _, f := range files {
		add(f.Name)
		add(f.Claimed)
		add(string(f.Sum[:]))
	}
	for _, name := range web.SortedKeys(fields) {
		add(name)
		text, _ := fields[name].(string) // ReadForm reads only strings
		add(text)
	}
	return h.Sum(nil)
}

func fileProblems(form *record.Form, files []*File) error {
	switch {
	case len(files) == 0:
		return field.Problems{"file": "is required"}
	case len(files) > 1 && form.Slug != "":
		return field.Problems{"slug": "can be given to one file only"}
	}
	return nil
}

// AddFiles adds the records of the kept files and makes the answer.
func (in *Intake) AddFiles(c *web.Request, tx *kv.Tx, form *record.Form, hash string) ([]byte, error) {
	if err := in.Carry(tx); err != nil {
		return nil, err
	}
	var body []byte
	for i, f := range in.Files {
		r, err := catalog.Add(tx, catalog.Draft{
			Owner: c.Owner(), Kind: record.Files, Form: f.Form(form), Password: hash, Content: f.Content(),
		})
		if err != nil {
			return nil, err
		}
		if i > 0 {
			body = append(body, ',')
		}
		v, err := c.Site.Read(tx, r)
		if err != nil {
			return nil, err
		}
		if len(in.Files) == 1 && strings.HasPrefix(c.R.URL.Path, web.APIPath) {
			body = c.AppendOne(body, v)
		} else {
			body = v.AppendJSON(body)
		}
		v.Release()
		body = c.Site.AppendLinks(body[:len(body)-1], r, f.pictured) // more members of the record's object follow
		body = append(body, '}')
	}
	if len(in.Files) > 1 {
		body = append(append([]byte(`{"files":[`), body...), "]}"...)
	}
	return body, nil
}
