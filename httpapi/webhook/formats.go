package webhook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"kist/kv/jobs"
	"kist/kv/record"
)

// A summary is what people want to know about an event. Its texts are as their authors wrote them.
type summary struct {
	title, words string
	address      string // "" if other services would refuse it
	color        int
	serious      bool // someone may have to do something
	facts        []fact
}

type fact struct {
	name, value string
	inline      bool
}

// summary makes the summary. v is nil if the notice is not about a record.
func (m *Message) summary(v *record.Shown, base string) (summary, error) {
	s := summary{title: m.Notice.Title}
	s.words, s.color = eventWords(m.Event)
	s.serious = s.color == badColor && !strings.HasSuffix(string(m.Event), ".deleted")
	if m.Notice.Path != "" {
		s.address = base + m.Notice.Path
	}
	if v != nil {
		b, err := v.Decode()
		if err != nil {
			return s, err
		}
		s.title = cmp.Or(b.Named(), "Untitled "+v.Kind.View().One)
		if err := json.Unmarshal(v.AppendURL(nil), &s.address); err != nil {
			return s, fmt.Errorf("address: %w", err)
		}
		s.facts = factsOf(v, b)
	}
	if !linkable(s.address) {
		s.address = ""
	}
	return s, nil
}

// linkable reports whether other services accept an address in a message. Discord refuses whole messages because of hosts
// like localhost.
func linkable(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.Contains(u.Hostname(), ".") &&
		len(address) <= 2000
}

func factsOf(v *record.Shown, b record.Body) []fact {
	var all []fact
	add := func(name, value string, inline bool) {
		if strings.TrimSpace(value) != "" {
			all = append(all, fact{name, value, inline})
		}
	}
	switch b := b.(type) {
	case *record.File:
		add("Type", b.MimeType, true)
		add("Size", strconv.FormatInt(b.Size, 10)+" bytes", true)
	case *record.Bookmark:
		if v.OpenToAll() {
			add("Page", b.URL, false)
		}
	case *record.Link:
		if v.OpenToAll() {
			add("Leads to", b.URL, false)
		}
	case *record.Game:
		add("Status", string(b.Status), true)
	}
	public := "no"
	if v.Public {
		public = "yes"
	}
	add("Public", public, true)
	if v.Limit > 0 {
		add("Views", fmt.Sprintf("%d of %d", v.Used, v.Limit), true)
	}
	add("Folder", v.FolderName, true)
	var tags []string
	for _, t := range v.TagList {
		tags = append(tags, t.Name)
	}
	add("Tags", strings.Join(tags, ", "), false)
	return all
}

// text is the words and the facts, one on a line.
func (s *summary) text() string {
	lines := []string{s.words}
	for _, f := range s.facts {
		lines = append(lines, f.name+": "+clip(f.value, maxFact, utf8.RuneLen))
	}
	return strings.Join(lines, "\n")
}

// Limits of what is sent, in bytes. ntfy takes a message of 4096 bytes, and a JSON body of twice as many; JSON may
// double each byte. Gotify has no limits.
const (
	maxPushTitle = 250
	maxPushText  = 2500
	maxFact      = 500
)

// clip makes one line of a text, of at most limit, by the size of its characters. Control characters become spaces.
func clip(t string, limit int, size func(rune) int) string {
	n, keep := 0, 0 // keep is where the text is cut if it is too long
	for i, r := range t {
		if n+size('…') <= limit {
			keep = i
		}
		n += max(size(r), 1)
		if n > limit {
			t = t[:keep] + "…"
			break
		}
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(t, "\ufffd"))
}

// pushText cuts a text to maxPushText bytes.
func pushText(t string) string {
	for len(t) > maxPushText {
		_, size := utf8.DecodeLastRuneInString(t)
		t = t[:len(t)-size]
	}
	return t
}

// plainJSON is json.Marshal without escapes for HTML.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// topics is the form of ntfy's topics.
var topics = regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`)

// CheckAddress says what an address needs for a format.
func CheckAddress(f jobs.Format, address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil: // other rules say so
	case f == jobs.FormatNtfy && !topics.MatchString(strings.TrimPrefix(u.Path, "/")):
		return errors.New("must be that of an ntfy topic: the server, / and the topic")
	case f == jobs.FormatGotify && (path.Base(u.Path) != "message" || u.Query().Get("token") == ""):
		return errors.New("must end with /message?token= and the token of a Gotify application")
	}
	return nil
}

// target is where a message goes. ntfy takes JSON at its root.
func target(f jobs.Format, address string) string {
	u, err := url.Parse(address)
	if err != nil || f != jobs.FormatNtfy {
		return address
	}
	u.Path, u.RawPath = "/", ""
	return u.String()
}

// ntfy is the body for an ntfy server (publish as JSON).
func (s *summary) ntfy(address string) ([]byte, error) {
	v := struct {
		Topic    string   `json:"topic"`
		Title    string   `json:"title"`
		Message  string   `json:"message"`
		Priority int      `json:"priority"`
		Tags     []string `json:"tags,omitempty"`
		Click    string   `json:"click,omitempty"`
	}{"", clip(s.title, maxPushTitle, utf8.RuneLen), pushText(s.text()), 3, nil, s.address}
	if u, err := url.Parse(address); err == nil { // it was checked when the webhook was saved
		v.Topic = strings.TrimPrefix(u.Path, "/")
	}
	if s.serious {
		v.Priority, v.Tags = 4, []string{"warning"}
	}
	return plainJSON(v)
}

// gotify is the body for a Gotify server.
func (s *summary) gotify() ([]byte, error) {
	type object map[string]any
	extras := object{"client::display": object{"contentType": "text/plain"}}
	if s.address != "" {
		extras["client::notification"] = object{"click": object{"url": s.address}}
	}
	priority := 5
	if s.serious {
		priority = 8
	}
	return plainJSON(object{
		"title": clip(s.title, maxPushTitle, utf8.RuneLen), "message": pushText(s.text()), "priority": priority, "extras": extras,
	})
}

// slackText is a text that Slack shows literally: plain_text knows neither formatting nor mentions.
type slackText struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Emoji    *bool  `json:"emoji,omitempty"`
	Verbatim bool   `json:"verbatim,omitempty"`
}

func literal(t string, limit int) slackText {
	return slackText{Type: "plain_text", Text: clip(t, limit, utf16.RuneLen), Emoji: new(bool)}
}

type slackBlock struct {
	Type     string      `json:"type"`
	Text     *slackText  `json:"text,omitempty"`
	Fields   []slackText `json:"fields,omitempty"`
	Elements []slackText `json:"elements,omitempty"`
}

// Limits of Slack's blocks, in characters. A section takes ten fields, of up to 2000.
const (
	maxHeader = 150
	maxFields = 10
)

var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slack is the body for an incoming webhook of Slack. Programs that take such messages but know no blocks show the text.
func (s *summary) slack(event jobs.Event) ([]byte, error) {
	words, title := s.words, literal(s.title, maxHeader)
	said := slackEscapes.Replace(title.Text + ": " + words)
	if s.address != "" {
		link := slackEscapes.Replace(strings.ReplaceAll(s.address, "|", "%7C"))
		words += " <" + link + "|Open>"
		said += " " + link
	}
	section := slackBlock{Type: "section", Text: &slackText{Type: "mrkdwn", Text: words, Verbatim: true}}
	for _, f := range s.facts[:min(len(s.facts), maxFields)] {
		t := literal(f.value, maxFact)
		t.Text = f.name + "\n" + t.Text
		section.Fields = append(section.Fields, t)
	}
	return plainJSON(struct {
		Text     string       `json:"text"`
		Markdown bool         `json:"mrkdwn"`
		Unfurl   bool         `json:"unfurl_links"`
		Blocks   []slackBlock `json:"blocks"`
	}{said, false, false, []slackBlock{
		{Type: "header", Text: &title}, section, {Type: "context", Elements: []slackText{literal(string(event), maxHeader)}},
	}})
}
