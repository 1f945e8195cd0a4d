package apitest

import (
	"fmt"

	"kist/httpapi/web"
)

// stranger sends a request of the protocol without a credential.
func (a *App) Stranger(method, path, body string, header ...string) *Answer {
	a.Helper()
	return a.SendTusBy(true, method, path, body, header...)
}

// beginSending begins an upload to a link and returns its address.
func (a *App) BeginSending(slug string, length int, pairs ...string) string {
	a.Helper()
	return a.Stranger("POST", web.RequestsPath+"/p/"+slug+"/tus", "", "Upload-Length", fmt.Sprint(length), "Upload-Metadata", Meta(pairs...)).Want(201).Header.Get("Location")
}

func (a *App) SendPiece(at string, offset int, body string, header ...string) *Answer {
	a.Helper()
	return a.Stranger("PATCH", at, body, append([]string{"Upload-Offset", fmt.Sprint(offset)}, header...)...)
}
