package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"kist/kv/kvtest/needs"
)

const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// A target receives deliveries at several addresses, each of which fails in a
// way of its own, at the first try of some deliveries.
type target struct {
	t      *testing.T
	verify *standardwebhooks.Webhook
	addr   string
	server *http.Server

	mu    sync.Mutex
	tried map[string]bool             // address and delivery
	took  map[string]map[string][]int // by address and record, the numbers of what was taken, in order
}

// The addresses of a target, beside one whose answers do not end.
var faults = map[string]func(w http.ResponseWriter, r *http.Request){
	"fine":  nil,
	"fails": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
	"drops": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	"hangs": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	"redirects": func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/fine", http.StatusTemporaryRedirect)
	},
}

func newTarget(t *testing.T) *target {
	t.Helper()
	verify, err := standardwebhooks.NewWebhook(hookSecret)
	if err != nil {
		t.Fatal(err)
	}
	g := &target{t: t, verify: verify, addr: freeAddr(t), tried: map[string]bool{}, took: map[string]map[string][]int{}}
	g.live()
	t.Cleanup(g.die)
	return g
}

func (g *target) live() {
	g.t.Helper()
	l, err := net.Listen("tcp", g.addr)
	if err != nil {
		g.t.Fatal(err)
	}
	g.server = &http.Server{Handler: g}
	go func(s *http.Server) { _ = s.Serve(l) }(g.server)
}

func (g *target) die() { g.server.Close() }

func (g *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the server was killed
	}
	var m struct {
		ID, Event string
		Data      struct{ ID, Title string }
	}
	if err := g.verify.Verify(body, r.Header); err != nil {
		g.t.Errorf("%s: %v", r.Header.Get("webhook-id"), err)
	}
	if err := json.Unmarshal(body, &m); err != nil || m.ID != r.Header.Get("webhook-id") ||
		m.Event != r.Header.Get("x-kist-event") {
		g.t.Errorf("%s: %v", body, err)
	}
	n := 0
	if _, err := fmt.Sscan(m.Data.Title, &n); err != nil {
		g.t.Errorf("%q: %v", m.Data.Title, err)
	}
	at := strings.TrimPrefix(r.URL.Path, "/")
	g.mu.Lock()
	again := g.tried[at+m.ID]
	g.tried[at+m.ID] = true
	g.mu.Unlock()
	h := fnv.New32a()
	_, _ = io.WriteString(h, at+m.ID)
	rare := uint32(6)
	if at == "hangs" { // for ten seconds each
		rare = 24
	}
	if fault := faults[at]; fault != nil && !again && h.Sum32()%rare == 0 {
		fault(w, r)
		return
	}
	g.mu.Lock()
	of := g.took[at]
	if of == nil {
		of = map[string][]int{}
		g.took[at] = of
	}
	if all := of[m.Data.ID]; len(all) > 0 && n < all[len(all)-1] {
		g.t.Errorf("%s: of %s, %d comes after %v", at, m.Data.ID, n, all)
	}
	of[m.Data.ID] = append(of[m.Data.ID], n)
	g.mu.Unlock()
	if at == "endless" {
		for _, err := w.Write(make([]byte, 4096)); err == nil; {
			_, err = w.Write(make([]byte, 4096))
		}
	}
}

// has reports whether everything that was acknowledged has been taken at all
// addresses.
func (g *target) has(addresses []string, acked map[string][]int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, at := range addresses {
		for id, want := range acked {
			took := map[int]bool{}
			for _, n := range g.took[at][id] {
				took[n] = true
			}
			for _, n := range want {
				if !took[n] {
					return false
				}
			}
		}
	}
	return true
}

// change asks the server; it reports false when that did not answer.
func (p *place) change(key, method, path string, body any) (id string, ok bool) {
	text, err := json.Marshal(body)
	if err != nil {
		p.t.Error(err)
	}
	req, err := http.NewRequestWithContext(
		context.Background(), method, "http://"+p.addr+"/api/v1/"+path, bytes.NewReader(text),
	)
	if err != nil {
		p.t.Error(err)
		return "", false
	}
	req.Header.Set("X-Api-Key", key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", false
	}
	defer res.Body.Close()
	var v struct{ Data struct{ ID string } }
	if err := json.NewDecoder(res.Body).Decode(&v); err != nil {
		return "", false
	}
	if res.StatusCode >= 300 {
		p.t.Errorf("%s %s: %d", method, path, res.StatusCode)
	}
	return v.Data.ID, true
}

// TestWebhooksAcrossKills kills the server at random while records change, and
// a target that fails in every way dies and comes back. Every event of a change
// that was acknowledged arrives, those of one record in order, and verifies.
func TestWebhooksAcrossKills(t *testing.T) {
	needs.Time(t)
	is := is.New(t)
	t.Parallel()
	const writers, changes = 3, 3
	kills := times(6, 50)
	p := newPlace(t)
	p.env = append(p.env, "KIST_ALLOW_OUTBOUND=127.0.0.1")
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "k")
	g := newTarget(t)
	s := p.serve()
	addresses := []string{"endless"}
	for at := range faults {
		addresses = append(addresses, at)
	}
	for _, at := range addresses {
		_, ok := p.change(
			key, "POST", "integrations/webhooks",
			map[string]any{
				"url": "http://" + g.addr + "/" + at, "secret": hookSecret, "events": []string{"note.created", "note.updated"},
			},
		)
		is.True(ok)
	}

	var mu sync.Mutex
	acked := map[string][]int{}
	var written atomic.Int64
	for round := range kills {
		var work sync.WaitGroup
		dead := make(chan struct{})
		for range writers {
			work.Go(func() { // until the server is killed
				for {
					id := ""
					for n := 1; n <= changes; n++ {
						method, path := "POST", "notes"
						if n > 1 {
							method, path = "PATCH", "notes/"+id
						}
						got, ok := p.change(key, method, path, map[string]any{"content": "c", "title": fmt.Sprint(n)})
						if !ok {
							return
						}
						id = got
						mu.Lock()
						acked[id] = append(acked[id], n)
						mu.Unlock()
						written.Add(1)
					}
					select {
					case <-dead:
						return
					default:
					}
				}
			})
		}
		until := written.Load() + 3 + rand.Int64N(30)
		p.until("something is written", func() bool { return written.Load() >= until })
		if round == kills/2 {
			g.die()
		}
		s.kill()
		close(dead)
		work.Wait()
		s = p.serve()
		if round == kills/2 {
			g.live()
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for end := time.Now().Add(3 * time.Minute); !g.has(addresses, acked) && time.Now().Before(end); {
		<-time.After(50 * time.Millisecond)
	}
	is.True(g.has(addresses, acked))
	s.stop()
	t.Logf("%d changes of %d records", written.Load(), len(acked))
	p.must("verify")
}

// TestWebhooksOfCommands: what a command does is told as well, also what was
// done while no server ran, once one does.
func TestWebhooksOfCommands(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.env = append(p.env, "KIST_ALLOW_OUTBOUND=127.0.0.1")
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "k")
	told := make(chan string, 100)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct{ Data struct{ Title string } }
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		told <- r.Header.Get("x-kist-event") + " " + m.Data.Title
	}))
	t.Cleanup(target.Close)
	s := p.serve()
	_, ok := p.change(key, "POST", "integrations/webhooks", map[string]any{"url": target.URL})
	is.True(ok)
	bring := func(title string) {
		p.write("a.csv", "title,url\n"+title+",https://example.org/"+title+"\n")
		p.must("import", "a.csv", "--user", "ann", "--format", "pocket", "--dry-run")
		p.must("import", "a.csv", "--user", "ann", "--format", "pocket")
	}
	bring("live")
	is.Equal(<-told, "bookmark.created live")
	s.stop()
	bring("stopped")
	is.Equal(len(told), 0)
	p.serve()
	is.Equal(<-told, "bookmark.created stopped")
}
