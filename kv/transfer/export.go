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
	"kist/kv/field"
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
	form     Form
	spool    *os.File
	parts    []part
	contents [][32]byte
}

// Form is the form of an export.
type Form string

// The forms. All but the first have only bookmarks, for other programs.
const (
	Zip  Form = "zip"  // everything, for kist
	HTML Form = "html" // for browsers, linkding and most others
	JSON Form = "json" // for Karakeep
)

// Forms lists the forms.
var Forms = []Form{Zip, HTML, JSON}

// MediaType is the media type of an export in the form.
func (f Form) MediaType() string {
	switch f {
	case HTML:
		return "text/html; charset=utf-8"
	case JSON:
		return "application/json"
	}
	return "application/zip"
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
func NewExport(store *kv.Store, content *blobs.Store, owner record.ID, form Form) (x *Export, err error) {
	spool, err := os.CreateTemp(filepath.Join(store.Dir(), "cache"), "export-*")
	if err != nil {
		return nil, fmt.Errorf("cannot write the export to a temporary file: %w", err)
	}
	_ = os.Remove(spool.Name()) // so that a crash leaves nothing; if this fails, Close removes it
	x = &Export{blobs: content, form: form, spool: spool}
	if err := store.View(func(tx *kv.Tx) error { return x.read(tx, owner) }); err != nil {
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
	a := &account{x: x, tx: tx, out: bufio.NewWriterSize(x.spool, 256<<10), seen: map[[32]byte]bool{}}
	if x.form != Zip {
		return a.bookmarks(owner)
	}

	tags, err := catalog.Tags(tx, owner)
	if err != nil {
		return err
	}
	folders, err := catalog.Folders(tx, owner)
	if err != nil {
		return err
	}

	a.begin(format.ManifestName)
	a.write(format.AppendManifest(a.line[:0], u.Name))
	a.begin(format.TagsName)
	for _, t := range tags {
		a.write(format.AppendLabel(a.line[:0], t.Name, t.Color))
	}
	a.begin(format.FoldersName)
	for _, f := range folders {
		a.write(format.AppendLabel(a.line[:0], f.Name, f.Color))
	}
	for _, k := range record.Kinds {
		if err := a.records(owner, k); err != nil {
			return err
		}
	}
	if err := a.versions(); err != nil {
		return err
	}

	x.parts = slices.DeleteFunc(x.parts, func(p part) bool { return p.size == 0 })
	return a.out.Flush()
}

// An account is on its way into the spool of an export.
type account struct {
	x    *Export
	tx   *kv.Tx
	out  *bufio.Writer // to the spool
	line []byte        // the latest line; the next one takes its memory

	seen      map[[32]byte]bool // contents that the export has already
	versioned []*record.Record  // those with versions, without their bodies
}

// begin begins an entry of the zip.
func (a *account) begin(name string) { a.x.parts = append(a.x.parts, part{name: name}) }

// write adds a line to the entry.
func (a *account) write(line []byte) {
	a.line = line
	n, _ := a.out.Write(line) // Flush returns the error
	a.x.parts[len(a.x.parts)-1].size += int64(n)
}

// records saves the records of a kind.
func (a *account) records(owner record.ID, k *record.Kind) error {
	a.begin(format.KindName(k))
	v := record.Shown{Record: record.Record{Kind: k}}
	return a.each(owner, k, func(r *record.Record) error { return a.record(r, &v) })
}

// bookmarks saves the bookmarks for other programs.
func (a *account) bookmarks(owner record.ID) error {
	begin, end := format.NetscapeBegin, format.NetscapeEnd
	if a.x.form == JSON {
		begin, end = format.JSONBegin, format.JSONEnd
	}
	a.begin(string(a.x.form))
	a.write(append(a.line[:0], begin...))
	v := record.Shown{Record: record.Record{Kind: record.Bookmarks}}
	err := a.each(owner, record.Bookmarks, func(r *record.Record) error {
		if err := catalog.Show(a.tx, r, &v); err != nil {
			return err
		}
		body, err := r.Decode()
		if err != nil {
			return err
		}
		b := format.BookmarkOf(&v, body.(*record.Bookmark)) // the kind says so
		if a.x.form == JSON {
			a.write(format.AppendJSON(a.line[:0], &b, a.x.Holds.Records == 0))
		} else {
			a.write(format.AppendNetscape(a.line[:0], &b))
		}
		a.x.Holds.Records++
		return nil
	})
	if err != nil {
		return err
	}
	a.write(append(a.line[:0], end...))
	return a.out.Flush()
}

// each calls save for each record of a kind, oldest first.
func (a *account) each(owner record.ID, k *record.Kind, save func(*record.Record) error) error {
	q := catalog.Query{Owner: owner, Kind: k, Sort: catalog.Oldest, Limit: page, Attached: true}
	for more := true; more; more = q.After != "" {
		list, err := catalog.List(a.tx, q)
		if err != nil {
			return err
		}
		for _, r := range list.Records {
			if err := save(r); err != nil {
				return err
			}
		}
		q.After = list.Next
	}
	return nil
}

// record saves a record and notes its content and its versions. v is memory for it.
func (a *account) record(r *record.Record, v *record.Shown) error {
	if err := catalog.Show(a.tx, r, v); err != nil {
		return err
	}
	refers, err := carried(a.tx, r, v)
	if err != nil {
		return err
	}
	v.Body, err = a.named(r.Owner, r.Kind, v.Body)
	if err != nil {
		return err
	}
	a.write(format.AppendRecord(a.line[:0], v, catalog.Used(a.tx, r), refers))
	a.x.Holds.Records++

	if history.HasVersions(a.tx, r) {
		head := &record.Record{ID: r.ID, Owner: r.Owner, Kind: r.Kind, Share: record.Share{Slug: r.Slug}}
		a.versioned = append(a.versioned, head)
	}
	if r.Bytes != nil && !a.seen[r.Bytes.Ref] {
		a.seen[r.Bytes.Ref] = true
		a.x.contents = append(a.x.contents, r.Bytes.Ref)
		a.x.Holds.Files++
		a.x.Holds.Bytes += r.Bytes.Size
	}
	return nil
}

// versions saves the earlier texts of the records, oldest first.
func (a *account) versions() error {
	a.begin(format.VersionsName)
	for _, r := range a.versioned {
		all, err := history.Versions(a.tx, r)
		if err != nil {
			return err
		}
		for _, head := range slices.Backward(all) {
			v, err := history.Version(a.tx, r, head.ID)
			if err != nil {
				return err
			}
			v.Body, err = a.named(r.Owner, r.Kind, v.Body)
			if err != nil {
				return err
			}
			a.write(format.AppendVersion(a.line[:0], r, v))
		}
	}
	return nil
}

// named is the body of a record with the ids that the files which it shows have in the export. Those of others, and of
// files that are gone, stay.
func (a *account) named(owner record.ID, k *record.Kind, body []byte) ([]byte, error) {
	r := record.Record{Owner: owner, Kind: k, Body: body}
	if len(r.Shows()) == 0 {
		return body, nil
	}
	b, err := r.Decode()
	if err != nil {
		return nil, err
	}
	var failed error
	renamed := record.RenameShown(b, func(id record.ID) record.ID {
		f, err := catalog.Borrow(a.tx, owner, record.Files, id.String())
		if err != nil {
			if !kv.Missing(err) {
				failed = err
			}
			return id
		}
		return format.FileID(f.Slug)
	})
	if failed != nil || renamed == b {
		return body, failed
	}
	return field.AppendJSON(nil, renamed), nil
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
	all, err := catalog.ItemsOf(tx, r)
	if err != nil {
		return nil, err
	}
	for _, m := range all.All {
		if v.Collected.Live() && m.ID != v.Collected.Cover || m.Owner != r.Owner { // what a member put in is the member's
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

// Write writes the export. It leaves out contents whose bytes are gone or
// damaged, and counts them in Holds.Missing.
func (x *Export) Write(w io.Writer) error {
	if x.form != Zip {
		_, err := io.Copy(w, io.NewSectionReader(x.spool, 0, x.parts[0].size))
		return err
	}
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
		f, err := x.open(ref)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, blobs.ErrDamaged) {
			x.Holds.Missing++
			continue
		}
		if err != nil {
			return err
		}
		if err := addContent(z, ref, f); err != nil {
			return fmt.Errorf("cannot write a file's bytes: %w", err)
		}
	}
	return z.Close()
}

// open opens a content that is whole.
func (x *Export) open(ref [32]byte) (*os.File, error) {
	if err := x.blobs.Prove(ref); err != nil { // before it is added to the zip
		return nil, err
	}
	return x.blobs.Get(ref)
}

// addContent writes the bytes of a content into the zip and closes f. They are not compressed: most
// files are compressed already.
func addContent(z *zip.Writer, ref [32]byte, f *os.File) (err error) {
	defer func() { err = errors.Join(err, f.Close()) }()

	to, err := z.CreateHeader(&zip.FileHeader{Name: format.BlobName(ref), Method: zip.Store})
	if err != nil {
		return err
	}
	_, err = io.Copy(to, f)
	return err
}
