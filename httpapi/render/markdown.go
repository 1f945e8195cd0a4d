package render

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"kist/kv/record"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// maxMarkdown is the maximum length of text that is read as Markdown, in bytes.
const maxMarkdown = 512 << 10

// Markdown renders CommonMark with tables, strikethrough, task lists, footnotes, callouts and bare addresses
// as links. YAML at the beginning is a table. Line ends are line breaks, as people who write notes expect.
// HTML is shown as text, but <br> is a line break and comments are left out. Links that are not for the web,
// mail or phones are removed. Pictures of this origin are shown; others become links. The ids of headings and
// footnotes begin with "h-", and so do links to them. Text that is longer than 512 KiB or takes too long is
// shown as plain text. It fails only if the build is broken.
func Markdown(src []byte) (template.HTML, error) { return convert(converter(), src) }

// Wrapped is like [Markdown], but for text wrapped at a fixed width, such as the handbook: the end of a
// line is a space.
func Wrapped(src []byte) (template.HTML, error) { return convert(wrapped(), src) }

func convert(m goldmark.Markdown, src []byte) (template.HTML, error) {
	source := strings.TrimPrefix(clean(string(src)), byteOrderMark)
	if len(source) > maxMarkdown {
		return plain(source), nil
	}
	properties, body := record.FrontMatter(source)
	before := strings.Count(source[:len(source)-len(body)], "\n")
	out, err := markdown(m, []byte(body), before, time.Now().Add(maxTime))
	if errors.Is(err, errGivenUp) {
		return plain(source), nil
	}
	if err != nil {
		return "", err
	}

	var b strings.Builder
	if len(properties) > 0 {
		writeFrontMatter(&b, properties)
	}
	b.Write(out)
	return template.HTML(b.String()), nil // #nosec G203 -- goldmark escapes the text, and this package what it writes
}

// markdown renders a text that before lines precede. It fails with errGivenUp at or shortly after the deadline.
func markdown(m goldmark.Markdown, source []byte, before int, deadline time.Time) (out []byte, err error) {
	defer giveUp(&err)
	doc, err := parse(m, source, deadline)
	if err != nil {
		return nil, err
	}
	doc.(*ast.Document).AddMeta(linesMeta, sync.OnceValue(func() *textLines { return newLines(source, before) }))
	var b bytes.Buffer
	if err := m.Renderer().Render(&b, source, doc); err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}
	return b.Bytes(), nil
}

// parse fails as markdown does.
func parse(m goldmark.Markdown, source []byte, deadline time.Time) (doc ast.Node, err error) {
	defer giveUp(&err)
	pc := parser.NewContext(parser.WithIDs(&headings{used: make(map[string]int)}))
	pc.Set(deadlineKey, deadline)
	doc = m.Parser().Parse(text.NewReader(source), parser.WithContext(pc))
	doc.(*ast.Document).AddMeta(deadlineMeta, deadline)
	return doc, nil
}

// giveUp makes an error of a panic. The parser panics at the deadline. If it panics for another reason, the text can
// still be shown as plain text.
func giveUp(err *error) {
	p := recover()
	if p == nil {
		return
	}
	*err = fmt.Errorf("%w: %v", errGivenUp, p)
	if late, ok := p.(error); ok && errors.Is(late, ErrLate) {
		*err = ErrLate
	}
}

const (
	deadlineMeta = "deadline"
	linesMeta    = "lines" // makes the textLines of the text
)

// The converters are made on first use.
var (
	converter = sync.OnceValue(func() goldmark.Markdown { return newConverter(html.WithHardWraps()) })
	wrapped   = sync.OnceValue(func() goldmark.Markdown { return newConverter() })
)

func newConverter(options ...html.Option) goldmark.Markdown {
	var blocks, inlines []util.PrioritizedValue
	for i, p := range []parser.BlockParser{ // in order of priority
		parser.NewSetextHeadingParser(parser.WithAutoHeadingID()), parser.NewThematicBreakParser(),
		nested{parser.NewListParser()},
		nested{parser.NewListItemParser()},
		parser.NewCodeBlockParser(),
		parser.NewATXHeadingParser(parser.WithAutoHeadingID()), parser.NewFencedCodeBlockParser(),
		nested{parser.NewBlockquoteParser()},
		shortLines{parser.NewHTMLBlockParser()},
		nested{footnotes{extension.NewFootnoteBlockParser()}},
		parser.NewParagraphParser(),
	} {
		blocks = append(blocks, util.Prioritized(timedBlock{p}, i))
	}
	for _, p := range append(parser.DefaultInlineParsers(),
		util.Prioritized(taskBoxes{extension.NewTaskCheckBoxParser()}, 0),
		util.Prioritized(extension.NewFootnoteParser(), 101),
		util.Prioritized(extension.NewStrikethroughParser(), 500),
		util.Prioritized(bareLinks{}, 998),
		util.Prioritized(extension.NewLinkifyParser(extension.WithLinkifyWWWRegexp(wwwAddress),
			extension.WithLinkifyAllowedProtocols([]string{"none:"})), 999), // bareLinks has these
	) {
		timed := timedInline{p.Value.(parser.InlineParser)}
		if closer, ok := p.Value.(parser.CloseBlocker); ok {
			inlines = append(inlines, util.Prioritized(timedCloser{timed, closer}, p.Priority))
		} else {
			inlines = append(inlines, util.Prioritized(timed, p.Priority))
		}
	}
	return goldmark.New(
		goldmark.WithParser(parser.NewParser(
			parser.WithBlockParsers(blocks...),
			parser.WithInlineParsers(inlines...),
			parser.WithParagraphTransformers(
				util.Prioritized(callouts{}, 50),
				util.Prioritized(references{parser.LinkReferenceParagraphTransformer}, 100),
				util.Prioritized(tables{extension.NewTableParagraphTransformer()}, 200),
			),
			parser.WithASTTransformers(
				util.Prioritized(extension.NewTableASTTransformer(), 0),
				util.Prioritized(allFootnotes{extension.NewFootnoteASTTransformer()}, 999),
				util.Prioritized(finish{}, 1000),
			),
		)),
		goldmark.WithRenderer(renderer.NewRenderer(renderer.WithNodeRenderers(
			util.Prioritized(nodes{}, 100),
			util.Prioritized(
				extension.NewTableHTMLRenderer(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), 500,
			),
			util.Prioritized(extension.NewStrikethroughHTMLRenderer(), 500),
			util.Prioritized(extension.NewFootnoteHTMLRenderer(extension.WithFootnoteIDPrefix(headingPrefix)), 500),
			util.Prioritized(html.NewRenderer(options...), 1000),
		))),
	)
}

// wwwAddress matches an address without a scheme, with any script in its path.
var wwwAddress = regexp.MustCompile(`^www\.[-\w@:%.+~#=]{1,256}\.[a-z]+(?:[/#?][^\s"<>\\|*` + "`" + `]*)?`)

var deadlineKey = parser.NewContextKey()

// tick is called at every step at which goldmark calls other code. It panics at the deadline; markdown
// recovers. One step may read all of the remaining text, so every step checks the time. goldmark's time
// can grow with the square of the text's length: hundreds of thousands of brackets or asterisks would
// take minutes.
func tick(pc parser.Context) {
	if time.Now().After(pc.Get(deadlineKey).(time.Time)) {
		panic(ErrLate)
	}
}

type timedBlock struct{ parser.BlockParser }

func (p timedBlock) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	tick(pc)
	return p.BlockParser.Open(parent, reader, pc)
}

func (p timedBlock) Continue(node ast.Node, reader text.Reader, pc parser.Context) parser.State {
	tick(pc)
	return p.BlockParser.Continue(node, reader, pc)
}

func (p timedBlock) Close(node ast.Node, reader text.Reader, pc parser.Context) {
	tick(pc)
	p.BlockParser.Close(node, reader, pc)
}

// maxNested is how deep quotes and lists can be nested; a list and its item count as two. Deeper ones
// stay text.
const maxNested = 48

type nested struct{ parser.BlockParser }

func (p nested) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	if len(pc.OpenedBlocks()) >= maxNested {
		return nil, parser.NoChildren
	}
	return p.BlockParser.Open(parent, reader, pc)
}

// shortLines does not let a parser read lines longer than maxTag, because one regular expression of
// goldmark takes too long on half a megabyte.
type shortLines struct{ parser.BlockParser }

const maxTag = 16 << 10

func (p shortLines) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	if line, _ := reader.PeekLine(); len(line) > maxTag {
		return nil, parser.NoChildren
	}
	return p.BlockParser.Open(parent, reader, pc)
}

type timedInline struct{ parser.InlineParser }

func (p timedInline) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	tick(pc) // each may read to the end
	before := block.PrecendingCharacter()
	n := p.InlineParser.Parse(parent, block, pc)
	if d, ok := n.(*parser.Delimiter); ok {
		flank(d, before, block)
		d.Processor = timedDelimiters{d.Processor, pc}
	}
	return n
}

type timedCloser struct {
	timedInline
	parser.CloseBlocker
}

// timedDelimiters checks the time whenever two delimiters are compared, because that takes most of the
// time.
type timedDelimiters struct {
	parser.DelimiterProcessor
	pc parser.Context
}

func (p timedDelimiters) CanOpenCloser(opener, closer *parser.Delimiter) bool {
	tick(p.pc)
	return p.DelimiterProcessor.CanOpenCloser(opener, closer)
}

type timedParagraph struct{ parser.ParagraphTransformer }

func (p timedParagraph) Transform(node *ast.Paragraph, reader text.Reader, pc parser.Context) {
	tick(pc)
	p.ParagraphTransformer.Transform(node, reader, pc)
}

// maxDefinitions is the maximum number of lines of a paragraph with reference definitions, because
// goldmark moves all of them for each definition.
const maxDefinitions = 4096

type references struct{ parser.ParagraphTransformer }

func (p references) Transform(node *ast.Paragraph, reader text.Reader, pc parser.Context) {
	if node.Lines().Len() <= maxDefinitions {
		timedParagraph(p).Transform(node, reader, pc)
	}
}

// maxCells is the maximum number of cells in a table. Rows that are too short get more cells, so a wide
// head over many empty rows would use up all memory.
const maxCells = 100_000

type tables struct{ parser.ParagraphTransformer }

func (p tables) Transform(node *ast.Paragraph, reader text.Reader, pc parser.Context) {
	columns := 0
	for _, line := range node.Lines().Sliced(0, node.Lines().Len()) {
		columns = max(columns, 1+bytes.Count(line.Value(reader.Source()), []byte("|")))
	}
	if columns > 1 && columns*node.Lines().Len() <= maxCells {
		timedParagraph(p).Transform(node, reader, pc)
	}
}

// footnoteLink is about the length of the HTML of a link to a footnote, or back from one.
const footnoteLink = 128

// finish gives lists and quotes the direction of their text. It refuses texts that use long references or
// footnotes so often that the output would be many times as long as the text.
type finish struct{}

func (finish) Transform(doc *ast.Document, _ text.Reader, _ parser.Context) {
	left := 4 * maxMarkdown
	// Walk fails only if the function does.
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.List, *ast.Blockquote:
			n.SetAttributeString("dir", []byte("auto"))
		case *ast.Link:
			left -= len(n.Destination) + len(n.Title)
		case *ast.Image:
			left -= len(n.Destination) + len(n.Title)
		case *extast.FootnoteLink, *extast.FootnoteBacklink:
			left -= footnoteLink
		}
		if left < 0 {
			panic(errGivenUp)
		}
		return ast.WalkContinue, nil
	})
}

// headings makes the ids of headings.
type headings struct{ used map[string]int }

const (
	headingPrefix = "h-"
	maxHeading    = 64 // bytes of an id
)

// Generate implements [parser.IDs].
func (h *headings) Generate(value []byte, _ ast.NodeKind) []byte {
	id := []byte(headingPrefix)
	for _, r := range strings.ToLower(string(value)) {
		switch {
		case len(id) >= maxHeading:
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '_':
			id = append(id, string(r)...)
		case (r == ' ' || r == '-') && id[len(id)-1] != '-':
			id = append(id, '-')
		}
	}
	base := string(id)
	for n := h.used[base]; n > 0; n++ {
		id = []byte(base + "-" + strconv.Itoa(n))
		if h.used[string(id)] == 0 {
			h.used[base] = n + 1
			break
		}
	}
	h.used[string(id)] = max(h.used[string(id)], 1)
	return id
}

// Put implements [parser.IDs].
func (h *headings) Put(value []byte) { h.used[string(value)]++ }

// nodes writes what goldmark's own renderer allows too freely or writes differently.
type nodes struct{}

func (n nodes) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindLink, n.link)
	r.Register(ast.KindAutoLink, whole(n.autoLink))
	r.Register(ast.KindImage, whole(n.image))
	r.Register(ast.KindRawHTML, whole(n.rawHTML))
	r.Register(ast.KindHTMLBlock, whole(n.htmlBlock))
	r.Register(ast.KindCodeBlock, n.code)
	r.Register(ast.KindFencedCodeBlock, n.code)
	r.Register(extast.KindTaskCheckBox, whole(n.checkBox))
	r.Register(kindCalloutTitle, n.calloutTitle)
}

// whole makes a renderer of a function that writes a node with everything below it.
func whole(write func(w util.BufWriter, source []byte, node ast.Node)) renderer.NodeRendererFunc {
	return func(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			write(w, source, node)
		}
		return ast.WalkSkipChildren, nil
	}
}

// rel is an attribute of every link to another site: it does not endorse the site and sends no referrer.
const rel = ` rel="nofollow noopener noreferrer ugc"`

var schemes = map[string]bool{"http": true, "https": true, "mailto": true, "tel": true}

// ipv6Host matches an IPv6 address at the place of a host, with its brackets escaped.
var ipv6Host = regexp.MustCompile(`^([A-Za-z]+://)%5B([0-9A-Fa-f:.]+)%5D`)

// address is the target of a link, ready for an attribute, with its entities resolved and escaped again.
// ok is false if it must not be a link. local means that it cannot leave this origin.
func address(destination []byte) (href string, local, ok bool) {
	dest := ipv6Host.ReplaceAllString(string(util.URLEscape(destination, true)), "$1[$2]")
	if strings.ContainsFunc(dest, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "", false, false // browsers remove some of these
	}
	u, err := url.Parse(dest)
	if err != nil || u.Scheme != "" && !schemes[strings.ToLower(u.Scheme)] {
		return "", false, false
	}
	// backslashes are escaped, because browsers treat them as slashes
	local = u.Scheme == "" && !strings.HasPrefix(dest, "//")
	if strings.HasPrefix(dest, "#") {
		dest = "#" + headingPrefix + dest[1:]
	}
	return escape(dest), local, true
}

func open(w util.BufWriter, href, attributes string) {
	_, _ = w.WriteString(`<a href="` + href + `"` + attributes + `>`) // Flush returns errors
}

func (nodes) link(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	n := node.(*ast.Link)
	href, local, ok := address(n.Destination)
	switch {
	case !ok:
	case !entering:
		_, _ = w.WriteString("</a>")
	default:
		attributes := rel
		if local {
			attributes = ""
		}
		if n.Title != nil {
			attributes += ` title="` + escape(string(n.Title)) + `"`
		}
		open(w, href, attributes)
	}
	return ast.WalkContinue, nil
}

func (nodes) autoLink(w util.BufWriter, source []byte, node ast.Node) {
	n := node.(*ast.AutoLink)
	label := escape(string(n.Label(source)))
	dest := n.URL(source)
	if n.AutoLinkType == ast.AutoLinkEmail && !bytes.HasPrefix(bytes.ToLower(dest), []byte("mailto:")) {
		dest = append([]byte("mailto:"), dest...)
	}
	href, _, ok := address(dest)
	if ok {
		open(w, href, rel)
		label += "</a>"
	}
	_, _ = w.WriteString(label)
}

// image shows pictures of this server. Those of others become links, because loading them would reveal
// the visitor to the other server.
func (nodes) image(w util.BufWriter, source []byte, node ast.Node) {
	n := node.(*ast.Image)
	var alt strings.Builder
	plainText(&alt, source, n)
	inLink := false
	for p := n.Parent(); p != nil && p.Type() == ast.TypeInline; p = p.Parent() {
		inLink = inLink || p.Kind() == ast.KindLink
	}
	if id, own := ownFile(n.Destination); own && !inLink {
		_, _ = w.WriteString(markOf(id, alt.String()))
		return
	}
	href, local, ok := address(n.Destination)
	switch {
	case ok && local && strings.HasPrefix(href, "/"):
		_, _ = w.WriteString(`<img src="` + href + `" alt="` + escape(alt.String()) + `" loading="lazy">`)
		return
	case alt.Len() == 0:
		alt.Write(n.Destination)
	}
	if ok && !inLink {
		open(w, href, rel)
		_, _ = w.WriteString(escape(alt.String()) + "</a>")
	} else {
		_, _ = w.WriteString(escape(alt.String()))
	}
}

// plainText collects the text below a node.
func plainText(b *strings.Builder, source []byte, n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			b.Write(c.Value(source))
			if c.SoftLineBreak() || c.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(c.Value)
		default:
			plainText(b, source, c)
		}
	}
}

var (
	comment   = regexp.MustCompile(`(?s)<!--.*?-->`) // one that does not end is text
	lineBreak = regexp.MustCompile(`(?i)&lt;br ?/?&gt;`)
)

// shownHTML is HTML that stands in a text, as text. A line in a table can be broken only by <br>.
func shownHTML(source string) string {
	return lineBreak.ReplaceAllString(escape(comment.ReplaceAllString(source, "")), "<br>")
}

func (nodes) rawHTML(w util.BufWriter, source []byte, node ast.Node) {
	_, _ = w.WriteString(shownHTML(string(node.(*ast.RawHTML).Segments.Value(source))))
}

func (nodes) htmlBlock(w util.BufWriter, source []byte, node ast.Node) {
	n := node.(*ast.HTMLBlock)
	value := string(n.Lines().Value(source))
	if n.HasClosure() {
		value += string(n.ClosureLine.Value(source))
	}
	if shown := strings.TrimSpace(shownHTML(value)); shown != "" {
		_, _ = w.WriteString("<p>" + strings.ReplaceAll(shown, "\n", "<br>\n") + "</p>\n")
	}
}

// code highlights code in the given language. All code in a text shares the time of the text.
func (nodes) code(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	language := ""
	if n, ok := node.(*ast.FencedCodeBlock); ok {
		language = string(n.Language(source))
	}
	deadline, _ := node.OwnerDocument().Meta()[deadlineMeta].(time.Time)
	tokens, _, err := highlight(string(node.Lines().Value(source)), language, "", deadline)
	if err != nil {
		return ast.WalkStop, err
	}
	var b strings.Builder
	writeCode(&b, tokens, false)
	_, _ = w.WriteString(`<pre dir="ltr" tabindex="0"><code>` + b.String() + "</code></pre>\n")
	return ast.WalkContinue, nil
}

// checkBox writes what changes a task: see [SetTask].
func (nodes) checkBox(w util.BufWriter, _ []byte, node ast.Node) {
	lines := node.OwnerDocument().Meta()[linesMeta].(func() *textLines)()
	task := lines.task(node.(*extast.TaskCheckBox))
	state := `aria-label="open"`
	if task.Done {
		state = `checked aria-label="done"`
	}
	_, _ = fmt.Fprintf(
		w, `<input type="checkbox" disabled %s data-line="%d" data-task="%s"> `, state, task.Line, escape(task.Text),
	)
}
