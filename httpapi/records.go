package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
	"kist/search"
)

// shownPool keeps records bound to their shape for another use, by kind.
type shownPool [256]sync.Pool

type bound struct {
	record.Shown
	set *field.Set
}

// show appends a record as JSON, as its owner sees it.
func (s *site) show(tx *kv.Tx, dst []byte, r *record.Record) ([]byte, error) {
	return s.showTo(false, &s.shown, tx, dst, r)
}

// showVisitor appends a record as JSON, as visitors see it.
func (s *site) showVisitor(tx *kv.Tx, dst []byte, r *record.Record) ([]byte, error) {
	return s.showTo(true, &s.shared, tx, dst, r)
}

func (s *site) showTo(visitor bool, pools *shownPool, tx *kv.Tx, dst []byte, r *record.Record) ([]byte, error) {
	pool := &pools[r.Kind.Code]
	b, _ := pool.Get().(*bound)
	if b == nil {
		b = new(bound)
		b.Kind, b.Visitor = r.Kind, visitor
		b.set = field.Of(&b.Shown)
	}
	defer pool.Put(b)
	if err := tx.Show(r, &b.Shown); err != nil {
		return dst, err
	}
	b.Base = s.Base
	return b.set.AppendJSON(dst), nil
}

// answerRecord answers {"data": record}. The record is shown as it is now.
func (c *request) answerRecord(status int, r *record.Record) error {
	return c.respond(status, func(dst []byte) ([]byte, error) {
		dst, err := c.appendData(dst, r)
		return append(dst, '}'), err
	})
}

// appendData appends {"data": record and leaves the object open.
func (c *request) appendData(dst []byte, r *record.Record) ([]byte, error) {
	dst = append(dst, `{"data":`...)
	err := c.s.Store.View(func(tx *kv.Tx) (err error) {
		dst, err = c.s.show(tx, dst, r)
		return err
	})
	return dst, err
}

// hash hashes the password that a form names, before the transaction that
// needs it.
func (c *request) hash(p field.Secret) (string, error) {
	if p.Text == "" {
		return "", nil
	}
	owner := "" // of a claim
	if c.caller != nil {
		owner = c.owner().String()
	}
	return c.s.Passwords.Hash(c.r.Context(), owner, p.Text)
}

func createRecord(k *record.Kind) func(*request) error {
	return func(c *request) error {
		form := record.NewForm(k)
		in, err := c.readObject(k.MaxBody, form)
		if err != nil {
			return err
		}
		problems := field.Create(form, in)
		back := c.s.Store.View(func(tx *kv.Tx) error { return c.s.checkTarget(tx, form, [2]string{}) })
		if err := joinProblems(problems, form.CheckNew(c.s.Store.Now()), back); err != nil {
			return err
		}
		hash, err := c.hash(form.Password)
		if err != nil {
			return err
		}
		var r *record.Record
		var twins []*record.Record // bookmarks of the same page
		if err := c.s.Store.Update(func(tx *kv.Tx) (err error) {
			r, err = tx.Add(c.owner(), k, form, nil, hash)
			if b, ok := form.Body.(*record.Bookmark); ok && err == nil {
				twins, err = tx.SamePages(c.owner(), b.URL, r.ID)
			}
			return err
		}); err != nil {
			return err
		}
		same := make([]*duplicate, len(twins))
		for i, twin := range twins {
			same[i] = &duplicate{twin.ID, twin.Slug}
		}
		return c.answerCreated(r, same)
	}
}

// duplicate is a bookmark of the same page as a new one.
type duplicate struct {
	id   record.ID
	slug string
}

func (d *duplicate) Fields(s *field.Set) {
	s.ID("id", &d.id, field.Always).Says("Id of the bookmark.", `"01890a5d-ac96-774b-bcce-b302099a8057"`)
	s.Ruled("slug", &d.slug, record.CleanSlug, record.SlugPattern, record.MaxSlug).Says("Its slug.", `"summer-24"`)
}

func readRecord(k *record.Kind, arg string) func(*request) error {
	return func(c *request) error {
		return c.respondLarge(http.StatusOK, longRecord(k), func(dst []byte) ([]byte, error) {
			err := c.s.Store.View(func(tx *kv.Tx) error {
				r, err := tx.Record(c.owner(), k, c.arg(arg))
				if err != nil {
					return err
				}
				dst, err = c.s.show(tx, append(dst, `{"data":`...), r)
				return err
			})
			return append(dst, '}'), err
		})
	}
}

// fileChange is what the patch of a file may name: slug, which names the file in
// its record, is only refused beside newSlug.
type fileChange struct {
	record.FileEdit
	slug string
}

func (f *fileChange) Fields(s *field.Set) {
	f.FileEdit.Fields(s)
	s.Text("slug", &f.slug, field.MaxURL)
}

func patchRecord(k *record.Kind, arg string) func(*request) error {
	return func(c *request) error {
		form := record.NewForm(k)
		var shape field.Shaped = form
		if k == record.Files {
			shape = &fileChange{FileEdit: record.FileEdit{Form: form}}
		}
		in, err := c.readObject(k.MaxBody, shape)
		if err != nil {
			return err
		}
		if k == record.Files {
			namesOnly(in, "tags")
		}
		// The first reading, outside the transaction, finds what is wrong and
		// which password to hash; the second cannot fail on form.
		problems := form.Patch(in)
		var two error
		if k == record.Files && in["slug"] != nil && in["newSlug"] != nil {
			two = field.Problems{"slug": "cannot be given together with newSlug"}
		}
		if err := joinProblems(problems, two); err != nil {
			return err
		}
		hash, err := c.hash(form.Password)
		if err != nil {
			return err
		}
		var r *record.Record
		if err := c.s.Store.Update(func(tx *kv.Tx) (err error) {
			if r, err = tx.Record(c.owner(), k, c.arg(arg)); err != nil {
				return err
			}
			form, err := r.Form()
			if err != nil {
				return err
			}
			before := linkTarget(form)
			if err := form.Patch(in); err != nil {
				return err
			}
			if err := joinProblems(c.s.checkTarget(tx, form, before)); err != nil {
				return err
			}
			return tx.Save(r, form, hash)
		}); err != nil {
			return err
		}
		return c.answerRecord(http.StatusOK, r)
	}
}

// namesOnly puts their names in the place of objects in a list, so that a
// file's tags can be sent back as they are answered.
func namesOnly(in field.Object, member string) {
	list, _ := in[member].([]any)
	for i, v := range list {
		if o, ok := v.(field.Object); ok {
			list[i] = o["name"]
		}
	}
}

func removeRecord(k *record.Kind, arg string) func(*request) error {
	return func(c *request) error {
		if err := c.s.Store.Update(func(tx *kv.Tx) error {
			r, err := tx.Record(c.owner(), k, c.arg(arg))
			if err != nil {
				return err
			}
			return tx.Remove(r)
		}); err != nil {
			return err
		}
		return c.respondOK()
	}
}

func listRecords(k *record.Kind) func(*request) error {
	return func(c *request) error {
		args, err := c.query()
		if err != nil {
			return err
		}
		q := kv.Query{Owner: c.owner(), Kind: k}
		names, folder, err := listArgs(&q, args)
		if err != nil {
			return err
		}
		text, err := search.Parse(args.Get("q"))
		if err != nil {
			return err
		}
		brief := (&arguments{Values: args}).flag("brief")
		q.Brief, q.Most = brief != nil && *brief, pageBytes
		return c.respondLarge(http.StatusOK, pageBytes, func(dst []byte) ([]byte, error) {
			err := c.viewWithIndex(q.Text != "", func(tx *kv.Tx, look indexLookup) error {
				var page kv.Page
				known, err := narrow(tx, &q, names, folder)
				if err == nil && known {
					page, err = c.list(tx, q, text, look)
				}
				if err != nil {
					return err
				}
				size := 0
				for _, r := range page.Records {
					size += len(r.Body) + len(r.Body)/8 + 1<<10
				}
				dst = append(slices.Grow(dst, size), `{"data":[`...)
				for i, r := range page.Records {
					if i > 0 {
						dst = append(dst, ',')
					}
					if dst, err = c.s.show(tx, dst, r); err != nil {
						return err
					}
				}
				dst = appendEnd(append(dst, ']'), page.Total, page.Next)
				return nil
			})
			return dst, err
		})
	}
}

// listArgs reads the parameters of a list: what narrows it by name is
// returned, the rest goes into q. All that is wrong is said at once.
func listArgs(q *kv.Query, values url.Values) (tags []string, folder string, err error) {
	args := arguments{Values: values}
	page := args.page(kv.Sorts(q.Kind))
	q.Limit, q.Offset, q.After, q.Sort = page.limit, page.offset, page.cursor, page.sort
	q.Favorite, q.Public = args.flag("favorite"), args.flag("public")
	_ = args.flag("brief") // says what is wrong with it
	tags = tagNames(values)
	if q.Kind == record.Files {
		folder = args.Get("folder")
		if t := args.Get("type"); t != "" {
			at := slices.Index(record.ClassNames(), t)
			if at < 0 {
				args.refuse("type must be one of: " + join(record.ClassNames()))
			}
			class := record.Class(at)
			q.Class = &class
		}
	}
	if q.Kind == record.Bookmarks {
		q.Unreachable = args.flag("unreachable")
		if t := args.Get("url"); t != "" {
			t, err := field.CleanURL(t)
			if err != nil {
				args.refuse("url " + err.Error())
			}
			key := record.PageKey(t)
			q.Page = &key
		}
	}
	q.Text = strings.TrimSpace(args.Get("q"))
	return tags, folder, args.err()
}

// tagNames reads the tags that a list is to be narrowed to.
func tagNames(values url.Values) (tags []string) {
	for _, t := range append(values["tag"], strings.Split(strings.Join(values["tags"], ","), ",")...) {
		if t = strings.TrimSpace(t); t != "" {
			tags = append(tags, t)
		}
	}
	return tags
}

// narrow turns names into ids. It reports false when the owner has no tag or
// folder of a name: then no record has it.
func narrow(tx *kv.Tx, q *kv.Query, tags []string, folder string) (bool, error) {
	for _, name := range tags {
		name, err := record.CleanTag(name)
		if err != nil {
			return false, nil
		}
		t, err := tx.TagNamed(q.Owner, name)
		if missing(err) {
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
	f, err := tx.Folder(q.Owner, id)
	if missing(err) {
		f, err = tx.FolderNamed(q.Owner, strings.Join(strings.Fields(folder), " "))
	}
	if missing(err) {
		return false, nil
	}
	if err == nil {
		q.Folder = &f.ID
	}
	return err == nil, err
}

// missing reports whether the error says that there is no such thing.
func missing(err error) bool {
	_, status := clientError(err)
	return err != nil && status == http.StatusNotFound
}
