package admin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// A disk that fails to sync for a while: writers are told to try again later,
// readers notice nothing, /readyz says so until it works again, and all that
// was acknowledged is there after a kill.
func TestSyncsFail(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const what = "a disk that fails to sync"
	needs(t, what, "strace")
	p := newPlace(t)
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "laptop")

	server := p.serve()

	ask := func(method, path, body string) (int, http.Header, string) {
		req, err := http.NewRequest(method, "http://"+p.addr+path, strings.NewReader(body))
		is.NoErr(err)
		req.Header.Set("X-Api-Key", key)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		is.NoErr(err)
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		is.NoErr(err)
		return res.StatusCode, res.Header, string(b)
	}
	acknowledged := map[string]bool{}
	failed := 0
	create := func() int {
		text := fmt.Sprintf("note %d", len(acknowledged)+failed)
		status, header, body := ask("POST", "/api/v1/notes", `{"content":"`+text+`"}`)
		switch status {
		case http.StatusCreated:
			acknowledged[text] = true
		case http.StatusServiceUnavailable:
			failed++
			is.True(header.Get("Retry-After") != "")
			is.True(strings.Contains(body, `"code":"storage_failed"`))
		default:
			t.Fatalf("status %d: %s", status, body)
		}
		return status
	}
	for range 10 {
		is.Equal(create(), http.StatusCreated)
	}

	cmd := exec.Command("strace", "-f", "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO", "-o", "/dev/null", "-p", strconv.Itoa(server.cmd.Process.Pid))
	log := new(buffer)
	cmd.Stdout, cmd.Stderr = log, log
	is.NoErr(cmd.Start())
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
	p.until("strace is attached", func() bool {
		if strings.Contains(log.String(), "Operation not permitted") {
			lacks(t, what, "strace may not trace")
		}
		return strings.Contains(log.String(), " attached")
	})
	p.until("a write fails", func() bool { return create() == http.StatusServiceUnavailable })
	status, _, body := ask("GET", "/readyz", "")
	is.Equal(status, http.StatusServiceUnavailable)
	is.True(strings.Contains(body, "cannot be written to"))
	status, _, _ = ask("GET", "/healthz", "")
	is.Equal(status, http.StatusOK)
	status, _, body = ask("GET", "/api/v1/notes?limit=500", "")
	is.Equal(status, http.StatusOK)
	is.Equal(strings.Count(body, `"content":"note `), len(acknowledged))
	is.Equal(create(), http.StatusServiceUnavailable)
	is.NoErr(cmd.Process.Signal(os.Interrupt)) // strace lets go of the server
	<-done
	p.until("the server is ready again", func() bool { status, _, _ := ask("GET", "/readyz", ""); return status == http.StatusOK })
	for range 10 {
		is.Equal(create(), http.StatusCreated)
	}
	server.kill()

	p.serve()
	status, _, body = ask("GET", "/api/v1/notes?limit=500", "")
	is.Equal(status, http.StatusOK)
	var list struct{ Data []struct{ Content string } }
	is.NoErr(json.Unmarshal([]byte(body), &list))
	found := map[string]bool{}
	for _, n := range list.Data {
		found[n.Content] = true
	}
	for text := range acknowledged {
		is.True(found[text])
	}
	is.Equal(len(found), len(acknowledged))
	is.True(failed > 0)
}
