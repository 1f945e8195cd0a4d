package admin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// A sharedPlace is a collection of ann's of which bob is a member at times, with a note of bob's in it at times. It has
// one writer.
type sharedPlace struct {
	collection, note string

	mu     sync.Mutex
	states []string // what it was, the latest last: bob's role, and whether bob's note is in it
	known  int      // how many of them were acknowledged; the next may be there or not
}

// household are the people of a server and what they share.
type household struct {
	t        *testing.T
	ann, bob string // keys
	id       string // of bob
	places   []*sharedPlace
	done     atomic.Int64
}

// ask sends a request and returns the status and the answer; 0 if there was none.
func (h *household) ask(addr, key, method, path, body string) (int, []byte) {
	r, err := http.NewRequestWithContext(h.t.Context(), method, "http://"+addr+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		h.t.Error(err)
		return 0, nil
	}
	r.Header.Set("X-Api-Key", key)
	r.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		return 0, nil
	}
	return a.StatusCode, text
}

// made sends a request that creates something, and returns its id.
func (h *household) made(addr, key, path, body string) string {
	h.t.Helper()
	status, text := h.ask(addr, key, "POST", path, body)
	var a struct{ Data struct{ ID string } }
	if status != 201 || json.Unmarshal(text, &a) != nil {
		h.t.Fatalf("POST %s: %d %s", path, status, text)
	}
	return a.Data.ID
}

// newHousehold lets ann and bob be on a server, with a number of collections.
func newHousehold(t *testing.T, s *server, collections int) *household {
	t.Helper()
	h := &household{t: t, ann: s.must("key", "create", "--user", "ann", "--name", "one")}
	added := s.run("correct horse two\n", "user", "add", "bob", "--password-stdin")
	is.New(t).Equal(added.code, 0)
	h.bob = s.must("key", "create", "--user", "bob", "--name", "two")
	_, text := h.ask(s.addr, h.bob, "GET", "/me", "")
	var me struct{ Data struct{ ID string } }
	is.New(t).NoErr(json.Unmarshal(text, &me))
	h.id = me.Data.ID
	for n := range collections {
		x := &sharedPlace{
			collection: h.made(s.addr, h.ann, "/collections", fmt.Sprintf(`{"title":"board %d"}`, n)),
			note:       h.made(s.addr, h.bob, "/notes", fmt.Sprintf(`{"content":"of bob %d"}`, n)),
			states:     []string{"."}, known: 1,
		}
		h.places = append(h.places, x)
	}
	return h
}

// step changes one thing of a place; false if the server has not answered.
func (h *household) step(addr string, x *sharedPlace) bool {
	x.mu.Lock()
	role, in, _ := strings.Cut(x.states[len(x.states)-1], ".")
	x.mu.Unlock()
	at := "/collections/" + x.collection
	key, method, path, body := h.ann, "PUT", at+"/members/"+h.id, ""
	switch n := rand.IntN(6); {
	case n == 0 && role != "":
		method, role, in = "DELETE", "", "" // what bob put in leaves, too
		if rand.IntN(2) == 0 {
			key = h.bob
		}
	case n > 2 && in != "":
		key, method, path, body, in = h.bob, "POST", at+"/items", `{"remove":["`+x.note+`"]}`, ""
	case n > 2 && (role == "add" || role == "edit"):
		key, method, path, body, in = h.bob, "POST", at+"/items", `{"add":["`+x.note+`"]}`, "in"
	default:
		role = []string{"see", "add", "edit"}[rand.IntN(3)]
		body = `{"role":"` + role + `"}`
	}
	x.mu.Lock()
	x.states = append(x.states, role+"."+in)
	x.mu.Unlock()
	status, text := h.ask(addr, key, method, path, body)
	if status == 0 {
		return false
	}
	if status != 200 {
		h.t.Errorf("%s %s %s: %d %s", method, path, body, status, text)
		return false
	}
	x.mu.Lock()
	x.known = len(x.states)
	x.mu.Unlock()
	h.done.Add(1)
	return true
}

// run shares in all places until the server goes away or stop is called.
func (h *household) run(addr string) (stop func()) {
	var work sync.WaitGroup
	var ended atomic.Bool
	for _, x := range h.places {
		work.Go(func() {
			for !ended.Load() && h.step(addr, x) {
			}
		})
	}
	return func() {
		ended.Store(true)
		work.Wait()
	}
}

// untilDone waits for a number of changes.
func (h *household) untilDone(p *place, more int64) {
	to := h.done.Load() + more
	p.until("so much is shared", func() bool { return h.done.Load() >= to || h.t.Failed() })
}

// mark says how much of each place was acknowledged.
func (h *household) mark() (at []int) {
	for _, x := range h.places {
		x.mu.Lock()
		at = append(at, x.known)
		x.mu.Unlock()
	}
	return at
}

// check compares what both people see with the model: each place is as it was at the mark, or later. It returns what
// each place is.
func (h *household) check(addr string, from []int) (now []string) {
	h.t.Helper()
	for i, x := range h.places {
		status, text := h.ask(addr, h.ann, "GET", "/collections/"+x.collection, "")
		var c struct {
			Data struct{ Members []struct{ Role string } }
		}
		if status != 200 || json.Unmarshal(text, &c) != nil {
			h.t.Errorf("the collection %d is not there: %d %s", i, status, text)
			return nil
		}
		state := "."
		if len(c.Data.Members) > 0 {
			state = c.Data.Members[0].Role + "."
		}
		_, items := h.ask(addr, h.ann, "GET", "/collections/"+x.collection+"/items", "")
		if strings.Contains(string(items), x.note) {
			state += "in"
		}
		now = append(now, state)
		possible := x.states[from[i]-1:]
		found := false
		for _, s := range possible {
			found = found || s == state
		}
		if !found {
			h.t.Errorf("the collection %d is %q, which it was not: %q", i, state, possible)
		}

		// Everybody reaches what this says, and nothing else.
		want := map[bool]int{true: 200, false: 404}
		isMember, isIn := state[0] != '.', strings.HasSuffix(state, "in")
		for _, ask := range []struct {
			key, path string
			want      int
		}{
			{h.bob, "/collections/" + x.collection, want[isMember]},
			{h.bob, "/notes/" + x.note, 200},
			{h.ann, "/notes/" + x.note, want[isIn]},
		} {
			status, text := h.ask(addr, ask.key, "GET", ask.path, "")
			if status != ask.want {
				h.t.Errorf("%s answers %d, want %d, of %q: %s", ask.path, status, ask.want, state, text)
			}
		}
	}
	return now
}

// goOn makes what was seen after a kill the beginning of what follows.
func (h *household) goOn(now []string) {
	for i, x := range h.places {
		x.states, x.known = []string{now[i]}, 1
	}
}

// Whenever a server is killed while people share, leave, put in and take out, it has what it had acknowledged, and no
// half of anything.
func TestKillWhileSharing(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	p := newPlace(t)
	p.env = manyVisitors
	s := p.serve()
	p.ann()
	h := newHousehold(t, s, 6)
	for n := range times(8, 200) {
		stop := h.run(s.addr)
		h.untilDone(p, 20+rand.Int64N(100))
		s.kill()
		stop()
		s = p.serve()
		h.goOn(h.check(s.addr, h.mark()))
		if t.Failed() {
			t.Fatalf("after kill %d", n+1)
		}
	}
	s.stop()
	p.must("verify", p.data())
}

// A copy that is made while people share has everything that was acknowledged before, and no half of anything.
func TestCopyWhileSharing(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.env = manyVisitors
	s := p.serve()
	p.ann()
	h := newHousehold(t, s, 6)
	copies := map[string]func(to string){
		"backup": func(to string) { p.must("backup", to) },
	}
	for _, by := range copiers(t)[1:] {
		copies[by.name] = func(to string) { is.NoErr(by.copy(nil, s.data(), to)) }
	}
	n := 0
	for name, copyTo := range copies {
		stop := h.run(s.addr)
		h.untilDone(p, 100)
		from := h.mark()
		n++
		to := p.path(fmt.Sprintf("copy-%d", n))
		copyTo(to)
		stop()
		p.must("verify", to)
		at := to
		if name == "backup" {
			at = p.path("restored")
			p.must("restore", to, "--data-dir", at)
		}
		c := p.serveCopy(strings.TrimPrefix(at, p.path()+"/"))
		h.check(c.addr, from)
		c.stop()
		if t.Failed() {
			t.Fatalf("copy by %s", name)
		}
	}
	s.stop()
}
