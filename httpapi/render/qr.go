package render

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"rsc.io/qr"
)

// quiet is the width of the empty border that scanners need (ISO/IEC 18004).
const quiet = 4

// QR draws text as a QR code: an SVG image, black on white in every theme, because many scanners cannot
// read inverted codes. It fails if the text is too long for a code, over two thousand bytes.
func QR(text string) (template.HTML, error) {
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		return "", fmt.Errorf("render: %w", err)
	}
	side := strconv.Itoa(code.Size + 2*quiet)
	var b strings.Builder
	b.WriteString(`<svg class="qr" viewBox="0 0 ` + side + ` ` + side + `" role="img" aria-label="QR code of the address" shape-rendering="crispEdges">` +
		`<path fill="#fff" d="M0 0h` + side + `v` + side + `H0z"/><path d="`)
	for y := range code.Size {
		for x := 0; x < code.Size; x++ {
			if !code.Black(x, y) {
				continue
			}
			from := x
			for x < code.Size && code.Black(x, y) {
				x++
			}
			n := strconv.Itoa(x - from)
			b.WriteString("M" + strconv.Itoa(from+quiet) + " " + strconv.Itoa(y+quiet) + "h" + n + "v1h-" + n + "z")
		}
	}
	b.WriteString(`"/></svg>`)
	return template.HTML(b.String()), nil // #nosec G203 -- numbers and what is written above
}
