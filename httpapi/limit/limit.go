// Package limit counts what clients take of the server, so that a few of them cannot take
// everything that it has for all. It says who must wait and for how long; what a client is then
// told is decided where requests are answered. DESIGN.md of httpapi lists all limits.
package limit

import (
	"net/netip"
	"time"

	"kist/kv/people"
	"kist/kv/record"
)

// Limits are what one server has counted. The counts are lost when the process ends. Those of
// wrong passwords and codes are not: people.Tries keeps them.
type Limits struct {
	Opens     Rate[netip.Prefix] // views of items with a limit of views, because each is written to the disk at once
	Devices   Rate[netip.Prefix] // programs that ask to be connected
	Sent      Rate[netip.Prefix] // changes by strangers
	Changes   Rate[record.ID]    // changes by account
	TakenBack Rate[record.ID]    // MiB of files that senders have taken back, by upload link: they stay on the disk for a time
	Misses    Misses
	Memory    *Memory
}

// New makes limits with nothing counted. familiar reports whether somebody has signed in from a
// network before.
func New(familiar func(network netip.Prefix) bool) *Limits {
	return &Limits{
		Opens:     Rate[netip.Prefix]{Most: 60, Window: time.Minute},
		Devices:   Rate[netip.Prefix]{Most: 20, Window: people.DeviceTime},
		Sent:      Rate[netip.Prefix]{Most: 6_000, Window: time.Minute},
		Changes:   Rate[record.ID]{Most: 60_000, Window: time.Minute},
		TakenBack: Rate[record.ID]{Most: 2048, Window: 24 * time.Hour},
		Misses:    Misses{rate: Rate[netip.Prefix]{Most: MaxMisses, Window: MissWindow}},
		Memory:    newMemory(familiar),
	}
}
