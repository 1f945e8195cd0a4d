package captcha

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
)

// token is a payload as ALTCHA's widgets send it.
func token(t *testing.T, payload any) string {
	t.Helper()
	text, err := json.Marshal(payload)
	is.New(t).NoErr(err)
	return base64.StdEncoding.EncodeToString(text)
}

type answer struct {
	Algorithm, Challenge, Salt, Signature string
	Number                                int64
}

// solve signs a challenge with the number as its solution, as Challenge does.
func (p *Issuer) solve(salt string, number int64) answer {
	c := Solution(salt, number)
	return answer{"SHA-256", c, salt, p.sign(c), number}
}

// TestSolved: a challenge is solved once, before it expires, with a number in its range.
func TestSolved(t *testing.T) {
	t.Parallel()
	p, end := NewIssuer(), time.Unix(2_000_000_000, 0)
	last := end.Add(-time.Second)
	good := p.solve("a?expires=2000000000&", 7)
	changed := func(change func(a *answer)) answer { a := good; change(&a); return a }
	for _, c := range []struct {
		name string
		a    answer
		now  time.Time
		ok   bool
	}{
		{"expired", good, end, false},
		{"other algorithm", changed(func(a *answer) { a.Algorithm = "SHA-1" }), last, false},
		{"other number", changed(func(a *answer) { a.Number = 8 }), last, false},
		{"other salt", changed(func(a *answer) { a.Salt = "b?expires=2000000000&" }), last, false},
		{"later end", changed(func(a *answer) { a.Salt = "a?expires=2000000001&" }), last, false},
		{"other signature", changed(func(a *answer) { a.Signature = strings.Repeat("0", 64) }), last, false},
		{"other server's", NewIssuer().solve("a?expires=2000000000&", 7), last, false},
		{"no separator", p.solve("a?expires=200000000", 7), time.Unix(1, 0), false},
		{"no end", p.solve("a?&", 7), last, false},
		{"no query", p.solve("a&", 7), last, false},
		{"bad query", p.solve("a?expires=2000000000&%&", 7), last, false},
		{"number below the range", p.solve("a?expires=2000000000&", -1), last, false},
		{"number above the range", p.solve("a?expires=2000000000&", PowMax+1), last, false},
		{"lowest number", p.solve("a?expires=2000000000&", 0), last, true},
		{"highest number", p.solve("a?expires=2000000000&", PowMax), last, true},
		{"good", good, last, true},
		{"used", good, last, false},
	} {
		err := p.Solved(token(t, c.a), c.now)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrBadCaptcha) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestChallenge: a challenge has a solution in its range and expires.
func TestChallenge(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p, now := NewIssuer(), time.Unix(2_000_000_000, 0)
	c := p.Challenge(now)
	is.Equal(c.MaxNumber, int64(PowMax))
	is.True(strings.HasSuffix(c.Salt, "?expires=2000000600&"))
	is.True(p.Challenge(now).Salt != c.Salt)
	number := int64(0)
	for Solution(c.Salt, number) != c.Challenge {
		number++
		is.True(number <= PowMax)
	}
	is.NoErr(p.Solved(token(t, answer{c.Algorithm, c.Challenge, c.Salt, c.Signature, number}), now))
}

type answer2 struct {
	Challenge Challenge2
	Solution  struct {
		Counter    int64
		DerivedKey string
	}
}

// TestSolved2: the same of version 2.
func TestSolved2(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p, now := NewIssuer(), time.Unix(2_000_000_000, 0)
	c := p.Challenge2(now)
	is.Equal(c.Parameters.KeyPrefix, powPrefix)
	is.Equal(c.Parameters.ExpiresAt, now.Add(PowTime).Unix())
	is.True(p.Challenge2(now).Parameters.Nonce != c.Parameters.Nonce)
	is.True(p.Challenge2(now).Parameters.Salt != c.Parameters.Salt)
	c.Parameters.KeyPrefix = "0" // quick to solve
	c.Signature = p.sign2(c.Parameters)
	var good answer2
	good.Challenge = c
	for {
		good.Solution.DerivedKey = c.Parameters.Key(uint32(good.Solution.Counter))
		if good.Solution.DerivedKey[0] == '0' {
			break
		}
		good.Solution.Counter++
	}
	changed := func(change func(a *answer2)) answer2 { a := good; change(&a); return a }
	resigned := func(change func(a *answer2)) answer2 {
		return changed(func(a *answer2) { change(a); a.Challenge.Signature = p.sign2(a.Challenge.Parameters) })
	}
	end := now.Add(PowTime)
	last := end.Add(-time.Second)
	for _, c := range []struct {
		name string
		a    answer2
		now  time.Time
		ok   bool
	}{
		{"expired", good, end, false},
		{"other counter", changed(func(a *answer2) { a.Solution.Counter++ }), last, false},
		{"counter below the range", changed(func(a *answer2) { a.Solution.Counter -= 1 << 32 }), last, false},
		{"counter above the range", changed(func(a *answer2) { a.Solution.Counter += 1 << 32 }), last, false},
		{"other key", changed(func(a *answer2) { a.Solution.DerivedKey = "0" }), last, false},
		{"other signature", changed(func(a *answer2) { a.Challenge.Signature = strings.Repeat("0", 64) }), last, false},
		{"other prefix", changed(func(a *answer2) { a.Challenge.Parameters.KeyPrefix = "" }), last, false},
		{"not solved", resigned(func(a *answer2) { a.Challenge.Parameters.KeyPrefix = "x" }), last, false},
		{"in capitals", changed(func(a *answer2) {
			a.Solution.DerivedKey = strings.ToUpper(a.Solution.DerivedKey)
		}), last, true},
		{"used", good, last, false},
	} {
		err := p.Solved(token(t, c.a), c.now)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrBadCaptcha) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, bad := range []Parameters2{{Salt: "x", Nonce: "00"}, {Salt: "00", Nonce: "x"}} {
		is.Equal(bad.Key(1), "")
	}
}

// TestPass: a pass is valid for one network, before its end.
func TestPass(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p, now := NewIssuer(), time.Unix(2_000_000_000, 0)
	home, away := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	pass, ends := p.Pass(home, now)
	is.Equal(ends, now.Add(passTime))
	last := ends.Add(-time.Millisecond)
	is.True(p.Passes(pass, home, last))
	is.True(!p.Passes(pass, home, ends))
	is.True(!p.Passes(pass, away, last))
	is.True(!p.Passes(pass+"AAAA", home, last))
	is.True(!p.Passes(pass[:len(pass)-4], home, last))
	is.True(!p.Passes("?"+pass[1:], home, last))
	is.True(!p.Passes("", home, last))
	is.True(!NewIssuer().Passes(pass, home, last))
	is.Equal(pass[:4], "AAAB")
	is.True(!p.Passes("AAAC"+pass[4:], home, last)) // a later end
}
