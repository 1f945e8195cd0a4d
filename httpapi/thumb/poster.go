package thumb

import (
	"context"
	"errors"

	"kist/blobs"
	"kist/kv/record"
)

// A poster is the small version of a file that no decoder here reads: a film, or a picture such as HEIC. A client sends
// it, and it may be lost, because the client that shows the file can send it again.

// MaxPoster is the maximum size of a picture to make a poster of, in bytes.
const MaxPoster = 512 << 10

// The sizes that are stored of a poster. The others are made of them.
const (
	posterTile = iota
	posterScreen
	posterSizes
)

// posterRef is the name of the poster of a file. The same content of another owner has its own.
func posterRef(owner, file record.ID) (ref blobs.Ref) {
	copy(ref[copy(ref[:], owner[:]):], file[:])
	return ref
}

// SetPoster makes the poster of a file from a picture. It replaces the previous one. The picture has at most MaxPoster
// bytes. Then check is called: if the picture is not of the file as it is now, it fails, and the poster is removed. The
// error is ErrNone if the picture is not usable, check's, or ctx's if ctx ends while waiting.
func (m *Maker) SetPoster(ctx context.Context, owner, file record.ID, picture []byte, check func() error) error {
	if err := m.turns.Take(ctx); err != nil {
		return err
	}
	defer m.turns.Give()
	var made [posterSizes]*Thumb
	var err error
	made[posterScreen], err = small(picture, Screen)
	if err != nil {
		return err
	}
	made[posterTile], err = small(made[posterScreen].Bytes, Tile) // decoding the picture again would take seconds
	if err != nil {
		return err
	}
	if len(made[posterScreen].Bytes) > maxPayload { // a PNG can be many times as long as what it is made of
		made[posterScreen] = made[posterTile]
	}
	for i := range m.posters {
		if err := m.posters[i].put(posterRef(owner, file), entry{thumb: made[i]}); err != nil {
			return err
		}
	}
	if err := check(); err != nil {
		return errors.Join(err, m.DropPoster(owner, file))
	}
	return nil
}

// DropPoster removes the poster of a file whose bytes are replaced, if it has one.
func (m *Maker) DropPoster(owner, file record.ID) error {
	for i := range m.posters {
		if err := m.posters[i].remove(posterRef(owner, file)); err != nil {
			return err
		}
	}
	return nil
}

// Poster is the poster of a file; ErrNone if nobody has sent one or it was lost.
func (m *Maker) Poster(owner, file record.ID, size Size) (*Thumb, error) {
	if size == Screen || size == Card {
		e, got := m.posters[posterScreen].get(posterRef(owner, file))
		if got && e.err == nil {
			return e.thumb, nil
		}
	}
	e, got := m.posters[posterTile].get(posterRef(owner, file))
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
	for i := range m.posters {
		n, err := m.posters[i].sweep(func(ref blobs.Ref) (bool, error) {
			return known(record.ID(ref[:16]), record.ID(ref[16:]))
		})
		if i == posterTile {
			removed = n
		}
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}
