package webhook

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/matryer/is"

	"kist/kv/jobs"
	"kist/kv/record"
)

// strict reads JSON that has only the members of v.
func strict(t *testing.T, body []byte, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
}

// nasty are messages about every kind and event, with names that are long and mean something to the services.
func nasty(t *testing.T, each func(m Message)) {
	t.Helper()
	long := strings.Repeat("<!channel> @everyone [x](http://evil) \"*b*\" <http://evil|good> \U0001F600\t", 6)
	for _, k := range record.Kinds {
		in, err := json.Marshal(map[string]string{
			"title": long, "originalName": "<!here> & \"co\".txt", "description": long, "url": "https://example.org/" + strings.Repeat("a", 8000),
			"originalUrl": "https://example.org/" + strings.Repeat("a", 8000), "content": long, "platform": long,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []jobs.Event{
			jobs.Created(k), jobs.Edited(k), jobs.Removed(k), jobs.LimitReached, jobs.ItemExpired,
		} {
			m := theEvent
			m.Event, m.Notice = e, noticeOf(t, k, string(in))
			m.Notice.Folder = long
			for range 64 {
				m.Notice.Tags = append(m.Notice.Tags, record.Tag{Name: strings.Repeat("\"", 64)})
			}
			each(m)
		}
	}
	m := theEvent // not of a record
	m.Notice = &jobs.Notice{Title: "a\nb", Path: "/upload-requests"}
	each(m)
}

const ours = "https://kist.example.org"

// TestNtfy: ntfy refuses a JSON body of more than 8192 bytes, makes an attachment of a message of more than 4096, and
// takes its topic from the body (docs.ntfy.sh/publish, publish as JSON).
func TestNtfy(t *testing.T) {
	t.Parallel()
	nasty(t, func(m Message) {
		is := is.New(t)
		body, err := m.Body(jobs.FormatNtfy, "https://ntfy.example.org/my_Topic-1?auth=QmFz", ours)
		is.NoErr(err)
		is.True(len(body) <= 8192)
		var v struct {
			Topic, Title, Message, Click string
			Priority                     int
			Tags                         []string
		}
		strict(t, body, &v)
		is.True(regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`).MatchString(v.Topic))
		is.Equal(v.Topic, "my_Topic-1")
		is.True(v.Message != "" && len(v.Message) <= 4096 && utf8.ValidString(v.Message))
		is.True(v.Title != "" && len(v.Title) <= 250 && !strings.ContainsAny(v.Title, "\r\n\t"))
		is.True(v.Priority >= 1 && v.Priority <= 5)
		is.True(strings.HasPrefix(v.Click, ours+"/"))
	})
	is := is.New(t)
	is.Equal(target(jobs.FormatNtfy, "https://ntfy.example.org/topic?auth=QmFz"), "https://ntfy.example.org/?auth=QmFz")
	is.Equal(target(jobs.FormatJSON, "https://example.org/a?b=c"), "https://example.org/a?b=c")
}

// TestGotify: Gotify needs a message, and extras are objects by namespace and name (gotify.net/docs/msgextras).
func TestGotify(t *testing.T) {
	t.Parallel()
	nasty(t, func(m Message) {
		is := is.New(t)
		body, err := m.Body(jobs.FormatGotify, ours, ours)
		is.NoErr(err)
		var v struct {
			Title, Message string
			Priority       int
			Extras         struct {
				Display struct {
					ContentType string
				} `json:"client::display"`
				Notification struct{ Click struct{ URL string } } `json:"client::notification"`
			}
		}
		strict(t, body, &v)
		is.True(v.Title != "" && v.Message != "" && v.Priority >= 0 && v.Priority <= 10)
		is.Equal(v.Extras.Display.ContentType, "text/plain")
		is.True(strings.HasPrefix(v.Extras.Notification.Click.URL, ours+"/"))
	})
}

// TestSlack: at most 50 blocks; a header has 150 characters, the text of a section 3000, and each of its ten fields 2000
// (docs.slack.dev/reference/block-kit/blocks). Nothing that a name contains is a mention or a link.
func TestSlack(t *testing.T) {
	t.Parallel()
	type text struct {
		Type, Text      string
		Emoji, Verbatim bool
	}
	nasty(t, func(m Message) {
		is := is.New(t)
		body, err := m.Body(jobs.FormatSlack, ours, ours)
		is.NoErr(err)
		var v struct {
			Text   string
			Mrkdwn bool
			Unfurl bool `json:"unfurl_links"`
			Blocks []struct {
				Type             string
				Text             *text
				Fields, Elements []text
			}
		}
		strict(t, body, &v)
		is.True(v.Text != "" && units(v.Text) <= 4000 && !v.Mrkdwn)
		is.True(!strings.ContainsAny(v.Text, "<>"))
		is.True(len(v.Blocks) <= 50)
		for _, b := range v.Blocks {
			all := append(b.Fields, b.Elements...)
			if b.Text != nil {
				all = append(all, *b.Text)
			}
			is.True(len(b.Fields) <= 10 && len(b.Elements) <= 10)
			for _, x := range all {
				most := map[string]int{"header": 150, "context": 2000, "section": 2000}[b.Type]
				is.True(x.Text != "" && units(x.Text) <= most)
				if x.Type == "mrkdwn" { // only our own words
					is.True(!strings.Contains(x.Text, "evil") && !strings.Contains(x.Text, "!"))
				} else {
					is.Equal(x.Type, "plain_text")
				}
			}
		}
		is.True(strings.Contains(v.Blocks[1].Text.Text, "<"+ours+"/"))
	})
}

// TestPushTargets: what the services get, over the wire.
func TestPushTargets(t *testing.T) {
	t.Parallel()
	for f, path := range map[jobs.Format]string{
		jobs.FormatNtfy: "/topic?auth=x", jobs.FormatGotify: "/message?token=x", jobs.FormatSlack: "/services/T/B/x",
	} {
		is := is.New(t)
		var asked *url.URL
		at, requests := receive(t, func(w http.ResponseWriter, r *http.Request) { asked = r.URL; accept(w, r) })
		is.Equal(tryOnce(t, &jobs.Webhook{URL: at + path, Format: f}).Error, "")
		body := string((<-requests).body)
		is.Equal(asked.String(), strings.Replace(path, "topic", "", 1))
		is.True(strings.Contains(body, "This is a test. Deliveries arrive."))
	}
}

func TestCheckAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format  jobs.Format
		address string
		ok      bool
	}{
		{jobs.FormatJSON, "https://example.org", true},
		{jobs.FormatSlack, "https://hooks.slack.com/services/T/B/x", true},
		{jobs.FormatNtfy, "https://ntfy.sh/topic", true},
		{jobs.FormatNtfy, "https://ntfy.sh/topic?auth=x", true},
		{jobs.FormatNtfy, "https://ntfy.sh", false},
		{jobs.FormatNtfy, "https://ntfy.sh/", false},
		{jobs.FormatNtfy, "https://ntfy.sh/a/b", false},
		{jobs.FormatNtfy, "https://ntfy.sh/" + strings.Repeat("a", 65), false},
		{jobs.FormatGotify, "https://example.org/message?token=x", true},
		{jobs.FormatGotify, "https://example.org/gotify/message?token=x", true},
		{jobs.FormatGotify, "https://example.org/message", false},
		{jobs.FormatGotify, "https://example.org/?token=x", false},
	} {
		if err := CheckAddress(c.format, c.address); (err == nil) != c.ok {
			t.Errorf("%s %s: %v", c.format, c.address, err)
		}
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "1234567": "1234567", "12345678": "1234…", "a\nb": "a b", "123\U0001F600": "123\U0001F600", "1234\U0001F600": "1234…", "ééé": "ééé", "éééé": "éé…", "a\xff": "a\ufffd",
	} {
		is.New(t).Equal(clip(text, 7, utf8.RuneLen), want)
	}
}
