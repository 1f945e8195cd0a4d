package public

import (
	"testing"

	"github.com/matryer/is"
)

func TestWords(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for n, want := range map[int64]string{0: "0 bytes", 1: "1 byte", 999: "999 bytes", 1000: "1.0 kB", 4_123_456: "4.1 MB", 9_960_000: "10 MB", 999_600: "1.0 MB", 1 << 53: "9.0 PB"} {
		is.Equal(SizeText(n), want)
	}
	for media, want := range map[string]string{
		"image/jpeg": "JPEG picture", "image/svg+xml": "SVG picture", "audio/mpeg": "MP3 audio", "application/pdf": "PDF document",
		"image/vnd.adobe.photoshop": "Picture", "video/x-matroska": "Matroska video", "text/x-c": "Text file", "application/zip": "ZIP file", "": "ZIP file",
	} {
		is.Equal(mediaName(media, "a.zip"), want)
	}
	is.Equal(mediaName("", "a"), "File")
	is.Equal(mediaName("", `a."><`), "File")
	is.Equal(playtime(0), "0 min")
	is.Equal(playtime(65), "1 h 5 min")
	is.Equal(playtime(120), "2 h")
}
