package httpapi

import (
	"cmp"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"kist/httpapi/api"
	"kist/httpapi/web"
	"kist/kv/record"
	"kist/search"
)

// A meter counts requests and serves /metrics.
type meter struct {
	requests *prometheus.CounterVec // by operation and status
	took     prometheus.Histogram
	sent     prometheus.Counter
	handler  http.Handler
}

// newMeter makes the meter of a server. Every name begins with kist_.
func newMeter(s *Server) *meter {
	m := &meter{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kist_http_requests_total", Help: "Requests answered, by operation of the API document and by status."}, []string{"op", "status"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kist_http_request_duration_seconds", Help: "Duration of requests, including the transfer of bodies.",
			Buckets: []float64{.001, .005, .02, .1, .5, 2, 10, 60},
		}),
		sent: prometheus.NewCounter(prometheus.CounterOpts{Name: "kist_http_sent_bytes_total", Help: "Bytes of bodies sent."}),
	}
	all := prometheus.NewRegistry()
	all.MustRegister(
		m.requests, m.took, m.sent, &figures{s},
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{Namespace: "kist"}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "kist_goroutines", Help: "Goroutines of the process."}, func() float64 { return float64(runtime.NumGoroutine()) }),
	)
	m.handler = promhttp.HandlerFor(all, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	return m
}

// note counts an answered request; on a nil meter it does nothing.
func (m *meter) note(w *web.AnswerWriter, took time.Duration) {
	if m == nil {
		return
	}
	m.requests.WithLabelValues(cmp.Or(w.Op, "none"), strconv.Itoa(w.Status)).Inc()
	m.took.Observe(took.Seconds())
	m.sent.Add(float64(w.Bytes))
}

// figures collects figures about the instance on request.
type figures struct{ s *Server }

var described []*prometheus.Desc // all figures

func figure(name, help string, labels ...string) *prometheus.Desc {
	described = append(described, prometheus.NewDesc("kist_"+name, help, labels, nil))
	return described[len(described)-1]
}

var (
	figureInfo      = figure("build_info", "1; the version is a label.", "version")
	figureUsers     = figure("users", "Accounts.")
	figureRecords   = figure("records", "Records, by kind.", "kind")
	figureBytes     = figure("stored_bytes", "Bytes of all files, counted for each record.")
	figureRoom      = figure("disk_room_bytes", "Bytes of new content that fit on the disk.")
	figurePending   = figure("uploads_pending", "Received files waiting for approval.")
	figureWaiting   = figure("webhook_deliveries_waiting", "Webhook deliveries that are still waiting.")
	figureReady     = figure("search_ready", "1 if the search index is in use, 0 if searches read the records instead.")
	figureBehind    = figure("search_behind", "Changes that are not in the search index yet.")
	figureDoubted   = figure("clock_doubted", "1 if the machine's clock jumped and is not trusted yet.")
	figureDamaged   = figure("damaged_files", "Files whose stored bytes are known to be damaged.")
	figureScrubbed  = figure("scrub_finished_seconds", "When all stored files were last read and checked, in Unix time; 0 if never.")
	figureJournal   = figure("journal_damaged", "Damaged journal files found since the start, including repaired ones.")
	figureLag       = figure("store_lag_seconds", "How long ago the oldest change was made that is not in the object store; 0 if all are.")
	figureUnshipped = figure("store_lag_commits", "Commits that are not in the object store yet.")
	figureSlots     = figure("store_slots", "Pieces of the history put into the object store since the start.")
	figureShipped   = figure("store_bytes", "Bytes put into the object store since the start.")
	figureErrors    = figure("store_errors", "Failed attempts to write to the object store since the start.")
	figureFailing   = figure("store_failing", "1 if the latest attempt to write to the object store failed, or another server has taken over.")
	figureCollected = figure("collected", "1 if the store could be read, 0 if its figures are missing.")
)

// Describe implements prometheus.Collector.
func (f *figures) Describe(to chan<- *prometheus.Desc) {
	for _, d := range described {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (f *figures) Collect(to chan<- prometheus.Metric) {
	tell := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	tell(figureInfo, 1, f.s.Version)
	tell(figureRoom, float64(f.s.Store.FreeForContent()))
	index := f.s.Search.State()
	tell(figureReady, truth(index.Phase == search.Ready))
	tell(figureBehind, float64(index.Latest-min(index.Latest, index.Place)))
	_, doubted := f.s.Store.ClockDoubt()
	tell(figureDoubted, truth(doubted))
	tell(figureJournal, float64(len(f.s.Store.JournalHealth().Damaged)))
	if f.s.Ship != nil {
		st := f.s.Ship.Status()
		tell(figureLag, st.Lag.Seconds())
		tell(figureUnshipped, float64(st.Records))
		tell(figureSlots, float64(st.Slots))
		tell(figureShipped, float64(st.Bytes))
		tell(figureErrors, float64(st.Errors))
		tell(figureFailing, truth(st.Failure != nil))
	}
	v, err := api.CollectStats(f.s.Site)
	var sound *shownHealth
	if err == nil {
		sound, err = assessHealth(f.s.Site)
	}
	tell(figureCollected, truth(err == nil))
	if err != nil {
		f.s.Log.Error("cannot collect the figures for metrics", "error", err)
		return
	}
	tell(figureUsers, float64(v.Users))
	tell(figureDamaged, float64(sound.files.nDamaged))
	scrubbed := 0.0
	if at := sound.files.checked; !at.IsZero() {
		scrubbed = float64(at.Unix())
	}
	tell(figureScrubbed, scrubbed)
	tell(figureBytes, float64(v.Bytes))
	tell(figurePending, float64(v.Pending))
	tell(figureWaiting, float64(v.Waiting))
	for _, k := range record.Kinds {
		tell(figureRecords, float64(v.Counts[k.Name]), k.Name)
	}
}

func truth(got bool) float64 {
	if got {
		return 1
	}
	return 0
}

// readMetrics answers with the figures in Prometheus' text format if /metrics is on. They
// are about all users, so the key must be an administrator's, with any scope.
func (s *Server) readMetrics(c *web.Request) error {
	if s.meter == nil {
		return record.NotFound("address")
	}
	c.W.Header().Set("Cache-Control", "no-store")
	s.meter.handler.ServeHTTP(c.W, c.R)
	return nil
}
