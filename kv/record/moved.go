package record

import "time"

// Moved is what an import made, or would make.
type Moved struct {
	Format  string           `json:"format"`
	DryRun  bool             `json:"dryRun"`
	Entries int              `json:"entries"` // that were read
	Made    map[string]int64 `json:"made"`    // by kind; tag and folder too
	There   int              `json:"there"`   // entries that were there already
	Updated int              `json:"updated"` // of those, how many were filled in
	Refused int              `json:"refused"` // entries that cannot be kept
	Remarks []Remark         `json:"remarks"` // a row for each entry that was refused, and for what could not be kept of others
	More    int              `json:"more"`    // remarks beyond MaxRemarks
}

// MaxRemarks is how many rows a report has at most.
const MaxRemarks = 5000

// A Remark is a row of the report of an import.
type Remark struct {
	At      string `json:"at"`   // where the entry stands
	Name    string `json:"name"` // what people know it by
	Refused bool   `json:"refused"`
	Text    string `json:"text"` // why, or what could not be kept
}

// maxRemark is how many characters of a name or text a remark has.
const maxRemark = 300

// forWhole is how many rows are kept for what concerns a source as a whole.
const forWhole = 400

// Remark adds a row on an entry.
func (m *Moved) Remark(at, name, text string, refused bool) {
	if refused {
		m.Refused++
	}
	m.add(at, name, text, refused, MaxRemarks-forWhole)
}

// RemarkWhole adds a row on the source as a whole. However many entries have
// rows, there is room for it.
func (m *Moved) RemarkWhole(at, text string) { m.add(at, "", text, false, MaxRemarks) }

// add adds a row if there are fewer than limit.
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

// ImportState is how far an import is.
type ImportState string

// The states of an import. One that runs by the store and not in the server was
// cut short by the server's end.
const (
	ImportRuns    ImportState = "running"
	ImportDone    ImportState = "done"
	ImportStopped ImportState = "stopped" // by its owner, or by the server's end
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
	Ended   time.Time   `json:"Ended"`   // zero: it runs
	Problem string      `json:"Problem"` // why it failed or was stopped
	Moved   Moved       `json:"Moved"`
}
