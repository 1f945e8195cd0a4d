package search

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/blevesearch/vellum"

	"kist/kv/field"
	"kist/kv/media"
	"kist/kv/record"
)

// How many bytes of a text are searched.
const (
	maxField = 64 << 10
	// MaxContent is how many bytes of a text file are searched.
	MaxContent = 256 << 10
)

// prose is the searchable text of a record.
type prose struct {
	title string
	slug  string
	texts []string
}

// lines are the title, with the parts inside of its words, and the texts.
func (p *prose) lines() (title, text line) {
	titles := []string{p.title}
	for _, part := range innerParts(p.title) {
		titles = append(titles, part)
	}
	return lineOf(titles...), lineOf(p.texts...)
}

// proseOf reads the searchable text of a record: its title and everything else that people wrote in it. content, if not
// nil, reads the beginning of a file.
func proseOf(r *record.Record, content func(*record.Record) string) (prose, error) {
	b, err := r.Decode()
	if err != nil {
		return prose{}, err
	}
	d := prose{title: readable(b.Title()), slug: r.Slug}
	for t := range field.Of(b).Strings() {
		t = readable(t)
		if t != d.title && t != "" {
			d.texts = append(d.texts, strings.ToValidUTF8(t[:min(len(t), maxField)], "")) // no partial character
		}
	}
	if content != nil && r.Bytes != nil && r.Bytes.Class == record.Text {
		if t := content(r); t != "" {
			d.texts = append(d.texts, t)
		}
	}
	return d, nil
}

// readable unescapes an address. Other text is returned unchanged.
func readable(t string) string {
	if strings.HasPrefix(t, "http") && strings.Contains(t, "%") {
		if plain, err := url.PathUnescape(t); err == nil && utf8.ValidString(plain) {
			return plain
		}
	}
	return t
}

// textOf is the searchable part of a file's first bytes, in whatever charset; "" if they are not a text.
func textOf(b []byte) string {
	text, _ := media.Text(b[:min(len(b), MaxContent)], len(b) >= MaxContent)
	return text
}

// How well a clause matches a record. If it matches in several ways, the best counts. The score of a query is the sum
// of the levels of all clauses. A typing error counts far less than everything else.
const (
	textErrorLevel   = 0
	titleErrorLevel  = 1
	textPrefixLevel  = 9
	textLevel        = 10
	titlePrefixLevel = 11
	titleLevel       = 12
	noLevel          = -1
)

// wordLength is about how many bytes a word and the space after it take.
const wordLength = 6

// line has the terms of one or more texts in order. Between two texts there is a "".
type line []string

func lineOf(texts ...string) line {
	n := 0
	for _, t := range texts {
		n += len(t)/wordLength + 2
	}
	l := make(line, 0, n)
	for _, t := range texts {
		if len(l) > 0 {
			l = append(l, "")
		}
		for w := range words(t) {
			l = append(l, w.term)
		}
	}
	return l
}

// fit is how well a clause matches a line.
type fit int

const (
	nowhere fit = iota
	misspelt
	begun
	exactly
)

// in is how the clause matches a line at best. strict excludes typing errors.
func (c *clause) in(l line, strict bool) fit {
	best := nowhere
	for at := 0; at+len(c.parts) <= len(l); at++ {
		best = max(best, c.at(l, at, strict))
		if best == exactly {
			break
		}
	}
	return best
}

// at is how the clause matches the line at a place.
func (c *clause) at(l line, at int, strict bool) fit {
	for i, p := range c.parts {
		term := l[at+i]
		switch {
		case term == p.term:
		case p.prefix && strings.HasPrefix(term, p.term):
			return begun // only the last part can be a prefix
		case c.fuzzy && !strict && near(term, p.term):
			return misspelt
		default:
			return nowhere
		}
	}
	return exactly
}

// A Finder is a query prepared for one owner: the names of tags are resolved.
type Finder struct {
	owner     record.ID
	notOwn    bool // the owner's own records are not found
	others    *Others
	must, not []resolvedClause
	filters   []resolvedFilter
	nothing   bool // as in Query
	strict    bool

	automata map[string]vellum.Automaton // by word: see automaton

	// Memory for spans.
	tokens []token
	line   line
}

// Others are records of other owners that a search finds, too. Their link names, tags and flags are not searched: they
// are their owner's alone.
type Others struct {
	Owners []record.ID          // whose records they are
	Within []record.ID          // tags and folders: all that is in them, but no collections
	Has    func(record.ID) bool // further ones
}

// Among makes the search find the records of others as well, and those of the owner only if own is set.
func (f *Finder) Among(others *Others, own bool) { f.others, f.notOwn = others, !own }

// finds reports whether the search may find a record, whatever is in it.
func (f *Finder) finds(r *record.Record) bool {
	if r.Attached {
		return false
	}
	if r.Owner == f.owner {
		return !f.notOwn
	}
	return f.others != nil && f.others.has(r)
}

func (o *Others) has(r *record.Record) bool {
	if !slices.Contains(o.Owners, r.Owner) {
		return false
	}
	within := func(id record.ID) bool { return slices.Contains(o.Within, id) }
	return o.Has(r.ID) || r.Kind != record.Collections && (within(r.Folder) || slices.ContainsFunc(r.Tags, within))
}

// known is what the person who searches may know of a record: of another's, not the link name.
func (f *Finder) known(r *record.Record) *record.Record {
	if r.Owner == f.owner {
		return r
	}
	of := *r
	of.Slug = ""
	return &of
}

// resolvedClause is a clause with the tags whose names match, by how well they do.
type resolvedClause struct {
	clause
	tags [exactly + 1]map[record.ID]bool
}

// resolvedFilter is a filter with the id of its tag, if it has one. The zero id means that the tag does not exist.
type resolvedFilter struct {
	filter
	id record.ID
}

// For prepares the query. names yields the owner's tags with their folded names. strict excludes typing errors.
func (q *Query) For(owner record.ID, strict bool, names func(yield func(record.ID, string) bool)) *Finder {
	f := &Finder{
		owner: owner, nothing: q.nothing, strict: strict,
		must: make([]resolvedClause, len(q.must)), not: make([]resolvedClause, len(q.not)),
		automata: map[string]vellum.Automaton{},
	}
	var all []*resolvedClause
	for i, c := range q.must {
		f.must[i].clause = c
		all = append(all, &f.must[i])
	}
	for i, c := range q.not {
		f.not[i].clause = c
		all = append(all, &f.not[i])
	}
	ids := map[string]record.ID{}
	for _, x := range q.filters {
		if x.tag != "" {
			ids[x.tag] = record.ID{}
		}
	}

	if len(ids) > 0 || len(all) > 0 {
		for id, name := range names {
			if _, ok := ids[name]; ok {
				ids[name] = id
			}
			l := lineOf(name)
			for _, c := range all {
				c.addTag(id, c.in(l, strict))
			}
		}
	}

	for _, x := range q.filters {
		f.filters = append(f.filters, resolvedFilter{x, ids[x.tag]})
	}
	return f
}

// addTag adds a tag whose name matches so well.
func (c *resolvedClause) addTag(id record.ID, how fit) {
	if how == nowhere {
		return
	}
	if c.tags[how] == nil {
		c.tags[how] = map[record.ID]bool{}
	}
	c.tags[how][id] = true
}

func (f *Finder) passes(r *record.Record) bool {
	other := r.Owner != f.owner
	for _, x := range f.filters {
		var got bool
		switch {
		case x.kind != nil:
			got = r.Kind == x.kind
		case other: // flags and tags are the owner's
		case x.flag == isPublic:
			got = r.Public
		case x.flag == isFavorite:
			got = r.Favorite
		default:
			got = x.id != record.ID{} && has(r.Tags, map[record.ID]bool{x.id: true})
		}
		if got == x.not {
			return false
		}
	}
	return true
}

func has(ids []record.ID, set map[record.ID]bool) bool {
	return slices.ContainsFunc(ids, func(id record.ID) bool { return set[id] })
}

// score is how well a record matches; false if it does not.
func (f *Finder) score(r *record.Record, content func(*record.Record) string) (int, bool, error) {
	if f.nothing || !f.finds(r) || !f.passes(r) {
		return 0, false, nil
	}
	r = f.known(r)
	if len(f.must)+len(f.not) == 0 {
		return 0, true, nil
	}
	d, err := proseOf(r, content)
	if err != nil {
		return 0, false, err
	}
	title, text := d.lines()
	text = append(append(text, ""), lineOf(d.slug)...)
	for i := range f.not {
		if f.not[i].level(r, title, text, f.strict) != noLevel {
			return 0, false, nil
		}
	}
	score := 0
	for i := range f.must {
		level := f.must[i].level(r, title, text, f.strict)
		if level == noLevel {
			return 0, false, nil
		}
		score += level
	}
	return score, true, nil
}

// level is how well the clause matches a record with such lines. strict excludes typing errors.
func (c *resolvedClause) level(r *record.Record, title, text line, strict bool) int {
	in := c.in(title, strict)
	for fit := exactly; fit > in; fit-- {
		if has(r.Tags, c.tags[fit]) {
			in = fit
		}
	}
	if in == exactly {
		return titleLevel
	}
	if in == begun {
		return titlePrefixLevel
	}
	switch also := c.in(text, strict); {
	case also == exactly:
		return textLevel
	case also == begun:
		return textPrefixLevel
	case in == misspelt:
		return titleErrorLevel
	case also == misspelt:
		return textErrorLevel
	}
	return noLevel
}
