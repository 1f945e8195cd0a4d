package web

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Client is the address of the client: the connection's peer, or, behind trusted proxies,
// the last address in X-Forwarded-For that is not one of them. A peer without an address
// (a unix socket) counts as a trusted proxy if there are any.
func (s *Site) Client(r *http.Request) netip.Addr {
	addr, proxy := s.peer(r)
	if !proxy {
		return addr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break // earlier entries cannot be trusted
		}
		addr = hop.Unmap().WithZone("")
		if !s.Trusts(addr) {
			break
		}
	}
	return addr
}

// host is the host that the client asked for: the request's Host, or the last value of
// X-Forwarded-Host if a trusted proxy sets it.
func (s *Site) host(r *http.Request) string {
	if _, proxy := s.peer(r); proxy {
		if last := lastValue(r.Header, "X-Forwarded-Host"); last != "" {
			return last
		}
	}
	return r.Host
}

// peer is the address of the connection's other end. proxy says whether it is a trusted
// proxy.
func (s *Site) peer(r *http.Request) (addr netip.Addr, proxy bool) {
	if l := connectionOf(r); l != nil {
		if l.remote != r.RemoteAddr {
			l.remote, l.addr = r.RemoteAddr, parsePeer(r.RemoteAddr)
		}
		addr = l.addr
	} else {
		addr = parsePeer(r.RemoteAddr)
	}
	return addr, len(s.TrustedProxies) > 0 && (!addr.IsValid() || s.Trusts(addr))
}

func parsePeer(remote string) netip.Addr {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	addr, _ := netip.ParseAddr(host)
	return addr.Unmap().WithZone("")
}

func (s *Site) Trusts(a netip.Addr) bool {
	return slices.ContainsFunc(s.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(a) })
}
