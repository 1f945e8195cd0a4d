package httpapi

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/julienschmidt/httprouter"

	"kist/kv/record"
)

// A route is one operation: the router, the check of the caller and the
// OpenAPI document are all made from these rows.
type route struct {
	method, path    string // path as OpenAPI writes it: /files/{slug}
	id              string // operationId
	tag, summary    string
	access          access
	args            []param // beside those of the path, which are texts
	body            *content
	reply           reply
	fails           []int     // statuses beside those that the door and the body bring
	slugs           bool      // which visitors could guess
	plain           *textForm // how it answers as text to a client that would rather have that; nil if it does not
	atContentOrigin bool      // served at the origin for content too, where nothing else is
	tus             bool      // of the protocol tus, whose version every answer names
	serve           func(*request) error
}

// textForm is what an answer has as text, with an example.
type textForm struct{ doc, example string }

var bareAddress = &textForm{"the bare address, one in a line", "https://kist.example.org/v/summer-24\n"}

// A access says who may call.
type access struct {
	open     bool         // anyone
	optional bool         // with open: who brings a good credential is known by it
	anyKey   bool         // any API key that is good, whatever its scope
	scope    record.Scope // that an API key needs
	admin    bool         // the user must be an administrator

	browser bool // a session is needed, no API key will do
	session bool // a session will do in place of the scope and the role
}

var (
	anyone     = access{open: true}
	visitors   = access{open: true, optional: true}
	holders    = access{anyKey: true}
	watches    = access{anyKey: true, admin: true}
	reads      = access{scope: record.ScopeRead}
	writes     = access{scope: record.ScopeWrite}
	uploads    = access{scope: record.ScopeUpload}
	wholes     = access{scope: record.ScopeAll}
	manages    = access{scope: record.ScopeAdmin, admin: true}
	ownAccount = access{scope: record.ScopeAdmin, admin: true, session: true}
	browsers   = access{browser: true}
)

// mount registers the routes. httprouter allows no word beside a wildcard, so
// the routes that do not fit into one router go into the next, words before
// wildcards, and a router that has no answer asks the next.
func (s *Server) mount() http.Handler {
	order := slices.Clone(s.routes)
	slices.SortStableFunc(order, func(a, b route) int { return cmp.Compare(rank(a.path), rank(b.path)) })
	for _, r := range order {
		methods := []string{r.method}
		if r.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		for _, m := range methods {
			taken := slices.ContainsFunc(s.routers, func(router *httprouter.Router) bool {
				return register(router, m, r.pattern(), s.handle(r))
			})
			if !taken {
				router := newRouter()
				s.routers = append(s.routers, router)
				register(router, m, r.pattern(), s.handle(r))
			}
		}
	}
	nothing := s.handleNothing()
	for i, router := range s.routers {
		router.NotFound = nothing
		if i+1 < len(s.routers) {
			router.NotFound = s.routers[i+1]
		}
	}
	return s.middleware(s.routers[0])
}

func newRouter() *httprouter.Router {
	r := httprouter.New()
	r.RedirectTrailingSlash, r.RedirectFixedPath = false, false
	r.HandleMethodNotAllowed, r.HandleOPTIONS = false, false
	return r
}

// register reports whether the router took the route; it panics where two
// patterns would match the same path.
func register(r *httprouter.Router, method, pattern string, h httprouter.Handle) (taken bool) {
	defer func() { taken = recover() == nil }()
	r.Handle(method, pattern, h)
	return true
}

// pattern is the path as httprouter writes it.
func (r *route) pattern() string { return wildcards.Replace(r.path) }

var wildcards = strings.NewReplacer("{", ":", "}", "")

// rank orders words before wildcards, leftmost first.
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

// handleNothing answers what no route matches: 405 where another method
// would, 404 otherwise.
func (s *Server) handleNothing() http.Handler {
	answer := func(c *request) error {
		if c.atContentOrigin() {
			return record.NotFound("address")
		}
		allowed := s.allowed(c.r.URL.Path)
		if allowed == "" {
			return record.NotFound("address")
		}
		c.w.Header().Set("Allow", allowed)
		if c.r.Method == http.MethodOptions {
			c.w.WriteHeader(http.StatusNoContent)
			return nil
		}
		return errMethod
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serveOperation(w, r, "", nil, answer) })
}

// allowed lists the methods that the path knows, as the header Allow does; ""
// if it knows none.
func (s *Server) allowed(path string) string {
	known := map[string]bool{}
	for _, r := range s.routes {
		if _, asked := known[r.method]; asked {
			continue
		}
		known[r.method] = slices.ContainsFunc(s.routers, func(router *httprouter.Router) bool {
			h, args, _ := router.Lookup(r.method, path)
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

// handle runs a route for a matched request.
func (s *Server) handle(r route) httprouter.Handle {
	answer := func(c *request) error {
		c.made = r.reply.status
		if r.tus {
			c.w.Header().Set("Tus-Resumable", tusVersion)
		}
		if r.plain != nil {
			c.w.Header().Add("Vary", "Accept")
			c.w.plain = prefersText(c.r.Header)
		}
		for _, a := range c.args {
			if a.Value == "" { // httprouter matches an empty segment
				return record.NotFound("address")
			}
		}
		if c.atContentOrigin() && !r.atContentOrigin {
			return record.NotFound("address")
		}
		if err := c.authorize(r.access); err != nil {
			return err
		}
		var err error
		if r.slugs && c.caller == nil {
			err = s.misses.find(c, r.serve)
		} else {
			err = r.serve(c)
		}
		if err != nil && c.atContentOrigin() {
			return c.backToPage(err)
		}
		return err
	}
	return func(w http.ResponseWriter, req *http.Request, args httprouter.Params) {
		s.serveOperation(w, req, r.id, args, answer)
	}
}
