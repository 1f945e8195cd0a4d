package public

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"sort"
	"strings"
	"time"

	"kist/blobs"
	"kist/httpapi/archive"
	"kist/httpapi/limit"
	"kist/httpapi/metadata"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
	"kist/kv/transfer/format"
)

// itemsParam names items of a collection for a zip, by id.
const itemsParam = "items"

// sendZip answers with the items of a collection as a zip, under the collection's conditions. A single range is read from
// archive.Archive, which computes any byte of the zip; several ranges get the whole zip.
func sendZip(c *web.Request, r *record.Record, who viewer) error {
	query, err := c.Query()
	if err != nil {
		return err
	}
	if c.Arg("slug") != r.Slug+".zip" {
		return record.ErrMissing
	}
	body, all, err := readCollection(c, r)
	if err != nil {
		return err
	}
	if !body.Download && !who.inside() {
		return record.ErrMissing
	}
	chosen := shownTo(who, all)
	if named := strings.Join(query[itemsParam], ","); named != "" {
		wanted := map[string]bool{}
		for id := range strings.SplitSeq(named, ",") {
			wanted[id] = true
		}
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(m catalog.Item) bool { return !wanted[m.ID.String()] })
	}
	if len(chosen) == 0 {
		return record.ErrMissing
	}
	network := limit.Network(c.Addr)
	sent, err := c.Site.Zips.Send(network, len(chosen)*entryBytes)
	if err != nil {
		return err
	}
	defer sent()
	z, err := layout(c, r, who, chosen)
	if err != nil {
		return err
	}
	more := max(0, len(z.all)-len(chosen)) * entryBytes
	textSent, err := c.Site.Zips.Send(network, more+int(z.longest))
	if err != nil {
		return err
	}
	defer textSent()
	a := archive.New(z.all)
	defer func() {
		_ = a.Close() // it was only read
		z.keep()
	}()
	if strings.Contains(c.R.Header.Get("Range"), ",") { // several ranges are not worth it: the answer is all of it
		c.R.Header.Del("Range")
	}
	return sendBytes(c, r, who, "application/zip", "", archive.Safe(body.Name+".zip"), a.Tag(), a, a.Size())
}

const (
	laidAtOnce = 500         // items that are read in one transaction
	foundFor   = time.Minute // for how long a layout relies on the bytes of a file being where they were
	sumBuffer  = 64 << 10    // to read a content
	entryBytes = 1 << 10     // what an entry of a zip takes in memory while the zip is sent, about
)

// layout makes the entries of the zip of the items. It waits for one of the two turns of Zips.Layout, or fails with Busy
// if too many wait, and reads only what is not cached. While the zip is sent, one text at a time is in memory.
func layout(c *web.Request, r *record.Record, who viewer, chosen []catalog.Item) (*zipping, error) {
	done, err := c.Site.Zips.Layout(c.R.Context(), limit.Network(c.Addr))
	if err != nil {
		return nil, err
	}
	defer done()
	z := &zipping{
		c: c, who: who, counted: r.Limit > 0 && !who.inside(),
		fresh: map[catalog.CRCKey]uint32{}, files: map[ownFile]string{},
	}
	inOrder := make([]catalog.Item, 0, len(chosen))
	for _, files := range []bool{true, false} { // texts name the files that they show
		for _, m := range chosen {
			if (m.Kind == record.Files) == files {
				inOrder = append(inOrder, m)
			}
		}
	}
	for some := range slices.Chunk(inOrder, laidAtOnce) {
		if err := z.add(some); err != nil {
			return nil, err
		}
	}
	if err := z.addLinks(); err != nil {
		return nil, err
	}
	return z, nil
}

// zipping makes the entries of a zip. Bookmarks and short links become one file.
type zipping struct {
	c       *web.Request
	who     viewer
	counted bool // a view is counted against a limit, so the files must be there
	names   archive.Names
	all     []archive.Entry
	links   []line
	latest  time.Time                 // of the links
	longest int64                     // bytes of a text
	files   map[ownFile]string        // names of the files that are in it
	sought  int                       // files that texts show
	fresh   map[catalog.CRCKey]uint32 // computed for this zip
}

// A line is one bookmark or short link in bookmarks.html.
type line struct {
	key []byte
	archive.Fact
}

// An ownFile is a file of an owner. Texts show only files of their own owner.
type ownFile struct{ owner, id record.ID }

// add makes the entries of some items.
func (z *zipping) add(some []catalog.Item) error {
	var items []*record.Record // without their bodies
	files := map[record.ID]*record.File{}
	if err := z.c.Site.Store.View(func(tx *kv.Tx) error {
		for _, m := range some {
			key := record.RowKey(m.Owner, m.Kind, m.ID)
			row := tx.Get(kv.RecordBucket, key)
			if row == nil { // removed just now
				continue
			}
			item, err := record.BorrowRow(key, row)
			if err != nil {
				return err
			}
			if m.Kind == record.Files {
				files[m.ID], err = z.file(item)
				if err != nil {
					return err
				}
			}
			item.Body = nil
			items = append(items, item)
		}
		return nil
	}); err != nil {
		return err
	}
	for _, item := range items {
		var err error
		if f := files[item.ID]; f != nil {
			err = z.addFile(item, f)
		} else {
			err = z.addText(item)
		}
		if err != nil && !kv.Missing(err) { // removed just now
			return err
		}
	}
	return nil
}

// file is what the zip needs of a file.
func (z *zipping) file(item *record.Record) (*record.File, error) {
	if f, known := z.c.Site.Zips.Fact(archive.Item{ID: item.ID, Seq: item.Seq}); known {
		return &record.File{OriginalName: f.Name, MimeType: f.Media}, nil
	}
	b, err := item.Decode()
	if err != nil {
		return nil, err
	}
	return b.(*record.File), nil // the kind says so
}

// addFile adds the bytes of a file as the owner or a visitor gets them. A lost file must not keep the others back.
func (z *zipping) addFile(item *record.Record, b *record.File) error {
	zips, store, ref := z.c.Site.Zips, z.c.Site.Blobs, blobs.Ref(item.Bytes.Ref)
	at := archive.Item{ID: item.ID, Seq: item.Seq}
	f, known := zips.Fact(at)
	if known && time.Since(f.Gone) < foundFor { // an object store may have lost it
		return nil
	}
	if !known || z.counted || time.Since(f.Found) > foundFor || store.Damaged.Err(ref) != nil {
		if store.Lost(ref) {
			return nil // the health of the store is reported elsewhere
		}
		zips.Remember(at, archive.Fact{Name: b.OriginalName, Media: b.MimeType, Found: time.Now()})
	}
	of, err := contentOf(z.c, item, b.MimeType, z.who.owns(item))
	if lost(err) {
		return nil
	}
	if err != nil {
		return err
	}
	open := func(part bool) (io.ReadSeekCloser, error) {
		f, err := of.Open(z.c.R.Context(), part)
		if lost(err) {
			zips.Remember(at, archive.Fact{Name: b.OriginalName, Media: b.MimeType, Gone: time.Now()})
		}
		return f, err
	}
	known, sum := false, uint32(0)
	name := z.names.Unique(b.OriginalName)
	z.files[ownFile{item.Owner, item.ID}] = name
	z.all = append(z.all, archive.Entry{
		Name: name, Modified: item.Created, Size: of.Size, Content: of.Digest,
		CRC: func() (uint32, error) {
			if known {
				return sum, nil
			}
			var err error
			sum, err = z.sum(item.Bytes, &of, open)
			known = err == nil
			return sum, err
		},
		Open: func() (io.ReadSeekCloser, error) { return open(true) },
	})
	return nil
}

// sum is the CRC-32 of a file's bytes as they are sent. It is computed if it is not kept with the content: for what an
// earlier version stored, what a sender left, short files, and what is left of a file without its metadata.
func (z *zipping) sum(
	stored *record.Content, of *shownContent, open func(part bool) (io.ReadSeekCloser, error),
) (sum uint32, err error) {
	key := catalog.CRCKey{Ref: stored.Ref}
	if of.Clean {
		key.Rules = metadata.Rules
	}
	if sum, known, err := z.known(key); err != nil || known {
		return sum, err
	}
	done, err := z.c.Site.Zips.Sum(z.c.R.Context(), z.c.W.Status != 0, z.c.W.Extend)
	if err != nil {
		return 0, err
	}
	defer done()
	if sum, known, err := z.known(key); err != nil || known { // another request has computed it meanwhile
		return sum, err
	}

	if of.Clean && stored.Size > blobs.ProvenForPart { // what is left is right if all of it was
		original, err := z.c.Site.Blobs.Send(stored.Ref, stored.Size)
		if err != nil {
			return 0, err
		}
		if _, err := z.read(original, stored.Size, io.Discard); err != nil {
			return 0, err
		}
	}
	f, err := open(false)
	if err != nil {
		return 0, err
	}
	digest := sha256.New()
	sum, err = z.read(f, of.Size, digest)
	if err != nil {
		return 0, err
	}
	if !of.Clean && [sha256.Size]byte(digest.Sum(nil)) != stored.Ref { // damaged after this process had read it
		return 0, cmp.Or(z.c.Site.Blobs.Check(stored.Ref), blobs.ErrDamaged)
	}
	z.fresh[key] = sum
	if of.Size >= keptAtOnce {
		z.keep()
	}
	return sum, nil
}

// keptAtOnce is from how many bytes on a sum is kept at once, before the next request computes it too. Others are kept
// together at the end of the zip.
const keptAtOnce = 16 << 20

// known returns the sum if it is kept.
func (z *zipping) known(key catalog.CRCKey) (sum uint32, known bool, err error) {
	err = z.c.Site.Store.View(func(tx *kv.Tx) error {
		sum, known = catalog.CRC(tx, key)
		return nil
	})
	return sum, known, err
}

// read returns the CRC-32 of a file, which it reads to its end into copied as well, and closes.
func (z *zipping) read(f io.ReadCloser, size int64, copied io.Writer) (uint32, error) {
	defer f.Close()
	h, buffer := crc32.NewIEEE(), make([]byte, min(sumBuffer, size))
	for n := int64(0); n < size; {
		if err := z.c.R.Context().Err(); err != nil {
			return 0, err
		}
		z.c.W.Extend()
		some := buffer[:min(sumBuffer, size-n)]
		if _, err := io.ReadFull(f, some); err != nil {
			return 0, err
		}
		_, _ = h.Write(some) // a hash takes every byte
		if _, err := copied.Write(some); err != nil {
			return 0, err
		}
		n += int64(len(some))
	}
	return h.Sum32(), nil
}

// keep keeps the sums that were computed for this zip.
func (z *zipping) keep() {
	if len(z.fresh) == 0 {
		return
	}
	if err := z.c.Site.Store.Update(func(tx *kv.Tx) error { return catalog.KeepCRCs(tx, z.fresh) }); err != nil {
		z.c.Site.Log.Error("checksums for zips are not kept", "error", err)
		return
	}
	clear(z.fresh)
}

// lost reports whether bytes are missing or damaged.
func lost(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, blobs.ErrDamaged) }

var errLost = &record.Error{
	Fault: record.Busy, Code: "busy",
	Text: "A file of this collection can no longer be read. Try again, and get the others.", Retry: time.Second,
}

// zipReady reads ahead and returns the error, while nothing has been sent yet. The next layout leaves out a lost file.
func zipReady(a *archive.Archive) error {
	err := a.Ready()
	if lost(err) {
		return errLost
	}
	return err
}

// addText adds an item that becomes text. The text is read again when it is sent: many of them do not fit memory.
func (z *zipping) addText(item *record.Record) error {
	key := item.Key()
	f, known := z.c.Site.Zips.Fact(archive.Item{ID: item.ID, Seq: item.Seq})
	own := z.who.owns(item) && item.Kind == record.Bookmarks // has more, and changes with the names of its tags
	if !known || own {
		seq := uint64(0)
		var err error
		f, seq, err = z.textFact(key)
		if err != nil {
			return err
		}
		if !own {
			z.c.Site.Zips.Remember(archive.Item{ID: item.ID, Seq: seq}, f)
		}
	}
	if len(f.Shows) > 0 {
		var err error
		f, err = z.withFiles(item, f)
		if err != nil {
			return err
		}
	}
	if item.Kind == record.Bookmarks || item.Kind == record.Links {
		z.links, z.latest = append(z.links, line{key, f}), kv.Later(z.latest, item.Created)
		return nil
	}
	z.longest = max(z.longest, f.Size)
	z.all = append(z.all, archive.Entry{
		Name: z.names.Unique(f.Name), Modified: item.Created, Size: f.Size, Content: f.Content,
		CRC: func() (uint32, error) { return f.CRC, nil },
		Open: func() (io.ReadSeekCloser, error) {
			text, err := z.same(key, f)
			return inMemory{strings.NewReader(text)}, err
		},
	})
	return nil
}

// textFact reads what the layout needs of a text.
func (z *zipping) textFact(key []byte) (f archive.Fact, seq uint64, err error) {
	if err := z.c.R.Context().Err(); err != nil {
		return f, 0, err
	}
	z.c.W.Extend()
	t, err := z.text(key)
	return archive.Fact{
		Name: archive.Safe(t.name), Size: int64(len(t.text)), CRC: crc32.ChecksumIEEE([]byte(t.text)),
		Content: sha256.Sum256([]byte(t.text)), Shows: t.shows,
	}, t.seq, err
}

// Bounds of the files beside texts in one zip: those after them are left out, as if they were gone.
const (
	maxEntries = 21_000  // with the other items; has room in what may be sent to a network
	maxSought  = 100_000 // files that texts show
)

// withFiles adds the files that a text shows and that the viewer may open, and returns the fact for the text with their
// names.
func (z *zipping) withFiles(item *record.Record, f archive.Fact) (archive.Fact, error) {
	if err := z.c.R.Context().Err(); err != nil {
		return f, err
	}
	z.c.W.Extend()
	names := sha256.New()
	names.Write(item.ID[:])
	names.Write([]byte(z.gone()))
	for _, id := range f.Shows {
		of := ownFile{item.Owner, id}
		if z.files[of] == "" && len(z.all) < maxEntries && z.sought < maxSought {
			z.sought++
			if err := z.addShown(item, f.Shows, id); err != nil && !kv.Missing(err) {
				return f, err
			}
		}
		fmt.Fprintf(names, "%s %q\n", id, z.files[of])
	}
	at := archive.Item{ID: record.ID(names.Sum(nil)[:16]), Seq: item.Seq}
	if f, known := z.c.Site.Zips.Fact(at); known {
		return f, nil
	}
	f, seq, err := z.textFact(item.Key())
	if err != nil {
		return f, err
	}
	if seq == item.Seq {
		z.c.Site.Zips.Remember(at, f)
	}
	return f, nil
}

// addShown adds a file that a text shows; Missing if the viewer may not open it.
func (z *zipping) addShown(item *record.Record, shown []record.ID, id record.ID) error {
	var f *record.Record
	var b *record.File
	if err := z.c.Site.Store.View(func(tx *kv.Tx) (err error) {
		f, err = catalog.Borrow(tx, item.Owner, record.Files, id.String())
		if err != nil {
			return err
		}
		if !item.MayOpen(shown, f, z.who.asker()) {
			return record.ErrMissing
		}
		b, err = z.file(f)
		f.Body = nil
		return err
	}); err != nil {
		return err
	}
	return z.addFile(f, b)
}

// A zipText is an item as text.
type zipText struct {
	name, text string
	shows      []record.ID
	seq        uint64
}

// gone stands for a file that a text shows and that this viewer does not get.
func (z *zipping) gone() string { return "*" + z.c.Lang().T("page.pictureGone") + "*" }

// withNames is an item as text, with the names of the files in the zip in place of their addresses. The ids of files
// that the viewer does not get are nowhere in it.
func (z *zipping) withNames(item *record.Record, shows []record.ID, b record.Body) string {
	name := func(id record.ID) string {
		if !slices.Contains(shows, id) {
			return ""
		}
		return z.files[ownFile{item.Owner, id}]
	}
	named := record.PlaceShown(b, func(id record.ID) string { return url.PathEscape(name(id)) }, z.gone())
	_, text := asText(named, name(record.PictureOf(b)))
	return text
}

// text reads an item as text. Only a few long ones are read at the same time.
func (z *zipping) text(key []byte) (t zipText, err error) {
	read := func(tx *kv.Tx) error {
		row := tx.Get(kv.RecordBucket, key)
		if row == nil {
			return record.ErrMissing
		}
		item, err := record.BorrowRow(key, row)
		if err != nil {
			return err
		}
		b, err := item.Decode()
		if err != nil {
			return err
		}
		t.seq, t.shows = item.Seq, item.Shows()
		switch b := b.(type) {
		case *record.Bookmark:
			line := format.Bookmark{URL: b.URL, Title: b.Named(), Created: item.Created}
			if z.who.owns(item) {
				v := record.Shown{Record: record.Record{Kind: item.Kind}}
				if err := catalog.Show(tx, item, &v); err != nil {
					return err
				}
				line = format.BookmarkOf(&v, b)
			}
			t.text = string(format.AppendNetscape(nil, &line))
		case *record.Link:
			line := format.Bookmark{URL: b.URL, Title: b.Named(), Created: item.Created}
			t.text = string(format.AppendNetscape(nil, &line))
		default:
			if len(t.shows) == 0 {
				t.name, t.text = asText(b, "")
				break
			}
			t.name, t.text = titleOf(b)+".md", z.withNames(item, t.shows, b)
		}
		return nil
	}
	err = z.c.Making(func() error { return z.c.Site.Store.View(read) })
	return t, err
}

var errChanged = errors.New("a text was changed while it was sent")

// same reads the text again that the layout was made for.
func (z *zipping) same(key []byte, f archive.Fact) (string, error) {
	t, err := z.text(key)
	if err != nil {
		return "", err
	}
	if sha256.Sum256([]byte(t.text)) != f.Content {
		return "", errChanged
	}
	return t.text, nil
}

// addLinks adds the file of the bookmarks and short links.
func (z *zipping) addLinks() error {
	if len(z.links) == 0 {
		return nil
	}
	digest := sha256.New()
	page := linksPage{z: z, starts: []int64{0, int64(len(format.NetscapeBegin))}, loaded: -1}
	for _, l := range z.links {
		digest.Write(l.Content[:])
		page.starts = append(page.starts, page.starts[len(page.starts)-1]+l.Size)
	}
	page.size = page.starts[len(page.starts)-1] + int64(len(format.NetscapeEnd))

	// Its CRC-32 is asked for at several places of the zip, and by everyone who asks for it.
	content := [32]byte(digest.Sum(nil))
	at := archive.Item{ID: record.ID(content[:16])}
	f, known := z.c.Site.Zips.Fact(at)
	if !known {
		all, sum := page, crc32.NewIEEE()
		if _, err := io.Copy(sum, &all); err != nil {
			return err
		}
		f = archive.Fact{CRC: sum.Sum32()}
		z.c.Site.Zips.Remember(at, f)
	}

	z.all = append(z.all, archive.Entry{
		Name: z.names.Unique("bookmarks.html"), Modified: z.latest, Size: page.size, Content: content,
		CRC: func() (uint32, error) { return f.CRC, nil },
		Open: func() (io.ReadSeekCloser, error) {
			one := page
			return &one, nil
		},
	})
	return nil
}

// A linksPage reads bookmarks.html. It has one line at a time in memory.
type linksPage struct {
	z      *zipping
	starts []int64 // of the beginning, of each line, and of the end
	size   int64
	at     int64
	loaded int // index in starts of the text; -1 if there is none
	text   string
}

func (p *linksPage) Read(b []byte) (int, error) {
	if p.at >= p.size {
		return 0, io.EOF
	}
	i := sort.Search(len(p.starts), func(i int) bool { return p.starts[i] > p.at }) - 1
	if i != p.loaded {
		if err := p.load(i); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.text[p.at-p.starts[i]:])
	p.at += int64(n)
	return n, nil
}

// load reads the text that begins at starts[i].
func (p *linksPage) load(i int) (err error) {
	if err := p.z.c.R.Context().Err(); err != nil {
		return err
	}
	switch i {
	case 0:
		p.text = format.NetscapeBegin
	case len(p.starts) - 1:
		p.text = format.NetscapeEnd
	default:
		l := p.z.links[i-1]
		p.text, err = p.z.same(l.key, l.Fact)
	}
	p.loaded = i
	return err
}

// Seek implements [io.Seeker] for archive.Archive, which seeks from the start.
func (p *linksPage) Seek(offset int64, _ int) (int64, error) {
	p.at = offset
	return offset, nil
}

func (p *linksPage) Close() error { return nil }

type inMemory struct{ *strings.Reader }

func (inMemory) Close() error { return nil }

// extensions are those of languages that are not called by their extension.
var extensions = map[string]string{
	"bash": ".sh", "shell": ".sh", "zsh": ".sh", "csharp": ".cs", "docker": ".dockerfile", "javascript": ".js", "typescript": ".ts", "kotlin": ".kt", "make": ".mk",
	"markdown": ".md", "nginx": ".conf", "powershell": ".ps1", "python": ".py", "ruby": ".rb", "rust": ".rs", "perl": ".pl", "haskell": ".hs", "text": ".txt", "plaintext": ".txt",
}

// asText is an item as a text file and the name of that file. picture is the name of the file that is its picture; ""
// without one.
func asText(b record.Body, picture string) (name, text string) {
	var out bytes.Buffer
	section := func(heading, text string) {
		if strings.TrimSpace(text) != "" {
			fmt.Fprintf(&out, "%s\n\n%s\n\n", heading, strings.TrimRight(text, "\n"))
		}
	}
	switch b := b.(type) {
	case *record.Note:
		return titleOf(b) + ".md", b.Content
	case *record.Snippet:
		language := strings.ToLower(b.Language)
		ext := extensions[language]
		switch {
		case path.Ext(b.Name) != "" && !strings.Contains(path.Ext(b.Name), " "):
			return b.Name, b.Content
		case ext == "" && len(language) > 0 && len(language) <= 10 && strings.Trim(
			language, "abcdefghijklmnopqrstuvwxyz0123456789",
		) == "":
			ext = "." + language
		case ext == "":
			ext = ".txt"
		}
		return b.Title() + ext, b.Content
	case *record.Recipe:
		fmt.Fprintf(&out, "# %s\n\n", b.Name)
		if picture != "" {
			fmt.Fprintf(&out, "![Photo](%s)\n\n", url.PathEscape(picture))
		}
		if b.Description != "" {
			fmt.Fprintf(&out, "%s\n\n", b.Description)
		}
		section("## Ingredients", b.Ingredients)
		section("## Instructions", b.Instructions)
	case *record.Game:
		fmt.Fprintf(&out, "# %s\n\n", b.Name)
		if picture != "" {
			fmt.Fprintf(&out, "![Cover](%s)\n\n", url.PathEscape(picture))
		}
		for _, fact := range [][2]string{{"Platform", b.Platform}, {"Status", string(b.Status)}, {"Store", b.StoreURL}} {
			if fact[1] != "" {
				fmt.Fprintf(&out, "- %s: %s\n", fact[0], fact[1])
			}
		}
		if b.Rating >= 0 {
			fmt.Fprintf(&out, "- Rating: %d/10\n", b.Rating)
		}
		if b.Playtime >= 0 {
			fmt.Fprintf(&out, "- Played: %s\n", playtime(b.Playtime))
		}
		if b.Notes != "" {
			fmt.Fprintf(&out, "\n%s\n", b.Notes)
		}
	}
	return b.Title() + ".md", out.String()
}
