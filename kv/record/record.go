// Package record has the data that kist stores and its rules: the kinds of
// content, the forms of names, who may see an item and when its limit is used
// up. It does no I/O and reads no clock.
package record

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"kist/kv/field"
)

// ID is the permanent id of any object: a UUID version 7 (RFC 9562), so ids sort
// by the time of creation.
type ID = uuid.UUID

// Action is what happens to an item whose view limit is reached.
type Action string

// The actions. An item without an action is made private.
const (
	MakePrivate Action = "make_private"
	Delete      Action = "delete"
)

// Actions lists the actions.
var Actions = []Action{MakePrivate, Delete}

// EndAction is what happens to an item that expires.
type EndAction string

// The actions. Delete is for good, without the trash.
const (
	HideAtEnd   EndAction = "hide"
	DeleteAtEnd EndAction = "delete"
)

// EndActions lists the actions.
var EndActions = []EndAction{HideAtEnd, DeleteAtEnd}

func endAction(deletes bool) EndAction {
	if deletes {
		return DeleteAtEnd
	}
	return HideAtEnd
}

// A Record is one item of content of any kind.
type Record struct {
	ID, Owner ID
	Kind      *Kind
	Seq       uint64 // its position in the feed of changes
	Created   time.Time
	Updated   time.Time
	Share
	Tags   []ID
	Folder ID       // zero: none
	Bytes  *Content // of a file; nil for other kinds

	KeepMetadata bool   // of a file: visitors get its metadata too
	Attached     bool   // of a file: it belongs to the texts that show it
	Order        string // the sort key of a list by title: see orderOf
	Body         []byte // the kind's own fields, as field.Set.AppendJSON wrote them
}

// Content is the location and the type of a file's bytes.
type Content struct {
	Ref      [32]byte // SHA-256
	Size     int64
	Class    Class
	Metadata Metadata
	Photo    Photo
}

// Photo is what a picture or a film says about how it was made. It is the owner's alone.
type Photo struct {
	Taken    time.Time `json:"-"` // zero if it is not known
	Camera   string    `json:"camera,omitempty"`
	Lens     string    `json:"lens,omitempty"`
	Location *Location `json:"location,omitempty"`
}

// Location is a place in degrees: north and east are positive.
type Location struct {
	Lat float64 `json:"lat"`
	Lon float64 `json:"lon"`
}

// FillIn adds what is not known from q.
func (p *Photo) FillIn(q Photo) {
	if p.Taken.IsZero() {
		p.Taken = q.Taken
	}
	p.Camera, p.Lens = cmp.Or(p.Camera, q.Camera), cmp.Or(p.Lens, q.Lens)
	p.Location = cmp.Or(p.Location, q.Location)
}

// Known reports whether anything is known.
func (p *Photo) Known() bool { return *p != Photo{} }

// Metadata is what bytes say about their making, such as where a photo was taken.
type Metadata struct {
	State MetadataState
	Rules byte  // version of the rules by which it was found, up to 15
	Found byte  // bits in the order of MetadataKinds
	Size  int64 // if it is removable: of the content without it
}

// MetadataState is what the server can do about the metadata in a content.
type MetadataState byte

// The states, as stored.
const (
	NotExamined        MetadataState = iota // nobody has looked yet
	MetadataNone                            // there is none
	MetadataRemovable                       // visitors can get the file without it
	MetadataKept                            // nothing is removed from this format
	MetadataUnreadable                      // the structure of the file cannot be understood
)

// MetadataKinds are the words for what metadata is about.
var MetadataKinds = []string{"gps", "camera", "serial", "time", "text", "thumbnail", "other"}

// FoundOf are the bits for kinds of metadata.
func FoundOf(kinds []string) (found byte) {
	for i, kind := range MetadataKinds {
		found |= bit(slices.Contains(kinds, kind), 1<<i)
	}
	return found
}

// kinds lists what was found.
func (m Metadata) kinds() (all []string) {
	for i, kind := range MetadataKinds {
		if m.Found&(1<<i) != 0 {
			all = append(all, kind)
		}
	}
	return all
}

// Class is a coarse media type, for filtering.
type Class byte

// The classes, as stored.
const (
	Other Class = iota
	Image
	Video
	Audio
	Text
	PDF
)

var classNames = []string{"other", "image", "video", "audio", "text", "pdf"}

func (c Class) String() string { return classNames[c] }

// ClassNames are the words for the classes in queries.
func ClassNames() []string { return classNames }

// ClassOf is the class of a media type, ignoring its parameters.
func ClassOf(mimeType string) Class {
	mimeType, _, _ = strings.Cut(mimeType, ";")
	mimeType = strings.ToLower(strings.TrimSpace(mimeType))
	top, sub, _ := strings.Cut(mimeType, "/")
	switch {
	case top == "image":
		return Image
	case top == "video":
		return Video
	case top == "audio":
		return Audio
	case mimeType == "application/pdf":
		return PDF
	case top == "text", sub == "json", sub == "javascript", sub == "xml", sub == "yaml", sub == "toml", sub == "x-sh":
		return Text
	}
	return Other
}

// Decode reads the kind's own fields.
func (r *Record) Decode() (Body, error) {
	b := r.Kind.New()
	if err := field.Load(b, r.Body); err != nil {
		return nil, fmt.Errorf("record %s: %w", r.ID, err)
	}
	return b, nil
}

// SetBody sets the kind's own fields and what is derived from them.
func (r *Record) SetBody(b Body) {
	r.Body = field.AppendJSON(nil, b)
	r.Order = orderOf(b.Title())
	if f, ok := b.(*File); ok && r.Bytes != nil {
		r.Bytes.Class = ClassOf(f.MimeType)
	}
}

// The versions of a row. rowWide has a second byte of flags.
const (
	rowNarrow = 1
	rowWide   = 2
)

// Bits of a row's flags.
const (
	rowPublic byte = 1 << iota
	rowFavorite
	rowReached
	rowDelete  // the action is delete
	rowPrivate // the action is make_private
	rowFolder
	rowContent
	rowEnded
)

// Bits of the second byte of flags. A row in which none is set does not have the byte,
// because most rows were written without it.
const (
	rowLogged byte = 1 << iota
	rowKeepMetadata
	rowMetadata // the content's Metadata is in the row
	rowEndDelete
	rowPhoto // the content's Photo is in the row
	rowAttached
)

// KeySize is the length of a record's key: owner, kind, id.
const KeySize = 16 + 1 + 16

// Key is the record's primary key. Its prefixes cover all records of an owner,
// and all of one kind of an owner.
func (r *Record) Key() []byte { return RowKey(r.Owner, r.Kind, r.ID) }

// RowKey is the primary key of a record.
func RowKey(owner ID, k *Kind, id ID) []byte {
	key := make([]byte, 0, KeySize)
	key = append(append(key, owner[:]...), k.Code)
	return append(key, id[:]...)
}

// SplitKey splits a key from RowKey; the kind is nil if the key is not from
// RowKey.
func SplitKey(key []byte) (owner ID, k *Kind, id ID) {
	if len(key) != KeySize {
		return owner, nil, id
	}
	return ID(key[:16]), KindOf(key[16]), ID(key[17:])
}

// AppendRow appends the stored form of r to dst. DESIGN.md of package kv
// describes it byte by byte.
func (r *Record) AppendRow(dst []byte) []byte {
	flags := bit(r.Public, rowPublic) | bit(r.Favorite, rowFavorite) | bit(r.Reached, rowReached) |
		bit(r.AtLimit == Delete, rowDelete) | bit(r.AtLimit == MakePrivate, rowPrivate) |
		bit(r.Folder != uuid.Nil, rowFolder) | bit(r.Bytes != nil, rowContent) | bit(r.Ended, rowEnded)
	examined := r.Bytes != nil && r.Bytes.Metadata.State != NotExamined
	more := bit(r.Logged, rowLogged) | bit(r.KeepMetadata, rowKeepMetadata) | bit(examined, rowMetadata) |
		bit(r.EndDeletes, rowEndDelete) | bit(r.Bytes != nil && r.Bytes.Photo.Known(), rowPhoto) |
		bit(r.Attached, rowAttached)
	if more != 0 {
		dst = append(dst, rowWide, r.Kind.Shape, flags, more)
	} else {
		dst = append(dst, rowNarrow, r.Kind.Shape, flags)
	}

	dst = binary.BigEndian.AppendUint64(dst, r.Seq)
	for _, t := range []time.Time{r.Created, r.Updated, r.Expires} {
		dst = binary.BigEndian.AppendUint64(dst, millis(t))
	}
	dst = binary.AppendUvarint(dst, uint64(r.Limit))
	if r.Folder != uuid.Nil {
		dst = append(dst, r.Folder[:]...)
	}
	if r.Bytes != nil {
		dst = append(dst, r.Bytes.Ref[:]...)
		dst = binary.AppendUvarint(dst, uint64(r.Bytes.Size))
		dst = append(dst, byte(r.Bytes.Class))
		if examined {
			m := r.Bytes.Metadata
			dst = append(dst, m.Rules<<4|byte(m.State), m.Found)
			if m.State == MetadataRemovable {
				dst = binary.AppendUvarint(dst, uint64(m.Size))
			}
		}
		dst = r.Bytes.Photo.append(dst)
	}

	for _, s := range []string{r.Slug, r.Password, r.Order} {
		dst = append(binary.AppendUvarint(dst, uint64(len(s))), s...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(r.Tags)))
	for _, t := range r.Tags {
		dst = append(dst, t[:]...)
	}
	return append(dst, r.Body...)
}

// append appends the stored form: when it was taken, and the rest as JSON, after its length. What is not known is nothing.
func (p *Photo) append(dst []byte) []byte {
	if !p.Known() {
		return dst
	}
	rest, err := json.Marshal(p)
	if err != nil { // a place that is no number
		rest = []byte("{}")
	}
	dst = binary.BigEndian.AppendUint64(dst, millis(p.Taken))
	return append(binary.AppendUvarint(dst, uint64(len(rest))), rest...)
}

func bit(on bool, flag byte) byte {
	if on {
		return flag
	}
	return 0
}

// millis stores an instant as milliseconds since 1970, in two's complement. The
// zero time is an ordinary value (1 January of year 1), so that an item that
// expired in 1970 differs from one that never expires.
func millis(t time.Time) uint64 { return uint64(t.UnixMilli()) }

func fromMillis(n uint64) time.Time { return time.UnixMilli(int64(n)).UTC() }

var errRow = errors.New("the row is damaged")

// ParseRow reads a stored record. The result does not share memory with the
// row.
func ParseRow(key, row []byte) (*Record, error) {
	r, err := BorrowRow(key, row)
	if err != nil {
		return nil, err
	}
	r.Body = append([]byte(nil), r.Body...)
	return r, nil
}

// BorrowRow is ParseRow for a record that is used only while the row exists and does
// not change: its Body is a part of the row.
func BorrowRow(key, row []byte) (*Record, error) {
	owner, kind, id := SplitKey(key)
	if kind == nil {
		return nil, fmt.Errorf("record %x: %w", key, errRow)
	}
	r := &Record{Owner: owner, Kind: kind, ID: id}
	in := rowReader{data: row}

	version, shape, flags, more := in.byte(), in.byte(), in.byte(), byte(0)
	switch {
	case in.bad, version == rowNarrow:
	case version == rowWide:
		more = in.byte()
		r.Logged, r.KeepMetadata = more&rowLogged != 0, more&rowKeepMetadata != 0
		r.EndDeletes, r.Attached = more&rowEndDelete != 0, more&rowAttached != 0
	default:
		return nil, fmt.Errorf("record %s: row version %d is not known", r.ID, version)
	}
	r.Public, r.Favorite, r.Reached = flags&rowPublic != 0, flags&rowFavorite != 0, flags&rowReached != 0
	r.Ended = flags&rowEnded != 0
	switch {
	case flags&rowDelete != 0:
		r.AtLimit = Delete
	case flags&rowPrivate != 0:
		r.AtLimit = MakePrivate
	}

	r.Seq = in.uint64()
	r.Created, r.Updated, r.Expires = fromMillis(in.uint64()), fromMillis(in.uint64()), fromMillis(in.uint64())
	r.Limit = in.number(field.MaxCount)
	if flags&rowFolder != 0 {
		copy(r.Folder[:], in.take(16))
	}
	if flags&rowContent != 0 {
		r.Bytes = in.content(more&rowMetadata != 0)
		if more&rowPhoto != 0 {
			in.photo(&r.Bytes.Photo)
		}
	}
	r.Slug, r.Password, r.Order = in.texts()
	r.Tags = in.ids()
	if in.bad {
		return nil, fmt.Errorf("record %s: %w", r.ID, errRow)
	}

	r.Body = slices.Clip(in.data)
	if shape != r.Kind.Shape { // an older one
		b, err := r.Decode()
		if err != nil {
			return nil, err
		}
		filed := r.Order // the record stays where it is in the index
		r.SetBody(b)
		r.Order = filed
	}
	return r, nil
}

// content reads what a row says about bytes.
func (in *rowReader) content(examined bool) *Content {
	c := new(Content)
	copy(c.Ref[:], in.take(32))
	c.Size = in.number(math.MaxInt64)
	c.Class = Class(in.byte())
	in.bad = in.bad || int(c.Class) >= len(classNames)
	if !examined {
		return c
	}

	m := &c.Metadata
	both := in.byte()
	m.State, m.Rules, m.Found = MetadataState(both&15), both>>4, in.byte()
	if m.State == MetadataRemovable {
		m.Size = in.number(math.MaxInt64)
	}
	in.bad = in.bad || m.State == NotExamined || m.State > MetadataUnreadable
	return c
}

// photo reads what a row says about a picture.
func (in *rowReader) photo(p *Photo) {
	taken := fromMillis(in.uint64())
	rest := in.take(in.uvarint())
	if in.bad {
		return
	}
	err := json.Unmarshal(rest, p)
	if err != nil {
		in.bad = true
	}
	p.Taken = taken
}

// texts reads the three texts of a row.
func (in *rowReader) texts() (slug, password, order string) {
	from := in.data
	s, p, o := in.take(in.uvarint()), in.take(in.uvarint()), in.take(in.uvarint())
	if in.bad {
		return "", "", ""
	}
	all := string(from[:len(from)-len(in.data)]) // one allocation for the three
	text := func(part []byte) string {
		at := cap(from) - cap(part)
		return all[at : at+len(part)]
	}
	return text(s), text(p), text(o)
}

// ids reads the ids of a row's tags.
func (in *rowReader) ids() []ID {
	n := in.uvarint()
	if n == 0 {
		return nil
	}
	if n > uint64(len(in.data))/16 {
		in.bad = true
		return nil
	}
	all := make([]ID, n)
	for i := range all {
		copy(all[i][:], in.take(16))
	}
	return all
}

// Trashed is a record in the trash. Its Seq is the place of the removal in the feed of
// changes.
type Trashed struct {
	Record
	Removal
}

// Removal says when and by whom a record was moved to the trash.
type Removal struct {
	At   time.Time `json:"at"`
	By   string    `json:"by,omitempty"`   // name of the browser, key or device
	Page *Page     `json:"page,omitempty"` // of a bookmark
	Of   ID        `json:"of,omitzero"`    // the file whose earlier bytes these are; zero for a record that was deleted
}

// AppendRow returns the stored form of t: its Removal as JSON, after its length, and the row
// of the record.
func (t *Trashed) AppendRow() ([]byte, error) {
	dst, err := encodeHead(&t.Removal)
	return t.Record.AppendRow(dst), err
}

// ParseTrashed reads a stored record of the trash. The result does not share memory with
// the row.
func ParseTrashed(key, row []byte) (*Trashed, error) {
	t := new(Trashed)
	rest, err := readHead(row, &t.Removal)
	if err != nil {
		return nil, fmt.Errorf("trash %x: %w", key, err)
	}
	r, err := ParseRow(key, rest)
	if err != nil {
		return nil, err
	}
	t.Record = *r
	return t, nil
}

// Version is the text of a record, or the content of a file, before a change.
type Version struct {
	Item [KeySize]byte // key of the record
	ID   ID
	VersionHead
	Body []byte // as in the record
	Size int64  // in bytes: of Body, or of the content of a file
}

// VersionHead says when and by whom the text was replaced.
type VersionHead struct {
	At time.Time `json:"at"`
	By string    `json:"by,omitempty"` // name of the browser, key or device
	// Ticker is the account that has set a task, if nothing else was changed.
	Ticker ID `json:"ticker,omitzero"`
}

// Key is the primary key of the version. It begins with that of its record.
func (v *Version) Key() []byte { return append(v.Item[:], v.ID[:]...) }

// AppendRow returns the stored form of v: its head as JSON, after its length, and its body.
func (v *Version) AppendRow() ([]byte, error) {
	row, err := encodeHead(&v.VersionHead)
	return append(row, v.Body...), err
}

// BorrowVersion reads a stored version. Its Body is a part of the row.
func BorrowVersion(key, row []byte) (*Version, error) {
	if len(key) != KeySize+len(ID{}) {
		return nil, fmt.Errorf("version %x: %w", key, errRow)
	}
	v := &Version{Item: [KeySize]byte(key), ID: ID(key[KeySize:])}
	body, err := readHead(row, &v.VersionHead)
	if err != nil {
		return nil, fmt.Errorf("version %s: %w", v.ID, err)
	}
	v.Body, v.Size = body, int64(len(body))
	return v, nil
}

// encodeHead returns the first part of a row that has two: JSON, after its length.
func encodeHead(head any) ([]byte, error) {
	b, err := json.Marshal(head)
	return append(binary.AppendUvarint(nil, uint64(len(b))), b...), err
}

// readHead reads what encodeHead wrote, and returns the rest of the row.
func readHead(row []byte, head any) (rest []byte, err error) {
	in := rowReader{data: row}
	b := in.take(in.uvarint())
	if in.bad {
		return nil, errRow
	}
	return in.data, json.Unmarshal(b, head)
}

// rowReader reads a row front to back. Past the end it returns zeros and sets
// bad.
type rowReader struct {
	data []byte
	bad  bool
}

func (in *rowReader) take(n uint64) []byte {
	if n > uint64(len(in.data)) {
		in.bad, in.data = true, nil
		return nil
	}
	out := in.data[:n]
	in.data = in.data[n:]
	return out
}

func (in *rowReader) byte() byte {
	if b := in.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (in *rowReader) uint64() uint64 {
	if b := in.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (in *rowReader) uvarint() uint64 {
	n, size := binary.Uvarint(in.data)
	if size <= 0 {
		in.bad, in.data = true, nil
		return 0
	}
	in.data = in.data[size:]
	return n
}

func (in *rowReader) number(limit uint64) int64 {
	n := in.uvarint()
	if n > limit {
		in.bad = true
	}
	return int64(n)
}
