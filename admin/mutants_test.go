package admin_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// A mutant is one change of the program. Its edits keep the lines of the source,
// so that the compiler's messages name the original ones.
type mutant struct {
	dir, file, what string // the file's path is below the root
	line, last      int
	source          string // the line
	edits           []change
	dropped         bool // the compiler refuses it
}

func (m *mutant) String() string {
	return fmt.Sprintf("%s:%d: %s, in: %s", m.file, m.line, m.what, strings.TrimSpace(m.source))
}

// A change replaces the bytes from at to end with text. Of those at the same
// place, the one with the lowest order comes first.
type change struct {
	at, end, order int
	text           string
}

// mutation finds and writes mutants.
type mutation struct {
	fset  *token.FileSet
	root  string // of the copy of the program
	dirs  []string
	names []string          // of the packages
	files map[string][]byte // by their paths, as they were
	all   []*mutant
	dir   string // what is looked at
	file  string
}

// in finds the mutants of a package.
func (m *mutation) in(t *testing.T, dir string) {
	t.Helper()
	is := is.New(t)
	out, err := command(m.root, "go", "list", "-json=Name,GoFiles", "./"+dir).Output()
	is.NoErr(err)
	var pkg struct {
		Name    string
		GoFiles []string
	}
	is.NoErr(json.Unmarshal(out, &pkg))
	m.dir, m.dirs, m.names = dir, append(m.dirs, dir), append(m.names, pkg.Name)
	for _, name := range pkg.GoFiles {
		m.file = filepath.Join(dir, name)
		text, err := os.ReadFile(filepath.Join(m.root, m.file))
		is.NoErr(err)
		m.files[m.file] = text
		tree, err := parser.ParseFile(m.fset, m.file, text, parser.SkipObjectResolution)
		is.NoErr(err)
		for _, d := range tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				m.body(fn.Body, fn.Type.Results)
			}
		}
	}
}

func (m *mutation) at(p token.Pos) int { return m.fset.Position(p).Offset }

// add makes a mutant whose texts stand around a node. %d in them is its number.
// instead replaces the operator op, unless that is token.NoPos.
func (m *mutation) add(what string, n ast.Node, before, after string, op token.Pos, opLen int, instead string) {
	id := len(m.all)
	number := func(s string) string { return strings.ReplaceAll(s, "%d", strconv.Itoa(id)) }
	from, to := m.at(n.Pos()), m.at(n.End())
	edits := []change{{from, from, id, number(before)}, {to, to, -1 - id, number(after)}} // outer ones begin first and end last
	if op.IsValid() {
		edits = append(edits, change{m.at(op), m.at(op) + opLen, id, number(instead)})
	}
	first, last := m.fset.Position(n.Pos()).Line, m.fset.Position(n.End()).Line
	source := strings.Split(string(m.files[m.file]), "\n")[first-1]
	m.all = append(m.all, &mutant{m.dir, m.file, what, first, last, source, edits, false})
}

func (m *mutation) around(what string, n ast.Node, before, after string) {
	m.add(what, n, before, after, token.NoPos, 0, "")
}

var helperOf = map[token.Token]string{
	token.LSS: "mutLT", token.LEQ: "mutLE", token.GTR: "mutGT", token.GEQ: "mutGE", token.ADD: "mutPlus", token.SUB: "mutMinus",
}

// untouched calls have no effect that tests should notice, or one that only
// makes a mutant hang.
var untouched = regexp.MustCompile(`(?i)(^|\.)s?log\.|^fmt\.(Errorf|Sprintf)$|^errors\.New$|^panic$|^make$|^close$|\.(Close|R?Lock|R?Unlock|Wait|Grow)$`)

// body finds the mutants of a function's body.
func (m *mutation) body(body ast.Node, results *ast.FieldList) {
	failable := false
	if results != nil && len(results.List) > 0 {
		last, ok := results.List[len(results.List)-1].Type.(*ast.Ident)
		failable = ok && last.Name == "error"
	}
	ifConds := map[ast.Expr]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			m.body(n.Body, n.Type.Results)
			return false
		case *ast.GenDecl:
			return n.Tok != token.CONST
		case *ast.BlockStmt:
			m.statements(n.List)
		case *ast.CaseClause:
			m.statements(n.Body)
		case *ast.CommClause:
			m.statements(n.Body)
		case *ast.IfStmt:
			ifConds[n.Cond] = true
			m.around("negated condition", n.Cond, "((", ") != mutOn(%d))")
		case *ast.ReturnStmt:
			if k := len(n.Results); failable && k == results.NumFields() {
				if name, ok := n.Results[k-1].(*ast.Ident); !ok || name.Name != "nil" {
					m.around("nil for an error", n.Results[k-1], "mutErr(%d, ", ")")
				}
			}
			m.numbers(n.Results)
		case *ast.AssignStmt:
			m.numbers(n.Rhs)
		case *ast.CallExpr:
			if untouched.MatchString(types.ExprString(n.Fun)) {
				return false
			}
			m.numbers(n.Args)
		case *ast.IndexExpr:
			m.numbers([]ast.Expr{n.Index})
		case *ast.SliceExpr:
			m.numbers([]ast.Expr{n.Low, n.High})
		case *ast.BinaryExpr:
			m.binary(n, ifConds[n])
		}
		return true
	})
}

func (m *mutation) binary(n *ast.BinaryExpr, ifCond bool) {
	switch n.Op {
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		m.add("boundary of "+n.Op.String(), n, helperOf[n.Op]+"(%d, ", ")", n.OpPos, len(n.Op.String()), ",")
	case token.ADD, token.SUB:
		if _, constant := n.X.(*ast.BasicLit); !constant && !strings.ContainsAny(types.ExprString(n), "\"`") { // nor text
			m.add("other sign than "+n.Op.String(), n, helperOf[n.Op]+"(%d, ", ")", n.OpPos, 1, ",")
		}
	case token.LAND:
		m.around("without the condition after &&", n.Y, "((", ") || mutOn(%d))")
	case token.LOR:
		m.around("without the condition after ||", n.Y, "((", ") && !mutOn(%d))")
	case token.EQL, token.NEQ:
		if !ifCond {
			m.around("negated "+n.Op.String(), n, "((", ") != mutOn(%d))")
		}
	}
}

// statements finds the statements that can be left out.
func (m *mutation) statements(list []ast.Stmt) {
	for _, s := range list {
		switch n := s.(type) {
		case *ast.ExprStmt:
			if call, ok := n.X.(*ast.CallExpr); !ok || untouched.MatchString(types.ExprString(call.Fun)) {
				continue
			}
		case *ast.AssignStmt:
			if name, ok := n.Lhs[0].(*ast.Ident); n.Tok == token.DEFINE || ok && name.Name == "_" {
				continue
			}
		case *ast.IncDecStmt:
		default:
			continue
		}
		m.around("removed statement", s, "if !mutOn(%d) { ", " }")
	}
}

// numbers finds the whole numbers that can be larger by one.
func (m *mutation) numbers(list []ast.Expr) {
	for _, e := range list {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.INT && (lit.Value == "0" || lit.Value[0] != '0') {
			m.around("number "+lit.Value+" plus one", lit, "mutInt(%d, ", ")")
		}
	}
}

// write writes the mutants that are not dropped.
func (m *mutation) write(t *testing.T) {
	t.Helper()
	edits := map[string][]change{}
	for _, one := range m.all {
		if !one.dropped {
			edits[one.file] = append(edits[one.file], one.edits...)
		}
	}
	for file, text := range m.files {
		slices.SortFunc(edits[file], func(a, b change) int { return cmp.Or(a.at-b.at, a.order-b.order) })
		var out []byte
		at := 0
		for _, e := range edits[file] {
			out = append(append(out, text[at:e.at]...), e.text...)
			at = e.end
		}
		is.New(t).NoErr(os.WriteFile(filepath.Join(m.root, file), append(out, text[at:]...), 0o600))
	}
}

var refused = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):\d+: `)

// settle writes all mutants that compile. It drops those of a line that the
// compiler refuses, and of them those that depend on types first.
func (m *mutation) settle(t *testing.T) {
	t.Helper()
	is := is.New(t)
	helpers, err := os.ReadFile(filepath.Join("testdata", "mutants.go.txt"))
	is.NoErr(err)
	build := []string{"build", "-gcflags=-e"}
	for i, dir := range m.dirs {
		is.NoErr(os.WriteFile(filepath.Join(m.root, dir, "mutants_added.go"), fmt.Appendf(nil, string(helpers), m.names[i], len(m.all)), 0o600))
		build = append(build, "./"+dir)
	}
	for range 30 {
		m.write(t)
		out, err := command(m.root, "go", build...).CombinedOutput()
		if err == nil {
			return
		}
		lines := refused.FindAllStringSubmatch(string(out), -1)
		if len(lines) == 0 {
			t.Fatalf("%s", out)
		}
		for _, e := range lines {
			var typed, other []*mutant
			for _, one := range m.all {
				line, _ := strconv.Atoi(e[2])
				switch {
				case one.dropped || one.file != e[1] || line < one.line || line > one.last:
				case strings.HasPrefix(one.what, "number") || strings.HasPrefix(one.what, "other sign"):
					typed = append(typed, one)
				default:
					other = append(other, one)
				}
			}
			if len(typed) > 0 {
				other = typed
			}
			for _, one := range other {
				one.dropped = true
			}
		}
	}
	t.Fatal("it does not compile")
}
