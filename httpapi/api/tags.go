package api

import (
	"cmp"
	"strconv"

	"github.com/google/uuid"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/record"
)

// ShownTag is a tag as its owner sees it.
type ShownTag struct {
	record.Tag
	counts map[string]int64
}

func (v *ShownTag) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Id of the tag.", web.SampleID)
	s.Text("name", &v.Name, record.MaxTag).Says("Its name, as first written.", `"travel"`)
	s.Ruled("color", &v.Color, record.CleanColor, record.ColorPattern, 7).Says("Its colour.", `"#3B82F6"`)
	number := field.Schema{Type: "integer"}
	s.Shown("count", number, func(dst []byte) []byte {
		var sum int64
		for _, n := range v.counts {
			sum += n
		}
		return strconv.AppendInt(dst, sum, 10)
	}).Says("Number of records with the tag.", `4`)
	s.Shown("counts", field.Schema{Type: "object", Free: true, Items: &number}, func(dst []byte) []byte {
		return web.AppendCounts(dst, v.counts)
	}).Says("Number of records with the tag, by kind.", `{"file":3,"note":1}`)
	s.Time("createdAt", &v.Created, field.Always).Says("When the tag was created.", `"2026-01-02T03:04:05.678Z"`)
}

// ShownFolder is a folder as its owner sees it.
type ShownFolder struct {
	record.Folder
	count int64
}

func (v *ShownFolder) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Id of the folder.", web.SampleID)
	s.Text("name", &v.Name, record.MaxName).Says("Its name.", `"Holidays"`)
	s.Ruled("color", &v.Color, record.CleanColor, record.ColorPattern, 7).Says("Its colour.", `"#3B82F6"`)
	s.Number("count", &v.count, 0, 1<<53).Says("Number of files in the folder.", `12`)
	s.Time("createdAt", &v.Created, field.Always).Says("When the folder was created.", `"2026-01-02T03:04:05.678Z"`)
}

var tags = &web.Resource[record.Tag, *ShownTag]{
	Name: "tag", Load: catalog.Tag, Save: catalog.SaveTag,
	Drop: func(s *kv.Store, owner, id record.ID) error { return catalog.RemoveTag(s, owner, id, uuid.Nil) },
	Show: func(_ *web.Request, tx *kv.Tx, t *record.Tag) (*ShownTag, error) {
		return &ShownTag{*t, catalog.TagCounts(tx, t)}, nil
	},
}

var ListTags = web.Operation{
	Tag: "tags", Summary: "Lists the caller's tags.",
	Reply: web.Reply{Status: 200, Doc: "All tags.", Body: web.ListOf("Tag")}, Serve: listTags,
}

func listTags(c *web.Request) error {
	var all []*ShownTag
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		tags, err := catalog.Tags(tx, c.Owner())
		for _, t := range tags {
			all = append(all, &ShownTag{t, catalog.TagCounts(tx, &t)})
		}
		return err
	}); err != nil {
		return err
	}
	return web.RespondWhole(c, all, "", "")
}

var CreateTag = web.CreateOp("tags", "Creates a tag.", "The tag.", "Tag", createTag, 409)

func createTag(c *web.Request) error {
	form := record.TagForm(record.Tag{})
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	return tags.Create(c, func(tx *kv.Tx) (*record.Tag, error) {
		return catalog.AddTag(tx, c.Owner(), form.Name, form.Color)
	})
}

var EditTag = web.EditOp("tags", "Renames or recolours a tag.", "The tag.", "Tag", editTag, 404, 409)

func editTag(c *web.Request) error {
	return tags.EditBy(c, record.TagForm(record.Tag{}), func(t *record.Tag, in field.Object) error {
		form := record.TagForm(*t)
		err := field.Patch(form, in)
		t.Name, t.Color = form.Name, cmp.Or(form.Color, record.ColorOf(form.Name))
		return err
	})
}

var RemoveTag = web.DoneOp("tags", "Deletes a tag. Its records stay.", tags.Remove, 404)

// MergeForm names the tag that another one is merged into.
type MergeForm struct{ into record.ID }

func (f *MergeForm) Fields(s *field.Set) {
	s.ID("into", &f.into, field.Required, field.Filled).Says("Id of the tag that replaces this one.", web.SampleID)
}

var MergeTag = web.Operation{
	Tag: "tags", Summary: "Replaces this tag by another one.",
	Body:  web.BodyOf("TagMerge"),
	Reply: web.Reply{Status: 200, Doc: "The other tag.", Body: web.DataOf("Tag")},
	Fails: []int{404}, Serve: mergeTag,
}

func mergeTag(c *web.Request) error {
	id, err := c.IDArg("tag")
	if err != nil {
		return err
	}
	form := new(MergeForm)
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	if form.into == uuid.Nil { // RemoveTag would take it for no tag
		return record.Bad(map[string]string{"into": "names a tag that you do not have"})
	}
	if err := c.CheckCaller(); err != nil {
		return err
	}
	if err := catalog.RemoveTag(c.Site.Store, c.Owner(), id, form.into); err != nil {
		return err
	}
	return tags.AnswerOne(c, form.into)
}

var folders = &web.Resource[record.Folder, *ShownFolder]{
	Name: "folder", All: catalog.Folders, Load: catalog.Folder, Save: catalog.SaveFolder, Drop: catalog.RemoveFolder,
	Place: func(f *record.Folder) (record.ID, string) { return f.ID, f.Name },
	Show: func(_ *web.Request, tx *kv.Tx, f *record.Folder) (*ShownFolder, error) {
		return &ShownFolder{*f, catalog.FolderCount(tx, f)}, nil
	},
}

var ListFolders = web.ListOp("folders", "Lists folders.", "A page of folders.", "Folder", folders.List)

var CreateFolder = web.CreateOp("folders", "Creates a folder.", "The folder.", "Folder", createFolder, 409)

func createFolder(c *web.Request) error {
	form := record.FolderForm(record.Folder{})
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	return folders.Create(c, func(tx *kv.Tx) (*record.Folder, error) {
		return catalog.AddFolder(tx, c.Owner(), form.Name, form.Color)
	})
}

var EditFolder = web.EditOp("folders", "Changes a folder.", "The folder.", "Folder", editFolder, 404, 409)

func editFolder(c *web.Request) error {
	return folders.EditBy(c, record.FolderForm(record.Folder{}), func(f *record.Folder, in field.Object) error {
		form := record.FolderForm(*f)
		err := field.Patch(form, in)
		f.Name, f.Color = form.Name, cmp.Or(form.Color, record.ColorOf(form.Name))
		return err
	})
}

var RemoveFolder = web.DoneOp("folders", "Deletes a folder; its files stay.", folders.Remove, 404)
