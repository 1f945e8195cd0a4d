package admin_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/admin/control"
)

// TestVersionEverywhere: a running server calls itself what kist version does.
func TestVersionEverywhere(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "all", "--scope", "admin")
	var made struct{ Version string }
	is.NoErr(json.Unmarshal([]byte(p.must("version", "--json")), &made))
	is.Equal(made.Version, "1.2.3-test")
	for path, want := range map[string]string{
		"/about":               ">Kist " + made.Version + "<",
		"/api/v1/openapi":      `"x-kist-version": "` + made.Version + `"`,
		"/api/v1/admin/health": `"version":"` + made.Version + `"`,
	} {
		status, body := p.get(path, key)
		is.Equal(status, 200)
		if !strings.Contains(body, want) {
			t.Errorf("%s has no %s", path, want)
		}
	}

	server, err := control.Running(t.Context(), p.data())
	is.NoErr(err)
	var about control.About
	is.NoErr(server.Call(t.Context(), "GET", "/about", control.Nothing{}, &about))
	is.NoErr(server.Close())
	is.Equal(about.Version, made.Version)
	s.stop()
}
