package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
)

const securityText = "/.well-known/security.txt"

// TestSecurityText: the file is there when there is a contact, and says what RFC 9116 asks for.
func TestSecurityText(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Visit(securityText).Want(404)
	is.Equal(a.Get("/api/v1/admin/settings").At("data.securityContact"), "")
	a.Patch("/api/v1/admin/settings", `{"securityContact":"mailto:security@example.org"}`).Want(200)

	got := a.Visit(securityText).Want(200)
	is.Equal(got.Header.Get("Content-Type"), "text/plain; charset=utf-8")
	fields := map[string]string{}
	for line := range strings.Lines(string(got.Body)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		fields[name] = value
	}
	until := fields["Expires"]
	delete(fields, "Expires")
	is.Equal(fields, map[string]string{
		"Contact":             "mailto:security@example.org",
		"Preferred-Languages": "en",
		"Canonical":           "https://kist.example.org" + securityText,
	})
	end, err := time.Parse(time.RFC3339, until)
	is.NoErr(err)
	is.Equal(end, end.Truncate(24*time.Hour))
	left := end.Sub(a.Server.Store.Now())
	is.True(left > 180*24*time.Hour && left < 365*24*time.Hour)

	// It stays the same for a day at most.
	tag := got.Header.Get("Etag")
	is.True(tag != "")
	a.Send("GET", securityText, "If-None-Match", tag).Want(304)
	a.Clock.Advance(24 * time.Hour)
	a.Send("GET", securityText, "If-None-Match", tag).Want(200)

	a.Patch("/api/v1/admin/settings", `{"securityContact":null}`).Want(200)
	a.Visit(securityText).Want(404)
}

// TestSecurityTextWithoutTLS: the file has an address of its own only where that is https.
func TestSecurityTextWithoutTLS(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.Base = "http://nas.lan" })
	a.Patch("/api/v1/admin/settings", `{"securityContact":"https://example.org/report"}`).Want(200)
	body := string(a.Visit(securityText).Want(200).Body)
	is.True(strings.Contains(body, "Contact: https://example.org/report\n"))
	is.True(!strings.Contains(body, "Canonical"))
}
