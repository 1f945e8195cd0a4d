// Package embed holds the files inside the binary: the API's schema, the pages, the style sheets and the scripts.
//
// It does not serve anything. [Render] writes pages, and [Page.Policy] is the policy that a page needs. [Static] finds
// files under a name with a hash of their content, so that an answer may be cached forever.
package embed

import _ "embed"

// OpenAPI is the schema of the API at build time. The placeholder {base_url} stands for the address of the server.
// Callers must not change the bytes.
//
//go:embed openapi.json
var OpenAPI []byte
