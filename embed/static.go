package embed

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"

	swagger "github.com/swaggest/swgui/v5/static"
)

// An Asset is a file that never changes under its name. It is safe for concurrent use.
//
// It has two forms, as it is and compressed, with an entity tag each: a strong tag must not be shared by different
// bytes. Callers must not change the bytes they are given.
type Asset struct {
	Name     string // carries the hash: kist.3f2a9c81d0.css
	Type     string // for the Content-Type header
	ETag     string // strong and quoted, of the plain form
	GzipETag string // strong and quoted, of the compressed form; empty when there is none

	plain, gzip func() []byte
}

// Bytes are the plain form. A file that is shipped compressed is unpacked when first asked for and then kept.
func (a *Asset) Bytes() []byte { return a.plain() }

// Gzip is the compressed form, or nil when compressing would not pay. A file that is shipped plain is compressed when
// first asked for and then kept.
func (a *Asset) Gzip() []byte { return a.gzip() }

// Static finds the file of that name; ok is false when there is none. Only names with the hash of the present content
// are known, so whatever is found may be cached as immutable.
func Static(name string) (asset *Asset, ok bool) {
	asset, ok = catalogue().byName[name]
	return asset, ok
}

// Name is the name under which [Static] knows a file: kist.3f2a9c81d0.css for kist.css.
func Name(logical string) (string, error) {
	asset, ok := catalogue().byLogical[logical]
	if !ok {
		return "", fmt.Errorf("no static file %q", logical)
	}
	return asset.Name, nil
}

//go:embed static
var staticFiles embed.FS

// A source is a file shipped in the binary. Those of the schema viewer are already compressed.
type source struct {
	logical string
	files   fs.ReadFileFS
	path    string
	packed  bool
}

// bytes are what is served of the file.
func (s source) bytes() ([]byte, error) {
	b, err := s.files.ReadFile(s.path)
	if path.Ext(s.path) == ".js" {
		b = lean(b)
	}
	return b, err
}

// lean is a script without the lines that are comments and without the white space that lines begin with. It does not
// read the language, so a literal must end on the line that it begins on.
func lean(script []byte) []byte {
	out := make([]byte, 0, len(script))
	for line := range bytes.Lines(script) {
		if line = bytes.TrimLeft(line, " \t"); !bytes.HasPrefix(line, []byte("//")) {
			out = append(out, line...)
		}
	}
	return out
}

var sources = []source{
	{"app-192.png", staticFiles, "static/app-192.png", false},
	{"app-512.png", staticFiles, "static/app-512.png", false},
	{"app.css", staticFiles, "static/app.css", false},
	{"app.js", staticFiles, "static/app.js", false},
	{"kist.css", staticFiles, "static/kist.css", false},
	{"kist.svg", staticFiles, "static/kist.svg", false},
	{"bookmarks.js", staticFiles, "static/bookmarks.js", false},
	{"moving.js", staticFiles, "static/moving.js", false},
	{"page.js", staticFiles, "static/page.js", false},
	{"pow.js", staticFiles, "static/pow.js", false},
	{"proof.js", staticFiles, "static/proof.js", false},
	{"reference.css", staticFiles, "static/reference.css", false},
	{"reference.js", staticFiles, "static/reference.js", false},
	{"admin.js", staticFiles, "static/admin.js", false},
	{"keys.js", staticFiles, "static/keys.js", false},
	{"tus.js", staticFiles, "static/tus.js", false},
	{"webhooks.js", staticFiles, "static/webhooks.js", false},
	{"remote.js", staticFiles, "static/remote.js", false},
	{"requests.js", staticFiles, "static/requests.js", false},
	{"up.css", staticFiles, "static/up.css", false},
	{"up.js", staticFiles, "static/up.js", false},
	{"swagger-ui.css", swagger.FS, "swagger-ui.css.gz", true},
	{"swagger-ui-bundle.js", swagger.FS, "swagger-ui-bundle.js.gz", true},
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

// catalogue names the files when the first one is asked for, so that starting costs nothing. The sources are part of
// the binary, so it panics only when that was built wrongly.
var catalogue = sync.OnceValue(func() assets {
	all := assets{byName: make(map[string]*Asset), byLogical: make(map[string]*Asset)}
	for _, s := range sources {
		a := must(newAsset(s))
		all.byName[a.Name] = a
		all.byLogical[s.logical] = a
	}
	return all
})

// worthwhile is the least size of a file that is compressed.
const worthwhile = 512

func newAsset(s source) (*Asset, error) {
	served, err := s.bytes()
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
		return must(s.bytes())
	})
	switch {
	case s.packed:
		a.plain = sync.OnceValue(func() []byte { return must(unpack(shipped())) })
		a.gzip = shipped
	case len(served) >= worthwhile && extension != ".png": // which is compressed on its own
		a.plain = shipped
		a.gzip = sync.OnceValue(func() []byte { return must(pack(shipped())) })
	default:
		a.plain = shipped
		a.gzip = func() []byte { return nil }
		return a, nil
	}
	a.GzipETag = `"` + sum + `-gzip"`
	return a, nil
}

func pack(plain []byte) ([]byte, error) {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// must is for what can only fail when the binary was built wrongly.
func must[T any](value T, err error) T {
	if err != nil {
		panic(fmt.Errorf("embed: %w", err))
	}
	return value
}
