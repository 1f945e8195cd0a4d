package s3

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/matryer/is"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ endpoint, bucket, region, want string }{
		{"https://s3.example.org", "home", "", "https://s3.example.org/home/"},
		{"https://s3.example.org:443/", "home", "", "https://s3.example.org/home/"},
		{"http://[::1]:80", "home", "", "http://[::1]/home/"},
		{"http://127.0.0.1:9000", "home", "", "http://127.0.0.1:9000/home/"},
		{"", "home", "", "https://home.s3.dualstack.us-east-1.amazonaws.com/"},
		{"", "home", "cn-north-1", "https://home.s3.dualstack.cn-north-1.amazonaws.com.cn/"},
		// a certificate has one name
		{"", "home.example.org", "eu-west-1", "https://s3.dualstack.eu-west-1.amazonaws.com/home.example.org/"},
		{"https://s3.amazonaws.com", "home", "eu-west-1", "https://home.s3.dualstack.eu-west-1.amazonaws.com/"},
		{"https://s3.eu-west-1.amazonaws.com", "home", "eu-west-1", "https://home.s3.eu-west-1.amazonaws.com/"},
		{"https://storage.googleapis.com", "home", "", "https://home.storage.googleapis.com/"},
		{"https://s3.example.org/path", "home", "", ""},
		{"ftp://s3.example.org", "home", "", ""},
		{"s3.example.org", "home", "", ""},
		{"https://s3.example.org", "no@bucket", "", ""},
	} {
		is := is.New(t)
		o := Options{URL: "s3://" + c.bucket, Region: c.region}
		if c.endpoint != "" {
			o.Endpoints = []string{c.endpoint}
		}
		b, err := Open(o)
		is.Equal(err == nil, c.want != "") // an address that cannot be used
		if err == nil {
			is.Equal(b.servers[0].bucket.String(), c.want)
		}
	}
}

// What a server may answer, and no server of the other tests does.
func TestAnswers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var answer func(http.ResponseWriter, *http.Request)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	b, err := Open(Options{URL: "s3://home/kist", Endpoints: []string{server.URL}, KeyID: "x", Secret: "x"})
	is.NoErr(err)
	t.Cleanup(b.Close)
	answers := func(status int, body string) {
		answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); _, _ = io.WriteString(w, body) }
	}
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{403, "<Error><Code>RequestTimeTooSkewed</Code></Error>", "set the clock"},
		{403, "", "refuses these credentials (AccessDenied)"},
		{404, "<Error><Code>NoSuchBucket</Code></Error>", "has no bucket home"},
		{507, "", "has no room (507)"},
		{
			301, "<Error><Code>PermanentRedirect</Code><Message>Elsewhere.</Message></Error>",
			"301 PermanentRedirect while writing kist/a: Elsewhere.",
		},
		{502, "<html>Bad gateway", "502  while writing kist/a: <html>Bad gateway"},
	} {
		answers(c.status, c.body)
		err := b.Put(t.Context(), "a", strings.NewReader("a"), 1)
		is.True(strings.Contains(err.Error(), c.want)) // the sentence
	}
	answers(412, "")
	is.True(errors.Is(b.Put(t.Context(), "a", strings.NewReader("a"), 1), fs.ErrExist))

	// A list has pages, and names that XML cannot have.
	answer = func(w http.ResponseWriter, r *http.Request) {
		is.Equal(r.URL.Query().Get("prefix"), "kist/ä b")
		_, _ = io.WriteString(w, map[string]string{
			"":  "<R><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated><NextContinuationToken>2</NextContinuationToken><Contents><Key>kist/%C3%A4+b1</Key><Size>3</Size></Contents></R>",
			"2": "<R><Contents><Key>kist/ä b%2</Key></Contents></R>",
		}[r.URL.Query().Get("continuation-token")])
	}
	var all []string
	for o, err := range b.After(t.Context(), "ä b", "") {
		is.NoErr(err)
		all = append(all, o.Name)
	}
	is.Equal(all, []string{"ä b1", "ä b%2"})
	for _, body := range []string{
		"", "<R>", "<R><IsTruncated>true</IsTruncated></R>", "<Error><Code>InternalError</Code></Error>",
	} {
		answers(200, body)
		for _, got := range b.After(t.Context(), "", "") {
			err = cmp.Or(err, got)
		}
		is.True(err != nil) // not an empty list
		err = nil
	}

	// The parts of a large object may turn out not to fit when the answer has begun.
	answer = func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodHead:
			w.WriteHeader(404)
		case r.Method == http.MethodPost && r.URL.Query().Has("uploadId"):
			is.Equal(r.Header.Get("If-None-Match"), "*")
			_, _ = io.WriteString(w, "<Error><Code>InternalError</Code><Message>Try again.</Message></Error>")
		default:
			_, _ = io.WriteString(w, "<R><UploadId>1</UploadId></R>")
		}
	}
	body := make([]byte, 65<<20)
	err = b.Put(t.Context(), "a", bytes.NewReader(body), int64(len(body)))
	is.True(err != nil && strings.Contains(err.Error(), "InternalError while writing kist/a: Try again."))
}
