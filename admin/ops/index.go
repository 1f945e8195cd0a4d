package ops

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"path/filepath"

	"kist/blobs"
	"kist/kv"
	"kist/kv/record"
	"kist/kv/workcopy"
	"kist/search"
)

// NewIndex returns the search index of an open store. It is built and kept up to date
// once its Run is called.
func NewIndex(store *kv.Store, content *blobs.Store, log *slog.Logger) (*search.Index, error) {
	secret, err := store.Secret()
	if err != nil {
		return nil, fmt.Errorf("cannot name the store: %w", err)
	}
	name := sha256.Sum256(append([]byte("search index of "), secret[:]...))
	return search.New(search.Options{
		Dir: filepath.Join(store.Dir(), "cache", "index"), Store: hex.EncodeToString(name[:]),
		Feed: store.Feed, Trim: store.Trim, Wake: store.Changed(), FreeSpace: store.FreeForContent,
		Relax: store.SetRelaxed, Mapped: workcopy.FileMemory, Log: log,
		Content: func(r *record.Record) ([]byte, error) {
			return content.Head(blobs.Ref(r.Bytes.Ref), search.MaxContent)
		},
	}), nil
}
