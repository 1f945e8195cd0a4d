package transfer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

var importBucket = table.Bucket{No: 43, Name: "import"}

var importRemarks = table.Bucket{No: 44, Name: "import.remarks"}

// keptImports is how many imports of an owner are remembered.
const keptImports = 10

var importRows = kv.JsonTable(importBucket, func(i *ImportRun) []byte { return kv.OwnedKey(i.Owner, i.ID[:]...) })

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
	Refill: kv.RefillRows(importRows, kv.Mending[ImportRun]{
		Mend: func(r *kv.Refill, i *ImportRun) error { return people.StandIn(r, i.Owner) },
		Then: func(r *kv.Refill, i *ImportRun) error {
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
func AddImport(tx *kv.Tx, owner record.ID, name string, moved Moved) (*ImportRun, error) {
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
	i := &ImportRun{ID: tx.NewID(), Owner: owner, Name: name, State: ImportRuns, Created: tx.Now, Moved: moved}
	return i, SaveImport(tx, i)
}

// SaveImport records the progress of an import; Missing if the account is gone.
func SaveImport(tx *kv.Tx, i *ImportRun) error {
	if err := people.RequireOwner(tx, i.Owner); err != nil {
		return err
	}
	remarks, err := json.Marshal(i.Moved.Remarks)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	row := *i
	row.Moved.Remarks = nil // stored separately, so that a list need not read them
	if err := importRows.Put(tx.Tx, &row); err != nil {
		return err
	}
	return tx.Put(importRemarks, kv.OwnedKey(i.Owner, i.ID[:]...), remarks)
}

// Imports lists the owner's imports, oldest first, without their remarks.
func Imports(tx *kv.Tx, owner record.ID) ([]ImportRun, error) {
	return kv.Collect(importRows, tx, owner[:])
}

// Import reads one of the owner's imports.
func ReadImport(tx *kv.Tx, owner, id record.ID) (*ImportRun, error) {
	i, err := importRows.Get(tx.Tx, kv.OwnedKey(owner, id[:]...))
	if err != nil {
		return nil, kv.UserError(err, "import")
	}
	if v := tx.Get(importRemarks, kv.OwnedKey(owner, id[:]...)); v != nil {
		if err := json.Unmarshal(v, &i.Moved.Remarks); err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
	}
	return i, nil
}

func dropImport(tx *kv.Tx, key []byte) error {
	if _, err := importRows.Delete(tx.Tx, key); err != nil {
		return err
	}
	return tx.Delete(importRemarks, key)
}

// Moved is what an import created, or would create.
type Moved struct {
	Format  string           `json:"format"`
	DryRun  bool             `json:"dryRun"`
	Entries int              `json:"entries"` // entries read
	Made    map[string]int64 `json:"made"`    // created records by kind; also tags and folders
	There   int              `json:"there"`   // entries that already existed
	Updated int              `json:"updated"` // existing entries that were filled in
	Refused int              `json:"refused"` // entries that cannot be kept
	Remarks []Remark         `json:"remarks"` // a row for each refused entry, and for what others could not keep
	More    int              `json:"more"`    // remarks beyond MaxRemarks
}

// MaxRemarks is the maximum number of rows in a report.
const MaxRemarks = 5000

// A Remark is a row of the report of an import.
type Remark struct {
	At      string `json:"at"`   // the place of the entry
	Name    string `json:"name"` // the name that people know it by
	Refused bool   `json:"refused"`
	Text    string `json:"text"` // why, or what could not be kept
}

// maxRemark is the maximum length of a name or text in a remark, in characters.
const maxRemark = 300

// reservedRemarks is how many rows are reserved for remarks about a source as a whole.
const reservedRemarks = 400

// Remark adds a row about an entry.
func (m *Moved) Remark(at, name, text string, refused bool) {
	if refused {
		m.Refused++
	}
	m.add(at, name, text, refused, MaxRemarks-reservedRemarks)
}

// RemarkWhole adds a row about the source as a whole. It has reserved rows,
// however many entries have rows.
func (m *Moved) RemarkWhole(at, text string) { m.add(at, "", text, false, MaxRemarks) }

func (m *Moved) add(at, name, text string, refused bool, limit int) {
	if len(m.Remarks) >= limit {
		m.More++
		return
	}
	m.Remarks = append(m.Remarks, Remark{At: short(at), Name: short(name), Refused: refused, Text: short(text)})
}

// short is text on one line, of maxRemark characters at most.
func short(t string) string {
	if one := record.Cut(t, maxRemark); len(one) < len(t) {
		return one + "…"
	}
	return t
}

// ImportState is the state of an import.
type ImportState string

// The states of an import. One that is running in the store and not in the
// server was interrupted by the server's stop.
const (
	ImportRuns    ImportState = "running"
	ImportDone    ImportState = "done"
	ImportStopped ImportState = "stopped" // by its owner, or by the server's stop
	ImportFailed  ImportState = "failed"
)

// ImportStates lists the states.
var ImportStates = []ImportState{ImportRuns, ImportDone, ImportStopped, ImportFailed}

// Import is an import of a file that was sent to the server.
type ImportRun struct {
	ID      record.ID   `json:"ID"`
	Owner   record.ID   `json:"Owner"`
	Name    string      `json:"Name"` // of the file
	State   ImportState `json:"State"`
	Created time.Time   `json:"Created"`
	Ended   time.Time   `json:"Ended"`   // zero: running
	Problem string      `json:"Problem"` // why it failed or was stopped
	Moved   Moved       `json:"Moved"`
}
