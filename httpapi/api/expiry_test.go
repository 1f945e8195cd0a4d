package api_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/kvtest"
	"kist/kv/record"
)

// TestExpiryAction: at its end an item is hidden, or gone for good, for its owner too. What is in a collection stays.
func TestExpiryAction(t *testing.T) {
	t.Parallel()
	for _, k := range record.Kinds {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := apitest.Start(t)
			path := "/api/v1/" + k.Path
			end := a.Clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)
			terms := map[string]map[string]any{
				"plain":  {},
				"hidden": {"expiresAt": end},
				"said":   {"expiresAt": end, "expiryAction": "hide"},
				"gone":   {"expiresAt": end, "expiryAction": "delete"},
				"saved":  {"expiresAt": end, "expiryAction": "delete"},
			}
			for slug, more := range terms {
				more["slug"], more["isPublic"] = slug, true
				if k == record.Files {
					fields := map[string]string{}
					for name, v := range more {
						fields[name] = fmt.Sprint(v)
					}
					a.Upload(fields, apitest.File("a.txt", "text/plain", slug)).Want(201)
					continue
				}
				body := apitest.Parse(t, apitest.Whole[k])
				for name, v := range more {
					body[name] = v
				}
				a.Post(path, body).Want(201)
			}
			is.Equal(a.Get(path+"/plain").Want(200).At("data.expiryAction"), "hide")
			is.Equal(a.Get(path+"/gone").Want(200).At("data.expiryAction"), "delete")
			a.Patch(path+"/saved", `{"expiryAction":"hide"}`).Want(200)
			is.Equal(a.Patch(path+"/plain", `{"expiryAction":"burn"}`).Want(422).At("fields.expiryAction"), "must be one of: hide, delete")

			a.Clock.Advance(2 * time.Hour)
			kvtest.Tick(a.Server.Store)
			for _, slug := range []string{"plain", "hidden", "said", "saved"} {
				a.Get(path + "/" + slug).Want(200)
			}
			a.Get(path + "/gone").Want(404)
			a.Visit("/v/gone").Want(404)
			a.Visit("/v/hidden").Want(410)
			is.Equal(a.Get("/api/v1/trash").Want(200).At("total"), 0.0)
		})
	}
}

// TestExpiryActionInTrash: who restores an item after its end wants to keep it.
func TestExpiryActionInTrash(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	end := a.Clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	id := a.Post("/api/v1/notes", map[string]any{
		"content": "c", "slug": "n1", "isPublic": true, "expiresAt": end, "expiryAction": "delete",
	}).Want(201).Text("data.id")
	a.Delete("/api/v1/notes/" + id).Want(200)
	a.Clock.Advance(2 * time.Hour)
	kvtest.Tick(a.Server.Store)
	a.Post("/api/v1/trash/restore", map[string]any{"ids": []string{id}}).Want(200)
	kvtest.Tick(a.Server.Store)
	got := a.Get("/api/v1/notes/" + id).Want(200)
	is.Equal(got.At("data.expiryAction"), "hide")
	a.Visit("/v/n1").Want(410)
}
