// Package api has the owner's operations: records, tags, folders, keys, accounts, webhooks,
// search, import and export.
package api

import (
	"bytes"
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"kist/httpapi/public"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/record"
	"kist/search"
)

func CreateRecord(k *record.Kind) web.Operation {
	return web.Operation{
		Tag: web.TagOf(k), Summary: "Creates a " + k.Name + ".",
		Body: web.BodyOf(web.Title(k.Name) + "Create"), Reply: web.Reply{
			Status: 201, Doc: "The record and its address.", Body: web.BodyOf(web.Title(k.Name) + "Created"),
		},
		Fails: []int{409}, Plain: web.BareAddress, Serve: createRecord(k),
	}
}

func createRecord(k *record.Kind) func(*web.Request) error {
	return func(c *web.Request) error {
		form := record.NewForm(k)
		in, err := c.ReadObject(k.MaxBody, form)
		if err != nil {
			return err
		}
		problems, ends := field.Create(form, in), form.CheckNew(c.Site.Store.Now())
		target := func(tx *kv.Tx) error { return public.CheckTarget(c.Site, tx, form, [2]string{}) }
		if web.JoinProblems(problems, ends, form.CheckShows()) != nil { // report all problems at once
			return web.JoinProblems(problems, ends, form.CheckShows(), c.Site.Store.View(target))
		}
		hash, err := c.Hash(form.Password)
		if err != nil {
			return err
		}
		var v *web.ShownRecord
		defer func() {
			if v != nil {
				v.Release()
			}
		}()
		return c.Create(func(tx *kv.Tx) (made web.Created, err error) {
			if err := target(tx); err != nil {
				return made, web.JoinProblems(err)
			}
			if err := public.TakeOwnPicture(c.Site, tx, c.Owner(), form.Body, record.ID{}, ""); err != nil {
				return made, err
			}
			if err := catalog.CheckPicture(tx, c.Owner(), form.Body, record.ID{}); err != nil {
				return made, err
			}
			r, err := catalog.Add(tx, catalog.Draft{Owner: c.Owner(), Kind: k, Form: form, Password: hash})
			if err != nil {
				return made, err
			}
			var same []*web.Duplicate
			if b, ok := form.Body.(*record.Bookmark); ok {
				same, err = duplicates(tx, r, b.URL)
				if err != nil {
					return made, err
				}
			}
			v, err = c.Site.Read(tx, r)
			made.Append = func(dst []byte) ([]byte, error) { return c.AppendCreated(dst, v, same), nil }
			return made, err
		})
	}
}

// duplicates lists the older bookmarks of the page of a new one.
func duplicates(tx *kv.Tx, r *record.Record, page string) (same []*web.Duplicate, err error) {
	twins, err := catalog.SamePages(tx, r.Owner, page, r.ID)
	for _, twin := range twins {
		same = append(same, &web.Duplicate{ID: twin.ID, Slug: twin.Slug})
	}
	return same, err
}

var ReadFile = readOp("files", "Reads the record of a file, by slug or id.", "File", readRecord(record.Files, "slug"))

func ReadRecord(k *record.Kind) web.Operation {
	return readOp(web.TagOf(k), "Reads a "+k.Name+", by id or slug.", web.Title(k.Name), readRecord(k, "id"))
}

func readOp(tag, summary, name string, serve func(*web.Request) error) web.Operation {
	o := web.ReadOp(tag, summary, "The record.", name, serve, 304, 404)
	o.Args = []web.Param{web.IfNoneMatch}
	return o
}

func readRecord(k *record.Kind, arg string) func(*web.Request) error {
	return func(c *web.Request) error {
		return c.RespondRecord(http.StatusOK, `{"data":`, reach(c, k, c.Arg(arg)))
	}
}

// reach finds a record of a kind that the caller owns or reaches through a collection.
func reach(c *web.Request, k *record.Kind, named string) web.Find {
	return func(tx *kv.Tx) (*record.Record, catalog.Way, error) { return catalog.Reach(tx, c.Owner(), k, named) }
}

var EditFile = web.EditOp(
	"files", "Changes the record of a file.", "The record.", "File", editRecord(record.Files, "slug"), 404, 409,
).Conditional()

func EditRecord(k *record.Kind) web.Operation {
	return web.EditOp(
		web.TagOf(k), "Changes a "+k.Name+".", "The record.", web.Title(k.Name), editRecord(k, "id"), 404, 409,
	).Conditional()
}

func editRecord(k *record.Kind, arg string) func(*web.Request) error {
	return func(c *web.Request) error {
		form := record.NewForm(k)
		in, err := c.ReadObject(k.MaxBody, record.Edit{Form: form})
		if err != nil {
			return err
		}
		if k == record.Files {
			nameTags(in)
		}
		// The first patch, outside the transaction, finds the problems and the password to
		// hash. The second one cannot fail because of the form.
		if err := web.JoinProblems(form.Patch(in), form.CheckShows()); err != nil {
			return err
		}
		hash, err := c.Hash(form.Password)
		if err != nil {
			return err
		}
		return change(c, k, c.Arg(arg), func(tx *kv.Tx, r *record.Record, way catalog.Way, seen bool) error {
			if !way.Own {
				if err := onlyWords(k, way, in); err != nil {
					return err
				}
			}
			form, err := r.Form()
			if err != nil {
				return err
			}
			form.By, form.Seen = writer(c, way), seen
			before := public.LinkTarget(form)
			pictured, shown := record.PictureOf(form.Body), public.PictureAddress(form.Body)
			if err := form.Patch(in); err != nil {
				return err
			}
			if err := web.JoinProblems(public.CheckTarget(c.Site, tx, form, before)); err != nil {
				return err
			}
			if err := public.TakeOwnPicture(c.Site, tx, r.Owner, form.Body, pictured, shown); err != nil {
				return err
			}
			if err := catalog.CheckPicture(tx, r.Owner, form.Body, pictured); err != nil {
				return err
			}
			if !way.Own {
				if err := catalog.CheckShown(r, form); err != nil {
					return err
				}
				if err := catalog.NoteEdit(tx, r, c.Caller.User.Name); err != nil {
					return err
				}
			}
			return catalog.Save(tx, r, form, hash)
		})
	}
}

// onlyWords refuses a change by somebody who is not the owner, unless it is about the words and may be made.
func onlyWords(k *record.Kind, way catalog.Way, in field.Object) error {
	if !way.Change {
		return record.NotTheOwner("You can see this, but not change it.", slices.Sorted(maps.Keys(in))...)
	}
	words := slices.Concat(record.Words(k), field.Unknown(record.Edit{Form: record.NewForm(k)}, in))
	var other []string
	for name := range in {
		if !slices.Contains(words, name) {
			other = append(other, name)
		}
	}
	if len(other) > 0 {
		slices.Sort(other)
		return record.NotTheOwner("Only its owner can change this: "+strings.Join(other, ", ")+".", other...)
	}
	return nil
}

// writer names who changes a text, for its versions: the client, and who it is if that is not the owner.
func writer(c *web.Request, way catalog.Way) string {
	if way.Own {
		return c.Caller.Client()
	}
	return cmp.Or(c.Caller.User.DisplayName, c.Caller.User.Name) + " · " + c.Caller.Client()
}

// change changes a record of a kind, which the caller reaches, in a transaction, and answers with it. It tells fn how
// the caller reaches it, and whether the request has named the record as it is.
func change(
	c *web.Request, k *record.Kind, named string,
	fn func(tx *kv.Tx, r *record.Record, way catalog.Way, seen bool) error,
) error {
	// The answer is the whole record. It is held before the change, which cannot be taken back.
	long := 0
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		r, _, err := catalog.Reach(tx, c.Owner(), k, named)
		if err != nil {
			return err
		}
		long = len(r.Body)
		return nil
	}); err != nil {
		return err
	}
	if err := c.Hold(2 * int64(long)); err != nil {
		return err
	}

	var v *web.ShownRecord
	if err := c.UpdateAsCaller(func(tx *kv.Tx) error {
		r, way, err := catalog.Reach(tx, c.Owner(), k, named)
		if err != nil {
			return err
		}
		r.Body = bytes.Clone(r.Body)
		seen, err := c.Expect(tx, r, way)
		if err != nil {
			return err
		}
		if err := fn(tx, r, way, seen); err != nil {
			return err
		}
		v, err = c.Site.ReadAs(tx, r, way)
		return err
	}); err != nil {
		return c.FailChange(err, reach(c, k, named))
	}
	defer v.Release()
	return c.Respond(http.StatusOK, func(dst []byte) ([]byte, error) {
		return append(c.AppendOne(append(dst, `{"data":`...), v), '}'), nil
	})
}

// nameTags replaces tags that are objects by their names, so that clients can send a file's tags
// back in the form in which they got them.
func nameTags(in field.Object) {
	list, _ := in["tags"].([]any)
	for i, v := range list {
		if o, ok := v.(field.Object); ok {
			list[i] = o["name"]
		}
	}
}

var RemoveFile = removeOp(record.Files, "slug")

func RemoveRecord(k *record.Kind) web.Operation { return removeOp(k, "id") }

func removeOp(k *record.Kind, arg string) web.Operation {
	o := web.DoneOp(web.TagOf(k), "Moves a "+k.Name+" to the trash.", removeRecord(k, arg), 404)
	o.Args = permanentParam
	return o.Conditional()
}

var ListFiles = web.Operation{
	Tag: "files", Summary: "Lists files.",
	Args: listParams(record.Files), Reply: web.Reply{Status: 200, Doc: "A page of files.", Body: web.ListOf("File")},
	Serve: listRecords(record.Files),
}

var ListUploads = web.Operation{
	Tag: "files", Summary: "Lists files, like /files.",
	Args: listParams(record.Files), Reply: web.Reply{Status: 200, Doc: "A page of files.", Body: web.ListOf("File")},
	Serve: listRecords(record.Files),
}

func ListRecords(k *record.Kind) web.Operation {
	return web.Operation{
		Tag: web.TagOf(k), Summary: "Lists the caller's " + k.Name + "s.",
		Args:  listParams(k),
		Reply: web.Reply{Status: 200, Doc: "A page of records.", Body: web.ListOf(web.Title(k.Name))},
		Serve: listRecords(k),
	}
}

func listRecords(k *record.Kind) func(*web.Request) error {
	return func(c *web.Request) error {
		args, err := c.Query()
		if err != nil {
			return err
		}
		q := catalog.Query{Owner: c.Owner(), Kind: k}
		names, folder, err := listArgs(&q, args)
		if err != nil {
			return err
		}
		of := fromMine
		if k == record.Collections {
			arguments := web.Arguments{Values: args}
			of = fromArg(&arguments)
			if err := arguments.Err(); err != nil {
				return err
			}
		}
		text, err := search.Parse(args.Get("q"))
		if err != nil {
			return err
		}
		brief := (&web.Arguments{Values: args}).Flag("brief")
		q.Brief, q.Most = brief != nil && *brief, web.PageBytes
		done := func() {}
		if q.Text != "" {
			done, err = takeTurn(c)
			if err != nil {
				return err
			}
		}
		defer done()
		return c.Respond(http.StatusOK, func(dst []byte) ([]byte, error) {
			defer done()
			q := q
			err := ViewWithIndex(c, q.Text != "", func(tx *kv.Tx, look IndexLookup) error {
				known, err := narrow(tx, &q, names, folder)
				if err != nil {
					return err
				}
				own := func(q catalog.Query) (catalog.Page, error) {
					if !known {
						return catalog.Page{}, nil // there is no such folder or tag
					}
					return list(c, tx, q, text, look)
				}
				var page sharedPage
				if of == fromMine {
					page.Page, err = own(q)
				} else {
					page, err = listShared(c, tx, q, text, of, len(names) > 0, own)
				}
				if err != nil {
					return err
				}
				dst = append(dst, `{"data":[`...)
				for i, r := range page.Records {
					if i > 0 {
						dst = append(dst, ',')
					}
					dst, err = c.Site.ShowAs(tx, dst, r, page.way(r))
					if err != nil {
						return err
					}
				}
				dst = web.AppendEnd(append(dst, ']'), page.Total, page.Next)
				return nil
			})
			return dst, err
		})
	}
}

// listArgs reads the parameters of a list. It returns the names of tags and folder, and puts
// the rest into q. It reports all problems at once.
func listArgs(q *catalog.Query, values url.Values) (tags []string, folder string, err error) {
	args := web.Arguments{Values: values}
	page := args.Page(catalog.Sorts(q.Kind))
	q.Limit, q.Offset, q.After, q.Sort = page.Limit, page.Offset, page.Cursor, page.Sort
	q.Favorite, q.Public = cmp.Or(
		args.Flag("favorite"), args.Flag("isFavorite"),
	), cmp.Or(args.Flag("public"), args.Flag("isPublic"))
	if t := args.Get("updatedSince"); t != "" {
		since, _, err := field.ParseTime(t)
		if err != nil {
			args.Refuse("updatedSince must be a time such as 2026-01-31T12:00:00Z, or a date")
		}
		q.Since = since
	}
	_ = args.Flag("brief") // for its error
	tags = tagNames(values)
	if q.Kind == record.Files {
		folder = args.Get("folder")
		attached := args.Flag("attachments")
		q.Attached = attached != nil && *attached
		if t := args.Get("type"); t != "" {
			at := slices.Index(record.ClassNames(), t)
			if at < 0 {
				args.Refuse("type must be one of: " + web.Join(record.ClassNames()))
			}
			class := record.Class(at)
			q.Class = &class
		}
	}
	if q.Kind == record.Games {
		q.Status = record.GameStatus(args.Get("status"))
		if q.Status != "" && !slices.Contains(record.GameStatuses, q.Status) {
			args.Refuse("status must be one of: " + web.Join(record.GameStatuses))
		}
	}
	if q.Kind == record.Bookmarks {
		q.Unreachable = args.Flag("unreachable")
		if t := args.Get("url"); t != "" {
			t, err := field.CleanURL(t)
			if err != nil {
				args.Refuse("url " + err.Error())
			}
			key := record.PageKey(t)
			q.Page = &key
		}
	}
	q.Text = strings.TrimSpace(args.Get("q"))
	return tags, folder, args.Err()
}

// tagNames reads the tags that filter a list.
func tagNames(values url.Values) (tags []string) {
	for _, t := range append(values["tag"], strings.Split(strings.Join(values["tags"], ","), ",")...) {
		t = strings.TrimSpace(t)
		if t != "" {
			tags = append(tags, t)
		}
	}
	return tags
}

// narrow turns names into ids. It returns false if the owner has no tag or folder with a
// name: then no record matches.
func narrow(tx *kv.Tx, q *catalog.Query, tags []string, folder string) (bool, error) {
	for _, name := range tags {
		name, err := record.CleanTag(name)
		if err != nil {
			return false, nil
		}
		t, err := catalog.TagNamed(tx, q.Owner, name)
		if kv.Missing(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		q.Tags = append(q.Tags, t.ID)
	}
	if folder == "" {
		return true, nil
	}
	if folder == "unfiled" {
		q.Folder = new(record.ID)
		return true, nil
	}
	id, _ := uuid.Parse(folder)
	f, err := catalog.Folder(tx, q.Owner, id)
	if kv.Missing(err) {
		f, err = catalog.FolderNamed(tx, q.Owner, strings.Join(strings.Fields(folder), " "))
	}
	if kv.Missing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	q.Folder = &f.ID
	return true, nil
}

func listParams(k *record.Kind) []web.Param {
	text := web.Object{"type": "string"}
	flag := web.Object{"type": "boolean"}
	all := append(web.PageParams(catalog.Sorts(k)),
		web.Param{In: "query", Name: "q", Doc: "Text to look for.", Schema: text},
		web.Param{
			In: "query", Name: "tag", Doc: "Name of a tag. Repeat it for several tags; all must match.",
			Schema: web.Object{"type": "array", "items": text},
		},
		web.Param{
			In: "query", Name: "tags", Doc: "Names of tags, separated by commas; all must match.", Schema: text,
		},
		web.Param{
			In: "query", Name: "favorite", Doc: "true for favourites only, false for all others.", Schema: flag,
		},
		web.Param{
			In: "query", Name: "public", Doc: "true for public records only, false for all others.", Schema: flag,
		},
		web.Param{In: "query", Name: "isFavorite", Doc: "As favorite.", Schema: flag},
		web.Param{In: "query", Name: "isPublic", Doc: "As public.", Schema: flag},
		web.Param{
			In: "query", Name: "updatedSince",
			Doc: "Only records that were changed at this time or later; a date is its beginning in UTC. Deleted ones are in the " +
				"trash.",
			Schema: web.Object{"type": "string", "format": "date-time"},
		},
		web.Param{
			In: "query", Name: "brief", Doc: "Cuts contents, ingredients and instructions to 300 characters.", Schema: flag,
		},
	)
	if k == record.Collections {
		all = append(all, fromParam("collections"))
	}
	if k == record.Files {
		all = append(all,
			web.Param{
				In: "query", Name: "folder", Doc: "Id or name of a folder, or unfiled.", Schema: text,
			},
			web.Param{In: "query", Name: "type", Doc: "Kind of file.", Schema: web.Ref("FileType")},
			web.Param{
				In: "query", Name: "attachments", Doc: "true lists files that belong to texts, too.", Schema: flag,
			})
	}
	if k == record.Games {
		all = append(
			all,
			web.Param{In: "query", Name: "status", Doc: "State of the game.", Schema: web.Ref("GameStatus")},
		)
	}
	if k == record.Bookmarks {
		all = append(all,
			web.Param{
				In: "query", Name: "url",
				Doc:    "Bookmarks of the page at this address. A fragment, tracking parameters and a final slash do not count.",
				Schema: web.Object{"type": "string", "format": "uri"},
			},
			web.Param{
				In: "query", Name: "unreachable", Doc: "true for bookmarks whose page cannot be reached, false for all others.",
				Schema: flag,
			})
	}
	return all
}
