package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// mountPanic mounts routes for GET at the paths and returns the panic, or "".
func mountPanic(paths ...string) (text string) {
	s := new(Server)
	for _, p := range paths {
		s.routes = append(s.routes, Route{Method: "GET", Path: p})
	}
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprint(p)
		}
	}()
	s.mount()
	return ""
}

// TestMountRefuses: the server does not start with routes that no request
// could tell apart, nor with a path that the router would read otherwise.
func TestMountRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, says string
		paths      []string
	}{
		{"the same path", "GET /a/b is there twice", []string{"/a/b", "/a/b"}},
		{"the same path in a later router", "GET /a/{x} is there twice", []string{"/a/b", "/a/{x}", "/a/{x}"}},
		{"two names at the same place", "GET /a/{y} has {y} where /a/{x} has {x}", []string{"/a/{x}", "/a/{y}"}},
		{"two names before different ends", "GET /a/{y}/d has {y} where /a/{x}/c has {x}", []string{"/a/{x}/c", "/a/{y}/d"}},
		{"no slash at the start", `malformed path "a"`, []string{"a"}},
		{"nothing", `malformed path ""`, []string{""}},
		{"a slash at the end", `malformed path "/a/"`, []string{"/a/"}},
		{"an empty segment", `malformed path "/a//b"`, []string{"/a//b"}},
		{"an open brace", `malformed path "/a/{x"`, []string{"/a/{x"}},
		{"no name", `malformed path "/a/{}"`, []string{"/a/{}"}},
		{"a wildcard in a segment", `malformed path "/a/b{x}"`, []string{"/a/b{x}"}},
		{"two wildcards in a segment", `malformed path "/a/{x}{y}"`, []string{"/a/{x}{y}"}},
		{"the router's own wildcard", `malformed path "/a/:x"`, []string{"/a/:x"}},
		{"the router's own rest", `malformed path "/a/*x"`, []string{"/a/*x"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := is.New(t)
			got := mountPanic(tt.paths...)
			is.True(strings.Contains(got, tt.says)) // the panic names the route
		})
	}
}

// TestMountSpreads: a word and a wildcard at the same place go into two
// routers, the word into the first, in whatever order they are listed.
func TestMountSpreads(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		paths   []string
		routers int
	}{
		{[]string{"/", "/a", "/a/{x}", "/a/{x}/b", "/b/{y}"}, 1},
		{[]string{"/a/{x}", "/a/b"}, 2},
		{[]string{"/a/b", "/a/{x}"}, 2},
		{[]string{"/{x}", "/a"}, 2},
		{[]string{"/", "/{x}"}, 1},
		{[]string{"/a/{x}/{y}", "/a/{x}/c", "/a/b/{y}", "/a/b/c"}, 4},
	} {
		t.Run(strings.Join(tt.paths, " "), func(t *testing.T) {
			is := is.New(t)
			s := new(Server)
			for _, p := range tt.paths {
				s.routes = append(s.routes, Route{Method: "GET", Path: p})
			}
			s.mount()
			is.Equal(len(s.routers), tt.routers)
			is.Equal(len(s.registered()), 2*len(tt.paths)) // GET and HEAD of each
			for _, p := range tt.paths {
				if !strings.Contains(p, "{") {
					h, args, _ := s.routers[0].Lookup("GET", p)
					is.True(h != nil && len(args) == 0) // the first router has the words
				}
			}
		})
	}
}
