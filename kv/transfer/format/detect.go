package format

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strconv"
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
	if isGzip(s) {
		return detectGzip(head)
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
	return detectColumns(string(text))
}

// detectGzip detects what is packed: one recipe of Paprika.
func detectGzip(head []byte) (Format, error) {
	in, err := gzip.NewReader(bytes.NewReader(head))
	if err != nil {
		return "", errUnknown
	}
	text, _ := io.ReadAll(io.LimitReader(in, detected)) // the head may end early
	if bytes.HasPrefix(text, []byte("{")) && bytes.Contains(text, []byte(`"directions"`)) {
		return Paprika, nil
	}
	return "", errUnknown
}

// detectColumns detects a format by the names of the columns in the first line.
func detectColumns(text string) (Format, error) {
	separator, table := media.Separator(text)
	line, _, _ := strings.Cut(table, "\n")
	var names []string
	columns := map[string]bool{}
	for c := range strings.SplitSeq(line, string(separator)) {
		name := strings.Trim(strings.TrimSpace(c), `"`)
		if len(names) < shownColumns {
			names = append(names, strconv.Quote(shown(name)))
		}
		columns[column(c)] = true
	}
	one := func(of ...string) bool { return slices.ContainsFunc(of, func(c string) bool { return columns[c] }) }

	counted := one(linkClicks...)
	switch {
	case one("bitlink", "custombitlink", "custombitlinks") && one(linkTargets...):
		return Bitly, nil
	case columns["longurl"]:
		return Shlink, nil
	case columns["url"] && columns["keyword"] && (counted || columns["ip"]):
		return YOURLS, nil
	case columns["target"] && one("address", "link"):
		return Kutt, nil
	case counted && one(linkTargets...) && (one(linkSlugs...) || one("shorturl", "shortlink")):
		return ShortLinks, nil
	case columns["name"] && columns["shelves"]:
		return Grouvee, nil
	case columns["name"] && one("completionstatus", "timeplayed", "playcount", "userscore"):
		return Playnite, nil
	case columns["url"] && !one(otherLists...):
		return bookmarksIn(columns), nil
	case len(columns) > 1 && !strings.ContainsRune(line, 0):
		return "", unreadable("It is a table with the columns %s. These are not bookmarks, short links or games "+
			"in a form that is read. Known formats: %s. "+
			"Most programs can also export bookmarks as HTML: import that.", strings.Join(names, ", "), known())
	}
	return "", errUnknown
}

// shownColumns is how many columns a refusal names.
const shownColumns = 12

// otherLists are columns of tables that have addresses and are not lists of
// bookmarks: passwords, books, films, music and games.
var otherLists = []string{
	"password", "loginpassword", "otpauth", "httprealm", "isbn", "const", "imdbrating", "titletype", "letterboxduri",
	"artist", "album", "game", "platforms", "shelves",
}

// bookmarksIn is the program that wrote a list of bookmarks with these columns.
func bookmarksIn(columns map[string]bool) Format {
	switch {
	case columns["timeadded"]:
		return Pocket
	case columns["excerpt"] && columns["created"]:
		return Raindrop
	case columns["selection"] && columns["timestamp"]:
		return Instapaper
	}
	return CSV
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
	case has(`"recipe_ingredient"`), has(`"recipeingredient"`):
		return Mealie
	case has(`"steps"`) && has(`"ingredients"`) && has(`"working_time"`):
		return Tandoor
	case has(`"ingredients"`) && has(`"directions"`):
		return Paprika
	case has(`"long_url"`):
		return Bitly
	case has(`"longurl"`) && has(`"shortcode"`):
		return Shlink
	case has(`"shorturl"`) && has(`"url"`):
		return YOURLS
	case has(`"target"`) && has(`"address"`) && has(`"link"`):
		return Kutt
	case has(`"shelves"`) && has(`"platforms"`):
		return Grouvee
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
