package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	"kist/admin/console"
	"kist/kv/record"
)

// A Client asks the handler, wherever that runs.
type Client struct {
	Progress *console.Progress // shows what Send sends; may be nil

	http   http.Client
	settle func(context.Context, Show) // nil if a server runs
	end    func() error
}

// Close ends the client. If no server runs, it closes the data directory.
func (c *Client) Close() error { return c.end() }

// Call sends in as JSON, unless it is nil, and decodes the answer into out.
func (c *Client) Call(ctx context.Context, method, path string, in, out any) error {
	if in == nil {
		return c.Send(ctx, method, path, http.NoBody, out)
	}
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("cannot encode the request: %w", err)
	}
	return c.Send(ctx, method, path, strings.NewReader(string(body)), out)
}

// Send sends a body and decodes the answer into out.
func (c *Client) Send(ctx context.Context, method, path string, body io.Reader, out any) error {
	if f, ok := body.(*os.File); ok && c.Progress != nil {
		body = counted{f, c.Progress}
	} else if c.Progress != nil {
		body = io.TeeReader(body, c.Progress)
	}
	res, err := c.Do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		return fmt.Errorf("cannot read the server's answer: %w", err)
	}
	return nil
}

// counted is a file that shows how far it has been read.
type counted struct {
	*os.File
	progress *console.Progress
}

func (f counted) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	f.progress.Add(int64(n))
	return n, err
}

func (f counted) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(b, at)
	f.progress.Add(int64(n))
	return n, err
}

// Close does nothing: its opener closes the file.
func (f counted) Close() error { return nil }

// Do sends a request. A failed response becomes an error.
func (c *Client) Do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://kist"+path, body)
	if err != nil {
		return nil, fmt.Errorf("cannot make the request: %w", err)
	}
	r.Header.Set("Content-Type", "application/json") // the others do not look at it
	res, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("the server went away before it answered; whether it did what was asked is not known: %w", err)
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	var f struct {
		Text   string            `json:"error"`
		Code   string            `json:"code"`
		Fields map[string]string `json:"fields"`
	}
	if err := json.NewDecoder(res.Body).Decode(&f); err != nil {
		return nil, fmt.Errorf("cannot read the server's answer (%s): %w", res.Status, err)
	}
	if fault := faults[res.StatusCode]; fault != 0 {
		return nil, &record.Error{Fault: fault, Code: f.Code, Text: f.Text, Fields: f.Fields}
	}
	return nil, errors.New(f.Text)
}

// faults are the classes of errors, by status, that commands tell apart.
var faults = map[int]record.Fault{
	http.StatusNotFound: record.Missing, http.StatusConflict: record.Taken,
	http.StatusUnprocessableEntity: record.Invalid,
}

type inProcess struct{ handler http.Handler }

// RoundTrip returns as soon as the handler starts its answer. The Close of the body
// waits for the end of the handler.
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	from, to := io.Pipe()
	a := &answer{to: to, header: http.Header{}, started: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(a.done)
		defer func() {
			a.WriteHeader(http.StatusOK)
			var err error
			if p := recover(); p == http.ErrAbortHandler { //nolint:errorlint // compared as net/http does
				err = http.ErrAbortHandler
			} else if p != nil {
				panic(p)
			}
			_ = to.CloseWithError(err) // never fails
		}()
		p.handler.ServeHTTP(a, r)
	}()
	<-a.started
	return &http.Response{
		Status: http.StatusText(a.status), StatusCode: a.status, ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Request: r, Body: answerBody{from, a.done}, ContentLength: -1,
	}, nil
}

// answer is a ResponseWriter whose body is a pipe.
type answer struct {
	to            *io.PipeWriter
	header        http.Header
	status        int
	once          sync.Once
	started, done chan struct{}
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	a.once.Do(func() { a.status = status; close(a.started) })
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.to.Write(p)
}

// answerBody is the reading end of an answer.
type answerBody struct {
	*io.PipeReader
	done chan struct{}
}

func (b answerBody) Close() error {
	err := b.PipeReader.Close()
	<-b.done
	return err
}
