package search

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/kvtest/needs"
	"kist/kv/record"
)

// The vocabulary: few words, which begin alike, in several scripts.
var vocabulary = strings.Fields("sea seal sealing seas boat boats net nets o on one crème creme " +
	"Straße東 東京 東京都 京都 手順 한국 한국어 ภาษา 🍜 v2 x-ray main.go don't 2024 big12mp 12mp " +
	strings.Repeat("y", 70) + " " + strings.Repeat("y", 80) + " owner:ann _id:1 +*")

// begins are words in a row, the last of them not to its end.
var begins = [][]string{
	{"on", "se"},
	{"sea", "boa"},
	{"one", "on"},
	{"boat", "sea", "sea"},
	{"x", "ra"},
	{"sea", "on", "ne"},
	{"o", "o", "on"},
}

// asked is a part of a query, made without the parser, and what is to be said
// of a record for it to fit.
type asked struct {
	text string
	fits func(*read) bool
}

// read is a record as a reader who knows no index sees it.
type read struct {
	r     *record.Record
	lines [][]string // title, texts, names of tags
	tags  []string
}

func inARow(line, row []string, last func(word, begin string) bool) bool {
	for at := 0; at+len(row) <= len(line); at++ {
		ok := true
		for i, w := range row {
			if i == len(row)-1 {
				ok = ok && last(line[at+i], w)
			} else {
				ok = ok && line[at+i] == w
			}
		}
		if ok {
			return true
		}
	}
	return false
}

func byRank(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(string(b.ID[:]), string(a.ID[:])))
}

func same(a, b string) bool { return a == b }

func (r *read) any(row []string, last func(string, string) bool) bool {
	return slices.ContainsFunc(r.lines, func(l []string) bool { return inARow(l, row, last) })
}

func terms(text string) []string { return slices.Clone([]string(lineOf(text))) }

// ask makes up a part of a query.
func ask(rnd *rand.Rand) asked {
	word := vocabulary[rnd.IntN(len(vocabulary))]
	not := rnd.IntN(5) == 0
	a := asked{}
	switch rnd.IntN(9) {
	case 0: // a phrase
		text := word
		for range 1 + rnd.IntN(3) {
			text += " " + vocabulary[rnd.IntN(len(vocabulary))]
		}
		a = quoted(text)
	case 1: // words in a row, of which the last may go on
		row := begins[rnd.IntN(len(begins))]
		a = asked{strings.Join(row, "."), func(r *read) bool { return r.any(row, strings.HasPrefix) }}
		if not {
			a.fits = func(r *read) bool { return r.any(row, same) }
		}
	case 2:
		tag := fmt.Sprint("t", rnd.IntN(5))
		a = asked{"tag:" + tag, func(r *read) bool { return slices.Contains(r.tags, tag) }}
	case 3:
		k := record.Kinds[rnd.IntN(4)]
		a = asked{"kind:" + k.Name, func(r *read) bool { return r.r.Kind == k }}
	case 4:
		if rnd.IntN(2) == 0 {
			a = asked{"is:public", func(r *read) bool { return r.r.Public }}
		} else {
			a = asked{"is:favorite", func(r *read) bool { return r.r.Favorite }}
		}
	case 5: // the beginning of a word
		ascii := strings.Fields("sea seal boat net main yyyy")[rnd.IntN(6)]
		n := 2 + rnd.IntN(len(ascii)-1)
		begin := ascii[:n]
		if not {
			a = asked{begin, func(r *read) bool { return r.any([]string{begin}, same) }}
		} else {
			a = asked{begin, func(r *read) bool { return r.any([]string{begin}, strings.HasPrefix) }}
		}
	case 6: // one character of a script without spaces
		char := []string{"東", "京", "都", "順", "국", "어"}[rnd.IntN(6)]
		a = asked{char, func(r *read) bool {
			return slices.ContainsFunc(r.lines, func(l []string) bool {
				return slices.ContainsFunc(l, func(w string) bool { return strings.HasPrefix(w, char) })
			})
		}}
	default:
		a = quoted(word)
	}
	if not && a.text != "" {
		fits := a.fits
		a = asked{"-" + a.text, func(r *read) bool { return !fits(r) }}
	}
	return a
}

// quoted looks for text as it stands.
func quoted(text string) asked {
	row := terms(text)
	if len(row) == 0 {
		return asked{"", func(*read) bool { return true }}
	}
	// The last of a run in a script without spaces may go on.
	last := row[len(row)-1]
	if len(row) > 1 && strings.HasSuffix(row[len(row)-2], last) && row[len(row)-2] != last &&
		last[0] >= 0x80 && last != "🍜" {
		row = row[:len(row)-1]
	}
	return asked{`"` + text + `"`, func(r *read) bool { return r.any(row, same) }}
}

// A random history of edits, removals, stops, crashes and rebuilds: at any
// time the index and what it lacks find what a reader of all records finds.
func TestIndexAgainstReader(t *testing.T) {
	needs.Time(t)
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { history(t, seed) })
	}
}

func history(t *testing.T, seed uint64) {
	is := is.New(t)
	rnd := rand.New(rand.NewPCG(seed, 7))
	l := newLibrary(t)
	owners := []record.ID{l.user("ann"), l.user("bob")}
	var all []*record.Record
	text := func(most int) string {
		var words []string
		for range rnd.IntN(most) {
			words = append(words, vocabulary[rnd.IntN(len(vocabulary))])
		}
		return strings.Join(words, []string{" ", ", ", "\n"}[rnd.IntN(3)])
	}
	body := func(k *record.Kind) string {
		in := map[string]any{"isPublic": rnd.IntN(2) == 0, "isFavorite": rnd.IntN(3) == 0}
		tags := []string{}
		for range rnd.IntN(3) {
			tags = append(tags, fmt.Sprint("t", rnd.IntN(5)))
		}
		in["tags"] = tags
		if rnd.IntN(3) == 0 {
			in["slug"] = fmt.Sprintf("sea-%d", rnd.IntN(1<<30))
		}
		switch k {
		case record.Files:
			in["originalName"], in["content"] = "f "+text(3), text(12)
		case record.Bookmarks:
			in["title"], in["url"], in["description"] = text(4), "https://example.org/sea?x=net", text(6)
		case record.Notes:
			in["title"], in["content"] = text(4), text(20)
		case record.Snippets:
			in["title"], in["content"], in["language"] = text(4), text(20), "go"
		}
		b, err := json.Marshal(in)
		is.NoErr(err)
		return string(b)
	}
	edit := func() {
		switch n := rnd.IntN(10); {
		case n < 5 || len(all) < 5:
			k := record.Kinds[rnd.IntN(4)]
			all = append(all, l.add(owners[rnd.IntN(2)], k, body(k)))
		case n < 8:
			at := rnd.IntN(len(all))
			r := all[at]
			in, err := field.Parse([]byte(body(r.Kind)))
			is.NoErr(err)
			delete(in, "content") // of a file it stays
			is.NoErr(l.store.Update(func(tx *kv.Tx) error {
				now, err := catalog.Owned(tx, r.Owner, r.Kind, r.ID)
				if err != nil {
					return err
				}
				f, err := now.Form()
				if err != nil {
					return err
				}
				if err := f.Patch(in); err != nil {
					return err
				}
				return catalog.Save(tx, now, f, "")
			}))
		case n < 9:
			at := rnd.IntN(len(all))
			l.remove(all[at])
			all = slices.Delete(all, at, at+1)
		default: // a tag gets another name, under all that have it
			is.NoErr(l.store.Update(func(tx *kv.Tx) error {
				tags, err := catalog.Tags(tx, owners[0])
				if err != nil || len(tags) == 0 {
					return err
				}
				tag := tags[rnd.IntN(len(tags))]
				tag.Name = fmt.Sprint("t", rnd.IntN(5))
				if _, err := catalog.TagNamed(tx, owners[0], tag.Name); err == nil {
					return nil
				}
				return catalog.SaveTag(tx, &tag)
			}))
		}
	}
	reads := func(owner record.ID) (all []*read) {
		is.NoErr(l.store.View(func(tx *kv.Tx) error {
			for _, k := range record.Kinds {
				for r, err := range catalog.NewestFirst(tx, owner, k) {
					is.NoErr(err)
					b, err := r.Decode()
					is.NoErr(err)
					one := &read{r: r, lines: [][]string{terms(b.Title()), terms(r.Slug)}}
					for _, part := range innerParts(b.Title()) {
						one.lines = append(one.lines, terms(part))
					}
					for t := range field.Of(b).Strings() {
						one.lines = append(one.lines, terms(t))
					}
					if r.Bytes != nil {
						one.lines = append(one.lines, terms(l.files[r.Bytes.Ref]))
					}
					for _, id := range r.Tags {
						tag, err := catalog.Tag(tx, owner, id)
						is.NoErr(err)
						one.lines, one.tags = append(one.lines, terms(tag.Name)), append(one.tags, record.Fold(tag.Name))
					}
					all = append(all, one)
				}
			}
			return nil
		}))
		return all
	}
	compare := func(when string) {
		t.Helper()
		for i, owner := range owners {
			known := reads(owner)
			others := reads(owners[1-i])
			shared := &Others{Owners: []record.ID{owners[1-i]}, Has: func(id record.ID) bool { return id[15]%4 == 0 }}
			is.NoErr(l.store.View(func(tx *kv.Tx) error {
				tags, err := catalog.Tags(tx, owners[1-i])
				for _, tag := range tags[:min(2, len(tags))] {
					shared.Within = append(shared.Within, tag.ID)
				}
				return err
			}))
			for range 25 {
				var parts []asked
				var words []string
				for range 1 + rnd.IntN(3) {
					if a := ask(rnd); a.text != "" {
						parts, words = append(parts, a), append(words, a.text)
					}
				}
				query := strings.Join(words, " ")
				var want []Hit
				q, err := Parse(query)
				is.NoErr(err)
				is.NoErr(l.store.View(func(tx *kv.Tx) error {
					f := q.For(owner, true, catalog.TagNames(tx, owner))
					for _, r := range known {
						fits := !slices.ContainsFunc(parts, func(a asked) bool { return !a.fits(r) })
						score, ok, err := f.score(r.r, l.x.content)
						is.NoErr(err)
						if ok != fits {
							t.Errorf("%s: %q and %s %v: scan says %t", when, query, r.r.Kind.Name, r.lines, ok)
						}
						if fits {
							want = append(want, Hit{r.r.Kind, r.r.ID, score})
						}
					}
					return nil
				}))
				slices.SortFunc(want, byRank)
				if got := l.find(owner, query, true); !slices.Equal(got, want) {
					t.Errorf("%s: %q finds %d, not %d", when, query, len(got), len(want))
				}
				// With typing errors, against the scan alone.
				want = nil
				word := []string{"saeling", "botas", "crame", "seall", "sealng", "maim.go"}[rnd.IntN(6)]
				q, err = Parse(word)
				is.NoErr(err)
				is.NoErr(l.store.View(func(tx *kv.Tx) error {
					f := q.For(owner, false, catalog.TagNames(tx, owner))
					for _, r := range known {
						if score, ok, _ := f.score(r.r, l.x.content); ok {
							want = append(want, Hit{r.r.Kind, r.r.ID, score})
						}
					}
					return nil
				}))
				slices.SortFunc(want, byRank)
				if got := l.find(owner, word, false); !slices.Equal(got, want) {
					t.Errorf("%s: %q finds %d, not %d", when, word, len(got), len(want))
				}
				// With what another shares, and with that alone, against the scan.
				for _, strict := range []bool{true, false} {
					want = nil
					q, err = Parse(query)
					is.NoErr(err)
					is.NoErr(l.store.View(func(tx *kv.Tx) error {
						f := q.For(owner, strict, catalog.TagNames(tx, owner))
						f.Among(shared, strict)
						for _, r := range slices.Concat(known, others) {
							if score, ok, _ := f.score(r.r, l.x.content); ok {
								want = append(want, Hit{r.r.Kind, r.r.ID, score})
							}
						}
						return nil
					}))
					slices.SortFunc(want, byRank)
					if got := l.find(owner, query, strict, shared); !slices.Equal(got, want) {
						t.Errorf("%s: %q finds %d with what is shared, not %d", when, query, len(got), len(want))
					}
				}
			}
		}
	}

	l.open()
	for step := range 12 {
		for range 10 {
			edit()
		}
		l.ready()
		compare("at once")
		switch rnd.IntN(6) {
		case 0:
			l.caught()
			compare("caught up")
		case 1: // a clean stop
			l.close()
			edit()
			l.open()
			is.True(l.ready().Built == 0) // taken up where it was
			compare("opened again")
		case 2: // a crash: what is on the disk is what it was in the middle
			l.caught()
			dir := filepath.Join(l.dir, "cache", "index")
			torn := t.TempDir()
			is.NoErr(os.CopyFS(torn, os.DirFS(dir)))
			edit()
			l.caught()
			l.close()
			is.NoErr(os.RemoveAll(dir))
			is.NoErr(os.CopyFS(dir, os.DirFS(torn)))
			l.open()
			is.True(l.ready().Built == 1)
			compare("after a crash")
		case 3:
			built := l.x.State().Built
			l.x.Rebuild()
			l.until(func(s State) bool { return s.Phase == Ready && s.Built > built })
			compare("rebuilt")
		case 4:
			l.close()
			spoil(t, rnd, filepath.Join(l.dir, "cache", "index"))
			l.open()
			is.True(l.ready().Built == 1)
			compare("after damage")
		case 5: // an older state of the index: removals since then are forgotten
			l.caught()
			l.close()
			dir := filepath.Join(l.dir, "cache", "index")
			old := t.TempDir()
			is.NoErr(os.CopyFS(old, os.DirFS(dir)))
			l.open()
			if len(all) > 0 {
				l.remove(all[0])
				all = all[1:]
			}
			l.caught()
			l.close()
			is.NoErr(os.RemoveAll(dir))
			is.NoErr(os.CopyFS(dir, os.DirFS(old)))
			l.open()
			l.ready()
			compare("from an older copy")
		}
		if t.Failed() {
			t.Fatalf("in step %d", step)
		}
	}
	l.caught()
	l.mu.Lock()
	defer l.mu.Unlock()
	is.NoErr(l.store.View(func(tx *kv.Tx) error {
		changes, err := tx.Changes(0, 1<<20)
		is.Equal(len(changes), len(all)) // no mark of a removal is left
		return err
	}))
}

// spoil damages a file of an index that is closed.
func spoil(t *testing.T, rnd *rand.Rand, dir string) {
	t.Helper()
	is := is.New(t)
	var names []string
	is.NoErr(filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, path)
		}
		return err
	}))
	name := names[rnd.IntN(len(names))]
	text, err := os.ReadFile(name)
	is.NoErr(err)
	switch rnd.IntN(3) {
	case 0:
		is.NoErr(os.Remove(name))
		return
	case 1:
		text = text[:rnd.IntN(len(text))]
	default:
		text[rnd.IntN(len(text))] ^= byte(1 + rnd.IntN(255))
	}
	is.NoErr(os.WriteFile(name, text, 0o600))
}

// An index of another version of the mapping, of another store, or of a store
// that had more in it, is rebuilt, and so is one that nobody closed.
func TestUnproven(t *testing.T) {
	is := is.New(t)
	l := newLibrary(t)
	ann := l.user("ann")
	l.add(ann, record.Notes, `{"title":"Boats","content":""}`)
	l.open()
	is.Equal(l.ready().Built, 1)
	l.close()
	l.open()
	is.Equal(l.ready().Built, 0)
	is.Equal(l.titles(ann, "boats"), "Boats")
	l.close()
	l.open(func(o *Options) { o.Store = "another" })
	is.Equal(l.ready().Built, 1)
	l.close()
	name := filepath.Join(l.dir, "cache", "index", "proof.json")
	edit := func(change func(*proof)) {
		l.close()
		text, err := os.ReadFile(name)
		is.NoErr(err)
		var p proof
		is.NoErr(json.Unmarshal(text, &p))
		change(&p)
		text, err = json.Marshal(p)
		is.NoErr(err)
		is.NoErr(os.WriteFile(name, text, 0o600))
		l.open()
	}
	for _, change := range []func(*proof){
		func(p *proof) { p.Store, p.Mapping = "test", 99 },
		func(p *proof) { p.Place += 100 },
		func(p *proof) { p.Place-- },
	} {
		l.open()
		l.ready()
		edit(change)
		is.Equal(l.ready().Built, 1)
		is.Equal(l.titles(ann, "boats"), "Boats")
		l.close()
	}
}

// What cannot be written is tried again; nothing is lost and nobody waits.
func TestNoRoom(t *testing.T) {
	is := is.New(t)
	l := newLibrary(t)
	ann := l.user("ann")
	full := make(chan struct{})
	asked := make(chan struct{}, 100)
	l.open(func(o *Options) {
		o.FreeSpace = func() int64 {
			select {
			case asked <- struct{}{}:
			default:
			}
			select {
			case <-full:
				return 1
			default:
				return 0
			}
		}
	})
	l.add(ann, record.Notes, `{"title":"Boats","content":""}`)
	<-asked
	l.add(ann, record.Notes, `{"title":"Boats","content":"more"}`)
	close(full)
	l.x.Rebuild() // not to wait for the next try
	l.until(func(s State) bool { return s.Phase == Ready })
	is.Equal(l.titles(ann, "boats"), "Boats|Boats")

	// One that is there is asked meanwhile, and kept.
	l.close()
	l.add(ann, record.Notes, `{"title":"Boats","content":"even more"}`)
	l.open(func(o *Options) { o.FreeSpace = func() int64 { return 0 } })
	is.Equal(l.ready().Built, 0)
	is.Equal(l.titles(ann, "boats"), "Boats|Boats|Boats")
	l.close()
	l.open()
	is.Equal(l.ready().Built, 0)
	is.Equal(l.titles(ann, "boats"), "Boats|Boats|Boats")
}

// An index that cannot be proven is said to be rebuilt when it is next opened,
// and is.
func TestUnprovable(t *testing.T) {
	is := is.New(t)
	l := newLibrary(t)
	ann := l.user("ann")
	l.add(ann, record.Notes, `{"title":"Boats","content":""}`)
	var said bytes.Buffer
	l.open(func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&said, nil)) })
	l.caught()
	inTheWay := filepath.Join(l.dir, "cache", "index", "proof.json")
	is.NoErr(os.Mkdir(inTheWay, 0o700))
	l.close()
	is.True(strings.Contains(said.String(), "rebuilt at the next start"))
	is.NoErr(os.Remove(inTheWay))
	l.open()
	is.Equal(l.ready().Built, 1)
	is.Equal(l.titles(ann, "boats"), "Boats")
}

// An index of many records is of one segment once it is made, and opened again;
// who asks meanwhile waits for that.
func TestSettled(t *testing.T) {
	is := is.New(t)
	l := newLibrary(t)
	ann := l.user("ann")
	for done := 0; done < largeBuild; {
		is.NoErr(l.store.Update(func(tx *kv.Tx) error {
			for range min(500, largeBuild-done) {
				f := record.NewForm(record.Notes)
				f.Body = &record.Note{Name: fmt.Sprint("Boat ", done)}
				if _, err := catalog.Add(tx, catalog.Draft{Owner: ann, Kind: record.Notes, Form: f}); err != nil {
					return err
				}
				done++
			}
			return nil
		}))
	}
	l.open()
	is.Equal((<-l.relaxed).Phase, Opening) // while it is closed
	is.Equal(l.ready().Built, 1)
	is.Equal(len(l.find(ann, fmt.Sprint(largeBuild-1), true)), 1)
	is.Equal(l.x.State().Documents, int64(largeBuild))
	v, ok := l.x.View()
	is.True(ok)
	segments := len(v.snap.Segments())
	n, err := v.snap.DocCount()
	v.Close()
	is.NoErr(err)
	is.Equal(segments, 1)
	is.Equal(n, uint64(largeBuild))
	l.close()
	l.open()
	is.Equal(l.ready().Built, 0)
	is.Equal(len(l.find(ann, fmt.Sprint(largeBuild-1), true)), 1)
}

// tidied waits until the index is one segment and rests.
func (l *library) tidied() {
	l.Helper()
	for segments := 0; segments != 1; {
		<-l.relaxed
		v := l.view()
		segments = len(v.snap.Segments())
		v.Close()
	}
}

// Memory that searches took is given back while nothing changes.
func TestRestAfterSearches(t *testing.T) {
	l := newLibrary(t)
	ann := l.user("ann")
	l.open(func(o *Options) { o.idle = 10 * time.Millisecond })
	l.ready()
	<-l.relaxed // the first rest
	for range 3 {
		l.find(ann, "boat", true)
		<-l.relaxed
	}
}

// When nothing changes, many small segments become one; who writes meanwhile does not wait for that.
func TestTidy(t *testing.T) {
	is := is.New(t)
	l := newLibrary(t)
	ann := l.user("ann")
	l.open(func(o *Options) { o.idle = time.Millisecond })
	for range 3 {
		for i := range tidyFrom {
			l.add(ann, record.Notes, fmt.Sprintf(`{"title":"Boat %d","content":""}`, i))
		}
		l.caught()
	}
	l.tidied()
	is.Equal(len(l.find(ann, "boat", true)), 3*tidyFrom)
	l.add(ann, record.Notes, `{"title":"Boat","content":""}`)
	l.caught()
	is.Equal(len(l.find(ann, "boat", true)), 3*tidyFrom+1)
	l.close()
	l.open()
	is.Equal(l.ready().Built, 0)
}

// Segments are merged only where there is room for what they become beside
// them.
func TestSettleNeedsRoom(t *testing.T) {
	for room, merges := range map[int64]uint64{1: 0, 1 << 40: 1} {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			is := is.New(t)
			l := newLibrary(t)
			l.add(l.user("ann"), record.Notes, `{"title":"Boats","content":""}`)
			l.open(func(o *Options) { o.FreeSpace = func() int64 { return room } })
			l.caught()
			l.x.mu.RLock()
			live := l.x.live
			l.x.mu.RUnlock()
			is.Equal(l.x.mergeSegments(t.Context(), live), errSettled)
			is.Equal(live.StatsMap()["TotFileMergeForceOpsStarted"], merges)
		})
	}
}

// A merge is on the disk when it is said to be done.
func TestSettleIsWritten(t *testing.T) {
	is := is.New(t)
	l := newLibrary(t)
	ann := l.user("ann")
	l.open(func(o *Options) { o.FreeSpace = func() int64 { return 1 << 40 } })
	for i := range 5 {
		l.add(ann, record.Notes, fmt.Sprintf(`{"title":"Boat %d","content":""}`, i))
		l.caught()
	}
	l.x.mu.RLock()
	live := l.x.live
	l.x.mu.RUnlock()
	is.Equal(l.x.mergeSegments(t.Context(), live), errSettled)
	copied := t.TempDir()
	err := os.CopyFS(copied, os.DirFS(l.x.folder()))
	for errors.Is(err, fs.ErrNotExist) { // what was merged is being removed
		copied = t.TempDir()
		err = os.CopyFS(copied, os.DirFS(l.x.folder()))
	}
	is.NoErr(err)
	made, err := scorch.NewScorch(scorch.Name, map[string]any{"path": copied}, l.x.queue)
	is.NoErr(err)
	is.NoErr(made.Open())
	snap, err := snapshot(made.(*scorch.Scorch))
	is.NoErr(err)
	segments := len(snap.Segments())
	is.NoErr(errors.Join(snap.Close(), made.Close()))
	is.Equal(segments, 1)
}

var errNoFeed = errors.New("no feed")

// A feed that fails is read again when the index is asked to start again.
func TestFeedFails(t *testing.T) {
	is := is.New(t)
	l := newLibrary(t)
	ann := l.user("ann")
	l.add(ann, record.Notes, `{"title":"Boats","content":""}`)
	fails := make(chan struct{})
	l.open(func(o *Options) {
		o.Feed = func(since uint64, most int) ([]kv.Change, uint64, uint64, error) {
			select {
			case <-fails:
				return l.store.Feed(since, most)
			default:
				return nil, 0, 0, errNoFeed
			}
		}
	})
	s := l.until(func(s State) bool { return s.Phase == Failed })
	is.Equal(s.Problem, errNoFeed.Error())
	_, ok := l.x.View()
	is.True(!ok) // the failed index is not used
	close(fails)
	l.x.Rebuild()
	l.until(func(s State) bool { return s.Phase == Ready })
	is.Equal(l.titles(ann, "boats"), "Boats")
}
