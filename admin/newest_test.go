package admin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// kist doctor asks for the newest version only if it is told to, and once.
func TestCheckUpdate(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(`{"version":"1.3.0","notes":"Breaking\nNothing"}`))
	}))
	defer s.Close()
	p.ann()
	p.run("", "doctor")
	is.Equal(asked.Load(), int64(0))
	r := p.run("", "doctor", "--check-update", s.URL+"/latest.json")
	is.Equal(asked.Load(), int64(1))
	is.True(strings.Contains(r.out, "version 1.3.0 is there; this is 1.2.3-test"))
	is.True(strings.Contains(r.out, "Nothing\n"))
	var all []struct{ What, State, Version, Notes string }
	is.NoErr(json.Unmarshal([]byte(p.run("", "doctor", "--json", "--check-update", s.URL).out), &all))
	last := all[len(all)-1]
	is.Equal(last, struct{ What, State, Version, Notes string }{"update", "warning", "1.3.0", "Breaking\nNothing"})
	is.Equal(p.run("", "doctor", "--check-update", "example.org").code, 2)
	s.Close()
	is.Equal(p.run("", "doctor", "--check-update", s.URL).code, 4)
}
