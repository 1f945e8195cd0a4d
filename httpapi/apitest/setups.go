package apitest

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"kist/httpapi/api"
)

// Uploader is a custom uploader as ShareX understands it.
type Uploader struct {
	app *App
	api.CustomUploader
}

// Filled is a text of an uploader with the functions that it calls filled in;
// those of the answer are "" where it does not have them.
func (u *Uploader) Filled(text string, answer []byte) string {
	u.app.Helper()
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
			out.WriteByte(text[i])
		case '{':
			call, rest, closed := strings.Cut(text[i+1:], "}")
			name, json := strings.CutPrefix(call, "json:")
			if !closed || !json {
				u.app.Fatalf("%q is no call", text)
			}
			out.WriteString(pickOf(u.app, answer, name))
			i = len(text) - len(rest) - 1
		default:
			out.WriteByte(text[i])
		}
	}
	return out.String()
}

func pickOf(a *App, body []byte, name string) string {
	a.Helper()
	var v map[string]any
	a.NoErr(json.Unmarshal(body, &v))
	text, _ := v[name].(string)
	return text
}

// Send sends a request like ShareX: a file, or text in place of {input}.
func (u *Uploader) Send(name, input string) *Answer {
	u.app.Helper()
	at, err := url.Parse(u.Filled(u.RequestURL, nil))
	u.app.NoErr(err)
	q := Request{Method: u.RequestMethod, Path: at.Path, Anyone: true, Header: http.Header{}}
	for name, value := range u.Headers {
		q.Header.Set(name, u.Filled(value, nil))
	}
	switch u.Body {
	case "MultipartFormData":
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		for name, value := range u.Arguments {
			u.app.NoErr(w.WriteField(name, u.Filled(value, nil)))
		}
		p, err := w.CreateFormFile(u.FileFormName, name)
		u.app.NoErr(err)
		_, err = io.WriteString(p, input)
		u.app.NoErr(err)
		u.app.NoErr(w.Close())
		q.Body = &b
		q.Header.Set("Content-Type", w.FormDataContentType())
	case "JSON":
		quoted, err := json.Marshal(input)
		u.app.NoErr(err)
		q.JSON = strings.ReplaceAll(u.Data, "{input}", string(quoted[1:len(quoted)-1]))
	default:
		u.app.Fatalf("body %q", u.Body)
	}
	return u.app.Do(q)
}

// Path is the path of an address of the server.
func (a *App) Path(address string) string {
	a.Helper()
	path, ok := strings.CutPrefix(address, a.Server.Base)
	if !ok {
		a.Fatalf("%q is not of this server", address)
	}
	return path
}

func Picture(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 40, 30))); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
