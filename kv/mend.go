package kv

import (
	"bytes"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"kist/kv/record"
	"kist/kv/table"
)

// A Refill is a repair's copying of the rows that were salvaged into an empty
// store. What is derived from the rows is worked out again.
type Refill struct {
	*Tx                 // the empty store
	Before *Tx          // what was salvaged
	Lost   func(error)  // told what cannot be copied, and what is changed for that
	renew  func() error // ends the transaction and begins another
}

// rederive copies the rows of a store into an empty one, and what is derived
// from them is worked out again.
func (schema *Schema) rederive(from, to *bolt.DB, lost func(error)) error {
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
		r.renew = func() error {
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
		if v := r.Get(metaBucket, metaSeq); v != nil {
			if err := r.Put(metaBucket, metaTexts, textsMark(v, r.Get(metaBucket, metaInstant))); err != nil {
				return err
			}
		}
		if err := r.Flush(); err != nil {
			return err
		}
		return b.Commit()
	})
}

// copy copies the entries of a bucket whose keys fit; nil for all.
func (r *Refill) copy(b table.Bucket, fits func(key []byte) bool) error {
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

// rename gives a row another name, as can be needed when the removal or the
// renaming of the one that has it is lost.
func (r *Refill) rename(name *string, what string, id record.ID) error {
	*name += fmt.Sprintf("-%x", id[12:])
	r.Lost(fmt.Errorf("%s %s: another has its name; it is called %s now", what, id, *name))
	return nil
}

// mending is how the rows of a table are changed as they are copied. A function
// that is nil has nothing to do.
type mending[T any] struct {
	mend   func(*Refill, *T) error // makes the row refer to nothing that is lost
	rename func(*Refill, *T) error // the row has the name of another: gives it one that is free
	then   func(*Refill, *T) error // the row was put
}

// refillBatch is how many rows go into a transaction: bbolt's cost grows with
// the square of what is added to a page in one.
const refillBatch = 1000

// refillRows is the Refill of a table of which nothing else is to be copied.
func refillRows[T any](t *table.Table[T], m mending[T]) func(*Refill) error {
	return func(r *Refill) error { return refill(r, t, m) }
}

// refill copies the rows of a table that can be read.
func refill[T any](r *Refill, t *table.Table[T], m mending[T]) error {
	n := 0
	for v, err := range t.All(r.Before.Tx, nil) {
		if n++; n%refillBatch == 0 {
			if err := r.renew(); err != nil {
				return err
			}
		}
		if err != nil {
			r.Lost(fmt.Errorf("%s: a row cannot be read: %w", t.Rows.Name, err))
			continue
		}
		if m.mend != nil {
			if err := m.mend(r, v); err != nil {
				return err
			}
		}
		err := t.Put(r.Tx.Tx, v)
		if errors.As(err, new(*table.Taken)) && m.rename != nil {
			if err := m.rename(r, v); err != nil {
				return err
			}
			err = t.Put(r.Tx.Tx, v)
		}
		if errors.As(err, new(*table.Taken)) {
			r.Lost(fmt.Errorf("%s: a row has the name of another: %w", t.Rows.Name, err))
			continue
		}
		if err == nil && m.then != nil {
			err = m.then(r, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
