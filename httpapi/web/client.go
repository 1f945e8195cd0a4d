package web

import (
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
		hop := addrOf(strings.TrimSpace(hops[i]))
		if !hop.IsValid() {
			break // earlier entries cannot be trusted
		}
		addr = hop
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
			l.remote, l.addr = r.RemoteAddr, addrOf(r.RemoteAddr)
		}
		addr = l.addr
	} else {
		addr = addrOf(r.RemoteAddr)
	}
	return addr, len(s.TrustedProxies) > 0 && (!addr.IsValid() || s.Trusts(addr))
}

// addrOf reads an address, which may have a port: 192.0.2.1, 192.0.2.1:5000, 2001:db8::1, [2001:db8::1] or
// [2001:db8::1]:5000. An IPv4 address that is written as IPv6 is taken as the IPv4 address. For other texts it is the
// zero Addr.
func addrOf(text string) netip.Addr {
	withPort, err := netip.ParseAddrPort(text)
	addr := withPort.Addr()
	if err != nil {
		if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
			text = text[1 : len(text)-1]
		}
		addr, _ = netip.ParseAddr(text)
	}
	return addr.Unmap().WithZone("")
}

func (s *Site) Trusts(a netip.Addr) bool {
	return slices.ContainsFunc(s.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(a) })
}
