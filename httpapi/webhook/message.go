package webhook

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"kist/kv/field"
	"kist/kv/record"
)

// A Message is an event for a webhook.
type Message struct {
	ID     record.ID // the same at each attempt
	Event  record.Event
	At     time.Time // of the event
	Notice *record.Notice
}

// Body is the message in a format. base is the absolute address of the server.
func (m *Message) Body(f record.Format, base string) ([]byte, error) {
	var v *record.Shown
	if m.Notice.Row != nil {
		var err error
		if v, err = m.Notice.Shown(); err != nil {
			return nil, err
		}
		v.Base = base
	}
	if f == record.FormatDiscord {
		return m.discord(v, base)
	}
	return m.plain(v), nil
}

// plain is the body in the format json. v is nil if the notice is not about a record.
func (m *Message) plain(v *record.Shown) []byte {
	dst := append(append([]byte(`{"id":"`), m.ID.String()...), `","event":`...)
	dst = field.AppendString(dst, string(m.Event))
	dst = append(append(append(dst, `,"createdAt":"`...), m.At.UTC().Format(field.TimeLayout)...), `","data":`...)
	switch {
	case v != nil:
		dst = field.AppendJSON(dst, v)
	case len(m.Notice.Data) > 0:
		dst = append(dst, m.Notice.Data...)
	default:
		dst = append(dst, "{}"...)
	}
	return append(dst, '}')
}

// Limits of Discord's messages, in characters. With these, its limit for the total (6000) cannot be
// reached.
const (
	maxTitle = 256
	maxValue = 1024
)

type discordField struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Inline bool   `json:"inline"`
}

type discordEmbed struct {
	Title       string         `json:"title,omitempty"`
	URL         string         `json:"url,omitempty"`
	Description string         `json:"description,omitempty"`
	Color       int            `json:"color"`
	Timestamp   string         `json:"timestamp"`
	Fields      []discordField `json:"fields,omitempty"`
	Footer      struct {
		Text string `json:"text"`
	} `json:"footer"`
}

// discordMessage is the body for Discord's webhooks (Execute Webhook). It never mentions anyone,
// whatever a name contains.
type discordMessage struct {
	Mentions struct {
		Parse []string `json:"parse"`
	} `json:"allowed_mentions"`
	Embeds []discordEmbed `json:"embeds"`
}

// eventWords returns the words for an event in a message for people, and its colour.
func eventWords(e record.Event) (words string, color int) {
	const good, neutral, bad = 0x0f6b5c, 0x3b82f6, 0xb45309
	switch e {
	case record.LimitReached:
		return "It has reached its limit.", bad
	case record.ShareOpened:
		return "Someone has opened it.", neutral
	case record.ItemExpired:
		return "It has expired.", bad
	case record.PageGone:
		return "Its page can no longer be reached.", bad
	case record.UploadReceived:
		return "Received, waiting for approval.", neutral
	case record.UploadApproved:
		return "Approved.", good
	case record.UploadRejected:
		return "Rejected.", bad
	case record.WebhookTest:
		return "This is a test. Deliveries arrive.", neutral
	}
	kind, what, _ := strings.Cut(string(e), ".")
	if kind == "shortlink" {
		kind = "short link"
	}
	switch what {
	case "updated":
		return "The " + kind + " was changed.", neutral
	case "deleted":
		return "The " + kind + " was deleted.", bad
	case "restored":
		return "The " + kind + " was restored.", good
	}
	return "A new " + kind + ".", good
}

func (m *Message) discord(v *record.Shown, base string) ([]byte, error) {
	words, color := eventWords(m.Event)
	e := discordEmbed{Title: escape(m.Notice.Title, maxTitle), Description: words, Color: color, Timestamp: m.At.UTC().Format(field.TimeLayout)}
	e.Footer.Text = string(m.Event)
	address := ""
	if m.Notice.Path != "" {
		address = base + m.Notice.Path
	}
	if v != nil {
		b, err := v.Decode()
		if err != nil {
			return nil, err
		}
		title := b.Title()
		if strings.TrimSpace(title) == "" {
			title = "Untitled " + v.Kind.Name
		}
		e.Title = escape(title, maxTitle)
		if err := json.Unmarshal(v.AppendURL(nil), &address); err != nil {
			return nil, fmt.Errorf("address: %w", err)
		}
		e.Fields = discordFields(v, b)
	}
	if linkable(address) {
		e.URL = address
	}
	var msg discordMessage
	msg.Mentions.Parse = []string{}
	msg.Embeds = []discordEmbed{e}
	return json.Marshal(msg)
}

func discordFields(v *record.Shown, b record.Body) []discordField {
	var all []discordField
	add := func(name, value string, inline bool) {
		if value = escape(value, maxValue); strings.TrimSpace(value) != "" {
			all = append(all, discordField{name, value, inline})
		}
	}
	switch b := b.(type) {
	case *record.File:
		add("Type", b.MimeType, true)
		add("Size", strconv.FormatInt(b.Size, 10)+" bytes", true)
	case *record.Bookmark:
		add("Page", b.URL, false)
	case *record.Link:
		add("Leads to", b.URL, false)
	case *record.Game:
		add("Status", string(b.Status), true)
	}
	public := "no"
	if v.Public {
		public = "yes"
	}
	add("Public", public, true)
	if v.Limit > 0 {
		add("Views", fmt.Sprintf("%d of %d", v.Views, v.Limit), true)
	}
	add("Folder", v.FolderName, true)
	var tags []string
	for _, t := range v.TagList {
		tags = append(tags, t.Name)
	}
	add("Tags", strings.Join(tags, ", "), false)
	return all
}

// linkable reports whether Discord accepts an address. It refuses whole messages because of hosts
// like localhost.
func linkable(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.Contains(u.Hostname(), ".") && len(address) <= 2000
}

// escape writes a name so that Discord shows it literally, in at most limit characters (UTF-16 code
// units, the strictest count): no links, formatting or mentions. Control characters become spaces.
func escape(t string, limit int) string {
	var b strings.Builder
	n, full := 0, false
	for _, r := range t {
		size := utf16.RuneLen(r)
		switch {
		case r < ' ' || r == 0x7f:
			r, size = ' ', 1
		case strings.ContainsRune("\\*_~`|<>[]()#@:-+", r):
			size = 2
		}
		if n+size > limit-1 { // leave space for the ellipsis
			full = true
			break
		}
		if n += size; size == 2 && r < 0x80 {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	if full {
		b.WriteString("…")
	}
	return b.String()
}
