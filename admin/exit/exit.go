// Package exit has the errors that decide the exit code of a command.
package exit

import (
	"errors"
	"fmt"

	"kist/kv/record"
)

// The exit codes, which the handbook lists.
const (
	codeDone    = 0
	codeFailed  = 1
	codeMisused = 2
	codeAbsent  = 3
	codeFound   = 4
)

type misused struct{ text string }

func (e *misused) Error() string { return e.text }

type found struct{ text string }

func (e *found) Error() string { return e.text }

// Misused is the error of flags and arguments that do not go together. Its text
// may be empty if everything has been said already.
func Misused(format string, args ...any) error { return &misused{fmt.Sprintf(format, args...)} }

// Absent is the error of a command whose object does not exist: what is a noun,
// and where says where it was looked for, such as "at /srv/kist".
func Absent(what, where string) error {
	return &record.Error{Fault: record.Missing, Code: "not_found", Text: fmt.Sprintf("There is no %s %s.", what, where)}
}

// Found is the error of a check that found something wrong.
func Found(format string, args ...any) error { return &found{fmt.Sprintf(format, args...)} }

// Code is the exit code for the error that a command returned, which may be nil.
func Code(err error) int {
	if err == nil {
		return codeDone
	}
	if errors.As(err, new(*misused)) {
		return codeMisused
	}
	if e, ok := errors.AsType[*record.Error](err); ok && e.Fault == record.Missing {
		return codeAbsent
	}
	if errors.As(err, new(*found)) {
		return codeFound
	}
	return codeFailed
}

// Word is a word for programs about the error that a command returned.
func Word(err error) string {
	if e, ok := errors.AsType[*record.Error](err); ok && e.Code != "" {
		return e.Code
	}
	if errors.As(err, new(*misused)) {
		return "usage"
	}
	if errors.As(err, new(*found)) {
		return "found_wrong"
	}
	return "failed"
}
