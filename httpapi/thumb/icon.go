package thumb

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"kist/blobs"
	"kist/blobs/flight"
	"kist/kv/record"
)

// Bounds of icons.
const (
	// IconEdge is the longest edge of a stored icon, in pixels.
	IconEdge = 64
	// MaxIcon is the maximum size of a file to make an icon of, in bytes.
	MaxIcon = 64 << 10

	maxIconPixels = 1 << 20

	// MaxPicture is the maximum size of a file to make a picture of a page of, in bytes.
	MaxPicture = 5 << 20
)

// Times of icons.
const (
	iconAge             = 30 * 24 * time.Hour // age from which an icon is fetched again
	iconRetryTime       = 24 * time.Hour      // minimum time between two requests to a site
	iconMissedRetryTime = time.Hour           // the same if its icon was lost
	// an unused icon stays this long, because its bookmark may be about to be stored
	iconYoung = time.Hour
	maxAsked  = 10_000 // sites whose last request is remembered
)

// Icons stores the icons of sites as PNG, in a folder like that of thumbnails. A site is identified by a key,
// and nothing else of its address is stored. All methods are safe for concurrent use.
type Icons struct {
	cache cache
	turns flight.Turns // those of the Maker
	draw  func(data []byte) (*Thumb, error)

	mu    sync.Mutex
	asked map[record.ID]asking
}

// asking is the state of a site.
type asking struct {
	at     time.Time // when its icon was last requested; zero if it may be requested again
	missed time.Time // when its icon was last found to be lost
}

// Icons opens the folder and creates it if it is missing; its parent must exist. The folder may be removed at
// any time, because all icons can be fetched again. Decoding icons and thumbnails takes turns.
func (m *Maker) Icons(dir string) (*Icons, error) { return m.icons(dir, icon) }

// Pictures is Icons for the pictures of pages, which are stored as large as tiles. The keys are those of their
// addresses.
func (m *Maker) Pictures(dir string) (*Icons, error) {
	return m.icons(dir, func(data []byte) (*Thumb, error) { return small(data, Tile) })
}

func (m *Maker) icons(dir string, draw func([]byte) (*Thumb, error)) (*Icons, error) {
	s := &Icons{cache: cache{dir: dir}, turns: m.turns, draw: draw, asked: make(map[record.ID]asking)}
	if err := s.cache.open(); err != nil {
		return nil, fmt.Errorf("thumb: opening the cache of icons: %w", err)
	}
	return s, nil
}

// iconRef is the name of a site's file.
func iconRef(site record.ID) blobs.Ref { return sha256.Sum256(site[:]) }

// Get returns the icon of the site, if there is one.
func (s *Icons) Get(site record.ID) (*Thumb, bool) {
	e, got := s.cache.get(iconRef(site))
	return e.thumb, got && e.err == nil
}

// Has reports whether the icon of the site is stored. It does not read it.
func (s *Icons) Has(site record.ID) bool {
	_, got := s.cache.age(iconRef(site))
	return got
}

// Wants reports whether the site's icon should be requested: there is none or an old one, and Wants has not
// returned true in the last day.
func (s *Icons) Wants(site record.ID) bool {
	if _, got := s.Get(site); got { // and it is intact
		if age, got := s.cache.age(iconRef(site)); got && age < iconAge {
			return false
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, before := time.Now(), s.asked[site]
	if now.Sub(before.at) < iconRetryTime {
		return false
	}
	s.remember(site, asking{now, before.missed})
	return true
}

// Missed notes that the icon of a site was lost, so that Wants returns true. It returns false if this was
// already noted in the last hour.
func (s *Icons) Missed(site record.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.asked[site].missed) < iconMissedRetryTime {
		return false
	}
	s.remember(site, asking{missed: now})
	return true
}

// remember may have to forget other sites: first those whose times are over, then any until half of them are
// left.
func (s *Icons) remember(site record.ID, a asking) {
	if len(s.asked) >= maxAsked {
		maps.DeleteFunc(s.asked, func(_ record.ID, before asking) bool {
			return time.Since(before.at) >= iconRetryTime && time.Since(before.missed) >= iconMissedRetryTime
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

// Put makes an icon of a picture of at most MaxIcon bytes, or MaxPicture, and stores it in place of the previous one. The error
// is ErrNone if that is impossible, or ctx's if ctx ends while waiting.
func (s *Icons) Put(ctx context.Context, site record.ID, data []byte) error {
	if err := s.turns.Take(ctx); err != nil {
		return err
	}
	defer s.turns.Give()
	t, err := s.draw(data)
	if err != nil {
		return err
	}
	return s.cache.put(iconRef(site), entry{thumb: t})
}

func icon(data []byte) (*Thumb, error) {
	if len(data) > MaxIcon {
		return nil, refuse("the file has more than %d bytes", MaxIcon)
	}
	if isICO(data) {
		return icoIcon(data)
	}
	return fileIcon(data)
}

// fileIcon makes an icon of the bytes of a file with one picture.
func fileIcon(data []byte) (*Thumb, error) {
	r := inMemory(data)
	h, err := readHeader(r)
	if err != nil {
		if !errors.Is(err, ErrNone) { // reading memory fails only at its end
			err = refuse("%v", err)
		}
		return nil, err
	}
	return iconOf(h)
}

func inMemory(data []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))
}

// iconOf makes an icon of a picture within the limits.
func iconOf(h header) (*Thumb, error) {
	if h.pixels() > maxIconPixels {
		return nil, refuse("%d by %d pixels are too many for an icon", h.width, h.height)
	}
	return draft(h, IconEdge, lossless)
}

// Sweep removes unused icons. used lists the sites in use. It is called only if there are icons, and its error
// ends the sweep.
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

// Trim removes those that were stored longest ago if there are more than most.
func (s *Icons) Trim(most int) error {
	type stored struct {
		ref blobs.Ref
		age time.Duration
	}
	var all []stored
	if _, err := s.cache.sweep(func(ref blobs.Ref) (bool, error) {
		age, _ := s.cache.age(ref)
		all = append(all, stored{ref, age})
		return true, nil
	}); err != nil || len(all) <= most {
		return err
	}
	slices.SortFunc(all, func(a, b stored) int { return cmp.Compare(a.age, b.age) })
	old := map[blobs.Ref]bool{}
	for _, one := range all[most:] {
		old[one.ref] = true
	}
	_, err := s.cache.sweep(func(ref blobs.Ref) (bool, error) { return !old[ref], nil })
	return err
}
