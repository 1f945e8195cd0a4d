package linkcheck

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/url"
	"sync"

	"kist/httpapi/outbound"
	"kist/httpapi/thumb"
	"kist/kv/field"
	"kist/kv/record"
)

// imageOf is the absolute address of the picture that a page names; "" if it has none. at is the page's address.
func imageOf(p page, at *url.URL) string {
	if p.image == "" {
		return ""
	}
	u, err := p.baseAt(at).Parse(p.image)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
		len(u.String()) > field.MaxURL {
		return ""
	}
	return u.String()
}

// Bounds of fetching pictures.
const (
	picturesAtOnce  = 3
	picturesWaiting = 100
	maxPictures     = 2000 // stored; each has some 40 KiB
	trimEvery       = 50   // pictures
)

// Pictures fetches the pictures of bookmarks and the covers of games when their owner looks at them, and stores smaller
// versions. They can be fetched again, so the ones stored longest ago are removed.
type Pictures struct {
	client *client
	store  *thumb.Icons
	wanted chan wish

	mu     sync.Mutex
	stored int
}

// A wish is the address of a picture, and the host that named it.
type wish struct{ address, host string }

// NewPictures makes a Pictures over a store of thumb.Maker.Pictures.
func NewPictures(c *outbound.Client, store *thumb.Icons, log *slog.Logger) *Pictures {
	return &Pictures{client: &client{Client: c, log: log}, store: store, wanted: make(chan wish, picturesWaiting)}
}

// keyOf is the key of the picture at an address.
func keyOf(address string) record.ID {
	sum := sha256.Sum256([]byte(address))
	return record.ID(sum[:16])
}

// Get returns the picture at an address if it is stored.
func (p *Pictures) Get(address string) (*thumb.Thumb, bool) { return p.store.Get(keyOf(address)) }

// Has reports whether the picture at an address is stored. It does not read it.
func (p *Pictures) Has(address string) bool { return p.store.Has(keyOf(address)) }

// Want has the picture fetched soon, unless that was tried in the last day or too many are waiting. host has named the
// address: beyond public addresses, nothing but this host is contacted.
func (p *Pictures) Want(address, host string) {
	select {
	case p.wanted <- wish{address, host}:
	default:
	}
}

// WantsPage reports whether the page at an address should be read for the address of its picture: that did not happen in
// the last day.
func (p *Pictures) WantsPage(address string) bool { return p.store.Wants(keyOf("page " + address)) }

// Run fetches pictures until ctx ends.
func (p *Pictures) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	for range picturesAtOnce {
		work.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case one := <-p.wanted:
					p.fetch(ctx, one)
				}
			}
		})
	}
}

func (p *Pictures) fetch(ctx context.Context, one wish) {
	u, err := url.Parse(one.address)
	if err != nil || !p.store.Wants(keyOf(one.address)) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, iconTime)
	defer cancel()
	c := &client{Client: p.client.Only(one.host), log: p.client.log}
	data, err := c.picture(ctx, u, thumb.MaxPicture)
	if err != nil {
		return // there is no picture at the address
	}
	err = p.store.Put(ctx, keyOf(one.address), data)
	if errors.Is(err, thumb.ErrNone) || ctx.Err() != nil {
		return
	}
	if err != nil {
		c.log.Error("cannot store a picture", "error", err)
		return
	}
	if err := p.trim(); err != nil {
		c.log.Error("cannot remove old pictures", "error", err)
	}
}

// trim removes old pictures now and then.
func (p *Pictures) trim() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stored++
	if p.stored%trimEvery != 1 {
		return nil
	}
	return p.store.Trim(maxPictures)
}
