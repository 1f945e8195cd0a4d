package upload

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"kist/blobs"
	"kist/httpapi/thumb"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/inbox"
	"kist/kv/media"
	"kist/kv/record"
)

// An Intake takes in the bytes of files, from wherever they come, until a record or an item of the queue has them. Each
// file goes through the same steps:
//
//	Take     the bytes come within a Budget, to the disk (staged). Begin and Adopt stand for it where they come in pieces.
//	Keep     the content has its address by its bytes, and is pinned. Its type, its metadata and whether it is a picture are known.
//	Carry    the transaction that gives the contents a record takes them along.
//	Recorded they have one.
//	Close    what has none is removed: staged bytes at once, contents unless something else has them.
//
// It is used by one request or job.
type Intake struct {
	// Strangers says that the bytes come from someone who is not the owner. Then the types that they claim do not
	// count, and nothing is found out about the contents before the owner has approved them.
	Strangers bool
	// Stays says that contents without a record stay for another attempt.
	Stays bool

	Files []*File // in the order in which they came

	site     *web.Site
	recorded bool
}

// NewIntake makes an empty intake. The caller must call Close.
func NewIntake(s *web.Site) *Intake { return &Intake{site: s} }

// A File is one file of an intake.
type File struct {
	Name    string // as the client gave it with the bytes, cleaned
	Named   string // the name that its form gives it instead, cleaned; "" if it gives none
	Unnamed bool   // the client gave no name
	Claimed string // media type according to the client
	Head    []byte // the first bytes

	// Sum and Size are known after Take or Adopt and Keep, MimeType after Keep.
	Sum      [sha256.Size]byte
	Size     int64
	MimeType string // by the bytes, the name, and what is claimed

	stage    *blobs.Stage
	kept     *blobs.Kept
	metadata record.Metadata
	photo    record.Photo
	pictured bool // it can have a thumbnail
}

// Take stages the bytes of a file, and subtracts them from the budget. If the budget only looks, they are read and
// summed. Errors of the reader are returned as they are, and it is read no further than the budget allows.
func (in *Intake) Take(f *File, from io.Reader, m *Budget) error {
	in.Files = append(in.Files, f)
	sum := sha256.New()
	to := io.Writer(sum)
	if !m.Look {
		stage, err := in.site.Blobs.StageSmall()
		if err != nil {
			return err
		}
		f.stage, to = stage, stage // which computes the sum itself
	}

	most := m.File
	if m.more == nil {
		most = min(most, m.Left)
	}
	head, err := readHead(io.LimitReader(from, most+1)) // a file that is cut off there is too large
	ended := err == io.EOF                              //nolint:errorlint // readers return it bare
	if err != nil && !ended {
		return err
	}
	f.Head = head
	if m.takes != nil && (len(head) > 0 || !f.Unnamed) {
		if err := m.takes(f.Name, f.Head); err != nil {
			return err
		}
	}
	if err := m.raise(int64(len(head))); err != nil {
		return err
	}

	body := &readErrors{r: bytes.NewReader(f.Head)}
	if !ended { // together with the head, so that a small file is one write
		body.r = io.MultiReader(body.r, &within{from, m, int64(len(head))})
	}
	size, err := io.Copy(to, body)
	if err := cmp.Or(body.err, err); err != nil { // an error of the client comes before one of the disk
		return err
	}
	if err := m.ErrTooLarge(size); err != nil {
		return err
	}
	m.Left -= size
	f.Size = size
	if f.stage != nil {
		f.Sum = f.stage.Ref()
		return nil
	}
	sum.Sum(f.Sum[:0])
	return nil
}

// readHead reads the first bytes of a file. With the last of a short one it returns io.EOF.
func readHead(from io.Reader) (head []byte, err error) {
	head = make([]byte, media.Sniffed)
	n := 0
	for n < len(head) && err == nil {
		var some int
		some, err = from.Read(head[n:])
		n += some
	}
	return head[:n], err
}

// NameFirst gives the first file the name that the form of the upload has, if it has one. It comes before Keep,
// because the type of a file, and so what is looked for in it, may follow from its name.
func (in *Intake) NameFirst(form *record.Form) {
	name := form.Body.(*record.File).OriginalName // the form is a file's
	if name == "" {
		return
	}
	in.Files[0].Named, _ = record.CleanFileName(name) // never fails
}

// Begin adds a file whose bytes the caller writes to the stage.
func (in *Intake) Begin(f *File) (*blobs.Stage, error) {
	stage, err := in.site.Blobs.StageSmall()
	if err != nil {
		return nil, err
	}
	f.stage = stage
	in.Files = append(in.Files, f)
	return stage, nil
}

// Adopt adds a file whose content is complete and pinned already.
func (in *Intake) Adopt(f *File, kept *blobs.Kept) {
	f.kept = kept
	in.Files = append(in.Files, f)
}

// Keep makes contents of what was staged, which become durable with the transaction that carries them, and finds out
// what there is to know about each.
func (in *Intake) Keep(ctx context.Context) error {
	for _, f := range in.Files {
		if err := in.keep(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

func (in *Intake) keep(ctx context.Context, f *File) (err error) {
	if f.kept == nil {
		f.kept, err = f.stage.KeepLater()
		if err != nil {
			return err
		}
	}
	f.Sum, f.Size = f.kept.Ref, f.kept.Size
	if f.Head == nil {
		f.Head, err = in.site.Blobs.Head(f.kept.Ref, media.Sniffed)
		if err != nil {
			return err
		}
	}
	if in.Strangers {
		f.MimeType = media.Of("", f.Name, f.Head)
		return nil
	}

	f.MimeType = media.Of(f.Claimed, cmp.Or(f.Named, f.Name), f.Head)
	found, err := in.site.Plans.Examine(ctx, f.kept.Ref, f.MimeType)
	if err != nil { // it is tried again later
		in.site.Log.Warn("cannot examine the metadata of an upload", "error", err)
	}
	f.metadata, f.photo = found.Metadata, found.Photo
	f.pictured, err = in.looksLikeAPicture(f)
	return err
}

// looksLikeAPicture reports whether the file can have a thumbnail, judging by its header. It is decoded only when
// someone asks for the thumbnail.
func (in *Intake) looksLikeAPicture(f *File) (bool, error) {
	if !media.Shrinks(f.MimeType) {
		return false, nil
	}
	content, err := in.site.Blobs.Get(f.kept.Ref)
	if err != nil {
		return false, err
	}
	defer content.Close()
	return thumb.Likely(content)
}

// Carry makes the transaction carry the contents. It must be the one that gives them a record.
func (in *Intake) Carry(tx *kv.Tx) error {
	for _, f := range in.Files {
		tx.Carry(f.kept)
		if in.Strangers {
			continue
		}
		if err := catalog.KeepCRCOf(tx, f.kept); err != nil {
			return err
		}
	}
	return nil
}

// Recorded says that the transaction was committed.
func (in *Intake) Recorded() { in.recorded = true }

// Close drops what was staged and releases the pins. It unlinks content that got no record at once, because refused
// uploads would otherwise fill the disk until the next sweep. Content of a recently removed record stays for its usual
// time. Call it after the commit, even if that failed.
func (in *Intake) Close() {
	for _, f := range in.Files {
		in.drop(f)
		if f.kept != nil {
			in.release(f.kept)
		}
	}
}

// drop drops what was staged of a file. It does nothing after Keep.
func (in *Intake) drop(f *File) {
	if f.stage == nil {
		return
	}
	if err := f.stage.Drop(); err != nil {
		in.site.Log.Warn("cannot remove the temporary file of an upload", "error", err)
	}
}

func (in *Intake) release(kept *blobs.Kept) {
	kept.Release()
	if in.recorded || in.Stays {
		return
	}
	_, err := in.site.Blobs.Unlink(kept.Ref, func() (bool, error) {
		return catalog.ContentUnknown(in.site.Store, kept.Ref)
	})
	if err != nil {
		in.site.Log.Warn("cannot remove content without a record; the sweep will remove it", "error", err)
	}
}

// Stage is the staged bytes of the file, for who takes them elsewhere than to a record.
func (f *File) Stage() *blobs.Stage { return f.stage }

// Content is the content of the file's record.
func (f *File) Content() *record.Content {
	return &record.Content{Ref: f.Sum, Size: f.Size, Metadata: f.metadata, Photo: f.photo}
}

// Body is the body of the file's record.
func (f *File) Body() *record.File {
	return &record.File{OriginalName: cmp.Or(f.Named, f.Name), MimeType: f.MimeType, Size: f.Size, SHA256: hex.EncodeToString(f.Sum[:])}
}

// Form is the form of the file's record, with what the form of the upload says about all of its files.
func (f *File) Form(form *record.Form) *record.Form {
	body := f.Body()
	body.Description = form.Body.(*record.File).Description // the form is a file's
	one := *form
	one.Body = body
	return &one
}

// Received is the file as an item of the owner's queue.
func (f *File) Received() inbox.Received {
	return inbox.Received{Name: f.Name, MimeType: f.MimeType, Ref: f.Sum, Size: f.Size}
}

// within reads a file, of which n bytes were read, until it is a byte too long for the budget.
type within struct {
	r io.Reader
	m *Budget
	n int64
}

func (w *within) Read(b []byte) (int, error) {
	room := min(w.m.File, w.m.Left) + 1 - w.n
	if room <= 0 {
		return 0, io.EOF
	}
	n, err := w.r.Read(b[:min(int64(len(b)), room)])
	w.n += int64(n)
	if more := w.m.raise(w.n); more != nil {
		return n, more
	}
	return n, err
}

// readErrors distinguishes read errors from write errors.
type readErrors struct {
	r   io.Reader
	err error
}

func (s *readErrors) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err != nil && err != io.EOF { // readers return it bare
		s.err = err
	}
	return n, err
}
