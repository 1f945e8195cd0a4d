package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// MaxConnections is how many connections the server has at once where the
// configuration does not say; networkConnections is how many of one network,
// an IPv4 address or a /64 of IPv6. Trusted proxies have no such limit.
const (
	MaxConnections     = 2000
	networkConnections = 100
)

// connectionCounts counts connections.
type connectionCounts struct {
	sync.Mutex
	all  int
	from map[netip.Prefix]int
}

// limitConnections is told of each connection as it comes and goes. What is one
// too many is closed before anything of it is read.
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
			network, _ = addr.Prefix(bits) // an address has so many
		}
	}
	c := &s.crowd
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
	c.from[network]++ // those that are refused too, until they are gone
	if c.all > s.MaxConnections || network.IsValid() && c.from[network] > networkConnections {
		_ = conn.Close()
	}
}
