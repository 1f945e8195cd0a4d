package metadata

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/blobs"
)

// kept is a store with one content.
func kept(t *testing.T, content string) (*blobs.Store, blobs.Ref) {
	t.Helper()
	is := is.New(t)
	store, err := blobs.Open(t.TempDir())
	is.NoErr(err)
	t.Cleanup(func() { is.NoErr(store.Close()) })
	stage, err := store.Stage()
	is.NoErr(err)
	_, err = stage.Write([]byte(content))
	is.NoErr(err)
	k, err := stage.Keep()
	is.NoErr(err)
	k.Release()
	return store, k.Ref
}

// A plan is made once, also one with as many parts as may be.
func TestPlansKeep(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	chunk := func(kind string) string { return "\x00\x00\x00\x00" + kind + "crc!" }
	store, ref := kept(t, "\x89PNG\r\n\x1a\n"+strings.Repeat(chunk("IDAT")+chunk("tEXt"), maxPieces-1)+chunk("IEND"))
	p := NewPlans(nil, store, slog.New(slog.DiscardHandler))
	plan, err := p.Of(t.Context(), ref, "image/png")
	is.NoErr(err)
	is.Equal(len(plan.pieces), maxPieces)
	again, err := p.Of(t.Context(), ref, "image/png")
	is.NoErr(err)
	is.True(plan == again)
	is.True(3*plan.memory() < maxBytes)
}
