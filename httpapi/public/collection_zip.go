package public

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"html"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"kist/httpapi/archive"
	"kist/httpapi/metadata"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
)

// itemsParam names items of a collection for a zip, by id.
const itemsParam = "items"

// sendZip answers with the items of a collection as a zip, under the collection's conditions.
func sendZip(c *web.Request, r *record.Record, owned bool) error {
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
	if !body.Download && !owned {
		return record.ErrMissing
	}
	chosen := all.Visible()
	if named := strings.Split(strings.Join(query[itemsParam], ","), ","); named[0] != "" {
		chosen = slices.DeleteFunc(chosen, func(m catalog.Member) bool { return !slices.Contains(named, m.ID.String()) })
	}
	if len(chosen) == 0 {
		return record.ErrMissing
	}
	z := &zipping{c: c, owned: owned, sums: map[catalog.CRCKey]uint32{}, done: map[catalog.CRCKey]uint32{}}
	entries, err := z.entries(r, chosen)
	if err != nil {
		return err
	}
	a := archive.New(entries)
	defer func() {
		_ = a.Close() // it was only read
		z.keep()
	}()
	return sendBytes(c, r, owned, "application/zip", archive.Safe(body.Name+".zip"), a.Tag(), a, a.Size())
}

// zipping makes the entries of a zip and keeps the checksums that it had to compute.
type zipping struct {
	c     *web.Request
	owned bool
	names archive.Names
	sums  map[catalog.CRCKey]uint32 // not kept yet
	done  map[catalog.CRCKey]uint32 // all that were computed
	buf   []byte
}

// entries are those of the items. Bookmarks and short links become one file.
func (z *zipping) entries(r *record.Record, chosen []catalog.Member) (all []archive.Entry, err error) {
	var links []string
	var latest time.Time
	files := map[int]*record.Record{} // whose entries are made after the transaction
	err = z.c.Site.Store.View(func(tx *kv.Tx) error {
		for _, m := range chosen {
			item, err := catalog.Owned(tx, r.Owner, m.Kind, m.ID)
			if kv.Missing(err) { // removed just now
				continue
			}
			if err != nil {
				return err
			}
			b, err := item.Decode()
			if err != nil {
				return err
			}
			switch b := b.(type) {
			case *record.File:
				if _, err := z.c.Site.Blobs.Stat(item.Bytes.Ref); err != nil || z.c.Site.Blobs.Damaged.Err(item.Bytes.Ref) != nil {
					continue // one lost file must not keep the others back
				}
				files[len(all)] = item
				all = append(all, archive.Entry{Name: z.names.Unique(b.OriginalName), Modified: item.Created})
			case *record.Bookmark:
				links, latest = append(links, netscape(b.URL, b.Title(), item.Created)), later(latest, item.Created)
			case *record.Link:
				links, latest = append(links, netscape(b.URL, b.Title(), item.Created)), later(latest, item.Created)
			default:
				name, _ := asText(b)
				all = append(all, z.text(name, item))
			}
		}
		return nil
	})
	for i, item := range files {
		if err == nil {
			err = z.addFile(&all[i], item)
		}
	}
	if len(links) > 0 {
		page := "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<META HTTP-EQUIV=\"Content-Type\" CONTENT=\"text/html; charset=UTF-8\">\n<TITLE>Bookmarks</TITLE>\n<H1>Bookmarks</H1>\n<DL><p>\n" +
			strings.Join(links, "") + "</DL><p>\n"
		all = append(all, z.known("bookmarks.html", latest, page, func() (string, error) { return page, nil }))
	}
	return all, err
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// netscape is a line of a file of bookmarks.
func netscape(address, title string, added time.Time) string {
	return fmt.Sprintf("<DT><A HREF=\"%s\" ADD_DATE=\"%d\">%s</A>\n", html.EscapeString(address), added.Unix(), html.EscapeString(title))
}

// addFile makes an entry that of a file, as the owner or a visitor gets its bytes.
func (z *zipping) addFile(e *archive.Entry, item *record.Record) error {
	b, err := item.Decode()
	if err != nil {
		return err
	}
	of, err := ContentOf(z.c.Site, item, b.(*record.File).MimeType, z.owned)
	if err != nil {
		return Unreadable(z.c, item.ID, z.owned, err)
	}
	key := catalog.CRCKey{Ref: item.Bytes.Ref}
	if of.Clean {
		key.Rules = metadata.Rules
	}
	e.Size, e.Content = of.Size, of.Digest
	e.Open = func() (io.ReadSeekCloser, error) { return of.Open(true) }
	known := false
	var sum uint32
	e.CRC = func() (uint32, error) {
		var err error
		if !known {
			err = z.c.Site.Store.View(func(tx *kv.Tx) error { sum, known = catalog.CRC(tx, key); return nil })
		}
		if !known && err == nil {
			sum, err = z.compute(key, &of)
			known = err == nil
		}
		return sum, err
	}
	return nil
}

// keepEvery is after how many new checksums they are kept, so that a download that breaks off was not in vain.
const keepEvery = 64

// compute reads a content for its checksum.
func (z *zipping) compute(key catalog.CRCKey, of *Content) (uint32, error) {
	if sum, there := z.done[key]; there {
		return sum, nil
	}
	f, err := of.Open(false)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if z.buf == nil {
		z.buf = make([]byte, 256<<10)
	}
	h := crc32.NewIEEE()
	n, err := io.CopyBuffer(h, whileAsked{z.c.R.Context(), f}, z.buf)
	if err == nil && n != of.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, err
	}
	z.done[key] = h.Sum32()
	if z.sums[key] = h.Sum32(); len(z.sums) == keepEvery || of.Size > 1<<30 {
		z.keep()
	}
	return h.Sum32(), nil
}

// keep stores the checksums. If that fails, the next zip computes them again.
func (z *zipping) keep() {
	if len(z.sums) == 0 {
		return
	}
	sums := z.sums
	z.sums = map[catalog.CRCKey]uint32{}
	if err := z.c.Site.Store.Update(func(tx *kv.Tx) error { return catalog.KeepCRCs(tx, sums) }); err != nil {
		z.c.Site.Log.Error("checksums of a zip are not kept", "requestId", z.c.ID, "error", err)
	}
}

// whileAsked reads until the client has gone.
type whileAsked struct {
	ctx context.Context
	r   io.Reader
}

func (w whileAsked) Read(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.r.Read(p)
}

// text is the entry of a text, which is read again when it is sent: many of them do not fit memory.
func (z *zipping) text(name string, item *record.Record) archive.Entry {
	key := item.Key()
	read := func() (string, error) {
		var text string
		err := z.c.Site.Store.View(func(tx *kv.Tx) error {
			now, err := catalog.RecordRows.Get(tx.Tx, key)
			if err != nil {
				return err
			}
			b, err := now.Decode()
			if err == nil {
				_, text = asText(b)
			}
			return err
		})
		return text, err
	}
	b, err := item.Decode()
	if err != nil {
		return z.known(name, item.Created, "", read)
	}
	_, text := asText(b)
	return z.known(name, item.Created, text, read)
}

var errChanged = errors.New("a text was changed while it was sent")

// known is the entry of a text; read must return the same one.
func (z *zipping) known(name string, at time.Time, text string, read func() (string, error)) archive.Entry {
	digest, sum, size := sha256.Sum256([]byte(text)), crc32.ChecksumIEEE([]byte(text)), int64(len(text))
	return archive.Entry{
		Name: z.names.Unique(name), Modified: at, Size: size, Content: digest,
		CRC: func() (uint32, error) { return sum, nil },
		Open: func() (io.ReadSeekCloser, error) {
			text, err := read()
			if err == nil && sha256.Sum256([]byte(text)) != digest {
				err = errChanged
			}
			return inMemory{strings.NewReader(text)}, err
		},
	}
}

type inMemory struct{ *strings.Reader }

func (inMemory) Close() error { return nil }

// extensions are those of languages that are not called by their extension.
var extensions = map[string]string{
	"bash": ".sh", "shell": ".sh", "zsh": ".sh", "csharp": ".cs", "docker": ".dockerfile", "javascript": ".js", "typescript": ".ts", "kotlin": ".kt", "make": ".mk",
	"markdown": ".md", "nginx": ".conf", "powershell": ".ps1", "python": ".py", "ruby": ".rb", "rust": ".rs", "perl": ".pl", "haskell": ".hs", "text": ".txt", "plaintext": ".txt",
}

// asText is an item as a text file and the name of that file.
func asText(b record.Body) (name, text string) {
	var out bytes.Buffer
	section := func(heading, text string) {
		if strings.TrimSpace(text) != "" {
			fmt.Fprintf(&out, "%s\n\n%s\n\n", heading, strings.TrimRight(text, "\n"))
		}
	}
	switch b := b.(type) {
	case *record.Note:
		return b.Title() + ".md", b.Content
	case *record.Snippet:
		language := strings.ToLower(b.Language)
		ext := extensions[language]
		switch {
		case path.Ext(b.Name) != "" && !strings.Contains(path.Ext(b.Name), " "):
			return b.Name, b.Content
		case ext == "" && len(language) > 0 && len(language) <= 10 && strings.Trim(language, "abcdefghijklmnopqrstuvwxyz0123456789") == "":
			ext = "." + language
		case ext == "":
			ext = ".txt"
		}
		return b.Title() + ext, b.Content
	case *record.Recipe:
		fmt.Fprintf(&out, "# %s\n\n", b.Name)
		if b.Description != "" {
			fmt.Fprintf(&out, "%s\n\n", b.Description)
		}
		section("## Ingredients", b.Ingredients)
		section("## Instructions", b.Instructions)
	case *record.Game:
		fmt.Fprintf(&out, "# %s\n\n", b.Name)
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
