package format

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"kist/kv/field"
	"kist/kv/record"
)

// maxUnread is how many unread columns or members a report names.
const maxUnread = 100

// unread counts the data of a source that its reader does not read: how many
// entries have a value in each column, member or attribute. A reader yields its
// rows at the end of the source, so that nothing is lost silently.
type unread struct {
	what   string // "column", "member" or "attribute"
	counts map[string]int
	names  []string // in the order of their first use
	more   int      // values under names beyond maxUnread
}

func notRead(what string) *unread { return &unread{what: what, counts: map[string]int{}} }

// add counts a value under the name.
func (u *unread) add(name string) {
	name = record.Cut(clean(name), 100)
	u.counts[name]++
	if u.counts[name] > 1 {
		return
	}
	if len(u.names) == maxUnread {
		delete(u.counts, name)
		u.more++
		return
	}
	u.names = append(u.names, name)
}

// tell yields a row for each name. It reports false if the caller wants no
// more.
func (u *unread) tell(yield func(Row, error) bool) bool {
	for _, name := range u.names {
		row := Row{At: fmt.Sprintf("%s %q", u.what, name), Whole: true}
		row.Notes = []string{"This is not imported; 1 entry has it."}
		if u.counts[name] > 1 {
			row.Notes = []string{fmt.Sprintf("This is not imported; %d entries have it.", u.counts[name])}
		}
		if !yield(row, nil) {
			return false
		}
	}
	if u.more == 0 {
		return true
	}
	note := fmt.Sprintf("These are not imported; they have %d values.", u.more)
	return yield(Row{At: "other " + u.what + "s", Whole: true, Notes: []string{note}}, nil)
}

// after yields the rows, and then those about unread values. These come before
// the error that ends the source, if any.
func (u *unread) after(rows Rows) Rows {
	return func(yield func(Row, error) bool) {
		for row, err := range rows {
			if err != nil {
				if u.tell(yield) {
					yield(row, err)
				}
				return
			}
			if !yield(row, nil) {
				return
			}
		}
		u.tell(yield)
	}
}

// An entry is an object of a source in JSON. Reading a member removes it, so
// that the remaining members were not read. A member of another type than the
// reader asks for stays.
type entry struct {
	o      field.Object
	unread *unread
	path   string   // path of the entry within the reported one, with a dot
	inner  []*entry // objects in it that were read
}

func (e *entry) text(name string) string {
	return take[string](e, name)
}

// take reads a member of the type. The result is zero if there is none.
func take[T any](e *entry, name string) T {
	v, ok := e.o[name].(T)
	if ok {
		delete(e.o, name)
	}
	return v
}

// list reads a member that is a list of the type.
func list[T any](e *entry, name string) []T {
	from, _ := e.o[name].([]any)
	all := make([]T, 0, len(from))
	for _, v := range from {
		one, ok := v.(T)
		if !ok {
			return nil
		}
		all = append(all, one)
	}
	if from != nil {
		delete(e.o, name)
	}
	return all
}

// first reads the first of the members that is not empty. The others stay.
func (e *entry) first(names ...string) string {
	for _, name := range names {
		if t, ok := e.o[name].(string); ok && clean(t) != "" {
			return e.text(name)
		}
	}
	return ""
}

// yes reads true and false, also as 1 and 0.
func (e *entry) yes(name string) bool {
	switch e.o[name] {
	case true, "1", json.Number("1"):
		delete(e.o, name)
		return true
	case false, "0", json.Number("0"):
		delete(e.o, name)
	}
	return false
}

// number reads a whole number as text.
func (e *entry) number(name string) string {
	t := number(e.o, name)
	if t != "" {
		delete(e.o, name)
	}
	return t
}

// texts reads a list of texts.
func (e *entry) texts(name string) []string { return list[string](e, name) }

// object reads a member that is an object with members of its own. The result
// is empty if there is no such member.
func (e *entry) object(name string) *entry {
	return e.within(name, take[field.Object](e, name))
}

func (e *entry) within(name string, o field.Object) *entry {
	in := &entry{o: o, unread: e.unread, path: e.path + name + "."}
	e.inner = append(e.inner, in)
	return in
}

// objects reads a list of objects.
func (e *entry) objects(name string) (all []*entry) {
	for _, o := range list[field.Object](e, name) {
		all = append(all, e.within(name, o))
	}
	return all
}

// done counts the members that were not read.
func (e *entry) done() {
	seen := map[string]bool{}
	e.left(func(name string) {
		if !seen[name] { // once per entry
			seen[name] = true
			e.unread.add(name)
		}
	})
}

func (e *entry) left(add func(string)) {
	for _, in := range e.inner {
		in.left(add)
	}
	for _, name := range slices.Sorted(maps.Keys(e.o)) {
		if says(e.o[name]) {
			add(e.path + name)
		}
	}
}

// says reports whether a value counts: null, false and empty values do not.
func says(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case field.Object:
		return len(v) > 0
	}
	return true
}

// when sets a past instant from the first of the members that is not empty. It
// may be in one of the usual forms or a number. A value in another form counts
// as not read.
func (e *entry) when(names ...string) (at time.Time) {
	for _, name := range names {
		text, _ := e.o[name].(string)
		if text == "" {
			text = number(e.o, name)
		}
		if text == "" {
			continue
		}
		at = date(text)
		if !at.IsZero() {
			delete(e.o, name)
		}
		return at
	}
	return at
}

// shown is the text of a value in a note.
func shown(value string) string {
	if utf8.RuneCountInString(value) > 40 {
		value = record.Cut(value, 40) + "…"
	}
	return value
}

// noBytes is why an entry that was a file is refused.
const noBytes = "It is a file that was uploaded, and the export does not have its bytes."
