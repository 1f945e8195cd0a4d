package upload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"kist/blobs"
	"kist/httpapi/outbound"
	"kist/httpapi/web"
	"kist/httpapi/worker"
	"kist/kv"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/media"
	"kist/kv/record"
)

// Bounds of remote uploads.
const (
	FetchesAtOnce  = 6
	FetchesOfOwner = 2 // at the same time, so that one user's slow servers do not delay others
	fetchRedirects = 10
	fetchCheckTime = time.Minute // at most between two checks of the queue
)

// NewFetches makes the queue of remote uploads. When its Run ends, it stops the running
// fetches and returns when they are back in the queue.
func NewFetches(s *web.Site) *worker.Queue[record.ID] {
	resumed := false
	return worker.New(worker.Options[record.ID]{
		Name: "remote uploads", AtOnce: FetchesAtOnce, Longest: fetchCheckTime, Log: s.Log,
		Find: func(q *worker.Queue[record.ID], free int) (due []worker.Job[record.ID], wait time.Duration, err error) {
			if !resumed {
				if err := s.Store.Update(jobs.ResumeFetches); err != nil {
					return nil, 0, err
				}
				resumed = true
			}
			var found []jobs.DueFetch
			if err := s.Store.View(func(tx *kv.Tx) (err error) {
				found, wait, err = jobs.DueFetches(tx, free, func(id record.ID) bool { return q.Running(id) != nil })
				return err
			}); err != nil {
				return nil, 0, err
			}
			if len(found) == 0 && wait == 0 { // the queue is empty
				q.Forget(func(record.ID) bool { return false })
			}
			for _, one := range found {
				read := new(atomic.Int64)
				due = append(due, worker.Job[record.ID]{
					Key: one.ID, Turn: one.Owner, Shares: []worker.Share{{Of: one.Owner, Max: FetchesOfOwner}}, Bytes: read,
					Do: func(ctx context.Context) { runFetch(s, ctx, one, read) },
				})
			}
			return due, wait, nil
		},
	})
}

func runFetch(s *web.Site, ctx context.Context, one jobs.DueFetch, read *atomic.Int64) {
	var f *jobs.Fetch
	err := s.Store.Update(func(tx *kv.Tx) (err error) { f, err = jobs.BeginFetch(tx, one.Owner, one.ID); return err })
	switch {
	case isCancelled(err):
		return
	case err != nil:
		s.Log.Error("cannot start a remote upload; trying again", "id", one.ID, "error", err)
		worker.Pause(ctx)
		return
	}
	outcome := func(tx *kv.Tx) error { return jobs.RequeueFetch(tx, f) }
	switch err := fetchOne(s, ctx, f, read); {
	case err == nil, isCancelled(err):
		return
	case ctx.Err() == nil && !errors.Is(err, jobs.ErrDisabled):
		e := explainFetch(s, f, err)
		outcome = func(tx *kv.Tx) error { return jobs.FailFetch(tx, f, e.text, e.passes, e.asked) }
	}
	worker.Persist(ctx, s.Log.With("remoteUpload", f.ID), func() error {
		if err := s.Store.Update(outcome); !isCancelled(err) {
			return err
		}
		return nil
	})
}

// isCancelled reports whether the error means that the fetch was cancelled, or was removed alone
// or with its account.
func isCancelled(err error) bool { return errors.Is(err, jobs.ErrNotRunning) || kv.Missing(err) }

// fetchError is the reason why an attempt failed.
type fetchError struct {
	text   string        // for the owner
	passes bool          // another attempt may succeed
	asked  time.Duration // the other server's Retry-After
}

func (e *fetchError) Error() string { return e.text }

// explainFetch turns any error into one for the owner of a remote upload.
func explainFetch(s *web.Site, f *jobs.Fetch, err error) *fetchError {
	if failed, ok := errors.AsType[*fetchError](err); ok {
		return failed
	}
	e, status := web.ClientError(err)
	if status == http.StatusInternalServerError {
		s.Log.Error("a remote upload failed", "id", f.ID, "error", err)
		return &fetchError{
			text:   "Something went wrong on the server. The server's log has details under the id of the remote upload.",
			passes: true,
		}
	}
	return &fetchError{
		text: e.Text, passes: status == http.StatusServiceUnavailable || status == http.StatusInsufficientStorage,
	}
}

// otherServer is the subject of sentences about the other server.
const otherServer = "The other server"

// fetchOne makes one attempt. The content is made durable before the record.
func fetchOne(s *web.Site, ctx context.Context, f *jobs.Fetch, read *atomic.Int64) error {
	form, err := FetchForm(f.Fields)
	if err != nil {
		return err
	}
	if err := s.Store.View(func(tx *kv.Tx) error { _, err := jobs.RunningOfEnabled(tx, f); return err }); err != nil {
		return err
	}
	budget, err := BudgetOf(s, f.Owner)
	if err != nil {
		return err
	}
	res, err := s.Outbound.Stream(ctx, f.URL, fetchRedirects)
	if err != nil {
		return &fetchError{text: outbound.Explain(err, otherServer), passes: !errors.As(err, new(*outbound.Refused))}
	}
	defer res.Body.Close()
	if err := checkResponse(res, time.Now()); err != nil {
		return err
	}
	name, said := nameOf(res)
	f.Name, f.Total = cmp.Or(form.Body.(*record.File).OriginalName, name), max(res.ContentLength, -1)
	if err := budget.ErrTooLarge(f.Total); err != nil {
		return err
	}
	if err := saveFetchProgress(s, f); err != nil {
		return err
	}

	in := NewIntake(s)
	defer in.Close()
	one := &File{Name: f.Name, Claimed: res.Header.Get("Content-Type")}
	if isEncoded(res.Header) {
		one.Claimed = "" // the type is that of the decoded content
	}
	st, err := in.Begin(one)
	if err != nil {
		return err
	}
	if err := stageFetched(s, f, res.Body, st, budget, read); err != nil {
		return err
	}
	if err := in.Keep(ctx); err != nil {
		return err
	}
	if !said && f.Name == name {
		one.addExtension()
		f.Name = one.Name
	}
	if err := s.Store.Update(func(tx *kv.Tx) error {
		if err := in.Carry(tx); err != nil {
			return err
		}
		return inbox.FinishFetch(tx, f, one.Form(form), one.Content())
	}); err != nil {
		return err
	}
	in.Recorded()
	return nil
}

// addExtension adds the extension of the file's type to a name that has none, if programs need it to show the file.
func (f *File) addExtension() {
	shown := []record.Class{record.Image, record.Video, record.Audio, record.PDF}
	if path.Ext(f.Name) == "" && slices.Contains(shown, record.ClassOf(f.MimeType)) {
		f.Name, _ = record.CleanFileName(f.Name + media.Extension(f.MimeType)) // never fails
	}
}

// stageFetched stages a body within the budget and stores the progress.
func stageFetched(s *web.Site, f *jobs.Fetch, body io.Reader, st *blobs.Stage, m *Budget, read *atomic.Int64) error {
	from := &readErrors{r: countedReader{body, read}}
	for limit := min(m.File, m.Left, math.MaxInt64-1); ; {
		some := &piece{r: from, left: min(NoteBytes, limit-st.Size()+1), until: time.Now().Add(noteTime)}
		_, err := st.ReadFrom(some)
		switch {
		case from.err != nil && errors.Is(from.err, outbound.ErrSlow):
			return &fetchError{
				text: fmt.Sprintf(
					"%s stopped sending or became too slow after %s.", otherServer, record.Plural(st.Size(), "byte"),
				),
				passes: true,
			}
		case from.err != nil:
			return &fetchError{text: "The connection broke off after " + record.Plural(st.Size(), "byte") + ".", passes: true}
		case err != nil:
			return err // the disk's fault, not the other server's
		}
		if err := m.ErrTooLarge(st.Size()); err != nil || some.ended {
			return err
		}
		f.Bytes = st.Size()
		if err := saveFetchProgress(s, f); err != nil {
			return err
		}
		if s.Store.FreeForContent() == 0 {
			return kv.ErrFull
		}
	}
}

func saveFetchProgress(s *web.Site, f *jobs.Fetch) error {
	return s.Store.Update(func(tx *kv.Tx) error { return jobs.NoteFetch(tx, f) })
}

type countedReader struct {
	io.Reader
	n *atomic.Int64
}

func (r countedReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.n.Add(int64(n))
	return n, err
}

// checkResponse returns an error unless the answer has the file.
func checkResponse(res *http.Response, now time.Time) error {
	code := res.StatusCode
	switch {
	case code == http.StatusOK, code == http.StatusNonAuthoritativeInfo:
		return nil
	case code == http.StatusNoContent, code == http.StatusResetContent:
		return &fetchError{text: fmt.Sprintf("%s has no content there (%d).", otherServer, code)}
	case code >= 300 && code < 400 && res.Header.Get("Location") != "":
		return &fetchError{text: fmt.Sprintf("The address has more than %d redirects.", fetchRedirects)}
	}
	e := &fetchError{
		text: strings.TrimSpace(fmt.Sprintf("%s answered %d %s", otherServer, code, http.StatusText(code))) + ".",
	}
	switch {
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code == http.StatusTooEarly:
		e.passes, e.asked = true, outbound.RetryAfter(res.Header, now)
	}
	return e
}

// isEncoded reports whether a body is compressed although that was not requested. It is stored
// that way.
func isEncoded(h http.Header) bool {
	c := strings.TrimSpace(h.Get("Content-Encoding"))
	return c != "" && !strings.EqualFold(c, "identity")
}
