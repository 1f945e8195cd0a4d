package grant_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/httpapi/grant"
)

// The secret of a sent file is always the same, opens only with the store's secret, and not if anything of it differs.
func TestSealSent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g, err := grant.NewSigner([32]byte{1})
	is.NoErr(err)
	other, err := grant.NewSigner([32]byte{2})
	is.NoErr(err)
	f := grant.SentFile{Owner: uuid.UUID{1}, Request: uuid.UUID{2}, Item: uuid.UUID{3}}
	text := g.SealSent(f)
	is.Equal(g.SealSent(f), text)
	got, ok := g.OpenSent(text)
	is.True(ok)
	is.Equal(got, f)
	_, ok = other.OpenSent(text)
	is.True(!ok)
	for i := range text {
		b := []byte(text)
		if b[i]++; b[i] == text[i] {
			continue
		}
		_, ok := g.OpenSent(string(b))
		is.True(!ok)
	}
	for _, bad := range []string{"", "x", text[:20], text + "AAAA"} {
		_, ok := g.OpenSent(bad)
		is.True(!ok)
	}
	f.Item = uuid.UUID{4}
	is.True(g.SealSent(f)[:16] != text[:16]) // another nonce
}
