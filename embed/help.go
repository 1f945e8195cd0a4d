package embed

import (
	_ "embed"
	"html/template"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// packedHelp are the index and the pages of help/*.md in the order of the index, with a zero byte between them, in two
// fifths of the size. The test that compares them makes them.
//
//go:embed help.gz
var packedHelp []byte

// A Topic is a page of the handbook.
type Topic struct {
	Name    string // of its file and in addresses: "resumable-uploads"
	Title   string
	Summary string // a few words
	Text    string // Markdown, in lines of about 80 characters

	plain string // Text without links and marks, for the search
}

// HelpIndex is the first page of the handbook as Markdown.
func HelpIndex() string { return handbook().index }

// Topics are the pages of the handbook, in the order of its index. Callers must not change them.
func Topics() []Topic { return handbook().topics }

// HelpTopic finds a page of the handbook by its name.
func HelpTopic(name string) (t Topic, ok bool) {
	i := slices.IndexFunc(Topics(), func(t Topic) bool { return t.Name == name })
	if i < 0 {
		return t, false
	}
	return Topics()[i], true
}

// Changes finds what the handbook says about a version of the program: the id of its heading on the page "changes".
func Changes(version string) (id string, ok bool) {
	page, _ := HelpTopic("changes")
	if version == "" || !strings.Contains(page.Text, "\n## "+version+"\n") {
		return "", false
	}
	return "h-" + strings.ToLower(strings.ReplaceAll(version, ".", "")), true
}

type book struct {
	index  string
	topics []Topic
}

// handbook reads the pages on first use.
var handbook = sync.OnceValue(func() book {
	pages := strings.Split(string(unpacked(packedHelp)), "\x00")
	b := book{index: pages[0]}
	markup := regexp.MustCompile("\\]\\([^)]*\\)|[`\\[]|\\*\\*") // links, code and strong words
	for i, line := range entriesOf(b.index) {
		text := pages[1+i]
		b.topics = append(b.topics, Topic{line[2], line[1], line[3], text, markup.ReplaceAllString(text, "")})
	}
	return b
})

// entriesOf are the lines of the index that list a page: each whole, with the title, the name and the summary.
func entriesOf(index string) [][]string {
	return regexp.MustCompile(`(?m)^- \[(.+)\]\(([a-z-]+)\.md\): (.+)$`).FindAllStringSubmatch(index, -1)
}

// maxHelpWords bounds the work of a search.
const maxHelpWords = 16

// FindHelp returns the pages of the handbook that have all words of the query, in any case. Pages whose title or
// summary has them come first.
func FindHelp(query string) []HelpHit {
	words := strings.Fields(strings.ToLower(query))
	words = words[:min(len(words), maxHelpWords)]
	count := func(text string) (n int) {
		text = strings.ToLower(text)
		for _, w := range words {
			if strings.Contains(text, w) {
				n++
			}
		}
		return n
	}

	var first, rest []HelpHit
	for _, t := range Topics() {
		switch {
		case len(words) == 0:
		case count(t.Title+" "+t.Summary) == len(words):
			first = append(first, HelpHit{t.Name, t.Title, t.Summary})
		case count(t.plain) == len(words):
			hit, best := HelpHit{Name: t.Name, Title: t.Title}, 0
			for line := range strings.Lines(t.plain) {
				if n := count(line); n > best {
					hit.Line, best = strings.Trim(line, "#-| \n"), n
				}
			}
			rest = append(rest, hit)
		}
	}
	return append(first, rest...)
}

// A HelpHit is a page of the handbook that a search found, with the line that has most of the words.
type HelpHit struct{ Name, Title, Line string }

// HelpPage shows a page of the handbook or, with a Query, what was found for it.
type HelpPage struct {
	formPage
	Base string
	Look
	Title string
	Body  template.HTML
	Query string
	Found []HelpHit
}

func (HelpPage) file() string { return "help.html" }
