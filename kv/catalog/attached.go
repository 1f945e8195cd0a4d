package catalog

import (
	"errors"
	"slices"
	"sync"
	"time"

	"kist/kv"
	"kist/kv/media"
	"kist/kv/people"
	"kist/kv/record"
)

// A file that is attached belongs to the texts that show it: notes and recipes with its address, recipes and games with
// it as their picture. It goes to the trash with the last of them, and comes back with any.

// unshownTime is how long an attached file stays that no text shows: somebody may still be writing the text.
const unshownTime = 24 * time.Hour

// shows reports whether a record of the owner shows the file.
func shows(tx *kv.Tx, owner, file record.ID) bool {
	for _, k := range []*record.Kind{record.Notes, record.Recipes, record.Games} {
		if RecordRows.Sum(tx.Tx, facet{showsFile, file}.key(owner, k)) > 0 {
			return true
		}
	}
	return false
}

// UsageOf is people.UsageOf with a count of files that leaves out attached ones, as lists do. Their bytes count.
func UsageOf(tx *kv.Tx, u *people.User) (people.Usage, error) {
	usage, err := people.UsageOf(tx, u)
	if err != nil {
		return usage, err
	}
	usage.Count[record.Files.Name] -= RecordRows.Sum(tx.Tx, attached.key(u.ID, record.Files))
	return usage, nil
}

// ShownFile reads a file that a record shows, if those who see the record may open it. The error is Missing otherwise.
// The Body is valid until the transaction ends.
func ShownFile(tx *kv.Tx, r *record.Record, who record.Asker, id record.ID) (*record.Record, error) {
	return shownFile(tx, r, r.Shows(), who, id)
}

// ShownFiles reads all files that a record shows and that those who see it may open. The Bodies are valid until the
// transaction ends.
func ShownFiles(tx *kv.Tx, r *record.Record, who record.Asker) (all []*record.Record, err error) {
	shown := r.Shows()
	for _, id := range shown {
		f, err := shownFile(tx, r, shown, who, id)
		if kv.Missing(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

func shownFile(
	tx *kv.Tx, r *record.Record, shown []record.ID, who record.Asker, id record.ID,
) (*record.Record, error) {
	f, err := Borrow(tx, r.Owner, record.Files, id.String())
	if err != nil {
		return nil, err
	}
	if !r.MayOpen(shown, f, who) {
		return nil, record.NotFound(record.Files.Name)
	}
	return f, nil
}

// CheckShown refuses a form of somebody who is not the owner, if the record would show files that it does not show yet:
// they would be open to all who see it.
func CheckShown(r *record.Record, f *record.Form) error {
	next := record.Record{Kind: r.Kind}
	next.SetBody(f.Body)
	now := r.Shows()
	for _, id := range next.Shows() {
		if !slices.Contains(now, id) {
			return record.NotTheOwner("Only its owner can add pictures.", "content")
		}
	}
	return nil
}

// OwnPicture is the file that is the picture of a recipe or a game for somebody who sees it: an image that they may
// open and that pages can show, as it is or small. hasPoster says whether a file that the server cannot draw has a
// small version all the same. The error is Missing if no file is the picture, so that an address may be. body are the item's
// own fields, or their head. The Body of the file is valid until the transaction ends.
func OwnPicture(
	tx *kv.Tx, item *record.Record, body record.Body, who record.Asker, hasPoster func(file *record.Record) bool,
) (*record.Record, error) {
	id := record.PictureOf(body)
	if id == (record.ID{}) {
		return nil, record.NotFound(record.Files.Name)
	}
	f, err := shownFile(tx, item, []record.ID{id}, who, id)
	if err != nil {
		return nil, err
	}
	of, err := f.Decode()
	if err != nil {
		return nil, err
	}
	kind := of.(*record.File).MimeType // the kind says so
	isShown := media.Shrinks(kind) || media.Inline(kind) || hasPoster(f)
	if f.Bytes.Class != record.Image || !isShown {
		return nil, record.NotFound(record.Files.Name)
	}
	return f, nil
}

// HasOwnPicture reports whether an item has an [OwnPicture].
func HasOwnPicture(
	tx *kv.Tx, item *record.Record, body record.Body, who record.Asker, hasPoster func(file *record.Record) bool,
) (bool, error) {
	_, err := OwnPicture(tx, item, body, who, hasPoster)
	if kv.Missing(err) {
		return false, nil
	}
	return err == nil, err
}

// CheckPicture refuses a new picture of a recipe or a game that is not an image of the owner's. before is the present
// one.
func CheckPicture(tx *kv.Tx, owner record.ID, b record.Body, before record.ID) error {
	id := record.PictureOf(b)
	if id == (record.ID{}) || id == before {
		return nil
	}
	name := "photoId"
	if _, game := b.(*record.Game); game {
		name = "coverId"
	}
	f, err := Borrow(tx, owner, record.Files, id.String())
	if kv.Missing(err) {
		return record.Bad(map[string]string{name: "names a file that you do not have"})
	}
	if err != nil {
		return err
	}
	if f.Bytes.Class != record.Image {
		return record.Bad(map[string]string{name: "names a file that is not a picture"})
	}
	return nil
}

// shownBefore are the files that the stored form of a record shows; none of a new one.
func shownBefore(tx *kv.Tx, r *record.Record) ([]record.ID, error) {
	key := r.Key()
	row := tx.Get(kv.RecordBucket, key)
	if row == nil {
		return nil, nil
	}
	stored, err := record.BorrowRow(key, row)
	if err != nil {
		return nil, err
	}
	return stored.Shows(), nil
}

// attach brings the attached files back that a saved record shows now and did not before, and notes for others that no
// record shows them any more.
func attach(tx *kv.Tx, r *record.Record, before []record.ID) error {
	now := r.Shows()
	for _, id := range now {
		if slices.Contains(before, id) {
			continue
		}
		err := bringBack(tx, r.Owner, id)
		if err != nil {
			return err
		}
	}
	for _, id := range before {
		if slices.Contains(now, id) {
			continue
		}
		f, err := lastShown(tx, r.Owner, id)
		if kv.Missing(err) {
			continue
		}
		if err != nil {
			return err
		}
		f.Updated = tx.Now
		err = save(tx, f)
		if err != nil {
			return err
		}
	}
	return nil
}

// lastShown reads an attached file that no record shows any more. It fails with Missing for all others.
func lastShown(tx *kv.Tx, owner, id record.ID) (*record.Record, error) {
	f, err := Owned(tx, owner, record.Files, id)
	if err != nil {
		return nil, err
	}
	if !f.Attached || shows(tx, owner, id) {
		return nil, record.NotFound(record.Files.Name)
	}
	return f, nil
}

func isAttachedFile(tx *kv.Tx, owner, id record.ID) bool {
	return tx.Get(recordFacet, append(attached.key(owner, record.Files), id[:]...)) != nil
}

// bringBack takes an attached file out of the trash, if it is there.
func bringBack(tx *kv.Tx, owner, id record.ID) error {
	key := record.RowKey(owner, record.Files, id)
	t, err := TrashRows.Get(tx.Tx, key)
	err = kv.UserError(err, record.Files.Name)
	if kv.Missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !t.Attached || t.Of != (record.ID{}) {
		return nil
	}
	_, err = Untrash(tx, t)
	return err
}

// detach lets the attached files go that only a record showed which was just taken out of the store: to where it went.
func detach(tx *kv.Tx, r *record.Record, away func(f *record.Record) error) error {
	for _, id := range r.Shows() {
		f, err := lastShown(tx, r.Owner, id)
		if kv.Missing(err) {
			continue
		}
		if err != nil {
			return err
		}
		err = away(f)
		if err != nil {
			return err
		}
	}
	return nil
}

// A sweep is when trashUnshown looks again.
type sweep struct {
	mu   sync.Mutex
	next time.Time
	held int
}

var sweeps kv.Slot[sweep]

const sweepEvery = 10 * time.Minute

// trashUnshown is the Tick that moves the attached files to the trash which no record has shown for a day.
func trashUnshown(s *kv.Store) {
	w := sweeps.Of(s)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held > 0 || s.Now().Before(w.next) {
		return
	}
	w.next = s.Now().Add(sweepEvery)
	err := sweepUnshown(s)
	if err != nil {
		s.Log().Error("cannot move files that no text shows to the trash; will retry", "error", err)
	}
}

// HoldUnshown keeps attached files that no record shows yet until release is called: an import has old files before the
// texts that show them.
func HoldUnshown(s *kv.Store) (release func()) {
	w := sweeps.Of(s)
	hold := func(by int) {
		w.mu.Lock()
		w.held += by
		w.mu.Unlock()
	}
	hold(1)
	return func() { hold(-1) }
}

// sweepUnshown does nothing while the trash is off: what somebody else has taken out of a text would be gone for good.
func sweepUnshown(s *kv.Store) error {
	var all []people.User
	var set people.Settings
	err := s.View(func(tx *kv.Tx) (err error) {
		set, err = people.ReadSettings(tx)
		if err != nil {
			return err
		}
		all, err = people.Users(tx)
		return err
	})
	if err != nil || set.TrashDays == 0 {
		return err
	}
	var failed []error
	for i := range all {
		failed = append(failed, sweepOf(s, all[i].ID))
	}
	return errors.Join(failed...)
}

// sweepOf is sweepUnshown for one account: what is damaged there does not keep the files of others.
func sweepOf(s *kv.Store, owner record.ID) error {
	for {
		some, err := unshown(s, owner)
		if err != nil || len(some) == 0 {
			return err
		}
		err = s.Update(func(tx *kv.Tx) error { return trashSome(tx, owner, some) })
		if err != nil {
			return err
		}
	}
}

// unshown lists attached files of an owner that no record has shown for a day, up to trashBatch.
func unshown(s *kv.Store, owner record.ID) (some []record.ID, err error) {
	err = s.View(func(tx *kv.Tx) error {
		for key := range tx.Walk(recordFacet, attached.key(owner, record.Files), nil, false) {
			if len(some) == trashBatch {
				return nil
			}
			f, err := longUnshown(tx, owner, record.ID(key[labelSize:]))
			if kv.Missing(err) {
				continue
			}
			if err != nil {
				return err
			}
			some = append(some, f.ID)
		}
		return nil
	})
	return some, err
}

// longUnshown is lastShown for a file that no record has shown for a day.
func longUnshown(tx *kv.Tx, owner, id record.ID) (*record.Record, error) {
	f, err := lastShown(tx, owner, id)
	if err != nil {
		return nil, err
	}
	if tx.Now.Sub(f.Updated) < unshownTime {
		return nil, record.NotFound(record.Files.Name)
	}
	return f, nil
}

func trashSome(tx *kv.Tx, owner record.ID, files []record.ID) error {
	for _, id := range files {
		f, err := longUnshown(tx, owner, id)
		if kv.Missing(err) {
			continue
		}
		if err != nil {
			return err
		}
		err = Trash(tx, f, "")
		if err != nil {
			return err
		}
	}
	return nil
}
