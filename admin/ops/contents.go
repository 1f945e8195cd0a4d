package ops

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"kist/admin/exit"
	"kist/blobs"
	"kist/blobs/sealed"
	"kist/kv"
	"kist/kv/catalog"
)

// Content is what ListContents finds about one content that records have.
type Content struct {
	Ref    string
	Size   int64
	Files  []Lost `json:",omitempty"` // the records that have it, if it is missing, damaged or unreadable
	Unread bool   `json:",omitempty"` // it cannot be read, so it may or may not be damaged
	End    bool   `json:",omitempty"` // there are no more contents
}

// listedAtOnce is how many contents are looked up in one transaction. Reading them
// all may take hours, so one transaction for all would be too long.
const listedAtOnce = 256

// ListContents reads the bytes of all contents that records have and calls yield
// for each of them, and at last with End. It does not read contents again that this
// process has hashed before.
func ListContents(ctx context.Context, store *kv.Store, content *blobs.Store, yield func(Content) error) error {
	var last []byte
	for {
		var page []Content
		if err := store.View(func(tx *kv.Tx) error {
			for ref, n := range tx.ContentsAfter(last) {
				page, last = append(page, Content{Ref: blobs.Ref(ref).String(), Size: n}), ref[:]
				if len(page) == listedAtOnce {
					break
				}
			}
			return nil
		}); err != nil {
			return err
		}
		if len(page) == 0 {
			return yield(Content{End: true})
		}
		for _, one := range page {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := one.check(store, content); err != nil {
				return err
			}
			if err := yield(one); err != nil {
				return err
			}
		}
	}
}

// check reads the content and notes the records that have it if something is wrong.
func (one *Content) check(store *kv.Store, content *blobs.Store) error {
	ref, err := blobs.ParseRef(one.Ref)
	if err != nil {
		return err
	}
	why := ""
	switch err := content.Sound(ref); {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		why = "its bytes are missing"
	case errors.Is(err, blobs.ErrDamaged):
		why = "its bytes are damaged"
	default:
		one.Unread, why = true, "its bytes cannot be read: "+err.Error()
	}
	return store.View(func(tx *kv.Tx) error {
		for _, r := range tx.Having(ref) {
			one.Files = append(one.Files, Lost{ID: r.ID, Name: r.Name, Content: one.Ref, Why: why})
		}
		return nil
	})
}

// RequireBackup fails if there is neither a journal nor a stored file in source, a
// folder or a tar.
func RequireBackup(source Source) error {
	errNone := fmt.Errorf("there is no backup of kist at %s: it has neither a journal nor stored files", source.Path)
	folder, err := source.folder()
	if err != nil {
		return err
	}
	if folder {
		for _, name := range []string{"journal", "blobs"} {
			if info, err := os.Stat(filepath.Join(source.Path, name)); err == nil && info.IsDir() {
				return nil
			}
		}
		return errNone
	}
	f, err := source.open()
	if err != nil {
		return err
	}
	defer f.Close()
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if errors.Is(err, sealed.ErrAltered) {
			return tarError(source.name(), true, err)
		}
		if err != nil {
			return errNone
		}
		if name := path.Clean(h.Name); contentEntry.MatchString(name) || path.Base(path.Dir(name)) == "journal" {
			return nil
		}
	}
}

// WriteContents writes a tar with the wanted contents that the source has. Each content is in the tar once, with
// its ref as its name. ReadContents reads it.
func WriteContents(w io.Writer, source Source, wanted map[blobs.Ref][]Lost) error {
	b := bufio.NewWriterSize(w, 256<<10)
	t := tar.NewWriter(b)
	put := func(ref blobs.Ref, n int64, r io.Reader) error {
		head := &tar.Header{Typeflag: tar.TypeReg, Name: ref.String(), Size: n, Mode: 0o600}
		if err := t.WriteHeader(head); err != nil {
			return err
		}
		_, err := io.Copy(t, r)
		return err
	}
	if err := putWanted(source, wanted, put); err != nil {
		return err
	}
	if err := t.Close(); err != nil {
		return err
	}
	return b.Flush()
}

type putFunc func(ref blobs.Ref, n int64, r io.Reader) error

// putWanted puts the wanted contents that the source has.
func putWanted(source Source, wanted map[blobs.Ref][]Lost, put putFunc) error {
	folder, err := source.folder()
	if err != nil {
		return err
	}
	if folder {
		return fromFolder(source.Path, wanted, put)
	}
	return fromTar(source, wanted, put)
}

func fromFolder(source string, wanted map[blobs.Ref][]Lost, put putFunc) error {
	from, err := blobs.Read(filepath.Join(source, "blobs"))
	if errors.Is(err, fs.ErrNotExist) {
		return exit.Absent("folder with stored files at", filepath.Join(source, "blobs"))
	}
	if err != nil {
		return err
	}
	defer from.Close()
	left := maps.Clone(wanted)
	for _, ref := range SortedRefs(wanted) {
		// It is read twice: a content that is damaged here, too, must not stop the others.
		if from.Check(ref) != nil {
			continue
		}
		delete(left, ref)
		if err := putContent(from, ref, put); err != nil {
			return err
		}
	}

	// A copy that was made while the server ran may have small files only in its journal.
	err = carriedOf(source, 0, left, func(ref blobs.Ref, b []byte) error {
		delete(left, ref)
		return put(ref, int64(len(b)), bytes.NewReader(b))
	})
	if errors.Is(err, fs.ErrNotExist) { // it has no journal
		return nil
	}
	return err
}

// putContent puts a content of a store.
func putContent(from *blobs.Store, ref blobs.Ref, put putFunc) error {
	f, err := from.Get(ref)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return put(ref, info.Size(), f)
}

func fromTar(source Source, wanted map[blobs.Ref][]Lost, put putFunc) error {
	in, err := source.open()
	if err != nil {
		return err
	}
	defer in.Close()
	sent := map[blobs.Ref]bool{}
	t := tar.NewReader(in)
	for first := true; ; first = false {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return tarError(source.name(), first, err)
		}
		m := contentEntry.FindStringSubmatch(path.Clean(h.Name))
		if m == nil || h.Typeflag != tar.TypeReg {
			continue
		}
		ref, err := blobs.ParseRef(m[2])
		if err != nil || sent[ref] {
			continue
		}
		if _, got := wanted[ref]; !got {
			continue
		}
		sent[ref] = true
		if err := put(ref, h.Size, t); err != nil {
			return err
		}
	}
}

// SortedRefs returns the keys in ascending order.
func SortedRefs[V any](all map[blobs.Ref]V) []blobs.Ref {
	return slices.SortedFunc(maps.Keys(all), func(a, b blobs.Ref) int { return slices.Compare(a[:], b[:]) })
}

// ReadContents stores the contents of a tar that WriteContents wrote. It checks the
// hash of each content and skips damaged ones and those that no record has. It
// returns the refs of the stored contents and how many bytes they have, also when it
// fails on the way.
func ReadContents(r io.Reader, store *kv.Store, content *blobs.Store) (refs []string, bytes int64, err error) {
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if err == io.EOF {
			return refs, bytes, nil
		}
		if err != nil {
			return refs, bytes, fmt.Errorf("cannot read what was sent: %w", err)
		}
		ref, err := blobs.ParseRef(h.Name)
		if err != nil {
			return refs, bytes, err
		}
		needed := false
		if err := store.View(func(tx *kv.Tx) error {
			needed = catalog.Referenced(tx, ref)
			return nil
		}); err != nil {
			return refs, bytes, err
		}
		if !needed { // its records were removed meanwhile
			continue
		}
		err = keep(content, ref, t)
		if errors.Is(err, blobs.ErrDamaged) {
			continue // it is still missing
		}
		if err != nil {
			return refs, bytes, err
		}
		refs = append(refs, ref.String())
		bytes += h.Size
	}
}
