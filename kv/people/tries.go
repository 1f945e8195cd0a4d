package people

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"time"

	"kist/kv"
	"kist/kv/table"
	"kist/kv/workcopy"
)

// TryWindow is how long a count of wrong tries lasts, from the first one, except with DayTries.
const TryWindow = 5 * time.Minute

// DayTries is the kind of limits whose counts last a day.
const DayTries = 'D'

func window(kind byte) time.Duration {
	if kind == DayTries {
		return 24 * time.Hour
	}
	return TryWindow
}

// Bounds of Tries, in memory and on the disk.
const (
	maxTries    = 100_000
	sharedTries = 1024 // for each kind of limit, on top of maxTries

	maxNetworks = 1000
	maxKeys     = 4096                // remembered
	networkTime = 90 * 24 * time.Hour // how long a network is familiar after a sign-in
	networkStep = 24 * time.Hour      // how often a later sign-in renews it

	triesPerFlush = 2000 // rows that one flush writes
	trySweep      = time.Minute
)

// A Limit bounds the wrong tries counted under a name.
type Limit struct {
	Kind byte   // limits of different kinds share nothing
	Of   string // the name; a keyed hash of it is stored, never the name itself
	Most int    // tries in a window; 0 only counts
}

// Tries counts wrong passwords and remembers networks that users signed in from. It
// is safe for concurrent use. Counts are kept in memory and written with the
// next flush, so a killed process loses at most the last second.
//
// Memory and disk are bounded. When the table is full, a try goes to one of
// sharedTries counts, chosen by the keyed hash. So every try is counted, and an
// attacker cannot push a count out by making others. At worst a visitor waits
// because of someone else's tries.
type Tries struct {
	secret [32]byte

	mu       sync.Mutex
	counts   map[tryKey]tries
	networks map[tryKey]time.Time // when they last signed in
	changed  map[tryKey]struct{}  // not yet written to the disk
	keys     map[string]tryKey    // of networks, because every request asks for one; a part of them
	swept    time.Time
}

// tryKey is a kind and the first half of a keyed hash (HMAC-SHA256).
type tryKey [17]byte

const networkKind = 'N'

type tries struct {
	n     uint32
	since time.Time
}

// TryTable keeps the rows of Tries, which have no bucket of their own.
var TryTable = kv.Table{
	Check: func(a *kv.Audit) {
		for k, v := range a.Walk(workcopy.MetaBucket, kv.MetaTry, nil, false) {
			if _, _, ok := readTryRow(k, v, a.Now); !ok {
				a.Say("%s %x cannot be read", workcopy.MetaBucket.Name, k)
			}
		}
	},
	Load: func(s *kv.Store, tx *table.Tx) {
		var secret [32]byte
		copy(secret[:], tx.Get(workcopy.MetaBucket, kv.MetaSecret))
		t := newTries(secret)
		t.load(tx, s.Now())
		counted.Set(s, t)
	},
	Flush: func(s *kv.Store) (func(*kv.Tx) error, func()) {
		some := TriesOf(s).take(s.Now())
		if len(some) == 0 {
			return nil, nil
		}
		return func(tx *kv.Tx) error { return saveTries(tx, some) }, func() { TriesOf(s).giveBack(some) }
	},
}

var counted kv.Slot[Tries]

func newTries(secret [32]byte) *Tries {
	return &Tries{
		secret: secret, counts: map[tryKey]tries{}, networks: map[tryKey]time.Time{},
		changed: map[tryKey]struct{}{}, keys: map[string]tryKey{},
	}
}

// TriesOf is the store's count of wrong tries.
func TriesOf(s *kv.Store) *Tries { return counted.Of(s) }

func (t *Tries) key(kind byte, of string) tryKey {
	h := hmac.New(sha256.New, t.secret[:])
	_, _ = h.Write(append([]byte{'t', 'r', 'y', ' ', kind, 0}, of...)) // cannot fail
	return tryKey(append([]byte{kind}, h.Sum(nil)[:16]...))
}

// shared is the key of the count to use when there is no room for the key itself.
func (k tryKey) shared() tryKey {
	n := binary.BigEndian.Uint16(k[15:]) % sharedTries
	out := tryKey{0: k[0]}
	binary.BigEndian.PutUint16(out[15:], n)
	return out
}

// Wait is how long until none of the limits is reached; 0 if none is now.
func (t *Tries) Wait(now time.Time, limits ...Limit) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, wait := t.reached(now, limits)
	return wait
}

// Settle says whether the outcome of a try may be revealed. If it may and the try
// was wrong, Settle counts it under all limits. Checking a password takes a while
// and several checks may run at once; no more outcomes are revealed than if they
// had run one by one. If a limit is reached, Settle returns the index of the one
// that lasts longest and how long that is; otherwise -1 and 0.
func (t *Tries) Settle(now time.Time, right bool, limits ...Limit) (which int, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	which, wait = t.reached(now, limits)
	if which >= 0 || right {
		return which, wait
	}
	for _, l := range limits {
		key := t.key(l.Kind, l.Of)
		if !t.add(key, maxTries, now) {
			t.add(key.shared(), maxTries+256*sharedTries, now) // always fits: there are at most 256 kinds
		}
	}
	return which, wait
}

func (t *Tries) reached(now time.Time, limits []Limit) (which int, wait time.Duration) {
	which = -1
	for i, l := range limits {
		if l.Most == 0 {
			continue
		}
		key := t.key(l.Kind, l.Of)
		for _, k := range []tryKey{key, key.shared()} {
			c := t.counts[k]
			if left := c.since.Add(window(l.Kind)).Sub(now); int(c.n) >= l.Most && left > wait {
				which, wait = i, left
			}
		}
	}
	return which, wait
}

func (t *Tries) add(key tryKey, room int, now time.Time) bool {
	c, there := t.counts[key]
	if !there && len(t.counts) >= room {
		if now.Sub(t.swept) >= time.Second { // a sweep visits every entry
			t.sweep(now)
		}
		if len(t.counts) >= room {
			return false
		}
	}
	if now.Sub(c.since) >= window(key[0]) {
		c = tries{since: now}
	}
	c.n++
	t.counts[key] = c
	t.changed[key] = struct{}{}
	return true
}

// sweep drops expired counts and networks.
func (t *Tries) sweep(now time.Time) {
	t.swept = now
	maps.DeleteFunc(t.counts, func(k tryKey, c tries) bool {
		over := now.Sub(c.since) >= window(k[0])
		if over {
			t.changed[k] = struct{}{}
		}
		return over
	})
	maps.DeleteFunc(t.networks, func(k tryKey, at time.Time) bool {
		over := now.Sub(at) >= networkTime
		if over {
			t.changed[k] = struct{}{}
		}
		return over
	})
}

// SignedIn records that a user signed in from a network.
func (t *Tries) SignedIn(network string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := t.key(networkKind, network)
	if at, there := t.networks[key]; there && now.Sub(at) < networkStep {
		return
	}
	t.networks[key] = now
	t.changed[key] = struct{}{}
	if len(t.networks) > maxNetworks {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(t.networks)), func(a, b tryKey) int {
			return cmp.Or(t.networks[a].Compare(t.networks[b]), slices.Compare(a[:], b[:]))
		})
		delete(t.networks, oldest)
		t.changed[oldest] = struct{}{}
	}
}

// Familiar reports whether a user has signed in from the network in the last 90
// days.
func (t *Tries) Familiar(network string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	key, known := t.keys[network]
	if !known {
		if len(t.keys) == maxKeys {
			clear(t.keys)
		}
		key = t.key(networkKind, network)
		t.keys[network] = key
	}
	at, there := t.networks[key]
	return there && now.Sub(at) < networkTime
}

// Rows are kept in the meta bucket, below kv.MetaTry: versions that do not know
// them leave them alone.

// triesRow is a count (4 bytes) and the instant of its first try (8).
func triesRow(c tries) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, c.n), uint64(c.since.UnixMilli()))
}

// networkRow is the instant of a sign-in (8 bytes).
func networkRow(at time.Time) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli()))
}

func tryRowKey(k tryKey) []byte { return append(bytes.Clone(kv.MetaTry), k[:]...) }

// readTryRow reads the rows that tryRowKey, triesRow and networkRow make. An instant
// after now comes from a wrong clock and counts as now.
func readTryRow(key, row []byte, now time.Time) (k tryKey, c tries, ok bool) {
	if len(key) != len(kv.MetaTry)+len(k) {
		return k, c, false
	}
	copy(k[:], key[len(kv.MetaTry):])
	if k[0] != networkKind {
		if len(row) != 12 {
			return k, c, false
		}
		c.n, row = binary.BigEndian.Uint32(row), row[4:]
	}
	if len(row) != 8 {
		return k, c, false
	}
	c.since = time.UnixMilli(int64(binary.BigEndian.Uint64(row))).UTC()
	if c.since.After(now) {
		c.since = now
	}
	return k, c, true
}

func (t *Tries) load(tx *table.Tx, now time.Time) {
	for key, row := range tx.Walk(workcopy.MetaBucket, kv.MetaTry, nil, false) {
		k, c, ok := readTryRow(key, row, now)
		switch {
		case !ok: // Audit reports it
		case k[0] == networkKind:
			t.networks[k] = c.since
		default:
			t.counts[k] = c
		}
	}
	t.sweep(now)
}

// take removes up to triesPerFlush keys from those to be written and returns them.
func (t *Tries) take(now time.Time) []tryKey {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.swept) >= trySweep {
		t.sweep(now)
	}
	var some []tryKey
	for k := range t.changed {
		if len(some) == triesPerFlush {
			break
		}
		some = append(some, k)
		delete(t.changed, k)
	}
	return some
}

// giveBack takes back keys that could not be written.
func (t *Tries) giveBack(some []tryKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range some {
		t.changed[k] = struct{}{}
	}
}

func saveTries(tx *kv.Tx, some []tryKey) error {
	for _, k := range some {
		var row []byte
		t := TriesOf(tx.Store())
		t.mu.Lock()
		if c, there := t.counts[k]; there {
			row = triesRow(c)
		} else if at, there := t.networks[k]; there {
			row = networkRow(at)
		}
		t.mu.Unlock()
		var err error
		if row == nil {
			err = tx.Delete(workcopy.MetaBucket, tryRowKey(k))
		} else {
			err = tx.Put(workcopy.MetaBucket, tryRowKey(k), row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
