package public

import (
	"net/netip"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/archive"
	"kist/kv/record"
)

// The largest zip, with the longest text, may be sent.
func TestLargestZip(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	_, err := archive.NewZips().Send(netip.Prefix{}, maxEntries*entryBytes+3*record.MaxContent)
	is.NoErr(err)
}
