package tables_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/catalog"
	"kist/kv/kvtest"
	"kist/kv/record"
	"kist/kv/tables"
)

var pin = flag.Bool("pin", false, "write what is missing in testdata/stored")

// grown has the structs that got more fields after they were pinned, and the files of
// the later forms, oldest first. The last has all fields.
var grown = map[string][]string{
	"item":          {"item.uncollected"},
	"key":           {"key.confirmed"},
	"login":         {"login.closed", "login.invitations"},
	"meta.settings": {"meta.settings.trash", "meta.settings.metadata", "meta.settings.contact", "meta.settings.people"},
	"notice":        {"notice.collection", "notice.signin", "notice.used", "notice.members", "notice.pictures"},
	"page":          {"page.signin"},
	"request":       {"request.guests"},
	"trash":         {"trash.version", "trash.signin"},
	"upload":        {"upload.moved"},
	"user":          {"user.language", "user.theme", "user.seen", "user.hidden"},
	"version":       {"version.ticker"},
	"webhook":       {"webhook.held"},
}

// TestStoredJSON holds the bytes of every stored struct, with each field set.
// Renaming, retyping or removing a field would lose data on the disk.
func TestStoredJSON(t *testing.T) {
	t.Parallel()
	for name, zero := range kvtest.StoredJSON {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			typ := reflect.TypeOf(zero)
			explicit(t, typ)
			want := filled(t, typ)
			got, err := json.MarshalIndent(want.Interface(), "", "  ")
			is.NoErr(err)
			file := name
			for _, later := range grown[name] {
				old := reflect.New(typ)
				first := golden(t, file+".json", nil)
				is.NoErr(json.Unmarshal(first, old.Interface()))
				again, err := json.Marshal(old.Interface())
				is.NoErr(err)
				var before, after map[string]json.RawMessage
				is.NoErr(errors.Join(json.Unmarshal(first, &before), json.Unmarshal(again, &after)))
				for name, v := range before { // is written as before
					var compact bytes.Buffer
					is.NoErr(json.Compact(&compact, v))
					is.Equal(string(after[name]), compact.String())
				}
				file = later
			}
			pinned := golden(t, file+".json", append(got, '\n'))
			is.Equal(string(got)+"\n", string(pinned))

			back := reflect.New(typ)
			is.NoErr(json.Unmarshal(pinned, back.Interface()))
			is.Equal(back.Elem().Interface(), want.Interface())
		})
	}
}

// TestStoredTables finds tables missing from TestStoredJSON.
func TestStoredTables(t *testing.T) {
	t.Parallel()
	// Buckets whose rows are not JSON: indexes, sums and marks, and those that
	// TestStoredRecords, TestStoredViews and TestStoredTries hold.
	other := map[string]bool{
		"meta": true, "record": true, "sum": true, "view": true, "change": true, "blob": true, "blob.loose": true,
		"spent": true, "sender": true, "member": true, "crc": true,
	}
	for b := range tables.All.Buckets().All() {
		_, there := kvtest.StoredJSON[b.Name]
		index := strings.Contains(b.Name, ".")
		if !there && !other[b.Name] && !index {
			t.Errorf("bucket %s has no pinned row", b.Name)
		}
	}
}

// TestStoredRecords holds the row of a record of every kind, with each field
// set, and with those set that every row has had. Rows of recipes and games from before they had pictures of one's own,
// and of files and collections from before guests added to them, are still read.
func TestStoredRecords(t *testing.T) {
	t.Parallel()
	type row struct {
		kind           *record.Kind
		wide, examined bool
		photo, ends    bool
		guests         bool
		own            bool // pictures of one's own, and what a photo says
	}
	rows := []row{
		{kind: record.Notes, ends: true},
		{kind: record.Files, wide: true, examined: true},
		{kind: record.Recipes, photo: true},
		{kind: record.Recipes, wide: true, photo: true},
		{kind: record.Files, wide: true, guests: true},
		{kind: record.Collections, wide: true, guests: true},
		{kind: record.Recipes, photo: true, own: true},
		{kind: record.Games, own: true},
		{kind: record.Files, wide: true, guests: true, own: true},
	}
	for _, k := range record.Kinds {
		rows = append(rows, row{kind: k}, row{kind: k, wide: true})
	}
	for _, c := range rows {
		k, name := c.kind, "record."+c.kind.Name
		switch {
		case c.examined:
			name += ".examined"
		case c.wide:
			name += ".wide"
		}
		if c.photo {
			name += ".photo"
		}
		if c.ends {
			name += ".ends"
		}
		if c.guests {
			name += ".guests"
		}
		if c.own {
			name += ".own"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			r := filled(t, reflect.TypeFor[record.Record]()).Interface().(record.Record)
			r.Kind, r.AtLimit, r.Body, r.Logged, r.KeepMetadata = k, record.MakePrivate, nil, c.wide, c.examined
			r.EndDeletes, r.Attached = c.ends, c.own && k == record.Files
			if k != record.Files {
				r.Bytes = nil
			} else {
				if !c.own {
					r.Bytes.Photo = record.Photo{}
				} else {
					r.Bytes.Photo.Taken = r.Created
				}
				r.Bytes.Class, r.Bytes.Metadata = record.Image, record.Metadata{}
				if c.examined {
					r.Bytes.Metadata = record.Metadata{
						State: record.MetadataRemovable, Rules: 1, Found: record.FoundOf([]string{"gps", "time"}), Size: 12_345,
					}
				}
			}
			body := k.New()
			fillIn(t, reflect.ValueOf(body).Elem(), k.Name)
			if g, ok := body.(*record.Game); ok {
				g.Status, g.Rating = "playing", 9
			}
			if c, ok := body.(*record.Collection); ok {
				c.Sort = record.ByTitle
			}
			old := false
			if b, ok := body.(*record.Recipe); ok {
				if !c.photo {
					b.ImageURL = ""
				}
				if !c.own {
					b.Photo, old = record.ID{}, true
				}
			}
			if b, ok := body.(*record.Game); ok && !c.own {
				b.Cover, old = record.ID{}, true
			}
			if !c.guests {
				switch b := body.(type) {
				case *record.File:
					b.Uploader, old = "", true
				case *record.Collection:
					b.ShowNames, b.Request, old = false, record.ID{}, true
				}
			}
			r.SetBody(body)
			r.Order = record.Fold(body.Title()) // as the first versions made it
			row := r.AppendRow(nil)
			pinned, err := hex.DecodeString(string(bytes.Join(bytes.Fields(golden(t, name+".hex", lines(row))), nil)))
			is.NoErr(err)
			is.True(old || bytes.Equal(row, pinned))

			back, err := record.ParseRow(r.Key(), pinned)
			is.NoErr(err)
			read, err := back.Decode()
			is.NoErr(err)
			is.Equal(read, body)
			if old {
				back.Body = r.Body
			}
			is.Equal(*back, r)
		})
	}
}

// TestStoredTrash holds the row of a record in the trash.
func TestStoredTrash(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	want := filled(t, reflect.TypeFor[record.Trashed]()).Interface().(record.Trashed)
	want.Kind, want.AtLimit, want.Body, want.Bytes = record.Bookmarks, record.MakePrivate, nil, nil
	want.SetBody(&record.Bookmark{URL: "https://example.org/", Name: "Name"})
	want.Attached = false
	want.Order, want.EndDeletes = "name", false              // as the first versions made it
	want.Page.Owner, want.Page.ID = record.ID{}, record.ID{} // in the key
	want.Page.SignIn = false                                 // came later; trash.signin.json has it
	want.Of = record.ID{}                                    // was deleted, is no version
	row, err := want.AppendRow()
	is.NoErr(err)
	pinned, err := hex.DecodeString(string(bytes.Join(bytes.Fields(golden(t, "trash.hex", lines(row))), nil)))
	is.NoErr(err)
	is.Equal(row, pinned)
	back, err := record.ParseTrashed(want.Key(), pinned)
	is.NoErr(err)
	is.Equal(*back, want)
}

// TestStoredPicks holds the rows of items in collections: of the collection's owner, and of a member.
func TestStoredPicks(t *testing.T) {
	t.Parallel()
	of := filled(t, reflect.TypeFor[catalog.PickedItem]()).Interface().(catalog.PickedItem)
	of.Kind = record.Notes
	own := of
	own.Of = own.Owner
	for file, m := range map[string]catalog.PickedItem{"member.hex": own, "member-other.hex": of} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			row, err := catalog.PickRows.Encode(&m)
			is.NoErr(err)
			key := catalog.PickRows.Key(&m)
			entry := []byte(nil)
			catalog.PickRows.Indexes[0].Keys(&m, func(e []byte) { entry = e })
			got := lines(slices.Concat(key, row, entry))
			is.Equal(string(got), string(golden(t, file, got)))
			back, err := catalog.PickRows.Decode(key, row)
			is.NoErr(err)
			is.Equal(*back, m)
		})
	}
}

// TestStoredVersion holds the row of a version, and that of a version without a ticker, as all were once.
func TestStoredVersion(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, file := range []string{"version.hex", "version.ticker.hex"} {
		want := filled(t, reflect.TypeFor[record.Version]()).Interface().(record.Version)
		if file == "version.hex" {
			want.Ticker = record.ID{}
		}
		want.Body = []byte(`{"title":"Name","content":"Text"}`)
		want.Size = int64(len(want.Body))
		row, err := want.AppendRow()
		is.NoErr(err)
		pinned, err := hex.DecodeString(string(bytes.Join(bytes.Fields(golden(t, file, lines(row))), nil)))
		is.NoErr(err)
		is.Equal(row, pinned)
		back, err := record.BorrowVersion(want.Key(), pinned)
		is.NoErr(err)
		is.Equal(*back, want)
	}
}

// golden returns the file in testdata/stored. An existing file is never written again:
// some disk somewhere has these bytes.
func golden(t *testing.T, name string, now []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", "stored", name)
	text, err := os.ReadFile(path)
	if *pin && errors.Is(err, fs.ErrNotExist) {
		text, err = now, os.WriteFile(path, now, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// lines returns a row in hexadecimal, 32 bytes a line.
func lines(row []byte) (text []byte) {
	for len(row) > 0 {
		n := min(32, len(row))
		text = fmt.Appendf(text, "%x\n", row[:n])
		row = row[n:]
	}
	return text
}

// explicit fails the test unless every stored field has its name in a tag.
func explicit(t *testing.T, typ reflect.Type) {
	t.Helper()
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		explicit(t, typ.Elem())
	case reflect.Struct:
		if typ == reflect.TypeFor[time.Time]() {
			return
		}
		for f := range fields(typ) {
			if f.Anonymous {
				explicit(t, f.Type)
				continue
			}
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == "" {
				t.Errorf("%s.%s has no name in its tag", typ, f.Name)
			}
			explicit(t, f.Type)
		}
	}
}

// fields yields the fields of a struct that JSON sees.
func fields(typ reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for f := range typ.Fields() {
			if (f.IsExported() || f.Anonymous) && f.Tag.Get("json") != "-" && !yield(f) {
				return
			}
		}
	}
}

func filled(t *testing.T, typ reflect.Type) reflect.Value {
	v := reflect.New(typ).Elem()
	fillIn(t, v, typ.Name())
	return v
}

// fillIn sets every exported field to a value made from its name.
func fillIn(t *testing.T, v reflect.Value, name string) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // cannot fail
	n := int64(h.Sum32() % 100_000)
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.UnixMilli(1_700_000_000_000 + n).UTC()))
		return
	case reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`{}`))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(name)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(n)
	case reflect.Float64:
		v.SetFloat(float64(n) / 1000)
	case reflect.Uint8:
		v.SetUint(uint64(n % 256))
	case reflect.Uint64:
		v.SetUint(uint64(n))
	case reflect.Pointer:
		if v.Type() != reflect.TypeFor[*record.Kind]() {
			v.Set(reflect.New(v.Type().Elem()))
			fillIn(t, v.Elem(), name)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fillIn(t, v.Index(0), name+"0")
		fillIn(t, v.Index(1), name+"1")
	case reflect.Array:
		for i := range v.Len() {
			fillIn(t, v.Index(i), fmt.Sprint(name, i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		e := reflect.New(v.Type().Elem()).Elem()
		fillIn(t, e, name+"0")
		v.SetMapIndex(reflect.ValueOf(name+"0"), e)
	case reflect.Struct:
		for f := range fields(v.Type()) {
			fillIn(t, v.FieldByIndex(f.Index), f.Name)
		}
	default:
		t.Fatalf("%s: cannot make a %s", name, v.Type())
	}
}
