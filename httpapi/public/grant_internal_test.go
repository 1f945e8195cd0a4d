package public

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/grant"
	"kist/kv/record"
)

// sealed is a passing, what makes it, and the instant that it ends.
func sealed(t testing.TB) (g *grant.Signer, p grant.RemovedFile, text string, ends time.Time) {
	t.Helper()
	g, err := grant.NewSigner([32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	ends = time.Unix(2_000_000_000, 0)
	p = grant.RemovedFile{
		RemovedFileHead: grant.RemovedFileHead{
			ID: record.ID{1}, Owner: record.ID{2}, Ref: [32]byte{3}, Size: 1 << 40, Ends: uint32(ends.Unix()),
			Terms: [16]byte{4},
		},
		Media: "video/webm", Name: "Ferien am Meer – der Film.webm", Slug: "film", Visitor: "from 192.0.2.7/32",
	}
	text, err = g.SealRemovedFile(p)
	if err != nil {
		t.Fatal(err)
	}
	return g, p, text, ends
}

func TestPassing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g, p, text, ends := sealed(t)
	is.True(len(text) < 256)
	got, err := g.OpenRemovedFile(text, p.Slug, ends.Add(-time.Second), p.Visitor)
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
		if _, err := g.OpenRemovedFile(try.text, try.slug, try.now, try.visitor); err == nil {
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
	for _, kind := range []grant.Kind{grant.ToRead, grant.ToUnlock, grant.ToEnter} {
		genuine[g.Make(kind, r, ends, grant.Credential{ID: record.ID{5}}, p.Visitor)] = true
	}
	for text := range genuine {
		f.Add(text)
		f.Add(text + "A")
		f.Add(text[1:])
	}
	f.Add("")
	f.Add("e30")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := g.OpenRemovedFile(text, p.Slug, now, p.Visitor)
		ok := err == nil
		for _, kind := range []grant.Kind{grant.ToRead, grant.ToUnlock, grant.ToEnter} {
			_, _, holds := g.Holds(text, kind, r, now, p.Visitor)
			ok = ok || holds
		}
		// Line ends are passed over, and the last bits of base64 may be any.
		if clean := strings.NewReplacer("\r", "", "\n", "").Replace(text); ok &&
			!startsAny(genuine, clean[:max(len(clean)-1, 0)]) {
			t.Errorf("%q holds", text)
		}
		excess([]*http.Cookie{{Name: CookieName(grant.ToRead, "a"), Value: text}}, grant.ToRead, &http.Cookie{Name: "b"})
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
