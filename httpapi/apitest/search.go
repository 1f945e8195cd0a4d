package apitest

import (
	"context"
	"sync"
	"time"

	"kist/search"
)

// indexed runs the search index of the app until the test ends, or end is
// called.
func (a *App) Indexed() (end func()) {
	a.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { a.Server.Search.Run(ctx) })
	end = func() { cancel(); work.Wait() }
	a.Cleanup(end)
	wait, done := context.WithTimeout(ctx, 5*time.Minute)
	defer done()
	_, err := a.Server.Search.Await(wait, func(s search.State) bool { return s.Phase == search.Ready })
	a.NoErr(err)
	return end
}
