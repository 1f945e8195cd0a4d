package blobs

import (
	"context"
	"io"
	"iter"
	"time"
)

// A Remote is an object store: named objects that are written once and never
// change. Package s3 has one that any S3-compatible server can be.
//
// The errors of its methods are fs.ErrExist and fs.ErrNotExist where that is the
// cause. After any other error nothing is known: a Put may have happened.
type Remote interface {
	// Put makes an object from the first size bytes of body. The error is
	// fs.ErrExist if there is an object of that name. Of several Puts of a name
	// at the same time one succeeds, as long as the object has at most MaxExact
	// bytes and the server keeps its word: see Race of package ship.
	Put(ctx context.Context, name string, body io.ReaderAt, size int64) error
	// Get reads n bytes of an object from a byte on, or all the rest if n is
	// less than 0. The reader's last read fails if the answer was cut short.
	Get(ctx context.Context, name string, from, n int64) (io.ReadCloser, error)
	// Head describes an object without reading it.
	Head(ctx context.Context, name string) (Object, error)
	// Delete removes an object. Removing an object that does not exist succeeds.
	Delete(ctx context.Context, name string) error
	// After lists the objects whose names begin with the prefix and come after
	// the name, in the order of their names. An error ends the list.
	After(ctx context.Context, prefix, name string) iter.Seq2[Object, error]
}

// A Later is an error of a Remote that asks to be left alone for a time.
type Later struct {
	Err  error
	Wait time.Duration
}

func (e *Later) Error() string { return e.Err.Error() }
func (e *Later) Unwrap() error { return e.Err }

// An Unfit is an error of a Remote that says why what is there must not be used as it was asked
// for, and what to do. Another request would fail, too.
type Unfit struct {
	Text string
	// Bare says that objects are there which are not encrypted, and were to be.
	Bare bool
}

func (e *Unfit) Error() string { return e.Text }

// MaxExact is how many bytes an object may have that is put in one request.
const MaxExact = 64 << 20

// An Object describes an object of a Remote.
type Object struct {
	Name    string
	Size    int64     // in bytes
	ModTime time.Time // by the clock of the server
}

// RemoteName is the name of a blob in a Remote.
func (r Ref) RemoteName() string { return "blobs/" + r.path() }
