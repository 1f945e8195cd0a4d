package api

import (
	"encoding/binary"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/record"
)

var ListCollectionItems = web.Operation{
	Tag: "collections", Summary: "Lists the items of a collection, in its order.",
	Args: append(web.PageParams(nil)[:3:3],
		web.Param{
			In: "query", Name: "brief", Doc: "Cuts contents, ingredients and instructions to 300 characters.",
			Schema: web.Object{"type": "boolean"},
		}),
	Reply: web.Reply{
		Status: 200, Doc: "A page of records of any kind, and which of them visitors do not see.",
		Body: web.BodyOf("CollectedItemList"),
	},
	Fails: []int{404}, Serve: listCollectionItems,
}

// listCollectionItems answers with a page of records. A cursor has the last item and its
// number, in case that item is gone.
func listCollectionItems(c *web.Request) error {
	values, err := c.Query()
	if err != nil {
		return err
	}
	args := web.Arguments{Values: values}
	p, brief := args.Page(nil), args.Flag("brief")
	if err := args.Err(); err != nil {
		return err
	}
	after, err := p.Position(c.R.URL.Path)
	if err != nil || len(after) > 0 && len(after) != len(record.ID{})+4 {
		return web.ErrCursor
	}
	return c.Respond(http.StatusOK, func(dst []byte) ([]byte, error) {
		err := c.Site.Store.View(func(tx *kv.Tx) error {
			r, way, err := catalog.Reach(tx, c.Owner(), record.Collections, c.Arg("id"))
			if err != nil {
				return err
			}
			who := record.Asker{ID: c.Owner(), Role: way.Role}
			all, err := catalog.ItemsOf(tx, r)
			if err != nil {
				return err
			}
			at := min(p.Offset, len(all.All))
			if len(after) > 0 {
				last := record.ID(after)
				at = slices.IndexFunc(all.All, func(m catalog.Item) bool { return m.ID == last }) + 1
				if at == 0 { // what came after it has moved up
					number := int(binary.BigEndian.Uint32(after[len(last):]))
					at = min(max(number-1, 0), len(all.All))
				}
			}
			dst = append(dst, `{"data":[`...)
			first, n := len(dst), 0
			var out []catalog.Item
			for _, m := range all.All[at:] {
				if n == p.Limit {
					break
				}
				item, may, err := catalog.Through(tx, r, who, m.ID)
				if err != nil {
					return err
				}
				if brief != nil && *brief {
					item, err = item.Brief()
					if err != nil {
						return err
					}
				}
				before := len(dst)
				if n > 0 {
					dst = append(dst, ',')
				}
				dst, err = c.Site.ShowAs(tx, dst, item, catalog.Way{Role: role(way, may), Collection: r, Rights: may})
				if err != nil {
					return err
				}
				if web.PageFull(len(dst)-first, n) {
					dst = dst[:before]
					break
				}
				n++
				if m.LeftOut != "" && way.Own { // a member may not know the conditions of an item
					out = append(out, m)
				}
			}
			dst = append(dst, `],"leftOut":`...)
			dst = field.AppendList(dst, out, func(dst []byte, m catalog.Item) []byte {
				return field.AppendJSON(dst, &LeftOut{m.ID, m.LeftOut})
			})
			next := ""
			at += n
			if n > 0 && at < len(all.All) {
				next = p.Write(c.R.URL.Path, binary.BigEndian.AppendUint32(slices.Clone(all.All[at-1].ID[:]), uint32(at)))
			}
			dst = web.AppendEnd(dst, len(all.All), next)
			return nil
		})
		return dst, err
	})
}

// role is what somebody may do with an item of a collection: the owner of the collection edits what is not their own.
func role(way catalog.Way, may record.Rights) record.Role {
	if way.Own && !may.Own {
		return record.RoleEdit
	}
	return way.Role
}

// LeftOut is an item that visitors of a collection do not see, and why.
type LeftOut struct {
	ID     record.ID
	Reason record.Exclusion
}

func (v *LeftOut) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Id of the item.", web.SampleID)
	field.Choice(s, "reason", &v.Reason, record.Exclusions).Says(
		"What the item has that a collection must not get around.", `"password"`,
	)
}

// ItemsForm is which items to add to a collection and which to take out.
type ItemsForm struct{ Add, Remove []string }

func (f *ItemsForm) Fields(s *field.Set) {
	s.IDs("add", &f.Add, record.MaxPicked).Says(
		"Items to add at the end. Those that are in it stay where they are.", `[`+web.SampleID+`]`,
	)
	s.IDs("remove", &f.Remove, record.MaxPicked).Says("Items to take out. They are not deleted.", `[]`)
}

var EditCollectionItems = web.Operation{
	Tag: "collections", Summary: "Adds items to a collection and takes others out.",
	Body:  web.BodyOf("CollectionItems"),
	Reply: web.Reply{Status: 200, Doc: "The collection.", Body: web.DataOf("Collection")},
	Fails: []int{404, 409}, Serve: editCollectionItems,
}.Conditional()

func editCollectionItems(c *web.Request) error {
	form := new(ItemsForm)
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	return changeItems(c, func(tx *kv.Tx, r *record.Record, who record.Asker) error {
		return catalog.Pick(tx, r, who, form.Add, form.Remove)
	})
}

// PlaceForm is where to move an item of a collection.
type PlaceForm struct{ Before record.ID }

func (f *PlaceForm) Fields(s *field.Set) {
	s.ID("before", &f.Before).Says("Item that it is to come before; null for the end.", web.SampleID)
}

var MoveCollectionItem = web.Operation{
	Tag: "collections", Summary: "Moves an item to another place in a collection.",
	Body:  web.BodyOf("CollectionPlace"),
	Reply: web.Reply{Status: 200, Doc: "The collection.", Body: web.DataOf("Collection")},
	Fails: []int{404, 409}, Serve: moveCollectionItem,
}.Conditional()

func moveCollectionItem(c *web.Request) error {
	form := new(PlaceForm)
	if _, err := c.DecodePatch(form); err != nil {
		return err
	}
	item, err := uuid.Parse(c.Arg("itemId"))
	if err != nil {
		return record.NotFound("item")
	}
	return changeItems(c, func(tx *kv.Tx, r *record.Record, who record.Asker) error {
		return catalog.Move(tx, r, who, item, form.Before)
	})
}

// changeItems changes the items of the collection in the path and answers with it.
func changeItems(c *web.Request, fn func(*kv.Tx, *record.Record, record.Asker) error) error {
	return change(c, record.Collections, c.Arg("id"), func(tx *kv.Tx, r *record.Record, way catalog.Way, _ bool) error {
		return fn(tx, r, record.Asker{ID: c.Owner(), Role: way.Role})
	})
}
