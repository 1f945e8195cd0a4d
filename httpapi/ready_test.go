package httpapi

import (
	"testing"
	"time"

	"github.com/matryer/is"
)

// TestReady: the server is ready while it can store things.
func TestReady(t *testing.T) {
	is := is.New(t)
	a := start(t)
	is.Equal(string(a.visit("/readyz").want(200).body), "ok\n")
	is.Equal(len(a.staged()), 0)
	a.server.readiness.turn <- struct{}{} // as while someone waits for a disk that hangs
	a.visit("/readyz").want(503)
	a.visit("/healthz").want(200)
	<-a.server.readiness.turn

	is.NoErr(a.server.Blobs.Close())
	again := func() {
		a.server.readiness.turn <- struct{}{}
		a.server.readiness.looked = time.Time{}
		<-a.server.readiness.turn
	}
	again()
	is.Equal(string(a.visit("/readyz").want(503).body), "The storage cannot be written to.\n")
	is.NoErr(a.server.Store.Close())
	again()
	a.visit("/readyz").want(503)
	a.visit("/healthz").want(200)
}

// TestReadyStopping: a server that is told to stop says so to those it still
// talks with.
func TestReadyStopping(t *testing.T) {
	is := is.New(t)
	a := start(t)
	_, stop, _ := a.serve(itself, time.Minute)
	a.visit("/readyz").want(200)
	is.NoErr(stop())
	is.Equal(string(a.visit("/readyz").want(503).body), "The server is being stopped.\n")
	a.visit("/healthz").want(200)
}
