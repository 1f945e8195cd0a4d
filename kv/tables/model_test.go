package tables_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/history"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

var (
	long = flag.Bool("long", false, "much longer histories")
	seed = flag.Uint64("seed", 4, "of one history")
)

// The model holds everything that a store must know, in plain structs.
type (
	modelTag struct {
		id    record.ID
		owner int
		name  string
	}
	modelRecord struct {
		id               record.ID
		owner            int
		kind             *record.Kind
		slug, title      string
		public, favorite bool
		tags             []*modelTag
		folder           *modelTag
		class            record.Class
		size             int64
		created, updated int64
		taken            int64 // of a file; 0 if it is not known
		views            int64
		touched          int // the order of the latest changes
		ref              byte
		deleted          int64        // when it was moved to the trash
		of               *modelRecord // in the trash: the file whose earlier bytes these are

		limit, used    int64
		burns, reached bool  // the limit deletes it; the limit made it private
		expires        int64 // 0: never
		ended          bool  // the store has reported that it expired
		spent          int64 // when the limit of a collection deleted it

		// Of a collection: one of them at most.
		over  *modelTag // a folder or a tag
		picks []*modelRecord
		sort  record.Arrangement
	}
	model struct {
		t       testing.TB
		rnd     *rand.Rand
		clock   *kvtest.Clock
		dir     string
		s       *kv.Store
		users   []record.ID
		records []*modelRecord
		trash   []*modelRecord // the latest deletion last
		tags    []*modelTag
		folders []*modelTag
		touches int
		held    map[byte]bool // bytes that some file has or had
	}
)

// try runs fn in a transaction that sometimes fails on purpose, and reports whether it
// was committed.
func (m *model) try(fn func(*kv.Tx) error) bool {
	m.t.Helper()
	m.clock.Add(time.Duration(m.rnd.IntN(4)) * time.Millisecond)
	how := m.rnd.IntN(12)
	err := m.s.Update(func(tx *kv.Tx) error {
		err := fn(tx)
		switch how {
		case 0:
			return errors.Join(err, kvtest.ErrPlanned)
		case 1:
			panic(kvtest.ErrPlanned)
		}
		return err
	})
	switch {
	case how == 1 && strings.Contains(err.Error(), "panic"), how == 0 && errors.Is(err, kvtest.ErrPlanned):
		return false
	case kvtest.Code(err) == "slug_taken" || kvtest.Code(err) == "tag_taken":
		return false
	case err != nil:
		m.t.Fatal(err)
	}
	return true
}

// label finds or makes the owner's tag or folder with the name.
func (m *model) label(list *[]*modelTag, owner int, name string) *modelTag {
	for _, t := range *list {
		if t.owner == owner && strings.EqualFold(t.name, name) {
			return t
		}
	}
	t := &modelTag{owner: owner, name: name}
	*list = append(*list, t)
	return t
}

// learn notes the ids of tags and folders that the store made by name.
func (m *model) learn() {
	m.t.Helper()
	kvtest.View(m.t, m.s, func(tx *kv.Tx) error {
		for _, t := range m.tags {
			tag, err := catalog.TagNamed(tx, m.users[t.owner], strings.ToUpper(t.name))
			if err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			t.id = tag.ID
		}
		for _, f := range m.folders {
			folder, err := catalog.FolderNamed(tx, m.users[f.owner], f.name)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			f.id = folder.ID
		}
		return nil
	})
}

var titleFields = map[*record.Kind]string{record.Files: "originalName", record.Links: "description"}

func titleField(k *record.Kind) string { return cmp.Or(titleFields[k], "title") }

func (m *model) tagNames() []string {
	names := []string{}
	for range m.rnd.IntN(4) {
		names = append(names, fmt.Sprint([]string{"t", "T"}[m.rnd.IntN(2)], m.rnd.IntN(6)))
	}
	return names
}

func (m *model) setTags(r *modelRecord, names []string) {
	r.tags = nil
	for _, n := range names {
		if t := m.label(&m.tags, r.owner, n); !slices.Contains(r.tags, t) {
			r.tags = append(r.tags, t)
		}
	}
}

func (m *model) touch(r *modelRecord) {
	m.touches++
	r.touched = m.touches
}

func (m *model) taken(slug string, but *modelRecord) bool {
	return slices.ContainsFunc(m.records, func(r *modelRecord) bool { return r != but && r.slug == slug })
}

func (m *model) add() {
	owner := m.rnd.IntN(len(m.users))
	k := record.Kinds[m.rnd.IntN(3)]
	switch m.rnd.IntN(8) {
	case 0:
		k = record.Links
	case 1:
		k = record.Collections
	}
	r := &modelRecord{
		owner: owner, kind: k, title: fmt.Sprint("Title ", m.rnd.IntN(30)), public: m.rnd.IntN(2) == 0,
		favorite: m.rnd.IntN(4) == 0,
	}
	names := m.tagNames()
	f := record.NewForm(k)
	f.Public, f.Favorite, f.Tags = r.public, r.favorite, names
	if m.rnd.IntN(4) == 0 {
		r.limit, r.burns = 1+m.rnd.Int64N(4), m.rnd.IntN(2) == 0
		f.Limit, f.AtLimit = r.limit, r.action()
	}
	if m.rnd.IntN(5) == 0 {
		r.expires = m.later()
		f.Expires = time.UnixMilli(r.expires).UTC()
	}
	if m.rnd.IntN(3) == 0 {
		f.Slug = fmt.Sprint("slug", m.rnd.IntN(40))
	}
	var bytes *record.Content
	folder := ""
	switch b := f.Body.(type) {
	case *record.File:
		bytes = m.fill(r, b)
		if m.rnd.IntN(2) == 0 {
			folder = fmt.Sprint("F", m.rnd.IntN(3))
			f.FolderName = folder
		}
	case *record.Bookmark:
		b.Name, b.URL = r.title, "https://example.org/"
	case *record.Note:
		b.Name = r.title
	case *record.Link:
		b.Description, b.URL = r.title, "https://example.org/"
	case *record.Collection:
		r.sort = record.Arrangements[m.rnd.IntN(len(record.Arrangements))]
		b.Name, b.Sort = r.title, r.sort
		f.Source, f.Sourced = m.choose(r)
	}
	var got *record.Record
	slug := f.Slug
	kept := m.try(func(tx *kv.Tx) (err error) {
		got, err = catalog.Add(tx, catalog.Draft{Owner: m.users[owner], Kind: k, Form: f, Content: bytes})
		return err
	})
	if !kept {
		return
	}
	if slug != "" && (m.taken(slug, nil) || got.Slug != slug) {
		m.t.Fatalf("slug %q became %q, taken %t", slug, got.Slug, m.taken(slug, nil))
	}
	r.id, r.slug, r.created, r.updated = got.ID, got.Slug, got.Created.UnixMilli(), got.Updated.UnixMilli()
	m.setTags(r, names)
	if folder != "" {
		r.folder = m.label(&m.folders, owner, folder)
	}
	if bytes != nil {
		m.held[r.ref] = true
	}
	m.touch(r)
	m.records = append(m.records, r)
	m.learn()
}

// fill gives a file some bytes, of some type.
func (m *model) fill(r *modelRecord, b *record.File) *record.Content {
	b.OriginalName = r.title
	b.MimeType = []string{"image/png", "text/plain", "application/zip"}[m.rnd.IntN(3)]
	r.class, r.size, r.ref = record.ClassOf(b.MimeType), m.rnd.Int64N(5), byte(m.rnd.IntN(10))
	content := kvtest.Content(record.Files, r.ref, r.size)
	r.taken = 0
	if m.rnd.IntN(2) == 0 {
		r.taken = (m.rnd.Int64N(100)-20)*1e10 + 1 // some before 1970
		content.Photo.Taken = time.UnixMilli(r.taken).UTC()
	}
	return content
}

func (m *model) pick() *modelRecord {
	if len(m.records) == 0 {
		return nil
	}
	return m.records[m.rnd.IntN(len(m.records))]
}

func (m *model) edit() {
	r := m.pick()
	if r == nil {
		return
	}
	want := *r
	text := `{"x":0`
	if m.rnd.IntN(2) == 0 {
		want.title = fmt.Sprint("title ", m.rnd.IntN(30))
		text += fmt.Sprintf(`,%q:%q`, titleField(r.kind), want.title)
	}
	if m.rnd.IntN(2) == 0 {
		want.public = !want.public
		text += fmt.Sprintf(`,"isPublic":%t`, want.public)
	}
	if m.rnd.IntN(5) == 0 {
		want.limit, want.burns = 1+m.rnd.Int64N(4), m.rnd.IntN(2) == 0
		text += fmt.Sprintf(`,%q:%d,"maxViewsAction":%q`, r.kind.Limit, want.limit, want.action())
	} else if m.rnd.IntN(8) == 0 {
		want.limit = 0
		text += fmt.Sprintf(`,%q:null`, r.kind.Limit)
	}
	if m.rnd.IntN(6) == 0 {
		want.expires = m.later()
		text += fmt.Sprintf(`,"expiresAt":%q`, time.UnixMilli(want.expires).UTC().Format(time.RFC3339Nano))
	} else if m.rnd.IntN(8) == 0 {
		want.expires = 0
		text += `,"expiresAt":null`
	}
	if want.public != r.public { // the owner has decided
		want.reached = false
	}
	if want.public && !r.public || want.limit > 0 && r.limit == 0 {
		want.used = 0
	}
	want.reached = want.reached && want.limit > 0
	want.ended = want.ended && want.expires == r.expires
	if r.kind == record.Collections && m.rnd.IntN(3) == 0 {
		if from, some := m.choose(&want); some {
			text += `,"source":` + sourceText(from)
		}
	}
	if m.rnd.IntN(4) == 0 {
		want.favorite = !want.favorite
		text += fmt.Sprintf(`,"isFavorite":"%t"`, want.favorite)
	}
	if m.rnd.IntN(5) == 0 {
		want.slug = fmt.Sprint("slug", m.rnd.IntN(40))
		text += fmt.Sprintf(`,"slug":%q`, want.slug)
	}
	var names []string
	if m.rnd.IntN(3) == 0 {
		names = m.tagNames()
		text += `,"tags":"` + strings.Join(names, ",") + `"`
	}
	var folder string
	if r.kind == record.Files && m.rnd.IntN(3) == 0 {
		folder = fmt.Sprint("F", m.rnd.IntN(3))
		text += fmt.Sprintf(`,"folderName":%q`, folder)
	} else if r.kind == record.Files && m.rnd.IntN(3) == 0 {
		want.folder = nil
		text += `,"folderId":null`
	}
	var got *record.Record
	kept := m.try(func(tx *kv.Tx) error {
		now, err := catalog.Record(tx, m.users[r.owner], r.kind, r.id.String())
		if err != nil {
			return err
		}
		f, err := kvtest.Patch(now, text+"}")
		if err != nil {
			return err
		}
		got = now
		return catalog.Save(tx, now, f, "")
	})
	if !kept {
		return
	}
	if m.taken(want.slug, r) {
		m.t.Fatalf("slug %q given twice", want.slug)
	}
	*r = want
	r.updated = got.Updated.UnixMilli()
	if names != nil {
		m.setTags(r, names)
	}
	if folder != "" {
		r.folder = m.label(&m.folders, r.owner, folder)
	}
	m.touch(r)
	m.learn()
}

// replace gives a file other bytes: new ones, or earlier ones of its own.
func (m *model) replace() {
	files := slices.DeleteFunc(slices.Clone(m.records), func(r *modelRecord) bool { return r.kind != record.Files })
	if len(files) == 0 {
		return
	}
	r := files[m.rnd.IntN(len(files))]
	want := *r
	var change func(*kv.Tx, *record.Record) error
	var from *modelRecord
	if earlier := m.versions(r); len(earlier) > 0 && m.rnd.IntN(3) == 0 {
		from = earlier[m.rnd.IntN(len(earlier))]
		want.title, want.class, want.size, want.ref = from.title, from.class, from.size, from.ref
		want.taken = from.taken
		change = func(tx *kv.Tx, now *record.Record) error {
			return catalog.RestoreFileVersion(tx, now, from.id, "test")
		}
	} else {
		want.title = fmt.Sprint("Title ", m.rnd.IntN(30))
		b := new(record.File)
		bytes := m.fill(&want, b)
		change = func(tx *kv.Tx, now *record.Record) error { return catalog.Replace(tx, now, b, bytes, "test") }
	}
	var got *record.Record
	var kept []record.Version
	if !m.try(func(tx *kv.Tx) (err error) {
		got, err = catalog.Owned(tx, m.users[r.owner], r.kind, r.id)
		if err != nil {
			return err
		}
		if err := change(tx, got); err != nil {
			return err
		}
		kept, err = catalog.FileVersions(tx, got)
		return err
	}) {
		return
	}
	want.updated = got.Updated.UnixMilli()
	if want.ref == r.ref { // what is known of the same bytes stays
		want.taken = cmp.Or(r.taken, want.taken)
	}
	if from != nil {
		m.forget(from)
	}
	if want.ref != r.ref {
		version := &modelRecord{
			id: kept[0].ID, of: r, deleted: want.updated, updated: r.updated,
			owner: r.owner, kind: r.kind, title: r.title, class: r.class, size: r.size, ref: r.ref,
			tags: r.tags, folder: r.folder, taken: r.taken,
		}
		kvtest.View(m.t, m.s, func(tx *kv.Tx) error {
			t, err := catalog.Trashed(tx, m.users[r.owner], version.id)
			if err != nil {
				return err
			}
			version.slug = t.Slug
			return nil
		})
		m.trash = append(m.trash, version)
	}
	*r = want
	m.held[r.ref] = true
	m.touch(r)
}

// versions are the earlier bytes of a file, the latest first.
func (m *model) versions(r *modelRecord) (all []*modelRecord) {
	for _, t := range slices.Backward(m.trash) {
		if t.of == r {
			all = append(all, t)
		}
	}
	return all
}

func (m *model) remove() {
	keep := m.rnd.IntN(3) > 0
	r := m.pick()
	if r == nil {
		return
	}
	if m.try(func(tx *kv.Tx) error {
		now, err := catalog.Record(tx, m.users[r.owner], r.kind, r.slug)
		if err != nil {
			return err
		}
		r.deleted = tx.Now.UnixMilli()
		if keep {
			return catalog.Trash(tx, now, "test")
		}
		return catalog.Remove(tx, now)
	}) {
		if !keep {
			m.purge(r)
			return
		}
		m.forget(r)
		m.trash = append(m.trash, r)
	}
}

// purge deletes a record for good: its earlier bytes too, and out of all collections, those in the trash too.
func (m *model) purge(r *modelRecord) {
	m.forget(r)
	m.trash = slices.DeleteFunc(m.trash, func(x *modelRecord) bool { return x.of == r })
	for _, c := range slices.Concat(m.records, m.trash) {
		c.picks = slices.DeleteFunc(slices.Clone(c.picks), func(x *modelRecord) bool { return x == r })
	}
}

func (r *modelRecord) action() record.Action {
	if r.burns {
		return record.Delete
	}
	return record.MakePrivate
}

// later is an instant that age passes before long.
func (m *model) later() int64 {
	return m.clock.Now().Add(time.Duration(1+m.rnd.IntN(25*24)) * time.Hour).UnixMilli()
}

// choose gives a collection other items: those of a folder, those with a tag, or some that
// it picks.
func (m *model) choose(c *modelRecord) (from record.Source, some bool) {
	mine := func(all []*modelTag) *modelTag {
		if len(all) > 0 {
			if t := all[m.rnd.IntN(len(all))]; t.owner == c.owner {
				return t
			}
		}
		return nil
	}
	switch m.rnd.IntN(3) {
	case 0:
		if t := mine(m.folders); t != nil {
			c.over, c.picks = t, nil
			return record.Source{Folder: t.id}, true
		}
	case 1:
		if t := mine(m.tags); t != nil {
			c.over, c.picks = t, nil
			return record.Source{Tag: t.name}, true
		}
	}
	items := m.items(c)
	if len(items) == 0 {
		return from, false
	}
	c.over, c.picks = nil, items
	return record.Source{Items: texts(items)}, true
}

func sourceText(from record.Source) string {
	switch {
	case from.Folder != uuid.Nil:
		return fmt.Sprintf(`{"folderId":%q}`, from.Folder)
	case from.Tag != "":
		return fmt.Sprintf(`{"tag":%q}`, from.Tag)
	}
	return `{"items":["` + strings.Join(from.Items, `","`) + `"]}`
}

// items are some that the collection may pick, each once.
func (m *model) items(c *modelRecord) (some []*modelRecord) {
	for range 1 + m.rnd.IntN(6) {
		if r := m.pick(); r != nil && r.owner == c.owner && r.kind != record.Collections && !slices.Contains(some, r) {
			some = append(some, r)
		}
	}
	return some
}

func texts(all []*modelRecord) []string {
	out := []string{}
	for _, r := range all {
		out = append(out, r.id.String())
	}
	return out
}

// arrange adds items to a collection, takes others out, or moves one.
func (m *model) arrange() {
	var all []*modelRecord
	for _, r := range m.records {
		if r.kind == record.Collections && r.over == nil {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return
	}
	c := all[m.rnd.IntN(len(all))]
	picks, changes := slices.Clone(c.picks), true
	var change func(*kv.Tx, *record.Record) error
	if len(picks) > 1 && m.rnd.IntN(2) == 0 {
		item, before := picks[m.rnd.IntN(len(picks))], picks[m.rnd.IntN(len(picks))]
		to := before.id
		if item == before {
			to = uuid.Nil
		}
		change = func(tx *kv.Tx, now *record.Record) error { return catalog.Move(tx, now, m.owner(now), item.id, to) }
		picks = slices.DeleteFunc(picks, func(x *modelRecord) bool { return x == item })
		if to == uuid.Nil {
			picks = append(picks, item)
		} else {
			picks = slices.Insert(picks, slices.Index(picks, before), item)
		}
	} else {
		var out []*modelRecord
		if len(picks) > 0 && m.rnd.IntN(2) == 0 {
			out = picks[:1+m.rnd.IntN(len(picks))]
		}
		in := m.items(c)
		add, drop := texts(in), texts(out)
		picks, changes = picks[len(out):], len(out) > 0
		for _, r := range in {
			if !slices.Contains(picks, r) {
				picks, changes = append(picks, r), true
			}
		}
		change = func(tx *kv.Tx, now *record.Record) error { return catalog.Pick(tx, now, m.owner(now), add, drop) }
	}
	var now *record.Record
	if m.try(func(tx *kv.Tx) (err error) {
		now, err = catalog.Owned(tx, m.users[c.owner], c.kind, c.id)
		if err != nil {
			return err
		}
		return change(tx, now)
	}) && changes {
		c.picks, c.updated = picks, now.Updated.UnixMilli()
		m.touch(c)
	}
}

// open is what the model expects a visitor to be told; "" for the record itself.
func (m *model) open(r *modelRecord) string {
	switch {
	case r.reached:
		return "limit_reached"
	case !r.public:
		return "not_found"
	case r.expires != 0 && r.expires <= m.clock.Now().UnixMilli():
		return "expired"
	}
	return ""
}

// number is that of a title of the model, all of which begin with one word.
func number(title string) int {
	n, err := strconv.Atoi(strings.Fields(title)[1])
	if err != nil {
		panic(err)
	}
	return n
}

// members are what the model expects in a collection, and why visitors do not see it.
func (m *model) members(c *modelRecord) (all []*modelRecord, why []record.Exclusion) {
	for _, r := range m.records {
		if r.owner != c.owner || r.kind == record.Collections {
			continue
		}
		if c.over != nil && (r.folder == c.over || slices.Contains(r.tags, c.over)) || slices.Contains(c.picks, r) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *modelRecord) int {
		age := cmp.Compare(string(a.id[:]), string(b.id[:]))
		switch {
		case c.sort == record.OldestFirst:
			return age
		case c.sort == record.ByTitle:
			return cmp.Or(cmp.Compare(number(a.title), number(b.title)), age)
		case c.sort == record.Manual && c.over == nil:
			return cmp.Compare(slices.Index(c.picks, a), slices.Index(c.picks, b))
		}
		return -age
	})
	for _, r := range all {
		switch {
		case r.limit > 0:
			why = append(why, record.OwnLimit)
		case r.expires != 0:
			why = append(why, record.OwnEnd)
		default:
			why = append(why, "")
		}
	}
	return all, why
}

// owner asks as the owner of a collection.
func (m *model) owner(c *record.Record) record.Asker {
	return record.Asker{ID: c.Owner, Role: record.RoleOwner}
}

// checkPublic compares what visitors get: of each record alone, and through collections.
func (m *model) checkPublic(is *is.I) {
	is.Helper()
	for _, r := range m.records {
		got, _, err := catalog.Shared(m.s, r.slug, math.MaxInt)
		is.NoErr(err)
		is.Equal(got.ID, r.id)
		is.Equal(kvtest.Code(got.Open(m.clock.Now())), m.open(r))
	}
	for _, r := range m.trash {
		if got, _, err := catalog.Shared(m.s, r.slug, math.MaxInt); !m.taken(r.slug, nil) {
			is.Equal(kvtest.Code(err), "not_found")
		} else {
			is.NoErr(err)
			is.True(got.ID != r.id)
		}
	}
	kvtest.View(m.t, m.s, func(tx *kv.Tx) error {
		for _, c := range m.records {
			now, err := catalog.Owned(tx, m.users[c.owner], c.kind, c.id)
			is.NoErr(err)
			if c.limit > 0 {
				is.Equal(catalog.Used(tx, now), c.used)
			}
			if c.kind != record.Collections {
				continue
			}
			want, why := m.members(c)
			got, err := catalog.ItemsOf(tx, now)
			is.NoErr(err)
			found, left := []record.ID{}, []record.Exclusion(nil)
			for _, x := range got.All {
				found, left = append(found, x.ID), append(left, x.LeftOut)
			}
			is.Equal(found, ids(want))
			is.Equal(left, why)
			for _, r := range slices.Concat(m.records, m.trash) {
				i := slices.Index(want, r)
				_, _, err := catalog.Through(tx, now, record.Asker{Admitted: true}, r.id)
				is.Equal(err == nil, i >= 0 && why[i] == "")
				if err != nil {
					is.True(kv.Missing(err))
				}
			}
		}
		return nil
	})
}

func (m *model) forget(r *modelRecord) {
	same := func(x *modelRecord) bool { return x == r }
	m.records, m.trash = slices.DeleteFunc(m.records, same), slices.DeleteFunc(m.trash, same)
}

// loose reports whether records had the bytes and none has them now.
func (m *model) loose(ref byte) bool {
	return m.held[ref] && !slices.ContainsFunc(slices.Concat(m.records, m.trash), func(r *modelRecord) bool {
		return r.kind == record.Files && r.ref == ref
	})
}

// restore takes a record from the trash, or deletes it for good.
func (m *model) restore() {
	if len(m.trash) == 0 {
		return
	}
	r := m.trash[m.rnd.IntN(len(m.trash))]
	back := m.rnd.IntN(3) > 0
	var now *record.Record
	if !m.try(func(tx *kv.Tx) error {
		t, err := catalog.Trashed(tx, m.users[r.owner], r.id)
		if err != nil {
			return err
		}
		if !back {
			return catalog.Remove(tx, &t.Record)
		}
		now, err = catalog.Untrash(tx, t)
		return err
	}) {
		return
	}
	if !back {
		m.purge(r)
		return
	}
	m.forget(r)
	r.of = nil
	if (now.Slug == r.slug) == m.taken(r.slug, nil) {
		m.t.Fatalf("slug %q became %q, taken %t", r.slug, now.Slug, m.taken(r.slug, nil))
	}
	r.slug, r.created = now.Slug, now.Created.UnixMilli()
	r.tags = slices.DeleteFunc(r.tags, func(t *modelTag) bool { return !slices.Contains(m.tags, t) })
	if len(r.tags) == 0 {
		r.tags = nil
	}
	if !slices.Contains(m.folders, r.folder) {
		r.folder = nil
	}
	if !slices.Contains(m.folders, r.over) && !slices.Contains(m.tags, r.over) {
		r.over = nil
	}
	m.touch(r)
	m.records = append(m.records, r)
	slices.SortFunc(m.records, func(a, b *modelRecord) int { return cmp.Compare(string(a.id[:]), string(b.id[:])) })
	m.tick() // it may have expired in the trash
}

// age lets the trash purge what is too old, and records expire.
func (m *model) age() {
	m.clock.Add(10 * 24 * time.Hour)
	m.tick()
}

// tick does what the store would do on its own soon.
func (m *model) tick() {
	kvtest.Tick(m.s)
	kvtest.Update(m.t, m.s, catalog.DropSpent)
	end := m.clock.Now().Add(-people.DefaultTrashDays * 24 * time.Hour).UnixMilli()
	for _, r := range slices.Clone(m.trash) {
		if r.deleted < end {
			m.purge(r)
		}
	}
	for _, c := range slices.Concat(m.records, m.trash) {
		if c.spent == 0 || c.spent >= m.clock.Now().Add(-time.Hour).UnixMilli() {
			continue
		}
		c.spent = 0
		if c.reached && c.burns && slices.Contains(m.records, c) {
			m.purge(c)
		}
	}
	over := slices.DeleteFunc(slices.Clone(m.records), func(r *modelRecord) bool {
		return r.expires == 0 || r.ended || r.expires > m.clock.Now().UnixMilli()
	})
	slices.SortFunc(over, func(a, b *modelRecord) int {
		return cmp.Or(
			cmp.Compare(a.expires, b.expires),
			slices.Compare(record.RowKey(m.users[a.owner], a.kind, a.id), record.RowKey(m.users[b.owner], b.kind, b.id)),
		)
	})
	for _, r := range over {
		r.ended = true
		m.touch(r)
	}
}

func (m *model) see() {
	r := m.pick()
	if r == nil {
		return
	}
	var now *record.Record
	kvtest.View(m.t, m.s, func(tx *kv.Tx) (err error) {
		now, err = catalog.Slug(tx, r.slug)
		return err
	})
	for range 1 + m.rnd.IntN(3) {
		err := catalog.Seen(m.s, now, history.Visit{})
		if r.limit == 0 { // the caller of Seen has asked Open
			if err != nil {
				m.t.Fatal(err)
			}
			r.views++
			continue
		}
		want := m.open(r)
		spent := want == "" && r.used >= r.limit // the limit was lowered
		if spent {
			want = "limit_reached"
		}
		if code := kvtest.Code(err); code != want {
			m.t.Fatalf("a visit of %+v: %q, want %q", r, code, want)
		}
		if err == nil {
			r.views, r.used = r.views+1, r.used+1
			spent = r.used == r.limit
		}
		if !spent {
			continue
		}
		if r.burns && r.kind != record.Collections {
			m.purge(r)
			return
		}
		if r.burns {
			r.spent = m.clock.Now().UnixMilli()
		}
		r.public, r.reached = false, true
		m.touch(r)
	}
	if err := m.s.Flush(); err != nil {
		m.t.Fatal(err)
	}
}

// relabel removes or merges a tag, or removes a folder.
func (m *model) relabel() {
	if len(m.folders) > 0 && m.rnd.IntN(2) == 0 {
		f := m.folders[m.rnd.IntN(len(m.folders))]
		if err := catalog.RemoveFolder(m.s, m.users[f.owner], f.id); err != nil {
			m.t.Fatal(err)
		}
		m.folders = slices.DeleteFunc(m.folders, func(x *modelTag) bool { return x == f })
		m.relive(f, nil)
		for _, r := range m.ordered() {
			if r.folder == f {
				r.folder = nil
				m.touch(r)
			}
		}
		return
	}
	if len(m.tags) == 0 {
		return
	}
	t := m.tags[m.rnd.IntN(len(m.tags))]
	var into *modelTag
	if x := m.tags[m.rnd.IntN(len(m.tags))]; x.owner == t.owner && x != t {
		into = x
	}
	var id record.ID
	if into != nil {
		id = into.id
	}
	if err := catalog.RemoveTag(m.s, m.users[t.owner], t.id, id); err != nil {
		m.t.Fatal(err)
	}
	m.tags = slices.DeleteFunc(m.tags, func(x *modelTag) bool { return x == t })
	m.relive(t, into)
	for _, r := range m.ordered() {
		i := slices.Index(r.tags, t)
		if i < 0 {
			continue
		}
		r.tags = slices.Clone(r.tags)
		if into != nil && !slices.Contains(r.tags, into) {
			r.tags[i] = into
		} else {
			r.tags = slices.Delete(r.tags, i, i+1)
		}
		m.touch(r)
	}
}

// relive gives collections over a folder or a tag another one, or none.
func (m *model) relive(from, into *modelTag) {
	for _, c := range m.ordered() {
		if c.over == from {
			c.over = into
			m.touch(c)
		}
	}
}

// ordered returns all records in the order in which their labels change: by kind, then
// by age.
func (m *model) ordered() []*modelRecord {
	all := slices.Clone(m.records)
	slices.SortFunc(all, func(a, b *modelRecord) int {
		return cmp.Or(cmp.Compare(a.kind.Code, b.kind.Code), cmp.Compare(string(a.id[:]), string(b.id[:])))
	})
	return all
}

func (m *model) rename() {
	if len(m.tags) == 0 {
		return
	}
	t := m.tags[m.rnd.IntN(len(m.tags))]
	name := fmt.Sprint("t", m.rnd.IntN(6))
	if m.try(func(tx *kv.Tx) error {
		tag, err := catalog.Tag(tx, m.users[t.owner], t.id)
		if err != nil {
			return err
		}
		tag.Name = name
		return catalog.SaveTag(tx, tag)
	}) {
		t.name = name
	}
}

// query makes up a query and returns the part of the model that it should find, in
// order.
func (m *model) query() (catalog.Query, []*modelRecord) {
	owner := m.rnd.IntN(len(m.users))
	kinds := append(slices.Clone(record.Kinds[:3]), record.Collections)
	q := catalog.Query{Owner: m.users[owner], Kind: kinds[m.rnd.IntN(len(kinds))], Limit: 1 + m.rnd.IntN(9)}
	q.Sort = append(catalog.Sorts(q.Kind), "")[m.rnd.IntN(len(catalog.Sorts(q.Kind))+1)]
	var tests []func(*modelRecord) bool
	filter := func(test func(*modelRecord) bool) { tests = append(tests, test) }
	if m.rnd.IntN(2) == 0 && len(m.tags) > 0 {
		for range 1 + m.rnd.IntN(2) {
			if t := m.tags[m.rnd.IntN(len(m.tags))]; t.owner == owner {
				q.Tags = append(q.Tags, t.id)
				filter(func(r *modelRecord) bool { return slices.Contains(r.tags, t) })
			}
		}
	}
	if m.rnd.IntN(3) == 0 {
		yes := m.rnd.IntN(2) == 0
		q.Public = &yes
		filter(func(r *modelRecord) bool { return r.public == yes })
	}
	if m.rnd.IntN(4) == 0 {
		yes := m.rnd.IntN(2) == 0
		q.Favorite = &yes
		filter(func(r *modelRecord) bool { return r.favorite == yes })
	}
	if q.Kind == record.Files && m.rnd.IntN(3) == 0 {
		var f *modelTag
		if len(m.folders) > 0 && m.rnd.IntN(3) > 0 {
			f = m.folders[m.rnd.IntN(len(m.folders))]
		}
		id := uuid.Nil
		if f != nil {
			id = f.id
		}
		q.Folder = &id
		filter(func(r *modelRecord) bool { return r.folder == f })
	}
	if q.Kind == record.Files && m.rnd.IntN(3) == 0 {
		c := record.Class(m.rnd.IntN(6))
		q.Class = &c
		filter(func(r *modelRecord) bool { return r.class == c })
	}
	if m.rnd.IntN(4) == 0 {
		q.Text = "title 1"
		q.Match = func(r *record.Record) bool {
			b, err := r.Decode()
			return err == nil && strings.HasPrefix(strings.ToLower(b.Title()), "title 1")
		}
		filter(func(r *modelRecord) bool { return strings.HasPrefix(strings.ToLower(r.title), "title 1") })
	}
	if q.Limit%2 == 0 && len(m.records) > 0 {
		since := m.records[len(m.records)*q.Limit/10].updated
		q.Since = time.UnixMilli(since)
		filter(func(r *modelRecord) bool { return r.updated >= since })
	}
	if m.rnd.IntN(4) == 0 {
		q.Among, q.Text = []record.ID{}, q.Text+" among"
		for _, r := range m.records {
			if r.owner == owner && r.kind == q.Kind && m.rnd.IntN(2) == 0 {
				q.Among = append(q.Among, r.id)
			}
		}
		slices.SortFunc(q.Among, func(a, b record.ID) int { return cmp.Compare(string(a[:]), string(b[:])) })
		filter(func(r *modelRecord) bool { return slices.Contains(q.Among, r.id) })
	}
	var want []*modelRecord
	for _, r := range m.records {
		if r.owner == owner && r.kind == q.Kind && !slices.ContainsFunc(tests, func(test func(*modelRecord) bool) bool {
			return !test(r)
		}) {
			want = append(want, r)
		}
	}
	slices.SortFunc(want, func(a, b *modelRecord) int {
		age := cmp.Compare(string(a.id[:]), string(b.id[:]))
		switch q.Sort {
		case catalog.Oldest:
			return age
		case catalog.Updated:
			return -cmp.Or(cmp.Compare(a.updated, b.updated), age)
		case catalog.Title:
			return cmp.Or(cmp.Compare(number(a.title), number(b.title)), age)
		case catalog.Views:
			return -cmp.Or(cmp.Compare(a.views, b.views), age)
		case catalog.Size:
			return -cmp.Or(cmp.Compare(a.size, b.size), age)
		case catalog.Taken:
			return -cmp.Or(cmp.Compare(cmp.Or(a.taken, a.created), cmp.Or(b.taken, b.created)), age)
		}
		return -age
	})
	return q, want
}

func ids(want []*modelRecord) []record.ID {
	out := []record.ID{}
	for _, r := range want {
		out = append(out, r.id)
	}
	return out
}

// check compares the store with the model.
func (m *model) check() {
	m.t.Helper()
	is := is.New(m.t)
	is.Helper()
	m.checkPublic(is)
	kvtest.View(m.t, m.s, func(tx *kv.Tx) error {
		is.NoErr(kvtest.Audit(tx))
		for range 12 {
			q, want := m.query()
			all := []record.ID{}
			for pages := 0; ; pages++ {
				page, err := catalog.List(tx, q)
				is.NoErr(err)
				is.Equal(page.Total, len(want))
				is.True(len(page.Records) <= q.Limit)
				is.True(page.Next == "" || len(page.Records) == q.Limit)
				for _, r := range page.Records {
					all = append(all, r.ID)
				}
				q.After = page.Next
				if q.After == "" {
					break
				}
			}
			is.Equal(all, ids(want))
			q.After, q.Offset = "", m.rnd.IntN(len(want)+2)
			page, err := catalog.List(tx, q)
			is.NoErr(err)
			is.Equal(page.Total, len(want))
			got := []record.ID{}
			for _, r := range page.Records {
				got = append(got, r.ID)
			}
			from := min(q.Offset, len(want))
			is.Equal(got, ids(want[from:min(from+q.Limit, len(want))]))
		}

		// The feed: each record once, in the order of the latest changes.
		changes, err := tx.Changes(0, 1<<30)
		is.NoErr(err)
		var live []record.ID
		for _, c := range changes {
			r, err := catalog.Owned(tx, c.Owner, c.Kind, c.ID)
			is.Equal(r, c.Record)
			if err == nil {
				is.Equal(r.Seq, c.Seq)
				live = append(live, c.ID)
			}
			is.True(c.Seq <= tx.Latest())
		}
		byTouch := slices.Clone(m.records)
		slices.SortFunc(byTouch, func(a, b *modelRecord) int { return cmp.Compare(a.touched, b.touched) })
		is.Equal(append([]record.ID{}, live...), ids(byTouch))
		if len(changes) > 1 {
			rest, err := tx.Changes(changes[0].Seq, 1)
			is.NoErr(err)
			is.Equal(rest, changes[1:2])
		}

		for owner, id := range m.users {
			u, err := people.ReadUser(tx, id)
			is.NoErr(err)
			use, err := people.UsageOf(tx, u)
			is.NoErr(err)
			bytes, count := int64(0), map[string]int64{}
			for _, k := range record.Kinds {
				count[k.Name] = 0
			}
			for _, r := range m.records {
				if r.owner == owner {
					bytes += r.size
					count[r.kind.Name]++
				}
			}
			var deleted []record.ID
			for _, r := range slices.Backward(m.trash) {
				if r.owner == owner {
					bytes += r.size
					deleted = append(deleted, r.id)
				}
			}
			page, err := catalog.ListTrash(tx, id, nil, "", nil, 1000)
			is.NoErr(err)
			is.Equal(page.Total, int64(len(deleted)))
			var listed []record.ID
			for _, t := range page.Items {
				listed = append(listed, t.ID)
			}
			slices.SortFunc(deleted, func(a, b record.ID) int { return cmp.Compare(string(a[:]), string(b[:])) })
			slices.SortFunc(listed, func(a, b record.ID) int { return cmp.Compare(string(a[:]), string(b[:])) })
			is.Equal(listed, deleted)
			text := int64(0)
			for _, b := range []table.Bucket{
				kvtest.Bucket("record"), kvtest.Bucket("tag"), kvtest.Bucket("trash"), kvtest.Bucket("version"),
				kvtest.Bucket("folder"), kvtest.Bucket("request"), kvtest.Bucket("fetch"),
			} {
				for _, row := range tx.Walk(b, id[:], nil, false) {
					text += int64(len(row))
				}
			}
			for range tx.Walk(kvtest.Bucket("member"), id[:], nil, false) {
				text += 128
			}
			is.Equal(use, people.Usage{Bytes: bytes, Text: text, Count: count})
		}
		for _, t := range m.tags {
			tag, err := catalog.Tag(tx, m.users[t.owner], t.id)
			is.NoErr(err)
			counts := catalog.TagCounts(tx, tag)
			for _, k := range record.Kinds {
				for _, r := range m.records {
					if r.kind == k && slices.Contains(r.tags, t) {
						counts[k.Name]--
					}
				}
				is.Equal(counts[k.Name], int64(0))
			}
		}
		for _, f := range m.folders {
			folder, err := catalog.Folder(tx, m.users[f.owner], f.id)
			is.NoErr(err)
			n := catalog.FolderCount(tx, folder)
			for _, r := range m.records {
				if r.folder == f {
					n--
				}
			}
			is.Equal(n, int64(0))
		}
		for ref := range byte(10) {
			is.Equal(tx.Get(kvtest.Bucket("blob.loose"), (&record.Content{Ref: [32]byte{ref}}).Ref[:]) != nil, m.loose(ref))
		}
		for _, r := range m.records {
			if r.kind != record.Files {
				continue
			}
			now, err := catalog.Owned(tx, m.users[r.owner], r.kind, r.id)
			is.NoErr(err)
			is.Equal(now.Bytes.Ref[0], r.ref)
			all, err := catalog.FileVersions(tx, now)
			is.NoErr(err)
			got := []record.ID{}
			for _, v := range all {
				got = append(got, v.ID)
			}
			is.Equal(got, ids(m.versions(r)))
		}
		if r := m.pick(); r != nil {
			got, err := catalog.Slug(tx, r.slug)
			is.NoErr(err)
			var v record.Shown
			is.NoErr(catalog.Show(tx, got, &v))
			names := []string{}
			for _, t := range v.TagList {
				names = append(names, strings.ToLower(t.Name))
			}
			want := []string{}
			for _, t := range r.tags {
				want = append(want, strings.ToLower(t.name))
			}
			is.Equal(names, want)
			is.Equal(v.Views, r.views)
			is.Equal(v.FolderName != "", r.folder != nil)
		}
		return nil
	})
}

// The store stays equal to a model through a long history of changes. Some changes fail
// or panic, and the store is closed and opened again in between.
func TestModel(t *testing.T) {
	t.Parallel()
	steps := 400
	if *long {
		steps = 6000
	}
	for _, seed := range []uint64{0, 1, 2, 3, *seed} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			past(t, seed, steps)
		})
	}
}

func past(t *testing.T, seed uint64, steps int) {
	is := is.New(t)
	m := &model{
		t: t, rnd: rand.New(rand.NewPCG(11, seed)), clock: kvtest.NewClock(), dir: filepath.Join(t.TempDir(), "data"),
		held: map[byte]bool{},
	}
	m.s = kvtest.OpenAt(t, m.dir, m.clock.Now)
	for _, name := range []string{"ann", "bob"} {
		m.users = append(m.users, kvtest.User(t, m.s, name).ID)
	}
	m.check()
	for i := range steps {
		switch n := m.rnd.IntN(24); {
		case n < 8:
			m.add()
		case n < 13:
			m.edit()
		case n < 15:
			m.remove()
		case n < 17:
			m.see()
		case n < 18:
			m.rename()
		case n < 19:
			m.restore()
		case n < 21:
			m.arrange()
		case n < 23:
			m.replace()
		default:
			switch m.rnd.IntN(8) {
			case 0, 1:
				m.relabel()
			case 2:
				m.age()
			}
		}
		if i%20 == 19 {
			m.check()
		}
		if i%150 == 149 {
			var before, after map[string]string
			kvtest.View(t, m.s, func(tx *kv.Tx) error { before = kvtest.Dump(tx); return nil })
			is.NoErr(m.s.Close())
			m.s = kvtest.OpenAt(t, m.dir, m.clock.Now)
			kvtest.View(t, m.s, func(tx *kv.Tx) error { after = kvtest.Dump(tx); return nil })
			for _, key := range [][]byte{[]byte("instant"), []byte("steady"), []byte("texts")} { // Close notes when it was
				delete(before, fmt.Sprintf("meta %x", key))
				delete(after, fmt.Sprintf("meta %x", key))
			}
			is.True(maps.Equal(after, before))
		}
	}
	for len(m.trash) == 0 {
		m.add()
		m.remove()
	}
	for len(m.records) < 30 {
		m.add()
	}
	m.check()

	// One account is removed with all its data; the other keeps everything.
	is.Equal(kvtest.Code(catalog.RemoveTag(m.s, m.users[0], uuid.New(), uuid.Nil)), "not_found")
	is.NoErr(people.RemoveUser(m.s, m.users[0], "root"))
	for _, r := range slices.Clone(m.records) {
		if r.owner == 0 {
			m.forget(r)
		}
	}
	m.trash = slices.DeleteFunc(m.trash, func(r *modelRecord) bool { return r.owner == 0 })
	kvtest.View(t, m.s, func(tx *kv.Tx) error {
		is.Equal(kvtest.LeftOver(tx, m.users[0]), nil)
		is.NoErr(kvtest.Audit(tx))
		n := 0
		for _, err := range catalog.RecordRows.All(tx.Tx, m.users[1][:]) {
			is.NoErr(err)
			n++
		}
		is.Equal(n, len(m.records))
		return nil
	})
	is.Equal(kvtest.Code(people.RemoveUser(m.s, m.users[0], "root")), "not_found")
	is.Equal(kvtest.Code(people.RemoveUser(m.s, m.users[1], "root")), "last_admin")
}
