// Package thumb makes small versions of JPEG, PNG, GIF, WebP, BMP and TIFF pictures and stores them in a folder. It
// does the same with the icons of sites, which may also be ICO files.
//
// Files are hostile. A picture is decoded only if its header shows that this takes at most 200 MiB and that the
// picture has at most 40 million pixels (readHeader in bounds.go):
//
//	JPEG   40 million; progressive 27 with 4:2:0 samples and 13 with 4:4:4;
//	       CMYK 26; RGB 29
//	PNG    40 million; 26 with 16 bits a sample or interlaced
//	GIF    40 million; only the first frame of an animation
//	WebP   40 million; 12 lossless; 8 lossy with alpha; only the first frame of an animation
//	BMP    40 million; uncompressed
//	TIFF   40 million in strips or tiles; 7 in one; 20 with 16 bits a sample; only the first picture of several
//
// One picture is decoded at a time, and only a few can wait. The decoders are those of the standard library and
// golang.org/x/image; if one panics, there is no thumbnail. Each content has a file with its thumbnail or with the
// reason why there is none, so that a picture is decoded only once.
//
// A thumbnail has no metadata, because it is encoded from pixels. The orientation in the metadata of JPEG and WebP
// files is applied.
package thumb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"

	"kist/blobs"
	"kist/blobs/flight"
)

// A Size is a kind of thumbnail. Smaller pictures keep their own size.
type Size int

// The sizes, named by what shows them.
const (
	Tile   Size = iota // a large tile of a grid
	Small              // a small tile of a grid
	Row                // a row of a list
	Screen             // a page, in place of a picture of many megabytes
	Card               // a link preview
	sizes
)

// edges are the longest edges in pixels.
var edges = [sizes]int{Tile: 480, Small: 256, Row: 128, Screen: 1600, Card: 1200}

// isMadeOfTile reports whether a thumbnail of the size is made of the tile.
func (s Size) isMadeOfTile() bool { return s == Small || s == Row }

var (
	// ErrNone says that a content does not have a thumbnail and never will.
	ErrNone = errors.New("no thumbnail")

	// ErrBusy says that too many pictures are waiting to be decoded.
	ErrBusy = flight.ErrBusy

	// ErrClosed says that the Maker is closed.
	ErrClosed = flight.ErrClosed
)

// queueLength is how many contents may wait while one is decoded.
const queueLength = 8

// bigDecode is the number of bytes from which the memory for decoding is returned to the system immediately. Otherwise a second
// large picture would double the heap before the garbage collector runs.
const bigDecode = 32 << 20

// A Thumb is a thumbnail. Callers share Bytes and must not change them.
type Thumb struct {
	Bytes         []byte
	Type          string // image/jpeg or image/png
	Width, Height int
}

// A Maker makes and stores thumbnails. All methods are safe for concurrent use.
type Maker struct {
	caches  [sizes]cache
	posters [posterSizes]cache

	turns   flight.Turns // to decode a picture
	flights flight.Group[wanted, *Thumb]

	mu       sync.Mutex
	failure  error // of the latest write to the cache
	measured map[blobs.Ref][2]int
}

// wanted is a thumbnail of a content.
type wanted struct {
	ref  blobs.Ref
	size Size
}

// New opens the folder and creates it if it is missing; its parent must exist. The folder may be removed at any
// time, because all thumbnails can be made again.
func New(dir string) (*Maker, error) {
	m := &Maker{turns: make(flight.Turns, 1)}
	m.flights.Turns, m.flights.Most = m.turns, 1+queueLength
	for size, name := range [sizes]string{Small: "small", Row: "row", Screen: "screen", Card: "card"} {
		m.caches[size].dir = filepath.Join(dir, name)
		if err := m.caches[size].open(); err != nil {
			return nil, fmt.Errorf("thumb: opening the cache: %w", err)
		}
	}
	for i, name := range [posterSizes]string{posterTile: "poster", posterScreen: "posterscreen"} {
		m.posters[i].dir = filepath.Join(dir, name)
		if err := m.posters[i].open(); err != nil {
			return nil, fmt.Errorf("thumb: opening the posters: %w", err)
		}
	}
	return m, nil
}

// Close waits for the picture that is being decoded, which stops at its next read. From then on, Get fails.
func (m *Maker) Close() error {
	m.flights.Close()
	return nil
}

// Get returns a thumbnail of the content, which open opens. It is made only once for all callers: open is called
// at most once, from another goroutine, maybe after Get has returned. The file is closed.
//
// The error is ErrNone if these bytes do not have a thumbnail and never will, which is stored; ErrBusy; ErrClosed;
// blobs.ErrDamaged if the bytes are not those of the ref; open's; or ctx's, which ends the waiting but not the work
// that has started.
func (m *Maker) Get(ctx context.Context, ref blobs.Ref, size Size, open func() (*os.File, error)) (*Thumb, error) {
	want := wanted{ref, size}
	if e, got := m.caches[size].get(ref); got {
		return e.thumb, e.err
	}
	return m.flights.Do(ctx, want, func(alive context.Context) (*Thumb, error) { return m.make(alive, want, open) })
}

// Fitted is the width and height that a thumbnail of the file has, according to its header; ErrNone if it has none.
func Fitted(f *os.File, size Size) (width, height int, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	h, err := readHeader(io.NewSectionReader(f, 0, info.Size()))
	if err != nil {
		return 0, 0, err
	}
	width, height = fit(h.width, h.height, edges[size])
	if h.orientation.swapsEdges() {
		width, height = height, width
	}
	return width, height, nil
}

// maxMeasured bounds the remembered sizes, at about 100 bytes each. When there are more, all are forgotten.
const maxMeasured = 20_000

// Measure is the width and height of a picture's thumbnails, according to the header of its content; zero if that
// cannot be told now. open opens the content. The sizes of many contents are remembered.
func (m *Maker) Measure(ref blobs.Ref, open func() (*os.File, error)) (width, height int) {
	m.mu.Lock()
	size, known := m.measured[ref]
	m.mu.Unlock()
	if known {
		return size[0], size[1]
	}
	f, err := open()
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	width, height, err = Fitted(f, Tile)
	if err != nil { // what its header does not say, it will never say
		width, height = 0, 0
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.measured) >= maxMeasured || m.measured == nil {
		m.measured = make(map[blobs.Ref][2]int)
	}
	m.measured[ref] = [2]int{width, height}
	return width, height
}

// TooLarge reports whether a picture has more pixels or bytes than thumbnails are made of, according to its header.
// It returns false if the header cannot be read.
func TooLarge(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	if info.Size() > maxFile {
		return true
	}
	picture, err := codecOf(io.NewSectionReader(f, 0, info.Size()))
	if err != nil {
		return false
	}
	c, err := picture.config()
	return err == nil && (c.Width > maxEdge || c.Height > maxEdge || int64(c.Width)*int64(c.Height) > maxPixels)
}

// Likely reports whether the file can have a thumbnail, according to its header. It does not decode the picture,
// which may still fail.
func Likely(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	_, err = readHeader(io.NewSectionReader(f, 0, info.Size()))
	if errors.Is(err, ErrNone) {
		return false, nil
	}
	return err == nil, err
}

// make returns the stored thumbnail, which another caller may have made meanwhile, or makes and stores it.
// Close ends alive.
func (m *Maker) make(alive context.Context, want wanted, open func() (*os.File, error)) (*Thumb, error) {
	if e, got := m.caches[want.size].get(want.ref); got {
		return e.thumb, e.err
	}
	if want.size.isMadeOfTile() {
		tile, err := m.make(alive, wanted{want.ref, Tile}, open)
		if err != nil {
			return nil, err
		}
		less, err := small(tile.Bytes, want.size)
		if err != nil {
			return nil, err
		}
		m.store(want, entry{thumb: less})
		return less, nil
	}
	file, err := open()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s := &source{file: file, alive: alive}
	var e entry
	e.thumb, e.err = s.thumb(want.size)
	if s.err != nil {
		return nil, s.err
	}
	if e.err != nil && !errors.Is(e.err, ErrNone) {
		return nil, e.err
	}
	// The result is stored permanently, so it must be of the right bytes.
	if s.size <= maxFile {
		if err := blobs.CheckBytes(want.ref, io.NewSectionReader(s, 0, s.size)); err != nil {
			return nil, err
		}
	}
	m.store(want, e)
	return e.thumb, e.err
}

// store puts an entry into the cache. A failure is only remembered, because the thumbnail can be made again.
func (m *Maker) store(want wanted, e entry) {
	err := m.caches[want.size].put(want.ref, e)
	m.mu.Lock()
	m.failure = err
	m.mu.Unlock()
}

// small makes a thumbnail of the bytes of a file.
func small(data []byte, size Size) (*Thumb, error) {
	r := inMemory(data)
	h, err := readHeader(r)
	if err != nil {
		return nil, refuse("%v", err)
	}
	return draft(h, edges[size], quality(qualities[size]))
}

// A source is the file to make a thumbnail of.
type source struct {
	file  *os.File
	alive context.Context
	size  int64
	err   error // the first read error, except for the end of the file
}

func (s *source) ReadAt(b []byte, at int64) (int, error) {
	if s.err == nil && s.alive.Err() != nil {
		s.err = ErrClosed
	}
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.file.ReadAt(b, at)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = fmt.Errorf("thumb: reading a picture: %w", err)
		return n, s.err
	}
	return n, err
}

func (s *source) thumb(size Size) (*Thumb, error) {
	info, err := s.file.Stat()
	if err != nil {
		return nil, fmt.Errorf("thumb: examining a picture: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, refuse("not a regular file")
	}
	s.size = info.Size()
	r := io.NewSectionReader(s, 0, s.size)
	h, err := readHeader(r)
	if err != nil {
		return nil, err
	}
	t, err := draft(h, edges[size], quality(qualities[size]))
	if err != nil {
		return nil, err
	}
	if len(t.Bytes) > maxPayload {
		return nil, refuse("its thumbnail has %d bytes", len(t.Bytes))
	}
	return t, nil
}

// draft decodes, shrinks to the edge and encodes. A panic becomes a refusal.
func draft(h header, edge int, encode encoder) (t *Thumb, err error) {
	defer func() {
		if p := recover(); p != nil {
			t, err = nil, refuse("the decoder panics: %v", p)
		}
	}()
	if h.memory >= bigDecode {
		defer debug.FreeOSMemory()
	}
	img, err := h.decode()
	if err != nil {
		return nil, refuse("%v", err)
	}
	less := shrink(img, h, edge)
	data, mediaType, err := encode(less)
	if err != nil {
		return nil, refuse("%v", err)
	}
	return &Thumb{Bytes: data, Type: mediaType, Width: less.Rect.Dx(), Height: less.Rect.Dy()}, nil
}
