package oidc

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/matryer/is"
)

func TestGroups(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for text, row := range map[string]struct {
		names []string
		known bool
	}{
		`{"groups":["a","b"]}`:  {[]string{"a", "b"}, true},
		`{"groups":[]}`:         {[]string{}, true},
		`{"groups":"a"}`:        {[]string{"a"}, true},
		`{"groups":null}`:       {nil, false},
		`{"groups":{"a":true}}`: {nil, false},
		`{"groups":["a",1]}`:    {nil, false},
		`{"Groups":["a"]}`:      {nil, false},
		`{}`:                    {nil, false},
	} {
		var said claims
		is.NoErr(json.Unmarshal([]byte(text), &said))
		names, known := said.groups("groups")
		is.Equal(known, row.known) // text
		if known {
			is.Equal(names, row.names)
		}
	}
}

// FuzzClaims reads claims of any shape. A list of groups that is not one has no members.
func FuzzClaims(f *testing.F) {
	for _, text := range []string{`{"groups":["a"],"name":"Ann"}`, `{"groups":"a"}`, `{"groups":[1,"a"]}`, `null`, `{"name":"\u0000\ud800"}`, `{"auth_time":1799999990}`, `{"auth_time":1e308}`, `{"auth_time":0.5}`, `{"auth_time":"now"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var said claims
		if json.Unmarshal(b, &said) != nil {
			return
		}
		if names, known := said.groups("groups"); !known && len(names) > 0 {
			t.Fatalf("%q: unknown groups have members", names)
		}
		now := time.Unix(1_800_000_000, 0)
		if d := said.signedIn(now); d != -1 && (d < 0 || d > now.Sub(time.Unix(0, 0))) {
			t.Fatalf("signed in %s ago", d)
		}
		for _, r := range said.text("name") {
			if r < ' ' {
				t.Fatal("a control character is left in a name")
			}
		}
	})
}
