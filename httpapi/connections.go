package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// MaxConnections is the default maximum number of connections. If there are more, the one that has
// been idle for the longest time is closed. networkConnections is the
// maximum from one network: an IPv4 address or a /64 of IPv6. It does not apply to trusted
// proxies.
const (
	MaxConnections     = 2000
	networkConnections = 100

	// streams is the maximum number of requests at a time on a connection of HTTP/2.
	streams = 32
)

type connectionCounts struct {
	sync.Mutex
	all  int
	from map[netip.Prefix]int
	idle map[net.Conn]uint64 // those that are idle, and in which order they became so
	last uint64
}

// limitConnections is called when the state of a connection changes. It closes connections
// above the limits: a new one before anything is read from it.
func (s *Server) limitConnections(conn net.Conn, state http.ConnState) {
	c := &s.connections
	c.Lock()
	defer c.Unlock()
	switch state {
	case http.StateIdle:
		c.last++
		c.idle[conn] = c.last
		return
	case http.StateActive, http.StateHijacked:
		delete(c.idle, conn)
		return
	}
	delete(c.idle, conn)
	network := s.networkOf(conn)
	if state == http.StateClosed {
		c.all--
		if c.from[network]--; c.from[network] == 0 {
			delete(c.from, network)
		}
		return
	}
	c.all++
	c.from[network]++ // refused ones count too, until they are closed
	if network.IsValid() && c.from[network] > networkConnections {
		_ = conn.Close()
	} else if c.all > s.MaxConnections {
		oldest := conn
		for idle, at := range c.idle {
			if oldest == conn || at < c.idle[oldest] {
				oldest = idle
			}
		}
		delete(c.idle, oldest)
		_ = oldest.Close()
	}
}

// networkOf is the network that a connection counts for. It is not valid for unix sockets and trusted proxies.
func (s *Server) networkOf(conn net.Conn) (network netip.Prefix) {
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		if addr := tcp.AddrPort().Addr().Unmap().WithZone(""); !s.Trusts(addr) {
			bits := 32
			if addr.Is6() {
				bits = 64
			}
			network, _ = addr.Prefix(bits) // the length is valid
		}
	}
	return network
}
