package admin_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs/s3/s3test"
)

// spare is a new place whose servers follow the object store at the URL.
func (p *place) spare(url string) *place {
	q := newPlace(p.t)
	for _, v := range p.env {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "KIST_STORE":
			v = "KIST_FOLLOW=" + kistStore
		case "KIST_STORE_ENDPOINT":
			v = name + "=" + url
		}
		q.env = append(q.env, v)
	}
	return q
}

// follow starts a standby and waits until it follows.
func (p *place) follow(args ...string) *server {
	p.t.Helper()
	s := p.start(args...)
	p.until("the standby follows", func() bool {
		select {
		case <-s.done:
			p.t.Fatalf("the standby has ended: %s", s.log)
		default:
		}
		return strings.Contains(s.log.String(), "following the object store") && strings.Contains(s.readiness(), "slot")
	})
	return s
}

// readiness is what the server says about it.
func (p *place) readiness() string {
	_, text := p.get("/readyz", "")
	return text
}

// note makes a note and returns the status and the answer; 0 if there was none.
func (p *place) note(key, text string) (int, string) {
	l := &load{addr: p.addr}
	status, b, err := l.call(&http.Client{Timeout: patience, CheckRedirect: stay}, "POST", "/api/v1/notes", map[string]string{"Content-Type": "application/json", "X-Api-Key": key}, []byte(`{"content":"`+text+`"}`))
	if err != nil {
		return 0, err.Error()
	}
	return status, string(b)
}

func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// caughtUp waits until a standby has everything that is in the object store.
func (p *place) caughtUp(store *s3test.Server) {
	p.t.Helper()
	p.until("the standby has everything", func() bool {
		text := p.readiness()
		all := slotsIn(p.t, store)
		var last uint64
		_, err := fmt.Sscanf(filepath.Base(all[len(all)-1]), "%x", &last)
		return err == nil && strings.Contains(text, fmt.Sprintf("slot %d\n", last)) && !strings.Contains(text, "fetching")
	})
}

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

// A standby has what the writer has, sends visitors there, changes nothing, and goes on
// where the writer ended, with files, index and counts.
func TestStandby(t *testing.T) {
	t.Parallel()
	needs(t, "object stores", "versitygw")
	for name, args := range map[string][]string{"files on demand": nil, "files ahead": {"--fetch-all"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			goOn(t, args)
		})
	}
}

func goOn(t *testing.T, args []string) {
	is := is.New(t)
	store := s3test.New(t)
	url := store.Start()
	p := storing(t, "", url)
	s := p.serve("--store-mode", "sync", "--metrics")
	key := s.inhabit()
	p.until("everything is in the object store", func() bool { return strings.Contains(s.log.String(), "everything is in the object store") })

	q := p.spare(store.Start())
	b := q.follow(args...)
	for _, size := range []int{1, 10 << 10, 3 << 20} { // while it follows
		content := make([]byte, size)
		_, _ = rand.Read(content)
		s.upload(key, fmt.Sprintf("%d.bin", size), string(content))
	}
	s.upload(key, "long.txt", strings.Repeat("words to find: gooseberry. ", 2000))
	want := s.everything(key)

	ask := func(method, path string) (int, http.Header, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+q.addr+path, http.NoBody)
		is.NoErr(err)
		res, err := (&http.Client{CheckRedirect: stay}).Do(req)
		is.NoErr(err)
		defer res.Body.Close()
		var text bytes.Buffer
		_, err = text.ReadFrom(res.Body)
		is.NoErr(err)
		return res.StatusCode, res.Header, text.String()
	}
	status, _, _ := ask("GET", "/healthz")
	is.Equal(status, http.StatusOK)
	status, _, text := ask("GET", "/readyz")
	is.Equal(status, http.StatusServiceUnavailable)
	is.True(strings.HasPrefix(text, "standby\nslot "))
	for _, method := range []string{"GET", "POST", "DELETE"} {
		status, header, _ := ask(method, "/x/a%2Fb?c=d%20e&f")
		is.Equal(status, http.StatusTemporaryRedirect)
		is.Equal(header.Get("Location"), "http://"+p.addr+"/x/a%2Fb?c=d%20e&f")
	}
	is.Equal(q.run("", "user", "list").code, 1)
	is.True(strings.Contains(q.run("", "user", "list").err, "is a standby"))
	is.True(strings.Contains(p.run("", "promote").err, "is not a standby"))

	q.caughtUp(store)
	files, err := filepath.Glob(q.data("blobs", "??", "*"))
	is.NoErr(err)
	is.Equal(len(files) == len(want)-9, args != nil)
	s.kill()
	is.True(strings.Contains(q.must("promote"), "http://"+q.addr))
	is.Equal(q.addr, b.addr)
	is.Equal(b.everything(key), want)
	is.Equal(strings.Count(b.log.String(), "the store was rebuilt"), 1) // when it was restored
	is.Equal(strings.Count(b.log.String(), "the search index was rebuilt"), 1)
	if strings.Contains(b.log.String(), "searches find it only by its name") {
		t.Fatal(b.log.String())
	}
	_, found := b.get("/api/v1/search?q=gooseberry", key)
	is.True(strings.Contains(found, "long.txt"))
	status, _ = q.note(key, "on the second machine")
	is.Equal(status, http.StatusCreated)
	_, err = os.Stat(q.data("STANDBY"))
	is.True(os.IsNotExist(err))
	b.stop()
	is.Equal(q.run("", "verify").code, 0)
	r := q.run("", "verify", kistStore, "--full")
	is.Equal(r.out+r.err, r.out)
	is.Equal(r.code, 0)

	b = q.serve() // as before: it is the writer
	is.True(strings.Contains(b.everything(key)["notes"], "on the second machine"))
	b.stop()

	// The first machine has nothing of its own, so it can be the next standby.
	p.env = p.spare(url).env
	a := p.follow()
	status, _ = q.note(key, "nobody is there")
	is.Equal(status, 0) // the control
	is.True(strings.Contains(p.must("promote"), "http://"+p.addr))
	is.True(strings.Contains(a.everything(key)["notes"], "on the second machine"))
	a.stop()
}

// However the writer is kept from noticing that it was taken over, nothing of it
// follows the fence, and its clients get 503.
func TestTakenOverWriter(t *testing.T) {
	t.Parallel()
	needs(t, "object stores", "versitygw")
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
				q := p.spare(gateway)
				second := q.follow()
				status, _ = p.note(key, "two")
				is.Equal(status, http.StatusCreated)
				first.shipped(key)
				if how == "stopped" {
					first.signal(syscall.SIGSTOP)
				} else {
					proxy.Set(s3test.Always(s3test.Cut))
				}
				is.True(strings.Contains(q.must("promote"), "has taken over"))
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
				is.True(fenced >= 3) // two fences and the note
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

// However often a standby is killed while it applies slots, it has what the writer has.
func TestKillStandby(t *testing.T) {
	t.Parallel()
	needs(t, "object stores", "versitygw")
	is := is.New(t)
	store := s3test.New(t)
	url := store.Start()
	p := storing(t, "", url)
	s := p.serve("--store-mode", "sync", "--metrics")
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "load")
	p.until("everything is in the object store", func() bool { return strings.Contains(s.log.String(), "everything is in the object store") })
	l := newLoad(t, p, key, 4)
	stop := l.run()
	q := p.spare(url)
	b := q.follow()
	for range times(6, 60) {
		l.untilDone(50)
		b.kill()
		b = q.follow()
	}
	l.untilDone(50)
	s.kill()
	stop()
	q.caughtUp(store)
	q.must("promote")
	l.addr = b.addr
	o := l.observe(b.addr)
	l.content(b.addr, o, mark{}, false)
	l.resolve(o)
	b.stop()
	is.Equal(q.run("", "verify").code, 0)
	is.Equal(q.run("", "verify", kistStore).code, 0)
}

// A limit of views holds across a takeover: in sync mode no view is counted twice and
// none is lost.
func TestLimitAcrossTakeover(t *testing.T) {
	t.Parallel()
	needs(t, "object stores", "versitygw")
	is := is.New(t)
	const limit = 120
	url := s3test.New(t).Start()
	p := storing(t, "", url)
	s := p.serve("--store-mode", "sync")
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "load")
	p.until("everything is in the object store", func() bool { return strings.Contains(s.log.String(), "everything is in the object store") })
	l := &load{addr: p.addr}
	status, body, err := l.call(http.DefaultClient, "POST", "/api/v1/notes", map[string]string{"Content-Type": "application/json", "X-Api-Key": key},
		fmt.Appendf(nil, `{"content":"counted","isPublic":true,"slug":"counted","maxViews":%d}`, limit))
	is.NoErr(err)
	is.Equal(status, http.StatusCreated)
	is.True(bytes.Contains(body, []byte("counted")))
	q := p.spare(url)
	q.follow("--store-mode", "sync")

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
	q.must("promote")
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

// A standby takes over when the writer is silent, and within two seconds more it has
// acknowledged a change.
func TestPromoteAfter(t *testing.T) { // beside nothing else: it measures time
	needs(t, "object stores", "versitygw")
	for _, mode := range []string{"async", "sync"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel() // they wait for most of the time
			is := is.New(t)
			url := s3test.New(t).Start()
			p := storing(t, "", url)
			s := p.serve("--store-mode", mode, "--store-max-lag", "2s", "--metrics")
			p.ann()
			key := p.must("key", "create", "--user", "ann", "--name", "load")
			status, _ := p.note(key, "one")
			is.Equal(status, http.StatusCreated)
			s.shipped(key)
			q := p.spare(url)
			b := q.follow("--promote-after", "3s", "--store-mode", mode, "--store-max-lag", "2s")
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for began := time.Now(); time.Since(began) < 6*time.Second; <-tick.C { // the control: the writer is idle, and not silent
				status, _ := q.note(key, "no")
				is.Equal(status, http.StatusTemporaryRedirect)
			}
			began := time.Now()
			s.kill()
			q.until("the standby stores a note", func() bool { status, _ := q.note(key, "two"); return status == http.StatusCreated })
			took := time.Since(began)
			t.Logf("%s from the kill to the first acknowledged change", took.Round(time.Millisecond))
			is.True(took < 5*time.Second)
			is.True(took > 2*time.Second) // the writer could have acknowledged until then
			b.stop()
		})
	}
}

// A time without the object store is no silence of the writer, which gets its time again.
func TestPromoteAfterOutage(t *testing.T) {
	t.Parallel()
	needs(t, "object stores", "versitygw")
	is := is.New(t)
	store := s3test.New(t)
	gateway := store.Start()
	p := storing(t, "", gateway)
	s := p.serve("--store-max-lag", "2s", "--metrics")
	key := s.inhabit()
	s.shipped(key)
	proxy := s3test.NewProxy(t, gateway)
	q := p.spare(proxy.URL)
	b := q.follow("--promote-after", "3s")
	q.caughtUp(store)
	proxy.Set(s3test.Always(s3test.Cut))
	s.kill()
	silent := regexp.MustCompile(`silent ([0-9.]+) s`)
	q.until("more than the time has passed", func() bool {
		_, text := q.get("/readyz", "")
		m := silent.FindStringSubmatch(text)
		if m == nil {
			return false
		}
		seconds, err := strconv.ParseFloat(m[1], 64)
		is.NoErr(err)
		return seconds > 4
	})
	began := time.Now()
	proxy.Set(nil)
	q.until("the standby stores a note", func() bool { status, _ := q.note(key, "two"); return status == http.StatusCreated })
	is.True(time.Since(began) > 3*time.Second)
	b.stop()
}

// What cannot be safe is refused, in one sentence.
func TestStandbyRefuses(t *testing.T) {
	t.Parallel()
	needs(t, "object stores", "versitygw")
	is := is.New(t)
	url := s3test.New(t).Start()
	p := storing(t, "", url)
	q := p.spare(url)
	for _, args := range [][]string{
		{"serve", "--store", kistStore},
		{"serve", "--promote-after", "1s"},
	} {
		is.Equal(q.run("", args...).code, 2)
	}
	is.Equal(p.run("", "serve", "--promote-after", "10s").code, 2)
	is.Equal(q.run("", "promote").code, 3)
	early := q.start() // the writer is not there yet
	q.until("it waits", func() bool { return strings.Contains(early.log.String(), "trying again") })

	s := p.serve("--metrics")
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "load")
	s.shipped(key)
	q.until("it follows", func() bool { return strings.Contains(early.log.String(), "following the object store") })
	health := q.run("", "doctor")
	is.True(strings.Contains(health.out, "a standby runs and follows "+kistStore))
	is.True(!strings.Contains(health.out, "does not answer"))
	early.stop()
	is.Equal(q.run("", "user", "list").code, 1)
	is.True(strings.Contains(q.run("", "user", "list").err, "kist promote"))
	r := q.run("", "serve", "--promote-after", "10s")
	is.Equal(r.code, 2)
	is.True(strings.Contains(r.err, "needs a writer with --store-max-lag"))
	s.stop()
	s = p.serve("--store-max-lag", "10s", "--metrics")
	r = q.run("", "serve", "--promote-after", "10s")
	is.Equal(r.code, 2)
	is.True(strings.Contains(r.err, "must be longer"))

	// A data directory with changes of its own is left alone.
	s.kill()
	own := p.spare(url)
	own.ann()
	r = own.run("", "serve")
	is.Equal(r.code, 1)
	is.True(strings.Contains(r.err, "give the standby an empty data directory"))
	is.True(strings.Contains(own.must("user", "list"), "ann"))

	// Offline, too, a standby can take over.
	is.True(strings.Contains(q.must("promote"), "has taken over"))
	old := p.start()
	is.True(old.end() != 0)
	is.True(strings.Contains(q.must("user", "list"), "ann"))
}

// A standby that the history does not continue, or whose data is damaged, says so and
// restores what the object store has.
func TestStandbyRestores(t *testing.T) {
	t.Parallel()
	needs(t, "object stores", "versitygw")
	for _, how := range []string{"forgotten", "damaged"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			store := s3test.New(t)
			url := store.Start()
			p := storing(t, "", url)
			s := p.serve("--metrics")
			key := s.inhabit()
			s.shipped(key)
			q := p.spare(url)
			b := q.follow()
			q.caughtUp(store)
			b.kill()
			s.stop()
			if how == "forgotten" { // as after a gap
				is.NoErr(os.RemoveAll(filepath.Join(store.Dir, s3test.BucketName, "kist")))
			} else {
				all, err := filepath.Glob(q.data("journal", "*"))
				is.NoErr(err)
				for _, name := range all {
					f, err := os.OpenFile(name, os.O_RDWR, 0)
					is.NoErr(err)
					_, err = f.WriteAt([]byte("damage"), 60)
					is.NoErr(errors.Join(err, f.Close()))
				}
			}
			s = p.serve("--metrics")
			status, _ := p.note(key, "later")
			is.Equal(status, http.StatusCreated)
			s.shipped(key)
			want := s.everything(key)
			b = q.follow()
			is.True(strings.Contains(b.log.String(), "restoring it from the newest snapshot"))
			s.kill()
			q.must("promote")
			is.Equal(b.everything(key), want)
			b.stop()
			is.Equal(q.run("", "verify").code, 0)
		})
	}
}

// A data directory that was used and has no journal, for example because its disk is
// not mounted, is left alone.
func TestStandbyWithoutJournal(t *testing.T) {
	t.Parallel()
	needs(t, "object stores", "versitygw")
	is := is.New(t)
	store := s3test.New(t)
	url := store.Start()
	p := storing(t, "", url)
	s := p.serve("--store-mode", "sync", "--metrics")
	key := s.inhabit()
	s.shipped(key)
	q, other := p.spare(url), p.spare(url)
	b := q.follow("--fetch-all")
	q.caughtUp(store)
	b.stop()
	last := other.follow()
	s.kill()
	other.must("promote")
	last.stop()
	p.env = q.env // the first server's directory, as a standby

	for name, p := range map[string]place{"a server's": *p, "a standby's": *q} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			p.t = t
			is.NoErr(os.Rename(p.data("journal"), p.path("aside")))
			refused := func() {
				t.Helper()
				before := p.everyFile()
				s := p.start()
				is.Equal(s.end(), 1)
				is.True(strings.Contains(s.log.String(), "journal/ is empty or missing"))
				is.Equal(p.everyFile(), before)
			}
			if name == "a server's" { // a standby makes it again: see below
				refused()
			}
			is.NoErr(os.Mkdir(p.data("journal"), 0o700))
			refused()
			is.NoErr(os.Remove(p.data("journal")))
			is.NoErr(os.Rename(p.path("aside"), p.data("journal"))) // the control
			p.follow().stop()
		})
	}

	// Files alone are no standby's either.
	alone := p.spare(url)
	is.NoErr(os.MkdirAll(alone.data(), 0o700))
	is.NoErr(os.CopyFS(alone.data("blobs"), os.DirFS(p.data("blobs"))))
	before := alone.everyFile()
	b = alone.start()
	is.Equal(b.end(), 1)
	is.True(strings.Contains(b.log.String(), "blobs/ has content"))
	is.Equal(alone.everyFile(), before)

	// A restore that was cut short left no journal. It is made again.
	is.NoErr(os.RemoveAll(q.data("journal")))
	is.NoErr(os.Remove(q.data("INSTANCE")))
	b = q.follow()
	is.True(strings.Contains(b.log.String(), "restored from the object store"))
	b.stop()

	// So is one into an empty journal, where nothing else was.
	fresh := p.spare(url)
	is.NoErr(os.MkdirAll(fresh.data("journal"), 0o700))
	fresh.follow().stop()
}

// everyFile describes the files of the data directory, but for those that a start
// changes in any case.
func (p *place) everyFile() string {
	p.t.Helper()
	var all strings.Builder
	if err := filepath.WalkDir(p.data(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || slices.Contains([]string{"LOCK", "CACHEDIR.TAG"}, e.Name()) {
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(&all, "%s %x\n", path, sha256.Sum256(b))
		return err
	}); err != nil {
		p.t.Fatal(err)
	}
	return all.String()
}

// A standby does not take over a store that lets several writers win, neither on its own
// nor on request. Both servers go on.
func TestStandbyOfInexactStore(t *testing.T) {
	t.Parallel()
	needs(t, "object stores", "versitygw")
	is := is.New(t)
	proxy := s3test.NewProxy(t, s3test.New(t).Start())
	proxy.Set(func(r *http.Request) s3test.Fault {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/race/") {
			return s3test.Lax
		}
		return s3test.None
	})
	p := storing(t, "", proxy.URL)
	s := p.serve("--store-max-lag", "5s", "--metrics")
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "load")
	is.True(strings.Contains(s.log.String(), "no other server can take over"))
	s.shipped(key)
	q := p.spare(proxy.URL)
	b := q.follow()
	const says = "The object store lets several writers win, so a standby cannot stop the writer."
	r := q.run("", "promote")
	is.Equal(r.code, 1)
	is.True(strings.Contains(r.err, says))
	status, _ := p.note(key, "one")
	is.Equal(status, http.StatusCreated)
	s.shipped(key)
	status, _ = q.note(key, "no")
	is.Equal(status, http.StatusTemporaryRedirect)
	b.stop()
	r = q.run("", "promote") // without a server
	is.Equal(r.code, 1)
	is.True(strings.Contains(r.err, says))
	r = q.run("", "serve", "--promote-after", "10s")
	is.Equal(r.code, 2)
	is.True(strings.Contains(r.err, "lets several writers win, so a standby cannot stop the writer; leave out --promote-after"))
	is.True(strings.Contains(p.must("verify", kistStore), "No problems"))

	proxy.Set(nil) // the control
	b = q.follow()
	is.True(strings.Contains(q.must("promote"), "has taken over"))
	is.True(strings.Contains(b.everything(key)["notes"], "one"))
	b.stop()
}

var uuidIn = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// A standby has figures under the rules of the writer: how far behind it is, whether it
// can read the object store, and its cache.
func TestStandbyMetrics(t *testing.T) {
	t.Parallel()
	needs(t, "object stores", "versitygw")
	is := is.New(t)
	store := s3test.New(t)
	gateway := store.Start()
	p := storing(t, "", gateway)
	s := p.serve("--metrics")
	key := s.inhabit()
	narrow := p.must("key", "create", "--user", "ann", "--name", "figures", "--scope", "upload")
	other := p.must("key", "create", "--user", "ann", "--name", "gone")
	s.shipped(key)
	proxy := s3test.NewProxy(t, gateway)
	q := p.spare(proxy.URL)
	b := q.follow()
	status, _, err := (&load{addr: q.addr}).call(&http.Client{CheckRedirect: stay}, "GET", "/metrics", map[string]string{"X-Api-Key": key}, nil)
	is.NoErr(err)
	is.Equal(status, http.StatusTemporaryRedirect) // off
	b.stop()

	b = q.follow("--metrics")
	q.caughtUp(store)
	figures := func() map[string]float64 {
		t.Helper()
		status, text := q.get("/metrics", narrow)
		is.Equal(status, http.StatusOK)
		all := map[string]float64{}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				all[name] = v
			}
		}
		return all
	}
	now := figures()
	is.True(now["kist_standby_lag_seconds"] < 60)
	for name, want := range map[string]float64{"standby_behind_commits": 0, "standby_errors": 0, "standby_failing": 0, "cache_misses": 0, "search_ready": 1} {
		got, there := now["kist_"+name]
		is.True(there)      // name
		is.Equal(got, want) // name
	}
	is.True(now["kist_process_open_fds"] > 0)
	_, there := now["kist_store_lag_seconds"]
	is.True(!there)
	slots := now["kist_standby_slots"]
	status, _ = p.note(key, "one")
	is.Equal(status, http.StatusCreated)
	q.until("it is applied", func() bool { return figures()["kist_standby_slots"] > slots })

	status, _ = q.get("/metrics", "")
	is.Equal(status, http.StatusUnauthorized)
	status, _ = q.get("/metrics", "kist_wrong")
	is.Equal(status, http.StatusUnauthorized)
	status, _ = q.get("/metrics", other)
	is.Equal(status, http.StatusOK)
	for line := range strings.Lines(p.must("key", "list")) {
		if strings.Contains(line, " gone ") {
			p.must("key", "revoke", uuidIn.FindString(line))
		}
	}
	q.until("the standby knows that the key was revoked", func() bool { status, _ = q.get("/metrics", other); return status == http.StatusUnauthorized })

	proxy.Set(s3test.Always(s3test.Cut))
	q.until("it is behind", func() bool {
		now := figures()
		return now["kist_standby_failing"] == 1 && now["kist_standby_errors"] > 0 && now["kist_standby_lag_seconds"] > 2
	})
	proxy.Set(nil)
	q.until("it goes on", func() bool {
		now := figures()
		return now["kist_standby_failing"] == 0 && now["kist_standby_lag_seconds"] < 2
	})
	q.must("promote")
	now = figures()
	_, there = now["kist_standby_slots"]
	is.True(!there)
	_, there = now["kist_store_lag_seconds"]
	is.True(there)
	b.stop()
}
