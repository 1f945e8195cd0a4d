package archive

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"kist/blobs/flight"
	"kist/httpapi/limit"
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
	Fault: record.Busy, Code: "busy", Retry: 10 * time.Second,
	Text: "The server is busy with other downloads. Try again in a moment.",
}

// Zips bounds the work for zips, and remembers facts about their items. All methods are safe for concurrent use.
type Zips struct {
	asking  limit.AtOnce[netip.Prefix] // layouts, with those that wait
	layouts flight.Turns
	sums    flight.Turns
	sending limit.AtOnce[netip.Prefix] // bytes in memory for zips that are being sent

	mu    sync.Mutex
	facts map[Item]Fact
	bytes int // of facts
}

// NewZips makes an empty Zips.
func NewZips() *Zips {
	return &Zips{
		asking:  limit.AtOnce[netip.Prefix]{All: layoutsWaiting, Each: layoutsOfOne},
		layouts: make(flight.Turns, layoutsAtOnce),
		sums:    make(flight.Turns, sumsAtOnce),
		sending: limit.AtOnce[netip.Prefix]{All: sendingBytes, Each: sendingOfOne},
		facts:   map[Item]Fact{},
	}
}

// Layout waits until the caller from a network may lay out a zip, which ends with done. The error is Busy if too many
// of its network or of all networks wait, or others take too long.
func (z *Zips) Layout(ctx context.Context, of netip.Prefix) (done func(), err error) {
	if z.asking.Take(of, 1) != nil {
		return nil, errBusy
	}

	ctx, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	if z.layouts.Take(ctx) != nil {
		z.asking.Give(of, 1)
		return nil, errBusy
	}
	return func() {
		z.layouts.Give()
		z.asking.Give(of, 1)
	}, nil
}

// Send counts n bytes of memory for a zip that is sent to a network, until done. The error is Busy if others have
// taken too much. It waits for nothing: a zip is sent for as long as its reader likes.
func (z *Zips) Send(of netip.Prefix, n int) (done func(), err error) {
	if z.sending.Take(of, n) != nil {
		return nil, errBusy
	}
	return func() { z.sending.Give(of, n) }, nil
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

// A Fact is what a layout needs of an item that is costly to find out: the name, size and sums of a text and the files
// that it shows, or the name and media type of a file and when its bytes were last found or missed.
type Fact struct {
	Name    string
	Media   string
	Size    int64
	CRC     uint32
	Content [32]byte
	Shows   []record.ID
	Found   time.Time
	Gone    time.Time
}

func (f Fact) bytes() int { return 256 + len(f.Name) + len(f.Media) + 16*len(f.Shows) }

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
