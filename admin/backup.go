package admin

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/term"

	"kist/admin/console"
	"kist/admin/exit"
	"kist/blobs"
	"kist/blobs/disk"
	"kist/kv"
	"kist/kv/journal"
)

type backupCommand struct {
	scratchFlag
	Dest string `arg:"" placeholder:"DEST" help:"A folder, a file that ends in .tar, or - for a tar on standard output. A folder that holds a backup is brought up to date."`
}

type restoreCommand struct {
	Source  string `arg:"" placeholder:"SRC" help:"A backup or a copy of a data directory: a folder, a file that ends in .tar, or - for a tar on standard input."`
	Missing bool   `help:"Put back only the content of files that are missing or damaged, and change nothing else. The server may be running."`
}

// BackedUp is what a backup or a restore holds.
type BackedUp struct {
	Dest    string `json:"dest"`
	Seq     uint64 `json:"seq"`
	Digest  string `json:"digest"`
	Files   int    `json:"files"`  // contents in it
	Copied  int    `json:"copied"` // contents that were not there before
	Bytes   int64  `json:"bytes"`  // copied
	Missing []Lost `json:"missing"`
}

// backupMark is the file in a data directory whose time is that of the latest
// backup.
const backupMark = "BACKUP"

// A backup is made without the server: a copy of the journal is whole whenever
// it is made, and contents are immutable. Nothing waits for it.
func (cmd *backupCommand) Run(c *Call) error {
	if there, err := hasData(c.DataDir); err != nil {
		return err
	} else if !there {
		return exit.Absent("data directory at", c.DataDir)
	}
	if err := kv.Readable(c.DataDir); err != nil { // before anything is written
		return err
	}
	where := within(c.DataDir)
	switch {
	case cmd.Dest == "-":
		if f, ok := c.Stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return exit.Misused("a tar is not for the terminal; send it somewhere, such as: kist backup - > kist.tar")
		}
	case strings.HasSuffix(cmd.Dest, ".tar"):
		where = place{filepath.Dir(cmd.Dest), hiddenScratch}
	default:
		if err := c.usable(cmd.Dest); err != nil {
			return fmt.Errorf("no backup was made: %w", err)
		}
		// The folder's parent must be there: a disk that is not mounted must not be
		// replaced by a new folder on the system's disk.
		if err := os.Mkdir(cmd.Dest, 0o700); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("no backup was made: there is no folder at %s; create it, or mount the disk that should be there", filepath.Dir(filepath.Clean(cmd.Dest)))
		} else if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("no backup was made: %w", err)
		}
		defer os.Remove(cmd.Dest) //nolint:errcheck // which does so only if nothing came to be in it
		where = place{cmd.Dest, hiddenScratch}
	}
	work, err := newScratch(cmd.Scratch, where)
	if err != nil {
		return fmt.Errorf("no backup was made: %w", err)
	}
	defer work.Close() //nolint:errcheck // the next run removes what is left
	b, err := c.freeze(c.DataDir, work.Path)
	if err != nil {
		return err
	}
	defer b.close()
	switch {
	case cmd.Dest == "-":
		err = b.writeTar(c.Stdout)
	case strings.HasSuffix(cmd.Dest, ".tar"):
		err = b.toTar(cmd.Dest)
	default:
		err = b.toFolder(cmd.Dest)
	}
	if err != nil {
		return fmt.Errorf("no backup was made: %w", err)
	}
	if len(b.sum.Missing) > 0 {
		return b.report(cmd.Dest, "Backed up")
	}
	if err := os.WriteFile(filepath.Join(c.DataDir, backupMark), []byte(time.Now().UTC().Format(time.RFC3339)+"\n"), 0o600); err != nil {
		c.Log.Warn("the time of the backup is not noted", "error", err)
	}
	return b.report(cmd.Dest, "Backed up")
}

// report says what was copied.
func (b *frozen) report(dest, what string) error {
	b.sum.Dest = dest
	to, proof := " to "+dest, " All of it was read back and is intact."
	if dest == "-" {
		to, proof = "", ""
	}
	if len(b.sum.Missing) > 0 {
		proof = " It is not whole."
	}
	text := fmt.Sprintf("%s%s: %s, %d of them (%s) copied now; state %s.%s", what, to, console.Count(b.sum.Files, "file"), b.sum.Copied, console.Bytes(b.sum.Bytes), b.sum.Digest, proof)
	for _, m := range b.sum.Missing {
		text += fmt.Sprintf("\nFile %s (%s) is not in it: %s.", m.ID, console.Printable(m.Name), m.Why)
	}
	out := *b.c
	if dest == "-" {
		out.Stdout = out.Stderr // the other is the tar
	}
	if err := out.say(b.sum, "%s", text); err != nil {
		return err
	}
	if n := len(b.sum.Missing); n > 0 {
		return bytesMissing(n)
	}
	return nil
}

// frozen is a data directory as it was at one moment.
type frozen struct {
	c       *Call
	scratch string // has a copy of the journal
	parts   []journal.Part
	i       *kv.Inspection
	blobs   *blobs.Store
	sum     BackedUp
}

func (b *frozen) close() {
	if b.i != nil {
		_ = b.i.Close() // a file in scratch
	}
	if b.blobs != nil {
		_ = b.blobs.Close()
	}
}

// freeze copies the journal of a data directory into the folder scratch, which
// stays the caller's, and reads the copy.
func (c *Call) freeze(dir, scratch string) (_ *frozen, err error) {
	b := &frozen{c: c, scratch: scratch, sum: BackedUp{Missing: []Lost{}}}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	j, err := journal.Read(filepath.Join(dir, "journal"), kv.Format)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Absent("journal in", dir)
	}
	if err != nil {
		return nil, err
	}
	defer j.Close()
	if b.parts, err = j.Files(); err != nil {
		return nil, err
	}
	onDisk, raw := sizes(b.parts)
	if err := room(scratch, onDisk+workingCopies*raw); err != nil {
		return nil, err
	}
	to, err := disk.OpenFolder(filepath.Join(b.scratch, "journal"))
	if err != nil {
		return nil, err
	}
	defer to.Close()
	for _, p := range b.parts {
		if err := to.Publish(p.Name, func(w io.Writer) error { return j.Copy(w, p) }); err != nil {
			return nil, err
		}
	}
	var problems []error
	if b.i, err = kv.Inspect(b.scratch, b.scratch, func(int64) {}, func(err error) { problems = append(problems, err) }); err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("%s is damaged: %w; kist verify tells more", dir, problems[0])
	}
	b.sum.Seq, b.sum.Digest = b.i.Seq, fmt.Sprintf("%016x", uint64(b.i.Digest))
	b.blobs, err = blobs.Read(filepath.Join(dir, "blobs"))
	if errors.Is(err, fs.ErrNotExist) { // nothing was ever uploaded
		if err = os.Mkdir(filepath.Join(b.scratch, "blobs"), 0o700); err == nil {
			b.blobs, err = blobs.Read(filepath.Join(b.scratch, "blobs"))
		}
	}
	return b, err
}

// each hands over the contents that the frozen store has, with their size, and
// notes those that cannot be read. copy says whether it was there already.
func (b *frozen) each(what string, copy func(ref blobs.Ref, n int64, p *console.Progress) (had bool, err error)) error {
	return b.i.View(func(tx *kv.Tx) error {
		total := int64(0)
		for _, n := range tx.Contents() {
			total += n
		}
		p := b.c.progress(what, total)
		defer p.End()
		for ref, n := range tx.Contents() {
			had, err := copy(ref, n, p)
			var why string
			switch {
			case errors.Is(err, fs.ErrNotExist):
				why = "its bytes are missing"
			case errors.Is(err, blobs.ErrDamaged):
				why = "its bytes are damaged"
			case err != nil:
				return err
			default:
				b.sum.Files++
				if !had {
					b.sum.Copied++
					b.sum.Bytes += n
				}
				continue
			}
			for _, r := range tx.Having(ref) {
				b.sum.Missing = append(b.sum.Missing, Lost{ID: r.ID, Name: r.Name, Content: blobs.Ref(ref).String(), Why: why})
			}
		}
		return nil
	})
}

// toFolder makes the folder a backup, or brings one up to date. At every
// moment on the way it is a whole backup, the old one or the new.
func (b *frozen) toFolder(dest string) error {
	if err := b.older(dest); err != nil {
		return err
	}
	to, err := blobs.Open(filepath.Join(dest, "blobs"))
	if err != nil {
		return err
	}
	defer to.Close()
	// Bytes before the records that have them.
	if err := b.each("Copying the files", func(ref blobs.Ref, n int64, p *console.Progress) (bool, error) {
		if to.Check(ref) == nil { // read: a disk forgets, too
			p.Add(n)
			return true, nil
		}
		if err := b.copyContent(to, ref, p); err != nil {
			return false, err
		}
		return false, to.Check(ref)
	}); err != nil {
		return err
	}
	instance, err := b.i.Instance()
	if err == nil {
		err = kv.WriteInstance(dest, instance)
	}
	if err == nil {
		err = b.copyJournal(dest)
	}
	if err != nil {
		return err
	}
	return b.i.View(func(tx *kv.Tx) error {
		_, err := to.Sweep(context.Background(), time.Now(), func(ref blobs.Ref) (bool, error) { return !tx.Referenced(ref), nil })
		return err
	})
}

// usable refuses a destination that is something else than a backup.
func (c *Call) usable(dest string) error {
	here, err := filepath.Abs(c.DataDir)
	there, err2 := filepath.Abs(dest)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if there == here || strings.HasPrefix(there, here+string(filepath.Separator)) {
		return fmt.Errorf("%s is in the data directory; name a folder elsewhere, best on another disk", dest)
	}
	entries, err := os.ReadDir(dest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dest, "LOCK")); err == nil {
		return fmt.Errorf("%s is a data directory that kist has run on; name another folder", dest)
	}
	for _, e := range entries {
		if name := e.Name(); name != "journal" && name != "blobs" && name != kv.InstanceName && !strings.HasPrefix(name, hiddenScratch) {
			return fmt.Errorf("%s has things in it that are no backup of kist, such as %s; name another folder", dest, console.Printable(name))
		}
	}
	return nil
}

// older refuses to write over a backup of another instance, or over one that
// has more than there is now: an empty data directory in the place of a disk
// that is not mounted must not cost the backup.
func (b *frozen) older(dest string) error {
	there, seq, err := kv.Origin(dest)
	if errors.Is(err, fs.ErrNotExist) || err == nil && seq == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the backup in %s cannot be read (%w); name another folder", dest, err)
	}
	mine, now, err := kv.Origin(b.scratch)
	switch {
	case err != nil:
		return err
	case there != mine:
		return fmt.Errorf("%s is a backup of another instance; name another folder", dest)
	case seq > now:
		return fmt.Errorf("%s is a backup of a later state (%d commits) than the data directory has (%d); name another folder", dest, seq, now)
	}
	return nil
}

// copyContent copies one content and proves it by its hash on the way.
func (b *frozen) copyContent(to *blobs.Store, ref blobs.Ref, p *console.Progress) error {
	f, err := b.blobs.Get(ref)
	if err != nil {
		return err
	}
	defer f.Close()
	return keep(to, ref, io.TeeReader(f, p))
}

// keep stores what r has under ref, if that is its hash.
func keep(to *blobs.Store, ref blobs.Ref, r io.Reader) error {
	stage, err := to.Stage()
	if err != nil {
		return err
	}
	defer stage.Drop() //nolint:errcheck // what cannot be removed now is removed by the next sweep
	if _, err := stage.ReadFrom(r); err != nil {
		return err
	}
	if got := stage.Ref(); got != ref {
		return fmt.Errorf("%s hashes to %s: %w", ref, got, blobs.ErrDamaged)
	}
	kept, err := stage.Keep()
	if err != nil {
		return err
	}
	kept.Release()
	return nil
}

// copyJournal puts the journal in the place of the one that is there.
func (b *frozen) copyJournal(dest string) error {
	from, err := disk.ReadFolder(filepath.Join(b.scratch, "journal"))
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := disk.OpenFolder(filepath.Join(dest, "journal"))
	if err != nil {
		return err
	}
	defer to.Close()
	mine := map[string]bool{}
	// Logs first: a snapshot is used when it is there, and needs its log.
	for i := len(b.parts) - 1; i >= 0; i-- {
		name := b.parts[i].Name
		mine[name] = true
		if err := to.Publish(name, func(w io.Writer) error {
			f, err := from.Read(name)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.Copy(w, f)
			return err
		}); err != nil {
			return err
		}
	}
	if err := b.check(filepath.Join(dest, "journal")); err != nil { // before the old one goes
		return err
	}
	names, err := to.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !mine[name] {
			err = errors.Join(err, to.Remove(name))
		}
	}
	return errors.Join(err, to.Sync())
}

// check reads a copy of the journal back.
func (b *frozen) check(path string) error {
	j, err := journal.Read(path, kv.Format)
	if err != nil {
		return err
	}
	defer j.Close()
	done, err := j.Replay(func() error { return nil }, func([]journal.Op) error { return nil })
	if err == nil && done.State != b.i.State {
		err = errors.New("the copy of the journal is not what was written")
	}
	return err
}

// toTar writes a tar beside the file, reads it back, and gives it the name.
func (b *frozen) toTar(dest string) error {
	beside, err := disk.NewScratch(filepath.Dir(dest), hiddenScratch)
	if err != nil {
		return err
	}
	defer beside.Close() //nolint:errcheck // the next run removes what is left
	onDisk, _ := sizes(b.parts)
	if err := room(beside.Path, onDisk+b.contents()); err != nil {
		return err
	}
	temp := filepath.Join(beside.Path, "backup.tar")
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = b.writeTar(f)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = b.checkTar(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, dest); err != nil {
		return err
	}
	dir, err := disk.ReadFolder(filepath.Dir(dest))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// contents is how many bytes the contents have.
func (b *frozen) contents() (total int64) {
	_ = b.i.View(func(tx *kv.Tx) error { // which returns what the function does
		for _, n := range tx.Contents() {
			total += n
		}
		return nil
	})
	return total
}

// writeTar writes the journal and the contents.
func (b *frozen) writeTar(w io.Writer) error {
	t := tar.NewWriter(w)
	now := time.Now().Truncate(time.Second)
	put := func(name string, n int64, r io.Reader) error {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: n, Mode: 0o600, ModTime: now}); err != nil {
			return err
		}
		_, err := io.Copy(t, r)
		return err
	}
	instance, err := b.i.Instance()
	if err != nil {
		return err
	}
	text, err := kv.InstanceText(instance)
	if err == nil {
		err = put(kv.InstanceName, int64(len(text)), bytes.NewReader(text))
	}
	if err != nil {
		return err
	}
	for _, p := range b.parts {
		f, err := os.Open(filepath.Join(b.scratch, "journal", p.Name))
		if err != nil {
			return err
		}
		if err := errors.Join(put("journal/"+p.Name, p.Size, f), f.Close()); err != nil {
			return err
		}
	}
	if err := b.each("Writing the files", func(ref blobs.Ref, n int64, p *console.Progress) (bool, error) {
		if err := b.blobs.Check(ref); err != nil { // before it is in the tar
			return false, err
		}
		f, err := b.blobs.Get(ref)
		if err != nil {
			return false, err
		}
		defer f.Close()
		return false, put("blobs/"+ref.String()[:2]+"/"+ref.String(), n, io.TeeReader(f, p))
	}); err != nil {
		return err
	}
	return t.Close()
}

// checkTar reads a tar back.
func (b *frozen) checkTar(r io.Reader) error {
	aside := filepath.Join(b.scratch, "check")
	if err := os.Mkdir(aside, 0o700); err != nil {
		return err
	}
	files := 0
	if err := unpack(r, filepath.Join(aside, "journal"), func(ref blobs.Ref, r io.Reader) error {
		files++
		return blobs.CheckBytes(ref, r)
	}); err != nil {
		return err
	}
	if files != b.sum.Files {
		return fmt.Errorf("the tar has %d files and should have %d", files, b.sum.Files)
	}
	return b.check(filepath.Join(aside, "journal"))
}

// Names in a tar: what may come before them is cut off, as a tar of a data
// directory may have the folder's own name in front.
var (
	journalEntry = regexp.MustCompile(`^(|.*/)journal/((?:log|snap)-[0-9a-f]{16})$`)
	contentEntry = regexp.MustCompile(`^(|.*/)blobs/[0-9a-f]{2}/([0-9a-f]{64})$`)
)

// unpack puts the journal of a tar into a folder and hands its contents to
// content. Everything else in the tar is passed over.
func unpack(r io.Reader, folder string, content func(blobs.Ref, io.Reader) error) error {
	to, err := disk.OpenFolder(folder)
	if err != nil {
		return err
	}
	defer to.Close()
	t := tar.NewReader(r)
	root, seen := "", map[string]bool{}
	for whole := false; ; {
		h, err := t.Next()
		if err == io.EOF && !whole {
			return errors.New("there is no journal in it, so it is no backup of kist")
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read the tar: %w", err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		name := path.Clean(h.Name)
		m, journal := journalEntry.FindStringSubmatch(name), true
		if m == nil {
			m, journal = contentEntry.FindStringSubmatch(name), false
		}
		switch {
		case m == nil:
			continue
		case len(seen) == 0:
			root = m[1]
		case m[1] != root: // a backup within the backup
			continue
		}
		if seen[m[2]] {
			return fmt.Errorf("the tar has %s twice", console.Printable(name))
		}
		seen[m[2]] = true
		if journal {
			whole = true
			err = to.Create(m[2], t)
		} else {
			var ref blobs.Ref
			if ref, err = blobs.ParseRef(m[2]); err == nil {
				err = content(ref, t)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", console.Printable(h.Name), err)
		}
	}
}

// A restore is made in a folder of its own inside of the data directory and
// moved into place when it is whole.
func (cmd *restoreCommand) Run(c *Call) error {
	if cmd.Missing {
		return cmd.heal(c)
	}
	empty := func() error {
		entries, err := os.ReadDir(c.DataDir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot look into the data directory: %w", err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), restoring) {
				return fmt.Errorf("the data directory %s is not empty; name an empty one with --data-dir, or move this one away first", c.DataDir)
			}
		}
		return nil
	}
	if err := empty(); err != nil {
		return err
	}
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return fmt.Errorf("cannot make the data directory: %w", err)
	}
	work, err := disk.NewScratch(c.DataDir, restoring) // which removes those that were cut short
	if err != nil {
		return fmt.Errorf("cannot write to the data directory: %w", err)
	}
	defer work.Close() //nolint:errcheck // the next run, or the next start, removes what is left
	b, err := cmd.fill(c, work.Path)
	if err != nil {
		return fmt.Errorf("nothing was restored: %w", err)
	}
	defer b.close()
	if err := empty(); err != nil { // still
		return err
	}
	for _, name := range []string{"blobs", "journal"} { // without the journal it is no data directory
		if err := os.Rename(filepath.Join(work.Path, name), filepath.Join(c.DataDir, name)); err != nil {
			return fmt.Errorf("cannot move what was restored into place: %w", err)
		}
	}
	instance, err := b.i.Instance()
	if err == nil {
		err = kv.WriteInstance(c.DataDir, instance)
	}
	if err != nil {
		return err
	}
	d, err := disk.ReadFolder(c.DataDir)
	if err != nil {
		return err
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return err
	}
	return b.report(c.DataDir, "Restored "+cmd.Source)
}

// fill makes a data directory of the source, and reads it.
func (cmd *restoreCommand) fill(c *Call, work string) (*frozen, error) {
	content, err := blobs.Open(filepath.Join(work, "blobs"))
	if err != nil {
		return nil, err
	}
	defer content.Close()
	scratch := filepath.Join(work, "scratch")
	if err := os.Mkdir(scratch, 0o700); err != nil {
		return nil, err
	}
	var from *frozen
	if info, err := os.Stat(cmd.Source); err == nil && info.IsDir() {
		if from, err = c.freeze(cmd.Source, scratch); err != nil {
			return nil, err
		}
		if err = room(work, from.contents()); err == nil {
			err = from.copyJournal(work)
		}
		if err == nil {
			err = from.each("Copying the files", func(ref blobs.Ref, _ int64, p *console.Progress) (bool, error) {
				return false, from.copyContent(content, ref, p)
			})
		}
		if err == nil {
			err = from.check(filepath.Join(work, "journal"))
		}
		if err != nil {
			from.close()
			return nil, err
		}
		return from, nil
	}
	in := io.ReadCloser(c.Stdin)
	if cmd.Source != "-" {
		if in, err = os.Open(cmd.Source); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil, exit.Absent("backup at", cmd.Source)
			}
			return nil, err
		}
		defer in.Close()
	}
	p := c.progress("Reading the backup", 0)
	err = unpack(io.TeeReader(in, p), filepath.Join(work, "journal"), func(ref blobs.Ref, r io.Reader) error {
		if err := keep(content, ref, r); !errors.Is(err, blobs.ErrDamaged) { // it is listed with the missing ones
			return err
		}
		return nil
	})
	p.End()
	if err != nil {
		return nil, err
	}
	if from, err = c.freeze(work, scratch); err != nil {
		return nil, err
	}
	err = from.each("Checking the files", func(ref blobs.Ref, n int64, p *console.Progress) (bool, error) {
		info, err := content.Stat(ref)
		if err == nil && info.Size != n {
			err = blobs.ErrDamaged
		}
		p.Add(n)
		return false, err
	})
	if err != nil {
		from.close()
		return nil, err
	}
	return from, nil
}
