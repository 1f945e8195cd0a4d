package control

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"

	"kist/blobs"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/transfer"
	"kist/kv/transfer/format"
)

// Imported is what an import created, and why it stopped early if it did.
type Imported struct {
	transfer.Moved
	Problem string `json:"error,omitempty"`
}

func (v handler) importRecords(r *http.Request) (out Imported, err error) {
	ask := r.URL.Query()
	u, err := view(v, func(tx *kv.Tx) (*people.User, error) { return named(tx, ask.Get("user")) })
	if err != nil {
		return out, err
	}
	err = v.Contents(func(content *blobs.Store) error {
		name := format.Format(cmp.Or(ask.Get("format"), string(format.Folder)))
		rows := format.Stream(name, r.Body)
		if ask.Get("stream") == "" {
			s, done, err := lay(content, v.Store, r.Body)
			if err != nil {
				return err
			}
			defer done()
			s.Operator = true
			name = format.Format(ask.Get("format"))
			if name == "" {
				name, err = format.Detect(s)
				if err != nil {
					return err
				}
			} else if wrong := format.Check(string(name)); wrong != nil {
				return record.Bad(map[string]string{"format": wrong.Error()})
			}
			rows = format.Read(name, s)
		}
		m := &transfer.Import{
			Store: v.Store, Blobs: content, Owner: u.ID,
			DryRun: ask.Get("dryRun") != "", Update: ask.Get("update") != "", MaxFile: math.MaxInt64 - 1,
		}
		done, err := m.Run(r.Context(), name, rows)
		out.Moved = *done
		if err != nil && done.Entries > 0 { // what was done is returned, too
			out.Problem, err = err.Error(), nil
		}
		return err
	})
	if why, ok := errors.AsType[format.Unreadable](err); ok { // the file is wrong, not the server
		err = &record.Error{Fault: record.Invalid, Code: "not_importable", Text: string(why)}
	}
	return out, err
}

// lay makes a source that can be read in any order from the body of a request. A
// file is used as it is. Anything else is kept in a temporary file among the
// contents until done is called.
func lay(content *blobs.Store, store *kv.Store, body io.Reader) (s format.Source, done func(), err error) {
	if f, ok := body.(interface {
		io.ReaderAt
		Stat() (os.FileInfo, error)
	}); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return format.Source{R: f, Size: info.Size()}, func() {}, nil
		}
	}
	stage, err := content.Stage()
	if err != nil {
		return s, nil, err
	}
	defer stage.Drop()             //nolint:errcheck // the next sweep removes what is left
	room := store.FreeForContent() // before the source uses it
	if _, err := stage.ReadFrom(io.LimitReader(body, room)); err != nil {
		return s, nil, err
	}
	if stage.Size() >= room {
		return s, nil, kv.ErrFull
	}
	return transfer.Lay(content, store, stage)
}

// exportRecords writes what an account keeps, or its bookmarks.
func (v handler) exportRecords(w http.ResponseWriter, r *http.Request) error {
	return v.Contents(func(content *blobs.Store) error {
		u, err := view(v, func(tx *kv.Tx) (*people.User, error) { return named(tx, r.URL.Query().Get("user")) })
		if err != nil {
			return err
		}
		form := transfer.Form(cmp.Or(r.URL.Query().Get("format"), string(transfer.Zip)))
		if !slices.Contains(transfer.Forms, form) {
			forms := strings.Join(field.Words(transfer.Forms), ", ")
			return record.Bad(map[string]string{"format": "must be one of: " + forms})
		}
		x, err := transfer.NewExport(v.Store, content, u.ID, form)
		if err != nil {
			return err
		}
		defer x.Close()
		w.Header().Set("Content-Type", form.MediaType())
		return x.Write(w)
	})
}

// named reads the account with the name. The error says which command lists names.
func named(tx *kv.Tx, name string) (*people.User, error) {
	u, err := people.UserNamed(tx, name)
	if e, ok := errors.AsType[*record.Error](err); ok && e.Fault == record.Missing {
		e.Text = fmt.Sprintf("There is no user named %q; kist user list shows the names.", name)
	}
	return u, err
}
