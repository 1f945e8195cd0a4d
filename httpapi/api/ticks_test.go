package api_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/people"
)

// tick is the body of a tick.
func tick(line int, text string, done bool) map[string]any {
	return map[string]any{"line": line, "text": text, "done": done}
}

// noteOf makes a note and returns its address.
func noteOf(a *apitest.App, text string) string {
	a.Helper()
	return "/api/v1/notes/" + a.Post("/api/v1/notes", map[string]any{"title": "List", "content": text}).Want(201).Text("data.id")
}

// TestTicks: a tick answers as a change does, changes one byte, and writes nothing if the task is so already.
func TestTicks(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	note := noteOf(a, "# List\r\n- [ ] milk\r\n- [ ] salt\r\n")
	got := a.Post(note+"/ticks", tick(3, "salt", true)).Want(200)
	is.Equal(got.At("data"), a.Get(note).At("data"))
	is.Equal(got.Text("data.content"), "# List\r\n- [ ] milk\r\n- [x] salt\r\n")
	tag := got.Header.Get("Etag")
	again := a.Post(note+"/ticks", tick(3, "salt", true)).Want(200)
	is.Equal(again.Body, got.Body)
	is.Equal(again.Header.Get("Etag"), tag)
	is.Equal(a.Get(note+"/versions").At("total"), 1.0)
	a.Post("/api/v1/notes/"+got.Text("data.slug")+"/ticks", tick(9, "milk", true)).Want(200) // by slug
	is.Equal(a.Get(note).Text("data.content"), "# List\r\n- [x] milk\r\n- [x] salt\r\n")

	gone := a.Post(note+"/ticks", tick(2, "bread", true)).Want(409)
	is.Equal(gone.Code(), "changed_elsewhere")
	stale := a.Do(apitest.Request{
		Method: "POST", Path: note + "/ticks", JSON: tick(2, "milk", false), Header: apitest.WithHeader("If-Match", tag),
	}).Want(412)
	is.Equal(stale.Code(), "changed_elsewhere")
	for _, bad := range []string{
		`{}`, `{"line":1,"text":"milk"}`, `{"line":0,"text":"milk","done":true}`, `{"line":1,"text":"milk","done":null}`,
		`{"line":1,"text":null,"done":true}`, `{"line":"two","text":"milk","done":true}`,
	} {
		a.Post(note+"/ticks", bad).Want(422)
	}
	is.Equal(a.Get(note).Text("data.content"), "# List\r\n- [x] milk\r\n- [x] salt\r\n")

	a.As(a.AddKey(a.User, people.ScopeWrite)).Post(note+"/ticks", tick(2, "milk", false)).Want(200)
	a.As(a.AddKey(a.User, people.ScopeRead)).Post(note+"/ticks", tick(2, "milk", true)).Want(403)
	a.As(a.AddKey(a.AddUser("ben", people.Member), people.ScopeWrite)).Post(note+"/ticks", tick(2, "milk", true)).Want(404)
	a.Do(apitest.Request{Method: "POST", Path: note + "/ticks", JSON: tick(2, "milk", true), Anyone: true}).Want(401)
	is.Equal(a.Get(note).Text("data.content"), "# List\r\n- [ ] milk\r\n- [x] salt\r\n")
}

// TestTickVersions: ticks of an account within an hour are one version, from whichever device. Every other change is a
// version of its own, and so are ticks after it.
func TestTickVersions(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	note := noteOf(a, "- [ ] a\n- [ ] b")
	phone := a.As(a.AddKey(a.User, people.ScopeWrite))
	kept := func(want ...string) {
		t.Helper()
		list := a.Get(note + "/versions").Want(200)
		var all []string
		for _, id := range list.IDs() {
			all = append(all, strings.ReplaceAll(a.Get(note+"/versions/"+id).Want(200).Text("data.content"), "\n", ","))
		}
		is.Equal(all, want)
	}
	a.Post(note+"/ticks", tick(1, "a", true)).Want(200)
	a.Clock.Advance(50 * time.Minute)
	phone.Post(note+"/ticks", tick(2, "b", true)).Want(200)
	kept("- [ ] a,- [ ] b")
	a.Clock.Advance(20 * time.Minute)
	phone.Post(note+"/ticks", tick(2, "b", false)).Want(200)
	kept("- [x] a,- [x] b", "- [ ] a,- [ ] b")

	tag := a.Get(note).Header.Get("Etag")
	a.Do(apitest.Request{
		Method: "PATCH", Path: note, JSON: map[string]any{"content": "- [x] a\n- [ ] c"}, Header: apitest.WithHeader("If-Match", tag),
	}).Want(200)
	kept("- [x] a,- [ ] b", "- [x] a,- [x] b", "- [ ] a,- [ ] b")
	a.Post(note+"/ticks", tick(1, "a", false)).Want(200)
	phone.Post(note+"/ticks", tick(2, "c", true)).Want(200)
	kept("- [x] a,- [ ] c", "- [x] a,- [ ] b", "- [x] a,- [x] b", "- [ ] a,- [ ] b")
}

// TestTwoTick: two clients tick a list of 60 lines 500 times in random order. Both end with the same list, and no tick is
// lost.
func TestTwoTick(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	const lines, ticks = 60, 500
	var text strings.Builder
	for i := range lines {
		fmt.Fprintf(&text, "- [ ] thing %d\n", i)
	}
	note := noteOf(a, text.String())

	// Each line belongs to one of the two, so its last state is known.
	want := make([]bool, lines)
	var both sync.WaitGroup
	for client := range 2 {
		phone := a.As(a.AddKey(a.User, people.ScopeWrite, people.ScopeRead))
		order := rand.New(rand.NewPCG(uint64(client), 1))
		both.Go(func() {
			for range ticks / 2 {
				i := order.IntN(lines/2)*2 + client
				want[i] = !want[i]
				status := http.StatusServiceUnavailable
				for status == http.StatusServiceUnavailable && t.Context().Err() == nil { // a busy machine
					status = phone.Post(note+"/ticks", tick(i+1, fmt.Sprint("thing ", i), want[i])).Status
				}
				if status != http.StatusOK {
					t.Errorf("%d", status)
				}
			}
		})
	}
	both.Wait()
	got := a.Get(note).Text("data.content")
	for i, line := range strings.Split(strings.TrimSuffix(got, "\n"), "\n") {
		mark := map[bool]string{true: "x", false: " "}[want[i]]
		is.Equal(line, fmt.Sprintf("- [%s] thing %d", mark, i))
	}
	is.Equal(a.Get(note+"/versions").At("total"), 1.0)
}
