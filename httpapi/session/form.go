package session

import (
	"mime"
	"net/url"

	"kist/httpapi/web"
	"kist/kv/record"
)

// isForm reports whether the body is a page's form, or that of an OAuth client.
func isForm(c *web.Request) bool {
	media, _, err := mime.ParseMediaType(c.R.Header.Get("Content-Type"))
	return err == nil && media == formType
}

// RequireForm refuses a body that is not a page's form.
func RequireForm(c *web.Request) error {
	if !isForm(c) {
		return &record.Error{Fault: record.WrongType, Code: "unsupported_media_type", Text: "The body must be a form."}
	}
	return nil
}

// ReadForm reads a page's form.
func ReadForm(c *web.Request) (url.Values, error) {
	if err := RequireForm(c); err != nil {
		return nil, err
	}
	data, err := c.ReadBody(web.MaxQuery)
	if err != nil {
		return nil, err
	}
	values, err := url.ParseQuery(string(data))
	if err != nil {
		return nil, errForm
	}
	return values, nil
}

// formType is the media type of the form of a page.
const formType = "application/x-www-form-urlencoded"

var errForm = &record.Error{Fault: record.Malformed, Code: "malformed", Text: "The form cannot be read."}
