package apitest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"kist/kv/field"
	"kist/kv/record"
)

// With is the same app, failing another test.
func (a *App) With(t testing.TB) *App {
	b := *a
	b.TB = t
	return &b
}

// As sends with another key.
func (a *App) As(key string) *App {
	b := *a
	b.Key = key
	return &b
}

// Sound reports whether no request failed by the server's fault. It prints those that did.
func (a *App) Sound() bool {
	a.Helper()
	sound := true
	for line := range strings.Lines(a.Logged.String()) {
		if strings.Contains(line, `"status":50`) {
			a.Log(line)
			sound = false
		}
	}
	return sound
}

// State is everything that the app's user keeps, as the lists show it.
func (a *App) State() string {
	a.Helper()
	var all strings.Builder
	paths := []string{"tags", "folders"}
	for _, k := range record.Kinds {
		paths = append(paths, k.Path+"?limit=500")
	}
	for _, path := range paths {
		r := httptest.NewRequestWithContext(a.Context(), http.MethodGet, "/api/v1/"+path, http.NoBody)
		r.Host = "localhost"
		r.Header.Set("X-Api-Key", a.Key)
		w := httptest.NewRecorder()
		a.Server.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			a.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		all.Write(w.Body.Bytes())
	}
	return all.String()
}

// Refused sends a request that must be answered with the status and must
// change nothing.
func (a *App) Refused(q Request, status int) *Answer {
	a.Helper()
	before := a.State()
	got := a.Do(q).Want(status)
	if a.State() != before {
		a.Errorf("%s %s: the refused request changed something", q.Method, q.Path)
	}
	return got
}

// Tags are the names of the tags of the app's user, in order.
func (a *App) Tags() []string {
	a.Helper()
	var all []struct{ Name string }
	a.NoErr(json.Unmarshal(a.Get("/api/v1/tags").Want(200).Body, &all))
	names := []string{}
	for _, t := range all {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return names
}

// Made makes a tag or another thing that is answered as {"data": {"id": …}}.
func (a *App) Made(path string, body any) string {
	a.Helper()
	return a.Post(path, body).Want(201).Text("data.id")
}

// Whole is the least of each kind that can be made.
var Whole = map[*record.Kind]string{
	record.Bookmarks: `{"url":"https://go.dev"}`,
	record.Notes:     `{"content":"x"}`,
	record.Snippets:  `{"content":"x"}`,
	record.Recipes:   `{"title":"Soup"}`,
	record.Games:     `{"title":"Go"}`,
	record.Links:     `{"originalUrl":"https://example.org/a"}`,
}

// Of a kind without a row it is the examples of the fields that a create needs.
func init() {
	for _, k := range record.Kinds[1:] {
		if Whole[k] != "" {
			continue
		}
		needed := make(map[string]json.RawMessage)
		for _, f := range field.Of(k.New()).Fields() {
			if f.Traits&field.Required != 0 {
				needed[f.Name] = json.RawMessage(f.Example)
			}
		}
		text, err := json.Marshal(needed)
		if err != nil {
			panic(err)
		}
		Whole[k] = string(text)
	}
}

// Parse is JSON of a test.
func Parse(t testing.TB, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func MustID(t *testing.T, text string) [16]byte {
	t.Helper()
	var id record.ID
	if err := id.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return id
}
