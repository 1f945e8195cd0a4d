package httpapi

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/web"
	"kist/kv/kvtest/needs"
)

var long = flag.Bool("long", false, "also upload 1 GiB, and send a zip of 1.5 GiB, in processes of their own and measure that")

// zeros is a file of size bytes in a multipart body; at is called every
// 16 MiB.
type zeros struct {
	size, sent int64
	at         func()
}

func (z *zeros) Read(b []byte) (int, error) {
	if z.sent == z.size {
		return 0, io.EOF
	}
	const step = 16 << 20
	n := min(int64(len(b)), z.size-z.sent, step-z.sent%step)
	clear(b[:n])
	if z.sent += n; z.sent%step == 0 {
		z.at()
	}
	return int(n), nil
}

func (a *app) uploadZeros(size int64, at func()) {
	a.Helper()
	body := io.MultiReader(
		strings.NewReader("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\n\r\n"),
		&zeros{size: size, at: at}, strings.NewReader("\r\n--b--\r\n"))
	req, err := http.NewRequestWithContext(a.Context(), "POST", a.url+"/api/v1/upload", body)
	a.fatal(err)
	req.Header = withHeader("Content-Type", "multipart/form-data; boundary=b", "X-Api-Key", a.key)
	res, err := plain.Do(req)
	a.fatal(err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	a.fatal(err)
	if res.StatusCode != 201 || !strings.Contains(string(answer), fmt.Sprintf(`"size":%d,`, size)) {
		a.Fatalf("%d %s", res.StatusCode, answer)
	}
}

// TestUploadMemory: an upload is never held in memory.
func TestUploadMemory(t *testing.T) {
	needs.Alone(t)
	is := is.New(t)
	a := start(t, func(c *web.Config) { c.MaxUpload = 1 << 40 })
	base, most := heap(), int64(0)
	a.uploadZeros(much, func() { most = max(most, heap()) })
	is.True(most > 0)
	is.True(most < base+8<<20) // much passes through little
}

// heap is how many bytes of the heap are reachable: garbage of earlier tests is
// no part of it.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what sync.Pools held goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

const memoryChild = "KIST_TEST_MEMORY_CHILD"

// TestUploadMemoryLong uploads 1 GiB in a process of its own, client and all,
// which never takes more than 64 MiB.
func TestUploadMemoryLong(t *testing.T) {
	needs.Alone(t)
	is := is.New(t)
	if os.Getenv(memoryChild) != "" {
		a := start(t, func(c *web.Config) { c.MaxUpload = 1 << 40 })
		a.uploadZeros(1<<30, func() {})
		status, err := os.ReadFile("/proc/self/status")
		is.NoErr(err)
		_, peak, _ := strings.Cut(string(status), "VmHWM:")
		peak, _, _ = strings.Cut(peak, "kB")
		t.Logf("peak=%s.", strings.TrimSpace(peak))
		return
	}
	if !*long {
		needs.LeaveOut(t, "the memory that 1 GiB takes", "no -long")
	}
	_, text, _ := strings.Cut(again(t), "peak=")
	var peak int
	_, err := fmt.Sscanf(text, "%d.", &peak)
	is.NoErr(err)
	t.Logf("the process took %d KiB at most", peak)
	is.True(peak < 64<<10)
}

// again runs the test in a process of its own and returns what it said.
func again(t *testing.T) string {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), memoryChild+"=1")
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}
