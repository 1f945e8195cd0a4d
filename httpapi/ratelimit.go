package httpapi

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"kist/kv"
	"kist/kv/record"
)

// How many wrong passwords are taken in guessWindow.
const (
	guessWindow     = kv.TryWindow
	guessesFrom     = 5  // for one thing from one network
	guessesOfAll    = 20 // for anything from one network
	guessesOverall  = 30 // for one thing from anywhere
	guessesOnDevice = 10 // for one account from one browser that has signed in to it
)

// The kinds of limits (kv.Limit). They are on the disk for as long as a window
// lasts.
const (
	limitFrom    = 'f' // network and thing
	limitAll     = 'n' // network
	limitOverall = 'o' // thing
	limitDevice  = 'd' // browser and account
)

// How many addresses at which nothing is shared a visitor may try in
// missWindow. Slugs that people choose can be guessed; what kist chooses has 58
// bits.
const (
	missWindow     = time.Minute
	missesFrom     = 60
	maxMissEntries = 100_000
	recentMisses   = 4096
)

// A counter counts events by what they fall under. A count begins with its first
// event and holds for the window; until then nothing removes it. The zero
// value is ready for use, by one goroutine at a time.
type counter[K comparable] struct {
	counts map[K]guessLimits
	swept  time.Time
}

type guessLimits struct {
	n     int
	since time.Time
}

// wait is how long the count stays at or above limit; 0 or less if it is below.
func (t *counter[K]) wait(key K, limit int, window time.Duration, now time.Time) time.Duration {
	if c := t.counts[key]; c.n >= limit {
		return c.since.Add(window).Sub(now)
	}
	return 0
}

// add counts an event, and reports whether it did: what has no count yet finds
// no room among room counts that hold.
func (t *counter[K]) add(key K, room int, window time.Duration, now time.Time) bool {
	c, there := t.counts[key]
	if !there && len(t.counts) >= room && now.Sub(t.swept) >= time.Second { // it looks at all of them
		t.swept = now
		maps.DeleteFunc(t.counts, func(_ K, c guessLimits) bool { return now.Sub(c.since) >= window })
	}
	if !there && len(t.counts) >= room {
		return false
	}
	if t.counts == nil {
		t.counts = map[K]guessLimits{}
	}
	if now.Sub(c.since) >= window {
		c = guessLimits{since: now}
	}
	c.n++
	t.counts[key] = c
	return true
}

// guessSeed makes the hashes of misses unknown to visitors.
var guessSeed = maphash.MakeSeed()

// network is what stands for one visitor: an IPv4 address, or the /64 of an
// IPv6 one, which one household has at least.
func network(a netip.Addr) netip.Prefix {
	bits := 32
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits)
	return p
}

// A guess is one try of a password.
type guess struct {
	at       string // the thing it is for
	hash     string // what it must match; "" matches nothing and costs the same
	password string
	device   string // the browser, if it has signed in to the account before; "" if not
	proves   bool   // a proof of work lets tries go on that guessesOverall would stop
}

// checkPassword says whether a guess is right. It counts wrong ones, so that passwords
// cannot be tried out: a network that has made too many gets TooMany, before
// anything is hashed. When there were too many for one thing from anywhere, a
// guess that proves needs a proof of work, so that strangers cannot lock
// everyone out; the error then is a *proofNeeded.
//
// A browser that has signed in to the account has a count of its own, and the
// others neither stop it nor count its guesses (OWASP, "Device cookies").
func (c *request) checkPassword(g guess) (right bool, err error) {
	now, tries := c.s.Store.Now(), c.s.Store.Tries()
	from := network(c.addr).String()
	seat := kv.Seat{Of: "network " + from, Known: tries.Familiar(from, now)}
	limits := []kv.Limit{{Kind: limitFrom, Of: from + " " + g.at, Most: guessesFrom}, {Kind: limitAll, Of: from, Most: guessesOfAll}}
	overall := kv.Limit{Kind: limitOverall, Of: g.at, Most: guessesOverall}
	if g.device != "" {
		seat = kv.Seat{Of: "device " + g.device, Known: true}
		limits = []kv.Limit{{Kind: limitDevice, Of: g.device + " " + g.at, Most: guessesOnDevice}}
	}
	if wait := tries.Wait(now, limits...); wait > 0 {
		return false, tooMany(wait)
	}
	if g.device == "" {
		if wait := tries.Wait(now, overall); wait > 0 {
			if !g.proves {
				return false, tooMany(wait)
			}
			if err := c.checkProof(wait); err != nil {
				return false, err
			}
			overall.Most = 0 // counted all the same
		}
		limits = append(limits, overall)
	}
	right, err = c.s.Passwords.Check(c.r.Context(), seat, g.hash, g.password)
	if err != nil {
		return false, err
	}
	which, wait := tries.Settle(now, right, limits...)
	switch {
	case which < 0:
		return right, nil
	case limits[which].Kind == limitOverall && g.proves:
		return false, c.proofOf(errSignInProof, wait)
	}
	return false, tooMany(wait)
}

// proofNeeded asks for a proof of work. The client finds what it needs for that
// in the answer.
type proofNeeded struct {
	err       record.Error
	challenge challenge
}

func (e *proofNeeded) Error() string { return e.err.Text }
func (e *proofNeeded) Unwrap() error { return &e.err }

var (
	errSignInProof = errCaptcha("Too many wrong passwords. Solve the challenge in this answer and send the password again with the header x-captcha-token.")
	errBadProof    = errCaptcha("The challenge was not solved, or has expired. Solve the one of this answer.")
)

// proofOf asks for a proof. Without one, tries go on after wait.
func (c *request) proofOf(err *record.Error, wait time.Duration) error {
	e := &proofNeeded{*err, c.s.captcha.challenge(c.s.Store.Now())}
	e.err.Retry = wait
	return e
}

// checkProof checks the proof of work that the request brings; it holds once.
func (c *request) checkProof(wait time.Duration) error {
	token := c.r.Header.Get("X-Captcha-Token")
	if token == "" {
		return c.proofOf(errSignInProof, wait)
	}
	if len(token) > maxCaptcha {
		return c.proofOf(errBadProof, wait)
	}
	err := c.s.captcha.solved(token, c.s.Store.Now())
	if err == errBadCaptcha { //nolint:errorlint // it is this very one
		return c.proofOf(errBadProof, wait)
	}
	return err
}

// proofArg is the header of a proof of work.
var proofArg = param{
	"header", "x-captcha-token", "What solving the challenge gave, where the answer before this one was 400 with the code captcha_required and a challenge; base64 of ALTCHA's payload. It works once.",
	object{"type": "string", "maxLength": maxCaptcha},
	"eyJhbGdvcml0aG0iOiJTSEEtMjU2Iiwi…",
}

// readProofField takes the proof of work of a page's form.
func (c *request) readProofField(form url.Values) {
	if token := form.Get("captcha"); token != "" {
		c.r.Header.Set("X-Captcha-Token", token)
	}
}

// A deviceCookie is kept by a browser that has signed in: it names the account
// and the browser, and is signed. It proves nothing but that, and not after the
// account's password has changed.
const deviceTime = 365 * 24 * time.Hour

const deviceSize = 16 + 8 + 8 // account; when it was given, in seconds since 1970; random

const deviceCookie = "kist_device"

// setDevice has the browser keep that it has signed in to the account.
func (c *request) setDevice(u *record.User) {
	b := append(make([]byte, 0, deviceSize+grantMAC), u.ID[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(c.s.Store.Now().Unix()))
	var random [8]byte
	_, _ = rand.Read(random[:]) // cannot fail
	b = append(b, random[:]...)
	b = append(b, c.s.grants.deviceMAC(b, u)...)
	http.SetCookie(c.w, &http.Cookie{ // #nosec G124 -- it is Secure on https
		Name: c.siteCookie(deviceCookie), Value: grantText.EncodeToString(b), Path: "/", MaxAge: int(deviceTime.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: c.secure(),
	})
}

// device is what names the browser if it has signed in to the account; "" if it
// has not. u may be nil.
func (c *request) device(u *record.User) string {
	cookie, err := c.r.Cookie(c.siteCookie(deviceCookie))
	if err != nil || u == nil {
		return ""
	}
	b, err := grantText.DecodeString(cookie.Value)
	if err != nil || len(b) != deviceSize+grantMAC || record.ID(b[:16]) != u.ID ||
		subtle.ConstantTimeCompare(b[deviceSize:], c.s.grants.deviceMAC(b[:deviceSize], u)) != 1 ||
		c.s.Store.Now().Sub(time.Unix(int64(binary.BigEndian.Uint64(b[16:])), 0)) >= deviceTime {
		return ""
	}
	return grantText.EncodeToString(b[:deviceSize])
}

func tooMany(wait time.Duration) error {
	return &record.Error{Fault: record.TooMany, Code: "too_many_guesses", Text: "Too many wrong passwords. Try again " + roundedUp(wait) + ".", Retry: wait}
}

// roundedUp is a wait as people say it, rounded up.
func roundedUp(wait time.Duration) string {
	switch n := int(math.Ceil(wait.Seconds())); {
	case n <= 1:
		return "in a second"
	case n < 90:
		return fmt.Sprintf("in %d seconds", n)
	default:
		return fmt.Sprintf("in %d minutes", (n+59)/60)
	}
}

type slugProbe struct {
	from netip.Prefix
	slug string
}

// slugProbes counts for how many slugs a visitor asks that are not shared, so that
// they cannot be tried out. Anyone who has missed too often is told nothing more
// of any slug until the window is over, but of what they have a grant for; of requests that come at the same time
// a few more may be answered. To ask for the same slug again is no guess and not
// counted, if it is among the last. The zero value is ready for use. The counts
// are gone when the process ends.
//
// It takes a bounded amount of memory: the misses of more than maxMissEntries
// networks in one window are not counted, so that a crowd of guessers shuts
// nobody else out.
type slugProbes struct {
	mu     sync.Mutex
	tally  counter[netip.Prefix]
	recent [recentMisses]uint64 // hashes of who missed what, each in its one place
}

// allow reports whether the visitor may ask for another slug, or how long to
// wait.
func (m *slugProbes) allow(from netip.Addr, now time.Time) (wait time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.tally.counts) == 0 {
		return 0, true
	}
	wait = m.tally.wait(network(from), missesFrom, missWindow, now)
	return wait, wait <= 0
}

func (m *slugProbes) count(from netip.Addr, slug string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	hash := maphash.Comparable(guessSeed, slugProbe{network(from), slug})
	place := &m.recent[hash%recentMisses]
	if *place == hash {
		return
	}
	*place = hash
	m.tally.add(network(from), maxMissEntries, missWindow, now)
}

// find answers a visitor by way of a route on which slugs could be guessed.
func (m *slugProbes) find(c *request, serve func(*request) error) error {
	name := c.args[len(c.args)-1].Value // the path ends in the slug
	if wait, ok := m.allow(c.addr, c.s.Store.Now()); !ok && !c.hasGrant(name) {
		return &record.Error{Fault: record.TooMany, Code: "too_many_misses", Text: "Too many addresses were tried at which there is nothing. Try again later.", Retry: wait}
	}
	err := serve(c)
	if missing(err) {
		m.count(c.addr, name, c.s.Store.Now())
	}
	return err
}
