package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"image/color"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/kvtest/needs"
	"kist/kv/record"
)

const (
	floodChild = "KIST_TEST_FLOOD_CHILD"
	floodMost  = 256 << 10 // KiB of anonymous memory
)

// planted is what the flooded server has: values for the parts of paths.
type planted struct {
	URL    string              `json:"url"`
	Values map[string][]string `json:"values"` // by name of the part
}

// plant stores the largest records that visitors may see, and collections of many.
func plant(a *apitest.App) planted {
	a.Helper()
	add := func(k *record.Kind, n int, in func(n int) field.Object) (ids []string) {
		a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
			for i := range n {
				form := record.NewForm(k)
				one := in(i)
				one["isPublic"] = true
				if err := field.Create(form, one); err != nil {
					return err
				}
				r, err := catalog.Add(tx, catalog.Draft{Owner: a.User.ID, Kind: k, Form: form})
				if err != nil {
					return err
				}
				ids = append(ids, r.ID.String())
			}
			return nil
		}))
		return ids
	}
	long := strings.Repeat("<", 1_000_000)
	address := func(n int) string { return fmt.Sprint("https://example.org/", n, "?", strings.Repeat("&", 8000)) }
	photo := apitest.File("a.jpg", "image/jpeg", apitest.JpegOf(3000, 2000, color.White))
	file := a.Upload(map[string]string{"attach": "true"}, photo).Want(201).Text("id")
	note := add(record.Notes, 1, func(int) field.Object {
		return field.Object{"slug": "the-note", "content": "![a](kist:" + file + ")\n" + long}
	})[0]
	add(record.Snippets, 1, func(int) field.Object {
		return field.Object{"slug": "the-snippet", "content": strings.Repeat("(", 250_000), "language": "go"}
	})
	add(record.Links, 1, func(int) field.Object { return field.Object{"slug": "the-link", "originalUrl": address(0)} })
	recipes := append([]string{note}, add(record.Recipes, 6, func(n int) field.Object {
		return field.Object{"slug": fmt.Sprint("recipe", n), "title": "r", "ingredients": long, "instructions": long}
	})...)
	marks := add(record.Bookmarks, 100, func(n int) field.Object {
		return field.Object{"slug": fmt.Sprint("mark", n), "title": strings.Repeat("&", 500), "url": address(n)}
	})
	add(record.Games, 100, func(n int) field.Object {
		return field.Object{
			"slug": fmt.Sprint("game", n), "title": strings.Repeat("🎮", 500), "notes": strings.Repeat("'", 8190),
			"coverUrl": address(n), "storeUrl": address(n),
		}
	})
	text := apitest.File("a.txt", "", strings.Repeat("text\n", 1_000_000))
	a.Upload(map[string]string{"isPublic": "true", "slug": "the-file"}, text).Want(201)
	for slug, items := range map[string][]string{"the-recipes": recipes, "the-marks": marks} {
		source := map[string]any{"items": items}
		a.Post(
			"/api/v1/collections", map[string]any{"title": "c", "slug": slug, "isPublic": true, "source": source},
		).Want(201)
	}
	a.Post("/api/v1/upload-requests", map[string]any{"title": "inbox", "slug": "the-inbox"}).Want(201)
	invitation := a.Post("/api/v1/admin/invitations", `{}`).Want(201).Text("url")
	slugs := []string{
		"the-note", "the-snippet", "the-link", "recipe0", "mark0", "game0", "the-file", "the-recipes", "the-marks", "the-inbox",
	}
	return planted{a.URL, map[string][]string{
		"slug": slugs, "item": {note, recipes[1], marks[0], file}, "file": {file}, "username": {"ann"},
		"topic": {"limits"}, "name": {"app.js"},
		"token": {"x", invitation[strings.LastIndex(invitation, "/")+1:]}, "secret": {"x"}, "id": {"x"}, "takeBack": {"x"},
	}}
}

// floodPaths are the paths of a route with what was planted. It has none for a part of a path that
// nothing was planted for.
func floodPaths(path string, values map[string][]string) []string {
	before, rest, wild := strings.Cut(path, "{")
	if !wild {
		return []string{path}
	}
	name, after, _ := strings.Cut(rest, "}")
	var all []string
	for _, value := range values[name] {
		all = append(all, floodPaths(before+value+after, values)...)
	}
	return all
}

// floodBodies are the longest bodies of each type that a visitor may send, by media type.
var floodBodies = map[string]string{
	"application/json":                  `{"z":[` + strings.Repeat(`{"a":{}},`, 1700) + `0]}`,
	"application/x-www-form-urlencoded": "z=" + strings.Repeat("x", 8000),
	"multipart/form-data": "--b\r\nContent-Disposition: form-data; name=\"z\"\r\n\r\n" +
		strings.Repeat("x", 16_000) + "\r\n--b--\r\n",
	"application/offset+octet-stream": strings.Repeat("x", 16_000),
}

// from dials from the n-th address of loopback, so that clients are different visitors.
func from(n int64) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(n>>8), byte(n))}}
}

// TestVisitorRoutesUnderFlood floods every operation that a visitor may call, as the table has it, with clients that
// read and clients that do not, or whose bodies stop coming, over the largest records.
// The server runs in a process of its own, stays below 256 MiB, and its owner signs in meanwhile. A route with a part
// that nothing was planted for, or with a type of body that has no example, fails.
func TestVisitorRoutesUnderFlood(t *testing.T) {
	needs.Time(t)
	if os.Getenv(floodChild) != "" {
		a := apitest.Start(t, apitest.AtHome)
		a.WithPassword(a.User, "correct horse")
		text, err := json.Marshal(plant(a))
		a.NoErr(err)
		fmt.Printf("planted %s\n", text)
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent ends
		return
	}
	needs.Alone(t)
	is := is.New(t)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), floodChild+"=1", "GOMEMLIMIT=160MiB") // as kist sets it in 256 MiB
	in, err := child.StdinPipe()
	is.NoErr(err)
	out, err := child.StdoutPipe()
	is.NoErr(err)
	is.NoErr(child.Start())
	defer func() { _ = in.Close(); _ = child.Wait() }()
	var has planted
	for lines := bufio.NewReader(out); has.URL == ""; {
		line, err := lines.ReadString('\n')
		is.NoErr(err)
		if text, found := strings.CutPrefix(line, "planted "); found {
			is.NoErr(json.Unmarshal([]byte(text), &has))
		}
	}

	f := &flood{T: t, pid: child.Process.Pid, at: strings.TrimPrefix(has.URL, "http://")}
	for _, r := range apitest.Start(t).Server.Routes() {
		if !r.Access.Open {
			continue
		}
		media, body := "", ""
		if r.Body != nil {
			media = r.Body.Media
			body = floodBodies[media]
			if body == "" {
				t.Errorf("%s has a body of the type %q: floodBodies needs an example", r.ID, media)
			}
		}
		paths := floodPaths(r.Path, has.Values)
		if r.ID == "readRaw" {
			paths = append(paths, "/x/the-recipes.zip", "/x/the-marks.zip")
		}
		if len(paths) == 0 {
			t.Errorf("%s has the path %s: plant needs a value for each part", r.ID, r.Path)
		}
		for _, path := range paths {
			f.route(r.Method, path, media, body)
		}
	}
	t.Logf("%d paths, %d requests; at most %d MiB; the owner signed in within %v; statuses %v",
		f.paths, f.n.Load(), f.most>>10, f.slowest, f.statuses())
}

type flood struct {
	*testing.T
	pid     int
	at      string
	n       atomic.Int64 // clients so far
	status  [600]atomic.Int64
	paths   int
	most    int64 // KiB
	slowest time.Duration
}

func (f *flood) statuses() (all []string) {
	for code := range f.status {
		if n := f.status[code].Load(); n > 0 {
			all = append(all, fmt.Sprint(code, ":", n))
		}
	}
	return all
}

// send sends a request over a new connection. If it stalls, the second half of its body does not come.
func (f *flood) send(method, path, media, body string, stalls bool) (net.Conn, error) {
	conn, err := from(f.n.Add(1)).DialContext(f.Context(), "tcp", f.at)
	if err != nil {
		return nil, err
	}
	head := method + " " + path + " HTTP/1.1\r\nHost: " + f.at + "\r\nConnection: close\r\n"
	if media != "" {
		if media == "multipart/form-data" {
			media += "; boundary=b"
		}
		head += fmt.Sprintf("Content-Type: %s\r\nContent-Length: %d\r\n", media, len(body))
	}
	if stalls {
		body = body[:len(body)/2]
	}
	_, err = io.WriteString(conn, head+"\r\n"+body)
	return conn, err
}

// route floods one path. If a visitor finds nothing there, one request is enough.
func (f *flood) route(method, path, media, body string) {
	f.Helper()
	f.paths++
	if f.ask(method, path, media, body) == http.StatusNotFound {
		return
	}
	var slow []net.Conn
	for range floodClients {
		conn, err := f.send(method, path, media, body, true)
		if err != nil {
			f.Error(err)
			continue
		}
		defer conn.Close()
		_ = conn.(*net.TCPConn).SetReadBuffer(4096) // the server is to notice soon that nobody reads
		slow = append(slow, conn)
	}
	var work sync.WaitGroup
	for range floodClients {
		work.Go(func() { f.status[f.ask(method, path, media, body)].Add(1) })
	}
	f.signIn()
	work.Wait()
	f.most = max(f.most, f.resident())
	if f.resident() > floodMost && !apitest.RaceEnabled { // the race detector needs several times as much
		f.Errorf("%s %s: %d MiB", method, path, f.resident()>>10)
	}
	for _, conn := range slow {
		_ = conn.Close()
	}
}

// ask sends a request, reads the answer and returns its status; 0 if there was none.
func (f *flood) ask(method, path, media, body string) int {
	conn, err := f.send(method, path, media, body, false)
	if err != nil {
		return 0
	}
	defer conn.Close()
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// signIn signs the owner in, from an address of its own.
func (f *flood) signIn() {
	f.Helper()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	defer cancel()
	body := strings.NewReader(`{"username":"ann","password":"correct horse"}`)
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+f.at+"/api/v1/auth/login", body)
	if err != nil {
		f.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := apitest.Plain.Do(req)
	if err != nil {
		f.Fatal(err)
	}
	defer res.Body.Close()
	if !slices.Contains([]int{http.StatusOK, http.StatusCreated}, res.StatusCode) {
		f.Errorf("the owner is not signed in: %s", res.Status)
	}
	f.slowest = max(f.slowest, time.Since(begun))
}

// resident is the most anonymous memory of the server, in KiB.
func (f *flood) resident() int64 {
	f.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", f.pid))
	if err != nil {
		f.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "RssAnon:")
	var n int64
	if _, err := fmt.Sscan(rest, &n); err != nil {
		f.Fatal(err)
	}
	return n
}
