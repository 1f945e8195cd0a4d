package apitest

import (
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kist/blobs"
	"kist/httpapi/web"
)

// Send is a request by a visitor, with any method.
func (a *App) Send(method, path string, header ...string) *Answer {
	a.Helper()
	return a.Do(Request{Method: method, Path: path, Anyone: true, Header: WithHeader(header...), Raw: true})
}

// Share uploads a public file and returns its slug.
func (a *App) Share(content string, fields ...string) string {
	a.Helper()
	form := map[string]string{"isPublic": "true"}
	for i := 0; i+1 < len(fields); i += 2 {
		form[fields[i]] = fields[i+1]
	}
	return a.Upload(form, File("a.txt", "text/plain", content)).Want(201).Text("slug")
}

func (a *App) Counted(collection, slug, counter string) int {
	a.Helper()
	return int(a.Get("/api/v1/" + collection + "/" + slug).Want(200).At("data." + counter).(float64))
}

// Flush waits until views that are counted late are written: a mark that is
// counted after them shows.
func (a *App) Flush() {
	a.Helper()
	mark := a.Post("/api/v1/notes", `{"content":"mark","isPublic":true}`).Want(201).Text("data.slug")
	a.Visit("/v/" + mark).Want(200)
	for a.Get("/api/v1/notes/"+mark).Want(200).At("data.views") == 0.0 {
		select {
		case <-a.Context().Done():
			a.Fatal("views are not written")
		case <-time.After(20 * time.Millisecond):
		}
	}
	a.Delete("/api/v1/notes/" + mark).Want(200)
}

// IsHostile checks the headers that every answer at a raw address has.
func (a *App) IsHostile(what string, h http.Header) {
	a.Helper()
	policy := h.Get("Content-Security-Policy")
	if h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(policy, "default-src 'none'") ||
		strings.Contains(policy, "allow-scripts") ||
		strings.Contains(policy, "allow-same-origin") || h.Get("Cross-Origin-Resource-Policy") == "" ||
		h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") == "" {
		a.Errorf("%s: headers of stored bytes are missing: %v", what, h)
	}
}

// ID is the id of a file.
func (a *App) ID(slug string) string {
	a.Helper()
	return a.Get("/api/v1/files/" + slug).Want(200).Text("data.id")
}

const ContentHost = "content.example.org"

// Apart has content served from an origin of its own.
func Apart(c *web.Config) { c.Content = "https://" + ContentHost }

// Follow asks the origin for content for what the base sends there.
func (g *Guest) Follow(sent *Answer) *Answer {
	g.Helper()
	to, ok := strings.CutPrefix(sent.Want(302).Header.Get("Location"), g.Server.Content)
	if !ok {
		g.Fatalf("it leads to %s", sent.Header.Get("Location"))
	}
	g.IsHostile("on the way", sent.Header)
	return g.Guest().See("GET", to, "Host", ContentHost) // with the cookies of that origin: none
}

// RawApart is the address of the content in a page, without the origin.
func RawApart(page *Answer) string {
	page.App.Helper()
	_, after, ok := strings.Cut(string(page.Body), `"https://`+ContentHost+"/x/")
	if !ok {
		page.App.Fatalf("the page has no address at the other origin: %s", CutText(page.Body))
	}
	at, _, _ := strings.Cut(after, `"`)
	return "/x/" + strings.ReplaceAll(at, "&amp;", "&")
}

// Flip changes one bit of a content on the disk, in the middle, and makes the
// file an old one.
func (a *App) Flip(content string) blobs.Ref {
	a.Helper()
	ref := RefOf(content)
	name := filepath.Join(a.Server.Store.Dir(), "blobs", ref.String()[:2], ref.String())
	b, err := os.ReadFile(name)
	a.NoErr(err)
	b[len(b)/2] ^= 16
	a.NoErr(os.WriteFile(name, b, 0o600))
	a.NoErr(os.Chtimes(name, time.Time{}, time.Now().Add(-time.Hour-time.Duration(rand.IntN(1e6))*time.Second)))
	return ref
}

// Fetch reads an address to its end. The error is that of a connection which
// ends before the answer does.
func (a *App) Fetch(path string, header http.Header) (status int, body []byte, cut error) {
	a.Helper()
	req, err := http.NewRequestWithContext(a.Context(), "GET", a.URL+path, nil)
	a.NoErr(err)
	req.Header = header.Clone()
	req.Host = header.Get("Host")
	res, err := Plain.Do(req)
	a.NoErr(err)
	defer res.Body.Close()
	body, cut = io.ReadAll(res.Body)
	return res.StatusCode, body, cut
}

func RefOf(content string) blobs.Ref { return sha256.Sum256([]byte(content)) }

// Guest is a visitor with a browser's cookies.
type Guest struct {
	*App
	Cookies map[string]string
}

func (a *App) Guest() *Guest { return &Guest{App: a, Cookies: map[string]string{}} }

// See sends a request with what cookies there are and keeps those that come.
func (g *Guest) See(method, path string, header ...string) *Answer {
	g.Helper()
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	var pairs []string
	for name, value := range g.Cookies {
		pairs = append(pairs, name+"="+value)
	}
	if pairs != nil {
		h.Set("Cookie", strings.Join(pairs, "; "))
	}
	q := Request{Method: method, Path: path, Anyone: true, Header: h, Raw: true}
	if method == http.MethodPost {
		h.Set("Content-Type", "application/x-www-form-urlencoded")
		q.Body = strings.NewReader(h.Get("X-Form"))
		h.Del("X-Form")
	}
	got := g.Do(q)
	for _, c := range (&http.Response{Header: got.Header}).Cookies() {
		g.Cookies[c.Name] = c.Value
		if c.MaxAge < 0 {
			delete(g.Cookies, c.Name)
		}
	}
	return got
}
