package table_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"
	bolt "go.etcd.io/bbolt"

	"kist/kv/table"
)

var (
	rowsBucket  = table.Bucket{No: 1, Name: "rows"}
	nameBucket  = table.Bucket{No: 2, Name: "name"}
	colorBucket = table.Bucket{No: 3, Name: "color"}
	sumsBucket  = table.Bucket{No: 4, Name: "sums"}
	all         = &table.Buckets{1: rowsBucket, 2: nameBucket, 3: colorBucket, 4: sumsBucket}
)

// thing is a row. Its names are unique, its colours are not, and its weight is
// summed by colour.
type thing struct {
	ID      uint32
	Names   []string
	Colors  []string
	Weight  int64
	Ballast string
}

func key(id uint32) []byte { return binary.BigEndian.AppendUint32(nil, id) }

var errUnkept = errors.New("this thing cannot be kept")

var things = &table.Table[thing]{
	Rows: rowsBucket,
	Key:  func(v *thing) []byte { return key(v.ID) },
	Encode: func(v *thing) ([]byte, error) {
		if v.Weight == 666 {
			return nil, errUnkept
		}
		return json.Marshal(v)
	},
	Decode: func(_, row []byte) (*thing, error) {
		v := new(thing)
		return v, json.Unmarshal(row, v)
	},
	Indexes: []table.Index[thing]{
		{Bucket: nameBucket, Name: "name", Unique: true, Keys: func(v *thing, file func([]byte)) {
			for _, n := range v.Names {
				file([]byte(n))
			}
		}},
		{Bucket: colorBucket, Name: "color", Keys: func(v *thing, file func([]byte)) {
			for _, c := range v.Colors {
				file(append([]byte(c+"/"), key(v.ID)...))
			}
		}},
	},
	Sums: sumsBucket,
	Tally: func(v *thing, add func([]byte, int64)) {
		add([]byte("all"), 1)
		for _, c := range v.Colors {
			add([]byte(c), v.Weight)
		}
	},
}

// database opens a database with the buckets. Its map never grows, because that would
// wait for the views of a test. These tests do not concern the
// loss of power.
func database(t testing.TB) *bolt.DB {
	t.Helper()
	db, err := bolt.Open(
		filepath.Join(t.TempDir(), "test.db"), 0o600, &bolt.Options{NoSync: true, InitialMmapSize: 64 << 20},
	)
	if err == nil {
		err = db.Update(func(tx *bolt.Tx) error { return table.Create(tx, all) })
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// store is a database with layers of changes that it does not have yet.
type store struct {
	db      *bolt.DB
	layers  []*table.Mem // newest first
	version uint64       // of the last commit
	latest  uint64       // of the last transaction
}

func newStore(t testing.TB) *store {
	return &store{db: database(t), layers: []*table.Mem{new(table.Mem)}}
}

// update runs fn in a transaction, which is committed if fn says so.
func (s *store) update(t testing.TB, fn func(*table.Tx) bool) {
	t.Helper()
	s.read(t, func(b *bolt.Tx) {
		s.latest++
		tx := table.Write(b, s.latest, s.layers...)
		if fn(tx) {
			s.version = s.latest
		} else if err := tx.Undo(0); err != nil {
			t.Fatal(err)
		}
	})
}

func (s *store) view(t testing.TB, fn func(*table.Tx)) {
	t.Helper()
	s.read(t, func(b *bolt.Tx) { fn(table.On(b, s.version, s.layers...)) })
}

func (s *store) read(t testing.TB, fn func(*bolt.Tx)) {
	t.Helper()
	if err := s.db.View(func(b *bolt.Tx) error { fn(b); return nil }); err != nil {
		t.Fatal(err)
	}
}

// freeze puts an empty layer on top.
func (s *store) freeze() {
	s.layers = append([]*table.Mem{new(table.Mem)}, s.layers...)
}

// apply writes the oldest layer to the database.
func (s *store) apply(t testing.TB) {
	t.Helper()
	last := len(s.layers) - 1
	if err := s.db.Update(func(b *bolt.Tx) error { return s.layers[last].Apply(b, all) }); err != nil {
		t.Fatal(err)
	}
	s.layers = slices.Clone(s.layers[:last])
	if last == 0 {
		s.layers = []*table.Mem{new(table.Mem)}
	}
}

// dump is everything a transaction sees, in the order it is stored.
func dump(tx *table.Tx) []string {
	var out []string
	for b := range all.All() {
		for k, v := range tx.Walk(b, nil, nil, false) {
			out = append(out, fmt.Sprintf("%s %q=%q", b.Name, k, v))
		}
	}
	return out
}

// expected is the dump of a store that has exactly the things of a model.
func expected(t testing.TB, model map[uint32]thing) []string {
	t.Helper()
	var rows, names, colors, sums []string
	sum := map[string]int64{}
	for id, v := range model {
		row, err := things.Encode(&v)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, fmt.Sprintf("rows %q=%q", key(id), row))
		for _, n := range v.Names {
			names = append(names, fmt.Sprintf("name %q=%q", n, key(id)))
		}
		sum["all"]++
		for _, c := range v.Colors {
			colors = append(colors, fmt.Sprintf("color %q=%q", append([]byte(c+"/"), key(id)...), ""))
			sum[c] += v.Weight
		}
	}
	for k, n := range sum {
		if n != 0 {
			sums = append(sums, fmt.Sprintf("sums %q=%q", k, binary.BigEndian.AppendUint64(nil, uint64(n))))
		}
	}
	for _, part := range [][]string{rows, names, colors, sums} {
		slices.Sort(part)
	}
	return slices.Concat(rows, names, colors, sums)
}

// sorted makes a dump comparable with expected: quoting changes the order of
// bytes.
func sorted(lines []string) []string {
	var parts [][]string
	for b := range all.All() {
		var part []string
		for _, l := range lines {
			if strings.HasPrefix(l, b.Name+" ") {
				part = append(part, l)
			}
		}
		slices.Sort(part)
		parts = append(parts, part)
	}
	return slices.Concat(parts...)
}

func randomThing(rnd *rand.Rand) *thing {
	v := &thing{ID: rnd.Uint32N(120), Weight: rnd.Int64N(5) - 2, Ballast: strings.Repeat("x", rnd.IntN(200))}
	for range rnd.IntN(3) {
		if n := fmt.Sprint("n", rnd.IntN(150)); !slices.Contains(v.Names, n) {
			v.Names = append(v.Names, n)
		}
	}
	for range rnd.IntN(3) {
		if c := string(rune('a' + rnd.IntN(5))); !slices.Contains(v.Colors, c) {
			v.Colors = append(v.Colors, c)
		}
	}
	if rnd.IntN(100) == 0 {
		v.Weight = 666
	}
	return v
}

// step changes the store and the model in the same way and compares their
// answers.
func step(t testing.TB, rnd *rand.Rand, tx *table.Tx, model map[uint32]thing) {
	t.Helper()
	v := randomThing(rnd)
	if rnd.IntN(3) == 0 {
		was, there := model[v.ID]
		old, err := things.Delete(tx, key(v.ID))
		switch {
		case there && (err != nil || fmt.Sprint(*old) != fmt.Sprint(was)):
			t.Fatalf("Delete(%d) = %v, %v, want %v", v.ID, old, err, was)
		case !there && !errors.Is(err, table.ErrMissing):
			t.Fatalf("Delete(%d) of nothing: %v", v.ID, err)
		}
		delete(model, v.ID)
		return
	}
	taken := false
	for id, other := range model {
		if id != v.ID && slices.ContainsFunc(v.Names, func(n string) bool { return slices.Contains(other.Names, n) }) {
			taken = true
		}
	}
	mark, err := tx.Mark(), things.Put(tx, v)
	var is *table.Taken
	switch {
	case v.Weight == 666:
		if !errors.Is(err, errUnkept) || tx.Mark() != mark {
			t.Fatalf("Put of what cannot be encoded: %v, %d changes", err, tx.Mark()-mark)
		}
	case taken:
		if !errors.As(err, &is) || is.Index != "name" || is.Error() != "name is taken" || tx.Mark() != mark {
			t.Fatalf("Put of a taken name: %v, %d changes", err, tx.Mark()-mark)
		}
	case err != nil:
		t.Fatalf("Put(%+v): %v", v, err)
	default:
		model[v.ID] = *v
	}
}

// The table is compared with plain maps through long histories: transactions of
// several jobs, some jobs undone, and some transactions rolled back as a whole. In
// between, changes move from memory to the database, and older views stay as they
// were.
func TestTableModel(t *testing.T) {
	is := is.New(t)
	s := newStore(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	model := map[uint32]thing{}
	type view struct {
		b        *bolt.Tx
		tx       *table.Tx
		expected []string
	}
	var views []view
	look := func(v view) {
		is.Equal(sorted(dump(v.tx)), v.expected)
		is.NoErr(v.b.Rollback())
	}
	for range 100 {
		s.update(t, func(tx *table.Tx) bool {
			next := maps.Clone(model)
			for range 1 + rnd.IntN(4) {
				mark, before, kept := tx.Mark(), dump(tx), maps.Clone(next)
				for range rnd.IntN(12) {
					step(t, rnd, tx, next)
				}
				if rnd.IntN(3) == 0 {
					is.NoErr(tx.Undo(mark))
					is.Equal(tx.Mark(), mark)
					is.Equal(dump(tx), before) // byte for byte as before
					next = kept
				}
			}
			is.NoErr(tx.Flush())
			is.Equal(sorted(dump(tx)), expected(t, next)) // in the transaction that wrote it
			if rnd.IntN(5) == 0 {
				return false
			}
			model = next
			return true
		})
		s.view(t, func(tx *table.Tx) { is.Equal(sorted(dump(tx)), expected(t, model)) }) // in a later one
		switch rnd.IntN(6) {
		case 0:
			s.freeze()
		case 1:
			s.apply(t)
			s.view(t, func(tx *table.Tx) { is.Equal(sorted(dump(tx)), expected(t, model)) })
		case 2:
			b, err := s.db.Begin(false)
			is.NoErr(err)
			views = append(views, view{b, table.On(b, s.version, s.layers...), expected(t, model)})
		}
		if len(views) > 3 {
			look(views[0])
			views = views[1:]
		}
	}
	for _, v := range views {
		look(v)
	}
	is.True(len(model) > 25) // the history had an effect

	s.view(t, func(tx *table.Tx) {
		n := 0
		for v, err := range things.All(tx, nil) {
			is.NoErr(err)
			is.Equal(fmt.Sprint(*v), fmt.Sprint(model[v.ID]))
			for _, name := range v.Names {
				found, err := things.Find(tx, nameBucket, []byte(name))
				is.NoErr(err)
				is.Equal(found.ID, v.ID)
			}
			n++
		}
		is.Equal(n, len(model))
		for range things.All(tx, nil) {
			n--
			break
		}
		is.Equal(n, len(model)-1)
		is.Equal(things.Sum(tx, []byte("all")), int64(len(model)))
		is.Equal(things.Sum(tx, []byte("none")), int64(0))
		_, err := things.Get(tx, key(9999))
		is.True(errors.Is(err, table.ErrMissing))
		_, err = things.Find(tx, nameBucket, []byte("none"))
		is.True(errors.Is(err, table.ErrMissing))
	})
}

func TestWritesThatChangeNothing(t *testing.T) {
	is := is.New(t)
	s := newStore(t)
	s.update(t, func(tx *table.Tx) bool {
		v := &thing{ID: 1, Names: []string{"a"}, Colors: []string{"r"}, Weight: 2}
		is.NoErr(things.Put(tx, v))
		mark := tx.Mark()
		is.NoErr(things.Put(tx, v))
		is.NoErr(tx.Delete(rowsBucket, []byte("none")))
		is.Equal(tx.Mark(), mark)
		v.Weight = 3 // of the index entries and sums, one sum changes
		is.NoErr(things.Put(tx, v))
		is.Equal(tx.Mark(), mark+2)
		return true
	})
}

// An empty value is a value, before and after its commit, and for Undo.
func TestEmptyValues(t *testing.T) {
	is := is.New(t)
	s := newStore(t)
	look := func(tx *table.Tx) {
		for _, k := range []string{"nil", "empty"} {
			v := tx.Get(rowsBucket, []byte(k))
			is.True(v != nil)
			is.Equal(len(v), 0)
		}
		is.True(tx.Get(rowsBucket, []byte("none")) == nil)
	}
	s.update(t, func(tx *table.Tx) bool {
		is.NoErr(tx.Put(rowsBucket, []byte("nil"), nil))
		is.NoErr(tx.Put(rowsBucket, []byte("empty"), []byte{}))
		look(tx)
		is.Equal(tx.Mark(), 2)
		return true
	})
	s.update(t, func(tx *table.Tx) bool {
		look(tx)
		is.NoErr(tx.Put(rowsBucket, []byte("nil"), nil))
		is.Equal(tx.Mark(), 0)
		is.NoErr(tx.Put(rowsBucket, []byte("nil"), []byte("full")))
		is.NoErr(tx.Delete(rowsBucket, []byte("empty")))
		is.NoErr(tx.Undo(0))
		look(tx)
		return true
	})
}

func TestWriteErrors(t *testing.T) {
	is := is.New(t)
	s := newStore(t)
	s.view(t, func(tx *table.Tx) {
		is.True(tx.Put(rowsBucket, []byte("k"), nil) != nil)
		is.Equal(tx.Mark(), 0)
	})
	s.update(t, func(tx *table.Tx) bool {
		is.True(tx.Put(rowsBucket, nil, []byte("no key")) != nil)
		is.NoErr(tx.Put(rowsBucket, key(1), []byte("{")))
		_, err := things.Get(tx, key(1))
		is.True(err != nil && !errors.Is(err, table.ErrMissing)) // damaged is not missing
		mark := tx.Mark()
		is.True(things.Put(tx, &thing{ID: 1}) != nil) // the old index entries are unknown
		_, err = things.Delete(tx, key(1))
		is.True(err != nil)
		is.Equal(tx.Mark(), mark)
		return true
	})
}

// brute is what Walk must yield.
func brute(keys [][]byte, prefix, after []byte, down bool) []string {
	var out []string
	for _, k := range keys {
		if !bytes.HasPrefix(k, prefix) {
			continue
		}
		if c := bytes.Compare(k, append(bytes.Clone(prefix), after...)); after != nil && (down && c >= 0 || !down && c <= 0) {
			continue
		}
		out = append(out, string(k))
	}
	if down {
		slices.Reverse(out)
	}
	return out
}

func walked(tx *table.Tx, prefix, after []byte, down bool) []string {
	var out []string
	for k, v := range tx.Walk(rowsBucket, prefix, after, down) {
		if !bytes.HasPrefix(v, k) {
			out = append(out, "wrong value")
		}
		out = append(out, string(k))
	}
	return out
}

// Walks are compared with brute force. Many keys are near the edges of
// prefixes, and values are so large that a few keys fill a page. The walks use
// committed pages, and a transaction that has emptied whole pages.
func TestWalk(t *testing.T) {
	is := is.New(t)
	s := newStore(t)
	rnd := rand.New(rand.NewPCG(3, 4))
	alphabet := []byte{0, 1, 'a', 'b', 0xfe, 0xff}
	word := func(most int) []byte {
		w := make([]byte, rnd.IntN(most+1))
		for i := range w {
			w[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		return w
	}
	check := func(tx *table.Tx, keys [][]byte) {
		t.Helper()
		slices.SortFunc(keys, bytes.Compare)
		for range 150 {
			prefix, after := word(3), word(4)
			if rnd.IntN(2) == 0 {
				after = nil
			} else if len(keys) > 0 && rnd.IntN(2) == 0 { // from an entry on, like a list
				k := keys[rnd.IntN(len(keys))]
				n := rnd.IntN(len(k) + 1)
				prefix, after = k[:n], k[n:]
			}
			for _, down := range []bool{false, true} {
				if got, want := walked(tx, prefix, after, down), brute(keys, prefix, after, down); !slices.Equal(got, want) {
					t.Fatalf("Walk(%q, %q, down %t) of %d keys:\n got %q\nwant %q", prefix, after, down, len(keys), got, want)
				}
			}
		}
	}
	var keys [][]byte
	s.update(t, func(tx *table.Tx) bool {
		check(tx, nil)
		for len(keys) < 500 {
			k := append(word(4), alphabet[rnd.IntN(len(alphabet))])
			if tx.Get(rowsBucket, k) == nil {
				is.NoErr(tx.Put(rowsBucket, k, append(bytes.Clone(k), make([]byte, 400)...)))
				keys = append(keys, k)
			}
		}
		check(tx, keys)
		return true
	})
	for _, move := range []func(){func() {}, s.freeze, func() { s.apply(t) }} {
		move()
		s.view(t, func(tx *table.Tx) { check(tx, keys) })
	}

	s.update(t, func(tx *table.Tx) bool {
		remove := func(from, to int) {
			for _, k := range keys[from:to] {
				is.NoErr(tx.Delete(rowsBucket, k))
			}
			keys = slices.Delete(keys, from, to)
			check(tx, slices.Clone(keys))
		}
		remove(200, 300)                 // pages in the middle
		remove(0, 100)                   // pages at the beginning
		remove(len(keys)-100, len(keys)) // pages at the end
		remove(50, 60)
		remove(0, len(keys)-1) // all but one
		remove(0, 1)
		is.NoErr(tx.Undo(0))
		is.Equal(len(walked(tx, nil, nil, true)), 500)
		return true
	})
}
