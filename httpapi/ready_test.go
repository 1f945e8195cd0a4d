package httpapi

import (
	"context"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
)

// TestReady: the server is ready while it can store things.
func TestReady(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	is.Equal(string(a.visit("/readyz").want(200).body), "ok\n")
	is.Equal(len(a.staged()), 0)
	a.server.readiness.lock <- struct{}{} // as while someone waits for a disk that hangs
	a.visit("/readyz").want(503)
	a.visit("/healthz").want(200)
	<-a.server.readiness.lock

	is.NoErr(a.server.Blobs.Close())
	again := func() {
		a.server.readiness.lock <- struct{}{}
		a.server.readiness.checkedAt = time.Time{}
		<-a.server.readiness.lock
	}
	again()
	is.Equal(string(a.visit("/readyz").want(503).body), "The storage is not writable.\n")
	is.NoErr(a.server.Store.Close())
	again()
	a.visit("/readyz").want(503)
	a.visit("/healthz").want(200)
}

// TestReadyHangs: anyone who asks is told that the storage hangs, the first too.
func TestReadyHangs(t *testing.T) {
	is := is.New(t)
	t.Parallel() // it waits for readyWait
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
		go func() { found <- a.server.storage(context.Background()) }()
		return found
	}
	first, second := ask(), ask()
	for _, found := range []chan error{first, second} {
		select {
		case err := <-found:
			is.Equal(err, errNoAnswer)
		case <-time.After(8 * readyWait):
			close(resume)
			t.Fatal("it hangs with the storage")
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	is.Equal(a.server.storage(ctx), errNoAnswer) // who has gone waits no longer
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
