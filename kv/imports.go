package kv

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"kist/kv/record"
	"kist/kv/table"
)

// keptImports is how many imports of an owner are remembered.
const keptImports = 10

var imports = jsonTable(importBucket, func(i *record.Import) []byte { return ownedKey(i.Owner, i.ID[:]...) })

var importTable = Table{
	Buckets: []table.Bucket{importBucket, importRemarks},
	Check: func(a *Audit) {
		checkOwned(imports, "import")(a)
		for i, err := range imports.All(a.Tx.Tx, nil) {
			if err == nil {
				a.Refers(importRemarks, imports.Key(i), "import", i.ID)
				a.Owe(importRemarks, 1)
			}
		}
	},
	Refill: refillRows(imports, mending[record.Import]{
		mend: func(r *Refill, i *record.Import) error { return standIn(r, i.Owner) },
		then: func(r *Refill, i *record.Import) error {
			remarks := bytes.Clone(r.Before.Get(importRemarks, imports.Key(i)))
			if remarks == nil {
				remarks = []byte("[]")
			}
			return r.Put(importRemarks, imports.Key(i), remarks)
		},
	}),
	Paid: []table.Bucket{importBucket, importRemarks},
	Drop: func(tx *Tx, owner record.ID) (bool, error) {
		return tx.dropKeys(importBucket, owner, func(key []byte) error { return tx.dropImport(key) })
	},
}

// AddImport writes down that an import has begun. The oldest of the owner's are
// forgotten.
func (tx *Tx) AddImport(owner record.ID, name string, moved record.Moved) (*record.Import, error) {
	if err := tx.requireOwner(owner); err != nil {
		return nil, err
	}
	all, err := collect(imports, tx, owner[:])
	if err != nil {
		return nil, err
	}
	for len(all) >= keptImports {
		if err := tx.dropImport(imports.Key(&all[0])); err != nil {
			return nil, err
		}
		all = all[1:]
	}
	i := &record.Import{ID: tx.NewID(), Owner: owner, Name: name, State: record.ImportRuns, Created: tx.Now, Moved: moved}
	return i, tx.SaveImport(i)
}

// SaveImport writes down how far an import is; Missing if it, or the account,
// is gone.
func (tx *Tx) SaveImport(i *record.Import) error {
	if err := tx.requireOwner(i.Owner); err != nil {
		return err
	}
	remarks, err := json.Marshal(i.Moved.Remarks)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	row := *i
	row.Moved.Remarks = nil // apart, so that a list need not read them
	return errors.Join(imports.Put(tx.Tx, &row), tx.Put(importRemarks, ownedKey(i.Owner, i.ID[:]...), remarks))
}

// Imports lists the owner's imports, oldest first, without their remarks.
func (tx *Tx) Imports(owner record.ID) ([]record.Import, error) {
	return collect(imports, tx, owner[:])
}

// Import reads one of the owner's imports.
func (tx *Tx) Import(owner, id record.ID) (*record.Import, error) {
	i, err := imports.Get(tx.Tx, ownedKey(owner, id[:]...))
	if err != nil {
		return nil, userError(err, "import")
	}
	if v := tx.Get(importRemarks, ownedKey(owner, id[:]...)); v != nil {
		err = json.Unmarshal(v, &i.Moved.Remarks)
	}
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	return i, nil
}

// dropImport forgets an import.
func (tx *Tx) dropImport(key []byte) error {
	_, err := imports.Delete(tx.Tx, key)
	return errors.Join(err, tx.Delete(importRemarks, key))
}
