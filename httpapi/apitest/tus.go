package apitest

import (
	"encoding/base64"
	"fmt"
	"strings"

	"kist/httpapi/upload"
	"kist/httpapi/web"
)

// tus sends a request of the protocol. Header is pairs; one that is empty is
// not sent.
func (a *App) SendTus(method, path, body string, header ...string) *Answer {
	a.Helper()
	return a.SendTusBy(false, method, path, body, header...)
}

// tusBy is tus with the app's key or without one.
func (a *App) SendTusBy(anyone bool, method, path, body string, header ...string) *Answer {
	a.Helper()
	h := WithHeader("Tus-Resumable", "1.0.0", "Content-Type", upload.TusBody)
	for i := 0; i+1 < len(header); i += 2 {
		h.Del(header[i])
		if header[i+1] != "" {
			h.Set(header[i], header[i+1])
		}
	}
	q := Request{Method: method, Path: path, Header: h, Raw: true, Anyone: anyone}
	if body != "" {
		q.Body = strings.NewReader(body)
	}
	got := a.Do(q)
	if v := got.Header.Get("Tus-Resumable"); v != "1.0.0" {
		a.Errorf("%s %s: Tus-Resumable is %q", method, path, v)
	}
	return got
}

func Meta(pairs ...string) string {
	var all []string
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, pairs[i]+" "+base64.StdEncoding.EncodeToString([]byte(pairs[i+1])))
	}
	return strings.Join(all, ",")
}

// Begin begins an upload and returns its address.
func (a *App) Begin(length int, pairs ...string) string {
	a.Helper()
	return a.SendTus(
		"POST", upload.TusPath, "", "Upload-Length", fmt.Sprint(length), "Upload-Metadata", Meta(pairs...),
	).Want(201).Header.Get("Location")
}

func (a *App) Piece(at string, offset int, body string, header ...string) *Answer {
	a.Helper()
	return a.SendTus("PATCH", at, body, append([]string{"Upload-Offset", fmt.Sprint(offset)}, header...)...)
}

// Offset asks where the upload is.
func (a *App) Offset(at string) string {
	a.Helper()
	return a.SendTus("HEAD", at, "").Want(200).Header.Get("Upload-Offset")
}

func (a *App) Parts() int {
	a.Helper()
	names, err := a.Server.Blobs.Parts.Names()
	a.NoErr(err)
	return len(names)
}

// Stranger sends a request of the protocol without a credential.
func (a *App) Stranger(method, path, body string, header ...string) *Answer {
	a.Helper()
	return a.SendTusBy(true, method, path, body, header...)
}

// BeginSending begins an upload to a link and returns its address.
func (a *App) BeginSending(slug string, length int, pairs ...string) string {
	a.Helper()
	return a.Stranger(
		"POST", web.RequestsPath+"/p/"+slug+"/tus", "", "Upload-Length", fmt.Sprint(length), "Upload-Metadata",
		Meta(pairs...),
	).Want(201).Header.Get("Location")
}

func (a *App) SendPiece(at string, offset int, body string, header ...string) *Answer {
	a.Helper()
	return a.Stranger("PATCH", at, body, append([]string{"Upload-Offset", fmt.Sprint(offset)}, header...)...)
}
