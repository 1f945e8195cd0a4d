package journal

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"
)

func TestOutdated(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_000)
	type ages []time.Duration // of the generations, oldest first, and their sizes
	type sizes []int64
	const h = time.Hour
	for name, test := range map[string]struct {
		ages   ages
		size   sizes
		budget int64
		want   int
	}{
		"one":                        {ages{1000 * h}, sizes{1}, 10, 0},
		"the least, however old":     {ages{1000 * h, 900 * h, 800 * h}, sizes{1, 1, 1}, 10, 0},
		"the least, however large":   {ages{3 * h, 2 * h, h}, sizes{1 << 40, 1 << 40, 1}, 0, 0},
		"young":                      {ages{5 * h, 4 * h, 3 * h, 2 * h, h}, sizes{1, 1, 1, 1, 1}, 10, 0},
		"old":                        {ages{200 * h, 150 * h, 100 * h, 50 * h, h}, sizes{1, 1, 1, 1, 1}, 10, 2},
		"the next is young still":    {ages{200 * h, 71 * h, 50 * h, 40 * h, h}, sizes{1, 1, 1, 1, 1}, 10, 0},
		"the next has just the age":  {ages{200 * h, 72 * h, 50 * h, 40 * h, h}, sizes{1, 1, 1, 1, 1}, 10, 1},
		"young and too large":        {ages{5 * h, 4 * h, 3 * h, 2 * h, h}, sizes{6, 6, 1, 1, 1}, 10, 1},
		"young and far too large":    {ages{5 * h, 4 * h, 3 * h, 2 * h, h}, sizes{20, 20, 1, 1, 1}, 10, 2},
		"just as large as they may":  {ages{5 * h, 4 * h, 3 * h, 2 * h, h}, sizes{4, 6, 1, 1, 1}, 10, 0},
		"the newest do not count":    {ages{5 * h, 4 * h, 3 * h, 2 * h, h}, sizes{5, 5, 100, 100, 100}, 10, 0},
		"no room at all":             {ages{5 * h, 4 * h, 3 * h, 2 * h, h}, sizes{1, 1, 1, 1, 1}, 0, 2},
		"the clock was set back":     {ages{-100 * h, -200 * h, -300 * h, -400 * h, -500 * h}, sizes{1, 1, 1, 1, 1}, 10, 0},
		"set back and far too large": {ages{-5 * h, -4 * h, -3 * h, -2 * h}, sizes{11, 1, 1, 1}, 10, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all []generation
			for i, age := range test.ages {
				all = append(all, generation{uint64(i), now.Add(-age), test.size[i]})
			}
			is.New(t).Equal(outdated(all, now, test.budget), test.want)
		})
	}
}

func TestKeepBudget(t *testing.T) {
	t.Parallel()
	const g = 1 << 30
	for name, test := range map[string]struct {
		aged, newest int64
		space        Space
		known        bool
		want         int64
	}{
		"nothing is known":           {5 * g, g, Space{}, false, 5 * g},
		"a tenth of much":            {0, g, Space{1000 * g, g}, true, 100 * g},
		"what is kept counts":        {100 * g, g, Space{900 * g, g}, true, 100 * g},
		"a tenth is less":            {0, g, Space{20 * g, g}, true, 5 * g},
		"small records, small disk":  {0, 1 << 20, Space{8 * g, g / 8}, true, g + 4<<20},
		"not the reserve":            {0, g, Space{4 * g, g}, true, 3 * g},
		"not what was kept, either":  {2 * g, g, Space{2 * g, g}, true, 3 * g},
		"just the reserve is left":   {0, g, Space{g, g}, true, 0},
		"less than the reserve":      {g, g, Space{g / 4, g}, true, g / 4},
		"the disk is full":           {0, g, Space{0, g}, true, 0},
		"full, and much is kept":     {10 * g, g, Space{0, g}, true, 5 * g},
		"a reserve beyond the disk":  {0, g, Space{g, 5 * g}, true, 0},
		"a disk of sixteen exbibyte": {0, g, Space{1<<63 - 1 - g, g}, true, (1<<63 - 1 - g) / 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			got := keepBudget(test.aged, test.newest, test.space, test.known)
			is.Equal(got, test.want)
			if test.known && got > 0 { // the space that is left if they use their whole share
				is.True(test.space.Free+test.aged-got >= test.space.Reserve)
			}
		})
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_000)
	const g = 1 << 30
	for name, test := range map[string]struct {
		hours []int
		sizes []int64
		space Space
		want  Retention
	}{
		"nothing yet": {nil, nil, Space{100 * g, g}, Retention{0, Keep}},
		"slow": {
			[]int{48, 24, 1}, []int64{24 << 20, 12 << 20, 12 << 20}, Space{100 * g, g}, Retention{1 << 20, Keep},
		},
		"fast": {
			[]int{10, 5, 1}, []int64{50 * g, 40 * g, 10 * g}, Space{1000 * g, g}, Retention{10 * g, 10 * time.Hour},
		},
		"just begun":         {[]int{0}, []int64{g}, Space{1000 * g, g}, Retention{g, Keep}},
		"the disk is full":   {[]int{10, 5, 1}, []int64{5 * g, 4 * g, g}, Space{0, g}, Retention{g, 0}},
		"the clock was back": {[]int{-10}, []int64{g}, Space{1000 * g, g}, Retention{g, Keep}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all []generation
			for i, h := range test.hours {
				all = append(all, generation{uint64(i), now.Add(-time.Duration(h) * time.Hour), test.sizes[i]})
			}
			is.New(t).Equal(retention(all, now, test.space, true), test.want)
		})
	}
}

// The space is checked each time, and generations that are kept only for their
// age are removed when it gets short.
func TestPruneForSpace(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 16)))
	j, b := generationsOf(t, m, 6)
	clock := j.now()
	j.now = func() time.Time { return clock }
	space := Space{Free: 100 << 30, Reserve: 1 << 30}
	j.OnDisk(func() (Space, error) { return space, nil })
	count := func() int {
		g, err := j.files.list()
		is.NoErr(err)
		return len(g.snaps)
	}
	is.NoErr(j.Prune())
	is.Equal(count(), 5)
	log := int64(len(m.seen[fileName(logName, 0)].data)) // of the first generation, which has no snapshot
	is.True(log > 0)
	space.Free = space.Reserve - log
	is.NoErr(j.Prune())
	g, err := j.files.list()
	is.NoErr(err)
	is.Equal(g, generations{[]uint64{3, 6, 9, 12, 15}, []uint64{3, 6, 9, 12, 15}}) // removing its log alone frees enough
	space.Free = space.Reserve / 2
	is.NoErr(j.Prune())
	is.Equal(count(), 3)
	is.True(holds(t, m).is(b))
}

func TestPrune(t *testing.T) {
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 12)))
	j, b := generationsOf(t, m, 6)
	is.NoErr(j.Prune()) // all are young
	g, err := j.files.list()
	is.NoErr(err)
	is.Equal(g, generations{[]uint64{3, 6, 9, 12, 15}, []uint64{0, 3, 6, 9, 12, 15}})

	clock := j.now().Add(1000 * time.Hour)
	j.now = func() time.Time { return clock }
	release := j.Hold()
	is.NoErr(j.Prune())
	again, err := j.files.list()
	is.NoErr(err)
	is.Equal(again, g) // somebody holds them
	release()

	is.NoErr(j.Prune())
	g, err = j.files.list()
	is.NoErr(err)
	is.Equal(g, generations{[]uint64{9, 12, 15}, []uint64{9, 12, 15}})
	is.True(holds(t, m).is(b))
}

// A folder that cannot be listed is an error, not a journal without snapshots.
func TestPruneFails(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 84)))
	j, _ := generationsOf(t, m, 2)
	m.fail = failures{"list": 1}.next
	is.True(errors.Is(j.Prune(), syscall.EIO))
	is.NoErr(j.Prune())
}

// A crash in the middle of Prune leaves a complete journal without a gap.
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
			removals++
			if removals%3 == 0 {
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
	g, err := j.files.list()
	is.NoErr(err)
	is.Equal(g, generations{[]uint64{15, 18, 21}, []uint64{15, 18, 21}})
}

// An unreadable file does not count as one of the last that are kept, and does
// not keep others permanently.
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
	g, err := j.files.list()
	is.NoErr(err)
	is.Equal(g, generations{[]uint64{9, 12, 15, 18}, []uint64{9, 12, 15, 18}})

	for _, seq := range g.snaps {
		m.seen[fileName(snapName, seq)].data[20]++
	}
	is.NoErr(j.Prune())
	again, err := j.files.list()
	is.NoErr(err)
	is.Equal(again, g)
}

// A record that is too long to be read again is not written.
func TestLongestRecord(t *testing.T) {
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 14)))
	j, b := opened(t, m)
	j.maxRecord = 100
	var r Record
	next := b.with(&r, []Op{{1, []byte("key"), make([]byte, 100)}})
	is.True(j.Append(&r, next.State) != nil)
	is.True(holds(t, m).is(b))
	b = add(t, j, b, "key")
	is.True(holds(t, m).is(b))
}
