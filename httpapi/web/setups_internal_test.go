package web

import (
	"net/http"
	"testing"

	"github.com/matryer/is"
)

// TestPrefersText weighs as RFC 9110 says.
func TestPrefersText(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bool{
		"":           false,
		"*/*":        false,
		"text/plain": true, "TEXT/Plain": true, "text/*": true, "text/plain;charset=utf-8": true,
		"text/plain, application/json":             false,
		"text/plain, application/json;q=0.9":       true,
		"text/plain;q=0.5, */*;q=0.4":              true,
		"text/plain;q=0.5, */*":                    false,
		"text/*;q=0.1, text/plain;q=0.9, */*;q=.5": true,
		"text/plain;q=0, */*":                      false,
		"application/json;q=0, */*":                true,
		"text/plain;q=2":                           false,
		"text/plain;q=NaN, application/json;q=0.1": false,
		"text/html,application/xhtml+xml,*/*;q=.8": false,
		",,;q=,text/plain":                         true,
		"application/json":                         false,
	} {
		t.Run(accept, func(t *testing.T) {
			is := is.New(t)
			is.Equal(PrefersText(http.Header{"Accept": {accept}}), want)
		})
	}
	is := is.New(t)
	is.True(PrefersText(http.Header{"Accept": {"application/json;q=0.5", "text/plain"}})) // several lines are one list
}
