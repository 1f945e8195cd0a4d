package search

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/tables"
)

// library is a store with its index.
type library struct {
	testing.TB
	dir   string
	store *kv.Store
	x     *Index
	files map[[32]byte]string // contents
	stop  func()
	trims int // marks that were trimmed
	slugs int // that were made up
	mu    sync.Mutex

	relaxed chan State // how the index was when it had the store give memory back
}

func newLibrary(t testing.TB) *library {
	l := &library{
		TB: t, dir: filepath.Join(t.TempDir(), "data"), files: map[[32]byte]string{},
		relaxed: make(chan State, 100),
	}
	var err error
	l.store, err = kv.Open(l.dir, kv.Options{Schema: tables.All, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	l.fatal(err)
	t.Cleanup(func() {
		l.close()
		l.fatal(l.store.Close())
	})
	return l
}

func (l *library) fatal(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// open runs the index; how may change its options.
func (l *library) open(how ...func(*Options)) {
	o := Options{
		Dir: filepath.Join(l.dir, "cache", "index"), Store: "test", Feed: l.store.Feed, Wake: l.store.Changed(),
		Trim: func(places []uint64) error {
			l.mu.Lock()
			l.trims += len(places)
			l.mu.Unlock()
			return l.store.Trim(places)
		},
		Content: func(r *record.Record) ([]byte, error) { return []byte(l.files[r.Bytes.Ref]), nil },
		Relax: func() error {
			l.relaxed <- l.x.State()
			return nil
		},
		Log: slog.New(slog.NewTextHandler(l.Output(), nil)),
	}
	for _, f := range how {
		f(&o)
	}
	l.x = New(o)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { l.x.Run(ctx) })
	l.stop = func() {
		cancel()
		work.Wait()
	}
}

func (l *library) close() {
	if l.stop != nil {
		l.stop()
		l.stop = nil
	}
}

// ready waits until the index may be asked.
func (l *library) ready() State { return l.until(func(s State) bool { return s.Phase == Ready }) }

func (l *library) until(is func(State) bool) State {
	l.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	s, err := l.x.Await(ctx, is)
	if err != nil {
		l.Fatalf("%v: %+v", err, s)
	}
	return s
}

// settled waits until the index was rebuilt so many times and is closed, to be
// opened again.
func (l *library) settled(built int) (s State) {
	for s.Built < built || s.Phase != Opening {
		s = <-l.relaxed
	}
	return s
}

// caught waits until the index has all that is in the store.
func (l *library) caught() {
	l.Helper()
	l.ready()
	_, latest, _, err := l.store.Feed(1<<62, 1)
	l.fatal(err)
	for l.x.State().Place < latest {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		l.x.Hurry(ctx, l.x.State().Place)
		err := ctx.Err()
		cancel()
		l.fatal(err)
	}
}

func (l *library) user(name string) record.ID {
	var u *people.User
	l.fatal(l.store.Update(func(tx *kv.Tx) (err error) {
		u, err = people.AddUser(tx, people.User{Name: name, Quota: -1})
		return err
	}))
	return u.ID
}

func (l *library) add(owner record.ID, k *record.Kind, text string) *record.Record {
	l.Helper()
	f := record.NewForm(k)
	in, err := field.Parse([]byte(text))
	l.fatal(err)
	if in["slug"] == nil { // one by chance may begin with what is searched for
		l.slugs++
		in["slug"] = fmt.Sprintf("%08d", l.slugs)
	}
	var content *record.Content
	if k == record.Files {
		b := f.Body.(*record.File)
		b.OriginalName, b.MimeType = in["originalName"].(string), "text/plain"
		body, _ := in["content"].(string)
		content = &record.Content{Ref: sha256.Sum256([]byte(body)), Size: int64(len(body))}
		l.files[content.Ref] = body
		delete(in, "content")
		l.fatal(field.Create(record.Upload{Form: f}, in))
	} else {
		l.fatal(field.Create(f, in))
	}
	var r *record.Record
	l.fatal(l.store.Update(func(tx *kv.Tx) (err error) {
		r, err = catalog.Add(tx, catalog.Draft{Owner: owner, Kind: k, Form: f, Content: content})
		return err
	}))
	return r
}

func (l *library) remove(r *record.Record) {
	l.fatal(l.store.Update(func(tx *kv.Tx) error {
		now, err := catalog.Owned(tx, r.Owner, r.Kind, r.ID)
		if err != nil {
			return err
		}
		return catalog.Remove(tx, now)
	}))
}

// view is the index, as soon as it is open.
func (l *library) view() *View {
	l.Helper()
	l.until(func(s State) bool { return s.Phase != Opening })
	v, ok := l.x.View()
	if !ok {
		l.Fatalf("the index is not ready: %+v", l.x.State())
	}
	return v
}

// find looks up a text in the index and in the records that it lacks.
func (l *library) find(owner record.ID, text string, strict bool, others ...*Others) (all []Hit) {
	l.Helper()
	q, err := Parse(text)
	l.fatal(err)
	v := l.view()
	defer v.Close()
	l.fatal(l.store.View(func(tx *kv.Tx) error {
		tail, err := tx.Changes(v.Place(), 1<<20)
		if err != nil {
			return err
		}
		f := q.For(owner, strict, catalog.TagNames(tx, owner))
		for _, o := range others {
			f.Among(o, strict)
		}
		hits, err := v.Find(l.Context(), f, tail)
		if err != nil {
			return err
		}
		// Page by page it is the same as all at once.
		all = hits.Page(nil, 1<<20)
		var paged []Hit
		for after := (*Hit)(nil); ; after = &paged[len(paged)-1] {
			some := hits.Page(after, 3)
			paged = append(paged, some...)
			if len(some) < 3 {
				break
			}
		}
		if !slices.Equal(all, paged) || len(all) != hits.Total() {
			l.Errorf("%q: %d in all, %d by pages, total %d", text, len(all), len(paged), hits.Total())
		}
		var ids []record.ID
		for _, h := range all {
			ids = append(ids, h.ID)
		}
		slices.SortFunc(ids, func(a, b record.ID) int { return strings.Compare(string(a[:]), string(b[:])) })
		if !slices.Equal(ids, hits.IDs()) {
			l.Errorf("%q: ids differ", text)
		}
		return nil
	}))
	return all
}

// titles returns the titles of the results, in order.
func (l *library) titles(owner record.ID, text string) string {
	l.Helper()
	var all []string
	for _, h := range l.find(owner, text, false) {
		l.fatal(l.store.View(func(tx *kv.Tx) error {
			r, err := catalog.Owned(tx, owner, h.Kind, h.ID)
			if err != nil {
				return err
			}
			b, err := r.Decode()
			all = append(all, b.Title())
			return err
		}))
	}
	return strings.Join(all, "|")
}

// The results and their order, before and after the records are in the index.
func TestFind(t *testing.T) {
	is := is.New(t)
	l := newLibrary(t)
	ann, bob := l.user("ann"), l.user("bob")
	l.open()
	l.ready()
	l.add(ann, record.Notes, `{"title":"Old harbour","content":"boats and nets"}`)
	l.add(ann, record.Notes, `{"title":"Boats","content":"in the old harbour of Kraków","isFavorite":true}`)
	l.add(ann, record.Notes, `{"title":"Harbours","content":"many","tags":["Sea","Long trip"]}`)
	l.add(ann, record.Bookmarks,
		`{"title":"Trip","url":"https://boats.example.org/crème-brûlée","isPublic":true,"tags":["sea"]}`)
	l.add(ann, record.Files, `{"originalName":"holiday_photo.txt","content":"The quick brown fox 東京都庁 jumps"}`)
	l.add(ann, record.Snippets, `{"title":"main.go","content":"func don't() { return }","language":"go"}`)
	l.add(ann, record.Recipes, `{"title":"Soup 🍜","ingredients":"salt","instructions":"stir 手順 well"}`)
	l.add(ann, record.Games, `{"title":"Chess","status":"playing","notes":"boat","platform":"board"}`)
	l.add(ann, record.Links, `{"originalUrl":"https://example.org/boats","description":"Boat tickets","slug":"fares"}`)
	l.add(bob, record.Notes, `{"title":"Secret harbour","content":"`+ann.String()+` owner ann","tags":["sea"]}`)
	for _, where := range []string{"in the feed", "in the index"} {
		for _, c := range []struct{ text, want string }{
			// The title comes before the text, whole words before the beginnings of longer ones, errors last; then the newer
			// first.
			{"harbour", "Old harbour|Harbours|Boats"},
			{"boats", "Boats|Boat tickets|Trip|Old harbour|Chess"},
			{"boat", "Boat tickets|Boats|Chess|Trip|Old harbour"},
			{"old harbour", "Old harbour|Boats"},
			{"harbuor", "Old harbour|Boats"},
			{"krakow", "Boats"},
			{"KRAKÓW", "Boats"},
			{"creme brulee", "Trip"},
			{`"old harbour"`, "Old harbour|Boats"},
			{`"harbour old"`, ""},
			{`"harbour of k"`, ""},
			{`"harbour of k`, ""}, // a letter is not the beginning of a word
			{`"harbour of kr`, "Boats"},
			{"photo", "holiday_photo.txt"},
			{"quick fox", "holiday_photo.txt"},
			{"東京", "holiday_photo.txt"},
			{"京都", "holiday_photo.txt"},
			{"都", "holiday_photo.txt"},
			{"庁", "holiday_photo.txt"},
			{"東京都庁", "holiday_photo.txt"},
			{"東都", ""},
			{"手順", "Soup 🍜"},
			{"🍜", "Soup 🍜"},
			{"main.go", "main.go"},
			{"go", "main.go"},
			{"don't", "main.go"},
			{"tag:sea", "Trip|Harbours"},
			{"tag:SEA -kind:bookmark", "Harbours"},
			{`tag:"long  trip"`, "Harbours"},
			{"tag:nothing", ""},
			{"-tag:sea kind:notes", "Boats|Old harbour"},
			{"-tag:nothing kind:note", "Harbours|Boats|Old harbour"},
			{"sea", "Trip|Harbours"},  // by the name of a tag
			{"trip", "Trip|Harbours"}, // title and tag alike
			{"-sea kind:note", "Boats|Old harbour"},
			{"is:public", "Trip"},
			{"is:favorite", "Boats"},
			{"is:private kind:bookmark", ""},
			{"boats -nets", "Boats|Boat tickets|Trip|Chess"},
			{`boats -"old harbour"`, "Boat tickets|Trip|Chess"},
			{"fares", "Boat tickets"},
			{"secret", ""},
			{"owner", ""},
			{"owner:" + ann.String(), ""},
			{"_id:*", ""},
			{"+*", ""},
			{"kind:game kind:note", ""},
		} {
			if got := l.titles(ann, c.text); got != c.want {
				t.Errorf("%s: %q finds %q, not %q", where, c.text, got, c.want)
			}
		}
		is.Equal(l.titles(bob, "harbour"), "Secret harbour")
		is.Equal(l.titles(bob, "owner:ann"), "Secret harbour") // a phrase
		is.Equal(len(l.find(ann, "", false)), 9)
		l.caught()
	}
}

// Words inside of names are found, but those of texts only as a whole.
func TestFindInsideNames(t *testing.T) {
	l := newLibrary(t)
	ann := l.user("ann")
	l.open()
	l.ready()
	l.add(ann, record.Files, `{"originalName":"big12mp.jpg"}`)
	l.add(ann, record.Files, `{"originalName":"QuarterlyReport2024.pdf"}`)
	l.add(ann, record.Notes, `{"title":"On cameras","content":"big12mp"}`)
	for _, where := range []string{"in the feed", "in the index"} {
		for text, want := range map[string]string{
			"12mp": "big12mp.jpg", "12": "big12mp.jpg", "mp": "big12mp.jpg", "12mp.jpg": "big12mp.jpg",
			"big12mp.jpg": "big12mp.jpg", "big12mp": "big12mp.jpg|On cameras", "mp.jp": "big12mp.jpg",
			"report": "QuarterlyReport2024.pdf", "2024": "QuarterlyReport2024.pdf", "report2024.pdf": "QuarterlyReport2024.pdf",
			"quarterlyreport": "QuarterlyReport2024.pdf", "reprot2024": "QuarterlyReport2024.pdf",
			`"12mp jpg"`: "big12mp.jpg", `"mp 12mp"`: "", "ig12": "", "port": "", "-12mp big": "On cameras",
		} {
			if got := l.titles(ann, text); got != want {
				t.Errorf("%s: %q finds %q, not %q", where, text, got, want)
			}
		}
		l.caught()
	}
}

// Between batches the index rests while others write, and goes on at once for
// who waits for it.
func TestRestBetweenBatches(t *testing.T) {
	is := is.New(t)
	x := New(Options{})
	is.NoErr(x.waitForChanges(t.Context(), nil, false, 0))
	ended, end := context.WithTimeout(t.Context(), time.Millisecond)
	defer end()
	is.Equal(x.waitForChanges(ended, nil, false, time.Hour), context.DeadlineExceeded)
	x.Hurry(t.Context(), 0) // it is not ready: nothing to wait for
	is.NoErr(x.waitForChanges(t.Context(), nil, false, time.Hour))
}

// A text counts to its last whole character, of whatever length and wherever
// it is cut; what is no text counts for nothing.
func TestTextOf(t *testing.T) {
	is := is.New(t)
	for _, char := range []string{"x", "é", "東", "𐐀"} {
		for before := range utf8.UTFMax {
			b := []byte(strings.Repeat("x", before) + strings.Repeat(char, MaxContent))
			whole := MaxContent - (MaxContent-before)%len(char)
			for _, b := range [][]byte{b, b[:MaxContent]} {
				is.Equal(textOf(b), string(b[:whole]))
			}
			is.Equal(textOf(b[:whole]), string(b[:whole]))
		}
	}
	long := bytes.Repeat([]byte("x"), MaxContent)
	for b, want := range map[string]string{
		"": "", "x\x00": "", "\x00\x01\x02": "", "x\xe6": "xæ", "\xff\xfex\x00\x42\x04": "xт", string(long[1:]) + "\xe4": string(long[1:]),
	} {
		is.Equal(textOf([]byte(b)), want)
	}
}

// What stands everywhere in a long text costs no more than the text is long.
func TestRepetition(t *testing.T) {
	is := is.New(t)
	l := newLibrary(t)
	ann := l.user("ann")
	r := l.add(ann, record.Files, `{"originalName":"table.csv","content":"`+strings.Repeat("0,", MaxContent/2-1)+`"}`)
	l.open()
	l.caught()
	is.Equal(len(l.find(ann, `"0 0"`, true)), 1)
	even, all := make([]uint32, 1<<20), make([]uint32, 1<<20)
	for i := range even {
		even[i], all[i] = uint32(2*i), uint32(i)
	}
	began := time.Now()
	is.Equal(len(follow(nil, even, all)), len(all)/2)
	is.Equal(len(follow(nil, even, even)), 0)
	is.True(time.Since(began) < 20*time.Second) // to look through all for each takes minutes

	q, err := Parse(strings.Repeat("0 ", 12))
	is.NoErr(err)
	f := q.For(ann, true, func(func(record.ID, string) bool) {})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	h, err := l.x.Highlight(f, r)
	is.NoErr(err)
	runtime.ReadMemStats(&after)
	is.Equal(h.TextMarks[:2], []Range{{0, 1}, {2, 3}})
	is.True(after.TotalAlloc-before.TotalAlloc < 40<<20) // a list of all places takes more than 100 MiB
}

// The marks of a highlight are the words that were looked for, whatever stands
// before them.
func TestHighlight(t *testing.T) {
	l := newLibrary(t)
	ann := l.user("ann")
	for _, c := range []struct{ text, query, want string }{
		{"a boat", "boat", "[boat]"},
		{"𝒳𝒴 😀 crème brûlée", "brulee", "[brûlée]"},
		{"😀cre\u0301me", "creme", "[cre\u0301me]"},
		{"ﬁnance ＢＯＡＴ", "finance boat", "[ﬁnance][ＢＯＡＴ]"},
		{"𠮷野家で東京都庁", "東京都", "[東京都]"},
		{"𠮷野家", "𠮷野", "[𠮷野]"},
		{"私は都", "都", "[都]"},
		{"한국어 😀 한국", "한국", "[한국][한국]"},
		{"The old harbour, old", `"old harbour"`, "[old harbour]"},
		{"Straße İstanbul", "strasse istanbul", "[Straße][İstanbul]"},
		{"sailing saliing", "saliing", "[sailing][saliing]"},
		{ // the first of the best
			"sailing " + strings.Repeat("word ", 200) + "saliing " + strings.Repeat("word ", 200) + "saliing x",
			"saliing", "[saliing]",
		},
		{"a <b>boat</b> & nets", "boat nets", "[boat][nets]"},
		{strings.Repeat("😀 word ", 200) + "boat 🍜", "boat 🍜", "[boat][🍜]"},
		{strings.Repeat("東京", 300) + "手順x", "手順", "[手順]"},
		{"👩\u200d👩\u200d👧 x", "👧", "[👧]"},
	} {
		t.Run(c.query, func(t *testing.T) {
			is := is.New(t)
			q, err := Parse(c.query)
			is.NoErr(err)
			f := q.For(ann, false, func(func(record.ID, string) bool) {})
			h, err := New(Options{}).Highlight(f, l.add(ann, record.Notes, `{"title":"x","content":"`+c.text+`"}`))
			is.NoErr(err)
			units := utf16.Encode([]rune(h.Text))
			got := ""
			for _, m := range h.TextMarks {
				got += "[" + string(utf16.Decode(units[m[0]:m[1]])) + "]"
			}
			is.Equal(got, c.want)
			is.Equal(len(h.TitleMarks), 0)
		})
	}
}

// A title has marks inside of its words, too.
func TestHighlightTitle(t *testing.T) {
	l := newLibrary(t)
	ann := l.user("ann")
	for _, c := range []struct {
		title, query string
		want         []Range
	}{
		{"big12mp.jpg", "12mp", []Range{{3, 7}}},
		{"big12mp.jpg", "big 12mp.jpg", []Range{{0, 11}}},
		{"😀 QuarterlyReport", "report", []Range{{12, 18}}},
		{"Report", "report", []Range{{0, 6}}},
	} {
		t.Run(c.query, func(t *testing.T) {
			is := is.New(t)
			q, err := Parse(c.query)
			is.NoErr(err)
			f := q.For(ann, false, func(func(record.ID, string) bool) {})
			h, err := New(Options{}).Highlight(f, l.add(ann, record.Notes, `{"title":"`+c.title+`","content":""}`))
			is.NoErr(err)
			is.Equal(h.TitleMarks, c.want)
		})
	}
}

// An excerpt of Markdown is plain text, unless the match is in what would be left out.
func TestExcerptOfMarkdown(t *testing.T) {
	l := newLibrary(t)
	ann := l.user("ann")
	for _, c := range []struct{ text, query, want string }{
		{
			`# Boats\n\n- a **sailing** boat\n- [ ] ~~old~~ ` + "`nets`" +
				`\n> [the harbour](https://example.org/quay) 2 * 3 __init__`,
			"sailing", "Boats a sailing boat old nets the harbour 2 * 3 __init__",
		},
		{
			`+ tidal ![a boat](/x/boat) and [the **old** harbour](#quay), 2*3 * 4, [1] (x) ~ a\n1. First\n#tag`,
			"tidal", "tidal a boat and the old harbour, 2*3 * 4, [1] (x) ~ a 1. First #tag",
		},
		{
			`- [a](https://x.example/) first\n- [1] [the site](./x) handlers[i](w.Body)\n` +
				`  - nested 10**6 and 2 ** 3, **bold**, __init__`,
			"first", "a first [1] the site handlers[i](w.Body) nested 10**6 and 2 ** 3, bold, __init__",
		},
		{`+ plus\n  - nested`, "plus", "plus nested"},
		{
			`> [!NOTE] A callout\n> of two[^1] lines[^a b]\n\n[^1]: The note x[^`, "callout",
			"A callout of two lines[^a b] The note x[^",
		},
		{`---\ntags: [sea]\n---\nA trip`, "trip", "A trip"},
		{`---\ntags: [sea]\n---\nA trip`, "sea", "--- tags: [sea] --- A trip"},
		{"see [the harbour](https://example.org/quay)", "quay", "see [the harbour](https://example.org/quay)"},
		{"```go\\nx := a[0](b)\\n```\\n## End #5", "end", "x := a[0](b) End #5"},
		{strings.Repeat("word ", 60) + `\n# Boats`, "boats", "… " + strings.Repeat("word ", 11) + "Boats"},
	} {
		t.Run(c.query, func(t *testing.T) {
			is := is.New(t)
			q, err := Parse(c.query)
			is.NoErr(err)
			r := l.add(ann, record.Notes, `{"title":"x","content":"`+c.text+`"}`)
			h, err := New(Options{}).Highlight(q.For(ann, false, func(func(record.ID, string) bool) {}), r)
			is.NoErr(err)
			is.Equal(h.Text, c.want)
			is.Equal(len(h.TextMarks), 1)
		})
	}
}

// Whatever is asked, the index answers and stays as it is.
func TestHostileQueries(t *testing.T) {
	is := is.New(t)
	l := newLibrary(t)
	ann := l.user("ann")
	l.add(ann, record.Notes, `{"title":"Boats","content":"sailing 東京都 🍜🍜"}`)
	l.add(ann, record.Notes, `{"title":"𐐀𐐁𐐂𐐃","content":"`+strings.Repeat("𐐀𐐁", 40)+`"}`)
	l.open()
	l.caught()
	rnd := rand.New(rand.NewPCG(1, 2))
	alphabet := []rune("ab𐐀𐐁東京都\u0301\u200d🍜-\":«»„“ :tagkindis\x00\ufffd+*ßｶﾞกำ한")
	queries := []string{strings.Repeat("𐐀𐐁", 32), strings.Repeat("a", MaxText), strings.Repeat("𐐀a𐐂b", 16)}
	for range 1000 {
		text := make([]rune, rnd.IntN(100))
		for i := range text {
			text[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		queries = append(queries, string(text))
	}
	for _, text := range queries {
		if _, err := Parse(text); err == nil {
			l.find(ann, text, true)
			l.find(ann, text, false)
		}
	}
	is.Equal(l.x.State().Phase, Ready)
	is.Equal(l.x.State().Built, 1)
}
