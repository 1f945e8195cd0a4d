package people

import "kist/kv"

// What follows lets the tests outside of the package reach into it.

const (
	MaxDevices     = maxDevices
	MaxDevicesFrom = maxDevicesFrom
	NetworkTime    = networkTime
)

var DeviceRows = deviceRows

// NotedUses is how many uses of keys wait to be written.
func NotedUses(s *kv.Store) int {
	u := uses.Of(s)
	u.Lock()
	defer u.Unlock()
	return len(u.keys)
}
