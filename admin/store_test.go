package admin_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	bigendian "encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	mrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs/s3/s3test"
	"kist/kv"
	"kist/kv/kvtest/needs"
	"kist/kv/tables"
)

// storing is a place whose servers copy everything to the object store at the URLs.
func storing(t *testing.T, addr string, urls ...string) *place {
	t.Helper()
	p := newPlace(t)
	if addr != "" {
		p.addr = addr
	}
	p.env = append(append([]string{}, manyVisitors...), "KIST_STORE=s3://"+s3test.BucketName+"/kist", "KIST_STORE_ENDPOINT="+strings.Join(urls, ","),
		"KIST_STORE_KEY_ID="+s3test.KeyID, "KIST_STORE_SECRET="+s3test.Secret)
	return p
}

const kistStore = "s3://" + s3test.BucketName + "/kist"

// fetched is a new place that was restored from the object store.
func (p *place) fetched(args ...string) *place {
	p.t.Helper()
	q := newPlace(p.t)
	q.addr, q.env = p.addr, p.env
	q.takeOver(args...)
	return q
}

// takeOver restores from the object store. The next server takes over there.
func (p *place) takeOver(args ...string) {
	p.t.Helper()
	p.must(append([]string{"restore", kistStore}, args...)...)
	p.env = append(slices.Clone(p.env), "KIST_TAKE_OVER=true")
}

// What a machine had when it was lost is in the object store, files of all sizes
// included. The old machine does not come back as a writer.
func TestLostMachine(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	needs.Programs(t, "object stores", "versitygw")
	is := is.New(t)
	store := s3test.New(t)
	p := storing(t, "", store.Start(), store.Start())
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "load")
	s := p.serve("--store-mode", "sync")
	c := newLoad(t, p, key, 1).clients[0]
	c.load.addr = s.addr
	for _, size := range []int{1, 4 << 10, 100 << 10, 3 << 20, 66 << 20} {
		b := make([]byte, size)
		_, _ = rand.Read(b)
		p.until("the server takes a file", func() bool { return c.uploadContent(http.DefaultClient, b) })
	}
	want := s.everything(key)
	s.kill()

	r := p.run("", "verify", kistStore, "--full")
	is.Equal(r.code, 0)
	is.True(strings.Contains(r.out, "5 files") && strings.Contains(r.out, "5 of them read") &&
		strings.Contains(r.out, "No problems"))

	q := p.fetched()
	next := q.serve("--store-mode", "sync")
	is.Equal(next.everything(key), want)
	is.Equal(q.run("", "verify").code, 0)
	b := []byte("stored on the new machine")
	q.until("the server takes a file", func() bool {
		c.load.addr = next.addr
		return c.uploadContent(http.DefaultClient, b)
	})
	want = next.everything(key)
	next.kill()

	old := p.start()
	is.True(old.end() != 0)
	is.True(strings.Contains(old.log.String(), "has taken over"))
	third := p.fetched().serve() // the control: from what the second machine stored
	is.Equal(third.everything(key), want)
	third.stop()

	// Damage is found and named.
	files, err := filepath.Glob(filepath.Join(store.Dir, s3test.BucketName, "kist", "blobs", "*", "*"))
	is.NoErr(err)
	flip(t, files[0])
	is.NoErr(os.Remove(files[1]))
	slots, err := filepath.Glob(filepath.Join(store.Dir, s3test.BucketName, "kist", "log", "*"))
	is.NoErr(err)
	r = p.run("", "verify", kistStore, "--full")
	is.Equal(r.code, 4)
	is.True(strings.Contains(r.out, "are damaged") && strings.Contains(r.out, "are missing"))
	is.True(strings.Contains(r.err, "2 problems were found"))
	flip(t, slots[1])
	r = p.run("", "verify", kistStore)
	is.Equal(r.code, 4)
	is.True(strings.Contains(r.out+r.err, "log/"+filepath.Base(slots[1])))
}

// flip changes the last byte of a file.
func flip(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Whenever a server in sync mode is killed and its disk is lost, what it had
// acknowledged is in the object store.
func TestKillAndLoseDisk(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	needs.Programs(t, "object stores", "versitygw")
	is := is.New(t)
	store := s3test.New(t)
	p := storing(t, "", store.Start())
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "load")
	s := p.serve("--store-mode", "sync")
	p.until("everything is in the object store", func() bool {
		return strings.Contains(s.log.String(), "everything is in the object store")
	})
	l := newLoad(t, p, key, 4)
	for n := range times(4, 100) {
		stop := l.run()
		l.untilDone(mrand.Int64N(100))
		s.kill()
		stop()
		is.NoErr(os.RemoveAll(p.data()))
		p.takeOver()
		s = p.serve("--store-mode", "sync")
		o := l.observe(s.addr)
		l.content(s.addr, o, mark{}, false)
		l.resolve(o)
		l.forget(o)
		if t.Failed() {
			t.Fatalf("after kill %d", n+1)
		}
	}
	s.stop()
}

// A server in sync mode is killed before and after the object store takes a file or a
// slot. Whether its disk is lost or not, what it had acknowledged is there.
func TestKillAtEachStep(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	needs.Programs(t, "object stores", "versitygw")
	is := is.New(t)
	proxy := s3test.NewProxy(t, s3test.New(t).Start())
	p := storing(t, "", proxy.URL)
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "load")
	s := p.serve("--store-mode", "sync")
	p.until("everything is in the object store", func() bool {
		return strings.Contains(s.log.String(), "everything is in the object store")
	})
	l := newLoad(t, p, key, 4)
	for n := range times(4, 100) {
		part, before := []string{"/blobs/", "/log/"}[n/2%2], n%2 == 0
		reached, dead := make(chan struct{}), make(chan struct{})
		hit := sync.OnceFunc(func() { close(reached); <-dead })
		after := mrand.IntN(10)
		proxy.OnLost(hit)
		proxy.Set(func(r *http.Request) s3test.Fault {
			if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, part) {
				return s3test.None
			}
			after--
			if after >= 0 {
				return s3test.None
			}
			if before {
				hit()
				return s3test.Cut
			}
			return s3test.LoseAnswer
		})
		stop := l.run()
		select {
		case <-reached:
		case <-time.After(patience):
			t.Fatalf("no put of %s in round %d", part, n)
		}
		s.kill()
		close(dead)
		stop()
		proxy.Set(nil)
		if (n+n/4)%2 > 0 {
			is.NoErr(os.RemoveAll(p.data()))
			p.takeOver()
		}
		s = p.serve("--store-mode", "sync")
		// Until the store has a change of this start, it may lack some that were never acknowledged, but can be read here.
		p.until("the server stores", func() bool {
			return p.run("", "key", "create", "--user", "ann", "--name", "again").code == 0
		})
		o := l.observe(s.addr)
		l.content(s.addr, o, mark{}, false)
		l.resolve(o)
		l.forget(o)
		if t.Failed() {
			t.Fatalf("after kill %d", n+1)
		}
	}
	s.stop()
	is.True(strings.Contains(p.must("verify", kistStore, "--full"), "No problems"))
}

// Whatever the network does to a server that writes, the object store has a sound piece of
// the history at any time; in sync mode all that was acknowledged. When the network works
// again, it has everything.
func TestStoreFaults(t *testing.T) {
	t.Parallel()
	needs.Programs(t, "object stores", "versitygw")
	for _, mode := range []string{"async", "sync"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			gateway := s3test.New(t).Start()
			proxy := s3test.NewProxy(t, gateway)
			p := storing(t, "", proxy.URL)
			p.ann()
			key := p.must("key", "create", "--user", "ann", "--name", "load")
			s := p.serve("--store-mode", mode, "--metrics")
			p.until("everything is in the object store", func() bool {
				return strings.Contains(s.log.String(), "everything is in the object store")
			})
			direct := p.second(gateway)
			direct.env = append(direct.env, "KIST_STORE=")
			l := newLoad(t, p, key, 4)
			l.cutOff = mode == "sync"
			for _, i := range mrand.Perm(len(s3test.Faults))[:times(4, len(s3test.Faults))] {
				fault, hits := s3test.Faults[i], 0
				hit := make(chan struct{})
				proxy.Set(func(r *http.Request) s3test.Fault {
					hits++
					if hits == 4 {
						close(hit)
					}
					if fault == s3test.Stall && hits > 4 || mrand.IntN(3) == 0 {
						return s3test.None
					}
					return fault
				})
				stop := l.run()
				select {
				case <-hit:
				case <-time.After(patience):
					t.Fatal(fault.String() + ": no request")
				}
				r := direct.run("", "verify", kistStore, "--full")
				is.Equal(r.code, 0) // fault
				proxy.Set(nil)
				if mode == "async" {
					l.untilDone(20)
					stop()
				} else { // a change that waited too long was refused: its client has stopped
					stop()
					p.until("it stores again", func() bool {
						return p.run("", "key", "create", "--user", "ann", "--name", "again").code == 0
					})
					s.kill() // nothing waits here until all is there
					is.NoErr(os.RemoveAll(p.data()))
					p.takeOver()
					s = p.serve("--store-mode", mode, "--metrics")
				}
				o := l.observe(s.addr)
				l.content(s.addr, o, mark{}, false)
				l.resolve(o)
				l.forget(o)
				if t.Failed() {
					t.Fatal(fault)
				}
			}
			s.shipped(key)
			want := s.everything(key)
			s.kill()
			q := p.fetched().serve()
			is.Equal(q.everything(key), want)
			q.stop()
		})
	}
}

// Without the object store, a server in async mode goes on and one in sync mode
// stores nothing. When the store is back, both go on.
func TestStoreCutOff(t *testing.T) {
	t.Parallel()
	needs.Programs(t, "object stores", "versitygw")
	for _, mode := range []string{"async", "sync"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			proxy := s3test.NewProxy(t, s3test.New(t).Start())
			p := storing(t, "", proxy.URL)
			p.ann()
			key := p.must("key", "create", "--user", "ann", "--name", "load")
			admins := p.must("key", "create", "--user", "ann", "--name", "health", "--scope", "admin")
			proxy.Set(s3test.Always(s3test.Cut))
			s := p.serve("--store-mode", mode, "--metrics")
			c := newLoad(t, p, key, 1).clients[0]
			c.load.addr = s.addr
			status, _, err := c.load.call(
				http.DefaultClient, "POST", "/api/v1/notes",
				map[string]string{"Content-Type": "application/json", "X-Api-Key": key}, []byte(`{"content":"one"}`),
			)
			is.NoErr(err)
			is.Equal(status == http.StatusCreated, mode == "async")
			is.True(mode == "async" || status == http.StatusServiceUnavailable)
			is.True(strings.Contains(s.log.String(), "cannot write to the object store"))
			status, text := s.get("/readyz", "")
			is.Equal(status == http.StatusOK, mode == "async")
			is.Equal(strings.Contains(text, "cannot reach its object store"), mode == "sync")
			_, figures := s.get("/metrics", key)
			is.True(strings.Contains(figures, "\nkist_store_failing 1\n") && strings.Contains(figures, "\nkist_store_complete 0\n"))
			_, health := s.get("/api/v1/admin/health", admins)
			is.True(strings.Contains(health, `"complete":false`) && strings.Contains(
				health, `"problem":"the object store could not be reached`,
			))
			proxy.Set(nil)
			p.until("everything is in the object store", func() bool {
				return strings.Contains(s.log.String(), "everything is in the object store")
			})
			p.until("the server stores again", func() bool {
				status, _, err = c.load.call(
					http.DefaultClient, "POST", "/api/v1/notes",
					map[string]string{"Content-Type": "application/json", "X-Api-Key": key}, []byte(`{"content":"two"}`),
				)
				return err == nil && status == http.StatusCreated
			})
			p.until("the figures say so", func() bool {
				_, figures = s.get("/metrics", key)
				return strings.Contains(figures, "\nkist_store_failing 0\n") && strings.Contains(figures, "\nkist_store_complete 1\n") && strings.Contains(figures, "\nkist_store_lag_commits 0\n")
			})
			_, health = s.get("/api/v1/admin/health", admins)
			is.True(strings.Contains(
				health, `"store":{"lagSeconds":0,"lagCommits":0,"lastSlotAt":"20`,
			) && strings.Contains(health, `"complete":true,"exact":true,"problem":""`))
			want := s.everything(key)
			s.stop()
			q := p.fetched().serve()
			is.Equal(q.everything(key), want)
			q.stop()
		})
	}
}

// What is wrong with the object store is said in one sentence. A server in async mode
// goes on, and one in sync mode stores nothing.
func TestStoreSentences(t *testing.T) {
	t.Parallel()
	needs.Programs(t, "object stores", "versitygw")
	gateway := s3test.New(t).Start()
	for says, row := range map[string]struct {
		fault s3test.Fault
		env   string
		store string
	}{
		"the object store has no room (XMinioStorageFull)":                                                                       {fault: s3test.Full},
		"the object store refuses the request, because the clock of this machine and the store's differ too much; set the clock": {fault: s3test.Skewed},
		"the object store refuses these credentials (SignatureDoesNotMatch); check KIST_STORE_KEY_ID and " +
			"KIST_STORE_SECRET, and what they may do in bucket": {env: "KIST_STORE_SECRET=wrong"},
		"the object store has no bucket missing; make it first, or correct --store": {store: "s3://missing/kist"},
	} {
		for _, mode := range []string{"async", "sync"} {
			t.Run(mode+" "+says[:40], func(t *testing.T) {
				t.Parallel()
				is := is.New(t)
				proxy := s3test.NewProxy(t, gateway)
				proxy.Set(s3test.Always(row.fault))
				p := storing(t, "", proxy.URL)
				p.env = append(p.env, row.env)
				p.ann()
				key := p.must("key", "create", "--user", "ann", "--name", "load")
				args := []string{"--store-mode", mode}
				if row.store != "" {
					args = append(args, "--store", row.store)
				}
				s := p.serve(args...)
				status, _, err := (&load{addr: s.addr}).call(
					http.DefaultClient, "POST", "/api/v1/notes",
					map[string]string{"Content-Type": "application/json", "X-Api-Key": key}, []byte(`{"content":"one"}`),
				)
				is.NoErr(err)
				is.Equal(status, map[string]int{"async": http.StatusCreated, "sync": http.StatusServiceUnavailable}[mode])
				is.Equal(strings.Count(s.log.String(), says), 1)
				status, _ = s.get("/api/v1/notes", key)
				is.Equal(status, http.StatusOK) // it can be read
				s.kill()
			})
		}
	}
}

// Without the flag there is no trace of the object store; and what does not go
// together is refused.
func TestStoreFlags(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	s := p.serve()
	s.stop()
	_, err := os.Stat(filepath.Join(p.data(), "STORE"))
	is.True(errors.Is(err, fs.ErrNotExist))
	for _, args := range [][]string{
		{"serve", "--store-mode", "sync"},
		{"serve", "--store", "home"},
		{"serve", "--store", "s3://home", "--store-endpoint", "ftp://x"},
		{"serve", "--store", "s3://home", "--store-history", "59m"},
		{"restore", "s3://home", "--at", "yesterday"},
		{"restore", "backup", "--at", "2026-01-01T00:00:00Z"},
		{"restore", "s3://home", "--missing"},
	} {
		r := p.run("", args...)
		is.Equal(r.code, 2)
		is.Equal(strings.Count(r.err, "\n"), 1) // one sentence
	}
}

// Doctor says how far the server is with its object store, and what is wrong with the
// store.
func TestStoreDoctor(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	needs.Programs(t, "object stores", "versitygw")
	is := is.New(t)
	store := s3test.New(t)
	gateway := store.Start()
	proxy := s3test.NewProxy(t, gateway)
	p := storing(t, "", proxy.URL, gateway)
	p.ann()
	s := p.serve()
	p.until("everything is in the object store", func() bool {
		return strings.Contains(s.log.String(), "everything is in the object store")
	})
	r := p.run("", "doctor") // the address is in KIST_STORE
	for _, says := range []string{
		"ok       copying to the object store: a restore from " + kistStore + " gives everything", "; last write: 20", "takes 1 kB in", "it took 8.4 MB in",
		"its clock differs by less than a minute", "one wins, through 2 addresses",
	} {
		is.True(strings.Contains(r.out, says)) // says
	}
	names, err := filepath.Glob(filepath.Join(store.Dir, s3test.BucketName, "kist", "race", "*"))
	is.NoErr(err)
	is.Equal(len(names), 0) // nothing is left

	r = p.run("", "doctor", "--store", "s3://missing/kist")
	is.Equal(r.code, 4)
	is.True(strings.Contains(r.out, "problem  object store: s3://missing/kist: the object store has no bucket missing"))
	is.Equal(p.run("", "doctor", "--store", "missing").code, 2)
	s.stop()

	q := storing(t, "", proxy.URL)
	q.ann()
	s = q.serve("--store", kistStore+"2")
	q.until("everything is in the object store", func() bool {
		return strings.Contains(s.log.String(), "everything is in the object store")
	})
	proxy.Set(s3test.Always(s3test.Cut))
	q.must("key", "create", "--user", "ann", "--name", "laptop")
	q.until("the server has noticed", func() bool {
		r = q.run("", "doctor")
		return strings.Contains(r.out, "problem  copying to the object store")
	})
	is.Equal(r.code, 4)
	is.True(strings.Contains(r.out, "problem  copying to the object store: the object store could not be reached"))
	is.True(strings.Contains(r.out, "problem  object store: "+kistStore+": the object store could not be reached"))
	is.True(strings.Contains(
		r.out,
		"warning  object store: the server could not compare it with what should be there: the object store could not be reached",
	))
	proxy.Set(nil)
	s.stop()
}

// If something in the store is missing, a running server puts it there again when doctor asks.
// Without a server doctor says what a restore gives, and the restore says the same.
func TestStoreDamage(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	needs.Programs(t, "object stores", "versitygw")
	is := is.New(t)
	store := s3test.New(t)
	p := storing(t, "", store.Start())
	p.ann()
	s := p.serve("--store-mode", "sync")
	slots := func() []string {
		all, err := filepath.Glob(filepath.Join(store.Dir, s3test.BucketName, "kist", "log", "*"))
		is.NoErr(err)
		return all
	}
	keys := func() {
		for i := range 4 {
			p.must("key", "create", "--user", "ann", "--name", fmt.Sprint("key ", i))
		}
	}
	keys()
	is.NoErr(os.Remove(slots()[len(slots())-3]))
	r := p.run("", "doctor", "--store", kistStore)
	is.True(strings.Contains(r.out, "warning  object store: a restore gave everything up to 20"))
	is.True(strings.Contains(r.out, "ok       restore: a restore from "+kistStore+" gives everything up to 20"))
	is.True(strings.Contains(s.log.String(), "gives everything again"))

	keys()
	s.stop()
	for _, harm := range []string{
		"", slots()[len(slots())-3], filepath.Join(store.Dir, s3test.BucketName, "kist", "meta"),
	} {
		if harm != "" {
			is.NoErr(os.Remove(harm))
		}
		q := newPlace(t)
		q.addr, q.env = p.addr, p.env
		r, back := p.run("", "doctor", "--store", kistStore), q.run("", "restore", kistStore)
		if harm == "" {
			is.Equal(back.code, 0)
			is.True(strings.Contains(r.out, "ok       restore: a restore from "+kistStore+" gives everything up to 20"))
			continue
		}
		is.Equal(r.code, 4)
		is.Equal(back.code, 4)
		_, gives, _ := strings.Cut(back.err, " gives ")
		gives, _, _ = strings.Cut(gives, ". Before")
		is.True(strings.HasPrefix(gives, "everything up to 20") && strings.HasSuffix(
			gives, " is missing in the object store",
		))
		is.True(strings.Contains(r.out, "problem  restore: a restore from "+kistStore+" gives "+gives))
		is.Equal(q.run("", "verify").code, 0)
	}
}

// age makes a file of the object store, or a snapshot in it, as old as a time.
func age(t *testing.T, path string, to time.Time) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil && strings.HasPrefix(string(b), "kistsnap") { // its head has a time, and a sum of the bytes before
		bigendian.BigEndian.PutUint64(b[32:], uint64(to.UnixMilli()))
		bigendian.BigEndian.PutUint32(b[40:], crc32.Checksum(b[:40], crc32.MakeTable(crc32.Castagnoli)))
		err = os.WriteFile(path, b, 0o600)
	}
	err = errors.Join(err, os.Chtimes(path, to, to))
	if err != nil {
		t.Fatal(err)
	}
}

// The object store keeps what a moment of the last hour has needed in the last eight days, and
// nothing else.
func TestStoreHistory(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	needs.Programs(t, "object stores", "versitygw")
	is := is.New(t)
	store := s3test.New(t)
	p := storing(t, "", store.Start())
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "test")
	s := p.serve("--store-mode", "sync")
	gone, kept, both := bytes.Repeat([]byte("gone"), 25<<10), bytes.Repeat([]byte("kept"), 25<<10), bytes.Repeat([]byte("both"), 75<<10)
	there := func(b []byte) bool {
		sum := fmt.Sprintf("%x", sha256.Sum256(b))
		_, err := os.Stat(filepath.Join(store.Dir, s3test.BucketName, "kist", "blobs", sum[:2], sum))
		return err == nil
	}
	p.upload(key, "kept", string(kept))
	for _, b := range [][]byte{gone, both} {
		id := p.upload(key, "removed", string(b))
		status, _, err := (&load{addr: s.addr}).call(
			http.DefaultClient, http.MethodDelete, "/api/v1/files/"+id+"?permanent=true", map[string]string{"X-Api-Key": key},
			nil,
		)
		is.NoErr(err)
		is.Equal(status, http.StatusOK)
	}
	s.stop()
	p.must("gc", "--now")
	is.True(there(gone) && there(kept) && there(both))

	// Eight days and three hours pass, with a snapshot at their beginning and one in between.
	bucket := filepath.Join(store.Dir, s3test.BucketName, "kist")
	pass := func(at time.Time) { // what the store has got just now, it got then, and a snapshot
		data, err := kv.Open(p.data(), kv.Options{Schema: tables.All})
		is.NoErr(err)
		is.NoErr(data.Compact())
		is.NoErr(data.Close())
		snaps, err := filepath.Glob(p.data("journal", "snap-*"))
		is.NoErr(err)
		newest := snaps[len(snaps)-1]
		b, err := os.ReadFile(newest)
		is.NoErr(err)
		name := strings.TrimPrefix(filepath.Base(newest), "snap-")
		is.NoErr(os.WriteFile(filepath.Join(bucket, "snap", name), b, 0o600))
		is.NoErr(filepath.WalkDir(bucket, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			info, err := e.Info()
			if err == nil && time.Since(info.ModTime()) < time.Hour {
				age(t, path, at)
			}
			return err
		}))
	}
	old := time.Now().Add(-8*24*time.Hour - 3*time.Hour).Truncate(time.Second)
	pass(old)
	s = p.serve("--store-mode", "sync")
	p.upload(key, "later", "later")
	s.stop()
	pass(old.Add(4 * 24 * time.Hour))

	s = p.serve("--store-mode", "sync", "--store-history", "1h", "--metrics")
	p.upload(key, "again", string(both)) // while it may go
	want := s.everything(key)
	p.until("what is too old is gone", func() bool { return !there(gone) })
	is.True(there(kept) && there(both))
	snaps, err := filepath.Glob(filepath.Join(bucket, "snap", "*"))
	is.NoErr(err)
	is.Equal(len(snaps), 2)
	admins := p.must("key", "create", "--user", "ann", "--name", "health", "--scope", "admin")
	p.until("the oldest moment is known", func() bool {
		_, health := s.get("/api/v1/admin/health", admins)
		return strings.Contains(health, `"oldestAt":"20`)
	})
	_, figures := s.get("/metrics", key)
	is.True(strings.Contains(figures, "\nkist_store_removed ") && !strings.Contains(figures, "\nkist_store_removed 0\n"))
	s.stop()

	r := p.run("", "verify", kistStore, "--full")
	is.True(strings.Contains(r.out, "No problems"))
	q := newPlace(t)
	q.env = p.env
	r = q.run("", "restore", kistStore, "--at", old.Add(-time.Hour).UTC().Format(time.RFC3339))
	is.Equal(r.code, 1)
	is.True(strings.Contains(r.err, "the oldest moment that can be restored is "+old.UTC().Format(time.RFC3339)))
	q.must("restore", kistStore, "--at", old.Add(time.Hour).UTC().Format(time.RFC3339))
	last := p.fetched().serve()
	is.Equal(last.everything(key), want)
	last.stop()
}

// A gateway is killed while it handles a put of a server in sync mode. The server goes on
// with the other one, and what it had acknowledged is in the object store, also when the
// server is lost.
func TestKillGateway(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	needs.Programs(t, "object stores", "versitygw")
	is := is.New(t)
	store := s3test.New(t)
	p := storing(t, "")
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "load")
	var l *load
	for n := range times(3, 100) {
		gateways := []string{store.Start(), store.Start()}
		proxies := []*s3test.Proxy{s3test.NewProxy(t, gateways[0]), s3test.NewProxy(t, gateways[1])}
		for i, v := range p.env {
			if strings.HasPrefix(v, "KIST_STORE_ENDPOINT=") {
				p.env[i] = "KIST_STORE_ENDPOINT=" + proxies[0].URL + "," + proxies[1].URL
			}
		}
		if n > 0 {
			is.NoErr(os.RemoveAll(p.data()))
			p.takeOver()
		}
		s := p.serve("--store-mode", "sync")
		if n == 0 {
			p.until("everything is in the object store", func() bool {
				return strings.Contains(s.log.String(), "everything is in the object store")
			})
			l = newLoad(t, p, key, 4)
		} else {
			o := l.observe(s.addr)
			l.content(s.addr, o, mark{}, false)
			l.resolve(o)
			l.forget(o)
		}
		killed := make(chan struct{})
		var puts atomic.Int64
		at := 1 + mrand.Int64N(20)
		for i, proxy := range proxies { // the server uses one or the other
			proxy.Set(func(r *http.Request) s3test.Fault {
				if r.Method == http.MethodPut && puts.Add(1) == at {
					go func() { defer close(killed); store.KillAt(gateways[i]) }() // beside the put
				}
				return s3test.None
			})
		}
		stop := l.run()
		select {
		case <-killed:
		case <-time.After(patience):
			t.Fatal("no put")
		}
		l.untilDone(10 + mrand.Int64N(30)) // with the next gateway
		s.kill()
		stop()
		if t.Failed() {
			t.Fatalf("after gateway %d", n+1)
		}
		store.Kill() // the second one
	}
	p.env = append(p.env, "KIST_STORE_ENDPOINT="+store.Start())
	is.True(strings.Contains(p.must("verify", kistStore, "--full"), "No problems"))
}
