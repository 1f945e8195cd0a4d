package record

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// A Fault is the class of an error: what the caller can do about it.
type Fault uint8

const (
	Malformed    Fault = iota + 1 // the request cannot be read
	Unauthorized                  // no credential, or an invalid one
	Denied                        // the credential is valid and not sufficient
	Missing                       // missing, or not visible to the caller
	Taken                         // a name that must be unique is in use, or the state forbids it
	Gone                          // expired, or used up
	TooLarge                      // a body or file over its limit
	WrongType                     // a body of an unsupported type
	Invalid                       // well formed, but against a rule
	TooMany                       // too often: try again later
	Busy                          // not now: try again soon
	Full                          // no space on the disk
	Changed                       // it is not as the caller has seen it
)

// Error is the only error that reaches a client. Every other error is logged
// and answered without detail.
type Error struct {
	Fault  Fault
	Code   string            // snake_case, for programs
	Text   string            // one sentence, for people
	Fields map[string]string // with Invalid: the problem of each field
	Retry  time.Duration     // with TooMany and Busy: when to try again
}

func (e *Error) Error() string { return e.Text }

// Bad returns an Invalid error that names every bad field; nil if there are none.
func Bad(fields map[string]string) error {
	if len(fields) == 0 {
		return nil
	}
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(fields)) {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(cmp.Or(spoken[name], "the field "+name) + " " + fields[name])
	}
	text := b.String() + "."
	return &Error{Fault: Invalid, Code: "invalid_fields", Text: strings.ToUpper(text[:1]) + text[1:], Fields: fields}
}

// spoken has the words for fields in sentences. A sentence never starts with the
// name of a JSON member.
var spoken = map[string]string{
	"action":          "the action",
	"allowedTypes":    "the list of allowed types",
	"brandColor":      "the colour",
	"color":           "the colour",
	"content":         "the text",
	"coverUrl":        "the URL of the cover",
	"currentPassword": "the current password",
	"description":     "the description",
	"displayName":     "the display name",
	"events":          "the list of events",
	"expiresAt":       "the expiry",
	"file":            "the file",
	"folderName":      "the name of the folder",
	"imageUrl":        "the URL of the image",
	"ingredients":     "the list of ingredients",
	"instructions":    "the instructions",
	"items":           "the list of items",
	"maxClicks":       "the limit of clicks",
	"maxViews":        "the limit of views",
	"message":         "the message",
	"name":            "the name",
	"newSlug":         "the new link name",
	"newTags":         "the list of new tags",
	"notes":           "the notes",
	"originalName":    "the name of the file",
	"originalUrl":     "the target URL",
	"password":        "the password",
	"rating":          "the rating",
	"scopes":          "the list of scopes",
	"secret":          "the secret",
	"slug":            "the link name",
	"sourceUrl":       "the source",
	"storeUrl":        "the URL of the store page",
	"tags":            "the list of tags",
	"title":           "the title",
	"url":             "the URL",
	"urls":            "the list of URLs",
	"username":        "the username",
}

// In is a waiting time in words, rounded up: "in 4 minutes".
func In(wait time.Duration) string {
	n, unit := int(math.Ceil(wait.Seconds())), "second"
	switch {
	case n >= 90*60:
		n, unit = (n+3599)/3600, "hour"
	case n >= 90:
		n, unit = (n+59)/60, "minute"
	}
	return "in " + Plural(max(n, 1), unit)
}

// Plural writes a number of things: "1 file", "2 files".
func Plural[N int | int64 | uint64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// NotTheOwner says that an account may see something and not change these fields of it.
func NotTheOwner(text string, fields ...string) error {
	e := &Error{Fault: Denied, Code: "not_owner", Text: text, Fields: map[string]string{}}
	for _, name := range fields {
		e.Fields[name] = "can be changed only by the owner"
	}
	return e
}

// NotFound says that nothing with that name is visible to the caller.
func NotFound(what string) error {
	return &Error{Fault: Missing, Code: "not_found", Text: "There is no such " + what + "."}
}
