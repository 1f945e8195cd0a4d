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

// A Refill is a repair's copying of the rows that were salvaged into an empty
// store. What is derived from the rows is worked out again.
type Refill struct {
	*Tx                 // the empty store
	Before *Tx          // what was salvaged
	Lost   func(error)  // told what cannot be copied, and what is changed for that
	Renew  func() error // ends the transaction and begins another
}

// Rederive copies the rows of a store into an empty one, and what is derived
// from them is worked out again.
func (schema *Schema) Rederive(from, to *bolt.DB, lost func(error)) error {
	return from.View(func(old *bolt.Tx) error {
		b, err := to.Begin(true)
		if err != nil {
			return err
		}
		defer func() { _ = b.Rollback() }() // after a commit there is nothing to roll back
		if err := table.Create(b, schema.Buckets()); err != nil {
			return err
		}
		r := &Refill{Tx: &Tx{Tx: table.On(b)}, Before: &Tx{Tx: table.On(old)}, Lost: lost}
		r.Renew = func() error {
			if err := r.Flush(); err != nil {
				return err
			}
			if err := b.Commit(); err != nil {
				return err
			}
			if b, err = to.Begin(true); err != nil {
				return err
			}
			r.Tx.Tx = table.On(b)
			return nil
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
		if err := r.Flush(); err != nil {
			return err
		}
		return b.Commit()
	})
}

// Copy copies the entries of a bucket whose keys fit; nil for all.
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

// Rename gives a row another name, as can be needed when the removal or the
// renaming of the one that has it is lost.
func (r *Refill) Rename(name *string, what string, id record.ID) error {
	*name += fmt.Sprintf("-%x", id[12:])
	r.Lost(fmt.Errorf("%s %s: another has its name; it is called %s now", what, id, *name))
	return nil
}

// Mending is how the rows of a table are changed as they are copied. A function
// that is nil has nothing to do.
type Mending[T any] struct {
	Mend   func(*Refill, *T) error // makes the row refer to nothing that is lost
	Rename func(*Refill, *T) error // the row has the name of another: gives it one that is free
	Then   func(*Refill, *T) error // the row was put
}

// RefillBatch is how many rows go into a transaction: bbolt's cost grows with
// the square of what is added to a page in one.
const RefillBatch = 1000

// RefillRows is the Refill of a table of which nothing else is to be copied.
func RefillRows[T any](t *table.Table[T], m Mending[T]) func(*Refill) error {
	return func(r *Refill) error { return CopyRows(r, t, m) }
}

// CopyRows copies the rows of a table that can be read.
func CopyRows[T any](r *Refill, t *table.Table[T], m Mending[T]) error {
	n := 0
	for v, err := range t.All(r.Before.Tx, nil) {
		if n++; n%RefillBatch == 0 {
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
		if err == nil && m.Then != nil {
			err = m.Then(r, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
