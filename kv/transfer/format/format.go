// Package format reads the exports of other programs and of kist as rows that
// kist can keep. It is pure: it touches only the given source. Texts may be in
// any charset that package media knows. Sources are
// foreign bytes. Whatever they hold, only one entry of at most MaxEntry bytes
// is in memory at a time, and at most maxRows are read.
package format

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"kist/kv/field"
	"kist/kv/media"
	"kist/kv/record"
)

// Format is a file format for imports and exports.
type Format string

// The formats.
const (
	Netscape   Format = "netscape"   // bookmarks in HTML, as every browser and linkding exports them
	Linkding   Format = "linkding"   // JSON of linkding's API
	Karakeep   Format = "karakeep"   // JSON of Karakeep, once Hoarder
	Linkwarden Format = "linkwarden" // JSON of Linkwarden
	Wallabag   Format = "wallabag"   // JSON of wallabag
	Omnivore   Format = "omnivore"   // the zip of Omnivore, or a list in it
	Firefox    Format = "firefox"    // JSON of a bookmark backup of Firefox
	Chrome     Format = "chrome"     // the file Bookmarks of Chrome and related browsers
	Pocket     Format = "pocket"     // CSV of Pocket, or its zip
	Raindrop   Format = "raindrop"   // CSV of Raindrop
	Instapaper Format = "instapaper" // CSV of Instapaper
	CSV        Format = "csv"        // bookmarks in any other CSV with a column url
	Shlink     Format = "shlink"     // CSV of Shlink's web client, or JSON of its API
	YOURLS     Format = "yourls"     // CSV of YOURLS, or JSON of its API
	Kutt       Format = "kutt"       // JSON of Kutt's API, or CSV with its members
	Bitly      Format = "bitly"      // CSV of Bitly, or JSON of its API
	ShortLinks Format = "shortlinks" // short links in any other CSV with a slug and a target
	Grouvee    Format = "grouvee"    // CSV or JSON of Grouvee
	Playnite   Format = "playnite"   // CSV of Playnite's exporters
	Mealie     Format = "mealie"     // JSON of Mealie or other programs with schema.org's names, or a zip of it
	Tandoor    Format = "tandoor"    // the zip of Tandoor, of zips with JSON
	Paprika    Format = "paprika"    // the zip of Paprika, of JSON in gzip
	Markdown   Format = "markdown"   // notes in Markdown with front matter, in a folder, a tar or a zip
	Keep       Format = "keep"       // Google Keep's part of a Takeout
	Folder     Format = "folder"     // files, in a tar or a zip
	Kist       Format = "kist"       // an export of kist
)

// Formats lists the formats.
var Formats = []Format{
	Netscape, Firefox, Chrome, Linkding, Karakeep, Linkwarden, Wallabag, Omnivore, Pocket, Raindrop, Instapaper,
	CSV, Shlink, YOURLS, Kutt, Bitly, ShortLinks, Grouvee, Playnite, Mealie, Tandoor, Paprika,
	Markdown, Keep, Folder, Kist,
}

// Bounds of a source.
const (
	maxText  = 256 << 20 // bytes of a source, but for a Folder and an export of kist, which hold files
	MaxEntry = 16 << 20  // bytes of one entry, without the bytes of files
	maxLine  = 1 << 20   // bytes of a line of CSV, each of which may be a column

	maxCells = 10_000 // columns of CSV
	maxNames = 1000   // tags of an entry that are looked at; a record has at most record.MaxTags
	maxRows  = 1_000_000
)

// A Row is one entry of a source: something to keep, a label, or an entry that
// cannot be imported.
type Row struct {
	At   string // its place, such as "line 12"
	Name string // the name that people know it by, for reports

	Kind   *record.Kind // nil: there is nothing to keep
	Fields field.Object // the input for a create
	Past   record.Past
	Folder string // name of a file's folder
	// FileID is the id by which texts of the source show a file; zero if they do not.
	FileID   record.ID
	Attached bool // a file belongs to the texts that show it
	// Exact says that the row comes from kist. It is the same as the record
	// with the same slug, not as a record with the same address or content.
	Exact bool
	// Sum is the SHA-256 that a file's bytes must have, if the source gives
	// one.
	Sum *[32]byte
	// Open reads the bytes of a file. Call it, if at all, before asking for the
	// next row.
	Open func() (io.ReadCloser, error)

	Label   *Label
	Version *Version
	Carried *Carried // what a collection refers to

	Whole   bool     // the notes are about the whole source, and the row has nothing else
	Refused string   // why it cannot be imported
	Notes   []string // what could not be kept
}

// Version is an earlier text of the record of the kind with the slug, in Fields.
type Version struct {
	Slug string
	record.VersionHead
	Body []byte // Fields as they are stored
}

// Label is a tag or a folder, possibly an empty one.
type Label struct {
	Folder      bool
	Name, Color string
}

// Source is the input: a file, or a similar object.
type Source struct {
	R    io.ReaderAt
	Size int64
	// Operator says that the operator of the server gave the source. It may be an
	// export of more files.
	Operator bool

	charset media.Charset // of a source that is a text, set by asText
}

// stream reads the bytes of the source from its beginning.
func (s Source) stream() io.Reader { return io.NewSectionReader(s.R, 0, s.Size) }

// text reads a source that is a text from its beginning, as valid UTF-8.
func (s Source) text() io.Reader { return s.charset.NewReader(s.stream()) }

// asText determines the charset of a source that is a text. It yields what the
// report says of the charset, and reports false if the caller wants no more.
func (s Source) asText(yield func(Row, error) bool) (Source, bool) {
	c, err := media.CharsetOf(s.stream(), "")
	if err != nil {
		yield(Row{}, err)
		return s, false
	}
	s.charset = c
	note := ofCharset(c)
	return s, note == "" || yield(Row{At: "the text", Whole: true, Notes: []string{note}}, nil)
}

// ofCharset says of a text what people should know of its charset; "" if it is
// UTF-8.
func ofCharset(c media.Charset) string {
	switch {
	case c.Guessed:
		return fmt.Sprintf("It does not say in which encoding it is. It was read as %s: look whether its letters are right. "+
			"If not, convert it to UTF-8.", c.Name)
	case c.Name != "utf-8":
		return fmt.Sprintf("It is in the encoding %s, and was converted.", c.Name)
	case c.Bad == 1:
		return "1 byte is not valid UTF-8; it became U+FFFD."
	case c.Bad > 1:
		return fmt.Sprintf("%d bytes are not valid UTF-8; they became U+FFFD.", c.Bad)
	}
	return ""
}

// Unreadable says, for people, why a source cannot be read, or not to its end.
type Unreadable string

func (e Unreadable) Error() string { return string(e) }

func unreadable(format string, args ...any) error { return Unreadable(fmt.Sprintf(format, args...)) }

// Rows are the results of a reader. The error is the last result and says why
// the source cannot be read further.
type Rows = iter.Seq2[Row, error]

var readers = map[Format]func(Source) Rows{
	Netscape: netscape,
	Linkding: linkding, Karakeep: karakeep, Wallabag: wallabag, Omnivore: omnivore,
	Firefox: firefox.read, Chrome: chrome.read, Linkwarden: linkwarden.read,
	Pocket: linksIn, Raindrop: linksIn, Instapaper: linksIn, CSV: linksIn,
	Shlink: shortLinks, YOURLS: shortLinks, Kutt: shortLinks, Bitly: shortLinks, ShortLinks: shortLinks,
	Grouvee: grouvee, Playnite: playnite,
	Mealie:   recipes("Mealie", alone(mealieRow), mealieParts),
	Tandoor:  recipes("Tandoor", alone(tandoorRow), tandoorParts),
	Paprika:  recipes("Paprika", paprikaRow, paprikaParts),
	Markdown: ofFiles(markdownIn), Keep: ofFiles(keepIn),
	Folder: folder, Kist: kist,
}

// Read reads a source of the given format.
func Read(f Format, s Source) Rows {
	return func(yield func(Row, error) bool) {
		if f.text() && s.Size > maxText {
			yield(Row{}, unreadable("It is larger than %d MiB; split it.", maxText>>20))
			return
		}
		if f.text() && !isZip(s) && !(f == Paprika && isGzip(s)) {
			var more bool
			s, more = s.asText(yield)
			if !more {
				return
			}
		}
		n := 0
		for row, err := range readers[f](s) {
			n++
			if n > maxRows && err == nil {
				yield(Row{}, unreadable("There are more than %d entries; split the file.", maxRows))
				return
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// text reports whether a source of the format is a text, or a zip of texts.
func (f Format) text() bool { return f != Folder && f != Markdown && f != Keep && f != Kist }

// Passes is how many times a source of the format is read from end to end.
func (f Format) Passes() int64 {
	switch f {
	case Folder, Markdown, Keep, Kist:
		return 1
	case Karakeep, Firefox, Chrome, Linkwarden:
		return 3
	}
	return 2
}

// known names the formats for people.
func known() string {
	return strings.Join(field.Words(Formats), ", ")
}

// Check fails if there is no format with the name.
func Check(name string) error {
	if _, ok := readers[Format(name)]; !ok {
		return fmt.Errorf("must be one of: %s", known())
	}
	return nil
}

// gauge reads at most left bytes; left is reset to most before each entry.
type gauge struct {
	r          io.Reader
	most, left int
}

func (g *gauge) Read(b []byte) (int, error) {
	if g.left <= 0 {
		return 0, unreadable("An entry is longer than %d bytes.", g.most)
	}
	n, err := g.r.Read(b[:min(len(b), g.left)])
	g.left -= n
	return n, err
}

// A builder makes a row and fits input into its fields.
type builder struct{ Row }

func build(k *record.Kind, at string) *builder {
	return &builder{Row{At: at, Kind: k, Fields: field.Object{}}}
}

func (b *builder) note(format string, args ...any) {
	b.Notes = append(b.Notes, fmt.Sprintf(format, args...))
}

// text sets a field to value, cut to limit characters.
func (b *builder) text(name, value string, limit int) {
	value = clean(value)
	if utf8.RuneCountInString(value) > limit {
		value = strings.TrimSpace(record.Cut(value, limit-1)) + "…"
		b.note("The %s was cut to %d characters.", name, limit)
	}
	if value != "" {
		b.Fields[name] = value
	}
}

// title sets the title, on one line.
func (b *builder) title(value string) {
	value = oneLine(value)
	b.text("title", value, record.MaxName)
	if value != "" {
		b.Name = value
	}
}

// address sets a field that is an address. The rule of the field refuses text
// that is not an address.
func (b *builder) address(name, value string) {
	value = strings.TrimSpace(value)
	b.Fields[name] = value
	b.Name = cmp.Or(b.Name, value)
}

// set sets a flag of the record if it is on.
func (b *builder) set(name string, on bool) {
	if on {
		b.Fields[name] = true
	}
}

// mark adds the tag if the entry says yes in the member.
func (b *builder) mark(e *entry, member, tag string) {
	if e.yes(member) {
		b.tags(tag)
	}
}

// tags adds tags and fits them to the rule for tags.
func (b *builder) tags(names ...string) {
	list, _ := b.Fields["tags"].([]any)
	for _, name := range names {
		name = strings.Map(func(r rune) rune {
			if r == ',' || unicode.IsSpace(r) {
				return ' '
			}
			if unicode.IsControl(r) {
				return -1
			}
			return r
		}, clean(name))
		name = strings.TrimSpace(name)
		if utf8.RuneCountInString(name) > record.MaxTag {
			b.note("The tag “%s…” was cut to %d characters.", record.Cut(name, 20), record.MaxTag)
			name = record.Cut(name, record.MaxTag)
		}
		tag, err := record.CleanTag(name)
		if err != nil || contains(list, tag) {
			continue
		}
		if len(list) == record.MaxTags {
			b.note("Only the first %d tags were kept.", record.MaxTags)
			break
		}
		list = append(list, tag)
	}
	if len(list) > 0 {
		b.Fields["tags"] = list
	}
}

func contains(list []any, tag string) bool {
	return slices.ContainsFunc(list, func(t any) bool {
		name, _ := t.(string)
		return record.Fold(name) == record.Fold(tag)
	})
}

// clean removes the characters that no text may have.
func clean(t string) string {
	return strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(t, "\uFFFD"), "\x00", ""))
}

// oneLine is a text with one space between its words. It needs no more memory than the text: there may be millions of
// words.
func oneLine(t string) string {
	var line strings.Builder
	for word := range strings.FieldsSeq(clean(t)) {
		if line.Len() > 0 {
			line.WriteByte(' ')
		} else {
			line.Grow(len(t))
		}
		line.WriteString(word)
	}
	return line.String()
}

// join joins the non-empty parts of a description.
func join(parts ...string) string {
	var said []string
	for _, p := range parts {
		p = clean(p)
		if p != "" && (len(said) == 0 || said[len(said)-1] != p) {
			said = append(said, p)
		}
	}
	return strings.Join(said, "\n\n")
}

// seconds parses an instant in seconds since 1970; some programs write
// milliseconds or microseconds. The result is zero if the text is not an
// instant.
func seconds(t string) time.Time {
	n, err := strconv.ParseInt(strings.TrimSpace(t), 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}
	}
	for n > 1<<36 { // the year 4147
		n /= 1000
	}
	return time.Unix(n, 0).UTC()
}

// dateForms are the usual forms of an instant. One without a zone is in UTC.
var dateForms = []string{
	time.RFC3339, "2006-01-02T15:04:05-0700", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04:05",
	"2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02",
}

// date parses an instant in one of the usual forms; zero if it is not one.
func date(t string) time.Time {
	t = strings.TrimSpace(t)
	for _, form := range dateForms {
		if at, err := time.Parse(form, t); err == nil && at.Year() > 1970 && at.Year() < 10_000 {
			return at.UTC().Truncate(time.Millisecond)
		}
	}
	return seconds(t)
}
