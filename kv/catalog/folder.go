package catalog

import (
	"cmp"
	"errors"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

// FolderRows is the table of folders.
var FolderRows = func() *table.Table[record.Folder] {
	key := func(f *record.Folder) []byte { return kv.OwnedKey(f.Owner, f.ID[:]...) }
	byName := func(f *record.Folder, file func([]byte)) { file(kv.OwnedNameKey(f.Owner, f.Name)) }
	all := kv.JsonTable(folderBucket, key,
		table.Index[record.Folder]{Bucket: folderName, Name: "folder", Unique: true, Keys: byName})
	all.Bytes = func(f *record.Folder, length int) (table.Bucket, []byte, int) { return kv.TextSum(f.Owner, length) }
	return all
}()

// FolderTable keeps folders.
var FolderTable = kv.Table{
	Buckets: []table.Bucket{folderBucket, folderName},
	Check:   people.CheckOwned(FolderRows, "folder"),
	Refill: kv.RefillRows(FolderRows, kv.Mending[record.Folder]{
		Mend:   func(r *kv.Refill, f *record.Folder) error { return people.StandIn(r, f.Owner) },
		Rename: func(r *kv.Refill, f *record.Folder) error { return r.Rename(&f.Name, "folder", f.ID) },
	}),
	Drop: kv.DropRows(FolderRows),
	Text: kv.RowText(folderBucket),
}

// Folders lists the owner's folders, oldest first.
func Folders(tx *kv.Tx, owner record.ID) ([]record.Folder, error) {
	return kv.Collect(FolderRows, tx, owner[:])
}

// Folder reads one of the owner's folders.
func Folder(tx *kv.Tx, owner, id record.ID) (*record.Folder, error) {
	f, err := FolderRows.Get(tx.Tx, kv.OwnedKey(owner, id[:]...))
	return f, kv.UserError(err, "folder")
}

// FolderNamed reads the owner's folder with the name, ignoring case.
func FolderNamed(tx *kv.Tx, owner record.ID, name string) (*record.Folder, error) {
	f, err := FolderRows.Find(tx.Tx, folderName, kv.OwnedNameKey(owner, name))
	return f, kv.UserError(err, "folder")
}

// AddFolder creates a folder; Taken if the owner has one of that name.
func AddFolder(tx *kv.Tx, owner record.ID, name, color string) (*record.Folder, error) {
	before := tx.Text(owner)
	f, err := addFolder(tx, owner, name, color)
	if err != nil {
		return nil, err
	}
	return f, people.ChargeText(tx, owner, before)
}

// addFolder is AddFolder without the charge.
func addFolder(tx *kv.Tx, owner record.ID, name, color string) (*record.Folder, error) {
	if err := people.RequireOwner(tx, owner); err != nil {
		return nil, err
	}
	if tx.Get(folderName, kv.OwnedNameKey(owner, name)) == nil {
		if err := tx.CheckBound(folderBucket, owner, "folders", "too_many_folders"); err != nil {
			return nil, err
		}
	}
	f := &record.Folder{
		ID: tx.NewID(), Owner: owner, Name: name, Color: cmp.Or(color, record.ColorOf(name)), Created: tx.Now,
	}
	return f, kv.UserError(FolderRows.Put(tx.Tx, f), "folder")
}

// SaveFolder changes a folder, which must have been read in the same
// transaction.
func SaveFolder(tx *kv.Tx, f *record.Folder) error {
	before := tx.Text(f.Owner)
	if err := FolderRows.Put(tx.Tx, f); err != nil {
		return kv.UserError(err, "folder")
	}
	return people.ChargeText(tx, f.Owner, before)
}

// folderID finds or creates a folder for a file. Its own few bytes are not charged: the
// file was, when it began to arrive, and must not be refused at its end.
func folderID(tx *kv.Tx, owner record.ID, name string) (record.ID, error) {
	f, err := FolderRows.Find(tx.Tx, folderName, kv.OwnedNameKey(owner, name))
	if errors.Is(err, table.ErrMissing) {
		f, err = addFolder(tx, owner, name, "")
	}
	if err != nil {
		return uuid.Nil, err
	}
	return f.ID, nil
}

// FolderCount counts the files in the folder.
func FolderCount(tx *kv.Tx, f *record.Folder) int64 {
	return RecordRows.Sum(tx.Tx, facet{inFolder, f.ID}.key(f.Owner, record.Files))
}

// RemoveFolder deletes a folder. Its files stay, in no folder.
func RemoveFolder(s *kv.Store, owner, id record.ID) error {
	check := func(tx *kv.Tx) error {
		_, err := Folder(tx, owner, id)
		return err
	}
	nothing := func(*kv.Tx) error { return nil }
	if err := retag(s, owner, facet{showsAll, id}, check, relive(id, uuid.Nil), nothing); err != nil {
		return err
	}
	leave := func(r *record.Record) { r.Folder = uuid.Nil }
	return retag(s, owner, facet{inFolder, id}, check, leave, func(tx *kv.Tx) error {
		_, err := FolderRows.Delete(tx.Tx, kv.OwnedKey(owner, id[:]...))
		return kv.UserError(err, "folder")
	})
}
