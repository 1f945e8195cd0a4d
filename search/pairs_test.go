package search

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/record"
)

// The list of frequent words is read as it was written, and anything else
// that is read makes a list or an error.
func TestFrequentEncoding(t *testing.T) {
	is := is.New(t)
	f := new(frequent)
	for _, words := range [][]string{{"sea", "東京", "sea boat"}, {"boat"}, {"🍜", "x"}} {
		f = f.with(words)
	}
	again, err := decodeFrequent(f.encode())
	is.NoErr(err)
	is.Equal(again, f)
	again, err = decodeFrequent(nil)
	is.NoErr(err)
	is.Equal(again, new(frequent))
	_, err = decodeFrequent([]byte(strings.Repeat("\n", lastOfThem)))
	is.Equal(err, errDamaged)
}

// What is in many documents of a sample is frequent, the most frequent first
// where there is no room for all; a few words more begin no generation.
func TestSample(t *testing.T) {
	is := is.New(t)
	doc := func(words ...string) *row {
		d := new(row)
		d.lines[1] = d.text(textField, words)
		return d
	}
	var s sample
	for i := range 640 {
		words := []string{"all", fmt.Sprint("rare", i)}
		if i%4 == 0 {
			words = append(words, "often", "often")
		}
		if i%8 == 0 {
			words = append(words, "edge")
		}
		if i%9 == 0 {
			words = append(words, "below")
		}
		s.add(doc(words...))
	}
	f := s.beyond(new(frequent))
	is.Equal(f.since, map[string]byte{"all": 1, "often": 1, "often often": 1, "edge": 1, "often edge": 1})
	is.True(s.beyond(f) == f)
	less := new(frequent).with([]string{"all", "often", "often often"})
	is.True(s.beyond(less) == less)
	more := s.beyond(new(frequent).with([]string{"all"}))
	is.Equal(more.since, map[string]byte{"all": 1, "often": 2, "often often": 2, "edge": 2, "often edge": 2})
	full := new(frequent)
	var words []string
	for i := range maxFrequent - 2 {
		words = append(words, fmt.Sprint(i))
	}
	full = s.beyond(full.with(words))
	is.Equal(len(full.since), maxFrequent)
	is.Equal(full.since["all"], byte(2))
	is.Equal(full.since["often"], byte(2))
	is.True(s.beyond(full) == full)

	// However often a document says something, in its title and its text: it is
	// one document. One that is too long for pairs says nothing of them.
	s = sample{}
	for i := range 100 {
		words := []string{"all"}
		d := new(row)
		if i < 15 {
			words = append(words, strings.Fields(strings.Repeat("few here ", 50))...)
			d.lines[0] = d.text(titleField, words)
		}
		d.lines[1] = d.text(textField, words)
		s.add(d)
	}
	is.Equal(s.words.of("few"), 15)
	is.Equal(s.pairs.of("few here"), 14) // from where the words were met before
	known := new(frequent).with([]string{"all"})
	is.True(s.beyond(known) == known) // none of it is in a fifth
	long := make([]string, maxPaired+1)
	for i := range long {
		long[i] = fmt.Sprint("long", i)
	}
	s.add(doc(long...))
	is.Equal(s.docs, 100)

	s = sample{}
	for i := range 3 * maxSampled {
		s.add(doc(fmt.Sprint(i), "all"))
	}
	is.Equal(len(s.words), maxSampled)
	is.Equal(s.words.of("all"), 3*maxSampled)
}

// What is counted keeps the words alone, and not the texts that they were in.
func TestSampleForgetsTexts(t *testing.T) {
	is := is.New(t)
	var s sample
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 32 {
		d := new(row)
		d.lines[1] = d.text(textField, lineOf(fmt.Sprint("every document ", i, " ", i+1, " ", strings.Repeat(" ", 1<<20))))
		s.add(d)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	is.Equal(s.docs, 32)
	is.True(int64(after.HeapAlloc-before.HeapAlloc) < 8<<20) // of 32 MiB
	runtime.KeepAlive(s)
}

// Phrases of few words, all of them frequent, as documents come, change and
// go: what pairs tell is what places tell.
func TestPairs(t *testing.T) {
	is := is.New(t)
	rnd := rand.New(rand.NewPCG(3, 4))
	l := newLibrary(t)
	l.sampleSize = 20
	ann := l.user("ann")
	vocabulary := strings.Fields("a b c d ab e") // few enough for all chains
	var all []string
	text := func(n, known int) string {
		var words []string
		for range rnd.IntN(n) {
			words = append(words, vocabulary[rnd.IntN(known)])
		}
		return strings.Join(words, " ")
	}
	add := func(n, known int) {
		for range n {
			title, content := text(4, known), text(9, known)
			l.add(ann, record.Notes, fmt.Sprintf(`{"title":"x%d %s","content":%q}`, len(all), title, content))
			all = append(all, fmt.Sprintf(" x%d %s ", len(all), title)+"\n "+content+" ")
		}
	}
	add(15, 4)
	l.open()
	l.caught()
	is.Equal(l.x.frequent.Load().latest, byte(0))
	for generation, known := range []int{4, 6} {
		add(150, known)
		l.caught()
		is.Equal(l.x.frequent.Load().latest, byte(generation+1))
		if generation == 1 {
			l.close() // and what is kept is read again
			l.open()
			is.Equal(l.ready().Built, 0)
		}
		for range 300 {
			n := 2 + rnd.IntN(3)
			var words []string
			for range n {
				words = append(words, vocabulary[rnd.IntN(len(vocabulary))])
			}
			phrase := strings.Join(words, " ")
			if n == 4 {
				phrase = "a b c a"
			}
			want := 0
			for _, text := range all {
				if strings.Contains(text, " "+phrase+" ") {
					want++
				}
			}
			if got := len(l.find(ann, `"`+phrase+`"`, true)); got != want {
				t.Fatalf("%q: %d, not %d", phrase, got, want)
			}
		}
	}
}
