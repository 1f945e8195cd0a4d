package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"kist/kv/record"
	"kist/kv/table"
)

// mend makes a row that was salvaged refer to nothing that is lost: an owner or
// an upload request that is gone gets a stand-in that keeps what it has, and
// tags and folders that are gone are taken off. lost is told what it did.
func mend(tx *Tx, v any, lost func(error)) error {
	owner := record.ID{}
	switch v := v.(type) {
	case *record.Key:
		owner = v.Owner
	case *record.Tag:
		owner = v.Owner
	case *record.Folder:
		owner = v.Owner
	case *record.Webhook:
		owner = v.Owner
	case *record.Fetch:
		owner = v.Owner
	case *record.Import:
		owner = v.Owner
	case *record.Request:
		owner = v.Owner
	case *Upload:
		owner = v.Owner
	case *record.Record:
		owner = v.Owner
		before := len(v.Tags)
		v.Tags = slices.DeleteFunc(v.Tags, func(t record.ID) bool { return tx.Get(tagBucket, ownedKey(v.Owner, t[:]...)) == nil })
		if n := before - len(v.Tags); n > 0 {
			lost(fmt.Errorf("%s %s: %d of its tags are lost", v.Kind.Name, v.ID, n))
		}
		if v.Folder != (record.ID{}) && tx.Get(folderBucket, ownedKey(v.Owner, v.Folder[:]...)) == nil {
			v.Folder = record.ID{}
			lost(fmt.Errorf("%s %s: its folder is lost", v.Kind.Name, v.ID))
		}
	case *record.Item:
		owner = v.Owner
		if tx.Get(requestBucket, requestKey(v.Owner, v.Request)) == nil {
			q := record.NewRequest()
			q.ID, q.Owner, q.Slug, q.Title, q.Active = v.Request, v.Owner, tx.newSlug(), "Recovered", false
			q.Created, q.Updated = v.Created, v.Created
			lost(fmt.Errorf("upload request %s: it is lost, and a closed one stands in for it, for what was sent to it", q.ID))
			if err := mend(tx, &q, lost); err != nil {
				return err
			}
			if err := requests.Put(tx.Tx, &q); err != nil {
				return err
			}
		}
	}
	if owner == (record.ID{}) || tx.Get(userBucket, owner[:]) != nil {
		return nil
	}
	u := &record.User{ID: owner, Name: fmt.Sprintf("recovered-%x", owner[10:]), Role: record.Member, Disabled: true, Quota: -1, Created: time.UnixMilli(int64(binary.BigEndian.Uint64(owner[:8]) >> 16)).UTC()}
	lost(fmt.Errorf("account %s: it is lost, and %s, which is disabled, stands in for it", owner, u.Name))
	return users.Put(tx.Tx, u)
}

// rename resolves that a row has the name of another, as can be when the
// removal or the renaming of that one is lost. It reports whether v may be put
// now.
func rename(tx *Tx, v any, lost func(error)) (bool, error) {
	switch v := v.(type) {
	case *record.User:
		v.Name += fmt.Sprintf("-%x", v.ID[12:])
		lost(fmt.Errorf("account %s: another has its name; it is called %s now", v.ID, v.Name))
	case *record.Tag:
		v.Name += fmt.Sprintf("-%x", v.ID[12:])
		lost(fmt.Errorf("tag %s: another has its name; it is called %s now", v.ID, v.Name))
	case *record.Folder:
		v.Name += fmt.Sprintf("-%x", v.ID[12:])
		lost(fmt.Errorf("folder %s: another has its name; it is called %s now", v.ID, v.Name))
	case *record.Request:
		before := v.Slug
		v.Slug = tx.newSlug()
		lost(fmt.Errorf("upload request %s: another has its slug %s; it has %s now", v.ID, before, v.Slug))
	case *record.Record:
		// The one that was changed last keeps the slug.
		older := v
		if other, err := records.Find(tx.Tx, recordSlug, []byte(v.Slug)); err == nil && other.Seq < v.Seq {
			older = other
		}
		before := older.Slug
		older.Slug = tx.newSlug()
		lost(fmt.Errorf("%s %s: another has its slug %s; it has %s now", older.Kind.Name, older.ID, before, older.Slug))
		if older != v {
			return true, records.Put(tx.Tx, older)
		}
	default:
		return false, nil
	}
	return true, nil
}

// markAllUnreferenced takes away what was copied as it is and belongs to something that is
// lost.
func markAllUnreferenced(tx *Tx) error {
	var gone []struct {
		b   table.Bucket
		key []byte
	}
	unless := func(b, other table.Bucket, key func(k []byte) []byte) {
		for k := range tx.Walk(b, nil, nil, false) {
			if of := key(k); of == nil || tx.Get(other, of) == nil {
				gone = append(gone, struct {
					b   table.Bucket
					key []byte
				}{b, bytes.Clone(k)})
			}
		}
	}
	first := func(n int) func([]byte) []byte {
		return func(k []byte) []byte {
			if len(k) < n {
				return nil
			}
			return bytes.Clone(k[:n])
		}
	}
	unless(answerBucket, userBucket, first(16))
	unless(importRemarks, importBucket, first(32))
	unless(senderBucket, requestBucket, func(k []byte) []byte {
		if len(k) < 32 {
			return nil
		}
		return requestKey(record.ID(k[:16]), record.ID(k[16:32]))
	})
	var err error
	for _, g := range gone {
		err = errors.Join(err, tx.Delete(g.b, g.key))
	}
	for i, bad := range imports.All(tx.Tx, nil) {
		if bad == nil && tx.Get(importRemarks, ownedKey(i.Owner, i.ID[:]...)) == nil {
			err = errors.Join(err, tx.Load(importRemarks, ownedKey(i.Owner, i.ID[:]...), []byte("[]")))
		}
	}
	return err
}
