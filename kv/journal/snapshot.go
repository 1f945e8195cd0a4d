package journal

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
)

// A frame of a snapshot begins with its kind.
const (
	entriesFrame = 0 // about packTarget bytes of ops
	lastFrame    = 1 // number of entries (8), digest (8)
	packedFrame  = 2 // an entriesFrame whose ops are compressed; since layout 2
)

// writeSize is how many bytes of a file are written at once.
const writeSize = 256 << 10

// Snapshot writes the store's content at the state to a file that appears when
// it is complete. all yields the content in any order, and its data has the
// given format. A log that begins at the state must already exist, unless there
// are no logs. Data of an older format is for older programs and is not
// compressed, as they may not read compressed files.
func (j *Journal) Snapshot(ctx context.Context, at State, format uint32, all iter.Seq[Op]) error {
	if err := j.carried.settle(); err != nil {
		return fmt.Errorf("cannot write a snapshot: %w", err)
	}
	version := uint32(layout)
	if format < j.files.format {
		version = plainLayout
	}
	err := j.files.folder.Publish(fileName(snapName, at.Seq), func(file io.Writer) error {
		h := header{version, format, at, j.now().UnixMilli()}
		return writeSnapshot(ctx, bufio.NewWriterSize(file, writeSize), h, all)
	})
	if err != nil {
		return fmt.Errorf("cannot write a snapshot: %w", err)
	}
	return nil
}

// writeSnapshot writes a snapshot whose content must lead to the digest in the head.
func writeSnapshot(ctx context.Context, w *bufio.Writer, h header, all iter.Seq[Op]) error {
	if _, err := w.Write(h.append(nil, snapMagic)); err != nil {
		return err
	}

	s := &snapshotFrames{to: w, pack: h.layout != plainLayout}
	count, digest := uint64(0), Digest(0)
	s.begin(entriesFrame)
	for op := range all {
		start := len(s.frame)
		s.frame = op.append(s.frame)
		digest.add(s.frame[start:])
		count++
		if len(s.frame) < packTarget {
			continue
		}
		if err := s.entries(); err != nil {
			return err
		}
		s.begin(entriesFrame)
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	if len(s.frame) > frameHead+1 {
		if err := s.entries(); err != nil {
			return err
		}
	}
	if digest != h.Digest {
		return fmt.Errorf("the store has the digest %016x, and its journal %016x: "+
			"cache/kist.db does not have the data that was written", uint64(digest), uint64(h.Digest))
	}

	s.begin(lastFrame)
	s.frame = binary.BigEndian.AppendUint64(s.frame, count)
	s.frame = binary.BigEndian.AppendUint64(s.frame, uint64(digest))
	if _, err := w.Write(sealFrame(s.frame)); err != nil {
		return err
	}
	return w.Flush()
}

// snapshotFrames writes the frames of a snapshot.
type snapshotFrames struct {
	to    io.Writer
	pack  bool
	frame []byte // the one that is being filled

	packed, check []byte // reused by pack
}

func (s *snapshotFrames) begin(kind byte) {
	s.frame = append(append(s.frame[:0], make([]byte, frameHead)...), kind)
}

// entries writes a frame of entries, compressed if that is wanted and the frame is not too long.
func (s *snapshotFrames) entries() (err error) {
	if n := len(s.frame) - frameHead - 1; s.pack && n > 0 && n <= maxPacked {
		s.packed, s.check, err = pack(s.packed, s.check, s.frame[frameHead+1:])
		if err != nil {
			return err
		}
		s.frame = append(append(s.frame[:frameHead], packedFrame), s.packed...)
	}
	_, err = s.to.Write(sealFrame(s.frame))
	return err
}

// readSnapshot passes the entries of a snapshot to apply.
func (s *files) readSnapshot(seq uint64, apply func([]Op) error) (_ State, err error) {
	name := fileName(snapName, seq)
	f, r, h, err := s.open(name)
	if err != nil {
		return State{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()

	var count uint64
	var digest Digest
	var scratch []byte
	for {
		at := r.at
		payload, err := r.next()
		if err == io.EOF { //nolint:errorlint // a wrapped one is of a read, not the end
			err = fmt.Errorf("%w: it ends too early", errFrame)
		}
		if err != nil {
			return State{}, damaged(name, at, err)
		}
		if payload[0] == lastFrame {
			switch {
			case len(payload) != 17 || r.at != r.size:
				err = fmt.Errorf("%w: it does not end where it should", errFrame)
			case binary.BigEndian.Uint64(payload[1:]) != count,
				binary.BigEndian.Uint64(payload[9:]) != uint64(digest):
				err = fmt.Errorf("%w: its content does not match its end", errFrame)
			case h.Seq != seq || h.Digest != digest:
				err = fmt.Errorf("%w: its number does not match its name", errFrame)
			default:
				return h.State, nil
			}
			return State{}, damaged(name, at, err)
		}

		ops, err := r.ops(payload[1:])
		if err != nil {
			return State{}, damaged(name, at, err)
		}
		for _, op := range ops {
			scratch = digest.Add(op, scratch)
		}
		count += uint64(len(ops))
		if err := apply(ops); err != nil {
			return State{}, err
		}
	}
}

// ReadSnapshot passes the entries of a snapshot that is not in a folder to apply: the
// one of the state after a record, in a file of size bytes. format is the version of
// the data that this program reads. The error satisfies IsDamage if the snapshot is
// not whole.
func ReadSnapshot(file io.ReaderAt, size int64, seq uint64, format uint32, apply func([]Op) error) (State, error) {
	s := &files{folder: &lone{from: file, size: size}, format: format}
	name := fileName(snapName, seq)
	h, err := s.header(name)
	if err != nil {
		return State{}, err
	}
	if h.format > format {
		return State{}, &Newer{name, h.layout, h.format, format}
	}
	return s.readSnapshot(seq, apply)
}

// lone is a folder with one file, and that file. It can only be read.
type lone struct {
	Folder
	File
	from io.ReaderAt
	size int64
}

func (l *lone) Open(string) (File, error)                    { return l, nil }
func (l *lone) ReadAt(b []byte, at int64) (n int, err error) { return l.from.ReadAt(b, at) }
func (l *lone) Size() (int64, error)                         { return l.size, nil }
func (l *lone) Close() error                                 { return nil }
