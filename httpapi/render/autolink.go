package render

import (
	"bytes"
	"net/netip"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// bareLinks makes links of http and https addresses that stand in a text as they are. goldmark's own parser
// begins them only after a space or one of a few marks, wants a dot in the host and ends at the first letter
// beyond ASCII. It still finds those that begin with "www." and mail addresses.
type bareLinks struct{}

// Trigger implements [parser.InlineParser].
func (bareLinks) Trigger() []byte { return []byte{':'} }

// Parse implements [parser.InlineParser]. The text before the colon is already a node: the scheme is taken
// from its end.
func (bareLinks) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	before, ok := parent.LastChild().(*ast.Text)
	line, segment := block.PeekLine()
	if !ok || before.Segment.Stop != segment.Start || before.SoftLineBreak() || pc.IsInLinkLabel() {
		return nil
	}
	scheme := schemeAtEnd(before.Value(block.Source()))
	rest := addressEnd(line)
	if scheme == 0 || rest == 0 {
		return nil
	}

	begin := segment.Start - scheme
	before.Segment = before.Segment.WithStop(begin)
	if before.Segment.IsEmpty() {
		parent.RemoveChild(parent, before)
	}
	block.Advance(rest)
	return ast.NewAutoLink(ast.AutoLinkURL, ast.NewTextSegment(text.NewSegment(begin, segment.Start+rest)))
}

// schemeAtEnd is the length of the scheme at the end of a text; 0 if there is none, or only as a part of a
// longer word.
func schemeAtEnd(t []byte) int {
	at := len(t)
	for at > 0 && len(t)-at <= len("https") && util.IsAlphaNumeric(t[at-1]) {
		at--
	}
	if word := t[at:]; bytes.EqualFold(word, []byte("http")) || bytes.EqualFold(word, []byte("https")) {
		return len(word)
	}
	return 0
}

// maxHost is the length of the longest name of a host in bytes, and more than that of a longest port.
const maxHost = 253

// userInfo matches what may stand before the host.
var userInfo = regexp.MustCompile(`^[-\w.~%!$&'()+,;=:]{1,128}@`)

// addressEnd is the end of an address whose scheme stands before t; 0 if t does not go on as one.
func addressEnd(t []byte) int {
	after, ok := bytes.CutPrefix(t, []byte("://"))
	if !ok {
		return 0
	}
	begin := len(t) - len(after) + len(userInfo.Find(after[:min(len(after), maxHost)]))
	host := hostEnd(t[begin:min(len(t), begin+maxHost)])
	if host == 0 {
		return 0
	}

	host += begin
	end := host
	if end < len(t) && strings.IndexByte("/?#", t[end]) >= 0 {
		end = pathEnd(t, end)
	}
	return trimEnd(t, host, end)
}

// hostEnd is the end of the host, and of its port, at the beginning of t; 0 if there is no host.
func hostEnd(t []byte) int {
	end := nameEnd(t)
	if len(t) > 0 && t[0] == '[' {
		inside, _, _ := bytes.Cut(t[1:], []byte("]"))
		if a, err := netip.ParseAddr(string(inside)); err != nil || !a.Is6() || a.Zone() != "" {
			return 0
		}
		end = len(inside) + len("[]")
	}
	if end == 0 {
		return 0
	}

	port := end
	for port+1 < len(t) && t[end] == ':' && util.IsNumeric(t[port+1]) {
		port++
	}
	if port > end {
		return port + 1
	}
	return end
}

// nameEnd is the end of the name of a host, or an IPv4 address, at the beginning of t. In a script without
// spaces, the text may go on right behind a name in ASCII: a name has such letters only in labels that begin
// with one.
func nameEnd(t []byte) int {
	end, label, unspacedLabel := 0, 0, false // label: where the last label begins
	for end < len(t) {
		r, size := utf8.DecodeRune(t[end:])
		if r == '.' && end > label {
			end += size
			label = end
			continue
		}
		if !unicode.In(r, unicode.L, unicode.M, unicode.N) && r != '-' && r != '_' {
			break
		}
		if end == label {
			unspacedLabel = unicode.In(r, unspaced...)
		} else if !unspacedLabel && unicode.In(r, unspaced...) {
			break
		}
		end += size
	}
	if end > 0 && end == label { // a dot that ends a sentence
		end--
	}
	return end
}

// unspaced are the scripts without spaces between words, and Hangul, whose words have attached endings.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
	unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

// pathEnd is the end of path, query and fragment, which begin at a place of t.
func pathEnd(t []byte, at int) int {
	for at < len(t) {
		r, size := utf8.DecodeRune(t[at:])
		if !inPath(r) {
			break
		}
		at += size
	}
	return at
}

// inPath reports whether a character may stand in a path as people copy it from a browser. Quotes and
// brackets beyond ASCII, and the punctuation of East Asia, stand around addresses.
func inPath(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r > ' ' && r < 0x7f && strings.IndexByte("\"<>\\`|*", byte(r)) < 0
	case r == utf8.RuneError, r != '\u200c' && r != '\u200d' && !unicode.IsPrint(r):
		return false
	case r == '’':
		return true
	case unicode.In(r, unicode.Ps, unicode.Pe, unicode.Pi, unicode.Pf):
		return false
	}
	return !unicode.IsPunct(r) || !eastAsian(r)
}

// trimEnd leaves out what ends the sentence around an address and not the address: marks, and brackets that
// were not opened in it.
func trimEnd(t []byte, host, end int) int {
	round := bytes.Count(t[:end], []byte(")")) - bytes.Count(t[:end], []byte("("))
	square := bytes.Count(t[:end], []byte("]")) - bytes.Count(t[:end], []byte("["))
	for end > host {
		r, size := utf8.DecodeLastRune(t[host:end])
		switch {
		case r == ')' && round > 0:
			round--
		case r == ']' && square > 0:
			square--
		case r == ';':
			size = len(entityAtEnd(t[host:end]))
		case strings.ContainsRune("?!.,:_~'", r), r >= utf8.RuneSelf && unicode.IsPunct(r):
		default:
			return end
		}
		end -= size
	}
	return end
}

// entityAtEnd is the entity, such as "&quot;", or else the semicolon that t ends with.
func entityAtEnd(t []byte) []byte {
	const longest = 32 // of the names of HTML
	t = t[max(0, len(t)-longest):]
	at := bytes.LastIndexByte(t, '&')
	if at >= 0 && len(t)-at > len("&;") && !bytes.ContainsFunc(t[at+1:len(t)-1], func(r rune) bool {
		return r != '#' && (r >= utf8.RuneSelf || !util.IsAlphaNumeric(byte(r)))
	}) {
		return t[at:]
	}
	return t[len(t)-1:]
}
