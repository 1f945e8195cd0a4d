// Package corpus makes the notes for benchmarks of the search, always the same ones.
package corpus

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
)

// A Corpus writes texts with words distributed according to Zipf's law.
type Corpus struct {
	Words []string // 20 000, most frequent first
	zipf  *rand.Zipf
}

// New makes a corpus.
func New() *Corpus {
	syllables := strings.Fields("ba re mi to ku la ne so vi da po ge ri ta mo fu hi ze wa lu")
	words := make([]string, 20000)
	for i := range words {
		for x, k := i*7919+13, 0; k < 3+i%2; k++ {
			words[i] += syllables[x%20]
			x = x/20 + i
		}
		words[i] += strconv.Itoa(i % 7)
	}
	return &Corpus{words, rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 8, uint64(len(words)-1))} // #nosec G404 -- the same words every time, for tests
}

// Text is the next n words.
func (c *Corpus) Text(n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(c.Words[c.zipf.Uint64()] + " ")
	}
	return b.String()
}

// Fill adds n notes of an owner, each with two tags and content from the function.
func (c *Corpus) Fill(s *kv.Store, owner record.ID, n int, content func() string) error {
	for done := 0; done < n; {
		if err := s.Update(func(tx *kv.Tx) error {
			for range min(500, n-done) {
				f := record.NewForm(record.Notes)
				f.Body = &record.Note{Name: fmt.Sprint("note ", done, " ", c.Text(3)), Content: content()}
				f.Tags = []string{"bench", c.Words[done%50]}
				if _, err := catalog.Add(tx, owner, record.Notes, f, nil, ""); err != nil {
					return err
				}
				done++
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
