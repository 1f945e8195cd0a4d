package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"kist/admin/console"
	"kist/admin/ops"
	"kist/blobs"
	"kist/kv"
	"kist/search"
)

// IndexFunc is how the handler comes by the search index: in a running server
// it is the server's own.
type IndexFunc func() (*search.Index, error)

// indexing is how far the making of the index is.
type indexing struct {
	search.State
	Built int `json:"built"` // how often it was begun
}

// over reports whether the index was rebuilt since, or could not be. One that
// was is opened again, which is not yet the end.
func (got indexing) over(before indexing) bool {
	return got.Built > before.Built && got.Phase != search.Building && got.Phase != search.Opening
}

func (v verbs) indexState(*http.Request, nothing) (indexing, error) {
	x, err := v.index()
	if err != nil {
		return indexing{}, err
	}
	s := x.State()
	return indexing{s, s.Built}, nil
}

// reindex begins the index again, and tells how it was.
func (v verbs) reindex(r *http.Request, in nothing) (indexing, error) {
	before, err := v.indexState(r, in)
	if err != nil {
		return before, err
	}
	x, err := v.index()
	if err == nil {
		x.Rebuild()
	}
	return before, err
}

// indexOn runs the index of a store that is open in this process, from when it
// is asked for until end is called.
func (c *Call) indexOn(store *kv.Store) (index IndexFunc, end func() error) {
	var x *search.Index
	var content *blobs.Store
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	index = func() (*search.Index, error) {
		if x != nil {
			return x, nil
		}
		var err error
		if content, err = blobs.OpenIn(store.Dir()); err != nil {
			return nil, fmt.Errorf("cannot open the content: %w", err)
		}
		made, err := ops.NewIndex(store, content, c.Log)
		if err != nil {
			return nil, errors.Join(err, content.Close())
		}
		x = made
		work.Go(func() { x.Run(ctx) })
		return x, nil
	}
	return index, func() error {
		cancel()
		work.Wait()
		if content == nil {
			return nil
		}
		return content.Close()
	}
}

type reindexCommand struct{}

// reindexPoll is how often the progress is asked for.
const reindexPoll = 100 * time.Millisecond

func (cmd *reindexCommand) Run(c *Call) (err error) {
	ctx := context.Background()
	client, err := c.connect(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.close()) }()
	var before, got indexing
	if err := client.call(ctx, http.MethodPost, "/index", nothing{}, &before); err != nil {
		return err
	}
	begun := time.Now()
	p := c.progress("Indexing", 0)
	p.Unit = func(n int64) string { return strconv.FormatInt(n, 10) }
	for {
		if err := client.call(ctx, http.MethodGet, "/index", nothing{}, &got); err != nil {
			return err
		}
		if got.over(before) {
			break
		}
		p.Total = int64(got.Latest)
		p.Reach(int64(got.Place))
		time.Sleep(reindexPoll)
	}
	p.End()
	if got.Phase != search.Ready {
		return fmt.Errorf("the search index could not be made: %s", cmp.Or(got.Problem, "the server is ending"))
	}
	return c.say(got, "Indexed %s in %s.", console.Count(got.Documents, "record"), time.Since(begun).Round(10*time.Millisecond))
}
