package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"regexp"
	"syscall"
	"testing"

	"kist/kv/kvtest/needs"

	"github.com/matryer/is"
)

// grown is a journal whose newest log has records on stable storage and, from
// base on, records that only recent is sure to have.
func grown(t *testing.T, seed uint64) (m *memory, j *Journal, b book, log string) {
	t.Helper()
	is := is.New(t)
	m = newMemory(rand.New(rand.NewPCG(seed, 90)))
	j, b = opened(t, m)
	var r Record
	for drained := 0; drained < 2 || j.end-j.base < recentSize/2; {
		base := j.base
		b = b.with(&r, []Op{{1, someBytes(m.rnd, 8), someBytes(m.rnd, m.rnd.IntN(2000))}})
		is.NoErr(j.Append(&r, b.State))
		if j.base != base {
			drained++
		}
	}
	return m, j, b, j.name
}

// Most records are synced in recent alone.
func TestRecentIsSynced(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 91)))
	j, b := opened(t, m)
	b = add(t, j, b, "one")
	synced := map[string]int{}
	m.fail = func(step, name string) error {
		if step == "sync" {
			synced[name]++
		}
		return nil
	}
	var r Record
	for range 1000 {
		b = b.with(&r, []Op{{1, []byte("key"), someBytes(m.rnd, 200)}})
		is.NoErr(j.Append(&r, b.State))
		j.Drain()
	}
	is.Equal(synced[RecentName], 1000)
	is.True(synced[j.name] >= 10)
	is.True(synced[j.name] < 100)
	is.True(holds(t, m.cut(m.rnd)).is(b))
}

// Whatever a power cut left of the log from base on, a replay, a copy and a
// salvage have all records, and nothing is damaged. After the next start the
// logs have them without recent.
func TestRecentMends(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		is := is.New(t)
		m, j, b, name := grown(t, seed)
		c := m.copied()
		log, base := c.seen[name], int(j.base)
		switch seed % 5 {
		case 0:
			log.data = log.data[:base]
		case 1:
			log.data = log.data[:base+c.rnd.IntN(len(log.data)-base)]
		case 2:
			clear(log.data[base:])
		case 3: // blocks
			for at := base; at < len(log.data); at++ {
				if at/sector%3 == int(seed)%3 {
					log.data[at] = 0
				}
			}
		case 4:
			copy(log.data[base:], someBytes(c.rnd, len(log.data)-base))
		}
		is.True(!bytes.Equal(log.data, m.seen[name].data))
		is.True(holds(t, c).is(b))

		cj, err := New(c, format)
		is.NoErr(err)
		parts, err := cj.Files()
		is.NoErr(err)
		is.True(holds(t, copyOf(t, cj, parts)).is(b))

		s, err := cj.Survey(b.Digest, func(int64) {})
		is.NoErr(err)
		is.Equal(len(s.Harm), 0)
		n := &counted{t: t}
		done, err := s.Salvage(nil, n)
		is.NoErr(err)
		is.Equal(done.State(), b.State)
		is.Equal(n.records, int(b.Seq))

		_, again := opened(t, c)
		is.True(again.is(b))
		is.True(holds(t, withoutRecent(c.cut(c.rnd))).is(b))
	}
}

// State is the state that the salvage reached.
func (s Salvaged) State() State { return State{s.Seq, s.Digest} }

// Check tells of damage that recent mends.
func TestCheckMended(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m, j, _, name := grown(t, 5)
	found := func() (all []error) {
		is.NoErr(newJournal(t, m).Check(func(int64) {}, func(err error) { all = append(all, err) }))
		return all
	}
	is.Equal(len(found()), 0)
	m.seen[name].data[j.base+frameHead+stateSize] ^= 1
	all := found()
	is.Equal(len(all), 1)
	is.True(errors.As(all[0], new(*Mended)))
	var damage *Damaged
	is.True(errors.As(all[0], &damage))
	is.Equal(damage.At, j.base)
	is.Equal(damage.Name, name)
}

// Damage to recent alone does no harm. Damage to both never leads to a state
// that did not exist.
func TestRecentFlipped(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m, j, b, name := grown(t, 1)
	flip := func(f *inode, from int) { f.data[from+m.rnd.IntN(len(f.data)-from)] ^= 1 << m.rnd.IntN(8) }
	refused, earlier := 0, 0
	for range 600 {
		c := m.copied()
		flip(c.seen[RecentName], 0)
		is.True(holds(t, c).is(b))
		used := recentHead + int(j.end-j.base)
		c.seen[RecentName].data = c.seen[RecentName].data[:used]
		flip(c.seen[name], int(j.base))
		if m.rnd.IntN(2) == 0 {
			flip(c.seen[RecentName], 0)
		}
		cj, err := New(c, format)
		is.NoErr(err)
		got, _, err := replay(cj)
		switch {
		case err != nil:
			is.True(errors.As(err, new(*Damaged)))
			refused++
		case !got.is(b):
			is.Equal(got.Seq, b.Seq-1) // the last record was damaged in both places
			earlier++
		}
	}
	t.Logf("%d refused, %d without the last record", refused, earlier)
	is.True(refused > 0)
}

// A copy may have an older recent than log, even one with a record that failed. The
// log decides.
func TestRecentOlderThanLog(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	m, j, b, _ := grown(t, 2)
	older := []*inode{m.copied().seen[RecentName]}
	var r Record
	for n := range 200 {
		if n%5 == 0 {
			next := b.with(&r, someOps(m.rnd))
			m.fail = func(step, file string) error {
				if step == "sync" && file == RecentName {
					older = append(older, m.copied().seen[RecentName])
					return syscall.EIO
				}
				return nil
			}
			is.True(j.Append(&r, next.State) != nil)
			m.fail = nil
		}
		next := b.with(&r, someOps(m.rnd))
		is.NoErr(j.Append(&r, next.State))
		older = append(older, m.copied().seen[RecentName])
		b = next
		c := m.copied()
		c.seen[RecentName] = older[m.rnd.IntN(len(older))]
		is.True(holds(t, c).is(b))
		c.seen[RecentName].data = bytes.Clone(c.seen[RecentName].data)
		for at := 0; at < len(c.seen[RecentName].data); at += sector { // a copy made while it changes
			if m.rnd.IntN(2) == 0 {
				copy(c.seen[RecentName].data[at:at+sector], m.seen[RecentName].data[at:])
			}
		}
		is.True(holds(t, c).is(b))
	}
}

// olderReads reports whether the programs from before recent read the journal.
// Their rules for names and headers are repeated here.
func olderReads(t *testing.T, m *memory) bool {
	t.Helper()
	reads := true
	for name, f := range m.seen {
		h := f.data[:44]
		known := regexp.MustCompile(`^(log|snap)-[0-9a-f]{16}$`).MatchString(name) &&
			string(h[:8]) == map[byte]string{'l': "kist-log", 's': "kistsnap"}[name[0]]
		if !known || binary.BigEndian.Uint32(h[8:]) <= 2 {
			continue
		}
		misread := false
		for n := range uint32(2) {
			before := bytes.Clone(h[:40])
			binary.BigEndian.PutUint32(before[8:], n+1)
			misread = misread || crc32.Checksum(before, castagnoli) == binary.BigEndian.Uint32(h[40:])
		}
		reads = reads && misread
	}
	return reads
}

// An older program would lose what recent alone has. So it refuses the journal,
// except after a clean stop.
func TestRecentAndOlderPrograms(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		is := is.New(t)
		m, j, b, _ := grown(t, seed)
		is.True(!olderReads(t, m.copied()))
		left := m.cut(m.rnd)
		is.True(!olderReads(t, left))
		is.NoErr(j.Close())
		is.True(olderReads(t, m.cut(m.rnd)))

		j, again := opened(t, left) // and nothing is appended
		is.True(again.is(b))
		is.NoErr(j.Close())
		is.True(olderReads(t, left.cut(m.rnd)))
		is.True(holds(t, left.cut(m.rnd)).is(b))
	}
}

// A file that begins in another way is not taken for recent.
func TestRecentBeginsOtherwise(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m, j, b, name := grown(t, 9)
	c := m.copied()
	c.seen[name].data = c.seen[name].data[:j.base]
	is.True(holds(t, c).is(b))
	other := c.seen[RecentName].data
	other[11]++
	binary.BigEndian.PutUint32(other[recentSums:], crc32.Checksum(other[:recentSums], castagnoli))
	is.True(holds(t, c).Seq < b.Seq)
}

// A stop is not clean if the log cannot be synced. Then recent stays.
func TestRecentStaysIfStopFails(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m, j, b, name := grown(t, 7)
	m.fail = func(step, file string) error {
		if step == "sync" && file == name {
			return syscall.EIO
		}
		return nil
	}
	is.True(errors.Is(j.Close(), syscall.EIO))
	m.fail = nil
	for range 10 {
		is.True(holds(t, m.cut(m.rnd)).is(b))
	}
}

// A record that failed and could not be cut off yet is cut off at a stop. Until
// that works the stop is not clean.
func TestStopCutsFailedRecord(t *testing.T) {
	t.Parallel()
	for _, heals := range []bool{true, false} {
		for _, recent := range []bool{true, false} {
			is := is.New(t)
			m := newMemory(rand.New(rand.NewPCG(1, 93)))
			j, b := opened(t, m)
			if !recent {
				j.OnDisk(noRoom)
			}
			b = add(t, j, b, "one")
			is.Equal(j.recent != nil, recent)
			m.fail = failing(syscall.EIO, "sync", "truncate")
			_, err := try(j, b, "two")
			is.True(errors.Is(err, syscall.EIO))
			if heals {
				m.fail = nil
			} else {
				m.fail = failing(syscall.EIO, "truncate")
			}
			_, size := j.End()
			err = j.Close()
			is.Equal(err == nil, heals)
			m.fail = nil
			if heals {
				is.True(holds(t, m.copied()).is(b))
				is.True(holds(t, m.cut(m.rnd)).is(b))
				is.Equal(len(m.seen[j.name].data), int(size))
			}
		}
	}
}

// After a clean stop there is no recent: damage is reported, not mended.
func TestRecentAfterStop(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m, j, b, name := grown(t, 3)
	base := int(j.base)
	_, size := j.End()
	is.NoErr(j.Close())
	is.True(holds(t, withoutRecent(m.cut(m.rnd))).is(b))
	c := m.copied()
	c.seen[name].data[base+100] ^= 1
	is.True(errors.As(problems(newJournal(t, c)), new(*Damaged)))

	j = newJournal(t, m)
	is.NoErr(j.Resume(b.State, name, size))
	b = add(t, j, b, "one")
	is.True(j.base >= size)
	is.True(holds(t, m.cut(m.rnd)).is(b))
}

// A copy may have a log with a record that failed, and a recent from later with
// other records. The record that failed is followed by none, so recent decides.
func TestRecentNewerThanLog(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		is := is.New(t)
		m, j, b, name := grown(t, seed)
		var older *inode
		m.fail = func(step, file string) error {
			if step == "sync" && file == RecentName && older == nil {
				older = m.copied().seen[name]
				return syscall.EIO
			}
			return nil
		}
		var r Record
		next := b.with(&r, []Op{{1, []byte("failed"), someBytes(m.rnd, m.rnd.IntN(2000))}})
		is.True(errors.Is(j.Append(&r, next.State), syscall.EIO))
		m.fail = nil
		b = add(t, j, b, "one")
		for range 2 {
			b = add(t, j, b, "two")
			c := m.copied()
			c.seen[name] = older
			is.True(holds(t, c).is(b))
		}
	}
}

// unreadable is a folder with a byte of recent that cannot be read.
type unreadable struct {
	*memory
	at int64
}

func (u unreadable) Open(name string) (File, error) {
	f, err := u.memory.Open(name)
	if name == RecentName && err == nil {
		f = unreadableFile{f, u.at}
	}
	return f, err
}

type unreadableFile struct {
	File
	at int64
}

func (f unreadableFile) ReadAt(b []byte, off int64) (int, error) {
	if off <= f.at && f.at < off+int64(len(b)) {
		return 0, syscall.EIO
	}
	return f.File.ReadAt(b, off)
}

// A part of recent that cannot be read does not matter behind its last record,
// and where the log has the same records. Otherwise it is an error.
func TestRecentUnreadable(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m, j, b, name := grown(t, 8)
	used := recentHead + j.end - j.base
	is.True(holds(t, unreadable{m, used + 100}).is(b))
	is.True(holds(t, unreadable{m, recentHead + 100}).is(b))
	c := m.copied()
	c.seen[name].data = c.seen[name].data[:j.base]
	is.True(holds(t, unreadable{c, used + 100}).is(b))
	_, _, err := replay(newJournal(t, unreadable{c, recentHead + 100}))
	is.True(errors.Is(err, ErrRead))
}

// The newest record of recent counts although an older one in it is damaged, if the log has the
// older one.
func TestRecentMendsTheEnd(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m, j, b, name := grown(t, 9)
	before, size := b, j.end
	b = add(t, j, b, "the newest")
	c := m.copied()
	c.seen[RecentName].data[recentHead+frameHead+stateSize] ^= 1
	log := c.seen[name]
	log.data = log.data[:size]
	is.True(holds(t, c).is(b))
	c.seen[RecentName].data[recentHead+size-j.base+frameHead+stateSize] ^= 1
	is.True(holds(t, c).is(before))
}

func newJournal(t *testing.T, m Folder) *Journal {
	t.Helper()
	j, err := New(m, format)
	is.New(t).NoErr(err)
	return j
}

// If the log cannot be synced, nothing is lost: recent keeps its records, and
// Append fails when recent is full. Then everything is written again.
func TestRecentFull(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		is := is.New(t)
		m, j, b, name := grown(t, seed)
		m.fail = func(step, file string) error {
			if step == "sync" && file == name {
				return syscall.EIO
			}
			return nil
		}
		var err error
		for err == nil {
			var next book
			next, err = try(j, b, "key")
			if err == nil {
				b = next
			}
			j.Drain()
			is.True(holds(t, m.cut(m.rnd)).is(b))
		}
		is.True(errors.Is(err, syscall.EIO))
		is.True(errors.Is(j.Begin(b.State), syscall.EIO))
		m.fail = nil
		b = add(t, j, b, "two")
		is.Equal(j.name, name)
		is.True(holds(t, m.cut(m.rnd)).is(b))
		is.NoErr(j.Begin(b.State))
		is.True(holds(t, withoutRecent(m.cut(m.rnd))).is(b))
	}
}

// A long record is synced in the log. If an earlier sync of the log failed, what
// that lost is written again before.
func TestRecentAndLongRecord(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		is := is.New(t)
		m, j, b, name := grown(t, seed)
		for j.base < j.end && !j.lost {
			b = add(t, j, b, "key")
			m.fail = func(step, file string) error {
				if step == "sync" && file == name {
					return syscall.EIO
				}
				return nil
			}
			j.Drain()
			m.fail = nil
		}
		var r Record
		next := b.with(&r, []Op{{1, []byte("long"), make([]byte, 2*recentSize)}})
		is.NoErr(j.Append(&r, next.State))
		for range 10 {
			is.True(holds(t, m.cut(m.rnd)).is(next))
		}
		next = add(t, j, next, "one")
		for range 10 {
			is.True(holds(t, m.cut(m.rnd)).is(next))
		}
	}
}

// A record that failed, and could not be cut off, does not come back in the next
// log.
func TestRecentWithFailedRecord(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m, j, b, _ := grown(t, 6)
	is.NoErr(j.drain())
	m.fail = func(step, file string) error {
		if step == "truncate" || step == "sync" && file == RecentName {
			return syscall.EIO
		}
		return nil
	}
	_, err := try(j, b, "key")
	is.True(errors.Is(err, syscall.EIO))
	is.NoErr(j.Begin(b.State))
	for range 10 {
		is.True(holds(t, m.copied()).is(b))
		is.True(holds(t, m.cut(m.rnd)).is(b))
	}
	m.fail = nil
	b = add(t, j, b, "one")
	is.True(holds(t, m.cut(m.rnd)).is(b))
}

// Without room for recent each record is synced in the log. With room, the next
// log has a recent again.
func TestRecentWithoutRoom(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 92)))
	j, b := opened(t, m)
	j.OnDisk(noRoom)
	for range 10 {
		b = add(t, j, b, "one")
		is.True(holds(t, m.cut(m.rnd)).is(b))
	}
	is.True(m.seen[RecentName] == nil)
	j.OnDisk(func() (Space, error) { return Space{Free: 1 << 40}, nil })
	is.NoErr(j.Begin(b.State))
	b = add(t, j, b, "two")
	is.True(m.seen[RecentName] != nil)
	is.True(holds(t, m.cut(m.rnd)).is(b))
}

// The head of recent never changes: every build reads what an earlier one has written.
func TestRecentIsPinned(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	j := Journal{
		head: header{plainLayout, 2, State{Seq: 7, Digest: 0x0123456789abcdef}, 1_700_000_000_000}.append(nil, logMagic),
	}
	is.Equal(
		hex.EncodeToString(j.recentHead(4321, 9)),
		"6b6973742d6c6f670000000300000000000000000000000000000000000000000000000000000000000000006b6973742d6c6f67000000010000000200000000000000070123456789abcdef0000018bcfe56800b56ed88f00000000000010e10000000000000009c3963d62",
	)
	is.Equal(RecentName, "log-ffffffffffffffff")
	is.Equal(recentHead, 4096)
}
