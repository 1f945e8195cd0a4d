package httpapi

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/web"
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
			is.Equal(len(s.Registered()), 2*len(tt.paths)) // GET and HEAD of each
			for _, p := range tt.paths {
				if !strings.Contains(p, "{") {
					h, args, _ := s.routers[0].Lookup("GET", p)
					is.True(h != nil && len(args) == 0) // the first router has the words
				}
			}
		})
	}
}

// sharedHandlers serve more than one operation, or cannot have its name.
var sharedHandlers = map[string]string{
	"probe":              "probed",
	"probeBody":          "probed",
	"listPendingUploads": "listQueue",
	"listUploadItems":    "listQueue",
	"search":             "searchAll", // search is a package there
}

// constructors make handlers, which have no name of their own.
var constructors = []string{
	"createRecord", "describeTus", "editRecord", "listRecords", "listVersions", "readRecord", "readShared", "readVersion",
	"readVisits", "removeRecord", "restoreVersion", "SenderOperation", "showApp", "tus",
}

// TestHandlerNames: an operation is served by the function of its name, so that
// a reader of the document finds the code.
func TestHandlerNames(t *testing.T) {
	t.Parallel()
	made, shared, named := 0, 0, 0
	for _, r := range new(Server).operations() {
		name := strings.TrimSuffix(runtime.FuncForPC(reflect.ValueOf(r.Serve).Pointer()).Name(), "-fm")
		parts := strings.Split(name, ".")
		last := parts[len(parts)-1]
		if strings.HasPrefix(last, "func") {
			made++
			if maker := parts[len(parts)-2]; !slices.Contains(constructors, maker) {
				t.Errorf("%s is served by a function literal in %s", r.ID, name)
			}
			continue
		}
		want := r.ID
		if strings.Contains(name, "/web.(*Resource[") { // listX is served by List
			made++
			if !strings.HasPrefix(r.ID, strings.ToLower(last)) {
				t.Errorf("%s is served by %s of a resource", r.ID, last)
			}
			continue
		}
		if of, _, ok := strings.Cut(strings.TrimPrefix(r.Path, web.APIPath), "-tags"); ok { // another name of the tags
			want = strings.Replace(r.ID, web.Title(of)+"Tag", "Tag", 1)
		}
		if other := sharedHandlers[r.ID]; other != "" {
			want = other
			shared++
		}
		named++
		if last != want {
			t.Errorf("%s is served by %s", r.ID, name)
		}
	}
	if shared != len(sharedHandlers) || made == 0 || named < 70 {
		t.Errorf("%d handlers made by constructors, %d shared, %d named", made, shared, named)
	}
}

// namesIn lists the identifiers in an expression.
func namesIn(e ast.Expr) (names []string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			names = append(names, id.Name)
		}
		return true
	})
	return names
}

// TestOperationNames: a line of routes.go has the operation of its operationId.
func TestOperationNames(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "routes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	ast.Inspect(file, func(n ast.Node) bool {
		row, ok := n.(*ast.CompositeLit)
		if !ok || len(row.Elts) != 5 {
			return true
		}
		if _, list := row.Type.(*ast.ArrayType); list {
			return true // of names
		}
		literal, ok := row.Elts[2].(*ast.BasicLit)
		if !ok {
			return true // of each kind, of tags, and of each page
		}
		lines++
		id := strings.Trim(literal.Value, `"`)
		names := namesIn(row.Elts[4])
		// of its handler, or of its operation
		own := []string{id, strings.TrimSuffix(id, "OfOne"), cmp.Or(sharedHandlers[id], id)}
		if !slices.ContainsFunc(own, func(name string) bool {
			return slices.Contains(names, name) || slices.Contains(names, name+"Op") || slices.Contains(names, web.Title(name))
		}) {
			t.Errorf("%s has the operation %q", id, names)
		}
		return false
	})
	if lines < 100 {
		t.Errorf("%d lines were read", lines)
	}
}

// Where the bodies of strangers count as changes, they can be too many, and the operation says so.
func TestCountedStrangers(t *testing.T) {
	t.Parallel()
	counted := 0
	for _, r := range new(Server).operations() {
		if !r.Access.Open || !r.counts(&web.Request{}) {
			continue
		}
		counted++
		if !slices.Contains(r.Fails, http.StatusTooManyRequests) {
			t.Errorf("%s %s counts what strangers send and does not name 429", r.Method, r.Path)
		}
	}
	if counted == 0 {
		t.Error("nothing is counted")
	}
}
