package apitest

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
)

// jpegOf is a picture of one colour.
func JpegOf(w, h int, c color.Color) string {
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		m.Set(i%w, i/w, c)
	}
	var b bytes.Buffer
	_ = jpeg.Encode(&b, m, nil) // a buffer takes everything
	return b.String()
}
