package limit

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// Slugs that people choose can be guessed; those that kist chooses have 58 bits. So a network
// may ask for MaxMisses slugs without a shared item in a MissWindow.
const (
	MaxMisses  = 60
	MissWindow = time.Minute

	recentMisses = 4096 // of all networks, that are remembered
)

// Misses counts the different slugs without a shared item that each network asks for. Asking
// for a slug again that was missed recently does not count. Requests at the same time may get
// a few more answers. All methods may be called at the same time.
type Misses struct {
	rate Rate[netip.Prefix]

	mu     sync.Mutex
	recent [recentMisses]uint64 // hashes of network and slug, each at a fixed place
}

// missSeed makes the hashes of misses unpredictable for visitors.
var missSeed = maphash.MakeSeed()

// missed is what is hashed of a miss.
type missed struct {
	from netip.Prefix
	slug string
}

// Wait is how long the network must wait before it may ask for another slug; 0 if it need not
// wait.
func (m *Misses) Wait(from netip.Prefix, now time.Time) time.Duration { return m.rate.Wait(from, now) }

// Count counts that the network has asked for a slug without a shared item.
func (m *Misses) Count(from netip.Prefix, slug string, now time.Time) {
	if m.isNew(from, slug) {
		m.rate.Take(from, 1, now)
	}
}

// isNew reports whether a miss is not remembered, and remembers it.
func (m *Misses) isNew(from netip.Prefix, slug string) bool {
	hash := maphash.Comparable(missSeed, missed{from, slug})
	m.mu.Lock()
	defer m.mu.Unlock()
	place := &m.recent[hash%recentMisses]
	if *place == hash {
		return false
	}
	*place = hash
	return true
}
