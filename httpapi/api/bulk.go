package api

import (
	"strconv"

	"github.com/google/uuid"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/record"
)

// maxBulk is how many items one request can change.
const maxBulk = 500

// BulkForm says what to do with which items: a change of all of them, or an action.
type BulkForm struct {
	IDs    []string
	set    bulkSet
	Set    bool // whether there is a change
	Action BulkAction
}

// BulkAction is what can be done with items other than a change.
type BulkAction string

const (
	bulkTrash   BulkAction = "trash"
	bulkRestore BulkAction = "restore"
)

// BulkActions lists the actions.
var BulkActions = []BulkAction{bulkTrash, bulkRestore}

func (f *BulkForm) Fields(s *field.Set) {
	if f.set.Form == nil {
		f.set.Form = new(record.Form)
	}
	s.IDs("ids", &f.IDs, maxBulk, field.Required, field.Filled).Says(
		"Ids of the items, of any kind.", "["+web.SampleID+"]",
	)
	s.Nested("set", f.set, &f.Set, func() error {
		return nil
	}).Says("What to change of all items.", `{"addTags":["travel"]}`)
	field.MaybeChoice(s, "action", &f.Action, BulkActions).Says(
		"What to do with the items instead: move them to the trash, or restore them from it.", `"trash"`,
	)
}

// check says what is wrong with the form as a whole.
func (f *BulkForm) check(in field.Object) error {
	changes, _ := in["set"].(field.Object)
	bad := field.Problems{}
	for _, name := range field.Unknown(f.set, changes) {
		bad["set"] = "has a member that is not known: " + name
	}
	if f.Set == (f.Action != "") {
		bad["set"] = "or action must be given, and not both"
	}
	if f.Set && len(changes) == 0 {
		bad["set"] = "must not be empty"
	}
	return web.JoinProblems(bad, field.Patch(f.set, changes))
}

// bulkSet is the shape of a change of many items.
type bulkSet struct{ *record.Form }

func (f bulkSet) Fields(s *field.Set) {
	s.Bool("isFavorite", &f.Favorite).Says("Marks them as favourites.", `true`)
	s.Bool("isPublic", &f.Public).Says("Whether others can see them.", `true`)
	s.ID("folderId", &f.Folder).Says("Folder to put files in; null takes them out.", web.SampleID)
	f.TagChanges(s)
}

// BulkOutcome is what became of one item.
type BulkOutcome struct {
	id  record.ID
	err error
}

func (v *BulkOutcome) Fields(s *field.Set) {
	ok := v.err == nil
	s.ID("id", &v.id, field.Always).Says("Id of the item.", web.SampleID)
	s.Bool("ok", &ok).Says("Whether it was changed.", `true`)
	if ok {
		return
	}
	e, _ := web.ClientError(v.err)
	s.Text("error", &e.Text, field.MaxURL)
	s.Text("code", &e.Code, field.MaxURL)
}

var ChangeMany = web.Operation{
	Tag: "records", Summary: "Changes up to " + strconv.Itoa(maxBulk) + " items of any kind, or moves them to the trash or back.",
	Body: web.BodyOf("Bulk"),
	Reply: web.Reply{
		Status: 200,
		Doc:    "What became of each item, in the order given. Each is one change: one that is refused holds up none of the others.",
		Body:   web.BodyOf("BulkDone"),
	},
	Serve: changeMany,
}

func changeMany(c *web.Request) error {
	form := new(BulkForm)
	in, err := c.ReadObject(web.SmallBody, form)
	if err != nil {
		return err
	}
	if err := web.JoinProblems(field.Create(form, in)); err != nil {
		return err
	}
	if err := form.check(in); err != nil {
		return err
	}
	var ids []record.ID
	there := map[record.ID]bool{}
	for _, t := range form.IDs {
		id := uuid.MustParse(t) // the form has checked them
		if !there[id] {
			there[id], ids = true, append(ids, id)
		}
	}

	if err := c.CheckCaller(); err != nil {
		return err
	}
	if err := c.CountChanges(len(ids) - 1); err != nil { // one was counted for the request
		return err
	}
	var refused []error
	switch form.Action {
	case bulkRestore:
		refused, err = catalog.UntrashEach(c.Site.Store, c.Owner(), ids)
	case bulkTrash:
		refused, err = eachItem(c, ids, func(tx *kv.Tx, r *record.Record) error {
			return catalog.Trash(tx, r, c.Caller.Client())
		})
	default:
		changes := in["set"].(field.Object) // check has seen it
		refused, err = eachItem(c, ids, func(tx *kv.Tx, r *record.Record) error {
			return setOf(tx, r, changes, c.Caller.Client())
		})
	}
	if err != nil {
		return err
	}

	done := make([]*BulkOutcome, len(ids))
	for i, id := range ids {
		done[i] = &BulkOutcome{id, refused[i]}
	}
	return web.RespondWhole(c, done, `{"data":`, "}")
}

// eachItem changes the caller's items with these ids, each alone.
func eachItem(c *web.Request, ids []record.ID, change func(*kv.Tx, *record.Record) error) ([]error, error) {
	return catalog.EachAlone(c.Site.Store, ids, func(tx *kv.Tx, id record.ID) error {
		r, err := catalog.ItemOf(tx, c.Owner(), id)
		if err != nil {
			return err
		}
		return change(tx, r)
	}, func(*kv.Tx) error { return nil })
}

// setOf makes a change of many items with one of them.
func setOf(tx *kv.Tx, r *record.Record, changes field.Object, by string) error {
	if _, filed := changes["folderId"]; filed && r.Kind != record.Files {
		return record.Bad(map[string]string{"folderId": "is only for files"})
	}
	form, err := r.Form()
	if err != nil {
		return err
	}
	form.By = by
	if err := form.PatchAs(bulkSet{form}, changes); err != nil {
		return web.JoinProblems(err)
	}
	return catalog.Save(tx, r, form, "")
}
