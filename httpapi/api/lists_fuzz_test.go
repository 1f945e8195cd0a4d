package api_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/record"
)

// list asks for a list with a query as it stands, and holds the answer
// against the document.
func list(a *apitest.App, path, query string) *apitest.Answer {
	a.Helper()
	r, got := glance(a, path, query)
	a.Conforms(r, nil, got, true)
	a.KeepsRules(r, got)
	return got
}

// glance is list without a check of the answer.
func glance(a *apitest.App, path, query string) (*http.Request, *apitest.Answer) {
	a.Helper()
	r := httptest.NewRequestWithContext(a.Context(), http.MethodGet, path, http.NoBody)
	r.Host = "localhost"
	r.URL.RawQuery = query
	r.Header.Set("X-Api-Key", a.Key)
	w := httptest.NewRecorder()
	a.Server.ServeHTTP(w, r)
	return r, &apitest.Answer{App: a, Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}
}

// FuzzCursor: whatever a cursor says, it is refused, or leads to a stretch of
// the list that walking comes through.
func FuzzCursor(f *testing.F) {
	a := collection(f, record.Files, 12)
	queries := []string{
		"", "sort=oldest", "sort=updated", "sort=title", "sort=views", "sort=size", "tag=four", "public=true&sort=title",
		"favorite=false", "q=be", "folder=in",
	}
	lists := make([][]string, len(queries))
	for i, q := range queries {
		lists[i] = list(a, "/api/v1/files", "limit=500&"+q).Want(200).IDs()
		for _, limit := range []string{"1", "3"} {
			if next, more := list(a, "/api/v1/files", "limit="+limit+"&"+q).At("nextCursor").(string); more {
				f.Add(next, uint8(i), uint8(3))
			}
		}
	}
	f.Add("", uint8(0), uint8(1))
	f.Fuzz(func(t *testing.T, cursor string, which, limit uint8) {
		is := is.New(t)
		a := a.With(t)
		i, most := int(which)%len(queries), int(limit)%20+1
		q := url.Values{"cursor": {cursor}, "limit": {strconv.Itoa(most)}}
		got := list(a, "/api/v1/files", q.Encode()+"&"+queries[i])
		if got.Status == 400 {
			return
		}
		got.Want(200)
		all, ids := lists[i], got.IDs()
		is.Equal(got.At("total"), float64(len(all)))
		is.True(len(ids) <= most)
		if len(ids) == 0 { // past the end
			is.Equal(got.At("nextCursor"), nil)
			return
		}
		from := slices.Index(all, ids[0])
		is.True(from >= 0)
		is.Equal(ids, all[from:min(from+most, len(all))])
		is.Equal(got.At("nextCursor") == nil, from+most >= len(all))
	})
}

// FuzzListQuery: any query is answered as the document says, or refused.
func FuzzListQuery(f *testing.F) {
	a := collection(f, record.Files, 8)
	for _, k := range record.Kinds[1:] {
		a.Post("/api/v1/"+k.Path, apitest.Whole[k]).Want(201)
	}
	for i, q := range []string{
		"", "limit=2&offset=1", "sort=title&favorite=true&public=false", "tag=four&tag=mod+1&tags=a,b", "folder=unfiled&type=image", "q=%C3%A4&sort=views",
		"limit=501", "cursor=AQ", "a;b", "%zz", "q=%ff", "folder=01890a5d-ac96-774b-bcce-b302099a8057", "type=pdf&sort=size&limit=1", "offset=10000000", "tag=%00",
	} {
		f.Add(uint8(i), q)
	}
	f.Fuzz(func(t *testing.T, which uint8, query string) {
		is := is.New(t)
		k := record.Kinds[int(which)%len(record.Kinds)]
		got := list(a.With(t), "/api/v1/"+k.Path, query)
		is.True(got.Status == 200 || got.Status == 400)
		if got.Status == 200 {
			total := got.At("total").(float64)
			is.True(float64(len(got.IDs())) <= total)
		}
	})
}
