package backups

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"kist/admin/console"
	"kist/admin/ops"
	"kist/blobs"
	"kist/blobs/disk"
	"kist/kv/datadir"
	"kist/kv/record"
	"kist/kv/workcopy"
)

// wholeEvery is how often all of a backup is read.
const wholeEvery = 30 * 24 * time.Hour

// A run makes one backup.
type run struct {
	folder string
	job    ops.Job
	keep   Keep // the zero value keeps all
	zone   *time.Location
	now    func() time.Time
	log    *slog.Logger
	step   func(string) error     // tests end a run there, as a kill would
	named  func([]datadir.Backup) // it is called with a copy of all, when the new backup has its name
	all    []datadir.Backup       // what the folder has, the newest first
	done   *ops.BackedUp          // what the new backup holds; nil without one
}

// Make makes a backup in a marked folder beside those that a server makes there by schedule, in the same way. It
// removes none of them. The result is not nil if a backup was made, also if it lacks files or damage was found.
func Make(folder string, job ops.Job) (*ops.BackedUp, error) {
	if job.Ended == nil {
		job.Ended = func() error { return nil }
	}
	r := &run{
		folder: folder, job: spacious(job), zone: time.Local, now: SystemClock().Now, log: job.Log,
		step: func(string) error { return nil }, named: func([]datadir.Backup) {},
	}
	err := r.make()
	if err != nil {
		return r.done, ignoreLacking(err)
	}
	r.job.NoteBackup(lastGood(r.all, r.now()))
	return r.done, nil
}

// ignoreLacking is the error of a run, but that of a backup that lacks files: its result lists them.
func ignoreLacking(err error) error {
	if errors.As(err, new(*lacking)) {
		return nil
	}
	return err
}

// make makes a backup, checks it, and removes those that need not be kept. The folder has what is
// in r.all then, also after an error.
func (r *run) make() (err error) {
	if err := Check(r.folder, r.job.Dir); err != nil {
		return err
	}
	release, err := hold(r.folder)
	if err != nil {
		return err
	}
	defer release()
	err = removeRests(r.folder, r.job.Ended)
	if ended := r.job.Ended(); ended != nil {
		return ended
	}
	if err != nil {
		r.log.Warn("what is left of a former run cannot be removed", "folder", r.folder, "error", err)
	}
	r.all, err = List(r.folder)
	if err != nil {
		return err
	}
	if err := sameInstance(r.all, r.job.Dir); err != nil {
		return fmt.Errorf("%s %w", r.folder, err)
	}
	if err := r.ours(); err != nil {
		return err
	}

	if err := r.prune(); err != nil { // before the new one needs their space
		return err
	}
	made, err := r.create()
	if err != nil {
		return err
	}
	r.all = slices.Insert(r.all, 0, made)
	slices.SortFunc(r.all, func(a, b datadir.Backup) int { return b.At.Compare(a.At) })
	r.named(slices.Clone(r.all))
	bad := r.checkWhole(made)
	if ended := r.job.Ended(); ended != nil {
		return ended
	}
	return errors.Join(bad, r.prune())
}

// sameInstance refuses backups of another instance than the data directory has. An empty data directory in place of
// a disk that is not mounted must not drive the good backups out.
func sameInstance(all []datadir.Backup, data string) error {
	if len(all) == 0 {
		return nil
	}
	mine, err := datadir.ReadInstance(data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // ops says what is wrong with the data directory
	}
	if err != nil {
		return err
	}
	for _, b := range all {
		there, err := datadir.ReadInstance(b.Path)
		if err == nil && there != mine {
			return errors.New("has backups of another instance; see that the right data directory is mounted, " +
				"or name another folder with --backup-to")
		}
	}
	return nil
}

// ours refuses a folder in which a copy of the data directory goes on making backups: each of the two would remove
// those of the other. A data directory that was restored knows of none that it has made, and goes on with those that
// are there.
func (r *run) ours() error {
	last, all := lastMade(r.job.Dir), credible(r.all, r.now())
	if last.IsZero() || len(all) == 0 || !all[0].At.After(last) {
		return nil
	}
	return fmt.Errorf("%s has a later backup (%s) than this server has made: a server with a copy of its data directory "+
		"makes backups there; give that one another folder, or, if this one is to go on there, run: kist backup init %[1]s",
		r.folder, all[0].At.Format(time.RFC3339))
}

// create makes a backup under its name.
func (r *run) create() (datadir.Backup, error) {
	making := filepath.Join(r.folder, makingName)
	began := r.now().UTC().Truncate(time.Second)
	for r.taken(began) {
		began = began.Add(time.Second)
	}
	former, doubted := r.former()
	err := os.Remove(filepath.Join(making, checkedName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return datadir.Backup{}, err
	}

	if err := r.step("make"); err != nil {
		return datadir.Backup{}, err
	}
	done, err := r.job.BackupAfter(former, making, doubted)
	if ended := r.job.Ended(); ended != nil {
		return datadir.Backup{}, ended // the next run goes on with what is there
	}
	if err != nil {
		return datadir.Backup{}, errors.Join(r.explain(err), os.RemoveAll(making))
	}
	made := datadir.Backup{Size: done.Size, Digest: done.Digest, Checked: r.now().UTC().Truncate(time.Millisecond)}
	if lost := len(done.Missing); lost > 0 {
		made.Error, made.Missing = incomplete(done), lost
		r.log.Error("the backup is incomplete", "files", lost, "first", done.Missing[0].Name, "why", done.Missing[0].Why)
	}
	if err := r.step("note"); err != nil {
		return datadir.Backup{}, err
	}
	if err := note(making, made); err != nil {
		return datadir.Backup{}, errors.Join(r.explain(err), os.RemoveAll(making))
	}
	if err := r.step("name"); err != nil {
		return datadir.Backup{}, err
	}

	if err := noteMade(r.job.Dir, began); err != nil {
		r.log.Warn("the backup is not noted in the data directory", "error", err)
	}
	path := filepath.Join(r.folder, began.Format(nameLayout))
	if err := os.Rename(making, path); err != nil {
		return datadir.Backup{}, err
	}
	if err := syncNames(r.folder); err != nil {
		return datadir.Backup{}, err
	}
	if done.NoModes {
		r.log.Warn("file modes are not kept in the folder for backups: make sure that nobody else can read it",
			"folder", r.folder)
	}
	if done.Unlinks {
		r.log.Warn("the folder for backups has no hard links: each backup takes the space of all files",
			"folder", r.folder)
	}
	r.log.Info("backed up", "to", path, "files", done.Files, "copied", done.Copied, "bytes", done.Bytes)
	done.Dest, r.done = path, done
	made.At, made.Path = began, path
	return made, r.step("named")
}

// taken reports whether a backup has the name of a time.
func (r *run) taken(at time.Time) bool {
	_, err := os.Lstat(filepath.Join(r.folder, at.Format(nameLayout)))
	return err == nil
}

// former is the folder of the backup whose contents the next one links; "" is none. They are doubted,
// and read before they are linked, if the newest backup was found damaged: others have the same files.
func (r *run) former() (folder string, doubted bool) {
	all := credible(r.all, r.now())
	if len(all) == 0 {
		return "", false
	}
	i := max(slices.IndexFunc(all, datadir.Backup.Sound), 0)
	return all[i].Path, !all[0].Sound()
}

// incomplete is what is wrong with a backup that lacks files.
func incomplete(done *ops.BackedUp) string {
	n, first := len(done.Missing), done.Missing[0]
	areNot := record.Plural(n, "file") + console.Word(n == 1, " is", " are")
	if done.Store != "" {
		return fmt.Sprintf("%s not in it, because they are not on this disk; the server needs --store %s.",
			areNot, done.Store)
	}
	return fmt.Sprintf("%s not in it, such as %s: %s. kist verify names them.",
		areNot, console.Printable(first.Name), first.Why)
}

// lacking says that a backup was made that lacks files.
type lacking struct{ text string }

func (l *lacking) Error() string { return "the backup is incomplete: " + l.text }

// explain says what to do about an error.
func (r *run) explain(err error) error {
	if errors.As(err, new(*ops.NoRoom)) {
		return fmt.Errorf("%w, or keep fewer backups with --backup-keep", err)
	}
	if workcopy.NoRoom(err) {
		return fmt.Errorf("there is no room left in %s (%w); use a larger disk, or keep fewer backups "+
			"with --backup-keep", r.folder, err)
	}
	return err
}

// checkWhole reads all of the new backup, if no good one was read as a whole for a month. It
// restores the backup beside the others if there is space for it.
func (r *run) checkWhole(made datadir.Backup) error {
	var incomplete error
	if !made.OK() {
		incomplete = &lacking{made.Error}
	}
	recent := func(b datadir.Backup) bool {
		age := r.now().Sub(b.Whole)
		return b.Sound() && !b.Whole.IsZero() && age < wholeEvery && age > -wholeEvery
	}
	if slices.ContainsFunc(r.all, recent) {
		return incomplete
	}

	if err := r.step("restore"); err != nil {
		return err
	}
	how, err := r.rehearse(made)
	if ended := r.job.Ended(); ended != nil {
		return ended
	}
	n := made
	n.Checked = r.now().UTC().Truncate(time.Millisecond)
	if err != nil {
		n.Error, n.Missing = fmt.Sprintf("It was %s, and %v.", how, err), 0 // it is not sound
		failed := r.note(n)
		if failed != nil {
			return errors.Join(err, failed)
		}
		failed = r.blame(made, err)
		return errors.Join(fmt.Errorf("the backup of %s was %s, and %w", made.At.Format(time.RFC3339), how, err), failed)
	}

	n.Whole = n.Checked
	if err := r.note(n); err != nil {
		return err
	}
	r.log.Info("all of a backup was read and is intact", "backup", made.Path, "how", how)
	return incomplete
}

// note writes down what is known of a backup now.
func (r *run) note(b datadir.Backup) error {
	if err := note(b.Path, b); err != nil {
		return err
	}
	i := slices.IndexFunc(r.all, func(one datadir.Backup) bool { return one.Path == b.Path })
	r.all[i] = b
	return nil
}

// blame notes that the other backups that share a damaged file with one are damaged too.
func (r *run) blame(made datadir.Backup, found error) error {
	var damage *ops.Incomplete
	if !errors.As(found, &damage) {
		return nil
	}
	var failed []error
	for _, b := range slices.Clone(r.all) {
		shares := func(l ops.Lost) bool { return sameContent(made.Path, b.Path, l.Content) }
		if b.Path == made.Path || !b.Sound() || !slices.ContainsFunc(damage.Missing, shares) {
			continue
		}
		n := b
		n.Error, n.Missing = "It shares a file with the backup of "+made.At.Format(time.RFC3339)+", which is damaged.", 0
		failed = append(failed, r.note(n))
	}
	return errors.Join(failed...)
}

// sameContent reports whether two backups have the content in one file.
func sameContent(one, other, name string) bool {
	ref, err := blobs.ParseRef(name)
	if err != nil {
		return false
	}
	path := filepath.Join("blobs", ref.String()[:2], ref.String())
	a, err := os.Stat(filepath.Join(one, path))
	if err != nil {
		return false
	}
	b, err := os.Stat(filepath.Join(other, path))
	return err == nil && os.SameFile(a, b)
}

// rehearse reads all of a backup. how says what was done with it.
func (r *run) rehearse(made datadir.Backup) (how string, err error) {
	if r.hasRoom(made.Size) {
		err := r.restore(made)
		if !workcopy.NoRoom(err) || r.job.Ended() != nil {
			return "restored into a folder beside it", err
		}
	}
	r.log.Info("there is no room to restore a backup for a check: all of it is read in its place", "backup", made.Path)
	return "read", r.job.ReadAll(made.Path, made.Digest, made.Missing)
}

// restore restores a backup into a folder that is removed then.
func (r *run) restore(made datadir.Backup) error {
	work, err := disk.NewScratch(r.folder, scratchTag)
	if err != nil {
		return err
	}
	into := filepath.Join(work.Path, "data")
	return errors.Join(r.job.Rehearse(made.Path, into, made.Digest, made.Missing), work.Close())
}

// hasRoom reports whether something of a size fits into the folder, and a tenth of the disk stays
// free.
func (r *run) hasRoom(size int64) bool {
	room, err := r.job.Space(r.folder)
	if err != nil {
		return true // a full disk will say so itself
	}
	need := uint64(max(size, 0))
	return room.Free > need+need/8 && room.Free-need-need/8 > room.Total/10
}

// prune removes the backups that need not be kept, the oldest first. Those that a wrong clock has put
// into the future take nobody's place, and stay.
func (r *run) prune() error {
	if r.keep == (Keep{}) {
		return nil
	}
	for _, b := range r.keep.Beyond(credible(r.all, r.now()), r.zone) {
		if err := r.step("remove"); err != nil {
			return err
		}
		err := r.remove(b)
		if ended := r.job.Ended(); ended != nil {
			return ended
		}
		if err != nil {
			r.log.Warn("an old backup could not be removed", "backup", b.Path, "error", err)
			continue
		}
		r.log.Info("an old backup was removed", "backup", b.Path)
	}
	return nil
}

// remove removes a backup. It loses its name first.
func (r *run) remove(b datadir.Backup) error {
	folder, name := filepath.Split(b.Path)
	aside := filepath.Join(folder, removingTag+name)
	if err := os.Rename(b.Path, aside); err != nil {
		return err
	}
	r.all = slices.DeleteFunc(r.all, func(one datadir.Backup) bool { return one.At.Equal(b.At) })
	if err := syncNames(r.folder); err != nil {
		return err
	}
	return removeAll(aside, r.job.Ended)
}

// quiet is a job of a server: it shows no progress.
func quiet(j ops.Job) ops.Job {
	j.Stderr = io.Discard
	return spacious(j)
}

// spacious is a job that knows how to ask a disk for its space.
func spacious(j ops.Job) ops.Job {
	if j.Space == nil {
		j.Space = disk.Space
	}
	return j
}
