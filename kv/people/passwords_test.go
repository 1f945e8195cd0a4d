package people_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/people"
)

func TestPasswords(t *testing.T) {
	is := is.New(t)
	p, ctx := people.NewPasswords(), t.Context()
	long := strings.Repeat("x", 72)
	for _, password := range []string{"", " x\x00é ", long + "1"} {
		phc, err := p.Hash(ctx, "", password)
		is.NoErr(err)
		is.True(regexp.MustCompile(`^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$`).MatchString(phc))
		ok, err := p.Check(ctx, people.Seat{}, phc, password)
		is.NoErr(err)
		is.True(ok)
		ok, err = p.Check(ctx, people.Seat{}, phc, password+"2")
		is.NoErr(err)
		is.True(!ok)
	}
	one, err := p.Hash(ctx, "", long+"1")
	is.NoErr(err)
	ok, err := p.Check(ctx, people.Seat{}, one, long+"2") // all 73 bytes count
	is.NoErr(err)
	is.True(!ok)
	two, err := p.Hash(ctx, "", long+"1")
	is.NoErr(err)
	is.True(one != two) // salted
	ok, err = p.Check(ctx, people.Seat{}, "", "")
	is.NoErr(err)
	is.True(!ok) // no hash: no password matches

	// A known answer from the reference implementation, with other parameters.
	known := "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	ok, err = p.Check(ctx, people.Seat{}, known, "password")
	is.NoErr(err)
	is.True(ok)
	for _, bad := range []string{
		"x", "$$$$$", strings.Replace(known, "2id", "2i", 1), strings.Replace(known, "v=19", "v=16", 1), strings.Replace(known, "t=2", "t=0", 1),
		strings.Replace(known, "p=1", "p=0", 1), strings.Replace(known, "p=1", "p=300", 1), strings.Replace(known, "65536", "4294967295", 1),
		strings.Replace(known, "t=2", "t=9999", 1), known + "$", known[:len(known)-30], known[:len(known)-31], known[:len(known)-1] + "!", known + strings.Repeat("A", 44), strings.Replace(known, "c29t", "!!!!", 1), strings.Replace(known, "m=", "m=-", 1),
	} {
		ok, err := p.Check(ctx, people.Seat{}, bad, "password")
		is.True(err != nil)
		is.True(!ok)
	}
}

// A hash from outside must not cost more to check than one made here.
func TestValidHash(t *testing.T) {
	is := is.New(t)
	hash, err := people.NewPasswords().Hash(t.Context(), "", "open sesame")
	is.NoErr(err)
	is.True(people.ValidHash(hash))
	is.True(!people.ValidHash(""))
	for _, bad := range []string{"m=19457,t=2,p=1", "m=19456,t=3,p=1", "m=19456,t=2,p=2", "m=19456,t=0,p=1", "m=x,t=2,p=1"} {
		is.True(!people.ValidHash(strings.Replace(hash, "m=19456,t=2,p=1", bad, 1)))
	}
	is.True(!people.ValidHash(hash + strings.Repeat("A", 200)))
}
