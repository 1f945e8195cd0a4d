package journal

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"
)

func TestOutdated(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	type ages []time.Duration // of the generations, oldest first, and their sizes
	const h = time.Hour
	for name, test := range map[string]struct {
		ages ages
		size []int64
		want int
	}{
		"one":                        {ages{1000 * h}, []int64{1}, 0},
		"the least, however old":     {ages{1000 * h, 900 * h, 800 * h}, []int64{1, 1, 1}, 0},
		"the least, however large":   {ages{3 * h, 2 * h, h}, []int64{1 << 40, 1 << 40, 1}, 0},
		"young":                      {ages{5 * h, 4 * h, 3 * h, 2 * h, h}, []int64{1, 1, 1, 1, 1}, 0},
		"old":                        {ages{200 * h, 150 * h, 100 * h, 50 * h, h}, []int64{1, 1, 1, 1, 1}, 2},
		"the next is young still":    {ages{200 * h, 71 * h, 50 * h, 40 * h, h}, []int64{1, 1, 1, 1, 1}, 0},
		"the next has just the age":  {ages{200 * h, 72 * h, 50 * h, 40 * h, h}, []int64{1, 1, 1, 1, 1}, 1},
		"young and too large":        {ages{5 * h, 4 * h, 3 * h, 2 * h, h}, []int64{600 << 20, 600 << 20, 1, 1, 1}, 1},
		"young and far too large":    {ages{5 * h, 4 * h, 3 * h, 2 * h, h}, []int64{2 << 30, 2 << 30, 1, 1, 1}, 2},
		"just as large as they may":  {ages{5 * h, 4 * h, 3 * h, 2 * h, h}, []int64{1<<29 + 2, 1<<29 - 2, 2, 2, 1}, 1},
		"no larger than they may":    {ages{5 * h, 4 * h, 3 * h, 2 * h, h}, []int64{1 << 29, 1<<29 - 2, 2, 2, 2}, 0},
		"four times the newest":      {ages{5 * h, 4 * h, 3 * h, 2 * h, h}, []int64{1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30}, 0},
		"the clock was set back":     {ages{-100 * h, -200 * h, -300 * h, -400 * h, -500 * h}, []int64{1, 1, 1, 1, 1}, 0},
		"set back and far too large": {ages{-5 * h, -4 * h, -3 * h, -2 * h}, []int64{3 << 30, 1, 1, 1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var all []generation
			for i, age := range test.ages {
				all = append(all, generation{uint64(i), now.Add(-age), test.size[i]})
			}
			is.New(t).Equal(outdated(all, now), test.want)
		})
	}
}

func TestPrune(t *testing.T) {
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 12)))
	j, b := generationsOf(t, m, 6)
	is.NoErr(j.Prune()) // all are young
	g, err := j.list()
	is.NoErr(err)
	is.Equal(g, generations{[]uint64{3, 6, 9, 12, 15}, []uint64{0, 3, 6, 9, 12, 15}})

	clock := j.now().Add(1000 * time.Hour)
	j.now = func() time.Time { return clock }
	release := j.Hold()
	is.NoErr(j.Prune())
	again, err := j.list()
	is.NoErr(err)
	is.Equal(again, g) // somebody holds them
	release()

	is.NoErr(j.Prune())
	g, err = j.list()
	is.NoErr(err)
	is.Equal(g, generations{[]uint64{9, 12, 15}, []uint64{9, 12, 15}})
	is.True(holds(t, m).is(b))
}

// What a crash in the middle of Prune leaves is whole and has no gap.
func TestPruneHalf(t *testing.T) {
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 15)))
	j, b := generationsOf(t, m, 8)
	clock := j.now().Add(1000 * time.Hour)
	j.now = func() time.Time { return clock }
	looked := 0
	m.after = func() {
		for range 4 {
			looked++
			is.True(holds(t, m.cut(m.rnd)).is(b))
		}
	}
	removals := 0
	m.fail = func(step, _ string) error {
		if step == "remove" {
			if removals++; removals%3 == 0 {
				return syscall.EIO
			}
		}
		return nil
	}
	for range 10 {
		if j.Prune() == nil {
			break
		}
	}
	is.True(looked > 50)
	g, err := j.list()
	is.NoErr(err)
	is.Equal(g, generations{[]uint64{15, 18, 21}, []uint64{15, 18, 21}})
}

// A file that cannot be read is not one of the last that are kept, and does
// not keep others for good.
func TestPruneWithDamage(t *testing.T) {
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 13)))
	j, _ := generationsOf(t, m, 7)
	clock := j.now().Add(1000 * time.Hour)
	j.now = func() time.Time { return clock }
	for _, name := range []string{fileName(snapName, 3), fileName(logName, 3), fileName(snapName, 15)} {
		m.seen[name].data[20]++
	}
	is.NoErr(j.Prune())
	g, err := j.list()
	is.NoErr(err)
	is.Equal(g, generations{[]uint64{9, 12, 15, 18}, []uint64{9, 12, 15, 18}})

	for _, seq := range g.snaps {
		m.seen[fileName(snapName, seq)].data[20]++
	}
	is.NoErr(j.Prune())
	again, err := j.list()
	is.NoErr(err)
	is.Equal(again, g)
}

// A record that is too long to be read again is not written.
func TestLongestRecord(t *testing.T) {
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 14)))
	j, b := opened(t, m)
	j.most = 100
	var r Record
	next := b.with(&r, []Op{{1, []byte("key"), make([]byte, 100)}})
	is.True(j.Append(&r, next.State) != nil)
	is.True(holds(t, m).is(b))
	b = add(t, j, b, "key")
	is.True(holds(t, m).is(b))
}
