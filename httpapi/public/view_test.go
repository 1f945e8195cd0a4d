package public_test

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

	"kist/httpapi/apitest"
	"kist/httpapi/grant"
	"kist/httpapi/limit"
	"kist/httpapi/public"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/people"
	"kist/kv/record"
)

// embedded are the addresses of the raw bytes in a page.
var embedded = regexp.MustCompile(`(?:src|href)="(/x/[^"]+)"`)

func rawIn(page *apitest.Answer) string {
	page.App.Helper()
	m := embedded.FindSubmatch(page.Body)
	if m == nil {
		page.App.Fatalf("the page has no raw address: %s", apitest.CutText(page.Body))
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
		does          func(g *apitest.Guest)
	}{
		"curl":       {1, 1, func(g *apitest.Guest) { g.See("GET", "/x/item").Want(200) }},
		"curl twice": {2, 2, func(g *apitest.Guest) { g.Guest().See("GET", "/x/item"); g.Guest().See("GET", "/x/item") }},
		"curl HEAD":  {0, 0, func(g *apitest.Guest) { g.See("HEAD", "/x/item").Want(200) }},
		"page HEAD":  {0, 0, func(g *apitest.Guest) { g.See("HEAD", "/v/item").Want(200) }},
		"browser twice": {1, 1, func(g *apitest.Guest) {
			g.See("GET", "/x/item").Want(200)
			g.See("GET", "/x/item").Want(200)
		}},
		"after the grant": {2, 2, func(g *apitest.Guest) {
			g.See("GET", "/x/item")
			g.Clock.Advance(public.ReadTime)
			g.See("GET", "/x/item").Want(200)
		}},
		"range loop": {1, 1, func(g *apitest.Guest) {
			for i := range len(text) {
				g.See("GET", "/x/item", "Range", fmt.Sprintf("bytes=%d-%d", i, i)).Want(206)
			}
		}},
		"range loop, no jar": {1, 1, func(g *apitest.Guest) {
			for i := range len(text) {
				g.Guest().See("GET", "/x/item", "Range", fmt.Sprintf("bytes=%d-%d", i, i)).Want(206)
			}
		}},
		"resumed, no jar": {1, 1, func(g *apitest.Guest) {
			etag := g.Guest().See("GET", "/x/item").Want(200).Header.Get("Etag")
			g.Guest().See("GET", "/x/item", "Range", "bytes=7-", "If-Range", etag).Want(206)
		}},
		"resumed late, no jar": {1, 2, func(g *apitest.Guest) {
			g.Guest().See("GET", "/x/item").Want(200)
			g.Clock.Advance(public.ReadTime)
			g.Guest().See("GET", "/x/item", "Range", "bytes=7-").Want(206)
		}},
		"resumed by another program": {1, 2, func(g *apitest.Guest) {
			g.Guest().See("GET", "/x/item", "User-Agent", "curl/8").Want(200)
			g.Guest().See("GET", "/x/item", "User-Agent", "Wget/1", "Range", "bytes=7-").Want(206)
		}},
		"a page after the bytes, no jar": {2, 2, func(g *apitest.Guest) {
			g.Guest().See("GET", "/x/item").Want(200)
			g.Guest().See("GET", "/v/item", "Range", "bytes=7-").Want(200)
		}},
		"an impossible range, no jar": {2, 2, func(g *apitest.Guest) { // which is no range
			g.Guest().See("GET", "/x/item").Want(200)
			g.Guest().See("GET", "/x/item", "Range", "lines=7-").Want(200)
		}},
		"seeking video player": {1, 1, func(g *apitest.Guest) {
			g.See("GET", "/x/item", "Range", "bytes=0-").Want(206)
			g.See("GET", "/x/item", "Range", "bytes=12-").Want(206)
			g.See("GET", "/x/item", "Range", "bytes=4-").Want(206)
		}},
		"broken download resumed": {1, 1, func(g *apitest.Guest) {
			etag := g.See("GET", "/x/item").Want(200).Header.Get("Etag")
			g.See("GET", "/x/item", "Range", "bytes=7-", "If-Range", etag).Want(206)
		}},
		"bytes=1- without a grant": {0, 1, func(g *apitest.Guest) { g.See("GET", "/x/item", "Range", "bytes=1-").Want(206) }},
		"prefetch": {0, 0, func(g *apitest.Guest) {
			g.See("GET", "/x/item", "Sec-Purpose", "prefetch")
			g.See("GET", "/v/item", "Sec-Purpose", "prefetch;prerender")
		}},
		"preview": {0, 0, func(g *apitest.Guest) {
			g.See("GET", "/x/item", "User-Agent", "Slackbot-LinkExpanding 1.0").Want(200)
			g.See("GET", "/v/item", "User-Agent", "Discordbot/2.0").Want(200)
		}},
		"not modified": {1, 1, func(g *apitest.Guest) {
			etag := g.See("GET", "/x/item").Want(200).Header.Get("Etag")
			g.See("GET", "/x/item", "If-None-Match", etag).Want(304)
			g.Guest().See("GET", "/x/item", "If-None-Match", etag).Want(304)
		}},
		"page and its fetch": {1, 1, func(g *apitest.Guest) {
			g.See("GET", rawIn(g.See("GET", "/v/item").Want(200))).Want(200)
		}},
		"page without cookies": {1, 1, func(g *apitest.Guest) {
			g.Guest().See("GET", rawIn(g.See("GET", "/v/item").Want(200))).Want(200)
		}},
		"page, then raw": {1, 1, func(g *apitest.Guest) {
			g.See("GET", "/v/item").Want(200)
			g.See("GET", "/x/item").Want(200)
		}},
		"at the root": {1, 1, func(g *apitest.Guest) { g.See("GET", "/item").Want(200); g.See("GET", "/v/item").Want(200) }},
		"owner by key": {0, 0, func(g *apitest.Guest) {
			g.Get("/x/item").Want(200)
			g.Get("/v/item").Want(200)
			g.Get("/item").Want(200)
		}},
		"owner by session": {0, 0, func(g *apitest.Guest) {
			g.WithPassword(g.User, "correct horse")
			name, value, _ := strings.Cut(g.Enter("ann", "correct horse"), "=")
			g.Cookies[name] = value
			g.See("GET", "/x/item").Want(200)
			g.See("GET", rawIn(g.See("GET", "/v/item").Want(200))).Want(200)
		}},
		"link": {2, 2, func(g *apitest.Guest) { // every click counts
			g.See("GET", "/s/item").Want(302)
			g.See("GET", "/item").Want(302)
		}},
		"link HEAD": {0, 0, func(g *apitest.Guest) { g.See("HEAD", "/s/item"); g.See("HEAD", "/item") }},
		"link, its page": {0, 0, func(g *apitest.Guest) {
			g.See("GET", "/v/item").Want(200)
			g.See("HEAD", "/v/item").Want(200)
		}},
		"link, prefetch": {0, 0, func(g *apitest.Guest) {
			g.See("GET", "/s/item", "Sec-Purpose", "prefetch")
			g.See("GET", "/item", "Purpose", "prefetch")
		}},
		"link, preview": {0, 0, func(g *apitest.Guest) {
			g.See("GET", "/s/item", "User-Agent", "Slackbot-LinkExpanding 1.0")
		}},
		"link, by its owner": {0, 0, func(g *apitest.Guest) { g.Get("/s/item").Want(302); g.Get("/v/item").Want(200) }},
		"link, a range":      {1, 1, func(g *apitest.Guest) { g.See("GET", "/s/item", "Range", "bytes=1-").Want(302) }},
		"note": {1, 1, func(g *apitest.Guest) {
			g.See("GET", "/v/item").Want(200)
			g.See("GET", "/x/item").Want(200)
			g.See("GET", "/item").Want(200)
		}},
		"note, raw": {1, 1, func(g *apitest.Guest) {
			g.See("GET", "/x/item").Want(200)
			g.See("GET", "/x/item", "Range", "bytes=3-").Want(206)
		}},
		"note HEAD": {0, 0, func(g *apitest.Guest) {
			g.See("HEAD", "/v/item").Want(200)
			g.See("HEAD", "/x/item").Want(200)
		}},
		"note, bytes=1- without a grant": {0, 1, func(g *apitest.Guest) {
			g.See("GET", "/x/item", "Range", "bytes=1-").Want(206)
		}},
		"note, prefetch": {0, 0, func(g *apitest.Guest) {
			g.See("GET", "/v/item", "Sec-Purpose", "prefetch")
			g.See("GET", "/x/item", "X-Moz", "prefetch")
		}},
		"note, preview": {0, 0, func(g *apitest.Guest) { g.See("GET", "/v/item", "User-Agent", "Discordbot/2.0").Want(200) }},
		"note by a script": {2, 2, func(g *apitest.Guest) { // each of which is a visitor of its own
			for range 2 {
				g.See("POST", "/api/v1/notes/p/item").Want(200)
			}
		}},
		"note, by its owner": {0, 0, func(g *apitest.Guest) {
			g.Get("/v/item").Want(200)
			g.Get("/x/item").Want(200)
			g.Do(apitest.Request{Method: "POST", Path: "/api/v1/notes/p/item"}).Want(200)
		}},
		"forged grant": {2, 2, func(g *apitest.Guest) {
			g.See("GET", "/x/item").Want(200)
			for name, value := range g.Cookies {
				g.Cookies[name] = "A" + value[1:]
			}
			g.See("GET", "/x/item").Want(200)
		}},
		"another item's grant": {1, 1, func(g *apitest.Guest) {
			g.Share(text, "slug", "other")
			g.See("GET", "/x/other").Want(200)
			for _, value := range g.Cookies {
				g.Cookies[public.CookieName(grant.ToRead, "item")] = value
			}
			g.See("GET", "/x/item").Want(200)
		}},
	} {
		for _, limited := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/limited=%v", name, limited), func(t *testing.T) {
				t.Parallel() // counts are written once a second
				is := is.New(t)
				a := apitest.Start(t)
				fields, links, notes, want := []string{"slug", "item"}, "", "", row.free
				if limited {
					fields, want = append(fields, "maxViews", "100"), row.limited
					links, notes = `,"maxClicks":100`, `,"maxViews":100`
				}
				at, counter := "files", "views"
				switch name[:4] {
				case "link":
					at, counter = "shorten", "clicks"
					a.Post(
						"/api/v1/shorten", `{"originalUrl":"https://example.org/","slug":"item","isPublic":true`+links+`}`,
					).Want(201)
				case "note":
					at = "notes"
					a.Post("/api/v1/notes", `{"content":"`+text+`","slug":"item","isPublic":true`+notes+`}`).Want(201)
				default:
					a.Share(text, fields...)
				}
				row.does(a.Guest())
				a.Flush()
				is.Equal(a.Counted(at, "item", counter), want)
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
			does func(a *apitest.App)
			then int // for who had the last view
		}{
			"nothing":  {func(*apitest.App) {}, 200},
			"password": {func(a *apitest.App) { a.Patch("/api/v1/files/item", `{"password":"secret"}`) }, 401},
			"private":  {func(a *apitest.App) { a.Patch("/api/v1/files/item", `{"isPublic":false}`) }, 404},
			"deleted":  {func(a *apitest.App) { a.Delete("/api/v1/files/item") }, 404},
			"shut": {func(a *apitest.App) {
				a.AddUser("eve", people.Admin)
				a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
					u, err := people.ReadUser(tx, a.User.ID)
					if err != nil {
						return err
					}
					u.Disabled = true
					return people.SaveUser(tx, u)
				}))
			}, 404},
			"late": {func(a *apitest.App) { a.Clock.Advance(public.ReadTime) }, 0},
		} {
			t.Run(action+"/"+name, func(t *testing.T) {
				is := is.New(t)
				a := apitest.Start(t)
				a.Share("0123456789", "slug", "item", "maxViews", "1", "maxViewsAction", action)
				g := a.Guest()
				raw := rawIn(g.See("GET", "/v/item").Want(200))
				a.Guest().See("GET", "/x/item").Want(map[string]int{"make_private": 410, "delete": 404}[action])
				is.Equal(string(g.See("GET", raw).Want(200).Body), "0123456789")
				is.Equal(string(a.Guest().See("GET", raw).Want(200).Body), "0123456789") // a page without cookies
				g.See("GET", "/x/item", "Range", "bytes=5-").Want(206)
				a.Guest().See("GET", "/x/item", "Range", "bytes=5-").Want(206) // the same program, without cookies
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
				is.Equal(g.See("GET", "/x/item").Status, want)
				is.Equal(g.See("GET", raw).Status, want)
				if want == 200 {
					want = 206
				}
				is.Equal(a.Guest().See("GET", "/x/item", "Range", "bytes=5-").Status, want)
			})
		}
	}
}

// A program without cookies that goes on with content must know its password.
func TestResumeNeedsPassword(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"make_private", "delete"} {
		t.Run(action, func(t *testing.T) {
			a := apitest.Start(t)
			a.Share("0123456789", "slug", "item", "maxViews", "1", "maxViewsAction", action, "password", "open sesame")
			part := []string{"Range", "bytes=7-"}
			a.Guest().See("GET", "/x/item", "X-Share-Password", "open sesame").Want(200)
			if action == "make_private" {
				a.Guest().See("GET", "/x/item", part...).Want(401)
				a.Guest().See("GET", "/x/item", append(part, "X-Share-Password", "wrong")...).Want(401)
				a.Guest().See("GET", "/x/item", append(part, "X-Share-Password", "open sesame")...).Want(206)
				return
			}
			a.Guest().See("GET", "/x/item", part...).Want(404)
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
			a := apitest.Start(t)
			a.Share("0123456789", "slug", "item", "maxViews", "5", "maxViewsAction", "delete")
			g := a.Guest()
			g.See("GET", "/x/item").Want(200)
			a.Patch("/api/v1/files/item", edit).Want(200)
			is.True(g.See("GET", "/x/item").Status != 200)
			a.Delete("/api/v1/files/item").Want(200)
			g.See("GET", "/x/item").Want(404)
		})
	}
}

// However many race, a page's views are exact.
func TestPageRace(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.BehindProxy)
	a.Share("0123456789", "slug", "item", "maxViews", "7")
	var wg sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for i := range 200 {
		wg.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), "GET", a.URL+[]string{"/v/item", "/x/item", "/item"}[i%3], nil)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("X-Forwarded-For", fmt.Sprintf("192.0.2.%d", i)) // a network may open a few a minute
			r.Header.Set("Sec-Fetch-Mode", "navigate")
			status := http.StatusServiceUnavailable
			for status == http.StatusServiceUnavailable { // it waited too long for the others, and counted nothing
				res, err := apitest.Plain.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				status = res.StatusCode
				res.Body.Close()
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	wg.Wait()
	is.Equal(statuses, map[int]int{200: 7, 410: 193})
	is.Equal(viewed(a, "item"), 7)
}

// The form of a locked item opens it, and it alone, for twelve hours or until
// the password changes; a password never stands in an address.
func TestUnlock(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Share("0123456789", "slug", "item", "password", "open sesame")
	a.Share("0123456789", "slug", "other", "password", "open sesame")
	g := a.Guest()
	page := g.See("GET", "/v/item").Want(401)
	is.True(strings.Contains(string(page.Body), `type="password"`))
	is.True(!strings.Contains(string(page.Body), "0123456789"))
	g.See("GET", "/v/item?password=open+sesame").Want(401)
	form := func(password string) []string { return []string{"X-Form", url.Values{"password": {password}}.Encode()} }
	is.True(strings.Contains(string(g.See("POST", "/v/item", form("wrong")...).Want(401).Body), `type="password"`))
	g.See("POST", "/v/item", form("")...).Want(401)
	g.See("GET", "/x/item").Want(401)
	g.See("GET", "/t/item").Want(401)
	g.See("POST", "/v/none", form("open sesame")...).Want(404)
	is.Equal(g.See("POST", "/v/item", form("open sesame")...).Want(303).Header.Get("Location"), "/v/item")
	g.See("GET", rawIn(g.See("GET", "/v/item").Want(200))).Want(200)
	g.See("GET", "/v/other").Want(401)
	a.Clock.Advance(public.UnlockTime - time.Minute)
	g.See("GET", "/v/item").Want(200)
	a.Clock.Advance(time.Minute)
	delete(g.Cookies, public.CookieName(grant.ToRead, "item"))
	g.See("GET", "/v/item").Want(401)
	g.See("POST", "/v/item", form("open sesame")...).Want(303)
	g.See("GET", "/v/item").Want(200)
	a.Patch("/api/v1/files/item", `{"password":"another"}`).Want(200)
	g.See("GET", "/v/item").Want(401)
	for range limit.GuessesFrom {
		g.See("POST", "/v/item", form("wrong")...)
	}
	g.See("POST", "/v/item", form("another")...).Want(429)
}

// A browser is asked for the password at every address of a locked item, and
// ends where it wanted; programs are told of the header.
func TestUnlockLeadsOn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	const target = "https://example.org/far"
	a.Post(
		"/api/v1/shorten", `{"originalUrl":"`+target+`","slug":"jump","isPublic":true,"password":"open sesame"}`,
	).Want(201)
	a.Share("0123456789", "slug", "item", "password", "open sesame")
	html := []string{"Accept", "text/html,*/*;q=0.8"}
	action := regexp.MustCompile(`action="(/v/[^"]+)"`)
	hidden := regexp.MustCompile(`type="hidden" name="then" value="([^"]*)"`)
	for path, end := range map[string]string{
		"/s/jump": target, "/jump": target, "/x/item": "0123456789", "/x/item.txt": "0123456789", "/item": "<!doctype html>", "/v/jump": "<!doctype html>",
	} {
		g := a.Guest()
		page := g.See("GET", path, html...).Want(401)
		is.True(strings.Contains(string(page.Body), `type="password"`))
		is.True(!strings.Contains(string(page.Body), target))
		for _, password := range []string{"", "wrong", "open sesame"} {
			at, then := action.FindSubmatch(page.Body), hidden.FindSubmatch(page.Body)
			form := url.Values{"password": {password}}
			if then != nil {
				form.Set("then", string(then[1]))
			}
			page = g.See("POST", string(at[1]), "X-Form", form.Encode(), "Accept", html[1])
		}
		got := g.See("GET", page.Want(303).Header.Get("Location"), html...)
		if got.Status == 302 {
			is.Equal(got.Header.Get("Location"), end)
		} else {
			is.True(strings.HasPrefix(string(got.Want(200).Body), end))
		}
	}
	for _, path := range []string{"/s/jump", "/x/item"} {
		is.Equal(apitest.MediaOf(a.Visit(path).Want(401).Header), "text/plain")
	}
	is.Equal(
		a.Guest().See(
			"POST", "/v/item", "X-Form", "password=open+sesame&then=https://example.org",
		).Want(303).Header.Get("Location"),
		"/v/item",
	)
}

// TestGameListIsLong: what visitors may not see takes no place on the list, and
// the page says when it does not show all.
func TestGameListIsLong(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	add := func(n int, locked bool) {
		is.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
			for range n {
				form := record.NewForm(record.Games)
				form.Body.(*record.Game).Name, form.Public = "A game", true
				hash := ""
				if locked {
					hash, form.Password.Said = "locked", true
				}
				if _, err := catalog.Add(tx, catalog.Draft{
					Owner: a.User.ID, Kind: record.Games, Form: form, Password: hash,
				}); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	shows := func(n int, more bool) {
		t.Helper()
		page := string(a.Visit("/g/ann").Want(200).Body)
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

// There is a page for every kind, and an address at the root; what is not
// there, private, over or used up has a page with its status.
func TestPages(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for at, body := range map[string]string{
		"bookmarks": `{"url":"https://example.org/page","title":"Seen %s"}`, "notes": `{"title":"Seen %s","content":"# Head\n*text*"}`,
		"snippets": `{"title":"Seen %s","language":"go","content":"x := 1"}`, "recipes": `{"title":"Seen %s","instructions":"Knead."}`,
		"games": `{"title":"Seen %s","platform":"board","status":"playing"}`,
	} {
		body := strings.Replace(fmt.Sprintf(body, at), "{", `{"slug":"one-`+at+`","isPublic":true,`, 1)
		a.Post("/api/v1/"+at, body).Want(201)
		for _, path := range []string{"/v/one-" + at, "/one-" + at} {
			got := a.Guest().See("GET", path).Want(200)
			is.True(strings.Contains(string(got.Body), "Seen "+at))
			is.True(strings.Contains(string(got.Body), `property="og:title"`))
			is.True(strings.HasPrefix(got.Header.Get("Content-Security-Policy"), "default-src 'none'"))
			is.True(!strings.Contains(got.Header.Get("Content-Security-Policy"), "unsafe-inline"))
		}
		a.Patch("/api/v1/"+at+"/one-"+at, `{"maxViews":3}`).Want(200)
		is.True(!strings.Contains(string(a.Guest().See("GET", "/v/one-"+at).Want(200).Body), `property="og:title"`))
	}
	a.Post("/api/v1/shorten", `{"originalUrl":"https://example.org/target","slug":"go","isPublic":true}`).Want(201)
	is.Equal(a.Guest().See("GET", "/go").Want(302).Header.Get("Location"), "https://example.org/target")
	is.True(strings.Contains(string(a.Guest().See("GET", "/v/go").Want(200).Body), "example.org/target"))
	a.Patch("/api/v1/shorten/go", `{"maxClicks":3}`).Want(200)
	is.True(!strings.Contains(string(a.Guest().See("GET", "/v/go").Want(200).Body), "example.org/target"))

	is.True(strings.Contains(string(a.Guest().See("GET", "/g/ann").Want(404).Body), "list")) // the one game is limited
	a.Patch("/api/v1/games/one-games", `{"maxViews":null}`).Want(200)
	is.True(strings.Contains(string(a.Guest().See("GET", "/g/Ann").Want(200).Body), "Seen games"))
	a.Guest().See("GET", "/g/nobody").Want(404)

	for path, status := range map[string]int{"/v/none": 404, "/none": 404, "/t/none": 404, "/v/%00": 404, "/%ff": 404} {
		got := a.Guest().See("GET", path, "Accept", "text/html").Want(status)
		is.Equal(apitest.MediaOf(got.Header), "text/html")
	}
	a.Patch("/api/v1/notes/one-notes", `{"isPublic":false}`).Want(200)
	a.Guest().See("GET", "/v/one-notes").Want(404)
	a.Patch(
		"/api/v1/recipes/one-recipes", `{"expiresAt":"`+a.Clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}`,
	).Want(200)
	a.Clock.Advance(time.Hour)
	a.Guest().See("GET", "/v/one-recipes").Want(410)
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
			a := apitest.Start(t)
			limit := map[bool]string{true: "maxClicks", false: "maxViews"}[row.path == "shorten"]
			a.Post(
				"/api/v1/"+row.path, strings.TrimSuffix(row.body, "}")+`,"slug":"it","isPublic":true,"`+limit+`":2}`,
			).Want(201)
			for _, at := range row.fetched {
				got := a.Guest().See("GET", at, "User-Agent", "Discordbot/2.0").Want(200)
				is.True(!strings.Contains(string(got.Body), "4711"))
				is.True(strings.Contains(string(got.Body), "<h1 dir=\"auto\">"+row.name+"</h1>"))
			}
			shown := func() {
				for _, m := range window.FindAllStringSubmatch(string(a.Guest().See("GET", "/v/it").Want(200).Body), -1) {
					is.True(strings.HasPrefix(m[1]+m[2], row.name))
				}
			}
			shown()
			a.Patch("/api/v1/"+row.path+"/it", `{"`+limit+`":null}`).Want(200)
			shown()
		})
	}
}

// A picture has a thumbnail for anyone who may see it; one with a limit, for who
// has paid. It is no view.
func TestThumbnail(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	var b bytes.Buffer
	is.NoErr(png.Encode(&b, image.NewGray(image.Rect(0, 0, 900, 600))))
	a.Share(b.String(), "slug", "free")
	a.Share(b.String(), "slug", "limited", "maxViews", "5")
	a.Share("text", "slug", "text")
	got := a.Guest().See("GET", "/t/free").Want(200)
	is.True(strings.HasPrefix(got.Header.Get("Content-Type"), "image/"))
	is.Equal(got.Header.Get("X-Content-Type-Options"), "nosniff")
	c, _, err := image.DecodeConfig(bytes.NewReader(got.Body))
	is.NoErr(err)
	is.Equal(c.Width, 480)
	a.Guest().See("GET", "/t/free.png", "If-None-Match", got.Header.Get("Etag")).Want(304)
	is.Equal(viewed(a, "free"), 0)
	a.Guest().See("GET", "/t/text").Want(404)
	g := a.Guest()
	g.See("GET", "/t/limited").Want(404)
	g.See("GET", "/v/limited").Want(200)
	g.See("GET", "/t/limited").Want(200)
	is.Equal(viewed(a, "limited"), 1)
}

// Other sites are told of a picture by its thumbnail, if it has one and is for
// everyone.
func TestPictureForOthers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	var b bytes.Buffer
	is.NoErr(png.Encode(&b, image.NewGray(image.Rect(0, 0, 900, 600))))
	picture := b.String()
	a.Share(picture, "slug", "open")
	a.Share(picture[:100], "slug", "torn")
	a.Share(picture, "slug", "few", "maxViews", "5")
	a.Share(picture, "slug", "locked", "password", "secret")
	a.Share("text", "slug", "text")
	told := func(slug string, header ...string) bool {
		page := string(a.Guest().See("GET", "/v/"+slug, header...).Want(200).Body)
		is.Equal(
			strings.Contains(page, `name="twitter:card" content="summary_large_image"`), strings.Contains(page, "og:image"),
		)
		return strings.Contains(page, `<meta property="og:image" content="https://kist.example.org/t/`+slug+`?size=card">`)
	}
	is.True(told("open"))
	is.True(told("open", "User-Agent", "Slackbot 1.0"))
	a.Visit("/t/torn").Want(404) // a page waits only a while to find out
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
			a := apitest.Start(t)
			a.Share("0123456789", "slug", "item", "maxViews", "3", "maxViewsAction", "delete")
			early := a.Guest()
			early.See("GET", "/x/item").Want(200)
			a.Patch("/api/v1/files/item", edit).Want(200)
			late := a.Guest()
			for last := false; !last; last = a.Get("/api/v1/files/item").Status == 404 {
				late = a.Guest()
				late.See("GET", "/x/item", "X-Share-Password", "secret").Want(200)
			}
			late.See("GET", "/x/item").Want(200)
			is.True(early.See("GET", "/x/item").Status == 404)
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
	for _, chunk := range []struct{ name, data string }{
		{"IHDR", string(head) + "\x01\x00\x00\x00\x00"}, {"IDAT", rows.String()}, {"IEND", ""},
	} {
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
	a := apitest.Start(t)
	for edge, shown := range map[int]bool{600: true, 6_400: false} {
		slug := a.Upload(
			map[string]string{"isPublic": "true"}, apitest.File("a.png", "image/png", blackPicture(edge)),
		).Want(201).Text("slug")
		page := string(a.Guest().See("GET", "/v/"+slug).Want(200).Body)
		is.Equal(strings.Contains(page, "<img"), shown)
		is.True(embedded.MatchString(page)) // by a link at least
		is.Equal(strings.Contains(page, "/t/"+slug), shown)
	}
}

// TestTextInAnyCharset: a text is readable on its page and at its address, in whatever charset it is.
func TestTextInAnyCharset(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	for name, c := range map[string]struct{ file, bytes, charset, shown string }{
		"UTF-8":          {"a.txt", "Größe – 5 €\n", "utf-8", "Größe – 5 €"},
		"its mark":       {"a.txt", "\ufeffGröße\n", "utf-8", "Größe"},
		"Windows-1252":   {"a.txt", "Gr\xf6\xdfe und \xdcbermut \x96 5 \x80\n", "windows-1252", "Größe und Übermut – 5 €"},
		"Windows-1251":   {"a.txt", "\xcf\xf0\xe8\xe2\xe5\xf2, \xec\xe8\xf0\n", "windows-1251", "Привет, мир"},
		"Shift_JIS":      {"a.txt", "\x83e\x83X\x83g\x82\xc5\x82\xb7\x81B\n", "shift_jis", "テストです。"},
		"UTF-16":         {"a.txt", "\xff\xfeG\x00r\x00\xf6\x00\xdf\x00e\x00", "utf-16le", "Größe"},
		"Markdown":       {"a.md", "# Gr\xf6\xdfe\n\nund \xdcbermut\n", "windows-1252", `>Größe</h1>`},
		"a table":        {"a.csv", "Name;Preis\r\nM\xfcller;3,50\r\n", "windows-1252", "<td>Müller</td><td>3,50</td>"},
		"a UTF-16 table": {"a.csv", "\xff\xfeN\x00\t\x00P\x00\n\x00\xfc\x00\t\x003\x00", "utf-16le", "<td>ü</td><td>3</td>"},
		"what says how":  {"a.csv", "sep=|\na|b\n1|2\n", "utf-8", "<td>1</td><td>2</td>"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			sent := a.Upload(map[string]string{"isPublic": "true"}, apitest.File(c.file, "application/octet-stream", c.bytes))
			slug := sent.Want(201).Text("slug")
			page := strings.ReplaceAll(string(a.Visit("/v/"+slug).Want(200).Body), ` dir="auto"`, "")
			if !strings.Contains(page, c.shown) {
				t.Errorf("the page does not show %q: %s", c.shown, page)
			}
			raw := a.Visit("/x/" + slug).Want(200)
			is.True(strings.HasSuffix(raw.Header.Get("Content-Type"), "; charset="+c.charset))
			is.Equal(string(raw.Body), c.bytes)
			part := a.Visit("/x/"+slug, "Range", "bytes=2-3").Want(206)
			is.Equal(part.Header.Get("Content-Type"), raw.Header.Get("Content-Type"))
		})
	}
}
