package admin_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
)

var (
	mutants    = flag.Int("mutants", 0, "change the program in this many places, one at a time, and list the changes that no test notices; takes a while: also set -v and -timeout")
	mutantSeed = flag.Uint64("seed", 1, "of the random choice of mutants")
	mutantsIn  = flag.String("mutants-in", "", "choose mutants only in these packages, separated by commas")
)

// mutated has the packages that are changed, how large a part of the sample each
// of them gets, more where tests are quick.
var mutated = []struct {
	dir   string
	share int
}{
	{"kv/field", 12},
	{"kv/record", 14},
	{"kv/journal", 14},
	{"kv", 12},
	{"kv/catalog", 8},
	{"kv/people", 6},
	{"kv/inbox", 5},
	{"kv/jobs", 5},
	{"kv/history", 1},
	{"kv/table", 1},
	{"kv/transfer", 2},
	{"kv/transfer/format", 5},
	{"kv/media", 1},
	{"kv/datadir", 1},
	{"kv/ship", 4},
	{"kv/repair", 1},
	{"kv/workcopy", 2},
	{"blobs", 10},
	{"blobs/disk", 2},
	{"blobs/s3", 2},
	{"blobs/scrub", 1},
	{"search", 8},
	{"httpapi/web", 6},
	{"httpapi/session", 5},
	{"httpapi/upload", 5},
	{"httpapi/api", 5},
	{"httpapi/public", 5},
	{"httpapi/webhook", 6},
	{"httpapi/outbound", 2},
	{"httpapi/limit", 2},
	{"httpapi/linkcheck", 2},
	{"httpapi/metadata", 3},
	{"httpapi/thumb", 2},
	{"httpapi/archive", 2},
	{"httpapi/render", 2},
	{"httpapi/grant", 1},
	{"httpapi/captcha", 1},
	{"httpapi/oidc", 1},
	{"httpapi/worker", 1},
	{"httpapi", 4},
	{"embed", 1},
	{"admin", 1},
	{"admin/ops", 1},
	{"admin/serve", 1},
	{"admin/socket", 1},
	{"admin/control", 1},
	{"admin/process", 1},
	{"admin/console", 1},
	{"admin/exit", 1},
}

// unmutated are packages that are parts of tests, or only a list.
var unmutated = []string{"", "blobs/disk/cut", "blobs/s3/s3test", "kv/kvtest", "kv/tables", "search/corpus"}

// TestMutatedIsWhole: the list has every package of the program.
func TestMutatedIsWhole(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	out, err := command("..", "go", "list", "./...").Output()
	is.NoErr(err)
	listed := slices.Clone(unmutated)
	for _, p := range mutated {
		listed = append(listed, p.dir)
	}
	var all []string
	for _, path := range strings.Fields(string(out)) {
		all = append(all, strings.TrimPrefix(strings.TrimPrefix(path, "kist"), "/"))
	}
	slices.Sort(listed)
	is.Equal(listed, all)
}

const (
	slowTest   = 15 * time.Second // tests that take longer alone are left out
	quickTests = time.Second      // tests of this total time are tried on a mutant first
	mutantTime = 30 * time.Second // tests of this total time are tried on a mutant at most
)

// TestMutants measures the tests. It compiles all mutants into one test binary
// for each package; an environment variable turns one of them on. First each test
// runs alone and notes the mutants it reaches. Then each mutant of a random sample
// runs with the tests that reach it: those of its own package before others,
// quick ones before slow ones.
func TestMutants(t *testing.T) {
	if *mutants == 0 {
		leaveOut(t, "changes of the program that no test notices", "no -mutants")
	}
	is := is.New(t)
	root := t.TempDir()
	is.NoErr(command("..", "sh", "-c", `cp -r * "$0"`, root).Run()) // without .git
	work, err := os.MkdirTemp("", "m")                              // short: tests make sockets in it
	is.NoErr(err)
	defer os.RemoveAll(work)
	found := &mutation{fset: token.NewFileSet(), root: root, files: map[string][]byte{}}
	var testers []*tested
	shares := 0
	for _, p := range mutated {
		if *mutantsIn == "" || slices.Contains(strings.Split(*mutantsIn, ","), p.dir) {
			testers = append(testers, &tested{p.dir, filepath.Join(root, p.dir), filepath.Join(work, strconv.Itoa(len(testers))), p.share, nil, map[string]time.Duration{}, map[int][]string{}})
			shares += p.share
			found.in(t, p.dir)
		}
	}
	found.settle(t)
	for _, p := range testers {
		if tests, err := filepath.Glob(filepath.Join(p.dir, "*_test.go")); err != nil || len(tests) == 0 {
			continue // tests of other packages reach it
		}
		out, err := command(root, "go", "test", "-c", "-o", p.binary, "./"+p.name).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %s", p.name, out)
		}
		if p.name == "admin" { // its tests build the program: give them one that is built
			p.env = []string{"PATH=" + prebuilt(t, root, work) + string(os.PathListSeparator) + os.Getenv("PATH")}
		}
		p.reach(t)
	}
	rnd := rand.New(rand.NewPCG(*mutantSeed, 1))
	total, done := map[string]int{}, 0
	for _, p := range testers {
		var sample []int
		for id, m := range found.all {
			if m.dir == p.name && !m.dropped {
				sample = append(sample, id)
			}
		}
		rnd.Shuffle(len(sample), func(i, k int) { sample[i], sample[k] = sample[k], sample[i] })
		n := *mutants*(done+p.share)/shares - *mutants*done/shares
		done += p.share
		verdicts, begun := map[string]int{}, time.Now()
		others := slices.DeleteFunc(slices.Clone(testers), func(other *tested) bool { return other == p })
		for _, id := range sample[:min(n, len(sample))] {
			verdict, note := try(t, id, append([]*tested{p}, others...))
			total[verdict]++
			if verdicts[verdict]++; verdict != "killed" {
				t.Logf("%s: %s%s", verdict, found.all[id], note)
			}
		}
		t.Logf("%s: %v of %d mutants in %v", p.name, verdicts, len(sample), time.Since(begun).Round(time.Second))
	}
	t.Logf("in all: %v", total)
	noticed := total["killed"] + total["timeout"]
	if reached := noticed + total["survived"]; noticed*100 < reached*80 {
		t.Errorf("the tests notice %d of %d mutants that they reach, less than 80 %%", noticed, reached)
	}
}

// command is a command that runs in a folder.
func command(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	return cmd
}

// tested has the tests of a package.
type tested struct {
	name, dir, binary string
	share             int
	env               []string
	cost              map[string]time.Duration // of a test
	reached           map[int][]string         // the tests that reach a mutant, quickest first
}

// run runs tests with an environment and reports whether they pass; late says
// that they ran out of time.
func (p *tested) run(t *testing.T, tests []string, limit time.Duration, env ...string) (passed, late bool) {
	t.Helper()
	temp, err := os.MkdirTemp(filepath.Dir(p.binary), "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(temp)
	ctx, cancel := context.WithTimeout(t.Context(), limit+10*time.Second)
	defer cancel()
	// A mutant may use memory and disk without bounds.
	cmd := exec.CommandContext(ctx, "sh", "-c", `ulimit -d 6000000; ulimit -f 8000000; exec "$@"`, "sh", p.binary,
		"-test.run", "^("+strings.Join(tests, "|")+")$", "-test.failfast", "-test.timeout", limit.String())
	cmd.Dir, cmd.WaitDelay = p.dir, time.Second
	cmd.Env = append(append(append(os.Environ(), p.env...), "TMPDIR="+temp), env...)
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) && ctx.Err() == nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatal(err)
	}
	return err == nil, ctx.Err() != nil || bytes.Contains(out, []byte("panic: test timed out"))
}

// reach runs each test alone and notes the mutants it reaches. It leaves out
// tests that fail, and slow ones.
func (p *tested) reach(t *testing.T) {
	t.Helper()
	is := is.New(t)
	list := command(p.dir, p.binary, "-test.list", "^(Test|Fuzz|Example)")
	list.Env = append(os.Environ(), p.env...)
	out, err := list.Output()
	is.NoErr(err)
	log, left := filepath.Join(filepath.Dir(p.binary), "reached"), []string{}
	for _, name := range strings.Fields(string(out)) {
		if name == "TestMutants" {
			continue
		}
		is.NoErr(os.WriteFile(log, nil, 0o600))
		begun := time.Now()
		passed, _ := p.run(t, []string{name}, slowTest, "MUTANTS_REACHED="+log)
		p.cost[name] = time.Since(begun)
		if !passed {
			left = append(left, name)
			continue
		}
		text, err := os.ReadFile(log)
		is.NoErr(err)
		for _, field := range strings.Fields(string(text)) {
			id, err := strconv.Atoi(field)
			is.NoErr(err)
			if !slices.Contains(p.reached[id], name) { // a test may run the program several times
				p.reached[id] = append(p.reached[id], name)
			}
		}
	}
	for _, tests := range p.reached {
		slices.SortStableFunc(tests, func(a, b string) int { return int(p.cost[a] - p.cost[b]) })
	}
	t.Logf("%s: %d of %d tests fail here or take more than %v, and are left out: %s", p.name, len(left), len(p.cost), slowTest, strings.Join(left, " "))
}

// try turns a mutant on and runs the tests that reach it, until one fails.
func try(t *testing.T, id int, testers []*tested) (verdict, note string) {
	t.Helper()
	reaching, tried, spent := 0, 0, time.Duration(0)
	for _, p := range testers {
		tests := p.reached[id]
		reaching += len(tests)
		for _, budget := range []time.Duration{quickTests, mutantTime} {
			var some []string
			cost := time.Duration(0)
			for _, name := range tests {
				if tried+len(some) > 0 && spent+cost+p.cost[name] > budget {
					break
				}
				some, cost = append(some, name), cost+p.cost[name]
			}
			if len(some) == 0 {
				continue
			}
			tests, tried, spent = tests[len(some):], tried+len(some), spent+cost
			if passed, late := p.run(t, some, 10*time.Second+3*cost, "MUTANT="+strconv.Itoa(id)); late {
				return "timeout", ""
			} else if !passed {
				return "killed", ""
			}
		}
	}
	if reaching == 0 {
		return "unreached", ""
	}
	return "survived", fmt.Sprintf(" (%d of %d tests that reach it ran)", tried, reaching)
}

// prebuilt builds the program with its mutants. The folder has a go command
// that copies it where the tests build it.
func prebuilt(t *testing.T, root, work string) string {
	t.Helper()
	is := is.New(t)
	program, bin := filepath.Join(work, "kist"), filepath.Join(work, "bin")
	build := command(root, "go", "build", "-ldflags", "-X main.version=1.2.3-test", "-o", program, "kist")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	is.NoErr(build.Run())
	is.NoErr(os.Mkdir(bin, 0o700))
	script := "#!/bin/sh\nwhile [ $# -gt 1 ]; do if [ \"$1\" = -o ]; then out=$2; fi; shift; done\ncp '" + program + "' \"$out\"\n"
	is.NoErr(writeProgram(filepath.Join(bin, "go"), script))
	return bin
}
