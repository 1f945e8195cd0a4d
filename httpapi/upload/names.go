package upload

import (
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"

	"golang.org/x/text/encoding/htmlindex"

	"kist/kv/media"
)

// FileName is the name of the part's file. Browsers write a quote in it as %22 and line ends as
// %0D and %0A (HTML standard, multipart/form-data encoding).
func FileName(p *multipart.Part) string {
	return media.FileName(formEscapes.Replace(saidName(p.Header.Get("Content-Disposition"))))
}

var formEscapes = strings.NewReplacer("%22", `"`, "%0D", "", "%0A", "", "%0d", "", "%0a", "")

// nameOf is the name of the file in an answer: that of the Content-Disposition header, else the end of the
// address after redirects, else its host. said reports whether the answer names it.
func nameOf(res *http.Response) (name string, said bool) {
	u := res.Request.URL
	if name := saidName(res.Header.Get("Content-Disposition")); name != "" {
		return media.FileName(name), true
	}
	end := ""
	if escaped := u.EscapedPath(); strings.Trim(escaped, "/") != "" {
		end = pathParams.ReplaceAllString(path.Base(escaped), "")
	}
	name, err := url.PathUnescape(end)
	if err != nil || name == "" {
		name = u.Hostname()
	}
	return media.FileName(name), false
}

// pathParams are the parameters at the end of a path, such as ;jsessionid=15 (RFC 3986, section 3.3).
var pathParams = regexp.MustCompile(`(?i)(?:;[a-z][\w.-]*=[^;]*|;jsessionid[^;]*)+$`)

// looseName finds a file name in a malformed Content-Disposition.
var looseName = regexp.MustCompile(`(?i)(?:^|;)\s*filename\s*=\s*(?:"([^"]*)"|([^;"]*))`)

// codedName finds a file name according to RFC 8187.
var codedName = regexp.MustCompile(`(?i)(?:^|;)\s*filename\*\s*=\s*"?([\w.:-]+)'[^']*'([^;"\s]*)`)

// saidName is the file name in a Content-Disposition (RFC 6266, RFC 7578) as bytes, perhaps in an older charset; "" if
// it has none. filename* may be in any charset. Many servers write filename with spaces and without quotes, and some
// programs write it in encoded words (RFC 2047).
func saidName(disposition string) string {
	for _, at := range codedName.FindAllStringSubmatchIndex(disposition, -1) {
		if strings.Count(disposition[:at[0]], `"`)%2 == 1 {
			continue // a part of another value
		}
		coded, err := url.PathUnescape(disposition[at[4]:at[5]])
		if err == nil && coded != "" {
			return inCharset(disposition[at[2]:at[3]], coded)
		}
	}
	_, params, err := mime.ParseMediaType(disposition)
	name := params["filename"]
	if found := looseName.FindStringSubmatch(disposition); err != nil && found != nil {
		name = found[1] + found[2]
	}
	if plain, err := encodedWords.DecodeHeader(name); err == nil {
		return plain
	}
	return name
}

// inCharset is a text in a charset that its sender names. If the charset is unknown, it is as it was.
func inCharset(label, text string) string {
	charset, err := htmlindex.Get(label)
	if err != nil {
		return text
	}
	plain, err := charset.NewDecoder().String(text)
	if err != nil {
		return text
	}
	return plain
}

var encodedWords = mime.WordDecoder{CharsetReader: func(label string, in io.Reader) (io.Reader, error) {
	charset, err := htmlindex.Get(label)
	if err != nil {
		return nil, err
	}
	return charset.NewDecoder().Reader(in), nil
}}
