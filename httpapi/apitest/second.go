package apitest

import (
	"encoding/base32"
	"time"

	"kist/kv/people"
)

// codesOn sets up one-time codes in the browser with the cookie.
func (a *App) CodesOn(cookie string) (code func(steps int) string, recovery []string) {
	a.Helper()
	got := a.Do(As(cookie, "POST", "/api/v1/me/codes", nil)).Want(200)
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(got.Text("secret"))
	a.NoErr(err)
	code = func(steps int) string {
		return people.OneTimeCode(secret, a.Clock.Now().Add(time.Duration(steps)*30*time.Second))
	}
	got = a.Do(As(cookie, "PUT", "/api/v1/me/codes", map[string]string{"secret": got.Text("secret"), "code": code(-1)})).Want(200)
	for _, v := range got.At("recoveryCodes").([]any) {
		recovery = append(recovery, v.(string))
	}
	return code, recovery
}
