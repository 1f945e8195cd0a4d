package session

import (
	"net/url"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// Authenticator apps split the label at its first colon, compare the issuer with the parameter, and show a plus sign as
// it stands.
func TestCodesURI(t *testing.T) {
	for _, row := range []struct{ host, user, label string }{
		{"kist.example.org", "ann", "kist.example.org:ann"},
		{"localhost", "ann.b-c_d", "localhost:ann.b-c_d"},
		{"192.0.2.7", "ann", "192.0.2.7:ann"},
		{"::1", "ann", "Kist:ann"},
		{"2001:db8::1", "ann", "Kist:ann"},
	} {
		is := is.New(t)
		text := codesURI(row.host, row.user, "JBSWY3DPEHPK3PXP")
		u, err := url.Parse(text)
		is.NoErr(err)
		is.Equal(u.Scheme+"://"+u.Host, "otpauth://totp")
		is.Equal(u.Path, "/"+row.label)
		is.Equal(u.Query().Get("issuer"), strings.Split(row.label, ":")[0])
		is.Equal(u.Query().Get("secret"), "JBSWY3DPEHPK3PXP")
		is.True(!strings.Contains(text, "+"))
	}
}
