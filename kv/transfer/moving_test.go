package transfer_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/history"
	"kist/kv/kvtest/needs"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/tables"
	"kist/kv/transfer"
	"kist/kv/transfer/format"
)

// home is an instance with one account.
type home struct {
	testing.TB
	store *kv.Store
	blobs *blobs.Store
	user  record.ID
}

func newHome(t testing.TB) *home {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	h := &home{TB: t}
	var err error
	h.store, err = kv.Open(dir, kv.Options{Schema: tables.All})
	h.fatal(err)
	h.blobs, err = blobs.Open(filepath.Join(dir, "blobs"))
	h.fatal(err)
	t.Cleanup(func() {
		h.noProblems()
		h.fatal(errors.Join(h.store.Close(), h.blobs.Close()))
	})
	h.user = h.account("ann")
	return h
}

func (h *home) fatal(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *home) update(fn func(*kv.Tx) error) { h.Helper(); h.fatal(h.store.Update(fn)) }

func (h *home) account(name string) (id record.ID) {
	h.Helper()
	h.update(func(tx *kv.Tx) error {
		u, err := people.AddUser(tx, people.User{Name: name, Role: people.Admin, Quota: -1})
		if err == nil {
			id = u.ID
		}
		return err
	})
	return id
}

// noProblems checks that all derived data agrees with the rows.
func (h *home) noProblems() {
	h.Helper()
	h.fatal(h.store.View(func(tx *kv.Tx) error { tx.Audit(func(err error) { h.Error(err) }); return nil }))
}

func (h *home) add(k *record.Kind, in field.Object, at time.Time, content string) *record.Record {
	h.Helper()
	f := record.NewForm(k)
	h.fatal(field.Create(f, in))
	var c *record.Content
	if k == record.Files {
		stage, err := h.blobs.Stage()
		h.fatal(err)
		_, err = stage.Write([]byte(content))
		h.fatal(err)
		kept, err := stage.Keep()
		h.fatal(err)
		defer kept.Release()
		sum := sha256.Sum256([]byte(content))
		b := f.Body.(*record.File)
		b.SHA256, b.Size, b.MimeType = hex.EncodeToString(sum[:]), int64(len(content)), "text/plain"
		if folder, _ := in["folderName"].(string); folder != "" {
			f.FolderName = folder
		}
		c = &record.Content{Ref: sum, Size: int64(len(content))}
	}
	var r *record.Record
	h.update(func(tx *kv.Tx) (err error) {
		r, err = catalog.Add(tx, catalog.Draft{
			Owner: h.user, Kind: k, Form: f, Content: c, Past: &record.Past{Created: at},
		})
		return err
	})
	return r
}

func (h *home) take(f format.Format, data string, with ...func(*transfer.Import)) (*transfer.Moved, error) {
	h.Helper()
	m := &transfer.Import{Store: h.store, Blobs: h.blobs, Owner: h.user, MaxFile: 1 << 20}
	for _, w := range with {
		w(m)
	}
	return m.Run(
		context.Background(), f, format.Read(f, format.Source{R: strings.NewReader(data), Size: int64(len(data))}),
	)
}

func dry(m *transfer.Import) { m.DryRun = true }

// list returns the records of a kind, oldest first, as lines of an export.
func (h *home) list(k *record.Kind) []string {
	h.Helper()
	var out []string
	for _, line := range strings.Split(h.export()[format.KindName(k)], "\n") {
		if line != "" {
			out = append(out, line)
		}
	}
	return out
}

func (h *home) exportZip() []byte {
	h.Helper()
	x, err := transfer.NewExport(h.store, h.blobs, h.user, transfer.Zip)
	h.fatal(err)
	defer x.Close()
	var b bytes.Buffer
	h.fatal(x.Write(&b))
	return b.Bytes()
}

func (h *home) export() map[string]string {
	h.Helper()
	data := h.exportZip()
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	h.fatal(err)
	out := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		h.fatal(err)
		text, err := io.ReadAll(r)
		h.fatal(err)
		out[f.Name] = string(text)
	}
	return out
}

var long = time.Date(2020, 1, 2, 3, 4, 5, 678e6, time.UTC)

// Importing an export into an empty instance leads to the same export, byte for
// byte.
func TestExportImportExport(t *testing.T) {
	is := is.New(t)
	from := newHome(t)
	hash, err := people.NewPasswords().Hash(context.Background(), "", "open sesame")
	is.NoErr(err)
	for i := range 30 { // in one millisecond, in the order of their ids
		from.add(record.Notes, field.Object{"content": fmt.Sprintf("note %d", i*7%30), "tags": []any{"a", "b"}}, long, "")
	}
	from.add(
		record.Bookmarks,
		field.Object{
			"url": "https://example.org", "title": "<T> \u2028", "isPublic": true, "isFavorite": true, "logVisits": true,
			"tags": []any{"Ä tag", "a"},
		},
		long.Add(time.Second), "",
	)
	from.add(record.Bookmarks, field.Object{"url": "https://example.org"}, long.Add(2*time.Second), "") // twice
	changed := from.add(record.Snippets, field.Object{"content": "three", "slug": "changed"}, long, "")
	from.update(func(tx *kv.Tx) error {
		head := record.VersionHead{At: tx.Now.Add(-time.Minute), By: "phone"}
		return errors.Join(history.AddVersion(tx, changed, head, []byte(`{"title":"","content":"one","language":"go"}`)),
			history.AddVersion(tx, changed, head, []byte(`{"title":"","content":"two","language":""}`)))
	})
	from.add(record.Snippets, field.Object{"content": strings.Repeat("x\n", 1000), "language": "go"}, time.Time{}, "")
	from.add(record.Recipes, field.Object{"title": "Bread", "instructions": "Knead"}, time.Time{}, "")
	from.add(record.Games, field.Object{"title": "Chess", "status": "playing", "rating": "9"}, time.Time{}, "")
	from.add(record.Files, field.Object{"originalName": "a.txt", "folderName": "Some folder"}, long, "hello")
	from.add(record.Files, field.Object{"originalName": "b.txt"}, long, "hello")
	from.add(record.Files, field.Object{"originalName": "empty"}, long, "")
	limited := from.add(
		record.Links,
		field.Object{
			"originalUrl": "https://example.org/x", "slug": "limited", "isPublic": true, "maxClicks": "2",
			"maxViewsAction": "make_private",
		},
		long, "",
	)
	is.NoErr(catalog.Seen(from.store, limited, history.Visit{}))
	spent := from.add(
		record.Links,
		field.Object{"originalUrl": "https://example.org/y", "slug": "spent", "isPublic": true, "maxClicks": "1"}, long, "",
	)
	is.NoErr(catalog.Seen(from.store, spent, history.Visit{}))
	recipe := from.add(record.Recipes, field.Object{"title": "Picked"}, long, "")
	from.add(
		record.Collections,
		field.Object{
			"title": "Picked", "cover": limited.ID.String(),
			"source": field.Object{"items": []any{limited.ID.String(), recipe.ID.String()}},
		},
		long, "",
	)
	from.add(
		record.Collections,
		field.Object{"title": "Tagged", "sort": "title", "allowDownload": false, "source": field.Object{"tag": "a"}}, long,
		"",
	)
	from.update(func(tx *kv.Tx) error {
		folder, err := catalog.FolderNamed(tx, from.user, "Some folder")
		is.NoErr(err)
		f := record.NewForm(record.Collections)
		is.NoErr(field.Create(f, field.Object{"title": "Foldered", "source": field.Object{"folderId": folder.ID.String()}}))
		_, err = catalog.Add(tx, catalog.Draft{Owner: from.user, Kind: record.Collections, Form: f})
		return err
	})
	form := record.NewForm(record.Notes)
	is.NoErr(field.Create(
		form,
		field.Object{"content": "locked and over", "slug": "old", "isPublic": true, "expiresAt": "2021-01-01T00:00:00Z"},
	))
	from.update(func(tx *kv.Tx) error {
		_, err := catalog.Add(tx, catalog.Draft{
			Owner: from.user, Kind: record.Notes, Form: form, Past: &record.Past{
				Created: long, Updated: long.Add(time.Hour), Password: hash, Views: 5,
			},
		})
		return errors.Join(err, func() error {
			_, err := catalog.AddTag(tx, from.user, "unused", "#102030")
			return err
		}(), func() error { _, err := catalog.AddFolder(tx, from.user, "empty", ""); return err }())
	})

	want := from.exportZip()
	source := func() format.Source { return format.Source{R: bytes.NewReader(want), Size: int64(len(want))} }
	found, err := format.Detect(source())
	is.NoErr(err)
	is.Equal(found, format.Kist)
	to := newHome(t)
	report, err := to.take(format.Kist, string(want), dry)
	is.NoErr(err)
	is.Equal(
		report.Made,
		map[string]int64{
			"note": 31, "bookmark": 2, "snippet": 2, "recipe": 2, "collection": 3, "game": 1, "file": 3, "shortlink": 2,
			"tag": 4, "folder": 2,
		},
	)
	is.Equal(len(to.list(record.Notes)), 0) // nothing was kept
	made := report.Made
	report, err = to.take(format.Kist, string(want))
	is.NoErr(err)
	is.Equal(report.Remarks, []transfer.Remark{})
	is.Equal(report.Made, made) // as the dry run reported
	is.Equal(to.export(), from.export())
	is.True(bytes.Equal(to.exportZip(), want))

	// A second run creates nothing, and neither does a run at the origin.
	for _, h := range []*home{to, from} {
		report, err = h.take(format.Kist, string(want))
		is.NoErr(err)
		is.Equal(len(report.Made), 0)
		is.Equal(report.There, 46)
		is.True(bytes.Equal(h.exportZip(), want))
	}

	// Another account of the same instance gets other slugs. A second import creates
	// no second set of items. Short links are useless without their slugs.
	first := to.user
	to.user = to.account("ben")
	for range 2 {
		report, err = to.take(format.Kist, string(want))
		is.NoErr(err)
		is.Equal(report.Refused, 2)
	}
	is.Equal(report.There, 44)
	is.Equal(len(to.list(record.Notes)), 31)
	is.NoErr(to.store.View(func(tx *kv.Tx) error { // the versions follow their item to its other slug
		for r, err := range catalog.NewestFirst(tx, to.user, record.Snippets) {
			is.NoErr(err)
			all, err := history.Versions(tx, r)
			is.NoErr(err)
			b, err := r.Decode()
			is.NoErr(err)
			is.Equal(len(all) == 2, b.(*record.Snippet).Content == "three")
			is.True(r.Slug != "changed")
		}
		return nil
	}))
	is.NoErr(to.store.View(func(tx *kv.Tx) error { // the collection has the recipe, by its new slug
		for r, err := range catalog.NewestFirst(tx, to.user, record.Collections) {
			is.NoErr(err)
			var v record.Shown
			is.NoErr(catalog.Show(tx, r, &v))
			is.True(v.Collected.Items > 0)
		}
		return nil
	}))
	to.user = first
	is.True(bytes.Equal(to.exportZip(), want))

	// The limit continues where it was, and the password still works.
	for _, slug := range []string{"limited", "spent", "old"} {
		var r *record.Record
		is.NoErr(to.store.View(func(tx *kv.Tx) (err error) { r, err = catalog.Slug(tx, slug); return err }))
		switch slug {
		case "limited":
			is.NoErr(catalog.Seen(to.store, r, history.Visit{}))
			is.True(catalog.Seen(to.store, r, history.Visit{}) != nil)
		case "spent":
			is.True(r.Reached && !r.Public)
		default:
			ok, err := people.NewPasswords().Check(context.Background(), people.Seat{}, r.Password, "open sesame")
			is.NoErr(err)
			is.True(ok && r.Ended)
		}
	}
}

// Foreign formats are imported once, however often the import runs.
func TestImportTwice(t *testing.T) {
	is := is.New(t)
	h := newHome(t)
	const page = `<!DOCTYPE NETSCAPE-Bookmark-file-1><DL><DT><H3>Work</H3><DL>
<DT><A HREF="https://Example.org:443/a/" ADD_DATE="1500000000">A</A>
<DT><A HREF="https://example.org/a">the same</A>
<DT><A HREF="javascript:alert(1)">evil</A>
<DT><A HREF="https://example.org/b" TAGS="x">B</A></DL></DL>`
	for i, want := range []map[string]int64{{"bookmark": 2}, {"bookmark": 2}, {}} {
		report, err := h.take(format.Netscape, page, func(m *transfer.Import) { m.DryRun = i == 0 })
		is.NoErr(err)
		is.Equal(report.Made, want)
		is.Equal(report.Entries, 4)
		is.Equal(report.Refused, 1)
		is.Equal(report.There, 3-int(want["bookmark"]))
		is.Equal(
			report.Remarks,
			[]transfer.Remark{
				{At: "line 4", Name: "evil", Refused: true, Text: "The URL must be an absolute http or https address."},
			},
		)
	}
	lines := h.list(record.Bookmarks)
	is.True(strings.Contains(lines[0], `"title":"A"`) && strings.Contains(
		lines[0], `"createdAt":"2017-07-14T02:40:00.000Z"`,
	) && strings.Contains(lines[0], `"tags":["Work"]`))
	is.True(strings.Contains(lines[1], `"tags":["Work","x"]`))

	const links = "shortCode,longUrl,visits\nabc,https://example.org/x,7\nabc,https://example.org/other,1\napi,https://example.org,1\n"
	for i := range 3 {
		report, err := h.take(format.Shlink, links, func(m *transfer.Import) { m.DryRun = i == 0 })
		is.NoErr(err)
		is.Equal(report.Refused, 2) // in use for something else; reserved
		is.Equal(report.There+int(report.Made["shortlink"]), 1)
	}
	is.True(strings.Contains(h.list(record.Links)[0], `"views":7`))

	const notes = `{"bookmarks":[{"createdAt":1700000000,"content":{"type":"text","text":"a"}},{"content":{"type":"text","text":"b"}}]}`
	for range 2 {
		_, err := h.take(format.Karakeep, notes)
		is.NoErr(err)
	}
	is.Equal(len(h.list(record.Notes)), 2)
}

// A page that occurs twice in a source gets the tags and folders of both
// entries, in one batch or in two, and the second fills in what the first
// lacks.
func TestImportPageTwice(t *testing.T) {
	t.Parallel()
	for _, between := range []int{0, 3 * transfer.BatchRows} {
		is := is.New(t)
		h := newHome(t)
		var b strings.Builder
		b.WriteString("url,title,note,folder,tags,created,favorite\nhttps://example.org/a,A,,Kitchen,\"one,two\",2020-01-02,\n")
		for i := range between {
			fmt.Fprintf(&b, "https://example.org/%d,B,,,,,\n", i)
		}
		b.WriteString("https://EXAMPLE.org/a/,Other,A note,Garden,\"Two,three\",2021-01-02,true\n")
		for i := range 2 {
			report, err := h.take(format.CSV, b.String(), func(m *transfer.Import) { m.DryRun = i == 0 })
			is.NoErr(err)
			is.Equal(report.Made["bookmark"], int64(between+1))
			is.Equal(report.There, 1)
			is.Equal(report.Updated, 0)
			if i == 1 {
				is.Equal(report.Remarks, []transfer.Remark{{
					At: fmt.Sprintf("line %d", between+3), Name: "Other",
					Text: "The page is in it twice. This was added to the first: description, isFavorite, tag Garden, tag three.",
				}})
			}
		}
		var first string
		for _, line := range h.list(record.Bookmarks) {
			if strings.Contains(line, `"url":"https://example.org/a"`) {
				is.Equal(first, "")
				first = line
			}
		}
		for _, part := range []string{
			`"title":"A"`, `"description":"A note"`, `"isFavorite":true`, `"tags":["Kitchen","one","two","Garden","three"]`,
			`"createdAt":"2020-01-02T00:00:00.000Z"`,
		} {
			is.True(strings.Contains(first, part))
		}
		report, err := h.take(format.CSV, b.String()) // a second import changes nothing
		is.NoErr(err)
		is.Equal(report.There, between+2)
		is.Equal(len(report.Remarks), 0)
	}
}

// An update fills in empty fields and adds tags, reports that, and overwrites
// nothing. A dry run reports the same and changes nothing.
func TestImportUpdate(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHome(t)
	update := func(m *transfer.Import) { m.Update = true }
	const poor = "title,url\nA,https://example.org/a\nB,https://example.org/b\n"
	const rich = "url,title,excerpt,cover,tags,favorite\nhttps://example.org/a,Other,About " +
		"it,https://example.org/a.png,x,true\nhttps://example.org/b,B,,,,\nhttps://example.org/c,C,,,,\n"
	_, err := h.take(format.CSV, poor)
	is.NoErr(err)
	before := h.list(record.Bookmarks)
	report, err := h.take(format.CSV, rich)
	is.NoErr(err)
	is.Equal(report.Made, map[string]int64{"bookmark": 1})
	is.Equal(h.list(record.Bookmarks)[:2], before) // nothing changes without a request
	for i, text := range []string{"This would be filled in", "Filled in", ""} {
		report, err := h.take(format.CSV, rich, update, func(m *transfer.Import) { m.DryRun = i == 0 })
		is.NoErr(err)
		is.Equal(report.There, 3)
		if i == 2 { // nothing is left to do
			is.Equal(report.Updated, 0)
			is.Equal(len(report.Remarks), 0)
			continue
		}
		is.Equal(report.Updated, 1)
		is.Equal(
			report.Remarks,
			[]transfer.Remark{{At: "line 2", Name: "Other", Text: text + ": description, imageUrl, isFavorite, tag x."}},
		)
		if i == 0 {
			is.Equal(h.list(record.Bookmarks)[:2], before)
		}
	}
	after := h.list(record.Bookmarks)
	for _, part := range []string{
		`"title":"A"`, `"description":"About it"`, `"imageUrl":"https://example.org/a.png"`, `"isFavorite":true`,
		`"isPublic":false`, `"tags":["x"]`,
	} {
		is.True(strings.Contains(after[0], part))
	}
	is.Equal(after[1], before[1])

	// Short links and files have fields to fill in as well; their visibility
	// stays.
	h.add(record.Links, field.Object{"originalUrl": "https://example.org/x", "slug": "abc"}, long, "")
	report, err = h.take(format.Shlink, "shortCode,longUrl,title,tags\nabc,https://example.org/x,About,t\n", update)
	is.NoErr(err)
	is.Equal(report.Updated, 1)
	is.True(strings.Contains(
		h.list(record.Links)[0], `"description":"About","isPublic":false,"isFavorite":false,"tags":["t"]`,
	))
	h.add(record.Files, field.Object{"originalName": "a.txt"}, long, "hello")
	report, err = h.take(format.Folder, zipOf(t, "sub/a.txt", "hello"), update)
	is.NoErr(err)
	is.Equal(report.Remarks, []transfer.Remark{{At: "sub/a.txt", Name: "a.txt", Text: "Filled in: folder sub."}})
	is.True(strings.Contains(h.list(record.Files)[0], `"folderName":"sub"`))

	// An export of kist fills in what its own items lack.
	with := string(h.exportZip())
	bare := newHome(t)
	_, err = bare.take(format.Kist, with)
	is.NoErr(err)
	bare.update(func(tx *kv.Tx) error {
		r, err := catalog.SamePage(tx, bare.user, "https://example.org/a")
		if err != nil {
			return err
		}
		f, err := r.Form()
		if err != nil {
			return err
		}
		if err := f.Patch(field.Object{"description": "", "title": "Mine", "tags": []any{}}); err != nil {
			return err
		}
		return catalog.Save(tx, r, f, "")
	})
	report, err = bare.take(format.Kist, with, update)
	is.NoErr(err)
	is.Equal(report.Updated, 1)
	is.Equal(report.Remarks[0].Text, "Filled in: description, tag x.")
}

// zipOf returns a zip of files: names and contents.
func zipOf(t testing.TB, files ...string) string {
	t.Helper()
	is := is.New(t)
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		is.NoErr(err)
		_, err = io.WriteString(w, files[i+1])
		is.NoErr(err)
	}
	is.NoErr(z.Close())
	return b.String()
}

// Files are the same by content and name. A file that does not fit is refused,
// and leaves no bytes.
func TestImportFiles(t *testing.T) {
	is := is.New(t)
	h := newHome(t)
	h.update(func(tx *kv.Tx) error {
		u, err := people.ReadUser(tx, h.user)
		if err != nil {
			return err
		}
		u.Quota = 2000
		return people.SaveUser(tx, u)
	})
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range []struct{ name, content string }{
		{"a.html", "<script>alert(1)</script>"},
		{"sub/a.html", "<script>alert(1)</script>"},
		{"sub/deep/b.md", "# b"},
		{"bomb", strings.Repeat("\x00", 1<<20+1)},
		{"over", strings.Repeat("q", 1990)},
	} {
		w, err := z.Create(f.name)
		is.NoErr(err)
		_, err = io.WriteString(w, f.content)
		is.NoErr(err)
	}
	is.NoErr(z.Close())
	for i := range 3 {
		report, err := h.take(format.Folder, b.String(), func(m *transfer.Import) { m.DryRun = i == 0 })
		is.NoErr(err)
		is.Equal(report.Remarks[0].Text, "The file is larger than 1048576 bytes.")
		if i > 0 {
			is.Equal(report.Remarks[1].Text, "This does not fit your storage quota of 2000 bytes.")
			is.Equal(report.Made["file"], int64(2*(2-i)))
		}
	}
	lines := h.list(record.Files)
	is.Equal(len(lines), 2) // the second a.html is the first
	is.True(strings.Contains(lines[1], `"folderName":"sub/deep"`) && strings.Contains(lines[1], `"mimeType":"text/markdown"`))
	is.True(strings.Contains(lines[0], `"mimeType":"text/html"`))
	kept := 0
	for _, err := range h.blobs.All() {
		is.NoErr(err)
		kept++
	}
	is.Equal(kept, 2)
}

// Bytes that do not match the export, hashes that no kist makes, and ids of
// other owners' items are not believed.
func TestImportForged(t *testing.T) {
	is := is.New(t)
	from := newHome(t)
	from.add(record.Files, field.Object{"originalName": "a"}, long, "hello")
	from.add(record.Notes, field.Object{"content": "n"}, long, "")
	parts := from.export()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range parts {
		text = strings.ReplaceAll(
			idMember.ReplaceAllString(text, ""), `"passwordHash":""`,
			`"passwordHash":"$argon2id$v=19$m=4000000,t=60,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","id":"01890a5d-ac96-774b-bcce-b302099a8057"`,
		)
		if strings.HasPrefix(name, "blobs/") {
			text = "other"
		}
		w, err := z.Create(name)
		is.NoErr(err)
		_, err = io.WriteString(w, text)
		is.NoErr(err)
	}
	is.NoErr(z.Close())
	to := newHome(t)
	report, err := to.take(format.Kist, b.String())
	is.NoErr(err)
	is.Equal(report.Made, map[string]int64{})
	is.Equal(report.Remarks[0].Text, "Its bytes are damaged: they do not match its checksum.")
	is.Equal(report.Remarks[1].Text, "The field passwordHash is not one that kist makes.")
	is.Equal(
		report.Remarks[2:],
		[]transfer.Remark{
			{At: `member "notes.id"`, Text: "This is not imported; 1 entry has it."},
		},
	)
	for _, err := range to.blobs.All() {
		t.Error("bytes were kept", err)
	}
}

// An import that ends early has kept the entries so far, and continues when it
// is run again.
func TestImportGoesOn(t *testing.T) {
	is := is.New(t)
	h := newHome(t)
	ctx, cancel := context.WithCancel(context.Background())
	m := &transfer.Import{Store: h.store, Blobs: h.blobs, Owner: h.user, Tell: func(*transfer.Moved) { cancel() }}
	report, err := m.Run(ctx, format.Pocket, format.Read(format.Pocket, manyPocket(1000)))
	is.True(errors.Is(err, context.Canceled))
	is.Equal(report.Made["bookmark"], int64(transfer.BatchRows))
	report, err = h.take(format.Pocket, "url\nhttps://example.org/0\n")
	is.NoErr(err)
	is.Equal(report.There, 1)
	report, err = h.take(format.Karakeep, `{"bookmarks":[{"content":{"type":"text","text":"kept"}},`)
	is.True(err != nil)
	is.Equal(report.Made["note"], int64(1))
}

// manyPocket is a CSV of n bookmarks, generated while it is read.
func manyPocket(n int) format.Source {
	const width = 100
	return format.Source{R: lines{width, func(i int) string {
		if i == 0 {
			return "title,url,time_added,tags,status"
		}
		return fmt.Sprintf("Title of page %d,https://example.org/%d,%d,tag%d|all,unread", i, i-1, 1500000000+i, i%50)
	}}, Size: int64(width) * int64(n+1)}
}

// lines is a text of lines of one width, generated while it is read.
type lines struct {
	width int64
	line  func(int) string
}

func (l lines) ReadAt(p []byte, at int64) (int, error) {
	n := 0
	for n < len(p) {
		line := fmt.Sprintf("%-*s\n", l.width-1, l.line(int((at+int64(n))/l.width)))
		n += copy(p[n:], line[(at+int64(n))%l.width:])
	}
	return n, nil
}

// An import of a hundred thousand rows takes less than 100 MiB of memory.
func TestImportMemory(t *testing.T) {
	needs.Time(t)
	if raceOn {
		t.Skip("memory is measured without the race detector")
	}
	is := is.New(t)
	h := newHome(t)
	for _, c := range []struct {
		rows int
		dry  bool
	}{{100_000, true}, {10_000, false}} { // more would take long and no more memory
		rows, dryly := c.rows, c.dry
		peak := uint64(0)
		var before runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		m := &transfer.Import{Store: h.store, Blobs: h.blobs, Owner: h.user, DryRun: dryly, Tell: func(r *transfer.Moved) {
			if r.Entries%5000 == 0 {
				var now runtime.MemStats
				runtime.ReadMemStats(&now)
				peak = max(peak, now.HeapInuse+now.StackInuse)
			}
		}}
		begun := time.Now()
		report, err := m.Run(context.Background(), format.Pocket, format.Read(format.Pocket, manyPocket(rows)))
		is.NoErr(err)
		is.Equal(report.Made["bookmark"], int64(rows))
		used := int64(peak-before.HeapInuse) >> 20
		t.Logf("%d rows: %v, at most %d MiB", rows, time.Since(begun), used)
		is.True(peak > 0 && used < 100)
	}
}

// TestBookmarksForOthers: bookmarks that were exported for other programs are imported again with
// nothing lost.
func TestBookmarksForOthers(t *testing.T) {
	t.Parallel()
	at := long.Truncate(time.Second)
	bookmarks := map[string]field.Object{
		"plain":       {"url": "https://example.org/plain", "title": "A title"},
		"untitled":    {"url": "https://example.org/?a=1&b=%22"},
		"markup":      {"url": "https://example.org/<b>", "title": "a <script> b & c", "description": "1 </a><b>\n2 <DT><A HREF=x>"},
		"quotes":      {"url": `https://example.org/"q"`, "title": `"q" 'q' &amp;`, "description": `"d" &lt; &#39;`},
		"lines":       {"url": "https://example.org/lines", "description": "one\n\n- two\n  - three"},
		"tags":        {"url": "https://example.org/tags", "tags": []any{"x", "a b", `"q" & <b>`, "größe", "[c]|d"}},
		"states":      {"url": "https://example.org/states", "tags": []any{"unread", "archived"}},
		"favourite":   {"url": "https://example.org/star", "isFavorite": true},
		"picture":     {"url": "https://example.org/picture", "imageUrl": "https://example.org/p.png?a=1&b=2"},
		"public":      {"url": "https://example.org/public", "isPublic": true},
		"other words": {"url": "https://example.org/日本", "title": "日本 – \u200fعربي", "description": "🙂"},
	}
	for form, read := range map[transfer.Form]format.Format{
		transfer.HTML: format.Netscape, transfer.JSON: format.Karakeep,
	} {
		t.Run(string(form), func(t *testing.T) {
			is := is.New(t)
			from, to := newHome(t), newHome(t)
			for _, b := range bookmarks {
				from.add(record.Bookmarks, b, at, "")
			}
			from.add(record.Notes, field.Object{"content": "no bookmark"}, at, "")
			x, err := transfer.NewExport(from.store, from.blobs, from.user, form)
			is.NoErr(err)
			defer x.Close()
			var out bytes.Buffer
			is.NoErr(x.Write(&out))
			is.Equal(x.Holds.Records, len(bookmarks))

			found, err := format.Detect(format.Source{R: bytes.NewReader(out.Bytes()), Size: int64(out.Len())})
			is.NoErr(err)
			is.Equal(found, read)
			report, err := to.take(read, out.String())
			is.NoErr(err)
			is.Equal(report.Remarks, []transfer.Remark{})
			is.Equal(report.Made["bookmark"], int64(len(bookmarks)))

			known := func(h *home) (all []string) {
				for _, line := range h.list(record.Bookmarks) {
					o, err := field.Parse([]byte(line))
					is.NoErr(err)
					delete(o, "slug") // the share link stays here
					if form == transfer.JSON {
						delete(o, "isPublic") // Karakeep does not know these
						delete(o, "updatedAt")
					}
					all = append(all, fmt.Sprint(o))
				}
				slices.Sort(all)
				return all
			}
			is.Equal(known(to), known(from))
		})
	}
}
