package kv

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/record"
	"kist/kv/table"
)

// Each bucket belongs to one table, and a table names no other's.
func TestTablesHaveAllBuckets(t *testing.T) {
	t.Parallel()
	owners := map[table.Bucket]int{}
	for _, row := range All.Tables {
		for _, b := range row.Buckets {
			owners[b]++
		}
		named := slices.Clone(row.Paid)
		if row.Contents != nil {
			named = append(named, row.Contents.Bucket)
		}
		for _, b := range named {
			if !slices.Contains(row.Buckets, b) {
				t.Errorf("a table names %s, which is not among its buckets", b.Name)
			}
		}
	}
	for b := range All.Buckets().All() {
		if owners[b] != 1 {
			t.Errorf("bucket %s belongs to %d tables", b.Name, owners[b])
		}
		delete(owners, b)
	}
	for b := range owners {
		t.Errorf("bucket %s is not among buckets", b.Name)
	}
}

// An account has something in every bucket and is removed: nothing names it any
// more. A new table has to be filled here.
func TestRemoveUserEmptiesAllTables(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir, owner := inhabited(t)
	s := openAt(t, dir, nil)
	user(t, s, "root")
	q := addRequest(t, s, owner, func(f *record.RequestForm) { f.Approval = true })
	_, err := leave(s, q, "here", came(4, 3))
	is.NoErr(err)
	limited := add(t, s, owner, record.Notes, `{"content":"seen","isPublic":true,"maxViews":1,"maxViewsAction":"delete"}`)
	is.NoErr(s.Seen(limited))
	update(t, s, func(tx *Tx) error {
		moved := record.Moved{Remarks: []record.Remark{{}}}
		if _, err := tx.AddImport(owner, "bookmarks.html", moved); err != nil {
			return err
		}
		d, _, err := tx.AddDevice("cli", "192.0.2.2", "192.0.2.2/32")
		if err == nil {
			_, err = tx.DecideDevice(d.Code, owner, true)
		}
		if err == nil {
			_, _, err = tx.AddSession(owner, "agent", "192.0.2.1")
		}
		if err == nil {
			err = tx.SaveIdempotentAnswer(owner, "k", IdempotentAnswer{Body: []byte("x")})
		}
		if err == nil {
			err = tx.NoteOrphans([][32]byte{{9}})
		}
		return err
	})
	view(t, s, func(tx *Tx) error {
		names := map[string]bool{}
		for _, line := range leftOver(tx, owner) {
			name, _, _ := strings.Cut(line, " ")
			names[name] = true
		}
		for _, row := range All.Tables {
			for _, b := range row.Buckets {
				if tx.Count(b) == 0 {
					t.Errorf("bucket %s is empty", b.Name)
				}
			}
			for _, b := range row.Paid {
				if !names[b.Name] {
					t.Errorf("the account has nothing in %s: %v", b.Name, slices.Sorted(maps.Keys(names)))
				}
			}
		}
		return nil
	})
	is.NoErr(s.RemoveUser(owner))
	view(t, s, func(tx *Tx) error {
		is.Equal(leftOver(tx, owner), nil)
		return audit(tx)
	})
}
