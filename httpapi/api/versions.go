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

// ShownVersion is an earlier text of a record. Kind is set where its text is shown too.
type ShownVersion struct {
	*record.Version
	Kind *record.Kind
}

func (v *ShownVersion) Fields(s *field.Set) {
	size := int64(v.Size)
	s.ID("id", &v.ID, field.ReadOnly, field.Always).Says("Id of the version.", web.SampleID)
	s.Time("at", &v.At, field.ReadOnly, field.Always).Says("When this text was replaced.", `"2026-01-02T03:04:05.678Z"`)
	s.Text("by", &v.By, 255, field.ReadOnly).Says("The browser, key or device that replaced it; empty if that is not known.", `"kist-cli"`)
	s.Number("size", &size, 0, 1<<53, field.ReadOnly).Says("Length of the text in bytes, as it counts against the quota.", `213`)
	if v.Kind != nil {
		s.Splice(&v.Body, v.Kind.New())
	}
}

func ListVersions(k *record.Kind) web.Operation {
	o := web.ListOp(k.Path, "Lists the earlier texts of a "+k.Name+". Changes by the same browser, key or device within five minutes are one, if each named the one before with If-Match.",
		"The versions.", "Version", listVersions(k))
	o.Fails = []int{404}
	return o
}

func listVersions(k *record.Kind) func(*web.Request) error {
	return func(c *web.Request) error {
		return web.AnswerList(c, func(tx *kv.Tx) ([]record.Version, error) {
			r, err := catalog.Borrow(tx, c.Owner(), k, c.Arg("id"))
			if err != nil {
				return nil, err
			}
			return history.Versions(tx, r)
		}, func(v *record.Version) (record.ID, string) { return v.ID, "" },
			func(_ *kv.Tx, v *record.Version) (*ShownVersion, error) { return &ShownVersion{Version: v}, nil })
	}
}

func ReadVersion(k *record.Kind) web.Operation {
	return web.ReadOp(k.Path, "Reads an earlier text of a "+k.Name+".", "The version with its text.", web.Title(k.Name)+"Version", readVersion(k), 404)
}

func readVersion(k *record.Kind) func(*web.Request) error {
	return func(c *web.Request) error {
		return c.Respond(http.StatusOK, func(dst []byte) ([]byte, error) {
			err := c.Site.Store.View(func(tx *kv.Tx) error {
				r, err := catalog.Borrow(tx, c.Owner(), k, c.Arg("id"))
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
	}
}

// version reads the version in the path.
func version(c *web.Request, tx *kv.Tx, r *record.Record) (*record.Version, error) {
	id, err := uuid.Parse(c.Arg("version"))
	if err != nil {
		return nil, record.NotFound("version")
	}
	return history.Version(tx, r, id)
}

func RestoreVersion(k *record.Kind) web.Operation {
	return web.ReadOp(k.Path, "Changes a "+k.Name+" back to an earlier text. The present text becomes a version.", "The record.", web.Title(k.Name), restoreVersion(k), 404).Conditional()
}

func restoreVersion(k *record.Kind) func(*web.Request) error {
	return func(c *web.Request) error {
		return change(c, k, c.Arg("id"), func(tx *kv.Tx, r *record.Record, _ bool) error {
			old, err := version(c, tx, r)
			if err != nil {
				return err
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
	}
}
