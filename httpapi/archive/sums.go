package archive

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"sync"
	"time"

	"kist/blobs/flight"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
)

// Bounds of the work for zips. Strangers can ask for one as often as they like.
const (
	layoutsAtOnce  = 2
	layoutsOfOne   = 8  // of a network, with those that wait
	layoutsWaiting = 64 // of all networks, with those being made
	layoutWait     = 10 * time.Second

	sendingBytes = 64 << 20 // in memory for all zips that are being sent
	sendingOfOne = 24 << 20 // for those that are sent to a network; has room for the largest collection

	sumsAtOnce  = 2
	sumsWaiting = 64
	sumBuffer   = 256 << 10
	keepEvery   = 64      // new sums are kept at once, so that a download that breaks off was not in vain
	keepLong    = 1 << 30 // bytes from which a sum is kept at once
	tellEvery   = 10 * time.Second
	factBytes   = 8 << 20 // of all facts
)

var errBusy = &record.Error{Fault: record.Busy, Code: "busy", Text: "The server is busy with other downloads. Try again in a moment.", Retry: 10 * time.Second}

// Sums has what zips need to know before their bytes are read: CRC-32s, which it computes in the background and
// keeps, and facts about items, which it remembers. All methods are safe for concurrent use.
type Sums struct {
	keep func(map[catalog.CRCKey]uint32) error
	log  *slog.Logger

	alive   context.Context // ends with End
	end     context.CancelFunc
	work    sync.WaitGroup // the flights
	layouts flight.Turns
	buffers chan []byte // one for each sum that is being computed
	keeping sync.Mutex

	mu      sync.Mutex
	ended   bool
	asking  map[netip.Prefix]int // layouts of each network
	inAll   int                  // layouts of all networks
	sending map[netip.Prefix]int // bytes in memory for zips that are being sent to each network
	sent    int                  // for all of them
	flights map[catalog.CRCKey]*summing
	fresh   map[catalog.CRCKey]uint32 // not kept yet
	facts   map[Item]Fact
	bytes   int
}

// A summing is the computing of one sum for all callers that wait for it.
type summing struct {
	waiting int           // callers; under Sums.mu
	begun   bool          // no longer in the queue; under Sums.mu
	left    chan struct{} // closed if all callers left before its turn
	done    chan struct{} // closed when the following fields are set
	sum     uint32
	err     error
}

// A Source is a content whose CRC-32 is wanted.
type Source struct {
	Key   catalog.CRCKey
	Size  int64
	Prove func(through func(io.Reader) io.Reader) error // called first, unless it is nil; it reads what through returns
	Open  func(context.Context) (io.ReadSeekCloser, error)
}

// NewSums makes an empty Sums. keep stores sums; if it fails, they are computed again some time.
func NewSums(keep func(map[catalog.CRCKey]uint32) error, log *slog.Logger) *Sums {
	s := &Sums{
		keep: keep, log: log, layouts: make(flight.Turns, layoutsAtOnce), buffers: make(chan []byte, sumsAtOnce),
		asking: map[netip.Prefix]int{}, sending: map[netip.Prefix]int{},
		flights: map[catalog.CRCKey]*summing{}, fresh: map[catalog.CRCKey]uint32{}, facts: map[Item]Fact{},
	}
	for range sumsAtOnce {
		s.buffers <- make([]byte, sumBuffer)
	}
	s.alive, s.end = context.WithCancel(context.Background())
	return s
}

// End stops the computing and returns when all that is known is kept.
func (s *Sums) End() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.end()
	s.work.Wait()
	s.Keep()
}

// Layout waits until the caller from a network may lay out a zip, which ends with done. The error is Busy if too many
// of its network or of all networks wait, or others take too long.
func (s *Sums) Layout(ctx context.Context, of netip.Prefix) (done func(), err error) {
	if !s.ask(of) {
		return nil, errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, layoutWait)
	defer cancel()
	if s.layouts.Take(ctx) != nil {
		s.asked(of)
		return nil, errBusy
	}
	return func() {
		s.layouts.Give()
		s.asked(of)
	}, nil
}

// Send counts n bytes of memory for a zip that is sent to a network, until done. The error is Busy if others have
// taken too much. It waits for nothing: a zip is sent for as long as its reader likes.
func (s *Sums) Send(of netip.Prefix, n int) (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sending[of]+n > sendingOfOne || s.sent+n > sendingBytes {
		return nil, errBusy
	}
	s.sending[of] += n
	s.sent += n
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sent -= n
		s.sending[of] -= n
		if s.sending[of] == 0 {
			delete(s.sending, of)
		}
	}, nil
}

// ask counts a layout for a network unless there are too many.
func (s *Sums) ask(of netip.Prefix) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ok := s.asking[of] < layoutsOfOne && s.inAll < layoutsWaiting
	if ok {
		s.asking[of]++
		s.inAll++
	}
	return ok
}

func (s *Sums) asked(of netip.Prefix) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inAll--
	if s.asking[of]--; s.asking[of] == 0 {
		delete(s.asking, of)
	}
}

// Sum computes the CRC-32 of a content, once for all callers. If ctx ends, the computing goes on if it has begun, so
// that a later call finds the sum. Meanwhile it calls tell from time to time. If too many sums are waited for, the
// error is Busy; a caller that has sent a part of its answer sets sent, and waits longer. Other errors are those of the
// source.
func (s *Sums) Sum(ctx context.Context, of Source, sent bool, tell func()) (uint32, error) {
	ticker := time.NewTicker(tellEvery)
	defer ticker.Stop()
	f, err := s.join(of)
	for sent && errors.Is(err, errBusy) {
		select {
		case <-ticker.C:
			tell()
			f, err = s.join(of)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if err != nil {
		return 0, err
	}
	for {
		select {
		case <-f.done:
			return f.sum, f.err
		case <-ticker.C:
			tell()
		case <-ctx.Done():
			s.leave(of.Key, f)
			return 0, ctx.Err()
		}
	}
}

// join returns the flight for the content and starts one if nobody has.
func (s *Sums) join(of Source) (*summing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sum, known := s.fresh[of.Key]; known {
		f := &summing{done: make(chan struct{}), sum: sum}
		close(f.done)
		return f, nil
	}
	f := s.flights[of.Key]
	switch {
	case f != nil:
	case s.ended:
		return nil, kv.ErrClosed
	case len(s.flights) >= sumsAtOnce+sumsWaiting:
		return nil, errBusy
	default:
		f = &summing{left: make(chan struct{}), done: make(chan struct{})}
		s.flights[of.Key] = f
		s.work.Go(func() { s.fly(of, f) })
	}
	f.waiting++
	return f, nil
}

// leave removes a caller, and with the last one also the flight from the queue.
func (s *Sums) leave(key catalog.CRCKey, f *summing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiting--; f.waiting == 0 && !f.begun {
		delete(s.flights, key)
		close(f.left)
	}
}

func (s *Sums) fly(of Source, f *summing) {
	var buffer []byte
	select {
	case buffer = <-s.buffers:
		defer func() { s.buffers <- buffer }()
	case <-f.left:
		return
	}
	s.mu.Lock()
	f.begun = f.waiting > 0
	s.mu.Unlock()
	if !f.begun {
		return
	}
	f.sum, f.err = s.read(of, buffer)
	s.mu.Lock()
	delete(s.flights, of.Key)
	if f.err == nil {
		s.fresh[of.Key] = f.sum
	}
	keep := f.waiting == 0 || len(s.fresh) >= keepEvery || of.Size >= keepLong
	s.mu.Unlock()
	close(f.done)
	if keep {
		s.Keep()
	}
}

func (s *Sums) read(of Source, buffer []byte) (uint32, error) {
	if err := s.alive.Err(); err != nil {
		return 0, err
	}
	if of.Prove != nil {
		if err := of.Prove(func(r io.Reader) io.Reader { return whileAlive{s.alive, r} }); err != nil {
			return 0, err
		}
	}
	f, err := of.Open(s.alive)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	h := crc32.NewIEEE()
	n, err := io.CopyBuffer(h, whileAlive{s.alive, f}, buffer)
	if err == nil && n != of.Size {
		err = io.ErrUnexpectedEOF
	}
	return h.Sum32(), err
}

// whileAlive reads until the server ends.
type whileAlive struct {
	ctx context.Context
	r   io.Reader
}

func (w whileAlive) Read(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.r.Read(p)
}

// Keep stores the sums that are new.
func (s *Sums) Keep() {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	s.mu.Lock()
	sums := maps.Clone(s.fresh)
	s.mu.Unlock()
	if len(sums) == 0 {
		return
	}
	if err := s.keep(sums); err != nil {
		s.log.Error("checksums for zips are not kept", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range sums {
		delete(s.fresh, key)
	}
}

// An Item is a record in one state: a change gives it another Seq.
type Item struct {
	ID  record.ID
	Seq uint64
}

// A Fact is what a layout needs of an item that is costly to find out: the name, size and sums of a text, or the name
// and media type of a file and when its bytes were last found or missed.
type Fact struct {
	Name    string
	Media   string
	Size    int64
	CRC     uint32
	Content [32]byte
	Found   time.Time
	Gone    time.Time
}

func (f Fact) bytes() int { return 256 + len(f.Name) + len(f.Media) }

// Fact returns what is remembered about an item.
func (s *Sums) Fact(item Item) (f Fact, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, known = s.facts[item]
	return f, known
}

// Remember remembers a fact. It drops others if there are too many.
func (s *Sums) Remember(item Item, f Fact) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(item)
	for other := range s.facts {
		if s.bytes+f.bytes() <= factBytes {
			break
		}
		s.forget(other)
	}
	s.facts[item] = f
	s.bytes += f.bytes()
}

func (s *Sums) forget(item Item) {
	if f, known := s.facts[item]; known {
		s.bytes -= f.bytes()
		delete(s.facts, item)
	}
}
