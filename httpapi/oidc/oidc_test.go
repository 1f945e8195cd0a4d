package oidc

import (
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/matryer/is"
)

// TestGroups reads groups as issuers write them.
func TestGroups(t *testing.T) {
	t.Parallel()
	const zitadel = "urn:zitadel:iam:org:project:roles"
	for name, row := range map[string]struct {
		claim, said string
		names       groupNames
	}{
		"list":                   {"groups", `{"groups":["a","b"]}`, groupNames{"a", "b"}},
		"empty list":             {"groups", `{"groups":[]}`, groupNames{}},
		"one name":               {"groups", `{"groups":"a"}`, groupNames{"a"}},
		"a name with blanks":     {"groups", `{"groups":"Domain Users"}`, groupNames{"Domain Users"}},
		"commas":                 {"groups", `{"groups":"a, b"}`, groupNames{"a, b", "a", "b"}},
		"commas in a list":       {"groups", `{"groups":["cn=a,dc=b"]}`, groupNames{"cn=a,dc=b"}},
		"numbers":                {"groups", `{"groups":[7,"a"]}`, groupNames{"7", "a"}},
		"other things in a list": {"groups", `{"groups":["a",null,true,["b"]]}`, groupNames{"a"}},
		"null":                   {"groups", `{"groups":null}`, nil},
		"truth":                  {"groups", `{"groups":true}`, groupNames{}},
		"map of truths":          {"groups", `{"groups":{"a":true,"b":false,"c":null}}`, groupNames{"a"}},
		"map of organisations":   {zitadel, `{"` + zitadel + `":{"a":{"1":"org.example"},"b":{}}}`, groupNames{"a", "b"}},
		"list of maps":           {zitadel, `{"` + zitadel + `":[{"a":{"1":"x"}},{"b":{"1":"x"}}]}`, groupNames{"a", "b"}},
		"list of objects":        {"groups", `{"groups":[{"id":"1","name":"a"},{"name":"b"}]}`, groupNames{"a", "b"}},
		"path":                   {"realm_access.roles", `{"realm_access":{"roles":["a"]}}`, groupNames{"a"}},
		"path with dots in a name": {
			"resource_access.my.app.roles", `{"resource_access":{"my.app":{"roles":["a"]}}}`, groupNames{"a"},
		},
		"name with dots":       {"https://id.example/groups", `{"https://id.example/groups":["a"]}`, groupNames{"a"}},
		"name before path":     {"x.y", `{"x":{"y":["a"]},"x.y":["b"]}`, groupNames{"b"}},
		"path that ends early": {"realm_access.roles", `{"realm_access":["roles"]}`, nil},
		"path into null":       {"realm_access.roles", `{"realm_access":{"roles":null}}`, nil},
		"other letters":        {"groups", `{"Groups":["a"]}`, nil},
		"nothing":              {"groups", `{}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			var said claims
			is.NoErr(json.Unmarshal([]byte(row.said), &said))
			is.Equal(said.groups(row.claim), row.names)
		})
	}
}

// TestMeet: names of groups are compared to the letter, but for the slash before paths.
func TestMeet(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, row := range []struct {
		group string
		names groupNames
		want  bool
	}{
		{"", nil, true},
		{"family", groupNames{"x", "family"}, true},
		{"family", groupNames{"/family"}, true},
		{"/family", groupNames{"family"}, true},
		{"home/family", groupNames{"/home/family"}, true},
		{"family", groupNames{"/home/family"}, false},
		{"family", groupNames{"Family", "family2", "", "/"}, false},
		{"family", nil, false},
	} {
		is.Equal(row.names.meet(row.group), row.want) // row
	}
}

// TestUserName takes the best name that an issuer has.
func TestUserName(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for text, want := range map[string]string{
		`{"preferred_username":"ann","nickname":"a","email":"b@x"}`: "ann",
		`{"nickname":"a","email":"b@x"}`:                            "a",
		`{"preferred_username":"","email":"b@x"}`:                   "b@x",
		`{"preferred_username":7,"name":"Ann"}`:                     "",
	} {
		var said claims
		is.NoErr(json.Unmarshal([]byte(text), &said))
		is.Equal(said.userName(), want) // text
	}
}

// FuzzClaims reads claims of any shape. Groups that are not known have no members.
func FuzzClaims(f *testing.F) {
	for _, text := range []string{
		`{"groups":["a"],"name":"Ann"}`, `{"groups":"a"}`, `{"groups":[1,"a"]}`, `{"groups":{"a":{},"b":null}}`,
		`{"groups":[{"name":"a"},{"b":1}]}`, `{"realm_access":{"roles":["a"]}}`, `null`, `{"name":"\u0000\ud800"}`,
		`{"auth_time":1799999990}`, `{"auth_time":1e308}`, `{"auth_time":0.5}`, `{"auth_time":"now"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var said claims
		if json.Unmarshal(b, &said) != nil {
			return
		}
		for _, claim := range []string{"groups", "realm_access.roles"} {
			names := said.groups(claim)
			if known := said.at(claim) != nil; known != (names != nil) {
				t.Fatalf("%q: the groups of %s are known: %t", names, claim, known)
			}
		}
		c := &Client{Options: Options{GroupsClaim: "groups", AllowGroup: "family"}}
		if text := c.refusal(said.groups("groups"), said); len(text) > 2*maxSaid || !utf8.ValidString(text) {
			t.Fatalf("the log gets %q", text)
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
