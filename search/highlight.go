package search

import (
	"bytes"
	"iter"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"kist/kv/record"
)

// Limits of an excerpt in characters: its length, and how much of it comes before the match.
const (
	excerptLength = 240
	excerptBefore = 60
)

// A Range is a part of a text, [start, end), in UTF-16 code units, the unit of strings in JavaScript and Java.
type Range [2]int

// A Highlight shows where a record matches: plain text and the places of the words. It contains no markup.
type Highlight struct {
	Title      string
	TitleMarks []Range
	Text       string // an excerpt of the rest, or ""
	TextMarks  []Range
}

// Highlight finds where the query matches a record. A Finder is for one goroutine.
func (x *Index) Highlight(f *Finder, r *record.Record) (Highlight, error) {
	r = f.known(r)
	d, err := proseOf(r, nil)
	if err != nil {
		return Highlight{}, err
	}
	h := Highlight{Title: d.title}
	var best fit
	best, h.TitleMarks = marks(d.title, f.titleSpans(d.title))

	shown, at, found := "", 0, nowhere
	look := func(t string) {
		for s := range f.spans(t) {
			if s.fit > found {
				shown, at, found = t, s.start, s.fit
			}
			if found == exactly {
				break
			}
		}
	}
	for _, t := range append(d.texts, d.slug) {
		if found != exactly {
			look(t)
		}
	}
	if found == nowhere && best == nowhere && r.Bytes != nil && r.Bytes.Class == record.Text && len(f.must) > 0 {
		look(x.content(r))
	}
	if found == nowhere && len(d.texts) > 0 {
		shown = d.texts[0]
	}

	markdown := r.Kind == record.Notes || r.Kind == record.Recipes
	h.Text = excerpt(shown, at, markdown)
	_, h.TextMarks = marks(h.Text, f.spans(h.Text))
	if markdown && found != nowhere && len(h.TextMarks) == 0 { // such as a link's address
		h.Text = excerpt(shown, at, false)
		_, h.TextMarks = marks(h.Text, f.spans(h.Text))
	}
	return h, nil
}

// unmarked leaves out the marks of Markdown that plain text should not have: those at the beginning of a line, signs
// beside words, and the targets of links. A page has 50 excerpts: a regular expression would take most of the time.
func unmarked(t string) string {
	if !strings.ContainsAny(t, "#>*`~[+") && !strings.Contains(t, "- ") {
		return t
	}
	out := make([]byte, 0, len(t))
	for line := range strings.Lines(t) {
		rest := strings.TrimLeft(line, " \t")
		switch text := strings.TrimLeft(rest, "#"); {
		case strings.HasPrefix(rest, "```"):
			out = append(out, '\n')
			continue
		case rest != text && strings.HasPrefix(text, " "), strings.HasPrefix(rest, ">"):
			rest = uncalled(strings.TrimLeft(rest, "#> "))
		case len(rest) > 1 && strings.IndexByte("-*+", rest[0]) >= 0 && rest[1] == ' ':
			rest = rest[2:]
			if isBox(rest) {
				rest = rest[3:]
			}
		}

		for rest != "" {
			at := strings.IndexAny(rest, "*~`[")
			if at < 0 {
				break
			}
			out, rest = append(out, rest[:at]...), rest[at:]
			text, after, linked := strings.Cut(rest, "](")
			end := strings.IndexAny(after, ") \t\n")
			switch {
			case isFootnote(rest):
				_, rest, _ = strings.Cut(rest, "]")
				if strings.Trim(string(out[bytes.LastIndexByte(out, '\n')+1:]), " \t") == "" {
					rest = strings.TrimPrefix(rest, ":")
				}
			case rest[0] == '`', strings.HasPrefix(rest, "**"), strings.HasPrefix(rest, "~~"):
				sign := rest[:1]
				beyond := strings.TrimLeft(rest, sign)
				before, behind := len(out) > 0 && isWord(out[len(out)-1]), beyond != "" && isWord(beyond[0])
				if sign != "`" && before == behind { // such as 10**6
					out = append(out, rest[:len(rest)-len(beyond)]...)
				}
				rest = beyond
			case rest[0] == '[' && linked && !strings.ContainsAny(text, "]\n") &&
				end > 0 && after[end] == ')' && isTarget(after[:end]):
				out, rest = append(bytes.TrimSuffix(out, []byte("!")), unmarked(text[1:])...), after[end+1:]
			default:
				out, rest = append(out, rest[0]), rest[1:]
			}
		}
		out = append(out, rest...)
	}
	return string(out)
}

// uncalled is a line of a quote without the mark of a callout, such as [!NOTE].
func uncalled(line string) string {
	mark, after, ok := strings.Cut(line, "]")
	if !ok || len(mark) < 3 || !strings.HasPrefix(mark, "[!") || strings.ContainsAny(mark, " \t\n") {
		return line
	}
	return after
}

// isFootnote reports whether a text begins with the mark of a footnote, such as [^1].
func isFootnote(t string) bool {
	if !strings.HasPrefix(t, "[^") {
		return false
	}
	end := strings.IndexAny(t, "] \t\n")
	return end > 2 && t[end] == ']'
}

// isBox reports whether a line of a list begins with a box to tick and a space.
func isBox(t string) bool {
	return len(t) > 3 && t[0] == '[' && strings.IndexByte(" xX", t[1]) >= 0 && t[2] == ']' && t[3] == ' '
}

// isWord reports whether a byte is of a letter or a digit, or of a character beyond ASCII.
func isWord(b byte) bool {
	return b >= utf8.RuneSelf || '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'z'
}

// isTarget tells the target of a link from the argument of a call in code.
func isTarget(t string) bool {
	scheme, _, absolute := strings.Cut(t, ":")
	return strings.IndexByte("/#.", t[0]) >= 0 || absolute && strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz") == ""
}

// excerpt is the text around a place, with its white space normalised and without the marks of Markdown.
func excerpt(t string, at int, markdown bool) string {
	from := at
	for range excerptBefore {
		_, size := utf8.DecodeLastRuneInString(t[:from])
		from -= size
	}
	cutOff := from > 0
	if cutOff { // start at the beginning of a word
		if space := strings.IndexAny(t[from:at], " \t\n"); space >= 0 {
			from += space
		}
	}
	if from == 0 && markdown {
		_, t = record.FrontMatter(t)
	}
	part := record.Cut(t[from:], excerptLength)
	more := from+len(part) < len(t)
	if markdown {
		part = unmarked(part)
	}
	part = strings.Join(strings.Fields(part), " ")
	if cutOff {
		part = "… " + part
	}
	if more {
		part += " …"
	}
	return part
}

// spans yields the places of the query's words in a text, word by word.
func (f *Finder) spans(text string) iter.Seq[span] {
	return func(yield func(span) bool) {
		if len(f.must) == 0 || text == "" {
			return
		}
		all, l := f.tokens[:0], f.line[:0]
		for t := range words(text) {
			all, l = append(all, t), append(l, t.term)
		}
		f.tokens, f.line = all, l
		for i := range f.must {
			c := &f.must[i]
			for at := 0; at+len(c.parts) <= len(l); at++ {
				how := c.at(l, at, f.strict)
				if how == nowhere {
					continue
				}
				if !yield(span{how, all[at].start, all[at+len(c.parts)-1].end}) {
					return
				}
			}
		}
	}
}

// titleSpans is spans for a title, whose words are found by the parts inside of them, too.
func (f *Finder) titleSpans(title string) iter.Seq[span] {
	return func(yield func(span) bool) {
		for s := range f.spans(title) {
			if !yield(s) {
				return
			}
		}
		for at, part := range innerParts(title) {
			for s := range f.spans(part) {
				if !yield(span{s.fit, at + s.start, at + s.end}) {
					return
				}
			}
		}
	}
}

// span is a part of a text, in bytes.
type span struct {
	fit        fit
	start, end int
}

// marks are the spans of a text, in order and with adjacent ones joined. best is how well the best of them fits.
func marks(text string, spans iter.Seq[span]) (best fit, _ []Range) {
	found := slices.SortedFunc(spans, func(a, b span) int { return a.start - b.start })
	for _, s := range found {
		best = max(best, s.fit)
	}

	marks := []Range{}
	units, at := 0, 0 // UTF-16 code units before the byte at
	count := func(to int) int {
		for _, r := range text[at:max(at, to)] {
			units += max(1, utf16.RuneLen(r))
		}
		at = max(at, to)
		return units
	}

	for i := 0; i < len(found); {
		end := found[i].end
		j := i + 1
		for j < len(found) && found[j].start <= end {
			end = max(end, found[j].end)
			j++
		}
		start := count(found[i].start)
		marks = append(marks, Range{start, count(end)})
		i = j
	}
	return best, marks
}
