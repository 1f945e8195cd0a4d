package archive

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"kist/blobs/flight"
	"kist/kv/record"
)

// Bounds of the work for zips. Strangers can ask for one as often as they like.
const (
	layoutsAtOnce  = 2
	layoutsOfOne   = 8  // of a network, with those that wait
	layoutsWaiting = 64 // of all networks, with those being made
	sumsAtOnce     = 2  // contents that are read for their CRC-32
	turnWait       = 10 * time.Second

	sendingBytes = 64 << 20 // in memory for all zips that are being sent
	sendingOfOne = 24 << 20 // for those that are sent to a network; has room for the largest collection

	factBytes = 8 << 20 // of all facts
)

var errBusy = &record.Error{
	Fault: record.Busy, Code: "busy", Text: "The server is busy with other downloads. Try again in a moment.", Retry: 10 * time.Second,
}

// Zips bounds the work for zips, and remembers facts about their items. All methods are safe for concurrent use.
type Zips struct {
	layouts flight.Turns
	sums    flight.Turns

	mu      sync.Mutex
	asking  map[netip.Prefix]int // layouts of each network
	inAll   int                  // layouts of all networks
	sending map[netip.Prefix]int // bytes in memory for zips that are being sent to each network
	sent    int                  // for all of them
	facts   map[Item]Fact
	bytes   int
}

// NewZips makes an empty Zips.
func NewZips() *Zips {
	return &Zips{
		layouts: make(flight.Turns, layoutsAtOnce), sums: make(flight.Turns, sumsAtOnce),
		asking: map[netip.Prefix]int{}, sending: map[netip.Prefix]int{}, facts: map[Item]Fact{},
	}
}

// Layout waits until the caller from a network may lay out a zip, which ends with done. The error is Busy if too many
// of its network or of all networks wait, or others take too long.
func (z *Zips) Layout(ctx context.Context, of netip.Prefix) (done func(), err error) {
	if !z.ask(of) {
		return nil, errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	if z.layouts.Take(ctx) != nil {
		z.asked(of)
		return nil, errBusy
	}
	return func() {
		z.layouts.Give()
		z.asked(of)
	}, nil
}

// Send counts n bytes of memory for a zip that is sent to a network, until done. The error is Busy if others have
// taken too much. It waits for nothing: a zip is sent for as long as its reader likes.
func (z *Zips) Send(of netip.Prefix, n int) (done func(), err error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.sending[of]+n > sendingOfOne || z.sent+n > sendingBytes {
		return nil, errBusy
	}
	z.sending[of] += n
	z.sent += n
	return func() {
		z.mu.Lock()
		defer z.mu.Unlock()
		z.sent -= n
		z.sending[of] -= n
		if z.sending[of] == 0 {
			delete(z.sending, of)
		}
	}, nil
}

// ask counts a layout for a network unless there are too many.
func (z *Zips) ask(of netip.Prefix) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	ok := z.asking[of] < layoutsOfOne && z.inAll < layoutsWaiting
	if ok {
		z.asking[of]++
		z.inAll++
	}
	return ok
}

func (z *Zips) asked(of netip.Prefix) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.inAll--
	if z.asking[of]--; z.asking[of] == 0 {
		delete(z.asking, of)
	}
}

// Sum waits until the caller may read a content for its CRC-32, which ends with done. Meanwhile it calls tell from time
// to time. The error is Busy if others take too long; a caller that has sent a part of its answer waits longer.
func (z *Zips) Sum(ctx context.Context, sent bool, tell func()) (done func(), err error) {
	for {
		soon, cancel := context.WithTimeout(ctx, turnWait)
		err := z.sums.Take(soon)
		cancel()
		if err == nil {
			return z.sums.Give, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !sent {
			return nil, errBusy
		}
		tell()
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
func (z *Zips) Fact(item Item) (f Fact, known bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	f, known = z.facts[item]
	return f, known
}

// Remember remembers a fact. It drops others if there are too many.
func (z *Zips) Remember(item Item, f Fact) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.forget(item)
	for other := range z.facts {
		if z.bytes+f.bytes() <= factBytes {
			break
		}
		z.forget(other)
	}
	z.facts[item] = f
	z.bytes += f.bytes()
}

func (z *Zips) forget(item Item) {
	if f, known := z.facts[item]; known {
		z.bytes -= f.bytes()
		delete(z.facts, item)
	}
}
