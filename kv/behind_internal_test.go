package kv

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/matryer/is"

	"kist/kv/table"
)

// While the working copy only lacks room, some commits are taken, so that removals can
// make room. Nothing is taken for other reasons.
func TestCommitsWithoutWorkingCopy(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var h behind
	h.start(nil)
	is.NoErr(h.refuse())
	full := error(&copyError{fmt.Errorf("write: %w", syscall.ENOSPC)})
	h.broken.Store(&full)
	for range behindCommits {
		is.NoErr(h.refuse())
		h.show()
	}
	is.True(errors.Is(h.refuse(), syscall.ENOSPC))
	h.commits = 0
	failed := error(&copyError{syscall.EIO})
	h.broken.Store(&failed)
	is.True(errors.Is(h.refuse(), syscall.EIO))
}

// What stop could not bring to the working copy is known to Close, even if a later
// attempt to write the rest succeeds: the working copy is not certified then.
func TestStopKeepsFailure(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var h behind
	h.start(nil)
	is.NoErr(table.Write(nil, 1, h.layers.Load().active).Load(table.Bucket{No: 1}, []byte("k"), []byte("v")))
	done := make(chan struct{})
	go func() { // the first attempt fails and the second works
		defer close(done)
		<-h.frozen
		failed := error(&copyError{syscall.EIO})
		h.broken.Store(&failed)
		h.applied <- struct{}{}
		for range h.again {
		}
		h.broken.Store(nil)
	}()
	h.stop()
	<-done
	is.NoErr(h.failure())
	is.True(errors.Is(h.left, syscall.EIO))
}
