package limit

import (
	"net/netip"
	"testing"

	"github.com/matryer/is"
)

func TestNetwork(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(Network(netip.MustParseAddr("192.0.2.7")).String(), "192.0.2.7/32")
	is.Equal(Network(netip.MustParseAddr("2001:db8:1:2:3:4:5:6")).String(), "2001:db8:1:2::/64")
}
