package record

import (
	"math"
	"strconv"
	"testing"

	"github.com/matryer/is"
)

func TestColorOf(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(ColorOf("Sea"), ColorOf("sea"))
	is.Equal(ColorOf("sea"), "#835FD9") // stored colours must not depend on the version
	for _, c := range labelColors {
		for _, page := range []string{"#FFFFFF", "#F3F1ED", "#131417", "#1E2024"} {
			a, b := luminance(t, c), luminance(t, page)
			is.True((max(a, b)+0.05)/(min(a, b)+0.05) >= 3) // WCAG 2, 1.4.11
		}
	}
}

// luminance is the relative luminance of a colour (WCAG 2).
func luminance(t *testing.T, c string) float64 {
	t.Helper()
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(c[1+2*i:3+2*i], 16, 8)
		is.New(t).NoErr(err)
		v := float64(n) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}
