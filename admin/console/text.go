// Package console writes what a command shows to people: sentences, sizes,
// tables, and how far long work is.
package console

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Sentence puts the text of an error on one line that begins with a capital and
// ends with a full stop. A path or a command at the beginning keeps its case. A
// command at the end gets no full stop, so that it can be copied.
func Sentence(text string) string {
	text = Printable(strings.ReplaceAll(text, "\n", "; "))
	first, _, _ := strings.Cut(text, " ")
	if r, n := utf8.DecodeRuneInString(text); n > 0 && first != "kist" && !strings.Contains(first, "/") {
		text = string(unicode.ToUpper(r)) + text[n:]
	}
	if !strings.HasSuffix(text, ".") && !strings.Contains(text, "run: ") {
		text += "."
	}
	return text
}

// Colours reports whether what is written to w is seen on a terminal that shows colours, and the
// user has not turned them off with NO_COLOR (no-color.org).
func Colours(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && runtime.GOOS != "windows" &&
		os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Printable replaces the characters that could control a terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// Word returns the word that fits: yes if the condition holds, else no.
func Word(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}

// Bytes writes a number of bytes with a unit, as the app does: "12 B", "3.4 MB", "10 GB".
func Bytes(n int64) string {
	const unit = 1000
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, names := float64(n), "kMGTPE"
	i := -1
	for value >= unit && i < len(names)-1 {
		value /= unit
		i++
	}
	return fmt.Sprintf("%s %cB", strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0"), names[i])
}

// Day writes a time to the minute, in UTC. A nil time is "-".
func Day(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04")
}

// Table aligns the cells of rows in columns. Control characters in cells are
// replaced as by Printable; it changes rows.
func Table(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = Printable(cell)
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // a strings.Builder does not fail
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
