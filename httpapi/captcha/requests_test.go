package captcha

import (
	"encoding/base64"
	"errors"
	"testing"
	"time"
)

func FuzzCaptchaToken(f *testing.F) {
	f.Add("eyJhbGdvcml0aG0iOiJTSEEtMjU2In0=")
	f.Add(base64.StdEncoding.EncodeToString([]byte(`{"algorithm":"SHA-256","challenge":"0","number":1,"salt":"a?expires=99999999999&","signature":"0"}`)))
	p := NewIssuer()
	f.Fuzz(func(t *testing.T, token string) {
		if err := p.Solved(token, time.Unix(1, 0)); !errors.Is(err, ErrBadCaptcha) {
			t.Fatalf("%q: %v", token, err)
		}
	})
}
