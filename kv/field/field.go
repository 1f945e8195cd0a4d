// Package field declares the wire shape of a value once and derives everything
// else from it: reading a create and a patch from JSON or form text, writing
// JSON, and the OpenAPI schema. It is like package flag for JSON objects: a
// type binds its variables to names in one method, Fields.
package field

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// Traits narrow a field beyond its type.
type Traits uint8

const (
	Required  Traits = 1 << iota // a create must have it, and not as null
	Filled                       // must not be empty or blank if present
	ReadOnly                     // the server sets it; input that names it is ignored
	WriteOnly                    // accepted, never shown
	Always                       // an answer always has a value, never null
	Counter                      // counts what others do with the value, so it changes without a change of the value
)

// Shaped is a value that knows its wire shape.
type Shaped interface{ Fields(*Set) }

// A Set is a shape bound to variables. Binding is cheap. A set may be kept and
// used again with other values in the same variables. It is not safe for
// concurrent use.
type Set struct{ fields []Field }

// A Field is one named member of a shape.
type Field struct {
	Name    string
	Traits  Traits
	Doc     string // one sentence for the reference
	Example string // JSON text
	binding binding
}

// binding is a typed variable behind a field.
type binding interface {
	set(v any) error // v is never nil; the error completes the sentence "<name> …"
	clear() bool     // null on a patch; false if null is not a value of the field
	append(dst []byte) []byte
	schema() Schema
}

// Schema is the part of JSON Schema that OpenAPI 3.0 and this program use.
type Schema struct {
	Type      string // string, integer, number, boolean, array or object
	Format    string
	Pattern   string
	Enum      []string
	MinLength int
	MaxLength int
	MaxItems  int
	Min, Max  *int64
	Nullable  bool
	Items     *Schema
	Members   []Field // of an object
	Input     bool    // of an object in a body: each member may be left out or null
	Free      bool    // an object with any members, each described by Items
}

// Of binds the shape of v.
func Of(v Shaped) *Set {
	s := &Set{fields: make([]Field, 0, 24)}
	v.Fields(s)
	return s
}

// sets are kept for reuse: a set is larger than most of the values it is bound
// to.
var sets = sync.Pool{New: func() any { return &Set{fields: make([]Field, 0, 24)} }}

// with runs fn on the shape of v, which is bound only during the call.
func with[T any](v Shaped, fn func(*Set) T) T {
	s := sets.Get().(*Set)
	v.Fields(s)
	out := fn(s)
	clear(s.fields) // they point to v
	s.fields = s.fields[:0]
	sets.Put(s)
	return out
}

// Load binds the shape of v and reads the output of AppendJSON: see Set.Load.
func Load(v Shaped, stored []byte) error {
	return with(v, func(s *Set) error { return s.Load(stored) })
}

// LoadStart is Load for the members up to the named one. It reads at most limit bytes: a text
// that does not end in them is cut. So members that can be long, and are not wanted, take no time.
func LoadStart(v Shaped, stored []byte, last string, limit int) error {
	return with(v, func(s *Set) error {
		w := walker{data: stored[:min(limit, len(stored))], cut: len(stored) > limit}
		return s.loaded(&w, last)
	})
}

// LastText is the text of the last member of what AppendJSON wrote, if that has the name, and
// otherwise "". It is searched from the end, in at most limit bytes.
func LastText(stored []byte, name string, limit int) string {
	// A quote in a text follows a backslash, so no text contains this.
	before := []byte(`,"` + name + `":`)
	end := stored[max(0, len(stored)-limit):]
	at := bytes.LastIndex(end, before)
	if at < 0 {
		return ""
	}
	w := walker{data: end[at+len(before):]}
	if w.next() != '"' {
		return ""
	}
	t, err := w.text()
	if err != nil || string(w.data[w.at:]) != "}" {
		return ""
	}
	return t
}

// Create binds the shape of v and reads an object into it: see Set.Create.
func Create(v Shaped, in Object) error {
	return with(v, func(s *Set) error { return s.Create(in) })
}

// Patch binds the shape of v and reads an object that changes the members it
// names: see Set.Patch.
func Patch(v Shaped, in Object) error {
	return with(v, func(s *Set) error { return s.Patch(in) })
}

// AppendJSON binds the shape of v and appends it as an object: see
// Set.AppendJSON.
func AppendJSON(dst []byte, v Shaped) []byte {
	return with(v, func(s *Set) []byte { return s.AppendJSON(dst) })
}

// Fields lists the shape in the order it was bound.
func (s *Set) Fields() []Field { return s.fields }

// Schema is the JSON Schema of the field's value in an answer.
func (f Field) Schema() Schema {
	s := f.binding.schema()
	s.Nullable = s.Nullable && f.Traits&(Always|Required) == 0
	return s
}

// Says sets the sentence and the example, as JSON text, that the reference
// shows for the last bound field.
func (f *Field) Says(doc, example string) *Field {
	f.Doc, f.Example = doc, example
	return f
}

func (s *Set) add(name string, b binding, traits []Traits) *Field {
	var t Traits
	for _, x := range traits {
		t |= x
	}
	s.fields = append(s.fields, Field{Name: name, Traits: t, binding: b})
	return &s.fields[len(s.fields)-1]
}

// Problems says what is wrong with an input, by field name.
type Problems map[string]string

// Error lists the problems in the order of their names.
func (p Problems) Error() string {
	lines := make([]string, 0, len(p))
	for name, why := range p {
		lines = append(lines, name+" "+why)
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

// Create reads an object that makes a new value. Required members must exist,
// null means absent, and unknown and read-only members are ignored. It
// continues after a bad member, so that the Problems it returns name all of
// them.
func (s *Set) Create(in Object) error {
	return s.read(in, func(f *Field, v any, there bool) string {
		switch {
		case v == nil && f.Traits&Required != 0:
			return "is required"
		case v == nil:
			return ""
		}
		return f.take(v)
	})
}

// Patch reads an object that changes only the members it names. An absent
// member keeps its value, and null clears it if the field can be empty.
// Otherwise it is like Create.
func (s *Set) Patch(in Object) error {
	return s.read(in, func(f *Field, v any, there bool) string {
		switch {
		case !there:
			return ""
		case v == nil && f.Traits&Filled == 0 && f.binding.clear():
			return ""
		case v == nil:
			return "cannot be null"
		}
		return f.take(v)
	})
}

func (s *Set) read(in Object, take func(f *Field, v any, there bool) string) error {
	var bad Problems
	for i := range s.fields {
		f := &s.fields[i]
		if f.Traits&ReadOnly != 0 {
			continue
		}
		v, there := in[f.Name]
		if why := take(f, v, there); why != "" {
			if bad == nil {
				bad = Problems{}
			}
			bad[f.Name] = why
		}
	}
	if bad == nil {
		return nil
	}
	return bad
}

func (f *Field) take(v any) string {
	if text, ok := v.(string); ok && f.Traits&Filled != 0 && strings.TrimSpace(text) == "" {
		return "must not be empty"
	}
	if err := f.binding.set(v); err != nil {
		return err.Error()
	}
	if f.Traits&Filled == 0 {
		return ""
	}
	switch b := f.binding.(type) { // the text after the rule
	case *texts:
		if len(*b.p) == 0 {
			return "must not be empty"
		}
	case *label:
		if *b.p == "" {
			return "must not be empty"
		}
	case *ruled:
		if strings.TrimSpace(*b.p) == "" {
			return "must not be empty"
		}
	}
	return ""
}

// Unknown lists the members of an input that the shape of v does not take, in order. Those
// of an object in it follow its name and a dot.
func Unknown(v Shaped, in Object) []string {
	return with(v, func(s *Set) (unknown []string) {
		for name, value := range in {
			i := slices.IndexFunc(s.fields, func(f Field) bool { return f.Name == name && f.Traits&ReadOnly == 0 })
			if i < 0 {
				unknown = append(unknown, name)
				continue
			}
			inner, isObject := value.(Object)
			if b, isNested := s.fields[i].binding.(*nested); isObject && isNested {
				for _, deeper := range Unknown(b.v, inner) {
					unknown = append(unknown, name+"."+deeper)
				}
			}
		}
		slices.Sort(unknown)
		return unknown
	})
}

// formed is a binding that keeps the text that a rule returned.
type formed interface{ load(v any) error }

// Load reads the output of AppendJSON for the same shape, including read-only
// members. It skips members that the shape does not have. A variable keeps its
// value if the text lacks its member. Load reads the text once and trusts that
// AppendJSON wrote it: it only finds the end of a skipped member, and does not
// apply a rule again to text that the rule returned. An error is never a
// Malformed, because the client is not to blame, and leaves the variables as
// read so far.
func (s *Set) Load(stored []byte) error {
	w := walker{data: stored}
	return s.loaded(&w, "")
}

// loaded reads the members of stored JSON up to the named one, or all of them.
func (s *Set) loaded(w *walker, last string) error {
	if err := s.load(w, last); err != nil {
		if _, ok := errors.AsType[Malformed](err); ok {
			return fmt.Errorf("stored JSON is damaged near byte %d", w.at)
		}
		return err
	}
	return nil
}

func (s *Set) load(w *walker, last string) error {
	if w.next() != '{' {
		return errBroken
	}
	w.at++
	seen := make([]bool, len(s.fields))
	next := 0
	for n := 0; ; n++ {
		another, err := w.more(n, '}')
		if err != nil {
			return err
		}
		if !another {
			break
		}
		name, err := w.quoted()
		if err != nil {
			return err
		}
		if err := w.colon(); err != nil {
			return err
		}
		i := s.find(name, next)
		if i < 0 {
			if err := w.skip(1); err != nil {
				return err
			}
			continue
		}
		f := &s.fields[i]
		if seen[i] {
			return fmt.Errorf("%s is stored twice", f.Name)
		}
		seen[i], next = true, i+1
		if err := f.load(w); err != nil {
			return err
		}
		if f.Name == last {
			return nil
		}
	}
	w.next()
	if w.at < len(w.data) {
		return errBroken
	}
	return nil
}

// find returns the index of the named field, or -1. The field is probably next,
// or soon after it.
func (s *Set) find(name []byte, next int) int {
	for i := next; i < len(s.fields); i++ {
		if s.fields[i].Name == string(name) {
			return i
		}
	}
	for i := range min(next, len(s.fields)) {
		if s.fields[i].Name == string(name) {
			return i
		}
	}
	return -1
}

func (f *Field) load(w *walker) error {
	switch f.binding.(type) {
	case *shown, *spliced: // these have no variable
		return w.skip(1)
	}
	v, err := w.value(1)
	if err != nil {
		return err
	}
	if v == nil {
		f.binding.clear()
		return nil
	}
	set := f.binding.set
	if b, ok := f.binding.(formed); ok {
		set = b.load
	}
	if err := set(v); err != nil {
		return fmt.Errorf("%s %w", f.Name, err)
	}
	return nil
}

// Strings yields the shape's texts that people write, in the order they were
// bound.
func (s *Set) Strings() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range s.fields {
			b, ok := s.fields[i].binding.(interface{ words() string })
			if ok && s.fields[i].Traits&ReadOnly == 0 && !yield(b.words()) {
				return
			}
		}
	}
}

// AppendJSON appends the shown fields as a JSON object, in the order they were
// bound.
func (s *Set) AppendJSON(dst []byte) []byte { return s.appendTo(dst, nil) }

// AppendDigested is AppendJSON that also adds the object, without its counters, to a
// digest: it tells apart two values that differ in anything else.
func (s *Set) AppendDigested(dst []byte, d *xxhash.Digest) []byte { return s.appendTo(dst, d) }

func (s *Set) appendTo(dst []byte, d *xxhash.Digest) []byte {
	digested := len(dst)
	dst = append(dst, '{')
	empty := len(dst)
	for i := range s.fields {
		f := &s.fields[i]
		if f.Traits&WriteOnly != 0 {
			continue
		}
		if sp, ok := f.binding.(*spliced); ok {
			if inner := bare(*sp.raw); len(inner) > 0 {
				if len(dst) > empty {
					dst = append(dst, ',')
				}
				dst = append(dst, inner...)
			}
			continue
		}
		if len(dst) > empty {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), f.Name...), '"', ':')
		counted := len(dst)
		dst = f.binding.append(dst)
		if d != nil && f.Traits&Counter != 0 {
			_, _ = d.Write(dst[digested:counted]) // never fails
			digested = len(dst)
		}
	}
	dst = append(dst, '}')
	if d != nil {
		_, _ = d.Write(dst[digested:])
	}
	return dst
}

// bare is a JSON object without its braces.
func bare(object []byte) []byte {
	if len(object) < 2 {
		return nil
	}
	return object[1 : len(object)-1]
}

// Members lists the shape with spliced shapes expanded: the members of the
// value's JSON.
func (s *Set) Members() []Field {
	var all []Field
	for _, f := range s.fields {
		if sp, ok := f.binding.(*spliced); ok {
			all = append(all, Of(sp.shape).Members()...)
			continue
		}
		all = append(all, f)
	}
	return all
}

// spliced is a part of the object that is already JSON text.
type spliced struct {
	raw   *[]byte
	shape Shaped
}

func (*spliced) set(any) error            { return nil }
func (*spliced) clear() bool              { return false }
func (*spliced) append(dst []byte) []byte { return dst }
func (*spliced) schema() Schema           { return Schema{} }

// Splice binds JSON text that AppendJSON wrote for a value of the given shape.
// Its members are shown in its place. It cannot be read into.
func (s *Set) Splice(raw *[]byte, shape Shaped) {
	s.add("", &spliced{raw, shape}, []Traits{ReadOnly})
}
