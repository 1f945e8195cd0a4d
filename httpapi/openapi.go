package httpapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"kist/embed"
	"kist/httpapi/web"
)

// What stands in the embedded document for the base address, and for the version of the program.
const (
	Placeholder        = "{base_url}"
	VersionPlaceholder = "{kist_version}"
)

// A served document is the embedded one with the base address and the version filled in.
type served struct {
	plain, packed       []byte // uncompressed, and compressed by gzip
	plainTag, packedTag string // strong entity tags
}

func serveDocument(base, version string) (*served, error) {
	v := &served{plain: embed.OpenAPI()}
	for placeholder, text := range map[string]string{Placeholder: base, VersionPlaceholder: version} {
		quoted, err := json.Marshal(text)
		if err != nil {
			return nil, fmt.Errorf("%s of the document: %w", placeholder, err)
		}
		v.plain = bytes.ReplaceAll(v.plain, []byte(placeholder), quoted[1:len(quoted)-1])
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(v.plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	v.packed = packed.Bytes()
	sum := sha256.Sum256(v.plain)
	v.plainTag = `"` + hex.EncodeToString(sum[:12]) + `"`
	v.packedTag = `"` + hex.EncodeToString(sum[:12]) + `-gzip"`
	return v, nil
}

var readSchemaOp = web.Operation{
	Tag: "server", Summary: "The schema of this API.",
	Args:  []web.Param{web.IfNoneMatch},
	Reply: web.Reply{Status: 200, Doc: "The OpenAPI document.", Body: web.BodyOf("Document")},
	Fails: []int{304},
}

func (s *Server) readSchema(c *web.Request) error {
	v, err := s.schema()
	if err != nil {
		return err
	}
	h := c.W.Header()
	h.Set("Content-Type", web.JSONType)
	h.Set("Cache-Control", "no-cache")
	body, tag := v.plain, v.plainTag
	if web.TakesGzip(c.R) {
		h.Set("Content-Encoding", "gzip")
		body, tag = v.packed, v.packedTag
	}
	return c.UnlessUnchanged(tag, func() []byte { return body })
}
