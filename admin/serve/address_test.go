package serve_test

import (
	"testing"

	"github.com/matryer/is"

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
