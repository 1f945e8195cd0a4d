package admin_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/matryer/is"

	"kist/blobs/s3/s3test"
	"kist/kv/kvtest/needs"
)

// onDisk returns how many files the data directory has and their bytes.
func (p *place) onDisk() (files int, size int64) {
	_ = filepath.WalkDir(p.data("blobs"), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				files, size = files+1, size+info.Size()
			}
		}
		return nil
	})
	return files, size
}

// put stores a file under a slug and returns its hash.
func (s *server) put(key, slug string, b []byte) [32]byte {
	s.t.Helper()
	up := &bytes.Buffer{}
	fmt.Fprintf(
		up,
		"--x\r\nContent-Disposition: form-data; name=\"slug\"\r\n\r\n%s\r\n--x\r\nContent-Disposition: form-data; "+
			"name=\"file\"; filename=\"%s.bin\"\r\n\r\n",
		slug, slug,
	)
	up.Write(b)
	up.WriteString("\r\n--x--\r\n")
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+s.addr+"/api/v1/upload", up)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusCreated {
		s.t.Fatal(res.Status, string(text))
	}
	return sha256.Sum256(b)
}

// hash downloads a file, or a range of it, and returns the hash of what came.
func (s *server) hash(key, slug, part string) (sum [32]byte, n int64) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.addr+"/x/"+slug, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	if part != "" {
		req.Header.Set("Range", part)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	h := sha256.New()
	n, err = io.Copy(h, res.Body)
	if err != nil || res.StatusCode >= 300 {
		s.t.Fatal(slug, res.Status, err)
	}
	return [32]byte(h.Sum(nil)), n
}

func noise(seed uint64, size int) []byte {
	b := make([]byte, size)
	c := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = c.Read(b) // never fails
	return b
}

// Files that do not fit on the disk are in the object store, and everything that reads
// files finds them there.
func TestCache(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	needs.Programs(t, "object stores", "versitygw")
	is := is.New(t)
	store := s3test.New(t)
	p := storing(t, "", store.Start())
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "test")
	const limit = 8 << 20
	s := p.serve("--cache-size", "8MiB", "--metrics")
	sizes := []int{3 << 20, 2 << 20, 10 << 20, 3 << 20, 1 << 20, 3 << 20, 100}
	sums := make([][32]byte, len(sizes))
	for i, size := range sizes {
		sums[i] = s.put(key, fmt.Sprint("file-", i), noise(uint64(i), size))
	}
	fits := func() bool { _, n := p.onDisk(); return n <= limit }
	p.until("what is too much is only in the object store", fits)
	check := func(s *server) {
		t.Helper()
		for i := range sizes {
			got, n := s.hash(key, fmt.Sprint("file-", i), "")
			is.Equal(n, int64(sizes[i]))
			is.Equal(got, sums[i]) // i
			p.until("it fits", fits)
		}
		b := noise(2, sizes[2])
		got, n := s.hash(key, "file-2", "bytes=9000000-9000999")
		is.Equal(n, int64(1000))
		is.Equal(got, sha256.Sum256(b[9000000:9001000]))
	}
	check(s)
	status, figures := s.get("/metrics", key)
	is.Equal(status, http.StatusOK)
	is.True(strings.Contains(figures, "kist_cache_misses ") && !strings.Contains(figures, "kist_cache_misses 0\n"))

	// Everything that reads files.
	r := p.run("", "verify")
	is.Equal(r.code, 0)
	is.True(strings.Contains(r.out, "are in the object store and not on this disk"))
	is.True(strings.Contains(p.must("backup", "copy"), "7 files, 7 of them"))
	is.True(strings.Contains(p.must("verify", "copy"), "No problems"))
	is.True(strings.Contains(p.must("backup", "copy.tar"), "7 files"))
	is.True(fits())

	// A damaged copy is fetched again.
	s.hash(key, "file-6", "")
	files, err := filepath.Glob(p.data("blobs", "??", fmt.Sprintf("%x", sums[6])))
	is.NoErr(err)
	is.Equal(len(files), 1)
	flip(t, files[0])
	is.Equal(p.run("", "verify").code, 4)
	p.until("it is right again", func() bool { return p.run("", "verify").code == 0 })

	s.kill()
	s = p.serve("--cache-size", "8MiB")
	check(s)

	// Without the object store, what is here can be read.
	s.stop()
	env := p.env
	p.env = nil
	r = p.run("", "verify")
	is.Equal(r.code, 4)
	is.True(strings.Contains(r.out, "run kist verify --store "+kistStore))
	for _, name := range []string{"journal", "blobs"} { // a copy of the data directory
		is.NoErr(os.CopyFS(p.path("plain", name), os.DirFS(p.data(name))))
	}
	of, err := os.ReadFile(p.data("STORE"))
	is.NoErr(err)
	is.NoErr(os.WriteFile(p.path("plain", "STORE"), of, 0o600))
	is.True(strings.Contains(p.run("", "verify", "plain").out, "run kist verify --data-dir plain --store "+kistStore))
	is.True(!strings.Contains(r.out, "File ")) // nothing is known to be missing
	r = p.run("", "backup", "partial")
	is.Equal(r.code, 4)
	is.True(strings.Contains(r.err, "run this command again with --store "+kistStore))
	is.True(!strings.Contains(r.out, "File "))
	is.True(strings.Contains(p.run("", "doctor").out, "not on this disk"))
	p.env = env

	// Another address would lose the files that are only at the first one.
	p.env = append(p.env, "KIST_STORE="+kistStore+"-other")
	other := p.start("--cache-size", "8MiB")
	is.True(other.end() != 0)
	is.True(strings.Contains(other.log.String(), "files that are only in "+kistStore))

	// Restoring fetches files when they are needed, or all now.
	q := newPlace(t)
	q.addr, q.env = p.addr, env
	is.True(strings.Contains(q.must("restore", kistStore), "still in the object store"))
	n, _ := q.onDisk()
	is.Equal(n, 0)
	check(q.serve("--take-over"))
	n, _ = q.onDisk()
	is.Equal(n, len(sizes))
	all := newPlace(t)
	all.env = env
	is.True(strings.Contains(all.must("restore", kistStore, "--fetch-all"), "7 files, 7 of them"))
	n, _ = all.onDisk()
	is.Equal(n, len(sizes))
	all.env = nil
	is.True(strings.Contains(all.must("verify"), "No problems"))
}

// While the object store fails in every way, a download is right, or visibly cut off, or
// answered with 503. Afterwards all work again.
func TestCacheFaults(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	needs.Programs(t, "object stores", "versitygw")
	is := is.New(t)
	proxy := s3test.NewProxy(t, s3test.New(t).Start())
	p := storing(t, "", proxy.URL)
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "test")
	s := p.serve("--cache-size", "12MiB", "--metrics")
	var contents [][]byte
	number := map[string]int{} // by the hash
	for i, size := range []int{3 << 20, 10 << 20, 3<<20 + 1, 20 << 20, 10<<20 + 1, 3<<20 + 2} {
		contents = append(contents, noise(uint64(i), size))
		number[fmt.Sprintf("%x", s.put(key, fmt.Sprint("file-", i), contents[i]))] = i
	}
	fits := func() bool { _, n := p.onDisk(); return n <= 12<<20 }
	p.until("what is too much is only in the object store", fits)

	whole, short := 0, 0
	// download reports whether all of a content came, from a byte on. What came is right.
	download := func(i, from int) bool {
		want := contents[i][from:]
		req, err := http.NewRequestWithContext(
			t.Context(), http.MethodGet, fmt.Sprintf("http://%s/x/file-%d", s.addr, i), http.NoBody,
		)
		is.NoErr(err)
		req.Header.Set("X-Api-Key", key)
		status := http.StatusOK
		if from > 0 {
			req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
			status = http.StatusPartialContent
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		if res.StatusCode == http.StatusServiceUnavailable {
			return false
		}
		is.Equal(res.StatusCode, status)
		got, err := io.ReadAll(res.Body)
		is.True(len(got) <= len(want) && bytes.Equal(got, want[:len(got)]))
		is.Equal(err == nil, len(got) == len(want))
		return err == nil
	}
	var mu sync.Mutex
	for round := range times(2, 30) {
		rnd := rand.New(rand.NewPCG(uint64(round), 7))
		faults := rnd.Perm(len(s3test.Faults))[:len(contents)]
		proxy.Set(func(r *http.Request) s3test.Fault {
			i, known := number[r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]]
			if !known || round%2 == 1 && rnd.IntN(2) == 0 {
				return s3test.None
			}
			return s3test.Faults[faults[i]]
		})
		var swift, slow sync.WaitGroup
		for i := range contents {
			visitors := &swift
			if s3test.Faults[faults[i]] == s3test.Stall { // until the next Set
				visitors = &slow
			}
			for _, from := range []int{0, 0, len(contents[i]) / 2} {
				visitors.Go(func() {
					all := download(i, from)
					mu.Lock()
					defer mu.Unlock()
					if all {
						whole++
					} else {
						short++
					}
				})
			}
		}
		swift.Wait()
		proxy.Set(nil)
		slow.Wait()
		for i := range contents {
			p.until("the download works again", func() bool { return download(i, 0) })
		}
		p.until("it fits", fits)
	}
	t.Logf("%d downloads were whole and %d were not", whole, short)
	is.True(whole > 0 && short > 0)
	s.stop()
	is.Equal(p.run("", "verify").code, 0)
}

// 1 GiB goes through a cache of 256 MiB in 96 MiB of memory.
func TestCacheMemory(t *testing.T) {
	if !*long {
		needs.LeaveOut(t, "a large cache", "no -long")
	}
	needs.Programs(t, "object stores", "versitygw")
	is := is.New(t)
	j := newSmall(t, 96<<20)
	from := storing(t, "", s3test.New(t).Start())
	j.env = append(j.env, from.env...)
	j.ann()
	key := j.must("key", "create", "--user", "ann", "--name", "test")
	s, end := j.served("--cache-size", "256MiB")
	s.awaits("it listens", func() bool {
		status, _, err := j.ask("/healthz")
		return err == nil && status == http.StatusOK
	})
	const count, size, limit = 32, 32 << 20, 256 << 20
	sums := make([][32]byte, count)
	for i := range sums {
		sums[i] = s.put(key, fmt.Sprint("file-", i), noise(uint64(i), size))
	}
	most := int64(0)
	s.awaits("what is too much is only in the object store", func() bool { _, n := j.onDisk(); return n <= limit })
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(2 * count) {
		got, n := s.hash(key, fmt.Sprint("file-", i%count), "")
		is.Equal(n, int64(size))
		is.Equal(got, sums[i%count])
		_, now := j.onDisk()
		most = max(most, now)
	}
	s.stop()
	j.holds("1 GiB through 256 MiB", end())
	t.Logf("at most %d MiB on the disk", most>>20)
	is.True(most <= limit)
	is.NoErr(os.RemoveAll(j.data()))
}

// Without an object store no goroutine of it runs, and the server connects to nobody. The
// control has one.
func TestNothingWithoutStore(t *testing.T) {
	t.Parallel()
	const what = "what runs without an object store"
	needs.Programs(t, what, "versitygw")
	needs.Programs(t, what, "strace")
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*place{"without": newPlace(t), "with": storing(t, "", s3test.New(t).Start())} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			p.t = t
			p.ann()
			key := p.must("key", "create", "--user", "ann", "--name", "test")
			p.within = func(cmd *exec.Cmd) { // -D: the server stays the child
				cmd.Args = append([]string{
					strace, "-D", "-f", "-e", "trace=connect", "-o", p.path("trace"), cmd.Path,
				}, cmd.Args[1:]...)
				cmd.Path = strace
			}
			s := p.start()
			p.until("the server listens", func() bool {
				if strings.Contains(s.log.String(), "ptrace") {
					needs.Lacks(t, what, "strace may not trace")
				}
				return s.listens()
			})
			sum := s.put(key, "file", noise(1, 1<<20))
			got, _ := s.hash(key, "file", "")
			is.Equal(got, sum)
			status, _ := p.note(key, "one")
			is.Equal(status, http.StatusCreated)
			s.signal(syscall.SIGQUIT) // which prints all goroutines
			s.end()
			traced, err := os.ReadFile(p.path("trace"))
			is.NoErr(err)
			for _, mark := range []string{"kist/kv/ship.", "blobs.(*cache)"} {
				is.Equal(strings.Contains(s.log.String(), mark), name == "with") // mark
			}
			is.True(strings.Contains(s.log.String(), "kist/kv.(*Store).commitLoop")) // the control
			is.Equal(strings.Contains(string(traced), "sa_family=AF_INET"), name == "with")
		})
	}
}
