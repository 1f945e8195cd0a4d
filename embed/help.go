package embed

import (
	_ "embed"
	"html/template"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// packedHelp are the files of the folder help, each after its name without the ending, with a zero byte between them,
// in two fifths of the size. The test that compares them makes them.
//
//go:embed help.gz
var packedHelp []byte

// A Topic is a page of the handbook.
type Topic struct {
	Name    string // of its file and in addresses: "resumable-uploads"
	Lang    Lang   // of Title and Text
	Title   string
	Summary string // a few words in the language of the reader
	Text    string // Markdown, in lines of about 80 characters

	plain string // Text without links and marks, for the search
}

// HelpIndex is the first page of the handbook as Markdown, for a reader of the language.
func HelpIndex(l Lang) string { return handbook()[l].index }

// Topics are the pages of the handbook, in the order of its index, for a reader of the language: what has not been
// translated is in English. Callers must not change them.
func Topics(l Lang) []Topic { return handbook()[l].topics }

// HelpTopic finds a page of the handbook by its name.
func HelpTopic(l Lang, name string) (t Topic, ok bool) {
	all := Topics(l)
	i := slices.IndexFunc(all, func(t Topic) bool { return t.Name == name })
	if i < 0 {
		return t, false
	}
	return all[i], true
}

// Changes finds what the handbook says about a version of the program: the id of its heading on the page "changes".
func Changes(version string) (id string, ok bool) {
	page, _ := HelpTopic(English, "changes")
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
var handbook = sync.OnceValue(func() map[Lang]book {
	files := make(map[string]string)
	for pair := range slices.Chunk(strings.Split(string(unpacked(packedHelp)), "\x00"), 2) {
		files[pair[0]] = pair[1]
	}
	all := make(map[Lang]book)
	for _, l := range Langs() {
		all[l] = bookOf(l, files)
	}
	return all
})

func bookOf(l Lang, files map[string]string) book {
	markup := regexp.MustCompile("\\]\\([^)]*\\)|[`\\[]|\\*\\*") // links, code and strong words
	b := book{index: files[helpFile(l, "index")]}
	for _, line := range entriesOf(b.index) {
		t := Topic{Name: line[2], Lang: l, Title: line[1], Summary: line[3], Text: files[helpFile(l, line[2])]}
		if t.Text == "" {
			t.Lang, t.Text = English, files[helpFile(English, line[2])]
		}
		t.plain = markup.ReplaceAllString(t.Text, "")
		b.topics = append(b.topics, t)
	}
	return b
}

// helpFile is the path of a page in the folder help, without the ending: English pages are at its top, those of
// another language in a folder of their own.
func helpFile(l Lang, name string) string {
	if l == English {
		return name
	}
	return string(l) + "/" + name
}

// entriesOf are the lines of the index that list a page: each whole, with the title, the name and the summary.
func entriesOf(index string) [][]string {
	return regexp.MustCompile(`(?m)^- \[(.+)\]\(([a-z-]+)\.md\): (.+)$`).FindAllStringSubmatch(index, -1)
}

// maxHelpWords bounds the work of a search.
const maxHelpWords = 16

// FindHelp returns the pages of the handbook for a reader of the language that have all words of the query, in any
// case. Pages whose title or summary has them come first.
func FindHelp(l Lang, query string) []HelpHit {
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
	for _, t := range Topics(l) {
		switch {
		case len(words) == 0:
		case count(t.Title+" "+t.Summary) == len(words):
			first = append(first, HelpHit{t.Name, t.Lang, t.Title, l, t.Summary})
		case count(t.plain) == len(words):
			hit, best := HelpHit{Name: t.Name, Lang: t.Lang, Title: t.Title, LineLang: t.Lang}, 0
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

// A HelpHit is a page of the handbook that a search found, with its summary or the line that has most of the words.
type HelpHit struct {
	Name     string
	Lang     Lang // of Title
	Title    string
	LineLang Lang
	Line     string
}

// HelpPage shows a page of the handbook or, with a Query, what was found for it.
type HelpPage struct {
	formPage
	Base string
	Look
	Title string
	Lang  Lang // of Body
	Body  template.HTML
	Query string
	Found []HelpHit
}

func (HelpPage) file() string { return "help.html" }
