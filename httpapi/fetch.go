package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"kist/blobs"
	"kist/httpapi/outbound"
	"kist/kv"
	"kist/kv/record"
)

// Bounds of the work on remote uploads.
const (
	fetchesAtOnce  = 6
	fetchesOfOwner = 2 // at once, so that slow servers do not keep others waiting
	fetchRedirects = 10
	fetchLook      = time.Minute     // between two looks at the queue: the clock may have been set
	fetchAgain     = 5 * time.Second // until the store is tried again when it fails
)

// fetcher is the work on remote uploads that is under way.
type fetcher struct {
	wake chan struct{} // something may be due
	mu   sync.Mutex
	out  map[record.ID]*fetching
	last map[record.ID]int // which of all that were begun was the latest of an owner
	n    int               // how many were begun
}

// fetching is a try under way.
type fetching struct {
	owner record.ID
	stop  context.CancelFunc
	bytes atomic.Int64 // that came in
}

func (f *fetcher) ready() {
	f.wake = make(chan struct{}, 1)
	f.out, f.last = map[record.ID]*fetching{}, map[record.ID]int{}
}

// rescan has the queue looked at.
func (f *fetcher) rescan() {
	select {
	case f.wake <- struct{}{}:
	default: // it is known already
	}
}

// running is the try of a remote upload that is under way, or nil.
func (f *fetcher) running(id record.ID) *fetching {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out[id]
}

// cancel ends the try of a remote upload, if one is under way. What is written
// down of it must say before that nobody waits for it.
func (f *fetcher) cancel(id record.ID) {
	if at := f.running(id); at != nil {
		at.stop()
	}
}

// begin takes the first of those found whose owner's latest try was begun
// longest ago, of owners that have room for one; ok is false if there is none.
func (f *fetcher) begin(found []kv.DueFetch, at *fetching) (one kv.DueFetch, rest []kv.DueFetch, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	begun := map[record.ID]int{}
	for _, other := range f.out {
		begun[other.owner]++
	}
	rest = slices.DeleteFunc(found, func(o kv.DueFetch) bool { return begun[o.Owner] >= fetchesOfOwner })
	if len(rest) == 0 {
		return one, nil, false
	}
	one = slices.MinFunc(rest, func(a, b kv.DueFetch) int { return cmp.Compare(f.last[a.Owner], f.last[b.Owner]) })
	at.owner = one.Owner
	f.n++
	f.last[one.Owner], f.out[one.ID] = f.n, at
	return one, slices.DeleteFunc(rest, func(o kv.DueFetch) bool { return o == one }), true
}

func (f *fetcher) end(id record.ID) {
	f.mu.Lock()
	delete(f.out, id)
	f.mu.Unlock()
	f.rescan()
}

// fetchQueued fetches what is queued until ctx ends. It then cuts off what is
// under way, and returns when that is back in the queue.
func (s *site) fetchQueued(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	resumed := false
	next := func() (time.Duration, error) {
		if !resumed {
			if err := s.Store.Update((*kv.Tx).ResumeFetches); err != nil {
				return 0, err
			}
			resumed = true
		}
		return s.beginFetches(ctx, &work)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		wait, err := next()
		if err != nil {
			s.Log.Error("the queue of remote uploads cannot be read; it is tried again", "error", err)
			wait = fetchAgain
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.fetcher.wake:
		}
	}
}

// beginFetches begins what is due as far as there is room, owner by owner in
// turn, and says how long to wait if nothing happens.
func (s *site) beginFetches(ctx context.Context, work *sync.WaitGroup) (wait time.Duration, err error) {
	f := &s.fetcher
	f.mu.Lock()
	free := fetchesAtOnce - len(f.out)
	f.mu.Unlock()
	if free == 0 {
		return fetchLook, nil
	}
	var found []kv.DueFetch
	if err := s.Store.View(func(tx *kv.Tx) (err error) {
		found, wait, err = tx.DueFetches(free, func(id record.ID) bool { return f.running(id) != nil })
		return err
	}); err != nil {
		return 0, err
	}
	if len(found) == 0 && wait == 0 { // nobody waits
		f.mu.Lock()
		clear(f.last)
		f.mu.Unlock()
	}
	for ; free > 0; free-- {
		ctx, stop := context.WithCancel(ctx)
		at := &fetching{stop: stop}
		one, rest, ok := f.begin(found, at)
		if found = rest; !ok {
			stop()
			break
		}
		work.Go(func() {
			defer f.end(one.ID)
			defer stop()
			s.runFetch(ctx, one, at)
		})
	}
	return min(cmp.Or(wait, fetchLook), fetchLook), nil
}

// runFetch makes one try and writes down what came of it.
func (s *site) runFetch(ctx context.Context, one kv.DueFetch, at *fetching) {
	var f *record.Fetch
	err := s.Store.Update(func(tx *kv.Tx) (err error) { f, err = tx.BeginFetch(one.Owner, one.ID); return err })
	switch {
	case nobodyWaits(err):
		return
	case err != nil:
		s.Log.Error("a remote upload does not begin; it is tried again", "id", one.ID, "error", err)
		pause(ctx, fetchAgain)
		return
	}
	outcome := func(tx *kv.Tx) error { return tx.RequeueFetch(f) }
	switch err := s.fetch(ctx, f, at); {
	case err == nil, nobodyWaits(err):
		return
	case ctx.Err() == nil && !errors.Is(err, kv.ErrDisabled):
		e := s.fetchError(f, err)
		outcome = func(tx *kv.Tx) error { return tx.FailFetch(f, e.text, e.passes, e.asked) }
	}
	for {
		err := s.Store.Update(outcome)
		if err == nil || nobodyWaits(err) || errors.Is(err, kv.ErrClosed) {
			return
		}
		s.Log.Error("what came of a remote upload is not written down; it is tried again", "id", f.ID, "error", err)
		if !pause(ctx, fetchAgain) {
			return // the next start sees to it
		}
	}
}

// nobodyWaits reports whether an error says that a try was cancelled, or
// removed with or without its account.
func nobodyWaits(err error) bool { return errors.Is(err, kv.ErrNotRunning) || missing(err) }

// pause waits; it reports false if ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// fetchError says what a try failed by.
type fetchError struct {
	text   string        // for the owner
	passes bool          // another try may go well
	asked  time.Duration // until then
}

func (e *fetchError) Error() string { return e.text }

// fetchError is what any error means to the owner of a remote upload.
func (s *site) fetchError(f *record.Fetch, err error) *fetchError {
	var failed *fetchError
	if errors.As(err, &failed) {
		return failed
	}
	e, status := clientError(err)
	if status == http.StatusInternalServerError {
		s.Log.Error("a remote upload failed", "id", f.ID, "error", err)
		return &fetchError{text: "Something went wrong on the server. The log says more under the id of the remote upload.", passes: true}
	}
	return &fetchError{text: e.Text, passes: status == http.StatusServiceUnavailable || status == http.StatusInsufficientStorage}
}

// otherServer begins the sentences about it.
const otherServer = "The other server"

// fetch makes a try. The content is durable first, the record comes second.
func (s *site) fetch(ctx context.Context, f *record.Fetch, at *fetching) error {
	form, err := fetchForm(f.Fields)
	if err != nil {
		return err
	}
	if err := s.Store.View(func(tx *kv.Tx) error { return tx.CheckAsker(f) }); err != nil {
		return err
	}
	room, err := s.uploadBudget(f.Owner)
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
	f.Name, f.Total = cmp.Or(form.Body.(*record.File).OriginalName, nameOf(res)), max(res.ContentLength, -1)
	if err := room.errTooLarge(f.Total); err != nil {
		return err
	}
	if err := s.saveFetchProgress(f); err != nil {
		return err
	}
	st, err := s.Blobs.Stage()
	if err != nil {
		return err
	}
	defer func() {
		if err := st.Drop(); err != nil {
			s.Log.Warn("a remote upload's temporary file is left", "error", err)
		}
	}()
	if err := s.stageFetched(f, res.Body, st, room, at); err != nil {
		return err
	}
	kept, err := st.Keep()
	if err != nil {
		return err
	}
	recorded := false
	defer func() { s.releasePins([]*blobs.Kept{kept}, recorded) }() // after the commit, whatever comes
	head, err := s.head(kept.Ref)
	if err != nil {
		return err
	}
	p := part{name: f.Name, claimed: res.Header.Get("Content-Type"), head: head}
	if isEncoded(res.Header) {
		p.claimed = "" // that of what is inside
	}
	one := fileForm(form, p, kept, true)
	err = s.Store.Update(func(tx *kv.Tx) error {
		_, err := tx.FinishFetch(f, one, &record.Content{Ref: kept.Ref, Size: kept.Size})
		return err
	})
	recorded = err == nil
	return err
}

// stageFetched stages a body, within the room that there is, and notes how far it is.
func (s *site) stageFetched(f *record.Fetch, body io.Reader, st *blobs.Stage, m *uploadBudget, at *fetching) error {
	from := &readErrors{r: &fetched{body, at}}
	for limit := min(m.file, m.left, math.MaxInt64-1); ; {
		some := &piece{r: from, left: min(noteBytes, limit-st.Size()+1), until: time.Now().Add(noteTime)}
		_, err := st.ReadFrom(some)
		switch {
		case from.err != nil && errors.Is(from.err, outbound.ErrSlow):
			return &fetchError{text: fmt.Sprintf("%s stopped sending, or sent too slowly, after %d bytes.", otherServer, st.Size()), passes: true}
		case from.err != nil:
			return &fetchError{text: fmt.Sprintf("The connection broke off after %d bytes.", st.Size()), passes: true}
		case err != nil:
			return err // the disk's fault, not the other server's
		}
		if err := m.errTooLarge(st.Size()); err != nil || some.ended {
			return err
		}
		f.Bytes = st.Size()
		if err := s.saveFetchProgress(f); err != nil {
			return err
		}
		if s.Store.FreeForContent() == 0 {
			return kv.ErrFull
		}
	}
}

// saveFetchProgress writes down how far a try is.
func (s *site) saveFetchProgress(f *record.Fetch) error {
	return s.Store.Update(func(tx *kv.Tx) error { return tx.NoteFetch(f) })
}

// fetched counts what is read.
type fetched struct {
	io.Reader
	at *fetching
}

func (r *fetched) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.at.bytes.Add(int64(n))
	return n, err
}

// checkResponse is nil if an answer brings what was asked for.
func checkResponse(res *http.Response, now time.Time) error {
	code := res.StatusCode
	switch {
	case code == http.StatusOK, code == http.StatusNonAuthoritativeInfo:
		return nil
	case code == http.StatusNoContent, code == http.StatusResetContent:
		return &fetchError{text: fmt.Sprintf("%s has no content there (%d).", otherServer, code)}
	case code >= 300 && code < 400 && res.Header.Get("Location") != "":
		return &fetchError{text: fmt.Sprintf("The address is redirected more than %d times.", fetchRedirects)}
	}
	e := &fetchError{text: strings.TrimSpace(fmt.Sprintf("%s answered %d %s", otherServer, code, http.StatusText(code))) + "."}
	switch {
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code == http.StatusTooEarly:
		e.passes, e.asked = true, outbound.RetryAfter(res.Header, now)
	}
	return e
}

// isEncoded reports whether a body is packed in a way that was not asked for. It
// is kept so.
func isEncoded(h http.Header) bool {
	c := strings.TrimSpace(h.Get("Content-Encoding"))
	return c != "" && !strings.EqualFold(c, "identity")
}

// nameOf is the name of the file that an answer brings: what it says
// (Content-Disposition, RFC 6266), else the end of the address that redirects
// led to, else its host.
func nameOf(res *http.Response) string {
	u := res.Request.URL
	name := saidName(res.Header.Get("Content-Disposition"))
	if name == "" && strings.Trim(u.Path, "/") != "" {
		name = path.Base(u.Path)
	}
	name, _ = record.CleanFileName(cmp.Or(name, u.Hostname())) // never fails
	return name
}

// looseName finds a file name in a Content-Disposition that is not well-formed.
var looseName = regexp.MustCompile(`(?i)(?:^|;)\s*filename\s*=\s*(?:"([^"]*)"|([^;"]*))`)

// codedName finds a file name of RFC 8187 in an encoding of western Europe,
// which package mime does not read.
var codedName = regexp.MustCompile(`(?i)(?:^|;)\s*filename\*\s*=\s*(?:iso-8859-1|windows-1252)'[^']*'([^;\s]*)`)

// saidName is the file name in a Content-Disposition, "" if there is none. Many
// servers write it with blanks and without quotes, and some as bytes of
// Windows-1252.
func saidName(disposition string) string {
	_, params, err := mime.ParseMediaType(disposition)
	name := params["filename"]
	if found := looseName.FindStringSubmatch(disposition); err != nil && found != nil {
		name = found[1] + found[2]
	}
	if found := codedName.FindStringSubmatch(disposition); found != nil {
		if bytes, err := url.PathUnescape(found[1]); err == nil {
			return windows1252(bytes)
		}
	}
	if !utf8.ValidString(name) {
		return windows1252(name)
	}
	return name
}

// windows1252 is the text of bytes in Windows-1252, which is ISO 8859-1 where that
// has printable characters.
func windows1252(bytes string) string {
	text, err := charmap.Windows1252.NewDecoder().String(bytes)
	if err != nil { // a decoder of single bytes has no errors
		return bytes
	}
	return text
}
