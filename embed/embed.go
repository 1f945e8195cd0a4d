// Package embed holds what is shipped inside the binary: the API's schema, the pages, the style sheets and the scripts.
//
// It does not serve anything. Pages are written by [Render], which also fixes the policy a page needs ([Page.Policy]);
// files are found by [Static] under a name that carries a hash of their content, so that an answer may be kept for ever.
package embed

import _ "embed"

// OpenAPI is the schema of the API as it was when the binary was built. The address of the server in it is the
// placeholder {base_url}. Callers must not change the bytes.
//
//go:embed openapi.json
var OpenAPI []byte
