package httpapi

import (
	"testing"

	"github.com/matryer/is"
)

func TestNewer(t *testing.T) {
	is := is.New(t)
	for _, c := range []struct {
		version, than string
		newer         bool
	}{
		{"1.2.0", "1.1.9", true},
		{"1.10.0", "1.9.0", true},
		{"2.0", "1.9.9", true},
		{"1.2.0", "1.2.0", false},
		{"1.2.0", "1.2.0-rc.1", false},
		{"1.1.0", "1.2.0", false},
		{"1.0.0", "dev", true},
		{"dev", "1.0.0", false},
	} {
		is.Equal(newer(c.version, c.than), c.newer)
	}
}
