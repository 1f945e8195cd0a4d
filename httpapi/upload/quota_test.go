package upload_test

import (
	"archive/zip"
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
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

	for way, store := range map[string]func(a *apitest.App) (stored bool){
		"form": func(a *apitest.App) bool { return a.Upload(nil, apitest.File("a.txt", "", content)).Status == 201 },
		"tus": func(a *apitest.App) bool {
			begun := a.SendTus(
				"POST", "/api/v1/tus", "", "Upload-Length", "40000", "Upload-Metadata", apitest.Meta("filename", "a.txt"),
			)
			if begun.Status != 201 {
				return false
			}
			return a.Piece(begun.Header.Get("Location"), 0, content).Status == 204
		},
		"tus of unknown length": func(a *apitest.App) bool {
			begun := a.SendTus(
				"POST", "/api/v1/tus", "", "Upload-Defer-Length", "1", "Upload-Metadata", apitest.Meta("filename", "a.txt"),
			).Want(201)
			return a.Piece(begun.Header.Get("Location"), 0, content).Status == 204
		},
		"remote upload": func(a *apitest.App) bool {
			at := a.Remote(map[string]any{"url": target.URL + "/a.txt"})
			state := ""
			apitest.Eventually(t, "the remote upload does not end", func() bool {
				state = a.Get(at).Text("data.state")
				return state == "done" || state == "failed"
			})
			return state == "done"
		},
		"share sheet": func(a *apitest.App) bool {
			return a.Do(a.ShareSheet(nil, apitest.File("a.txt", "", content))).Status == 303
		},
		"text in share sheet": func(a *apitest.App) bool {
			return a.Do(a.ShareSheet(map[string]string{"text": content})).Status == 303
		},
		"import": func(a *apitest.App) bool {
			return a.MovedIn(a.MoveIn(
				map[string]string{"format": "folder"}, "a.zip", zipped.String(),
			)).At("data.made.file") == 1.0
		},
		"note": func(a *apitest.App) bool {
			return a.Post("/api/v1/notes", map[string]any{"title": "a", "content": content}).Status == 201
		},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := apitest.Start(t)
			a.Fetching(t)
			_, slug := a.Ask(nil)
			a.Patch("/api/v1/admin/settings", map[string]any{"defaultQuotaBytes": 100_000}).Want(200)
			begun := a.BeginSending(slug, 95_000, "filename", "a.txt")
			a.SendPiece(begun, 0, "x").Want(204)
			is.True(a.Get("/api/v1/me").At("data.unfinishedBytes") == 95_000.0)

			is.True(store(a))
			a.Upload(nil, apitest.File("b.txt", "", strings.Repeat("y", 40_000))).Want(201)
			is.True(!store(a))
		})
	}
}
