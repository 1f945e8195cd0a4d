package workcopy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"kist/blobs/disk"
	"kist/kv/journal"
	"kist/kv/table"
)

// ChildEnv is the environment variable that makes a process read a working copy that
// may be torn: see Child.
const ChildEnv = "KIST_INTERNAL_READ_COPY"

// order is the value of that variable, as JSON.
type order struct {
	From    string         `json:"from"` // the bbolt file
	Buckets *table.Buckets `json:"buckets"`
	To      string         `json:"to"` // the folder for the new journal; if "", the digest is printed
}

// ExitNoRoom is the exit code of that process if it has no room for its output. It
// says nothing about the working copy.
const ExitNoRoom = 3

// childMemory bounds the memory for reading a working copy, in bytes. Reading needs
// very little unless the pages of a torn file form a cycle.
const childMemory = 512 << 20

// Child does not return in a process that was started to read an unproven working
// copy; in any other process it does nothing. Reading a torn bbolt file can panic,
// fault or hang. Programs that call Repair must call Child first.
func Child() {
	text, got := os.LookupEnv(ChildEnv)
	if !got {
		return
	}
	go Guard()
	if err := obey(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if NoRoom(err) {
			os.Exit(ExitNoRoom)
		}
		os.Exit(1)
	}
	os.Exit(0)
}

// obey does what an order in JSON says.
func obey(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	return export(o)
}

// Guard ends the process when it uses more memory than reading a working copy may.
func Guard() {
	debug.SetMemoryLimit(childMemory / 2)
	used := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for range time.Tick(10 * time.Millisecond) {
		metrics.Read(used)
		if used[0].Value.Uint64() > childMemory {
			fmt.Fprintln(os.Stderr, "reading it takes too much memory")
			os.Exit(1)
		}
	}
}

// export writes a working copy as a journal with one snapshot, of record 1. The
// checksums in the journal show a reader that it is whole.
func export(o order) error {
	info, err := os.Lstat(o.From)
	if err != nil {
		return err
	}
	db, err := bolt.Open(o.From, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return err
	}
	return db.View(func(tx *bolt.Tx) error {
		at := journal.State{Seq: 1}
		var scratch []byte
		size := int64(0)
		for op := range Everything(table.On(tx, 0), o.Buckets) {
			scratch = at.Digest.Add(op, scratch)
			size += int64(len(scratch))
			if size > info.Size() {
				return errors.New("its pages form a cycle")
			}
		}
		if o.To == "" {
			_, err := fmt.Printf("%016x", uint64(at.Digest))
			return err
		}
		return WriteJournal(o.To, tx, o.Buckets, at)
	})
}

// errTorn says that a working copy cannot be read.
var errTorn = errors.New("cache/kist.db cannot be read")

// A CopyReader reads working copies in another process.
type CopyReader struct {
	Buckets *table.Buckets
	Env     []string      // further environment variables of that process; for tests
	Timeout time.Duration // for reading; 0 means one that depends on the size
}

// Read makes another process read the working copy and write it as a journal into the
// folder to. It returns the digest. The error is errTorn if the copy cannot be read,
// fs.ErrNotExist if there is none, and ENOSPC if the folder has no room.
func (r *CopyReader) Read(from, to string) (digest journal.Digest, err error) {
	if _, err := r.run(from, to); err != nil {
		return 0, err
	}
	j, err := journal.Read(to, Format)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%w: the process that should read it wrote nothing", errTorn)
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errTorn, err)
	}
	defer j.Close()
	done, err := j.Replay(func() error { return nil }, func([]journal.Op) error { return nil })
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errTorn, err)
	}
	return done.Digest, nil
}

// CopyDigest makes another process read the working copy and returns its digest.
func CopyDigest(from string, buckets *table.Buckets) (journal.Digest, error) {
	if os.Getenv(ChildEnv) != "" {
		return 0, errors.New("this process is already the one that reads a working copy")
	}
	said, err := (&CopyReader{Buckets: buckets}).run(from, "")
	if err != nil {
		return 0, err
	}
	digest, err := strconv.ParseUint(said, 16, 64)
	return journal.Digest(digest), err
}

// run makes another process read the working copy and returns its output. Its errors
// are those of Read.
func (r *CopyReader) run(from, to string) (printed string, err error) {
	info, err := os.Lstat(from)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%w: it is not a regular file", errTorn)
	}
	if info.Size() == 0 {
		return "", fs.ErrNotExist
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("%w: %w", errTorn, err)
	}
	text, err := json.Marshal(order{From: from, To: to, Buckets: r.Buckets})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.patience(info.Size()))
	defer cancel()
	cmd := exec.CommandContext(ctx, self) // #nosec G204 -- the program itself
	cmd.Env = append(append(os.Environ(), r.Env...), ChildEnv+"="+string(text))
	var out, said tail
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &said, time.Second
	switch err := cmd.Run(); {
	case err != nil && cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == ExitNoRoom:
		return "", fmt.Errorf("there is no room to read cache/kist.db into %s: %w", filepath.Dir(to), syscall.ENOSPC)
	case ctx.Err() != nil:
		return "", fmt.Errorf("%w: reading it took too long", errTorn)
	case err != nil:
		line, _, _ := strings.Cut(strings.TrimSpace(string(said.b)), "\n")
		return "", fmt.Errorf("%w: %w: %s", errTorn, err, line)
	}
	return string(out.b), nil
}

// patience returns how long reading a working copy of the given size may take.
func (r *CopyReader) patience(size int64) time.Duration {
	if r.Timeout > 0 {
		return r.Timeout
	}
	return time.Minute + time.Duration(size>>20)*time.Second/4
}

// tail keeps the first 1000 bytes written to it.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p[:min(len(p), max(0, 1000-len(t.b)))]...)
	return len(p), nil
}

// WriteJournal makes a journal that begins with a snapshot of the transaction.
func WriteJournal(path string, tx *bolt.Tx, buckets *table.Buckets, at journal.State) (err error) {
	if err := disk.MakeFolder(path); err != nil {
		return err
	}
	j, err := journal.Open(path, Format)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()

	if err := j.Begin(at); err != nil {
		return err
	}
	return j.Snapshot(context.Background(), at, Format, Everything(table.On(tx, 0), buckets))
}
