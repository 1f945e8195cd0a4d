package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
)

// TestPhotos: the owner of a photo reads when, where and with what it was taken, sets the time, and has lists in this
// order. Nobody else learns any of it.
func TestPhotos(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHousehold(t)
	jpeg, _ := apitest.Photo(t, "all.jpg")
	film, _ := apitest.Photo(t, "all.mp4")
	public := map[string]string{"isPublic": "true", "slug": "pic"}
	photo := h.Upload(public, apitest.File("a.jpg", "", jpeg)).Want(201).Text("id")
	text := h.Upload(nil, apitest.File("a.txt", "", "hello")).Want(201).Text("id")
	movie := h.Upload(nil, apitest.File("a.mp4", "", film)).Want(201).Text("id")

	at := "/api/v1/files/" + photo
	here := time.Date(2024, 1, 2, 3, 4, 5, 0, time.Local) //nolint:gosmopolitan // the zone of the server
	got := h.Get(at).Want(200)
	is.Equal(got.At("data.takenAt"), here.UTC().Format("2006-01-02T15:04:05.000Z"))
	for name, want := range map[string]any{"camera": "Acme Cam1", "lens": "", "location.lat": 52.5, "location.lon": 13.4} {
		is.Equal(got.At("data.exif."+name), want)
	}
	is.Equal(h.Get("/api/v1/files/"+movie).Want(200).At("data.takenAt"), "2024-01-02T03:04:05.000Z")
	got = h.Get("/api/v1/files/" + text).Want(200)
	is.Equal(got.At("data.takenAt"), nil)
	is.Equal(got.At("data.exif"), nil)

	order := func(want ...string) {
		t.Helper()
		is.Equal(h.Get("/api/v1/files?sort=taken").Want(200).IDs(), want)
	}
	set := func(body string, want any) {
		t.Helper()
		is.Equal(h.Patch(at, body).Want(200).At("data.takenAt"), want)
		is.Equal(h.Get(at).Want(200).At("data.takenAt"), want)
	}
	set(`{"takenAt":"1969-07-20T22:17:40+02:00"}`, "1969-07-20T20:17:40.000Z")
	order(text, movie, photo)
	set(`{"description":"the Moon"}`, "1969-07-20T20:17:40.000Z")
	set(`{"takenAt":"2999-01-01T00:00:00Z"}`, "2999-01-01T00:00:00.000Z")
	order(photo, text, movie)
	set(`{"takenAt":null}`, nil)
	order(text, photo, movie) // as it was uploaded before the text
	is.Equal(h.Get(at).Want(200).Text("data.exif.camera"), "Acme Cam1")
	h.Patch(at, `{"takenAt":"yesterday"}`).Want(422)
	set(`{"takenAt":"2001-02-03T04:05:06Z"}`, "2001-02-03T04:05:06.000Z")

	h.As("owner", "POST", "/api/v1/collections/"+h.collection+"/items", `{"add":["`+photo+`"]}`).Want(200)
	for _, role := range []string{"see", "add", "edit"} {
		for _, path := range []string{at, "/api/v1/collections/" + h.collection + "/items"} {
			got := h.As(role, "GET", path, "").Want(200)
			body := string(got.Body)
			is.True(strings.Contains(body, `"takenAt":null,"exif":null`))
			is.True(!strings.Contains(body, "2001-") && !strings.Contains(body, "Acme"))
		}
		is.Equal(h.As(role, "PATCH", at, `{"takenAt":null}`).Want(403).Code(), "not_owner")
	}
	page := string(h.As("", "GET", "/v/pic", "").Want(200).Body)
	for _, secret := range []string{"takenAt", "2001-02", "exif", "Acme", "13.4"} {
		is.True(!strings.Contains(page, secret))
	}
}

// TestAttachments: a list of files has those of texts if it is asked for them.
func TestAttachments(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	one := a.Upload(nil, apitest.File("a.txt", "", "one")).Want(201).Text("id")
	two := a.Upload(map[string]string{"attach": "true"}, apitest.File("b.txt", "", "two")).Want(201).Text("id")
	is.Equal(a.Get("/api/v1/files").Want(200).IDs(), []string{one})
	is.Equal(a.Get("/api/v1/files?attachments=false").Want(200).IDs(), []string{one})
	is.Equal(a.Get("/api/v1/files?attachments=true").Want(200).IDs(), []string{two, one})
	a.Get("/api/v1/files?attachments=maybe").Want(400)
}
