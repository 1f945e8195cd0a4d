package transfer

import (
	"archive/zip"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"kist/blobs"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/history"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/transfer/format"
)

// Exported says what an export holds.
type Exported struct {
	User    string `json:"user"`
	Records int    `json:"records"`
	Files   int    `json:"files"`   // contents
	Bytes   int64  `json:"bytes"`   // of those contents
	Missing int    `json:"missing"` // contents whose bytes are gone
}

// Export is an account's data at one instant, ready to be written out.
type Export struct {
	Holds Exported

	blobs    *blobs.Store
	spool    *os.File
	parts    []part
	contents [][32]byte
}

// part is an entry of the zip in the spool.
type part struct {
	name string
	size int64
}

// NewExport reads the records of an account in one transaction and saves them
// in a temporary file in the data directory's cache. The transaction waits for
// the disk and never for a client that downloads: while it is open, pages of the
// store's file that are no longer needed cannot be used again. The form of each line
// is in format/kist.go. The caller must Close the export.
func NewExport(store *kv.Store, content *blobs.Store, owner record.ID) (x *Export, err error) {
	spool, err := os.CreateTemp(filepath.Join(store.Dir(), "cache"), "export-*")
	if err != nil {
		return nil, fmt.Errorf("cannot write the export to a temporary file: %w", err)
	}
	_ = os.Remove(spool.Name()) // so that a crash leaves nothing; if this fails, Close removes it
	x = &Export{blobs: content, spool: spool}
	if err = store.View(func(tx *kv.Tx) error { return x.read(tx, owner) }); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// Close removes the temporary data of the export.
func (x *Export) Close() error {
	err := x.spool.Close()
	if failed := os.Remove(x.spool.Name()); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
		err = errors.Join(err, failed)
	}
	return err
}

// read saves the account's data as the transaction sees it.
func (x *Export) read(tx *kv.Tx, owner record.ID) error {
	u, err := people.ReadUser(tx, owner)
	if err != nil {
		return err
	}
	x.Holds.User = u.Name
	tags, err := catalog.Tags(tx, owner)
	if err != nil {
		return err
	}
	folders, err := catalog.Folders(tx, owner)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(x.spool, 256<<10)
	var line []byte
	write := func() {
		n, _ := out.Write(line) // Flush returns the error
		x.parts[len(x.parts)-1].size += int64(n)
	}
	begin := func(name string) { x.parts = append(x.parts, part{name: name}) }
	begin(format.ManifestName)
	line = format.AppendManifest(line, u.Name)
	write()
	begin(format.TagsName)
	for _, t := range tags {
		line = format.AppendLabel(line[:0], t.Name, t.Color)
		write()
	}
	begin(format.FoldersName)
	for _, f := range folders {
		line = format.AppendLabel(line[:0], f.Name, f.Color)
		write()
	}
	var versioned []*record.Record // those with versions, without their bodies
	seen := map[[32]byte]bool{}
	for _, k := range record.Kinds {
		begin(format.KindName(k))
		v := record.Shown{Record: record.Record{Kind: k}}
		q := catalog.Query{Owner: owner, Kind: k, Sort: catalog.Oldest, Limit: page}
		for more := true; more; more = q.After != "" {
			list, err := catalog.List(tx, q)
			if err != nil {
				return err
			}
			for _, r := range list.Records {
				if err := catalog.Show(tx, r, &v); err != nil {
					return err
				}
				refers, err := carried(tx, r, &v)
				if err != nil {
					return err
				}
				line = format.AppendRecord(line[:0], &v, catalog.Used(tx, r), refers)
				write()
				x.Holds.Records++
				if history.HasVersions(tx, r) {
					versioned = append(versioned, &record.Record{ID: r.ID, Owner: r.Owner, Kind: k, Share: record.Share{Slug: r.Slug}})
				}
				if r.Bytes != nil && !seen[r.Bytes.Ref] {
					seen[r.Bytes.Ref] = true
					x.contents = append(x.contents, r.Bytes.Ref)
					x.Holds.Files++
					x.Holds.Bytes += r.Bytes.Size
				}
			}
			q.After = list.Next
		}
	}
	begin(format.VersionsName)
	for _, r := range versioned {
		all, err := history.Versions(tx, r)
		if err != nil {
			return err
		}
		for _, head := range slices.Backward(all) { // oldest first
			v, err := history.Version(tx, r, head.ID)
			if err != nil {
				return err
			}
			line = format.AppendVersion(line[:0], r, v)
			write()
		}
	}
	x.parts = slices.DeleteFunc(x.parts, func(p part) bool { return p.size == 0 })
	return out.Flush()
}

// carried is what a collection refers to; nil for other records.
func carried(tx *kv.Tx, r *record.Record, v *record.Shown) (*format.Carried, error) {
	if r.Kind != record.Collections {
		return nil, nil //nolint:nilnil // it is documented
	}
	c := &format.Carried{Tag: v.Collected.TagName, Items: []string{}}
	if v.Collected.Folder != (record.ID{}) {
		f, err := catalog.Folder(tx, r.Owner, v.Collected.Folder)
		if err != nil {
			return nil, err
		}
		c.Folder = f.Name
	}
	all, err := catalog.MembersOf(tx, r)
	if err != nil {
		return nil, err
	}
	for _, m := range all.All {
		if v.Collected.Live() && m.ID != v.Collected.Cover {
			continue
		}
		item, err := catalog.Owned(tx, r.Owner, m.Kind, m.ID)
		if err != nil {
			return nil, err
		}
		if m.ID == v.Collected.Cover {
			c.Cover = item.Slug
		}
		if !v.Collected.Live() {
			c.Items = append(c.Items, item.Slug)
		}
	}
	return c, nil
}

// Write writes the export as a zip. It leaves out contents whose bytes are gone
// or damaged, and counts them in Holds.Missing.
func (x *Export) Write(w io.Writer) error {
	z := zip.NewWriter(w)
	at := int64(0)
	for _, p := range x.parts {
		to, err := z.Create(p.name)
		if err != nil {
			return err
		}
		if _, err := io.Copy(to, io.NewSectionReader(x.spool, at, p.size)); err != nil {
			return fmt.Errorf("cannot write %s: %w", p.name, err)
		}
		at += p.size
	}
	for _, ref := range x.contents {
		err := x.blobs.Prove(ref) // before it is added to the zip
		var f *os.File
		if err == nil {
			f, err = x.blobs.Get(ref)
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, blobs.ErrDamaged) {
			x.Holds.Missing++
			continue
		}
		if err != nil {
			return err
		}
		// Not compressed: most files are compressed already.
		to, err := z.CreateHeader(&zip.FileHeader{Name: format.BlobName(ref), Method: zip.Store})
		if err == nil {
			_, err = io.Copy(to, f)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("cannot write a file's bytes: %w", err)
		}
	}
	return z.Close()
}
