package thumb

import (
	"context"

	"kist/blobs"
	"kist/kv/record"
)

// MaxPoster is the maximum size of a picture to make a poster of, in bytes.
const MaxPoster = 512 << 10

// posterRef is the name of the poster of a file. The same content of another owner has its own.
func posterRef(owner, file record.ID) (ref blobs.Ref) {
	copy(ref[copy(ref[:], owner[:]):], file[:])
	return ref
}

// SetPoster makes the thumbnail of a film from one of its pictures, because no decoder here reads films. It replaces the
// previous one. The picture has at most MaxPoster bytes. The error is ErrNone if it is not usable, or ctx's if ctx ends
// while waiting.
func (m *Maker) SetPoster(ctx context.Context, owner, file record.ID, picture []byte) error {
	if err := m.turns.Take(ctx); err != nil {
		return err
	}
	defer m.turns.Give()
	t, err := small(picture, Tile)
	if err != nil {
		return err
	}
	return m.posters.put(posterRef(owner, file), entry{thumb: t})
}

// DropPoster removes the thumbnail of a film whose bytes are replaced, if it has one.
func (m *Maker) DropPoster(owner, file record.ID) error {
	return m.posters.remove(posterRef(owner, file))
}

// Poster is the thumbnail of a film; ErrNone if nobody has sent one or it was lost.
func (m *Maker) Poster(owner, file record.ID, size Size) (*Thumb, error) {
	e, got := m.posters.get(posterRef(owner, file))
	if !got || e.err != nil {
		return nil, ErrNone
	}
	if size.isMadeOfTile() {
		return small(e.thumb.Bytes, size)
	}
	return e.thumb, nil
}

// SweepPosters removes the posters of files that known does not know. It stops when known fails.
func (m *Maker) SweepPosters(known func(owner, file record.ID) (bool, error)) (removed int, err error) {
	return m.posters.sweep(func(ref blobs.Ref) (bool, error) {
		return known(record.ID(ref[:16]), record.ID(ref[16:]))
	})
}
