package format

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"kist/kv/media"
)

// detected is how many bytes of a source are read to detect its format.
const detected = 64 << 10

// Detect detects the format of a source.
func Detect(s Source) (Format, error) {
	head := make([]byte, min(detected, max(s.Size, 0)))
	n, err := s.R.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	head = head[:n]
	if bytes.HasPrefix(head, []byte("PK\x03\x04")) || bytes.HasPrefix(head, []byte("PK\x05\x06")) {
		return detectZip(s)
	}
	if len(head) > 262 && string(head[257:262]) == "ustar" {
		return Folder, nil
	}
	charset, err := media.CharsetOf(bytes.NewReader(head), "")
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(charset.NewReader(bytes.NewReader(head)))
	if err != nil {
		return "", err
	}
	text = bytes.TrimLeft(text, " \t\r\n")
	lower := bytes.ToLower(text)
	has := func(part string) bool { return bytes.Contains(lower, []byte(part)) }
	switch {
	case has("<!doctype netscape-bookmark"), bytes.HasPrefix(text, []byte("<")) && (has("<dl") || has("<a ")):
		return Netscape, nil
	case bytes.HasPrefix(text, []byte("{")) || bytes.HasPrefix(text, []byte("[")):
		if f := detectJSON(text[0] == '[', has); f != "" {
			return f, nil
		}
		return "", errUnknown
	case bytes.HasPrefix(head, []byte("mozLz40\x00")):
		return "", unreadable("It is a compressed backup of Firefox. " +
			"In Firefox, open the bookmarks' library, choose Backup, and import that file.")
	}
	columns := map[string]bool{}
	separator, table := media.Separator(string(text))
	line, _, _ := strings.Cut(table, "\n")
	for c := range strings.SplitSeq(line, string(separator)) {
		columns[column(c)] = true
	}
	switch {
	case columns["longurl"]:
		return Shlink, nil
	case !columns["url"]:
		return "", errUnknown
	case columns["timeadded"]:
		return Pocket, nil
	case columns["excerpt"] && columns["created"]:
		return Raindrop, nil
	case columns["selection"] && columns["timestamp"]:
		return Instapaper, nil
	}
	return CSV, nil
}

var errUnknown = unreadable("Unknown file format. Known formats: %s. "+
	"Most programs can also export bookmarks as HTML: import that.", known())

// detectJSON detects a format by members at the beginning of a document; "" if
// the format is unknown.
func detectJSON(list bool, has func(string) bool) Format {
	switch {
	case list && has(`"is_archived"`) && has(`"is_starred"`):
		return Wallabag
	case list && has(`"tag_names"`):
		return Linkding
	case list && has(`"savedat"`) && has(`"slug"`):
		return Omnivore
	case list:
		return ""
	case has(`"text/x-moz-place-container"`):
		return Firefox
	case has(`"roots"`) && has(`"bookmark_bar"`):
		return Chrome
	case has(`"bookmarks"`) && has(`"content"`) && has(`"createdat"`):
		return Karakeep
	case has(`"collections"`) && (has(`"links"`) || has(`"pinnedlinks"`)):
		return Linkwarden
	case has(`"results"`) && has(`"url"`):
		return Linkding
	}
	return ""
}
