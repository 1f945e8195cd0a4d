package people_test

import (
	"encoding/base64"
	"regexp"
	"strings"
	"testing"

	"github.com/matryer/is"
	"golang.org/x/crypto/argon2"

	"kist/kv/people"
)

func TestCheckPassword(t *testing.T) {
	for _, c := range []struct {
		name, password string
		ok             bool
	}{
		{"shortest", "correcth", true},
		{"too short", "correct", false},
		{"characters count, not bytes", "éàéâ", false},
		{"eight characters", "éàôâüöäß", true},
		{"longest", strings.Repeat("correct horse ba", 64), true},
		{"too long", strings.Repeat("correct horse ba", 64) + "x", false},
		{"spaces", " a q c p ", true},
		{"letters with their accents behind them", "e\u0301e\u0301e\u0301e\u0301", false},
		{"tab", "axc\tdrfgh", false},
		{"two lines", "axcd\nerfgh", false},
		{"NUL", "axcd\x00efrgh", false},
		{"C1 control character", "axcd\u0085erfgh", false},
		{"invalid UTF-8", "axcderfgh\xff", false},
		{"none", "", false},
		{"common", "PassWord", false},
		{"longer than a common one", "password!", true},
		{"with the name", "i am Ann.", false},
		{"with the name and enough else", "i am Ann, the cook", true},
		{"with a part of the name", "an apple a day", true},
		{"one character", "aaaaaaaa", false},
		{"one sign", "!!!!!!!!", false},
		{"spaces alone", "        ", false},
		{"the alphabet", "abcdefgh", false},
		{"digits backwards", "87654321", false},
		{"a row of keys", "asdfghjkl", false},
		{"another row", "Qwertz1234", false},
		{"columns of keys", "1qaz2wsx", false},
		{"the name twice", "annannann", false},
		{"the server twice", "KistKist!", false},
		{"a word twice", "horsehorse", false},
		{"a word thrice", "blueblueblue", false},
		{"a row beside words", "horse 1234 lake", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			is := is.New(t)
			is.Equal(people.CheckPassword(c.password, []string{"ann", "kist"}, func(t string) bool {
				return t == "password"
			}) == nil, c.ok)
		})
	}
}

func TestRemains(t *testing.T) {
	for password, want := range map[string]int{
		"": 0, "a": 1, "aa": 2, "aaa": 1, "1234": 1, "4321x": 2, "qwerty": 1, "ytrewq": 1, "trustno1": 8, "abab": 3, "abcxabcxabc": 3,
		"horsehorse!": 7, "ann": 1, "ANNann": 2, "an": 2, "kist4711": 5, "αβγδ": 1, "!@#$": 1,
	} {
		if got := people.Remains(password, []string{"ann", "kist", "an", ""}); got != want {
			t.Errorf("%q: %d, want %d", password, got, want)
		}
	}
}

func FuzzRemains(f *testing.F) {
	f.Add("qwerty 1234 ann", "ann")
	f.Add("\xffabab", "")
	f.Fuzz(func(t *testing.T, password, name string) {
		if n := people.Remains(password, []string{name}); n < 0 || n > 4*len(password) { // folding may lengthen a text
			t.Errorf("%q: %d", password, n)
		}
	})
}

// A password that is too short or too long is told what is wrong with it.
func TestCheckPasswordLength(t *testing.T) {
	is := is.New(t)
	never := func(string) bool { return false }
	is.Equal(people.CheckPassword("1234567", nil, never).Error(), "must be at least 8 characters long")
	is.Equal(people.CheckPassword(strings.Repeat("a", 1025), nil, never).Error(), "must be at most 1024 bytes long")
}

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
	for _, bad := range []string{
		"m=19457,t=2,p=1", "m=19456,t=3,p=1", "m=19456,t=2,p=2", "m=19456,t=0,p=1", "m=x,t=2,p=1",
	} {
		is.True(!people.ValidHash(strings.Replace(hash, "m=19456,t=2,p=1", bad, 1)))
	}
	is.True(!people.ValidHash(hash + strings.Repeat("A", 200)))
}

// TestPasswordSpellings: a password is the same on every keyboard.
func TestPasswordSpellings(t *testing.T) {
	is := is.New(t)
	ctx := t.Context()
	p := people.NewPasswords()
	p.Memory, p.Passes = 64, 1
	for _, c := range []struct {
		set, typed string
		right      bool
	}{
		{"Größe 12345", "Gro\u0308ße 12345", true},
		{"Gro\u0308ße 12345", "Größe 12345", true},
		{"passé", "passe\u0301", true},
		{"한국어", "\u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165", true},
		{"パスワード", "ハ\u309aスワート\u3099", true},
		{"two words", "two\u00a0words", true},
		{"two\u3000words", "two words", true},
		{"👩\u200d👩\u200d👧", "👩\u200d👩\u200d👧", true},
		{" blanks  inside ", " blanks  inside ", true},
		{" blanks  inside ", "blanks inside", false},
		{"Größe", "Grosse", false},
		{"größe", "Größe", false},
		{"\xff\xfe", "\xff\xfe", true},
		{"ﬁne", "fine", false},
	} {
		phc, err := p.Hash(ctx, "ann", c.set)
		is.NoErr(err)
		got, err := p.Check(ctx, people.Seat{}, phc, c.typed)
		is.NoErr(err)
		if got != c.right {
			t.Errorf("%q for %q: %t", c.typed, c.set, got)
		}
		got, err = p.Check(ctx, people.Seat{}, phc, "another", c.typed)
		is.NoErr(err)
		is.Equal(got, c.right) // as what the input may also mean
	}

	// A former version hashed what was typed.
	const typed = "Gro\u0308ße 12345"
	salt := []byte("0123456789abcdef")
	before := "$argon2id$v=19$m=64,t=1,p=1$" + base64.RawStdEncoding.EncodeToString(salt) + "$" +
		base64.RawStdEncoding.EncodeToString(argon2.IDKey([]byte(typed), salt, 1, 64, 1, 32))
	right, err := p.Check(ctx, people.Seat{}, before, typed)
	is.NoErr(err)
	is.True(right)
}
