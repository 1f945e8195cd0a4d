package web

import (
	"net/http"
	"strings"
)

// Object is a JSON object of the document.
type Object = map[string]any

// Param is a parameter of an operation.
type Param struct {
	In, Name, Doc string
	Schema        Object
}

// Content is a body. The test that writes the document has the schemas.
type Content struct {
	Media    string
	Name     string // of the schema in the document; "" for bytes, text and forms
	Optional bool
}

// Reply is what a successful operation answers.
type Reply struct {
	Status int
	Doc    string
	Body   *Content // nil: none
}

// SchemasPath is the prefix of references to named schemas.
const SchemasPath = "#/components/schemas/"

func Ref(name string) Object { return Object{"$ref": SchemasPath + name} }

// EnumRef is a placeholder for a reference to an enum until the document is written.
type EnumRef struct {
	Words    []string
	Nullable bool
}

// EnumOf refers to the enum with these words.
func EnumOf(words []string, nullable bool) Object { return Object{"$ref": EnumRef{words, nullable}} }

// BodyOf is a JSON body with a named schema.
func BodyOf(name string) *Content { return &Content{Media: JSONType, Name: name} }

// DataOf is a thing with the named schema, as data.
func DataOf(name string) *Content { return BodyOf(name + "Answer") }

// ListOf is a page of a list of things with the named schema.
func ListOf(name string) *Content { return BodyOf(name + "List") }

var DoneReply = Reply{http.StatusOK, "Done.", BodyOf("Done")}

func BytesOf() *Content { return &Content{Media: "*/*"} }

// MultipartForm is a form with files.
var MultipartForm = &Content{Media: "multipart/form-data"}

// FormBody is the body of a form of a page. It is not in the document.
var FormBody = &Content{Media: "application/x-www-form-urlencoded"}

func Title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }
