package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/record"
)

// sealed is a passing, what makes it, and the instant that it ends.
func sealed(t testing.TB) (g *grants, p removedFile, text string, ends time.Time) {
	t.Helper()
	g, err := newGrants([32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	ends = time.Unix(2_000_000_000, 0)
	p = removedFile{
		removedFileHead{record.ID{1}, record.ID{2}, [32]byte{3}, 1 << 40, uint32(ends.Unix()), [16]byte{4}},
		"video/webm", "Ferien am Meer – der Film.webm", "film", "from 192.0.2.7/32",
	}
	if text, err = g.sealRemovedFile(p); err != nil {
		t.Fatal(err)
	}
	return g, p, text, ends
}

func TestPassing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g, p, text, ends := sealed(t)
	is.True(len(text) < 256)
	got, err := g.openRemovedFile(text, p.Slug, ends.Add(-time.Second), p.Visitor)
	is.NoErr(err)
	is.Equal(got, p)
	flipped := []byte(text)
	flipped[60] ^= 1
	for name, try := range map[string]struct {
		text, slug, visitor string
		now                 time.Time
	}{
		"over":       {text, p.Slug, p.Visitor, ends},
		"other slug": {text, "films", p.Visitor, ends.Add(-time.Second)},
		"other one":  {text, p.Slug, "", ends.Add(-time.Second)},
		"changed":    {string(flipped), p.Slug, p.Visitor, ends.Add(-time.Second)},
		"cut":        {text[:20], p.Slug, p.Visitor, ends.Add(-time.Second)},
		"none":       {"", p.Slug, p.Visitor, ends.Add(-time.Second)},
	} {
		if _, err := g.openRemovedFile(try.text, try.slug, try.now, try.visitor); err == nil {
			t.Errorf("%s: it holds", name)
		}
	}
}

// FuzzGrants: of what a visitor makes up nothing holds.
func FuzzGrants(f *testing.F) {
	g, p, text, ends := sealed(f)
	now := ends.Add(-time.Second)
	r := &record.Record{ID: p.ID, Owner: p.Owner}
	genuine := map[string]bool{text: true}
	for _, kind := range []grant{toRead, toUnlock, toOwn} {
		genuine[g.make(kind, r, ends, record.ID{5}, p.Visitor)] = true
	}
	for text := range genuine {
		f.Add(text)
		f.Add(text + "A")
		f.Add(text[1:])
	}
	f.Add("")
	f.Add("e30")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := g.openRemovedFile(text, p.Slug, now, p.Visitor)
		ok := err == nil
		for _, kind := range []grant{toRead, toUnlock, toOwn} {
			_, _, holds := g.holds(text, kind, r, now, p.Visitor)
			ok = ok || holds
		}
		// Line ends are passed over, and the last bits of base64 may be any.
		if clean := strings.NewReplacer("\r", "", "\n", "").Replace(text); ok && !startsAny(genuine, clean[:max(len(clean)-1, 0)]) {
			t.Errorf("%q holds", text)
		}
		excess([]*http.Cookie{{Name: cookieName(toRead, "a"), Value: text}}, toRead, &http.Cookie{Name: "b"})
	})
}

func startsAny(all map[string]bool, prefix string) bool {
	for text := range all {
		if strings.HasPrefix(text, prefix) {
			return prefix != ""
		}
	}
	return false
}

// TestGrantCookies: a browser keeps so many grants of a kind and so many bytes
// of them; the oldest go, and a view that is over is counted again.
func TestGrantCookies(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	const extra = 3
	g := a.guest()
	held := func() (n, size int) {
		for name, value := range g.cookies {
			if strings.HasPrefix(name, cookiePrefix(toRead)) {
				n, size = n+1, size+len(name)+len(value)
			}
		}
		return n, size
	}
	g.cookies[cookiePrefix(toRead)+"of-somebody"] = "x" // goes first
	g.cookies[cookieName(toUnlock, "other")] = "another kind"
	for i := range maxCookies + extra {
		slug := fmt.Sprint("item", i)
		a.share("0123456789", "slug", slug, "maxViews", "9")
		g.see("GET", "/x/"+slug).want(200)
		a.clock.advance(time.Second)
	}
	n, _ := held()
	is.Equal(n, maxCookies)
	is.Equal(g.cookies[cookieName(toUnlock, "other")], "another kind")
	for i := maxCookies + extra - 1; i >= 0; i-- {
		slug := fmt.Sprint("item", i)
		views := 1
		if i < extra {
			views = 2
		}
		g.see("GET", "/x/"+slug).want(200)
		is.Equal(a.viewed(slug), views)
	}

	// Long names make long passings.
	a.clock.advance(readTime)
	g = a.guest()
	for i := range maxCookies {
		slug := fmt.Sprint("long", i)
		a.upload(map[string]string{"isPublic": "true", "slug": slug, "maxViews": "9", "maxViewsAction": "delete"}, file{strings.Repeat("é", 120) + ".bin", "", "0123456789"}).want(201)
		g.see("GET", "/x/"+slug).want(200)
		a.clock.advance(time.Second)
	}
	n, size := held()
	is.True(n < maxCookies && size <= maxCookieBytes)
	last := fmt.Sprint("long", maxCookies-1)
	g.see("GET", "/x/"+last).want(200)
	is.Equal(a.viewed(last), 1)
}
