package control

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/datadir"
	"kist/kv/tables"
)

// A command that waits for a server to listen ends when it is interrupted.
func TestConnectIsInterrupted(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	store, err := kv.Open(dir, kv.Options{Schema: tables.All})
	is.NoErr(err)
	defer store.Close()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		begun := time.Now()
		_, err := kv.Open(dir, kv.Options{Schema: tables.All}) // waits for the lock a little
		_, held := errors.AsType[*datadir.InUse](err)
		is.True(held)
		within := time.Since(begun) + startStep/2

		begun = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err = Connect(ctx, Options{Dir: dir})
		is.True(errors.Is(err, context.DeadlineExceeded))
		is.Equal(time.Since(begun), within)
	})
}
