package people

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
	"golang.org/x/text/unicode/norm"

	"kist/blobs/flight"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
)

// MinPassword is how many characters of an account's password must remain: see Remains.
// maxPassword is its limit in bytes.
const (
	MinPassword = 8
	maxPassword = field.MaxSecret
)

// CheckPassword is the rule for a new password of an account: one line of at most maxPassword bytes of UTF-8, of which
// MinPassword characters remain. It must not be common. Nothing is taken away from it, so it must be something that a
// person can type into one line again. names are what strangers know: the user's name and that of the server. common
// reports whether many people use a password in lower case.
func CheckPassword(t string, names []string, common func(string) bool) error {
	length := len(t)
	t = prepared(t)
	switch {
	case utf8.RuneCountInString(t) < MinPassword:
		return fmt.Errorf("must be at least %d characters long", MinPassword)
	case length > maxPassword:
		return fmt.Errorf("must be at most %d bytes long", maxPassword)
	case !utf8.ValidString(t):
		return errors.New("must be valid UTF-8")
	case strings.ContainsFunc(t, unicode.IsControl):
		return errors.New("must be one line without control characters")
	case common(strings.ToLower(t)):
		return errors.New("is one of the most common passwords. Choose another")
	case Remains(t, names) < MinPassword:
		return errors.New("is easy to guess: repeats, rows such as 1234 or qwerty, " +
			"and the names of user and server count as one character. Choose another")
	}
	return nil
}

// prepared is a password in the form that is hashed. One that is typed on another keyboard is the same: letters may be
// composed or not, and spaces of any width are spaces (RFC 8265, section 4.2, OpaqueString). Unlike there, no character
// is refused.
func prepared(password string) string {
	if !utf8.ValidString(password) {
		return password
	}
	return norm.NFC.String(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Zs, r) {
			return ' '
		}
		return r
	}, password))
}

// keyRows are characters that follow one another on a keyboard. Alphabets and digits follow by their numbers.
var keyboardRows = [][]rune{
	[]rune("1234567890"), []rune("qwertyuiop"), []rune("asdfghjkl"), []rune("zxcvbnm"),
	[]rune("qwertzuiopü"), []rune("asdfghjklöä"), []rune("yxcvbnm"),
	[]rune("azertyuiop"), []rune("qsdfghjklm"), []rune("wxcvbn"),
	[]rune("1qaz2wsx3edc4rfv5tgb6yhn7ujm"), []rune("1q2w3e4r5t6y7u8i9o0p"), []rune("!@#$%^&*()"), []rune("!\"§$%&/()="),
}

// minRun is the shortest run that counts as one character, and the shortest name that does.
const minRun = 3

// Remains is how many characters of a password are left to guess, ignoring case: a run of one
// character, of neighbours in an alphabet or on a keyboard in either direction, a repetition of what
// stands before it, and each of the names count as one character.
func Remains(t string, names []string) (n int) {
	left := []rune(record.Fold(t))
	var known [][]rune
	for _, name := range names {
		if name := []rune(record.Fold(name)); len(name) >= minRun {
			known = append(known, name)
		}
	}

	for i := 0; i < len(left); n++ {
		length := 1
		for _, name := range known {
			if len(name) <= len(left)-i && slices.Equal(name, left[i:i+len(name)]) {
				length = max(length, len(name))
			}
		}
		if run := runAt(left[i:]); run >= minRun {
			length = max(length, run)
		}
		i += max(length, repeatAt(left, i))
	}
	return n
}

// runAt is the length of the run with which a text begins.
func runAt(t []rune) (longest int) {
	for _, step := range []rune{-1, 0, 1} {
		longest = max(longest, following(t, func(a, b rune) bool {
			return b-a == step && (step == 0 || letterOrDigit(a) && letterOrDigit(b))
		}))
	}
	for _, row := range keyboardRows {
		place := func(r rune) int { return slices.Index(row, r) }
		for _, step := range []int{-1, 1} {
			longest = max(longest, following(t, func(a, b rune) bool {
				return place(a) >= 0 && place(b) >= 0 && place(b)-place(a) == step
			}))
		}
	}
	return longest
}

func letterOrDigit(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// following is the length of the longest beginning of which each character follows the one before.
func following(t []rune, follows func(a, b rune) bool) int {
	n := 1
	for n < len(t) && follows(t[n-1], t[n]) {
		n++
	}
	return n
}

// repeatAt is how long the text from i on repeats what stands directly before it, at least once in
// full; 0 if it does not.
func repeatAt(t []rune, i int) (longest int) {
	for period := 2; period <= i && i+period <= len(t); period++ {
		n := 0
		for i+n < len(t) && t[i+n] == t[i+n-period] {
			n++
		}
		if n >= period {
			longest = max(longest, n)
		}
	}
	return longest
}

// The cost of a hash (OWASP Password Storage Cheat Sheet): memory in KiB,
// passes, lanes.
const (
	argonMemory = 19456
	argonTime   = 2
	argonLanes  = 1
	argonSalt   = 16
	argonSum    = 32
)

// Passwords hashes and checks passwords with Argon2id (RFC 9106). It runs one at a
// time per core and at most two, so that a flood of guesses cannot take all memory
// or all processors. A bounded number of calls wait in a queue. Some of its places
// are reserved for known seats, and no seat gets more than its share. So a flood
// from one network, or from many unknown ones, does not lock users out.
type Passwords struct {
	// Memory (KiB) and Passes are the cost of a new hash. NewPasswords sets them;
	// only tests that need many hashes lower them.
	Memory, Passes uint32

	turns flight.Turns // to hash

	mu       sync.Mutex
	all      int            // places taken, including running hashes
	unknown  int            // those of unknown seats
	occupied map[string]int // those of each seat
}

// A Seat says for whom a password is checked.
type Seat struct {
	Of    string // a network, a browser
	Known bool   // it has signed in before and may use the reserved places
}

// How many may wait for a turn, and for how long.
const (
	maxWaiting = 8
	maxWait    = 2 * time.Second

	reservedPlaces = 4                // for known seats
	placesOfSeat   = 2                // a seat may use to check passwords
	placesOfOwner  = 2 + maxWaiting/2 // an owner may use to hash new passwords
)

// NewPasswords makes a hasher; a process needs one.
func NewPasswords() *Passwords {
	return &Passwords{
		Memory: argonMemory, Passes: argonTime,
		turns: make(flight.Turns, min(2, runtime.NumCPU())), occupied: map[string]int{},
	}
}

// take takes a place in the queue and reports whether there was one.
func (p *Passwords) take(seat Seat, limit int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	room := cap(p.turns) + maxWaiting
	if p.all >= room || p.occupied[seat.Of] >= limit || !seat.Known && p.unknown >= room-reservedPlaces {
		return false
	}
	p.all++
	p.occupied[seat.Of]++
	if !seat.Known {
		p.unknown++
	}
	return true
}

func (p *Passwords) giveUp(seat Seat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	p.occupied[seat.Of]--
	if p.occupied[seat.Of] == 0 {
		delete(p.occupied, seat.Of)
	}
	if !seat.Known {
		p.unknown--
	}
}

// enter waits for a turn; Busy if too many wait already or it takes too long.
func (p *Passwords) enter(ctx context.Context, seat Seat, limit int) (leave func(), err error) {
	busy := &record.Error{
		Fault: record.Busy, Code: "busy", Retry: maxWait,
		Text: "Too many passwords are being checked; try again in a moment.",
	}
	if !p.take(seat, limit) {
		return nil, busy
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	if p.turns.Take(ctx) != nil {
		p.giveUp(seat)
		return nil, busy
	}
	return func() {
		p.turns.Give()
		p.giveUp(seat)
	}, nil
}

// Hash hashes a new password with a random salt and returns a PHC string. It is for
// signed-in callers; owner identifies the caller, so that one caller cannot take all
// places. It takes tens of milliseconds: never call it inside a transaction.
func (p *Passwords) Hash(ctx context.Context, owner, password string) (string, error) {
	leave, err := p.enter(ctx, Seat{Of: "owner " + owner, Known: true}, placesOfOwner)
	if err != nil {
		return "", err
	}
	defer leave()
	salt := make([]byte, argonSalt)
	kv.Random(salt)
	sum := argon2.IDKey([]byte(prepared(password)), salt, p.Passes, p.Memory, argonLanes, argonSum)
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, p.Memory, p.Passes, argonLanes,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(sum)), nil
}

// Check reports whether one of the passwords matches the PHC string; several are
// what one input may mean. Given an empty string it does the same work and reports
// false, so that its timing does not reveal whether there is a password.
func (p *Passwords) Check(ctx context.Context, seat Seat, phc string, passwords ...string) (bool, error) {
	leave, err := p.enter(ctx, seat, placesOfSeat)
	if err != nil {
		return false, err
	}
	defer leave()
	h := hash{memory: p.Memory, passes: p.Passes, lanes: argonLanes, salt: make([]byte, argonSalt)}
	length := uint32(argonSum)
	if phc != "" {
		h, err = parseHash(phc)
		if err != nil {
			return false, err
		}
		length = uint32(len(h.sum))
	}

	for _, spelling := range spellings(passwords) {
		got := argon2.IDKey([]byte(spelling), h.salt, h.passes, h.memory, h.lanes, length)
		if subtle.ConstantTimeCompare(got, h.sum) == 1 {
			return true, nil
		}
	}
	return false, nil
}

// spellings are the texts whose hashes may be that of one of the passwords: each as it is hashed today, and the first
// also as it was typed, because hashes of former versions are of that.
func spellings(passwords []string) (all []string) {
	for i, password := range passwords {
		all = append(all, prepared(password))
		if i == 0 && all[0] != password {
			all = append(all, password)
		}
	}
	return all
}

// hash is a parsed PHC string.
type hash struct {
	memory, passes uint32
	lanes          uint8
	salt, sum      []byte
}

func parseHash(phc string) (h hash, err error) {
	var version uint32
	parts := strings.Split(phc, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		return h, errPHC
	}
	_, err = fmt.Sscanf(parts[2]+" "+parts[3], "v=%d m=%d,t=%d,p=%d", &version, &h.memory, &h.passes, &h.lanes)
	if err != nil || version != argon2.Version ||
		h.memory > 1<<20 || h.passes == 0 || h.passes > 64 || h.lanes == 0 {
		return h, errPHC
	}
	var err1, err2 error
	h.salt, err1 = base64.RawStdEncoding.DecodeString(parts[4])
	h.sum, err2 = base64.RawStdEncoding.DecodeString(parts[5])
	if err1 != nil || err2 != nil || len(h.sum) < 16 || len(h.sum) > 64 {
		return h, errPHC
	}
	return h, nil
}

// ValidHash reports whether a string from outside is a hash of the kind Hash makes.
// Checking it then costs no more than checking one of ours.
func ValidHash(phc string) bool {
	h, err := parseHash(phc)
	return err == nil && len(phc) <= 256 && len(h.salt) >= 8 &&
		h.memory <= argonMemory && h.passes <= argonTime && h.lanes <= argonLanes
}

var errPHC = errors.New("a stored password hash is damaged")
