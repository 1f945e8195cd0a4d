package embed

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"
)

//go:embed extension
var extensionFiles embed.FS

// serverFile tells the extension which server it came from, and kindsFile how that
// describes the kinds of records.
const (
	serverFile = "server.json"
	kindsFile  = "kinds.json"
)

// Extension returns the files of the browser extension by slash-separated path. Chromium and Firefox can load a folder
// with these files. server is the suggested address to connect to; "" suggests none. kinds are the views of the kinds
// as JSON.
func Extension(server string, kinds []byte) map[string][]byte {
	files := make(map[string][]byte)
	_ = must(0, fs.WalkDir(extensionFiles, "extension", func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[strings.TrimPrefix(at, "extension/")], err = extensionFiles.ReadFile(at)
		return err
	}))
	files["kist.css"] = must(staticFile("kist.css")) // the extension looks like the app
	// The texts come before everything that uses them.
	files["text.js"] = append([]byte("import './texts.js';\n"), must(staticFile("text.js"))...)
	files["texts.js"] = must(extensionTexts())
	files[serverFile] = must(json.Marshal(map[string]string{"url": server}))
	files[kindsFile] = kinds
	for _, l := range Langs() {
		files["_locales/"+string(l)+"/messages.json"] = must(l.manifestTexts())
	}
	return files
}

// An Archive is a zip file. Callers must not change the bytes.
type Archive struct {
	Bytes []byte
	ETag  string // strong and quoted
}

// ExtensionZip is the browser extension as one zip file, without a top folder. The same binary makes the same bytes for
// the same server and kinds, see [Extension].
func ExtensionZip(server string, kinds []byte) (*Archive, error) {
	files := Extension(server, kinds)
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, flate.BestCompression)
	})
	earliest := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC) // that the format has
	for _, name := range slices.Sorted(maps.Keys(files)) {
		head := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: earliest}
		head.SetMode(0o644)
		f, err := w.CreateHeader(head)
		if err != nil {
			return nil, fmt.Errorf("cannot pack %s: %w", name, err)
		}
		if _, err := f.Write(files[name]); err != nil {
			return nil, fmt.Errorf("cannot pack %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("cannot pack the extension: %w", err)
	}
	sum := sha256.Sum256(b.Bytes())
	return &Archive{Bytes: b.Bytes(), ETag: `"` + hex.EncodeToString(sum[:10]) + `"`}, nil
}
