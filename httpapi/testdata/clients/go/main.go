// Creates, lists, reads, edits and removes one thing of every kind, with the
// client that oapi-codegen generates from the document. KIST_URL and KIST_KEY name the
// server and an API key.
package main

import (
	"bytes"
	"context"
	"drive/kist"
	"encoding/json"
	"fmt"
	"log"
	"mime/multipart"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"
)

var (
	ctx = context.Background()
	api *kist.ClientWithResponses
)

func main() {
	log.SetFlags(0)
	var err error
	api, err = kist.NewClientWithResponses(os.Getenv("KIST_URL"), kist.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("X-Api-Key", os.Getenv("KIST_KEY"))
		return nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	bookmark()
	note()
	snippet()
	recipe()
	game()
	shortlink()
	file()
	tag()
	folder()
	uploadRequest()
	webhook()
	key()
	missing()
}

// answer is what the client's methods return.
type answer interface {
	StatusCode() int
	Status() string
}

// must is an answer with a status below 300.
func must[A answer](a A, err error) A {
	if err != nil {
		log.Fatal(err)
	}
	if a.StatusCode() >= 300 {
		log.Fatalf("%T: %s", a, a.Status())
	}
	return a
}

func check(what string, ok bool) {
	if !ok {
		log.Fatal(what + " is not as it should be")
	}
}

func listed[T any](what string, all []T, is func(T) bool) {
	check("the list of "+what, slices.ContainsFunc(all, is))
}

func removed(what string, a *kist.Done) { check("the removal of "+what, a != nil && bool(a.Ok)) }

func made(id uuid.UUID, at time.Time, ends *time.Time) string {
	check("a new record", id.Version() == 7 && !at.IsZero() && ends == nil)
	return id.String()
}

func bookmark() {
	b := must(api.CreateBookmarkWithResponse(ctx, nil, kist.BookmarkCreate{Url: "https://go.dev/"})).JSON201.Data
	id := made(b.Id, b.CreatedAt, b.ExpiresAt)
	check("an unset address", b.ImageUrl == nil)
	listed("bookmarks", must(api.ListBookmarksWithResponse(ctx, &kist.ListBookmarksParams{Limit: new(int64(10))})).JSON200.Data, func(r kist.Bookmark) bool { return r.Id == b.Id })
	check("bookmark", must(api.ReadBookmarkWithResponse(ctx, id, nil)).JSON200.Data.Url == b.Url)
	check("bookmark", must(api.EditBookmarkWithResponse(ctx, id, nil, kist.BookmarkEdit{Title: new("Go")})).JSON200.Data.Title == "Go")
	removed("bookmark", must(api.RemoveBookmarkWithResponse(ctx, id, nil)).JSON200)
}

func note() {
	n := must(api.CreateNoteWithResponse(ctx, nil, kist.NoteCreate{Content: "text", Tags: &[]string{"a"}})).JSON201.Data
	id := made(n.Id, n.CreatedAt, n.ExpiresAt)
	listed("notes", must(api.ListNotesWithResponse(ctx, &kist.ListNotesParams{Tag: &[]string{"a"}})).JSON200.Data, func(r kist.Note) bool { return r.Id == n.Id })
	check("note", must(api.ReadNoteWithResponse(ctx, id, nil)).JSON200.Data.Content == "text")
	check("note", must(api.EditNoteWithResponse(ctx, id, nil, kist.NoteEdit{Title: new("T")})).JSON200.Data.Title == "T")
	removed("note", must(api.RemoveNoteWithResponse(ctx, id, nil)).JSON200)
}

func snippet() {
	s := must(api.CreateSnippetWithResponse(ctx, nil, kist.SnippetCreate{Content: "x := 1", Language: new("go")})).JSON201.Data
	id := made(s.Id, s.CreatedAt, s.ExpiresAt)
	listed("snippets", must(api.ListSnippetsWithResponse(ctx, nil)).JSON200.Data, func(r kist.Snippet) bool { return r.Id == s.Id })
	check("snippet", must(api.ReadSnippetWithResponse(ctx, id, nil)).JSON200.Data.Language == "go")
	check("snippet", must(api.EditSnippetWithResponse(ctx, id, nil, kist.SnippetEdit{Content: new("")})).JSON200.Data.Content == "")
	removed("snippet", must(api.RemoveSnippetWithResponse(ctx, id, nil)).JSON200)
}

func recipe() {
	r := must(api.CreateRecipeWithResponse(ctx, nil, kist.RecipeCreate{Title: "Pancakes"})).JSON201.Data
	id := made(r.Id, r.CreatedAt, r.ExpiresAt)
	listed("recipes", must(api.ListRecipesWithResponse(ctx, nil)).JSON200.Data, func(x kist.Recipe) bool { return x.Id == r.Id })
	check("recipe", must(api.ReadRecipeWithResponse(ctx, id, nil)).JSON200.Data.Title == "Pancakes")
	check("recipe", must(api.EditRecipeWithResponse(ctx, id, nil, kist.RecipeEdit{Ingredients: new("2 eggs")})).JSON200.Data.Ingredients == "2 eggs")
	removed("recipe", must(api.RemoveRecipeWithResponse(ctx, id, nil)).JSON200)
}

func game() {
	g := must(api.CreateGameWithResponse(ctx, nil, kist.GameCreate{Title: "Outer Wilds", Status: new(kist.MaybeGameStatusPlaying)})).JSON201.Data
	id := made(g.Id, g.CreatedAt, g.ExpiresAt)
	listed("games", must(api.ListGamesWithResponse(ctx, nil)).JSON200.Data, func(r kist.Game) bool { return r.Id == g.Id })
	read := must(api.ReadGameWithResponse(ctx, id, nil)).JSON200.Data
	check("game", read.Rating == nil && read.CoverUrl == nil && *read.Status == kist.MaybeGameStatusPlaying)
	check("game", *must(api.EditGameWithResponse(ctx, id, nil, kist.GameEdit{Rating: new(int64(10))})).JSON200.Data.Rating == 10)
	removed("game", must(api.RemoveGameWithResponse(ctx, id, nil)).JSON200)
}

func shortlink() {
	l := must(api.CreateShortlinkWithResponse(ctx, nil, kist.ShortlinkCreate{OriginalUrl: "https://go.dev/doc"})).JSON201.Data
	id := made(l.Id, l.CreatedAt, l.ExpiresAt)
	listed("short links", must(api.ListShortlinksWithResponse(ctx, nil)).JSON200.Data, func(r kist.Shortlink) bool { return r.Id == l.Id })
	check("short link", *must(api.ReadShortlinkWithResponse(ctx, id, nil)).JSON200.Data.Clicks == 0)
	check("short link", *must(api.EditShortlinkWithResponse(ctx, id, nil, kist.ShortlinkEdit{MaxClicks: new(int64(3))})).JSON200.Data.MaxClicks == 3)
	removed("short link", must(api.RemoveShortlinkWithResponse(ctx, id, nil)).JSON200)
}

func file() {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "a.txt")
	if err == nil {
		_, err = fmt.Fprint(part, "content")
	}
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		log.Fatal(err)
	}
	f, err := must(api.UploadFilesWithBodyWithResponse(ctx, nil, form.FormDataContentType(), &body)).JSON201.AsUploadedFile()
	if err != nil {
		log.Fatal(err)
	}
	made(f.Id, f.CreatedAt, f.ExpiresAt)
	check("file", f.OriginalName == "a.txt" && f.Size == 7 && f.Folder == nil)
	listed("files", must(api.ListFilesWithResponse(ctx, &kist.ListFilesParams{Folder: new("unfiled")})).JSON200.Data, func(r kist.File) bool { return r.Id == f.Id })
	check("file", len(must(api.ReadFileWithResponse(ctx, *f.Slug, nil)).JSON200.Data.Sha256) == 64)
	check("file", must(api.EditFileWithResponse(ctx, *f.Slug, nil, kist.FileEdit{FolderName: new("F")})).JSON200.Data.Folder.Name == "F")
	removed("file", must(api.RemoveFileWithResponse(ctx, *f.Slug, nil)).JSON200)
}

func tag() {
	t := must(api.CreateTagWithResponse(ctx, nil, kist.TagCreate{Name: "travel"})).JSON201.Data
	id := t.Id.String()
	listed("tags", *must(api.ListTagsWithResponse(ctx)).JSON200, func(x kist.Tag) bool { return x.Id == t.Id })
	check("tag", must(api.EditTagWithResponse(ctx, id, kist.TagEdit{Color: new("#AABBCC")})).JSON200.Data.Color == "#AABBCC")
	removed("tag", must(api.RemoveTagWithResponse(ctx, id)).JSON200)
}

func folder() {
	f := must(api.CreateFolderWithResponse(ctx, nil, kist.FolderCreate{Name: "Holidays"})).JSON201.Data
	id := f.Id.String()
	listed("folders", must(api.ListFoldersWithResponse(ctx, nil)).JSON200.Data, func(x kist.Folder) bool { return x.Id == f.Id })
	check("folder", must(api.EditFolderWithResponse(ctx, id, kist.FolderEdit{Name: new("Summer")})).JSON200.Data.Name == "Summer")
	removed("folder", must(api.RemoveFolderWithResponse(ctx, id)).JSON200)
}

func uploadRequest() {
	q := must(api.CreateUploadRequestWithResponse(ctx, nil, kist.UploadRequestCreate{Title: "Photos"})).JSON201.Data
	id := q.Id.String()
	listed("upload requests", must(api.ListUploadRequestsWithResponse(ctx, nil)).JSON200.Data, func(x kist.UploadRequest) bool { return x.Id == q.Id })
	check("upload request", must(api.ReadUploadRequestWithResponse(ctx, id)).JSON200.Data.MaxUploads == nil)
	check("upload request", *must(api.EditUploadRequestWithResponse(ctx, id, kist.UploadRequestEdit{MaxUploads: new(int64(5))})).JSON200.Data.MaxUploads == 5)
	check("queue", len(must(api.ListUploadItemsWithResponse(ctx, id, nil)).JSON200.Items) == 0)
	removed("upload request", must(api.RemoveUploadRequestWithResponse(ctx, id)).JSON200)
}

func webhook() {
	h := must(api.CreateWebhookWithResponse(ctx, nil, kist.WebhookCreate{Url: "https://example.org/hook", Events: &[]kist.WebhookEvent{kist.WebhookEventNoteCreated}})).JSON201.Data
	id := h.Id.String()
	listed("webhooks", must(api.ListWebhooksWithResponse(ctx)).JSON200.Webhooks, func(x kist.Webhook) bool { return x.Id == h.Id })
	check("webhook", must(api.ReadWebhookWithResponse(ctx, id)).JSON200.Data.LastDeliveredAt == nil)
	check("webhook", !must(api.EditWebhookWithResponse(ctx, id, kist.WebhookEdit{Enabled: new(false)})).JSON200.Data.Enabled)
	removed("webhook", must(api.RemoveWebhookWithResponse(ctx, id)).JSON200)
}

func key() {
	k := must(api.CreateKeyWithResponse(ctx, nil, kist.KeyCreate{Name: "laptop", Scopes: &[]kist.Scope{kist.ScopeRead}})).JSON201.Data
	id := k.Id.String()
	listed("keys", must(api.ListKeysWithResponse(ctx, nil)).JSON200.Data, func(x kist.Key) bool { return x.Id == k.Id })
	check("key", must(api.EditKeyWithResponse(ctx, id, kist.KeyEdit{Disabled: new(true)})).JSON200.Data.Disabled)
	removed("key", must(api.RemoveKeyWithResponse(ctx, id)).JSON200)
}

func missing() {
	a, err := api.ReadNoteWithResponse(ctx, uuid.Must(uuid.NewV7()).String(), nil)
	check("an error", err == nil && a.StatusCode() == http.StatusNotFound && a.JSON404.Code == "not_found" && json.Valid(a.Body))
}
