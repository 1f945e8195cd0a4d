package journal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// counted checks that Salvage returns rising record numbers.
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

// Salvage returns each record that no damage touches and counts the others as
// missing.
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
		log := withoutRecent(m).seen[fileName(logName, 0)]
		marks, end := frames(t, log.data)
		hit := map[int]bool{}
		for range 1 + rnd.IntN(4) {
			n := rnd.IntN(len(marks) - 1) // without the last, which may be cut by a crash
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
		is.Equal(missing(done), uint64(20-c.records))
		for _, gap := range done.Gaps {
			is.True(gap.First <= gap.Last)
		}
		is.Equal(done.Seq, uint64(20))
		if c.records == 20 {
			is.Equal(done.Digest, b.Digest)
		}
	}
}

// A survey reports the problem of each file, and its effect on the end.
func TestSurvey(t *testing.T) {
	t.Parallel()
	snap, logs := fileName(snapName, 6), []string{fileName(logName, 0), fileName(logName, 3), fileName(logName, 6)}
	lastOf := func(t *testing.T, m *memory, name string) (at, size int) { // the last record
		marks, end := frames(t, m.seen[name].data)
		return marks[len(marks)-1], end - marks[len(marks)-1]
	}
	for name, c := range map[string]struct {
		harm    func(t *testing.T, m *memory)
		says    []string
		blind   bool
		tail    bool
		reached uint64
	}{
		"nothing": {func(*testing.T, *memory) {}, nil, false, false, 9},
		"a damaged snapshot": {func(_ *testing.T, m *memory) {
			m.seen[snap].data[headerSize+20]++
		}, []string{"journal/" + snap + " is damaged at byte "}, false, false, 9},
		"the end is cut": {func(t *testing.T, m *memory) {
			at, _ := lastOf(t, m, logs[2])
			cutOff(m, logs[2], at+5)
		}, nil, false, true, 8},
		"the end is missing": {func(t *testing.T, m *memory) {
			at, _ := lastOf(t, m, logs[2])
			cutOff(m, logs[2], at)
		}, nil, false, false, 8},
		"a log is cut": {func(t *testing.T, m *memory) {
			at, _ := lastOf(t, m, logs[1])
			cutOff(m, logs[1], at+5)
		}, []string{"records 6 to 6 cannot be read"}, false, false, 9},
		"a log ends too early": {func(t *testing.T, m *memory) {
			at, _ := lastOf(t, m, logs[1])
			cutOff(m, logs[1], at)
		}, []string{"it ends too early; records 6 to 6 are missing"}, false, false, 9},
		"a record is damaged": {func(t *testing.T, m *memory) {
			marks, _ := frames(t, m.seen[logs[1]].data)
			m.seen[logs[1]].data[marks[1]+12]++
		}, []string{"whole records follow from byte "}, false, false, 9},
		"the newest log is missing": {func(_ *testing.T, m *memory) {
			delete(m.seen, logs[2])
		}, []string{"journal/" + logs[2] + " is missing"}, true, false, 6},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			m := newMemory(rand.New(rand.NewPCG(1, 78)))
			j, _ := generationsOf(t, m, 3)
			c.harm(t, withoutRecent(m))
			s, err := j.Survey(0, func(int64) {})
			is.NoErr(err)
			t.Log(s.Harm)
			is.Equal(len(s.Harm), len(c.says))
			for i, says := range c.says {
				is.True(strings.Contains(s.Harm[i].Error(), says))
			}
			is.Equal(s.Blind, c.blind)
			is.Equal(s.Tail > 0, c.tail)
			is.Equal(s.Reached, c.reached)
		})
	}
}

// A file that has the name of a log or a snapshot and foreign content says
// nothing about records. No record is lost by it, and all others are read.
func TestSalvageStrayFile(t *testing.T) {
	t.Parallel()
	random := func(n int) []byte { return someBytes(rand.New(rand.NewPCG(uint64(n), 3)), n) }
	for name, row := range map[string]struct {
		seq     uint64
		data    func(log []byte) []byte
		placed  bool // it cannot be later than the last record
		blind   bool // it may be the newest log
		kind    string
		harmful int
	}{
		"far ahead":        {seq: 0xdeadbeef00000000, data: func([]byte) []byte { return random(5000) }, harmful: 1},
		"far ahead, empty": {seq: 0xdeadbeef00000000, data: func([]byte) []byte { return nil }, harmful: 1},
		"a little ahead":   {seq: 23, data: func([]byte) []byte { return random(5000) }, harmful: 1},
		"in the middle":    {seq: 7, data: func([]byte) []byte { return random(5000) }, placed: true, harmful: 1},
		"at the end": {seq: 20, data: func([]byte) []byte {
			return random(5000)
		}, placed: true, blind: true, harmful: 1},
		"another log's content": {seq: 1 << 50, data: bytes.Clone, harmful: 1},
		"a snapshot far ahead": {seq: 0xdeadbeef00000000, kind: snapName, data: func([]byte) []byte {
			return random(5000)
		}, harmful: 1},
		"a snapshot in the midst": {seq: 7, kind: snapName, data: func([]byte) []byte {
			return random(5000)
		}, placed: true, harmful: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			rnd := rand.New(rand.NewPCG(1, 78))
			m := newMemory(rnd)
			j, b := opened(t, m)
			var r Record
			for range 20 {
				b = b.with(&r, someOps(rnd))
				is.NoErr(j.Append(&r, b.State))
			}
			kind := row.kind
			if kind == "" {
				kind = logName
			}
			stray := fileName(kind, row.seq)
			m.seen[stray] = &inode{data: row.data(m.seen[fileName(logName, 0)].data)}
			s, err := j.Survey(0, func(int64) {})
			is.NoErr(err)
			is.Equal(s.Reached, uint64(20))
			is.Equal(s.Blind, row.blind)
			is.Equal(slices.Contains(s.Unplaced, stray), !row.placed)
			is.Equal(len(s.Harm), row.harmful)
			c := &counted{t: t}
			done, err := s.Salvage(nil, c)
			is.NoErr(err)
			is.Equal(c.records, 20)
			is.Equal(missing(done), uint64(0))
			is.Equal(done.Seq, uint64(20))
			is.Equal(done.Digest, b.Digest)
		})
	}
}

// bodyError leaves only the first bytes of a file readable.
func cutOff(m *memory, name string, size int) { m.seen[name].data = m.seen[name].data[:size] }

// Damage to the head of a log, even to its layout, loses no record. The checksum of the head
// tells the layout.
func TestSalvageBehindHead(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]int{
		"magic": 0, "layout": 8, "lowest byte of the layout": 11, "number": 20, "checksum": headerSize - 1,
	} {
		for _, packed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, packed %v", name, packed), func(t *testing.T) {
				t.Parallel()
				is := is.New(t)
				m := newMemory(rand.New(rand.NewPCG(1, 82)))
				j, b := opened(t, m)
				var r Record
				for i := range 300 {
					b = b.with(&r, []Op{{1, fmt.Appendf(nil, "key %d", i), someBytes(m.rnd, 1000)}})
					is.NoErr(j.Append(&r, b.State))
				}
				if packed {
					is.NoErr(j.Begin(b.State))
					is.NoErr(j.Snapshot(t.Context(), b.State, format, b.all()))
					is.NoErr(compress(j, b.State))
					delete(m.seen, fileName(snapName, b.Seq))
				}
				m = withoutRecent(m.copied())
				m.seen[fileName(logName, 0)].data[at] ^= 0x40
				s, err := newJournal(t, m).Survey(0, func(int64) {})
				is.NoErr(err)
				c := &counted{t: t}
				done, err := s.Salvage(nil, c)
				is.NoErr(err)
				is.Equal(c.records, 300)
				is.Equal(done.State(), b.State)
				is.Equal(len(done.Gaps), 0)
				is.Equal(m.open.Load(), int32(0)) // every file is closed
			})
		}
	}
}

// However much is damaged, the list is bounded, and the rest is counted.
func TestSurveyHarmIsBounded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	rnd := rand.New(rand.NewPCG(1, 79))
	m := newMemory(rnd)
	j, b := opened(t, m)
	var r Record
	for range 2*maxHarm + 100 {
		b = b.with(&r, []Op{{Bucket: 1, Key: []byte("key"), Value: someBytes(rnd, 8)}})
		is.NoErr(j.Append(&r, b.State))
	}
	log := withoutRecent(m).seen[fileName(logName, 0)]
	marks, _ := frames(t, log.data)
	harmed := 0
	for n := 0; n < len(marks)-1; n += 2 {
		log.data[marks[n]+frameHead+stateSize] ^= 1
		harmed++
	}
	s, err := j.Survey(0, func(int64) {})
	is.NoErr(err)
	is.Equal(len(s.Harm), maxHarm)
	is.Equal(len(s.Harm)+s.More, harmed)
}

// A frame is found wherever it begins, also at the first byte of a search or of
// a window.
func TestFind(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 79)))
	generationsOf(t, m, 1)
	log := m.seen[fileName(logName, 0)].data
	marks, end := frames(t, log)
	frame := log[marks[1]:marks[2]]
	for _, at := range []int{0, 1, 100, window - 1, window, window + 1, 2 * window} {
		file := append(make([]byte, at), frame...)
		r := &reader{file: bytes.NewReader(file), size: int64(len(file))}
		found, ok := r.find(0, func(first []byte) bool { return bytes.HasPrefix(frame[frameHead:], first) })
		is.True(ok)
		is.Equal(found, int64(at))
	}
	r := &reader{file: bytes.NewReader(log[:end]), size: int64(end)}
	_, ok := r.find(0, func([]byte) bool { return false })
	is.True(!ok)
}

// If a snapshot is damaged and nothing before it is whole, Salvage returns
// everything in its other frames.
func TestSalvagePieces(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	rnd := rand.New(rand.NewPCG(1, 80))
	m := newMemory(rnd)
	j, b := opened(t, m)
	var r Record
	for n := range 100 {
		b = b.with(&r, []Op{{1, []byte{byte(n)}, someBytes(rnd, 3000)}})
		is.NoErr(j.Append(&r, b.State))
	}
	is.NoErr(j.Begin(b.State))
	is.NoErr(j.Snapshot(t.Context(), b.State, format, b.all()))
	delete(m.seen, fileName(logName, 0))
	snap := m.seen[fileName(snapName, 100)].data
	snap[len(snap)/2]++
	s, err := j.Survey(0, func(int64) {})
	is.NoErr(err)
	c := &pieces{counted: counted{t: t}, found: map[string]string{}}
	done, err := s.Salvage(nil, c)
	is.NoErr(err)
	is.True(done.Partial)
	is.True(len(c.found) >= 60 && len(c.found) < 100)
	for key, value := range c.found {
		is.Equal(value, b.entries[key])
	}
}

// pieces keeps the entries that Salvage returns.
type pieces struct {
	counted
	found map[string]string
}

func (p *pieces) Entries(ops []Op) error {
	for _, op := range ops {
		p.found[string(append([]byte{op.Bucket}, op.Key...))] = string(op.Value)
	}
	return nil
}

// The bytes at the end of a log count as a torn record only if they have its
// length and its number.
func TestTorn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(log []byte, at int) []byte // at is the beginning of the last record
		torn bool
	}{
		"its last byte":     {func(log []byte, _ int) []byte { log[len(log)-1]++; return log }, true},
		"cut":               {func(log []byte, _ int) []byte { return log[:len(log)-1] }, false},
		"more behind it":    {func(log []byte, _ int) []byte { log[len(log)-1]++; return append(log, 0) }, false},
		"its number":        {func(log []byte, at int) []byte { log[at+frameHead+7]++; return log }, false},
		"cut in its head":   {func(log []byte, at int) []byte { return log[:at+frameHead+3] }, false},
		"cut behind length": {func(log []byte, at int) []byte { return log[:at+4] }, false},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			m := newMemory(rand.New(rand.NewPCG(1, 81)))
			generationsOf(t, m, 1)
			log := withoutRecent(m).seen[fileName(logName, 0)]
			marks, end := frames(t, log.data)
			last := marks[len(marks)-1]
			log.data = c.harm(log.data[:end], last)
			j, err := New(m, format)
			is.NoErr(err)
			_, done, err := replay(j)
			is.NoErr(err)
			is.Equal(done.Seq, uint64(len(marks)-1))
			is.Equal(done.Cut, int64(len(log.data)-last))
			is.Equal(done.Torn != nil, c.torn)
			if c.torn {
				is.Equal(done.Torn.At, int64(last))
				is.Equal(done.Torn.To.Seq, uint64(len(marks)))
			}
		})
	}
}

// missing is how many records are missing.
func missing(s Salvaged) (n uint64) {
	for _, gap := range s.Gaps {
		n += gap.Last - gap.First + 1
	}
	return n
}
