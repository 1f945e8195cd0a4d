package apitest

import (
	"context"
	"sync"
	"testing"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/inbox"
	"kist/kv/people"
)

const RemoteAt = "/api/v1/remote-upload"

// Fetching runs the work on remote uploads until stop, or the end of the test.
func (a *App) Fetching(t testing.TB) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { a.Server.Fetches.Run(ctx) })
	stop = func() { cancel(); work.Wait() }
	t.Cleanup(stop)
	return stop
}

// Remote asks for a file and returns the path of the job.
func (a *App) Remote(body any) string {
	a.Helper()
	return RemoteAt + "/" + a.Post(RemoteAt, body).Want(202).Text("jobs.0.id")
}

// StateOf waits for a job to be in a state.
func (a *App) StateOf(at, state string) (now *Answer) {
	a.Helper()
	Eventually(a.TB, "it never is "+state, func() bool {
		now = a.Get(at).Want(200)
		return now.Text("data.state") == state
	})
	return now
}

// Clean looks whether the store is whole, nothing is reserved, and no content
// is there without a file.
func (a *App) Clean() {
	a.Helper()
	a.NoErr(a.Server.Store.View(func(tx *kv.Tx) error {
		use, err := people.UsageOf(tx, a.User)
		if use.Begun != 0 || inbox.ReservedBytes(tx) != 0 {
			a.Errorf("%d bytes are reserved, %d are still to come", use.Begun, inbox.ReservedBytes(tx))
		}
		tx.Audit(func(err error) { a.Error(err) })
		return err
	}))
	for one, err := range a.Server.Blobs.All() {
		a.NoErr(err)
		if loose, err := catalog.ContentUnknown(a.Server.Store, one.Ref); err != nil || loose {
			a.Errorf("content is left without a file: %v", err)
		}
	}
}
