package datadir

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cespare/xxhash/v2"

	"kist/kv/journal"
)

// CleanName is the file that proves a clean stop.
const CleanName = "CLEAN"

// Proof says what the working copy and the journal were like when the store
// was closed. Copies of the file, and the file when it was written to, have
// another inode or another time of change.
type Proof struct {
	Identity
	Seq     uint64         `json:"seq"`
	Digest  journal.Digest `json:"digest"`
	Log     string         `json:"log"`
	LogSize int64          `json:"logSize"`

	// The folder of the journal.
	JournalDevice uint64 `json:"journalDevice"`
	JournalInode  uint64 `json:"journalInode"`
}

// Identity tells a file from its copies.
type Identity struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Change int64  `json:"ctime"` // in nanoseconds since 1970
	Size   int64  `json:"size"`
}

// State is what the journal led to.
func (p Proof) State() journal.State { return journal.State{Seq: p.Seq, Digest: p.Digest} }

// Holds reports whether the working copy is the one of the proof.
func (p Proof) Holds(path string) bool {
	got, err := Identify(path)
	return err == nil && got == p.Identity
}

// Here reports whether the journal is in the very folder that the proof tells
// of and not in a copy of it, whatever was done in it since.
func (p Proof) Here(dir string) bool {
	got, err := Identify(filepath.Join(dir, "journal"))
	return err == nil && got.Device == p.JournalDevice && got.Inode == p.JournalInode
}

// ReadProof reads the proof that is there, if there is one.
func ReadProof(dir string) (Proof, bool) {
	var p Proof
	text, err := os.ReadFile(filepath.Join(dir, CleanName))
	if err != nil {
		return p, false
	}
	line, sum, _ := strings.Cut(string(text), "\n")
	if strings.TrimSpace(sum) != LineSum(line) || json.Unmarshal([]byte(line), &p) != nil {
		return p, false
	}
	return p, true
}

// LineSum is the checksum of a line, as the file has it in the next.
func LineSum(line string) string { return fmt.Sprintf("%016x", xxhash.Sum64String(line)) }
