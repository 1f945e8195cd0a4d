package kv

import (
	"bytes"
	"encoding/binary"
	"time"

	"kist/kv/journal"
	"kist/kv/workcopy"
)

// A FormatChange is the latest change of the format of a store's data.
type FormatChange struct {
	From uint32    // the former format
	Seq  uint64    // the number of commits before it
	At   time.Time // when it was made
}

// metaFormer is the latest change of the format: the former format (4), Seq (8) and At in
// milliseconds (8). Stores that changed before it existed, or never, do not have it.
var metaFormer = []byte("former")

func (tx *Tx) noteFormer(from uint32, seq uint64) error {
	v := binary.BigEndian.AppendUint32(nil, from)
	v = binary.BigEndian.AppendUint64(v, seq)
	v = binary.BigEndian.AppendUint64(v, uint64(tx.Now.UnixMilli()))
	return tx.Put(workcopy.MetaBucket, metaFormer, v)
}

// FormatOf reads a journal to its end and returns the format of its data, and the latest change of
// that, if one is known.
func FormatOf(j *journal.Journal) (format uint32, c FormatChange, known bool, err error) {
	var values map[string][]byte
	begin := func() error { values = map[string][]byte{}; return nil }
	_, err = j.Replay(begin, func(ops []journal.Op) error {
		for _, op := range ops {
			key := string(op.Key)
			if op.Bucket == workcopy.MetaBucket.No && (key == string(workcopy.MetaFormat) || key == string(metaFormer)) {
				values[key] = bytes.Clone(op.Value)
			}
		}
		return nil
	})
	if v := values[string(workcopy.MetaFormat)]; len(v) == 4 {
		format = binary.BigEndian.Uint32(v)
	}
	c, known = parseChange(values[string(metaFormer)])
	return format, c, known, err
}

func parseChange(v []byte) (c FormatChange, known bool) {
	if len(v) != 20 {
		return FormatChange{}, false
	}
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(v[12:])))
	return FormatChange{binary.BigEndian.Uint32(v), binary.BigEndian.Uint64(v[4:]), at}, true
}

// tellChanged says in the log that the format of the data has changed, and what leads back.
func (s *Store) tellChanged() {
	f, err := s.journal.Former()
	if err != nil {
		s.log.Warn("the format of the data has changed, and the state before cannot be found", "error", err)
		return
	}
	s.log.Info("the format of the data has changed; the state before is kept for the former version, "+
		"and kist rollback leads back to it", "from", f.Format, "to", workcopy.Format,
		"kept", "journal/"+f.Name, "until", f.Until().UTC().Format(time.DateOnly))
}
