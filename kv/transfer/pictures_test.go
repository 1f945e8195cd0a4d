package transfer_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/history"
	"kist/kv/record"
	"kist/kv/transfer"
	"kist/kv/transfer/format"
)

// zipped is a zip of entries, each a name and a text.
func zipped(t *testing.T, entries ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for pair := range slices.Chunk(entries, 2) {
		w, err := z.Create(pair[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(pair[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

var idMember = regexp.MustCompile(`"id":"[^"]*",`)

// attachAll makes all files of a home attached ones whose name begins with "in".
func (h *home) attachAll() {
	h.Helper()
	h.update(func(tx *kv.Tx) error {
		for r, err := range catalog.NewestFirst(tx, h.user, record.Files) {
			if err != nil {
				return err
			}
			b, err := r.Decode()
			if err != nil {
				return err
			}
			if !strings.HasPrefix(b.Title(), "in ") {
				continue
			}
			form, err := r.Form()
			if err != nil {
				return err
			}
			form.Attached = true
			if err := catalog.Save(tx, r, form, ""); err != nil {
				return err
			}
		}
		return nil
	})
}

// shown are the names of the files that the records of a kind show, and "gone" for others, by the title of the record.
func (h *home) shown(k *record.Kind) map[string][]string {
	h.Helper()
	out := map[string][]string{}
	h.fatal(h.store.View(func(tx *kv.Tx) error {
		for r, err := range catalog.NewestFirst(tx, h.user, k) {
			if err != nil {
				return err
			}
			b, err := r.Decode()
			if err != nil {
				return err
			}
			names := []string{}
			for _, id := range r.Shows() {
				f, err := catalog.ShownFile(tx, r, record.Asker{ID: h.user, Role: record.RoleOwner}, id)
				if kv.Missing(err) {
					names = append(names, "gone")
					continue
				}
				if err != nil {
					return err
				}
				b, err := f.Decode()
				if err != nil {
					return err
				}
				names = append(names, fmt.Sprint(b.Title(), map[bool]string{true: " attached"}[f.Attached]))
			}
			out[b.Title()] = names
		}
		return nil
	}))
	return out
}

// album is a home whose texts show files.
func album(t *testing.T) *home {
	t.Helper()
	h := newHome(t)
	sea := h.add(record.Files, field.Object{"originalName": "in sea.png"}, long, "sea")
	cake := h.add(record.Files, field.Object{"originalName": "cake.png"}, long, "cake")
	box := h.add(record.Files, field.Object{"originalName": "in box.png"}, long, "box")
	h.add(record.Notes, field.Object{
		"title": "Trip", "content": fmt.Sprintf("![sea](kist:%s)\n\n![gone](kist:%s)\n\n`![code](kist:%s)`\n", sea.ID,
			strings.ToUpper(box.ID.String()), cake.ID),
	}, long, "")
	bread := h.add(record.Recipes, field.Object{
		"title": "Bread", "photoId": cake.ID.String(), "instructions": fmt.Sprintf("Knead ![](kist:%s)", sea.ID),
	}, long, "")
	h.update(func(tx *kv.Tx) error {
		return history.AddVersion(tx, bread, record.VersionHead{At: long, By: "phone"}, fmt.Appendf(nil,
			`{"title":"Bread","photoId":"%s","description":"","ingredients":"![](kist:%s)","instructions":"","imageUrl":""}`,
			box.ID, cake.ID))
	})
	h.add(record.Games, field.Object{"title": "Chess", "coverId": box.ID.String()}, long, "")
	h.add(record.Collections, field.Object{
		"title": "All", "cover": cake.ID.String(),
		"source": field.Object{"items": []any{cake.ID.String(), bread.ID.String()}},
	}, long, "")
	h.attachAll()
	return h
}

// Texts show their files after an import, under whatever ids and slugs these have there, and attached files stay so.
func TestImportPictures(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	from := album(t)
	want := from.exportZip()
	check := func(h *home) {
		t.Helper()
		is.Equal(h.shown(record.Notes)["Trip"][:2], []string{"in sea.png attached", "in box.png attached"})
		is.Equal(h.shown(record.Recipes)["Bread"], []string{"cake.png", "in sea.png attached"})
		is.Equal(h.shown(record.Games)["Chess"], []string{"in box.png attached"})
		is.NoErr(h.store.View(func(tx *kv.Tx) error {
			for r, err := range catalog.NewestFirst(tx, h.user, record.Recipes) {
				is.NoErr(err)
				all, err := history.Versions(tx, r)
				is.NoErr(err)
				is.Equal(len(all), 1)
				v, err := history.Version(tx, r, all[0].ID)
				is.NoErr(err)
				before := &record.Record{ID: r.ID, Owner: r.Owner, Kind: r.Kind, Body: v.Body}
				for _, id := range before.Shows() {
					_, err := catalog.ShownFile(tx, before, record.Asker{Role: record.RoleOwner}, id)
					is.NoErr(err)
				}
			}
			return nil
		}))
		is.Equal(len(h.list(record.Files)), 3)
		is.Equal(len(h.list(record.Notes)), 1)
		is.Equal(len(h.list(record.Recipes)), 1)
	}
	check(from)

	to := newHome(t)
	for range 2 {
		_, err := to.take(format.Kist, string(want))
		is.NoErr(err)
		check(to)
		is.Equal(to.exportZip(), want) // the same bytes
	}
	_, err := from.take(format.Kist, string(want))
	is.NoErr(err)
	check(from)
	is.Equal(from.exportZip(), want)

	to.user = to.account("ben") // all gets other slugs
	for range 2 {
		_, err = to.take(format.Kist, string(want))
		is.NoErr(err)
		check(to)
	}
	report, err := to.take(format.Kist, string(want), dry)
	is.NoErr(err)
	is.Equal(len(report.Made), 0)
}

// What an export does not have stays as it is: a file of one's own, and one of somebody else, which nobody gets.
func TestImportPicturesOfOthers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHome(t)
	ann := h.user
	hers := h.add(record.Files, field.Object{"originalName": "hers.png"}, long, "hers")
	h.user = h.account("ben")
	his := h.add(record.Files, field.Object{"originalName": "his.png"}, long, "his")
	line := func(slug, photo, text string) string {
		return fmt.Sprintf(`{"title":%q,"slug":%[1]q,"photoId":%q,"instructions":%q}`+"\n", slug, photo, text)
	}
	data := zipped(
		t, "kist.json", `{"format":"kist","version":1,"user":"ann"}`, "recipes.jsonl",
		line("one", hers.ID.String(), "![](kist:"+his.ID.String()+")")+
			line("two", his.ID.String(), "![](kist:"+hers.ID.String()+")"),
	)
	_, err := h.take(format.Kist, data)
	is.NoErr(err)
	is.Equal(h.shown(record.Recipes), map[string][]string{"one": {"gone", "his.png"}, "two": {"his.png", "gone"}})

	// A line that gives its file the id of somebody else's stands for its own file.
	data = zipped(
		t, "kist.json", `{"format":"kist","version":1,"user":"ann"}`, "files.jsonl",
		fmt.Sprintf(`{"id":%q,"originalName":"new.png","slug":"hers2","sha256":%q}`, hers.ID.String(), sumOf("new"))+"\n",
		"recipes.jsonl", line("three", hers.ID.String(), ""), "blobs/"+sumOf("new"), "new",
	)
	_, err = h.take(format.Kist, data)
	is.NoErr(err)
	is.Equal(h.shown(record.Recipes)["three"], []string{"new.png"})
	h.user = ann
	is.Equal(len(h.list(record.Files)), 1)
}

// An import that ends between the files and the texts goes on with the same files. One of an older version, whose files
// have no ids, is imported as it is.
func TestImportPicturesGoesOn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	want := string(album(t).exportZip())
	to := newHome(t)
	to.account("eve")
	ctx, stop := context.WithCancel(t.Context())
	m := &transfer.Import{Store: to.store, Blobs: to.blobs, Owner: to.user, MaxFile: 1 << 20}
	m.Tell = func(now *transfer.Moved) {
		if now.Made["file"] > 0 {
			stop()
		}
	}
	_, err := m.Run(ctx, format.Kist, format.Read(format.Kist, format.Source{
		R: strings.NewReader(want), Size: int64(len(want)),
	}))
	is.True(err != nil)
	is.Equal(len(to.list(record.Files)), 3)
	is.Equal(len(to.list(record.Recipes)), 0)
	_, err = to.take(format.Kist, want)
	is.NoErr(err)
	is.Equal(string(to.exportZip()), want)

	old := newHome(t)
	var entries []string
	all := to.export()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text := all[name]
		if name == "files.jsonl" {
			text = idMember.ReplaceAllString(text, "")
		}
		entries = append(entries, name, text)
	}
	report, err := old.take(format.Kist, zipped(t, entries...))
	is.NoErr(err)
	is.Equal(report.Refused, 0)
	is.Equal(old.shown(record.Notes)["Trip"][:2], []string{"gone", "gone"})
}

// Files of many batches are found again by the texts after them.
func TestImportManyPictures(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const files = 3*transfer.BatchRows + 7
	var lines strings.Builder
	id := func(i int) string { return format.FileID(fmt.Sprint("f", i)).String() }
	for i := range files {
		fmt.Fprintf(&lines, `{"id":%q,"originalName":"%d.png","slug":"f%[2]d","sha256":%[3]q}`+"\n", id(i), i, sumOf("x"))
	}
	h := newHome(t)
	report, err := h.take(format.Kist, zipped(t,
		"kist.json", `{"format":"kist","version":1,"user":"ann"}`, "files.jsonl", lines.String(), "notes.jsonl",
		fmt.Sprintf(`{"title":"all","content":"![](kist:%s)![](kist:%s)![](kist:%s)"}`, id(0), id(150), id(files-1)),
		"blobs/"+sumOf("x"), "x",
	))
	is.NoErr(err)
	is.Equal(report.Made["file"], int64(files))
	is.Equal(h.shown(record.Notes)["all"], []string{"0.png", "150.png", fmt.Sprint(files-1, ".png")})
}
