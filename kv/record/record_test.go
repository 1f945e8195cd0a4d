package record_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/kv/field"
	"kist/kv/record"
)

// shape is the shape of a form. For a file it is that of an upload or of an
// edit.
func shape(f *record.Form, k *record.Kind, create bool) field.Shaped {
	switch {
	case k != record.Files:
		return f
	case create:
		return record.Upload{Form: f}
	}
	return record.Edit{Form: f}
}

var (
	owner = record.ID{0: 1, 15: 2}
	born  = time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
)

// make1 makes a record from a form, as a store does.
func make1(k *record.Kind, f *record.Form) *record.Record {
	r := &record.Record{ID: record.ID{6: 0x70, 15: 9}, Owner: owner, Kind: k, Seq: 7, Created: born, Updated: born}
	if b, ok := f.Body.(*record.File); ok {
		r.Bytes = &record.Content{Ref: [32]byte{1, 2, 3}, Size: b.Size}
	}
	f.Fill(r)
	if r.Slug == "" {
		r.Slug = "made"
	}
	return r
}

// create reads JSON into a record.
func create(t testing.TB, k *record.Kind, text string) (*record.Record, *record.Form) {
	t.Helper()
	f := record.NewForm(k)
	in, err := field.Parse([]byte(text))
	if err == nil {
		err = field.Create(shape(f, k, true), in)
	}
	if err != nil {
		t.Fatal(err)
	}
	if b, ok := f.Body.(*record.File); ok {
		b.MimeType, b.Size, b.SHA256 = "image/png", 5, strings.Repeat("ab", 32)
	}
	return make1(k, f), f
}

// again returns the record as read back from its row.
func again(t testing.TB, r *record.Record) *record.Record {
	t.Helper()
	got, err := record.ParseRow(r.Key(), r.AppendRow(nil))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// shown is the record's JSON, and the same decoded.
func shown(t testing.TB, v *record.Shown) map[string]any {
	t.Helper()
	text := field.AppendJSON(nil, v)
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return out
}

const common = `"slug":"my-slug","isPublic":true,"logVisits":true,"isFavorite":true,"password":"secret","maxViewsAction":"delete","expiresAt":"2030-01-01T01:00:00+01:00","expiryAction":"delete"`

// samples has the fields of each kind as a caller sends and gets them, without
// the fields that all kinds have.
var samples = map[*record.Kind]string{
	record.Files:     `{"stripMetadata":false,"description":"a <b> & \"c\"\n\u2028\ud83d\ude00"}`,
	record.Bookmarks: `{"url":"https://go.dev/","title":"Go <lang>","description":"d","imageUrl":"https://go.dev/i.svg"}`,
	record.Notes:     `{"title":"Zoë","content":"- milk\n- \"bread\"\t\u007f","sourceUrl":"chrome://newtab"}`,
	record.Snippets:  `{"title":"","content":"","language":"go"}`,
	record.Recipes:   `{"title":"Pancakes","photoId":null,"description":"","ingredients":"2 eggs","instructions":"Whisk","imageUrl":"https://example.org/p.jpg"}`,
	record.Games:     `{"title":"Outer Wilds","platform":"PC","status":"playing","rating":0,"playtimeMinutes":1260,"coverUrl":null,"coverId":null,"storeUrl":"https://example.org/s","notes":"n"}`,
	record.Links:     `{"originalUrl":"https://example.org/a?b=c#d","description":"Tickets"}`,
}

// A kind without a sample has the examples of its fields.
func init() {
	for _, k := range record.Kinds {
		if samples[k] != "" {
			continue
		}
		fields := make(map[string]json.RawMessage)
		for _, f := range field.Of(k.New()).Fields() {
			if f.Traits&field.ReadOnly == 0 {
				fields[f.Name] = json.RawMessage(f.Example)
			}
		}
		text, err := json.Marshal(fields)
		if err != nil {
			panic(err)
		}
		samples[k] = string(text)
	}
}

// The input of a caller for a record of any kind comes back in the JSON,
// through the form and the row. It equals the output of encoding/json for the
// same values.
func TestRoundTrip(t *testing.T) {
	for _, k := range record.Kinds {
		t.Run(k.Name, func(t *testing.T) {
			is := is.New(t)
			r, f := create(t, k, `{`+common+`,"`+k.Limit+`":3.0,`+samples[k][1:])
			is.Equal(f.Password, field.Secret{Said: true, Text: "secret"})
			r.Password = "$argon2id$hash"
			r.Tags = []record.ID{{1}, {2}}
			tags := []record.Tag{
				{ID: record.ID{1}, Name: `a"<b`, Color: "#AABBCC"}, {ID: record.ID{2}, Name: "c", Color: "#000000"},
			}
			if k == record.Files {
				b, err := r.Decode()
				is.NoErr(err)
				b.(*record.File).OriginalName, b.(*record.File).Uploader = "a\"b.png", `Bob "<b>`
				r.SetBody(b)
				r.Folder = record.ID{3}
				r.Bytes.Metadata = record.Metadata{
					State: record.MetadataRemovable, Found: record.FoundOf([]string{"time", "gps"}), Size: 4,
				}
				r.Bytes.Photo = record.Photo{
					Taken: time.Date(1969, 7, 20, 20, 17, 40, 1e6, time.UTC), Camera: `Acme "1"`,
					Location: &record.Location{Lat: -0.000001, Lon: 180},
				}
				is.Equal(r.Bytes.Class, record.Image)
			}
			is.Equal(r.HasUploader(), k == record.Files)
			back := again(t, r)
			is.Equal(back, r)

			var want map[string]any
			is.NoErr(json.Unmarshal([]byte(samples[k]), &want))
			for name, v := range map[string]any{
				"id": r.ID.String(), "kind": k.Name, "slug": "my-slug", "isPublic": true, "isFavorite": true, "hasPassword": true,
				"tags": []any{`a"<b`, "c"}, k.Counter: 41.0, "viewsOfLimit": 0.0, k.Limit: 3.0,
				"maxViewsAction": "delete", "expiresAt": "2030-01-01T00:00:00.000Z", "expiryAction": "delete",
				"logVisits": true, "createdAt": "2026-01-02T03:04:05.678Z", "updatedAt": "2026-01-02T03:04:05.678Z", "url": "https://kist.example/v/my-slug",
				"shareUrl": "https://kist.example/v/my-slug",
			} {
				want[name] = v
			}
			switch k {
			case record.Links:
				want["url"] = "https://kist.example/s/my-slug"
			case record.Files:
				for name, v := range map[string]any{
					"url": "https://kist.example/x/my-slug", "viewUrl": "https://kist.example/v/my-slug", "originalName": "a\"b.png",
					"uploaderName": `Bob "<b>`,
					"mimeType":     "image/png", "size": 5.0, "metadata": "kept", "metadataFound": []any{"gps", "time"}, "sha256": strings.Repeat("ab", 32),
					"takenAt": "1969-07-20T20:17:40.001Z", "exif": map[string]any{
						"camera": `Acme "1"`, "lens": "", "location": map[string]any{"lat": -0.000001, "lon": 180.0},
					},
					"folder": map[string]any{
						"id": record.ID{3}.String(), "name": "F&",
					},
					"tags": []any{
						map[string]any{"id": record.ID{1}.String(), "name": `a"<b`, "color": "#AABBCC"},
						map[string]any{"id": record.ID{2}.String(), "name": "c", "color": "#000000"},
					},
				} {
					want[name] = v
				}
			case record.Bookmarks: // url is the page's
				want["url"] = "https://go.dev/"
				want["reachable"], want["checkedAt"], want["unreachableSince"] = "unknown", nil, nil
				want["iconUrl"], want["behindSignIn"] = nil, false
			case record.Collections:
				want["itemCount"], want["size"], want["leftOut"] = 24.0, 91348213.0, 12.0
				want["uploadRequestId"] = nil
				want["pictures"] = []any{"00000000-0000-7000-0000-000000000007"}
				want["members"] = []any{map[string]any{
					"userId": "00000000-0000-7000-0000-000000000008", "name": "bob", "displayName": "Bob", "role": "add",
					"since": "2026-01-02T03:04:05.678Z",
				}}
				want["source"], want["zipUrl"] = map[string]any{"folderId": nil, "tag": "sea"}, "https://kist.example/x/my-slug.zip"
			}
			v := record.Shown{Record: *back, Views: 41, TagList: tags, FolderName: "F&", Base: "https://kist.example"}
			if b, err := back.Decode(); k == record.Collections {
				is.NoErr(err)
				v.Collected = record.Collected{
					Collection: *b.(*record.Collection),
					Inside: record.Inside{
						TagName: "sea", Items: 24, Bytes: 91348213, LeftOut: 12,
						Pictures: []record.ID{record.ID(uuid.MustParse("00000000-0000-7000-0000-000000000007"))}, Members: []record.Member{{
							Person: record.Person{
								ID: record.ID(uuid.MustParse("00000000-0000-7000-0000-000000000008")), Name: "bob", DisplayName: "Bob",
							},
							Role: record.RoleAdd, Since: back.Created,
						}},
					},
				}
			}
			text := field.AppendJSON(nil, &v)
			got := shown(t, &v)
			is.Equal(got, want)
			is.True(!bytes.Contains(text, []byte("argon2")))
			is.True(!bytes.ContainsAny(text, "<>&\x7f\u2028"))
		})
	}
}

// A record may have only the required values.
func TestShownEmpty(t *testing.T) {
	is := is.New(t)
	r, _ := create(t, record.Games, `{"title":"G"}`)
	v := record.Shown{Record: *again(t, r), Base: "https://kist.example"}
	is.Equal(string(field.AppendJSON(nil, &v)), `{"id":"00000000-0000-7000-0000-000000000009","kind":"game","slug":"made",`+
		`"title":"G","platform":"","status":null,"rating":null,"playtimeMinutes":null,"coverUrl":null,"coverId":null,"storeUrl":null,`+
		`"notes":"","isPublic":false,"isFavorite":false,"hasPassword":false,"tags":[],"views":0,"viewsOfLimit":0,"maxViews":null,`+
		`"maxViewsAction":null,"expiresAt":null,"expiryAction":"hide","logVisits":false,`+
		`"createdAt":"2026-01-02T03:04:05.678Z","updatedAt":"2026-01-02T03:04:05.678Z","url":"https://kist.example/v/made",`+
		`"shareUrl":"https://kist.example/v/made"}`)

	f, _ := create(t, record.Files, `{}`)
	v = record.Shown{Record: *again(t, f)}
	out := shown(t, &v)
	is.Equal(out["folder"], nil)
	is.Equal(out["tags"], []any{})
}

// randomRecord returns one that a row can hold.
func randomRecord(rnd *rand.Rand) *record.Record {
	id := func() (id record.ID) {
		for i := range id {
			id[i] = byte(rnd.Uint32())
		}
		return id
	}
	maybe := func() bool { return rnd.IntN(2) == 0 }
	text := func(limit int) string {
		b := make([]byte, rnd.IntN(limit+1))
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return string(b)
	}
	when := func() time.Time {
		if maybe() {
			return time.Time{}
		}
		return time.UnixMilli(rnd.Int64N(300_000_000_000_000) - 62_000_000_000_000).UTC()
	}
	r := &record.Record{
		ID: id(), Owner: id(), Kind: record.Kinds[rnd.IntN(len(record.Kinds))], Seq: rnd.Uint64(), Created: when(), Updated: when(),
		Share: record.Share{
			Slug: text(200), Public: maybe(), Favorite: maybe(), Logged: maybe(), Password: text(200), Limit: rnd.Int64N(field.MaxCount + 1),
			AtLimit: []record.Action{"", record.MakePrivate, record.Delete}[rnd.IntN(3)], Reached: maybe(), Expires: when(),
		},
		Order: text(48),
	}
	if b := text(300); b != "" {
		r.Body = []byte(b)
	}
	for range rnd.IntN(4) {
		r.Tags = append(r.Tags, id())
	}
	if maybe() {
		r.Folder = id()
	}
	if maybe() {
		r.Bytes = &record.Content{
			Ref: [32]byte([]byte(text(0) + strings.Repeat("r", 32))), Size: rnd.Int64(), Class: record.Class(rnd.IntN(6)),
		}
		r.KeepMetadata = maybe()
		if maybe() {
			r.Bytes.Metadata = record.Metadata{
				State: record.MetadataState(1 + rnd.IntN(4)), Rules: byte(rnd.IntN(16)), Found: byte(rnd.IntN(128)),
			}
		}
	}
	return r
}

func TestRowRoundTrip(t *testing.T) {
	is := is.New(t)
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		r := randomRecord(rnd)
		row := r.AppendRow([]byte("before"))
		got, err := record.ParseRow(r.Key(), row[len("before"):])
		is.NoErr(err)
		if !reflect.DeepEqual(got, r) {
			t.Fatalf("\n got %+v\nwant %+v", got, r)
		}
	}
	// The Unix epoch is not the zero time.
	r := randomRecord(rnd)
	r.Expires = time.UnixMilli(0).UTC()
	is.Equal(again(t, r).Expires, r.Expires)
	is.True(again(t, r).Expired(time.Now()))
}

// A row that was cut off, or in which a byte was changed, is refused or read as
// some record. It never ends the program.
func TestDamagedRows(t *testing.T) {
	is := is.New(t)
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 60 {
		r := randomRecord(rnd)
		r.Body = nil
		key, row := r.Key(), r.AppendRow(nil)
		for n := range row {
			_, err := record.ParseRow(key, row[:n])
			is.True(err != nil)
		}
		for range 200 {
			bad := bytes.Clone(row)
			bad[rnd.IntN(len(bad))] = byte(rnd.Uint32())
			checkRow(t, key, bad)
		}
	}
	r := randomRecord(rnd)
	r.Logged, r.KeepMetadata, r.Bytes = false, false, nil // a narrow row
	row := r.AppendRow(nil)
	for _, key := range [][]byte{
		nil,
		{},
		r.Key()[:record.KeySize-1], append(r.Key(), 0), append(append(bytes.Clone(owner[:]), 0), r.ID[:]...),
		append(append(bytes.Clone(owner[:]), 99), r.ID[:]...),
	} {
		_, err := record.ParseRow(key, row)
		is.True(err != nil)
	}
	for _, limit := range []uint64{field.MaxCount + 1, 1 << 63} {
		over := bytes.Clone(row[:35]) // up to the limit
		over[2] = 0
		over = append(binary.AppendUvarint(over, limit), 0, 0, 0, 0)
		_, err := record.ParseRow(r.Key(), over)
		is.True(err != nil)
	}
	newer := bytes.Clone(row)
	newer[0] = 3
	_, err := record.ParseRow(r.Key(), newer)
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "version 3"))
}

// Impossible values make a row unreadable.
func TestParseRowOfWrongValues(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		set func(r *record.Record)
		ok  bool
	}{
		"as it is":       {func(*record.Record) {}, true},
		"largest limit":  {func(r *record.Record) { r.Limit = field.MaxCount }, true},
		"limit":          {func(r *record.Record) { r.Limit = field.MaxCount + 1 }, false},
		"size":           {func(r *record.Record) { r.Bytes.Size = -1 }, false},
		"class":          {func(r *record.Record) { r.Bytes.Class = 200 }, false},
		"largest size":   {func(r *record.Record) { r.Bytes.Size = 1<<63 - 1 }, true},
		"negative limit": {func(r *record.Record) { r.Limit = -1 }, false},
	} {
		r, _ := create(t, record.Files, `{}`)
		row.set(r)
		_, err := record.ParseRow(r.Key(), r.AppendRow(nil))
		if (err == nil) != row.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// checkRow checks any bytes: if ParseRow accepts them, the row written from the
// result is read as an equal record.
func checkRow(t testing.TB, key, row []byte) {
	t.Helper()
	r, err := record.ParseRow(key, row)
	if err != nil {
		return
	}
	got, err := record.ParseRow(r.Key(), r.AppendRow(nil))
	if err != nil {
		t.Fatalf("%x: %v", row, err)
	}
	if !reflect.DeepEqual(got, r) {
		t.Fatalf("%x:\n got %+v\nwant %+v", row, got, r)
	}
}

func FuzzParseRow(f *testing.F) {
	rnd := rand.New(rand.NewPCG(9, 10))
	for range 20 {
		r := randomRecord(rnd)
		f.Add(r.Key(), r.AppendRow(nil))
	}
	f.Fuzz(func(t *testing.T, key, row []byte) { checkRow(t, key, row) })
}

// The row has an earlier shape of its kind. The present shape reads its body. The record stays where it is in lists.
func TestOlderShape(t *testing.T) {
	is := is.New(t)
	r, _ := create(t, record.Games, `{"title":"Émile","rating":3}`)
	old := *r
	old.Body, old.Order = []byte(`{"title":"Émile","rating":3,"coverUrl":"","gone":[1,{"a":null}]}`), "?"
	row := old.AppendRow(nil)
	row[1] = 0
	got, err := record.ParseRow(r.Key(), row)
	is.NoErr(err)
	is.Equal(got.Order, "?")
	is.NoErr(got.Reorder())
	is.Equal(got, r) // removed members are gone, new ones are empty

	old.Body = []byte(`{"title":7}`)
	row = old.AppendRow(nil)
	row[1] = 0
	_, err = record.ParseRow(r.Key(), row)
	is.True(err != nil)
}

func TestTitle(t *testing.T) {
	for _, row := range []struct {
		body        record.Body
		want, named string
	}{
		{&record.File{OriginalName: "a.txt"}, "a.txt", "a.txt"},
		{&record.Bookmark{URL: "https://a.b/", Name: "n"}, "n", "n"},
		{&record.Bookmark{URL: "https://a.b/"}, "https://a.b/", ""},
		{&record.Note{Name: "n", Content: "c"}, "n", "n"},
		{&record.Note{Name: " ", Content: "c"}, " ", ""},
		{&record.Note{Content: " \n\r\n  c \nd"}, "c", ""},
		{&record.Note{Content: "---\ntitle: The trip\n---\nc"}, "The trip", ""},
		{&record.Note{Content: "---\ntags: a\n---\n\nc"}, "c", ""},
		{&record.Note{Content: "---\nc"}, "---", ""},
		{&record.Note{}, "", ""},
		{&record.Snippet{Name: "n", Content: "c"}, "n", "n"},
		{&record.Snippet{Content: strings.Repeat("é", 600)}, strings.Repeat("é", record.MaxName), ""},
		{&record.Recipe{Name: "n"}, "n", "n"},
		{&record.Game{Name: "n"}, "n", "n"},
		{&record.Link{URL: "https://a.b/", Description: "d"}, "d", "d"},
		{&record.Link{URL: "https://a.b/"}, "https://a.b/", ""},
		{&record.Collection{Name: "n"}, "n", "n"},
	} {
		t.Run(fmt.Sprintf("%T %.10s", row.body, row.want), func(t *testing.T) {
			is := is.New(t)
			is.Equal(row.body.Title(), row.want)
			is.Equal(row.body.Named(), row.named)
		})
	}
}

func TestFill(t *testing.T) {
	type state struct {
		public, reached bool
		limit           int64
	}
	for _, row := range []struct {
		name    string
		was     state
		patch   string
		want    state
		restart bool
	}{
		{"nothing", state{true, false, 3}, `{}`, state{true, false, 3}, false},
		{"published", state{false, false, 3}, `{"isPublic":true}`, state{true, false, 3}, true},
		{"published again", state{false, true, 3}, `{"isPublic":true}`, state{true, false, 3}, true},
		{"made private", state{true, false, 3}, `{"isPublic":false}`, state{false, false, 3}, false},
		{"used up stays so", state{false, true, 3}, `{"maxViews":9}`, state{false, true, 9}, false},
		{"gets a limit", state{true, false, 0}, `{"maxViews":9}`, state{true, false, 9}, true},
		{"used up, hidden by its owner", state{false, true, 3}, `{"isPublic":false}`, state{false, false, 3}, false},
		{"used up, hidden in words", state{false, true, 3}, `{"isPublic":"false"}`, state{false, false, 3}, false},
		{"used up, untouched", state{false, true, 3}, `{"isFavorite":true}`, state{false, true, 3}, false},
		{"used up, loses its limit", state{false, true, 3}, `{"maxViews":null}`, state{false, false, 0}, false},
		{"public all along", state{true, false, 3}, `{"isPublic":true}`, state{true, false, 3}, false},
		{"loses its limit", state{true, false, 9}, `{"maxViews":null}`, state{true, false, 0}, false},
		{"another limit", state{true, false, 9}, `{"maxViews":"7"}`, state{true, false, 7}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			is := is.New(t)
			r, _ := create(t, record.Notes, `{"content":"c"}`)
			r.Public, r.Reached, r.Limit = row.was.public, row.was.reached, row.was.limit
			f, err := r.Form()
			is.NoErr(err)
			in, err := field.Parse([]byte(row.patch))
			is.NoErr(err)
			is.NoErr(f.Patch(in))
			is.Equal(f.Fill(r), row.restart)
			is.Equal(state{r.Public, r.Reached, r.Limit}, row.want)
		})
	}
}

func TestCheckNew(t *testing.T) {
	is := is.New(t)
	f := record.NewForm(record.Notes)
	is.NoErr(f.CheckNew(born))
	f.Expires = born.Add(time.Millisecond)
	is.NoErr(f.CheckNew(born))
	f.Expires = born
	is.True(f.CheckNew(born) != nil)
}

// Limits that are not a whole number from 1 on are refused, never read as no
// limit.
func TestBadLimits(t *testing.T) {
	for _, bad := range []string{
		`0`, `-1`, `1.5`, `1e309`, `2147483648`, `9007199254740993`, `""`, `true`, `[]`, `{}`, `"1_000"`, `"0x10"`, `" 5"`,
		`"NaN"`, `-0`,
	} {
		t.Run(bad, func(t *testing.T) {
			is := is.New(t)
			for _, k := range record.Kinds {
				f := record.NewForm(k)
				in, err := field.Parse([]byte(`{"` + k.Limit + `":` + bad + `}`))
				is.NoErr(err)
				is.True(field.Patch(shape(f, k, false), in) != nil)
				is.Equal(f.Limit, int64(0))
			}
		})
	}
}

// An upload's name is as safe as any other file's.
func TestUploadTags(t *testing.T) {
	is := is.New(t)
	_, f := create(t, record.Files, `{"tagIds":["01890A5D-AC96-774B-BCCE-B302099A8057"],"newTags":["sea"]}`)
	is.Equal(f.AddTags, []string{"01890a5d-ac96-774b-bcce-b302099a8057"})
	is.Equal(f.NewTags, []string{"sea"})
}

func TestUploadName(t *testing.T) {
	is := is.New(t)
	r, _ := create(t, record.Files, `{"name":"../../etc/CON.txt\u202e"}`)
	b, err := r.Decode()
	is.NoErr(err)
	is.Equal(b.(*record.File).OriginalName, "_CON.txt")
}

// checkBounds checks every accepted record.
func checkBounds(t testing.TB, r *record.Record, f *record.Form) {
	t.Helper()
	b, err := r.Decode()
	if err != nil {
		t.Fatal(err) // its own JSON can be read
	}
	limits := map[string]int{
		"title": record.MaxName, "description": record.MaxDescription, "sourceUrl": field.MaxURL, "language": 64,
		"platform": record.MaxName, "notes": record.MaxDescription,
	}
	var v map[string]any
	if err := json.Unmarshal(field.AppendJSON(nil, b), &v); err != nil {
		t.Fatal(err)
	}
	for name, n := range limits {
		if s, ok := v[name].(string); ok && utf8.RuneCountInString(s) > n {
			t.Errorf("%s has %d characters", name, utf8.RuneCountInString(s))
		}
	}
	for name := range v {
		if s, ok := v[name].(string); ok && len(s) > record.MaxContent {
			t.Errorf("%s has %d bytes", name, len(s))
		}
	}
	if clean, err := record.CleanSlug(r.Slug); err != nil || clean != r.Slug {
		t.Errorf("slug %q", r.Slug)
	}
	if r.Limit < 0 || r.Limit > field.MaxCount || len(f.Tags) > record.MaxTags || len(f.NewTags) > record.MaxTags ||
		len(r.Order) > 64 {
		t.Errorf("limit %d, %d tags, order %q", r.Limit, len(f.Tags), r.Order)
	}
	for _, tag := range append(f.Tags, f.NewTags...) {
		if clean, err := record.CleanTag(tag); err != nil || clean != tag {
			t.Errorf("tag %q", tag)
		}
	}
}

// A create and a patch of any kind: accepted input is stored and shown as JSON,
// within its bounds, and an empty patch changes nothing.
func FuzzRecordJSON(f *testing.F) {
	for i, k := range record.Kinds {
		f.Add(
			byte(i), `{`+common+`,"`+k.Limit+`":3,"tags":["a","b"],`+samples[k][1:],
			`{"slug":"other","isPublic":false,"`+k.Limit+`":null,"title":"x","expiresAt":null}`,
		)
	}
	f.Fuzz(func(t *testing.T, kind byte, first, second string) {
		k := record.Kinds[int(kind)%len(record.Kinds)]
		form := record.NewForm(k)
		in, err := field.Parse([]byte(first))
		if err != nil || field.Create(shape(form, k, true), in) != nil {
			return
		}
		r := make1(k, form)
		checkBounds(t, r, form)
		r = again(t, r)
		v := record.Shown{Record: *r}
		before := shown(t, &v)

		same := *r
		unchanged, err := same.Form()
		if err != nil {
			t.Fatal(err)
		}
		if err := field.Patch(shape(unchanged, k, false), field.Object{}); err != nil {
			t.Fatal(err)
		}
		if restart := unchanged.Fill(&same); restart || !reflect.DeepEqual(&same, r) {
			t.Fatalf("a patch of nothing made %+v of %+v", same, r)
		}
		v.Record = same
		if after := shown(t, &v); !reflect.DeepEqual(after, before) {
			t.Fatalf("a patch of nothing made %v of %v", after, before)
		}

		patch, err := r.Form()
		if err != nil {
			t.Fatal(err)
		}
		in, err = field.Parse([]byte(second))
		if err != nil || field.Patch(shape(patch, k, false), in) != nil {
			return
		}
		patch.Fill(r)
		checkBounds(t, r, patch)
		v.Record = *again(t, r)
		shown(t, &v)
	})
}

// TestShownMetadata: what visitors get of the metadata follows from the bytes, the file and the settings.
func TestShownMetadata(t *testing.T) {
	for _, c := range []struct {
		state       record.MetadataState
		keep, never bool
		want        any
	}{
		{record.NotExamined, false, false, nil},
		{record.MetadataNone, false, false, "none"},
		{record.MetadataRemovable, false, false, "removed"},
		{record.MetadataRemovable, true, false, "kept"},
		{record.MetadataRemovable, false, true, "kept"},
		{record.MetadataKept, false, false, "kept"},
		{record.MetadataUnreadable, false, false, "unreadable"},
		{record.MetadataUnreadable, true, true, "unreadable"},
	} {
		is := is.New(t)
		r, _ := create(t, record.Files, `{}`)
		r.Bytes.Metadata.State, r.KeepMetadata = c.state, c.keep
		v := &record.Shown{Record: *again(t, r), NeverStrip: c.never}
		out := shown(t, v)
		is.Equal(out["metadata"], c.want)
		is.Equal(out["stripMetadata"], !c.keep)
		r.Bytes.Photo = record.Photo{Taken: r.Created, Lens: "long"}
		visitor := shown(t, &record.Shown{Record: *again(t, r), Visitor: true})
		member := shown(t, &record.Shown{Record: *again(t, r), ByMember: true})
		for _, name := range []string{"metadata", "metadataFound", "stripMetadata", "takenAt", "exif"} {
			_, there := visitor[name]
			is.True(!there) // only its owner learns it
			at, there := member[name]
			is.True(there)
			is.Equal(at, nil)
		}
	}
}
