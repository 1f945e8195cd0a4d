package web

import "strings"

// The policies (Content-Security-Policy) of all that is no page. A page has its own, Policy in
// package embed: it changes together with the template and with what that loads.
const (
	// policyBytes is for stored bytes, all of which are treated as hostile: no script in them
	// ever runs, even if the user opens the file itself.
	policyBytes = "default-src 'none'; " + // nothing is loaded that is not named here
		"style-src 'unsafe-inline'; " + // the styles in an SVG file, and of the browser's own viewers
		"img-src 'self' data:; " + // a picture opened alone, and pictures inside of an SVG file
		"media-src 'self'; " + // a film or a sound opened alone
		"sandbox" // no scripts, forms or windows, and an origin of its own

	// policyPDF is policyBytes for PDF files. Their viewers do not work in the sandbox.
	policyPDF = "default-src 'none'; " +
		"style-src 'unsafe-inline'; " +
		"img-src 'self' data:; " +
		"object-src 'self'; " + // the viewer, which loads the file itself
		"plugin-types application/pdf" // and no other plugin

	// PolicyDrawing is for a picture that the server draws, which loads nothing.
	PolicyDrawing = "default-src 'none'; sandbox"
)

// PolicyWorker is for the app's service worker, which asks this server, and the separate origin
// for content if there is one, and nothing else.
func PolicyWorker(content string) string {
	return strings.TrimSpace("default-src 'none'; connect-src 'self' " + content)
}
