package control

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"kist/admin/console"
	"kist/kv"
	"kist/search"
)

// Show begins to show the progress of work that what names, of total.
type Show func(what string, total int64) *console.Progress

// settlePoll is the time between two looks at the index.
const settlePoll = 20 * time.Millisecond

// Settle brings the search index up to date after large changes. If a server runs, it does
// nothing: the server does that on its own. What cannot be done is logged and does no harm.
func (c *Client) Settle(ctx context.Context, show Show) {
	if c.settle != nil {
		c.settle(ctx, show)
	}
}

// settleOf settles an open store.
func settleOf(store *kv.Store, index func() (*search.Index, error), log *slog.Logger) func(context.Context, Show) {
	return func(ctx context.Context, show Show) {
		p := show("Indexing", 0)
		p.Unit = func(n int64) string { return strconv.FormatInt(n, 10) }
		if err := catchUp(ctx, store, index, p); err != nil {
			log.Warn("cannot bring the search index up to date; the server will do it", "error", err)
		}
	}
}

// catchUp returns when the index has all changes of the store.
func catchUp(ctx context.Context, store *kv.Store, index func() (*search.Index, error), p *console.Progress) error {
	defer p.End()
	x, err := index()
	if err != nil {
		return err
	}
	for {
		s := x.State()
		switch {
		case s.Phase == search.Ready && s.Place >= s.Latest:
			return nil
		case s.Phase == search.Failed:
			return fmt.Errorf("it failed: %s", s.Problem)
		case store.FreeForContent() <= 0: // the index waits for room
			return kv.ErrFull
		}
		p.Total = int64(s.Latest)
		p.Reach(int64(s.Place))
		if err := Wait(ctx, settlePoll); err != nil {
			return err
		}
	}
}
