package api

import (
	"net/http"

	"github.com/google/uuid"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/history"
	"kist/kv/record"
)

// ShownVersion is an earlier text of a record, or earlier bytes of a file. Kind is set where its fields are shown too.
type ShownVersion struct {
	*record.Version
	Kind *record.Kind
}

func (v *ShownVersion) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.ReadOnly, field.Always).Says("Id of the version.", web.SampleID)
	s.Time("at", &v.At, field.ReadOnly, field.Always).Says("When it was replaced.", `"2026-01-02T03:04:05.678Z"`)
	s.Text("by", &v.By, 255, field.ReadOnly).Says(
		"The browser, key or device that replaced it; empty if that is not known.", `"kist-cli"`,
	)
	if v.Kind != record.Files { // whose own fields say it
		s.Number("size", &v.Size, 0, 1<<53, field.ReadOnly).Says(
			"Its length in bytes, as it counts against the quota.", `213`,
		)
	}
	if v.Kind != nil {
		s.Splice(&v.Body, v.Kind.New())
	}
}

func ListVersions(k *record.Kind) web.Operation {
	return listVersions(
		k, "id",
		"Lists the earlier texts of a "+k.Name+". Changes by the same browser, key or device within five minutes are one, "+
			"if each named the one before with If-Match.",
	)
}

// ListFileVersions and the two after it are about the earlier bytes of files.
var (
	ListFileVersions = listVersions(
		record.Files, "slug", "Lists the earlier bytes of a file. They are kept as long as deleted items.",
	)
	ReadFileVersion = readVersion(
		record.Files, "slug", "Reads what is known about earlier bytes of a file.", "The version.",
	)
	RestoreFileVersion = restoreVersion(
		record.Files, "slug",
		"Changes a file back to earlier bytes, with their name and type. The present ones become a version.",
	)
)

func listVersions(k *record.Kind, arg, summary string) web.Operation {
	list := history.Versions
	if k == record.Files {
		list = catalog.FileVersions
	}
	o := web.ListOp(web.TagOf(k), summary, "The versions.", "Version", func(c *web.Request) error {
		return web.AnswerList(c, func(tx *kv.Tx) ([]record.Version, error) {
			r, err := catalog.ReachOwn(tx, c.Owner(), k, c.Arg(arg))
			if err != nil {
				return nil, err
			}
			return list(tx, r)
		}, func(v *record.Version) (record.ID, string) { return v.ID, "" },
			func(_ *kv.Tx, v *record.Version) (*ShownVersion, error) { return &ShownVersion{Version: v}, nil })
	})
	o.Fails = []int{404}
	return o
}

func ReadVersion(k *record.Kind) web.Operation {
	return readVersion(k, "id", "Reads an earlier text of a "+k.Name+".", "The version with its text.")
}

func readVersion(k *record.Kind, arg, summary, doc string) web.Operation {
	return web.ReadOp(web.TagOf(k), summary, doc, web.Title(k.Name)+"Version", func(c *web.Request) error {
		return c.Respond(http.StatusOK, func(dst []byte) ([]byte, error) {
			err := c.Site.Store.View(func(tx *kv.Tx) error {
				r, err := catalog.ReachOwn(tx, c.Owner(), k, c.Arg(arg))
				if err != nil {
					return err
				}
				v, err := version(c, tx, r)
				if err != nil {
					return err
				}
				dst = append(field.AppendJSON(append(dst, `{"data":`...), &ShownVersion{v, k}), '}')
				return nil
			})
			return dst, err
		})
	}, 404)
}

// version reads the version in the path.
func version(c *web.Request, tx *kv.Tx, r *record.Record) (*record.Version, error) {
	id, err := uuid.Parse(c.Arg("version"))
	if err != nil {
		return nil, record.NotFound("version")
	}
	if r.Kind == record.Files {
		return catalog.FileVersion(tx, r, id)
	}
	return history.Version(tx, r, id)
}

func RestoreVersion(k *record.Kind) web.Operation {
	return restoreVersion(k, "id", "Changes a "+k.Name+" back to an earlier text. The present text becomes a version.")
}

func restoreVersion(k *record.Kind, arg, summary string) web.Operation {
	return web.ReadOp(web.TagOf(k), summary, "The record.", web.Title(k.Name), func(c *web.Request) error {
		return change(c, k, c.Arg(arg), func(tx *kv.Tx, r *record.Record, way catalog.Way, _ bool) error {
			if !way.Own {
				return catalog.ErrNotOwner
			}
			old, err := version(c, tx, r)
			if err != nil {
				return err
			}
			if k == record.Files {
				return restoreFileVersion(c, tx, r, old.ID)
			}
			form, err := r.Form()
			if err != nil {
				return err
			}
			form.Body, form.By, form.KeepVersion = k.New(), c.Caller.Client(), true
			if err := field.Load(form.Body, old.Body); err != nil {
				return err
			}
			return catalog.Save(tx, r, form, "")
		})
	}, 404).Conditional()
}

// restoreFileVersion changes a file back to earlier bytes. A small version that a browser has sent goes with the bytes
// that it shows; a browser that shows the file sends another.
func restoreFileVersion(c *web.Request, tx *kv.Tx, r *record.Record, id record.ID) error {
	if err := catalog.RestoreFileVersion(tx, r, id, c.Caller.Client()); err != nil {
		return err
	}
	return c.Site.Thumbs.DropPoster(r.Owner, r.ID)
}
