package api

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
	"kist/search"
)

// permanentParam is the parameter of the operations that delete a record.
var permanentParam = []web.Param{{
	In: "query", Name: "permanent", Doc: "true deletes it for good instead of moving it to the trash. That needs a " +
		"session or the scope all.",
	Schema: web.Object{"type": "boolean"},
}}

func removeRecord(k *record.Kind, arg string) func(*web.Request) error {
	return func(c *web.Request) error {
		values, err := c.Query()
		if err != nil {
			return err
		}
		args := web.Arguments{Values: values}
		permanent := args.Flag("permanent")
		if err := args.Err(); err != nil {
			return err
		}
		remove := func(tx *kv.Tx, r *record.Record) error { return catalog.Trash(tx, r, c.Caller.Client()) }
		if permanent != nil && *permanent {
			if err := c.NeedScope(people.ScopeAll); err != nil {
				return err
			}
			remove = catalog.Remove
		}
		if err := c.Site.Store.Update(func(tx *kv.Tx) error {
			r, err := catalog.ReachOwn(tx, c.Owner(), k, c.Arg(arg))
			if err != nil {
				return err
			}
			r.Body = bytes.Clone(r.Body)
			if _, err := c.Expect(tx, r, catalog.OwnWay); err != nil {
				return err
			}
			return remove(tx, r)
		}); err != nil {
			return c.FailChange(err, reach(c, k, c.Arg(arg)))
		}
		return c.RespondOK()
	}
}

// ShownTrash is a record in the trash as its owner sees it.
type ShownTrash struct {
	catalog.TrashItem
	Purged time.Time
}

func (v *ShownTrash) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.ReadOnly, field.Always).Says("Id of the item.", web.SampleID)
	s.Shown("kind", schemaOfKind, func(dst []byte) []byte {
		return field.AppendString(dst, v.Kind.Name)
	}).Says("Kind of the item.", `"note"`)
	s.Text("slug", &v.Slug, record.MaxSlug, field.ReadOnly).Says(
		"Its public identifier, which somebody else may have by now.", `"summer-24"`,
	)
	s.LongText("title", &v.Title, field.MaxURL, field.ReadOnly).Says("Its title or file name.", `"Summer"`)
	s.Number("size", &v.Size, 0, 1<<53, field.ReadOnly).Says("What it counts against the quota, in bytes.", `48213`)
	s.Time("deletedAt", &v.At, field.ReadOnly, field.Always).Says("When it was deleted.", `"2026-01-02T03:04:05.678Z"`)
	s.Text("deletedBy", &v.By, 255, field.ReadOnly).Says(
		"The browser, key or device that deleted it; \"sender: \" and a name if its sender took it back; empty for "+
			"its deletion link.", `"kist-cli"`,
	)
	s.ID("versionOf", &v.Of, field.ReadOnly).Says(
		"The file whose earlier bytes these are; null for a deleted item. Restoring makes a file of its own.", `null`,
	)
	s.Time("purgedAt", &v.Purged, field.ReadOnly, field.Always).Says(
		"When it will be deleted for good.", `"2026-02-01T03:04:05.678Z"`,
	)
}

var ListTrash = web.Operation{
	Tag: "trash", Summary: "Lists deleted items, the latest deletion first.",
	Args: []web.Param{
		{
			In: "query", Name: "kind", Doc: "Only this kind, by its name or that of its list.",
			Schema: web.Object{"type": "string"},
		},
		{
			In: "query", Name: "q", Doc: "Part of the title.", Schema: web.Object{"type": "string", "maxLength": search.MaxText},
		},
		{
			In: "query", Name: "limit",
			Doc:    "Maximum number of entries on a page. A page also ends at 4 MiB. Continue with nextCursor.",
			Schema: web.Object{"type": "integer", "minimum": 1, "maximum": web.MaxPage, "default": web.DefaultPage},
		},
		{
			In: "query", Name: "cursor", Doc: "nextCursor of the previous page.", Schema: web.Object{"type": "string"},
		},
	},
	Reply: web.Reply{Status: 200, Doc: "A page of the trash.", Body: web.ListOf("TrashItem")}, Serve: listTrash,
}

func listTrash(c *web.Request) error {
	values, err := c.Query()
	if err != nil {
		return err
	}
	args := web.Arguments{Values: values}
	p := web.Page{Limit: args.Number("limit", 1, web.MaxPage, web.DefaultPage), Cursor: args.Get("cursor")}
	var kind *record.Kind
	if t := args.Get("kind"); t != "" {
		kind = search.KindNamed(t)
		if kind == nil {
			args.Refuse("kind must be one of: " + web.Join(web.KindNames()))
		}
	}
	text := args.Get("q")
	if len(text) > search.MaxText {
		args.Refuse("q must be at most " + strconv.Itoa(search.MaxText) + " bytes")
	}
	if err := args.Err(); err != nil {
		return err
	}
	list := "trash\x00" + args.Get("kind") + "\x00" + text
	after, err := p.Position(list)
	if err != nil {
		return err
	}
	if p.Cursor == "" {
		after = nil
	}
	return c.Respond(http.StatusOK, func(dst []byte) ([]byte, error) {
		var page catalog.TrashPage
		var set people.Settings
		if err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
			set, err = people.ReadSettings(tx)
			if err != nil {
				return err
			}
			// one more, to see whether there is another page
			page, err = catalog.ListTrash(tx, c.Owner(), kind, text, after, p.Limit+1)
			return err
		}); err != nil {
			return dst, err
		}
		var shown []*ShownTrash
		for _, item := range page.Items {
			shown = append(shown, &ShownTrash{item, item.At.AddDate(0, 0, int(set.TrashDays))})
		}
		dst, n := web.AppendPage(append(dst, `{"data":`...), shown, p.Limit)
		next := ""
		if n < len(shown) {
			next = p.Write(list, page.Items[n-1].Place)
		}
		return web.AppendEnd(dst, int(page.Total), next), nil
	})
}

// RestoreForm says which items to restore.
type RestoreForm struct{ IDs []string }

// maxRestored is how many items one request can restore.
const maxRestored = 10_000

func (f *RestoreForm) Fields(s *field.Set) {
	s.IDs("ids", &f.IDs, maxRestored, field.Required, field.Filled).Says("Ids of the items.", "["+web.SampleID+"]")
}

// ShownRestored is an item that was restored.
type ShownRestored struct{ catalog.Restored }

func (v *ShownRestored) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.ReadOnly, field.Always).Says("Id of the item.", web.SampleID)
	s.Shown("kind", schemaOfKind, func(dst []byte) []byte {
		return field.AppendString(dst, v.Kind.Name)
	}).Says("Kind of the item.", `"note"`)
	s.Text("slug", &v.Slug, record.MaxSlug, field.ReadOnly).Says("Its public identifier.", `"summer-24"`)
	s.Shown("formerSlug", field.Schema{Type: "string", Nullable: true}, func(dst []byte) []byte {
		if v.Former == v.Slug {
			return append(dst, "null"...)
		}
		return field.AppendString(dst, v.Former)
	}).Says("The slug that it had, if that is in use by now and it got another one; otherwise null.", `null`)
}

var RestoreTrash = web.Operation{
	Tag: "trash", Summary: "Restores items from the trash as they were, " + strconv.Itoa(maxRestored) + " at most. Tags and folders that were deleted meanwhile are left out.",
	Body: web.BodyOf("TrashRestore"),
	Reply: web.Reply{
		Status: 200, Doc: "The restored items, in the order given. Those that are not in the trash are left out.",
		Body: web.BodyOf("TrashRestored"),
	},
	Fails: []int{404}, Serve: restoreTrash,
}

func restoreTrash(c *web.Request) error {
	form := new(RestoreForm)
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	ids := make([]record.ID, len(form.IDs))
	for i, t := range form.IDs {
		ids[i] = uuid.MustParse(t) // the form has checked them
	}
	if err := c.CheckCaller(); err != nil {
		return err
	}
	all, err := catalog.UntrashAll(c.Site.Store, c.Owner(), ids)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return record.NotFound("item")
	}
	shown := make([]*ShownRestored, len(all))
	for i := range all {
		shown[i] = &ShownRestored{all[i]}
	}
	return web.RespondWhole(c, shown, `{"data":`, "}")
}

var PurgeTrashed = web.DoneOp("trash", "Deletes an item in the trash for good.", purgeTrashed, 404)

func purgeTrashed(c *web.Request) error {
	id, err := c.IDArg("item")
	if err != nil {
		return err
	}
	if err := c.Site.Store.Update(func(tx *kv.Tx) error {
		t, err := catalog.Trashed(tx, c.Owner(), id)
		if err != nil {
			return err
		}
		return catalog.Remove(tx, &t.Record)
	}); err != nil {
		return err
	}
	return c.RespondOK()
}

var EmptyTrash = web.DoneOp("trash", "Deletes everything in the trash for good.", emptyTrash)

func emptyTrash(c *web.Request) error {
	if err := catalog.EmptyTrash(c.Site.Store, c.Owner()); err != nil {
		return err
	}
	return c.RespondOK()
}
