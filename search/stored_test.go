package search

import (
	"encoding/json"
	"testing"

	"github.com/matryer/is"
)

// TestStoredProof holds the bytes of proof.json. A proof that cannot be read
// costs a rebuild of the index at every start.
func TestStoredProof(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := proof{Mapping: 3, Store: "0123456789abcdef", Place: 7, Root: 9, Files: map[string]int64{"root.bolt": 65536}}
	const pinned = `{"Mapping":3,"Store":"0123456789abcdef","Place":7,"Root":9,"Files":{"root.bolt":65536}}`
	text, err := json.Marshal(p)
	is.NoErr(err)
	is.Equal(string(text), pinned)
	var back proof
	is.NoErr(json.Unmarshal([]byte(pinned), &back))
	is.Equal(back, p)
}
