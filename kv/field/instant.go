package field

import (
	"errors"
	"strings"
	"time"
)

var errTime = errors.New("must be a date-time with a zone, such as 2026-12-31T18:00:00Z, or a date such as 2026-12-31")

// maxTime is how long the text of a time may be.
const maxTime = 64 // bytes

// endOfDay is the last millisecond of a day, after its first.
const endOfDay = 24*time.Hour - time.Millisecond

// ParseTime reads a date-time of ISO 8601 with a zone, in its extended or basic form, with or without
// seconds and their fraction; or a date alone, which is the beginning of that day in UTC. onlyDate says
// which of them it was. The result is in UTC and cut to milliseconds.
func ParseTime(text string) (at time.Time, onlyDate bool, err error) {
	if len(text) > maxTime {
		return at, false, errTime
	}
	date, clock, hasClock := strings.Cut(text, "T")
	if len(date) == len("20060102") {
		date = date[:4] + "-" + date[4:6] + "-" + date[6:]
	}
	full := date + "T00:00:00Z"
	if hasClock {
		full = date + "T" + extended(clock)
	}
	if len(full) < len("2006-01-02T15:04:05Z") || lax(full) {
		return at, false, errTime
	}
	at, err = time.Parse(time.RFC3339, full)
	if err != nil {
		return at, false, errTime
	}
	at = at.UTC().Truncate(time.Millisecond)
	if at.Year() < 1 || at.Year() > 9999 || at.IsZero() {
		return at, false, errTime
	}
	return at, !hasClock, nil
}

// extended is the text of a time of day and its zone in the form of RFC 3339, if it is one of ISO 8601.
func extended(text string) string {
	at := strings.IndexAny(text, "Z+-")
	if at < 0 {
		return text
	}
	clock, zone := strings.Replace(text[:at], ",", ".", 1), text[at:]
	if len(clock) >= len("1504") && !strings.Contains(clock, ":") {
		minutes := clock[:2] + ":" + clock[2:4]
		if len(clock) > len("1504") {
			minutes += ":"
		}
		clock = minutes + clock[4:]
	}
	if len(clock) == len("15:04") {
		clock += ":00"
	}
	switch len(zone) {
	case len("+01"):
		zone += ":00"
	case len("+0100"):
		zone = zone[:3] + ":" + zone[3:]
	}
	return clock + zone
}

// lax reports forms that package time accepts beyond RFC 3339: one digit for an
// hour, a comma before the fraction, and zones of 24:00 or :60.
func lax(t string) bool {
	if t[len("2006-01-02T1")] == ':' || strings.Contains(t, ",") {
		return true
	}
	zone := t[len(t)-len("+00:00"):]
	return !strings.HasSuffix(zone, "Z") && (zone[1:3] > "23" || zone[4:] > "59")
}

// Time binds a time that ParseTime reads, in the years 1 to 9999 UTC; null is the zero time. A date alone means
// the end of that day in UTC, because people mean the day when they say that something ends on it.
func (s *Set) Time(name string, p *time.Time, traits ...Traits) *Field {
	return s.add(name, &instant{p}, traits)
}

type instant struct{ p *time.Time }

func (b *instant) set(v any) error {
	text, ok := v.(string)
	if !ok {
		return errTime
	}
	at, onlyDate, err := ParseTime(text)
	if err != nil {
		return err
	}
	if onlyDate {
		at = at.Add(endOfDay)
	}
	*b.p = at
	return nil
}

func (b *instant) clear() bool { *b.p = time.Time{}; return true }

func (b *instant) append(dst []byte) []byte { return AppendTime(dst, *b.p) }

// AppendTime appends a time as JSON; the zero time is null.
func AppendTime(dst []byte, at time.Time) []byte {
	if at.IsZero() {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = appendTime(dst, at.UTC())
	return append(dst, '"')
}

func (b *instant) schema() Schema {
	return Schema{Type: "string", Format: "date-time", Nullable: true}
}
