package ship

import (
	"bytes"
	"context"
	"errors"
	"io/fs"

	"kist/blobs"
)

// encrypting is the URL in the fence of Fence.
const encrypting = "kist store encrypt"

// Fence puts an empty slot after the last one, in the name of its writer. A server that still writes there
// stops with its next slot. Its data directory may start again. Fence does nothing if the last slot is such
// a one, or if there is none.
func Fence(ctx context.Context, remote blobs.Remote) error {
	h := history{remote}
	const tries = 100
	for range tries {
		last, err := h.last(ctx, 0)
		if err != nil {
			return err
		}
		if last == nil || last.URL == encrypting {
			return nil
		}
		next := Slot{
			Number: last.Number + 1, Epoch: last.Epoch + 1, Format: last.Format, Before: last.After, After: last.After,
			Instance: last.Instance, Writer: last.Writer, Process: randomID(), URL: encrypting,
		}
		b := next.encode()
		err = Again(ctx, func() error {
			return remote.Put(ctx, slotName(next.Number), bytes.NewReader(b), int64(len(b)))
		})
		if !errors.Is(err, fs.ErrExist) { // else somebody, or an attempt whose answer was lost, was faster
			return err
		}
	}
	return errors.New("a server writes to the object store all the time; stop it first")
}

// What the objects of a store are called.
const (
	MetaName      = metaName // says whose store it is
	ContentPrefix = "blobs/"
	LogPrefix     = logPrefix
	RacePrefix    = racePrefix // of short-lived objects
)

// Prefixes are those of the objects of a store but MetaName and RacePrefix, in the order in which they can be
// copied or removed: slots refer to the others, and are last.
func Prefixes() []string { return []string{ContentPrefix, snapPrefix, markPrefix, logPrefix} }
