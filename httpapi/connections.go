package httpapi

import (
	"container/list"
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
	all    int
	from   map[netip.Prefix]int
	idle   list.List // of net.Conn, the one that has been idle for the longest time first
	idleAt map[net.Conn]*list.Element
}

// limitConnections is called when the state of a connection changes. It closes connections
// above the limits: a new one before anything is read from it.
func (s *Server) limitConnections(conn net.Conn, state http.ConnState) {
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
	if e := c.idleAt[conn]; e != nil {
		c.idle.Remove(e)
		delete(c.idleAt, conn)
	}
	switch state {
	case http.StateIdle:
		c.idleAt[conn] = c.idle.PushBack(conn)
	case http.StateClosed:
		c.all--
		if c.from[network]--; c.from[network] == 0 {
			delete(c.from, network)
		}
	case http.StateNew:
		c.all++
		c.from[network]++ // refused ones count too, until they are closed
		switch oldest := c.idle.Front(); {
		case network.IsValid() && c.from[network] > networkConnections, c.all > s.MaxConnections && oldest == nil:
			_ = conn.Close()
		case c.all > s.MaxConnections:
			_ = oldest.Value.(net.Conn).Close() // every value is a connection
			delete(c.idleAt, c.idle.Remove(oldest).(net.Conn))
		}
	}
}
