package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"time"

	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv/people"
	"kist/kv/record"
)

// streams is the maximum number of requests at a time on a connection of HTTP/2.
const streams = 32

// limitConnections is called when the state of a connection changes. It closes connections
// above the limits.
func (s *Server) limitConnections(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		network := s.peerNetwork(conn)
		if !s.connections.Enter(conn, network, s.familiar(network), limit.Silent) {
			web.CloseAtOnce(conn)
		}
	case http.StateActive:
		s.connections.Set(conn, limit.Working)
	case http.StateIdle:
		s.connections.Set(conn, limit.Idle)
	case http.StateHijacked, http.StateClosed:
		s.connections.Leave(conn)
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
	if !s.requests.Enter(w, network, s.familiar(network), limit.Working) {
		return nil, errCrowded
	}
	return func() { s.requests.Leave(w) }, nil
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
