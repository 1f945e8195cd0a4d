package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/outbound"
	"kist/httpapi/worker"
	"kist/kv/jobs"
	"kist/kv/record"
)

var quiet = slog.New(slog.DiscardHandler)

// memory is a queue for tests in which time is not real, where bbolt cannot be.
// The store's own code decides what a result means.
type memory struct {
	mu      sync.Mutex
	hooks   []*jobs.Webhook
	all     []*jobs.Delivery
	looks   int
	written int
	full    bool // results cannot be written
	due     chan struct{}
}

func newMemory() *memory { return &memory{due: make(chan struct{}, 1)} }

func (m *memory) hook(host string) *jobs.Webhook { return m.hookOf(record.ID{1}, host) }

func (m *memory) hookOf(owner record.ID, host string) *jobs.Webhook {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := &jobs.Webhook{ID: record.ID{byte(len(m.hooks) + 1)}, Owner: owner, URL: "http://" + host + "/hook", Enabled: true}
	m.hooks = append(m.hooks, h)
	return h
}

// emit adds deliveries about as many subjects.
func (m *memory) emit(h *jobs.Webhook, n int) {
	for range n {
		m.add(h, record.ID{})
	}
}

// add adds a delivery about a subject; one of its own if that is zero.
func (m *memory) add(h *jobs.Webhook, subject record.ID) *jobs.Delivery {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.all) + 1
	id := record.ID{byte(n >> 16), byte(n >> 8), byte(n)}
	if subject == (record.ID{}) {
		subject = id
	}
	d := &jobs.Delivery{
		ID: id, Hook: h.ID, Owner: h.Owner, Subject: subject, Event: "note.created", State: jobs.DeliveryWaits,
		Due: time.Now(), At: time.Now(),
	}
	m.all = append(m.all, d)
	m.tell()
	return d
}

func (m *memory) tell() {
	select {
	case m.due <- struct{}{}:
	default:
	}
}

func (m *memory) Due() <-chan struct{} { return m.due }

func (m *memory) Find(
	room func(*jobs.Webhook) int, busy func(jobs.Due) bool,
) (found []jobs.Due, wait time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks++
	for _, h := range m.hooks {
		n, asked := 0, false
		first := map[record.ID]bool{}
		for _, d := range m.all {
			if d.Hook != h.ID || d.State != jobs.DeliveryWaits || first[d.Subject] {
				continue
			}
			first[d.Subject] = true
			if !asked {
				n, asked = room(h), true
			}
			if left := time.Until(h.Held); left > 0 {
				if wait == 0 || left < wait {
					wait = left
				}
				continue
			}
			t := jobs.Due{Place: jobs.Place{Owner: h.Owner, Hook: h.ID, ID: d.ID}, Subject: d.Subject}
			if busy(t) {
				continue
			}
			if left := time.Until(d.Due); left > 0 {
				if wait == 0 || left < wait {
					wait = left
				}
			} else if n > 0 {
				n--
				found = append(found, t)
			}
		}
	}
	return found, wait, nil
}

func (m *memory) Load(p jobs.Place) (*jobs.Webhook, *jobs.Delivery, *jobs.Notice, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.all {
		if d.ID == p.ID {
			h, d := *m.hooks[p.Hook[0]-1], *d
			return &h, &d, &jobs.Notice{}, nil
		}
	}
	return nil, nil, nil, record.NotFound("delivery")
}

func (m *memory) Tried(p jobs.Place, t jobs.Try) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full {
		return errors.New("no room")
	}
	m.written++
	for _, d := range m.all {
		if d.ID == p.ID {
			d.Record(t, time.Now(), time.Now())
		}
	}
	m.hooks[p.Hook[0]-1].Record(t, time.Now(), time.Now())
	return nil
}

// counts is how often the queue was looked at, and how many results were
// written.
func (m *memory) counts() (looks, written int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.looks, m.written
}

func (m *memory) states() map[jobs.DeliveryState]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[jobs.DeliveryState]int{}
	for _, d := range m.all {
		all[d.State]++
	}
	return all
}

// wires is a network in memory: each host is a handler, or refuses connections.
type wires struct {
	of    map[string]http.HandlerFunc
	conns chan net.Conn
	once  sync.Once
	ends  chan struct{}

	mu    sync.Mutex
	came  map[string][]time.Time // when requests reached a host
	now   map[*wire]string       // the host of the request that is under way on a wire
	most  map[string]int         // requests of a host that were under way at once
	dials map[string]int
}

func newWires(t *testing.T, of map[string]http.HandlerFunc) *wires {
	w := &wires{
		of: of, conns: make(chan net.Conn), ends: make(chan struct{}), came: map[string][]time.Time{},
		now: map[*wire]string{}, most: map[string]int{}, dials: map[string]int{},
	}
	s := &http.Server{Handler: w, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, wireKey{}, c.(farEnd).wire)
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(w) }()
	t.Cleanup(func() { s.Close(); <-served })
	return w
}

func (w *wires) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.ends:
		return nil, net.ErrClosed
	}
}
func (w *wires) Close() error   { w.once.Do(func() { close(w.ends) }); return nil }
func (w *wires) Addr() net.Addr { return &net.TCPAddr{} }

// A wire is the client's end of a connection. It ends when the client closes it,
// however late the server learns of that.
type wire struct {
	net.Conn
	of    *wires
	ended bool // guarded by wires.mu
}

// A farEnd is the server's end of a wire.
type farEnd struct {
	net.Conn
	wire *wire
}

type wireKey struct{} // of a wire in the context of a connection

func (c *wire) Close() error {
	c.of.mu.Lock()
	c.ended = true
	delete(c.of.now, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

func (w *wires) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	on := r.Context().Value(wireKey{}).(*wire)
	w.mu.Lock()
	w.came[r.Host] = append(w.came[r.Host], time.Now())
	if !on.ended {
		w.now[on] = r.Host
	}
	w.most[r.Host] = max(w.most[r.Host], w.current(r.Host))
	answer := w.of[r.Host]
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.now, on)
	}()
	answer(rw, r)
}

func (w *wires) times(host string) []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.came[host])
}

// client is one whose network the wires are.
func (w *wires) client() *outbound.Client {
	return outbound.New(outbound.Options{
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.dials[host]++
			if w.of[host] == nil {
				return []netip.Addr{netip.MustParseAddr("1.0.0.0")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("1.1.1.1")}, nil
		},
		Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "1.0.0.0:") {
				return nil, syscall.ECONNREFUSED
			}
			here, there := net.Pipe()
			c := &wire{Conn: here, of: w}
			select {
			case w.conns <- farEnd{there, c}:
				return c, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	})
}

// current is how many requests of a host are under way. The caller holds mu.
func (w *wires) current(host string) (n int) {
	for _, h := range w.now {
		if h == host {
			n++
		}
	}
	return n
}

// crowd is how many requests of a host were under way at once, at most.
func (w *wires) crowd(host string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most[host]
}

func (w *wires) tried(host string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dials[host]
}

// running runs a Sender in a bubble until the test function returns.
func running(t *testing.T, m *memory, w *wires) (stop func()) {
	c := newSender(m, w.client(), "https://kist.example.org", quiet)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	return func() { cancel(); <-ended }
}

func refuse(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusInternalServerError) }
func accept(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusNoContent) }
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // then the server sees it when the client leaves
	<-r.Context().Done()
}

// after accepts so late.
func after(d time.Duration) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(d):
			accept(rw, r)
		case <-r.Context().Done():
		}
	}
}

// drip accepts with a body that does not end.
func drip(rw http.ResponseWriter, r *http.Request) {
	rw.WriteHeader(http.StatusOK)
	rw.(http.Flusher).Flush()
	hang(rw, r)
}

// A body that does not end is not waited for.
func TestEndlessBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		m, w := newMemory(), newWires(t, map[string]http.HandlerFunc{"t.example": drip})
		stop := running(t, m, w)
		defer stop()
		m.emit(m.hook("t.example"), 1)
		time.Sleep(bodyTime)
		synctest.Wait()
		is.Equal(m.states()[jobs.DeliveryDone], 1)
	})
}

// The tries of a delivery come when the schedule says, to the second.
func TestBackOff(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{"fails": refuse, "hangs": hang} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				m, w := newMemory(), newWires(t, map[string]http.HandlerFunc{"t.example": handler})
				stop := running(t, m, w)
				defer stop()
				begun := time.Now()
				m.emit(m.hook("t.example"), 1)
				time.Sleep(40 * time.Hour)
				took := map[string]time.Duration{"hangs": TryTime}[name]
				at := time.Duration(0)
				times := w.times("t.example")
				is.Equal(len(times), 8)
				for i, wait := range []time.Duration{
					0, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour,
				} {
					at += wait
					is.Equal(times[i].Sub(begun), at)
					at += took
				}
				is.Equal(m.states(), map[jobs.DeliveryState]int{jobs.DeliveryParked: 1})
				looks, _ := m.counts()
				is.True(looks < 40*60+40) // a look a minute, and one for each thing that happens
			})
		})
	}
}

// A target that hangs has at most two requests under way, and then one, and
// keeps nothing from another.
func TestSlowTargetDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		m, w := newMemory(), newWires(t, map[string]http.HandlerFunc{"slow.example": hang, "fast.example": accept})
		slow, fast := m.hook("slow.example"), m.hook("fast.example")
		stop := running(t, m, w)
		defer stop()
		m.emit(slow, 1000)
		time.Sleep(time.Second)
		for i := range 20 {
			begun := time.Now()
			m.emit(fast, 5)
			synctest.Wait()
			is.Equal(m.states()[jobs.DeliveryDone], 5*(i+1))
			for _, at := range w.times("fast.example") {
				is.True(!at.After(begun)) // in no time
			}
			time.Sleep(7 * time.Second)
			synctest.Wait()
			w.mu.Lock()
			is.True(i < 2 || w.current("slow.example") <= 1)
			w.mu.Unlock()
		}
		is.Equal(m.states()[jobs.DeliveryDone], 100)
		is.Equal(w.crowd("slow.example"), 2)
	})
}

// many emits to as many targets that answer alike, and gives their hosts the
// handler.
func (m *memory) many(n int, owner record.ID, name string, of map[string]http.HandlerFunc, h http.HandlerFunc) {
	for i := range n {
		host := fmt.Sprintf("%s%d.example", name, i)
		of[host] = h
		m.emit(m.hookOf(owner, host), 10)
	}
}

// So it is when there are more targets that hang than deliveries can be under
// way, once they have been tried; and from the beginning if they are another
// owner's, whether they answer in the end or not.
func TestManySlowTargets(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"hangs": hang, "succeeds in the end": after(TryTime - time.Second), "drips": drip,
	} {
		for owner, wait := range map[record.ID]time.Duration{{1}: time.Minute, {2}: time.Millisecond} {
			t.Run(fmt.Sprint(name, " ", owner[0]), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					is := is.New(t)
					of := map[string]http.HandlerFunc{"fast.example": accept}
					m := newMemory()
					m.many(40, record.ID{1}, "slow", of, h)
					fast := m.hookOf(owner, "fast.example")
					w := newWires(t, of)
					stop := running(t, m, w)
					defer stop()
					time.Sleep(wait)
					for i := range 10 {
						m.emit(fast, 5)
						synctest.Wait()
						is.Equal(len(w.times("fast.example")), 5*(i+1)) // in no time
						time.Sleep(time.Second)
					}
				})
			})
		}
	}
}

// An owner has a share of what is under way, of which targets that are ill have
// a part, and all owners together have no more than so many to such targets.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		var offered []worker.Job[line]
		q := worker.New(worker.Options[line]{AtOnce: maxOut, Longest: maxCheckTime, Log: quiet, Find: func(*worker.Queue[line], int) (due []worker.Job[line], _ time.Duration, _ error) {
			due, offered = offered, nil
			return due, 0, nil
		}})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); q.Run(ctx) }()
		synctest.Wait()
		hooks := 0
		begins := func(owner byte, ill bool) (is bool, settle func()) {
			hooks++
			due := jobs.Due{Place: jobs.Place{Owner: record.ID{owner}, Hook: record.ID{owner, byte(hooks)}}}
			over := make(chan struct{})
			offered = append(offered, worker.Job[line]{Key: lineOf(due), Turn: due.Hook, Shares: shares(due, ill), Do: func(ctx context.Context) {
				select {
				case <-over:
				case <-ctx.Done():
				}
			}})
			q.Rescan()
			synctest.Wait()
			return q.Running(lineOf(due)) != nil, func() { close(over); synctest.Wait() }
		}
		mayBegin := func(owner byte, ill bool) bool {
			begun, settle := begins(owner, ill)
			settle()
			return begun
		}
		begin := func(owner byte, n int, ill bool) (settle func()) {
			t.Helper()
			for range n {
				var begun bool
				begun, settle = begins(owner, ill)
				is.True(begun)
			}
			return settle
		}
		settle := begin(1, maxOfOwner, false)
		is.True(!mayBegin(1, false))
		is.True(!mayBegin(1, true))
		settle()
		begin(1, 1, true)
		is.True(!mayBegin(1, false))
		for owner := byte(2); owner < 5; owner++ {
			begin(owner, maxIllOfOwner, true)
			is.True(!mayBegin(owner, true))
			is.True(mayBegin(owner, false))
		}
		begin(5, maxIll-3*maxIllOfOwner-1, true)
		is.True(!mayBegin(6, true)) // of all owners
		is.True(mayBegin(6, false))
		stop()
		<-ended
	})
}

// When a webhook was served last is forgotten when nothing waits for it.
func TestTurnsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		m, w := newMemory(), newWires(t, map[string]http.HandlerFunc{"done.example": accept, "waits.example": refuse})
		c := newSender(m, w.client(), "", quiet)
		q := worker.New(worker.Options[line]{AtOnce: maxOut, Longest: maxCheckTime, Due: m.Due(), Find: c.find, Log: quiet})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); q.Run(ctx) }()
		done, waits := m.hook("done.example"), m.hook("waits.example")
		m.emit(done, 1)
		m.emit(waits, 1)
		synctest.Wait()
		is.True(q.Served(done.ID).IsZero())
		is.Equal(q.Served(waits.ID), time.Now())
		stop()
		<-ended
	})
}

// A delivery or a webhook that is removed while it is its turn is not sent, and
// nothing is written down.
func TestRemovedMeanwhile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	h := m.hook("gone.example")
	var log bytes.Buffer
	c := newSender(m, nil, "", slog.New(slog.NewTextHandler(&log, nil)))
	c.deliver(t.Context(), jobs.Place{Owner: h.Owner, Hook: h.ID, ID: record.ID{9}})
	_, written := m.counts()
	is.Equal(written, 0)
	is.Equal(log.String(), "")
}

// A target that is back gets what waits for it soon, though many hang and
// others get theirs all the time.
func TestRecoveredTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		of := map[string]http.HandlerFunc{"fast.example": accept, "back.example": refuse}
		m := newMemory()
		fast := m.hook("fast.example")
		for _, h := range m.hooks {
			m.emit(h, 1)
		}
		m.many(24, record.ID{1}, "slow", of, hang)
		back := m.hook("back.example")
		w := newWires(t, of)
		stop := running(t, m, w)
		defer stop()
		m.emit(back, 1)
		time.Sleep(time.Hour)
		w.mu.Lock()
		w.of["back.example"] = accept
		w.mu.Unlock()
		tried := len(w.times("back.example"))
		for _, h := range m.hooks {
			m.emit(h, 10)
		}
		for range 40 { // 24 others, eight at a time
			m.emit(fast, 1)
			time.Sleep(time.Second)
		}
		is.True(len(w.times("back.example")) > tried)
	})
}

// Deliveries about one thing are never under way at the same time, though the
// one that is out is given up meanwhile, or an earlier one sent again.
func TestOneAtATime(t *testing.T) {
	for name, interfere := range map[string]func(earlier, out *jobs.Delivery){
		"given up":   func(_, out *jobs.Delivery) { out.State, out.Due = jobs.DeliveryParked, time.Time{} },
		"sent again": func(earlier, _ *jobs.Delivery) { earlier.State, earlier.Due = jobs.DeliveryWaits, time.Now() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				m, w := newMemory(), newWires(t, map[string]http.HandlerFunc{"late.example": after(5 * time.Second)})
				h := m.hook("late.example")
				earlier := m.add(h, record.ID{7})
				earlier.State = jobs.DeliveryDone
				out := m.add(h, record.ID{7})
				m.add(h, record.ID{7})
				stop := running(t, m, w)
				defer stop()
				time.Sleep(time.Second)
				m.mu.Lock()
				interfere(earlier, out)
				m.tell()
				m.mu.Unlock()
				time.Sleep(time.Minute)
				is.Equal(w.crowd("late.example"), 1)
				is.True(len(w.times("late.example")) >= 2)
				is.Equal(m.states()[jobs.DeliveryWaits], 0)
			})
		})
	}
}

// A target that is dead is tried less and less often, however much waits for
// it, and gets everything soon after it is back.
func TestDeadTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		m, w := newMemory(), newWires(t, map[string]http.HandlerFunc{})
		stop := running(t, m, w)
		defer stop()
		m.emit(m.hook("dead.example"), 200)
		time.Sleep(time.Minute)
		is.True(w.tried("dead.example") > 30 && w.tried("dead.example") < 50)
		looks, _ := m.counts()
		is.True(looks < 150)
		time.Sleep(time.Hour)
		is.True(w.tried("dead.example") < 50+130+120)
		w.mu.Lock()
		w.of["dead.example"] = accept
		w.mu.Unlock()
		time.Sleep(time.Hour)
		is.Equal(m.states(), map[jobs.DeliveryState]int{jobs.DeliveryDone: 200})
	})
}

// A target that takes five messages in two seconds gets all of many at that pace,
// and new ones soon.
func TestRateLimitedTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		var mu sync.Mutex
		var taken []time.Time
		m, w := newMemory(), newWires(t, map[string]http.HandlerFunc{"t.example": func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			taken = slices.DeleteFunc(taken, func(at time.Time) bool { return time.Since(at) >= 2*time.Second })
			if len(taken) == 5 {
				w.Header().Set("Retry-After", "2")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			taken = append(taken, time.Now())
		}})
		stop := running(t, m, w)
		defer stop()
		m.emit(m.hook("t.example"), 200)
		time.Sleep(90 * time.Second)
		is.Equal(m.states(), map[jobs.DeliveryState]int{jobs.DeliveryDone: 200})
		is.True(w.tried("t.example") < 200+3*40) // each pause of forty costs what is out then, and one try that ends it
	})
}

// What has come of a delivery is written down before it is looked at again: a
// store that takes nothing makes no target get the same twice.
func TestResultsAreNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		m, w := newMemory(), newWires(t, map[string]http.HandlerFunc{"t.example": accept})
		stop := running(t, m, w)
		defer stop()
		m.mu.Lock()
		m.full = true
		m.mu.Unlock()
		m.emit(m.hook("t.example"), 1)
		time.Sleep(time.Hour)
		is.Equal(len(w.times("t.example")), 1)
		m.mu.Lock()
		m.full = false
		m.mu.Unlock()
		time.Sleep(worker.Again)
		synctest.Wait()
		is.Equal(m.states()[jobs.DeliveryDone], 1)
		is.Equal(len(w.times("t.example")), 1)
	})
}

// When it is stopped, a Sender waits a moment for what is under way. What it
// cuts off counts as not tried.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		late := func(rw http.ResponseWriter, _ *http.Request) { time.Sleep(2 * time.Second); accept(rw, nil) }
		m, w := newMemory(), newWires(t, map[string]http.HandlerFunc{"hangs.example": hang, "late.example": late})
		stop := running(t, m, w)
		m.emit(m.hook("hangs.example"), 10)
		m.emit(m.hook("late.example"), 10)
		synctest.Wait()
		begun := time.Now()
		stop()
		is.Equal(time.Since(begun), stopTime)
		is.Equal(m.states(), map[jobs.DeliveryState]int{jobs.DeliveryDone: 2, jobs.DeliveryWaits: 18})
		_, written := m.counts()
		is.Equal(written, 2)
		is.Equal(w.crowd("late.example"), 2)
	})
}

// Tests of webhooks end in time for the client, and are not many at once, for
// each owner.
func TestTests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		m, w := newMemory(), newWires(t, map[string]http.HandlerFunc{"hangs.example": hang})
		c := newSender(m, w.client(), "", quiet)
		begun := time.Now()
		var wg sync.WaitGroup
		var mu sync.Mutex
		busy := 0
		for i := range 2 * (maxTestsOf + 3) {
			h := m.hookOf(record.ID{byte(i % 2)}, "hangs.example")
			wg.Go(func() {
				got, err := c.Test(t.Context(), h, Message{Event: jobs.WebhookTest, Notice: &jobs.Notice{}})
				mu.Lock()
				defer mu.Unlock()
				var e *record.Error
				if errors.As(err, &e) && e.Fault == record.Busy {
					busy++
				} else if err != nil || got.Error != "The target did not answer within 8 s." {
					t.Errorf("%+v %v", got, err)
				}
			})
		}
		wg.Wait()
		is.Equal(busy, 6)
		is.Equal(time.Since(begun), TestTime)
		for range maxTestsOf { // all have ended
			is.NoErr(c.tests.Take(record.ID{0}, 1))
		}
	})
}

// The log says nothing of the address, which may carry a secret.
func TestLogKeepsSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		var log bytes.Buffer
		m, w := newMemory(), newWires(t, map[string]http.HandlerFunc{"t.example": refuse})
		h := m.hook("t.example")
		h.URL, h.Secret = "http://t.example/token-in-path", "my-secret"
		c := newSender(m, w.client(), "", slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); c.Run(ctx) }()
		m.emit(h, 1)
		time.Sleep(time.Minute)
		cancel()
		<-ended
		is.True(strings.Contains(log.String(), "a delivery failed"))
		is.True(!strings.Contains(log.String(), "token-in-path") && !strings.Contains(log.String(), "my-secret"))
	})
}
