// Package metadata leaves out what pictures and films say about their making: places, cameras, serial numbers, times,
// comments, thumbnails and maker notes. Every pixel, the orientation and the colour profile stay, and nothing is encoded
// again. The result is a [Plan]: a list of pieces over the original, so there is no second copy.
//
// JPEG, PNG, WebP and GIF become shorter. MP4, QuickTime, HEIC and AVIF, which refer to their own bytes by position,
// keep their length: what is left out is overwritten. Files are hostile: the work and the memory are bounded, and a
// structure that cannot be understood is an error, never a guess.
package metadata

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"kist/kv/record"
)

var (
	// ErrUnreadable says that the structure of a file cannot be understood.
	ErrUnreadable = errors.New("metadata: the structure of the file cannot be read")

	// ErrKept says that the format keeps its metadata.
	ErrKept = errors.New("metadata: nothing is removed from this format")

	// ErrNone says that the file is of a kind that nobody looks for metadata in, such as text.
	ErrNone = errors.New("metadata: neither a picture nor a film")
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

	// Photo is what the original says about how it was made.
	Photo  record.Photo
	photos int // parts that were read for it

	pieces   []piece
	size     int64
	profiles int // bytes of colour profiles that were read
}

// Size is the length of the file without its metadata, in bytes.
func (p *Plan) Size() int64 { return p.size }

// memory is about how many bytes the plan takes.
func (p *Plan) memory() int {
	if p == nil {
		return 0
	}
	n := 200 + 48*cap(p.pieces) + len(p.Photo.Camera) + len(p.Photo.Lens)
	for i := range p.pieces {
		n += cap(p.pieces[i].literal)
	}
	return n
}

// Over returns the file without its metadata. original is the file that the plan was made of, at its beginning.
func (p *Plan) Over(original io.ReadSeeker) *Reader { return &Reader{plan: p, original: original} }

// A Reader reads a file without its metadata.
type Reader struct {
	plan     *Plan
	original io.ReadSeeker
	at       int64 // where the next read begins
	next     int64 // where the original is
}

// Seek implements [io.Seeker].
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.plan.size
	}
	if offset < 0 {
		return 0, errors.New("metadata: a negative place")
	}
	r.at = offset
	return offset, nil
}

// Read implements [io.Reader].
func (r *Reader) Read(b []byte) (n int, err error) {
	for n < len(b) {
		p, skip, ok := r.piece()
		if !ok {
			break
		}
		part := b[n:min(int64(len(b)), int64(n)+p.length-skip)]
		switch {
		case p.literal != nil:
			copy(part, p.literal[skip:])
		case p.from < 0:
			clear(part)
		default:
			if err := r.seek(p.from + skip); err != nil {
				return n, err
			}
			m, err := io.ReadFull(r.original, part)
			n, r.at, r.next = n+m, r.at+int64(m), r.next+int64(m)
			if err != nil {
				return n, cut(err)
			}
			continue
		}
		n, r.at = n+len(part), r.at+int64(len(part))
	}
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// long is the length in bytes from which a piece of the original is sent without going through a buffer here.
const long = 16 << 10

// SendTo writes up to most bytes to w. A long piece of the original goes through w.ReadFrom, so that the kernel can
// send it.
func (r *Reader) SendTo(w interface {
	io.Writer
	io.ReaderFrom
}, most int64,
) (sent int64, err error) {
	var buffer []byte
	for sent < most && err == nil {
		p, skip, ok := r.piece()
		if !ok {
			break
		}
		if left := min(p.length-skip, most-sent); p.literal == nil && p.from >= 0 && left >= long {
			err = r.seek(p.from + skip)
			if err != nil {
				break
			}
			var n int64
			n, err = w.ReadFrom(&io.LimitedReader{R: r.original, N: left})
			r.at, r.next, sent = r.at+n, r.next+n, sent+n
			if err == nil && n < left {
				err = io.ErrUnexpectedEOF
			}
			continue
		}
		if buffer == nil {
			buffer = make([]byte, 2*long)
		}
		var n int
		n, err = r.Read(buffer[:min(2*long, most-sent)])
		if err == nil {
			n, err = w.Write(buffer[:n])
		}
		sent += int64(n)
	}
	return sent, err
}

// piece is the piece at the place of the next read, and how much of it is before that.
func (r *Reader) piece() (p *piece, skip int64, ok bool) {
	all := r.plan.pieces
	i := sort.Search(len(all), func(i int) bool { return all[i].at+all[i].length > r.at })
	if i == len(all) {
		return nil, 0, false
	}
	return &all[i], r.at - all[i].at, true
}

func (r *Reader) seek(to int64) error {
	if r.next == to {
		return nil
	}
	_, err := r.original.Seek(to, io.SeekStart)
	r.next = to
	return err
}

// Close closes the original if it can be closed.
func (r *Reader) Close() error {
	if c, ok := r.original.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// cut turns an end within a piece into an error.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
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

// maxScanned is the length in bytes of the longest JPEG or GIF file, which have to be read from end to end.
const maxScanned = 512 << 20

// notFilms are brands of box files that are not films: music, whose titles are for everyone, and raw pictures of cameras.
var notFilms = []string{"M4A ", "M4B ", "M4P ", "crx ", "jp2 ", "jpx ", "jxl "}

// formatOf names the format of a file that begins with head; "kept" if its metadata is not removed, "" if it cannot have any
// to look for.
func formatOf(head []byte, mediaType string) string {
	is := func(at int, magic ...string) bool {
		return slices.ContainsFunc(magic, func(m string) bool {
			return len(head) > at && bytes.HasPrefix(head[at:], []byte(m))
		})
	}
	top, _, _ := strings.Cut(mediaType, "/")
	switch {
	case is(0, "\xff\xd8\xff"):
		return "jpeg"
	case is(0, "\x89PNG\r\n\x1a\n"):
		return "png"
	case is(0, "RIFF") && is(8, "WEBP"):
		return "webp"
	case is(0, "GIF87a", "GIF89a"):
		return "gif"
	case is(4, "ftyp") && !is(8, notFilms...), top == "video" && is(4, "moov", "mdat", "wide", "free", "skip", "pnot"):
		return "boxes"
	case is(0, "II*\x00", "MM\x00*"):
		return "tiff"
	case top == "image", top == "video", top == "audio", mediaType == "application/pdf":
		return "kept"
	}
	return ""
}

// Clean plans a file of the media type without its metadata. The bytes decide about the format; the media type only
// helps with QuickTime films that do not name theirs. The error is ErrKept for a format whose metadata is not removed,
// with a plan that has only Found; ErrNone for a file of another kind; ErrUnreadable; or that of r.
func Clean(r io.ReaderAt, size int64, mediaType string) (*Plan, error) {
	s := &source{from: r, size: size, budget: 64<<20 + min(size, maxScanned)}
	head, err := s.some(0, 12)
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	switch format := formatOf(head, mediaType); format {
	case "jpeg", "gif":
		if size > maxScanned {
			return nil, unreadable("it is too long")
		}
		if format == "gif" {
			err = p.gif(s)
		} else {
			err = p.jpeg(s)
		}
	case "png":
		err = p.png(s)
	case "webp":
		err = p.webp(s)
	case "boxes":
		err = p.boxes(s)
	case "tiff":
		head, err = s.some(0, maxExif)
		if err != nil {
			return nil, err
		}
		_, found := readExif(head)
		p.found(found...)
		err = p.whole(s)
		if err != nil && !errors.Is(err, ErrUnreadable) {
			return nil, err
		}
		return p, ErrKept
	case "kept":
		return p, ErrKept
	default:
		return nil, ErrNone
	}
	if err != nil {
		return nil, err
	}
	p.pieces = slices.Clone(p.pieces) // without room for more
	return p, nil
}

// A source is the original. It counts what is read, so that a hostile file takes bounded work.
type source struct {
	from   io.ReaderAt
	size   int64
	budget int64 // bytes that may still be read
	reads  int

	window []byte // the bytes from start on
	start  int64
}

// Bounds of the work: how often a part is read, and how much at once.
const (
	maxReads  = 1_000_000
	windowFew = 4 << 10 // bytes that are read for a few
	windowAll = 64 << 10
)

// bytes reads exactly so many bytes, which the caller bounds and may change.
func (s *source) bytes(at, length int64) ([]byte, error) {
	if at < 0 || length < 0 || at > s.size-length {
		return nil, unreadable("it ends early")
	}
	if length > windowFew {
		b := make([]byte, length)
		return b, s.fill(b, at)
	}
	b, err := s.peek(at, length, windowFew)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(b[:length]), nil
}

// some reads up to so many bytes.
func (s *source) some(at, most int64) ([]byte, error) { return s.bytes(at, min(most, s.size-at)) }

// peek returns the bytes from at on, at least so many unless the file ends. It reads ahead. The caller may use them
// until the next call.
func (s *source) peek(at, least, ahead int64) ([]byte, error) {
	s.reads++
	if s.reads > maxReads {
		return nil, unreadable("it has too many parts")
	}
	least = min(least, s.size-at)
	if at < s.start || at+least > s.start+int64(len(s.window)) {
		n := min(max(least, ahead), s.size-at)
		if int64(cap(s.window)) < n {
			s.window = make([]byte, n)
		}
		s.window, s.start = s.window[:n], at
		if err := s.fill(s.window, at); err != nil {
			s.window = s.window[:0]
			return nil, err
		}
	}
	return s.window[at-s.start:], nil
}

func (s *source) fill(b []byte, at int64) error {
	s.budget -= int64(len(b))
	if s.budget < 0 {
		return unreadable("too much of it would have to be read")
	}
	if n, err := s.from.ReadAt(b, at); n < len(b) {
		return fmt.Errorf("metadata: reading: %w", err)
	}
	return nil
}

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
