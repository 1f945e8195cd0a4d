package admin_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A load is clients that work on one server, and what they know of it: every
// state of every thing, with the number of the operation that led to it. A
// store, be it the server after a crash or a copy of its directory, holds one
// moment of each client's history, and not an earlier one than had been
// acknowledged when the crash or the copy began.
type load struct {
	t       *testing.T
	addr    string
	key     string
	clients []*client
	done    atomic.Int64 // operations and views that were acknowledged
	running atomic.Bool
	cutOff  bool // the object store may fail: a refusal because of it is like a broken connection

	mu      sync.Mutex
	limited []*thing // with a limit of views, or an end
}

// A client does one operation after another, on things that no other client
// touches.
type client struct {
	*load
	name string
	rng  *rand.Rand

	mu      sync.Mutex // guards what follows, and the things
	started int        // number of the latest operation
	acked   int        // number of the latest one that was acknowledged
	things  map[string]*thing
	tags    []*thing
	happen  func() bool // tells the client that the operation under way has happened; false if that is to be asked again
	again   func() bool // repeats the operation under way, if that may be repeated
	bodies  [][]byte    // of its files
}

// A thing is a record or a tag. Its versions are in the order of the
// operations; the text of one tells all that the client has determined, and is
// empty when there is no such thing.
type thing struct {
	kind, name string // the path of its collection; slug, or first name of a tag
	id         string // once it is known
	now        shown  // the latest version
	versions   []version
	sum        string    // SHA-256 of a file
	items      []*thing  // of a collection
	ends       time.Time // of a shared note; zero: never

	// Of a record with a limit of views: what is left of it is determined by
	// visitors.
	limit      int64
	deletes    bool
	tried, got atomic.Int64 // views that were begun, and that were delivered
}

// remove deletes a thing. Notes and links may go to the trash. Files go for good, so that the
// bytes in use are those of the lists.
func (c *client) remove(client *http.Client, th *thing) bool {
	at := "/api/v1/" + th.kind + "/" + th.name
	if th.kind == "files" || th.kind == "collections" || c.rng.IntN(3) == 0 {
		return c.do(client, "DELETE", at+"?permanent=true", nil, 200, c.counted(map[*thing]*shown{th: nil}), nil)
	}
	is := th.now
	is.InTrash = true
	return c.do(client, "DELETE", at, nil, 200, c.counted(map[*thing]*shown{th: &is}), nil)
}

// emptyOne restores something from the trash, or deletes it for good. What has tags is not
// restored, since they may be others by now.
func (c *client) emptyOne(client *http.Client, th *thing) bool {
	if len(th.now.Tags) > 0 || c.rng.IntN(3) == 0 {
		return c.do(client, "DELETE", "/api/v1/trash/"+th.id, nil, 200, map[*thing]*shown{th: nil}, nil)
	}
	is := th.now
	is.InTrash = false
	return c.do(
		client, "POST", "/api/v1/trash/restore", map[string]any{"ids": []string{th.id}}, 200,
		c.counted(map[*thing]*shown{th: &is}), nil,
	)
}

// counted adds to changes what they change in the collections that the things are in.
func (c *client) counted(changes map[*thing]*shown) map[*thing]*shown {
	for _, all := range c.live() {
		if all.kind == "collections" && changes[all] == nil {
			is := all.now
			is.Size, is.Items = held(all.items, changes)
			if is.Items != all.now.Items {
				changes[all] = &is
			}
		}
	}
	return changes
}

// held are the things that are there after changes: how many, and their slugs.
func held(items []*thing, changes map[*thing]*shown) (int64, string) {
	var names []string
	for _, th := range items {
		if to, changed := changes[th]; changed && to != nil && !to.InTrash || !changed && th.there() {
			names = append(names, th.name)
		}
	}
	slices.Sort(names)
	return int64(len(names)), strings.Join(names, " ")
}

// collect makes a collection of notes, or takes some in and out of one.
func (c *client) collect(client *http.Client) bool {
	var notes, all []*thing
	for _, th := range c.live() {
		switch {
		case th.kind == "collections":
			all = append(all, th)
		case th.kind == "notes" && th.id != "" && c.rng.IntN(4) == 0:
			notes = append(notes, th)
		}
	}
	ids := make([]string, len(notes))
	for i, th := range notes {
		ids[i] = th.id
	}
	if len(notes) == 0 || len(all) < 4 {
		th := c.add("collections")
		is := shown{Title: "title of " + th.name}
		is.Size, is.Items = held(notes, nil)
		return c.do(client, "POST", "/api/v1/collections", map[string]any{
			"slug": th.name, "title": is.Title, "source": map[string]any{"items": ids},
		}, 201, map[*thing]*shown{th: &is}, func([]byte) bool {
			th.items = notes
			return true
		})
	}
	th := all[c.rng.IntN(len(all))]
	out := slices.DeleteFunc(slices.Clone(th.items), func(item *thing) bool {
		return slices.Contains(notes, item) || item.there() && c.rng.IntN(2) == 0
	})
	remove := []string{}
	for _, item := range out {
		if item.there() {
			remove = append(remove, item.id)
		}
	}
	out = slices.DeleteFunc(out, func(item *thing) bool { return !item.there() }) // what is in the trash comes back
	items := slices.DeleteFunc(slices.Clone(th.items), func(item *thing) bool {
		return slices.Contains(out, item) || slices.Contains(notes, item)
	})
	items = append(items, notes...)
	is := th.now
	is.Size, is.Items = held(items, nil)
	return c.do(client, "POST", "/api/v1/collections/"+th.name+"/items", map[string]any{"add": ids, "remove": remove}, 200, map[*thing]*shown{th: &is}, func([]byte) bool {
		th.items = items
		return true
	})
}

// goBack restores an earlier text of a note.
func (c *client) goBack(client *http.Client, th *thing) bool {
	get := func(path string, into any) bool {
		status, body, err := c.call(client, "GET", path, map[string]string{"X-Api-Key": c.key}, nil)
		if err == nil && (status != 200 || json.Unmarshal(body, into) != nil) {
			c.t.Errorf("%s: %d %s", path, status, body)
		}
		return err == nil && status == 200
	}
	at := "/api/v1/notes/" + th.name + "/versions"
	var list struct{ Data []struct{ ID string } }
	var one struct{ Data struct{ Content string } }
	if !get(at, &list) {
		return false
	}
	if len(list.Data) == 0 {
		return c.patch(client, th)
	}
	at += "/" + list.Data[c.rng.IntN(len(list.Data))].ID
	if !get(at, &one) {
		return false
	}
	is := th.now
	is.Content = one.Data.Content
	return c.do(client, "POST", at+"/restore", nil, 200, map[*thing]*shown{th: &is}, nil)
}

// createEnding makes a shared note that soon has expired.
func (c *client) createEnding(client *http.Client) bool {
	th := c.add("notes")
	th.ends = time.Now().Add(4*time.Second + time.Duration(c.rng.Int64N(int64(8*time.Second)))).Truncate(time.Millisecond)
	is := shown{Title: "title of " + th.name, Content: "ends " + th.name}
	return c.do(client, "POST", "/api/v1/notes", map[string]any{
		"slug": th.name, "title": is.Title, "content": is.Content, "isPublic": true, "expiresAt": th.ends.UTC().Format("2006-01-02T15:04:05.000Z"),
	}, 201, map[*thing]*shown{th: &is}, func([]byte) bool {
		c.load.mu.Lock()
		defer c.load.mu.Unlock()
		c.limited = append(c.limited, th)
		return true
	})
}

type version struct {
	op int
	is string
}

// shown is what an answer says of a record that a client determines.
type shown struct {
	Title, Content string
	Favorite       bool
	Tags           []string
	Sum            string // SHA-256 of a file
	Size           int64  // of a file; of a collection how many things are in it
	Items          string // their slugs
	InTrash        bool
}

func (s shown) String() string {
	if s.InTrash {
		return inTrash
	}
	return fmt.Sprintf(
		"%q %x %v %q %s %d %s", s.Title, sha256.Sum256([]byte(s.Content)), s.Favorite, s.Tags, s.Sum, s.Size, s.Items,
	)
}

const inTrash = "in the trash"

// answer is a record as the server shows it.
type answer struct {
	ID, Slug, Kind                                 string
	Title, Content                                 string
	OriginalURL, Description, OriginalName, SHA256 string
	Size, Views, Clicks, ItemCount                 int64
	IsFavorite, IsPublic                           bool
	Tags                                           []json.RawMessage
	MaxViews                                       *int64
	items                                          string // of a collection
}

func (a *answer) shown() shown {
	s := shown{
		Title: a.Title + a.OriginalURL + a.OriginalName, Content: a.Content + a.Description, Favorite: a.IsFavorite,
		Sum: a.SHA256, Size: a.Size + a.ItemCount, Items: a.items,
	}
	for _, raw := range a.Tags {
		var object struct{ Name string }
		var name string
		if json.Unmarshal(raw, &object) == nil {
			name = object.Name
		} else if json.Unmarshal(raw, &name) != nil {
			name = "no tag: " + string(raw)
		}
		s.Tags = append(s.Tags, name)
	}
	slices.Sort(s.Tags)
	return s
}

// newLoad makes clients. Each has three tags of its own.
func newLoad(t *testing.T, p *place, key string, clients int) *load {
	l := &load{t: t, addr: p.addr, key: key}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for n := range clients {
		l.clients = append(l.clients, &client{
			load: l, name: fmt.Sprintf("c%d", n), rng: rand.New(rand.NewPCG(seed, uint64(n))), things: map[string]*thing{},
		})
	}
	return l
}

// run starts the clients and the visitors; they work until the server goes
// away or stop is called, which waits for them.
func (l *load) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	transport := &http.Transport{MaxIdleConnsPerHost: 32}
	http := &http.Client{Transport: transport, Timeout: patience}
	var work sync.WaitGroup
	l.running.Store(true)
	for _, c := range l.clients {
		work.Go(func() {
			for ctx.Err() == nil && !l.t.Failed() && c.step(http) {
			}
		})
	}
	for n := range 3 {
		rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(n)))
		work.Go(func() {
			for ctx.Err() == nil && !l.t.Failed() && l.visit(http, rng) {
			}
		})
	}
	return func() {
		cancel() // between operations
		work.Wait()
		l.running.Store(false)
		transport.CloseIdleConnections()
	}
}

// contextReader waits until the load has done so much more.
func (l *load) untilDone(more int64) {
	l.t.Helper()
	goal := l.done.Load() + more
	for deadline := time.Now().Add(patience); l.done.Load() < goal && !l.t.Failed(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			l.t.Fatal("the load does not get on")
		}
	}
}

// manyVisitors has a server believe from where a load says that its requests
// come: each from an address of its own, as one visitor may not ask for much
// that is not there, such as what has reached its limit.
var manyVisitors = []string{"KIST_TRUSTED_PROXIES=127.0.0.1"}

var visitors atomic.Uint32

// call makes a request; an error is one of the connection.
func (l *load) call(
	client *http.Client, method, path string, header map[string]string, body []byte,
) (int, []byte, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, "http://"+l.addr+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	n := visitors.Add(1)
	req.Header.Set("X-Forwarded-For", netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}).String())
	for name, value := range header {
		req.Header.Set(name, value)
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && l.cutOff && res.StatusCode == http.StatusServiceUnavailable &&
		bytes.Contains(b, []byte(`"store_unreachable"`)) {
		err = fmt.Errorf("%s", b)
	}
	return res.StatusCode, b, err
}

// do does one operation, which leads the things to new versions.
func (c *client) do(
	client *http.Client, method, path string, body any, want int, changes map[*thing]*shown, happen func([]byte) bool,
) bool {
	header := map[string]string{"X-Api-Key": c.key, "Content-Type": "application/json"}
	var raw []byte
	switch b := body.(type) {
	case nil:
	case *upload:
		raw = b.form.Bytes()
		header["Content-Type"], header["Idempotency-Key"] = b.contentType, b.key
	default:
		raw, _ = json.Marshal(b)
	}
	c.mu.Lock()
	c.started++
	op := c.started
	for th, to := range changes {
		v := version{op: op}
		if to != nil {
			v.is = to.String()
		}
		th.versions = append(th.versions, v)
	}
	applied := func(answer []byte) bool {
		for th, to := range changes {
			if to != nil {
				th.now = *to
			}
		}
		return happen == nil || happen(answer)
	}
	c.happen = func() bool { return applied(nil) }
	c.again = nil
	send := func() (int, []byte, error) { return c.call(client, method, path, header, raw) }
	if header["Idempotency-Key"] != "" {
		c.again = func() bool {
			status, answer, err := c.call(http.DefaultClient, method, path, header, raw)
			if err != nil || status != want {
				c.t.Errorf("%s %s again: %d %s %v", method, path, status, answer, err)
				return false
			}
			return true
		}
	}
	c.mu.Unlock()
	status, answer, err := send()
	if err != nil {
		return false
	}
	for th := range changes { // the server had stalled until the end that it was to set
		if status == http.StatusUnprocessableEntity && !th.ends.IsZero() && time.Now().After(th.ends) {
			return false // as after a broken connection
		}
	}
	if status != want {
		c.t.Errorf("%s %s: %d %s", method, path, status, answer)
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	applied(answer)
	c.acked, c.happen, c.again = op, nil, nil
	c.done.Add(1)
	return true
}

type upload struct {
	form             bytes.Buffer
	contentType, key string
}

// most is how many things a client keeps.
const most = 60

// step does something at random; false if the server has gone away.
func (c *client) step(client *http.Client) bool {
	if len(c.tags) < 3 {
		return c.makeTag(client)
	}
	live := c.live()
	roll := c.rng.IntN(100)
	if len(live) < 5 {
		roll = c.rng.IntN(40)
	} else if len(live) > most {
		roll = 40 + c.rng.IntN(60)
	}
	var th *thing
	if len(live) > 0 {
		th = live[c.rng.IntN(len(live))]
	}
	switch {
	case roll < 18:
		return c.create(client, "notes")
	case roll < 25:
		return c.create(client, "shorten")
	case roll < 36:
		return c.upload(client)
	case roll < 38:
		return c.createLimited(client)
	case roll < 40:
		return c.createEnding(client)
	case roll < 62:
		if th.kind == "notes" && c.rng.IntN(4) == 0 {
			return c.goBack(client, th)
		}
		return c.patch(client, th)
	case roll < 80:
		return c.remove(client, th)
	case roll < 86:
		if trash := c.having(func(th *thing) bool { return th.trashed() && th.id != "" }); len(trash) > 0 {
			return c.emptyOne(client, trash[c.rng.IntN(len(trash))])
		}
		return c.remove(client, th)
	case roll < 90:
		return c.collect(client)
	case roll < 92:
		return c.renameTag(client, c.tags[c.rng.IntN(len(c.tags))])
	case roll < 94:
		return c.mergeTags(client)
	default:
		return c.read(client, th)
	}
}

// live are the records that are there.
func (c *client) live() []*thing {
	return c.having(func(th *thing) bool {
		return th.kind != "tags" && th.limit == 0 && th.ends.IsZero() && th.there()
	})
}

// having are the things for which fn is true, by name.
func (c *client) having(fn func(*thing) bool) (all []*thing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.things)) {
		if th := c.things[name]; fn(th) {
			all = append(all, th)
		}
	}
	return all
}

// latest is the latest version; "" if there is no such thing.
func (th *thing) latest() string {
	if len(th.versions) == 0 {
		return ""
	}
	return th.versions[len(th.versions)-1].is
}

func (th *thing) there() bool   { return th.latest() != "" && !th.trashed() }
func (th *thing) trashed() bool { return th.latest() == inTrash }

// add makes a thing known, before it is.
func (c *client) add(kind string) *thing {
	c.mu.Lock()
	defer c.mu.Unlock()
	th := &thing{kind: kind, name: fmt.Sprintf("%s-%d", c.name, c.started+1)}
	c.things[th.name] = th
	return th
}

// text is of a size that is mostly small.
func (c *client) text() string {
	size := c.rng.IntN(400)
	if c.rng.IntN(12) == 0 {
		size = c.rng.IntN(100_000)
	}
	return strings.Repeat(fmt.Sprintf("%08x ", c.rng.Uint32()), size/9+1)[:size]
}

// someTags are the names of some of its tags, sorted.
func (c *client) someTags() []string {
	var names []string
	for _, tag := range c.tags {
		if c.rng.IntN(3) == 0 {
			names = append(names, tag.now.Title)
		}
	}
	slices.Sort(names)
	return names
}

func (c *client) create(client *http.Client, kind string) bool {
	th := c.add(kind)
	is := shown{Title: "title of " + th.name, Content: c.text(), Tags: c.someTags(), Favorite: c.rng.IntN(4) == 0}
	body := map[string]any{"slug": th.name, "tags": is.Tags, "isFavorite": is.Favorite}
	if kind == "shorten" {
		is.Title, is.Content = "http://example.org/"+th.name, is.Content[:min(len(is.Content), 1000)]
		is.Content = strings.TrimSpace(is.Content)
		body["originalUrl"], body["description"] = is.Title, is.Content
	} else {
		body["title"], body["content"] = is.Title, is.Content
	}
	return c.do(client, "POST", "/api/v1/"+kind, body, 201, map[*thing]*shown{th: &is}, func(b []byte) bool {
		var made struct{ Data answer }
		if b != nil && json.Unmarshal(b, &made) == nil {
			th.id = made.Data.ID
		}
		return true
	})
}

func (c *client) createLimited(client *http.Client) bool {
	th := c.add("notes")
	is := shown{Title: "title of " + th.name, Content: "limited " + th.name}
	th.limit, th.deletes = int64(1+c.rng.IntN(12)), c.rng.IntN(2) == 0
	action := "make_private"
	if th.deletes {
		action = "delete"
	}
	return c.do(client, "POST", "/api/v1/notes", map[string]any{
		"slug": th.name, "title": is.Title, "content": is.Content, "isPublic": true, "maxViews": th.limit, "maxViewsAction": action,
	}, 201, map[*thing]*shown{th: &is}, func([]byte) bool {
		c.load.mu.Lock()
		defer c.load.mu.Unlock()
		c.limited = append(c.limited, th)
		return true
	})
}

func (c *client) upload(client *http.Client) bool {
	content := make([]byte, c.rng.IntN(1<<uint(4+c.rng.IntN(13))))
	for i := range content {
		content[i] = byte(c.rng.Uint32())
	}
	if len(c.bodies) > 0 && c.rng.IntN(6) == 0 { // content that was there before, or is
		content = c.bodies[c.rng.IntN(len(c.bodies))]
	} else {
		c.bodies = append(tail(c.bodies, 50), content)
	}
	return c.uploadContent(client, content)
}

func (c *client) uploadContent(client *http.Client, content []byte) bool {
	th := c.add("files")
	sum := sha256.Sum256(content)
	is := shown{Title: th.name + ".bin", Tags: c.someTags(), Sum: hex.EncodeToString(sum[:]), Size: int64(len(content))}
	th.sum = is.Sum
	up := &upload{key: "upload of " + th.name}
	form := multipart.NewWriter(&up.form)
	up.contentType = form.FormDataContentType()
	part, _ := form.CreateFormFile("file", is.Title)
	_, _ = part.Write(content)
	_ = form.WriteField("slug", th.name)
	if len(is.Tags) > 0 {
		_ = form.WriteField("newTags", strings.Join(is.Tags, ","))
	}
	_ = form.Close()
	return c.do(client, "POST", "/api/v1/upload", up, 201, map[*thing]*shown{th: &is}, nil)
}

func (c *client) patch(client *http.Client, th *thing) bool {
	is := th.now
	is.Favorite = !is.Favorite
	body := map[string]any{"isFavorite": is.Favorite}
	text := fmt.Sprintf("patched by %s %d %s", c.name, c.started+1, strings.TrimSpace(c.text()))
	switch th.kind {
	case "notes":
		is.Content, is.Tags = text, c.someTags()
		body["content"], body["tags"] = is.Content, append([]string{}, is.Tags...)
	default:
		is.Content = strings.TrimSpace(text[:min(len(text), 1000)])
		body["description"] = is.Content
	}
	return c.do(client, "PATCH", "/api/v1/"+th.kind+"/"+th.name, body, 200, map[*thing]*shown{th: &is}, nil)
}

func (c *client) makeTag(client *http.Client) bool {
	th := c.add("tags")
	return c.do(client, "POST", "/api/v1/tags", map[string]any{"name": th.name}, 201, map[*thing]*shown{th: {Title: th.name}}, func(b []byte) bool {
		var made struct{ Data struct{ ID string } }
		if b != nil {
			if err := json.Unmarshal(b, &made); err != nil {
				c.t.Error(err)
			}
			th.id = made.Data.ID
		}
		c.tags = append(c.tags, th)
		return true
	})
}

// retag is what becomes of things when the name of a tag is replaced by
// another one.
func (c *client) retag(from, to string) map[*thing]*shown {
	changes := map[*thing]*shown{}
	for _, th := range c.live() {
		if !slices.Contains(th.now.Tags, from) {
			continue
		}
		is := th.now
		is.Tags = slices.DeleteFunc(slices.Clone(is.Tags), func(t string) bool { return t == from || t == to })
		is.Tags = append(is.Tags, to)
		slices.Sort(is.Tags)
		changes[th] = &is
	}
	return changes
}

func (c *client) renameTag(client *http.Client, tag *thing) bool {
	to := fmt.Sprintf("%s-tag-%d", c.name, c.started+1)
	changes := c.retag(tag.now.Title, to)
	changes[tag] = &shown{Title: to}
	return c.do(client, "PATCH", "/api/v1/tags/"+tag.id, map[string]any{"name": to}, 200, changes, nil)
}

func (c *client) mergeTags(client *http.Client) bool {
	from, into := c.tags[0], c.tags[1]
	changes := c.retag(from.now.Title, into.now.Title)
	changes[from] = nil
	return c.do(client, "POST", "/api/v1/tags/"+from.id+"/merge", map[string]any{"into": into.id}, 200, changes, func([]byte) bool {
		c.tags = c.tags[1:]
		return true
	})
}

// read sees what the client has written.
func (c *client) read(client *http.Client, th *thing) bool {
	if th.kind == "collections" { // an answer lacks its items
		return c.patch(client, th)
	}
	status, body, err := c.call(client, "GET", "/api/v1/"+th.kind+"/"+th.name, map[string]string{"X-Api-Key": c.key}, nil)
	if err != nil {
		return false
	}
	var got struct{ Data answer }
	if status != 200 || json.Unmarshal(body, &got) != nil || got.Data.shown().String() != th.now.String() {
		c.t.Errorf("%s %s: %d %s; wrote %s", th.kind, th.name, status, body, th.now)
		return false
	}
	c.done.Add(1)
	return true
}

// visit reads something that has a limit; false if the server has gone away.
func (l *load) visit(client *http.Client, rng *rand.Rand) bool {
	l.mu.Lock()
	var th *thing
	if n := len(l.limited); n > 0 {
		th = l.limited[n-1-rng.IntN(min(n, 20))]
	}
	l.mu.Unlock()
	if th == nil {
		_, _, err := l.call(client, "GET", "/healthz", nil, nil) // until a client has made one
		return err == nil
	}
	_, err := l.view(client, th)
	return err == nil
}

// view reads something that has a limit, and reports whether it was delivered.
func (l *load) view(client *http.Client, th *thing) (bool, error) {
	th.tried.Add(1)
	began := time.Now()
	status, body, err := l.call(client, "GET", "/x/"+th.name, nil, nil)
	if !th.ends.IsZero() && err == nil {
		if open := status == 200 && string(body) == "ends "+th.name; open && began.After(th.ends.Add(time.Second)) ||
			!open && time.Now().Before(th.ends) {
			l.t.Errorf("%s ends at %s; at %s: %d %s", th.name, th.ends, began, status, body)
		}
		return false, nil
	}
	switch {
	case err != nil:
		return false, err
	case status == 200 && string(body) == "limited "+th.name:
		if got := th.got.Add(1); got > th.limit {
			l.t.Errorf("%s was delivered %d times; its limit is %d", th.name, got, th.limit)
		}
		l.done.Add(1)
		return true, nil
	case status == 404 || status == 410:
		if tried := th.tried.Load(); tried <= th.limit {
			l.t.Errorf("%s was refused after %d tries; its limit is %d", th.name, tried, th.limit)
		}
		return false, nil
	}
	l.t.Errorf("view of %s: %d %s", th.name, status, body)
	return false, nil
}

// A mark is how far the load had got at a moment.
type mark struct {
	acked, started map[*client]int
	got, tried     map[*thing]int64
}

func (l *load) mark() mark {
	m := mark{map[*client]int{}, map[*client]int{}, map[*thing]int64{}, map[*thing]int64{}}
	for _, c := range l.clients {
		c.mu.Lock()
		m.acked[c], m.started[c] = c.acked, c.started
		c.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, th := range l.limited {
		m.got[th], m.tried[th] = th.got.Load(), th.tried.Load()
	}
	return m
}

// An observed store is everything that a server shows.
type observed struct {
	records map[string]answer // by slug
	trash   map[string]answer // by former slug
	tags    map[string]string // names by id
}

// observe reads everything by way of several lists and sums, which must agree.
func (l *load) observe(addr string) *observed {
	l.t.Helper()
	o := &observed{records: map[string]answer{}, trash: map[string]answer{}, tags: map[string]string{}}
	at := &load{t: l.t, addr: addr, key: l.key}
	get := func(path string, into any) {
		l.t.Helper()
		status, body, err := at.call(http.DefaultClient, "GET", "/api/v1/"+path, map[string]string{"X-Api-Key": l.key}, nil)
		if err == nil && status != 200 {
			err = fmt.Errorf("%d %s", status, body)
		}
		if err == nil {
			err = json.Unmarshal(body, into)
		}
		if err != nil {
			l.t.Fatalf("%s: %v", path, err)
		}
	}
	list := func(path string) (slugs []string, records []answer) {
		l.t.Helper()
		for cursor := ""; ; {
			var page struct {
				Data       []answer
				Total      int
				NextCursor *string
			}
			get(path+"&limit=500&cursor="+cursor, &page)
			for _, r := range page.Data {
				slugs, records = append(slugs, r.Slug), append(records, r)
			}
			if page.NextCursor == nil {
				if page.Total != len(slugs) {
					l.t.Errorf("%s has a total of %d and %d records", path, page.Total, len(slugs))
				}
				slices.Sort(slugs)
				return slugs, records
			}
			cursor = *page.NextCursor
		}
	}
	count := map[string]int{}
	var size int64
	for _, kind := range []string{"notes", "shorten", "files", "collections"} {
		slugs, records := list(kind + "?sort=newest")
		for _, order := range []string{"updated", "title", "views"} {
			if others, _ := list(kind + "?brief=true&sort=" + order); !slices.Equal(slugs, others) {
				l.t.Errorf("%s sorted by %s has other records: %d and %d", kind, order, len(slugs), len(others))
			}
		}
		favorites := 0
		for _, r := range records {
			if kind == "collections" {
				var page struct{ Data []answer }
				get("collections/"+r.Slug+"/items?limit=500", &page)
				var names []string
				for _, item := range page.Data {
					names = append(names, item.Slug)
				}
				slices.Sort(names)
				r.items = strings.Join(names, " ")
			}
			o.records[r.Slug] = r
			for _, tag := range r.shown().Tags {
				count[tag]++
			}
			size += r.Size
			if r.IsFavorite {
				favorites++
			}
		}
		if some, _ := list(kind + "?brief=true&favorite=true"); len(some) != favorites {
			l.t.Errorf("%d of %s are favourites, the list has %d", favorites, kind, len(some))
		}
	}
	_, trash := list("trash?")
	for _, r := range trash {
		o.trash[r.Slug] = r
	}
	var tags []struct {
		ID, Name string
		Count    int
	}
	get("tags", &tags)
	for _, tag := range tags {
		o.tags[tag.ID] = tag.Name
		if tag.Count != count[tag.Name] {
			l.t.Errorf("the tag %s has %d records by its count and %d by their word", tag.Name, tag.Count, count[tag.Name])
		}
		delete(count, tag.Name)
	}
	if len(count) > 0 {
		l.t.Errorf("records have tags that are not there: %v", count)
	}
	var me struct {
		Data struct{ UsedBytes, TextBytes int64 }
	}
	get("me", &me)
	if me.Data.UsedBytes-me.Data.TextBytes != size {
		l.t.Errorf(
			"%d bytes are used by the sum without %d of text, and %d by the files", me.Data.UsedBytes-me.Data.TextBytes,
			me.Data.TextBytes, size,
		)
	}
	return o
}

// check compares what a store shows with the history: it must be a moment of
// it, not before from and not after to. It returns which one, by client.
func (l *load) check(o *observed, from, to mark) map[*client]int {
	l.t.Helper()
	moments := map[*client]int{}
	known := map[string]bool{}
	for _, c := range l.clients {
		moments[c] = c.match(o, from, to)
		c.mu.Lock()
		for name := range c.things {
			known[name] = true
		}
		c.mu.Unlock()
	}
	for _, all := range []map[string]answer{o.records, o.trash} {
		for slug := range all {
			if !known[slug] {
				l.t.Errorf("there is a record that nobody has made: %s", slug)
			}
		}
	}
	return moments
}

func (c *client) match(o *observed, from, to mark) int {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	lo, hi := from.acked[c], to.started[c]
	fits := make([]bool, hi-lo+1)
	for i := range fits {
		fits[i] = true
	}
	for _, name := range slices.Sorted(maps.Keys(c.things)) {
		th := c.things[name]
		is := ""
		r, there := o.records[name]
		deleted, trashed := o.trash[name]
		switch {
		case th.kind == "tags":
			is = th.find(o.tags)
		case there && trashed:
			is = "there and in the trash"
		case there:
			is, th.id = r.shown().String(), r.ID
		case trashed:
			is, th.id = inTrash, deleted.ID
		}
		if th.limit > 0 {
			switch used, spent := r.Views, to.tried[th] >= th.limit; {
			case !there && th.deletes && spent: // by its last view
				continue
			case there && (used < from.got[th] || used > max(to.tried[th], from.tried[th]) || used > th.limit):
				c.t.Errorf(
					"%s has %d views of %d; %d were delivered and %d begun", name, used, th.limit, from.got[th], to.tried[th],
				)
			case there && r.IsPublic != (used < th.limit), there && th.deletes && used >= th.limit:
				c.t.Errorf("%s has %d views of %d, and is there and public: %v", name, used, th.limit, r.IsPublic)
			}
		}
		some := false
		was := version{}
		var next []version
		for _, v := range th.versions {
			if v.op <= lo {
				was = v
			} else {
				next = append(next, v)
			}
		}
		for i := range fits {
			for len(next) > 0 && next[0].op <= lo+i {
				was, next = next[0], next[1:]
			}
			ok := was.is == is
			some = some || ok
			fits[i] = fits[i] && ok
		}
		if !some {
			c.t.Errorf(
				"%s %s is %q; it never was that from operation %d to %d: %+v", th.kind, name, is, lo, hi, tail(th.versions, 4),
			)
			return hi
		}
	}
	for i := len(fits) - 1; i >= 0; i-- {
		if fits[i] {
			return lo + i
		}
	}
	c.t.Errorf("what %s has made is of no one moment from operation %d to %d", c.name, lo, hi)
	return hi
}

func tail[T any](s []T, n int) []T { return s[max(0, len(s)-n):] }

// find is the version of a tag that is there. Its id is learnt if its maker
// had no answer.
func (th *thing) find(names map[string]string) string {
	for id, name := range names {
		if id == th.id || th.id == "" && name == th.name {
			th.id = id
			return shown{Title: name}.String()
		}
	}
	return ""
}

// resolve settles what was under way when the server went away by what it
// shows now. An upload that may not have happened is repeated with its key:
// after that it has happened, once.
func (l *load) resolve(o *observed) {
	l.t.Helper()
	all := l.mark()
	moments := l.check(o, all, all)
	for _, c := range l.clients {
		c.mu.Lock()
		if c.acked < c.started {
			happened := moments[c] == c.started
			if c.again != nil {
				happened = c.again()
			}
			if happened {
				c.happen()
			} else {
				for _, th := range c.things {
					th.versions = slices.DeleteFunc(th.versions, func(v version) bool { return v.op == c.started })
				}
			}
			c.acked, c.happen, c.again = c.started, nil, nil
		}
		c.mu.Unlock()
	}
}

// forget drops what is of no use to those who look from now on, given what is
// there now.
func (l *load) forget(o *observed) {
	gone := func(th *thing) bool {
		_, there := o.records[th.name]
		return th.limit > 0 && !there
	}
	for _, c := range l.clients {
		c.mu.Lock()
		for name, th := range c.things {
			if th.latest() == "" || gone(th) {
				delete(c.things, name)
			} else {
				th.versions = tail(th.versions, 1)
			}
		}
		c.mu.Unlock()
	}
	l.mu.Lock()
	l.limited = slices.DeleteFunc(l.limited, gone)
	l.mu.Unlock()
}

// content reads the bytes of all files that the store shows. One that an
// operation after from has made may have none, if that is allowed.
func (l *load) content(addr string, o *observed, from mark, lacking bool) (lack int) {
	l.t.Helper()
	at := &load{t: l.t, addr: addr, key: l.key}
	for _, c := range l.clients {
		for name, th := range c.things {
			if _, there := o.records[name]; !there || th.kind != "files" {
				continue
			}
			status, body, err := at.call(http.DefaultClient, "GET", "/x/"+name, map[string]string{"X-Api-Key": l.key}, nil)
			sum := sha256.Sum256(body)
			switch {
			case err != nil:
				l.t.Fatal(err)
			case status == 200 && hex.EncodeToString(sum[:]) == th.sum:
			case status == 404 && lacking && th.versions[0].op > from.acked[c]:
				lack++
			default:
				l.t.Errorf("the bytes of %s: %d, %d bytes with sum %x in place of %s", name, status, len(body), sum, th.sum)
			}
		}
	}
	return lack
}

// drain views everything that has a limit until it is refused.
func (l *load) drain() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, th := range l.limited {
		for more := true; more && !l.t.Failed(); {
			var err error
			more, err = l.view(http.DefaultClient, th)
			if err != nil {
				l.t.Fatal(err)
			}
		}
	}
}
