// Package metadata leaves out what pictures and films say about their making: places, cameras, serial numbers, times,
// comments, thumbnails and maker notes. Every pixel, the orientation and the colour profile stay, and nothing is encoded
// again. The result is a [Plan]: a list of pieces over the original, so there is no second copy.
//
// JPEG, PNG, WebP and GIF become shorter. MP4, QuickTime, HEIC and AVIF, which refer to their own bytes by position,
// keep their length: what is left out is overwritten. Files are hostile: the work and the memory are bounded, and a
// structure that cannot be understood is an error, never a guess.
package metadata

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
)

var (
	// ErrUnreadable says that the structure of a file cannot be understood.
	ErrUnreadable = errors.New("metadata: the structure of the file cannot be read")

	// ErrKept says that the format keeps its metadata.
	ErrKept = errors.New("metadata: nothing is removed from this format")
)

func unreadable(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnreadable, fmt.Sprintf(format, args...))
}

// What metadata says something about.
const (
	GPS       = "gps"       // a place
	Camera    = "camera"    // a maker, a model or a program
	Serial    = "serial"    // a number of a camera or a lens
	Time      = "time"      // when it was taken
	Text      = "text"      // a comment, a caption or a name
	Thumbnail = "thumbnail" // a second picture, maybe of before an edit
	Other     = "other"
)

// maxPieces bounds the pieces of a plan.
const maxPieces = 100_000

// A piece is literal, or length bytes of the original from a place on, or so many zeros.
type piece struct {
	at      int64 // its place in the result
	from    int64 // its place in the original; zeros if it is negative
	length  int64
	literal []byte
}

// A Plan is a file without its metadata, as pieces over the original. It is safe for concurrent use.
type Plan struct {
	// Found lists what the original says, sorted. If it is empty, the result equals the original.
	Found []string

	pieces []piece
	size   int64
}

// Size is the length of the file without its metadata, in bytes.
func (p *Plan) Size() int64 { return p.size }

// Over returns the file without its metadata. original is the file that the plan was made of.
func (p *Plan) Over(original io.ReaderAt) *io.SectionReader {
	return io.NewSectionReader(&over{p, original}, 0, p.size)
}

type over struct {
	*Plan
	original io.ReaderAt
}

// ReadAt implements [io.ReaderAt].
func (o *over) ReadAt(b []byte, at int64) (n int, err error) {
	if at < 0 {
		return 0, errors.New("metadata: a negative place")
	}
	i := sort.Search(len(o.pieces), func(i int) bool { return o.pieces[i].at+o.pieces[i].length > at })
	for ; i < len(o.pieces) && n < len(b); i++ {
		p := &o.pieces[i]
		skip := at + int64(n) - p.at
		part := b[n:min(int64(len(b)), int64(n)+p.length-skip)]
		switch {
		case p.literal != nil:
			copy(part, p.literal[skip:])
		case p.from < 0:
			clear(part)
		default:
			if m, err := o.original.ReadAt(part, p.from+skip); m < len(part) {
				if err == nil || errors.Is(err, io.EOF) {
					err = io.ErrUnexpectedEOF
				}
				return n + m, err
			}
		}
		n += len(part)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (p *Plan) add(q piece) error {
	if q.length == 0 {
		return nil
	}
	q.at = p.size
	p.size += q.length
	if n := len(p.pieces); n > 0 && q.literal == nil && q.from >= 0 {
		if last := &p.pieces[n-1]; last.literal == nil && last.from >= 0 && last.from+last.length == q.from {
			last.length += q.length
			return nil
		}
	}
	if len(p.pieces) == maxPieces {
		return unreadable("it has more than %d parts", maxPieces)
	}
	p.pieces = append(p.pieces, q)
	return nil
}

// keep takes over a part of the original.
func (p *Plan) keep(from, to int64) error { return p.add(piece{from: from, length: to - from}) }

// put adds bytes that the original does not have.
func (p *Plan) put(b []byte) error { return p.add(piece{literal: b, length: int64(len(b))}) }

// found notes what the original says.
func (p *Plan) found(what ...string) {
	for _, w := range what {
		if i, has := slices.BinarySearch(p.Found, w); !has {
			p.Found = slices.Insert(p.Found, i, w)
		}
	}
}

// Clean plans a file of the media type without its metadata. The error is ErrKept for a format whose metadata is not
// removed, or that has none; ErrUnreadable; or that of r. It reads only what it must: of a film its tables, of a
// photo all of it once.
func Clean(r io.ReaderAt, size int64, mediaType string) (*Plan, error) {
	s := &source{r, size}
	p := &Plan{}
	var err error
	switch mediaType {
	case "image/jpeg":
		err = p.jpeg(s)
	case "image/png", "image/apng":
		err = p.png(s)
	case "image/webp":
		err = p.webp(s)
	case "image/gif":
		err = p.gif(s)
	case "image/heic", "image/heif", "image/avif", "video/mp4", "video/quicktime", "video/x-m4v":
		err = p.boxes(s)
	case "image/tiff":
		head, failed := s.some(0, maxExif)
		if failed != nil {
			return nil, failed
		}
		_, found := readExif(head)
		p.found(found...)
		return p, ErrKept
	default:
		return nil, ErrKept
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// A source is the original.
type source struct {
	io.ReaderAt
	size int64
}

// bytes reads exactly so many bytes, which the caller bounds.
func (s *source) bytes(at, length int64) ([]byte, error) {
	if at < 0 || length < 0 || at > s.size-length {
		return nil, unreadable("it ends early")
	}
	b := make([]byte, length)
	if n, err := s.ReadAt(b, at); int64(n) < length {
		return nil, fmt.Errorf("metadata: reading: %w", err)
	}
	return b, nil
}

// some reads up to so many bytes.
func (s *source) some(at, most int64) ([]byte, error) { return s.bytes(at, min(most, s.size-at)) }

// textual finds out what a text such as XMP says.
func textual(b []byte) (found []string) {
	t := string(b)
	for what, marks := range map[string][]string{
		GPS:    {"GPS", "\xa9xyz", "loci", "location"},
		Camera: {"tiff:Make", "tiff:Model", "\xa9mak", "\xa9mod", "quicktime.make", "quicktime.model", "CreatorTool"},
		Serial: {"SerialNumber"},
		Time:   {"CreateDate", "DateTimeOriginal", "\xa9day", "creationdate"},
	} {
		if slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(t, m) }) {
			found = append(found, what)
		}
	}
	if found == nil {
		found = []string{Text}
	}
	return found
}
