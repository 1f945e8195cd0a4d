package httpapi

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs/disk"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/tables"
)

// TestReady: the server is ready while it can store things.
func TestReady(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	is.Equal(string(a.visit("/readyz").want(200).body), "ok\n")
	is.Equal(len(a.staged()), 0)
	checking := func(fn func()) { is.NoErr(a.server.Checking(t.Context(), fn)) }
	hangs, resume, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		checking(func() { close(hangs); <-resume }) // as on a disk that hangs
	}()
	<-hangs
	a.visit("/readyz").want(503)
	a.visit("/healthz").want(200)
	close(resume)
	<-done

	is.NoErr(a.server.Blobs.Close())
	again := func() { checking(a.server.ForgetCheck) }
	again()
	is.Equal(string(a.visit("/readyz").want(503).body), "The storage is not writable.\n")
	is.NoErr(a.server.Store.Close())
	again()
	a.visit("/readyz").want(503)
	a.visit("/healthz").want(200)
}

// TestReadyWithoutRoom: the answer says what the disk lacks, and the metric is 0.
func TestReadyWithoutRoom(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		room disk.Room
		text string
	}{
		"room":         {disk.Room{Free: 1 << 40, Total: 1 << 20, Files: 1 << 20, FreeFiles: 100}, "ok\n"},
		"no bytes":     {disk.Room{Free: 0, Total: 1 << 20}, "The disk is full.\n"},
		"no files":     {disk.Room{Free: 1 << 40, Total: 1 << 20, Files: 1 << 20, FreeFiles: 3}, "The disk can hold no more files (inodes).\n"},
		"neither":      {disk.Room{Free: 0, Total: 1 << 20, Files: 1 << 20}, "The disk can hold no more files (inodes).\n"},
		"a small disk": {disk.Room{Free: 1 << 40, Total: 1 << 20, Files: 300, FreeFiles: 6}, "ok\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			store, err := kv.Open(filepath.Join(t.TempDir(), "data"), kv.Options{Schema: tables.All, Space: func() (disk.Room, error) { return row.room, nil }})
			is.NoErr(err)
			t.Cleanup(func() { is.NoErr(store.Close()) })
			a := start(t, func(c *web.Config) { c.Store, c.Metrics = store, true })
			is.Equal(string(a.visit("/readyz").body), row.text)
			figure := "kist_writable 0\n"
			if row.text == "ok\n" {
				figure = "kist_writable 1\n"
			}
			is.True(strings.Contains(string(a.get("/metrics").want(200).body), figure))
		})
	}
}

// TestUploadWithoutRoom: an upload that the disk cannot take says what the disk lacks.
func TestUploadWithoutRoom(t *testing.T) {
	t.Parallel()
	for code, room := range map[string]disk.Room{
		"disk_full": {Free: 0, Total: 1 << 20, Files: 1 << 20, FreeFiles: 1 << 10},
		"no_inodes": {Free: 1 << 40, Total: 1 << 20, Files: 1 << 20, FreeFiles: 3},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			store, err := kv.Open(filepath.Join(t.TempDir(), "data"), kv.Options{Schema: tables.All, Space: func() (disk.Room, error) { return room, nil }})
			is.NoErr(err)
			t.Cleanup(func() { is.NoErr(store.Close()) })
			a := start(t, func(c *web.Config) { c.Store = store })
			is.Equal(a.do(a.uploadRequest(nil, file{name: "a.txt", content: "text"})).want(507).text("code"), code)
			is.Equal(a.do(apiRequest{
				method: "POST", path: "/api/v1/tus",
				header: withHeader("Tus-Resumable", "1.0.0", "Upload-Length", "9"),
			}).want(507).text("code"), code)
		})
	}
}

// TestReadyHangs: anyone who asks is told that the storage hangs, the first too.
func TestReadyHangs(t *testing.T) {
	is := is.New(t)
	t.Parallel() // it waits for ReadyWait
	a := start(t)
	hangs, resume, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- a.server.Store.Update(func(*kv.Tx) error {
			close(hangs)
			<-resume
			return nil
		})
	}()
	<-hangs
	ask := func() chan error {
		found := make(chan error, 1)
		go func() { found <- a.server.Storage(context.Background()) }()
		return found
	}
	first, second := ask(), ask()
	for _, found := range []chan error{first, second} {
		select {
		case err := <-found:
			is.Equal(err, ErrNoAnswer)
		case <-time.After(8 * ReadyWait):
			close(resume)
			t.Fatal("it hangs with the storage")
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	is.Equal(a.server.Storage(ctx), ErrNoAnswer) // who has gone waits no longer
	close(resume)
	is.NoErr(<-done)
	a.visit("/readyz").want(200)
	a.server.Running.Wait()
}

// TestReadyStopping: a server that is told to stop says so to those it still
// talks with.
func TestReadyStopping(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	_, stop, _ := a.serve(itself, time.Minute)
	a.visit("/readyz").want(200)
	is.NoErr(stop())
	is.Equal(string(a.visit("/readyz").want(503).body), "The server is stopping.\n")
	a.visit("/healthz").want(200)
}
