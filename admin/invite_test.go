package admin_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// TestInvite: a link that a command prints makes an account, whether the server ran then or not.
func TestInvite(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "k", "--scope", "admin")
	p.send(http.MethodPost, "/api/v1/collections", key, "application/json", strings.NewReader(`{"title":"Holidays"}`))
	shared := p.firstOf("collections", key)
	running := p.must("user", "invite", "--collection", shared, "--role", "add", "--expires", "2d")
	s.stop()
	stopped := p.must("user", "invite", "--admin", "--base-url", "https://kist.example.org")
	is.True(strings.HasPrefix(stopped, "https://kist.example.org/join/"))
	p.serve()

	join := func(link, name string) map[string]any {
		t.Helper()
		_, token, _ := strings.Cut(link, "/join/")
		body, err := json.Marshal(map[string]string{"token": token, "username": name, "password": "correct horse"})
		is.NoErr(err)
		var made struct{ Data map[string]any }
		text := p.send(http.MethodPost, "/api/v1/auth/join", "", "application/json", strings.NewReader(string(body)))
		is.NoErr(json.Unmarshal([]byte(text), &made))
		return made.Data
	}
	is.Equal(join(running, "bob")["role"], "user")
	is.Equal(join(stopped, "cleo")["role"], "admin")
	members := p.answer("collections/"+shared, key).(map[string]any)["data"].(map[string]any)["members"].([]any)
	is.Equal(len(members), 1)
	is.Equal(members[0].(map[string]any)["role"], "add")
	p.must("verify")

	r := p.run("", "user", "invite")
	is.Equal(r.code, 2)
	is.True(strings.Contains(r.err, "--user NAME")) // there are two administrators now
	is.True(strings.Contains(p.must("user", "invite", "--user", "cleo"), "/join/"))
}
