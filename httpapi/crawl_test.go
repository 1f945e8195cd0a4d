package httpapi_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/inbox"
	"kist/kv/kvtest/needs"
	"kist/kv/people"
)

// TestQuarantine walks every address of the server, in every form that an
// address can have, as everyone but the owner, while uploads wait, are approved
// and are rejected: nothing of them is told but by the owner's queue.
func TestQuarantine(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	id, slug := a.Ask(map[string]any{"slug": "inbox", "folderName": "Quarantine-folder"})
	secrets := []string{"s3cret-sender", "s3cret-message", "Quarantine-folder"}
	words := []string{id, slug}
	var items []string
	var refs [][32]byte
	var picture bytes.Buffer
	is.NoErr(png.Encode(&picture, image.NewGray(image.Rect(0, 0, 900, 600))))
	for i, state := range []string{"pending", "approved", "rejected"} {
		name, text := fmt.Sprintf("s3cret-name-%d.txt", i), fmt.Sprintf("s3cret-content-%d", i)
		secrets = append(secrets, name, text)
		if state != "approved" { // a picture, which could be made small
			text = picture.String() + text
		}
		left := a.Leave(
			slug, nil, map[string]string{"name": "s3cret-sender", "message": "s3cret-message"},
			apitest.File(name, "text/plain", text),
		).Want(201)
		item := left.Text("items.0.itemId")
		items = append(items, item)
		ref := sha256.Sum256([]byte(text))
		refs = append(refs, ref)
		digest := hex.EncodeToString(ref[:])
		secrets = append(secrets, digest, base64.StdEncoding.EncodeToString(ref[:]))
		words = append(words, item, digest, name)
		if state != "pending" {
			done := a.Patch(
				"/api/v1/upload-requests/"+id+"/queue/"+item,
				map[string]any{
					"action": strings.TrimSuffix(strings.TrimSuffix(state, "d"), "e") + map[bool]string{true: "e"}[state == "approved"],
				},
			).Want(200)
			if s, _ := done.At("data.fileSlug").(string); s != "" {
				words = append(words, s, done.Text("data.fileId"))
			}
		}
	}
	// What a stranger has begun to send is told to nobody but who has its address.
	const unfinished = "s3cret-name-unfinished.txt"
	begun := a.Stranger(
		"POST", web.RequestsPath+"/p/"+slug+"/tus", "s3cret-content-unfinished", "Upload-Length", "100", "Upload-Metadata",
		apitest.Meta("filename", unfinished),
	).Want(201).Header.Get("Location")
	secrets = append(secrets, unfinished, "s3cret-content-unfinished", begun[len(web.SentPath)+1:])
	is.NoErr(a.Server.Store.View(func(tx *kv.Tx) error {
		awaited, err := inbox.OpenUploads(tx)
		for id := range awaited {
			words = append(words, id)
		}
		return err
	}))
	admin := a.AddUser("root", people.Admin)
	bob := a.AddUser("bob", people.Member)
	var session string
	a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) (err error) {
		_, session, err = people.AddSession(tx, bob.ID, "test", "192.0.2.1", tx.Now)
		return err
	}))
	callers := map[string]http.Header{
		"a stranger":       {},
		"another user":     {"Cookie": {a.SessionCookie() + "=" + session}},
		"another's key":    {"X-Api-Key": {a.AddKey(bob, people.ScopeAll)}},
		"an administrator": {"X-Api-Key": {a.AddKey(admin, people.ScopeAdmin)}},
	}

	var mu sync.Mutex
	seen := map[string]bool{}
	tried := 0
	try := func(t *testing.T, who string, header http.Header, method, path, body, media string) {
		is := is.New(t)
		req, err := http.NewRequestWithContext(t.Context(), method, a.URL+path, strings.NewReader(body))
		if err != nil {
			return // no address
		}
		req.Header = header.Clone()
		if body != "" {
			req.Header.Set("Content-Type", media)
		}
		res, err := apitest.Plain.Do(req)
		is.NoErr(err)
		defer res.Body.Close()
		var got bytes.Buffer
		_, err = got.ReadFrom(res.Body)
		is.NoErr(err)
		var all bytes.Buffer
		is.NoErr(res.Header.Write(&all))
		text := all.String() + got.String()
		mu.Lock()
		tried++
		seen[method+" "+fmt.Sprint(res.StatusCode)] = true
		mu.Unlock()
		for _, s := range secrets {
			// What is asked for may be said back: a word of the path, in an error.
			if strings.Contains(text, s) && !strings.Contains(path, s) {
				t.Errorf("%s: %s %s tells %q", who, method, path, s)
			}
			if strings.Contains(s, "content") && strings.Contains(text, s) {
				t.Errorf("%s: %s %s has the bytes", who, method, path)
			}
		}
	}
	walk := func(t *testing.T, who string, header http.Header) {
		for _, r := range a.Server.Routes() {
			if r.ID == "logout" || r.ID == "removeUser" || strings.HasPrefix(r.ID, "removeSession") {
				continue // it would end what the walk is made with
			}
			if r.ID == "uploadNamed" {
				continue // it would make a file with the name that is looked for
			}
			if r.Method == http.MethodDelete && who == "an administrator" && strings.Contains(r.Path, "/admin/") {
				continue
			}
			params := strings.Count(r.Path, "{")
			var paths []string
			switch params {
			case 0:
				paths = append(paths, r.Path)
				if r.Method == http.MethodGet {
					paths = append(paths, r.Path+"?q=s3cret", r.Path+"?folder=Quarantine-folder", r.Path+"?status=pending&limit=500")
				}
			case 1:
				for _, w := range words {
					at := r.Path[:strings.Index(r.Path, "{")] + w + r.Path[strings.Index(r.Path, "}")+1:]
					paths = append(paths, at)
					if r.Tag == "public" && r.Method == http.MethodGet {
						paths = append(paths, at+".txt?download=1&g=x")
					}
				}
			default:
				for _, first := range []string{id, slug} {
					for _, second := range append(slices.Clone(items), words[3]) {
						at := strings.Replace(r.Path, r.Path[strings.Index(r.Path, "{"):strings.Index(r.Path, "}")+1], first, 1)
						paths = append(paths, at[:strings.Index(at, "{")]+second+at[strings.Index(at, "}")+1:])
					}
				}
			}
			for _, path := range paths {
				switch r.Method {
				case http.MethodGet:
					try(t, who, header, http.MethodGet, path, "", "")
				case http.MethodDelete:
					if params > 0 {
						try(t, who, header, r.Method, path, "", "")
					}
				default:
					if strings.Contains(path, "/admin/") || strings.HasSuffix(path, "/logout") {
						continue
					}
					try(t, who, header, r.Method, path, `{"action":"approve","into":"`+items[0]+`"}`, web.JSONType)
				}
			}
		}
		for _, w := range words { // what is no route at all
			for _, at := range []string{
				"/blobs/", "/blobs/" + w[:min(2, len(w))] + "/", "/up/" + slug + "/", "/api/v1/blobs/",
				"/api/v1/upload-requests/queue/", "/static/", "/cache/thumbs/", "/..",
			} {
				try(t, who, header, http.MethodGet, at+w, "", "")
			}
		}
	}
	t.Run("walks", func(t *testing.T) {
		for who, header := range callers {
			t.Run(who, func(t *testing.T) {
				t.Parallel()
				walk(t, who, header)
			})
		}
	})
	for who, header := range callers {
		if got := a.Do(apitest.Request{
			Method: "GET", Path: "/api/v1/me", Anyone: true, Header: header,
		}); (got.Status == 200) != (who != "a stranger") {
			t.Errorf("%s could not look any more: %d", who, got.Status)
		}
	}
	is.True(tried > 2000)
	is.True(seen["GET 200"] && seen["GET 404"] && seen["PATCH 404"] && seen["DELETE 404"]) // it walks where something is

	// Nobody has changed anything; the owner has all of it, in the queue alone.
	is.Equal(a.Stranger("HEAD", begun, "").Want(200).Header.Get("Upload-Offset"), "25")
	is.Equal(a.Get(upload.TusPath).Want(200).At("total"), 0.0)
	queue := a.Get("/api/v1/upload-requests/" + id + "/queue").Want(200)
	for i, state := range []string{"pending", "approved", "rejected"} {
		is.Equal(queue.At(fmt.Sprintf("items.%d.status", i)), state)
	}
	is.Equal(
		string(a.Get("/api/v1/upload-requests/"+id+"/queue/"+items[0]+"/content").Want(200).Body),
		picture.String()+"s3cret-content-0",
	)
	for _, i := range []int{0, 2} { // to the owner as well, they are no files
		digest := hex.EncodeToString(refs[i][:])
		for _, path := range []string{
			"/api/v1/files?limit=500", "/api/v1/files?q=s3cret-name-" + fmt.Sprint(i), "/api/v1/files/" + items[i],
			"/x/" + items[i], "/v/" + items[i], "/t/" + items[i], "/" + items[i], "/x/" + digest, "/api/v1/files/" + digest,
		} {
			got := a.Get(path)
			for _, s := range []string{fmt.Sprintf("s3cret-content-%d", i), digest} {
				is.True(!bytes.Contains(got.Body, []byte(s)) || strings.Contains(path, s))
			}
			is.True(!strings.Contains(string(got.Body), fmt.Sprintf("s3cret-name-%d.txt", i)) || strings.Contains(path, "queue"))
		}
	}

	// No picture was made small of what waits or was rejected, and the log tells nothing of it.
	thumbs := func() (n int) {
		is.NoErr(filepath.WalkDir(filepath.Join(a.Server.Store.Dir(), "cache", "thumbs"), func(_ string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				n++
			}
			return err
		}))
		return n
	}
	is.Equal(thumbs(), 0)
	done := a.Patch("/api/v1/upload-requests/"+id+"/queue/"+items[0], map[string]any{"action": "approve"}).Want(200)
	a.Get("/t/" + done.Text("data.fileSlug")).Want(200)
	is.True(thumbs() > 0)
	for _, s := range secrets[:2] {
		is.True(!strings.Contains(a.Logged.String(), s))
	}
}
