package record

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"
	"net/url"
	"strings"
	"time"
)

// Reach says whether the page of a bookmark can be reached.
type Reach string

// The states of a page. One that fails is told of when it has done so for a
// while.
const (
	NotKnown    Reach = "unknown"
	Reachable   Reach = "yes"
	Unreachable Reach = "no"
)

// Reaches lists the states.
var Reaches = []Reach{NotKnown, Reachable, Unreachable}

// A Page is what the server knows of the page that a bookmark leads to. It
// changes without the bookmark being edited.
type Page struct {
	Owner ID `json:"-"`
	ID    ID `json:"-"` // of the bookmark

	Key  ID     `json:"Key"`  // the same for all addresses of the page
	Host uint64 `json:"Host"` // the same for all pages of the host

	Due   time.Time `json:"Due"`             // the next look, by the clock of retries
	Fill  bool      `json:"Fill,omitempty"`  // something of the page is wanted for the bookmark
	Tries int       `json:"Tries,omitempty"` // looks since then that did not bring it

	State    Reach     `json:"State,omitempty"`    // "" is NotKnown
	Checked  time.Time `json:"Checked,omitzero"`   // the latest look that came to a result
	Failures int       `json:"Failures,omitempty"` // looks in a row
	Failing  time.Time `json:"Failing,omitzero"`   // the first of them
	Gone     time.Time `json:"Gone,omitzero"`      // since when it is Unreachable

	Icon ID `json:"Icon,omitzero"` // the site whose icon is the page's; zero if none is known
}

// NewPage is what is known of the page of an address that nobody has looked at.
func NewPage(owner, id ID, address string, due time.Time) *Page {
	return &Page{Owner: owner, ID: id, Key: PageKey(address), Host: hostKey(address), Due: due, Fill: true}
}

// PageKey is the same for all addresses that SamePage holds to be of one page.
func PageKey(address string) ID {
	sum := sha256.Sum256([]byte(SamePage(address)))
	return ID(sum[:16])
}

// SiteKey is the same for all addresses of a site: of a scheme, host and port.
func SiteKey(u *url.URL) ID {
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	sum := sha256.Sum256([]byte(scheme + "://" + hostName(u) + ":" + port))
	return ID(sum[:16])
}

func hostName(u *url.URL) string {
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
}

func hostKey(address string) uint64 {
	h := fnv.New64a()
	if u, err := url.Parse(address); err == nil {
		_, _ = h.Write([]byte(hostName(u))) // cannot fail
	}
	return h.Sum64()
}

// Verdict is what a look says of a page.
type Verdict byte

// The verdicts.
const (
	Answers Verdict = iota + 1 // the site answered, and did not say that the page is gone
	Fails                      // there is no page, or nobody who would answer for it
	Offline                    // the server could not ask anybody
	Barred                     // the server must not ask this host
)

// A Look is what came of asking for a page.
type Look struct {
	Verdict Verdict
	Wait    time.Duration // that the site asks for

	Read               bool // what the page says of itself was read
	Title, Description string

	Icon ID // of a page that Answers: the site whose icon it has; zero if that is not there
}

// MaxLook is the longest time between two looks at a page.
const MaxLook = 14 * 24 * time.Hour

// Times between two looks.
const (
	checkEvery = MaxLook
	checkEarly = 2 * 24 * time.Hour // at most so much earlier: what came together goes apart
	failEvery  = 36 * time.Hour     // while it fails
	filledIn   = 24 * time.Hour     // until what came in with a title is looked at

	goneLooks = 3 // that must fail, and for how long, until the page is said to be gone
	goneTime  = 3 * 24 * time.Hour
)

// fillTries are the waits after each look that did not bring what is wanted
// for the bookmark, but for the last, after which that is given up.
var fillTries = []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour}

// Record notes what came of a look at the time now of the clock of retries. It
// reports whether the page is found to be gone by that.
func (p *Page) Record(l Look, now time.Time) (gone bool) {
	switch l.Verdict {
	case Answers:
		p.State, p.Checked, p.Failures, p.Failing, p.Gone = Reachable, now, 0, time.Time{}, time.Time{}
		p.Icon = l.Icon
	case Fails:
		if p.Checked = now; p.Failures == 0 {
			p.Failing = now
		}
		p.Failures++
		if gone = p.State != Unreachable && p.Failures >= goneLooks && now.Sub(p.Failing) >= goneTime; gone {
			p.State, p.Gone = Unreachable, p.Failing
		}
	}
	wait := checkEvery - p.spread(checkEarly)
	switch {
	case !p.Fill:
	case l.Read, l.Verdict == Barred, p.Tries >= len(fillTries) && l.Verdict != Offline:
		p.Fill, p.Tries = false, 0
	default:
		wait = fillTries[min(p.Tries, len(fillTries)-1)]
		p.Tries = min(p.Tries+1, len(fillTries))
	}
	switch {
	case p.Fill:
	case l.Verdict == Offline:
		wait = fillTries[len(fillTries)-1]
	case l.Verdict == Fails && p.State != Unreachable:
		wait = failEvery
	}
	p.Due = now.Add(max(wait, min(l.Wait, checkEvery)))
	return gone
}

// Refill has the page asked again for what the bookmark lacks.
func (p *Page) Refill(now time.Time) { p.Fill, p.Tries, p.Due = true, 0, now }

// Settle is when a page is first looked at that came in with others, and
// whose bookmark has a title.
func (p *Page) Settle(now time.Time) { p.Due = now.Add(p.spread(filledIn)) }

// Postpone leaves the page alone for as long as is usual between two looks.
func (p *Page) Postpone(now time.Time) { p.Due = now.Add(checkEvery - p.spread(checkEarly)) }

// spread is a part of a time that differs between bookmarks.
func (p *Page) spread(limit time.Duration) time.Duration {
	return time.Duration(binary.BigEndian.Uint64(p.ID[8:]) % uint64(limit)).Truncate(time.Millisecond)
}

// Take fills in what the bookmark lacks and the page said of itself. It
// reports whether anything was.
func (b *Bookmark) Take(l Look) bool {
	before := *b
	if b.Name == "" {
		b.Name = Cut(l.Title, MaxName)
	}
	if b.Description == "" {
		b.Description = Cut(l.Description, MaxDescription)
	}
	return *b != before
}
