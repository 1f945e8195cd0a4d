package ship

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs"
	"kist/kv/journal"
)

// empty is a remote without objects.
type empty struct{ blobs.Remote }

func (empty) After(context.Context, string, string) iter.Seq2[blobs.Object, error] {
	return func(func(blobs.Object, error) bool) {}
}

// A content that cannot be examined now is not taken for one that is not kist's: what
// refers to it must not be put before it.
func TestUnreadableContent(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{blobs.ErrForeign, errors.New("input/output error")} {
		is := is.New(t)
		s := New(Options{Remote: empty{}})
		err := s.stored.putLacking(t.Context(), func(yield func(blobs.Info, error) bool) { yield(blobs.Info{}, failure) })
		is.Equal(err != nil, !errors.Is(failure, blobs.ErrForeign))
	}
}

// A store is not left alone for longer than a minute.
func TestAsked(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	failure := errors.New("busy")
	is.Equal(asked(failure), time.Duration(0))
	is.Equal(asked(fmt.Errorf("wrapped: %w", &blobs.Later{Err: failure, Wait: time.Second})), time.Second)
	is.Equal(asked(&blobs.Later{Err: failure, Wait: 24 * time.Hour}), time.Minute)
}

// Merge merges all slots of a remote as its latest writer does.
func Merge(ctx context.Context, remote blobs.Remote) error {
	s := New(Options{Remote: remote})
	s.status.Exact = true
	last, err := s.history.last(ctx, 0)
	if err != nil {
		return err
	}
	return s.merge(ctx, *last, last.Number-1)
}

// ShipSnapshot puts the newest local snapshot.
func ShipSnapshot(ctx context.Context, s *Shipper) { s.shipSnapshot(ctx) }

// Distrust makes a Shipper ask before each removal of a content whether it is still the writer.
func Distrust(s *Shipper) { s.trust = 0 }

// Blind makes a Shipper overlook what the history refers to.
func Blind(s *Shipper) {
	s.src.Refers = func(journal.Op) (ref blobs.Ref, adds bool) { return ref, false }
}

// SlotIn returns the slot in an object.
func SlotIn(ctx context.Context, remote blobs.Remote, name string) (*Slot, error) {
	o, _ := parseSpan(blobs.Object{Name: name})
	return history{remote}.head(ctx, o)
}

// ParseSlot returns the slot in the bytes of an object.
func ParseSlot(b []byte) (*Slot, error) {
	slot, _, err := parseSlot(b)
	return slot, err
}
