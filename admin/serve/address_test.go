package serve_test

import (
	"log/slog"
	"testing"

	"github.com/matryer/is"

	"kist/admin/exit"
	"kist/admin/serve"
)

func TestLocalAddress(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, c := range []struct {
		listen string
		secure bool
		want   string
	}{
		{"127.0.0.1:7080", false, "http://127.0.0.1:7080"},
		{"127.0.0.1:7080", true, "https://127.0.0.1:7080"},
		{":7080", false, "http://localhost:7080"},
		{"0.0.0.0:80", false, "http://localhost"},
		{"[::]:443", true, "https://localhost"},
		{"[::1]:443", true, "https://[::1]"},
		{"kist.lan:80", true, "https://kist.lan:80"},
	} {
		got, err := serve.LocalAddress(c.listen, c.secure)
		is.NoErr(err)
		is.Equal(got, c.want)
	}
	_, err := serve.LocalAddress("7080", false)
	is.True(err != nil)
}

func TestBase(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		address      serve.AddressFlags
		certificates serve.CertificateFlags
		want         string // "" for an error of usage
	}{
		"from the listener": {
			serve.AddressFlags{Listen: "0.0.0.0:7080"}, serve.CertificateFlags{}, "http://localhost:7080",
		},
		"with TLS": {
			serve.AddressFlags{Listen: ":443"}, serve.CertificateFlags{TLSCert: "c", TLSKey: "k"}, "https://localhost",
		},
		"from the first domain": {
			serve.AddressFlags{Listen: ":443"},
			serve.CertificateFlags{TLSDomain: []string{"kist.test", "b.test"}},
			"https://kist.test",
		},
		"a domain on a socket": {
			serve.AddressFlags{Listen: "unix:/run/kist"},
			serve.CertificateFlags{TLSDomain: []string{"kist.test"}},
			"https://kist.test",
		},
		"named": {
			serve.AddressFlags{Listen: "127.0.0.1:7080", BaseURL: "https://kist.test/sub//"},
			serve.CertificateFlags{},
			"https://kist.test/sub",
		},
		"named before the domain": {
			serve.AddressFlags{Listen: ":443", BaseURL: "https://kist.test:8443"},
			serve.CertificateFlags{TLSDomain: []string{"b.test"}},
			"https://kist.test:8443",
		},
		"named for a socket": {
			serve.AddressFlags{Listen: "unix:/run/kist", BaseURL: "http://kist.test"},
			serve.CertificateFlags{},
			"http://kist.test",
		},
		"a socket without a name": {serve.AddressFlags{Listen: "unix:/run/kist"}, serve.CertificateFlags{}, ""},
		"no port": {
			serve.AddressFlags{Listen: "127.0.0.1", BaseURL: "https://kist.test"}, serve.CertificateFlags{}, "",
		},
		"a query": {
			serve.AddressFlags{Listen: ":80", BaseURL: "https://kist.test?a"}, serve.CertificateFlags{}, "",
		},
		"a host with quotes": {
			serve.AddressFlags{Listen: ":80", BaseURL: `https://kist".test`}, serve.CertificateFlags{}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			got, err := row.address.Base(&row.certificates)
			is.Equal(got, row.want)
			if row.want == "" {
				is.Equal(exit.Code(err), 2)
			} else {
				is.NoErr(err)
			}
		})
	}
}

func TestCertificatesMisused(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string]serve.CertificateFlags{
		"a directory alone":       {ACMEDirectory: "https://ca.test"},
		"a key id alone":          {ACMEKeyID: "k"},
		"a certificate alone":     {TLSCert: "c"},
		"a key alone":             {TLSKey: "k"},
		"a certificate, too":      {TLSCert: "c", TLSKey: "k", TLSDomain: []string{"kist.test"}},
		"a host that is local":    {TLSDomain: []string{"localhost"}},
		"an address":              {TLSDomain: []string{"192.0.2.1"}},
		"a wildcard":              {TLSDomain: []string{"*.kist.test"}},
		"a directory without TLS": {TLSDomain: []string{"kist.test"}, ACMEDirectory: "http://ca.test"},
		"a key id without a key":  {TLSDomain: []string{"kist.test"}, ACMEKeyID: "k"},
		"a key that is no base64": {TLSDomain: []string{"kist.test"}, ACMEKeyID: "k", ACMEKey: "?"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			config, err := flags.Config(t.TempDir(), slog.New(slog.DiscardHandler))
			is.True(config == nil)
			is.Equal(exit.Code(err), 2)
		})
	}
	is := is.New(t)
	domain := serve.CertificateFlags{TLSDomain: []string{"kist.test", "Content.test"}}
	is.NoErr(domain.Cover("https://content.test"))
	is.Equal(exit.Code(domain.Cover("https://other.test")), 2)
	is.NoErr((&serve.CertificateFlags{}).Cover("https://other.test"))
}
