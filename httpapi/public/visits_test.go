package public_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv"
	"kist/kv/people"
)

const (
	phoneAgent = "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 " +
		"Mobile Safari/537.36"
	desktopAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
)

// Every way to open an item is a visit if it is a view, and nothing else is.
func TestVisits(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.BehindProxy)
	note := a.Post("/api/v1/notes", `{"content":"n","slug":"n","isPublic":true,"logVisits":true}`).Want(201)
	is.Equal(note.At("data.logVisits"), true)
	at := "/api/v1/notes/" + note.Text("data.id") + "/visits"
	is.Equal(string(a.Get(at).Want(200).Body), `{"days":[],"lastAt":null,"log":[]}`)

	from := func(agent, referer, address string) []string {
		return []string{"User-Agent", agent, "Referer", referer, "X-Forwarded-For", address}
	}
	first := a.Clock.Now()
	a.Visit("/v/n", from(phoneAgent, "https://Forum.example:8443/thread?id=1", "192.0.2.77")...).Want(200)
	a.Visit("/x/n", from("curl/8.5", "", "2001:db8:1:2:3::4")...).Want(200)
	a.Visit("/n", from(desktopAgent, "https://kist.example.org/v/other", "198.51.100.78")...).Want(200)
	a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/notes/p/n", Anyone: true, JSON: `{}`,
		Header: http.Header{"User-Agent": {desktopAgent}, "X-Forwarded-For": {"203.0.113.79"}},
	}).Want(200)
	a.Visit("/v/n", from(desktopAgent, "", "203.0.113.80")...).Want(200) // not logged: so soon after one of its network
	for _, none := range []apitest.Request{                              // no views
		{Method: "HEAD", Path: "/v/n", Anyone: true},
		{Method: "GET", Path: "/v/n"},
		{Method: "GET", Path: "/x/n"},
		{Method: "GET", Path: "/v/n", Anyone: true, Header: http.Header{"Sec-Purpose": {"prefetch"}}},
		{
			Method: "GET", Path: "/v/n", Anyone: true,
			Header: http.Header{"User-Agent": {"Mozilla/5.0 (compatible; Discordbot/2.0)"}},
		},
		{Method: "GET", Path: "/x/n", Anyone: true, Header: http.Header{"Range": {"bytes=1-"}}},
	} {
		none.Raw = true
		a.Do(none)
	}
	is.NoErr(a.Server.Store.Flush())
	got := a.Get(at).Want(200)
	is.Equal(got.At("days.0.day"), first.Format(time.DateOnly))
	is.Equal(got.At("days.0.views"), 5.0)
	is.True(strings.Contains(
		string(got.Body), `"devices":{"phone":1,"desktop":3,"program":1},"referrers":{"forum.example":1}}`,
	))
	var log []string
	for i := range 4 {
		row := fmt.Sprintf("log.%d.", i)
		log = append(
			log,
			fmt.Sprint(got.At(row+"what"), " ", got.At(row+"device"), " ", got.At(row+"referrer"), " ", got.At(row+"network")),
		)
	}
	is.Equal(
		log,
		[]string{
			"page desktop  203.0.113.0/24", "page desktop  198.51.100.0/24", "file program  2001:db8:1::/48",
			"page phone forum.example 192.0.2.0/24",
		},
	)
	is.Equal(len(got.At("log").([]any)), 4)
	is.True(!strings.Contains(string(got.Body), "192.0.2.7"))
	is.Equal(a.Get("/api/v1/notes/n").At("data.views"), 5.0)

	link := a.Post(
		"/api/v1/shorten", `{"originalUrl":"https://example.org","slug":"l","isPublic":true,"maxClicks":3}`,
	).Want(201).Text("data.id")
	a.Visit("/s/l", from(phoneAgent, "", "192.0.2.77")...).Want(302)
	got = a.Get("/api/v1/shorten/" + link + "/visits").Want(200) // without a flush
	is.Equal(got.At("days.0.devices.phone"), 1.0)
	is.Equal(got.At("log"), []any{}) // not asked for

	a.Upload(
		map[string]string{"isPublic": "true", "slug": "f", "logVisits": "true"}, apitest.File("a.txt", "text/plain", "hello"),
	).Want(201)
	g := a.Guest()
	g.See("GET", "/v/f")
	g.See("GET", "/x/f") // belongs to the same view
	is.NoErr(a.Server.Store.Flush())
	is.Equal(a.Get("/api/v1/files/f/visits").Want(200).At("days.0.views"), 1.0)
	is.Equal(a.Get("/api/v1/files/f").At("data.logVisits"), true)
}

func TestVisitsOfDays(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	// no midnight during the test
	a.Clock.Advance(time.Until(time.Now().UTC().Truncate(24*time.Hour).Add(36*time.Hour)) + time.Hour)
	a.Post("/api/v1/notes", `{"content":"n","slug":"n","isPublic":true}`).Want(201)
	start := a.Clock.Now()
	for range 5 {
		a.Visit("/v/n").Want(200)
		is.NoErr(a.Server.Store.Flush())
		a.Clock.Advance(24 * time.Hour)
	}
	day := func(n int) string { return start.AddDate(0, 0, n).UTC().Format(time.DateOnly) }
	for query, want := range map[string][]string{
		"":                                  {day(0), day(1), day(2), day(3), day(4)},
		"?from=" + day(3):                   {day(3), day(4)},
		"?to=" + day(0):                     {day(0)},
		"?from=" + day(1) + "&to=" + day(2): {day(1), day(2)},
		"?from=" + day(2) + "&to=" + day(1): {},
	} {
		got := a.Get("/api/v1/notes/n/visits" + query).Want(200)
		all := []string{}
		for i := range got.At("days").([]any) {
			all = append(all, got.Text(fmt.Sprintf("days.%d.day", i)))
		}
		is.Equal(all, want)
		is.True(strings.HasPrefix(got.Text("lastAt"), day(4)))
	}
	for _, bad := range []string{"?from=yesterday", "?to=2026-02-30", "?from=2026-01-01T00:00:00Z"} {
		is.Equal(a.Do(apitest.Request{Method: "GET", Path: "/api/v1/notes/n/visits" + bad, Raw: true}).Status, 400)
	}
	a.Get("/api/v1/notes/none/visits").Want(404)
	a.Get("/api/v1/snippets/n/visits").Want(404)
	bob := a.AddKey(a.AddUser("bob", people.Member), people.ScopeAll)
	a.Do(apitest.Request{Method: "GET", Path: "/api/v1/notes/n/visits", Key: bob}).Want(404)
}

// Visitors are told that the owner sees them, on the page and in the answer.
func TestPageTellsOfLog(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	const says = "The owner sees when this is opened."
	a.Post("/api/v1/notes", `{"content":"n","slug":"n","isPublic":true}`).Want(201)
	is.True(!strings.Contains(string(a.Visit("/v/n").Want(200).Body), says))
	is.Equal(a.Patch("/api/v1/notes/n", `{"logVisits":true}`).Want(200).At("data.logVisits"), true)
	is.True(strings.Contains(string(a.Visit("/v/n").Want(200).Body), says))
	is.Equal(
		a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/notes/p/n", Anyone: true, JSON: `{}`,
		}).Want(200).At("data.logVisits"),
		true,
	)
	is.Equal(a.Patch("/api/v1/notes/n", `{"title":"t"}`).Want(200).At("data.logVisits"), true) // kept
	is.Equal(a.Patch("/api/v1/notes/n", `{"logVisits":false}`).Want(200).At("data.logVisits"), false)
}

// The activity has what the API did, in order, with names and addresses.
func TestActivity(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.BehindProxy)
	bob := a.AddUser("bob", people.Member)
	home := http.Header{"X-Forwarded-For": {"192.0.2.7"}}
	a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
		u, err := people.ReadUser(tx, bob.ID)
		if err == nil {
			u.Password, err = a.Server.Passwords.Hash(t.Context(), "", "correct horse")
		}
		if err != nil {
			return err
		}
		return people.SaveUser(tx, u)
	}))
	in := a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/auth/login", Anyone: true, JSON: `{"username":"bob","password":"correct horse"}`,
		Header: http.Header{"X-Forwarded-For": {"192.0.2.7"}, "User-Agent": {"Firefox"}},
	}).Want(200)
	cookie := in.Header.Get("Set-Cookie")
	session := http.Header{"Cookie": {cookie[:strings.Index(cookie, ";")]}, "Sec-Fetch-Site": {"same-origin"}}
	key := a.AddKey(bob, people.ScopeAll)
	as := func(method, path, json string) *apitest.Answer {
		q := apitest.Request{Method: method, Path: path, Key: key, Header: home.Clone()}
		if json != "" {
			q.JSON = json
		}
		return a.Do(q)
	}
	as("POST", "/api/v1/notes", `{"content":"Secret plans","slug":"n","isPublic":true,"maxViews":1}`).Want(201)
	as("POST", "/api/v1/notes", `{"content":"private"}`).Want(201)
	as("PATCH", "/api/v1/notes/n", `{"isFavorite":true}`).Want(200)
	a.Visit("/v/n").Want(200)
	as("PATCH", "/api/v1/notes/n", `{"isPublic":true}`).Want(200)
	a.Patch("/api/v1/admin/users/"+bob.ID.String(), `{"role":"admin","quotaBytes":null}`).Want(200)
	is.NoErr(a.Server.Store.Flush())

	list := func(q apitest.Request) (all []string) {
		q.Method, q.Header = "GET", session.Clone()
		if q.Key == "" {
			q.Anyone = true
		} else {
			q.Header = nil
		}
		got := a.Do(q).Want(200)
		for i := range got.At("data").([]any) {
			row := fmt.Sprintf("data.%d.", i)
			all = append(
				all,
				fmt.Sprint(
					got.At(row+"event"), "|", got.At(row+"account"), "|", got.At(row+"by"), "|", got.At(row+"name"), "|",
					got.At(row+"address"), "|", got.At(row+"kind"), "|", got.At(row+"changes"),
				),
			)
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
	got := list(apitest.Request{Path: "/api/v1/activity"})
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

	a.Patch("/api/v1/admin/settings", `{"linkChecks":false,"defaultQuotaBytes":1000000}`).Want(200)
	a.Patch("/api/v1/admin/settings", `{"linkChecks":false}`).Want(200) // changes nothing
	made := a.Post("/api/v1/admin/users", `{"username":"eve","password":"correct horse"}`).Want(201).Text("data.id")
	a.Delete("/api/v1/admin/users/" + made).Want(200)
	whole := list(apitest.Request{Path: "/api/v1/admin/activity", Key: a.Key})
	admin := slices.DeleteFunc(slices.Clone(whole), func(row string) bool { return strings.HasPrefix(row, "key_used") })
	is.Equal(
		admin[:4],
		[]string{
			"account_removed||ann|eve|||[]", "account_created||ann|eve|||[]",
			"settings_changed||ann||||[defaultQuotaBytes linkChecks]", "account_changed|bob|ann|bob|||[role]",
		},
	)
	is.True(!strings.Contains(strings.Join(whole, "\n"), "Secret"))

	// Page by page.
	var paged []string
	for cursor, n := "", 0; n < 100; n++ {
		got := a.Get("/api/v1/admin/activity?limit=2&cursor=" + cursor).Want(200)
		for i := range got.At("data").([]any) {
			paged = append(paged, got.Text(fmt.Sprintf("data.%d.event", i)))
		}
		is.Equal(got.At("total"), float64(len(whole)))
		if got.At("nextCursor") == nil {
			break
		}
		cursor = got.Text("nextCursor")
	}
	is.Equal(len(paged), len(whole))
	is.Equal(a.Do(apitest.Request{Method: "GET", Path: "/api/v1/admin/activity?cursor=AQ", Raw: true}).Status, 400)
}

// A limit counts what is opened from when it is set. All views go on beside it.
func TestViewsOfLimit(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	id := a.Post("/api/v1/notes", `{"content":"c","slug":"shore","isPublic":true}`).Want(201).Text("data.id")
	counted := func(views, ofLimit float64) {
		t.Helper()
		apitest.Eventually(t, "the views are not counted", func() bool {
			return a.Get("/api/v1/notes/"+id).Want(200).At("data.views") == views
		})
		is.Equal(a.Get("/api/v1/notes/"+id).Want(200).At("data.viewsOfLimit"), ofLimit)
	}
	for range 5 {
		a.Visit("/v/shore").Want(200)
	}
	counted(5, 0)

	a.Patch("/api/v1/notes/"+id, `{"maxViews":2}`).Want(200)
	counted(5, 0)
	a.Visit("/v/shore").Want(200)
	counted(6, 1)
	is.True(strings.Contains(string(a.Get("/v/shore").Want(200).Body), "1 of 2"))
	a.Visit("/v/shore").Want(200)
	counted(7, 2)
	a.Visit("/v/shore").Want(410)
}
