package httpapi

import (
	"archive/zip"
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// TestPromisesLeaveQuota: what others have only announced through an upload request does not
// keep the user from storing something, in whatever way. What is stored does.
func TestPromisesLeaveQuota(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("x", 40_000)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(content))
	}))
	t.Cleanup(target.Close)
	var zipped bytes.Buffer
	z := zip.NewWriter(&zipped)
	w, err := z.CreateHeader(&zip.FileHeader{Name: "a.txt", Method: zip.Store})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}

	for way, store := range map[string]func(a *app) (stored bool){
		"form": func(a *app) bool { return a.upload(nil, file{"a.txt", "", content}).status == 201 },
		"tus": func(a *app) bool {
			begun := a.tus("POST", "/api/v1/tus", "", "Upload-Length", "40000", "Upload-Metadata", meta("filename", "a.txt"))
			if begun.status != 201 {
				return false
			}
			return a.piece(begun.header.Get("Location"), 0, content).status == 204
		},
		"tus of unknown length": func(a *app) bool {
			begun := a.tus("POST", "/api/v1/tus", "", "Upload-Defer-Length", "1", "Upload-Metadata", meta("filename", "a.txt")).want(201)
			return a.piece(begun.header.Get("Location"), 0, content).status == 204
		},
		"remote upload": func(a *app) bool {
			at := a.remote(map[string]any{"url": target.URL + "/a.txt"})
			state := ""
			eventually(t, "the remote upload does not end", func() bool {
				state = a.get(at).text("data.state")
				return state == "done" || state == "failed"
			})
			return state == "done"
		},
		"share sheet":         func(a *app) bool { return a.do(a.shareSheet(nil, file{"a.txt", "", content})).status == 303 },
		"text in share sheet": func(a *app) bool { return a.do(a.shareSheet(map[string]string{"text": content})).status == 303 },
		"import": func(a *app) bool {
			return a.movedIn(a.moveIn(map[string]string{"format": "folder"}, "a.zip", zipped.String())).at("data.made.file") == 1.0
		},
		"note": func(a *app) bool {
			return a.post("/api/v1/notes", map[string]any{"title": "a", "content": content}).status == 201
		},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := start(t)
			a.fetching(t)
			_, slug := a.ask(nil)
			a.patch("/api/v1/admin/settings", map[string]any{"defaultQuotaBytes": 100_000}).want(200)
			begun := a.beginSending(slug, 95_000, "filename", "a.txt")
			a.sendPiece(begun, 0, "x").want(204)
			is.True(a.get("/api/v1/me").at("data.unfinishedBytes") == 95_000.0)

			is.True(store(a))
			a.upload(nil, file{"b.txt", "", strings.Repeat("y", 40_000)}).want(201)
			is.True(!store(a))
		})
	}
}
