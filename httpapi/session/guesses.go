package session

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"net/url"
	"time"

	"kist/httpapi/captcha"
	"kist/httpapi/grant"
	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv/people"
	"kist/kv/record"
)

// A Guess is one attempt with a password.
type Guess struct {
	At       string // what the password is for
	Hash     string // what it must match; "" matches nothing and costs the same
	Password string
	Or       []string // other passwords that the same input may mean
	device   string   // the browser, if it has signed in to the account before; otherwise ""
	Proves   bool     // a proof of work allows guesses beyond limit.Overall
	oneTime  bool     // it is a one-time code, of which there are few wrong ones a day
}

// CheckPassword reports whether a guess is right. It counts wrong guesses: a network with
// too many of them gets TooMany before anything is hashed. If there were too many guesses
// for one thing from everywhere, a guess with Proves set needs a proof of work, so that
// strangers cannot lock out everyone. The error is then a *web.ProofNeeded.
//
// A browser that has signed in to the account before has a separate count. The other limits
// neither stop it nor count its guesses (OWASP, "Device cookies").
func CheckPassword(c *web.Request, g Guess) (right bool, err error) {
	return check(c, g, func(seat people.Seat) (bool, error) {
		return c.Site.Passwords.Check(c.R.Context(), seat, g.Hash, append([]string{g.Password}, g.Or...)...)
	})
}

// check is CheckPassword with a function that compares the guess.
func check(c *web.Request, g Guess, compare func(people.Seat) (bool, error)) (right bool, err error) {
	now, tries, network := c.Site.Store.Now(), people.TriesOf(c.Site.Store), limit.Network(c.Addr)
	seat := people.Seat{Of: "network " + network.String(), Known: tries.Familiar(network.String(), now)}
	limits := []people.Limit{limit.FromNetwork(network, g.At), limit.AllFromNetwork(network)}
	if g.device != "" {
		seat = people.Seat{Of: "device " + g.device, Known: true}
		limits = []people.Limit{limit.OnDevice(g.device, g.At)}
	}
	if g.oneTime {
		limits = append(limits, limit.CodesADay(g.device, g.At))
	}
	if wait := tries.Wait(now, limits...); wait > 0 {
		return false, TooMany(wait)
	}
	if g.device == "" {
		overall, err := overallLimit(c, g)
		if err != nil {
			return false, err
		}
		limits = append(limits, overall)
	}

	right, err = compare(seat)
	if err != nil {
		return false, err
	}

	which, wait := tries.Settle(now, right, limits...)
	if !right {
		for range g.Or { // each of them was a guess
			tries.Settle(now, false, limits...)
		}
	}
	switch {
	case which < 0:
		return right, nil
	case limits[which].Kind == limit.KindOverall && g.Proves:
		return false, proofOf(c, errSignInProof, wait)
	}
	return false, TooMany(wait)
}

// overallLimit returns the limit of guesses from anywhere. If it is reached, a guess fails unless
// it comes with a proof of work; then it is counted, and the limit does not stop it.
func overallLimit(c *web.Request, g Guess) (people.Limit, error) {
	overall := limit.Overall(g.At)
	wait := people.TriesOf(c.Site.Store).Wait(c.Site.Store.Now(), overall)
	if wait <= 0 {
		return overall, nil
	}
	if !g.Proves {
		return overall, TooMany(wait)
	}
	if err := checkProof(c, wait); err != nil {
		return overall, err
	}
	overall.Most = 0
	return overall, nil
}

var (
	errSignInProof = captcha.ErrCaptcha("Too many wrong passwords. Solve the challenge in this answer " +
		"and send the password again with the header x-captcha-token.")
	errBadProof = captcha.ErrCaptcha("The challenge was not solved or has expired. Solve the challenge in this answer.")
)

// proofOf is the error that asks for a proof. Without one, guesses are possible after wait.
func proofOf(c *web.Request, err *record.Error, wait time.Duration) error {
	e := &web.ProofNeeded{Err: *err, Challenge: c.Site.Challenges.Challenge(c.Site.Store.Now())}
	e.Err.Retry = wait
	return e
}

// checkProof checks the proof of work in the request. A proof is valid once.
func checkProof(c *web.Request, wait time.Duration) error {
	token := c.R.Header.Get("X-Captcha-Token")
	if token == "" {
		return proofOf(c, errSignInProof, wait)
	}
	if len(token) > captcha.MaxCaptcha {
		return proofOf(c, errBadProof, wait)
	}
	err := c.Site.Challenges.Solved(token, c.Site.Store.Now())
	if err == captcha.ErrBadCaptcha { //nolint:errorlint // never wrapped
		return proofOf(c, errBadProof, wait)
	}
	return err
}

// ReadProofField reads the proof of work in a page's form.
func ReadProofField(c *web.Request, form url.Values) {
	if token := form.Get("captcha"); token != "" {
		c.R.Header.Set("X-Captcha-Token", token)
	}
}

// The device cookie marks a browser that has signed in. It is signed and names the account
// and the browser. It grants nothing else, and ends when the account's password changes.
const DeviceTime = 365 * 24 * time.Hour

const deviceSize = 16 + 8 + 8 // account; time of issue in seconds since 1970; random

// setDevice marks the browser as one that has signed in to the account.
func setDevice(c *web.Request, u *people.User) {
	b := append(make([]byte, 0, deviceSize+grant.GrantMAC), u.ID[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Site.Store.Now().Unix()))
	var random [8]byte
	_, _ = rand.Read(random[:]) // cannot fail
	b = append(b, random[:]...)
	b = append(b, c.Site.Grants.DeviceMAC(b, u)...)
	setCookie(c, deviceCookie, grant.GrantText.EncodeToString(b), int(DeviceTime.Seconds()))
}

// device identifies the browser if it has signed in to the account before; otherwise it is
// "". u may be nil.
func device(c *web.Request, u *people.User) string {
	value := readCookie(c, deviceCookie)
	if value == "" || u == nil {
		return ""
	}
	b, err := grant.GrantText.DecodeString(value)
	if err != nil || len(b) != deviceSize+grant.GrantMAC || record.ID(b[:16]) != u.ID ||
		subtle.ConstantTimeCompare(b[deviceSize:], c.Site.Grants.DeviceMAC(b[:deviceSize], u)) != 1 ||
		c.Site.Store.Now().Sub(time.Unix(int64(binary.BigEndian.Uint64(b[16:])), 0)) >= DeviceTime {
		return ""
	}
	return grant.GrantText.EncodeToString(b[:deviceSize])
}

// TooMany is the error for too many wrong passwords. Others are possible after wait.
func TooMany(wait time.Duration) error {
	return &record.Error{
		Fault: record.TooMany, Code: "too_many_guesses", Retry: wait,
		Text: "Too many wrong passwords. Try again " + record.In(wait) + ".",
	}
}
