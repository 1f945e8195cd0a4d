package web

import (
	"encoding/json"
	"net/http"

	"kist/kv/field"
	"kist/kv/record"
)

// Object is a JSON object of the document.
type Object = map[string]any

// Param is a parameter of an operation.
type Param struct {
	In, Name, Doc string
	Schema        Object
	Example       any
}

// Content is a body: its media type, schema and an example.
type Content struct {
	Media    string
	Name     string // of the schema in the document; "" writes the schema inline
	Schema   Object
	Example  any // nil: made from the schema
	Optional bool
}

// Reply is what a successful operation answers.
type Reply struct {
	Status int
	Doc    string
	Body   *Content // nil: none
}

// MaybePrefix begins the names of enums that may also be null. In OpenAPI 3.0, a reference
// cannot be nullable in another way.
const MaybePrefix = "Maybe"

// Shapes of the document.

// SchemasPath is the prefix of references to named schemas.
const SchemasPath = "#/components/schemas/"

func Ref(name string) Object { return Object{"$ref": SchemasPath + name} }

// EnumRef is a placeholder for a reference to an enum until the document is written.
type EnumRef struct {
	Words    []string
	Nullable bool
}

// enumOf refers to the enum with these words.
func enumOf(words []string, nullable bool) Object { return Object{"$ref": EnumRef{words, nullable}} }

func Members(of Object, required ...string) Object {
	out := Object{"type": "object", "properties": of}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

func JSONOf(schema Object, example any) *Content {
	return &Content{Media: JSONType, Schema: schema, Example: example}
}

// Named gives the schema of a body a name in the document.
func Named(name string, c *Content) *Content {
	c.Name = name
	return c
}

// BodyOf is a JSON body with a named schema.
func BodyOf(name string) *Content { return &Content{Media: JSONType, Name: name} }

func Maybe(c *Content) *Content {
	c.Optional = true
	return c
}

func DataOf(name string) *Content {
	return Named(name+"Answer", JSONOf(Members(Object{"data": Ref(name)}, "data"), nil))
}

func Envelope(name, beside string, schema Object, example any) *Content {
	schema["example"] = example
	return Named(name+"Created", JSONOf(Members(Object{"data": Ref(name), beside: schema}, "data", beside), nil))
}

func ArrayOf(name string) *Content {
	return Named(name+"List", JSONOf(AllOf(name), nil))
}

// AllOf is the schema of a list of named schemas.
func AllOf(name string) Object {
	return Object{"type": "array", "description": "The list, or a page of it.", "items": Ref(name)}
}

// ListOf is a page of a list.
func ListOf(name string) *Content {
	return Named(name+"List", JSONOf(Members(Object{"data": AllOf(name), "total": WholeTotal, "nextCursor": NextCursor}, "data", "total", "nextCursor"), nil))
}

var (
	WholeTotal = Object{"type": "integer", "format": "int64", "description": "Number of entries in the whole list.", "example": 1}
	NextCursor = Object{"type": "string", "nullable": true, "example": nil, "description": "Cursor of the next page; null at the end."}
)

func PageOfRecords(k *record.Kind) *Content { return ListOf(Title(k.Name)) }

var DoneReply = Reply{http.StatusOK, "Done.", Named("Done", JSONOf(Members(Object{"ok": Object{"type": "boolean", "enum": []bool{true}}}, "ok"), Object{"ok": true}))}

func TextOf(example string) *Content {
	return &Content{Media: "text/plain", Schema: Object{"type": "string"}, Example: example}
}

func PageOf() *Content {
	return &Content{Media: HTMLMedia, Schema: Object{"type": "string"}, Example: "<!doctype html>…"}
}

func BytesOf() *Content {
	return &Content{Media: "*/*", Schema: Object{"type": "string", "format": "binary"}, Example: "…"}
}

const HTMLMedia = "text/html"

// FormBody is the body of a form of a page. It is not in the document.
var FormBody = &Content{Media: "application/x-www-form-urlencoded"}

// Mode says what a shape is used for: to show, to create or to change something.
type Mode int

const (
	Shown Mode = iota
	Create
	Edit
)

// ShapeOf is the schema of the shape for this use.
func ShapeOf(v field.Shaped, m Mode) Object {
	of := Object{}
	var required []string
	for _, f := range field.Of(v).Members() {
		if m == Shown && f.Traits&field.WriteOnly != 0 || m != Shown && f.Traits&field.ReadOnly != 0 {
			continue
		}
		as := f.Schema()
		switch m {
		case Create:
			as.Nullable = f.Traits&field.Required == 0
		case Edit:
			as.Nullable = f.Clears()
		}
		s := schemaOf(as)
		if at := s["$ref"]; at != nil { // a reference may have no siblings
			s = Object{"allOf": []Object{s}}
		}
		if f.Doc != "" {
			s["description"] = f.Doc
		}
		if f.Example != "" {
			s["example"] = json.RawMessage(f.Example)
		}
		of[f.Name] = s
		if m == Shown || m == Create && f.Traits&field.Required != 0 {
			required = append(required, f.Name)
		}
	}
	out := Object{"type": "object", "properties": of}
	if required != nil {
		out["required"] = required
	}
	return out
}

// schemaOf turns a field's schema into an object of the document.
func schemaOf(s field.Schema) Object {
	out := Object{"type": s.Type}
	put := func(name string, v any, there bool) {
		if there {
			out[name] = v
		}
	}
	put("format", s.Format, s.Format != "")
	put("pattern", s.Pattern, s.Pattern != "")
	put("minLength", s.MinLength, s.MinLength > 0)
	put("maxLength", s.MaxLength, s.MaxLength > 0)
	put("maxItems", s.MaxItems, s.MaxItems > 0)
	put("nullable", true, s.Nullable)
	if s.Min != nil {
		put("minimum", *s.Min, true)
	}
	if s.Max != nil {
		put("maximum", *s.Max, true)
	}
	switch {
	case len(s.Enum) == 1: // a word that identifies the type of the object
		put("enum", s.Enum, true)
	case s.Enum != nil && s.Nullable:
		return enumOf(s.Enum, true)
	case s.Enum != nil:
		return enumOf(s.Enum, false)
	}
	if s.Free {
		put("additionalProperties", true, true)
	}
	if s.Items != nil {
		name := "items"
		if s.Free {
			name = "additionalProperties"
		}
		put(name, schemaOf(*s.Items), true)
	}
	if s.Members != nil {
		of := Object{}
		var names []string
		for _, m := range s.Members {
			ms := schemaOf(m.Schema())
			if ms["$ref"] != nil {
				ms = Object{"allOf": []Object{ms}}
			}
			if m.Doc != "" {
				ms["description"], ms["example"] = m.Doc, json.RawMessage(m.Example)
			}
			of[m.Name] = ms
			names = append(names, m.Name)
		}
		put("properties", of, true)
		put("required", names, len(names) > 0)
	}
	return out
}
