package httpapi

import "strings"

// partOfPage reports whether a page can have content of the type for its
// script (WHATWG MIME Sniffing, section 4.6) or style sheet.
func partOfPage(media string) bool {
	_, sub, _ := strings.Cut(media, "/")
	switch sub = strings.TrimPrefix(sub, "x-"); sub {
	case "ecmascript", "jscript", "livescript", "css":
		return true
	}
	return strings.HasPrefix(sub, "javascript")
}
