package ops

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"time"

	"kist/admin/console"
	"kist/blobs"
	"kist/blobs/disk"
	"kist/blobs/sealed"
	"kist/kv/datadir"
	"kist/kv/journal"
)

// toTar writes a tar, reads it back and makes it dest.
func (b *snapshot) toTar(dest string) error {
	return WriteFile(dest, func(f *os.File) error {
		onDisk, _ := sizes(b.parts)
		if err := b.job.needSpace(filepath.Dir(f.Name()), onDisk+b.contents()); err != nil {
			return err
		}
		return b.writeTar(f)
	}, func(f *os.File) error { return b.checkTar(f) })
}

// writeTar writes a tar, and seals it if there is a key.
func (b *snapshot) writeTar(w io.Writer) error {
	if b.job.Key == nil {
		return b.writePlainTar(w)
	}
	to, err := b.job.Key.NewWriter(w)
	if err != nil {
		return err
	}
	if err := b.writePlainTar(to); err != nil {
		return err // without an end nobody takes it for whole
	}
	return to.Close()
}

func (b *snapshot) writePlainTar(w io.Writer) error {
	t := tar.NewWriter(w)
	now := time.Now().Truncate(time.Second)
	put := func(name string, n int64, r io.Reader) error {
		head := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: n, Mode: 0o600, ModTime: now}
		if err := t.WriteHeader(head); err != nil {
			return err
		}
		_, err := io.Copy(t, r)
		return err
	}

	instance, err := b.state.Instance()
	if err != nil {
		return err
	}
	text, err := datadir.InstanceText(instance)
	if err != nil {
		return err
	}
	if err := put(datadir.InstanceName, int64(len(text)), bytes.NewReader(text)); err != nil {
		return err
	}

	putPart := func(p journal.Part) error {
		f, err := os.Open(filepath.Join(b.scratch, "journal", p.Name))
		if err != nil {
			return err
		}
		defer f.Close()
		return put("journal/"+p.Name, p.Size, f)
	}
	for _, p := range b.parts {
		if err := putPart(p); err != nil {
			return err
		}
	}

	if err := b.each("Writing the files", func(ref blobs.Ref, n int64, p *console.Progress) (bool, error) {
		if err := b.of(ref).Check(ref); err != nil { // before it is in the tar
			return false, err
		}
		f, err := b.of(ref).Get(ref)
		if err != nil {
			return false, err
		}
		defer f.Close()
		return false, put("blobs/"+ref.String()[:2]+"/"+ref.String(), n, io.TeeReader(f, p))
	}); err != nil {
		return err
	}
	return t.Close()
}

// The names in a tar. Anything may come before them, because the names in a tar of
// a data directory may begin with the name of its folder.
var (
	journalEntry = regexp.MustCompile(`^(|.*/)journal/((?:log|snap)-[0-9a-f]{16})$`)
	contentEntry = regexp.MustCompile(`^(|.*/)blobs/[0-9a-f]{2}/([0-9a-f]{64})$`)
)

// A brokenTar says that a tar was altered, or is not whole.
type brokenTar struct{ text string }

func (e *brokenTar) Error() string { return e.text }

// tarError says in plain words why the tar with the name cannot be read. first is true if
// nothing could be read.
func tarError(name string, first bool, err error) error {
	switch cut := errors.Is(err, io.ErrUnexpectedEOF); {
	case errors.Is(err, sealed.ErrAltered):
		return &brokenTar{name + " was altered, or it ends too early; copy it once more, or use another backup"}
	case first && (cut || errors.Is(err, tar.ErrHeader)):
		return fmt.Errorf("%s is not a tar; if it is compressed, unpack it first", name)
	case cut:
		return &brokenTar{name + " ends too early; copy it once more, or use another backup"}
	}
	return fmt.Errorf("cannot read the tar %s: %w", name, err)
}

// unpack writes the journal of a tar into a folder and calls content with each
// content. It skips everything else in the tar. Errors call the tar by the name.
func unpack(r io.Reader, name, folder string, content func(blobs.Ref, io.Reader) error) error {
	to, err := disk.OpenFolder(folder)
	if err != nil {
		return err
	}
	defer to.Close()
	t := tar.NewReader(r)
	store := func(hash string) error {
		ref, err := blobs.ParseRef(hash)
		if err != nil {
			return err
		}
		return content(ref, t)
	}
	root, seen := "", map[string]bool{}
	for first, whole := true, false; ; first = false {
		h, err := t.Next()
		if err == io.EOF && !whole {
			return fmt.Errorf("there is no journal in %s, so it is no backup of kist", name)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return tarError(name, first, err)
		}

		if h.Typeflag != tar.TypeReg {
			continue
		}
		entry := path.Clean(h.Name)
		m, records := journalEntry.FindStringSubmatch(entry), true
		if m == nil {
			m, records = contentEntry.FindStringSubmatch(entry), false
		}
		switch {
		case m == nil:
			continue
		case len(seen) == 0:
			root = m[1]
		case m[1] != root: // a backup within the backup
			continue
		}
		if seen[m[2]] {
			return fmt.Errorf("the tar has %s twice", console.Printable(entry))
		}
		seen[m[2]] = true

		if records {
			whole = whole || m[2] != journal.RecentName && m[2] != journal.CarriedName // they alone are no journal
			err = to.Create(m[2], t)
		} else {
			err = store(m[2])
		}
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, sealed.ErrAltered) {
			return tarError(name, false, err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", console.Printable(h.Name), err)
		}
	}
}
