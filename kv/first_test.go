package kv_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/kvtest"
	"kist/kv/record"
	"kist/kv/tables"
)

// madeAt is a moment after the directory in admin/testdata/first was made, when
// nothing in it has expired yet.
var madeAt = time.Date(2026, 11, 22, 11, 44, 0, 0, time.UTC)

// unpack writes a tar of a data directory to a new folder.
func unpack(t *testing.T, name string) string {
	t.Helper()
	is := is.New(t)
	f, err := os.Open(name)
	is.NoErr(err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	is.NoErr(err)
	dir := filepath.Join(t.TempDir(), "data")
	is.NoErr(os.Mkdir(dir, 0o700))
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		is.NoErr(err)
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.FileInfo().IsDir() {
			is.NoErr(os.MkdirAll(path, 0o700))
			continue
		}
		data, err := io.ReadAll(r)
		is.NoErr(err)
		is.NoErr(os.WriteFile(path, data, 0o600))
	}
}

// TestFirstDirectory opens a data directory of the first round's program. Every row
// must stay the same when this program writes it again.
func TestFirstDirectory(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.OpenAt(t, unpack(t, filepath.Join("..", "admin", "testdata", "first", "data.tar.gz")), func() time.Time {
		return madeAt
	})
	is.NoErr(s.View(func(tx *kv.Tx) error {
		for b := range tables.All.Buckets().All() {
			zero, there := kvtest.StoredJSON[b.Name]
			if !there && b.Name != kvtest.Bucket("record").Name {
				continue
			}
			n := 0
			for k, v := range tx.Walk(b, nil, nil, false) {
				n++
				if !there {
					r, err := record.ParseRow(k, v)
					is.NoErr(err)
					_, err = r.Decode()
					is.NoErr(err)
					if v[1] == r.Kind.Shape { // an older one is rewritten when it is read
						is.Equal(r.AppendRow(nil), append([]byte{}, v...))
					}
					continue
				}
				row := reflect.New(reflect.TypeOf(zero))
				is.NoErr(json.Unmarshal(v, row.Interface()))
				again, err := json.Marshal(row.Interface())
				is.NoErr(err)
				if lost := lack(v, again); lost != "" {
					t.Errorf("%s: %s is lost:\n%s\n%s", b.Name, lost, v, again)
				}
			}
			if n == 0 && b.No <= 51 { // later buckets came after the directory
				t.Errorf("%s is empty: the directory does not try it", b.Name)
			}
		}
		return nil
	}))
	is.NoErr(s.View(func(tx *kv.Tx) error { tx.Audit(func(err error) { t.Error(err) }); return nil }))
}

// lack names the first member of the JSON object that the other does not have
// with the same value; "" if there is none.
func lack(object, other []byte) string {
	var a, b any
	if err := errors.Join(json.Unmarshal(object, &a), json.Unmarshal(other, &b)); err != nil {
		return err.Error()
	}
	return lackOf("", a, b)
}

func lackOf(at string, a, b any) string {
	switch a := a.(type) {
	case map[string]any:
		other, _ := b.(map[string]any)
		for name, v := range a {
			w, there := other[name]
			if !there {
				return at + "." + name
			}
			if lost := lackOf(at+"."+name, v, w); lost != "" {
				return lost
			}
		}
		return ""
	case []any:
		other, _ := b.([]any)
		if len(a) != len(other) {
			return at
		}
		for i := range a {
			if lost := lackOf(fmt.Sprint(at, i), a[i], other[i]); lost != "" {
				return lost
			}
		}
		return ""
	}
	if !reflect.DeepEqual(a, b) {
		return strings.TrimSpace(fmt.Sprint(at, " was ", a))
	}
	return ""
}
