package serve

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/kvtest"
	"kist/kv/people"
)

// The file of the claim link goes when there is an administrator, also one that a command has made.
func TestWatchClaim(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	_, err := ClaimLink(s, "https://kist.example.org")
	is.NoErr(err)
	name := filepath.Join(s.Dir(), claimFile)
	_, err = os.Stat(name)
	is.NoErr(err)

	kvtest.Update(t, s, func(tx *kv.Tx) error {
		_, err := people.AddUser(tx, people.User{Name: "ann", Role: people.Admin, Quota: -1})
		return err
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		WatchClaim(ctx, s, slog.New(slog.DiscardHandler))
		close(done)
	}()
	for err == nil && t.Context().Err() == nil {
		_, err = os.Stat(name)
	}
	is.True(errors.Is(err, fs.ErrNotExist))
	stop()
	<-done
}
