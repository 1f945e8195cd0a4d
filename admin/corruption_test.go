package admin_test

import (
	"bytes"
	"crypto/sha256"
	big "encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/journal"
	"kist/kv/kvtest/needs"
)

// A damage changes what stands at a path. rnd decides where.
type damage struct {
	name string
	do   func(path string, b []byte, rnd *rand.Rand) error
}

// edit is a damage that keeps a regular file with other bytes.
func edit(name string, do func(b []byte, rnd *rand.Rand) []byte) damage {
	return damage{name, func(path string, b []byte, rnd *rand.Rand) error {
		return os.WriteFile(path, do(slices.Clone(b), rnd), 0o600)
	}}
}

// garble fills b with bytes at random.
func garble(b []byte, rnd *rand.Rand) {
	var seed [32]byte
	big.LittleEndian.PutUint64(seed[:], rnd.Uint64())
	_, _ = rand.NewChaCha8(seed).Read(b) // it never fails
}

// someBlock is a block of up to 4096 bytes that begins on a sector.
func someBlock(b []byte, rnd *rand.Rand) []byte {
	at := rnd.IntN(len(b)+1) &^ 511
	return b[at:min(len(b), at+4096)]
}

var damages = []damage{
	{"removed", func(path string, _ []byte, _ *rand.Rand) error { return os.Remove(path) }},
	{"replaced by a folder", func(path string, _ []byte, _ *rand.Rand) error {
		if err := os.Remove(path); err != nil {
			return err
		}
		return os.Mkdir(path, 0o700)
	}},
	{"replaced by a link", func(path string, b []byte, _ *rand.Rand) error {
		aside := path + ".elsewhere"
		if err := os.WriteFile(aside, b, 0o600); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
		return os.Symlink(aside, path)
	}},
	edit("emptied", func([]byte, *rand.Rand) []byte { return nil }),
	edit("cut", func(b []byte, rnd *rand.Rand) []byte { return b[:rnd.IntN(max(1, len(b)))] }),
	edit("cut by a byte", func(b []byte, _ *rand.Rand) []byte { return b[:max(0, len(b)-1)] }),
	edit("cut at the front", func(b []byte, rnd *rand.Rand) []byte { return b[rnd.IntN(max(1, min(len(b), 512))):] }),
	edit("flipped in one bit", func(b []byte, rnd *rand.Rand) []byte {
		if len(b) > 0 {
			b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
		}
		return b
	}),
	edit("flipped in its head", func(b []byte, rnd *rand.Rand) []byte {
		if len(b) > 0 {
			b[rnd.IntN(min(len(b), 44))] ^= 1 << rnd.IntN(8)
		}
		return b
	}),
	edit("zeroed in a block", func(b []byte, rnd *rand.Rand) []byte { clear(someBlock(b, rnd)); return b }),
	edit("zeroed", func(b []byte, _ *rand.Rand) []byte { clear(b); return b }),
	edit("garbled", func(b []byte, rnd *rand.Rand) []byte { garble(b, rnd); return b }),
	edit("given a block twice", func(b []byte, rnd *rand.Rand) []byte {
		copy(someBlock(b, rnd), someBlock(b, rnd))
		return b
	}),
	edit("given a byte more", func(b []byte, rnd *rand.Rand) []byte { return slices.Insert(b, rnd.IntN(len(b)+1), 'x') }),
	edit("made longer", func(b []byte, _ *rand.Rand) []byte { return append(b, "what should not be here"...) }),
}

// kept is a thing that was acknowledged and must not be lost.
type kept struct {
	path   string // where its content is read
	sum    [32]byte
	blob   string // of a file: the name of its content
	record []byte // what the newest log had of it; nil if an older one has
}

// ruin is a data directory to damage copies of.
type ruin struct {
	*place
	key  string
	kept []kept
}

// newRuin makes a data directory of three generations, in which every kind of
// file is there.
func newRuin(t *testing.T) *ruin {
	t.Helper()
	is := is.New(t)
	r := &ruin{place: newPlace(t)}
	s := r.serve()
	r.ann()
	r.key = r.must("key", "create", "--user", "ann", "--name", "suite", "--scope", "admin,all")
	rnd := rand.New(rand.NewPCG(1, 2))
	var log string
	for generation := range 3 {
		for n := range 6 {
			name, from := newest(t, r.place)
			log = name
			var k kept
			if n%2 == 0 {
				text := fmt.Sprintf("Note %d of %d. %s", n, generation, strings.Repeat("text ", rnd.IntN(400)))
				b, err := json.Marshal(map[string]any{"title": fmt.Sprint("note ", generation, n), "content": text})
				is.NoErr(err)
				status, answer := r.post("/api/v1/notes", "application/json", bytes.NewReader(b))
				is.Equal(status, 201)
				var made struct{ Data struct{ Slug string } }
				is.NoErr(json.Unmarshal(answer, &made))
				k = kept{path: "/x/" + made.Data.Slug, sum: sha256.Sum256([]byte(text))}
			} else {
				b := make([]byte, [...]int{700, 90 << 10, 1 << 20, 90 << 10, 1 << 20, 700, 1 << 20, 9 << 20, 700}[3*generation+n/2])
				garble(b, rnd)
				var form bytes.Buffer
				w := multipart.NewWriter(&form)
				part, err := w.CreateFormFile("file", fmt.Sprintf("file-%d-%d.bin", generation, n))
				is.NoErr(err)
				_, err = part.Write(b)
				is.NoErr(err)
				is.NoErr(w.Close())
				status, answer := r.post("/api/v1/upload", w.FormDataContentType(), &form)
				is.Equal(status, 201)
				var made struct{ Slug string }
				is.NoErr(json.Unmarshal(answer, &made))
				k = kept{path: "/x/" + made.Slug, sum: sha256.Sum256(b)}
				k.blob = fmt.Sprintf("%x", k.sum)
			}
			if generation == 2 {
				b, err := os.ReadFile(r.data("journal", log))
				is.NoErr(err)
				k.record = b[from:]
			}
			r.kept = append(r.kept, k)
		}
		if generation < 2 {
			s.kill()
			s = r.serve()
			r.until("there is a snapshot", func() bool {
				snaps, _ := filepath.Glob(r.data("journal", "snap-*"))
				return len(snaps) > generation
			})
		}
	}
	is.Equal(r.run("", "backup", r.path("a-backup")).code, 0) // leaves its mark
	r.until("there is a ballast", func() bool { return r.exists(r.data("cache", "ballast")) })
	s.kill()
	return r
}

// post sends a body as the owner.
func (r *ruin) post(path, kind string, body io.Reader) (int, []byte) {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+r.addr+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", r.key)
	req.Header.Set("Content-Type", kind)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, b
}

// victims are the files to damage, by what they are.
func (r *ruin) victims() map[string]string {
	r.t.Helper()
	all := map[string]string{}
	list := func(pattern string) []string {
		names, err := filepath.Glob(r.data(pattern))
		if err != nil {
			r.t.Fatal(err)
		}
		slices.Sort(names)
		return names
	}
	for _, kind := range []string{"log", "snap"} {
		names := slices.DeleteFunc(list("journal/"+kind+"-*"), func(path string) bool {
			return filepath.Base(path) == journal.RecentName
		})
		all["oldest "+kind], all["newest "+kind] = names[0], names[len(names)-1]
		all["middle "+kind] = names[len(names)/2]
	}
	for _, path := range list("blobs/??/*") {
		info, err := os.Stat(path)
		if err != nil {
			r.t.Fatal(err)
		}
		all[map[bool]string{true: "large content", false: "small content"}[info.Size() > 8<<20]] = path
	}
	for _, name := range []string{
		"CLEAN", "LOCK", "BACKUP", "INSTANCE", "cache/kist.db", "cache/ballast", "cache/CACHEDIR.TAG",
	} {
		all[name] = r.data(name)
	}
	for _, path := range list("cache/index/*") {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			all["part of the index"] = path
		}
	}
	for name, path := range all { // as it is below the data directory
		all[name] = strings.TrimPrefix(path, r.data()+"/")
	}
	return all
}

// TestCorruption damages one file of a data directory, in every way, after a
// clean stop and after a kill. What comes then is one of three: nothing is
// missing; what is missing was in the damaged bytes and nowhere else, and the
// program says so; or the start is refused with a sentence that names the file,
// and a repair leads to one of the two. Wrong bytes are never served.
func TestCorruption(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	r := newRuin(t)
	type attempt struct {
		what, file string
		damage     damage
		clean      bool
		seed       uint64
	}
	var all []attempt
	victims := r.victims()
	names := []string{}
	for what := range victims {
		names = append(names, what)
	}
	slices.Sort(names)
	for i, what := range names {
		for j, d := range damages {
			for k, clean := range []bool{true, false} {
				if what == "CLEAN" && !clean {
					continue // a kill leaves none
				}
				all = append(all, attempt{what, victims[what], d, clean, uint64(i*1000 + j*10 + k)})
			}
		}
	}
	if !*long { // a sample, another one every day
		rnd := rand.New(rand.NewPCG(uint64(time.Now().YearDay()), 0))
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:12]
	}
	t.Logf("%d cases", len(all))
	var mu sync.Mutex
	outcomes := map[string]int{}
	t.Run("cases", func(t *testing.T) {
		for _, a := range all {
			name := fmt.Sprintf("%s %s, clean %v", a.what, a.damage.name, a.clean)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				outcome := r.suffer(t, a.file, a.damage, a.clean, rand.New(rand.NewPCG(a.seed, 7)))
				mu.Lock()
				outcomes[outcome]++
				mu.Unlock()
			})
		}
	})
	t.Logf("outcomes: %v", outcomes)
}

// suffer damages a file of a copy of the ruin and says what came of it.
func (r *ruin) suffer(t *testing.T, file string, d damage, clean bool, rnd *rand.Rand) (outcome string) {
	is := is.New(t)
	p := &ruin{place: newPlace(t), key: r.key}
	is.NoErr(copyTree(r.data(), p.data()))
	if clean { // the proof of a clean stop is of the very files
		p.serve().stop()
	}
	path := p.data(file)
	before, err := os.ReadFile(path)
	is.NoErr(err)
	is.NoErr(d.do(path, before, rnd))
	after, _ := os.ReadFile(path)

	may := func(k kept) bool { // be lost with the damage, and with nothing else
		if k.blob != "" && filepath.Base(file) == k.blob {
			return true
		}
		return k.record != nil && strings.HasPrefix(file, "journal/log-") && bytes.Contains(before, k.record) &&
			!bytes.Contains(after, k.record)
	}
	outcome = "intact"
	s := p.start()
	p.until("the server listens or ends", func() bool {
		select {
		case <-s.done:
			return true
		default:
			return s.listens()
		}
	})
	if !s.listens() {
		text := s.log.String()
		if code := s.end(); code != 1 || !refusal.MatchString(text) || !strings.Contains(text, filepath.Base(file)) &&
			!strings.Contains(text, "journal") {
			t.Fatalf("exit %d: %s", code, text)
		}
		if now, err := os.ReadFile(path); err == nil && !bytes.Equal(now, after) {
			t.Fatal("the refusal changed the file")
		}
		outcome = "refused, and repaired"
		if file == "LOCK" { // the sentence says to remove it
			is.NoErr(os.RemoveAll(path))
		}
		fixed := p.run("", "verify", "--repair")
		switch {
		case fixed.code == 4:
			outcome = "refused, and repaired with a loss"
		case fixed.code != 0:
			t.Fatalf("repair: exit %d: %s%s", fixed.code, fixed.out, fixed.err)
		}
		if fixed.code == 0 != strings.Contains(fixed.out, "No problems found.") {
			t.Fatalf("repair: exit %d: %s", fixed.code, fixed.out)
		}
		s = p.serve()
		if lost := p.look(t, r.kept, may); lost > 0 && fixed.code == 0 {
			t.Fatalf("%d things are lost, and the repair did not say so: %s", lost, fixed.out)
		}
	}
	if lost := p.look(t, r.kept, may); lost > 0 {
		outcome += ", and the damage is felt"
	}
	// Whatever is wrong is found while the server runs, and from then on a
	// crash loses nothing more.
	p.until("the journal was checked", func() bool { return p.checked(t) })
	status, _ := p.post(
		"/api/v1/notes", "application/json", strings.NewReader(`{"content": "written after the damage", "slug": "after"}`),
	)
	is.Equal(status, 201)
	s.kill()
	s = p.serve()
	p.look(t, r.kept, may)
	status, text := p.get("/x/after", p.key)
	is.Equal(status, 200)
	is.Equal(text, "written after the damage")
	s.stop()
	if v := p.run("", "verify"); v.code != 0 && v.code != 4 {
		t.Fatalf("verify: exit %d: %s%s", v.code, v.out, v.err)
	}
	return outcome
}

// refusal is how a start is refused: one sentence, which says what to do.
var refusal = regexp.MustCompile(`\A[^\n]*(kist verify --repair|INSTANCE|CLEAN|LOCK|cache|Restore|restore|remove|move)[^\n]*\n\z`)

// checked reports whether the running server has read its journal.
func (r *ruin) checked(t *testing.T) bool {
	t.Helper()
	status, text := r.get("/api/v1/admin/health", r.key)
	if status != 200 {
		t.Fatalf("health: %d %s", status, text)
	}
	var h struct {
		Data struct {
			Journal struct{ CheckedAt *string }
		}
	}
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		t.Fatal(err)
	}
	return h.Data.Journal.CheckedAt != nil
}

// look reads everything that was acknowledged, twice: what is there must be
// right, and what is not there must be what may be lost. It returns how many
// things are not there.
func (r *ruin) look(t *testing.T, all []kept, may func(kept) bool) (lost int) {
	t.Helper()
	for range 2 {
		lost = 0
		for _, k := range all {
			status, sum, err := r.read(k.path)
			switch {
			case err != nil: // broken off
				lost++
			case status == 200 && sum != k.sum:
				t.Errorf("%s: wrong bytes were served", k.path)
			case status == 200:
				continue
			case status == 404 || status == 503:
				lost++
			default:
				t.Errorf("%s: %d", k.path, status)
			}
			if !may(k) {
				t.Errorf("%s is lost, and the damage was elsewhere: %d %v", k.path, status, err)
			}
		}
	}
	return lost
}

// read is a download that may break off, and its SHA-256.
func (r *ruin) read(path string) (status int, sum [32]byte, err error) {
	req, err := http.NewRequest(http.MethodGet, "http://"+r.addr+path, http.NoBody)
	if err != nil {
		return 0, sum, err
	}
	req.Header.Set("X-Api-Key", r.key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, sum, err
	}
	defer res.Body.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, res.Body)
	return res.StatusCode, [32]byte(hash.Sum(nil)), err
}

// copyTree copies a folder with its modes; sockets are left out.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		dest := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.Mkdir(dest, info.Mode().Perm())
		case !info.Mode().IsRegular():
			return nil
		}
		return copyFile(path, dest, info.Mode().Perm())
	})
}

// copyFile has the system copy a file: the bytes do not pass through the
// process.
func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
