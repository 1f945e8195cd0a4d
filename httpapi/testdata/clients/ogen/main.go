// Creates and lists a note, uploads a file and gets an error, with the client that ogen
// generates from the document. KIST_URL and KIST_KEY name the server and an API key.
package main

import (
	"context"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/ogen-go/ogen/http"

	"drive/kist"
)

// key is the credential of all requests.
type key string

func (k key) ApiKeyAuth(context.Context, kist.OperationName) (kist.ApiKeyAuth, error) {
	return kist.ApiKeyAuth{APIKey: string(k)}, nil
}

func (key) SessionCookie(context.Context, kist.OperationName) (kist.SessionCookie, error) {
	return kist.SessionCookie{}, kist.ErrSkipClientSecurity
}

// must is an answer of the expected type.
func must[T any](answer any, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	good, ok := answer.(T)
	if !ok {
		log.Fatalf("%T: %v", answer, answer)
	}
	return good
}

func check(what string, ok bool) {
	if !ok {
		log.Fatal(what + " is not as it should be")
	}
}

func main() {
	log.SetFlags(0)
	ctx := context.Background()
	api, err := kist.NewClient(os.Getenv("KIST_URL"), key(os.Getenv("KIST_KEY")))
	if err != nil {
		log.Fatal(err)
	}

	made := must[*kist.NoteCreatedHeaders](api.CreateNote(ctx, &kist.NoteCreate{
		Content: "text", Tags: kist.NewOptNilStringArray([]string{"a"}),
	}, kist.CreateNoteParams{}))
	note := made.Response.Data
	check("note", note.Content == "text" && note.ExpiresAt.Null && note.Tags[0] == "a")

	list := must[*kist.NoteList](api.ListNotes(ctx, kist.ListNotesParams{Tag: []string{"a"}}))
	check("list", slices.ContainsFunc(list.Data, func(n kist.Note) bool { return n.ID == note.ID }))

	uploaded := must[*kist.Uploaded](api.UploadFiles(ctx, &kist.UploadFilesReq{
		File:   []http.MultipartFile{{Name: "a.txt", File: strings.NewReader("content")}},
		Folder: kist.OptString{},
	}, kist.UploadFilesParams{}))
	file, ok := uploaded.GetUploadedFile()
	check("file", ok && file.OriginalName == "a.txt" && file.Size == 7)

	missing := must[*kist.ReadNoteNotFound](api.ReadNote(ctx, kist.ReadNoteParams{ID: "none"}))
	check("error", missing.Code == "not_found" && missing.RequestId != "")
}
