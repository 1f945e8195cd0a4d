package httpapi

import (
	"strings"
	"testing"
)

// TestMeant: what stands around a pasted address is cut off, a part at a time, and a whole address means nothing else.
func TestMeant(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/":                "",
		"/v/abc":           "",
		"/v/abc/":          "/v/abc",
		"/v/abc//":         "/v/abc",
		"//v/abc":          "/v/abc",
		"/v//abc":          "/v/abc",
		"///evil.example":  "/evil.example",
		"//evil.example/)": "/evil.example/) /evil.example",
		"/v/abc ":          "/v/abc",
		"/v/ abc":          "/v/abc",
		"/v/abc\n":         "/v/abc",
		"/v/abc\u00a0":     "/v/abc",
		"/v/abc\u200b":     "/v/abc",
		"/v/abc.":          "/v/abc",
		"/v/abc,":          "/v/abc",
		"/v/abc).":         "/v/abc) /v/abc",
		"/v/abc>'\"":       "/v/abc>' /v/abc> /v/abc",
		"/v/abc…":          "/v/abc",
		"/v/abc」。":         "/v/abc」 /v/abc",
		"/v/abc/)":         "/v/abc",
		"/v/a_b-":          "/v/a_b",
		"/v/é":             "",
		"/v/\xff":          "/v",
		"/v/a.........":    "/v/a........ /v/a....... /v/a...... /v/a..... /v/a.... /v/a... /v/a.. /v/a.",
	} {
		got := meant(path)
		for i := range got {
			if !strings.HasPrefix(got[i], "/") || strings.HasPrefix(got[i], "//") || strings.HasSuffix(got[i], "/") && got[i] != "/" {
				t.Errorf("%q means %q", path, got[i])
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q means %q, not %q", path, got, want)
		}
	}
}
