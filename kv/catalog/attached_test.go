package catalog_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/kvtest"
	"kist/kv/record"
)

// filesOf are the ids of a list of files.
func filesOf(t *testing.T, s *kv.Store, q catalog.Query) (ids []record.ID) {
	t.Helper()
	q.Kind, q.Limit = record.Files, 100
	kvtest.View(t, s, func(tx *kv.Tx) error {
		page, err := catalog.List(tx, q)
		if err != nil {
			return err
		}
		if page.Total != len(page.Records) {
			t.Errorf("the total is %d of %d", page.Total, len(page.Records))
		}
		for _, r := range page.Records {
			ids = append(ids, r.ID)
		}
		return nil
	})
	return ids
}

// Lists of files have no attached ones, whatever they filter by, unless they are asked for.
func TestAttachedLists(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	owner := kvtest.User(t, s, "ann").ID
	file := kvtest.Add(t, s, owner, record.Files, `{"name":"a.png"}`).ID
	shown := kvtest.Add(t, s, owner, record.Files, `{"name":"b.png","attach":true}`).ID
	kept := kvtest.Add(t, s, owner, record.Files, `{"name":"c.png","attach":true,"isFavorite":true,"tags":["sea"]}`).ID
	none, other, yes, no := record.ID{}, record.Other, true, false
	for name, q := range map[string]catalog.Query{
		"all":       {},
		"unfiled":   {Folder: &none},
		"class":     {Class: &other},
		"private":   {Public: &no},
		"by size":   {Sort: catalog.Size},
		"by taken":  {Sort: catalog.Taken},
		"among":     {Among: []record.ID{file, shown}},
		"changed":   {Since: time.Unix(0, 0)},
		"by title":  {Sort: catalog.Title, Class: &other},
		"unpopular": {Favorite: &no},
	} {
		t.Run(name, func(t *testing.T) {
			q.Owner = owner
			is := is.New(t)
			is.Equal(filesOf(t, s, q), []record.ID{file})
			q.Attached = true
			all := filesOf(t, s, q)
			is.True(slices.Contains(all, file) && slices.Contains(all, shown))
			is.Equal(slices.Contains(all, kept), q.Among == nil && q.Favorite == nil)
		})
	}
	is.Equal(len(filesOf(t, s, catalog.Query{Owner: owner, Favorite: &yes})), 0)
	kvtest.View(t, s, func(tx *kv.Tx) error { return kvtest.Audit(tx) })
}

// Who restores an attached file by hand has a day to put it into a text. It is in no folder.
func TestAttachedRestored(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	clock := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), clock.Now)
	owner := kvtest.User(t, s, "ann").ID
	file := kvtest.Add(t, s, owner, record.Files, `{"name":"a.png","attach":true,"folderName":"Trip"}`)
	is.Equal(file.Folder, record.ID{})
	trash(t, s, file)
	clock.Add(48 * time.Hour)
	untrash(t, s, file)
	lives := func() bool {
		kvtest.Tick(s)
		return len(filesOf(t, s, catalog.Query{Owner: owner, Attached: true})) == 1
	}
	is.True(lives())
	clock.Add(23 * time.Hour)
	is.True(lives())
	clock.Add(2 * time.Hour)
	is.True(!lives())
	kvtest.View(t, s, func(tx *kv.Tx) error { return kvtest.Audit(tx) })
}

// While an import runs, old files wait for their texts.
func TestAttachedHeld(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	clock := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), clock.Now)
	owner := kvtest.User(t, s, "ann").ID
	kvtest.Add(t, s, owner, record.Files, `{"name":"a.png","attach":true}`)
	release := catalog.HoldUnshown(s)
	clock.Add(48 * time.Hour)
	kvtest.Tick(s)
	is.Equal(len(filesOf(t, s, catalog.Query{Owner: owner, Attached: true})), 1)
	release()
	kvtest.Tick(s)
	is.Equal(len(filesOf(t, s, catalog.Query{Owner: owner, Attached: true})), 0)
}

// A picture that came back with its text is not refused when it is restored by name.
func TestAttachedRestoredTogether(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	owner := kvtest.User(t, s, "ann").ID
	file := kvtest.Add(t, s, owner, record.Files, `{"name":"a.png","attach":true}`)
	note := kvtest.Add(t, s, owner, record.Notes, fmt.Sprintf(`{"content":"![a](kist:%s)"}`, file.ID))
	other := kvtest.Add(t, s, owner, record.Files, `{"name":"b.png"}`)
	trash(t, s, note)
	refused, err := catalog.UntrashEach(s, owner, []record.ID{note.ID, file.ID, other.ID})
	is.NoErr(err)
	is.NoErr(refused[0])
	is.NoErr(refused[1])
	is.True(kv.Missing(refused[2])) // it was not in the trash
	kvtest.View(t, s, func(tx *kv.Tx) error { return kvtest.Audit(tx) })
}

// Texts of former formats could have the words that are an address of a file now, and be in the trash.
func TestFileShows(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	owner := kvtest.User(t, s, "ann").ID
	text := fmt.Sprintf(`{"content":"![a](kist:%s)"}`, kvtest.Add(t, s, owner, record.Files, `{"name":"a.png"}`).ID)
	kvtest.Add(t, s, owner, record.Notes, text)
	trash(t, s, kvtest.Add(t, s, owner, record.Notes, text))
	kvtest.Update(t, s, catalog.DropShows)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.True(kvtest.Audit(tx) != nil)
		return nil
	})
	kvtest.Update(t, s, catalog.FileShows)
	kvtest.View(t, s, func(tx *kv.Tx) error { return kvtest.Audit(tx) })
}

// attachments is a model of attached files and the texts that show them.
type attachments struct {
	t     *testing.T
	s     *kv.Store
	rnd   *rand.Rand
	clock *kvtest.Clock
	owner record.ID
	files []*attachedFile
	texts []*showing
}

type (
	attachedFile struct {
		id      record.ID
		state   string // live, trash or gone
		unshown time.Time
	}
	showing struct {
		id    record.ID
		kind  *record.Kind
		state string
		shows []*attachedFile
	}
)

// TestAttachedModel: after random changes of texts, attached files are where the texts are that show them.
func TestAttachedModel(t *testing.T) {
	t.Parallel()
	for seed := range 4 {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			m := &attachments{t: t, rnd: rand.New(rand.NewPCG(uint64(seed), 1)), clock: kvtest.NewClock()}
			m.s = kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), m.clock.Now)
			m.owner = kvtest.User(t, m.s, "ann").ID
			for range 120 {
				m.step()
				m.check()
			}
		})
	}
}

func (m *attachments) step() {
	m.clock.Add(time.Second)
	switch n := m.rnd.IntN(9); {
	case n < 2:
		f := kvtest.Add(m.t, m.s, m.owner, record.Files, `{"name":"a.png","attach":true}`)
		m.files = append(m.files, &attachedFile{f.ID, "live", m.clock.Now()})
	case n < 4:
		w := &showing{kind: []*record.Kind{record.Notes, record.Recipes, record.Games}[m.rnd.IntN(3)], state: "live"}
		m.choose(w)
		w.id = kvtest.Add(m.t, m.s, m.owner, w.kind, w.text()).ID
		m.shown(nil, w.shows)
		m.texts = append(m.texts, w)
	case n < 8 && len(m.texts) > 0:
		m.change(m.texts[m.rnd.IntN(len(m.texts))])
	default:
		m.clock.Add(11 * time.Hour)
		kvtest.Tick(m.s)
		for _, f := range m.files {
			if f.state == "live" && !m.isShown(f) && m.clock.Now().Sub(f.unshown) >= 24*time.Hour {
				f.state = "trash"
			}
		}
	}
}

// choose makes a text show some files, also ones that are gone or in the trash.
func (m *attachments) choose(w *showing) {
	w.shows = nil
	for range m.rnd.IntN(4) {
		if len(m.files) == 0 || w.kind == record.Games && len(w.shows) == 1 {
			break
		}
		f := m.files[m.rnd.IntN(len(m.files))]
		if !slices.Contains(w.shows, f) {
			w.shows = append(w.shows, f)
		}
	}
}

// text is what the record says.
func (w *showing) text() string {
	var all []string
	for _, f := range w.shows {
		all = append(all, "![a](kist:"+f.id.String()+")")
	}
	text := strings.Join(all, " ")
	switch w.kind {
	case record.Notes:
		return fmt.Sprintf(`{"content":%q}`, text)
	case record.Games:
		if len(w.shows) == 0 {
			return `{"title":"a","coverId":null}`
		}
		return fmt.Sprintf(`{"title":"a","coverId":%q}`, w.shows[0].id)
	}
	if len(w.shows) == 0 {
		return `{"title":"a","photoId":null,"instructions":""}`
	}
	rest := strings.Join(all[1:], " ")
	return fmt.Sprintf(`{"title":"a","photoId":%q,"instructions":%q}`, w.shows[0].id, rest)
}

func (m *attachments) change(w *showing) {
	on := func(fn func(tx *kv.Tx, r *record.Record) error) {
		kvtest.Update(m.t, m.s, func(tx *kv.Tx) error {
			r, err := catalog.Owned(tx, m.owner, w.kind, w.id)
			if err != nil {
				return err
			}
			return fn(tx, r)
		})
	}
	switch n := m.rnd.IntN(6); {
	case w.state == "trash" && n < 4:
		kvtest.Update(m.t, m.s, func(tx *kv.Tx) error {
			deleted, err := catalog.Trashed(tx, m.owner, w.id)
			if err != nil {
				return err
			}
			_, err = catalog.Untrash(tx, deleted)
			return err
		})
		w.state = "live"
		m.shown(nil, w.shows)
	case w.state != "live":
	case n < 3:
		before := w.shows
		m.choose(w)
		on(func(tx *kv.Tx, r *record.Record) error {
			form, err := kvtest.Patch(r, w.text())
			if err != nil {
				return err
			}
			return catalog.Save(tx, r, form, "")
		})
		m.shown(before, w.shows)
		for _, f := range before {
			if !slices.Contains(w.shows, f) && !m.isShown(f) {
				f.unshown = m.clock.Now()
			}
		}
	case n < 5:
		on(func(tx *kv.Tx, r *record.Record) error { return catalog.Trash(tx, r, "test") })
		m.away(w, "trash")
	default:
		on(catalog.Remove)
		m.away(w, "gone")
	}
}

// away moves a text, and the files that only it shows: not for good while a text in the trash shows them.
func (m *attachments) away(w *showing, to string) {
	w.state = to
	for _, f := range w.shows {
		switch {
		case f.state != "live" || m.isShown(f):
		case m.inTrash(f):
			f.state = "trash"
		default:
			f.state = to
		}
	}
}

// shown brings back what is shown now and was not before.
func (m *attachments) shown(before, now []*attachedFile) {
	for _, f := range now {
		if f.state == "trash" && !slices.Contains(before, f) {
			f.state = "live"
		}
	}
}

func (m *attachments) isShown(f *attachedFile) bool { return m.shownIn("live", f) }

func (m *attachments) inTrash(f *attachedFile) bool { return m.shownIn("trash", f) }

func (m *attachments) shownIn(state string, f *attachedFile) bool {
	return slices.ContainsFunc(m.texts, func(w *showing) bool { return w.state == state && slices.Contains(w.shows, f) })
}

func (m *attachments) check() {
	m.t.Helper()
	kvtest.View(m.t, m.s, func(tx *kv.Tx) error {
		for _, f := range m.files {
			is := "gone"
			_, err := catalog.Owned(tx, m.owner, record.Files, f.id)
			_, err2 := catalog.Trashed(tx, m.owner, f.id)
			if err == nil {
				is = "live"
			} else if err2 == nil {
				is = "trash"
			}
			if is != f.state {
				m.t.Fatalf("%s is %s and should be %s", f.id, is, f.state)
			}
		}
		return kvtest.Audit(tx)
	})
}
