package apitest

import (
	"kist/kv"
	"kist/kv/people"
)

// session is the secret of a new session of the app's user.
func (a *App) Session() (secret string) {
	a.Helper()
	a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) (err error) {
		_, secret, err = people.AddSession(tx, a.User.ID, "test", "127.0.0.1", tx.Now)
		return err
	}))
	return secret
}
