package record

import "time"

// Moved is what an import created, or would create.
type Moved struct {
	Format  string           `json:"format"`
	DryRun  bool             `json:"dryRun"`
	Entries int              `json:"entries"` // entries read
	Made    map[string]int64 `json:"made"`    // created records by kind; also tags and folders
	There   int              `json:"there"`   // entries that already existed
	Updated int              `json:"updated"` // existing entries that were filled in
	Refused int              `json:"refused"` // entries that cannot be kept
	Remarks []Remark         `json:"remarks"` // a row for each refused entry, and for what could not be kept of other entries
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
	if one := Cut(t, maxRemark); len(one) < len(t) {
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
type Import struct {
	ID      ID          `json:"ID"`
	Owner   ID          `json:"Owner"`
	Name    string      `json:"Name"` // of the file
	State   ImportState `json:"State"`
	Created time.Time   `json:"Created"`
	Ended   time.Time   `json:"Ended"`   // zero: running
	Problem string      `json:"Problem"` // why it failed or was stopped
	Moved   Moved       `json:"Moved"`
}
