// Package embed holds the files inside the binary: the API's schema, the pages, the style sheets and the scripts.
//
// It does not serve anything. [Render] writes pages, and [Page.Policy] is the policy that a page needs. [Static] finds
// files under a name with a hash of their content, so that an answer may be cached forever.
package embed

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
)

// OpenAPI is the schema of the API at build time. The placeholder {base_url} stands for the address of the server.
func OpenAPI() []byte { return unpacked(packedOpenAPI) }

// unpacked is what gzip has packed. It is part of the binary, so a panic means that the build is broken.
func unpacked(packed []byte) []byte {
	return must(io.ReadAll(must(gzip.NewReader(bytes.NewReader(packed)))))
}

// packedOpenAPI is openapi.json in a tenth of the size. The test that makes one makes the other.
//
//go:embed openapi.json.gz
var packedOpenAPI []byte
