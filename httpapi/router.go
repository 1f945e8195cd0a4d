package httpapi

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/julienschmidt/httprouter"

	"kist/httpapi/public"
	"kist/httpapi/session"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
)

// A Route is one operation of the server. The router, the check of the caller and the
// OpenAPI document are made from it.
type Route struct {
	Method, Path string // path as OpenAPI writes it: /files/{slug}
	ID           string // operationId
	Access       web.Access
	web.Operation
}

// Routes are the routes of the server, in the order of the table. The caller must not change them.
func (s *Server) Routes() []Route { return s.routes }

// headDeprecated says since when an address is deprecated (RFC 9745).
var headDeprecated = []string{"@1795737600"}

// table returns the operations as they are served. Repeatable ones have the extra parameter
// and answer repeats. Those that make what can be read below their address say where.
func (s *Server) table() []Route {
	all := s.operations()
	reads := map[string]bool{}
	for _, r := range all {
		reads[r.Path] = reads[r.Path] || r.Method == http.MethodGet
	}
	for i := range all {
		r := &all[i]
		if r.Method == http.MethodPost && r.Reply.Status == http.StatusCreated && reads[r.Path+"/{id}"] && !r.Tus {
			r.At = r.Path
		}
	}
	for i := range all {
		if r := &all[i]; r.Repeatable() {
			r.Args = append(slices.Clone(r.Args), web.IdempotencyArg)
			r.Serve = s.idempotent(r.Once, r.Serve)
		}
	}
	return all
}

func (s *Server) mount() http.Handler {
	s.routers = spread(s.routes, s.handle, s.handleNothing())
	return s.middleware(s.routers[0])
}

// spread registers routes with routers, of which the first answers all requests. httprouter
// does not allow a word beside a wildcard, so routes that conflict go into the next router,
// words before wildcards. A router without an answer asks the next one. nothing answers
// requests that match no route.
func spread(routes []Route, handle func(Route) httprouter.Handle, nothing http.Handler) (routers []*httprouter.Router) {
	order := slices.Clone(routes)
	slices.SortStableFunc(order, func(a, b Route) int { return cmp.Compare(rank(a.Path), rank(b.Path)) })
	held := map[string][][]string{} // the paths in each router, by method
	for _, r := range order {
		methods := []string{r.Method}
		if r.Method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		for _, m := range methods {
			i := firstFree(held[m], m, r.Path)
			if i == len(held[m]) {
				held[m] = append(held[m], nil)
			}
			if i == len(routers) {
				routers = append(routers, newRouter())
			}
			held[m][i] = append(held[m][i], r.Path)
			routers[i].Handle(m, pattern(r.Path), handle(r))
		}
	}
	for i, router := range routers {
		router.NotFound = nothing
		if i+1 < len(routers) {
			router.NotFound = routers[i+1]
		}
	}
	return routers
}

func newRouter() *httprouter.Router {
	r := httprouter.New()
	r.RedirectTrailingSlash, r.RedirectFixedPath = false, false
	r.HandleMethodNotAllowed, r.HandleOPTIONS = false, false
	return r
}

// firstFree is the index of the first router that can hold the path; len(held) if none can.
// It panics if the path is malformed, or if a request could match both the path and an
// existing one and no rule decides between them.
func firstFree(held [][]string, method, path string) int {
	if !wellFormed.MatchString(path) {
		panic(fmt.Sprintf("malformed path %q", path))
	}
	for i, paths := range held {
		if !slices.ContainsFunc(paths, func(other string) bool { return mixes(method, path, other) }) {
			return i
		}
	}
	return len(held)
}

// wellFormed matches paths of words and wildcards. A wildcard fills its segment.
var wellFormed = regexp.MustCompile(`^(/|(/([A-Za-z0-9._~-]+|\{[A-Za-z]+\}))+)$`)

// mixes reports whether one path has a word where the other has a wildcard, after the same
// beginning. One httprouter cannot hold both.
func mixes(method, path, other string) bool {
	if path == other {
		panic(method + " " + path + " is there twice")
	}
	for left, otherLeft, more, otherMore := path, other, true, true; more && otherMore; {
		var word, otherWord string
		word, left, more = strings.Cut(left, "/")
		otherWord, otherLeft, otherMore = strings.Cut(otherLeft, "/")
		if word == otherWord {
			continue
		}
		wild, otherWild := strings.HasPrefix(word, "{"), strings.HasPrefix(otherWord, "{")
		if wild && otherWild {
			panic(method + " " + path + " has " + word + " where " + other + " has " + otherWord)
		}
		return (wild || otherWild) && word != "" && otherWord != ""
	}
	return false
}

// pattern is the path in httprouter's syntax.
func pattern(path string) string { return wildcards.Replace(path) }

var wildcards = strings.NewReplacer("{", ":", "}", "")

// rank sorts words before wildcards, comparing from the left.
func rank(path string) string {
	var b strings.Builder
	for segment := range strings.SplitSeq(path[1:], "/") {
		if strings.HasPrefix(segment, "{") {
			b.WriteByte('1')
		} else {
			b.WriteByte('0')
		}
	}
	return b.String()
}

// handleNothing answers requests without a route: 405 if another method has one, otherwise
// 404.
func (s *Server) handleNothing() http.Handler {
	answer := func(c *web.Request) error {
		if c.AtContentOrigin() {
			return s.correctNothing(c)
		}
		allowed := s.allowed(c.R.URL.Path)
		if allowed == "" && strings.HasPrefix(c.R.URL.Path, web.APIPath) {
			return &record.Error{
				Fault: record.Missing, Code: "not_found",
				Text: "There is no such address. The reference is at " + web.APIPath + "reference.",
			}
		}
		if allowed == "" {
			return s.correctNothing(c)
		}
		c.W.Header().Set("Allow", allowed)
		if c.R.Method == http.MethodOptions {
			if strings.Contains(allowed, http.MethodPatch) {
				c.W.Header().Set("Accept-Patch", web.AcceptPatch)
			}
			c.W.WriteHeader(http.StatusNoContent)
			return nil
		}
		return web.ErrMethod
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serveOperation(w, r, "", nil, answer) })
}

// allowed lists the methods for the path as in the Allow header, or "".
func (s *Server) allowed(path string) string {
	known := map[string]bool{}
	for _, r := range s.routes {
		if _, asked := known[r.Method]; asked {
			continue
		}
		known[r.Method] = slices.ContainsFunc(s.routers, func(router *httprouter.Router) bool {
			h, args, _ := router.Lookup(r.Method, path)
			return h != nil && !slices.ContainsFunc(args, func(p httprouter.Param) bool { return p.Value == "" })
		})
	}
	maps.DeleteFunc(known, func(_ string, got bool) bool { return !got })
	if len(known) == 0 {
		return ""
	}
	if known[http.MethodGet] {
		known[http.MethodHead] = true
	}
	known[http.MethodOptions] = true
	return strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}

// Changes reports whether the operation may change something of its caller's, other than delete it.
func (r *Route) Changes() bool {
	writes := r.Access.Scope == people.ScopeWrite || r.Access.Scope == people.ScopeUpload
	return writes && r.Method != http.MethodDelete && r.Method != http.MethodGet
}

// counts reports whether a request to the operation is counted as a change: for the account of its caller, or for the
// network of a stranger.
func (r *Route) counts(c *web.Request) bool {
	if c.Caller == nil {
		return r.Body != nil && !r.Uncounted
	}
	return r.Changes()
}

// authorize checks that the caller may use the operation, and has confirmed who they are if it asks for that.
func authorize(c *web.Request, d web.Access) error {
	if err := session.Authorize(c, d); err != nil {
		return err
	}
	return session.RequireConfirmed(c, d)
}

// checksQuery reports whether parameters that the operation does not know are refused. With a misspelt
// filter, its caller would otherwise get everything. Addresses for others take whatever is
// appended to them, unless the client asks for a refusal.
func (r *Route) checksQuery(strict bool) bool {
	return strings.HasPrefix(r.Path, web.APIPath) && (strict || !r.Access.Open)
}

func (s *Server) handle(r Route) httprouter.Handle {
	serve := r.Serve
	if r.Finds != nil {
		serve = func(c *web.Request) error {
			err := r.Serve(c)
			if kv.Missing(err) {
				return s.correct(c, err)
			}
			return err
		}
	}
	answer := func(c *web.Request) error {
		c.Status, c.At = r.Reply.Status, r.At
		if r.Deprecated {
			c.W.Header()["Deprecation"] = headDeprecated
		}
		if r.Tus {
			c.W.Header().Set("Tus-Resumable", web.TusVersion)
		}
		if r.Plain != "" {
			c.W.Header().Add("Vary", "Accept")
			c.W.Plain = web.PrefersText(c.R.Header)
		}
		for _, a := range c.Args {
			if a.Value == "" { // httprouter matches an empty segment
				return s.correctNothing(c)
			}
		}
		if c.AtContentOrigin() && !r.AtContentOrigin {
			return record.NotFound("address")
		}
		strict := c.Strict()
		if strict && strings.HasPrefix(r.Path, web.APIPath) {
			c.W.Header().Set("Preference-Applied", "handling=strict")
		}
		if err := authorize(c, r.Access); err != nil {
			return err
		}
		if r.checksQuery(strict) {
			if err := c.CheckQuery(r.Args); err != nil {
				return err
			}
		}
		if r.counts(c) {
			if err := c.CountChanges(1); err != nil {
				return err
			}
		}
		var err error
		if r.Slugs && c.Caller == nil {
			err = s.serveCounted(c, c.Args[0].Value, serve) // the first part of the path that varies
		} else {
			err = serve(c)
		}
		if err != nil {
			c.UncountChanges()
		}
		if err != nil && c.AtContentOrigin() {
			return public.BackToPage(c, err)
		}
		return err
	}
	return func(w http.ResponseWriter, req *http.Request, args httprouter.Params) {
		s.serveOperation(w, req, r.ID, args, answer)
	}
}
