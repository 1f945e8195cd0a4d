package kv

import (
	"encoding/binary"
	"fmt"

	"kist/kv/record"
	"kist/kv/table"
)

// emit writes a delivery for each of the owner's webhooks that wants the
// event, with the record as it is now.
func (tx *Tx) emit(e record.Event, r *record.Record) error {
	all, err := tx.Webhooks(r.Owner)
	if err != nil || len(all) == 0 {
		return err
	}
	var v record.Shown
	if err := tx.Show(r, &v); err != nil {
		return err
	}
	for i := range all {
		if h := &all[i]; h.Wants(e) {
			if err := tx.deliver(h, e, &v); err != nil {
				return err
			}
		}
	}
	return nil
}

// emitItem is emit for an item of the queue: the delivery has its key and its
// row, in place of a record's.
func (tx *Tx) emitItem(e record.Event, i *record.Item) error {
	all, err := tx.Webhooks(i.Owner)
	if err != nil || len(all) == 0 {
		return err
	}
	row, err := items.Encode(i)
	if err != nil {
		return err
	}
	for h := range all {
		if !all[h].Wants(e) {
			continue
		}
		if err := deliveries.Put(tx.Tx, &record.Delivery{
			ID: tx.NewID(), Hook: all[h].ID, Owner: i.Owner, Event: e, At: tx.Now, Key: items.Key(i), Row: row,
		}); err != nil {
			return err
		}
	}
	return nil
}

func (tx *Tx) deliver(h *record.Webhook, e record.Event, v *record.Shown) error {
	return deliveries.Put(tx.Tx, &record.Delivery{
		ID: tx.NewID(), Hook: h.ID, Owner: h.Owner, Event: e, At: tx.Now,
		Key: v.Key(), Row: v.AppendRow(nil), Views: v.Views, Tags: v.TagList, Folder: v.FolderName,
	})
}

// Webhooks lists the owner's webhooks, oldest first.
func (tx *Tx) Webhooks(owner record.ID) ([]record.Webhook, error) {
	return collect(hooks, tx, owner[:])
}

// AddWebhook keeps a webhook: the changes of the same and later transactions
// are delivered to it.
func (tx *Tx) AddWebhook(h record.Webhook) (record.Webhook, error) {
	if err := tx.owner(h.Owner); err != nil {
		return h, err
	}
	h.ID, h.Created = tx.NewID(), tx.Now
	return h, hooks.Put(tx.Tx, &h)
}

// RemoveWebhook takes the webhook and what waits for it away.
func (tx *Tx) RemoveWebhook(owner, id record.ID) error {
	if _, err := hooks.Delete(tx.Tx, pair(owner, id[:]...)); err != nil {
		return fault(err, "webhook")
	}
	waiting, err := tx.Deliveries(id)
	for i := 0; err == nil && i < len(waiting); i++ {
		_, err = deliveries.Delete(tx.Tx, pair(id, waiting[i].ID[:]...))
	}
	return err
}

// Deliveries lists what waits for the webhook, oldest first.
func (tx *Tx) Deliveries(hook record.ID) ([]record.Delivery, error) {
	return collect(deliveries, tx, hook[:])
}

// collect reads all rows below a prefix.
func collect[T any](t *table.Table[T], tx *Tx, prefix []byte) ([]T, error) {
	all := []T{}
	for v, err := range t.All(tx.Tx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Rows.Name, err)
		}
		all = append(all, *v)
	}
	return all, nil
}

// A Change is a place in the feed of changes: the record with the key was
// written, or taken away if it is not there any more.
type Change struct {
	Seq   uint64
	Owner record.ID
	Kind  *record.Kind
	ID    record.ID
}

// Changes lists up to most changes after the place since, in order. Each
// record that is there occurs once, at the place of its latest change.
func (tx *Tx) Changes(since uint64, most int) ([]Change, error) {
	var all []Change
	for k, v := range tx.Walk(changeBucket, nil, binary.BigEndian.AppendUint64(nil, since), false) {
		if len(all) == most {
			break
		}
		if len(k) != 8 || len(v) != record.KeySize || record.KindOf(v[16]) == nil {
			return nil, fmt.Errorf("change %x: damaged", k)
		}
		all = append(all, Change{binary.BigEndian.Uint64(k), record.ID(v[:16]), record.KindOf(v[16]), record.ID(v[17:])})
	}
	return all, nil
}
