package web

import (
	"strings"
	"testing"
)

// No secret of an address is logged, also if the address is mistyped. What names a thing is.
func TestLoggable(t *testing.T) {
	t.Parallel()
	const secret = "AZClBcDf0123456789_-abcdefghijklmnopqrstuvw"
	for _, path := range []string{
		"/login/reset/" + secret, "/login//reset/" + secret, "//login///reset//" + secret, "/Login/Reset/" + secret, "/login/rest/" + secret,
		"/login/reset" + secret, "/login/reset/" + secret + ")", "/login/reset/" + secret + "/", "/claim/" + secret, "/claim" + secret,
		"/kist/claim/short", "/clam/" + secret, "/share/delete/" + secret, "/share//delete/" + secret, "/" + secret, "/x/kist_" + secret,
	} {
		if got := loggable(path); strings.Contains(got, secret) || strings.Contains(got, "short") {
			t.Errorf("%s: %s", path, got)
		}
	}
	for path, want := range map[string]string{
		"/v/summer-24": "/v/summer-24", "/api/v1/notes/01890a5d-ac96-774b-bcce-b302099a8057": "/api/v1/notes/01890a5d-ac96-774b-bcce-b302099a8057",
		"//v//a": "/v/a", "/": "/", "": "",
		"/a/" + secret + "/b/" + secret: "/a/…/b/…", secret: "…", secret + "/é": "…/é",
	} {
		if got := loggable(path); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}
