package render

import (
	"bytes"
	"errors"
	"sort"
	"strings"
	"time"

	"kist/kv/record"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// A Task is a line of a Markdown text that [Markdown] shows with a checkbox.
type Task struct {
	Line int    // the first line of the text is 1
	Text string // what follows the box on its line, as TaskText has it
	Done bool
	mark int // the place of the byte between the brackets in its line
}

// maxTaskText is how many characters of a task tell it from others.
const maxTaskText = 500

// TaskText is the text by which tasks are compared: Markdown without the space around it, at most 500 characters.
func TaskText(line string) string {
	line = strings.TrimSpace(line)
	n := 0
	for i := range line {
		if n == maxTaskText {
			return line[:i]
		}
		n++
	}
	return line
}

// Tasks lists the tasks of a Markdown text: exactly those that [Markdown] shows with a checkbox, in the order of their
// lines. It fails with ErrLate if reading the text takes too long, as on a machine that has much else to do.
func Tasks(src string) ([]Task, error) {
	source := strings.TrimPrefix(clean(src), byteOrderMark)
	if len(source) > maxMarkdown {
		return nil, nil
	}
	_, body := record.FrontMatter(source)
	doc, err := parse(converter(), []byte(body), time.Now().Add(maxTime))
	if errors.Is(err, ErrLate) {
		return nil, ErrLate
	}
	if err != nil { // then it is shown as plain text
		return nil, nil
	}

	lines := newLines([]byte(body), strings.Count(source[:len(source)-len(body)], "\n"))
	var all []Task
	_ = ast.Walk(doc, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if box, ok := node.(*extast.TaskCheckBox); ok && entering {
			all = append(all, lines.task(box))
		}
		return ast.WalkContinue, nil
	})
	sort.SliceStable(all, func(i, j int) bool { return all[i].Line < all[j].Line })
	return all, nil
}

// SetTask marks a task of a Markdown text as done or open: the one with this text that is nearest to the line. Of two at
// the same distance it is the first. Everything else stays byte for byte, and so does all of src if the task is so
// already. It returns false if there is no such task, and fails as Tasks does.
func SetTask(src string, line int, task string, done bool) (string, bool, error) {
	task = TaskText(clean(task))
	tasks, err := Tasks(src)
	if err != nil {
		return src, false, err
	}
	var found *Task
	for _, t := range tasks {
		if t.Text == task && (found == nil || distance(t.Line, line) < distance(found.Line, line)) {
			found = &t
		}
	}
	if found == nil {
		return src, false, nil
	}
	if found.Done == done {
		return src, true, nil
	}

	at := startOf(src, found.Line) + found.mark
	if at < 1 || at+1 >= len(src) || src[at-1] != '[' || src[at+1] != ']' { // what the text hides does not count
		return src, false, nil
	}
	mark := " "
	if done {
		mark = "x"
	}
	return src[:at] + mark + src[at+1:], true, nil
}

func distance(a, b int) int { return max(a-b, b-a) }

const byteOrderMark = "\ufeff"

// startOf is where a line of a text begins that is not cleaned yet, after a byte order mark.
func startOf(src string, line int) int {
	at := 0
	if strings.HasPrefix(src, byteOrderMark) {
		at = len(byteOrderMark)
	}
	for ; line > 1; line-- {
		end := strings.IndexAny(src[at:], "\r\n")
		if end < 0 {
			return len(src)
		}
		at += end + 1
		if src[at-1] == '\r' && strings.HasPrefix(src[at:], "\n") {
			at++
		}
	}
	return at
}

// taskBoxes remembers where a box stands.
type taskBoxes struct{ parser.InlineParser }

const boxAt = "at"

func (p taskBoxes) Parse(parent ast.Node, reader text.Reader, pc parser.Context) ast.Node {
	_, place := reader.PeekLine()
	node := p.InlineParser.Parse(parent, reader, pc)
	if node != nil {
		node.SetAttributeString(boxAt, place.Start)
	}
	return node
}

// textLines knows where the lines of a text begin.
type textLines struct {
	source []byte
	starts []int
	before int // how many lines come before the source
}

func newLines(source []byte, before int) *textLines {
	l := &textLines{source: source, starts: []int{0}, before: before}
	for at := 0; ; {
		next := bytes.IndexByte(source[at:], '\n')
		if next < 0 {
			return l
		}
		at += next + 1
		l.starts = append(l.starts, at)
	}
}

// task is the task of a box.
func (l *textLines) task(box *extast.TaskCheckBox) Task {
	v, _ := box.AttributeString(boxAt)
	at, _ := v.(int)
	n := sort.SearchInts(l.starts, at+1) // the number of the line in the source
	end := len(l.source)
	if n < len(l.starts) {
		end = l.starts[n]
	}
	return Task{
		Line: l.before + n, Text: TaskText(string(l.source[min(at+len("[ ]"), end):end])), Done: box.IsChecked,
		mark: at + 1 - l.starts[n-1],
	}
}
