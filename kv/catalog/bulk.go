package catalog

import (
	"errors"

	"kist/kv"
	"kist/kv/record"
)

// ItemOf reads the owner's record of any kind with the id.
func ItemOf(tx *kv.Tx, owner, id record.ID) (*record.Record, error) {
	for _, k := range record.Kinds {
		r, err := Owned(tx, owner, k, id)
		if !kv.Missing(err) {
			return r, err
		}
	}
	return nil, record.NotFound("item")
}

// EachAlone calls change for each id, in several transactions. A change that is refused is undone
// and holds up none of the others; refused has its error at the place of its id. end is called at
// the end of every transaction. Any other error ends it: then earlier changes may be stored.
func EachAlone(
	s *kv.Store, ids []record.ID, change func(*kv.Tx, record.ID) error, end func(*kv.Tx) error,
) (refused []error, err error) {
	refused = make([]error, len(ids))
	for from := 0; from < len(ids); {
		to := from
		if err := s.Update(func(tx *kv.Tx) error {
			begun := tx.Volume()
			for to = from; to < min(len(ids), from+trashBatch) && tx.Volume()-begun < kv.MaxVolume; to++ {
				mark := tx.Mark()
				err := change(tx, ids[to])
				if err == nil {
					continue
				}
				if !errors.As(err, new(*record.Error)) {
					return err
				}
				refused[to] = err
				if err := tx.Undo(mark); err != nil {
					return err
				}
			}
			return end(tx)
		}); err != nil {
			return nil, err
		}
		from = to
	}
	return refused, nil
}

// UntrashEach is EachAlone that restores items from the trash. A picture may have come back with its text before its
// turn.
func UntrashEach(s *kv.Store, owner record.ID, ids []record.ID) (refused []error, err error) {
	var some []Restored
	return EachAlone(s, ids, func(tx *kv.Tx, id record.ID) error {
		t, err := Trashed(tx, owner, id)
		if kv.Missing(err) && isAttachedFile(tx, owner, id) {
			return nil
		}
		if err != nil {
			return err
		}
		former := t.Slug
		r, err := Untrash(tx, t)
		if err != nil {
			return err
		}
		some = append(some, Restored{r, former})
		return nil
	}, func(tx *kv.Tx) error {
		all := some
		some = nil
		return noteRestored(tx, all)
	})
}
