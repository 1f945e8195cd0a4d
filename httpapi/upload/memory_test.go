package upload_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv/kvtest/needs"
)

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
	z.sent += n
	if z.sent%step == 0 {
		z.at()
	}
	return int(n), nil
}

func uploadZeros(a *apitest.App, size int64, at func()) {
	a.Helper()
	body := io.MultiReader(
		strings.NewReader("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\n\r\n"),
		&zeros{size: size, at: at}, strings.NewReader("\r\n--b--\r\n"))
	req, err := http.NewRequestWithContext(a.Context(), "POST", a.URL+"/api/v1/upload", body)
	a.NoErr(err)
	req.Header = apitest.WithHeader("Content-Type", "multipart/form-data; boundary=b", "X-Api-Key", a.Key)
	res, err := apitest.Plain.Do(req)
	a.NoErr(err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	a.NoErr(err)
	if res.StatusCode != 201 || !strings.Contains(string(answer), fmt.Sprintf(`"size":%d,`, size)) {
		a.Fatalf("%d %s", res.StatusCode, answer)
	}
}

// TestUploadMemory: an upload is never held in memory.
func TestUploadMemory(t *testing.T) {
	needs.Alone(t)
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.MaxUpload = 1 << 40 })
	base, most := apitest.Heap(), int64(0)
	uploadZeros(a, much, func() { most = max(most, apitest.Heap()) })
	is.True(most > 0)
	is.True(most < base+8<<20) // much passes through little
}

// TestUploadMemoryLong uploads 1 GiB in a process of its own, client and all,
// which never takes more than 64 MiB.
func TestUploadMemoryLong(t *testing.T) {
	needs.Alone(t)
	is := is.New(t)
	if os.Getenv(apitest.MemoryChild) != "" {
		a := apitest.Start(t, func(c *web.Config) { c.MaxUpload = 1 << 40 })
		uploadZeros(a, 1<<30, func() {})
		status, err := os.ReadFile("/proc/self/status")
		is.NoErr(err)
		_, peak, _ := strings.Cut(string(status), "VmHWM:")
		peak, _, _ = strings.Cut(peak, "kB")
		t.Logf("peak=%s.", strings.TrimSpace(peak))
		return
	}
	if !*apitest.Long {
		needs.LeaveOut(t, "the memory that 1 GiB takes", "no -long")
	}
	_, text, _ := strings.Cut(apitest.Again(t), "peak=")
	var peak int
	_, err := fmt.Sscanf(text, "%d.", &peak)
	is.NoErr(err)
	t.Logf("the process took %d KiB at most", peak)
	is.True(peak < 64<<10)
}
