package apitest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"

	"kist/httpapi/captcha"
)

// Ask makes an upload request and answers its id and slug.
func (a *App) Ask(fields map[string]any) (id, slug string) {
	a.Helper()
	all := map[string]any{"title": "Photos"}
	for k, v := range fields {
		all[k] = v
	}
	made := a.Post("/api/v1/upload-requests", all).Want(201)
	return made.Text("data.id"), made.Text("data.slug")
}

// Leave sends files to an upload link, as a stranger does.
func (a *App) Leave(slug string, header http.Header, fields map[string]string, files ...Part) *Answer {
	a.Helper()
	q := a.UploadRequest(fields, files...)
	q.Path, q.Anyone = "/api/v1/upload-requests/p/"+slug+"/files", true
	for name, v := range header {
		q.Header[name] = v
	}
	return a.Do(q)
}

func (a *App) CodeOf(g *Answer, status int) string { a.Helper(); return g.Want(status).Text("code") }

// Solve works out a challenge as a widget does.
func (a *App) Solve() string {
	a.Helper()
	c := a.Visit("/api/v1/captcha/challenge").Want(200)
	salt, want := c.Text("salt"), c.Text("challenge")
	for n := range captcha.PowMax + 1 {
		if sum := sha256.Sum256([]byte(salt + strconv.Itoa(n))); hex.EncodeToString(sum[:]) == want {
			b, err := json.Marshal(map[string]any{
				"algorithm": "SHA-256", "challenge": want, "number": n, "salt": salt, "signature": c.Text("signature"), "took": 12,
			})
			a.NoErr(err)
			return base64.StdEncoding.EncodeToString(b)
		}
	}
	a.Fatal("the challenge has no solution")
	return ""
}
