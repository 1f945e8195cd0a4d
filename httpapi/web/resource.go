package web

import (
	"net/http"

	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
)

// A Resource is a kind of thing that its owner lists, reads, changes and
// removes by id: T as it is stored, S as it is shown. The forms, and what is
// checked before a transaction, stay with the handlers.
type Resource[T any, S field.Shaped] struct {
	Name   string // as errors call it
	All    func(tx *kv.Tx, owner record.ID) ([]T, error)
	Place  func(*T) (id record.ID, name string) // in the order of a list
	Load   func(tx *kv.Tx, owner, id record.ID) (*T, error)
	Save   func(*kv.Tx, *T) error
	Drop   func(s *kv.Store, owner, id record.ID) error
	Show   func(*Request, *kv.Tx, *T) (S, error)
	Answer func(c *Request, status int, shown S) error // nil: as {"data": shown}
}

// List answers a page of all things.
func (r *Resource[T, S]) List(c *Request) error {
	return AnswerList(c,
		func(tx *kv.Tx) ([]T, error) { return r.All(tx, c.Owner()) }, r.Place,
		func(tx *kv.Tx, t *T) (S, error) { return r.Show(c, tx, t) })
}

// Read answers with the thing that the path names.
func (r *Resource[T, S]) Read(c *Request) error {
	id, err := c.IDArg(r.Name)
	if err != nil {
		return err
	}
	return r.AnswerOne(c, id)
}

// AnswerOne answers with the thing of the id.
func (r *Resource[T, S]) AnswerOne(c *Request, id record.ID) error {
	return r.answer(c, http.StatusOK, c.Site.Store.View, func(tx *kv.Tx) (*T, error) { return r.Load(tx, c.Owner(), id) })
}

// Create adds a thing and answers with it, as the same transaction shows it.
func (r *Resource[T, S]) Create(c *Request, add func(*kv.Tx) (*T, error)) error {
	return r.answer(c, http.StatusCreated, c.Site.Store.Update, add)
}

// Edit changes the thing of the id and answers with it, as the same
// transaction shows it.
func (r *Resource[T, S]) Edit(c *Request, id record.ID, change func(*kv.Tx, *T) error) error {
	return r.answer(c, http.StatusOK, c.Site.Store.Update, func(tx *kv.Tx) (*T, error) {
		t, err := r.Load(tx, c.Owner(), id)
		if err != nil {
			return nil, err
		}
		if err := change(tx, t); err != nil {
			return nil, err
		}
		return t, r.Save(tx, t)
	})
}

// Remove removes the thing that the path names.
func (r *Resource[T, S]) Remove(c *Request) error {
	id, err := c.IDArg(r.Name)
	if err != nil {
		return err
	}
	if err := r.Drop(c.Site.Store, c.Owner(), id); err != nil {
		return err
	}
	return c.RespondOK()
}

func (r *Resource[T, S]) answer(c *Request, status int, run func(func(*kv.Tx) error) error, get func(*kv.Tx) (*T, error)) error {
	var shown S
	if err := run(func(tx *kv.Tx) error {
		t, err := get(tx)
		if err == nil {
			shown, err = r.Show(c, tx, t)
		}
		return err
	}); err != nil {
		return err
	}
	if r.Answer != nil {
		return r.Answer(c, status, shown)
	}
	return c.RespondData(status, shown)
}
