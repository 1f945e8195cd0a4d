package web_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi"
	"kist/httpapi/apitest"
)

// coded is a request by a client that says what codings it takes; what is
// compressed is unpacked.
func coded(a *apitest.App, method, path, codings string, header ...string) (*http.Response, []byte) {
	a.Helper()
	req, err := http.NewRequestWithContext(a.Context(), method, a.URL+path, nil)
	a.NoErr(err)
	req.Header.Set("X-Api-Key", a.Key)
	req.Header.Set("Accept-Encoding", codings)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := apitest.Plain.Do(req)
	a.NoErr(err)
	defer res.Body.Close()
	var body io.Reader = res.Body
	if res.Header.Get("Content-Encoding") == "gzip" && method != http.MethodHead && res.StatusCode == http.StatusOK {
		body, err = gzip.NewReader(res.Body)
		a.NoErr(err)
	}
	got, err := io.ReadAll(body)
	a.NoErr(err)
	return res, got
}

// TestJSONIsCompressed: long answers are, for clients that take that.
func TestJSONIsCompressed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	short := a.Post("/api/v1/notes", map[string]any{"content": "s"}).Want(201).Text("data.id")
	long := a.Post("/api/v1/notes", map[string]any{"content": strings.Repeat("long ", 2000)}).Want(201).Text("data.id")
	for _, tt := range []struct {
		id, codings, want string
	}{
		{long, "gzip, deflate, br", "gzip"},
		{long, "GZIP;q=0.5", "gzip"},
		{long, "gzip;q=0", ""},
		{long, "identity", ""},
		{short, "gzip", ""},
	} {
		t.Run(tt.codings, func(t *testing.T) {
			is := is.New(t)
			res, body := coded(a, "GET", "/api/v1/notes/"+tt.id, tt.codings)
			is.Equal(res.Header.Get("Content-Encoding"), tt.want)
			is.True(strings.Contains(res.Header.Get("Vary"), "Accept-Encoding"))
			is.True(bytes.Contains(body, []byte(tt.id)))
			if tt.want != "" {
				is.True(res.ContentLength < 1<<10)
			}
			head, _ := coded(a, "HEAD", "/api/v1/notes/"+tt.id, tt.codings)
			is.Equal(head.Header.Get("Content-Length"), strconv.FormatInt(res.ContentLength, 10))
		})
	}
	res, _ := coded(a, "GET", "/api/v1/nowhere", "gzip") // a short error
	is.Equal(res.StatusCode, 404)
	is.Equal(res.Header.Get("Content-Encoding"), "")
}

// TestDocumentIsServedOnce: who has the document is told so, in either form.
func TestDocumentIsServedOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	tags := map[string]bool{}
	for _, codings := range []string{"gzip", "identity"} {
		res, body := coded(a, "GET", "/api/v1/openapi", codings)
		is.Equal(res.StatusCode, 200)
		is.True(bytes.Contains(body, []byte(`"url": "https://kist.example.org"`)))
		is.True(!bytes.Contains(body, []byte(httpapi.Placeholder)))
		tag := res.Header.Get("Etag")
		is.True(strings.HasPrefix(tag, `"`) && len(tag) > 10) // strong
		tags[tag] = true
		again, body := coded(a, "GET", "/api/v1/openapi", codings, "If-None-Match", tag)
		is.Equal(again.StatusCode, 304)
		is.Equal(len(body), 0)
		is.Equal(again.Header.Get("Etag"), tag)
	}
	is.Equal(len(tags), 2) // one for each form
}
