package embed

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// UploadPage is where strangers send files to someone. Its form is posted to /up/{slug} as multipart with the fields
// file (several), name and message. Its script sends the same through the API in the background.
type UploadPage struct {
	Base        string
	Slug        string
	Title       string
	Description string
	Owner       string // as the owner wants to be called
	Expires     time.Time
	Approval    bool   // the owner looks at files first
	NeedsName   bool   // the sender must say a name
	Color       string // #RRGGBB, chosen by the owner; "" means none
	MaxFile     int64  // bytes of one file
	FileSize    string // MaxFile for people
	Left        int64  // files that the link still accepts; -1 means any number
	Types       []string
	Captcha     string // the provider, which needs JavaScript; "" means none
	SiteKey     string // of the provider
	AtOnce      int    // files that one form may have; with JavaScript each is sent for itself

	Came    []CameView // the files of the form that was just posted
	Problem string     // why the form was refused, as a sentence
}

// CameView is a file that was received.
type CameView struct{ Name, Size string }

// widgets are the scripts of captcha providers, and the origins from which these load everything else.
var widgets = map[string]struct{ script, origins string }{
	"turnstile": {
		script:  "https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit",
		origins: "https://challenges.cloudflare.com",
	},
	"hcaptcha": {
		script:  "https://js.hcaptcha.com/1/api.js?render=explicit",
		origins: "https://hcaptcha.com https://*.hcaptcha.com",
	},
}

// Script is the address of the provider's script; "" if none is needed.
func (p UploadPage) Script() string { return widgets[p.Captcha].script }

// Policy implements [Page]. It allows a captcha provider's origins only if the link asks for that provider's captcha.
func (p UploadPage) Policy() string {
	script, frame, more := "'self'", "'none'", ""
	if w, ok := widgets[p.Captcha]; ok {
		script, frame = script+" "+w.origins, w.origins
		if p.Captcha == "hcaptcha" {
			more = " " + w.origins
		}
	}
	return "default-src 'none'; script-src " + script + "; worker-src 'self'; style-src 'self'" + more +
		"; img-src 'self' data: blob:; connect-src 'self'" + more + "; frame-src " + frame +
		"; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
}

func (UploadPage) file() string { return "up.html" }

// Accept is the accept attribute of the file field.
func (p UploadPage) Accept() string { return strings.Join(p.Types, ",") }

// fileTypes are accepted types for people: media types, those of a class, and extensions.
func (l Lang) fileTypes(types []string) string {
	named := make([]string, len(types))
	for i, t := range types {
		class, isClass := strings.CutSuffix(t, "/*")
		switch {
		case isClass && slices.Contains([]string{"image", "video", "audio", "text"}, class):
			named[i] = l.T("kind." + class)
		case slices.Contains([]string{"application/pdf", "image/png", "image/jpeg", "image/gif", "image/webp"}, t):
			_, name, _ := strings.Cut(t, "/")
			named[i] = strings.ToUpper(name)
		default:
			named[i] = t
		}
	}
	return strings.Join(named, ", ")
}

// Full reports whether the link accepts no more files.
func (p UploadPage) Full() bool { return p.Left == 0 }

// Brand is the colour if it is valid, or "". An SVG attribute draws it and the script sets it, because a style
// attribute would need a wider policy.
func (p UploadPage) Brand() string { return Chip{Color: p.Color}.Dot() }

// Ink is black or white, whichever is easier to read on the colour (WCAG 2.2, contrast ratio). On every colour, one of
// the two has a contrast of at least 4.5.
func (p UploadPage) Ink() string {
	if p.Brand() == "" {
		return ""
	}
	light := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, _ := strconv.ParseUint(p.Color[1+2*i:3+2*i], 16, 8) // Brand has checked the digits
		v := float64(n) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		light += weight * v
	}
	if (light+0.05)/0.05 >= 1.05/(light+0.05) {
		return "#000000"
	}
	return "#FFFFFF"
}
