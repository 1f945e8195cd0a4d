package httpapi_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs/disk"
	"kist/httpapi"
	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/tables"
)

// TestReady: the server is ready while it can store things.
func TestReady(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	is.Equal(string(a.Visit("/readyz").Want(200).Body), "ok\n")
	is.Equal(len(a.Staged()), 0)
	checking := func(fn func()) { is.NoErr(a.Server.Checking(t.Context(), fn)) }
	hangs, resume, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		checking(func() { close(hangs); <-resume }) // as on a disk that hangs
	}()
	<-hangs
	a.Visit("/readyz").Want(503)
	a.Visit("/healthz").Want(200)
	close(resume)
	<-done

	is.NoErr(a.Server.Blobs.Close())
	again := func() { checking(a.Server.ForgetCheck) }
	again()
	is.Equal(string(a.Visit("/readyz").Want(503).Body), "The storage is not writable.\n")
	is.NoErr(a.Server.Store.Close())
	again()
	a.Visit("/readyz").Want(503)
	a.Visit("/healthz").Want(200)
}

// TestReadyWithoutRoom: the answer says what the disk lacks, and the metric is 0.
func TestReadyWithoutRoom(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		room disk.Room
		text string
	}{
		"room":     {disk.Room{Free: 1 << 40, Total: 1 << 20, Files: 1 << 20, FreeFiles: 100}, "ok\n"},
		"no bytes": {disk.Room{Free: 0, Total: 1 << 20}, "The disk is full.\n"},
		"no files": {
			disk.Room{Free: 1 << 40, Total: 1 << 20, Files: 1 << 20, FreeFiles: 3},
			"The disk can hold no more files (inodes).\n",
		},
		"neither":      {disk.Room{Free: 0, Total: 1 << 20, Files: 1 << 20}, "The disk can hold no more files (inodes).\n"},
		"a small disk": {disk.Room{Free: 1 << 40, Total: 1 << 20, Files: 300, FreeFiles: 6}, "ok\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			store, err := kv.Open(filepath.Join(t.TempDir(), "data"), kv.Options{Schema: tables.All, Space: func() (disk.Room, error) {
				return row.room, nil
			}})
			is.NoErr(err)
			t.Cleanup(func() { is.NoErr(store.Close()) })
			a := apitest.Start(t, func(c *web.Config) { c.Store, c.Metrics = store, true })
			is.Equal(string(a.Visit("/readyz").Body), row.text)
			figure := "kist_writable 0\n"
			if row.text == "ok\n" {
				figure = "kist_writable 1\n"
			}
			is.True(strings.Contains(string(a.Get("/metrics").Want(200).Body), figure))
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
			store, err := kv.Open(filepath.Join(t.TempDir(), "data"), kv.Options{Schema: tables.All, Space: func() (disk.Room, error) {
				return room, nil
			}})
			is.NoErr(err)
			t.Cleanup(func() { is.NoErr(store.Close()) })
			a := apitest.Start(t, func(c *web.Config) { c.Store = store })
			is.Equal(a.Do(a.UploadRequest(nil, apitest.Part{Name: "a.txt", Content: "text"})).Want(507).Text("code"), code)
			is.Equal(a.Do(apitest.Request{
				Method: "POST", Path: "/api/v1/tus",
				Header: apitest.WithHeader("Tus-Resumable", "1.0.0", "Upload-Length", "9"),
			}).Want(507).Text("code"), code)
		})
	}
}

// TestReadyHangs: anyone who asks is told that the storage hangs, the first too.
func TestReadyHangs(t *testing.T) {
	is := is.New(t)
	t.Parallel() // it waits for ReadyWait
	a := apitest.Start(t)
	hangs, resume, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- a.Server.Store.Update(func(*kv.Tx) error {
			close(hangs)
			<-resume
			return nil
		})
	}()
	<-hangs
	ask := func() chan error {
		found := make(chan error, 1)
		go func() { found <- a.Server.Storage(context.Background()) }()
		return found
	}
	first, second := ask(), ask()
	for _, found := range []chan error{first, second} {
		select {
		case err := <-found:
			is.Equal(err, httpapi.ErrNoAnswer)
		case <-time.After(8 * httpapi.ReadyWait):
			close(resume)
			t.Fatal("it hangs with the storage")
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	is.Equal(a.Server.Storage(ctx), httpapi.ErrNoAnswer) // who has gone waits no longer
	close(resume)
	is.NoErr(<-done)
	a.Visit("/readyz").Want(200)
	a.Server.Running.Wait()
}

// TestReadyStopping: a server that is told to stop says so to those it still
// talks with.
func TestReadyStopping(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	_, stop, _ := serve(a, itself, time.Minute)
	a.Visit("/readyz").Want(200)
	is.NoErr(stop())
	is.Equal(string(a.Visit("/readyz").Want(503).Body), "The server is stopping.\n")
	a.Visit("/healthz").Want(200)
}
