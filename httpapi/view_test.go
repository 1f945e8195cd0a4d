package httpapi

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/grant"
	"kist/httpapi/limit"
	"kist/httpapi/public"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/people"
	"kist/kv/record"
)

// guest is a visitor with a browser's cookies.
type guest struct {
	*app
	cookies map[string]string
}

func (a *app) guest() *guest { return &guest{app: a, cookies: map[string]string{}} }

// see sends a request with what cookies there are and keeps those that come.
func (g *guest) see(method, path string, header ...string) *answer {
	g.Helper()
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	var pairs []string
	for name, value := range g.cookies {
		pairs = append(pairs, name+"="+value)
	}
	if pairs != nil {
		h.Set("Cookie", strings.Join(pairs, "; "))
	}
	q := apiRequest{method: method, path: path, anyone: true, header: h, raw: true}
	if method == http.MethodPost {
		h.Set("Content-Type", "application/x-www-form-urlencoded")
		q.body = strings.NewReader(h.Get("X-Form"))
		h.Del("X-Form")
	}
	got := g.do(q)
	for _, c := range (&http.Response{Header: got.header}).Cookies() {
		if g.cookies[c.Name] = c.Value; c.MaxAge < 0 {
			delete(g.cookies, c.Name)
		}
	}
	return got
}

// embedded are the addresses of the raw bytes in a page.
var embedded = regexp.MustCompile(`(?:src|href)="(/x/[^"]+)"`)

func rawIn(page *answer) string {
	page.app.Helper()
	m := embedded.FindSubmatch(page.body)
	if m == nil {
		page.app.Fatalf("the page has no raw address: %s", cutText(page.body))
	}
	return strings.ReplaceAll(string(m[1]), "&amp;", "&")
}

// What each sort of visitor does, and how many views that is. Limited and
// unlimited items differ where the limit must be exact.
func TestVisitors(t *testing.T) {
	t.Parallel()
	const text = "0123456789abcdef"
	for name, row := range map[string]struct {
		free, limited int
		does          func(g *guest)
	}{
		"curl":          {1, 1, func(g *guest) { g.see("GET", "/x/item").want(200) }},
		"curl twice":    {2, 2, func(g *guest) { g.guest().see("GET", "/x/item"); g.guest().see("GET", "/x/item") }},
		"curl HEAD":     {0, 0, func(g *guest) { g.see("HEAD", "/x/item").want(200) }},
		"page HEAD":     {0, 0, func(g *guest) { g.see("HEAD", "/v/item").want(200) }},
		"browser twice": {1, 1, func(g *guest) { g.see("GET", "/x/item").want(200); g.see("GET", "/x/item").want(200) }},
		"after the grant": {2, 2, func(g *guest) {
			g.see("GET", "/x/item")
			g.clock.advance(public.ReadTime)
			g.see("GET", "/x/item").want(200)
		}},
		"range loop": {1, 1, func(g *guest) {
			for i := range len(text) {
				g.see("GET", "/x/item", "Range", fmt.Sprintf("bytes=%d-%d", i, i)).want(206)
			}
		}},
		"range loop, no jar": {1, 1, func(g *guest) {
			for i := range len(text) {
				g.guest().see("GET", "/x/item", "Range", fmt.Sprintf("bytes=%d-%d", i, i)).want(206)
			}
		}},
		"resumed, no jar": {1, 1, func(g *guest) {
			etag := g.guest().see("GET", "/x/item").want(200).header.Get("Etag")
			g.guest().see("GET", "/x/item", "Range", "bytes=7-", "If-Range", etag).want(206)
		}},
		"resumed late, no jar": {1, 2, func(g *guest) {
			g.guest().see("GET", "/x/item").want(200)
			g.clock.advance(public.ReadTime)
			g.guest().see("GET", "/x/item", "Range", "bytes=7-").want(206)
		}},
		"resumed by another program": {1, 2, func(g *guest) {
			g.guest().see("GET", "/x/item", "User-Agent", "curl/8").want(200)
			g.guest().see("GET", "/x/item", "User-Agent", "Wget/1", "Range", "bytes=7-").want(206)
		}},
		"a page after the bytes, no jar": {2, 2, func(g *guest) {
			g.guest().see("GET", "/x/item").want(200)
			g.guest().see("GET", "/v/item", "Range", "bytes=7-").want(200)
		}},
		"an impossible range, no jar": {2, 2, func(g *guest) { // which is no range
			g.guest().see("GET", "/x/item").want(200)
			g.guest().see("GET", "/x/item", "Range", "lines=7-").want(200)
		}},
		"seeking video player": {1, 1, func(g *guest) {
			g.see("GET", "/x/item", "Range", "bytes=0-").want(206)
			g.see("GET", "/x/item", "Range", "bytes=12-").want(206)
			g.see("GET", "/x/item", "Range", "bytes=4-").want(206)
		}},
		"broken download resumed": {1, 1, func(g *guest) {
			etag := g.see("GET", "/x/item").want(200).header.Get("Etag")
			g.see("GET", "/x/item", "Range", "bytes=7-", "If-Range", etag).want(206)
		}},
		"bytes=1- without a grant": {0, 1, func(g *guest) { g.see("GET", "/x/item", "Range", "bytes=1-").want(206) }},
		"prefetch": {0, 0, func(g *guest) {
			g.see("GET", "/x/item", "Sec-Purpose", "prefetch")
			g.see("GET", "/v/item", "Sec-Purpose", "prefetch;prerender")
		}},
		"preview": {0, 0, func(g *guest) {
			g.see("GET", "/x/item", "User-Agent", "Slackbot-LinkExpanding 1.0").want(200)
			g.see("GET", "/v/item", "User-Agent", "Discordbot/2.0").want(200)
		}},
		"not modified": {1, 1, func(g *guest) {
			etag := g.see("GET", "/x/item").want(200).header.Get("Etag")
			g.see("GET", "/x/item", "If-None-Match", etag).want(304)
			g.guest().see("GET", "/x/item", "If-None-Match", etag).want(304)
		}},
		"page and its fetch":   {1, 1, func(g *guest) { g.see("GET", rawIn(g.see("GET", "/v/item").want(200))).want(200) }},
		"page without cookies": {1, 1, func(g *guest) { g.guest().see("GET", rawIn(g.see("GET", "/v/item").want(200))).want(200) }},
		"page, then raw":       {1, 1, func(g *guest) { g.see("GET", "/v/item").want(200); g.see("GET", "/x/item").want(200) }},
		"at the root":          {1, 1, func(g *guest) { g.see("GET", "/item").want(200); g.see("GET", "/v/item").want(200) }},
		"owner by key":         {0, 0, func(g *guest) { g.get("/x/item").want(200); g.get("/v/item").want(200); g.get("/item").want(200) }},
		"owner by session": {0, 0, func(g *guest) {
			g.withPassword(g.user, "correct horse")
			name, value, _ := strings.Cut(g.enter("ann", "correct horse"), "=")
			g.cookies[name] = value
			g.see("GET", "/x/item").want(200)
			g.see("GET", rawIn(g.see("GET", "/v/item").want(200))).want(200)
		}},
		"link": {2, 2, func(g *guest) { // every click counts
			g.see("GET", "/s/item").want(302)
			g.see("GET", "/item").want(302)
		}},
		"link HEAD":      {0, 0, func(g *guest) { g.see("HEAD", "/s/item"); g.see("HEAD", "/item") }},
		"link, its page": {0, 0, func(g *guest) { g.see("GET", "/v/item").want(200); g.see("HEAD", "/v/item").want(200) }},
		"link, prefetch": {0, 0, func(g *guest) {
			g.see("GET", "/s/item", "Sec-Purpose", "prefetch")
			g.see("GET", "/item", "Purpose", "prefetch")
		}},
		"link, preview":      {0, 0, func(g *guest) { g.see("GET", "/s/item", "User-Agent", "Slackbot-LinkExpanding 1.0") }},
		"link, by its owner": {0, 0, func(g *guest) { g.get("/s/item").want(302); g.get("/v/item").want(200) }},
		"link, a range":      {1, 1, func(g *guest) { g.see("GET", "/s/item", "Range", "bytes=1-").want(302) }},
		"note": {1, 1, func(g *guest) {
			g.see("GET", "/v/item").want(200)
			g.see("GET", "/x/item").want(200)
			g.see("GET", "/item").want(200)
		}},
		"note, raw": {1, 1, func(g *guest) {
			g.see("GET", "/x/item").want(200)
			g.see("GET", "/x/item", "Range", "bytes=3-").want(206)
		}},
		"note HEAD":                      {0, 0, func(g *guest) { g.see("HEAD", "/v/item").want(200); g.see("HEAD", "/x/item").want(200) }},
		"note, bytes=1- without a grant": {0, 1, func(g *guest) { g.see("GET", "/x/item", "Range", "bytes=1-").want(206) }},
		"note, prefetch": {0, 0, func(g *guest) {
			g.see("GET", "/v/item", "Sec-Purpose", "prefetch")
			g.see("GET", "/x/item", "X-Moz", "prefetch")
		}},
		"note, preview": {0, 0, func(g *guest) { g.see("GET", "/v/item", "User-Agent", "Discordbot/2.0").want(200) }},
		"note by a script": {2, 2, func(g *guest) { // each of which is a visitor of its own
			for range 2 {
				g.see("POST", "/api/v1/notes/p/item").want(200)
			}
		}},
		"note, by its owner": {0, 0, func(g *guest) {
			g.get("/v/item").want(200)
			g.get("/x/item").want(200)
			g.do(apiRequest{method: "POST", path: "/api/v1/notes/p/item"}).want(200)
		}},
		"forged grant": {2, 2, func(g *guest) {
			g.see("GET", "/x/item").want(200)
			for name, value := range g.cookies {
				g.cookies[name] = "A" + value[1:]
			}
			g.see("GET", "/x/item").want(200)
		}},
		"another item's grant": {1, 1, func(g *guest) {
			g.share(text, "slug", "other")
			g.see("GET", "/x/other").want(200)
			for _, value := range g.cookies {
				g.cookies[public.CookieName(grant.ToRead, "item")] = value
			}
			g.see("GET", "/x/item").want(200)
		}},
	} {
		for _, limited := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/limited=%v", name, limited), func(t *testing.T) {
				t.Parallel() // counts are written once a second
				is := is.New(t)
				a := start(t)
				fields, links, notes, want := []string{"slug", "item"}, "", "", row.free
				if limited {
					fields, want = append(fields, "maxViews", "100"), row.limited
					links, notes = `,"maxClicks":100`, `,"maxViews":100`
				}
				at, counter := "files", "views"
				switch name[:4] {
				case "link":
					at, counter = "shorten", "clicks"
					a.post("/api/v1/shorten", `{"originalUrl":"https://example.org/","slug":"item","isPublic":true`+links+`}`).want(201)
				case "note":
					at = "notes"
					a.post("/api/v1/notes", `{"content":"`+text+`","slug":"item","isPublic":true`+notes+`}`).want(201)
				default:
					a.share(text, fields...)
				}
				row.does(a.guest())
				a.flush()
				is.Equal(a.counted(at, "item", counter), want)
			})
		}
	}
}

// The one who had the last view goes on reading, others do not; and what the
// owner does ends that at once.
func TestLastView(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"make_private", "delete"} {
		for name, row := range map[string]struct {
			does func(a *app)
			then int // for who had the last view
		}{
			"nothing":  {func(*app) {}, 200},
			"password": {func(a *app) { a.patch("/api/v1/files/item", `{"password":"secret"}`) }, 401},
			"private":  {func(a *app) { a.patch("/api/v1/files/item", `{"isPublic":false}`) }, 404},
			"deleted":  {func(a *app) { a.delete("/api/v1/files/item") }, 404},
			"shut": {func(a *app) {
				a.addUser("eve", people.Admin)
				a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
					u, err := people.ReadUser(tx, a.user.ID)
					if err != nil {
						return err
					}
					u.Disabled = true
					return people.SaveUser(tx, u)
				}))
			}, 404},
			"late": {func(a *app) { a.clock.advance(public.ReadTime) }, 0},
		} {
			t.Run(action+"/"+name, func(t *testing.T) {
				is := is.New(t)
				a := start(t)
				a.share("0123456789", "slug", "item", "maxViews", "1", "maxViewsAction", action)
				g := a.guest()
				raw := rawIn(g.see("GET", "/v/item").want(200))
				a.guest().see("GET", "/x/item").want(map[string]int{"make_private": 410, "delete": 404}[action])
				is.Equal(string(g.see("GET", raw).want(200).body), "0123456789")
				is.Equal(string(a.guest().see("GET", raw).want(200).body), "0123456789") // a page without cookies
				g.see("GET", "/x/item", "Range", "bytes=5-").want(206)
				a.guest().see("GET", "/x/item", "Range", "bytes=5-").want(206) // the same program, without cookies
				row.does(a)
				want := row.then
				switch {
				case action == "make_private" && name == "password":
					want = 410 // used up, for who has no grant any more
				case name == "late":
					want = map[string]int{"make_private": 410, "delete": 404}[action]
				case action == "delete" && name != "shut":
					want = 200 // there is no record any more that the owner could change
				}
				is.Equal(g.see("GET", "/x/item").status, want)
				is.Equal(g.see("GET", raw).status, want)
				if want == 200 {
					want = 206
				}
				is.Equal(a.guest().see("GET", "/x/item", "Range", "bytes=5-").status, want)
			})
		}
	}
}

// A program without cookies that goes on with content must know its password.
func TestResumeNeedsPassword(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"make_private", "delete"} {
		t.Run(action, func(t *testing.T) {
			a := start(t)
			a.share("0123456789", "slug", "item", "maxViews", "1", "maxViewsAction", action, "password", "open sesame")
			part := []string{"Range", "bytes=7-"}
			a.guest().see("GET", "/x/item", "X-Share-Password", "open sesame").want(200)
			if action == "make_private" {
				a.guest().see("GET", "/x/item", part...).want(401)
				a.guest().see("GET", "/x/item", append(part, "X-Share-Password", "wrong")...).want(401)
				a.guest().see("GET", "/x/item", append(part, "X-Share-Password", "open sesame")...).want(206)
				return
			}
			a.guest().see("GET", "/x/item", part...).want(404)
		})
	}
}

// A grant of a file that its limit may delete ends like any other while the
// file is there.
func TestGrantEnds(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]string{"password": `{"password":"secret"}`, "private": `{"isPublic":false}`} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := start(t)
			a.share("0123456789", "slug", "item", "maxViews", "5", "maxViewsAction", "delete")
			g := a.guest()
			g.see("GET", "/x/item").want(200)
			a.patch("/api/v1/files/item", edit).want(200)
			is.True(g.see("GET", "/x/item").status != 200)
			a.delete("/api/v1/files/item").want(200)
			g.see("GET", "/x/item").want(404)
		})
	}
}

// However many race, a page's views are exact.
func TestPageRace(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, behindProxy)
	a.share("0123456789", "slug", "item", "maxViews", "7")
	var wg sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for i := range 200 {
		wg.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), "GET", a.url+[]string{"/v/item", "/x/item", "/item"}[i%3], nil)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("X-Forwarded-For", fmt.Sprintf("192.0.2.%d", i)) // a network may open a few a minute
			res, err := plain.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			statuses[res.StatusCode]++
		})
	}
	wg.Wait()
	is.Equal(statuses, map[int]int{200: 7, 410: 193})
	is.Equal(a.viewed("item"), 7)
}

// The form of a locked item opens it, and it alone, for twelve hours or until
// the password changes; a password never stands in an address.
func TestUnlock(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.share("0123456789", "slug", "item", "password", "open sesame")
	a.share("0123456789", "slug", "other", "password", "open sesame")
	g := a.guest()
	page := g.see("GET", "/v/item").want(401)
	is.True(strings.Contains(string(page.body), `type="password"`))
	is.True(!strings.Contains(string(page.body), "0123456789"))
	g.see("GET", "/v/item?password=open+sesame").want(401)
	form := func(password string) []string { return []string{"X-Form", url.Values{"password": {password}}.Encode()} }
	is.True(strings.Contains(string(g.see("POST", "/v/item", form("wrong")...).want(401).body), `type="password"`))
	g.see("POST", "/v/item", form("")...).want(401)
	g.see("GET", "/x/item").want(401)
	g.see("GET", "/t/item").want(401)
	g.see("POST", "/v/none", form("open sesame")...).want(404)
	is.Equal(g.see("POST", "/v/item", form("open sesame")...).want(303).header.Get("Location"), "/v/item")
	g.see("GET", rawIn(g.see("GET", "/v/item").want(200))).want(200)
	g.see("GET", "/v/other").want(401)
	a.clock.advance(public.UnlockTime - time.Minute)
	g.see("GET", "/v/item").want(200)
	a.clock.advance(time.Minute)
	delete(g.cookies, public.CookieName(grant.ToRead, "item"))
	g.see("GET", "/v/item").want(401)
	g.see("POST", "/v/item", form("open sesame")...).want(303)
	g.see("GET", "/v/item").want(200)
	a.patch("/api/v1/files/item", `{"password":"another"}`).want(200)
	g.see("GET", "/v/item").want(401)
	for range limit.GuessesFrom {
		g.see("POST", "/v/item", form("wrong")...)
	}
	g.see("POST", "/v/item", form("another")...).want(429)
}

// A browser is asked for the password at every address of a locked item, and
// ends where it wanted; programs are told of the header.
func TestUnlockLeadsOn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	const target = "https://example.org/far"
	a.post("/api/v1/shorten", `{"originalUrl":"`+target+`","slug":"jump","isPublic":true,"password":"open sesame"}`).want(201)
	a.share("0123456789", "slug", "item", "password", "open sesame")
	html := []string{"Accept", "text/html,*/*;q=0.8"}
	action := regexp.MustCompile(`action="(/v/[^"]+)"`)
	hidden := regexp.MustCompile(`type="hidden" name="then" value="([^"]*)"`)
	for path, end := range map[string]string{
		"/s/jump": target, "/jump": target, "/x/item": "0123456789", "/x/item.txt": "0123456789", "/item": "<!doctype html>", "/v/jump": "<!doctype html>",
	} {
		g := a.guest()
		page := g.see("GET", path, html...).want(401)
		is.True(strings.Contains(string(page.body), `type="password"`))
		is.True(!strings.Contains(string(page.body), target))
		for _, password := range []string{"", "wrong", "open sesame"} {
			at, then := action.FindSubmatch(page.body), hidden.FindSubmatch(page.body)
			form := url.Values{"password": {password}}
			if then != nil {
				form.Set("then", string(then[1]))
			}
			page = g.see("POST", string(at[1]), "X-Form", form.Encode(), "Accept", html[1])
		}
		got := g.see("GET", page.want(303).header.Get("Location"), html...)
		if got.status == 302 {
			is.Equal(got.header.Get("Location"), end)
		} else {
			is.True(strings.HasPrefix(string(got.want(200).body), end))
		}
	}
	for _, path := range []string{"/s/jump", "/x/item"} {
		is.Equal(mediaOf(a.visit(path).want(401).header), "text/plain")
	}
	is.Equal(a.guest().see("POST", "/v/item", "X-Form", "password=open+sesame&then=https://example.org").want(303).header.Get("Location"), "/v/item")
}

// TestGameListIsLong: what visitors may not see takes no place on the list, and
// the page says when it does not show all.
func TestGameListIsLong(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	add := func(n int, locked bool) {
		is.NoErr(a.server.Store.Update(func(tx *kv.Tx) error {
			for range n {
				form := record.NewForm(record.Games)
				form.Body.(*record.Game).Name, form.Public = "A game", true
				hash := ""
				if locked {
					hash, form.Password.Said = "locked", true
				}
				if _, err := catalog.Add(tx, catalog.Draft{
					Owner: a.user.ID, Kind: record.Games, Form: form, Password: hash,
				}); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	shows := func(n int, more bool) {
		t.Helper()
		page := string(a.visit("/g/ann").want(200).body)
		is.Equal(strings.Count(page, "<li>"), n)
		is.Equal(strings.Contains(page, fmt.Sprintf("Only the %d most recently added games", n)), more)
		is.Equal(strings.Contains(page, "Only the "), more)
	}
	add(3, false)
	add(web.MaxPage+10, true)
	shows(3, false)
	add(public.MaxGames-3, false)
	add(1, true)
	shows(public.MaxGames, false)
	add(1, false)
	shows(public.MaxGames, true)
}

// TestLinkLeadsBack: a short link that would lead back to itself is not made,
// and one that came to be so shows its page instead of going round.
func TestLinkLeadsBack(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, func(c *web.Config) { c.Base = "https://kist.example.org/at/home" })
	const host = "kist.example.org"
	add := func(slug, target string, more ...any) *answer {
		body := map[string]any{"originalUrl": target, "slug": slug, "isPublic": true}
		for i := 0; i < len(more); i += 2 {
			body[more[i].(string)] = more[i+1]
		}
		return a.post("/api/v1/shorten", body)
	}
	refused := func(got *answer) {
		t.Helper()
		is.Equal(got.want(422).text("fields.originalUrl"), "must not lead back to this short link")
	}
	for _, target := range []string{
		"https://" + host + "/at/home/s/way", "https://" + host + "/at/home/way", "http://" + host + "/at/home/s/way", "https://" + host + ":443/at/home/s/way",
		"https://" + host + "./at/home/s/way", "HTTPS://KIST.example.org/at/home/s/way?x=1#y", "https://" + host + "/at/home//s/%77ay", "https://" + host + "/a/../at/home/./s/way",
	} {
		refused(add("way", target))
	}
	for i, target := range []string{
		"https://" + host + "/at/home/v/me%d", "https://" + host + "/s/me%d", "https://" + host + ":8443/at/home/s/me%d", "https://other.example.org/at/home/s/me%d",
		"https://" + host + "/at/home/s/ME%d", "https://" + host + "/at/home/x/me%d", "https://" + host + "/at/home/s/me%d/", "https://example.org/?u=https://" + host + "/at/home/s/me%d",
	} {
		target = fmt.Sprintf(target, i)
		slug := fmt.Sprint("me", i)
		add(slug, target).want(201)
		is.Equal(a.guest().see("GET", "/s/"+slug).want(302).header.Get("Location"), target)
	}
	a.post("/api/v1/shorten", `{"originalUrl":"https://`+host+`/at/home/s/way"}`).want(201) // of a slug that is made up
	const me = "https://" + host + "/at/home/s/"
	got := add("way", me+"way", "expiresAt", "2000-01-01T00:00:00Z").want(422)
	is.True(got.text("fields.originalUrl") != "" && got.text("fields.expiresAt") != "") // all at once

	// By way of others, in the order that it takes.
	add("a", me+"b").want(201)
	add("b", me+"c").want(201)
	refused(add("c", me+"a"))
	add("c", "https://example.org/").want(201)
	a.guest().see("GET", "/s/a").want(302)
	refused(a.patch("/api/v1/shorten/c", `{"originalUrl":"`+me+`a"}`))
	add("d", me+"e").want(201)
	refused(a.patch("/api/v1/shorten/c", `{"slug":"e","originalUrl":"`+me+`d"}`))
	add("f", me+"j").want(201)
	refused(a.patch("/api/v1/shorten/f", `{"slug":"j"}`))

	// What others may not follow is the end of the way, and not told.
	for slug, more := range map[string][]any{"private": {"isPublic", false}, "locked": {"password", "open sesame"}, "few": {"maxClicks", 3}} {
		add(slug, me+"to-"+slug, more...).want(201)
		add("to-"+slug, me+slug).want(201)
		is.Equal(a.guest().see("GET", "/s/to-"+slug).want(302).header.Get("Location"), me+slug)
	}

	// Of links that were made at another address of the server, here by its change.
	add("old", "https://new.example.org/s/old").want(201)
	add("old-few", "https://new.example.org/old-few", "maxClicks", 3).want(201)
	moved, err := New(func() web.Config { c := a.server.Config; c.Base = "https://new.example.org"; return c }())
	is.NoErr(err)
	a.server.Handle(moved)
	for _, path := range []string{"/s/old", "/old", "/s/old-few", "/old-few"} {
		got := a.guest().see("GET", path).want(200)
		is.Equal(mediaOf(got.header), "text/html")
		is.Equal(strings.Contains(string(got.body), "new.example.org/s/old"+`"`), !strings.Contains(path, "few"))
		is.Equal(a.get(path).status, 200)
		a.guest().see("HEAD", path).want(200)
	}
	is.Equal(a.counted("shorten", "old-few", "clicks"), 0)
	a.patch("/api/v1/shorten/old", `{"isFavorite":true,"originalUrl":"https://new.example.org/s/old"}`).want(200) // nothing new
	a.patch("/api/v1/shorten/old", `{"originalUrl":"https://example.org/"}`).want(200)
	a.guest().see("GET", "/s/old").want(302)
}

// There is a page for every kind, and an address at the root; what is not
// there, private, over or used up has a page with its status.
func TestPages(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for at, body := range map[string]string{
		"bookmarks": `{"url":"https://example.org/page","title":"Seen %s"}`, "notes": `{"title":"Seen %s","content":"# Head\n*text*"}`,
		"snippets": `{"title":"Seen %s","language":"go","content":"x := 1"}`, "recipes": `{"title":"Seen %s","instructions":"Knead."}`,
		"games": `{"title":"Seen %s","platform":"board","status":"playing"}`,
	} {
		body := strings.Replace(fmt.Sprintf(body, at), "{", `{"slug":"one-`+at+`","isPublic":true,`, 1)
		a.post("/api/v1/"+at, body).want(201)
		for _, path := range []string{"/v/one-" + at, "/one-" + at} {
			got := a.guest().see("GET", path).want(200)
			is.True(strings.Contains(string(got.body), "Seen "+at))
			is.True(strings.Contains(string(got.body), `property="og:title"`))
			is.True(strings.HasPrefix(got.header.Get("Content-Security-Policy"), "default-src 'none'"))
			is.True(!strings.Contains(got.header.Get("Content-Security-Policy"), "unsafe-inline"))
		}
		a.patch("/api/v1/"+at+"/one-"+at, `{"maxViews":3}`).want(200)
		is.True(!strings.Contains(string(a.guest().see("GET", "/v/one-"+at).want(200).body), `property="og:title"`))
	}
	a.post("/api/v1/shorten", `{"originalUrl":"https://example.org/target","slug":"go","isPublic":true}`).want(201)
	is.Equal(a.guest().see("GET", "/go").want(302).header.Get("Location"), "https://example.org/target")
	is.True(strings.Contains(string(a.guest().see("GET", "/v/go").want(200).body), "example.org/target"))
	a.patch("/api/v1/shorten/go", `{"maxClicks":3}`).want(200)
	is.True(!strings.Contains(string(a.guest().see("GET", "/v/go").want(200).body), "example.org/target"))

	is.True(strings.Contains(string(a.guest().see("GET", "/g/ann").want(404).body), "list")) // the one game is limited
	a.patch("/api/v1/games/one-games", `{"maxViews":null}`).want(200)
	is.True(strings.Contains(string(a.guest().see("GET", "/g/Ann").want(200).body), "Seen games"))
	a.guest().see("GET", "/g/nobody").want(404)

	for path, status := range map[string]int{"/v/none": 404, "/none": 404, "/t/none": 404, "/v/%00": 404, "/%ff": 404} {
		got := a.guest().see("GET", path, "Accept", "text/html").want(status)
		is.Equal(mediaOf(got.header), "text/html")
	}
	a.patch("/api/v1/notes/one-notes", `{"isPublic":false}`).want(200)
	a.guest().see("GET", "/v/one-notes").want(404)
	a.patch("/api/v1/recipes/one-recipes", `{"expiresAt":"`+a.clock.now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}`).want(200)
	a.clock.advance(time.Hour)
	a.guest().see("GET", "/v/one-recipes").want(410)
}

// Without a title of its owner's, an item is called by its kind wherever its content is not shown: in link previews and
// in the title of its page's window. Nobody learns from it what the view of a limited item would show.
func TestNamesShowNoContent(t *testing.T) {
	t.Parallel()
	window := regexp.MustCompile(`<title>(.*?)</title>|property="og:title" content="(.*?)"`)
	for _, row := range []struct {
		path, body, name string
		fetched          []string // the addresses that preview programs ask for
	}{
		{"notes", `{"content":"Secret 4711"}`, "Untitled note", []string{"/v/it", "/it", "/x/it"}},
		{"notes", `{"content":"\n # Secret 4711 #\nmore"}`, "Untitled note", []string{"/v/it", "/it", "/x/it"}},
		{"notes", `{"title":" ","content":"Secret 4711"}`, "Untitled note", []string{"/v/it"}},
		{"notes", `{"title":"Door","content":"Secret 4711"}`, "Door", []string{"/v/it"}},
		{"snippets", `{"content":"PASSWORD=4711"}`, "Untitled snippet", []string{"/v/it", "/it", "/x/it"}},
		{"bookmarks", `{"url":"https://files.example/4711"}`, "Untitled bookmark", []string{"/v/it", "/it"}},
		{"recipes", `{"title":"Cake","instructions":"4711"}`, "Cake", []string{"/v/it", "/it"}},
		{"shorten", `{"originalUrl":"https://files.example/4711"}`, "it", []string{"/v/it", "/it", "/s/it"}},
	} {
		t.Run(row.path+" "+row.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := start(t)
			limit := map[bool]string{true: "maxClicks", false: "maxViews"}[row.path == "shorten"]
			a.post("/api/v1/"+row.path, strings.TrimSuffix(row.body, "}")+`,"slug":"it","isPublic":true,"`+limit+`":2}`).want(201)
			for _, at := range row.fetched {
				got := a.guest().see("GET", at, "User-Agent", "Discordbot/2.0").want(200)
				is.True(!strings.Contains(string(got.body), "4711"))
				is.True(strings.Contains(string(got.body), "<h1 dir=\"auto\">"+row.name+"</h1>"))
			}
			shown := func() {
				for _, m := range window.FindAllStringSubmatch(string(a.guest().see("GET", "/v/it").want(200).body), -1) {
					is.True(strings.HasPrefix(m[1]+m[2], row.name))
				}
			}
			shown()
			a.patch("/api/v1/"+row.path+"/it", `{"`+limit+`":null}`).want(200)
			shown()
		})
	}
}

// A picture has a thumbnail for anyone who may see it; one with a limit, for who
// has paid. It is no view.
func TestThumbnail(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	var b bytes.Buffer
	is.NoErr(png.Encode(&b, image.NewGray(image.Rect(0, 0, 900, 600))))
	a.share(b.String(), "slug", "free")
	a.share(b.String(), "slug", "limited", "maxViews", "5")
	a.share("text", "slug", "text")
	got := a.guest().see("GET", "/t/free").want(200)
	is.True(strings.HasPrefix(got.header.Get("Content-Type"), "image/"))
	is.Equal(got.header.Get("X-Content-Type-Options"), "nosniff")
	c, _, err := image.DecodeConfig(bytes.NewReader(got.body))
	is.NoErr(err)
	is.Equal(c.Width, 480)
	a.guest().see("GET", "/t/free.png", "If-None-Match", got.header.Get("Etag")).want(304)
	is.Equal(a.viewed("free"), 0)
	a.guest().see("GET", "/t/text").want(404)
	g := a.guest()
	g.see("GET", "/t/limited").want(404)
	g.see("GET", "/v/limited").want(200)
	g.see("GET", "/t/limited").want(200)
	is.Equal(a.viewed("limited"), 1)
}

// Other sites are told of a picture by its thumbnail, if it has one and is for
// everyone.
func TestPictureForOthers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	var b bytes.Buffer
	is.NoErr(png.Encode(&b, image.NewGray(image.Rect(0, 0, 900, 600))))
	picture := b.String()
	a.share(picture, "slug", "open")
	a.share(picture[:100], "slug", "torn")
	a.share(picture, "slug", "few", "maxViews", "5")
	a.share(picture, "slug", "locked", "password", "secret")
	a.share("text", "slug", "text")
	told := func(slug string, header ...string) bool {
		page := string(a.guest().see("GET", "/v/"+slug, header...).want(200).body)
		is.Equal(strings.Contains(page, `name="twitter:card" content="summary_large_image"`), strings.Contains(page, "og:image"))
		return strings.Contains(page, `<meta property="og:image" content="https://kist.example.org/t/`+slug+`">`)
	}
	is.True(told("open"))
	is.True(told("open", "User-Agent", "Slackbot 1.0"))
	a.visit("/t/torn").want(404) // a page waits only a while to find out
	is.True(!told("torn"))
	is.True(!told("few"))
	is.True(!told("few", "User-Agent", "Slackbot 1.0"))
	is.True(!told("locked", "X-Share-Password", "secret"))
	is.True(!told("text"))
}

// Who was let in on other terms does not read on when the last view, somebody
// else's, deletes the item.
func TestPassingHasTheTerms(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]string{
		"password": `{"password":"secret"}`, "limit": `{"maxViews":2}`, "end": `{"expiresAt":"2040-01-01T00:00:00Z"}`,
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := start(t)
			a.share("0123456789", "slug", "item", "maxViews", "3", "maxViewsAction", "delete")
			early := a.guest()
			early.see("GET", "/x/item").want(200)
			a.patch("/api/v1/files/item", edit).want(200)
			late := a.guest()
			for last := false; !last; last = a.get("/api/v1/files/item").status == 404 {
				late = a.guest()
				late.see("GET", "/x/item", "X-Share-Password", "secret").want(200)
			}
			late.see("GET", "/x/item").want(200)
			is.True(early.see("GET", "/x/item").status == 404)
		})
	}
}

// blackPicture is a square PNG with one bit for each pixel. Package image/png
// writes one pixel at a time, which takes many seconds with the race detector.
func blackPicture(edge int) string {
	var rows, out bytes.Buffer
	packed := zlib.NewWriter(&rows)
	_, _ = packed.Write(make([]byte, edge*(1+(edge+7)/8))) // a buffer takes everything
	_ = packed.Close()
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(edge)), uint32(edge))
	out.WriteString("\x89PNG\r\n\x1a\n")
	for _, chunk := range []struct{ name, data string }{{"IHDR", string(head) + "\x01\x00\x00\x00\x00"}, {"IDAT", rows.String()}, {"IEND", ""}} {
		text := chunk.name + chunk.data
		out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(chunk.data))))
		out.WriteString(text)
		out.Write(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(text))))
	}
	return out.String()
}

// A page links to a picture that is too large for a thumbnail and does not show
// it: a browser that draws it unasked may run out of memory.
func TestLargePictureIsLinked(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for edge, shown := range map[int]bool{600: true, 6_400: false} {
		slug := a.upload(map[string]string{"isPublic": "true"}, file{"a.png", "image/png", blackPicture(edge)}).want(201).text("slug")
		page := string(a.guest().see("GET", "/v/"+slug).want(200).body)
		is.Equal(strings.Contains(page, "<img"), shown)
		is.True(embedded.MatchString(page)) // by a link at least
		is.Equal(strings.Contains(page, "/t/"+slug), shown)
	}
}
