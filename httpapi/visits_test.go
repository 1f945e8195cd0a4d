package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/people"
)

const (
	phoneAgent   = "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Mobile Safari/537.36"
	desktopAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
)

// Every way to open an item is a visit if it is a view, and nothing else is.
func TestVisits(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, behindProxy)
	note := a.post("/api/v1/notes", `{"content":"n","slug":"n","isPublic":true,"logVisits":true}`).want(201)
	is.Equal(note.at("data.logVisits"), true)
	at := "/api/v1/notes/" + note.text("data.id") + "/visits"
	is.Equal(string(a.get(at).want(200).body), `{"days":[],"lastAt":null,"log":[]}`)

	from := func(agent, referer, address string) []string {
		return []string{"User-Agent", agent, "Referer", referer, "X-Forwarded-For", address}
	}
	first := a.clock.now()
	a.visit("/v/n", from(phoneAgent, "https://Forum.example:8443/thread?id=1", "192.0.2.77")...).want(200)
	a.visit("/x/n", from("curl/8.5", "", "2001:db8:1:2:3::4")...).want(200)
	a.visit("/n", from(desktopAgent, "https://kist.example.org/v/other", "198.51.100.78")...).want(200)
	a.do(apiRequest{method: "POST", path: "/api/v1/notes/p/n", anyone: true, json: `{}`, header: http.Header{"User-Agent": {desktopAgent}, "X-Forwarded-For": {"203.0.113.79"}}}).want(200)
	a.visit("/v/n", from(desktopAgent, "", "203.0.113.80")...).want(200) // not logged: so soon after one of its network
	for _, none := range []apiRequest{                                   // no views
		{method: "HEAD", path: "/v/n", anyone: true},
		{method: "GET", path: "/v/n"},
		{method: "GET", path: "/x/n"},
		{method: "GET", path: "/v/n", anyone: true, header: http.Header{"Sec-Purpose": {"prefetch"}}},
		{method: "GET", path: "/v/n", anyone: true, header: http.Header{"User-Agent": {"Mozilla/5.0 (compatible; Discordbot/2.0)"}}},
		{method: "GET", path: "/x/n", anyone: true, header: http.Header{"Range": {"bytes=1-"}}},
	} {
		none.raw = true
		a.do(none)
	}
	is.NoErr(a.server.Store.Flush())
	got := a.get(at).want(200)
	is.Equal(got.at("days.0.day"), first.Format(time.DateOnly))
	is.Equal(got.at("days.0.views"), 5.0)
	is.True(strings.Contains(string(got.body), `"devices":{"phone":1,"desktop":3,"program":1},"referrers":{"forum.example":1}}`))
	var log []string
	for i := range 4 {
		row := fmt.Sprintf("log.%d.", i)
		log = append(log, fmt.Sprint(got.at(row+"what"), " ", got.at(row+"device"), " ", got.at(row+"referrer"), " ", got.at(row+"network")))
	}
	is.Equal(log, []string{"page desktop  203.0.113.0/24", "page desktop  198.51.100.0/24", "file program  2001:db8:1::/48", "page phone forum.example 192.0.2.0/24"})
	is.Equal(len(got.at("log").([]any)), 4)
	is.True(!strings.Contains(string(got.body), "192.0.2.7"))
	is.Equal(a.get("/api/v1/notes/n").at("data.views"), 5.0)

	link := a.post("/api/v1/shorten", `{"originalUrl":"https://example.org","slug":"l","isPublic":true,"maxClicks":3}`).want(201).text("data.id")
	a.visit("/s/l", from(phoneAgent, "", "192.0.2.77")...).want(302)
	got = a.get("/api/v1/shorten/" + link + "/visits").want(200) // without a flush
	is.Equal(got.at("days.0.devices.phone"), 1.0)
	is.Equal(got.at("log"), []any{}) // not asked for

	a.upload(map[string]string{"isPublic": "true", "slug": "f", "logVisits": "true"}, file{"a.txt", "text/plain", "hello"}).want(201)
	g := a.guest()
	g.see("GET", "/v/f")
	g.see("GET", "/x/f") // belongs to the same view
	is.NoErr(a.server.Store.Flush())
	is.Equal(a.get("/api/v1/files/f/visits").want(200).at("days.0.views"), 1.0)
	is.Equal(a.get("/api/v1/files/f").at("data.logVisits"), true)
}

func TestVisitsOfDays(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.clock.advance(time.Until(time.Now().UTC().Truncate(24*time.Hour).Add(36*time.Hour)) + time.Hour) // no midnight during the test
	a.post("/api/v1/notes", `{"content":"n","slug":"n","isPublic":true}`).want(201)
	start := a.clock.now()
	for range 5 {
		a.visit("/v/n").want(200)
		is.NoErr(a.server.Store.Flush())
		a.clock.advance(24 * time.Hour)
	}
	day := func(n int) string { return start.AddDate(0, 0, n).UTC().Format(time.DateOnly) }
	for query, want := range map[string][]string{
		"":                                  {day(0), day(1), day(2), day(3), day(4)},
		"?from=" + day(3):                   {day(3), day(4)},
		"?to=" + day(0):                     {day(0)},
		"?from=" + day(1) + "&to=" + day(2): {day(1), day(2)},
		"?from=" + day(2) + "&to=" + day(1): {},
	} {
		got := a.get("/api/v1/notes/n/visits" + query).want(200)
		all := []string{}
		for i := range got.at("days").([]any) {
			all = append(all, got.text(fmt.Sprintf("days.%d.day", i)))
		}
		is.Equal(all, want)
		is.True(strings.HasPrefix(got.text("lastAt"), day(4)))
	}
	for _, bad := range []string{"?from=yesterday", "?to=2026-02-30", "?from=2026-01-01T00:00:00Z"} {
		is.Equal(a.do(apiRequest{method: "GET", path: "/api/v1/notes/n/visits" + bad, raw: true}).status, 400)
	}
	a.get("/api/v1/notes/none/visits").want(404)
	a.get("/api/v1/snippets/n/visits").want(404)
	bob := a.addKey(a.addUser("bob", people.Member), people.ScopeAll)
	a.do(apiRequest{method: "GET", path: "/api/v1/notes/n/visits", key: bob}).want(404)
}

// Visitors are told that the owner sees them, on the page and in the answer.
func TestPageTellsOfLog(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	const says = "The owner sees when this is opened."
	a.post("/api/v1/notes", `{"content":"n","slug":"n","isPublic":true}`).want(201)
	is.True(!strings.Contains(string(a.visit("/v/n").want(200).body), says))
	is.Equal(a.patch("/api/v1/notes/n", `{"logVisits":true}`).want(200).at("data.logVisits"), true)
	is.True(strings.Contains(string(a.visit("/v/n").want(200).body), says))
	is.Equal(a.do(apiRequest{method: "POST", path: "/api/v1/notes/p/n", anyone: true, json: `{}`}).want(200).at("data.logVisits"), true)
	is.Equal(a.patch("/api/v1/notes/n", `{"title":"t"}`).want(200).at("data.logVisits"), true) // kept
	is.Equal(a.patch("/api/v1/notes/n", `{"logVisits":false}`).want(200).at("data.logVisits"), false)
}

// The activity has what the API did, in order, with names and addresses.
func TestActivity(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, behindProxy)
	bob := a.addUser("bob", people.Member)
	home := http.Header{"X-Forwarded-For": {"192.0.2.7"}}
	a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
		u, err := people.ReadUser(tx, bob.ID)
		if err == nil {
			u.Password, err = a.server.Passwords.Hash(t.Context(), "", "correct horse")
		}
		if err != nil {
			return err
		}
		return people.SaveUser(tx, u)
	}))
	in := a.do(apiRequest{method: "POST", path: "/api/v1/auth/login", anyone: true, json: `{"username":"bob","password":"correct horse"}`, header: http.Header{"X-Forwarded-For": {"192.0.2.7"}, "User-Agent": {"Firefox"}}}).want(200)
	cookie := in.header.Get("Set-Cookie")
	session := http.Header{"Cookie": {cookie[:strings.Index(cookie, ";")]}, "Sec-Fetch-Site": {"same-origin"}}
	key := a.addKey(bob, people.ScopeAll)
	as := func(method, path, json string) *answer {
		q := apiRequest{method: method, path: path, key: key, header: home.Clone()}
		if json != "" {
			q.json = json
		}
		return a.do(q)
	}
	as("POST", "/api/v1/notes", `{"content":"Secret plans","slug":"n","isPublic":true,"maxViews":1}`).want(201)
	as("POST", "/api/v1/notes", `{"content":"private"}`).want(201)
	as("PATCH", "/api/v1/notes/n", `{"isFavorite":true}`).want(200)
	a.visit("/v/n").want(200)
	as("PATCH", "/api/v1/notes/n", `{"isPublic":true}`).want(200)
	a.patch("/api/v1/admin/users/"+bob.ID.String(), `{"role":"admin","quotaBytes":null}`).want(200)
	is.NoErr(a.server.Store.Flush())

	list := func(q apiRequest) (all []string) {
		q.method, q.header = "GET", session.Clone()
		if q.key == "" {
			q.anyone = true
		} else {
			q.header = nil
		}
		got := a.do(q).want(200)
		for i := range got.at("data").([]any) {
			row := fmt.Sprintf("data.%d.", i)
			all = append(all, fmt.Sprint(got.at(row+"event"), "|", got.at(row+"account"), "|", got.at(row+"by"), "|", got.at(row+"name"), "|", got.at(row+"address"), "|", got.at(row+"kind"), "|", got.at(row+"changes")))
		}
		return all
	}
	want := []string{
		"account_changed|bob|ann|bob|||[role]",
		"item_shared|bob||Secret plans||note|[]",
		"limit_reached|bob||Secret plans||note|[]",
		"item_shared|bob||Secret plans||note|[]",
		"key_created|bob||test|||[]",
		"signed_in|bob||Firefox|192.0.2.7||[]",
	}
	got := list(apiRequest{path: "/api/v1/activity"})
	used := "key_used|bob||test|192.0.2.7||[]" // within a second of the first request
	at := 0
	for i, row := range got {
		if row == used {
			got, at = append(got[:i:i], got[i+1:]...), i
			break
		}
	}
	is.True(at <= 4)
	is.Equal(got, want)

	a.patch("/api/v1/admin/settings", `{"linkChecks":false,"defaultQuotaBytes":1000000}`).want(200)
	a.patch("/api/v1/admin/settings", `{"linkChecks":false}`).want(200) // changes nothing
	made := a.post("/api/v1/admin/users", `{"username":"eve","password":"correct horse"}`).want(201).text("data.id")
	a.delete("/api/v1/admin/users/" + made).want(200)
	whole := list(apiRequest{path: "/api/v1/admin/activity", key: a.key})
	admin := slices.DeleteFunc(slices.Clone(whole), func(row string) bool { return strings.HasPrefix(row, "key_used") })
	is.Equal(admin[:4], []string{"account_removed||ann|eve|||[]", "account_created||ann|eve|||[]", "settings_changed||ann||||[defaultQuotaBytes linkChecks]", "account_changed|bob|ann|bob|||[role]"})
	is.True(!strings.Contains(strings.Join(whole, "\n"), "Secret"))

	// Page by page.
	var paged []string
	for cursor, n := "", 0; n < 100; n++ {
		got := a.get("/api/v1/admin/activity?limit=2&cursor=" + cursor).want(200)
		for i := range got.at("data").([]any) {
			paged = append(paged, got.text(fmt.Sprintf("data.%d.event", i)))
		}
		is.Equal(got.at("total"), float64(len(whole)))
		if got.at("nextCursor") == nil {
			break
		}
		cursor = got.text("nextCursor")
	}
	is.Equal(len(paged), len(whole))
	is.Equal(a.do(apiRequest{method: "GET", path: "/api/v1/admin/activity?cursor=AQ", raw: true}).status, 400)
}
