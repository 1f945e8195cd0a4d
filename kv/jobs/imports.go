package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

// keptImports is how many imports of an owner are remembered.
const keptImports = 10

var importRows = kv.JsonTable(importBucket, func(i *record.Import) []byte { return kv.OwnedKey(i.Owner, i.ID[:]...) })

// ImportTable keeps the state and results of imports.
var ImportTable = kv.Table{
	Buckets: []table.Bucket{importBucket, importRemarks},
	Check: func(a *kv.Audit) {
		people.CheckOwned(importRows, "import")(a)
		for i, err := range importRows.All(a.Tx.Tx, nil) {
			if err == nil {
				a.Refers(importRemarks, importRows.Key(i), "import", i.ID)
				a.Owe(importRemarks, 1)
			}
		}
	},
	Refill: kv.RefillRows(importRows, kv.Mending[record.Import]{
		Mend: func(r *kv.Refill, i *record.Import) error { return people.StandIn(r, i.Owner) },
		Then: func(r *kv.Refill, i *record.Import) error {
			remarks := bytes.Clone(r.Before.Get(importRemarks, importRows.Key(i)))
			if remarks == nil {
				remarks = []byte("[]")
			}
			return r.Put(importRemarks, importRows.Key(i), remarks)
		},
	}),
	Drop: func(tx *kv.Tx, owner record.ID) (bool, error) {
		return tx.DropKeys(importBucket, owner, func(key []byte) error { return dropImport(tx, key) })
	},
}

// AddImport records that an import has started, and deletes the owner's oldest
// imports beyond keptImports.
func AddImport(tx *kv.Tx, owner record.ID, name string, moved record.Moved) (*record.Import, error) {
	if err := people.RequireOwner(tx, owner); err != nil {
		return nil, err
	}
	all, err := kv.Collect(importRows, tx, owner[:])
	if err != nil {
		return nil, err
	}
	for len(all) >= keptImports {
		if err := dropImport(tx, importRows.Key(&all[0])); err != nil {
			return nil, err
		}
		all = all[1:]
	}
	i := &record.Import{ID: tx.NewID(), Owner: owner, Name: name, State: record.ImportRuns, Created: tx.Now, Moved: moved}
	return i, SaveImport(tx, i)
}

// SaveImport records the progress of an import; Missing if the account is gone.
func SaveImport(tx *kv.Tx, i *record.Import) error {
	if err := people.RequireOwner(tx, i.Owner); err != nil {
		return err
	}
	remarks, err := json.Marshal(i.Moved.Remarks)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	row := *i
	row.Moved.Remarks = nil // stored separately, so that a list need not read them
	return errors.Join(importRows.Put(tx.Tx, &row), tx.Put(importRemarks, kv.OwnedKey(i.Owner, i.ID[:]...), remarks))
}

// Imports lists the owner's imports, oldest first, without their remarks.
func Imports(tx *kv.Tx, owner record.ID) ([]record.Import, error) {
	return kv.Collect(importRows, tx, owner[:])
}

// Import reads one of the owner's imports.
func Import(tx *kv.Tx, owner, id record.ID) (*record.Import, error) {
	i, err := importRows.Get(tx.Tx, kv.OwnedKey(owner, id[:]...))
	if err != nil {
		return nil, kv.UserError(err, "import")
	}
	if v := tx.Get(importRemarks, kv.OwnedKey(owner, id[:]...)); v != nil {
		err = json.Unmarshal(v, &i.Moved.Remarks)
	}
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	return i, nil
}

func dropImport(tx *kv.Tx, key []byte) error {
	_, err := importRows.Delete(tx.Tx, key)
	return errors.Join(err, tx.Delete(importRemarks, key))
}
