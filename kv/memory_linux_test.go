package kv_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/tables"
	"kist/kv/workcopy"
)

// Released memory is read again unchanged.
func TestRelax(t *testing.T) {
	is := is.New(t)
	dir := t.TempDir()
	s, err := kv.Open(dir, kv.Options{Schema: tables.All})
	is.NoErr(err)
	resident := func() int {
		text, err := os.ReadFile("/proc/self/smaps")
		is.NoErr(err)
		_, part, ok := strings.Cut(string(text), dir+"/cache/kist.db")
		is.True(ok)
		_, part, _ = strings.Cut(part, "Rss:")
		var n int
		_, err = fmt.Sscan(part, &n)
		is.NoErr(err)
		return n
	}
	var u *people.User
	is.NoErr(s.Update(func(tx *kv.Tx) (err error) {
		u, err = people.AddUser(tx, people.User{Name: "ann", Quota: -1})
		return err
	}))
	is.NoErr(s.Update(func(tx *kv.Tx) error {
		for range 100 {
			f := record.NewForm(record.Notes)
			f.Body = &record.Note{Name: "x", Content: strings.Repeat("x", 10_000)}
			if _, err := catalog.Add(tx, catalog.Draft{Owner: u.ID, Kind: record.Notes, Form: f}); err != nil {
				return err
			}
		}
		return nil
	}))
	read := func() (n int) {
		is.NoErr(s.View(func(tx *kv.Tx) error {
			for r, err := range catalog.NewestFirst(tx, u.ID, record.Notes) {
				is.NoErr(err)
				b, err := r.Decode()
				is.NoErr(err)
				n += len(b.(*record.Note).Content)
			}
			return nil
		}))
		return n
	}
	is.NoErr(drain(s)) // the working copy has all
	is.Equal(read(), 1_000_000)
	before := resident()
	is.NoErr(s.SetRelaxed())
	is.True(before > 900)
	is.True(resident() < before/2)
	is.Equal(read(), 1_000_000)
	mapped := workcopy.FileMemory()
	is.NoErr(s.SetRelaxed())
	is.True(mapped-workcopy.FileMemory() > 500_000)
	is.NoErr(s.Close())
	is.Equal(s.SetRelaxed(), kv.ErrClosed)
}
