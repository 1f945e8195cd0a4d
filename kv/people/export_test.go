package people

import "kist/kv"

// The declarations below give external tests access to internals.

const (
	MaxDevices     = maxDevices
	MaxDevicesFrom = maxDevicesFrom
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
