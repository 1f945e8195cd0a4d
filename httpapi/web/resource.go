package web

import (
	"net/http"

	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
)

// A Resource is a kind of thing that its owner lists, reads, changes and removes by id. T
// is the stored form, S the form in answers. The handlers keep the forms and the checks
// before a transaction.
type Resource[T any, S field.Shaped] struct {
	Name   string // for errors
	All    func(tx *kv.Tx, owner record.ID) ([]T, error)
	Place  func(*T) (id record.ID, name string) // for the order of lists
	Load   func(tx *kv.Tx, owner, id record.ID) (*T, error)
	Save   func(*kv.Tx, *T) error
	Drop   func(s *kv.Store, owner, id record.ID) error
	Show   func(*Request, *kv.Tx, *T) (S, error)
	Append func(dst []byte, shown S) []byte // appends the answer; nil: {"data": shown}
}

// List answers with a page of the list.
func (r *Resource[T, S]) List(c *Request) error {
	return AnswerList(c,
		func(tx *kv.Tx) ([]T, error) { return r.All(tx, c.Owner()) }, r.Place,
		func(tx *kv.Tx, t *T) (S, error) { return r.Show(c, tx, t) })
}

// Read answers with the thing whose id is in the path.
func (r *Resource[T, S]) Read(c *Request) error {
	id, err := c.IDArg(r.Name)
	if err != nil {
		return err
	}
	return r.AnswerOne(c, id)
}

// AnswerOne answers with the thing that has the id.
func (r *Resource[T, S]) AnswerOne(c *Request, id record.ID) error {
	return r.answer(c, c.Site.Store.View, func(tx *kv.Tx) (*T, error) { return r.Load(tx, c.Owner(), id) })
}

// Create adds a thing and answers with it, read in the same transaction.
func (r *Resource[T, S]) Create(c *Request, add func(*kv.Tx) (*T, error)) error {
	return c.Create(func(tx *kv.Tx) (Created, error) {
		t, err := add(tx)
		if err != nil {
			return Created{}, err
		}
		shown, err := r.Show(c, tx, t)
		return Created{Append: func(dst []byte) ([]byte, error) { return r.append(dst, shown), nil }}, err
	})
}

// Edit changes the thing that has the id and answers with it, read in the same transaction.
func (r *Resource[T, S]) Edit(c *Request, id record.ID, change func(*kv.Tx, *T) error) error {
	return r.answer(c, c.UpdateAsCaller, func(tx *kv.Tx) (*T, error) {
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

// EditBy changes the thing whose id is in the path by the body, which is first read into
// blank, and answers with it.
func (r *Resource[T, S]) EditBy(c *Request, blank field.Shaped, change func(t *T, in field.Object) error) error {
	id, err := c.IDArg(r.Name)
	if err != nil {
		return err
	}
	in, err := c.DecodePatch(blank)
	if err != nil {
		return err
	}
	return r.Edit(c, id, func(_ *kv.Tx, t *T) error { return change(t, in) })
}

// Remove removes the thing whose id is in the path.
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

func (r *Resource[T, S]) answer(c *Request, run func(func(*kv.Tx) error) error, get func(*kv.Tx) (*T, error)) error {
	var shown S
	if err := run(func(tx *kv.Tx) error {
		t, err := get(tx)
		if err != nil {
			return err
		}
		shown, err = r.Show(c, tx, t)
		return err
	}); err != nil {
		return err
	}
	return c.Respond(http.StatusOK, func(dst []byte) ([]byte, error) { return r.append(dst, shown), nil })
}

func (r *Resource[T, S]) append(dst []byte, shown S) []byte {
	if r.Append != nil {
		return r.Append(dst, shown)
	}
	return append(field.AppendJSON(append(dst, `{"data":`...), shown), '}')
}
