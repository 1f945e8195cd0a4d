package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cespare/xxhash/v2"

	"kist/blobs/disk"
	"kist/kv/journal"
)

// CleanName is the file that proves a clean stop.
const CleanName = "CLEAN"

// Proof describes the working copy and the journal when the store was closed. A copy
// of the working copy, or one that was written to since, has another inode or another
// time of change.
type Proof struct {
	Identity
	Seq     uint64         `json:"seq"`
	Digest  journal.Digest `json:"digest"`
	Log     string         `json:"log"`
	LogSize int64          `json:"logSize"`

	// These identify the folder of the journal.
	JournalDevice uint64 `json:"journalDevice"`
	JournalInode  uint64 `json:"journalInode"`
}

// Identity distinguishes a file from its copies.
type Identity struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Change int64  `json:"ctime"` // in nanoseconds since 1970
	Size   int64  `json:"size"`
}

// State returns the state at the end of the journal.
func (p Proof) State() journal.State { return journal.State{Seq: p.Seq, Digest: p.Digest} }

// Holds reports whether the proof is about the working copy at the path.
func (p Proof) Holds(path string) bool {
	got, err := Identify(path)
	return err == nil && got == p.Identity
}

// Here reports whether journal/ is the same folder as in the proof and not a copy,
// whatever changed in it since.
func (p Proof) Here(dir string) bool {
	got, err := Identify(filepath.Join(dir, "journal"))
	return err == nil && got.Device == p.JournalDevice && got.Inode == p.JournalInode
}

// ReadProof reads the proof. It returns false if there is no valid one.
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

// LineSum returns the checksum of a line, which the file has in the next line.
func LineSum(line string) string { return fmt.Sprintf("%016x", xxhash.Sum64String(line)) }

// Certify writes the proof of a clean stop, after everything is closed and on the
// disk. It writes none where files cannot be told from their copies.
func Certify(dir string, at journal.State, log string, size int64) error {
	got, err := Identify(filepath.Join(dir, "cache", "kist.db"))
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	folderID, err := Identify(filepath.Join(dir, "journal"))
	if err != nil {
		return err
	}
	line, err := json.Marshal(Proof{
		Identity: got, Seq: at.Seq, Digest: at.Digest, Log: log, LogSize: size,
		JournalDevice: folderID.Device, JournalInode: folderID.Inode,
	})
	if err != nil {
		return err
	}
	folder, err := disk.ReadFolder(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Publish(CleanName, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s\n%s\n", line, LineSum(string(line)))
		return err
	})
}

// DropProof removes the proof before the first write.
func DropProof(dir string) error {
	if err := os.Remove(filepath.Join(dir, CleanName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot write to the data directory: %w", err)
	}
	folder, err := disk.ReadFolder(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}
