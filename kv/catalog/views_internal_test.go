package catalog

import (
	"encoding/hex"
	"testing"

	"github.com/matryer/is"
)

// TestStoredViews pins the stored bytes of a counter.
func TestStoredViews(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(hex.EncodeToString(views{total: 0x1122, used: 3}.row()), "00000000000011220000000000000003")
}
