// Package workcopy builds, opens and reads the working copy: a bbolt file with the
// contents of the journal. The journal alone makes commits durable. When commits reach
// the working copy is decided in kv/behind.go.
package workcopy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"kist/kv/datadir"
	"kist/kv/journal"
	"kist/kv/table"
)

// Readable refuses a data directory with data of a newer version of kist. It changes,
// creates and locks nothing. It does not look for other problems.
func Readable(dir string) error {
	j, err := journal.Read(filepath.Join(dir, "journal"), Format)
	switch {
	case errors.As(err, new(*journal.Newer)):
		return err
	case err == nil:
		_ = j.Close() // nothing was written
	}

	_, err = datadir.ReadInstance(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, new(*datadir.Irregular)) {
		return nil
	}
	return err
}

// mapSize is how much address space the working copy gets at the start. Growing the
// map has to wait for all readers, including a background snapshot, and they wait for
// it. Address space costs nothing.
func mapSize() int {
	size := int64(256 << 20)
	if bits.UintSize == 64 && runtime.GOOS != "windows" { // Windows would make the file as long
		size = 8 << 30
	}
	return int(size) // on 32 bits the constant would not fit
}

// OpenCopy opens a bbolt file as a working copy, without syncing: the journal makes
// commits durable.
func OpenCopy(path string) (*bolt.DB, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{
		Timeout: time.Second, FreelistType: bolt.FreelistMapType, InitialMmapSize: mapSize(), NoSync: true, NoGrowSync: true,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", path, err)
	}
	return db, nil
}

// Current fails with Newer if the file has a newer format.
func Current(db *bolt.DB) error {
	return db.View(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(MetaBucket.Name))
		if b == nil {
			return nil
		}
		if v := b.Get(MetaFormat); len(v) == 4 && binary.BigEndian.Uint32(v) > Format {
			return &Newer{binary.BigEndian.Uint32(v)}
		}
		return nil
	})
}

// Newer is the error for a store in a format that this program does not know.
type Newer struct{ Format uint32 }

func (e *Newer) Error() string {
	return fmt.Sprintf("the data directory has format %d; this version of kist reads formats up to %d: "+
		"install the version that wrote it or a newer one (nothing was changed)", e.Format, Format)
}

// Inconsistent is the error for a journal that can be read but has impossible contents.
type Inconsistent string

func (e Inconsistent) Error() string { return string(e) }

// IsDamage reports whether the error is about the data in the journal and not about
// the disk or the system, so that a repair may help.
func IsDamage(err error) bool { return journal.IsDamage(err) || errors.As(err, new(Inconsistent)) }

// Harmed reports whether the error says that part of the journal is damaged or that
// the disk cannot read it.
func Harmed(err error) bool { return IsDamage(err) || errors.Is(err, journal.ErrRead) }

// Rebuild makes a working copy from the journal and replaces any file at the path. If
// it fails there is no file, unless damaged asks for the readable part of a damaged
// journal. tell is called with the share that is done, from 0 to 1; it may be nil.
func Rebuild(
	j *journal.Journal, path string, buckets *table.Buckets, damaged bool, tell func(share float64),
) (_ journal.Replayed, entries int, err error) {
	b := &Builder{Path: path, Buckets: buckets}
	if tell != nil {
		const reading = 0.4 // of the whole time
		total, err := j.Ahead()
		if err != nil {
			return journal.Replayed{}, 0, err
		}
		var read int64
		j.Watch(func(n int64) {
			read += n
			tell(reading * float64(min(read, total)) / float64(max(total, 1)))
		})
		defer j.Watch(nil)
		b.tell = func(n, of int) { tell(reading + (1-reading)*float64(n)/float64(of)) }
	}

	done, err := j.Replay(b.Start, b.Apply)
	if err != nil && !(damaged && Harmed(err)) {
		return done, 0, errors.Join(err, b.drop())
	}
	if b.db != nil { // there is something readable
		if failed := b.Finish(); failed != nil {
			return done, 0, errors.Join(failed, b.drop())
		}
	}
	if err != nil {
		return done, 0, errors.Join(err, b.Close())
	}

	entries, err = agrees(b.db, buckets, done.Digest)
	if err != nil && !damaged {
		return done, 0, errors.Join(err, b.drop())
	}
	return done, entries, errors.Join(err, b.Close())
}

// agrees checks that a new working copy has the format of this program and the digest of the
// journal, and counts its entries.
func agrees(db *bolt.DB, buckets *table.Buckets, digest journal.Digest) (entries int, err error) {
	if err := Current(db); err != nil {
		return 0, err
	}
	has, entries, err := ContentDigest(db, buckets)
	if err != nil {
		return entries, err
	}
	if has != digest {
		return entries, Inconsistent(fmt.Sprintf("the journal is damaged: its contents have the digest %016x "+
			"but should have %016x", uint64(has), uint64(digest)))
	}
	return entries, nil
}

// Remove removes a file. A missing file is not an error.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ContentDigest returns the digest of everything in a working copy.
func ContentDigest(db *bolt.DB, buckets *table.Buckets) (digest journal.Digest, entries int, err error) {
	err = db.View(func(tx *bolt.Tx) error {
		var scratch []byte
		for op := range Everything(table.On(tx, 0), buckets) {
			scratch = digest.Add(op, scratch)
			entries++
		}
		return nil
	})
	return digest, entries, err
}

// Everything yields all entries of the store.
func Everything(tx *table.Tx, buckets *table.Buckets) func(func(journal.Op) bool) {
	return func(yield func(journal.Op) bool) {
		for b := range buckets.All() {
			for k, v := range tx.Walk(b, nil, nil, false) {
				if !yield(journal.Op{Bucket: b.No, Key: k, Value: v}) {
					return
				}
			}
		}
	}
}

// MetaBucket holds the store's own data.
var MetaBucket = table.Bucket{No: 1, Name: "meta"}

// MetaFormat is the key in MetaBucket of the data format's version, a uint32.
var MetaFormat = []byte("format")

// carriedKey begins the keys in MetaBucket under which records carry contents, each
// with the ref of the content after it. A record sets and removes such a key, so that
// no store ever has it.
var carriedKey = []byte("content ")

// Carry makes a record carry the bytes of a content, whose SHA-256 is ref.
func Carry(r *journal.Record, ref [32]byte, b []byte) {
	key := append(bytes.Clone(carriedKey), ref[:]...)
	r.Add(journal.Op{Bucket: MetaBucket.No, Key: key, Value: b}, nil)
	r.Add(journal.Op{Bucket: MetaBucket.No, Key: key}, b)
}

// carries reports whether the change is a part of a carried content.
func carries(op journal.Op) bool {
	return op.Bucket == MetaBucket.No && len(op.Key) == len(carriedKey)+32 && bytes.HasPrefix(op.Key, carriedKey)
}

// Carried returns a function that passes the contents that a record carries to take.
// It takes the changes of the record: see Records of journal.Journal.
func Carried(take func(ref [32]byte, b []byte) error) func([]journal.Op) error {
	return func(ops []journal.Op) error {
		for _, op := range ops {
			if carries(op) && op.Value != nil {
				if err := take([32]byte(op.Key[len(carriedKey):]), op.Value); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// NoRoom reports whether an error says that the disk is full or a quota is used up.
func NoRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// MostMapped is how many bytes of files, including the program itself, long jobs may
// leave in this process's memory.
const MostMapped = 44 << 20

// Format is the version of the data format that this program writes.
const Format = 8
