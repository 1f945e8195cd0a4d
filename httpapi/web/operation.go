package web

import (
	"net/http"
	"slices"

	"kist/kv/record"
)

// An Operation is a handler with its description for the OpenAPI document. It is declared
// next to the handler. The table of routes says at which path it is served, and to whom.
type Operation struct {
	Tag, Summary    string  // the summary is its first sentence; the description has the others
	Args            []Param // in addition to those of the path, which are texts
	Body            *Content
	Reply           Reply
	Fails           []int    // statuses in addition to those of the access and the body
	Slugs           bool     // visitors could guess the slugs in its path
	Uncounted       bool     // a body of a stranger does not count as a change: a token or code bounds it, or it is not read
	Plain           string   // what its answer is for clients that prefer text; "" if it is JSON for all
	AtContentOrigin bool     // also served at the origin for content
	Deprecated      bool     // kept for clients that use it; another operation does the same
	Tus             bool     // part of the tus protocol: every answer has its version
	At              string   // below which what it makes can be read; "" if it cannot
	Headers         []string // of its answer, besides those that follow from other fields
	Once            string   // what it makes, if the answer has secrets, which are never stored
	Serve           func(*Request) error
	// Finds fails with a Missing error if nothing is at the address that the caller may see. It counts nothing and checks
	// no password. Without it, nobody is redirected to the address from one that was pasted with a slash or a sign.
	Finds func(*Request) error
}

// TagOf is the group of the operations on records of a kind.
func TagOf(k *record.Kind) string {
	if k == record.Links {
		return "short-links"
	}
	return k.Path
}

// By returns the operation with its handler, for handlers that are methods of a server.
func (o Operation) By(serve func(*Request) error) Operation {
	o.Serve = serve
	return o
}

// Conditional returns the operation with If-Match: it changes a record only if that is as its caller
// has seen it.
func (o Operation) Conditional() Operation {
	o.Args = append(slices.Clone(o.Args), ifMatch)
	o.Fails = append(slices.Clone(o.Fails), http.StatusPreconditionFailed)
	return o
}

// ForVisitors returns the operation for a path with slugs that visitors could guess.
func (o Operation) ForVisitors() Operation {
	o.Tag, o.Slugs = "public", true
	return o
}

// Found returns the operation with the function that finds what is at its address: see Finds.
func (o Operation) Found(finds func(*Request) error) Operation {
	o.Finds, o.Fails = finds, append(slices.Clone(o.Fails), http.StatusPermanentRedirect)
	return o
}

// NotCounted returns the operation without counting the bodies of strangers as changes: see Uncounted.
func (o Operation) NotCounted() Operation {
	o.Uncounted = true
	return o
}

// PageOp is an operation that the document leaves out: a page or a file for one.
func PageOp(serve func(*Request) error, fails ...int) Operation {
	return Operation{Reply: Reply{Status: http.StatusOK}, Fails: fails, Serve: serve}
}

// FormOp receives the form of a page and answers with the status.
func FormOp(status int, serve func(*Request) error, fails ...int) Operation {
	return Operation{Body: FormBody, Reply: Reply{Status: status}, Fails: fails, Serve: serve}
}

// ReadOp answers with the thing that has the named schema.
func ReadOp(tag, summary, doc, name string, serve func(*Request) error, fails ...int) Operation {
	return Operation{
		Tag: tag, Summary: summary, Reply: Reply{http.StatusOK, doc, DataOf(name)},
		Fails: fails, Serve: serve,
	}
}

// ListOp answers with a page of a short list of things that have the named schema.
func ListOp(tag, summary, doc, name string, serve func(*Request) error) Operation {
	return Operation{
		Tag: tag, Summary: summary, Args: PageParams(ShortSorts),
		Reply: Reply{http.StatusOK, doc, ListOf(name)}, Serve: serve,
	}
}

// CreateOp makes a thing that has the named schema. That of its body ends in Create.
func CreateOp(tag, summary, doc, name string, serve func(*Request) error, fails ...int) Operation {
	return Operation{
		Tag: tag, Summary: summary, Body: BodyOf(name + "Create"),
		Reply: Reply{http.StatusCreated, doc, DataOf(name)}, Fails: fails, Serve: serve,
	}
}

// EditOp changes a thing that has the named schema. That of its body ends in Edit.
func EditOp(tag, summary, doc, name string, serve func(*Request) error, fails ...int) Operation {
	return Operation{
		Tag: tag, Summary: summary, Body: BodyOf(name + "Edit"),
		Reply: Reply{http.StatusOK, doc, DataOf(name)}, Fails: fails, Serve: serve,
	}
}

// DoneOp does something and answers only that it is done.
func DoneOp(tag, summary string, serve func(*Request) error, fails ...int) Operation {
	return Operation{Tag: tag, Summary: summary, Reply: DoneReply, Fails: fails, Serve: serve}
}

// BareAddress is what clients that prefer text get for something new.
const BareAddress = "only the address, one per line"
