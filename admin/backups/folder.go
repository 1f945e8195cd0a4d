// Package backups makes backups by schedule, and knows the folder that they are in.
//
// The folder has the file .kist-backups, so that the empty folder under a disk that is not mounted
// is never taken for it. Each backup is a folder named by its time in UTC, as kist backup makes it,
// with the file CHECKED. Equal contents of two backups are one file with two names. Names that
// begin with a dot are being made or removed: what a kill has left of them goes with the next run.
package backups

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"kist/blobs/disk"
	"kist/kv/datadir"
)

// Names in the folder of backups, and in each of them.
const (
	markName    = ".kist-backups"
	makingName  = ".making"
	removingTag = ".removing-"
	scratchTag  = ".kist-scratch-"
	nameLayout  = "2006-01-02T15-04-05Z"
	checkedName = "CHECKED"
)

// markText is what the file .kist-backups says to people.
const markText = "Kist keeps its backups in this folder. Without this file it makes none here.\n"

// credible leaves out the backups that a wrong clock has put into the future. The others of all, the
// newest first, stay in their order.
func credible(all []datadir.Backup, now time.Time) []datadir.Backup {
	i := slices.IndexFunc(all, func(b datadir.Backup) bool { return !b.Ahead(now) })
	if i < 0 {
		return nil
	}
	return all[i:]
}

// checked is the content of the file CHECKED of a backup.
type checked struct {
	Format int `json:"format"`
	datadir.Backup
}

const checkedFormat = 1

// note writes what is known of a backup into a folder. It is on stable storage then.
func note(folder string, b datadir.Backup) error {
	text, err := json.Marshal(checked{checkedFormat, b})
	if err != nil {
		return err
	}
	return datadir.WriteFile(folder, checkedName, append(text, '\n'))
}

// Init marks an empty folder as one for backups, and makes the folder if it is missing. data is the
// data directory. made is false if the folder was marked already.
func Init(folder, data string) (made bool, err error) {
	if err := outside(folder, data); err != nil {
		return false, err
	}
	parent, err := os.Stat(filepath.Dir(filepath.Clean(folder)))
	if err != nil || !parent.IsDir() {
		return false, fmt.Errorf("there is no folder at %s; create it, or mount the disk that should be there",
			filepath.Dir(filepath.Clean(folder)))
	}
	if err := disk.MakeFolder(folder); err != nil {
		return false, err
	}

	entries, err := os.ReadDir(folder)
	if err != nil {
		return false, fmt.Errorf("%s cannot be read: %w", folder, err)
	}
	for _, e := range entries {
		if e.Name() == markName {
			return false, nil
		}
		if !belongsToDisk(e.Name()) {
			return false, fmt.Errorf("%s is not empty: it has %q; name an empty folder", folder, e.Name())
		}
	}
	return true, datadir.WriteFile(folder, markName, []byte(markText))
}

// belongsToDisk reports whether systems make such a name at the top of a disk.
func belongsToDisk(name string) bool {
	return strings.HasPrefix(name, ".") || name == "lost+found" || name == "System Volume Information" ||
		name == "$RECYCLE.BIN"
}

// ErrInside says that a folder is in the data directory.
var ErrInside = errors.New("in the data directory")

// outside refuses a folder that is the data directory or in it.
func outside(folder, data string) error {
	refused := fmt.Errorf("%s is %w; name a folder elsewhere, best on another disk", folder, ErrInside)
	here, err := os.Stat(data)
	if err != nil {
		return nil //nolint:nilerr // there is no data directory yet
	}
	named, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	path, err := filepath.EvalSymlinks(named)
	if err != nil {
		path = named // nothing is there yet
	}
	for {
		there, err := os.Stat(path)
		if err == nil && os.SameFile(here, there) {
			return refused
		}
		up := filepath.Dir(path)
		if up == path {
			return nil
		}
		path = up
	}
}

// Marked reports whether a path leads to a folder that is marked for backups by schedule.
func Marked(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, markName))
	return err == nil
}

// Check refuses a folder that is not marked, or that is in the data directory.
func Check(folder, data string) error {
	if err := outside(folder, data); err != nil {
		return err
	}
	_, err := os.Stat(filepath.Join(folder, markName))
	if mistaken(err) {
		return &unmarked{folder}
	}
	if err != nil {
		return unusable(folder, err)
	}
	return nil
}

// CheckStart refuses a folder that nobody can have meant: one in the data directory, and one that is not marked
// unless the last backups were made there, so that its disk may be missing. A server starts with all others, since
// being reachable matters more than the backup. What is wrong with them is told when a backup is made.
func CheckStart(folder, data string) error {
	err := Check(folder, data)
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrInside) {
		return err
	}
	if !errors.As(err, new(*unmarked)) {
		return nil
	}
	switch used := usedBefore(data); used {
	case "":
		return err
	case folder:
		return nil
	default:
		return fmt.Errorf("%w; it is another folder than before: the last backups were made in %s", err, used)
	}
}

// unmarked says that a folder has no mark.
type unmarked struct{ folder string }

func (e *unmarked) Error() string {
	return fmt.Sprintf("%s is not marked as a folder for backups: see that its disk is mounted; "+
		"for a new and empty folder run: kist backup init %[1]s", e.folder)
}

// mistaken reports whether an error says that nothing can have been there: the path is wrong, or a disk is missing.
func mistaken(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENAMETOOLONG) ||
		errors.Is(err, syscall.ELOOP)
}

// unusable says what to do about a folder that the server may not use.
func unusable(folder string, err error) error {
	failed := fmt.Errorf("the folder for backups cannot be used: %w", err)
	if errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w; mount it for writing, and under systemd also name it in the service: ReadWritePaths=-%s",
			failed, folder)
	}
	uid := os.Getuid()
	if !errors.Is(err, fs.ErrPermission) || uid < 0 { // Windows has no such numbers
		return failed
	}
	_, err = os.Stat(folder)
	owner, _, _ := disk.Owner(folder)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; the user of the server (%d) may not enter a folder above it: "+
			"let it in there, or name another folder", failed, uid)
	case uid == 0:
		return fmt.Errorf("%w; not even root may: look at how its disk is mounted", failed)
	}
	if owner == uid {
		return fmt.Errorf("%w; let the user of the server use it: chmod -R u+rwX %s", failed, folder)
	}
	return fmt.Errorf("%w; give it to the user of the server: chown -R %d:%d %s", failed, uid, os.Getgid(), folder)
}

// usedName is a file in the data directory. It has the path of the folder that backups were last made in.
const usedName = "BACKUP-FOLDER"

// usedBefore returns the folder that backups of the data directory were last made in; "" if that is not known.
func usedBefore(data string) string {
	text, err := os.ReadFile(filepath.Join(data, usedName))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(text), "\n")
}

// noteUsed notes the folder that backups of the data directory are made in.
func noteUsed(data, folder string) error {
	if usedBefore(data) == folder {
		return nil
	}
	return datadir.WriteFile(data, usedName, []byte(folder+"\n"))
}

// List reads what backups a folder has, the newest first. It reads none of their contents.
func List(folder string) ([]datadir.Backup, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("the folder for backups cannot be read: %w", err)
	}
	all := []datadir.Backup{}
	for _, e := range entries {
		at, err := time.Parse(nameLayout, e.Name())
		if err != nil || !e.IsDir() {
			continue
		}
		all = append(all, read(filepath.Join(folder, e.Name()), at))
	}
	slices.SortFunc(all, func(a, b datadir.Backup) int { return b.At.Compare(a.At) })
	return all, nil
}

// read describes the backup in a folder.
func read(path string, at time.Time) datadir.Backup {
	b, err := readNote(path)
	if err != nil {
		b = datadir.Backup{Error: "Its file " + checkedName + " cannot be read, so nobody knows whether it is whole: " +
			"kist verify " + path + " tells."}
	}
	b.At, b.Path = at, path
	return b
}

// readNote reads what note has written.
func readNote(folder string) (datadir.Backup, error) {
	text, err := os.ReadFile(filepath.Join(folder, checkedName))
	if err != nil {
		return datadir.Backup{}, err
	}
	var c checked
	if err := json.Unmarshal(text, &c); err != nil {
		return datadir.Backup{}, err
	}
	if c.Format != checkedFormat {
		return datadir.Backup{}, errors.New("it is of another version")
	}
	return c.Backup, nil
}

// hold keeps other backups out of the folder until release is called.
func hold(folder string) (release func(), err error) {
	f, err := os.OpenFile(filepath.Join(folder, markName), os.O_RDWR, 0)
	if err != nil {
		return nil, unusable(folder, err)
	}
	if err := disk.TryLock(f); errors.Is(err, disk.ErrLocked) {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("another backup is being made in %s", folder)
	}
	return func() { _ = f.Close() }, nil // a file system that has no locks is used without
}

// madeName is a file in the data directory. It has the name of the backup that was last made by schedule, or was about
// to get it.
const madeName = "BACKUP-MADE"

// lastMade is the time in the name of the backup that the data directory has last made; zero if that is not known.
func lastMade(data string) time.Time {
	text, err := os.ReadFile(filepath.Join(data, madeName))
	if err != nil {
		return time.Time{}
	}
	at, err := time.Parse(nameLayout, strings.TrimSuffix(string(text), "\n"))
	if err != nil {
		return time.Time{}
	}
	return at
}

// noteMade notes the time of a backup before it gets its name. If that fails, nothing is known from now on.
func noteMade(data string, at time.Time) error {
	err := datadir.WriteFile(data, madeName, []byte(at.UTC().Format(nameLayout)+"\n"))
	if err != nil {
		return errors.Join(err, Adopt(data))
	}
	return nil
}

// Adopt lets a data directory go on in a folder whose latest backups it has not made.
func Adopt(data string) error {
	err := os.Remove(filepath.Join(data, madeName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeAll removes a folder with a backup, or some of it if ended says so.
func removeAll(path string, ended func() error) error {
	content, err := os.ReadDir(filepath.Join(path, "blobs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range content {
		if err := ended(); err != nil {
			return err
		}
		if err := os.RemoveAll(filepath.Join(path, "blobs", e.Name())); err != nil {
			return err
		}
	}
	return os.RemoveAll(path)
}

// removeRests removes what is left of removals and rehearsals that a kill has ended.
func removeRests(folder string, ended func() error) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var failed []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), removingTag) {
			failed = append(failed, removeAll(filepath.Join(folder, e.Name()), ended))
		}
	}
	return errors.Join(append(failed, disk.SweepScratch(folder, scratchTag))...)
}

// syncNames makes the names in a folder durable.
func syncNames(folder string) error {
	f, err := disk.ReadFolder(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
