package httpapi

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs"
	"kist/httpapi/web"
	"kist/kv/kvtest/needs"
	"kist/kv/people"
)

// flip changes one bit of a content on the disk, in the middle, and makes the
// file an old one.
func (a *app) flip(content string) blobs.Ref {
	a.Helper()
	ref := refOf(content)
	name := filepath.Join(a.server.Store.Dir(), "blobs", ref.String()[:2], ref.String())
	b, err := os.ReadFile(name)
	a.fatal(err)
	b[len(b)/2] ^= 16
	a.fatal(os.WriteFile(name, b, 0o600))
	a.fatal(os.Chtimes(name, time.Time{}, time.Now().Add(-time.Hour-time.Duration(rand.IntN(1e6))*time.Second)))
	return ref
}

// fetch reads an address to its end. The error is that of a connection which
// ends before the answer does.
func (a *app) fetch(path string, header http.Header) (status int, body []byte, cut error) {
	a.Helper()
	req, err := http.NewRequestWithContext(a.Context(), "GET", a.url+path, nil)
	a.fatal(err)
	req.Header = header.Clone()
	req.Host = header.Get("Host")
	res, err := plain.Do(req)
	a.fatal(err)
	defer res.Body.Close()
	body, cut = io.ReadAll(res.Body)
	return res.StatusCode, body, cut
}

// text is some text of the length, which differs for each seed.
func noise(seed uint64, size int) string {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), 11}).Read(b) // it never fails
	for i := range b {
		b[i] = 'a' + b[i]%26
	}
	return string(b)
}

// However large the file: wrong bytes are never an answer with status 200. The
// owner gets 503, visitors 410, and the same file uploaded again heals it.
func TestDamagedContent(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	a := start(t, func(c *web.Config) { c.Base = "" })
	owner := withHeader("X-Api-Key", a.key)
	for i, size := range []int{10, 100 << 10, 1 << 20, 9 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			is := is.New(t)
			content := noise(uint64(i), size)
			slug := a.share(content)
			at := "/x/" + slug
			for range 2 {
				status, body, cut := a.fetch(at, nil)
				is.NoErr(cut)
				is.Equal(status, 200)
				is.True(string(body) == content)
			}
			for _, first := range []http.Header{nil, owner} {
				used := a.get("/api/v1/me").want(200).at("data.usedBytes")
				// Of the small ones a copy in memory may be right still.
				if size > 128<<10 {
					ref := a.flip(content)
					status, body, cut := a.fetch(at, first)
					if size > 8<<20 {
						is.Equal(status, 200) // it was on its way when the hash was known
						is.True(cut != nil && len(body) < size)
					} else {
						is.True(status == 410 || status == 503)
					}
					is.True(a.server.Blobs.Damaged.Err(ref) != nil)
				} else {
					ref := a.flip(content)
					is.True(a.server.Blobs.Check(ref) != nil)
				}
				for _, path := range []string{at, at + ".txt", at + "?download", "/v/" + slug, "/" + slug} {
					for _, more := range []string{"", "bytes=0-3", "bytes=-1"} {
						for header, want := range map[*http.Header]int{{}: 410, &owner: 503} {
							h := header.Clone()
							if more != "" {
								h.Set("Range", more)
							}
							for _, method := range []string{"GET", "HEAD"} {
								got := a.do(apiRequest{method: method, path: path, anyone: true, header: h, raw: true})
								if got.status != want {
									t.Fatalf("%s %s %v: %d, want %d", method, path, h, got.status, want)
								}
								is.Equal(got.header.Get("Etag"), "")
								is.Equal(got.header.Get("Cache-Control"), "no-store")
							}
						}
					}
				}
				page := a.do(apiRequest{method: "GET", path: at, header: withHeader("Accept", "text/html")}).want(503)
				is.True(strings.Contains(string(page.body), "kist restore --missing"))
				is.True(strings.Contains(string(page.body), "damaged"))
				is.Equal(a.get("/api/v1/files/"+slug).want(200).at("data.size"), float64(size)) // the record stays
				is.Equal(a.get("/api/v1/me").want(200).at("data.usedBytes"), used)              // and counts

				a.upload(nil, file{"again.txt", "text/plain", content}).want(201)
				status, body, cut := a.fetch(at, nil)
				is.NoErr(cut)
				is.Equal(status, 200)
				is.True(string(body) == content)
			}
		})
	}
}

// No view is counted of a file that is damaged, and no limit used up: not even
// by the view that would be the last, and not by one that finds the damage.
func TestDamagedContentIsNoView(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	for i, size := range []int{100, 1 << 20, 9 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			is := is.New(t)
			a := start(t)
			content := noise(uint64(i+10), size)
			open := a.share(content)
			limited := a.share(content, "maxViews", "1")
			a.flip(content)
			for range 2 {
				a.visit("/v/" + limited).want(410)
				a.visit("/x/" + limited).want(410)
				a.visit("/" + limited).want(410)
				a.visit("/x/" + open).want(410)
			}
			a.upload(nil, file{"a.txt", "text/plain", content}).want(201)
			a.flush()
			is.Equal(a.viewed(open), 0)
			is.Equal(a.viewed(limited), 0)
			is.True(string(a.visit("/x/"+limited).want(200).body) == content)
			a.visit("/x/" + limited).want(410)
		})
	}
}

// No part of a large content that is damaged is sent, right or wrong.
func TestDamagedRange(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	a := start(t)
	content := noise(20, 9<<20)
	slug := a.share(content)
	is.Equal(string(a.visit("/x/"+slug, "Range", "bytes=5-9").want(206).body), content[5:10])
	a.flip(content)
	middle := fmt.Sprintf("bytes=%d-%d", len(content)/2-5, len(content)/2+5)
	a.visit("/x/"+slug, "Range", middle).want(410)
	a.visit("/x/"+slug, "Range", "bytes=5-9").want(410)

	// All of it as a range is held back at its end as well.
	content = noise(21, 9<<20)
	slug = a.share(content)
	a.flip(content)
	status, body, cut := a.fetch("/x/"+slug, withHeader("Range", "bytes=0-"))
	is.Equal(status, 206)
	is.True(cut != nil && len(body) < len(content))
}

// Thumbnails, content at its own origin and what waits for approval are the
// same bytes.
func TestDamagedElsewhere(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, apart)
	var b bytes.Buffer
	is.NoErr(png.Encode(&b, image.NewGray(image.Rect(0, 0, 900, 600))))
	picture := b.String()
	slug := a.upload(map[string]string{"isPublic": "true"}, file{"a.png", "image/png", picture}).want(201).text("slug")
	at := func(path string) *answer {
		got := a.do(apiRequest{method: "GET", path: path, anyone: true, header: withHeader("Host", contentHost), raw: true})
		return got
	}
	at("/t/" + slug).want(200) // is kept
	at("/x/" + slug).want(200)
	ref := a.flip(picture)
	is.True(a.server.Blobs.Check(ref) != nil)
	at("/t/" + slug).want(410)
	at("/x/" + slug).want(410)
	// The owner comes there with a grant.
	to, err := url.Parse(a.get("/x/" + slug).want(302).header.Get("Location"))
	is.NoErr(err)
	at(to.RequestURI()).want(503)
	a.upload(nil, file{"a.png", "image/png", picture}).want(201)
	at(to.RequestURI()).want(200)
	at("/t/" + slug).want(200)

	// A thumbnail that is not made yet finds the damage.
	b.Reset()
	is.NoErr(png.Encode(&b, image.NewGray(image.Rect(0, 0, 700, 600))))
	picture = b.String()
	slug = a.upload(map[string]string{"isPublic": "true"}, file{"b.png", "image/png", picture}).want(201).text("slug")
	ref = a.flip(picture)
	at("/t/" + slug).want(410)
	for deadline := time.Now().Add(time.Minute); a.server.Blobs.Damaged.Err(ref) == nil; {
		is.True(time.Now().Before(deadline))
		time.Sleep(time.Millisecond)
	}
}

func refOf(content string) blobs.Ref { return sha256.Sum256([]byte(content)) }

// Administrators are told which files are damaged and which are missing, and
// nobody else is.
func TestHealth(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	scrubbed := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var absent []blobs.Ref
	a := start(t, func(c *web.Config) {
		c.Metrics, c.Version = true, "1.2.3"
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		c.LastBackup = func() time.Time { return scrubbed.Add(time.Second) }
		c.Scrubbed = func() time.Time { return scrubbed }
		c.Absent = func() ([]blobs.Ref, int, time.Time) { return absent, len(absent), scrubbed }
	})
	got := a.get("/api/v1/admin/health").want(200)
	is.Equal(got.at("data.files.damagedTotal"), 0.0)
	is.Equal(got.at("data.journal.damaged"), []any{})
	is.Equal(got.at("data.journal.healedAt"), nil)
	is.Equal(got.text("data.files.checkedAt"), "2026-01-02T03:04:05.000Z")
	is.Equal(got.text("data.lastBackupAt"), "2026-01-02T03:04:06.000Z")
	is.Equal(got.text("data.version"), "1.2.3")
	is.True(got.at("data.disk.totalBytes").(float64) > got.at("data.disk.freeBytes").(float64))
	is.Equal(got.at("data.clock.doubted"), false)
	is.Equal(got.at("data.clock.aheadSeconds"), 0.0)
	is.Equal(got.at("data.store"), nil)
	is.Equal(got.at("data.connection.forwarded"), false)
	is.Equal(got.at("data.connection.trusted"), true)
	got = a.do(apiRequest{method: "GET", path: "/api/v1/admin/health", header: http.Header{"X-Forwarded-For": {"192.0.2.1"}}}).want(200)
	is.Equal(got.at("data.connection.forwarded"), true)

	a.share("one")
	ref := a.flip("one")
	is.True(a.server.Blobs.Check(ref) != nil)
	a.share("two")
	absent = []blobs.Ref{refOf("two"), refOf("three")}
	is.NoErr(os.Remove(filepath.Join(a.server.Store.Dir(), "blobs", absent[0].String()[:2], absent[0].String())))
	a.share("three") // was missing and is there again
	got = a.get("/api/v1/admin/health").want(200)
	is.Equal(got.at("data.files.damagedTotal"), 1.0)
	is.Equal(got.text("data.files.damaged.0.owner"), "ann")
	is.Equal(got.text("data.files.damaged.0.sha256"), ref.String())
	is.Equal(got.at("data.files.missingTotal"), 1.0)
	is.Equal(got.text("data.files.missing.0.sha256"), absent[0].String())
	figures := string(a.get("/metrics").want(200).body)
	is.True(strings.Contains(figures, "kist_damaged_files 1\n"))
	is.True(strings.Contains(figures, "kist_scrub_finished_seconds 1.767323045e+09\n"))

	a.visit("/api/v1/admin/health").want(401)
	bob := a.addUser("bob", people.Member)
	a.do(apiRequest{method: "GET", path: "/api/v1/admin/health", key: a.addKey(bob, people.ScopeAll)}).want(403)
	a.do(apiRequest{method: "GET", path: "/api/v1/admin/health", key: a.addKey(a.user, people.ScopeRead)}).want(403)
}
