// Package transfer imports data that was exported elsewhere, and exports the
// data of an account. DESIGN.md has the form of an export and the rules for
// both.
package transfer

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
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"kist/blobs"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/history"
	"kist/kv/media"
	"kist/kv/record"
	"kist/kv/transfer/format"
	"kist/kv/workcopy"
)

// Bounds of a transaction, in entries and in bytes of text, approximately.
const (
	batchRows  = 100
	batchBytes = 1 << 20
)

// Import imports rows into an account.
type Import struct {
	Store   *kv.Store
	Blobs   *blobs.Store
	Owner   record.ID
	DryRun  bool         // nothing is saved
	Update  bool         // fill in the empty fields of existing records, and add tags
	MaxFile int64        // bytes of one file
	Tell    func(*Moved) // receives the progress now and then; may be nil

	report   *Moved
	batch    []*entry
	volume   int
	newFiles bool // the batch has files that texts may show
	// The owner's records, by identity; a zero id was created by this import.
	seen  map[*record.Kind]map[[16]byte]record.ID
	pages map[[16]byte]bool       // pages of the bookmarks that this import has created, or would create
	slugs map[string]bool         // slugs that a dry run would have given
	moved map[string]record.ID    // records that have another slug than in the source, by that slug
	files map[record.ID]record.ID // files that have another id than in the source, by that id
	last  record.ID               // the latest record that was created
}

// entry is a row on its way into the store.
type entry struct {
	format.Row
	form *record.Form
	id   [16]byte
	file *record.Content
	kept *blobs.Kept
	made bool      // it became a record
	old  record.ID // the existing record to fill in; zero if it is not known yet
}

// Run imports the rows. It creates only what does not exist yet, so it may be
// run again, for instance after an interruption. It always returns the report.
// The error says why it ended early: a format.Unreadable, an error of the
// source or the store, or the end of ctx.
func (m *Import) Run(ctx context.Context, name format.Format, rows format.Rows) (*Moved, error) {
	m.report = &Moved{Format: string(name), DryRun: m.DryRun, Made: map[string]int64{}, Remarks: []Remark{}}
	m.seen, m.pages, m.slugs = map[*record.Kind]map[[16]byte]record.ID{}, map[[16]byte]bool{}, map[string]bool{}
	m.moved, m.files = map[string]record.ID{}, map[record.ID]record.ID{}
	defer m.forget()
	defer catalog.HoldUnshown(m.Store)()

	if err := m.addAll(ctx, rows); err != nil {
		if failed := m.flush(); failed != nil && !errors.Is(err, failed) {
			err = errors.Join(err, failed)
		}
		return m.report, err
	}
	err := m.flush()
	if m.Tell != nil {
		m.Tell(m.report)
	}
	return m.report, err
}

// addAll adds the rows until one fails or ctx ends. The last batch is not in the store yet.
func (m *Import) addAll(ctx context.Context, rows format.Rows) error {
	for row, err := range rows {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.add(row); err != nil {
			return err
		}
	}
	return nil
}

// largeImport is the number of entries from which an import returns its memory
// to the system at once.
const largeImport = 10_000

// forget drops the index of the owner's records, which grows with their number.
func (m *Import) forget() {
	m.seen, m.pages, m.slugs, m.moved, m.files = nil, nil, nil, nil, nil
	if m.report.Entries >= largeImport {
		debug.FreeOSMemory()
	}
}

func (m *Import) add(row format.Row) error {
	if row.Refused != "" {
		m.report.Entries++
		m.report.Remark(row.At, row.Name, row.Refused, true)
		return nil
	}
	if row.Whole {
		err := m.flush() // the remark follows those of earlier entries
		for _, n := range row.Notes {
			m.report.RemarkWhole(row.At, n)
		}
		return err
	}
	for _, n := range row.Notes {
		m.report.Remark(row.At, row.Name, n, false)
	}
	if row.Kind == nil && row.Label == nil {
		return nil
	}

	e := &entry{Row: row}
	if row.Kind != nil && row.Kind != record.Files && m.newFiles {
		if err := m.flush(); err != nil { // the ids of files are known once they are in the store
			return err
		}
	}
	if row.Version != nil {
		m.volume += len(row.Version.Body)
	} else if row.Label == nil {
		m.report.Entries++
		ok, err := m.ready(e)
		if err != nil || !ok {
			return err
		}
	}
	m.batch = append(m.batch, e)
	m.newFiles = m.newFiles || row.FileID != uuid.Nil
	if e.form != nil {
		m.volume += len(field.AppendJSON(nil, e.form.Body))
	}
	if len(m.batch) < batchRows && m.volume < batchBytes {
		return nil
	}
	return m.flush()
}

func (m *Import) refuse(e *entry, why error) {
	m.report.Remark(e.At, e.Name, why.Error(), true)
}

// ready makes a form from a row, and content from a file's bytes. It reports
// false if the row is refused or exists already.
func (m *Import) ready(e *entry) (bool, error) {
	e.form = record.NewForm(e.Kind)
	if e.Kind == record.Files {
		e.form.FolderName = e.Folder
	}
	if err := field.Create(e.form, e.Fields); err != nil {
		if problems, ok := errors.AsType[field.Problems](err); ok {
			err = record.Bad(problems)
		}
		m.refuse(e, err)
		return false, nil
	}
	e.form.Attached = e.Attached
	e.form.Body = record.RenameShown(e.form.Body, m.here)
	e.form.Password = field.Secret{} // the row has a hash or no password
	if e.Kind == record.Files {
		if err := m.bytes(e); err != nil {
			if unfit, ok := errors.AsType[*record.Error](err); ok && unfit.Fault != record.Full {
				m.refuse(e, err)
				return false, nil
			}
			return false, err
		}
	}

	e.id = identity(e.Kind, e.form.Slug, e.form.Body, e.Past.Created, e.Exact)
	if e.Exact || e.Kind == record.Bookmarks {
		return true, nil // the transaction looks up its slug or its page
	}
	known, err := m.known(e.Kind)
	if err != nil {
		return false, err
	}
	old, there := known[e.id]
	if there && (!m.Update || old == uuid.Nil) {
		m.report.There++
		m.releaseBatch([]*entry{e})
		return false, nil
	}
	e.old = old
	if !there {
		known[e.id] = uuid.Nil
	}
	return true, nil
}

// here is the id that a file of the source has in the store. Those of other files stay: they may be the owner's, and of
// others' files a text shows nothing.
func (m *Import) here(id record.ID) record.ID {
	if now, moved := m.files[id]; moved {
		return now
	}
	return id
}

// identity is equal for two records that count as the same. It is made from the page
// of a bookmark, the slug and target of a short link, or the name and content of a
// file. For any other record, and for rows of kist's own export, it is made from all
// fields and the time of creation.
func identity(k *record.Kind, slug string, b record.Body, created time.Time, exact bool) [16]byte {
	text := ""
	switch b := b.(type) {
	case *record.Bookmark:
		text = record.SamePage(b.URL)
	case *record.Link:
		text = slug + " " + b.URL
	case *record.File:
		text = b.SHA256 + " " + b.OriginalName
	case *record.Collection: // without ids, which differ
		b = &record.Collection{Name: b.Name, Description: b.Description, Sort: b.Sort, Download: b.Download}
		return identityOf(k, created, b)
	default:
		exact = true
	}
	if exact {
		return identityOf(k, created, b)
	}
	sum := sha256.Sum256(append([]byte{k.Code}, text...))
	return [16]byte(sum[:])
}

// identityOf is the identity by all fields and the time of creation. Files that a text shows may have other ids.
func identityOf(k *record.Kind, created time.Time, b record.Body) [16]byte {
	b = record.RenameShown(b, func(record.ID) record.ID { return uuid.Nil })
	at := int64(0)
	if !created.IsZero() {
		at = created.UnixMilli()
	}
	sum := sha256.Sum256(fmt.Appendf([]byte{k.Code}, "%d %s", at, field.AppendJSON(nil, b)))
	return [16]byte(sum[:])
}

// page is how many records are read at a time.
const page = 500

// known returns the identities of the owner's records of a kind.
func (m *Import) known(k *record.Kind) (map[[16]byte]record.ID, error) {
	if m.seen[k] != nil {
		return m.seen[k], nil
	}
	known := map[[16]byte]record.ID{}
	q := catalog.Query{Owner: m.Owner, Kind: k, Limit: page, Attached: true}
	for {
		var list catalog.Page
		if err := m.Store.View(func(tx *kv.Tx) (err error) {
			list, err = catalog.List(tx, q)
			if err != nil {
				return err
			}
			for _, r := range list.Records {
				b, err := r.Decode()
				if err != nil {
					return err
				}
				for _, exact := range []bool{false, true} {
					known[identity(k, r.Slug, b, r.Created, exact)] = r.ID
				}
				if k != record.Bookmarks && k != record.Links && k != record.Files { // a row without a date got one
					known[identity(k, r.Slug, b, time.Time{}, true)] = r.ID
				}
			}
			return nil
		}); err != nil {
			return nil, err
		}
		q.After = list.Next
		if q.After == "" {
			m.seen[k] = known
			return known, nil
		}
	}
}

// bytes stages and keeps the bytes of a file; a dry run only sums them.
func (m *Import) bytes(e *entry) error {
	damaged := &record.Error{Fault: record.Invalid, Text: "Its bytes are damaged: they do not match its checksum."}
	from, err := e.Open()
	if err != nil {
		return damaged
	}
	defer from.Close()

	limit, room := min(m.MaxFile, math.MaxInt64-1), int64(math.MaxInt64-1)
	if !m.DryRun {
		room = m.Store.FreeForContent() // before the file takes space
	}
	in := &reader{r: io.LimitReader(from, limit+1)}
	head, err := io.ReadAll(io.LimitReader(in, media.Sniffed))
	if err != nil {
		return m.unread(err, damaged)
	}

	sum := sha256.New()
	to := io.Writer(sum)
	var stage *blobs.Stage
	if !m.DryRun {
		stage, err = m.Blobs.Stage()
		if err != nil {
			return err
		}
		defer stage.Drop() //nolint:errcheck // the next sweep removes leftovers
		to = stage
	}
	if _, err := to.Write(head); err != nil {
		return err
	}
	more, err := io.Copy(to, &io.LimitedReader{R: in, N: max(0, min(limit, room)-int64(len(head))+1)})
	size := int64(len(head)) + more
	switch {
	case in.err != nil:
		return m.unread(in.err, damaged)
	case err != nil:
		return err
	case size > m.MaxFile:
		text := "The file is larger than " + record.Plural(m.MaxFile, "byte") + "."
		return &record.Error{Fault: record.TooLarge, Text: text}
	case size > room:
		return kv.ErrFull
	}

	var ref [32]byte
	if m.DryRun {
		sum.Sum(ref[:0])
	} else {
		e.kept, err = stage.Keep()
		if err != nil {
			return err
		}
		ref = e.kept.Ref
	}
	if e.Sum != nil && *e.Sum != ref {
		m.releaseBatch([]*entry{e})
		return damaged
	}

	b := e.form.Body.(*record.File) // the kind is Files
	claimed, _ := e.Fields["mimeType"].(string)
	b.Size, b.SHA256, b.MimeType = size, hex.EncodeToString(ref[:]), media.Of(claimed, b.OriginalName, head)
	if e.Exact { // its media type may come from an earlier name
		b.MimeType = media.Recorded(claimed, head)
		sender, _ := e.Fields["uploaderName"].(string)
		name, err := field.CleanName(record.MaxName)(sender)
		if err != nil {
			name = ""
		}
		b.Uploader = name
	}
	e.file = &record.Content{Ref: ref, Size: size}
	return nil
}

// unread returns the error for bytes that could not be read: err if the source is
// gone or the import was cancelled, otherwise damaged.
func (m *Import) unread(err error, damaged error) error {
	if errors.As(err, new(*fs.PathError)) || errors.Is(err, context.Canceled) {
		return err
	}
	return damaged
}

// reader distinguishes errors of reading from errors of writing.
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

func (m *Import) flush() error {
	batch := m.batch
	m.batch, m.volume, m.newFiles = nil, 0, false
	if len(batch) == 0 {
		return nil
	}
	defer m.releaseBatch(batch)

	if err := m.commitOrRefuse(batch); err != nil {
		return errors.Join(err, releaseMemory(m.Store))
	}
	if m.Tell != nil {
		m.Tell(m.report)
	}
	return releaseMemory(m.Store)
}

// commitOrRefuse commits the entries in one transaction. If the store refuses one of them, each
// gets its own.
func (m *Import) commitOrRefuse(batch []*entry) error {
	err := m.commit(batch)
	if one, ok := errors.AsType[*record.Error](err); !ok || one.Fault == record.Full {
		return err
	}
	for _, e := range batch {
		err := m.commit([]*entry{e})
		refused, ok := errors.AsType[*record.Error](err)
		if ok && refused.Fault != record.Full && refused.Fault != record.Missing {
			m.refuse(e, refused)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// releaseEvery is after how many entries of a transaction the memory use is
// checked.
const releaseEvery = 20

// releaseMemory releases the memory used by reading the store if there is a lot of
// it. Otherwise the whole store would end up mapped. from is the store, or the
// transaction that runs.
func releaseMemory(from interface{ SetRelaxed() error }) error {
	if workcopy.FileMemory() <= workcopy.MostMapped {
		return nil
	}
	return from.SetRelaxed()
}

// outcome is the result of an entry in a transaction.
type outcome struct {
	made   string // the kind that it became; "" if it existed
	filled bool   // an existing record was filled in
	remark string
}

// progress is what the import remembers of a transaction once it is committed.
type progress struct {
	slugs map[string]bool   // slugs that a dry run would have given
	pages map[[16]byte]bool // pages of new bookmarks
	moved map[string]record.ID
	files map[record.ID]record.ID
	last  record.ID
}

// found notes which file of the store an entry is.
func (p *progress) found(e *entry, id record.ID) {
	if e.FileID != uuid.Nil {
		p.files[e.FileID] = id
	}
}

func (m *Import) commit(batch []*entry) error {
	for _, e := range batch {
		if e.Exact { // read before the transaction that uses it
			if _, err := m.known(e.Kind); err != nil {
				return err
			}
		}
	}

	var done []outcome
	now := &progress{map[string]bool{}, map[[16]byte]bool{}, map[string]record.ID{}, map[record.ID]record.ID{}, m.last}
	run := func(tx *kv.Tx) error {
		for i, e := range batch {
			if i%releaseEvery == releaseEvery-1 {
				if err := releaseMemory(tx); err != nil {
					return err
				}
			}
			o, err := m.put(tx, e, now)
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

	for i, o := range done {
		m.count(batch[i], o)
	}
	m.last = now.last
	maps.Copy(m.slugs, now.slugs)
	maps.Copy(m.pages, now.pages)
	maps.Copy(m.moved, now.moved)
	maps.Copy(m.files, now.files)
	return nil
}

// put brings an entry into the store.
func (m *Import) put(tx *kv.Tx, e *entry, now *progress) (outcome, error) {
	switch {
	case e.Label != nil:
		return m.label(tx, e.Label)
	case e.Version != nil:
		return m.version(tx, e, now)
	}
	return m.keep(tx, e, now)
}

// count adds the outcome of an entry to the report.
func (m *Import) count(e *entry, o outcome) {
	switch {
	case o.made != "":
		m.report.Made[o.made]++
		e.made = true
	case e.Label == nil && e.Version == nil:
		m.report.There++
	}
	if o.filled {
		m.report.Updated++
	}
	if o.remark != "" {
		m.report.Remark(e.At, e.Name, o.remark, false)
	}
}

// label creates a tag or a folder unless it exists.
func (m *Import) label(tx *kv.Tx, l *format.Label) (outcome, error) {
	if l.Folder {
		_, err := catalog.FolderNamed(tx, m.Owner, l.Name)
		if !errors.As(err, new(*record.Error)) {
			return outcome{}, err // nil if there is one
		}
		if !m.DryRun {
			if _, err := catalog.AddFolder(tx, m.Owner, l.Name, l.Color); err != nil {
				return outcome{}, err
			}
		}
		return outcome{made: "folder"}, nil
	}

	_, err := catalog.TagNamed(tx, m.Owner, l.Name)
	if !errors.As(err, new(*record.Error)) {
		return outcome{}, err // nil if there is one
	}
	if !m.DryRun {
		if _, err := catalog.AddTag(tx, m.Owner, l.Name, l.Color); err != nil {
			return outcome{}, err
		}
	}
	return outcome{made: "tag"}, nil
}

// keep creates a record from an entry, or skips the entry if the record exists.
func (m *Import) keep(tx *kv.Tx, e *entry, now *progress) (o outcome, err error) {
	if e.old != uuid.Nil {
		r, err := catalog.Owned(tx, m.Owner, e.Kind, e.old)
		if kv.Missing(err) {
			return o, nil // it was just removed
		}
		if err != nil {
			return o, err
		}
		return m.existing(tx, e, r)
	}

	if e.Kind == record.Bookmarks && !e.Exact {
		old, err := catalog.SamePage(tx, m.Owner, e.form.Body.(*record.Bookmark).URL)
		if err != nil && !kv.Missing(err) {
			return o, err
		}
		there, twice := err == nil, m.pages[e.id] || now.pages[e.id]
		switch {
		case there && twice:
			return m.merge(tx, e, old)
		case there:
			return m.existing(tx, e, old)
		case twice: // by a dry run, or it was just removed
			return o, nil
		}
		now.pages[e.id] = true
	}

	form := *e.form
	if form.Slug != "" {
		r, err := catalog.Slug(tx, form.Slug)
		if err != nil && !kv.Missing(err) {
			return o, err
		}
		taken := err == nil
		switch {
		case !taken && !m.slugs[form.Slug] && !now.slugs[form.Slug]:
		case taken && e.Exact && r.Owner == m.Owner && r.Kind == e.Kind:
			now.found(e, r.ID)
			return m.existing(tx, e, r)
		case e.Exact && m.has(e):
			if id := m.seen[e.Kind][e.id]; id != uuid.Nil {
				now.moved[form.Slug] = id
				now.found(e, id)
			}
			return o, nil
		case e.Kind == record.Links:
			text := fmt.Sprintf("The slug %q is in use already, for something else.", form.Slug)
			return o, &record.Error{Fault: record.Taken, Text: text}
		default:
			o.remark = fmt.Sprintf("The slug %q is in use already, so it got another one.", form.Slug)
			form.Slug = ""
		}
	}
	return m.create(tx, e, &form, o.remark, now)
}

// create creates a record from an entry. The form has the slug that is free, and the remark says
// why it is another one.
func (m *Import) create(
	tx *kv.Tx, e *entry, form *record.Form, remark string, now *progress,
) (o outcome, err error) {
	o = outcome{made: e.Kind.Name, remark: remark}
	if m.DryRun {
		if form.Slug != "" {
			now.slugs[form.Slug] = true
		}
		return o, nil
	}

	if e.Carried != nil {
		missing, err := m.refer(tx, e.Carried, form, now)
		if err != nil {
			return o, err
		}
		if missing > 0 {
			o.remark = strings.TrimSpace(o.remark + fmt.Sprintf(" Not here: %d of what it refers to.", missing))
		}
	}
	r, err := catalog.Add(tx, catalog.Draft{
		Owner: m.Owner, Kind: e.Kind, Form: form, Content: e.file, Past: &e.Past, After: now.last,
	})
	if err != nil {
		return o, err
	}
	if e.kept != nil {
		if err := catalog.KeepCRCOf(tx, e.kept); err != nil {
			return o, err
		}
	}
	now.last = r.ID
	now.found(e, r.ID)
	if form.Slug != e.form.Slug {
		now.moved[e.form.Slug] = r.ID
	}
	return o, nil
}

// movedTo is the record that has another slug than this one in the source.
func (m *Import) movedTo(slug string, now *progress) (id record.ID, moved bool) {
	id, moved = now.moved[slug]
	if !moved {
		id, moved = m.moved[slug]
	}
	return id, moved
}

// version adds an earlier text to its record.
func (m *Import) version(tx *kv.Tx, e *entry, now *progress) (o outcome, err error) {
	if m.DryRun {
		return o, nil
	}
	var r *record.Record
	if id, moved := m.movedTo(e.Version.Slug, now); moved {
		r, err = catalog.Owned(tx, m.Owner, e.Kind, id)
	} else {
		r, err = catalog.Record(tx, m.Owner, e.Kind, e.Version.Slug)
	}
	if kv.Missing(err) {
		o.remark = "The item of this version is not there."
		return o, nil
	}
	if err != nil {
		return o, err
	}
	body, err := m.versionBody(e)
	if err != nil {
		return o, err
	}
	return o, history.AddVersion(tx, r, e.Version.VersionHead, body)
}

// versionBody is the text of a version with the ids that its files have in the store.
func (m *Import) versionBody(e *entry) ([]byte, error) {
	r := record.Record{Kind: e.Kind, Body: e.Version.Body}
	if len(r.Shows()) == 0 {
		return r.Body, nil
	}
	b, err := r.Decode()
	if err != nil {
		return nil, err
	}
	return field.AppendJSON(nil, record.RenameShown(b, m.here)), nil
}

// refer finds what a collection refers to and puts it into the form. It returns how much is missing.
func (m *Import) refer(tx *kv.Tx, c *format.Carried, form *record.Form, now *progress) (missing int, err error) {
	find := func(slug string) (id record.ID, err error) {
		if id, moved := m.movedTo(slug, now); moved {
			return id, nil
		}
		r, err := catalog.Slug(tx, slug)
		switch {
		case kv.Missing(err):
		case err != nil:
			return id, err
		case r.Owner == m.Owner && r.Kind != record.Collections:
			return r.ID, nil
		}
		missing++
		return id, nil
	}

	b := *form.Body.(*record.Collection) // only collections refer to others
	form.Body, form.Sourced, form.Source = &b, true, record.Source{}
	for _, slug := range c.Items {
		id, err := find(slug)
		if err != nil {
			return 0, err
		}
		if id != uuid.Nil {
			form.Source.Items = append(form.Source.Items, id.String())
		}
	}
	if c.Cover != "" {
		b.Cover, err = find(c.Cover)
		if err != nil {
			return 0, err
		}
	}
	if c.Folder != "" {
		f, err := catalog.FolderNamed(tx, m.Owner, c.Folder)
		switch {
		case kv.Missing(err):
			missing++
		case err != nil:
			return 0, err
		default:
			form.Source.Folder = f.ID
		}
	}
	if c.Tag != "" {
		_, err := catalog.TagNamed(tx, m.Owner, c.Tag)
		switch {
		case kv.Missing(err):
			missing++
		case err != nil:
			return 0, err
		default:
			form.Source.Tag = c.Tag
		}
	}
	return missing, nil
}

// has reports whether the owner has a record with the entry's identity.
func (m *Import) has(e *entry) bool { _, there := m.seen[e.Kind][e.id]; return there }

// existing handles an entry that exists already, as r. It skips the entry, or
// fills in what r lacks if that was requested.
func (m *Import) existing(tx *kv.Tx, e *entry, r *record.Record) (o outcome, err error) {
	if !m.Update {
		return o, nil
	}
	added, err := m.fill(tx, e, r)
	o.filled = len(added) > 0
	if o.filled {
		o.remark = "Filled in: " + strings.Join(added, ", ") + "."
		if m.DryRun {
			o.remark = "This would be filled in: " + strings.Join(added, ", ") + "."
		}
	}
	return o, err
}

// merge adds the data of an entry to r, the bookmark of an earlier entry of the same
// source with the same page.
func (m *Import) merge(tx *kv.Tx, e *entry, r *record.Record) (o outcome, err error) {
	added, err := m.fill(tx, e, r)
	if len(added) > 0 {
		o.remark = "The page is in it twice. This was added to the first: " + strings.Join(added, ", ") + "."
	}
	return o, err
}

// fill fills in the empty fields of r from the entry, makes it a favourite if
// the entry is one, and adds the entry's tags. It never overwrites. It returns
// what it added, or would add.
func (m *Import) fill(tx *kv.Tx, e *entry, r *record.Record) (added []string, err error) {
	form, err := r.Form()
	if err != nil {
		return nil, err
	}
	has, err := field.Parse(field.AppendJSON(nil, form.Body))
	if err != nil {
		return nil, err
	}
	says, err := field.Parse(field.AppendJSON(nil, e.form.Body))
	if err != nil {
		return nil, err
	}

	in := field.Object{}
	for _, name := range slices.Sorted(maps.Keys(says)) {
		if (has[name] == nil || has[name] == "") && says[name] != nil && says[name] != "" {
			in[name] = says[name]
			added = append(added, name)
		}
	}
	if e.form.Favorite && !r.Favorite {
		in["isFavorite"] = true
		added = append(added, "isFavorite")
	}
	if e.Kind == record.Files && e.Folder != "" && r.Folder == uuid.Nil {
		in["folderName"] = e.Folder
		added = append(added, "folder "+e.Folder)
	}
	if err := form.Patch(in); err != nil {
		return nil, err
	}

	for _, name := range e.form.Tags {
		t, err := catalog.TagNamed(tx, m.Owner, name)
		if err != nil && !kv.Missing(err) {
			return nil, err
		}
		has := err == nil && slices.Contains(r.Tags, t.ID)
		if has || len(r.Tags)+len(form.NewTags) == record.MaxTags {
			continue
		}
		form.NewTags = append(form.NewTags, name)
		added = append(added, "tag "+name)
	}
	if len(added) == 0 || m.DryRun {
		return added, nil
	}
	return added, catalog.Save(tx, r, form, "")
}

// releaseBatch releases the pins. It unlinks content that got no record at
// once: otherwise refused entries would fill the disk until the next sweep.
func (m *Import) releaseBatch(batch []*entry) {
	for _, e := range batch {
		if e.kept == nil {
			continue
		}
		e.kept.Release()
		if !e.made {
			// The sweep removes content that cannot be unlinked now.
			_, _ = m.Blobs.Unlink(e.kept.Ref, func() (bool, error) { return catalog.ContentUnknown(m.Store, e.kept.Ref) })
		}
	}
}

// Lay keeps staged content as a blob that can be read until done is called.
// done unlinks it unless a file has the same content.
func Lay(content *blobs.Store, store *kv.Store, stage *blobs.Stage) (s format.Source, done func(), err error) {
	kept, err := stage.Keep()
	if err != nil {
		return s, nil, err
	}
	aside := &Import{Store: store, Blobs: content}
	free := func() { aside.releaseBatch([]*entry{{kept: kept}}) }
	f, err := content.Get(kept.Ref)
	if err != nil {
		free()
		return s, nil, err
	}
	return format.Source{R: f, Size: kept.Size}, func() { _ = f.Close(); free() }, nil // the file was only read
}
