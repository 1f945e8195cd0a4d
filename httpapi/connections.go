package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv/people"
	"kist/kv/record"
)

// maxConnections is the default maximum number of connections. networkConnections is how
// many connections, and how many requests in progress, one network may have: an IPv4 address
// or a /64 of IPv6. Package limit says who gives way when there are too many.
const (
	maxConnections     = 2000
	networkConnections = 100

	// streams is the maximum number of requests at a time on a connection of HTTP/2.
	streams = 32
)

// crowd shares connections and requests in progress among networks. Connections count for
// their peers and requests for the clients whom trusted proxies name, so that one client
// behind a proxy cannot take everything either.
type crowd struct {
	connections struct {
		sync.Mutex
		limit.Places[net.Conn]
	}
	requests struct {
		sync.Mutex
		limit.Places[*web.AnswerWriter]
	}
}

// limitTo sets the number of connections. Some are left without a request, so that a newcomer
// behind a proxy finds a connection that may be closed.
func (c *crowd) limitTo(connections int) {
	c.connections.Places = limit.Places[net.Conn]{All: connections, Each: networkConnections}
	c.requests.Places = limit.Places[*web.AnswerWriter]{All: connections - connections/10, Each: networkConnections}
}

// limitConnections is called when the state of a connection changes. It closes connections
// above the limits.
func (s *Server) limitConnections(conn net.Conn, state http.ConnState) {
	var network netip.Prefix
	known := false
	if state == http.StateNew {
		network = s.peerNetwork(conn)
		known = s.familiar(network)
	}

	c := &s.crowd.connections
	c.Lock()
	defer c.Unlock()
	switch state {
	case http.StateNew:
		if loser, full := c.Enter(conn, network, known, limit.Silent); full {
			web.CloseAtOnce(loser)
		}
	case http.StateActive:
		c.Set(conn, limit.Working)
	case http.StateIdle:
		c.Set(conn, limit.Idle)
	case http.StateHijacked, http.StateClosed:
		c.Leave(conn)
	}
}

// admit makes room for a request. Its place lasts until release is called, which must be
// before the handler returns. If the request's network has too many already, the request is
// refused. If there are too many in all, one of the network that has most is cut off.
//
// A client without a proxy that uses HTTP/1 has one request at a time on each of its connections,
// which have places already.
func (s *Server) admit(w *web.AnswerWriter, r *http.Request) (release func(), err error) {
	network := s.clientNetwork(w.Addr)
	if !network.IsValid() || r.ProtoMajor == 1 && !s.ByProxy(r) {
		return func() {}, nil
	}
	known := s.familiar(network)

	c := &s.crowd.requests
	c.Lock()
	defer c.Unlock()
	loser, full := c.Enter(w, network, known, limit.Working)
	if full && loser == w {
		return nil, errCrowded
	}
	if full {
		loser.Cut()
	}
	return func() {
		c.Lock()
		defer c.Unlock()
		c.Leave(w)
	}, nil
}

// errCrowded refuses a request while others of its network are in progress.
var errCrowded = &record.Error{
	Fault: record.TooMany, Code: "too_many_requests", Retry: time.Second,
	Text: "Too many requests from your network are in progress. Try again in a moment.",
}

// familiar reports whether somebody has signed in from the network before.
func (s *Server) familiar(network netip.Prefix) bool {
	return network.IsValid() && people.TriesOf(s.Store).Familiar(network.String(), s.Store.Now())
}

// peerNetwork is the network that a connection counts for. It is not valid for unix sockets
// and trusted proxies.
func (s *Server) peerNetwork(conn net.Conn) netip.Prefix {
	tcp, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	return s.clientNetwork(tcp.AddrPort().Addr().Unmap().WithZone(""))
}

// clientNetwork is the network that a client counts for. It is not valid for clients without an
// address and for trusted proxies, which have many clients.
func (s *Server) clientNetwork(addr netip.Addr) netip.Prefix {
	if !addr.IsValid() || s.Trusts(addr) {
		return netip.Prefix{}
	}
	return limit.Network(addr)
}
