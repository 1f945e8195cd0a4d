package ops

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"kist/blobs/sealed"
)

// A Source is a backup, or a copy of a data directory, that is read.
type Source struct {
	Path  string    // of a folder or a tar; "-" for a tar on Stdin
	Stdin io.Reader // for "-"
	Key   *sealed.Key
	// Sealed says that only a tar that the key has sealed will do. Without it a plain one is read, too.
	Sealed bool
}

// name is what messages call it.
func (s Source) name() string {
	if s.Path == "-" {
		return "standard input"
	}
	return s.Path
}

// folder reports whether it is a folder.
func (s Source) folder() (bool, error) {
	if s.Path == "-" {
		return false, nil
	}
	info, err := os.Stat(s.Path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // opening it says so
	}
	if err != nil {
		return false, err
	}
	if info.IsDir() && s.Sealed {
		return false, fmt.Errorf("%s is a folder, which is not encrypted; leave out --key-file if you trust it", s.Path)
	}
	return info.IsDir(), nil
}

// open opens the tar, whose bytes are plain. It must be closed, which leaves Stdin open.
func (s Source) open() (*opened, error) {
	in := io.NopCloser(s.Stdin)
	if s.Path != "-" {
		f, err := os.Open(s.Path)
		if err != nil {
			return nil, err
		}
		in = f
	}
	o, err := s.unseal(in)
	if err != nil {
		_ = in.Close() // it was only read
		return nil, err
	}
	return &opened{o, in, s.name()}, nil
}

// opened is a tar that is read.
type opened struct {
	io.Reader
	io.Closer
	name string
}

// end reads the rest of a sealed tar. One that was cut or extended behind its last file is refused here.
func (o *opened) end() error {
	if _, plain := o.Reader.(*bufio.Reader); plain {
		return nil
	}
	_, err := io.Copy(io.Discard, o)
	if err != nil {
		return tarError(o.name, false, err)
	}
	return nil
}

// unseal returns a reader of the plain bytes of a tar.
func (s Source) unseal(r io.Reader) (io.Reader, error) {
	b := bufio.NewReaderSize(r, 256<<10)
	begins, err := b.Peek(sealed.SealedPrefix)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("cannot read %s: %w", s.name(), err)
	}
	isSealed := sealed.IsSealed(begins)
	switch {
	case !isSealed && s.Sealed:
		return nil, fmt.Errorf("%s is not encrypted, or not whole; if you trust it all the same, leave out --key-file",
			s.name())
	case !isSealed:
		return b, nil
	case s.Key == nil:
		return nil, fmt.Errorf("%s is encrypted; add --key-file with the key file. If the file is lost, "+
			"kist store key FILE --from-words makes it again from the words of its recovery sheet", s.name())
	}

	plain, err := s.Key.NewReader(b)
	if errors.Is(err, sealed.ErrAltered) {
		return nil, tarError(s.name(), true, err)
	}
	if errors.As(err, new(*sealed.OtherKey)) {
		return nil, fmt.Errorf("%s cannot be read: %w; name the right file with --key-file", s.name(), err)
	}
	return plain, err
}
