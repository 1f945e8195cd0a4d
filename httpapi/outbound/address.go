package outbound

import (
	"net"
	"net/netip"
	"slices"
)

// reach says who may make the server connect to an address.
type reach int

const (
	nobody  reach = iota
	allowed       // anyone, if an administrator allows the address
	anyone
)

// metadata are the addresses where clouds give a machine its credentials, including those that are
// not link-local.
var metadata = prefixes(
	"fd00:ec2::254/128", "fd20:ce::254/128", "168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32", "169.254.0.0/16")

// Ranges of the registries of special-purpose addresses (RFC 6890 and IANA's
// lists after it).
var (
	private4 = prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15",
		"192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
	closed4   = prefixes("0.0.0.0/8", "192.0.0.0/24", "192.88.99.0/24", "224.0.0.0/4", "240.0.0.0/4")
	private6  = prefixes("fc00::/7", "fec0::/10", "2001:db8::/32", "3fff::/20")
	global6   = netip.MustParsePrefix("2000::/3")
	nat64     = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052: an IPv4 address is in the last four bytes
	tunnelled = prefixes("2002::/16", "2001::/23")    // 6to4; Teredo and other protocol assignments
)

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		all[i] = netip.MustParsePrefix(t)
	}
	return all
}

func within(a netip.Addr, all []netip.Prefix) bool {
	return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(a) })
}

// leadsTo is the IPv4 address embedded in an IPv6 address, otherwise the address itself.
func leadsTo(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

// lan is the length of the prefix of an IPv6 network (RFC 4291, section
// 2.5.4).
const lan = 64

// near checks a public address. It says whether it is one of the server's own, or in one of its IPv6
// networks: there is no NAT in front of those, and neighbours may trust the server.
func near(a netip.Addr, owned []net.Addr) (why string, r reach) {
	a = leadsTo(a)
	for _, o := range owned {
		p, err := netip.ParsePrefix(o.String())
		if err != nil {
			continue // not an IP address
		}
		switch mine := p.Addr().Unmap().WithZone(""); {
		case mine == a:
			return "is the server itself", allowed
		case mine.Is6() && a.Is6() && netip.PrefixFrom(mine, lan).Contains(a):
			return "is in the server's own network", allowed
		}
	}
	return "", anyone
}

// judge says who may reach an address, and the reason if not anyone. An IPv4 address embedded in an
// IPv6 address counts as the IPv4 address. If that is uncertain, nobody may.
func judge(a netip.Addr) (why string, r reach) {
	switch a = leadsTo(a); {
	case !a.IsValid():
		return "is not an address", nobody
	case a.IsUnspecified():
		return "is unspecified", nobody
	case a.IsMulticast():
		return "is for multicast", nobody
	case within(a, metadata):
		return "is where clouds keep their machines' credentials", nobody
	case a.IsLinkLocalUnicast():
		return "is link-local", nobody
	case a.IsLoopback():
		return "is the server itself", allowed
	case a.Is4() && within(a, closed4), a.Is6() && within(a, tunnelled):
		return "is not for public use", nobody
	case within(a, private4), within(a, private6):
		return "is private", allowed
	case a.Is6() && !global6.Contains(a):
		return "is not public", nobody
	}
	return "", anyone
}
