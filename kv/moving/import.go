// Package moving takes what was exported elsewhere into the store, and writes
// out what an account keeps. DESIGN.md has the form of an export and the rules
// of both.
package moving

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"time"

	"kist/blobs"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/media"
	"kist/kv/moving/format"
	"kist/kv/record"
)

// A transaction takes so many entries, and about so many bytes of text.
const (
	batchRows  = 100
	batchBytes = 1 << 20
)

// Import is a way in.
type Import struct {
	Store   *kv.Store
	Blobs   *blobs.Store
	Owner   record.ID
	DryRun  bool                // nothing is kept
	MaxFile int64               // bytes of one file
	Tell    func(*record.Moved) // is told how far it is, now and then; may be nil

	report *record.Moved
	batch  []*entry
	volume int
	seen   map[*record.Kind]map[[16]byte]bool // what the owner has, by identity
	slugs  map[string]bool                    // that a dry run would have given
	last   record.ID                          // the latest that was made
}

// entry is a row on its way into the store.
type entry struct {
	format.Row
	form *record.Form
	id   [16]byte
	file *record.Content
	kept *blobs.Kept
	made bool
}

// Run takes the rows in. It makes what is not there yet, so that it may be run
// again, for instance when it was cut short. The report is there in any case;
// the error says why it ended early: a format.Unreadable, what came of the
// source, the end of ctx, or the store's.
func (m *Import) Run(ctx context.Context, name format.Format, rows format.Rows) (*record.Moved, error) {
	m.report = &record.Moved{Format: string(name), DryRun: m.DryRun, Made: map[string]int64{}, Remarks: []record.Remark{}}
	m.seen, m.slugs = map[*record.Kind]map[[16]byte]bool{}, map[string]bool{}
	for row, err := range rows {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = m.take(row)
		}
		if err != nil {
			if failed := m.flush(); failed != nil && !errors.Is(err, failed) {
				err = errors.Join(err, failed)
			}
			return m.report, err
		}
	}
	err := m.flush()
	if m.Tell != nil {
		m.Tell(m.report)
	}
	return m.report, err
}

// take readies a row and adds it to the batch.
func (m *Import) take(row format.Row) error {
	if row.Refused != "" {
		m.report.Entries++
		m.report.Remark(row.At, row.Name, row.Refused, true)
		return nil
	}
	for _, n := range row.Notes {
		m.report.Remark(row.At, row.Name, n, false)
	}
	if row.Kind == nil && row.Label == nil {
		return nil
	}
	e := &entry{Row: row}
	if row.Label == nil {
		m.report.Entries++
		ok, err := m.ready(e)
		if err != nil || !ok {
			return err
		}
	}
	if m.batch = append(m.batch, e); e.form != nil {
		m.volume += len(field.AppendJSON(nil, e.form.Body))
	}
	if len(m.batch) < batchRows && m.volume < batchBytes {
		return nil
	}
	return m.flush()
}

// refuse notes that an entry cannot be kept.
func (m *Import) refuse(e *entry, why error) (bool, error) {
	m.report.Remark(e.At, e.Name, why.Error(), true)
	return false, nil
}

// ready makes a form of a row, and content of a file's bytes. It reports false
// for what is refused, or there already.
func (m *Import) ready(e *entry) (bool, error) {
	e.form = record.NewForm(e.Kind)
	if e.Kind == record.Files {
		e.form.FolderName = e.Folder
	}
	if err := field.Create(e.form, e.Fields); err != nil {
		var problems field.Problems
		if errors.As(err, &problems) {
			err = record.Bad(problems)
		}
		return m.refuse(e, err)
	}
	e.form.Password = field.Secret{} // there are hashes, or none
	if e.Kind == record.Files {
		if err := m.bytes(e); err != nil {
			var unfit *record.Error
			if errors.As(err, &unfit) && unfit.Fault != record.Full {
				return m.refuse(e, err)
			}
			return false, err
		}
	}
	e.id = identity(e.Kind, e.form.Slug, e.form.Body, e.Past.Created, e.Exact)
	if e.Exact {
		return true, nil // the transaction looks for its slug
	}
	known, err := m.known(e.Kind)
	if err != nil {
		return false, err
	}
	if known[e.id] {
		m.report.There++
		m.letGo([]*entry{e})
		return false, nil
	}
	known[e.id] = true
	return true, nil
}

// identity is what makes two things the same: the page of a bookmark, slug and
// target of a short link, name and content of a file, and of anything else, as of
// kist's own, all of its fields and when it was made.
func identity(k *record.Kind, slug string, b record.Body, created time.Time, exact bool) [16]byte {
	text := ""
	switch b := b.(type) {
	case *record.Bookmark:
		text = record.SamePage(b.URL)
	case *record.Link:
		text = slug + " " + b.URL
	case *record.File:
		text = b.SHA256 + " " + b.OriginalName
	default:
		exact = true
	}
	if exact {
		at := int64(0)
		if !created.IsZero() {
			at = created.UnixMilli()
		}
		text = fmt.Sprintf("%d %s", at, field.AppendJSON(nil, b))
	}
	sum := sha256.Sum256(append([]byte{k.Code}, text...))
	return [16]byte(sum[:])
}

// page is how many records a transaction reads to learn what is there.
const page = 500

// known are the identities of what the owner has of a kind.
func (m *Import) known(k *record.Kind) (map[[16]byte]bool, error) {
	if m.seen[k] != nil {
		return m.seen[k], nil
	}
	known := map[[16]byte]bool{}
	q := kv.Query{Owner: m.Owner, Kind: k, Limit: page}
	for {
		var list kv.Page
		if err := m.Store.View(func(tx *kv.Tx) (err error) { list, err = tx.List(q); return err }); err != nil {
			return nil, err
		}
		for _, r := range list.Records {
			b, err := r.Decode()
			if err != nil {
				return nil, err
			}
			for _, exact := range []bool{false, true} {
				known[identity(k, r.Slug, b, r.Created, exact)] = true
			}
			if k != record.Bookmarks && k != record.Links && k != record.Files { // what had no date got one
				known[identity(k, r.Slug, b, time.Time{}, true)] = true
			}
		}
		if q.After = list.Next; q.After == "" {
			m.seen[k] = known
			return known, nil
		}
	}
}

// bytes stages and keeps the bytes of a file; a dry run only sums them.
func (m *Import) bytes(e *entry) error {
	damaged := &record.Error{Fault: record.Invalid, Text: "Its bytes are damaged: they are not those that it had."}
	from, err := e.Open()
	if err != nil {
		return damaged
	}
	defer from.Close()
	most, room := min(m.MaxFile, math.MaxInt64-1), int64(math.MaxInt64-1)
	if !m.DryRun {
		room = m.Store.Room() // before the file takes of it
	}
	in := &reader{r: io.LimitReader(from, most+1)}
	head := make([]byte, media.Sniffed)
	n, err := io.ReadFull(in, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return m.unread(err, damaged)
	}
	head = head[:n]
	sum := sha256.New()
	size := int64(0)
	var ref [32]byte
	to := io.Writer(sum)
	var stage *blobs.Stage
	if !m.DryRun {
		if stage, err = m.Blobs.Stage(); err != nil {
			return err
		}
		defer stage.Drop() //nolint:errcheck // what cannot be removed now is removed by the next sweep
		to = stage
	}
	if _, err := to.Write(head); err != nil {
		return err
	}
	more, err := io.Copy(to, &io.LimitedReader{R: in, N: max(0, min(most, room)-int64(n)+1)})
	size = int64(n) + more
	switch {
	case in.err != nil:
		return m.unread(in.err, damaged)
	case err != nil:
		return err
	case size > m.MaxFile:
		return &record.Error{Fault: record.TooLarge, Text: fmt.Sprintf("The file is larger than %d bytes.", m.MaxFile)}
	case size > room:
		return kv.ErrFull
	}
	if m.DryRun {
		sum.Sum(ref[:0])
	} else {
		if e.kept, err = stage.Keep(); err != nil {
			return err
		}
		ref = e.kept.Ref
	}
	if e.Sum != nil && *e.Sum != ref {
		m.letGo([]*entry{e})
		return damaged
	}
	b := e.form.Body.(*record.File) // the kind is that of files
	claimed, _ := e.Fields["mimeType"].(string)
	name := b.OriginalName
	if e.Exact { // what it was taken for, it had another name at first, maybe
		name = ""
	}
	b.Size, b.SHA256, b.MimeType = size, hex.EncodeToString(ref[:]), media.Of(claimed, name, head)
	e.file = &record.Content{Ref: ref, Size: size}
	return nil
}

// unread is the error of bytes that could not be read: the source's if it is
// gone, else the file's.
func (m *Import) unread(err error, damaged error) error {
	if errors.As(err, new(*fs.PathError)) || errors.Is(err, context.Canceled) {
		return err
	}
	return damaged
}

// reader tells errors of reading from errors of writing.
type reader struct {
	r   io.Reader
	err error
}

func (s *reader) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err != nil && err != io.EOF { //nolint:errorlint // readers return it bare
		s.err = err
	}
	return n, err
}

// flush takes the batch into the store.
func (m *Import) flush() error {
	batch := m.batch
	m.batch, m.volume = nil, 0
	if len(batch) == 0 {
		return nil
	}
	defer m.letGo(batch)
	err := m.commit(batch)
	var one *record.Error
	if errors.As(err, &one) && one.Fault != record.Full {
		// Something in it is refused: each by itself.
		for _, e := range batch {
			var refused *record.Error
			if err = m.commit([]*entry{e}); errors.As(err, &refused) && refused.Fault != record.Full && refused.Fault != record.Missing {
				_, err = m.refuse(e, refused)
			}
			if err != nil {
				return err
			}
		}
	}
	if m.Tell != nil && err == nil {
		m.Tell(m.report)
	}
	return err
}

// outcome is what came of an entry in a transaction.
type outcome struct {
	made   string // what it became; "" if that was there
	remark string
}

// commit takes entries into the store in one transaction.
func (m *Import) commit(batch []*entry) error {
	for _, e := range batch {
		if e.Exact { // read before the transaction that asks
			if _, err := m.known(e.Kind); err != nil {
				return err
			}
		}
	}
	var done []outcome
	last := m.last
	given := map[string]bool{} // slugs, by a dry run
	run := func(tx *kv.Tx) error {
		for _, e := range batch {
			var o outcome
			var err error
			if e.Label != nil {
				o, err = m.label(tx, e.Label)
			} else {
				o, err = m.keep(tx, e, given, &last)
			}
			if err != nil {
				return err
			}
			done = append(done, o)
		}
		return nil
	}
	in := m.Store.Update
	if m.DryRun {
		in = m.Store.View
	}
	if err := in(run); err != nil {
		return err
	}
	m.last = last
	for i, o := range done {
		e := batch[i]
		switch {
		case o.made != "":
			m.report.Made[o.made]++
			e.made = true
		case e.Label == nil:
			m.report.There++
		}
		if o.remark != "" {
			m.report.Remark(e.At, e.Name, o.remark, false)
		}
	}
	maps.Copy(m.slugs, given)
	return nil
}

// label makes a tag or a folder, which may be there.
func (m *Import) label(tx *kv.Tx, l *format.Label) (o outcome, err error) {
	var none *record.Error
	if l.Folder {
		if _, err = tx.FolderNamed(m.Owner, l.Name); errors.As(err, &none) {
			if o.made, err = "folder", nil; !m.DryRun {
				_, err = tx.AddFolder(m.Owner, l.Name, l.Color)
			}
		}
		return o, err
	}
	if _, err = tx.TagNamed(m.Owner, l.Name); errors.As(err, &none) {
		if o.made, err = "tag", nil; !m.DryRun {
			_, err = tx.AddTag(m.Owner, l.Name, l.Color)
		}
	}
	return o, err
}

// keep makes a record of an entry.
func (m *Import) keep(tx *kv.Tx, e *entry, given map[string]bool, last *record.ID) (o outcome, err error) {
	form := *e.form
	if form.Slug != "" {
		r, err := tx.Slug(form.Slug)
		if err != nil && !errors.Is(err, record.ErrMissing) {
			return o, err
		}
		switch {
		case err != nil && !m.slugs[form.Slug] && !given[form.Slug]:
		case e.Exact && err == nil && r.Owner == m.Owner && r.Kind == e.Kind, e.Exact && m.seen[e.Kind][e.id]:
			return o, nil
		case e.Kind == record.Links:
			return o, &record.Error{Fault: record.Taken, Text: fmt.Sprintf("The slug %q is in use already, for something else.", form.Slug)}
		default:
			o.remark = fmt.Sprintf("The slug %q is in use already, so that it got another one.", form.Slug)
			form.Slug = ""
		}
	}
	o.made = e.Kind.Name
	if m.DryRun {
		if form.Slug != "" {
			given[form.Slug] = true
		}
		return o, nil
	}
	r, err := tx.Restore(m.Owner, e.Kind, &form, e.file, e.Past, *last)
	if err != nil {
		return o, err
	}
	*last = r.ID
	return o, nil
}

// letGo ends the pins. Content that got no record is unlinked at once, lest
// what is refused fill the disk until the next sweep.
func (m *Import) letGo(batch []*entry) {
	for _, e := range batch {
		if e.kept == nil {
			continue
		}
		e.kept.Release()
		if !e.made {
			// What cannot be unlinked now is left to the sweep.
			_, _ = m.Blobs.Unlink(e.kept.Ref, func() (bool, error) { return m.Store.Unknown(e.kept.Ref) })
		}
	}
}

// Lay keeps what was staged among the contents, to be read at will until done
// is called, which unlinks it unless a file has the same content.
func Lay(content *blobs.Store, store *kv.Store, stage *blobs.Stage) (s format.Source, done func(), err error) {
	kept, err := stage.Keep()
	if err != nil {
		return s, nil, err
	}
	aside := &Import{Store: store, Blobs: content}
	free := func() { aside.letGo([]*entry{{kept: kept}}) }
	f, err := content.Get(kept.Ref)
	if err != nil {
		free()
		return s, nil, err
	}
	return format.Source{R: f, Size: kept.Size}, func() { _ = f.Close(); free() }, nil // it was only read
}
