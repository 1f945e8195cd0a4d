package admin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"
	"golang.org/x/sys/unix"

	"kist/kv/kvtest/needs"
)

// ask sends a request and returns the status, the header and the body of the
// answer.
func (p *place) ask(key, method, path, kind, body string) (int, http.Header, string) {
	p.t.Helper()
	is := is.New(p.t)
	req, err := http.NewRequest(method, "http://"+p.addr+path, strings.NewReader(body))
	is.NoErr(err)
	req.Header.Set("X-Api-Key", key)
	req.Header.Set("Content-Type", kind)
	res, err := http.DefaultClient.Do(req)
	is.NoErr(err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	is.NoErr(err)
	return res.StatusCode, res.Header, string(b)
}

// inject makes a system call of the running server fail until letGo is called.
func (s *server) inject(what, call string, with syscall.Errno) (letGo func()) {
	s.t.Helper()
	cmd := exec.Command(
		"strace", "-f", "-e", "trace="+call, "-e", "inject="+call+":error="+unix.ErrnoName(with), "-o", "/dev/null", "-p",
		strconv.Itoa(s.cmd.Process.Pid),
	)
	log := new(buffer)
	cmd.Stdout, cmd.Stderr = log, log
	is.New(s.t).NoErr(cmd.Start())
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	s.t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
	s.until("strace is attached", func() bool {
		if strings.Contains(log.String(), "Operation not permitted") {
			needs.Lacks(s.t, what, "strace may not trace here")
		}
		return strings.Contains(log.String(), " attached")
	})
	return func() {
		s.t.Helper()
		is.New(s.t).NoErr(cmd.Process.Signal(os.Interrupt)) // strace lets go of the server
		<-done
	}
}

// A disk that fails to sync for a while: writers are told to try again later,
// readers notice nothing, /readyz says so until it works again, and all that
// was acknowledged is there after a kill.
func TestSyncsFail(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const what = "a disk that fails to sync"
	needs.Programs(t, what, "strace")
	p := newPlace(t)
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "laptop")

	server := p.serve()

	ask := func(method, path, body string) (int, http.Header, string) {
		return p.ask(key, method, path, "application/json", body)
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

	letGo := server.inject(what, "fdatasync", syscall.EIO)
	p.until("a write fails", func() bool { return create() == http.StatusServiceUnavailable })
	status, _, body := ask("GET", "/readyz", "")
	is.Equal(status, http.StatusServiceUnavailable)
	is.True(strings.Contains(body, "is not writable"))
	status, _, _ = ask("GET", "/healthz", "")
	is.Equal(status, http.StatusOK)
	status, _, body = ask("GET", "/api/v1/notes?limit=500", "")
	is.Equal(status, http.StatusOK)
	is.Equal(strings.Count(body, `"content":"note `), len(acknowledged))
	is.Equal(create(), http.StatusServiceUnavailable)
	letGo()
	p.until("the server is ready again", func() bool {
		status, _, _ := ask("GET", "/readyz", "")
		return status == http.StatusOK
	})
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

// formOf is an upload of one file.
func formOf(t *testing.T, name, content string) (kind, body string) {
	t.Helper()
	is := is.New(t)
	var b strings.Builder
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("file", name)
	is.NoErr(err)
	_, err = io.WriteString(part, content)
	is.NoErr(err)
	is.NoErr(w.Close())
	return w.FormDataContentType(), b.String()
}

// Writes that find no room though the disk says it has some, as when a quota is
// used up: records and files are refused as on a full disk, /readyz says so for
// as long as it lasts, and all goes on when it ends.
func TestQuotaUsedUp(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	const what = "a quota that is used up"
	needs.Programs(t, what, "strace")
	p := newPlace(t)
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "laptop")
	server := p.serve()
	note := func() (int, string) {
		status, _, body := p.ask(key, "POST", "/api/v1/notes", "application/json", `{"content":"c"}`)
		return status, body
	}
	upload := func(content string) (int, string) {
		kind, form := formOf(t, "a.txt", content)
		status, _, body := p.ask(key, "POST", "/api/v1/upload", kind, form)
		return status, body
	}
	full := func(status int, body string) {
		t.Helper()
		is.Equal(status, http.StatusInsufficientStorage)
		is.True(strings.Contains(body, `"disk_full"`))
	}
	ready := func() (int, string) { return p.get("/readyz", "") }
	status, _ := note()
	is.Equal(status, http.StatusCreated)
	status, _ = upload("before")
	is.Equal(status, http.StatusCreated)

	letGo := server.inject(what, "fdatasync", syscall.EDQUOT) // of the journal
	p.until("a record is refused", func() bool { status, _ := note(); return status != http.StatusCreated })
	p.until("/readyz says so", func() bool {
		status, body := ready()
		return status == 503 && body == "The disk is full.\n"
	})
	begun := time.Now()
	p.until("the server has looked at the disk again", func() bool {
		full(note())
		full(upload("refused"))
		status, body := ready()
		is.Equal(status, 503)
		is.Equal(body, "The disk is full.\n")
		return time.Since(begun) > 3*time.Second
	})
	letGo()
	p.until("the server is ready again", func() bool { status, _ := ready(); return status == 200 })
	status, _ = note()
	is.Equal(status, http.StatusCreated)

	letGo = server.inject(what, "fsync", syscall.ENOSPC) // of files
	full(upload("refused"))
	p.until("/readyz says so", func() bool {
		status, body := ready()
		return status == 503 && body == "The disk is full.\n"
	})
	begun = time.Now()
	p.until("the server has looked at the disk again", func() bool {
		status, _ := ready()
		is.Equal(status, 503)
		return time.Since(begun) > 3*time.Second
	})
	letGo()
	p.until("the server is ready again", func() bool { status, _ := ready(); return status == 200 })
	status, _ = upload("after")
	is.Equal(status, http.StatusCreated)
	server.stop()
}

// obeyModes has the modes of files hold for the commands of the place, also
// those of root.
func (p *place) obeyModes() {
	p.t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	needs.Programs(p.t, "a folder that may not be written to", "setpriv")
	setpriv, err := exec.LookPath("setpriv")
	is.New(p.t).NoErr(err)
	p.within = func(cmd *exec.Cmd) {
		cmd.Args = append([]string{setpriv, "--bounding-set=-dac_override,-dac_read_search", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = setpriv
	}
}

// A folder for files that may not be written to: uploads are told to try again
// later, the log names the folder, /readyz says so for as long as it lasts, and
// what is stored is served.
func TestUnwritableFolder(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"while the server runs", "before it starts"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			p := newPlace(t)
			p.obeyModes()
			p.ann()
			key := p.must("key", "create", "--user", "ann", "--name", "laptop")
			s := p.serve()
			upload := func(content string) (int, http.Header, string) {
				kind, form := formOf(t, "a.txt", content)
				return p.ask(key, "POST", "/api/v1/upload", kind, form)
			}
			status, _, body := upload("before")
			is.Equal(status, http.StatusCreated)
			var made struct{ Slug string }
			is.NoErr(json.Unmarshal([]byte(body), &made))
			if when == "before it starts" {
				s.stop()
			}
			is.NoErr(os.Chmod(p.data("blobs"), 0o500))
			if when == "before it starts" {
				s = p.serve()
			}
			for n := range 5 {
				status, header, body := upload(fmt.Sprint("refused ", n))
				is.Equal(status, http.StatusServiceUnavailable)
				is.True(header.Get("Retry-After") != "")
				is.True(strings.Contains(body, "cannot write to its folder for files"))
				status, body = p.get("/readyz", "")
				is.Equal(status, 503)
				is.Equal(body, "The storage is not writable.\n")
			}
			is.Equal(strings.Count(s.log.String(), "files cannot be stored"), 1)
			is.True(strings.Contains(s.log.String(), "folder=kist-data/blobs "))
			status, body = p.get("/x/"+made.Slug, key)
			is.Equal(status, 200)
			is.Equal(body, "before")
			is.NoErr(os.Chmod(p.data("blobs"), 0o700))
			p.until("the server is ready again", func() bool { status, _ := p.get("/readyz", ""); return status == 200 })
			status, _, _ = upload("after")
			is.Equal(status, http.StatusCreated)
			is.True(strings.Contains(s.log.String(), "files can be stored again"))
			s.stop()
		})
	}
}

// A disk or a system that fails while a server starts is told as such: a repair
// is not advised, and nothing is changed.
func TestStartOnFailingDisk(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const what = "a disk that fails at a start"
	needs.Programs(t, what, "strace")
	strace, err := exec.LookPath("strace")
	is.NoErr(err)
	p := newPlace(t)
	s := p.serve()
	p.ann()
	s.kill()
	log, _ := newest(t, p)
	for _, inject := range []string{"pread64:error=EIO", "openat:error=EMFILE"} {
		call, _, _ := strings.Cut(inject, ":")
		failing := *p
		failing.within = func(cmd *exec.Cmd) {
			cmd.Args = append([]string{
				strace, "-f", "-o", "/dev/null", "-P", p.data("journal", log), "-P", log, "-e", "trace=" + call, "-e",
				"inject=" + inject, cmd.Path,
			}, cmd.Args[1:]...)
			cmd.Path = strace
		}
		s := failing.start()
		is.Equal(s.end(), 1)
		text := s.log.String()
		if strings.Contains(text, "Operation not permitted") {
			needs.Lacks(t, what, "strace may not trace here")
		}
		is.True(strings.Contains(text, log))
		is.True(strings.Contains(text, "input/output error") || strings.Contains(text, "too many open files"))
		is.True(!strings.Contains(text, "repair"))
	}
	p.serve().stop()
}

// A backup to a share or a disk that refuses to change modes is made, and read.
func TestBackupWithoutModes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const what = "a disk that keeps no modes"
	needs.Programs(t, what, "strace")
	strace, err := exec.LookPath("strace")
	is.NoErr(err)
	p := newPlace(t)
	s := p.serve()
	s.inhabit()
	s.stop()
	refusing := *p
	refusing.within = func(cmd *exec.Cmd) {
		const calls = "chmod,fchmod,fchmodat"
		cmd.Args = append([]string{
			strace, "-f", "-o", "/dev/null", "-e", "trace=" + calls,
			"-e", "inject=" + calls + ":error=EPERM", cmd.Path,
		}, cmd.Args[1:]...)
		cmd.Path = strace
	}
	for _, dest := range []string{"copy", "copy", "copy.tar"} { // the second time it is brought up to date
		done := refusing.run("", "backup", dest)
		if strings.Contains(done.err, "Operation not permitted") {
			needs.Lacks(t, what, "strace may not trace here")
		}
		is.Equal(done.code, 0)
		is.True(!strings.Contains(done.out, "modes")) // they are kept here
	}

	is.NoErr(os.Chmod(p.path("copy", "journal"), 0o755))
	is.True(strings.Contains(p.must("backup", "copy"), "File modes are not kept there"))
	p.must("verify", "copy")
}

// A content that may not be read does not keep the others from being healed. It
// is named, and the command says that it was skipped.
func TestRestoreMissingSkipsUnreadable(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.obeyModes()
	s := p.serve()
	key := s.inhabit()
	s.must("backup", "copy")
	want := s.everything(key)
	all := contents(t, s.data())
	is.Equal(len(all), 4)
	for _, running := range []bool{true, false} {
		is.NoErr(os.Remove(all[3]))
		is.NoErr(os.Chmod(all[0], 0))
		is.NoErr(os.Chmod(filepath.Dir(all[1]), 0))
		s.stop() // what was read once is not read again
		if running {
			s = s.serve()
		}
		r := s.run("", "restore", "copy", "--missing")
		is.Equal(r.code, 4)
		is.True(strings.Contains(r.out, "Restored the content of 1 file ("))
		is.Equal(strings.Count(r.out, " was skipped: its bytes cannot be read: "), 2)
		is.Equal(strings.Count(r.out, "permission denied"), 2)
		is.True(strings.Contains(r.err, "2 files could not be read and were skipped"))
		_, err := os.Stat(all[3])
		is.NoErr(err)
		is.NoErr(os.Chmod(all[0], 0o600))
		is.NoErr(os.Chmod(filepath.Dir(all[1]), 0o700))
		if !running {
			s = s.serve()
		}
		is.Equal(s.must("restore", "copy", "--missing"), "No file is missing or damaged. Nothing was changed.")
		is.True(maps.Equal(s.everything(key), want))
	}
}
