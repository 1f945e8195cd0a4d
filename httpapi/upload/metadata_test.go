package upload_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/metadata"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
)

// TestMetadataRemoved: visitors get a file without its metadata, at every address and in every part of it; its owner gets
// it as it was uploaded.
func TestMetadataRemoved(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"all.jpg", "all.mp4"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := apitest.Start(t)
			original, clean := apitest.Photo(t, name)
			up := a.Upload(map[string]string{"isPublic": "true", "slug": "pic"}, apitest.File(name, "", original)).Want(201)
			is.Equal(up.At("metadata"), "removed")
			is.Equal(up.At("stripMetadata"), true)
			is.True(strings.Contains(fmt.Sprint(up.At("metadataFound")), "gps"))
			is.Equal(up.At("size"), float64(len(original)))
			owner := a.Get("/x/pic").Want(200)
			is.Equal(string(owner.Body), original)
			is.Equal(owner.Header.Get("Etag"), `"`+up.Text("sha256")+`"`)

			got := a.Send("GET", "/x/pic").Want(200)
			is.Equal(string(got.Body), clean)
			tag := got.Header.Get("Etag")
			is.True(tag != owner.Header.Get("Etag") && strings.HasPrefix(tag, `"`))
			is.Equal(got.Header.Get("Content-Length"), fmt.Sprint(len(clean)))
			head := a.Send("HEAD", "/x/pic").Want(200)
			is.Equal(head.Header.Get("Content-Length"), fmt.Sprint(len(clean)))
			is.Equal(head.Header.Get("Etag"), tag)
			is.Equal(a.Send("GET", "/x/pic", "If-None-Match", tag).Status, 304)

			n := len(clean)
			for from := 0; from < n; from += 97 { // across every seam
				for _, length := range []int{1, 300, n} {
					end := min(from+length, n)
					got := a.Send("GET", "/x/pic", "Range", fmt.Sprintf("bytes=%d-%d", from, from+length-1), "If-Range", tag).Want(206)
					is.Equal(string(got.Body), clean[from:end])
					is.Equal(got.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-%d/%d", from, end-1, n))
				}
			}
			is.Equal(
				a.Send("GET", "/x/pic", "Range", fmt.Sprintf("bytes=%d-", n)).Want(416).Header.Get("Content-Range"),
				fmt.Sprintf("bytes */%d", n),
			)
			is.Equal(string(a.Send("GET", "/x/pic", "Range", "bytes=-5").Want(206).Body), clean[n-5:])
			// the tag of other bytes
			is.Equal(
				a.Send("GET", "/x/pic", "Range", "bytes=0-4", "If-Range", owner.Header.Get("Etag")).Want(200).Body, got.Body,
			)
			several := a.Send("GET", "/x/pic", "Range", "bytes=10-19,-7").Want(206)
			_, params, err := mime.ParseMediaType(several.Header.Get("Content-Type"))
			is.NoErr(err)
			parts := multipart.NewReader(bytes.NewReader(several.Body), params["boundary"])
			for _, want := range []string{clean[10:20], clean[n-7:]} {
				p, err := parts.NextPart()
				is.NoErr(err)
				b, err := io.ReadAll(p)
				is.NoErr(err)
				is.Equal(string(b), want)
			}

			// What else a visitor sees is about the same bytes.
			page := string(a.Visit("/v/pic").Want(200).Body)
			is.True(!strings.Contains(page, up.Text("sha256")))
			if name == "all.jpg" {
				small := a.Send("GET", "/t/pic").Want(200).Body
				is.True(!bytes.Contains(small, []byte("Exif")) && !bytes.Contains(small, []byte("http://ns.adobe.com")))
			}

			// The owner or an administrator decides otherwise.
			is.Equal(a.Patch("/api/v1/files/pic", `{"stripMetadata":false}`).Want(200).At("data.metadata"), "kept")
			is.Equal(string(a.Send("GET", "/x/pic").Want(200).Body), original)
			is.Equal(a.Patch("/api/v1/files/pic", `{"stripMetadata":true}`).Want(200).At("data.metadata"), "removed")
			is.Equal(a.Patch("/api/v1/admin/settings", `{"stripMetadata":false}`).Want(200).At("data.stripMetadata"), false)
			is.Equal(a.Get("/api/v1/files/pic").Want(200).At("data.metadata"), "kept")
			is.Equal(string(a.Send("GET", "/x/pic").Want(200).Body), original)
			a.Patch("/api/v1/admin/settings", `{"stripMetadata":true}`).Want(200)
			is.Equal(string(a.Send("GET", "/x/pic").Want(200).Body), clean)
		})
	}
}

func TestMetadataOfOthers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	jpeg, _ := apitest.Photo(t, "all.jpg")
	for i, c := range []struct{ name, content, want string }{
		{"a.txt", "hello", "none"},
		{"a.tif", "II*\x00\x08\x00\x00\x00\x00\x00", "kept"},
		{"a.jpg", jpeg[:300], "unreadable"},
	} {
		slug := fmt.Sprint("s", i)
		is.Equal(
			a.Upload(
				map[string]string{"isPublic": "true", "slug": slug}, apitest.File(c.name, "", c.content),
			).Want(201).At("metadata"),
			c.want,
		)
		is.Equal(string(a.Send("GET", "/x/"+slug).Want(200).Body), c.content)
	}
	is.Equal(
		a.Upload(map[string]string{"stripMetadata": "false"}, apitest.File("b.jpg", "", jpeg)).Want(201).At("metadata"),
		"kept",
	)
}

// TestMetadataOfLast: who had the last view of a file goes on reading the same bytes after the file is gone, also at the
// origin for content.
func TestMetadataOfLast(t *testing.T) {
	t.Parallel()
	original, clean := apitest.Photo(t, "all.jpg")
	for _, c := range []struct{ strip, want string }{{"true", clean}, {"false", original}} {
		is := is.New(t)
		a := apitest.Start(t, apitest.Apart)
		a.Share(original, "slug", "pic", "maxViews", "1", "maxViewsAction", "delete", "stripMetadata", c.strip)
		far := a.Guest()
		first := far.See("GET", "/x/pic", "Host", apitest.ContentHost, "Range", "bytes=0-99").Want(206)
		is.Equal(string(first.Body), c.want[:100])
		rest := far.See(
			"GET", "/x/pic", "Host", apitest.ContentHost, "Range", "bytes=100-", "If-Range", first.Header.Get("Etag"),
		).Want(206)
		is.Equal(string(rest.Body), c.want[100:])
		a.Get("/api/v1/files/pic").Want(404)
	}
}

// TestMetadataLater: files that older programs stored are clean for visitors at once, and are examined when the server runs.
func TestMetadataLater(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	original, clean := apitest.Photo(t, "all.png")
	a.Share(original, "slug", "pic")
	set := func(m record.Metadata) {
		a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
			r, err := catalog.Slug(tx, "pic")
			if err != nil {
				return err
			}
			return catalog.Examined(tx, r, m, record.Photo{})
		}))
	}
	set(record.Metadata{})
	is.Equal(a.Get("/api/v1/files/pic").Want(200).At("data.metadata"), nil)
	is.Equal(string(a.Send("GET", "/x/pic").Want(200).Body), clean)
	set(record.Metadata{State: record.MetadataNone, Rules: metadata.Rules + 1}) // by other rules
	is.Equal(string(a.Send("GET", "/x/pic").Want(200).Body), clean)

	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); a.Server.Plans.Run(ctx) }()
	apitest.Eventually(t, "it is not examined", func() bool {
		return a.Get("/api/v1/files/pic").Want(200).At("data.metadata") == "removed"
	})
	stop()
	<-done
}

// The type of a file, and so what is looked for in it, follows from the name that it gets.
func TestMetadataByName(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	film, _ := apitest.Photo(t, "all.mp4")
	// A QuickTime film that does not say what it is: the box that says so becomes a free one.
	i := strings.Index(film, "ftyp")
	film = "\x00\x00\x00\x08wide" + film[:i] + "free" + film[i+4:]
	for way, send := range map[string]func() string{
		"tus, filename": func() string {
			return a.Piece(a.Begin(len(film), "filename", "x.mov"), 0, film).Want(http.StatusNoContent).Header.Get("X-Kist-Slug")
		},
		"tus, name": func() string {
			return a.Piece(a.Begin(len(film), "name", "x.mov"), 0, film).Want(http.StatusNoContent).Header.Get("X-Kist-Slug")
		},
		"form, file name": func() string {
			return a.Upload(nil, apitest.File("x.mov", "", film)).Want(http.StatusCreated).Text("slug")
		},
		"form, name": func() string {
			return a.Upload(
				map[string]string{"name": "x.mov"}, apitest.File("blob", "", film),
			).Want(http.StatusCreated).Text("slug")
		},
	} {
		t.Run(way, func(t *testing.T) {
			is := is.New(t)
			got := a.Get("/api/v1/files/" + send()).Want(http.StatusOK)
			is.Equal(got.At("data.mimeType"), "video/quicktime")
			is.Equal(got.At("data.originalName"), "x.mov")
			is.Equal(got.At("data.metadata"), "removed")
		})
	}
}
