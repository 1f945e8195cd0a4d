package serve

import (
	"net/url"

	"kist/admin/exit"
	"kist/kv/people"
)

// CaptchaFlags choose the captcha that the server uses unless its settings name
// one.
type CaptchaFlags struct {
	Captcha        people.CaptchaProvider `default:"pow" enum:"pow,turnstile,hcaptcha,none" placeholder:"PROVIDER" help:"The captcha for upload requests that ask for one: pow (built in), turnstile, hcaptcha or none. A choice in the admin settings takes precedence."`
	CaptchaSiteKey string                 `placeholder:"KEY" help:"Site key from Turnstile or hCaptcha."`
	CaptchaSecret  string                 `placeholder:"SECRET" help:"Secret from Turnstile or hCaptcha. Put it into a file that KIST_CAPTCHA_SECRET_FILE names instead: other users can see the command line."`
	CaptchaURL     string                 `name:"captcha-verify-url" placeholder:"URL" help:"Where tokens are verified. If absent, the provider's own URL."`
}

// Check fails with an error of usage if the flags do not go together.
func (f *CaptchaFlags) Check() error {
	external := f.Captcha == people.CaptchaTurnstile || f.Captcha == people.CaptchaHCaptcha
	u, err := url.Parse(f.CaptchaURL)
	switch {
	case external && (f.CaptchaSiteKey == "" || f.CaptchaSecret == ""):
		return exit.Misused("--captcha %s needs --captcha-site-key and --captcha-secret", f.Captcha)
	case !external && (f.CaptchaSiteKey != "" || f.CaptchaSecret != "" || f.CaptchaURL != ""):
		return exit.Misused("--captcha-site-key, --captcha-secret and --captcha-verify-url belong to --captcha turnstile " +
			"or hcaptcha")
	case f.CaptchaURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == ""):
		return exit.Misused("--captcha-verify-url must be an absolute http or https address; it is %q", f.CaptchaURL)
	}
	return nil
}
