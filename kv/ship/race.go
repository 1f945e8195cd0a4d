package ship

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"kist/blobs"
)

// Race lets 16 writers put the same object at the same time, twice, and reports
// whether exactly one of them won each time. Some servers let several win; those do not
// guarantee that there is one writer at a time. The writers use the endpoints in turns.
func Race(ctx context.Context, endpoints ...blobs.Remote) (exact bool, err error) {
	const rounds, writers = 2, 16
	for range rounds {
		name := racePrefix + rand.Text()
		won, failed := 0, error(nil)
		var mu sync.Mutex
		var work sync.WaitGroup
		for i := range writers {
			work.Go(func() {
				body := strings.NewReader(rand.Text())
				err := endpoints[i%len(endpoints)].Put(ctx, name, body, body.Size())
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					won++
				case !errors.Is(err, fs.ErrExist):
					failed = err
				}
			})
		}
		work.Wait()
		if err := endpoints[0].Delete(ctx, name); err != nil || failed != nil {
			return false, cmp.Or(failed, err)
		}
		if won != 1 {
			return false, nil
		}
	}
	return true, nil
}

// Probed is what a Probe found.
type Probed struct {
	Put, Get time.Duration // how long that took
	Ahead    time.Duration // of the clock of the server, to about a second
}

// Probe puts, reads and removes an object of a number of bytes.
func Probe(ctx context.Context, remote blobs.Remote, size int64) (p Probed, err error) {
	name, b := racePrefix+rand.Text(), make([]byte, size)
	_, _ = rand.Read(b) // it cannot fail
	began := time.Now()
	if err := remote.Put(ctx, name, bytes.NewReader(b), size); err != nil {
		return p, err
	}
	p.Put = time.Since(began)
	defer func() { err = errors.Join(err, remote.Delete(ctx, name)) }()

	o, err := remote.Head(ctx, name)
	if err != nil {
		return p, err
	}
	p.Ahead = o.ModTime.Add(time.Second / 2).Sub(began.Add(p.Put / 2)) // it is in whole seconds

	began = time.Now()
	r, err := remote.Get(ctx, name, 0, -1)
	if err != nil {
		return p, err
	}
	defer r.Close()
	got, err := io.ReadAll(io.LimitReader(r, size+1))
	if err == nil && !bytes.Equal(got, b) {
		err = errors.New("the object store returned other bytes than it was given")
	}
	p.Get = time.Since(began)
	return p, err
}
