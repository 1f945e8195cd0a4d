package people

import (
	"kist/kv"
)

// The declarations below give external tests access to internals.

const (
	MaxDevices     = maxDevices
	MaxDevicesFrom = maxDevicesFrom
	MaxIdentities  = maxIdentities
	NetworkTime    = networkTime
)

var DeviceRows = deviceRows

// NotedUses is how many recorded uses of keys wait to be written.
func NotedUses(s *kv.Store) int {
	u := uses.Of(s)
	u.Lock()
	defer u.Unlock()
	return len(u.keys)
}

// AllKeys lists everyone's API keys.
func AllKeys(tx *kv.Tx) ([]Key, error) { return credentials(tx, nil, false) }

// Bounds of the places in memory.
const (
	MaxPlaces    = maxPlaces
	MaxNewPlaces = maxNewPlaces
)

// Places is how many places are in memory, and how many of them wait for the next flush.
func Places(s *kv.Store) (known, waiting int) {
	p := keyPlaces.Of(s)
	p.Lock()
	defer p.Unlock()
	return len(p.known), len(p.waiting)
}

// ForgetPlaces forgets the places in memory.
func ForgetPlaces(s *kv.Store) {
	p := keyPlaces.Of(s)
	p.Lock()
	defer p.Unlock()
	p.known = nil
}
