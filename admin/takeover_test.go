package admin_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs/s3/s3test"
	"kist/kv/kvtest/needs"
)

// second is a new place with the variables of this one, but for the URL of the object store.
func (p *place) second(url string) *place {
	q := newPlace(p.t)
	q.env = append(slices.Clone(p.env), "KIST_STORE_ENDPOINT="+url)
	return q
}

// note makes a note and returns the status and the answer; 0 if there was none.
func (p *place) note(key, text string) (int, string) {
	l := &load{addr: p.addr}
	status, b, err := l.call(
		&http.Client{Timeout: patience, CheckRedirect: stay}, "POST", "/api/v1/notes",
		map[string]string{"Content-Type": "application/json", "X-Api-Key": key}, []byte(`{"content":"`+text+`"}`),
	)
	if err != nil {
		return 0, err.Error()
	}
	return status, string(b)
}

func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// slotsIn are the files of all slots.
func slotsIn(t *testing.T, store *s3test.Server) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(store.Dir, s3test.BucketName, "kist", "log", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// shipped waits until everything that the server has acknowledged is in the object store.
func (s *server) shipped(key string) {
	s.t.Helper()
	s.until("everything is in the object store", func() bool {
		_, figures := s.get("/metrics", key)
		return strings.Contains(figures, "\nkist_store_lag_commits 0\n")
	})
}

// However the writer is kept from noticing that it was taken over, nothing of it
// follows the fence, and its clients get 503.
func TestTakenOverWriter(t *testing.T) {
	t.Parallel()
	needs.Programs(t, "object stores", "versitygw")
	for _, mode := range []string{"async", "sync"} {
		for _, how := range []string{"stopped", "cut off"} {
			t.Run(mode+" "+how, func(t *testing.T) {
				t.Parallel()
				is := is.New(t)
				store := s3test.New(t)
				gateway := store.Start()
				proxy := s3test.NewProxy(t, gateway)
				p := storing(t, "", proxy.URL)
				first := p.serve("--store-mode", mode, "--metrics")
				p.ann()
				key := p.must("key", "create", "--user", "ann", "--name", "load")
				status, _ := p.note(key, "one")
				is.Equal(status, http.StatusCreated)
				first.shipped(key)
				if how == "stopped" {
					first.signal(syscall.SIGSTOP)
				} else {
					proxy.Set(s3test.Always(s3test.Cut))
				}
				q := p.second(gateway)
				q.takeOver()
				second := q.serve("--store-mode", mode)
				status, _ = q.note(key, "three")
				is.Equal(status, http.StatusCreated)
				q.until("the second one has shipped the note", func() bool {
					return slices.ContainsFunc(slotsIn(t, store), func(name string) bool { // an empty slot may follow
						text, err := os.ReadFile(name)
						return err == nil && bytes.Contains(text, []byte("three"))
					})
				})
				if how == "stopped" {
					first.signal(syscall.SIGCONT)
				} else {
					proxy.Set(nil)
				}
				p.until("the first one stores nothing", func() bool {
					status, text := p.note(key, "lost")
					is.True(mode == "async" || status != http.StatusCreated)
					return status == http.StatusServiceUnavailable && strings.Contains(text, "not_the_writer")
				})
				status, text := p.get("/readyz", "") // so that a load balancer leaves it
				is.Equal(status, http.StatusServiceUnavailable)
				is.True(strings.Contains(text, "Another server has taken over this data."))
				status, _ = p.get("/healthz", "")
				is.Equal(status, http.StatusOK)
				fenced := 0
				for _, name := range slotsIn(t, store) {
					text, err := os.ReadFile(name)
					is.NoErr(err)
					if fenced > 0 || bytes.Contains(text, []byte("http://"+q.addr)) {
						fenced++
						is.True(!bytes.Contains(text, []byte("http://"+p.addr)))
						is.True(!bytes.Contains(text, []byte("lost")))
					}
				}
				is.True(fenced >= 2) // the fence and the note
				want := second.everything(key)
				is.True(!strings.Contains(want["notes"], "lost"))
				second.stop()
				first.signal(os.Kill)
				first.end()
				r := p.fetched()
				r.env = append(r.env, "KIST_STORE=", "KIST_TAKE_OVER=", "KIST_STORE_ENDPOINT=")
				third := r.serve()
				is.Equal(third.everything(key), want)
				third.stop()
				is.Equal(r.run("", "verify").code, 0)
				is.Equal(q.run("", "verify", kistStore).code, 0)
			})
		}
	}
}

// A limit of views holds across a takeover: in sync mode no view is counted twice and
// none is lost.
func TestLimitAcrossTakeover(t *testing.T) {
	t.Parallel()
	needs.Programs(t, "object stores", "versitygw")
	is := is.New(t)
	const limit = 120
	url := s3test.New(t).Start()
	p := storing(t, "", url)
	s := p.serve("--store-mode", "sync")
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "load")
	p.until("everything is in the object store", func() bool {
		return strings.Contains(s.log.String(), "everything is in the object store")
	})
	l := &load{addr: p.addr}
	status, body, err := l.call(http.DefaultClient, "POST", "/api/v1/notes", map[string]string{
		"Content-Type": "application/json", "X-Api-Key": key,
	},
		fmt.Appendf(nil, `{"content":"counted","isPublic":true,"slug":"counted","maxViews":%d}`, limit))
	is.NoErr(err)
	is.Equal(status, http.StatusCreated)
	is.True(bytes.Contains(body, []byte("counted")))

	var delivered, unknown atomic.Int64
	var addr atomic.Pointer[string]
	addr.Store(&p.addr)
	done := make(chan struct{})
	var visitors sync.WaitGroup
	for range 8 {
		visitors.Go(func() {
			http := &http.Client{Timeout: 5 * time.Second, CheckRedirect: stay}
			for {
				select {
				case <-done:
					return
				default:
				}
				at := *addr.Load()
				status, text, err := (&load{addr: at}).call(http, "GET", "/x/counted", nil, nil)
				switch {
				case err != nil, status == 503:
					unknown.Add(1) // it may have been counted
					continue
				case status == 200 && string(text) == "counted":
					delivered.Add(1)
				case status == 404 || status == 410:
					return
				}
			}
		})
	}
	p.until("some have come", func() bool { return delivered.Load() >= limit/3 })
	s.signal(syscall.SIGSTOP)
	q := p.second(url)
	q.takeOver()
	q.serve("--store-mode", "sync")
	addr.Store(&q.addr)
	s.signal(syscall.SIGCONT)
	ended := make(chan struct{})
	go func() { visitors.Wait(); close(ended) }()
	p.until("all have come", func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	close(done)
	got := delivered.Load()
	t.Logf("%d of %d delivered, %d requests without an answer", got, limit, unknown.Load())
	is.True(got <= limit)
	is.True(got+unknown.Load() >= limit)
	is.True(got > limit/3)
}
