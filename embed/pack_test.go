package embed

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	esbuild "github.com/evanw/esbuild/pkg/api"
	"github.com/matryer/is"
)

// A sourceScript is a script in the folder static, or several of them joined.
type sourceScript struct {
	name  string // of the file, without its folder
	code  []byte
	parts []string // other names by which scripts import it
	keep  []string // parts of it that are also there alone
}

// packedScripts are the scripts that are packed, by the path of the file whose place they take. The home page
// then asks for four scripts of 22 kB instead of ten of 33 kB. A server's first packets of a connection take 14 kB, and
// browsers open several connections.
func packedScripts(t *testing.T, static fs.FS) map[string][]byte {
	t.Helper()
	is := is.New(t)
	all, folders := sourceScripts(t, static)
	for _, entry := range bundles {
		var err error
		all, err = bundle(all, entry[0], entry[1:]...)
		is.NoErr(err)
	}

	packed := make(map[string][]byte)
	for _, s := range all {
		small, err := minified(importBundles(all, s.code))
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		packed[path.Join(folders[s.name], s.name)] = small
	}
	return packed
}

// sourceScripts are the scripts of the folder, and the folder of each by name.
func sourceScripts(t *testing.T, static fs.FS) (all []sourceScript, folders map[string]string) {
	t.Helper()
	folders = make(map[string]string)
	is.New(t).NoErr(fs.WalkDir(static, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".js" {
			return err
		}
		code, err := fs.ReadFile(static, name)
		all = append(all, sourceScript{name: path.Base(name), code: code})
		folders[path.Base(name)] = path.Dir(name)
		return err
	}))
	return all, folders
}

// bundles are the scripts that are joined with what they import. After each are the parts that are also there alone.
var bundles = [][]string{
	{"page.js", "item.js"},
	{"kinds.js", "text.js"},
	{"list.js"},
	{"app.js"},
	{"home.js", "add.js", "tiles.js"},
}

// minified is a script without comments and spaces that it does not need, and with short names. Names that other
// scripts may use stay: those that a module exports, and those at the top level of a script that is no module.
func minified(code []byte) ([]byte, error) {
	result := esbuild.Transform(string(code), esbuild.TransformOptions{
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true,
		Target: esbuild.ES2022, Charset: esbuild.CharsetUTF8,
	})
	if len(result.Errors) > 0 {
		return nil, fmt.Errorf("line %d: %s", result.Errors[0].Location.Line, result.Errors[0].Text)
	}
	return result.Code, nil
}

// importBundles lets a script import the whole instead of its part.
func importBundles(all []sourceScript, code []byte) []byte {
	return eachImport(code, func(module string) string {
		for _, s := range all {
			if slices.Contains(s.parts, module) {
				return s.name
			}
		}
		return module
	})
}

// bundle joins a script with all that it imports, in the order in which a browser would run them. The parts cannot be
// had alone any more, but for those in keep, which pages of other scripts need. A script that imports a part gets the
// whole, which exports what its parts do. So names at the top level of parts must differ. What is in another bundle
// already stays there.
func bundle(all []sourceScript, entry string, keep ...string) ([]sourceScript, error) {
	var whole bytes.Buffer
	var parts []string
	taken := make(map[string][]string) // what it imports, by the bundle that has it

	var add func(name string) error
	add = func(name string) error {
		if slices.Contains(parts, name) {
			return nil
		}
		parts = append(parts, name)
		i := slices.IndexFunc(all, func(s sourceScript) bool { return s.name == name })
		if i < 0 {
			return fmt.Errorf("no script %q", name)
		}
		for line := range bytes.Lines(lean(all[i].code)) {
			found := importOf.FindSubmatch(line)
			if found == nil {
				whole.Write(line)
				continue
			}
			imported := string(found[2])
			bundled := slices.IndexFunc(all, func(s sourceScript) bool {
				return s.parts != nil && slices.Contains(append(s.parts, s.name), imported)
			})
			if bundled >= 0 {
				other := all[bundled].name
				_, names, listed := strings.Cut(string(line), "{")
				names, _, closed := strings.Cut(names, "}")
				if !listed || !closed || !bytes.HasPrefix(line, []byte("import")) {
					return fmt.Errorf("%s must import names from %s, which is in %s", name, imported, other)
				}
				taken[other] = append(taken[other], strings.Split(strings.TrimSpace(names), ", ")...)
				continue
			}
			if slices.ContainsFunc(all, func(s sourceScript) bool { return slices.Contains(s.keep, imported) }) {
				return fmt.Errorf("%s must not import %s, of which another bundle has a copy", name, imported)
			}
			if err := add(imported); err != nil {
				return err
			}
		}
		return nil
	}
	if err := add(entry); err != nil {
		return nil, err
	}

	var head bytes.Buffer
	for _, other := range slices.Sorted(maps.Keys(taken)) {
		slices.Sort(taken[other])
		fmt.Fprintf(&head, "import { %s } from './%s';\n", strings.Join(slices.Compact(taken[other]), ", "), other)
	}

	gone := slices.DeleteFunc(slices.Clone(parts), func(name string) bool { return slices.Contains(keep, name) })
	rest := slices.DeleteFunc(slices.Clone(all), func(s sourceScript) bool { return slices.Contains(gone, s.name) })
	code := slices.Concat(head.Bytes(), whole.Bytes())
	return append(rest, sourceScript{name: entry, code: code, parts: gone[1:], keep: keep}), nil
}

// lean removes comment lines and the white space at the beginning of lines from a script, and puts a list of imports on
// one line. It does not parse the language, so a literal must end on its first line.
func lean(script []byte) []byte {
	script = longImport.ReplaceAllFunc(script, func(names []byte) []byte {
		return bytes.Replace(bytes.Join(bytes.Fields(names), []byte(" ")), []byte(", }"), []byte(" }"), 1)
	})
	out := make([]byte, 0, len(script))
	for line := range bytes.Lines(script) {
		line = bytes.TrimLeft(line, " \t")
		if !bytes.HasPrefix(line, []byte("//")) {
			out = append(out, line...)
		}
	}
	return out
}

// longImport matches the names of an import on several lines.
var longImport = regexp.MustCompile(`(?m)^(?:import|export) \{\n[^{}]*\} from`)

// A bundle has its parts in the order in which they run, once each. What imports a part imports the bundle. Parts that
// others need stay.
func TestBundle(t *testing.T) {
	is := is.New(t)
	files := map[string]string{
		"a.js":     "import {\n  b,\n} from './b.js';\nimport { c } from './c.js';\nb(c);\n",
		"b.js":     "import { c } from './c.js';\nexport { c } from './c.js';\nexport const b = (x) => x + c;\n",
		"c.js":     "export const c = 1;\n",
		"later.js": "import { b } from './b.js';\nb(2);\n",
		"other.js": "import { c } from './c.js';\n",
	}
	scripts := func() []sourceScript {
		var all []sourceScript
		for _, name := range slices.Sorted(maps.Keys(files)) {
			all = append(all, sourceScript{name: name, code: []byte(files[name])})
		}
		return all
	}
	code := func(all []sourceScript, name string) string {
		i := slices.IndexFunc(all, func(s sourceScript) bool { return s.name == name })
		is.True(i >= 0)
		return string(importBundles(all, all[i].code))
	}

	all, err := bundle(scripts(), "a.js", "c.js")
	is.NoErr(err)
	is.Equal(code(all, "a.js"), "export const c = 1;\nexport const b = (x) => x + c;\nb(c);\n")
	is.Equal(code(all, "later.js"), "import { b } from './a.js';\nb(2);\n")
	is.Equal(code(all, "other.js"), "import { c } from './c.js';\n")
	is.Equal(len(all), 4)

	// What another bundle has is imported from it, each name once.
	files["e.js"] = "import { b } from './b.js';\nimport { f } from './f.js';\nimport { c } from './c.js';\nf(b);\n"
	files["f.js"] = "import { b } from './b.js';\nexport const f = b;\n"
	all, err = bundle(scripts(), "b.js")
	is.NoErr(err)
	all, err = bundle(all, "e.js")
	is.NoErr(err)
	is.Equal(code(all, "e.js"), "import { b, c } from './b.js';\nexport const f = b;\nf(b);\n")

	delete(files, "b.js")
	_, err = bundle(scripts(), "a.js")
	is.Equal(fmt.Sprint(err), `no script "b.js"`)
}

// A minified script exports and imports the same names, and an error tells its line.
func TestMinified(t *testing.T) {
	is := is.New(t)
	code := "// Adds.\nimport { one } from './one.js';\nexport const add = (first) => first + one;\n"
	small, err := minified([]byte(code))
	is.NoErr(err)
	is.Equal(string(small), `import{one as r}from"./one.js";export const add=o=>o+r;`+"\n")
	small, err = minified([]byte("const whole = (first) => first;\n")) // of a page with other scripts
	is.NoErr(err)
	is.Equal(string(small), "const whole=o=>o;\n")
	_, err = minified([]byte("1;\nlet let;\n"))
	is.True(err != nil)
	is.True(strings.HasPrefix(err.Error(), "line 2: "))
}

// Scripts are joined line by line, so no literal goes beyond its line.
func TestLiteralsEndOnTheirLine(t *testing.T) {
	all, _ := sourceScripts(t, os.DirFS("static"))
	is.New(t).True(len(all) > 5)
	for _, s := range all {
		for i, line := range strings.Split(string(s.code), "\n") {
			if strings.Count(line, "`")%2 != 0 || strings.HasSuffix(line, "\\") {
				t.Errorf("%s:%d: a literal goes beyond the line", s.name, i+1)
			}
		}
	}
}

// The parts of a bundle share one scope, and so do bundles that import names from each other.
func TestBundlesHaveNoNameTwice(t *testing.T) {
	is := is.New(t)
	all, _ := sourceScripts(t, os.DirFS("static"))
	var app, page []string
	for _, names := range bundles {
		var err error
		all, err = bundle(all, names[0], names[1:]...)
		is.NoErr(err)
		parts := append(all[len(all)-1].parts, names...)
		if names[0] == "page.js" {
			page = parts
		} else {
			app = append(app, parts...)
		}
	}
	is.True(len(topNames(t, app)) > 200)
	is.True(len(topNames(t, page)) > 20)
}

// topNames are the names at the top level of scripts, each with the script that has it. No two may have the same.
func topNames(t *testing.T, parts []string) map[string]string {
	t.Helper()
	is := is.New(t)
	top := regexp.MustCompile(`(?m)^(?:export )?(?:async )?(?:const|let|function\*?|class) ([\w$]+)`)
	from := map[string]string{}
	for _, part := range parts {
		for _, found := range top.FindAllStringSubmatch(appModule(t, part), -1) {
			is.Equal(from[found[1]], "") // the part that has the name already
			from[found[1]] = part
		}
	}
	return from
}
