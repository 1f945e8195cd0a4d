package web

import (
	"net/http"
	"net/netip"
	"testing"
)

// TestClient: behind a trusted proxy, the client is the last address that is not a trusted proxy, in whatever form the
// proxies write it. Nobody who is trusted wrote what is before a text that is no address.
func TestClient(t *testing.T) {
	t.Parallel()
	s := &Site{Config: Config{TrustedProxies: []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"),
	}}}
	for _, tt := range []struct{ peer, forwarded, want string }{
		{"10.0.0.1:5000", "", "10.0.0.1"},
		{"10.0.0.1:5000", "192.0.2.7", "192.0.2.7"},
		{"10.0.0.1:5000", "192.0.2.7:5555", "192.0.2.7"},
		{"10.0.0.1:5000", "2001:db8::1", "2001:db8::1"},
		{"10.0.0.1:5000", "[2001:db8::1]", "2001:db8::1"},
		{"10.0.0.1:5000", "[2001:db8::1]:443", "2001:db8::1"},
		{"10.0.0.1:5000", "fe80::1%eth0", "fe80::1"},
		{"10.0.0.1:5000", "[fe80::1%eth0]:443", "fe80::1"},
		{"10.0.0.1:5000", "::ffff:192.0.2.7", "192.0.2.7"},
		{"10.0.0.1:5000", "[::ffff:192.0.2.7]", "192.0.2.7"},
		{"10.0.0.1:5000", "[::ffff:c000:207]:5555", "192.0.2.7"},
		{"10.0.0.1:5000", "192.0.2.8, 192.0.2.7:1 , 10.0.0.2:2,[fd00::1]:3", "192.0.2.7"},
		{"10.0.0.1:5000", "192.0.2.8, unknown, 10.0.0.2", "10.0.0.2"},
		{"10.0.0.1:5000", "192.0.2.8, 192.0.2.7:x", "10.0.0.1"},
		{"10.0.0.1:5000", "192.0.2.8, 192.0.2.7:", "10.0.0.1"},
		{"10.0.0.1:5000", "192.0.2.8, :80", "10.0.0.1"},
		{"10.0.0.1:5000", "192.0.2.8, [192.0.2.7", "10.0.0.1"},
		{"10.0.0.1:5000", "192.0.2.8, []", "10.0.0.1"},
		{"10.0.0.1:5000", "192.0.2.8,", "10.0.0.1"},
		{"[::ffff:10.0.0.1]:5000", "192.0.2.7", "192.0.2.7"},
		{"[fd00::2]:5000", "192.0.2.7:1", "192.0.2.7"},
		{"@", "192.0.2.7:1", "192.0.2.7"},
		{"192.0.2.9:5000", "192.0.2.7", "192.0.2.9"},
		{"[::ffff:192.0.2.9]:5000", "192.0.2.7", "192.0.2.9"},
	} {
		r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{"X-Forwarded-For": {tt.forwarded}}}
		if got := s.Client(r).String(); got != tt.want {
			t.Errorf("%s, %q: %s, not %s", tt.peer, tt.forwarded, got, tt.want)
		}
	}
}
