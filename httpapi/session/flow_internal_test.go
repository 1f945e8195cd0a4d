package session

import (
	"encoding/base64"
	"testing"
)

// FuzzFlow reads cookies of a sign-in that anybody may have made. One that is read is whole, and
// the page to go on to is one of this server.
func FuzzFlow(f *testing.F) {
	for _, text := range []string{
		`{"state":"s","nonce":"n","verifier":"v","next":"/notes"}`, `{"state":"s","nonce":"n","verifier":"v","next":"//evil.example.org","link":"AAAA"}`,
		`{"state":"s","nonce":"n","verifier":""}`, `{"STATE":"s","nonce":"n","verifier":"v","next":"/\\evil"}`, `{"state":1}`, `null`, `[]`, `{"state":"s"}{}`, "",
	} {
		f.Add(base64.RawURLEncoding.EncodeToString([]byte(text)))
	}
	f.Add("not base64!")
	f.Add("====")
	f.Fuzz(func(t *testing.T, text string) {
		flow := parseFlow(text)
		if flow == nil {
			return
		}
		if flow.State == "" || flow.Nonce == "" || flow.Verifier == "" {
			t.Fatalf("%q lacks a part: %+v", text, flow)
		}
		if next := nextPath(flow.Next); next[0] != '/' || len(next) > 1 && (next[1] == '/' || next[1] == '\\') {
			t.Fatalf("%q leaves this server: %s", text, next)
		}
	})
}
