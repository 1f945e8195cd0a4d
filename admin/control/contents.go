package control

import (
	"encoding/json"
	"net/http"

	"kist/admin/ops"
	"kist/blobs"
)

// PutBack is what the handler answers after contents were sent to it.
type PutBack struct {
	Refs  []string
	Bytes int64
}

// listContents reads the bytes of all contents that records have, and answers with
// a JSON value for each.
func (v handler) listContents(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	return v.Contents(func(content *blobs.Store) error {
		return ops.ListContents(r.Context(), v.Store, content, func(one ops.Content) error { return out.Encode(one) })
	})
}

// putContents stores the contents of a tar that records have.
func (v handler) putContents(r *http.Request) (out PutBack, err error) {
	err = v.Contents(func(content *blobs.Store) error {
		out.Refs, out.Bytes, err = ops.ReadContents(r.Body, v.Store, content)
		return err
	})
	return out, err
}

// Suspects are contents that may be damaged.
type Suspects struct{ Contents []string }

// scrub makes the server check its journal and some contents in the background.
func (v handler) scrub(_ *http.Request, in Suspects) (Nothing, error) {
	v.Store.ScrubNow()
	return Nothing{}, v.Contents(func(store *blobs.Store) error {
		for _, text := range in.Contents {
			ref, err := blobs.ParseRef(text)
			if err != nil {
				return err
			}
			store.CheckSoon(ref)
		}
		return nil
	})
}

// checkCopy returns what is wrong with the working copy of the store.
func (v handler) checkCopy(*http.Request, Nothing) ([]string, error) {
	problems := []string{}
	err := v.Store.CheckCopy(func(err error) { problems = append(problems, err.Error()) })
	return problems, err
}
