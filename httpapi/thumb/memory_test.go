package thumb

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"image"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"testing"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

const memoryChild = "KIST_TEST_THUMB_CHILD"

// deflated is a PNG file of zeros, of which a hundredth is sent.
func deflated(t testing.TB, w, h int, depth, colour byte, each int) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	line := make([]byte, 1+w*each)
	for range h {
		if _, err := z.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.Join(
		[][]byte{pngHead(uint32(w), uint32(h), depth, colour, 0), pngChunk("IDAT", b.Bytes()), pngChunk("IEND", nil)}, nil,
	)
}

// TestMemory makes thumbnails of the worst pictures that are allowed, each
// twice in a process of its own, which must not take more than 230 MiB: the
// 200 that decoding may, and what a test takes.
func TestMemory(t *testing.T) {
	is := is.New(t)
	if name := os.Getenv(memoryChild); name != "" {
		data, err := os.ReadFile(name)
		is.NoErr(err)
		for range 2 {
			_, _ = newDesk(t).get(data)
		}
		status, err := os.ReadFile("/proc/self/status")
		is.NoErr(err)
		_, err = os.Stdout.Write(status)
		is.NoErr(err)
		return
	}
	needs.Time(t)
	if runtime.GOOS != "linux" || raceEnabled {
		t.Skip("the race detector takes memory too, and other systems tell otherwise")
	}
	dir := t.TempDir()
	for name, file := range map[string]func() []byte{
		"png-16": func() []byte { return deflated(t, 6500, 4000, 16, 6, 8) },
		"jpeg-progressive": func() []byte {
			return flat{w: 4300, h: 3240, factors: []byte{0x11, 0x11, 0x11}, progressive: true}.file()
		},
		"jpeg-cmyk": func() []byte {
			return flat{w: 6400, h: 4080, factors: []byte{0x11, 0x11, 0x11, 0x11}, segments: adobe(0)}.file()
		},
		"webp-trees": func() []byte { return riff(chunk{"VP8L", vp8lBomb(4000, 3000)}) },
		"tiff-strip": func() []byte {
			return scan{order: binary.LittleEndian, rows: 2700, deflated: true}.file(t, image.NewNRGBA(image.Rect(0, 0, 2700, 2700)))
		},
		"tiff-lines": func() []byte {
			return scan{order: binary.BigEndian, rows: 1, deflated: true}.file(t, image.NewNRGBA(image.Rect(0, 0, 3500, 5000)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			data := file()
			h, err := readHeader(sectionOf(data))
			is.NoErr(err) // it is within the limits
			path := filepath.Join(dir, name)
			is.NoErr(os.WriteFile(path, data, 0o600))
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemory$")
			child.Env = append(os.Environ(), memoryChild+"="+path)
			out, err := child.CombinedOutput()
			is.NoErr(err)
			most := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(out)
			is.True(most != nil)
			kib, err := strconv.Atoi(string(most[1]))
			is.NoErr(err)
			t.Logf("expected %d MiB, took %d MiB", h.memory>>20, kib>>10)
			is.True(kib < 230<<10)
		})
	}
}
