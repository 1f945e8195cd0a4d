package public_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
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
	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv/kvtest/needs"
	"kist/kv/people"
)

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
	a := apitest.Start(t, func(c *web.Config) { c.Base = "" })
	owner := apitest.WithHeader("X-Api-Key", a.Key)
	for i, size := range []int{10, 100 << 10, 1 << 20, 9 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			is := is.New(t)
			content := noise(uint64(i), size)
			slug := a.Share(content)
			at := "/x/" + slug
			for range 2 {
				status, body, cut := a.Fetch(at, nil)
				is.NoErr(cut)
				is.Equal(status, 200)
				is.True(string(body) == content)
			}
			for _, first := range []http.Header{nil, owner} {
				used := a.Get("/api/v1/me").Want(200).At("data.usedBytes")
				// Of the small ones a copy in memory may be right still.
				if size > 128<<10 {
					ref := a.Flip(content)
					status, body, cut := a.Fetch(at, first)
					if size > 8<<20 {
						is.Equal(status, 200) // it was on its way when the hash was known
						is.True(cut != nil && len(body) < size)
					} else {
						is.True(status == 410 || status == 503)
					}
					is.True(a.Server.Blobs.Damaged.Err(ref) != nil)
				} else {
					ref := a.Flip(content)
					is.True(a.Server.Blobs.Check(ref) != nil)
				}
				for _, path := range []string{at, at + ".txt", at + "?download", "/v/" + slug, "/" + slug} {
					for _, more := range []string{"", "bytes=0-3", "bytes=-1"} {
						for header, want := range map[*http.Header]int{{}: 410, &owner: 503} {
							h := header.Clone()
							if more != "" {
								h.Set("Range", more)
							}
							for _, method := range []string{"GET", "HEAD"} {
								got := a.Do(apitest.Request{Method: method, Path: path, Anyone: true, Header: h, Raw: true})
								if got.Status != want {
									t.Fatalf("%s %s %v: %d, want %d", method, path, h, got.Status, want)
								}
								is.Equal(got.Header.Get("Etag"), "")
								is.Equal(got.Header.Get("Cache-Control"), "no-store")
							}
						}
					}
				}
				page := a.Do(apitest.Request{Method: "GET", Path: at, Header: apitest.WithHeader("Accept", "text/html")}).Want(503)
				is.True(strings.Contains(string(page.Body), "kist restore --missing"))
				is.True(strings.Contains(string(page.Body), "damaged"))
				is.Equal(a.Get("/api/v1/files/"+slug).Want(200).At("data.size"), float64(size)) // the record stays
				is.Equal(a.Get("/api/v1/me").Want(200).At("data.usedBytes"), used)              // and counts

				a.Upload(nil, apitest.File("again.txt", "text/plain", content)).Want(201)
				status, body, cut := a.Fetch(at, nil)
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
			a := apitest.Start(t)
			content := noise(uint64(i+10), size)
			open := a.Share(content)
			limited := a.Share(content, "maxViews", "1")
			a.Flip(content)
			for range 2 {
				a.Visit("/v/" + limited).Want(410)
				a.Visit("/x/" + limited).Want(410)
				a.Visit("/" + limited).Want(410)
				a.Visit("/x/" + open).Want(410)
			}
			a.Upload(nil, apitest.File("a.txt", "text/plain", content)).Want(201)
			a.Flush()
			is.Equal(viewed(a, open), 0)
			is.Equal(viewed(a, limited), 0)
			is.True(string(a.Visit("/x/"+limited).Want(200).Body) == content)
			a.Visit("/x/" + limited).Want(410)
		})
	}
}

// No part of a large content that is damaged is sent, right or wrong.
func TestDamagedRange(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	content := noise(20, 9<<20)
	slug := a.Share(content)
	is.Equal(string(a.Visit("/x/"+slug, "Range", "bytes=5-9").Want(206).Body), content[5:10])
	a.Flip(content)
	middle := fmt.Sprintf("bytes=%d-%d", len(content)/2-5, len(content)/2+5)
	a.Visit("/x/"+slug, "Range", middle).Want(410)
	a.Visit("/x/"+slug, "Range", "bytes=5-9").Want(410)

	// All of it as a range is held back at its end as well.
	content = noise(21, 9<<20)
	slug = a.Share(content)
	a.Flip(content)
	status, body, cut := a.Fetch("/x/"+slug, apitest.WithHeader("Range", "bytes=0-"))
	is.Equal(status, 206)
	is.True(cut != nil && len(body) < len(content))
}

// Thumbnails, content at its own origin and what waits for approval are the
// same bytes.
func TestDamagedElsewhere(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.Apart)
	var b bytes.Buffer
	is.NoErr(png.Encode(&b, image.NewGray(image.Rect(0, 0, 900, 600))))
	picture := b.String()
	slug := a.Upload(
		map[string]string{"isPublic": "true"}, apitest.File("a.png", "image/png", picture),
	).Want(201).Text("slug")
	at := func(path string) *apitest.Answer {
		got := a.Do(apitest.Request{
			Method: "GET", Path: path, Anyone: true, Header: apitest.WithHeader("Host", apitest.ContentHost), Raw: true,
		})
		return got
	}
	at("/t/" + slug).Want(200) // is kept
	at("/x/" + slug).Want(200)
	ref := a.Flip(picture)
	is.True(a.Server.Blobs.Check(ref) != nil)
	at("/t/" + slug).Want(410)
	at("/x/" + slug).Want(410)
	// The owner comes there with a grant.
	to, err := url.Parse(a.Get("/x/" + slug).Want(302).Header.Get("Location"))
	is.NoErr(err)
	at(to.RequestURI()).Want(503)
	a.Upload(nil, apitest.File("a.png", "image/png", picture)).Want(201)
	at(to.RequestURI()).Want(200)
	at("/t/" + slug).Want(200)

	// A thumbnail that is not made yet finds the damage.
	b.Reset()
	is.NoErr(png.Encode(&b, image.NewGray(image.Rect(0, 0, 700, 600))))
	picture = b.String()
	slug = a.Upload(
		map[string]string{"isPublic": "true"}, apitest.File("b.png", "image/png", picture),
	).Want(201).Text("slug")
	ref = a.Flip(picture)
	at("/t/" + slug).Want(410)
	for deadline := time.Now().Add(time.Minute); a.Server.Blobs.Damaged.Err(ref) == nil; {
		is.True(time.Now().Before(deadline))
		time.Sleep(time.Millisecond)
	}
}

// Administrators are told which files are damaged and which are missing, and
// nobody else is.
func TestHealth(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	scrubbed := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var absent []blobs.Ref
	a := apitest.Start(t, func(c *web.Config) {
		c.Metrics, c.Version = true, "1.2.3"
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		c.LastBackup = func() time.Time { return scrubbed.Add(time.Second) }
		c.Scrubbed = func() time.Time { return scrubbed }
		c.Absent = func() ([]blobs.Ref, int, time.Time) { return absent, len(absent), scrubbed }
	})
	got := a.Get("/api/v1/admin/health").Want(200)
	is.Equal(got.At("data.files.damagedTotal"), 0.0)
	is.Equal(got.At("data.journal.damaged"), []any{})
	is.Equal(got.At("data.journal.healedAt"), nil)
	is.Equal(got.Text("data.files.checkedAt"), "2026-01-02T03:04:05.000Z")
	is.Equal(got.Text("data.lastBackupAt"), "2026-01-02T03:04:06.000Z")
	is.Equal(got.Text("data.version"), "1.2.3")
	is.True(got.At("data.disk.totalBytes").(float64) > got.At("data.disk.freeBytes").(float64))
	is.Equal(got.At("data.clock.doubted"), false)
	is.Equal(got.At("data.clock.aheadSeconds"), 0.0)
	is.Equal(got.At("data.store"), nil)
	is.Equal(got.At("data.connection.forwarded"), false)
	is.Equal(got.At("data.connection.trusted"), true)
	got = a.Do(apitest.Request{
		Method: "GET", Path: "/api/v1/admin/health", Header: http.Header{"X-Forwarded-For": {"192.0.2.1"}},
	}).Want(200)
	is.Equal(got.At("data.connection.forwarded"), true)

	a.Share("one")
	ref := a.Flip("one")
	is.True(a.Server.Blobs.Check(ref) != nil)
	a.Share("two")
	absent = []blobs.Ref{apitest.RefOf("two"), apitest.RefOf("three")}
	is.NoErr(os.Remove(filepath.Join(a.Server.Store.Dir(), "blobs", absent[0].String()[:2], absent[0].String())))
	a.Share("three") // was missing and is there again
	got = a.Get("/api/v1/admin/health").Want(200)
	is.Equal(got.At("data.files.damagedTotal"), 1.0)
	is.Equal(got.Text("data.files.damaged.0.owner"), "ann")
	is.Equal(got.Text("data.files.damaged.0.sha256"), ref.String())
	is.Equal(got.At("data.files.missingTotal"), 1.0)
	is.Equal(got.Text("data.files.missing.0.sha256"), absent[0].String())
	figures := string(a.Get("/metrics").Want(200).Body)
	is.True(strings.Contains(figures, "kist_damaged_files 1\n"))
	is.True(strings.Contains(figures, "kist_scrub_finished_seconds 1.767323045e+09\n"))

	a.Visit("/api/v1/admin/health").Want(401)
	bob := a.AddUser("bob", people.Member)
	a.Do(apitest.Request{Method: "GET", Path: "/api/v1/admin/health", Key: a.AddKey(bob, people.ScopeAll)}).Want(403)
	a.Do(apitest.Request{Method: "GET", Path: "/api/v1/admin/health", Key: a.AddKey(a.User, people.ScopeRead)}).Want(403)
}
