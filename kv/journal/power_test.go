package journal

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"
)

var long = flag.Bool("long", false, "look at many more histories, cuts and copies")

// history is a random life of a journal and its expected state.
type history struct {
	*testing.T
	rnd   *rand.Rand
	clock time.Time
	disk  *memory
	j     *Journal
	rec   Record

	acked book   // what was acknowledged
	maybe []book // states that are possible in place of acked

	// unsettled are the records that carry what is nowhere else, and whether they
	// are acknowledged.
	unsettled map[uint64]bool
	careless  bool // settle does nothing

	one  int // one of so many steps is followed by a check
	cuts int
	lost []error
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{
		T: t, rnd: rand.New(rand.NewPCG(seed, 1)), clock: time.UnixMilli(1_700_000_000_000), one: 8,
		unsettled: map[uint64]bool{},
	}
	h.disk = newMemory(h.rnd)
	h.disk.after = h.look
	h.begin()
	return h
}

// look cuts the power, for a copy of this journal.
func (h *history) look() {
	if h.rnd.IntN(h.one) > 0 {
		return
	}
	h.cuts++
	if _, err := h.holds(h.disk.cut(h.rnd)); err != nil {
		h.lost = append(h.lost, fmt.Errorf("cut %d: %w", h.cuts, err))
	}
}

// holds reads the content of the folder; the error says that it is not as
// expected.
func (h *history) holds(m *memory) (book, error) {
	j, err := New(m, format)
	if err != nil {
		return book{}, err
	}
	got, done, err := replay(j)
	if err != nil {
		return book{}, err
	}
	if err := problems(j); err != nil {
		return book{}, fmt.Errorf("check: %w", err)
	}
	if err := h.carries(m, j, done); err != nil {
		return book{}, err
	}
	if got.is(h.acked) {
		return got, nil
	}
	for _, b := range h.maybe {
		if got.is(b) {
			return got, nil
		}
	}
	return book{}, fmt.Errorf("state %v was read, and %v acknowledged", got.State, h.acked.State)
}

// carries returns an error if the journal does not have what is nowhere else, or if
// an older program would open it then.
func (h *history) carries(m *memory, j *Journal, done Replayed) error {
	has := map[string]bool{}
	if err := j.Records(done.Snapshot, func(ops []Op) error {
		for _, op := range ops {
			if op.Value != nil && bytes.HasPrefix(op.Key, []byte("carried ")) {
				has[string(op.Key)] = bytes.Equal(op.Key, op.Value)
			}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("records: %w", err)
	}
	for seq, acked := range h.unsettled {
		if key := fmt.Sprintf("carried %d", seq); acked && !has[key] {
			return fmt.Errorf("%s is lost", key)
		}
		if m.seen[CarriedName] == nil {
			return errors.New("an older program would lose what the journal carries")
		}
	}
	return nil
}

// settle puts on stable storage what records carry.
func (h *history) settle() error {
	if h.disk.fail != nil && h.rnd.IntN(4) == 0 {
		return syscall.EIO
	}
	if !h.careless {
		clear(h.unsettled)
	}
	return nil
}

// begin opens the folder like a new process.
func (h *history) begin() {
	h.Helper()
	fail := h.disk.fail
	h.disk.fail = nil
	got, err := h.holds(h.disk)
	if err != nil {
		h.Fatalf("opened again: %v", err)
	}
	h.j, err = New(h.disk, format)
	if err != nil {
		h.Fatal(err)
	}
	h.j.now = func() time.Time { return h.clock }
	if _, _, err := replay(h.j); err != nil {
		h.Fatal(err)
	}
	clear(h.unsettled) // it writes what the journal carries
	h.maybe = append(h.maybe, got)
	if err := h.j.Begin(got.State); err != nil {
		h.Fatal(err)
	}
	h.acked, h.maybe = got, nil
	h.disk.fail = fail
}

func (h *history) append() {
	ops := someOps(h.rnd)
	carries := h.rnd.IntN(3) == 0 && h.j.Carry(h.settle) == nil
	if carries {
		key := fmt.Appendf(nil, "carried %d", h.acked.Seq+1)
		ops = append(ops, Op{3, key, key}, Op{3, key, nil})
	}
	next := h.acked.with(&h.rec, ops)
	h.maybe = append(h.maybe, next)
	if carries {
		h.unsettled[next.Seq] = false
	}
	err := h.j.Append(&h.rec, next.State)
	if err == nil {
		h.acked = next
		if carries {
			h.unsettled[next.Seq] = true
		}
	} else {
		delete(h.unsettled, next.Seq)
	}
	if err == nil || h.settled() {
		h.maybe = nil
	}
	h.j.Drain()
}

// stop closes the journal and continues it, as a clean stop and start do.
func (h *history) stop() {
	name, size := h.j.End()
	j, err := h.j, h.j.Close()
	if err == nil && (len(h.unsettled) > 0 || h.disk.seen[CarriedName] != nil) && !h.careless {
		h.Fatal("a clean stop has left what the journal carries")
	}
	if err == nil && h.settled() {
		h.j, err = New(h.disk, format)
		if err == nil {
			err = h.j.Resume(h.acked.State, name, size)
		}
	}
	if err != nil || !h.settled() {
		h.j = j
		h.begin()
		return
	}
	h.j.now = func() time.Time { return h.clock }
}

// settled reports whether unacknowledged bytes are permanently gone.
func (h *history) settled() bool { return !h.j.dirty && h.j.pending == nil }

func (h *history) rotate() {
	h.clock = h.clock.Add(time.Duration(h.rnd.IntN(100)) * time.Hour)
	if h.j.Begin(h.acked.State) != nil {
		return
	}
	if h.settled() {
		h.maybe = nil
	}
	at := h.acked
	for range h.rnd.IntN(4) {
		h.append()
	}
	if h.rnd.IntN(3) == 0 { // the snapshot has failed
		return
	}
	if h.j.Snapshot(h.Context(), at.State, format, at.all()) == nil {
		_ = h.j.Prune()
	}
}

// live continues for some steps. restarts are crashes of the process alone and
// of everything.
func (h *history) live(steps int, restarts bool) {
	for range steps {
		switch n := h.rnd.IntN(100); {
		case n < 78:
			h.append()
		case n < 92:
			h.rotate()
		case !restarts:
		case n < 94:
			h.stop()
		case n < 97:
			h.begin()
		default:
			left := h.disk.cut(h.rnd)
			left.after, left.fail = h.look, h.disk.fail
			h.disk = left
			h.begin()
		}
	}
}

// troubles makes steps of the disk fail, often several in a row.
func troubles(rnd *rand.Rand) func(step, name string) error {
	left := 0
	return func(step, _ string) error {
		if left == 0 {
			if rnd.IntN(40) > 0 {
				return nil
			}
			left = 1 + rnd.IntN(4)
		}
		left--
		switch step {
		case "write", "fill":
			return syscall.ENOSPC
		case "open", "list":
			return syscall.EMFILE
		case "read", "size":
			return nil
		}
		return syscall.EIO
	}
}

// Whatever happens to the power, the process and the disk: a replay afterwards
// returns everything that was acknowledged and at most one record more.
func TestPowerCuts(t *testing.T) {
	histories := uint64(20)
	if *long {
		histories = 2000
	}
	cuts := 0
	for seed := range histories {
		h := newHistory(t, seed)
		if seed%3 > 0 {
			h.disk.fail = troubles(h.rnd)
		}
		h.live(120, true)
		cuts += h.cuts
		if len(h.lost) > 0 {
			t.Fatalf(
				"history %d: of %d cuts, %d are bad: %v", seed, h.cuts, len(h.lost), errors.Join(h.lost[:min(3, len(h.lost))]...),
			)
		}
	}
	t.Logf("%d cuts", cuts)
	is.New(t).True(cuts >= 200)
}

// What records carry is lost if nobody settles it before a snapshot.
func TestPowerCutsWithoutSettling(t *testing.T) {
	h := newHistory(t, 1)
	h.careless = true
	h.live(150, false)
	t.Logf("%d of %d cuts lost something", len(h.lost), h.cuts)
	is.New(t).True(len(h.lost) > h.cuts/4)
}

// This is not true if syncs do nothing. So the promise depends on the syncs,
// and the test above detects missing ones.
func TestPowerCutsWithoutSync(t *testing.T) {
	h := newHistory(t, 1)
	h.disk.lazy = true
	h.live(150, false)
	t.Logf("%d of %d cuts lost something", len(h.lost), h.cuts)
	is.New(t).True(len(h.lost) > h.cuts/4)
}
