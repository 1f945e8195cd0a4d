package kv

import (
	"bytes"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"kist/kv/record"
	"kist/kv/table"
	"kist/kv/workcopy"
)

// A Refill copies the salvaged rows into an empty store during a repair, and derives
// everything else from them again.
type Refill struct {
	*Tx                 // the empty store
	Before *Tx          // the salvaged rows
	Lost   func(error)  // receives what cannot be copied, and the changes made because of that
	Renew  func() error // ends the transaction and begins another
}

// Rederive copies the rows of a store into an empty one and derives everything else
// from them again.
func (schema *Schema) Rederive(from, to *bolt.DB, lost func(error)) error {
	return from.View(func(old *bolt.Tx) error {
		buckets := schema.Buckets()
		r := &Refill{Tx: &Tx{s: &Store{schema: schema}}, Before: &Tx{Tx: table.On(old, 0)}, Lost: lost}
		var b *bolt.Tx
		var added *table.Mem
		begin := func() (err error) {
			b, err = to.Begin(true)
			if err != nil {
				return err
			}
			added = new(table.Mem)
			r.Tx.Tx = table.Write(b, 1, added)
			return table.Create(b, buckets)
		}
		commit := func() error {
			if err := r.Flush(); err != nil {
				return err
			}
			if err := added.Apply(b, buckets); err != nil {
				return err
			}
			return b.Commit()
		}
		defer func() {
			if b != nil {
				_ = b.Rollback() // after a commit there is nothing to roll back
			}
		}()
		if err := begin(); err != nil {
			return err
		}
		r.Renew = func() error {
			if err := commit(); err != nil {
				return err
			}
			return begin()
		}

		for _, t := range schema.Tables {
			if t.Refill == nil {
				continue
			}
			if err := t.Refill(r); err != nil {
				return err
			}
		}
		if v := r.Get(workcopy.MetaBucket, MetaSeq); v != nil {
			if err := r.Put(workcopy.MetaBucket, MetaTexts, TextsMark(v, r.Get(workcopy.MetaBucket, MetaInstant))); err != nil {
				return err
			}
		}
		return commit()
	})
}

// Copy copies the entries of a bucket whose keys fits accepts; all if fits is nil.
func (r *Refill) Copy(b table.Bucket, fits func(key []byte) bool) error {
	for k, v := range r.Before.Walk(b, nil, nil, false) {
		if fits != nil && !fits(k) {
			continue
		}
		if err := r.Load(b, bytes.Clone(k), bytes.Clone(v)); err != nil {
			return err
		}
	}
	return nil
}

// Rename gives a row another name. That is needed when another row has its name
// because the commit that removed or renamed that row is lost.
func (r *Refill) Rename(name *string, what string, id record.ID) error {
	*name += fmt.Sprintf("-%x", id[12:])
	r.Lost(fmt.Errorf("%s %s: another has its name; it is called %s now", what, id, *name))
	return nil
}

// Mending says how the rows of a table change while they are copied. A nil function
// does nothing.
type Mending[T any] struct {
	Mend   func(*Refill, *T) error // removes references to lost rows
	Rename func(*Refill, *T) error // gives the row a free name, because another row has its name
	Then   func(*Refill, *T) error // is called after the row was put
}

// RefillBatch is how many rows go into a transaction: bbolt's cost grows with the
// square of what one transaction adds to a page.
const RefillBatch = 1000

// RefillRows is the Refill function of a table that needs only its rows copied.
func RefillRows[T any](t *table.Table[T], m Mending[T]) func(*Refill) error {
	return func(r *Refill) error { return CopyRows(r, t, m) }
}

// CopyRows copies the readable rows of a table.
func CopyRows[T any](r *Refill, t *table.Table[T], m Mending[T]) error {
	n := 0
	for v, err := range t.All(r.Before.Tx, nil) {
		n++
		if n%RefillBatch == 0 {
			if err := r.Renew(); err != nil {
				return err
			}
		}
		if err != nil {
			r.Lost(fmt.Errorf("%s: a row cannot be read: %w", t.Rows.Name, err))
			continue
		}
		if m.Mend != nil {
			if err := m.Mend(r, v); err != nil {
				return err
			}
		}

		err := t.Put(r.Tx.Tx, v)
		if errors.As(err, new(*table.Taken)) && m.Rename != nil {
			if err := m.Rename(r, v); err != nil {
				return err
			}
			err = t.Put(r.Tx.Tx, v)
		}
		if errors.As(err, new(*table.Taken)) {
			r.Lost(fmt.Errorf("%s: a row has the name of another: %w", t.Rows.Name, err))
			continue
		}
		if err != nil {
			return err
		}
		if m.Then != nil {
			if err := m.Then(r, v); err != nil {
				return err
			}
		}
	}
	return nil
}
