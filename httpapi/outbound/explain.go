package outbound

import (
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

// maxError is the maximum length of a sentence of Explain in bytes.
const maxError = 512

// Explain says in a sentence why who, such as "The target", did not answer.
func Explain(err error, who string) string {
	var refused *Refused
	var network net.Error
	var name *net.DNSError
	switch {
	case errors.As(err, &refused):
		return Printable([]byte(refused.Error()), maxError)
	case errors.Is(err, ErrSlow), errors.As(err, &network) && network.Timeout():
		return who + " did not answer in time."
	case errors.As(err, &name): // without the address of the name server, which is private
		return "The host " + Printable([]byte(name.Name), maxError/2) + " cannot be found."
	case errors.Is(err, syscall.ECONNREFUSED):
		return who + " refuses the connection: nothing listens there."
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return who + " closed the connection without an answer."
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok { // without the addresses that package net adds
		err = errno
	}
	why := who + " cannot be reached: "
	return why + Printable([]byte(err.Error()), maxError-len(why)-1) + "."
}

// RetryAfter reads the header Retry-After (RFC 9110, section 10.2.3): seconds, of which Discord writes
// fractions, or a date. It returns 0 if the header says nothing, and at most a day.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	const maxWait = 24 * time.Hour
	t := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(t, 64); err == nil && !math.IsNaN(s) {
		return time.Duration(min(max(0, s), maxWait.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(t); err == nil {
		return min(max(0, at.Sub(now)), maxWait)
	}
	return 0
}

// Printable is the beginning of foreign text, at most limit bytes, safe to show on one line.
func Printable(b []byte, limit int) string {
	t := strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r == 0x7f || r == utf8.RuneError || r >= 0x80 && !strconv.IsPrint(r):
			return -1
		}
		return r
	}, string(b))
	return strings.ToValidUTF8(t[:min(len(t), limit)], "") // no partial character
}
