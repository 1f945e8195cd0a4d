package httpapi

import (
	"cmp"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
)

const sampleID = `"01890a5d-ac96-774b-bcce-b302099a8057"`

// shownTag is a tag as its owner sees it.
type shownTag struct {
	record.Tag
	counts map[string]int64
}

func (v *shownTag) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Id of the tag.", sampleID)
	s.Text("name", &v.Name, record.MaxTag).Says("Its name, as first written.", `"travel"`)
	s.Ruled("color", &v.Color, record.CleanColor, record.ColorPattern, 7).Says("Its colour.", `"#3B82F6"`)
	number := field.Schema{Type: "integer"}
	s.Shown("count", number, func(dst []byte) []byte {
		var sum int64
		for _, n := range v.counts {
			sum += n
		}
		return strconv.AppendInt(dst, sum, 10)
	}).Says("How many records have it.", `4`)
	s.Shown("counts", field.Schema{Type: "object", Free: true, Items: &number}, func(dst []byte) []byte {
		return appendCounts(dst, v.counts)
	}).Says("How many records have it, by kind.", `{"file":3,"note":1}`)
	s.Time("createdAt", &v.Created, field.Always).Says("When it was made.", `"2026-01-02T03:04:05.678Z"`)
}

// as puts a tag into the answer.
func (v *shownTag) as(tx *kv.Tx, t *record.Tag) { v.Tag, v.counts = *t, tx.TagCounts(t) }

func appendCounts(dst []byte, counts map[string]int64) []byte {
	dst = append(dst, '{')
	for i, k := range record.Kinds {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(field.AppendString(dst, k.Name), ':')
		dst = strconv.AppendInt(dst, counts[k.Name], 10)
	}
	return append(dst, '}')
}

// shownFolder is a folder as its owner sees it.
type shownFolder struct {
	record.Folder
	count int64
}

func (v *shownFolder) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Id of the folder.", sampleID)
	s.Text("name", &v.Name, record.MaxName).Says("Its name.", `"Holidays"`)
	s.Ruled("color", &v.Color, record.CleanColor, record.ColorPattern, 7).Says("Its colour.", `"#3B82F6"`)
	s.Number("count", &v.count, 0, 1<<53).Says("How many files lie in it.", `12`)
	s.Time("createdAt", &v.Created, field.Always).Says("When it was made.", `"2026-01-02T03:04:05.678Z"`)
}

// uuid is the id in the path; what names the thing that it must be of.
func (c *request) uuid(what string) (record.ID, error) {
	id, err := uuid.Parse(c.arg("id"))
	if err != nil || id == uuid.Nil { // which stands for none elsewhere
		return id, record.NotFound(what)
	}
	return id, nil
}

func listTags(c *request) error {
	var all []*shownTag
	if err := c.s.Store.View(func(tx *kv.Tx) error {
		tags, err := tx.Tags(c.owner())
		for _, t := range tags {
			all = append(all, &shownTag{t, tx.TagCounts(&t)})
		}
		return err
	}); err != nil {
		return err
	}
	return c.respond(http.StatusOK, func(dst []byte) ([]byte, error) { return appendAll(dst, all), nil })
}

func createTag(c *request) error {
	form := record.TagForm(record.Tag{})
	if err := c.decodeNew(form); err != nil {
		return err
	}
	v := new(shownTag)
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		t, err := tx.AddTag(c.owner(), form.Name, form.Color)
		if err == nil {
			v.as(tx, t)
		}
		return err
	}); err != nil {
		return err
	}
	return c.respondData(http.StatusCreated, v)
}

func patchTag(c *request) error {
	id, err := c.uuid("tag")
	if err != nil {
		return err
	}
	in, err := c.decodePatch(record.TagForm(record.Tag{}))
	if err != nil {
		return err
	}
	v := new(shownTag)
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		t, err := tx.Tag(c.owner(), id)
		if err != nil {
			return err
		}
		form := record.TagForm(*t)
		if err := field.Patch(form, in); err != nil {
			return err
		}
		t.Name, t.Color = form.Name, cmp.Or(form.Color, record.DefaultColor)
		v.as(tx, t)
		return tx.SaveTag(t)
	}); err != nil {
		return err
	}
	return c.respondData(http.StatusOK, v)
}

func removeTag(c *request) error {
	id, err := c.uuid("tag")
	if err != nil {
		return err
	}
	if err := c.s.Store.RemoveTag(c.owner(), id, uuid.Nil); err != nil {
		return err
	}
	return c.respondOK()
}

// mergeForm names the tag that another is merged into.
type mergeForm struct{ into record.ID }

func (f *mergeForm) Fields(s *field.Set) {
	s.ID("into", &f.into, field.Required, field.Filled).Says("Tag that takes the place of this one.", sampleID)
}

func mergeTag(c *request) error {
	id, err := c.uuid("tag")
	if err != nil {
		return err
	}
	form := new(mergeForm)
	if err := c.decodeNew(form); err != nil {
		return err
	}
	if form.into == uuid.Nil { // to RemoveTag that is no tag
		return record.Bad(map[string]string{"into": "names a tag that you do not have"})
	}
	if err := c.s.Store.RemoveTag(c.owner(), id, form.into); err != nil {
		return err
	}
	v := new(shownTag)
	if err := c.s.Store.View(func(tx *kv.Tx) error {
		t, err := tx.Tag(c.owner(), form.into)
		if err == nil {
			v.as(tx, t)
		}
		return err
	}); err != nil {
		return err
	}
	return c.respondData(http.StatusOK, v)
}

func listFolders(c *request) error {
	return answerList(c,
		func(tx *kv.Tx) ([]record.Folder, error) { return tx.Folders(c.owner()) },
		func(f *record.Folder) (record.ID, string) { return f.ID, f.Name },
		func(tx *kv.Tx, f *record.Folder) (*shownFolder, error) {
			return &shownFolder{*f, tx.FolderCount(f)}, nil
		})
}

func createFolder(c *request) error {
	form := record.FolderForm(record.Folder{})
	if err := c.decodeNew(form); err != nil {
		return err
	}
	v := new(shownFolder)
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		f, err := tx.AddFolder(c.owner(), form.Name, form.Color)
		if err == nil {
			v.Folder = *f
		}
		return err
	}); err != nil {
		return err
	}
	return c.respondData(http.StatusCreated, v)
}

func patchFolder(c *request) error {
	id, err := c.uuid("folder")
	if err != nil {
		return err
	}
	in, err := c.decodePatch(record.FolderForm(record.Folder{}))
	if err != nil {
		return err
	}
	v := new(shownFolder)
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		f, err := tx.Folder(c.owner(), id)
		if err != nil {
			return err
		}
		form := record.FolderForm(*f)
		if err := field.Patch(form, in); err != nil {
			return err
		}
		f.Name, f.Color = form.Name, cmp.Or(form.Color, record.DefaultColor)
		v.Folder, v.count = *f, tx.FolderCount(f)
		return tx.SaveFolder(f)
	}); err != nil {
		return err
	}
	return c.respondData(http.StatusOK, v)
}

func removeFolder(c *request) error {
	id, err := c.uuid("folder")
	if err != nil {
		return err
	}
	if err := c.s.Store.RemoveFolder(c.owner(), id); err != nil {
		return err
	}
	return c.respondOK()
}
