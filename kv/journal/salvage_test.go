package journal

import (
	"math/rand/v2"
	"testing"

	"github.com/matryer/is"
)

// counted checks that what Salvage hands over has rising numbers.
type counted struct {
	t       *testing.T
	last    uint64
	records int
}

func (c *counted) Start() error       { return nil }
func (c *counted) Entries([]Op) error { return nil }
func (c *counted) Gap(Span) error     { return nil }
func (c *counted) Record(seq uint64, _ []Op) error {
	if seq <= c.last {
		c.t.Fatalf("record %d comes after %d", seq, c.last)
	}
	c.last = seq
	c.records++
	return nil
}

// Each record of a log that no damage touches is handed over, and the others
// are counted as missing.
func TestSalvageRandomDamage(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	rnd := rand.New(rand.NewPCG(1, 77))
	for range 200 {
		m := newMemory(rnd)
		j, b := opened(t, m)
		var r Record
		for range 20 {
			b = b.with(&r, someOps(rnd))
			is.NoErr(j.Append(&r, b.State))
		}
		log := m.seen[fileName(logName, 0)]
		marks, end := frames(t, log.data)
		hit := map[int]bool{}
		for range 1 + rnd.IntN(4) {
			n := rnd.IntN(len(marks) - 1) // without the last, which may be a crash's
			next := append(marks, end)[n+1]
			log.data[marks[n]+rnd.IntN(next-marks[n])] ^= 1 << rnd.IntN(8)
			hit[n] = true
		}
		s, err := j.Survey(0, func(int64) {})
		is.NoErr(err)
		c := &counted{t: t}
		done, err := s.Salvage(nil, c)
		is.NoErr(err)
		is.True(c.records >= 20-len(hit))
		is.Equal(done.Missing(), uint64(20-c.records))
		is.Equal(done.Seq, uint64(20))
	}
}
