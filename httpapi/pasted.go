package httpapi

import (
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/julienschmidt/httprouter"

	"kist/httpapi/session"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/record"
)

// People paste addresses with what stood around them: a slash, a blank, the punctuation of a sentence. A request for
// such an address is redirected to the one that was meant.

// maxMeant is how many paths are tried for one that was pasted.
const maxMeant = 8

// meant lists the paths that a path may mean, the most likely first. They never contain the path itself. Slashes that
// are doubled and blanks around segments are left out. Whatever follows the last letter or digit is cut off, sign by
// sign, because a slug may end with a sign.
func meant(path string) (paths []string) {
	segments := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	if len(segments) == 0 {
		return nil
	}
	for i := range segments {
		segments[i] = strings.TrimSpace(segments[i])
	}
	path, asked := "/"+strings.Join(segments, "/"), path
	if path != asked {
		paths = append(paths, path)
	}
	for len(paths) < maxMeant {
		last, size := utf8.DecodeLastRuneInString(path)
		if size == len(path) || unicode.In(last, unicode.L, unicode.N, unicode.M) {
			break
		}
		path = path[:len(path)-size]
		if !strings.HasSuffix(path, "/") {
			paths = append(paths, path)
		}
	}
	return paths
}

// correct redirects a request whose address leads to nothing, to the one that was meant. Without one it fails
// with missing. It counts no view, and it finds nothing that the visitor may not see.
func (s *Server) correct(c *web.Request, missing error) error {
	if c.R.Method != http.MethodGet && c.R.Method != http.MethodHead {
		return missing
	}
	for _, path := range meant(c.R.URL.Path) {
		if !s.leads(c, path) {
			continue
		}
		to := (&url.URL{Path: path, RawQuery: c.R.URL.RawQuery}).String()
		if !c.AtContentOrigin() {
			to = c.Site.Prefix() + to
		}
		c.W.Header().Set("Cache-Control", "no-store") // something may get the address that was asked for
		c.W.Header().Set("Location", to)
		c.W.WriteHeader(http.StatusPermanentRedirect)
		return nil
	}
	return missing
}

// leads reports whether a path leads to a page, or to something that the visitor may see.
func (s *Server) leads(c *web.Request, path string) bool {
	segments := strings.Split(path, "/")
	for i := range s.routes {
		r := &s.routes[i]
		if r.Method != http.MethodGet || !r.Access.Open || strings.HasPrefix(r.Path, web.APIPath) {
			continue
		}
		if c.AtContentOrigin() && !r.AtContentOrigin {
			continue
		}
		args, fits := argsOf(r.Path, segments)
		switch {
		case !fits:
		case len(args) == 0:
			return true
		case r.Finds != nil:
			at := *c
			at.Args = args
			if !kv.Missing(r.Finds(&at)) {
				return true
			}
		}
	}
	return false
}

// argsOf reports whether the segments of a path fit those of a route, and what its wildcards stand for.
func argsOf(route string, segments []string) (args httprouter.Params, fits bool) {
	words := strings.Split(route, "/")
	if len(words) != len(segments) {
		return nil, false
	}
	for i, word := range words {
		name, wild := strings.CutPrefix(word, "{")
		if wild && segments[i] != "" {
			args = append(args, httprouter.Param{Key: strings.TrimSuffix(name, "}"), Value: segments[i]})
		} else if word != segments[i] {
			return nil, false
		}
	}
	return args, true
}

// correctNothing is correct for an address without a route. A slug in it can be guessed like any other, wherever it
// stands, so misses are told apart by their paths.
func (s *Server) correctNothing(c *web.Request) error {
	missing := record.NotFound("address")
	paths := meant(c.R.URL.Path)
	if len(paths) == 0 || strings.HasPrefix(paths[0], web.APIPath) {
		return missing
	}
	if c.R.Method != http.MethodGet && c.R.Method != http.MethodHead {
		return missing
	}
	if err := session.Authorize(c, web.Visitors); err != nil {
		return err
	}
	if c.Caller != nil {
		return s.correct(c, missing)
	}
	return s.serveCounted(c, paths[0], func(c *web.Request) error { return s.correct(c, missing) })
}
