package admin_test

import (
	"bytes"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// leave sends a file to an upload link and answers the item's id.
func (p *place) leave(slug, content string) string {
	p.t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	part, err := w.CreateFormFile("file", "some.txt")
	if err == nil {
		_, err = part.Write([]byte(content))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	var sent struct{ Items []struct{ ItemID string } }
	text := p.send(http.MethodPost, "/api/v1/upload-requests/p/"+slug+"/files", "", w.FormDataContentType(), &body)
	if err := json.Unmarshal([]byte(text), &sent); err != nil || len(sent.Items) != 1 {
		p.t.Fatalf("%s: %v", text, err)
	}
	return sent.Items[0].ItemID
}

// The captcha of serve: what cannot work is refused at the start, and the
// secret can come from a file.
func TestCaptchaFlags(t *testing.T) {
	needs.Time(t)
	is := is.New(t)
	t.Parallel()
	p := newPlace(t)
	for _, bad := range [][]string{
		{"--captcha", "recaptcha"},
		{"--captcha", "turnstile"},
		{"--captcha", "hcaptcha", "--captcha-site-key", "k"},
		{"--captcha-site-key", "k"},
		{"--captcha", "none", "--captcha-secret", "s"},
		{"--captcha", "turnstile", "--captcha-site-key", "k", "--captcha-secret", "s", "--captcha-verify-url", "ftp://x"},
	} {
		r := p.run("", append([]string{"serve"}, bad...)...)
		is.Equal(r.code, 2)
		is.True(strings.Contains(r.err, "--captcha")) // which says what is wrong
	}
	p.write("secret", "hush\n")
	p.env = append(
		p.env, "KIST_CAPTCHA=turnstile", "KIST_CAPTCHA_SITE_KEY=site", "KIST_CAPTCHA_SECRET_FILE="+p.path("secret"),
	)
	s := p.serve()
	var made struct{ Data struct{ Slug string } }
	is.NoErr(json.Unmarshal(
		[]byte(p.send(
			http.MethodPost, "/api/v1/upload-requests", p.key(), "application/json",
			strings.NewReader(`{"title":"Photos","requiresCaptcha":true}`),
		)),
		&made,
	))
	is.True(strings.Contains(
		p.send(http.MethodGet, "/api/v1/upload-requests/p/"+made.Data.Slug, "", "", http.NoBody),
		`"captcha":{"provider":"turnstile","siteKey":"site"}`,
	))
	s.stop()
}

// What waits for approval is kept by the sweep, and in backups; what was
// rejected is freed, unless a file has the same content.
func TestUploadsOnDisk(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	key := p.key()
	var made struct{ Data struct{ ID, Slug string } }
	is.NoErr(json.Unmarshal(
		[]byte(p.send(
			http.MethodPost, "/api/v1/upload-requests", key, "application/json", strings.NewReader(`{"title":"Photos"}`),
		)),
		&made,
	))
	queue := "/api/v1/upload-requests/" + made.Data.ID + "/queue/"
	decide := func(p *place, item, action string) string {
		return p.send(http.MethodPatch, queue+item, key, "application/json", strings.NewReader(`{"action":"`+action+`"}`))
	}
	waits, refused, shared := p.leave(made.Data.Slug, "waits"), p.leave(made.Data.Slug, "refused"), p.leave(made.Data.Slug, "shared")
	p.upload(key, "own.txt", "shared")
	decide(p, refused, "reject")
	decide(p, shared, "reject")
	p.must("gc", "--now")
	is.True(p.exists(p.blob("waits")))
	is.True(!p.exists(p.blob("refused")))
	is.True(p.exists(p.blob("shared")))
	is.True(strings.Contains(p.must("backup", "copy"), "2 files"))
	p.must("verify", "copy")
	s.stop()
	p.must("verify")

	again := newPlace(t)
	again.must("restore", p.path("copy"))
	s = again.serve()
	is.True(strings.Contains(decide(again, waits, "approve"), `"status":"approved"`))
	again.must("gc", "--now")
	is.True(again.exists(again.blob("waits")))
	again.send(http.MethodDelete, "/api/v1/upload-requests/"+made.Data.ID, key, "", http.NoBody)
	// what was approved stays
	is.True(strings.Contains(again.send(http.MethodGet, "/api/v1/files?limit=5", key, "", http.NoBody), "some.txt"))
	s.stop()
}
