package record

import (
	"strings"

	"github.com/google/uuid"
)

// A Placed is what takes the place of a file that a text shows; the zero Placed leaves it as it is.
type Placed struct {
	Text  string
	Whole bool // Text is for the whole picture, with its words, and not only for its address
}

// PlaceShown returns b with what place returns instead of each address of a file in its Markdown, outside of code. b
// itself, if there are none. It does not change the picture of a recipe or a game.
func PlaceShown(b Body, place func(id ID) Placed) Body {
	switch b := b.(type) {
	case *Note:
		c := *b
		c.Content = placeIn(b.Content, place)
		if c != *b {
			return &c
		}
	case *Recipe:
		c := *b
		for _, text := range []*string{&c.Description, &c.Ingredients, &c.Instructions} {
			*text = placeIn(*text, place)
		}
		if c != *b {
			return &c
		}
	}
	return b
}

// RenameShown returns b with other ids for the files that it shows in its Markdown, outside of code, and as its
// picture. b itself, if nothing changes.
func RenameShown(b Body, other func(id ID) ID) Body {
	b = PlaceShown(b, func(id ID) Placed {
		now := other(id)
		if now == id {
			return Placed{}
		}
		return Placed{Text: FileScheme + now.String()}
	})
	id := PictureOf(b)
	if id == (ID{}) || other(id) == id {
		return b
	}
	switch b := b.(type) {
	case *Recipe:
		c := *b
		c.Photo = other(id)
		return &c
	case *Game:
		c := *b
		c.Cover = other(id)
		return &c
	}
	return b
}

// placeIn is PlaceShown for one text. It takes time in proportion to its length.
func placeIn(text string, place func(id ID) Placed) string {
	if !strings.Contains(text, FileScheme) {
		return text
	}
	var out strings.Builder
	prose := 0 // where the paragraph begins that is not written yet
	end := func(at int) {
		placeInProse(&out, text[prose:at], place)
		prose = at
	}
	var code codeLines
	at := 0
	for line := range strings.Lines(text) {
		next := at + len(line)
		isCode := code.next(line)
		if isCode || code.begins {
			end(at)
		}
		if isCode {
			out.WriteString(line)
			prose = next
		}
		at = next
	}
	end(at)
	return out.String()
}

// codeLines tells lines of code from others, as CommonMark does for texts that people write: between fences, or
// indented after an empty line, in lists and quotes too.
type codeLines struct {
	fence  string // the one that is open; "" is none
	quotes int    // of the line that opened it
	inside int    // indentation of the list item that it is in

	lists    []int // indentation of the text of the list items that the line before is in
	depth    int   // quotes that the line before is in
	follows  bool  // the line before has text that the next one would go on with
	indented bool  // the line before is indented code
	begins   bool  // the line does not go on with the text of the one before
}

// next reports whether the next line is of code or a fence.
func (c *codeLines) next(line string) bool {
	quotes, rest, indent := unquote(line, 0)
	blank := strings.TrimSpace(rest) == ""
	if !c.follows && quotes != c.depth {
		c.lists = c.lists[:0]
	}
	c.begins = !c.follows || quotes > c.depth
	if c.begins || blank {
		c.depth = quotes
	}
	if c.fence != "" {
		if quotes >= c.quotes && (blank || indent >= c.inside) {
			if n := run(strings.TrimLeft(rest, " \t"), c.fence[0]); n >= len(c.fence) && quotes == c.quotes &&
				indent < c.inside+4 && strings.TrimSpace(strings.TrimLeft(rest, " \t")[n:]) == "" {
				c.fence = ""
			}
			return true
		}
		c.fence = "" // its quote or its list has ended
	}
	if blank {
		c.follows = false
		return c.indented
	}
	if !c.follows {
		c.leave(indent)
	}
	if indent >= c.list()+4 {
		c.indented = !c.follows
		return c.indented
	}
	c.indented = false
	if text := strings.TrimSpace(rest); text[0] == '#' || listMark(rest) > 0 || isBreak(text) || fenceOf(text) > 0 {
		c.begins = true
		c.leave(indent)
	}

	for indent < c.list()+4 && !isBreak(strings.TrimSpace(rest)) {
		mark := listMark(rest)
		if mark == 0 {
			break
		}
		var more int
		if len(c.lists) < maxLists {
			c.lists = append(c.lists, indent+mark)
		}
		more, rest, indent = unquote(strings.TrimLeft(rest, " \t")[mark-1:], indent+mark-1)
		quotes += more
		c.depth += more
		if indent > c.list()+3 { // a list item that begins with indented code
			return true
		}
	}
	rest = strings.TrimSpace(rest)
	if n := fenceOf(rest); n > 0 {
		c.fence, c.quotes, c.inside, c.follows = rest[:n], quotes, c.list(), false
		return true
	}
	c.follows = rest != "" && rest[0] != '#' && !isBreak(rest)
	return false
}

// leave leaves the list items that a text with this indentation is not in.
func (c *codeLines) leave(indent int) {
	for indent < c.list() {
		c.lists = c.lists[:len(c.lists)-1]
	}
}

// fenceOf is how long the fence is that a line begins; 0 if it begins none.
func fenceOf(line string) int {
	n := max(run(line, '`'), run(line, '~'))
	if n < 3 || line[0] == '`' && strings.Contains(line[n:], "`") {
		return 0
	}
	return n
}

// maxLists is how deep lists can be in each other.
const maxLists = 50

// list is the indentation of the innermost list item; 0 outside of lists.
func (c *codeLines) list() int {
	if len(c.lists) == 0 {
		return 0
	}
	return c.lists[len(c.lists)-1]
}

// isBreak reports whether a line separates what is before and after it.
func isBreak(line string) bool {
	signs := strings.Map(func(r rune) rune {
		if r == ' ' || r == '\t' {
			return -1
		}
		return r
	}, line)
	return len(signs) >= 3 && strings.IndexByte("-*_", signs[0]) >= 0 && run(signs, signs[0]) == len(signs)
}

// unquote takes the signs of quotes off a line that begins at a column. indent is the column of the first letter after
// them, from where the innermost quote begins.
func unquote(line string, column int) (quotes int, rest string, indent int) {
	rest, indent = line, column
	for {
		text := strings.TrimLeft(rest, " \t")
		for _, c := range rest[:len(rest)-len(text)] {
			if c == '\t' {
				indent += 4 - indent%4
			} else {
				indent++
			}
		}
		if !strings.HasPrefix(text, ">") || indent > column+3 {
			return quotes, rest, indent
		}
		rest, column, indent = strings.TrimPrefix(text[1:], " "), 0, 0
		quotes++
	}
}

// listMark is how many letters the sign of a list item and the space after it have; 0 if there is none.
func listMark(line string) int {
	text := strings.TrimLeft(line, " \t")
	n := 0
	for n < len(text) && n < 9 && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	signs := "-*+"
	if n > 0 {
		signs = ".)"
	}
	if n+1 >= len(text) || !strings.ContainsRune(signs, rune(text[n])) || text[n+1] != ' ' && text[n+1] != '\t' {
		return 0
	}
	return n + 2
}

// run is how often a letter stands at the beginning of a text.
func run(text string, letter byte) (n int) {
	for n < len(text) && text[n] == letter {
		n++
	}
	return n
}

// maxBrackets is how many brackets can be open.
const maxBrackets = 1000

// placeInProse places what one paragraph shows.
func placeInProse(out *strings.Builder, text string, place func(id ID) Placed) {
	written := 0
	write := func(from, to int, with string) {
		out.WriteString(text[written:from])
		out.WriteString(with)
		written = to
	}
	ticks := lastTicks(text)
	var open []int // where the brackets are that no other has closed
	for i := 0; i < len(text); {
		switch text[i] {
		case '\\':
			i += 2
			continue
		case '`':
			n := run(text[i:], '`')
			i = afterCode(text, i+n, n, ticks)
			continue
		case '[':
			if len(open) == maxBrackets {
				open = open[:0]
			}
			open = append(open, i)
		case ']':
			if len(open) == 0 {
				break
			}
			from := open[len(open)-1]
			open = open[:len(open)-1]
			a, found := addressAt(text, i+1, lineBegins(text, from))
			if !found {
				break
			}
			with := place(a.id)
			switch {
			case with == (Placed{}):
			case !with.Whole:
				write(a.from, a.to, with.Text)
			case a.end == 0: // a definition, which others refer to
				write(a.from, a.to, "<>")
			default:
				if from > written && text[from-1] == '!' {
					from--
				}
				write(max(from, written), a.end, with.Text)
			}
			i = max(a.to, a.end)
			continue
		}
		i++
	}
	out.WriteString(text[written:])
}

// lineBegins reports whether there is nothing but a few spaces before a place in its line.
func lineBegins(text string, at int) bool {
	from := max(0, at-4)
	before := text[from:at]
	if n := strings.LastIndexByte(before, '\n'); n >= 0 {
		before = before[n+1:]
	} else if from > 0 {
		return false
	}
	return len(before) < 4 && strings.Trim(before, " ") == ""
}

// lastTicks is where the last run of backticks of each length is.
func lastTicks(text string) map[int]int {
	last := map[int]int{}
	for i := 0; i < len(text); {
		n := run(text[i:], '`')
		if n > 0 {
			last[n] = i
		}
		i += max(n, 1)
	}
	return last
}

// afterCode is the place after the code that n backticks before a place begin; that place if nothing ends it.
func afterCode(text string, at, n int, last map[int]int) int {
	if last[n] < at {
		return at
	}
	for i := at; i < len(text); {
		found := run(text[i:], '`')
		if found == n {
			return i + n
		}
		i += max(found, 1)
	}
	return at
}

// A shownAddress is where a text has the address of a file.
type shownAddress struct {
	id       ID
	from, to int // the address
	end      int // of the picture; 0 for a definition
}

// maxPictureTitle is how long the title of a picture may be, and the space before its address.
const maxPictureTitle = 1000

// addressAt finds the address that is after the words of a picture, or after the name of a definition.
func addressAt(text string, at int, begins bool) (a shownAddress, found bool) {
	if at >= len(text) || text[at] != '(' && (text[at] != ':' || !begins) {
		return a, false
	}
	definition := text[at] == ':'
	space := func(from int) int {
		rest := text[from:min(len(text), from+maxPictureTitle)]
		return from + len(rest) - len(strings.TrimLeft(rest, " \t\n\r"))
	}
	a.from = space(at + 1)
	angle := strings.HasPrefix(text[a.from:], "<")
	if angle {
		a.from++
	}
	const size = len(FileScheme) + 36
	a.to = a.from + size
	if a.to > len(text) || text[a.from:a.from+len(FileScheme)] != FileScheme {
		return a, false
	}
	id, err := uuid.Parse(text[a.from+len(FileScheme) : a.to])
	if err != nil {
		return a, false
	}
	a.id = id
	rest := a.to
	if angle {
		if !strings.HasPrefix(text[rest:], ">") {
			return a, false
		}
		rest++
	}
	if definition {
		if !angle && rest < len(text) && strings.IndexByte(" \t\r\n", text[rest]) < 0 {
			return a, false
		}
		return a, true
	}

	a.end = space(rest)
	if a.end > rest && a.end < len(text) {
		if closes := strings.IndexByte(`"'(`, text[a.end]); closes >= 0 {
			title := text[a.end+1 : min(len(text), a.end+1+maxPictureTitle)]
			n := strings.IndexByte(title, `"')`[closes])
			if n < 0 {
				return a, false
			}
			a.end = space(a.end + n + 2)
		}
	}
	if a.end >= len(text) || text[a.end] != ')' {
		return a, false
	}
	a.end++
	return a, true
}
