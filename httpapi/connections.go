package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// MaxConnections is the default maximum number of connections. networkConnections is the
// maximum from one network: an IPv4 address or a /64 of IPv6. It does not apply to trusted
// proxies.
const (
	MaxConnections     = 2000
	networkConnections = 100
)

type connectionCounts struct {
	sync.Mutex
	all  int
	from map[netip.Prefix]int
}

// limitConnections is called when a connection opens or closes. It closes connections
// above the limits before anything is read from them.
func (s *Server) limitConnections(conn net.Conn, state http.ConnState) {
	if state != http.StateNew && state != http.StateClosed {
		return
	}
	var network netip.Prefix // stays zero for unix sockets and trusted proxies
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		if addr := tcp.AddrPort().Addr().Unmap().WithZone(""); !s.Trusts(addr) {
			bits := 32
			if addr.Is6() {
				bits = 64
			}
			network, _ = addr.Prefix(bits) // fails only for an invalid number of bits
		}
	}
	c := &s.connections
	c.Lock()
	defer c.Unlock()
	if state == http.StateClosed {
		c.all--
		if c.from[network]--; c.from[network] == 0 {
			delete(c.from, network)
		}
		return
	}
	c.all++
	c.from[network]++ // refused ones count too, until they are closed
	if c.all > s.MaxConnections || network.IsValid() && c.from[network] > networkConnections {
		_ = conn.Close()
	}
}
