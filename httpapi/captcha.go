package httpapi

import (
	"bytes"
	"context"
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
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
)

// Bounds of captchas.
const (
	powTime    = 10 * time.Minute // in which a challenge must be solved
	powMost    = 200_000          // numbers to try: a telephone tries as many in a second or two, and half of them on average
	maxSpent   = 100_000          // challenges that were solved and have not expired
	maxCaptcha = 8 << 10          // bytes of a token
	passTime   = 10 * time.Minute // that a pass holds

	verifyTime  = 10 * time.Second // for a provider's answer
	verifyBytes = 64 << 10         // of a provider's answer
	verifyMost  = 16               // questions to providers at a time
)

// captcha tells people from programs where an upload request asks for it.
//
// The built-in way is a proof of work, in the format of ALTCHA (altcha.org,
// "Proof-of-Work", version 1; captcha2.go has version 2): the number is to be found that, after the salt,
// has the SHA-256 that the challenge names. Its key is made when the server
// starts, so that what was solved before a restart, and is forgotten, does not
// hold after it.
type captcha struct {
	key   [32]byte
	wait  time.Duration // for a provider's answer
	slots chan struct{}

	mu    sync.Mutex
	spent map[[32]byte]time.Time // challenges, and when they expire
}

func newCaptcha() *captcha {
	p := &captcha{wait: verifyTime, slots: make(chan struct{}, verifyMost), spent: map[[32]byte]time.Time{}}
	_, _ = rand.Read(p.key[:]) // cannot fail
	return p
}

func (p *captcha) mac(what string, parts ...string) []byte {
	h := hmac.New(sha256.New, p.key[:])
	_, _ = io.WriteString(h, what) // cannot fail
	for _, part := range parts {
		_, _ = io.WriteString(h, "\x00"+part)
	}
	return h.Sum(nil)
}

// challenge is what ALTCHA's widgets fetch.
type challenge struct {
	Algorithm string `json:"algorithm"`
	Challenge string `json:"challenge"`
	MaxNumber int64  `json:"maxnumber"`
	Salt      string `json:"salt"`
	Signature string `json:"signature"`
}

// sign signs a challenge as ALTCHA's libraries do: the key is our own business,
// the form is not.
func (p *captcha) sign(challenge string) string {
	h := hmac.New(sha256.New, p.mac("kist pow"))
	_, _ = io.WriteString(h, challenge) // cannot fail
	return hex.EncodeToString(h.Sum(nil))
}

func solution(salt string, number int64) string {
	sum := sha256.Sum256([]byte(salt + strconv.FormatInt(number, 10)))
	return hex.EncodeToString(sum[:])
}

func (p *captcha) challenge(now time.Time) challenge {
	var salt [12]byte
	_, _ = rand.Read(salt[:])                                 // cannot fail
	number, _ := rand.Int(rand.Reader, big.NewInt(powMost+1)) // cannot fail
	c := challenge{Algorithm: "SHA-256", MaxNumber: powMost}
	// The & keeps digits of the number from being taken for ones of the time.
	c.Salt = hex.EncodeToString(salt[:]) + "?expires=" + strconv.FormatInt(now.Add(powTime).Unix(), 10) + "&"
	c.Challenge = solution(c.Salt, number.Int64())
	c.Signature = p.sign(c.Challenge)
	return c
}

// errCaptcha asks for a captcha; programs know it by its code.
func errCaptcha(text string) *record.Error {
	return &record.Error{Fault: record.Malformed, Code: "captcha_required", Text: text}
}

var (
	errNoCaptcha  = errCaptcha("This link asks for a captcha, in the header x-captcha-token or x-captcha-pass.")
	errBadCaptcha = errCaptcha("The captcha was not solved, or has expired. Solve a new one.")
)

// solved checks a payload of ALTCHA: the challenge is ours, has not expired, is
// solved, and was not used before.
func (p *captcha) solved(token string, now time.Time) error {
	text, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		return errBadCaptcha
	}
	var version struct{ Challenge json.RawMessage }
	if json.Unmarshal(text, &version) == nil && bytes.HasPrefix(version.Challenge, []byte("{")) {
		return p.solved2(text, now)
	}
	var in struct {
		Algorithm, Challenge, Salt, Signature string
		Number                                int64
	}
	if json.Unmarshal(text, &in) != nil || in.Algorithm != "SHA-256" || in.Number < 0 || in.Number > powMost {
		return errBadCaptcha
	}
	_, query, _ := strings.Cut(in.Salt, "?")
	params, err := url.ParseQuery(query)
	if err != nil || !strings.HasSuffix(in.Salt, "&") {
		return errBadCaptcha
	}
	ends, err := strconv.ParseInt(params.Get("expires"), 10, 64)
	switch {
	case err != nil, now.Unix() >= ends,
		subtle.ConstantTimeCompare([]byte(in.Signature), []byte(p.sign(in.Challenge))) != 1,
		solution(in.Salt, in.Number) != in.Challenge:
		return errBadCaptcha
	}
	return p.spend(in.Challenge, ends, now)
}

// spend notes that a challenge, which holds until ends in seconds, was solved; it
// fails if it was before.
func (p *captcha) spend(challenge string, ends int64, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := sha256.Sum256([]byte(challenge))
	if _, used := p.spent[id]; used {
		return errBadCaptcha
	}
	if len(p.spent) >= maxSpent {
		for id, at := range p.spent {
			if !now.Before(at) {
				delete(p.spent, id)
			}
		}
		if len(p.spent) >= maxSpent {
			return &record.Error{Fault: record.Busy, Code: "busy", Text: "Too many captchas are being solved; try again in a moment.", Retry: time.Minute}
		}
	}
	p.spent[id] = time.Unix(ends, 0)
	return nil
}

// pass is a proof that a visitor has solved a captcha. It is bound to the
// visitor's network.
func (p *captcha) pass(from netip.Addr, now time.Time) (pass string, ends time.Time) {
	ends = now.Add(passTime)
	b := binary.BigEndian.AppendUint64(nil, uint64(ends.UnixMilli()))
	return grantText.EncodeToString(append(b, p.passMAC(from, b)...)), ends
}

func (p *captcha) passMAC(from netip.Addr, ends []byte) []byte {
	return p.mac("kist pass", network(from).String(), string(ends))[:grantMAC]
}

func (p *captcha) passes(text string, from netip.Addr, now time.Time) bool {
	b, err := grantText.DecodeString(text)
	return err == nil && len(b) == 8+grantMAC && now.UnixMilli() < int64(binary.BigEndian.Uint64(b)) &&
		subtle.ConstantTimeCompare(b[8:], p.passMAC(from, b[:8])) == 1
}

// siteVerify is where the providers verify tokens.
var siteVerify = map[record.CaptchaProvider]string{
	record.CaptchaTurnstile: "https://challenges.cloudflare.com/turnstile/v0/siteverify",
	record.CaptchaHCaptcha:  "https://api.hcaptcha.com/siteverify",
}

var errProvider = &record.Error{Fault: record.Busy, Code: "captcha_unavailable", Text: "The captcha cannot be checked at the moment; try again soon.", Retry: 10 * time.Second}

// askProvider has a provider verify a token.
func (c *request) askProvider(set *record.Settings, token string) error {
	at := set.CaptchaURL
	if at == "" {
		at = siteVerify[set.Provider()]
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), c.s.captcha.wait)
	defer cancel()
	select {
	case c.s.captcha.slots <- struct{}{}:
		defer func() { <-c.s.captcha.slots }()
	case <-ctx.Done():
		return errProvider
	}
	form := url.Values{"secret": {set.CaptchaSecret}, "response": {token}}
	if c.addr.IsValid() {
		form.Set("remoteip", c.addr.String())
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := c.s.Outbound.Do(r, 0) // a secret goes with it
	var body []byte
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(answer.Body, verifyBytes+1))
		_ = answer.Body.Close() // it was read
	}
	var says struct{ Success *bool }
	if err != nil || len(body) > verifyBytes || answer.StatusCode >= 300 && answer.StatusCode < 400 || answer.StatusCode >= 500 ||
		json.Unmarshal(bytes.TrimSpace(body), &says) != nil || says.Success == nil {
		c.s.Log.Warn("a captcha was not verified", "requestId", c.id, "provider", string(set.Provider()), "error", err)
		return errProvider
	}
	if !*says.Success {
		return errBadCaptcha
	}
	return nil
}

// Captcha is a provider of captchas and what it takes to use it.
type Captcha struct {
	Provider        record.CaptchaProvider
	SiteKey, Secret string // of turnstile and hcaptcha
	VerifyURL       string // "" is the provider's own
}

// settings are what holds: what an administrator has set, and the captcha of
// the configuration where that says nothing of one.
func (s *site) settings(tx *kv.Tx) (record.Settings, error) {
	set, err := tx.Settings()
	if d := s.Captcha; set.Captcha == "" && d.Provider != "" {
		set.Captcha, set.CaptchaSiteKey, set.CaptchaSecret, set.CaptchaURL = d.Provider, d.SiteKey, d.Secret, d.VerifyURL
	}
	return set, err
}

func (c *request) settings() (set record.Settings, err error) {
	return set, c.s.Store.View(func(tx *kv.Tx) error { set, err = c.s.settings(tx); return err })
}

// checkCaptcha checks a token of the provider that is set.
func (c *request) checkCaptcha(set *record.Settings, token string) error {
	switch {
	case token == "" || len(token) > maxCaptcha:
		return errBadCaptcha
	case set.Provider() == record.CaptchaPow:
		return c.s.captcha.solved(token, c.s.Store.Now())
	}
	return c.askProvider(set, token)
}

// requireCaptcha lets those pass who have solved a captcha, if the request asks for one
// and the instance has a provider.
func (c *request) requireCaptcha(q *record.Request) error {
	if !q.Captcha {
		return nil
	}
	set, err := c.settings()
	if err != nil || set.Provider() == record.CaptchaNone {
		return err
	}
	pass, token := c.r.Header.Get("X-Captcha-Pass"), c.r.Header.Get("X-Captcha-Token")
	switch {
	case pass != "" && c.s.captcha.passes(pass, c.addr, c.s.Store.Now()):
		return nil
	case token != "":
		return c.checkCaptcha(&set, token)
	case pass != "":
		return errBadCaptcha
	}
	return errNoCaptcha
}

var errCaptchaOff = record.NotFound("captcha")

func readChallenge(c *request) error {
	set, err := c.settings()
	if err != nil {
		return err
	}
	if set.Provider() != record.CaptchaPow {
		return errCaptchaOff
	}
	var challenge any
	switch c.r.URL.Query().Get("version") {
	case "", "1":
		challenge = c.s.captcha.challenge(c.s.Store.Now())
	case "2":
		challenge = c.s.captcha.challenge2(c.s.Store.Now())
	default:
		return &record.Error{Fault: record.Malformed, Code: "bad_query", Text: "The parameter version must be 1 or 2."}
	}
	b, err := json.Marshal(challenge)
	if err != nil {
		return err
	}
	return c.respondJSON(http.StatusOK, b)
}

// tokenOfCaptcha is what is traded for a pass.
type tokenOfCaptcha struct{ token string }

func (f *tokenOfCaptcha) Fields(s *field.Set) {
	s.Text("token", &f.token, maxCaptcha, field.Required, field.Filled).Says("What solving the captcha gave.", `"eyJhbGdvcml0aG0iOiJTSEEtMjU2Iiwi…"`)
}

func tradeToken(c *request) error {
	form := new(tokenOfCaptcha)
	if err := c.decodeNew(form); err != nil {
		return err
	}
	set, err := c.settings()
	if err != nil {
		return err
	}
	if set.Provider() == record.CaptchaNone {
		return errCaptchaOff
	}
	if err := c.checkCaptcha(&set, form.token); err != nil {
		return err
	}
	pass, ends := c.s.captcha.pass(c.addr, c.s.Store.Now())
	return c.respondJSON(http.StatusOK, []byte(`{"ok":true,"pass":"`+pass+`","expiresAt":"`+ends.UTC().Format(field.TimeLayout)+`"}`))
}

func captchaRoutes() []route {
	text := object{"type": "string"}
	version := param{"query", "version", "Version of ALTCHA's format: 1, which is the default, or 2.", object{"type": "string", "enum": []string{"1", "2"}}, "2"}
	return []route{
		{
			method: "GET", path: apiPath + "captcha/challenge", id: "readChallenge", tag: "captcha",
			summary: "A challenge of the built-in proof of work, in ALTCHA's format: find the number that, after the salt, has the SHA-256 of the challenge; in version 2, the counter with which the SHA-256 of salt, nonce and counter begins with the prefix.",
			access:  anyone, args: []param{version}, reply: reply{200, "The challenge.", named("CaptchaChallenges", jsonOf(object{"oneOf": []object{ref("CaptchaChallenge"), ref("CaptchaChallenge2")}}, object{
				"algorithm": "SHA-256", "challenge": "2ad2cf53fd4c3b33…", "maxnumber": powMost, "salt": "5d9f0ad4c1e2b7a38f604c2d?expires=1767348000&", "signature": "91b1c3f07c5d…",
			}))}, fails: []int{404}, serve: readChallenge,
		},
		{
			method: "POST", path: apiPath + "captcha/verify", id: "verifyCaptcha", tag: "captcha",
			summary: "Trades what solving a captcha gave, which works once, for a pass that holds ten minutes for the caller's address.",
			access:  anyone, body: bodyOf("CaptchaToken"), reply: reply{200, "The pass, for the header x-captcha-pass.", named("CaptchaPass", jsonOf(members(object{
				"ok": object{"type": "boolean"}, "pass": text, "expiresAt": object{"type": "string", "format": "date-time"},
			}, "ok", "pass", "expiresAt"), object{"ok": true, "pass": "AAABm4…", "expiresAt": "2026-01-02T03:14:05.678Z"}))}, // #nosec G101 -- an example in the document
			fails: []int{404, 503}, serve: tradeToken,
		},
	}
}
