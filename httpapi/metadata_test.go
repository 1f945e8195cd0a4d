package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"os"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/metadata"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
)

// photo is a picture that says where it was taken, and what visitors get of it.
func photo(t testing.TB, name string) (original, clean string) {
	t.Helper()
	b, err := os.ReadFile("metadata/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := metadata.Clean(bytes.NewReader(b), int64(len(b)), "")
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Over(bytes.NewReader(b)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b), string(out)
}

// TestMetadataRemoved: visitors get a file without its metadata, at every address and in every part of it; its owner gets
// it as it was uploaded.
func TestMetadataRemoved(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"all.jpg", "all.mp4"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := start(t)
			original, clean := photo(t, name)
			up := a.upload(map[string]string{"isPublic": "true", "slug": "pic"}, file{name, "", original}).want(201)
			is.Equal(up.at("metadata"), "removed")
			is.Equal(up.at("stripMetadata"), true)
			is.True(strings.Contains(fmt.Sprint(up.at("metadataFound")), "gps"))
			is.Equal(up.at("size"), float64(len(original)))
			owner := a.get("/x/pic").want(200)
			is.Equal(string(owner.body), original)
			is.Equal(owner.header.Get("Etag"), `"`+up.text("sha256")+`"`)

			got := a.send("GET", "/x/pic").want(200)
			is.Equal(string(got.body), clean)
			tag := got.header.Get("Etag")
			is.True(tag != owner.header.Get("Etag") && strings.HasPrefix(tag, `"`))
			is.Equal(got.header.Get("Content-Length"), fmt.Sprint(len(clean)))
			head := a.send("HEAD", "/x/pic").want(200)
			is.Equal(head.header.Get("Content-Length"), fmt.Sprint(len(clean)))
			is.Equal(head.header.Get("Etag"), tag)
			is.Equal(a.send("GET", "/x/pic", "If-None-Match", tag).status, 304)

			n := len(clean)
			for from := 0; from < n; from += 97 { // across every seam
				for _, length := range []int{1, 300, n} {
					end := min(from+length, n)
					got := a.send("GET", "/x/pic", "Range", fmt.Sprintf("bytes=%d-%d", from, from+length-1), "If-Range", tag).want(206)
					is.Equal(string(got.body), clean[from:end])
					is.Equal(got.header.Get("Content-Range"), fmt.Sprintf("bytes %d-%d/%d", from, end-1, n))
				}
			}
			is.Equal(a.send("GET", "/x/pic", "Range", fmt.Sprintf("bytes=%d-", n)).want(416).header.Get("Content-Range"), fmt.Sprintf("bytes */%d", n))
			is.Equal(string(a.send("GET", "/x/pic", "Range", "bytes=-5").want(206).body), clean[n-5:])
			is.Equal(a.send("GET", "/x/pic", "Range", "bytes=0-4", "If-Range", owner.header.Get("Etag")).want(200).body, got.body) // the tag of other bytes
			several := a.send("GET", "/x/pic", "Range", "bytes=10-19,-7").want(206)
			_, params, err := mime.ParseMediaType(several.header.Get("Content-Type"))
			is.NoErr(err)
			parts := multipart.NewReader(bytes.NewReader(several.body), params["boundary"])
			for _, want := range []string{clean[10:20], clean[n-7:]} {
				p, err := parts.NextPart()
				is.NoErr(err)
				b, err := io.ReadAll(p)
				is.NoErr(err)
				is.Equal(string(b), want)
			}

			// What else a visitor sees is about the same bytes.
			page := string(a.visit("/v/pic").want(200).body)
			is.True(!strings.Contains(page, up.text("sha256")))
			if name == "all.jpg" {
				small := a.send("GET", "/t/pic").want(200).body
				is.True(!bytes.Contains(small, []byte("Exif")) && !bytes.Contains(small, []byte("http://ns.adobe.com")))
			}

			// The owner or an administrator decides otherwise.
			is.Equal(a.patch("/api/v1/files/pic", `{"stripMetadata":false}`).want(200).at("data.metadata"), "kept")
			is.Equal(string(a.send("GET", "/x/pic").want(200).body), original)
			is.Equal(a.patch("/api/v1/files/pic", `{"stripMetadata":true}`).want(200).at("data.metadata"), "removed")
			is.Equal(a.patch("/api/v1/admin/settings", `{"stripMetadata":false}`).want(200).at("data.stripMetadata"), false)
			is.Equal(a.get("/api/v1/files/pic").want(200).at("data.metadata"), "kept")
			is.Equal(string(a.send("GET", "/x/pic").want(200).body), original)
			a.patch("/api/v1/admin/settings", `{"stripMetadata":true}`).want(200)
			is.Equal(string(a.send("GET", "/x/pic").want(200).body), clean)
		})
	}
}

func TestMetadataOfOthers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	jpeg, _ := photo(t, "all.jpg")
	for i, c := range []struct{ name, content, want string }{
		{"a.txt", "hello", "none"},
		{"a.tif", "II*\x00\x08\x00\x00\x00\x00\x00", "kept"},
		{"a.jpg", jpeg[:300], "unreadable"},
	} {
		slug := fmt.Sprint("s", i)
		is.Equal(a.upload(map[string]string{"isPublic": "true", "slug": slug}, file{c.name, "", c.content}).want(201).at("metadata"), c.want)
		is.Equal(string(a.send("GET", "/x/"+slug).want(200).body), c.content)
	}
	is.Equal(a.upload(map[string]string{"stripMetadata": "false"}, file{"b.jpg", "", jpeg}).want(201).at("metadata"), "kept")
}

// TestMetadataOfLast: who had the last view of a file goes on reading the same bytes after the file is gone, also at the
// origin for content.
func TestMetadataOfLast(t *testing.T) {
	t.Parallel()
	original, clean := photo(t, "all.jpg")
	for _, c := range []struct{ strip, want string }{{"true", clean}, {"false", original}} {
		is := is.New(t)
		a := start(t, apart)
		a.share(original, "slug", "pic", "maxViews", "1", "maxViewsAction", "delete", "stripMetadata", c.strip)
		far := a.guest()
		first := far.see("GET", "/x/pic", "Host", contentHost, "Range", "bytes=0-99").want(206)
		is.Equal(string(first.body), c.want[:100])
		rest := far.see("GET", "/x/pic", "Host", contentHost, "Range", "bytes=100-", "If-Range", first.header.Get("Etag")).want(206)
		is.Equal(string(rest.body), c.want[100:])
		a.get("/api/v1/files/pic").want(404)
	}
}

// TestMetadataLater: files that older programs stored are clean for visitors at once, and are examined when the server runs.
func TestMetadataLater(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	original, clean := photo(t, "all.png")
	a.share(original, "slug", "pic")
	set := func(m record.Metadata) {
		a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
			r, err := catalog.Slug(tx, "pic")
			if err != nil {
				return err
			}
			return catalog.Examined(tx, r, m)
		}))
	}
	set(record.Metadata{})
	is.Equal(a.get("/api/v1/files/pic").want(200).at("data.metadata"), nil)
	is.Equal(string(a.send("GET", "/x/pic").want(200).body), clean)
	set(record.Metadata{State: record.MetadataNone, Rules: metadata.Rules + 1}) // by other rules
	is.Equal(string(a.send("GET", "/x/pic").want(200).body), clean)

	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); a.server.Plans.Run(ctx) }()
	eventually(t, "it is not examined", func() bool {
		return a.get("/api/v1/files/pic").want(200).at("data.metadata") == "removed"
	})
	stop()
	<-done
}
