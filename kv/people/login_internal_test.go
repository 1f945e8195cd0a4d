package people

import (
	"fmt"
	"testing"
	"time"

	"github.com/matryer/is"
)

// The vectors of RFC 6238, appendix B, for SHA-1. They have eight digits; the codes are
// their last six.
func TestOneTimeCodeVectors(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	secret := []byte("12345678901234567890")
	for _, row := range []struct {
		at   int64
		code string
	}{
		{59, "94287082"},
		{1111111109, "07081804"},
		{1111111111, "14050471"},
		{1234567890, "89005924"},
		{2000000000, "69279037"},
		{20000000000, "65353130"},
	} {
		at := time.Unix(row.at, 0)
		is.Equal(fmt.Sprintf("%08d", hotp(secret, timeStep(at))%100_000_000), row.code)
		is.Equal(OneTimeCode(secret, at), row.code[2:])
	}
}
