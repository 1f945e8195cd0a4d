package record

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"kist/kv/field"
)

// Role is what a user may do beyond their own content.
type Role string

// The roles.
const (
	Admin  Role = "admin"
	Member Role = "user"
)

// Roles lists the roles.
var Roles = []Role{Admin, Member}

// User is an account.
type User struct {
	ID          ID        `json:"ID"`
	Name        string    `json:"Name"`
	DisplayName string    `json:"DisplayName"`
	Role        Role      `json:"Role"`
	Disabled    bool      `json:"Disabled"`
	TokensOff   bool      `json:"TokensOff"` // the user's API keys are off
	Quota       int64     `json:"Quota"`     // bytes; -1 is the instance's default
	Password    string    `json:"Password"`
	Created     time.Time `json:"Created"`
	Language    Language  `json:"Language,omitempty"`
	Theme       Theme     `json:"Theme,omitempty"`
	Accent      Accent    `json:"Accent,omitempty"`
}

// Language is the language that a user has chosen; "" leaves it to the browser.
type Language string

// Languages lists the languages.
var Languages = []Language{"de", "en"}

// Theme is the brightness of the app that a user has chosen; "" follows the system.
type Theme string

// Themes lists the themes.
var Themes = []Theme{"light", "dark"}

// Accent is the colour of what can be pressed in the app; "" is the usual one.
type Accent string

// Accents lists the colours. The style sheet of the app has their values.
var Accents = []Accent{"blue", "violet", "rose", "amber"}

// Key is a credential: an API key, or the session of a browser that is signed
// in. Only the SHA-256 of its secret is kept.
type Key struct {
	ID       ID        `json:"ID"`
	Owner    ID        `json:"Owner"`
	Name     string    `json:"Name"`
	Scopes   []Scope   `json:"Scopes"`
	Disabled bool      `json:"Disabled"`
	Digest   [32]byte  `json:"Digest"`
	Created  time.Time `json:"Created"`
	Expires  time.Time `json:"Expires"`  // zero: never
	LastUsed time.Time `json:"LastUsed"` // to the minute

	Session bool          `json:"Session,omitempty"` // a session, not an API key
	Slides  time.Duration `json:"Slides,omitempty"`  // if not 0, use moves Expires this far ahead
	Device  string        `json:"Device,omitempty"`  // the client that got the key by the device flow
	Agent   string        `json:"Agent,omitempty"`   // of a session: the browser, as it calls itself
	Address string        `json:"Address,omitempty"` // of a session: where it signed in from

	Confirmed time.Time `json:"Confirmed,omitzero"` // of a session: when the user last proved who they are
}

// RecentTime is how long a session may change how its user signs in, after its user has
// proved who they are.
const RecentTime = 10 * time.Minute

// Recent reports whether the session's user proved a short time ago who they are. A sign-in
// alone does not: a proxy or an issuer may know its user from long before.
func (k *Key) Recent(now time.Time) bool { return now.Sub(k.Confirmed) < RecentTime }

// Login is what an account signs in with besides its password and its passkeys.
// An account that has nothing of this has none.
type Login struct {
	Owner     ID         `json:"Owner"`
	Secret    []byte     `json:"Secret,omitempty"`   // of the one-time codes; empty: none
	Since     time.Time  `json:"Since,omitzero"`     // when the codes were set up
	Step      int64      `json:"Step,omitempty"`     // the latest time step whose code was used
	Recovery  [][32]byte `json:"Recovery,omitempty"` // SHA-256 of each unused recovery code
	Reset     [32]byte   `json:"Reset,omitzero"`     // SHA-256 of the secret of the link that sets a password
	ResetEnds time.Time  `json:"ResetEnds,omitzero"`
	Closed    bool       `json:"Closed,omitempty"` // the sign-in was reset: nothing signs in until there is a new password
}

// Passkey is a credential of WebAuthn.
type Passkey struct {
	ID         ID        `json:"ID"`
	Owner      ID        `json:"Owner"`
	Name       string    `json:"Name"`
	Credential []byte    `json:"Credential"` // its id, which the authenticator chose
	Key        []byte    `json:"Key"`        // the public key (COSE)
	Count      int64     `json:"Count"`      // the authenticator's latest counter; 0 if it has none
	Flags      int64     `json:"Flags"`      // the authenticator's flags when it was added
	Transports []string  `json:"Transports,omitempty"`
	Created    time.Time `json:"Created"`
	LastUsed   time.Time `json:"LastUsed,omitzero"`
}

// Identity is a subject at an issuer of OpenID Connect that an account is linked to.
type Identity struct {
	ID       ID        `json:"ID"`
	Owner    ID        `json:"Owner"`
	Issuer   string    `json:"Issuer"`
	Subject  string    `json:"Subject"`
	Name     string    `json:"Name"` // as the issuer calls the user; it may change
	Created  time.Time `json:"Created"`
	LastUsed time.Time `json:"LastUsed,omitzero"`  // to the minute
	Sessions []ID      `json:"Sessions,omitempty"` // that came from it; some may have ended
}

// SlideTime is how long a session, or a key from the device flow, stays valid
// without use. SessionTime is the maximum life of a session.
const (
	SlideTime   = 30 * 24 * time.Hour
	SessionTime = 365 * 24 * time.Hour
)

// slideStep is the minimum by which use moves an expiry.
const slideStep = time.Hour

// Slide moves the expiry because the key was used at the given instant. It
// reports whether it did.
func (k *Key) Slide(at time.Time) bool {
	ends := at.Add(k.Slides)
	if latest := k.Created.Add(SessionTime); k.Session && ends.After(latest) {
		ends = latest
	}
	if k.Slides == 0 || ends.Sub(k.Expires) < slideStep {
		return false
	}
	k.Expires = ends
	return true
}

// Scope is what a key may be used for.
type Scope string

// The scopes. ScopeAll is read, write and upload. ScopeAdmin includes ScopeAll,
// and the administration if the key's user is an administrator.
const (
	ScopeAll    Scope = "all"
	ScopeRead   Scope = "read"
	ScopeWrite  Scope = "write"
	ScopeUpload Scope = "upload"
	ScopeAdmin  Scope = "admin"
)

// Scopes lists the scopes.
var Scopes = []Scope{ScopeAll, ScopeRead, ScopeWrite, ScopeUpload, ScopeAdmin}

// Allows reports whether the key has the scope or a wider one.
func (k *Key) Allows(s Scope) bool {
	switch {
	case slices.Contains(k.Scopes, ScopeAdmin), slices.Contains(k.Scopes, s):
		return true
	case s == ScopeUpload:
		return slices.Contains(k.Scopes, ScopeAll) || slices.Contains(k.Scopes, ScopeWrite)
	}
	return s != ScopeAdmin && slices.Contains(k.Scopes, ScopeAll)
}

// CleanScope is the rule for scopes.
func CleanScope(t string) (string, error) {
	if !slices.Contains(Scopes, Scope(t)) {
		return "", errors.New("must be one of: all, read, write, upload, admin")
	}
	return t, nil
}

// Settings are the administrator's settings for the whole instance.
type Settings struct {
	TokensOff    bool  `json:"TokensOff"`    // all API keys are off
	DefaultQuota int64 `json:"DefaultQuota"` // bytes a user may keep; 0 is no limit
	MaxUpload    int64 `json:"MaxUpload"`    // bytes of one file; 0 leaves it to the command line
	LinkChecks   bool  `json:"LinkChecks"`   // whether the pages of bookmarks are checked
	TrashDays    int64 `json:"TrashDays"`    // how long deleted records stay in the trash; 0 turns it off

	Captcha        CaptchaProvider `json:"Captcha,omitempty"` // "" leaves it to the command line
	CaptchaSiteKey string          `json:"CaptchaSiteKey,omitempty"`
	CaptchaSecret  string          `json:"CaptchaSecret,omitempty"`
	CaptchaURL     string          `json:"CaptchaURL,omitempty"` // where tokens are verified; "" means the provider's own

	KeepMetadata bool `json:"KeepMetadata,omitempty"` // visitors get pictures and films with their metadata
}

// DefaultTrashDays and maxTrashDays bound Settings.TrashDays.
const (
	DefaultTrashDays = 30
	maxTrashDays     = 3650
)

// CaptchaProvider is the service that tells people from programs.
type CaptchaProvider string

// The providers.
const (
	CaptchaNone      CaptchaProvider = "none"
	CaptchaPow       CaptchaProvider = "pow" // proof of work, built in
	CaptchaTurnstile CaptchaProvider = "turnstile"
	CaptchaHCaptcha  CaptchaProvider = "hcaptcha"
)

// CaptchaProviders lists the providers.
var CaptchaProviders = []CaptchaProvider{CaptchaNone, CaptchaPow, CaptchaTurnstile, CaptchaHCaptcha}

// Provider is the captcha provider to use if nothing else was configured.
func (v *Settings) Provider() CaptchaProvider { return cmp.Or(v.Captcha, CaptchaPow) }

// Largest is the largest file in bytes that may be sent; limit is that of the command line.
func (v *Settings) Largest(limit int64) int64 {
	if v.MaxUpload > 0 {
		return min(limit, v.MaxUpload)
	}
	return limit
}

// Check says what is wrong with the settings together.
func (v *Settings) Check() error {
	if p := v.Provider(); (p == CaptchaTurnstile || p == CaptchaHCaptcha) && (v.CaptchaSiteKey == "" || v.CaptchaSecret == "") {
		return Bad(map[string]string{"captchaProvider": "needs captchaSiteKey and captchaSecret"})
	}
	return nil
}

// Fields is the shape of the settings.
func (v *Settings) Fields(s *field.Set) {
	s.Bool("apiTokensDisabled", &v.TokensOff).Says("Turns all API keys off, from the next request on.", `false`)
	s.MaybeNumber("defaultQuotaBytes", &v.DefaultQuota, 1, 1<<53).
		Says("Default quota of a user in bytes, for usedBytes and unfinishedBytes together; null is no limit.", `107374182400`)
	s.MaybeNumber("maxUploadBytes", &v.MaxUpload, 1, 1<<53).
		Says("Maximum size of one file in bytes; null uses --max-upload-size, which it cannot exceed.", `5368709120`)
	s.Bool("linkChecks", &v.LinkChecks).
		Says("Whether the server fetches the pages of bookmarks to fill in missing titles, descriptions and icons, and to find pages that are gone.", `true`)
	s.Number("trashDays", &v.TrashDays, 0, maxTrashDays).
		Says("How many days deleted items stay in the trash; 0 turns the trash off and empties it.", `30`)
	s.Not("stripMetadata", &v.KeepMetadata).
		Says("Whether visitors get pictures and films without their metadata, such as where a photo was taken; a file's own stripMetadata can only turn this off.", `true`)
	field.MaybeChoice(s, "captchaProvider", &v.Captcha, CaptchaProviders).
		Says("Captcha for the upload requests that ask for one: pow, a proof of work that needs no other server; turnstile; hcaptcha; or none. Null uses --captcha, with the keys given there.", `"pow"`)
	s.Text("captchaSiteKey", &v.CaptchaSiteKey, 255).Says("Site key from turnstile or hcaptcha.", `"0x4AAAAAAA"`)
	s.Text("captchaSecret", &v.CaptchaSecret, 255, field.WriteOnly).Says("Secret from turnstile or hcaptcha; it is never shown.", `"0x4AAAAAAA-secret"`)
	s.Shown("hasCaptchaSecret", field.Schema{Type: "boolean"}, func(dst []byte) []byte {
		return strconv.AppendBool(dst, v.CaptchaSecret != "")
	}).Says("Whether there is a secret.", `false`)
	s.URL("captchaVerifyUrl", &v.CaptchaURL).Says("Where tokens are verified; empty is the provider's own address.", `"https://challenges.cloudflare.com/turnstile/v0/siteverify"`)
}

// clientNames are the names of clients that identify themselves by an id.
var clientNames = map[string]string{
	"cgdfgoapmfgdjapeehbgcnldocokgbae": "Swush extension",
	"swush-cli":                        "Swush command line",
}

// ClientName is the name that people see for a client.
func ClientName(id string) string { return cmp.Or(clientNames[id], id) }

// Device is a client's sign-in request by the device flow (RFC 8628).
type Device struct {
	Digest   [32]byte      `json:"Digest"`  // of the device code
	Code     string        `json:"Code"`    // the user code, XXXX-XXXX
	Client   string        `json:"Client"`  // what the client calls itself
	Address  string        `json:"Address"` // where it asks from; "" if unknown
	Network  string        `json:"Network"` // the network of the address; few requests of one network may wait
	Created  time.Time     `json:"Created"`
	Expires  time.Time     `json:"Expires"`
	Interval time.Duration `json:"Interval"` // between two polls
	Polled   time.Time     `json:"Polled"`   // the last poll, in rows of earlier versions
	State    DeviceState   `json:"State"`
	Owner    ID            `json:"Owner"` // who decided
}

// DeviceState is the state of a sign-in request.
type DeviceState string

// The states of a request. An approved request is removed once its key was
// fetched.
const (
	DeviceWaits    DeviceState = ""
	DeviceApproved DeviceState = "approved"
	DeviceDenied   DeviceState = "denied"
)

// DeviceError is the answer to a poll that gets no key (RFC 8628, section 3.5).
type DeviceError struct {
	Code     string
	Text     string
	Interval time.Duration // between polls, if the client may poll again
	Off      bool          // API keys are turned off
}

func (e *DeviceError) Error() string { return e.Text }

// userCodeLetters have no vowels, so that they form no words, and no letters
// that look alike (RFC 8628, section 6.1).
const userCodeLetters = "BCDFGHJKLMNPQRSTVWXZ"

// NewUserCode makes a code of eight letters, 34.5 bits.
func NewUserCode(random func([]byte)) string {
	code := make([]byte, 0, 9)
	for len(code) < 9 {
		var b [1]byte
		if random(b[:]); int(b[0]) >= 256/len(userCodeLetters)*len(userCodeLetters) {
			continue // each letter must be equally likely
		}
		code = append(code, userCodeLetters[int(b[0])%len(userCodeLetters)])
		if len(code) == 4 {
			code = append(code, '-')
		}
	}
	return string(code)
}

// CleanUserCode brings a typed code into its original form.
func CleanUserCode(t string) string {
	var b strings.Builder
	for _, r := range strings.ToUpper(t) {
		if strings.ContainsRune(userCodeLetters, r) {
			if b.Len() == 4 {
				b.WriteByte('-')
			}
			b.WriteRune(r)
		}
		if b.Len() > 9 {
			return ""
		}
	}
	return b.String()
}
