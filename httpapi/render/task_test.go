package render

import (
	"cmp"
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// TestSetTask: the task nearest to the line changes, and nothing else. want has the text afterwards; "" means that there
// is no such task.
func TestSetTask(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", maxTaskText)
	for name, row := range map[string]struct {
		src, task string
		line      int
		done      bool
		want      string
	}{
		"hyphen":              {"- [ ] milk\n- [ ] salt", "milk", 1, true, "- [x] milk\n- [ ] salt"},
		"asterisk":            {"* [ ] milk", "milk", 1, true, "* [x] milk"},
		"plus":                {"+ [ ] milk", "milk", 1, true, "+ [x] milk"},
		"number":              {"1. [ ] milk\n2. [ ] salt", "salt", 2, true, "1. [ ] milk\n2. [x] salt"},
		"number, parenthesis": {"1) [ ] milk", "milk", 1, true, "1) [x] milk"},
		"open again":          {"- [x] milk", "milk", 1, false, "- [ ] milk"},
		"capital":             {"- [X] milk", "milk", 1, false, "- [ ] milk"},
		"tab between":         {"- [\t] milk", "milk", 1, true, "- [x] milk"},
		"so already":          {"- [X] milk", "milk", 1, true, "- [X] milk"},
		"open already":        {"- [\t] milk", "milk", 1, false, "- [\t] milk"},
		"nested": {
			"- food\n  - [ ] milk\n    1. [ ] fresh\n", "fresh", 3, true, "- food\n  - [ ] milk\n    1. [x] fresh\n",
		},
		"nested on one line":   {"- 1. [ ] milk", "milk", 1, true, "- 1. [x] milk"},
		"in a quote":           {"> - [ ] milk\n> - [ ] salt", "salt", 2, true, "> - [ ] milk\n> - [x] salt"},
		"in a callout":         {"> [!NOTE]\n> - [ ] milk", "milk", 2, true, "> [!NOTE]\n> - [x] milk"},
		"in a footnote":        {"a[^ä]\n\n[^ä]: - [ ] milk", "milk", 3, true, "a[^ä]\n\n[^ä]: - [x] milk"},
		"in a loose list":      {"- [ ] milk\n\n- [ ] salt", "salt", 3, true, "- [ ] milk\n\n- [x] salt"},
		"indented with a tab":  {"- food\n\t- [ ] milk", "milk", 2, true, "- food\n\t- [x] milk"},
		"more lines":           {"- [ ] milk\n  fresh\n- [ ] salt", "milk", 1, true, "- [x] milk\n  fresh\n- [ ] salt"},
		"Windows":              {"a\r\n\r\n- [ ] milk\r\n- [ ] salt\r\n", "salt", 4, true, "a\r\n\r\n- [ ] milk\r\n- [x] salt\r\n"},
		"old Mac":              {"- [ ] milk\r- [ ] salt\r", "salt", 2, true, "- [ ] milk\r- [x] salt\r"},
		"byte order mark":      {"\ufeff- [ ] milk", "milk", 1, true, "\ufeff- [x] milk"},
		"not UTF-8":            {"\xff\xfe\n- [ ] m\xfflk", "m\ufffdlk", 2, true, "\xff\xfe\n- [x] m\xfflk"},
		"below front matter":   {"---\ntitle: a\n---\n- [ ] milk", "milk", 4, true, "---\ntitle: a\n---\n- [x] milk"},
		"space around":         {"- [ ]   milk  \n", " milk ", 1, true, "- [x]   milk  \n"},
		"no space":             {"- [ ]milk", "milk", 1, true, "- [x]milk"},
		"Markdown":             {"- [ ] **milk** [x](/y)", "**milk** [x](/y)", 1, true, "- [x] **milk** [x](/y)"},
		"empty":                {"- [ ] \n- [ ] milk", "", 1, true, "- [x] \n- [ ] milk"},
		"long":                 {"- [ ] " + long + "a", long + "b", 1, true, "- [x] " + long + "a"},
		"moved up":             {"- [ ] milk", "milk", 9, true, "- [x] milk"},
		"moved down":           {"a\n\nb\n\n- [ ] milk", "milk", 1, true, "a\n\nb\n\n- [x] milk"},
		"line before the text": {"- [ ] milk", "milk", -1 << 62, true, "- [x] milk"},
		"nearest of two":       {"- [ ] milk\n- a\n- b\n- [ ] milk", "milk", 3, true, "- [ ] milk\n- a\n- b\n- [x] milk"},
		"first of two":         {"- [ ] milk\n- a\n- [ ] milk", "milk", 2, true, "- [x] milk\n- a\n- [ ] milk"},
		"nearest is done":      {"- [ ] milk\n- [x] milk", "milk", 2, true, "- [ ] milk\n- [x] milk"},
		"other text":           {"- [ ] milk", "Milk", 1, true, ""},
		"no box":               {"- milk\n[ ] milk\n", "milk", 1, true, ""},
		"paragraph":            {"[ ] milk", "milk", 1, true, ""},
		"later in a row":       {"- a [ ] milk", "milk", 1, true, ""},
		"second paragraph":     {"- a\n\n  [ ] milk", "milk", 3, true, ""},
		"escaped":              {`- \[ ] milk`, "milk", 1, true, ""},
		"fence":                {"```\n- [ ] milk\n```\n\n- [ ] salt", "milk", 2, true, ""},
		"fence that never end": {"~~~\n- [ ] milk", "milk", 2, true, ""},
		"same text in a fence": {"```\n- [ ] milk\n```\n\n- [ ] milk", "milk", 2, true, "```\n- [ ] milk\n```\n\n- [x] milk"},
		"indented code":        {"a\n\n    - [ ] milk", "milk", 3, true, ""},
		"comment":              {"<!--\n- [ ] milk\n-->", "milk", 2, true, ""},
		"in front matter":      {"---\nlist:\n- [ ] milk\n---\n", "milk", 3, true, ""},
		"too long for a page":  {"- [ ] milk\n" + strings.Repeat("a", maxMarkdown), "milk", 1, true, ""},
		"nothing":              {"", "milk", 1, true, ""},
	} {
		got, ok, err := SetTask(row.src, row.line, row.task, row.done)
		if err != nil || ok != (row.want != "") || got != cmp.Or(row.want, row.src) {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
}

// boxes are the checkboxes of a page.
var boxes = regexp.MustCompile(`<input type="checkbox" disabled (checked )?aria-label="\w+" data-line="(\d+)" data-task="([^"]*)"> `)

// TestTasksAreShown: the tasks of a text are the boxes of its page, with line, text and state.
func TestTasksAreShown(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	src := "---\na: b\n---\n# List\n\n- [ ] \"milk\" & <b>\r\n- [x] *salt*\n  1. [X] nested\n\n" +
		"```\n- [ ] code\n```\n\n> * [ ] quoted\n\na[^1]\n\n[^1]: + [ ] noted\n\n- [ ]none\n- [y] no\n- [] no\n\n# More\n\n    - [ ] code\n"
	page, err := Markdown([]byte(src))
	is.NoErr(err)
	var shown []string
	for _, m := range boxes.FindAllStringSubmatch(string(page), -1) {
		shown = append(shown, fmt.Sprint(m[2], " ", html.UnescapeString(m[3]), " ", m[1] != ""))
	}
	is.Equal(strings.Count(string(page), "checkbox"), len(shown))
	var all []string
	tasks, err := Tasks(src)
	is.NoErr(err)
	for _, task := range tasks {
		all = append(all, fmt.Sprint(task.Line, " ", task.Text, " ", task.Done))
	}
	want := []string{
		`6 "milk" & <b> false`, "7 *salt* true", "8 nested true", "14 quoted false", "18 noted false", "20 none false",
	}
	is.Equal(all, want)
	is.Equal(len(shown), len(all)) // a footnote stands at the end of its page
	for _, task := range all {
		is.True(strings.Contains(strings.Join(shown, "\n"), task))
	}
}

// FuzzSetTask: one byte changes, the same tasks are there, and the page shows the same boxes.
func FuzzSetTask(f *testing.F) {
	for _, src := range []string{"- [ ] a\n- [x] b", "\ufeff> 1. [ ] a\r\r\n\t* [X] b", "[^\x00]: - [ ] a\n\n[^\x00]", "---\na: b\n---\n+ [ ] c"} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 1000 {
			return // its tasks one after the other would take long
		}
		tasks, err := Tasks(src)
		if err != nil {
			return
		}
		page, err := Markdown([]byte(src))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(boxes.FindAllString(string(page), -1)); n != len(tasks) {
			t.Fatalf("%d boxes of %d tasks", n, len(tasks))
		}
		for i, task := range tasks {
			got, ok, err := SetTask(src, task.Line, task.Text, !task.Done)
			if err != nil || !ok || got == src {
				continue // two stand on the same line, or what is hidden does not count
			}
			if len(got) != len(src) {
				t.Fatalf("%q became %q", src, got)
			}
			after, err := Tasks(got)
			if err != nil {
				return
			}
			if len(after) != len(tasks) || after[i].Text != task.Text || after[i].Line != task.Line {
				t.Fatalf("%v became %v: %s", tasks, after, strconv.Quote(got))
			}
		}
	})
}
