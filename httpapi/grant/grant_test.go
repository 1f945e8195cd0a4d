package grant_test

import (
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/grant"
	"kist/kv/people"
	"kist/kv/record"
)

func signer(t *testing.T, secret byte) *grant.Signer {
	t.Helper()
	g, err := grant.NewSigner([32]byte{secret})
	is.New(t).NoErr(err)
	return g
}

// A grant holds for what it was made for, and until its end.
func TestGrants(t *testing.T) {
	t.Parallel()
	g, ends := signer(t, 1), time.Unix(2_000_000_000, 0)
	item := record.Record{ID: record.ID{1}, Share: record.Share{Password: "p", Limit: 5}}
	other, changed, limited := item, item, item
	other.ID, changed.Password, limited.Limit = record.ID{2}, "q", 6
	for _, kind := range []grant.Kind{grant.ToRead, grant.ToUnlock, grant.ToEnter} {
		is := is.New(t)
		text := g.Make(kind, &item, ends, grant.Credential{Account: record.ID{8}, ID: record.ID{9}}, "ann")
		last := ends.Add(-time.Second)
		got, by, ok := g.Holds(text, kind, &item, last, "ann")
		is.True(ok)
		is.True(got.Equal(ends))
		if kind == grant.ToEnter {
			is.Equal(by, grant.Credential{Account: record.ID{8}, ID: record.ID{9}})
		} else {
			is.Equal(by, grant.Credential{})
		}
		for name, c := range map[string]struct {
			g       *grant.Signer
			text    string
			kind    grant.Kind
			r       *record.Record
			now     time.Time
			visitor string
			holds   bool
		}{
			"over":           {g, text, kind, &item, ends, "ann", false},
			"other visitor":  {g, text, kind, &item, last, "bob", false},
			"other item":     {g, text, kind, &other, last, "ann", false},
			"other password": {g, text, kind, &changed, last, "ann", false},
			"other limit":    {g, text, kind, &limited, last, "ann", kind != grant.ToRead}, // only reading is limited
			"other kind":     {g, text, 'x', &item, last, "ann", false},
			"other secret":   {signer(t, 2), text, kind, &item, last, "ann", false},
			"longer":         {g, text + "AAAA", kind, &item, last, "ann", false},
			"shorter":        {g, text[:len(text)-4], kind, &item, last, "ann", false},
			"no base64":      {g, "?" + text[1:], kind, &item, last, "ann", false},
			"none":           {g, "", kind, &item, last, "ann", false},
		} {
			if _, _, holds := c.g.Holds(c.text, c.kind, c.r, c.now, c.visitor); holds != c.holds {
				t.Errorf("%c, %s: it holds: %v", kind, name, holds)
			}
		}
	}
}

// What is signed with the secret of one server is of no use at another, and depends on all
// that it is for.
func TestSignatures(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g, other := signer(t, 1), signer(t, 2)
	is.Equal(g.DeletionMAC([]byte("a")), g.DeletionMAC([]byte("a")))
	is.Equal(len(g.DeletionMAC([]byte("a"))), grant.DeletionMAC)
	is.True(string(g.DeletionMAC([]byte("a"))) != string(g.DeletionMAC([]byte("b"))))
	is.True(string(g.DeletionMAC([]byte("a"))) != string(other.DeletionMAC([]byte("a"))))

	r := &record.Record{ID: record.ID{1}, Owner: record.ID{2}, Kind: record.Files}
	token, err := grant.GrantText.DecodeString(g.DeletionToken(r))
	is.NoErr(err)
	is.Equal(token, append(r.Key(), g.DeletionMAC(r.Key())...))

	ann, bob := &people.User{Password: "a"}, &people.User{Password: "b"}
	is.Equal(g.DeviceMAC([]byte("d"), ann), g.DeviceMAC([]byte("d"), ann))
	is.Equal(len(g.DeviceMAC([]byte("d"), ann)), grant.GrantMAC)
	is.True(string(g.DeviceMAC([]byte("d"), ann)) != string(g.DeviceMAC([]byte("e"), ann)))
	is.True(string(g.DeviceMAC([]byte("d"), ann)) != string(g.DeviceMAC([]byte("d"), bob)))
	is.True(string(g.DeviceMAC([]byte("d"), ann)) != string(other.DeviceMAC([]byte("d"), ann)))
}

// A sealed file opens for its visitor at its address, before its end.
func TestRemovedFile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g, ends := signer(t, 1), time.Unix(2_000_000_000, 0)
	last := ends.Add(-time.Second)
	for _, p := range []grant.RemovedFile{
		{
			RemovedFileHead: grant.RemovedFileHead{
				ID: record.ID{1}, Owner: record.ID{2}, Ref: [32]byte{3}, Size: 1 << 40, Ends: uint32(ends.Unix()),
				Terms: [16]byte{4}, KeepMetadata: true,
			},
			Media: "a/b", Name: "c", Slug: "s", Visitor: "v",
		},
		{RemovedFileHead: grant.RemovedFileHead{Ends: uint32(ends.Unix())}}, // no type and no name
	} {
		text, err := g.SealRemovedFile(p)
		is.NoErr(err)
		got, err := g.OpenRemovedFile(text, p.Slug, last, p.Visitor)
		is.NoErr(err)
		is.Equal(got, p)
		again, err := g.SealRemovedFile(p)
		is.NoErr(err)
		is.True(again != text) // another nonce
		for _, bad := range []func() (grant.RemovedFile, error){
			func() (grant.RemovedFile, error) { return g.OpenRemovedFile(text, p.Slug, ends, p.Visitor) },
			func() (grant.RemovedFile, error) { return g.OpenRemovedFile(text, p.Slug+"x", last, p.Visitor) },
			func() (grant.RemovedFile, error) { return g.OpenRemovedFile(text, p.Slug, last, p.Visitor+"x") },
			func() (grant.RemovedFile, error) { return g.OpenRemovedFile(text[:8], p.Slug, last, p.Visitor) },
			func() (grant.RemovedFile, error) { return g.OpenRemovedFile(text[:16], p.Slug, last, p.Visitor) }, // only a nonce
			func() (grant.RemovedFile, error) { return g.OpenRemovedFile("?", p.Slug, last, p.Visitor) },
			func() (grant.RemovedFile, error) { return signer(t, 2).OpenRemovedFile(text, p.Slug, last, p.Visitor) },
		} {
			_, err := bad()
			is.Equal(err, grant.ErrNotSealed)
		}
	}
}
