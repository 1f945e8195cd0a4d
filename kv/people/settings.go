package people

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/mail"
	"strconv"
	"strings"

	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
	"kist/kv/workcopy"
)

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

	// SecurityContact is where weaknesses of the server are reported, a mailto or https address; "" if nowhere.
	SecurityContact string `json:"SecurityContact,omitempty"`

	PeopleUnlisted bool `json:"PeopleUnlisted,omitempty"` // only administrators see who is on the server
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
	p := v.Provider()
	if (p == CaptchaTurnstile || p == CaptchaHCaptcha) && (v.CaptchaSiteKey == "" || v.CaptchaSecret == "") {
		return record.Bad(map[string]string{"captchaProvider": "needs captchaSiteKey and captchaSecret"})
	}
	if v.SecurityContact != "" && !isContact(v.SecurityContact) {
		return record.Bad(map[string]string{"securityContact": "must be mailto: and one e-mail address, or an https address"})
	}
	return nil
}

// isContact reports whether a text is an address for reports, which has a line of a file to itself. It is ASCII, as
// such a file needs it.
func isContact(text string) bool {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return false
	}
	if to, ok := strings.CutPrefix(text, "mailto:"); ok {
		a, err := mail.ParseAddress(to)
		return err == nil && a.Address == to && len(to) <= maxMailAddress && !strings.ContainsAny(to, "\"?#%&")
	}
	clean, err := field.CleanURL(text)
	return err == nil && clean == text && strings.HasPrefix(text, "https://")
}

// maxMailAddress is the length of the longest e-mail address in bytes (RFC 5321, section 4.5.3.1).
const maxMailAddress = 254

// Fields is the shape of the settings.
func (v *Settings) Fields(s *field.Set) {
	s.Bool("apiTokensDisabled", &v.TokensOff).Says("Turns all API keys off, from the next request on.", `false`)
	s.MaybeNumber("defaultQuotaBytes", &v.DefaultQuota, 1, 1<<53).
		Says("Default quota of a user in bytes, for usedBytes and unfinishedBytes together; null is no limit.",
			`107374182400`)
	s.MaybeNumber("maxUploadBytes", &v.MaxUpload, 1, 1<<53).
		Says("Maximum size of one file in bytes; null uses --max-upload-size, which it cannot exceed.", `5368709120`)
	s.Bool("linkChecks", &v.LinkChecks).
		Says("Whether the server fetches the pages of bookmarks to fill in missing titles, descriptions and icons, "+
			"and to find pages that are gone.", `true`)
	s.Number("trashDays", &v.TrashDays, 0, maxTrashDays).
		Says("How many days deleted items stay in the trash; 0 turns the trash off and empties it.", `30`)
	s.Not("stripMetadata", &v.KeepMetadata).
		Says("Whether visitors get pictures and films without their metadata, such as where a photo was taken; "+
			"a file's own stripMetadata can only turn this off.", `true`)
	s.Not("listPeople", &v.PeopleUnlisted).
		Says("Whether the people of this server see each other's names, except those who hide themselves. "+
			"Administrators always see them.", `true`)
	field.MaybeChoice(s, "captchaProvider", &v.Captcha, CaptchaProviders).
		Says("Captcha for the upload requests that ask for one: pow, a proof of work that needs no other server; "+
			"turnstile; hcaptcha; or none. Null uses --captcha, with the keys given there.", `"pow"`)
	s.Text("captchaSiteKey", &v.CaptchaSiteKey, 255).Says("Site key from turnstile or hcaptcha.", `"0x4AAAAAAA"`)
	s.Text("captchaSecret", &v.CaptchaSecret, 255, field.WriteOnly).
		Says("Secret from turnstile or hcaptcha; it is never shown.", `"0x4AAAAAAA-secret"`)
	s.Shown("hasCaptchaSecret", field.Schema{Type: "boolean"}, func(dst []byte) []byte {
		return strconv.AppendBool(dst, v.CaptchaSecret != "")
	}).Says("Whether there is a secret.", `false`)
	s.URL("captchaVerifyUrl", &v.CaptchaURL).
		Says("Where tokens are verified; empty is the provider's own address.",
			`"https://challenges.cloudflare.com/turnstile/v0/siteverify"`)
	s.LongText("securityContact", &v.SecurityContact, field.MaxURL).
		Says("Where weaknesses of the server are reported: mailto: and an e-mail address, or an https address. "+
			"/.well-known/security.txt tells it; while it is empty, there is no such file.", `"mailto:security@example.org"`)
}

// Settings reads the instance's settings.
func ReadSettings(tx *kv.Tx) (Settings, error) {
	set := Settings{LinkChecks: true, TrashDays: DefaultTrashDays}
	if v := tx.Get(workcopy.MetaBucket, kv.MetaSettings); v != nil {
		if err := json.Unmarshal(v, &set); err != nil {
			return set, fmt.Errorf("settings: %w", err)
		}
	}
	return set, nil
}

// SetSettings writes the instance's settings.
func SetSettings(tx *kv.Tx, set Settings) error {
	callers.Drop(tx)
	PagesDue.Raise(tx)
	v, err := json.Marshal(set)
	if err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	return tx.Put(workcopy.MetaBucket, kv.MetaSettings, v)
}
