package record

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// A Fault is the class of an error: what the caller can do about it.
type Fault uint8

const (
	Malformed    Fault = iota + 1 // the request cannot be read
	Unauthorized                  // no credential, or one that does not hold
	Denied                        // the credential holds and does not suffice
	Missing                       // not there, not yours, or private
	Taken                         // a name that must be unique is in use, or the state forbids it
	Gone                          // expired, or used up
	TooLarge                      // a body or file over its limit
	WrongType                     // a body of a type that is not read here
	Invalid                       // well formed, and against a rule
	TooMany                       // too often: try again later
	Busy                          // not now: try again soon
	Full                          // no room on the disk
)

// Error is the one error that reaches a client. Everything else that goes
// wrong is logged and answered without detail.
type Error struct {
	Fault  Fault
	Code   string            // snake_case, for programs
	Text   string            // one sentence, for people
	Fields map[string]string // with Invalid: what is wrong, by field
	Retry  time.Duration     // with TooMany and Busy: when to come back
}

func (e *Error) Error() string { return e.Text }

// Bad is the Invalid error that names every bad field; nil if there is none.
func Bad(fields map[string]string) error {
	if len(fields) == 0 {
		return nil
	}
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(fields)) {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(name + " " + fields[name])
	}
	text := b.String() + "."
	return &Error{Fault: Invalid, Code: "invalid_fields", Text: strings.ToUpper(text[:1]) + text[1:], Fields: fields}
}

// NotFound says that there is no such thing for the caller.
func NotFound(what string) error {
	return &Error{Fault: Missing, Code: "not_found", Text: "There is no such " + what + "."}
}
