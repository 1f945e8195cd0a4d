package search

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/record"
)

// Positions that make a number come out of it as they were.
func TestPack(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, c := range []struct {
		positions []uint32
		packs     bool
	}{
		{[]uint32{0}, true},
		{[]uint32{62}, true},
		{[]uint32{firstMany - 2}, true},
		{[]uint32{firstMany - 1}, false},
		{[]uint32{0, 1}, true},
		{[]uint32{5, 6, 7}, true},
		{[]uint32{0, 4095}, true},
		{[]uint32{0, 70_000}, false},
		{[]uint32{70_000, 70_001}, false},
		{make([]uint32, 0, 100), false},
	} {
		if len(c.positions) == 0 { // a word again and again
			for i := range uint32(cap(c.positions)) {
				c.positions = append(c.positions, 3*i)
			}
		}
		freq, ok := pack(c.positions)
		is.Equal(ok, c.packs)
		if ok {
			is.Equal(unpack(uint64(freq), nil), c.positions)
		}
	}
	one, ok := pack([]uint32{0})
	is.True(ok && one == 1) // the library keeps a term that is in one document only, once, in its dictionary
}

func FuzzPack(f *testing.F) {
	f.Add(uint32(0), uint32(1), uint32(2), uint32(3))
	f.Add(uint32(7), uint32(4000), uint32(0), uint32(math.MaxUint32))
	f.Fuzz(func(t *testing.T, a, b, c, d uint32) {
		all := []uint32{a, b, c, d}
		slices.Sort(all)
		all = slices.Compact(all)
		for n := range all {
			if freq, ok := pack(all[:n+1]); ok && (freq <= 0 || !slices.Equal(unpack(uint64(freq), nil), all[:n+1])) {
				t.Fatal(all[:n+1], freq)
			}
		}
	})
}

// Places in a row are those that lists of positions give, however many positions they have and however large they are.
func FuzzAfter(f *testing.F) {
	f.Add([]byte{0, 5}, []byte{1, 6})
	f.Add([]byte{63}, []byte{64})
	f.Add([]byte{62, 0, 1, 64, 255, 255}, []byte{63, 1, 2, 65, 255, 255})
	f.Add([]byte{255, 255, 255, 255, 255, 1}, []byte{255, 255, 255, 255, 255, 2})
	f.Add([]byte("abcdefghijklmnopqrstuvwxyz"), []byte("bdfhjlnprtvxz"))
	f.Add([]byte{}, []byte{0})
	f.Add([]byte{3}, []byte{})
	f.Fuzz(func(t *testing.T, before, here []byte) {
		list := func(gaps []byte) (positions []uint32) { // a gap of 255 counts 5000
			next := uint32(0)
			for _, gap := range gaps {
				next += uint32(gap)
				if gap == 255 {
					next += 5000 - 255
				} else {
					positions = append(positions, next)
				}
				next++
			}
			return positions
		}
		a, b := list(before), list(here)
		var p places
		got := p.positions(p.after(p.make(a), p.make(b)), nil)
		if want := follow(nil, a, b); !slices.Equal(got, want) {
			t.Fatalf("%v then %v: %v, not %v", a, b, got, want)
		}
	})
}

// Words in a row are found in texts of any length, however often they occur, in each of many records, and beside
// records that have them in another order.
func TestPositions(t *testing.T) {
	l := newLibrary(t)
	ann := l.user("ann")
	long := strings.Repeat("boat of the sea, ", 300)
	for range 40 {
		for _, text := range []string{long + "old harbour", long + "harbour old"} {
			l.add(ann, record.Notes, `{"title":"x","content":"`+text+`"}`)
		}
		for range 20 { // more than the library keeps in one chunk
			for _, text := range []string{
				"old harbour", "harbour old", strings.Repeat("harbour old boat ", 20) + "old harbour",
				"harbour harbour old old",
			} {
				l.add(ann, record.Notes, `{"title":"x","content":"`+text+`"}`)
			}
		}
	}
	l.add(ann, record.Notes, `{"title":"x","content":"harbour of gold"}`)
	l.open()
	for range 2 {
		l.caught()
		for text, want := range map[string]int{
			`"old harbour"`: 40 + 40*20*2, `"sea old"`: 40, `"harbour of"`: 1, `"harbour of go`: 1,
			`"the sea boat of the"`: 80,
		} {
			if got := len(l.find(ann, text, true)); got != want {
				t.Errorf("%s finds %d, not %d", text, got, want)
			}
		}
		l.x.Rebuild()
	}
}
