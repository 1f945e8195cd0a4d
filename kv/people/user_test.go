package people_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"

	"github.com/google/uuid"
	"github.com/matryer/is"
)

func TestUsers(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	var token string
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) { token, err = people.Claim(tx); return err })
	is.Equal(len(token), 43)
	claimable := func(token string) string {
		var err error
		kvtest.View(t, s, func(tx *kv.Tx) error { err = people.Claimable(tx, token); return nil })
		return kvtest.Code(err)
	}
	is.Equal(claimable(token), "")
	is.Equal(claimable(token+"x"), "not_found")
	is.Equal(claimable(""), "not_found")

	// A member who was there first can be changed, and made the first
	// administrator, which ends the claim.
	var eve *people.User
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		eve, err = people.AddUser(tx, people.User{Name: "Eve", Role: people.Member})
		return err
	})
	save := func(u *people.User) string {
		return kvtest.Code(s.Update(func(tx *kv.Tx) error { return people.SaveUser(tx, u) }))
	}
	is.Equal(save(eve), "")
	is.Equal(claimable(token), "")
	eve.Role = people.Admin
	is.Equal(save(eve), "")
	is.Equal(claimable(token), "not_found")
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) { token, err = people.Claim(tx); return err })
	is.Equal(token, "")

	// The last administrator cannot be demoted.
	off := *eve
	off.Disabled = true
	is.Equal(save(&off), "last_admin")
	off = *eve
	off.Role = people.Member
	is.Equal(save(&off), "last_admin")
	is.Equal(kvtest.Code(people.RemoveUser(s, eve.ID, "root")), "last_admin")
	ann := kvtest.User(t, s, "ann")
	is.Equal(save(&off), "")

	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
		_, err := people.AddUser(tx, people.User{Name: "ANN"})
		return err
	})), "username_taken")
	ann.Name = "EVE"
	is.Equal(save(ann), "username_taken")
	is.Equal(save(&people.User{ID: uuid.New(), Name: "nobody"}), "not_found")
	kvtest.View(t, s, func(tx *kv.Tx) error {
		u, err := people.UserNamed(tx, "eVE")
		is.NoErr(err)
		is.Equal(u.ID, eve.ID)
		_, err = people.UserNamed(tx, "nobody")
		is.Equal(kvtest.Code(err), "not_found")
		all, err := people.Users(tx)
		is.NoErr(err)
		is.Equal(len(all), 2)
		return kvtest.Audit(tx)
	})

	// One variable for several accounts: changing it must not change stored rows.
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		all, err := people.Users(tx)
		var u people.User
		for i := range all {
			u = all[i]
			u.Name = fmt.Sprint("new", i)
			if err == nil {
				err = people.SaveUser(tx, &u)
			}
		}
		return err
	})
	kvtest.View(t, s, kvtest.Audit)
}

// Nothing can be created for an account that is gone.
func TestNoOwner(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	kvtest.User(t, s, "root")
	gone := kvtest.User(t, s, "ann").ID
	is.NoErr(people.RemoveUser(s, gone, "root"))
	f := kvtest.Form(t, record.Notes, `{"content":"c"}`)
	for _, fn := range []func(*kv.Tx) error{
		func(tx *kv.Tx) error {
			_, err := catalog.Add(tx, catalog.Draft{Owner: gone, Kind: record.Notes, Form: f})
			return err
		},
		func(tx *kv.Tx) error { _, err := catalog.AddTag(tx, gone, "t", ""); return err },
		func(tx *kv.Tx) error { _, err := catalog.AddFolder(tx, gone, "f", ""); return err },
		func(tx *kv.Tx) error { _, _, err := people.AddKey(tx, people.Key{Owner: gone}); return err },
		func(tx *kv.Tx) error { _, err := jobs.AddWebhook(tx, jobs.Webhook{Owner: gone}); return err },
		func(tx *kv.Tx) error { return jobs.SaveIdempotentAnswer(tx, gone, "k", jobs.IdempotentAnswer{}) },
		func(tx *kv.Tx) error { _, err := inbox.AddUpload(tx, inbox.Upload{Owner: gone}); return err },
	} {
		is.Equal(kvtest.Code(s.Update(fn)), "not_found")
	}
}

// Everything an account owns is deleted, in as many transactions as it takes. An
// account whose id begins alike keeps everything.
func TestRemoveUser(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	root, ann := kvtest.User(t, s, "root"), kvtest.User(t, s, "ann")
	tagged := kvtest.Form(t, record.Notes, `{"content":"c","tags":["a","b"]}`)
	file := kvtest.Form(t, record.Files, `{"folderName":"F","newTags":["c"]}`)
	for range 2 {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			for i := range 120 {
				if _, err := catalog.Add(tx, catalog.Draft{
					Owner: ann.ID, Kind: record.Notes, Form: tagged,
				}); err != nil {
					return err
				}
				if _, err := catalog.Add(tx, catalog.Draft{
					Owner: ann.ID, Kind: record.Files, Form: file, Content: kvtest.Content(record.Files, byte(i), 3),
				}); err != nil {
					return err
				}
			}
			if _, err := catalog.Add(tx, catalog.Draft{
				Owner: root.ID, Kind: record.Files, Form: file, Content: kvtest.Content(record.Files, 1, 3),
			}); err != nil {
				return err
			}
			if _, err := jobs.AddWebhook(tx, jobs.Webhook{Owner: ann.ID, Events: []jobs.Event{"*"}, Enabled: true}); err != nil {
				return err
			}
			if _, err := inbox.AddUpload(tx, inbox.Upload{Owner: ann.ID, Length: 9}); err != nil {
				return err
			}
			return jobs.SaveIdempotentAnswer(tx, ann.ID, "k", jobs.IdempotentAnswer{Body: []byte("x")})
		})
	}
	_, secret := kvtest.Key(t, s, ann.ID, people.Key{})
	_, err := people.Authenticate(s, secret)
	is.NoErr(err)
	is.NoErr(people.RemoveUser(s, ann.ID, "root"))
	is.NoErr(s.Flush()) // the key whose use is recorded is gone
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(kvtest.LeftOver(tx, ann.ID), nil)
		use, err := people.UsageOf(tx, root)
		is.NoErr(err)
		is.Equal(use.Bytes, int64(6))
		is.Equal(len(catalog.UnreferencedRefs(tx, tx.Now, 1000)), 119)
		is.Equal(len(catalog.UnreferencedRefs(tx, tx.Now, 10)), 10)
		is.Equal(len(catalog.UnreferencedRefs(tx, tx.Now.Add(-time.Hour), 1000)), 0)
		is.True(catalog.Referenced(tx, [32]byte{1}) && !catalog.Unreferenced(tx, [32]byte{1}, tx.Now))
		is.True(catalog.Unreferenced(tx, [32]byte{2}, tx.Now) && !catalog.Unreferenced(tx, [32]byte{2}, tx.Now.Add(-time.Hour)))
		// as if it had never been known
		is.True(!catalog.Unreferenced(tx, [32]byte{200}, tx.Now) && catalog.NeverReferenced(tx, [32]byte{200}))
		return kvtest.Audit(tx)
	})
	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.Unlinked(tx, [32]byte{2}) })
	kvtest.View(t, s, func(tx *kv.Tx) error { is.Equal(len(catalog.UnreferencedRefs(tx, tx.Now, 1000)), 118); return nil })
}

// An unknown record, another owner's and one of another kind get the same answer.
func TestOneAnswerForMissing(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	ann, bob := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
	r := kvtest.Add(t, s, ann.ID, record.Notes, `{"content":"c","slug":"hers"}`)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		_, want := catalog.Record(tx, bob.ID, record.Notes, "unknown")
		is.Equal(kvtest.Code(want), "not_found")
		for _, arg := range []string{
			"", "hers", "HERS", r.ID.String(), uuid.New().String(), "\x00", "a/b", "\xff", strings.Repeat("x", 10_000),
		} {
			_, err := catalog.Record(tx, bob.ID, record.Notes, arg)
			is.Equal(err, want)
		}
		_, err := catalog.Record(tx, ann.ID, record.Links, "hers")
		is.Equal(kvtest.Code(err), "not_found")
		_, err = catalog.Slug(tx, "")
		is.Equal(err, record.ErrMissing)
		for _, arg := range []string{"hers", r.ID.String(), strings.ToUpper(r.ID.String())} {
			got, err := catalog.Record(tx, ann.ID, record.Notes, arg)
			is.NoErr(err)
			is.Equal(got.ID, r.ID)
		}
		return nil
	})
}
