package tables_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/history"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
	"kist/kv/tables"
	"kist/kv/transfer"
)

// Each bucket belongs to one table, and a table names only its own buckets.
func TestTablesHaveAllBuckets(t *testing.T) {
	t.Parallel()
	owners := map[table.Bucket]int{}
	for _, row := range tables.All.Tables {
		for _, b := range row.Buckets {
			owners[b]++
		}
		for _, b := range row.Buckets { // otherwise the sweep would remove contents in use
			if strings.HasSuffix(b.Name, "blob") && (row.Contents == nil || row.Contents.Bucket != b) {
				t.Errorf("%s is not the index of contents of its table", b.Name)
			}
		}
		if row.Contents != nil && !slices.Contains(row.Buckets, row.Contents.Bucket) {
			t.Errorf("a table names %s, which is not among its buckets", row.Contents.Bucket.Name)
		}
	}
	for b := range tables.All.Buckets().All() {
		if owners[b] != 1 {
			t.Errorf("bucket %s belongs to %d tables", b.Name, owners[b])
		}
		delete(owners, b)
	}
	for b := range owners {
		t.Errorf("bucket %s is not among buckets", b.Name)
	}
}

// After an account with something in every bucket is removed, nothing names it. A new
// table has to be filled here.
func TestRemoveUserEmptiesAllTables(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir, owner := kvtest.Inhabited(t)
	s := kvtest.OpenAt(t, dir, nil)
	kvtest.User(t, s, "root")
	q := kvtest.AddRequest(t, s, owner, func(f *inbox.RequestForm) { f.Approval = true })
	_, err := kvtest.Leave(s, q, "here", kvtest.Came(4, 3))
	is.NoErr(err)
	limited := kvtest.Add(
		t, s, owner, record.Notes, `{"content":"seen","isPublic":true,"maxViews":1,"maxViewsAction":"delete"}`,
	)
	is.NoErr(catalog.Seen(s, limited, history.Visit{}))
	logged := kvtest.Add(t, s, owner, record.Notes, `{"content":"seen","isPublic":true,"logVisits":true}`)
	is.NoErr(catalog.Seen(s, logged, history.Visit{Referrer: "example.org"}))
	is.NoErr(s.Flush())
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		moved := transfer.Moved{Remarks: []transfer.Remark{{}}}
		if _, err := transfer.AddImport(tx, owner, "bookmarks.html", moved); err != nil {
			return err
		}
		d, _, err := people.AddDevice(tx, "cli", "192.0.2.2", "192.0.2.2/32")
		if err == nil {
			_, err = people.DecideDevice(tx, d.Code, owner, true)
		}
		if err == nil {
			_, _, err = people.AddSession(tx, owner, "agent", "192.0.2.1", tx.Now)
		}
		if err == nil {
			err = jobs.SaveIdempotentAnswer(tx, owner, "k", jobs.IdempotentAnswer{Body: []byte("x")})
		}
		if err == nil {
			err = errors.Join(
				catalog.NoteOrphans(tx, [][32]byte{{9}}), catalog.KeepCRCs(tx, map[catalog.CRCKey]uint32{{Ref: [32]byte{9}}: 1}),
			)
		}
		return err
	})
	kvtest.View(t, s, func(tx *kv.Tx) error {
		names := map[string]bool{}
		for _, line := range kvtest.LeftOver(tx, owner) {
			name, _, _ := strings.Cut(line, " ")
			names[name] = true
		}
		for _, row := range tables.All.Tables {
			for _, b := range row.Buckets {
				if tx.Count(b) == 0 {
					t.Errorf("bucket %s is empty", b.Name)
				}
			}
			if row.Drop == nil || len(row.Buckets) == 0 {
				continue
			}
			if name := row.Buckets[0].Name; !names[name] {
				t.Errorf("the account has nothing in %s: %v", name, slices.Sorted(maps.Keys(names)))
			}
		}
		return nil
	})
	is.NoErr(people.RemoveUser(s, owner, "root"))
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(kvtest.LeftOver(tx, owner), nil)
		return kvtest.Audit(tx)
	})
}
