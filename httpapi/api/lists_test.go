package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/catalog"
	"kist/kv/people"
	"kist/kv/record"
)

// collection is an app with records of a kind that differ in all that lists
// sort and sift by.
func collection(t testing.TB, k *record.Kind, n int) *apitest.App {
	t.Helper()
	a := apitest.Start(t)
	kinds := []apitest.Part{
		apitest.File("Beach.txt", "", "hello"), apitest.File("b.png", "image/png", "\x89PNG\r\n\x1a\n"),
		apitest.File("c.pdf", "application/pdf", "%PDF-1.4"), apitest.File("d.bin", "", "\x00\x01\x02"),
	}
	for i := range n {
		a.Clock.Advance(time.Second)
		slug := fmt.Sprintf("%s-%02d", k.Name, i)
		said := map[string]any{"slug": slug, "isPublic": i%2 == 0, "isFavorite": i%3 == 0, k.Limit: 1000}
		if i%4 > 0 {
			said["tags"] = []any{"Four", fmt.Sprint("mod ", i%5)}
		}
		// Titles repeat, so that order by title has to go on by age.
		name := fmt.Sprint([]string{"beta", "Alpha", "ähre", "", "zz"}[i%5])
		if k == record.Files {
			fields := map[string]string{
				"slug": slug, "isPublic": fmt.Sprint(i%2 == 0), "isFavorite": fmt.Sprint(i%3 == 0), "description": name,
				k.Limit: "1000",
			}
			if i%4 > 0 {
				fields["newTags"] = fmt.Sprint("Four,mod ", i%5)
				fields["folderName"] = []string{"In", "Out  of"}[i%2]
			}
			f := kinds[i%len(kinds)]
			f.Content += strings.Repeat("x", i%7)
			a.Upload(fields, f).Want(201)
		} else {
			body := apitest.Parse(t, apitest.Whole[k])
			for _, f := range []string{"title", "content", "description"} {
				body[f] = name
			}
			if name == "" {
				delete(body, "title")
				if k == record.Recipes || k == record.Games {
					body["title"] = "Soup"
				}
			}
			for name, v := range said {
				body[name] = v
			}
			a.Do(apitest.Request{Method: "POST", Path: "/api/v1/" + k.Path, JSON: body, Raw: true}).Want(201)
		}
		for range i % 3 * b2i(i%2 == 0) { // views by others
			a.Do(apitest.Request{Method: "POST", Path: "/api/v1/" + k.Path + "/p/" + slug, Anyone: true, JSON: "{}", Raw: true})
			if k == record.Files {
				a.Visit("/x/" + slug)
			}
		}
		if i%6 == 5 {
			a.Clock.Advance(time.Second)
			a.Patch("/api/v1/"+k.Path+"/"+fmt.Sprintf("%s-%02d", k.Name, i/2), `{}`).Want(200)
		}
	}
	return a
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// pages walks a list by its cursors.
func pages(a *apitest.App, path string, query string, limit int) []string {
	a.Helper()
	var all []string
	cursor := ""
	for range 1000 {
		_, page := glance(a, path, "limit="+fmt.Sprint(limit)+query+cursor)
		ids := page.Want(200).IDs()
		all = append(all, ids...)
		if page.At("nextCursor") == nil {
			return all
		}
		if len(ids) != limit {
			a.Fatalf("%s: a page of %d that is not the last", query+cursor, len(ids))
		}
		cursor = "&cursor=" + page.Text("nextCursor")
	}
	a.Fatalf("%s: no end", path)
	return nil
}

// TestWalks walks every kind of list in every order and under filters, by
// cursor and by offset.
func TestWalks(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	const n = 20
	for _, k := range []*record.Kind{record.Files, record.Links} {
		t.Run(k.Name, func(t *testing.T) {
			is := is.New(t)
			a := collection(t, k, n)
			path := "/api/v1/" + k.Path
			type item struct {
				id, title, updated string
				views, size        float64
				public, favorite   bool
				tags, folder, mime string
			}
			var all []item // newest first
			list := a.Get(path + "?limit=500").Want(200)
			for i := range n {
				o := list.Object(fmt.Sprint("data.", i))
				number := func(name string) float64 {
					var f float64
					_, _ = fmt.Sscan(fmt.Sprint(o[name]), &f)
					return f
				}
				it := item{
					id: o["id"].(string), updated: o["updatedAt"].(string), views: number(k.Counter), size: number("size"),
					public: o["isPublic"].(bool), favorite: o["isFavorite"].(bool), tags: fmt.Sprint(o["tags"]), folder: fmt.Sprint(o["folder"]), mime: fmt.Sprint(o["mimeType"]),
				}
				for _, name := range []string{"originalName", "description", "originalUrl"} {
					if title, ok := o[name].(string); ok && it.title == "" {
						it.title = title
					}
				}
				it.title = strings.ReplaceAll(record.Fold(it.title), "ä", "a")
				all = append(all, it)
			}
			is.True(slices.ContainsFunc(all, func(x item) bool { return x.views > 0 }))
			is.True(slices.IsSortedFunc(all, func(x, y item) int { return strings.Compare(y.id, x.id) })) // newest first
			orders := map[catalog.Sort]func(x, y item) int{
				catalog.Newest: func(x, y item) int { return strings.Compare(y.id, x.id) },
				catalog.Oldest: func(x, y item) int { return strings.Compare(x.id, y.id) },
				catalog.Updated: func(x, y item) int {
					return strings.Compare(y.updated+y.id, x.updated+x.id)
				},
				catalog.Title: func(x, y item) int { return strings.Compare(x.title+"\x00"+x.id, y.title+"\x00"+y.id) },
				catalog.Views: func(x, y item) int {
					return strings.Compare(fmt.Sprintf("%09.0f%s", y.views, y.id), fmt.Sprintf("%09.0f%s", x.views, x.id))
				},
				catalog.Taken: func(x, y item) int { return strings.Compare(y.id, x.id) }, // of none it is known
				catalog.Size: func(x, y item) int {
					return strings.Compare(fmt.Sprintf("%09.0f%s", y.size, y.id), fmt.Sprintf("%09.0f%s", x.size, x.id))
				},
			}
			filters := map[string]func(item) bool{
				"":                        func(item) bool { return true },
				"&favorite=true":          func(x item) bool { return x.favorite },
				"&favorite=false":         func(x item) bool { return !x.favorite },
				"&public=true":            func(x item) bool { return x.public },
				"&public=false":           func(x item) bool { return !x.public },
				"&tag=four":               func(x item) bool { return strings.Contains(x.tags, "Four") },
				"&tag=FOUR&tag=+mod++2":   func(x item) bool { return strings.Contains(x.tags, "mod 2") },
				"&tags=four,mod%203":      func(x item) bool { return strings.Contains(x.tags, "mod 3") },
				"&tag=mod%201&tags=mod+2": func(item) bool { return false },
				"&tag=none":               func(item) bool { return false },
				"&tag=" + chars(65):       func(item) bool { return false },
				"&favorite=true&public=true&tag=four": func(x item) bool {
					return x.favorite && x.public && strings.Contains(x.tags, "Four")
				},
				"&favorite=false&public=false":  func(x item) bool { return !x.favorite && !x.public },
				"&q=ALPHA&public=true":          nil, // held against itself
				"&q=" + url.QueryEscape("ÄHRE"): nil,
				"&q=nothing+has+this":           func(item) bool { return false },
			}
			if k == record.Files {
				filters["&folder=in"] = func(x item) bool { return strings.Contains(x.folder, "name:In") }
				filters["&folder=out+of"] = func(x item) bool { return strings.Contains(x.folder, "name:Out of") }
				filters["&folder=OUT++of+"] = filters["&folder=out+of"]
				filters["&folder=unfiled"] = func(x item) bool { return x.folder == "<nil>" }
				filters["&folder=none"] = func(item) bool { return false }
				filters["&folder=00000000-0000-0000-0000-000000000000"] = func(item) bool { return false }
				filters["&folder="+a.Get("/api/v1/folders").Text("data.0.id")] = filters["&folder="+strings.ToLower(a.Get("/api/v1/folders").Text("data.0.name"))]
				filters["&type=image"] = func(x item) bool { return x.mime == "image/png" }
				filters["&type=text&public=true"] = func(x item) bool { return x.mime == "text/plain" && x.public }
				filters["&type=pdf"] = func(x item) bool { return x.mime == "application/pdf" }
				filters["&type=other"] = func(x item) bool { return x.mime == "application/octet-stream" }
				filters["&type=video"] = func(item) bool { return false }
				filters["&type=image&folder=unfiled"] = func(x item) bool { return x.mime == "image/png" && x.folder == "<nil>" }
			}
			distinct := 0
			for filter, has := range filters {
				sorts := catalog.Sorts(k)
				if filter != "" {
					sorts = sorts[len(filter)%3:][:2] // some of them
				}
				for _, sort := range sorts {
					q := filter + "&sort=" + string(sort)
					got := a.Get(path + "?limit=500" + q).Want(200)
					ids := got.IDs()
					if has != nil {
						want := []string{}
						sorted := slices.Clone(all)
						slices.SortFunc(sorted, orders[sort])
						for _, it := range sorted {
							if has(it) {
								want = append(want, it.id)
							}
						}
						if !slices.Equal(ids, want) {
							t.Errorf("%s: %v, want %v", q, ids, want)
						}
					}
					is.Equal(got.At("total"), float64(len(ids)))
					is.Equal(got.At("nextCursor"), nil)
					for _, limit := range []int{6, n}[:1+b2i(filter == "")] {
						if walked := pages(a, path, q, limit); !slices.Equal(walked, ids) && len(ids) > 0 {
							t.Errorf("%s: by %d: %v, want %v", q, limit, walked, ids)
						}
					}
					for offset := 0; offset <= len(ids)+1; offset += 7 {
						_, page := glance(a, path, fmt.Sprintf("limit=7&offset=%d%s", offset, q))
						from, to := min(offset, len(ids)), min(offset+7, len(ids))
						is.Equal(page.Want(200).IDs(), ids[from:to])
						is.Equal(page.At("total"), float64(len(ids)))
						is.Equal(page.At("nextCursor") == nil, offset+7 >= len(ids))
					}
					distinct++
				}
			}
			is.True(distinct > 30)
		})
	}
	is.Equal(len(catalog.Sorts(record.Files)), 7) // and each was walked
}

func TestListQueries(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := collection(t, record.Files, 6)
	for range 3 {
		a.Post("/api/v1/notes", `{"content":"x","tags":["four"]}`).Want(201)
	}
	for _, q := range []string{
		"limit=0", "limit=-1", "limit=501", "limit=x", "limit=1.5", "limit=1e1", "limit=99999999999999999999", "limit=%2010", "limit=0x10", "limit=1_0",
		"offset=-1", "offset=x", "offset=10000001", "cursor=x", "cursor=%00", "cursor=" + strings.Repeat("A", 300), "cursor=AQ", "cursor=AQ==",
		"favorite=y", "favorite=2", "public=never", "public=null", "sort=name", "sort=Newest", "sort=newest,title", "sort=size%20",
		"%", "%zz", "a=%f", "limit=10;offset=1", "q=%ff", "tag=%c3%28", "%ff=1", "folder=%ff", strings.Repeat("a=1&", 100) + "a=1", "q=" + strings.Repeat("x", 8200),
		"limit=0&offset=-1&favorite=x&sort=x", "cursor=AQ&offset=1", "cursor=AQ&offset=0",
	} {
		for _, path := range []string{"notes", "files", "upload"} {
			if strings.HasPrefix(q, "sort=size") && path != "notes" {
				continue
			}
			got := a.Do(apitest.Request{Method: "GET", Path: "/api/v1/" + path + "?" + q, Raw: true}).Want(400)
			is.True(slices.Contains([]string{"bad_query", "bad_cursor"}, got.Text("code")))
		}
	}
	for _, q := range []string{"sort=size", "cursor=" + a.Get("/api/v1/files?limit=2").Text("nextCursor")} {
		a.Do(apitest.Request{Method: "GET", Path: "/api/v1/notes?" + q, Raw: true}).Want(400) // of another list
	}
	for _, q := range []string{"type=picture", "type=Image", "type=image,video"} {
		a.Do(apitest.Request{Method: "GET", Path: "/api/v1/files?" + q, Raw: true}).Want(400)
	}
	text := a.Do(apitest.Request{
		Method: "GET", Path: "/api/v1/files?limit=0&offset=-1&favorite=x&public=x&sort=x&type=x", Raw: true,
	}).Want(400).Text("error")
	for _, name := range []string{"limit", "offset", "favorite", "public", "sort", "type"} {
		is.True(strings.Contains(strings.ToLower(text), name)) // all that is wrong is said at once
	}
	for _, q := range []string{
		"limit=1", "limit=500", "offset=10000000", "limit=", "q=%00", "q=%F0%9F%98%80", "tag=,&tags=a,,b",
		"limit=&offset=&cursor=&q=&tag=&tags=,,&favorite=&public=&sort=",
	} {
		a.Do(apitest.Request{Method: "GET", Path: "/api/v1/notes?" + q, Raw: true}).Want(200)
	}
	is.Equal(len(a.Get("/api/v1/notes?limit=1").IDs()), 1)
	for range 49 {
		a.Post("/api/v1/notes", `{"content":"x"}`).Want(201)
	}
	is.Equal(len(a.Get("/api/v1/notes").IDs()), 50) // by default
	is.Equal(a.Get("/api/v1/notes").At("total"), 52.0)
}

// TestCursorsAreOfOneQuery takes the cursor of each query to every other.
func TestCursorsAreOfOneQuery(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := collection(t, record.Files, 14)
	bob := a.As(a.AddKey(a.AddUser("bob", people.Member), people.ScopeAll))
	queries := []string{
		"", "sort=oldest", "sort=title", "sort=updated", "sort=views", "sort=size", "favorite=true", "favorite=false", "public=true", "public=false", "tag=four", "q=be",
		"q=alpha", "folder=in", "folder=unfiled", "type=image", "favorite=true&public=true", "sort=oldest&public=true", "sort=title&public=true",
	}
	for _, from := range queries {
		first := a.Get("/api/v1/files?limit=1&" + from).Want(200)
		cursor, ok := first.At("nextCursor").(string)
		is.True(ok)
		for _, to := range queries {
			status := 400
			if from == to {
				status = 200
			}
			a.Get("/api/v1/files?limit=3&cursor=" + cursor + "&" + to).Want(status)
		}
		a.Get("/api/v1/files?limit=3&offset=1&cursor=" + cursor + "&" + from).Want(400)
		a.Get("/api/v1/upload?limit=3&cursor=" + cursor + "&" + from).Want(200) // another name of the same list
		is.Equal(bob.Get("/api/v1/files?cursor="+cursor).At("total"), map[bool]any{true: 0.0, false: nil}[from == ""])
	}
	// A record that goes away does not end the walk.
	first := a.Get("/api/v1/files?limit=2").Want(200)
	a.Delete("/api/v1/files/" + first.IDs()[1]).Want(200)
	is.Equal(
		a.Get("/api/v1/files?limit=1&cursor="+first.Text("nextCursor")).IDs(), a.Get("/api/v1/files?limit=2").IDs()[1:],
	)
}

// TestListsOfAccounts: folders, keys and users are listed as records are.
func TestListsOfAccounts(t *testing.T) {
	t.Parallel()
	for path, make := range map[string]func(a *apitest.App, name string) string{
		"folders": func(a *apitest.App, name string) string {
			return a.Made("/api/v1/folders", map[string]any{"name": name})
		},
		"keys": func(a *apitest.App, name string) string { return a.Made("/api/v1/keys", map[string]any{"name": name}) },
		"admin/users": func(a *apitest.App, name string) string {
			return a.Made("/api/v1/admin/users", map[string]any{"username": name, "password": "long enough"})
		},
	} {
		t.Run(path, func(t *testing.T) {
			is := is.New(t)
			a := apitest.Start(t)
			path := "/api/v1/" + path
			mine := a.Get(path).Want(200).IDs() // what the app itself has
			var ids []string
			for _, name := range []string{"delta", "Alpha", "charlie", "BRAVO", "echo"} {
				a.Clock.Advance(time.Second)
				ids = append(ids, make(a, name))
			}
			oldest := append(slices.Clone(mine), ids...)
			newest := slices.Clone(oldest)
			slices.Reverse(newest)
			is.Equal(a.Get(path).Want(200).IDs(), newest) // by default
			is.Equal(a.Get(path).At("total"), float64(len(newest)))
			byName := a.Get(path + "?sort=title").Want(200).IDs()
			is.Equal(slices.DeleteFunc(slices.Clone(byName), func(id string) bool {
				return slices.Contains(mine, id)
			}), []string{ids[1], ids[3], ids[2], ids[0], ids[4]})
			for sort, want := range map[string][]string{"newest": newest, "oldest": oldest, "title": byName} {
				for _, limit := range []int{1, 2, 5, 500} {
					is.Equal(pages(a, path, "&sort="+sort, limit), want)
				}
				for offset := range len(want) + 2 {
					page := a.Get(path + fmt.Sprintf("?limit=2&offset=%d&sort=%s", offset, sort)).Want(200)
					is.Equal(page.IDs(), append([]string{}, want[min(offset, len(want)):min(offset+2, len(want))]...))
					is.Equal(page.At("total"), float64(len(want)))
					is.Equal(page.At("nextCursor") == nil, offset+2 >= len(want))
				}
			}
			other := "/api/v1/keys"
			if path == other {
				other = "/api/v1/folders"
			}
			for i := range 2 {
				a.Made(other, map[string]any{"name": fmt.Sprint(i)})
			}
			for _, q := range []string{
				"limit=0", "limit=501", "limit=x", "offset=-1", "offset=10000001", "sort=name", "sort=views", "cursor=x", "cursor=AQ", "cursor=" + strings.Repeat("A", 300),
				"cursor=AQ&offset=0", "%zz", "sort=oldest&cursor=" + a.Get(path+"?limit=1").Text("nextCursor"),
				"cursor=" + a.Get(other+"?limit=1").Text("nextCursor"),
			} {
				got := a.Do(apitest.Request{Method: "GET", Path: path + "?" + q, Raw: true}).Want(400)
				is.True(slices.Contains([]string{"bad_query", "bad_cursor"}, got.Text("code")))
			}
			text := a.Do(apitest.Request{
				Method: "GET", Path: path + "?limit=0&offset=-1&sort=x", Raw: true,
			}).Want(400).Text("error")
			for _, name := range []string{"the parameter limit", "offset", "sort"} {
				is.True(strings.Contains(strings.ToLower(text), name)) // all that is wrong is said at once
			}
			// What goes away, or comes, between two pages does not disturb the walk.
			first := a.Get(path + "?limit=2").Want(200)
			a.Delete(path + "/" + ids[3]).Want(200)
			make(a, "foxtrot")
			is.Equal(a.Get(path+"?limit=2&cursor="+first.Text("nextCursor")).IDs(), newest[2:4])
		})
	}
}

// TestNewRecordsDoNotDisturbAWalk: while one walks, others write.
func TestNewRecordsDoNotDisturbAWalk(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := collection(t, record.Notes, 9)
	before := a.Get("/api/v1/notes?limit=500").IDs()
	var walked []string
	cursor := ""
	for {
		page := a.Get("/api/v1/notes?limit=2" + cursor).Want(200)
		walked = append(walked, page.IDs()...)
		next, more := page.At("nextCursor").(string)
		if !more {
			break
		}
		cursor = "&cursor=" + next
		a.Post("/api/v1/notes", `{"content":"x"}`).Want(201)
	}
	is.Equal(walked, before)
	is.Equal(a.Do(apitest.Request{Method: http.MethodHead, Path: "/api/v1/notes"}).Status, 200)
}
