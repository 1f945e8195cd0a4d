package webhook

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/uuid"
	"github.com/matryer/is"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"kist/httpapi/outbound"
	"kist/kv/field"
	"kist/kv/jobs"
	"kist/kv/record"
)

func allowing(t testing.TB) *outbound.Client {
	t.Helper()
	var x outbound.Allowed
	if err := x.UnmarshalText([]byte("127.0.0.0/8")); err != nil {
		t.Fatal(err)
	}
	return outbound.New(outbound.Options{Allow: []outbound.Allowed{x}})
}

// got is a request as a receiver sees it.
type got struct {
	header http.Header
	body   []byte
}

// receive starts a receiver that answers by h and hands over what it got.
func receive(t testing.TB, h http.HandlerFunc) (url string, requests chan got) {
	t.Helper()
	requests = make(chan got, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		requests <- got{r.Header, body}
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, requests
}

var theEvent = Message{
	ID: uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057"), Event: "webhook.test", At: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC),
	Notice: &jobs.Notice{Title: "Test", Data: json.RawMessage(`{"webhook":"x"}`)},
}

func tryOnce(t testing.TB, h *jobs.Webhook) jobs.Try {
	t.Helper()
	return newSender(nil, allowing(t), "https://kist.example.org", quiet).try(t.Context(), h, theEvent)
}

// What is sent verifies with the library of the standard, by both secrets
// while one takes over from the other; and not when it is changed.
func TestSignatures(t *testing.T) {
	is := is.New(t)
	url, requests := receive(t, accept)
	former := "whsec_" + base64.StdEncoding.EncodeToString([]byte("twenty-four bytes, former"))
	for _, f := range jobs.Formats {
		h := &jobs.Webhook{URL: url + "/topic", Format: f, Secret: former}
		h.SetSecret("any text will do", time.Now())
		is.Equal(tryOnce(t, h).Error, "")
		r := <-requests
		is.Equal(r.header.Get("Content-Type"), "application/json")
		is.Equal(r.header.Get("X-Kist-Event"), "webhook.test")
		is.Equal(r.header.Get("webhook-id"), theEvent.ID.String())
		old, err := standardwebhooks.NewWebhook(former)
		is.NoErr(err)
		present, err := standardwebhooks.NewWebhookRaw([]byte("any text will do"))
		is.NoErr(err)
		is.NoErr(old.Verify(r.body, r.header))
		is.NoErr(present.Verify(r.body, r.header))
		is.True(present.Verify(append(r.body, ' '), r.header) != nil)
		other, err := standardwebhooks.NewWebhookRaw([]byte("another"))
		is.NoErr(err)
		is.True(other.Verify(r.body, r.header) != nil)

		h.FormerEnds = time.Now()
		is.Equal(tryOnce(t, h).Error, "")
		r = <-requests
		is.NoErr(present.Verify(r.body, r.header))
		is.True(old.Verify(r.body, r.header) != nil)

		h.SetSecret("", time.Now())
		is.Equal(tryOnce(t, h).Error, "")
		r = <-requests
		is.Equal(r.header.Get("webhook-signature")+r.header.Get("x-kist-signature"), "")
	}
}

// A secret that is base64 without whsec_ verifies with the libraries, which
// decode it, and as the text that it is.
func TestSignaturesByBase64(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	url, requests := receive(t, accept)
	secret := base64.StdEncoding.EncodeToString([]byte("twenty-four bytes or more"))
	is.Equal(tryOnce(t, &jobs.Webhook{URL: url, Format: jobs.FormatJSON, Secret: secret}).Error, "")
	r := <-requests
	decoded, err := standardwebhooks.NewWebhook(secret)
	is.NoErr(err)
	is.NoErr(decoded.Verify(r.body, r.header))
	plain, err := standardwebhooks.NewWebhookRaw([]byte(secret))
	is.NoErr(err)
	is.NoErr(plain.Verify(r.body, r.header))
}

// The simple header is what openssl dgst -sha256 -hmac SECRET computes from the body.
func TestSimpleSignature(t *testing.T) {
	is := is.New(t)
	h := http.Header{}
	sign(h, []string{"key"}, []byte("The quick brown fox jumps over the lazy dog"))
	is.Equal(h.Get("X-Kist-Signature"), "sha256=f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8")
}

// Whatever a target answers, or does not, is a sentence in the log, in
// bounded time and memory.
func TestAnswers(t *testing.T) {
	is := is.New(t)
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	flood := func(w http.ResponseWriter, r *http.Request, piece []byte) {
		for {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}
	for name, c := range map[string]struct {
		h      http.HandlerFunc
		status int
		want   string // of the sentence
		answer string
	}{
		"fine": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "ok\x00\n\x1b[31m"+strings.Repeat("é", 500))
		}, 200, "", "ok [31m" + strings.Repeat("é", 123)},
		"empty": {accept, 204, "", ""},
		"fails": {refuse, 500, "The target answered 500 Internal Server Error.", ""},
		"unknown": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(599)
		}, 599, "The target answered 599.", ""},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/", http.StatusFound)
		}, 302, "The target answered with a redirect (302), which is not followed.", ""},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			flood(w, r, []byte(strings.Repeat("a", 4096)))
		}, 200, "", strings.Repeat("a", 256)},
		"bomb": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 100 {
				_, _ = z.Write(make([]byte, 1<<16))
			}
			_ = z.Close()
		}, 200, "", "?"},
		"long head": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("a", 1<<20))
		}, 0, "The target cannot be reached: ", ""},
		"drops": {func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}, 0, "The target closed the connection without an answer.", ""},
		"drops later": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, "begin")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, 200, "", "begin"},
		"no http": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				fmt.Fprint(conn, "SSH-2.0-OpenSSH\r\n\r\n")
				conn.Close()
			}
		}, 0, "The target cannot be reached: ", ""},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			url, _ := receive(t, c.h)
			got := tryOnce(t, &jobs.Webhook{URL: url + "/token-in-path"})
			is.Equal(got.Status, c.status)
			is.True(strings.HasPrefix(got.Error, c.want) && (got.Error == "") == (c.want == ""))
			is.True(!strings.Contains(got.Error, "token-in-path"))
			if c.answer != "?" {
				is.Equal(got.Answer, c.answer)
			}
			is.True(len(got.Answer) <= maxShown && got.Took < TryTime)
		})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	is.NoErr(err)
	is.NoErr(l.Close())
	is.Equal(
		tryOnce(t, &jobs.Webhook{URL: "http://" + l.Addr().String()}).Error,
		"The target refuses the connection: nothing listens there.",
	)
	closed := outbound.New(outbound.Options{Lookup: nil})
	got := newSender(nil, closed, "", quiet).try(
		t.Context(), &jobs.Webhook{URL: "http://" + netip.MustParseAddr("127.0.0.1").String() + "/"}, theEvent,
	)
	is.True(strings.Contains(got.Error, "--allow-outbound"))
}

func TestRetryAfterIsHeard(t *testing.T) {
	is := is.New(t)
	url, _ := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "17")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	is.Equal(tryOnce(t, &jobs.Webhook{URL: url}).Wait, 17*time.Second)
}

func noticeOf(t testing.TB, k *record.Kind, text string) *jobs.Notice {
	t.Helper()
	b := k.New()
	in, err := field.Parse([]byte(text))
	if err == nil {
		err = field.Create(b, in)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := record.Record{ID: theEvent.ID, Owner: theEvent.ID, Kind: k, Created: theEvent.At, Updated: theEvent.At}
	r.Slug = "summer-24"
	r.SetBody(b)
	n := jobs.NoticeOf(&record.Shown{Record: r, Views: 9, Used: 3, TagList: []record.Tag{{Name: "a"}, {Name: "[b](http://evil)"}}})
	return &n
}

func TestJSONBody(t *testing.T) {
	is := is.New(t)
	m := theEvent
	body, err := m.Body(jobs.FormatJSON, "", "https://kist.example.org")
	is.NoErr(err)
	is.Equal(
		string(body),
		`{"id":"01890a5d-ac96-774b-bcce-b302099a8057","event":"webhook.test","createdAt":"2026-01-02T03:04:05.006Z","data":{"webhook":"x"}}`,
	)
	m.Event, m.Notice = "note.created", noticeOf(t, record.Notes, `{"title":"T","content":"c"}`)
	body, err = m.Body(jobs.FormatJSON, "", "https://kist.example.org")
	is.NoErr(err)
	var v struct {
		ID, Event, CreatedAt string
		Data                 struct {
			ID, Kind, Title, Content, URL string
			Tags                          []string
			Views                         int
			HasPassword                   bool
			Password                      *string
		}
	}
	is.NoErr(json.Unmarshal(body, &v))
	is.Equal(v.Data.Title+v.Data.Content+v.Data.Kind, "Tcnote")
	is.Equal(v.Data.URL, "https://kist.example.org/v/summer-24")
	is.Equal(len(v.Data.Tags), 2)
	is.Equal(v.Data.Views, 9)
	is.True(v.Data.Password == nil)
	m.Notice = &jobs.Notice{}
	body, err = m.Body(jobs.FormatJSON, "", "")
	is.NoErr(err)
	is.True(json.Valid(body))
}

func units(t string) int { return len(utf16.Encode([]rune(t))) }

// A message to Discord keeps to its limits and mentions nobody, whatever names
// say.
// TestSays: each event has its words, and only what came into being is new.
func TestSays(t *testing.T) {
	is := is.New(t)
	created := map[jobs.Event]bool{}
	for _, k := range record.Kinds {
		created[jobs.Created(k)] = true
	}
	for _, e := range jobs.Events() {
		words, _ := eventWords(e)
		is.Equal(strings.HasPrefix(words, "A new "), created[e])
	}
	words, color := eventWords(jobs.PageGone)
	is.Equal(words, "Its page can no longer be reached.")
	_, reached := eventWords(jobs.LimitReached)
	is.Equal(color, reached)
}

func TestDiscordBody(t *testing.T) {
	is := is.New(t)
	long := strings.Repeat("@everyone [x](http://evil) **b** \U0001F600", 12)
	for _, k := range record.Kinds {
		texts := map[string]string{
			"title": long, "originalName": "@everyone [x](http:evil).txt", "description": long,
			"url":         "https://example.org/" + strings.Repeat("a", 8000),
			"originalUrl": "https://example.org/" + strings.Repeat("a", 8000), "content": long, "platform": long,
		}
		in, err := json.Marshal(texts)
		is.NoErr(err)
		for _, e := range []jobs.Event{
			jobs.Created(k), jobs.Edited(k), jobs.Removed(k), jobs.LimitReached, jobs.ItemExpired,
		} {
			m := theEvent
			m.Event, m.Notice = e, noticeOf(t, k, string(in))
			m.Notice.Folder = long
			for range 64 {
				m.Notice.Tags = append(m.Notice.Tags, record.Tag{Name: strings.Repeat("\U0001F600", 64)})
			}
			body, err := m.Body(jobs.FormatDiscord, "", "https://kist.example.org")
			is.NoErr(err)
			var v struct {
				Content  *string
				Mentions *struct{ Parse *[]string } `json:"allowed_mentions"`
				Embeds   []discordEmbed
			}
			is.NoErr(json.Unmarshal(body, &v))
			is.True(v.Content == nil && v.Mentions != nil && v.Mentions.Parse != nil && len(*v.Mentions.Parse) == 0)
			is.Equal(len(v.Embeds), 1)
			d := v.Embeds[0]
			sum := units(d.Title) + units(d.Description) + units(d.Footer.Text)
			is.True(d.Title != "" && units(d.Title) <= 256 && units(d.Description) <= 4096 && len(d.Fields) <= 25)
			for _, f := range d.Fields {
				is.True(f.Name != "" && f.Value != "" && units(f.Name) <= 256 && units(f.Value) <= 1024)
				sum += units(f.Name) + units(f.Value)
				is.True(!strings.Contains(strings.ReplaceAll(f.Value, `\(`, ""), "("))
			}
			is.True(sum <= 6000)
			is.Equal(d.Timestamp, "2026-01-02T03:04:05.006Z")
			is.True(strings.HasSuffix(d.URL, "/summer-24") || d.URL == "")
			is.True(!strings.Contains(d.Title, "[x]("))
		}
	}
	m := theEvent // not of a record, on a server without a public name
	m.Notice = &jobs.Notice{Title: "a\nb", Path: "/upload-requests"}
	body, err := m.Body(jobs.FormatDiscord, "", "http://localhost:7080")
	is.NoErr(err)
	is.True(strings.Contains(string(body), `"title":"a b"`) && !strings.Contains(string(body), "localhost"))
}

// A message to Discord says of an item what people want to know: what it is,
// whether others see it, where it is filed, and views only if they are limited.
func TestDiscordFields(t *testing.T) {
	t.Parallel()
	none := func(*record.Shown) {}
	for name, c := range map[string]struct {
		kind   *record.Kind
		text   string
		set    func(*record.Shown)
		base   string
		title  string
		url    string
		fields string
	}{
		"a note": {
			record.Notes, `{"title":"T","content":"c"}`, none, "https://kist.example.org", "T",
			"https://kist.example.org/v/summer-24", "Public=no Tags=a, \\[b\\]\\(http\\://evil\\)",
		},
		"without a title": {record.Notes, `{"content":"The code is 4711"}`, func(v *record.Shown) {
			v.TagList = nil
		}, "https://kist.example.org", "Untitled note", "https://kist.example.org/v/summer-24", "Public=no"},
		"empty": {record.Notes, `{"content":" "}`, func(v *record.Shown) {
			v.TagList = nil
		}, "https://kist.example.org", "Untitled note", "https://kist.example.org/v/summer-24", "Public=no"},
		"public, with a limit": {record.Notes, `{"title":"T","content":"c"}`, func(v *record.Shown) {
			v.Public, v.Limit, v.TagList = true, 5, nil
		}, "https://kist.example.org", "T", "https://kist.example.org/v/summer-24", "Public=yes Views=3 of 5"},
		"a limit of one": {record.Notes, `{"title":"T","content":"c"}`, func(v *record.Shown) {
			v.Limit, v.TagList = 1, nil
		}, "https://kist.example.org", "T", "https://kist.example.org/v/summer-24", "Public=no Views=3 of 1"},
		"in a folder": {record.Notes, `{"title":"T","content":"c"}`, func(v *record.Shown) {
			v.FolderName, v.TagList = "Trips", nil
		}, "https://kist.example.org", "T", "https://kist.example.org/v/summer-24", "Public=no Folder=Trips"},
		"a bookmark": {record.Bookmarks, `{"title":"T","url":"https://example.org/a"}`, func(v *record.Shown) {
			v.TagList = nil
		}, "https://kist.example.org", "T", "https://kist.example.org/v/summer-24", "Public=no"},
		"a public bookmark": {record.Bookmarks, `{"url":"https://example.org/a"}`, func(v *record.Shown) {
			v.Public, v.TagList = true, nil
		}, "https://kist.example.org", "Untitled bookmark", "https://kist.example.org/v/summer-24", "Page=https\\://example.org/a Public=yes"},
		"a short link": {record.Links, `{"title":"T","originalUrl":"https://example.org/a"}`, func(v *record.Shown) {
			v.TagList = nil
		}, "https://kist.example.org", "Untitled short link", "https://kist.example.org/s/summer-24", "Public=no"},
		"a public link": {record.Links, `{"description":"T","originalUrl":"https://example.org/a"}`, func(v *record.Shown) {
			v.Public, v.TagList = true, nil
		}, "https://kist.example.org", "T", "https://kist.example.org/s/summer-24", "Leads to=https\\://example.org/a Public=yes"},
		"a locked link": {record.Links, `{"description":"T","originalUrl":"https://example.org/a"}`, func(v *record.Shown) {
			v.Public, v.Password, v.TagList = true, "x", nil
		}, "https://kist.example.org", "T", "https://kist.example.org/s/summer-24", "Public=yes"},
		"a game": {record.Games, `{"title":"T","status":"playing"}`, func(v *record.Shown) {
			v.TagList = nil
		}, "https://kist.example.org", "T", "https://kist.example.org/v/summer-24", "Status=playing Public=no"},
		"an address of no host": {record.Notes, `{"title":"T","content":"c"}`, func(v *record.Shown) {
			v.TagList = nil
		}, "http://localhost", "T", "", "Public=no"},
		"a plain address": {record.Notes, `{"title":"T","content":"c"}`, func(v *record.Shown) {
			v.TagList = nil
		}, "http://kist.example.org", "T", "http://kist.example.org/v/summer-24", "Public=no"},
		"a very long title": {record.Notes, `{"title":"` + strings.Repeat("é", 255) + `","content":"c"}`, func(v *record.Shown) {
			v.TagList = nil
		}, "http://localhost", strings.Repeat("é", 255), "", "Public=no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			m := theEvent
			m.Event, m.Notice = jobs.Created(c.kind), noticeOf(t, c.kind, c.text)
			v, err := m.Notice.Shown()
			is.NoErr(err)
			c.set(v)
			n := jobs.NoticeOf(v)
			m.Notice = &n
			body, err := m.Body(jobs.FormatDiscord, "", c.base)
			is.NoErr(err)
			var got struct{ Embeds []discordEmbed }
			is.NoErr(json.Unmarshal(body, &got))
			var fields []string
			for _, f := range got.Embeds[0].Fields {
				fields = append(fields, f.Name+"="+f.Value)
			}
			is.Equal(strings.Join(fields, " "), c.fields)
			is.Equal(got.Embeds[0].Title, c.title)
			is.Equal(got.Embeds[0].URL, c.url)
		})
	}
}

// A text that is cut says so, and one that just fits is not cut.
func TestEscape(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                   "",
		"abcdefghi":          "abcdefghi",
		"abcdefghij":         "abcdefghi…",
		"abcdefghijkl":       "abcdefghi…",
		"a\tb\x7fc":          "a b c",
		"12345678*":          "12345678…",
		"1234567*":           `1234567\*`,
		"1234567\U0001F600":  "1234567\U0001F600",
		"12345678\U0001F600": "12345678…",
	} {
		is.New(t).Equal(escape(text, 10), want)
	}
}

func FuzzEscape(f *testing.F) {
	for _, seed := range []string{
		"", "plain", "@everyone", "[x](http://evil)", "\U0001F600\U0001F600", "\xff\x00", strings.Repeat("*", 300),
		"a\u202eb",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := escape(text, 20)
		if units(got) > 20 {
			t.Errorf("%q is %d long", got, units(got))
		}
		bare := strings.ReplaceAll(got, `\\`, "")
		for _, c := range "*_~`|<>[]()#@" {
			if strings.Contains(strings.ReplaceAll(bare, `\`+string(c), ""), string(c)) {
				t.Errorf("%q has a bare %c", got, c)
			}
		}
	})
}
