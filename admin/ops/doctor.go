package ops

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"time"

	"kist/admin/console"
	"kist/blobs"
	"kist/blobs/disk"
	"kist/kv"
	"kist/kv/journal"
	"kist/kv/record"
	"kist/kv/ship"
	"kist/kv/tables"
)

// A Finding is the result of one check.
type Finding struct {
	What   string `json:"what"`
	State  State  `json:"state"`
	Text   string `json:"text"`
	Change string `json:"change,omitempty"` // what to do about it

	// Of the newest version of the program, if it was asked for.
	Version string `json:"version,omitempty"`
	Notes   string `json:"notes,omitempty"`
}

// State says how well a check went.
type State string

const (
	OK      State = "ok"
	Warning State = "warning" // it works, but may not be what is wanted
	Problem State = "problem"
)

// A Checkup gathers findings about a data directory.
type Checkup struct {
	Dir       string
	Storeless bool // a server runs, without an object store
	Findings  []Finding
}

// OK adds a finding that all is well.
func (d *Checkup) OK(what, format string, args ...any) {
	d.Findings = append(d.Findings, Finding{What: what, State: OK, Text: fmt.Sprintf(format, args...)})
}

// Add adds a finding.
func (d *Checkup) Add(s State, what, text, change string) {
	d.Findings = append(d.Findings, Finding{What: what, State: s, Text: text, Change: change})
}

// Data checks the disk, the modes of the files, the age of the latest backup, the
// journal and some of the contents. The checks of the server, the clock, the sign-in
// service, webhooks and the proxy are in admin/doctor.go, those of the object store in
// remote.go.
func (d *Checkup) Data() error {
	d.disk()
	d.modes()
	d.backup()
	d.copies()
	return d.records()
}

func (d *Checkup) disk() {
	room, err := disk.Space(d.Dir)
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	if err != nil {
		d.Add(Problem, "disk", "its room cannot be found out: "+err.Error(), "look at the disk")
		return
	}
	keep := kv.Reserve(room.Total)
	text := fmt.Sprintf("%s of %s are free", console.Bytes(int64(room.Free)), console.Bytes(int64(room.Total)))
	change := "make room: remove files and run kist gc --now, or move the data directory to a larger disk"
	switch {
	case room.Free < keep:
		d.Add(Problem, "disk", text+"; no uploads are taken below "+console.Bytes(int64(keep)), change)
	case room.Free < 4*keep:
		d.Add(Warning, "disk", text+"; uploads end at "+console.Bytes(int64(keep)), change)
	default:
		d.OK("disk", "%s", text)
	}
	if room.Files > 0 && room.FreeFiles < room.Files/100 {
		d.Add(Problem, "disk", fmt.Sprintf("only %d more files can be made (inodes)", room.FreeFiles),
			"remove small files elsewhere on this disk, or move the data directory")
	}
}

// modes checks whether other users may read the data.
func (d *Checkup) modes() {
	if runtime.GOOS == "windows" {
		return
	}
	var open []string
	err := filepath.WalkDir(d.Dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a scratch folder of another command
		}
		if err != nil {
			return err
		}
		if e.IsDir() && filepath.Dir(path) == filepath.Join(d.Dir, "blobs") {
			return fs.SkipDir // the folder itself was checked
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 && info.Mode()&fs.ModeSymlink == 0 {
			open = append(open, path)
		}
		return nil
	})
	switch {
	case err != nil:
		d.Add(Problem, "files", err.Error(), "run this as the user that the server runs as")
	case len(open) > 0:
		d.Add(Warning, "files",
			fmt.Sprintf("others on this machine may reach %d files and folders, such as %s", len(open), open[0]),
			"run: chmod -R go= "+d.Dir)
	default:
		d.OK("files", "no other user of this machine can read them")
	}
}

// oldBackup is the age of a backup that is too old.
const oldBackup = 7 * 24 * time.Hour

func (d *Checkup) backup() {
	at, err := LastBackup(d.Dir)
	age := time.Since(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.Add(Warning, "backup", "none is known",
			"start the server with --backup-to DIR, run kist backup DEST now and then, or copy the data directory with "+
				"your own tool and run kist verify COPY")
	case err != nil:
		d.Add(Problem, "backup", err.Error(), "look at the file "+backupMark)
	case age > oldBackup:
		d.Add(Warning, "backup", fmt.Sprintf("the latest is %d days old", int(age.Hours()/24)),
			"run kist backup DEST, or copy the data directory with your own tool and run kist verify COPY")
	default:
		d.OK("backup", "the latest is of %s", at.Local().Format("2006-01-02 15:04"))
	}
}

// shortCopy is the time that a copy may need at least.
const shortCopy = 6 * time.Hour

// copies checks how long a copy of a running server's directory may take.
func (d *Checkup) copies() {
	r, err := kv.Retention(d.Dir)
	if err != nil {
		return // records reports what is wrong with the journal
	}
	limit := "how long kist keeps old logs"
	if r.For < journal.Keep {
		limit = "the free space"
	}
	text := fmt.Sprintf("a plain copy of the data directory (cp, rsync) is good if it takes less than %d h "+
		"(limited by %s, at %s of changes an hour)", int(r.For.Hours()), limit, console.Bytes(r.PerHour))
	if r.For < shortCopy {
		d.Add(Warning, "copies", text,
			"make room on the disk, or use kist backup, which does not depend on how long it takes")
		return
	}
	d.OK("copies", "%s", text)
}

const sample = 50

// readAll is what to do about damage.
const readAll = "run kist verify, which reads all data"

// records reads the journal and some of the contents.
func (d *Checkup) records() error {
	j, err := readJournal(d.Dir)
	if err != nil {
		d.Add(Problem, "journal", err.Error(), readAll)
		return nil
	}
	defer j.Close()
	d.wayBack(j)
	holders := tables.All.Holders()
	done, broken := j.Replay(holders.Begin, holders.Note)
	if broken != nil {
		d.Add(Problem, "journal", broken.Error(), readAll)
		_ = holders.Begin() // some of them may be removed later in the journal
	} else {
		d.OK("journal", "intact; %s, %d of them since the latest usable snapshot",
			record.Plural(done.Seq, "commit"), done.Records)
	}

	store, err := blobs.Read(filepath.Join(d.Dir, "blobs"))
	if errors.Is(err, fs.ErrNotExist) {
		d.missing(holders.Len())
		return nil
	}
	if err != nil {
		return err
	}
	defer store.Close()
	if err := d.absent(store, holders, done.Snapshot); err != nil {
		return err
	}
	return d.damaged(store, done.Snapshot)
}

// wayBack reports how long the state before a change of format is kept.
func (d *Checkup) wayBack(j *journal.Journal) {
	f, err := j.Former()
	if err != nil {
		return // the format has not changed, or nothing is kept
	}
	d.OK("way back", "kist rollback leads back to the version that reads format %d, to the state of %s; "+
		"that is kept until %s, if the disk has room", f.Format, f.At.Local().Format("2006-01-02 15:04"),
		f.Until().Local().Format(time.DateOnly))
}

// absent reports how many files have no content in the store. snapshot is as for carried.
func (d *Checkup) absent(store *blobs.Store, holders *kv.Holders, snapshot uint64) error {
	gone := map[blobs.Ref][]Lost{}
	for ref := range holders.Refs() {
		if _, err := store.Stat(ref); errors.Is(err, fs.ErrNotExist) {
			gone[ref] = append(gone[ref], Lost{})
		}
	}
	if err := d.carried(snapshot, gone); err != nil {
		return err
	}
	n := 0
	for _, files := range gone {
		n += len(files)
	}
	d.missing(n)
	return nil
}

// choose returns some of the n contents in the store.
func (d *Checkup) choose(store *blobs.Store) (some []blobs.Ref, n int) {
	for info, err := range store.All() {
		if err != nil {
			d.Add(Warning, "contents", err.Error(), "move it away")
			continue
		}
		n++
		if len(some) < sample {
			some = append(some, info.Ref)
		} else if i := rand.IntN(n); i < sample { // #nosec G404 -- a sample, no secret
			some[i] = info.Ref
		}
	}
	return some, n
}

// damaged reports the contents that are known to be damaged, reads some of the others and reports
// what is wrong with them. snapshot is as for carried.
func (d *Checkup) damaged(store *blobs.Store, snapshot uint64) error {
	some, n := d.choose(store)
	bad := 0
	heal := readAll + "; to repair it, upload the same file again, or run kist restore --missing with a backup"
	for i, q := range store.Damaged.List() {
		bad++
		if i < sample {
			d.Add(Problem, "contents",
				fmt.Sprintf("the bytes of %s are damaged, which was found at %s",
					q.Ref, q.Found.UTC().Format(time.RFC3339)),
				heal)
		}
	}
	if more := bad - sample; more > 0 {
		d.Add(Problem, "contents", fmt.Sprintf("%d more are damaged", more), heal)
	}

	wrong := map[blobs.Ref][]Lost{}
	for _, ref := range some {
		if store.Damaged.Err(ref) != nil {
			continue
		}
		if err := store.Check(ref); errors.Is(err, blobs.ErrDamaged) {
			wrong[ref] = nil
		}
	}
	if err := d.carried(snapshot, wrong); err != nil {
		return err
	}
	for _, ref := range SortedRefs(wrong) {
		bad++
		d.Add(Problem, "contents", fmt.Sprintf("the bytes of %s are damaged", ref), heal)
	}
	if bad == 0 {
		d.OK("contents", "%d of %d were read and are intact", len(some), n)
	}
	return nil
}

// carried removes from lost the contents that the next start will write from the journal:
// see Verified.carried.
func (d *Checkup) carried(snapshot uint64, lost map[blobs.Ref][]Lost) error {
	if !unsettled(d.Dir) {
		return nil
	}
	return carriedOf(d.Dir, snapshot, lost, func(ref blobs.Ref, _ []byte) error { delete(lost, ref); return nil })
}

// missing reports that n files are not on the disk.
func (d *Checkup) missing(n int) {
	switch at := ship.FilesIn(d.Dir); {
	case n == 0:
	case at != "" && d.Storeless:
		d.Add(Problem, "contents",
			record.Plural(n, "file")+console.Word(n == 1, " is", " are")+" not on this disk but in "+at+
				", and the server was started without it",
			"start it with --store "+at)
	case at != "":
		d.OK("contents", "%s not on this disk; kist verify --store %s tells whether %s has them",
			record.Plural(n, "file")+console.Word(n == 1, " is", " are"), at, at)
	default:
		without := console.Word(n == 1, " is without its bytes and answers", " are without their bytes and answer")
		d.Add(Problem, "contents", record.Plural(n, "file")+without+" 404",
			"kist verify names them; upload the same files again, or run kist restore --missing with a backup")
	}
}
