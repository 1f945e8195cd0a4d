package people_test

import (
	"testing"

	"kist/kv"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"

	"github.com/matryer/is"
)

// Key does not find sessions, and Session does not find keys.
func TestKeysAndSessions(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	var key, session *people.Key
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		key, _, err = people.AddKey(tx, people.Key{Owner: u.ID, Name: "k"})
		if err == nil {
			session, _, err = people.AddSession(tx, u.ID, "browser", "192.0.2.1", tx.Now)
		}
		return err
	})
	kvtest.View(t, s, func(tx *kv.Tx) error {
		_, err := people.ReadKey(tx, u.ID, key.ID)
		is.NoErr(err)
		_, err = people.ReadSession(tx, u.ID, session.ID)
		is.NoErr(err)
		_, err = people.ReadKey(tx, u.ID, session.ID)
		is.Equal(err, record.NotFound("key"))
		_, err = people.ReadSession(tx, u.ID, key.ID)
		is.Equal(err, record.NotFound("session"))
		return nil
	})
}
