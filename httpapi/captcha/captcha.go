// Package captcha makes proof-of-work challenges, checks their solutions, and issues passes
// for them.
package captcha

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"math/big"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"kist/blobs/flight"
	"kist/httpapi/grant"
	"kist/httpapi/limit"
	"kist/kv/people"
	"kist/kv/record"
)

// Bounds of captchas.
const (
	PowTime    = 10 * time.Minute // time to solve a challenge
	PowMax     = 200_000          // numbers to try: a phone needs a second or two for all, and half of them on average
	MaxSpent   = 100_000          // solved challenges that have not expired
	MaxCaptcha = 8 << 10          // bytes of a token
	passTime   = 10 * time.Minute // validity of a pass

	verifyTime   = 10 * time.Second // for a provider's answer
	VerifyBytes  = 64 << 10         // of a provider's answer
	maxVerifying = 16               // requests to providers at a time
)

// Issuer checks that clients are not bots: at upload requests that ask for it, and after
// too many wrong passwords.
//
// The built-in check is a proof of work in the format of ALTCHA (altcha.org,
// "Proof-of-Work", version 1; altcha2.go has version 2): a client has to find the number
// that, appended to the salt, has the SHA-256 in the challenge. The key is made when the
// server starts. So solutions from before a restart, which the server no longer remembers,
// are not valid after it.
type Issuer struct {
	key   [32]byte
	Wait  time.Duration // for a provider's answer
	Turns flight.Turns  // to ask a provider

	mu    sync.Mutex
	Spent map[[32]byte]time.Time // used challenges and their expiry
}

func NewIssuer() *Issuer {
	p := &Issuer{Wait: verifyTime, Turns: make(flight.Turns, maxVerifying), Spent: map[[32]byte]time.Time{}}
	_, _ = rand.Read(p.key[:]) // cannot fail
	return p
}

func (p *Issuer) mac(what string, parts ...string) []byte {
	h := hmac.New(sha256.New, p.key[:])
	_, _ = io.WriteString(h, what) // cannot fail
	for _, part := range parts {
		_, _ = io.WriteString(h, "\x00"+part)
	}
	return h.Sum(nil)
}

// Challenge is what ALTCHA's widgets fetch.
type Challenge struct {
	Algorithm string `json:"algorithm"`
	Challenge string `json:"challenge"`
	MaxNumber int64  `json:"maxnumber"`
	Salt      string `json:"salt"`
	Signature string `json:"signature"`
}

// sign signs a challenge as ALTCHA's libraries do. Only the key is our choice.
func (p *Issuer) sign(challenge string) string {
	h := hmac.New(sha256.New, p.mac("kist pow"))
	_, _ = io.WriteString(h, challenge) // cannot fail
	return hex.EncodeToString(h.Sum(nil))
}

func Solution(salt string, number int64) string {
	sum := sha256.Sum256([]byte(salt + strconv.FormatInt(number, 10)))
	return hex.EncodeToString(sum[:])
}

func (p *Issuer) Challenge(now time.Time) Challenge {
	var salt [12]byte
	_, _ = rand.Read(salt[:])                                // cannot fail
	number, _ := rand.Int(rand.Reader, big.NewInt(PowMax+1)) // cannot fail
	c := Challenge{Algorithm: "SHA-256", MaxNumber: PowMax}
	// The & separates the digits of the number from those of the time.
	c.Salt = hex.EncodeToString(salt[:]) + "?expires=" + strconv.FormatInt(now.Add(PowTime).Unix(), 10) + "&"
	c.Challenge = Solution(c.Salt, number.Int64())
	c.Signature = p.sign(c.Challenge)
	return c
}

// ErrCaptcha asks for a captcha. Programs recognise it by its code.
func ErrCaptcha(text string) *record.Error {
	return &record.Error{Fault: record.Malformed, Code: "captcha_required", Text: text}
}

var (
	ErrNoCaptcha  = ErrCaptcha("This link needs a captcha in the header x-captcha-token or x-captcha-pass.")
	ErrBadCaptcha = ErrCaptcha("The captcha was not solved or has expired. Solve a new one.")
)

// Solved checks a payload of ALTCHA: the challenge is ours, unexpired, solved, and not used
// before.
func (p *Issuer) Solved(token string, now time.Time) error {
	text, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		return ErrBadCaptcha
	}
	var version struct{ Challenge json.RawMessage }
	if json.Unmarshal(text, &version) == nil && bytes.HasPrefix(version.Challenge, []byte("{")) {
		return p.solved2(text, now)
	}
	var in struct {
		Algorithm, Challenge, Salt, Signature string
		Number                                int64
	}
	if json.Unmarshal(text, &in) != nil || in.Algorithm != "SHA-256" || in.Number < 0 || in.Number > PowMax {
		return ErrBadCaptcha
	}
	_, query, _ := strings.Cut(in.Salt, "?")
	params, err := url.ParseQuery(query)
	if err != nil || !strings.HasSuffix(in.Salt, "&") {
		return ErrBadCaptcha
	}
	ends, err := strconv.ParseInt(params.Get("expires"), 10, 64)
	switch {
	case err != nil, now.Unix() >= ends,
		subtle.ConstantTimeCompare([]byte(in.Signature), []byte(p.sign(in.Challenge))) != 1,
		Solution(in.Salt, in.Number) != in.Challenge:
		return ErrBadCaptcha
	}
	return p.spend(in.Challenge, ends, now)
}

// spend marks a challenge, which expires at ends (in seconds), as used. It fails if the
// challenge was used before.
func (p *Issuer) spend(challenge string, ends int64, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := sha256.Sum256([]byte(challenge))
	if _, used := p.Spent[id]; used {
		return ErrBadCaptcha
	}
	if len(p.Spent) >= MaxSpent {
		for id, at := range p.Spent {
			if !now.Before(at) {
				delete(p.Spent, id)
			}
		}
		if len(p.Spent) >= MaxSpent {
			return &record.Error{
				Fault: record.Busy, Code: "busy", Text: "Too many captchas are being solved. Try again in a moment.",
				Retry: time.Minute,
			}
		}
	}
	p.Spent[id] = time.Unix(ends, 0)
	return nil
}

// Pass makes a proof that a visitor has solved a captcha. It is bound to the visitor's
// network.
func (p *Issuer) Pass(from netip.Addr, now time.Time) (pass string, ends time.Time) {
	ends = now.Add(passTime)
	b := binary.BigEndian.AppendUint64(nil, uint64(ends.UnixMilli()))
	return grant.GrantText.EncodeToString(append(b, p.passMAC(from, b)...)), ends
}

func (p *Issuer) passMAC(from netip.Addr, ends []byte) []byte {
	return p.mac("kist pass", limit.Network(from).String(), string(ends))[:grant.GrantMAC]
}

func (p *Issuer) Passes(text string, from netip.Addr, now time.Time) bool {
	b, err := grant.GrantText.DecodeString(text)
	return err == nil && len(b) == 8+grant.GrantMAC && now.UnixMilli() < int64(binary.BigEndian.Uint64(b)) &&
		subtle.ConstantTimeCompare(b[8:], p.passMAC(from, b[:8])) == 1
}

// Config is a captcha provider and its settings.
type Config struct {
	Provider        people.CaptchaProvider
	SiteKey, Secret string // for turnstile and hcaptcha
	VerifyURL       string // "" means the provider's own
}
