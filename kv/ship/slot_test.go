package ship

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/journal"
)

// someSlot has two records.
func someSlot() Slot {
	var r journal.Record
	s := Slot{
		Number: 7, Format: 4, Instance: [8]byte{1, 2}, Writer: [8]byte{3, 4}, Process: [8]byte{5, 6}, Epoch: 5, Before: journal.State{Seq: 40, Digest: 41},
		URL: "https://kist.example.org", Times: []int64{1_700_000_000_000, 1_700_000_000_001},
	}
	s.After = s.Before
	for _, key := range []string{"one", "two"} {
		r.Reset(s.After.Digest)
		r.Add(journal.Op{Bucket: 6, Key: []byte(key), Value: []byte("value of " + key)}, nil)
		s.After = journal.State{Seq: s.After.Seq + 1, Digest: r.Digest()}
		s.Frames = append(s.Frames, r.Frame(s.After)...)
	}
	return s
}

// The bytes of a slot never change.
func TestSlotBytes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	want := someSlot()
	b := want.encode()
	golden, err := os.ReadFile(filepath.Join("testdata", "slot.hex"))
	is.NoErr(err)
	is.Equal(hex.EncodeToString(b), strings.ReplaceAll(strings.TrimSpace(string(golden)), "\n", ""))
	got, rest, err := parseSlot(append(b, "more"...))
	is.NoErr(err)
	is.Equal(*got, want)
	is.Equal(string(rest), "more")
	for i := range b { // any flipped bit is found
		bad := bytes.Clone(b)
		bad[i] ^= 1 << (i % 8)
		_, _, err := parseSlot(bad)
		is.True(err != nil)
		_, _, err = parseSlot(b[:i])
		is.True(err != nil)
	}
}

// A slot of a version that did not say which start wrote it, but how long its writer went on
// without the store, is read.
func TestFormerSlot(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	golden, err := os.ReadFile(filepath.Join("testdata", "slot.former.hex"))
	is.NoErr(err)
	b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(golden)), "\n", ""))
	is.NoErr(err)
	want := someSlot()
	want.Process = [8]byte{}
	got, rest, err := parseSlot(b)
	is.NoErr(err)
	is.Equal(*got, want)
	is.Equal(len(rest), 0)
}

func FuzzSlot(f *testing.F) {
	s := someSlot()
	b := s.encode()
	f.Add(b)
	f.Add(append(b, b...))
	f.Add(b[:slotHead])
	f.Add([]byte(slotMagic))
	empty := Slot{}
	f.Add(empty.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		s, rest, err := parseSlot(b)
		if err != nil {
			return
		}
		if got := s.encode(); !bytes.Equal(append(got, rest...), b) {
			t.Errorf("%x is a slot, but encodes to %x", b, got)
		}
	})
}
