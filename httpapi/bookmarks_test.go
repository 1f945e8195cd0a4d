package httpapi

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/matryer/is"

	"kist/kv/record"
)

// A bookmark of a page that is there already is made all the same, and the
// answer names the others.
func TestDuplicateBookmarks(t *testing.T) {
	is := is.New(t)
	a := start(t)
	type answered struct {
		Data        struct{ ID, Slug string }
		DuplicateOf []struct{ ID, Slug string }
	}
	keep := func(address string) (made answered) {
		is.NoErr(json.Unmarshal(a.do(request{method: "POST", path: "/api/v1/bookmarks", json: map[string]any{"url": address, "title": "T"}}).want(201).body, &made))
		return made
	}
	first := keep("https://example.org/a")
	is.Equal(len(first.DuplicateOf), 0)
	second := keep("https://EXAMPLE.org/a/?utm_source=mail#top")
	is.Equal(len(second.DuplicateOf), 1)
	is.Equal(second.DuplicateOf[0].ID, first.Data.ID)
	is.Equal(second.DuplicateOf[0].Slug, first.Data.Slug)
	is.Equal(len(keep("https://example.org/a").DuplicateOf), 2)
	is.Equal(len(keep("https://example.org/a#/route").DuplicateOf), 0)

	found := func(query string) int {
		var list struct {
			Data  []struct{ ID string }
			Total int
		}
		is.NoErr(json.Unmarshal(a.do(request{method: "GET", path: "/api/v1/bookmarks?" + query}).want(200).body, &list))
		is.Equal(len(list.Data), list.Total)
		return list.Total
	}
	is.Equal(found("url="+url.QueryEscape("https://example.org:443/a?fbclid=1")), 3)
	is.Equal(found("url="+url.QueryEscape("https://example.org/")), 0)
	is.Equal(found("unreachable=true"), 0)
	is.Equal(found("unreachable=false"), 4)
	a.do(request{method: "GET", path: "/api/v1/bookmarks?url=javascript:1", raw: true}).want(400)
	a.do(request{method: "GET", path: "/api/v1/bookmarks?unreachable=1", raw: true}).want(400)

	// Another's are nobody's business.
	bob := a.addUser("bob", record.Member)
	made := a.do(request{method: "POST", path: "/api/v1/bookmarks", key: a.addKey(bob, record.ScopeAll), json: map[string]any{"url": "https://example.org/a"}}).want(201)
	is.Equal(made.at("duplicateOf"), []any{})

	// What it leads to now is what counts.
	a.do(request{method: "PATCH", path: "/api/v1/bookmarks/" + first.Data.Slug, json: map[string]any{"url": "https://example.org/b"}}).want(200)
	is.Equal(len(keep("https://example.org/b").DuplicateOf), 1)
}
