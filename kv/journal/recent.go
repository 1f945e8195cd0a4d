package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// RecentName is the name of a file that is called recent here. It has the records
// at the end of the newest log a second time, from the byte base of that log on.
// It has a fixed size and is written over and over. A commit syncs only this file:
// a log grows, so syncing it also writes metadata of the file system. The records
// before base are on stable storage in the log. DESIGN.md has more.
//
// Programs see each record in the log before it is acknowledged, so a copy does
// not need recent. After a power cut the log may lack what recent has. A clean
// stop removes recent.
const RecentName = logName + "ffffffffffffffff"

const (
	recentLayout = 3
	recentHead   = 4096 // where its records begin; what comes before is the head, and zeros
	recentSums   = headerSize + headerSize + 8 + 8
)

// recentMark is the beginning of recent. Programs that do not know recent take it
// for a log of a newer layout and refuse the journal. Otherwise they would lose
// the records that recent alone may have. In the place of the checksum are zeros,
// which fit no layout that they know.
var recentMark = append(binary.BigEndian.AppendUint32([]byte(logMagic), recentLayout), make([]byte, headerSize-12)...)

// recentSize is how many bytes of records fit into recent. Tests make it smaller.
var recentSize int64 = 1 << 20

// openFile opens a file of the journal. What the newest log lacks after a
// power cut is read from recent.
func (s *files) openFile(name string) (File, error) {
	f, err := s.folder.Open(name)
	if err != nil || s.bare || !strings.HasPrefix(name, logName) {
		return f, err
	}
	mended, err := s.mend(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot read journal/%s: %w", RecentName, err), f.Close())
	}
	return mended, nil
}

// standIn adds the log to which recent belongs to g, and lets the survey read it, if its file is
// missing or its head is unreadable. The head of the log is in recent, too.
func (s *Survey) standIn(g *generations) error {
	recent, err := s.files.folder.Open(RecentName)
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, new(*Irregular)) {
		return nil
	}
	if err != nil {
		return err
	}
	defer recent.Close()
	head := make([]byte, recentSums+4)
	if _, err := recent.ReadAt(head, 0); err != nil {
		return unread(err)
	}

	sum := crc32.Checksum(head[:recentSums], castagnoli)
	own, err := parseHeader(head[headerSize:2*headerSize], logMagic)
	if err != nil || sum != binary.BigEndian.Uint32(head[recentSums:]) || !bytes.Equal(head[:headerSize], recentMark) {
		return nil //nolint:nilerr // what is in recent belongs to no log
	}
	name := fileName(logName, own.Seq)
	if _, err := s.files.header(name); err == nil || errors.As(err, new(*Newer)) {
		return nil //nolint:nilerr // openFile mends it
	}

	missing := !slices.Contains(g.logs, own.Seq)
	if missing && len(g.logs) > 0 && own.Seq < slices.Max(g.logs) { // an older one, which nothing needs
		return nil
	}
	if missing {
		s.harm(&Damaged{Name: name, Why: "it is missing", Lost: RecentName + " has its last records"})
		g.logs = append(g.logs, own.Seq)
		slices.Sort(g.logs)
	} else {
		s.harm(&Damaged{Name: name, Why: "its head cannot be read", Lost: RecentName + " has it, and the last records"})
	}
	s.files.folder = headed{
		Folder: s.files.folder, name: name, head: slices.Clone(head[headerSize : 2*headerSize]),
		base: int64(binary.BigEndian.Uint64(head[recentSums-16:])),
	}
	return nil
}

// headed is a folder in which a log has the given head, and at least base bytes. Bytes that its
// file lacks are zeros.
type headed struct {
	Folder
	name string
	head []byte
	base int64
}

func (h headed) Open(name string) (File, error) {
	f, err := h.Folder.Open(name)
	if name != h.name {
		return f, err
	}
	if err != nil {
		f = nil
	}
	return &headedFile{f, h}, nil
}

type headedFile struct {
	File // nil if there is none
	headed
}

func (f *headedFile) Size() (int64, error) {
	if f.File == nil {
		return f.base, nil
	}
	size, err := f.File.Size()
	return max(size, f.base), err
}

func (f *headedFile) ReadAt(b []byte, off int64) (int, error) {
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	n := int(min(int64(len(b)), max(size-off, 0)))
	clear(b[:n])
	if f.File != nil {
		if _, err := f.File.ReadAt(b[:n], off); unread(err) != nil {
			return 0, err
		}
	}
	if off < int64(len(f.head)) {
		copy(b[:n], f.head[off:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *headedFile) Close() error {
	if f.File == nil {
		return nil
	}
	return f.File.Close()
}

// mendedLog is a log to which recent belongs. Reading it returns the bytes of
// rest where they belong in the log.
type mendedLog struct {
	File
	base int64
	at   int64  // from where on recent decides
	rest []byte // the records of recent from there on
}

// mend returns the log with what recent has in addition, or the log itself if
// recent does not belong to it. A copy may have an older log or an older recent,
// which may end with a record that failed. So the one that reaches further
// decides. If both reach the same record, the log does.
func (s *files) mend(f File) (File, error) {
	recent, err := s.folder.Open(RecentName)
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, new(*Irregular)) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	defer recent.Close()

	head, own := make([]byte, recentSums+4), make([]byte, headerSize)
	if _, err := recent.ReadAt(head, 0); err != nil {
		return f, unread(err)
	}
	if _, err := f.ReadAt(own, 0); err != nil { // the caller reads it, too
		return f, nil //nolint:nilerr // see above
	}
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	sums := binary.BigEndian.Uint32(head[recentSums:])
	at := int64(binary.BigEndian.Uint64(head[recentSums-16:]))
	seq := binary.BigEndian.Uint64(head[recentSums-8:])
	whole := crc32.Checksum(head[:recentSums], castagnoli) == sums && bytes.Equal(head[:headerSize], recentMark)
	if !whole || !bytes.Equal(head[headerSize:recentSums-16], own) || at < headerSize || at > size {
		return f, nil
	}

	room, err := recent.Size()
	if err != nil {
		return nil, err
	}
	room = min(room, recentHead+recentSize)
	m := &mendedLog{File: f, base: at, at: at}
	rest, last, err := consecutive(recent, recentHead, room, seq)
	end, has := m.whole(size, seq)
	if err == nil && last > has {
		m.rest = rest
		return m, nil
	}
	m.at = end
	m.rest, _, err = consecutive(recent, recentHead+end-at, room, has)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// unread returns the error of a read, nil if the file was only too short.
func unread(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrRead, err)
}

// whole returns where the whole records of the log end that follow the one with
// the number seq, and the number of the last one.
func (m *mendedLog) whole(size int64, seq uint64) (end int64, last uint64) {
	r := &reader{file: m.File, at: m.base, size: size}
	for {
		end = r.at
		payload, err := r.frame()
		if err != nil || !claims(payload, seq, seq+1) {
			return end, seq
		}
		seq++
	}
}

// consecutive returns the frames of the whole records that follow the one with
// the number seq, and the number of the last one. It reads nothing after them
// but what may be the beginning of the next: other parts of recent may not be
// readable.
func consecutive(recent io.ReaderAt, at, end int64, seq uint64) (frames []byte, last uint64, err error) {
	var head [frameHead + stateSize]byte
	for end-at >= int64(len(head)) {
		if _, err := recent.ReadAt(head[:], at); err != nil {
			return frames, seq, unread(err)
		}
		n := frameHead + int64(binary.BigEndian.Uint32(head[:]))
		if n < int64(len(head)) || n > end-at || !claims(head[frameHead:], seq, seq+1) {
			break
		}
		frame := make([]byte, n)
		if _, err := recent.ReadAt(frame, at); err != nil {
			return frames, seq, unread(err)
		}
		if crc32.Checksum(frame[frameHead:], castagnoli) != binary.BigEndian.Uint32(frame[4:]) {
			break
		}
		frames = append(frames, frame...)
		at += n
		seq++
	}
	return frames, seq, nil
}

func (m *mendedLog) ReadAt(b []byte, off int64) (int, error) {
	n, err := m.File.ReadAt(b, off)
	from, to := max(off, m.at), min(off+int64(len(b)), m.at+int64(len(m.rest)))
	if from < to && from <= off+int64(n) {
		copy(b[from-off:to-off], m.rest[from-m.at:])
		n = max(n, int(to-off))
	}
	if n == len(b) {
		err = nil
	}
	return n, err
}

func (m *mendedLog) Size() (int64, error) {
	size, err := m.File.Size()
	return max(size, m.at+int64(len(m.rest))), err
}

// unmended returns what is wrong with the newest log, if recent mends it.
func (s *files) unmended(seq uint64, from State) error {
	f, err := s.openFile(fileName(logName, seq))
	if err != nil {
		return err
	}
	m, mended := f.(*mendedLog)
	if err := f.Close(); err != nil || !mended || len(m.rest) == 0 {
		return err
	}
	bare := files{folder: s.folder, format: s.format, bare: true}
	return bare.readLog(&Replayed{State: from}, seq, 0, nothing)
}

// keep puts the frame at the end of the log, which was just written, on stable
// storage.
func (j *Journal) keep(frame []byte) error {
	if j.recent == nil {
		return j.sync()
	}
	if int64(len(frame)) > recentSize {
		if err := j.flush(); err != nil {
			return err
		}
		j.aim(j.end+int64(len(frame)), j.at.Seq+1)
		return nil
	}

	j.stale = true
	if _, err := j.recent.WriteAt(frame, recentHead+j.end-j.base); err != nil {
		return err
	}
	if err := j.recent.Datasync(); err != nil {
		return err
	}
	j.stale = false
	return nil
}

// Drain syncs the log if recent is nearly full, so that no Append has to. If
// that fails, the first Append that finds no room in recent reports it.
func (j *Journal) Drain() {
	if j.recent != nil && !j.dirty && j.end-j.base > recentSize*3/4 {
		_ = j.drain()
	}
}

// drain puts all records on stable storage in the log, and empties recent.
func (j *Journal) drain() error {
	if err := j.flush(); err != nil {
		return err
	}
	j.aim(j.end, j.at.Seq)
	return nil
}

// flush puts what was written to the log on stable storage there. After a
// failed sync it writes the records in recent again, because later syncs skip
// what that one lost.
func (j *Journal) flush() error {
	if j.recent == nil {
		return nil
	}
	err := j.syncRecords()
	j.lost = err != nil
	return err
}

// syncRecords is flush, without noting whether the sync has failed.
func (j *Journal) syncRecords() error {
	if j.lost && j.end > j.base {
		to, from := io.NewOffsetWriter(j.log, j.base), io.NewSectionReader(j.recent, recentHead, j.end-j.base)
		if _, err := io.Copy(to, from); err != nil {
			return err
		}
	}
	return j.log.Datasync()
}

// aim lets recent begin at a byte of the log, after the record with the number
// seq. Everything before it must be on stable storage in the log. The sync of
// the next record includes the new head. Until then recent has no record that
// the log lacks, whichever head survives. Without recent, each Append syncs the
// log.
func (j *Journal) aim(base int64, seq uint64) {
	if j.recent == nil {
		return
	}
	if _, err := j.recent.WriteAt(j.recentHead(base, seq), 0); err != nil {
		_ = j.recent.Close() // it has nothing that the log lacks
		j.recent = nil
		return
	}
	j.base = base
}

func (j *Journal) recentHead(base int64, seq uint64) []byte {
	b := slices.Concat(recentMark, j.head)
	b = binary.BigEndian.AppendUint64(b, uint64(base))
	b = binary.BigEndian.AppendUint64(b, seq)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// renewRecent replaces recent by an empty file, or removes it if there is no room.
// The acknowledged records must be on stable storage in the log. The error says
// that recent may still have another record.
func (j *Journal) renewRecent() error {
	if j.recent != nil {
		_ = j.recent.Close() // it is replaced
		j.recent = nil
	}
	made, err := j.makeRecent()
	if made || !j.stale {
		return nil //nolint:nilerr // no record that was not acknowledged is in it
	}
	if failed := remove(j.files.folder, RecentName); failed != nil {
		return errors.Join(err, failed)
	}
	j.stale = false
	return nil
}

// makeRecent replaces recent by an empty file if there is room, and opens it if it can.
func (j *Journal) makeRecent() (made bool, err error) {
	s, known := j.disk()
	if known && s.Free-s.Reserve <= 2*recentSize {
		return false, nil
	}
	if err := j.files.folder.Publish(RecentName, j.writeRecent); err != nil {
		return false, err
	}
	j.stale = false
	if f, err := j.files.folder.Open(RecentName); err == nil {
		j.recent, j.base, j.lost = f, j.end, false
	}
	return true, nil
}

// writeRecent writes recent without records. It does so in small pieces: Linux keeps a large write
// in the cache as one piece and would write all of it again with each record.
func (j *Journal) writeRecent(w io.Writer) error {
	head := append(j.recentHead(j.end, j.at.Seq), make([]byte, recentHead-recentSums-4)...)
	if _, err := w.Write(head); err != nil {
		return err
	}
	zeros := make([]byte, 4<<10)
	for n := int64(0); n < recentSize; n += int64(len(zeros)) {
		if _, err := w.Write(zeros[:min(int64(len(zeros)), recentSize-n)]); err != nil {
			return err
		}
	}
	return nil
}

// closeRecent syncs the log and removes recent, so that an older program may
// continue.
func (j *Journal) closeRecent() error {
	err := j.flush()
	if j.recent != nil {
		err = errors.Join(err, j.recent.Close())
		j.recent = nil
	}
	if err != nil {
		return err
	}
	return remove(j.files.folder, RecentName)
}
