package ship

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"strings"
	"sync"

	"kist/blobs"
)

// Race lets 16 writers put the same object at the same time, twice, and reports
// whether exactly one of them won each time. Some servers let several win. The store
// has one writer at a time only if none does. The writers use the endpoints in turns.
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
