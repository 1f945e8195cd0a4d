// Package corpus makes records for benchmarks of the search, always the same ones.
package corpus

import (
	"math"
	"math/rand/v2"
	"strconv"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
)

// ranks is the number of different words.
const ranks = 20_000

// A Corpus writes texts as a household would: words, of which that of rank r occurs about 1/r times as often as the
// first, and among 25 words a number and an address.
type Corpus struct{ rnd *rand.Rand }

// New makes a corpus.
func New() *Corpus {
	return &Corpus{rand.New(rand.NewPCG(1, 2))} // #nosec G404 -- the same words every time, for tests
}

// Word is the word of a rank, from 0. It has two syllables or more, and the most frequent 64 words have one.
func Word(rank int) string {
	const consonants, vowels = "bdfghklmnprstvz", "aeiou"
	var word []byte
	for v := rank + 11; ; v /= 75 {
		word = append(word, consonants[v%15], vowels[v/15%5])
		if v < 75 {
			return string(word)
		}
	}
}

// Text is the next n words.
func (c *Corpus) Text(n int) string {
	var text []byte
	for i := range n {
		if i > 0 {
			text = append(text, ' ')
		}
		switch c.rnd.IntN(25) {
		case 0:
			text = strconv.AppendInt(text, int64(c.rnd.IntN(100_000)), 10)
		case 1:
			text = append(text, "https://"+Word(c.rnd.IntN(ranks))+".example/"+Word(c.rnd.IntN(ranks))...)
		default:
			text = append(text, Word(int(math.Pow(ranks, c.rnd.Float64()))-1)...)
		}
	}
	return string(text)
}

// Note is a note of 45 words, or of those and extra ones in their middle.
func (c *Corpus) Note(extra string) record.Body {
	return &record.Note{Name: c.Text(5), Content: c.Text(20) + " " + extra + c.Text(20)}
}

// Bookmark is a bookmark whose members take 177 bytes as JSON on average.
func (c *Corpus) Bookmark() record.Body {
	return &record.Bookmark{
		Name: c.Text(5),
		URL: "https://" + Word(c.rnd.IntN(ranks)) + ".example/" + Word(c.rnd.IntN(ranks)) +
			"/" + strconv.Itoa(c.rnd.IntN(100_000)),
		Description: c.Text(6),
	}
}

// Fill adds n records of a kind to an owner, with two tags each.
func (c *Corpus) Fill(s *kv.Store, owner record.ID, k *record.Kind, n int, body func() record.Body) error {
	for done := 0; done < n; {
		if err := s.Update(func(tx *kv.Tx) error {
			for range min(500, n-done) {
				f := record.NewForm(k)
				f.Body, f.Tags = body(), []string{"bench", Word(done % 50)}
				if _, err := catalog.Add(tx, catalog.Draft{Owner: owner, Kind: k, Form: f}); err != nil {
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
