package kv

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/matryer/is"

	"kist/kv/field"
	"kist/kv/record"
)

// open makes a store in a temporary directory.
func open(t testing.TB) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "data"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// form reads JSON into the form of a new record.
func form(t testing.TB, k *record.Kind, text string) *record.Form {
	t.Helper()
	f := record.NewForm(k)
	in, err := field.Parse([]byte(text))
	if err == nil {
		err = field.Of(f).Create(in)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// user makes an account.
func user(t testing.TB, s *Store, name string) *record.User {
	t.Helper()
	var u *record.User
	err := s.Update(func(tx *Tx) (err error) {
		u, err = tx.AddUser(record.User{Name: name, Role: record.Admin, Quota: -1})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestAddListEditRemove(t *testing.T) {
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	var made []*record.Record
	for i := range 7 {
		is.NoErr(s.Update(func(tx *Tx) error {
			r, err := tx.Add(u.ID, record.Notes, form(t, record.Notes, fmt.Sprintf(`{"title":"n%d","content":"c","tags":["a","B"],"isPublic":%t}`, i, i%2 == 0)), nil, "")
			made = append(made, r)
			return err
		}))
	}
	is.NoErr(s.View(func(tx *Tx) error {
		page, err := tx.List(Query{Owner: u.ID, Kind: record.Notes, Limit: 3})
		is.NoErr(err)
		is.Equal(page.Total, 7)
		is.Equal(len(page.Records), 3)
		is.Equal(page.Records[0].ID, made[6].ID)
		page, err = tx.List(Query{Owner: u.ID, Kind: record.Notes, Limit: 3, After: page.Next})
		is.NoErr(err)
		is.Equal(page.Records[0].ID, made[3].ID)
		yes := true
		page, err = tx.List(Query{Owner: u.ID, Kind: record.Notes, Limit: 3, Public: &yes, Sort: Oldest})
		is.NoErr(err)
		is.Equal(page.Total, 4)
		is.Equal(page.Records[1].ID, made[2].ID)
		return nil
	}))
}
