package webhook

import (
	"strings"
	"time"

	"kist/kv/field"
	"kist/kv/jobs"
	"kist/kv/record"
)

// A Message is an event for a webhook.
type Message struct {
	ID     record.ID // the same at each attempt
	Event  jobs.Event
	At     time.Time // of the event
	Notice *jobs.Notice
}

// Body is the message in a format, for a webhook's address. base is the absolute address of the server.
func (m *Message) Body(f jobs.Format, address, base string) ([]byte, error) {
	var v *record.Shown
	if m.Notice.Row != nil {
		var err error
		v, err = m.Notice.Shown()
		if err != nil {
			return nil, err
		}
		v.Base = base
	}
	if f == jobs.FormatJSON || f == "" {
		return m.plain(v), nil
	}
	s, err := m.summary(v, base)
	if err != nil {
		return nil, err
	}
	switch f {
	case jobs.FormatNtfy:
		return s.ntfy(address)
	case jobs.FormatGotify:
		return s.gotify()
	case jobs.FormatSlack:
		return s.slack(m.Event)
	}
	return s.discord(m)
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

// badColor is the colour of what ends.
const badColor = 0xb45309

// eventWords returns the words for an event in a message for people, and its colour.
func eventWords(e jobs.Event) (words string, color int) {
	const good, neutral, bad = 0x0f6b5c, 0x3b82f6, badColor
	switch e {
	case jobs.LimitReached:
		return "It has reached its limit.", bad
	case jobs.ShareOpened:
		return "Someone has opened it.", neutral
	case jobs.ItemExpired:
		return "It has expired.", bad
	case jobs.CollectionShared:
		return "It is shared with a person of this server.", neutral
	case jobs.CollectionAdded:
		return "A member has added something.", good
	case jobs.BackupFailed:
		return "The backup has failed.", bad
	case jobs.PageGone:
		return "Its page can no longer be reached.", bad
	case jobs.UploadReceived:
		return "Received, waiting for approval.", neutral
	case jobs.UploadApproved:
		return "Approved.", good
	case jobs.UploadRejected:
		return "Rejected.", bad
	case jobs.WebhookTest:
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
