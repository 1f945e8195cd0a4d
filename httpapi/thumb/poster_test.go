package thumb

import (
	"bytes"
	"compress/zlib"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"
	"github.com/matryer/is"
)

// longWhenSmall is a PNG that a poster can be made of, and whose version for screens is longer than what is stored: its
// rows are one row, moved along.
func longWhenSmall(t *testing.T) []byte {
	const edge = 1600
	var b bytes.Buffer
	z, err := zlib.NewWriterLevel(&b, zlib.BestCompression)
	is.New(t).NoErr(err)
	r := rand.New(rand.NewPCG(1, 2))
	row := make([]byte, 4*edge)
	for i := range row {
		row[i] = byte(96 + r.IntN(64)) // the encoder takes each from the mean of its neighbours
	}
	for range edge {
		by := 4 * r.IntN(200)
		_, _ = z.Write([]byte{0}) // to memory
		_, _ = z.Write(row[by:])
		_, _ = z.Write(row[:by])
	}
	is.New(t).NoErr(z.Close())
	data := append(pngHead(edge, edge, 8, 6, 0), pngChunk("IDAT", b.Bytes())...)
	return append(data, pngChunk("IEND", nil)...)
}

// TestPosterTooLong: nothing is stored that is too long to be read again. The tile stands for it.
func TestPosterTooLong(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	d := newDesk(t)
	owner, file := uuid.New(), uuid.New()
	data := longWhenSmall(t)
	is.True(len(data) < MaxPoster)
	is.NoErr(d.SetPoster(t.Context(), owner, file, data, func() error { return nil }))
	for i := range d.posters {
		_, there := d.posters[i].get(posterRef(owner, file))
		is.True(there)
	}
	got, err := d.Poster(owner, file, Screen)
	is.NoErr(err)
	is.Equal(got.Width, 480)
}

// TestPosterOfOtherBytes: a poster goes if the file has got other bytes while it was made.
func TestPosterOfOtherBytes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	d := newDesk(t)
	owner, file := uuid.New(), uuid.New()
	data, replaced := encodePNG(t, photo(20, 10)), errors.New("replaced")
	is.NoErr(d.SetPoster(t.Context(), owner, file, data, func() error { return nil }))
	err := d.SetPoster(t.Context(), owner, file, data, func() error { return replaced })
	is.True(errors.Is(err, replaced))
	for _, size := range []Size{Tile, Screen} {
		_, err = d.Poster(owner, file, size)
		is.True(errors.Is(err, ErrNone))
	}
}
