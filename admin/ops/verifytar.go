package ops

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"kist/admin/exit"
	"kist/blobs"
	"kist/blobs/disk"
	"kist/blobs/sealed"
	"kist/kv"
	"kist/kv/catalog"
)

// VerifyTar does for a tar what Verify does for a folder. The files are hashed while the tar is read, so only the
// journal needs temporary space. The error is exit.Found for a tar that was cut short, altered or extended.
func (j Job) VerifyTar(source Source) (*Verified, error) {
	in, err := source.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Absent("backup at", source.Path)
	}
	if err != nil {
		return nil, broken(err)
	}
	defer in.Close()
	work, err := j.scratchFor(source)
	if err != nil {
		return nil, err
	}
	defer work.Close() //nolint:errcheck // the next run removes what is left

	there, err := j.hashes(in, work.Path)
	if err != nil {
		return nil, broken(err)
	}
	j.Dir = work.Path
	v, snapshot, err := j.inspect(work.Path, work.Path, func(v *Verified, i *kv.Inspection) error {
		return i.View(func(tx *kv.Tx) error {
			v.compare(tx, there)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	err = v.carried(snapshot)
	v.Dir = source.name()
	return v, err
}

// broken makes damage to a tar something that was found.
func broken(err error) error {
	if errors.As(err, new(*brokenTar)) {
		return exit.Found("%v", err)
	}
	return err
}

// scratchFor makes the scratch folder for a tar: in the data directory, or beside the tar.
func (j Job) scratchFor(source Source) (*disk.Scratch, error) {
	usual := place{filepath.Dir(source.Path), hiddenScratch}
	there, err := HasData(j.Dir)
	switch {
	case err != nil:
		return nil, err
	case there:
		usual = within(j.Dir)
	case source.Path == "-" && j.Scratch == "":
		return nil, noScratch(j.Dir)
	}
	return newScratch(j.Scratch, usual)
}

// noScratch is the error of a command that has no place for temporary files which not everybody may see.
func noScratch(dir string) error {
	return exit.Misused("there is no data directory at %s; name a folder for temporary files with --scratch", dir)
}

// hashes writes the journal of a tar into the folder work, and returns the sizes of its files. It is -1 for one
// whose bytes have another hash than its name says.
func (j Job) hashes(in *opened, work string) (map[blobs.Ref]int64, error) {
	p := j.progress("Reading the backup", 0)
	defer p.End()
	there := map[blobs.Ref]int64{}
	to := filepath.Join(work, "journal")
	err := unpack(j.through(io.TeeReader(in, p)), in.name, to, func(ref blobs.Ref, r io.Reader) error {
		n := &counted{r: r}
		err := blobs.CheckBytes(ref, n)
		if errors.Is(err, blobs.ErrDamaged) && !errors.Is(err, sealed.ErrAltered) {
			there[ref] = -1
			return nil
		}
		there[ref] = n.n
		return err
	})
	if err != nil {
		return nil, err
	}
	return there, in.end()
}

// counted counts the bytes that are read.
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// compare notes what is wrong with the files of a tar, whose sizes are there.
func (v *Verified) compare(tx *kv.Tx, there map[blobs.Ref]int64) {
	for sum, n := range tx.Contents() {
		v.Contents++
		v.Bytes += n
		ref := blobs.Ref(sum)
		got, ok := there[ref]
		switch {
		case !ok:
			v.miss(tx, ref, "its bytes are missing")
		case got < 0:
			v.miss(tx, ref, "its bytes are damaged")
		case got != n:
			v.miss(tx, ref, fmt.Sprintf("its bytes are %d and should be %d", got, n))
		}
	}
	for ref := range there {
		if !catalog.Referenced(tx, ref) {
			v.Orphans++
		}
	}
}
