package limit

import "net/netip"

// Network is what counts as one visitor: an IPv4 address, or a /64 of IPv6, the least that
// a household gets.
func Network(a netip.Addr) netip.Prefix {
	bits := 32
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits)
	return p
}
