package httpapi_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/web"
)

// codesPage is the page of the handbook that lists the error codes.
const codesPage = "../embed/help/error-codes.md"

// TestErrorCodesInHandbook: the handbook lists the codes of the table. -update writes its list.
func TestErrorCodesInHandbook(t *testing.T) {
	is := is.New(t)
	var list strings.Builder
	for _, c := range web.ErrorCodes {
		statuses := strings.Trim(strings.ReplaceAll(fmt.Sprint(c.Statuses), " ", ", "), "[]")
		fmt.Fprintf(&list, "| `%s` | %s | %s |\n", c.Code, statuses, c.Meaning)
	}
	page, err := os.ReadFile(codesPage)
	is.NoErr(err)
	const head = "|---|---|---|\n"
	before, _, found := strings.Cut(string(page), head)
	is.True(found)
	want := before + head + list.String()
	if *update {
		is.NoErr(os.WriteFile(codesPage, []byte(want), 0o644))
		return
	}
	if string(page) != want {
		t.Fatal("error-codes.md does not list the codes of the table; run: go test ./httpapi -run TestErrorCodes -update")
	}
}

// TestErrorCodes: the table has each code that the program names, and no other.
func TestErrorCodes(t *testing.T) {
	is := is.New(t)
	is.True(slices.IsSortedFunc(web.ErrorCodes, func(a, b web.ErrorCode) int { return strings.Compare(a.Code, b.Code) }))
	named := map[string]string{}
	texts := map[string]bool{} // all texts that are words of a code
	for _, root := range []string{"../kv", "../httpapi", "../blobs", "../search"} {
		for path, source := range sources(t, root) {
			if filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "web/codes.go") {
				codesIn(t, path, source, named, texts)
			}
		}
	}
	for _, other := range []string{
		"unknown_command", // of the command line
	} {
		delete(named, other)
	}
	in := map[string]bool{}
	for _, c := range web.ErrorCodes {
		in[c.Code] = true
		what, isName := strings.CutSuffix(c.Code, "_taken") // made from the name of an index
		if named[c.Code] == "" && !texts[c.Code] && !(isName && texts[what]) {
			t.Errorf("nothing answers with %s", c.Code)
		}
		if len(c.Statuses) == 0 || !strings.HasSuffix(c.Meaning, ".") {
			t.Errorf("%s has no status or no sentence", c.Code)
		}
	}
	for code, at := range named {
		if !in[code] {
			t.Errorf("%s: the table does not have %s", at, code)
		}
	}
}

var codeForm = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)

// codesIn notes the codes of errors in a source: members Code, and what goes to a function that
// makes an error.
func codesIn(t *testing.T, path, source string, named map[string]string, texts map[string]bool) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	note := func(e ast.Expr) {
		if text, ok := textOf(e); ok && codeForm.MatchString(text) {
			named[text] = path
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if text, ok := textOf(n); ok && codeForm.MatchString(text) {
				texts[text] = true
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Code" {
				note(n.Value)
			}
		case *ast.CallExpr:
			at := slices.Index([]string{"forbidden", "told", "TooMany", "unavailable"}, nameOf(n.Fun))
			if place := []int{0, 1, 1, 0}; at >= 0 && len(n.Args) > place[at] {
				note(n.Args[place[at]])
			}
		}
		return true
	})
}

func textOf(e ast.Expr) (string, bool) {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}

// nameOf is the name of the function that is called.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
