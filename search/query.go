package search

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"kist/kv/record"
)

// Bounds of a query.
const (
	MaxText  = 1000 // bytes
	maxTerms = 32   // words, including those of phrases and filters
)

// A Query is a search. The zero Query finds everything.
//
// All words must be found. A word of two characters or more is also found as the beginning of a longer one, and from
// four characters on with one typing error. "Words in quotes" are found exactly and in a row. Words joined without a
// space, such as main.go, are also searched in a row. tag:x, tag:"x y", kind:note, is:public, is:private and
// is:favorite are filters. A minus before any of these excludes it. Everything else is text, whatever it looks like.
type Query struct {
	must, not []clause
	filters   []filter
	nothing   bool // there was text, but nothing that can be searched
}

// clause is a word, or several in a row.
type clause struct {
	parts []part
	fuzzy bool // may have a typing error; only for single words
}

type part struct {
	term   string
	prefix bool // also as the beginning of a longer word; only the last part
}

// filter filters by something other than text: exactly one of tag, kind and flag is set.
type filter struct {
	not  bool
	tag  string // folded by record.Fold
	kind *record.Kind
	flag byte
}

// Parse reads what a user typed. It fails, as Malformed, only if the text is too long.
func Parse(text string) (*Query, error) {
	if len(text) > MaxText {
		return nil, tooLong(fmt.Sprintf("The text to search for must be at most %d bytes long.", MaxText))
	}
	q := new(Query)
	p := parser{rest: strings.ToValidUTF8(text, " ")}
	terms := 0
	for p.next() {
		if f, ok := p.filter(); ok {
			q.filters = append(q.filters, f)
			terms++
			continue
		}
		c := clauseOf(p.text, p.not || p.closed)
		if len(c.parts) == 0 {
			continue // such as a dash between words
		}
		terms += len(c.parts)
		if p.not {
			q.not = append(q.not, c)
		} else {
			q.must = append(q.must, c)
		}
	}
	if terms > maxTerms {
		return nil, tooLong(fmt.Sprintf("At most %d words can be searched for at once.", maxTerms))
	}
	q.nothing = terms == 0 && strings.TrimSpace(text) != ""
	return q, nil
}

func tooLong(text string) error {
	return &record.Error{Fault: record.Malformed, Code: "bad_query", Text: text}
}

// Narrow adds filters, as if kind:… and tag:… were in the text. k may be nil.
func (q *Query) Narrow(k *record.Kind, tags []string) {
	q.filters = slices.Clip(q.filters) // copies of the query must not share them
	if k != nil {
		q.filters = append(q.filters, filter{kind: k})
	}
	for _, t := range tags {
		q.filters = append(q.filters, filter{tag: tagOf(t)})
	}
}

// MayErr reports whether the query has a word that may have a typing error.
func (q *Query) MayErr() bool {
	return slices.ContainsFunc(q.must, func(c clause) bool { return c.fuzzy })
}

// tagOf is the name of a tag in the form in which the store compares it. An invalid name becomes one that no tag has.
func tagOf(name string) string {
	clean, err := record.CleanTag(name)
	if err != nil {
		return "\x00"
	}
	return record.Fold(clean)
}

// clauseOf makes a clause of text. exact means without prefixes and typing errors.
func clauseOf(text string, exact bool) clause {
	all := slices.Collect(words(text))
	n := len(all)
	if n > 1 && all[n-1].open && all[n-2].end == all[n-1].end {
		n-- // the previous pair contains the character
	}
	var c clause
	for _, t := range all[:n] {
		c.parts = append(c.parts, part{term: t.term})
	}
	if n == 0 {
		return c
	}

	last := &c.parts[n-1]
	first, _ := utf8.DecodeRuneInString(last.term)
	switch long := utf8.RuneCountInString(last.term); {
	case all[n-1].open:
		last.prefix = true // of pairs that begin with it
	case !exact && !isUnspaced(first):
		last.prefix = long >= 2
		c.fuzzy = n == 1 && long >= 4 && letters(last.term)
	}
	return c
}

// letters reports whether a word has a letter. Numbers have no typing errors: a different number is a different word.
func letters(term string) bool { return strings.ContainsFunc(term, unicode.IsLetter) }

// parser splits a text at its spaces and quotes.
type parser struct {
	rest string

	// The current piece: [-][name:]text, with the text in quotes or not.
	not        bool
	name, text string
	closed     bool   // the text is in quotes, including the closing one
	whole      string // text with name, as typed
}

var quotes = map[rune]string{'"': `"`, '“': "”\"", '”': "”\"", '„': "“”\"", '«': "»", '»': "«"}

func (p *parser) next() bool {
	p.rest = strings.TrimLeftFunc(p.rest, unicode.IsSpace)
	if p.rest == "" {
		return false
	}
	*p = parser{rest: p.rest}
	if after, ok := strings.CutPrefix(p.rest, "-"); ok && after != "" {
		if r, _ := utf8.DecodeRuneInString(after); !unicode.IsSpace(r) && r != '-' {
			p.not, p.rest = true, after
		}
	}
	if p.quote() {
		p.whole = p.text
		return true
	}

	end := strings.IndexFunc(p.rest, func(r rune) bool {
		return unicode.IsSpace(r) || quotes[r] != "" && r != '»' && r != '”'
	})
	if end < 0 {
		end = len(p.rest)
	}
	word := p.rest[:end]
	if name, ok := strings.CutSuffix(word, ":"); ok && end < len(p.rest) && names[strings.ToLower(name)] {
		p.rest = p.rest[end:]
		if p.quote() {
			p.name, p.whole = strings.ToLower(name), word+p.text
			return true
		}
		p.text, p.whole = word, word // tag: and a space
		return true
	}

	p.rest = p.rest[end:]
	p.text, p.whole = word, word
	if name, value, ok := strings.Cut(word, ":"); ok && value != "" && names[strings.ToLower(name)] {
		p.name, p.text = strings.ToLower(name), value
	}
	return true
}

// quote removes text in quotes from the rest, if it begins with a quote. The closing quote may be missing, because the
// user may still be typing.
func (p *parser) quote() bool {
	r, size := utf8.DecodeRuneInString(p.rest)
	ends := quotes[r]
	if ends == "" {
		return false
	}
	p.text = p.rest[size:]
	if at := strings.IndexAny(p.text, ends); at >= 0 {
		_, size := utf8.DecodeRuneInString(p.text[at:])
		p.text, p.rest, p.closed = p.text[:at], p.text[at+size:], true
		return true
	}
	p.rest = ""
	return true
}

var names = map[string]bool{"tag": true, "kind": true, "is": true}

// Flags of records, as they are indexed.
const (
	isPublic   = 'p'
	isFavorite = 'f'
)

// filter returns the current piece as a filter, if it is one. What only looks like a filter becomes text again.
func (p *parser) filter() (filter, bool) {
	f := filter{not: p.not}
	switch value := strings.ToLower(p.text); p.name {
	case "tag":
		if strings.TrimSpace(p.text) != "" {
			f.tag = tagOf(p.text)
			return f, true
		}
	case "kind":
		f.kind = KindNamed(value)
		if f.kind != nil {
			return f, true
		}
	case "is":
		switch value {
		case "public":
			f.flag = isPublic
		case "private":
			f.flag, f.not = isPublic, !f.not
		case "favorite", "favourite":
			f.flag = isFavorite
		default:
			p.text = p.whole
			return f, false
		}
		return f, true
	}
	p.text = p.whole
	return f, false
}

// KindNamed is the kind for kind:name: by its name, its collection, or either in the plural, or nil.
func KindNamed(name string) *record.Kind {
	name = strings.ToLower(name)
	for _, k := range record.Kinds {
		if name == k.Name || name == k.Name+"s" || name == k.Path {
			return k
		}
	}
	if name == "link" || name == "links" {
		return record.Links
	}
	return nil
}
