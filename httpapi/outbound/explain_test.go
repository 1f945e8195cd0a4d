package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/matryer/is"
)

func TestRetryAfter(t *testing.T) {
	is := is.New(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "-5": 0, "17": 17 * time.Second, "999999999": 24 * time.Hour, "soon": 0, "1.5": 1500 * time.Millisecond, "NaN": 0, "-Inf": 0, "Inf": 24 * time.Hour,
		"Fri, 02 Jan 2026 03:05:05 GMT": time.Minute, "Friday, 02-Jan-26 03:05:05 GMT": time.Minute,
		"Fri, 02 Jan 2026 03:04:00 GMT": 0, "Sat, 02 Jan 2027 03:04:05 GMT": 24 * time.Hour,
	} {
		is.Equal(RetryAfter(http.Header{"Retry-After": {text}}, now), want)
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{
		"", "17", "-1", "99999999999999999999", "0.35", "NaN", "-Inf", "1e400", "Fri, 02 Jan 2026 03:05:05 GMT",
		"Fri Jan  2 03:05:05 2026", "Mon, 01 Jan 0000 00:00:00 GMT",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d := RetryAfter(
			http.Header{"Retry-After": {text}}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		); d < 0 || d > 24*time.Hour {
			t.Errorf("%q is %s", text, d)
		}
	})
}

func TestExplain(t *testing.T) {
	is := is.New(t)
	for _, c := range []struct {
		err  error
		want string
	}{
		{&Refused{Host: "x", Why: "is no host"}, "The host x is no host."},
		{&Refused{Host: "\u202ex\x07", Why: "is no host"}, "The host x is no host."}, // of a redirect
		{fmt.Errorf("reading: %w", ErrSlow), "It did not answer in time."},
		{context.DeadlineExceeded, "It did not answer in time."},
		{
			fmt.Errorf(
				"dial: %w", &net.DNSError{Err: "no such host", Name: "nowhere.example", Server: "10.0.0.53:53", IsNotFound: true},
			),
			"The host nowhere.example cannot be found.",
		},
		{
			&net.DNSError{Err: "server misbehaving", Name: "nowhere.example", Server: "10.0.0.53:53", IsTemporary: true},
			"The host nowhere.example cannot be found.",
		},
		{
			&net.DNSError{Err: "i/o timeout", Name: "nowhere.example", Server: "10.0.0.53:53", IsTimeout: true},
			"It did not answer in time.",
		},
		{syscall.ECONNREFUSED, "It refuses the connection: nothing listens there."},
		{io.ErrUnexpectedEOF, "It closed the connection without an answer."},
		{errors.New("tls:\tbad \x1b[31mthing\u202e"), "It cannot be reached: tls: bad [31mthing."},
	} {
		is.Equal(Explain(c.err, "It"), c.want)
	}
	long := Explain(errors.New(strings.Repeat("é", 1000)), "It")
	is.True(len(long) <= maxError && len(long) > maxError-4 && utf8.ValidString(long))
}
