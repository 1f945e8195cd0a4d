package jobs_test

import (
	"path/filepath"
	"testing"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/jobs"
	"kist/kv/kvtest"
	"kist/kv/record"
	"kist/kv/repair"
	"kist/kv/tables"
)

// After a repair a delivery is due if the one before it cannot be read. Audit reports
// one that is not.
func TestRepairOfQueue(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, nil)
	u := kvtest.User(t, s, "ann")
	h := kvtest.HookFor(t, s, u.ID, "*")
	r := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"one"}`)
	kvtest.Edit(t, s, r, `{"content":"two"}`)
	kvtest.Edit(t, s, r, `{"content":"three"}`)
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		first := kvtest.DeliveriesOf(t, tx, h.ID)[0]
		return jobs.DropDelivery(tx, jobs.DeliveryRows.Key(&first))
	})
	found := 0
	kvtest.View(t, s, func(tx *kv.Tx) error { tx.Audit(func(error) { found++ }); return nil })
	is.Equal(found, 1)
	is.NoErr(s.Close())
	repaired, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
	is.NoErr(err)
	is.Equal(len(repaired.Lost), 0)
	s = kvtest.OpenAt(t, dir, nil)
	kvtest.View(t, s, kvtest.Audit)
	all, _ := kvtest.Due(t, s)
	is.Equal(len(all), 1)
}
