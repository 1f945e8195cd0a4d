package webhook

import (
	"encoding/json"
	"strings"
	"unicode/utf16"

	"kist/kv/field"
)

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

// discord is the body for a webhook of Discord.
func (s *summary) discord(m *Message) ([]byte, error) {
	e := discordEmbed{
		Title: escape(s.title, maxTitle), URL: s.address, Description: s.words, Color: s.color,
		Timestamp: m.At.UTC().Format(field.TimeLayout),
	}
	e.Footer.Text = string(m.Event)
	for _, f := range s.facts {
		e.Fields = append(e.Fields, discordField{f.name, escape(f.value, maxValue), f.inline})
	}
	var msg discordMessage
	msg.Mentions.Parse = []string{}
	msg.Embeds = []discordEmbed{e}
	return json.Marshal(msg)
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
		n += size
		if size == 2 && r < 0x80 {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	if full {
		b.WriteString("…")
	}
	return b.String()
}
