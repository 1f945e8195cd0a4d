package thumb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"kist/blobs"
	"kist/kv/record"
)

// Bounds of icons.
const (
	// IconEdge is the longest edge of an icon that is kept, in pixels.
	IconEdge = 64
	// MaxIcon is the most that a file may have of which one is made, in bytes.
	MaxIcon = 64 << 10

	maxIconPixels = 1 << 20
)

// Times of icons.
const (
	iconAge         = 30 * 24 * time.Hour // from which on an icon is asked for again
	iconAgain       = 24 * time.Hour      // between two times that a site is asked
	iconAgainMissed = time.Hour           // the same if its icon was lost
	iconYoung       = time.Hour           // that an icon stays which nothing refers to: what does may be on its way
	maxAsked        = 10_000              // sites of which it is remembered when they were asked
)

// Icons keeps the icons of sites, as PNG, in a folder like that of thumbnails.
// A site is named by a key, which is all that is kept of its address. Its
// methods may be called by any number of goroutines at once.
type Icons struct {
	cache cache
	turn  chan struct{} // the maker's

	mu    sync.Mutex
	asked map[record.ID]asking
}

// asking is what is remembered of a site.
type asking struct {
	at     time.Time // when it was last asked; zero if it may be again
	missed time.Time // when it was last found that its icon is not there any more
}

// Icons uses the folder, which is made if it is missing; its parent must exist.
// It may be removed at any time: all in it can be asked for again. Its pictures
// take turns with the maker's.
func (m *Maker) Icons(dir string) (*Icons, error) {
	s := &Icons{cache: cache{dir: dir}, turn: m.turn, asked: make(map[record.ID]asking)}
	if err := s.cache.open(); err != nil {
		return nil, fmt.Errorf("thumb: opening the cache of icons: %w", err)
	}
	return s, nil
}

// iconRef is the name of the site's file.
func iconRef(site record.ID) blobs.Ref { return sha256.Sum256(site[:]) }

// Get is the icon of the site, if there is one.
func (s *Icons) Get(site record.ID) (*Thumb, bool) {
	e, got := s.cache.get(iconRef(site))
	return e.thumb, got && e.err == nil
}

// Wants reports whether the site should be asked for its icon: there is none or
// an old one, and nobody was told so within the last day.
func (s *Icons) Wants(site record.ID) bool {
	if _, got := s.Get(site); got { // and whole
		if age, got := s.cache.age(iconRef(site)); got && age < iconAge {
			return false
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, before := time.Now(), s.asked[site]
	if now.Sub(before.at) < iconAgain {
		return false
	}
	s.remember(site, asking{now, before.missed})
	return true
}

// Missed notes that the icon of a site, which it had, is not there: Wants will
// say so at once. It reports whether that is news of this hour.
func (s *Icons) Missed(site record.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.asked[site].missed) < iconAgainMissed {
		return false
	}
	s.remember(site, asking{missed: now})
	return true
}

// remember forgets others where it has to: those that say nothing any more, and
// half of all if these are too few.
func (s *Icons) remember(site record.ID, a asking) {
	if len(s.asked) >= maxAsked {
		maps.DeleteFunc(s.asked, func(_ record.ID, before asking) bool {
			return time.Since(before.at) >= iconAgain && time.Since(before.missed) >= iconAgainMissed
		})
		for k := range s.asked {
			if len(s.asked) <= maxAsked/2 {
				break
			}
			delete(s.asked, k)
		}
	}
	s.asked[site] = a
}

// Put makes an icon of the bytes of a picture, MaxIcon at most, and keeps it in
// place of the one before. The error is ErrNone if it cannot be made of them,
// or ctx's, which ends the waiting for the turn.
func (s *Icons) Put(ctx context.Context, site record.ID, data []byte) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	t, err := icon(data)
	if err != nil {
		return err
	}
	return s.cache.put(iconRef(site), entry{thumb: t})
}

// icon makes the icon of the bytes of a picture.
func icon(data []byte) (*Thumb, error) {
	if len(data) > MaxIcon {
		return nil, refuse("the file has more than %d bytes", MaxIcon)
	}
	if isICO(data) {
		return icoIcon(data)
	}
	return fileIcon(data)
}

// fileIcon makes the icon of the bytes of a file of one picture.
func fileIcon(data []byte) (*Thumb, error) {
	r := inMemory(data)
	h, err := readHeader(r)
	if err != nil {
		if !errors.Is(err, ErrNone) { // memory is read without errors but for its end
			err = refuse("%v", err)
		}
		return nil, err
	}
	return iconOf(h, r)
}

func inMemory(data []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))
}

// iconOf makes the icon of a picture within the limits.
func iconOf(h header, r *io.SectionReader) (*Thumb, error) {
	if h.pixels() > maxIconPixels {
		return nil, refuse("%d by %d pixels are too many for an icon", h.width, h.height)
	}
	return draft(h, r, IconEdge, lossless)
}

// Sweep removes the icons that nothing refers to. used lists the sites that
// are referred to; it is asked if there are icons at all, and its error ends
// the sweep.
func (s *Icons) Sweep(used func() ([]record.ID, error)) (removed int, err error) {
	var stay map[blobs.Ref]bool
	return s.cache.sweep(func(ref blobs.Ref) (bool, error) {
		if stay == nil {
			sites, err := used()
			if err != nil {
				return false, err
			}
			stay = make(map[blobs.Ref]bool, len(sites))
			for _, site := range sites {
				stay[iconRef(site)] = true
			}
		}
		if stay[ref] {
			return true, nil
		}
		age, got := s.cache.age(ref)
		return got && age < iconYoung, nil
	})
}
