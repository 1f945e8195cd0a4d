package search

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/record"
)

// Phrases of few words, each of which is in many documents: the index finds the
// texts that contain them, and no others.
func TestPhrases(t *testing.T) {
	is := is.New(t)
	rnd := rand.New(rand.NewPCG(3, 4))
	l := newLibrary(t)
	ann := l.user("ann")
	vocabulary := strings.Fields("a b c d ab e") // so few that every sequence occurs
	var all []string
	text := func(n int) string {
		var words []string
		for range rnd.IntN(n) {
			words = append(words, vocabulary[rnd.IntN(len(vocabulary))])
		}
		return strings.Join(words, " ")
	}
	for n := range 300 {
		title, content := text(4), text(9)
		l.add(ann, record.Notes, fmt.Sprintf(`{"title":"x%d %s","content":%q}`, n, title, content))
		all = append(all, fmt.Sprintf(" x%d %s ", n, title)+"\n "+content+" ")
	}
	l.open()
	l.caught()
	some := 0
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
		some += want
		if got := len(l.find(ann, `"`+phrase+`"`, true)); got != want {
			t.Fatalf("%q: %d, not %d", phrase, got, want)
		}
	}
	is.True(some > 300)
}
