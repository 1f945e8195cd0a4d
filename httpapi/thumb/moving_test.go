package thumb

import (
	"bytes"
	"image"
	"image/color"
	"os"
	"path/filepath"
	"testing"

	"github.com/matryer/is"
	"golang.org/x/image/bmp"
)

// frameOf is a frame of an animation with the chunks of a WebP file.
func frameOf(t *testing.T, name string, w, h int) chunk {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("testdata", name))
	is.New(t).NoErr(err)
	inside := file[12:]
	if string(inside[:4]) == "VP8X" {
		inside = inside[18:]
	}
	w, h = w-1, h-1
	head := []byte{0, 0, 0, 0, 0, 0, byte(w), byte(w >> 8), byte(w >> 16), byte(h), byte(h >> 8), byte(h >> 16), 100, 0, 0, 0}
	return chunk{"ANMF", append(head, inside...)}
}

// TestFirstFrame: the thumbnail of an animation is that of its first frame.
func TestFirstFrame(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"lossy.webp", "lossless.webp", "alpha.webp"} {
		is := is.New(t)
		still, err := os.ReadFile(filepath.Join("testdata", name))
		is.NoErr(err)
		want, err := small(still, Row)
		is.NoErr(err)
		h, err := readHeader(inMemory(still))
		is.NoErr(err)

		frame := frameOf(t, name, h.width, h.height)
		moving := riff(
			vp8x(2|16, h.width, h.height), chunk{"ANIM", make([]byte, 6)}, frame,
			chunk{"ANMF", make([]byte, 40)}, // the next frames are not read
		)
		got, err := small(moving, Row)
		is.NoErr(err)
		is.Equal(got.Bytes, want.Bytes)
		for cut := 0; cut < len(moving); cut += 7 {
			_, err := small(moving[:cut], Row)
			is.True(err != nil || cut > len(moving)/2) // and it does not panic
		}
	}
}

// TestBMP: a picture of Windows has a thumbnail in its colours.
func TestBMP(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	red := color.RGBA{R: 200, G: 40, B: 40, A: 255}
	colours := image.NewRGBA(image.Rect(0, 0, 800, 500))
	palette := image.NewPaletted(colours.Rect, color.Palette{color.White, red})
	for y := range 500 {
		for x := range 800 {
			colours.Set(x, y, red)
			palette.Set(x, y, red)
		}
	}
	for _, m := range []image.Image{colours, palette} {
		var b bytes.Buffer
		is.NoErr(bmp.Encode(&b, m))
		got, err := small(b.Bytes(), Tile)
		is.NoErr(err)
		is.Equal([2]int{got.Width, got.Height}, [2]int{480, 300})
		shown, _, err := image.Decode(bytes.NewReader(got.Bytes))
		is.NoErr(err)
		r, g, _, _ := shown.At(200, 100).RGBA()
		is.True(r>>8 > 190 && r>>8 < 210 && g>>8 > 30 && g>>8 < 50)
		_, err = small(b.Bytes()[:b.Len()/2], Tile)
		is.True(err != nil)
	}

	head := append([]byte("BM"), make([]byte, 52)...) // it promises 8000 by 5000 pixels and has not one
	copy(head[10:], []byte{54, 0, 0, 0, 40, 0, 0, 0, 0x40, 0x1f, 0, 0, 0x88, 0x13, 0, 0, 1, 0, 24})
	_, err := readHeader(inMemory(head))
	is.Equal(err.Error(), "thumb: no thumbnail: the file is cut off")
}
