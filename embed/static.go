package embed

import (
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	swagger "github.com/swaggest/swgui/v5/static"
)

// An Asset is a file whose content never changes under the same name. It is safe for concurrent use.
//
// It has a plain and a compressed form with separate entity tags, because different bytes must not share a strong tag.
// Callers must not change the returned bytes.
type Asset struct {
	Name     string // contains the hash: kist.3f2a9c81d0.css
	Type     string // for the Content-Type header
	ETag     string // strong and quoted, of the plain form
	GzipETag string // strong and quoted, of the compressed form, or ""

	modules     []string // names of its imports and their imports
	plain, gzip func() []byte
}

// Bytes returns the plain form. A file that is shipped compressed is unpacked on first use and then kept.
func (a *Asset) Bytes() []byte { return a.plain() }

// Gzip returns the compressed form, or nil if compressing is not worthwhile. A file that is shipped plain is compressed
// on first use and then kept.
func (a *Asset) Gzip() []byte { return a.gzip() }

// Static finds a file by its name with the hash of the current content, so the answer may be cached as immutable. ok is
// false if there is no such file.
func Static(name string) (asset *Asset, ok bool) {
	asset, ok = catalogue().byName[name]
	return asset, ok
}

// Name is the name by which [Static] finds a file: kist.3f2a9c81d0.css for kist.css.
func Name(logical string) (string, error) {
	asset, ok := catalogue().byLogical[logical]
	if !ok {
		return "", fmt.Errorf("no static file %q", logical)
	}
	return asset.Name, nil
}

// packedStatic are the files of the folder static, with the scripts joined and made small. The test that compares them
// makes it.
//
//go:embed static.zip
var packedStatic []byte

// staticFiles are the files of the folder static as they are packed.
var staticFiles = sync.OnceValue(func() fs.FS {
	return must(zip.NewReader(bytes.NewReader(packedStatic), int64(len(packedStatic))))
})

func staticFile(name string) ([]byte, error) { return fs.ReadFile(staticFiles(), name) }

// A source is a file shipped in the binary. Those of the schema viewer are already compressed.
type source struct {
	logical string
	read    func() ([]byte, error)
	packed  bool
}

// isScript reports whether the file is a script whose imports get their served names.
func (s source) isScript() bool { return !s.packed && path.Ext(s.logical) == ".js" }

// bytes returns the served form of the file: a script imports its modules by their served names.
func (s source) bytes(modules map[string]*Asset) ([]byte, error) {
	b, err := s.read()
	switch {
	case err != nil || s.packed:
		return b, err
	case s.isScript():
		return eachImport(b, func(module string) string { return modules[module].Name }), nil
	case path.Ext(s.logical) == ".css":
		return styleSpace.ReplaceAll(styleComment.ReplaceAll(b, nil), []byte("$1")), nil
	}
	return b, nil
}

// styleComment and styleSpace match what a style sheet is served without. They do not parse the language, so a line
// must end where no space is needed: after a comma, or beside a brace, a semicolon or a combinator.
var (
	styleComment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	styleSpace   = regexp.MustCompile(`\s*([{};])\s*|\s*\n\s*`)
)

// sources lists all files that can be served. No two have the same name, even in different folders.
var sources = sync.OnceValue(func() []source {
	file := func(files fs.FS, name string) func() ([]byte, error) {
		return func() ([]byte, error) { return fs.ReadFile(files, name) }
	}
	all := []source{
		{logical: "swagger-ui.css", read: file(swagger.FS, "swagger-ui.css.gz"), packed: true},
		{logical: "swagger-ui-bundle.js", read: file(swagger.FS, "swagger-ui-bundle.js.gz"), packed: true},
	}
	for _, l := range Langs() {
		for _, name := range pageScripts() {
			read := func() ([]byte, error) { return l.script(name) }
			all = append(all, source{logical: l.scriptName(name), read: read})
		}
	}
	_ = must(0, fs.WalkDir(staticFiles(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		all = append(all, source{logical: path.Base(name), read: file(staticFiles(), name)})
		return nil
	}))
	// The app's style sheet begins with that of all pages, so that a page of the app asks for one.
	sheet := slices.IndexFunc(all, func(s source) bool { return s.logical == "app.css" })
	all[sheet].read = func() ([]byte, error) {
		every, err := staticFile("kist.css")
		own, problem := staticFile("app.css")
		return slices.Concat(every, own), cmp.Or(err, problem)
	}
	return all
})

// importOf matches an import of a script from its folder.
var importOf = regexp.MustCompile(`(\b(?:from|import) ?["'])\./([a-z0-9-]+\.js)(["'])`)

// eachImport replaces the names of the files that a script imports from its folder.
func eachImport(script []byte, name func(module string) string) []byte {
	return importOf.ReplaceAllFunc(script, func(statement []byte) []byte {
		found := importOf.FindSubmatch(statement)
		return fmt.Appendf(nil, "%s./%s%s", found[1], name(string(found[2])), found[3])
	})
}

var types = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".png": "image/png",
	".svg": "image/svg+xml",
}

type assets struct {
	byName, byLogical map[string]*Asset
}

// catalogue names the files on first use, so that starting costs nothing. The sources are part of the binary, so a
// panic means that the build is broken.
var catalogue = sync.OnceValue(func() assets { return must(newAssets(sources())) })

// newAssets names the files. The name of a script depends on the names of its imports, so a browser can never run a
// module of one version together with a module of another.
func newAssets(sources []source) (assets, error) {
	all := assets{byName: make(map[string]*Asset), byLogical: make(map[string]*Asset)}
	files := make(map[string]source)
	for _, s := range sources {
		if _, ok := files[s.logical]; ok {
			return all, fmt.Errorf("two static files are named %q", s.logical)
		}
		files[s.logical] = s
	}

	var add func(logical string, importers ...string) (*Asset, error)
	add = func(logical string, importers ...string) (*Asset, error) {
		if a, ok := all.byLogical[logical]; ok {
			return a, nil
		}
		s, ok := files[logical]
		if !ok {
			return nil, fmt.Errorf("%s imports %s, which does not exist", importers[len(importers)-1], logical)
		}
		if slices.Contains(importers, logical) {
			return nil, fmt.Errorf("scripts import each other: %s", strings.Join(append(importers, logical), ", "))
		}

		var modules []string
		if s.isScript() {
			script, err := s.read()
			if err != nil {
				return nil, err
			}
			eachImport(script, func(module string) string {
				imported, problem := add(module, append(slices.Clone(importers), logical)...)
				if problem != nil {
					err = problem
				} else {
					modules = append(append(modules, imported.modules...), imported.Name)
				}
				return module
			})
			if err != nil {
				return nil, err
			}
		}

		a, err := newAsset(s, all.byLogical)
		if err != nil {
			return nil, err
		}
		a.modules = unique(modules)
		all.byName[a.Name] = a
		all.byLogical[logical] = a
		return a, nil
	}

	for _, s := range sources {
		if _, err := add(s.logical); err != nil {
			return all, err
		}
	}
	return all, nil
}

func unique(names []string) []string {
	var out []string
	for _, name := range names {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// worthwhile is the minimum size of a file to compress, in bytes.
const worthwhile = 512

// newAsset names a file. Its imports must already have names.
func newAsset(s source, modules map[string]*Asset) (*Asset, error) {
	served, err := s.bytes(modules)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(served)
	sum := hex.EncodeToString(hash[:5])

	extension := path.Ext(s.logical)
	a := &Asset{
		Name: strings.TrimSuffix(s.logical, extension) + "." + sum + extension,
		Type: types[extension],
		ETag: `"` + sum + `"`,
	}
	shipped := sync.OnceValue(func() []byte {
		return must(s.bytes(modules))
	})
	switch {
	case s.packed:
		a.plain = sync.OnceValue(func() []byte { return unpack(shipped()) })
		a.gzip = shipped
	case len(served) >= worthwhile && extension != ".png": // PNG is compressed already
		a.plain = shipped
		a.gzip = sync.OnceValue(func() []byte { return pack(shipped()) })
	default:
		a.plain = shipped
		a.gzip = func() []byte { return nil }
		return a, nil
	}
	a.GzipETag = `"` + sum + `-gzip"`
	return a, nil
}

func pack(plain []byte) []byte {
	var packed bytes.Buffer
	w := must(gzip.NewWriterLevel(&packed, gzip.BestCompression))
	_ = must(w.Write(plain))
	_ = must(0, w.Close())
	return packed.Bytes()
}

func unpack(packed []byte) []byte {
	return must(io.ReadAll(must(gzip.NewReader(bytes.NewReader(packed)))))
}

// must is for operations that can only fail if the build is broken.
func must[T any](value T, err error) T {
	if err != nil {
		panic(fmt.Errorf("embed: %w", err))
	}
	return value
}
