package control

import (
	"net/http"

	"kist/search"
)

// Indexing says how far the search index is.
type Indexing struct {
	search.State
	Built int `json:"built"` // how often it was started from scratch
}

// Over reports whether the index was rebuilt since before, or could not be rebuilt. A
// rebuilt index is opened again, and that is not the end yet.
func (got Indexing) Over(before Indexing) bool {
	return got.Built > before.Built && got.Phase != search.Building && got.Phase != search.Opening
}

func (v handler) indexState(*http.Request, Nothing) (Indexing, error) {
	x, err := v.Index()
	if err != nil {
		return Indexing{}, err
	}
	s := x.State()
	return Indexing{s, s.Built}, nil
}

// reindex starts to rebuild the index and returns the state before.
func (v handler) reindex(r *http.Request, in Nothing) (Indexing, error) {
	before, err := v.indexState(r, in)
	if err != nil {
		return before, err
	}
	x, err := v.Index()
	if err != nil {
		return before, err
	}
	x.Rebuild()
	return before, nil
}
