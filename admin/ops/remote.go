package ops

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"time"

	"kist/blobs"
	"kist/kv"
	"kist/kv/ship"
	"kist/kv/tables"
	"kist/kv/workcopy"
)

// RemoteVerified is what VerifyRemote found.
type RemoteVerified struct {
	Source   string    `json:"source"`
	Seq      uint64    `json:"seq"`
	Digest   string    `json:"digest"`
	Last     time.Time `json:"last"` // when the last commit was made; zero if a snapshot has it
	Slots    int       `json:"slots"`
	Contents int       `json:"contents"`
	Bytes    int64     `json:"bytes"` // of the contents
	Read     int       `json:"read"`  // contents that were read
	Problems []string  `json:"problems"`
}

// sampled is about how many contents VerifyRemote reads unless it reads all.
const sampled = 20

// VerifyRemote checks an object store: that its history is whole, that it leads to the
// digest that it names, and that each content is there with its size. It reads some
// contents, or all.
func (j Job) VerifyRemote(ctx context.Context, remote blobs.Remote, full bool) (*RemoteVerified, error) {
	dir, err := os.MkdirTemp(j.Scratch, "kist-verify-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a folder for temporary files: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder for temporary files
	v := &RemoteVerified{Problems: []string{}}
	problem := func(err error) { v.Problems = append(v.Problems, err.Error()) }
	p := j.progress("Reading the object store", 0)
	defer p.End()
	got, err := ship.Fetch(ctx, remote, time.Time{}, workcopy.Format, dir)
	if err != nil {
		return nil, err
	}
	for _, bad := range got.Bad {
		problem(errors.New(bad))
	}
	v.Seq, v.Digest, v.Last = got.State.Seq, fmt.Sprintf("%016x", uint64(got.State.Digest)), got.Last
	if v.Slots, err = ship.Check(ctx, remote, got.Instance, problem); err != nil {
		return nil, err
	}
	state, err := tables.All.Inspect(dir, dir, func(int64) {}, problem)
	if err != nil {
		return nil, err
	}
	defer state.Close()
	return v, state.View(func(tx *kv.Tx) error { return v.contents(ctx, tx, remote, full, problem) })
}

// contents checks the contents. Both lists have the same order.
func (v *RemoteVerified) contents(ctx context.Context, tx *kv.Tx, remote blobs.Remote, full bool, problem func(error)) error {
	for range tx.Contents() {
		v.Contents++
	}
	next, stop := iter.Pull2(remote.After(ctx, "blobs/", ""))
	defer stop()
	there, err, more := next()
	for sum, size := range tx.Contents() {
		ref := blobs.Ref(sum)
		for more && err == nil && there.Name < ref.RemoteName() {
			there, err, more = next()
		}
		if err != nil {
			return err
		}
		v.Bytes += size
		why := ""
		switch {
		case !more || there.Name != ref.RemoteName():
			why = "its bytes are missing in the object store"
		case there.Size != size:
			why = fmt.Sprintf("the object store has %d bytes of it in place of %d", there.Size, size)
		case full || rand.IntN(v.Contents) < sampled: // #nosec G404 -- a sample, no secret
			v.Read++
			if err := ship.Again(ctx, func() error {
				r, err := remote.Get(ctx, ref.RemoteName(), 0, -1)
				if err != nil {
					return err
				}
				defer r.Close()
				return blobs.CheckBytes(ref, r)
			}); errors.Is(err, blobs.ErrDamaged) {
				why = "its bytes in the object store are damaged"
			} else if err != nil {
				return err
			}
		}
		if why == "" {
			continue
		}
		for _, r := range tx.Having(ref) {
			problem(fmt.Errorf("file %s (%s): %s", r.ID, r.Name, why))
		}
	}
	return nil
}
