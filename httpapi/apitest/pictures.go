package apitest

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"os"
	"testing"

	"kist/httpapi/metadata"
)

// JpegOf is a picture of one colour.
func JpegOf(w, h int, c color.Color) string {
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		m.Set(i%w, i/w, c)
	}
	var b bytes.Buffer
	_ = jpeg.Encode(&b, m, nil) // a buffer takes everything
	return b.String()
}

var Gallery = flag.String("gallery", "", "write sample pages to this directory, to look at")

const SampleMarkdown = `The boiler stops about **once a winter**. It is *not* broken: the pressure is low. See [the manual](https://example.org/boiler.pdf).

## Step by step

1. Wait until the display shows ` + "`E-04`" + `.
2. Open the filling valve, slowly:
   - the left one, with the ~~red~~ blue cap
   - a quarter turn is enough
3. Close it at *1.5 bar*.

- [x] Tell the neighbours
- [ ] Buy a new gauge

> Never above 2 bar. The valve under the sink opens at three, and then the kitchen is wet.

| Display | Meaning | Bar |
|:--------|---------|----:|
| E-04 | pressure low | 0.8 |
| E-11 | no flame | 1.5 |

` + "```sh\n# what it said in the last hour\ncurl -fsS http://boiler.local/state | jq '.pressure, .error'\n```" + `

צריך לבדוק את הלחץ פעם בשנה.

![a drawing of the valves](https://example.org/valves.png)
`

const SampleGo = `// Package retry tries again what may work the next time.
package retry

import (
	"bytes"
	"context"
	"time"
)

const most = 30 * time.Second // and no longer

// Do calls f until it succeeds, waiting twice as long each time.
func Do(ctx context.Context, f func() error) (err error) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, most) {
		if err = f(); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up after %v: %w\n", wait, err)
		case <-time.After(wait):
		}
	}
}
`

const SamplePicture = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 400" width="1600" height="1000"><rect width="640" height="400" fill="#b9d0d8"/><circle cx="470" cy="110" r="38" fill="#f2dfb8"/><path d="M0 270 150 170l90 60 120-110 130 120 150-60v220H0z" fill="#4b6a72"/><path d="M0 330l170-50 150 40 160-50 160 40v90H0z" fill="#2f474d"/></svg>`

// Photo is a picture that says where it was taken, and what visitors get of it.
func Photo(t testing.TB, name string) (original, clean string) {
	t.Helper()
	b, err := os.ReadFile("../metadata/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := metadata.Clean(bytes.NewReader(b), int64(len(b)), "")
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Over(bytes.NewReader(b)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b), string(out)
}
