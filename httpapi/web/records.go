package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/inbox"
	"kist/kv/people"
	"kist/kv/record"
)

// PrefersText reports whether a client prefers text/plain to JSON (RFC 9110, section
// 12.5.1). A client without a preference gets JSON.
func PrefersText(h http.Header) bool {
	accept := strings.Join(h["Accept"], ",")
	return accept != "" && weight(accept, TextMedia) > weight(accept, JSONType)
}

const TextMedia = "text/plain"

// weight is the quality that an Accept header gives a media type, from its most specific
// range; 0 if no range matches. It ignores unreadable ranges and parameters of types.
func weight(accept, media string) float64 {
	of, _, _ := strings.Cut(media, "/")
	ranges := []string{media, of + "/*", "*/*"}
	narrowest, out := len(ranges), 0.0
	for entry := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(entry, ";")
		q := 1.0
		for param := range strings.SplitSeq(params, ";") {
			text, got := strings.CutPrefix(strings.ToLower(strings.TrimSpace(param)), "q=")
			if !got {
				continue
			}
			number, err := strconv.ParseFloat(text, 64)
			if err != nil || !(number >= 0 && number <= 1) {
				number = -1
			}
			q = number
		}
		for i, r := range ranges[:min(narrowest+1, len(ranges))] {
			if q < 0 || !strings.EqualFold(strings.TrimSpace(name), r) {
				continue
			}
			if i < narrowest {
				narrowest, out = i, q
			}
			out = max(out, q)
			break
		}
	}
	return out
}

// AppendLinks appends the addresses that the answer to a creation has in addition to the
// record, as further members of an object.
func (s *Site) AppendLinks(dst []byte, r *record.Record, pictured bool) []byte {
	add := func(name, path string) {
		dst = append(dst, `,"`+name+`":"`+s.Base+path+`"`...)
	}
	if pictured {
		add("thumbnailUrl", "/t/"+url.PathEscape(r.Slug))
	}
	add("deletionUrl", DeletionPath+s.Grants.DeletionToken(r))
	return dst
}

// AppendCreated appends a new record and its addresses, or only its address for a client that
// prefers text. For a bookmark it adds the older bookmarks of the same page.
func (c *Request) AppendCreated(dst []byte, v *ShownRecord, same []*Duplicate) []byte {
	address := v.AppendURL(nil)
	if c.W.Plain {
		return append(dst, address[1:len(address)-1]...) // without the quotes; nothing in it is escaped
	}

	dst = c.AppendOne(append(dst, `{"data":`...), v)
	dst = append(append(dst, `,"url":`...), address...)
	dst = c.Site.AppendLinks(dst, &v.Record, false)
	if v.Kind == record.Bookmarks {
		dst = AppendAll(append(dst, `,"duplicateOf":`...), same)
	}
	return append(dst, '}')
}

// AnswerUploaded answers an upload with the JSON made for it, or only with the addresses
// in it.
func (c *Request) AnswerUploaded(body []byte) error {
	var one struct {
		URL   string `json:"url"`
		Files []struct {
			URL string `json:"url"`
		} `json:"files"`
	}
	if err := json.Unmarshal(body, &one); err != nil {
		return err
	}
	var all []string
	if one.URL != "" {
		c.W.Header().Set("Location", one.URL)
		all = append(all, one.URL)
	}
	if !c.W.Plain {
		return c.RespondJSON(http.StatusCreated, body)
	}
	for _, f := range one.Files {
		all = append(all, f.URL)
	}
	return c.RespondText(all...)
}

// RespondText answers a creation with plain text: addresses or sentences, one per line.
func (c *Request) RespondText(lines ...string) error {
	body := []byte(strings.Join(lines, "\n") + "\n")
	h := c.W.Header()
	h.Set("Content-Type", TextType)
	h["Cache-Control"] = HeadNoStore
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.W.WriteHeader(http.StatusCreated)
	_, _ = c.W.Write(body) // the client may be gone; what was done stays done
	return nil
}

// shownPool keeps records with their shapes for reuse, by kind.
type shownPool [256]sync.Pool

// A ShownRecord is a record for an answer. It is filled in a transaction and may be
// written as JSON later; Release keeps its memory for the next one.
type ShownRecord struct {
	record.Shown
	set    *field.Set
	digest xxhash.Digest
	pool   *sync.Pool
}

func (v *ShownRecord) AppendJSON(dst []byte) []byte { return v.set.AppendJSON(dst) }

func (v *ShownRecord) Release() {
	v.Body = nil // may be memory of the store
	v.pool.Put(v)
}

// Read reads a record as its owner sees it.
func (s *Site) Read(tx *kv.Tx, r *record.Record) (*ShownRecord, error) {
	return s.read(&s.shown, tx, r)
}

// ReadAs reads a record as somebody sees it who reaches it on a way.
func (s *Site) ReadAs(tx *kv.Tx, r *record.Record, way catalog.Way) (*ShownRecord, error) {
	if way.Own {
		return s.read(&s.shown, tx, r)
	}
	v, err := s.read(&s.reached, tx, r)
	if err != nil {
		return nil, err
	}
	owner, err := people.PersonOf(tx, r.Owner)
	if err != nil {
		v.Release()
		return nil, err
	}
	v.Reader = record.Reader{Owner: owner, Role: way.Role}
	if err := v.asServed(); err != nil {
		v.Release()
		return nil, err
	}
	if way.Collection != nil {
		v.Reader.Through = way.Collection.Slug
	}
	return v, nil
}

// asServed makes the size of a file that of the bytes that others than its owner get, and hides the digest of those that
// they do not get, and the name of its sender.
func (v *ShownRecord) asServed() error {
	if v.Kind != record.Files || v.Bytes == nil {
		return nil
	}
	m := v.Bytes.Metadata
	whole := v.KeepMetadata || v.NeverStrip || m.State != record.MetadataRemovable && m.State != record.NotExamined
	if whole && !v.HasUploader() {
		return nil
	}
	body, err := v.Decode()
	if err != nil {
		return err
	}
	f := body.(*record.File) // the kind says so
	f.Uploader = ""
	if !whole {
		f.SHA256 = ""
		if m.State == record.MetadataRemovable {
			f.Size = m.Size
		}
	}
	v.Body = field.AppendJSON(nil, f)
	return nil
}

func (s *Site) read(pools *shownPool, tx *kv.Tx, r *record.Record) (*ShownRecord, error) {
	pool := &pools[r.Kind.Code]
	v, _ := pool.Get().(*ShownRecord)
	if v == nil {
		v = &ShownRecord{pool: pool}
		v.Kind, v.Visitor, v.ByMember = r.Kind, pools == &s.shared, pools == &s.reached
		v.set = field.Of(&v.Shown)
	}
	if err := catalog.Show(tx, r, &v.Shown); err != nil {
		v.Release()
		return nil, err
	}
	if r.Kind == record.Collections {
		q, err := inbox.RequestOf(tx, r, &v.Collected.Collection)
		if err != nil {
			v.Release()
			return nil, err
		}
		if q == nil {
			v.Collected.Request = record.ID{}
		}
	}
	v.Base = s.Base
	return v, nil
}

// Show appends a record as JSON, as its owner sees it.
func (s *Site) Show(tx *kv.Tx, dst []byte, r *record.Record) ([]byte, error) {
	v, err := s.Read(tx, r)
	if err != nil {
		return dst, err
	}
	defer v.Release()
	return v.AppendJSON(dst), nil
}

// ShowAs appends a record as JSON, as somebody sees it who reaches it on a way.
func (s *Site) ShowAs(tx *kv.Tx, dst []byte, r *record.Record, way catalog.Way) ([]byte, error) {
	v, err := s.ReadAs(tx, r, way)
	if err != nil {
		return dst, err
	}
	defer v.Release()
	return v.AppendJSON(dst), nil
}

// ShowVisitor appends a record as JSON, as visitors see it.
func (s *Site) ShowVisitor(tx *kv.Tx, dst []byte, r *record.Record) ([]byte, error) {
	v, err := s.read(&s.shared, tx, r)
	if err != nil {
		return dst, err
	}
	defer v.Release()
	return v.AppendJSON(dst), nil
}

// Hash hashes the password in a form, before the transaction that needs it.
func (c *Request) Hash(p field.Secret) (string, error) {
	if p.Text == "" {
		return "", nil
	}
	owner := "" // for a claim
	if c.Caller != nil {
		owner = c.Owner().String()
	}
	return c.Site.Passwords.Hash(c.R.Context(), owner, p.Text)
}

// Duplicate is an older bookmark of the same page as a new one.
type Duplicate struct {
	ID   record.ID
	Slug string
}

func (d *Duplicate) Fields(s *field.Set) {
	s.ID("id", &d.ID, field.Always).Says("Id of the bookmark.", `"01890a5d-ac96-774b-bcce-b302099a8057"`)
	s.Ruled("slug", &d.Slug, record.CleanSlug, record.SlugPattern, record.MaxSlug).Says("Its slug.", `"summer-24"`)
}

const SampleID = `"01890a5d-ac96-774b-bcce-b302099a8057"`

func AppendCounts(dst []byte, counts map[string]int64) []byte {
	return AppendNumbers(dst, KindNames(), counts)
}

// AppendNumbers appends the numbers with these names as an object.
func AppendNumbers(dst []byte, names []string, numbers map[string]int64) []byte {
	return field.AppendMembers(dst, names, func(dst []byte, name string) []byte {
		return strconv.AppendInt(dst, numbers[name], 10)
	})
}

// KindNames are the names of the kinds of records.
func KindNames() []string {
	var all []string
	for _, k := range record.Kinds {
		all = append(all, k.Name)
	}
	return all
}

// IDArg is the id in the path. what is the kind of thing, for the error.
func (c *Request) IDArg(what string) (record.ID, error) {
	id, err := uuid.Parse(c.Arg("id"))
	if err != nil || id == uuid.Nil { // uuid.Nil means "none" elsewhere
		return id, record.NotFound(what)
	}
	return id, nil
}
