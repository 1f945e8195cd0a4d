package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"kist/httpapi/api"
	"kist/httpapi/web"
	"kist/kv/record"
	"kist/kv/ship"
	"kist/search"
)

// A meter counts requests.
type meter struct {
	mu       sync.Mutex
	requests map[counted]uint64
	took     [len(steps) + 1]uint64 // requests by duration: up to each step, and longer ones
	seconds  float64                // of all
	sent     int64
}

// counted is what requests are counted by.
type counted struct {
	op     string
	status int
}

// steps are durations of requests in seconds.
var steps = [...]float64{.001, .005, .02, .1, .5, 2, 10, 60}

// note counts an answered request; on a nil meter it does nothing.
func (m *meter) note(w *web.AnswerWriter, took time.Duration) {
	if m == nil {
		return
	}
	step, _ := slices.BinarySearch(steps[:], took.Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[counted{cmp.Or(w.Op, "none"), w.Status}]++
	m.took[step]++
	m.seconds += took.Seconds()
	m.sent += w.Bytes
}

// write writes the figures about requests.
func (m *meter) write(f *figures) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f.family("http_requests_total", "counter", "Requests answered, by operation of the API document and by status.")
	for _, c := range slices.SortedFunc(maps.Keys(m.requests), func(a, b counted) int {
		return cmp.Or(cmp.Compare(a.op, b.op), cmp.Compare(a.status, b.status))
	}) {
		f.sample("http_requests_total", float64(m.requests[c]), "op", c.op, "status", strconv.Itoa(c.status))
	}
	f.family("http_request_duration_seconds", "histogram", "Duration of requests, including the transfer of bodies.")
	all := uint64(0)
	for i, n := range m.took {
		all += n
		f.sample("http_request_duration_seconds_bucket", float64(all), "le", number(append(steps[:], math.Inf(1))[i]))
	}
	f.sample("http_request_duration_seconds_sum", m.seconds)
	f.sample("http_request_duration_seconds_count", float64(all))
	f.counter("http_sent_bytes_total", "Bytes of bodies sent.", float64(m.sent))
}

// figures are in the text format of Prometheus. Every name begins with kist_.
type figures struct{ text strings.Builder }

// family begins the figures of a name.
func (f *figures) family(name, kind, help string) {
	fmt.Fprintf(&f.text, "# HELP kist_%s %s\n# TYPE kist_%s %s\n", name, help, name, kind)
}

var inLabel = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// sample writes a figure with its labels: names and values in turn.
func (f *figures) sample(name string, v float64, labels ...string) {
	f.text.WriteString("kist_" + name)
	before := byte('{')
	for pair := range slices.Chunk(labels, 2) {
		f.text.WriteByte(before)
		before = ','
		f.text.WriteString(pair[0] + `="` + inLabel.Replace(pair[1]) + `"`)
	}
	if len(labels) > 0 {
		f.text.WriteByte('}')
	}
	f.text.WriteString(" " + number(v) + "\n")
}

func number(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func (f *figures) gauge(name, help string, v float64, labels ...string) {
	f.family(name, "gauge", help)
	f.sample(name, v, labels...)
}

func (f *figures) counter(name, help string, v float64) {
	f.family(name, "counter", help)
	f.sample(name, v)
}

// instance writes the figures about the process, the disk, the journal, the search index and the
// cache.
func (f *figures) instance(c *web.Config) {
	f.gauge("build_info", "1; the version is a label.", 1, "version", c.Version)
	f.gauge("disk_room_bytes", "Bytes of new content that fit on the disk.", float64(c.Store.FreeForContent()))
	index := c.Search.State()
	f.gauge("search_ready",
		"1 if the search index is in use, 0 if searches read the records instead.",
		truth(index.Phase == search.Ready))
	f.gauge("search_behind",
		"Changes that are not in the search index yet.",
		float64(index.Latest-min(index.Latest, index.Place)))
	f.gauge("journal_damaged",
		"Damaged journal files found since the start, including repaired ones.",
		float64(len(c.Store.JournalHealth().Damaged)))
	if st, ok := c.Blobs.CacheStatus(); ok {
		f.gauge("cache_hits",
			"Files that were opened on the disk since the start; only with an object store, "+
				"like the others of the cache.",
			float64(st.Hits))
		f.gauge("cache_misses", "Files that were not on the disk when they were needed.", float64(st.Misses))
		f.gauge("cache_fetched_bytes", "Bytes read from the object store for files since the start.", float64(st.Fetched))
		f.gauge("cache_bytes", "Bytes of files on the disk.", float64(st.Here))
	}
}

// data writes the figures about the data and its copy in the object store.
func (f *figures) data(ctx context.Context, s *Server) {
	f.gauge("writable",
		"1 if the server can store things, 0 while /readyz says why it cannot.",
		truth(s.writable(ctx) == nil))
	_, doubted := s.Store.ClockDoubt()
	f.gauge("clock_doubted", "1 if the machine's clock jumped and is not trusted yet.", truth(doubted))
	if s.Backups != nil {
		f.backups(s.Backups.Status())
	}
	if s.Ship != nil {
		f.store(s.Ship.Status())
	}
	f.collected(s)
}

// store writes the figures about the object store.
func (f *figures) store(st ship.Status) {
	f.gauge("store_lag_seconds",
		"How long ago the oldest change was made that is not in the object store; 0 if all are.",
		st.Lag.Seconds())
	f.gauge("store_lag_commits", "Commits that are not in the object store yet.", float64(st.Records))
	f.gauge("store_slots", "Pieces of the history put into the object store since the start.", float64(st.Slots))
	f.gauge("store_bytes", "Bytes put into the object store since the start.", float64(st.Bytes))
	f.gauge("store_removed",
		"Objects removed from the object store since the start, "+
			"because only moments beyond --store-history needed them.",
		float64(st.Removed))
	f.gauge("store_errors", "Failed attempts to write to the object store since the start.", float64(st.Errors))
	f.gauge("store_complete",
		"1 if a restore from the object store gives everything but the commits that are not there yet, "+
			"0 while everything is being copied.",
		truth(st.Complete))
	f.gauge("store_failing",
		"1 if the latest attempt to write to the object store failed, or another server has taken over.",
		truth(st.Failure != nil))
}

// collected writes the figures about the data, if it can be read.
func (f *figures) collected(s *Server) {
	const help = "1 if the store could be read, 0 if its figures are missing."
	v, sound, err := collect(s.Site)
	if err != nil {
		f.gauge("collected", help, 0)
		s.Log.Error("cannot collect the figures for metrics", "error", err)
		return
	}
	f.gauge("collected", help, 1)
	f.gauge("users", "Accounts.", float64(v.Users))
	f.gauge("damaged_files", "Files whose stored bytes are known to be damaged.", float64(sound.files.nDamaged))
	f.gauge("scrub_finished_seconds",
		"When all stored files were last read and checked, in Unix time; 0 if never.",
		unixTime(sound.files.checked))
	f.gauge("stored_bytes", "Bytes of all files, counted for each record.", float64(v.Bytes))
	f.gauge("uploads_pending", "Received files waiting for approval.", float64(v.Pending))
	f.gauge("webhook_deliveries_waiting", "Webhook deliveries that are still waiting.", float64(v.Waiting))
	f.family("records", "gauge", "Records, by kind.")
	for _, k := range record.Kinds {
		f.sample("records", float64(v.Counts[k.Name]), "kind", k.Name)
	}
}

// collect reads the figures of the store.
func collect(s *web.Site) (*api.Stats, *shownHealth, error) {
	v, err := api.CollectStats(s)
	if err != nil {
		return nil, nil, err
	}
	sound, err := assessHealth(s)
	return v, sound, err
}

func truth(got bool) float64 {
	if got {
		return 1
	}
	return 0
}

// readMetrics answers with the figures if /metrics is on. They are about all
// users, so the key must be an administrator's, with any scope.
func (s *Server) readMetrics(c *web.Request) error {
	if s.meter == nil {
		return record.NotFound("address")
	}
	var f figures
	s.meter.write(&f)
	f.instance(&s.Config)
	f.data(c.R.Context(), s)

	h := c.W.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(f.text.Len()))
	_, _ = io.WriteString(c.W, f.text.String()) // the client may be gone
	return nil
}
