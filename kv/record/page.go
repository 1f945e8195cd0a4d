package record

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"
	"net/url"
	"strings"
	"time"

	"kist/kv/field"
)

// Reach is whether the page of a bookmark can be reached.
type Reach string

// The states of a page. A failing page is reported only after it has failed for
// a while.
const (
	NotKnown    Reach = "unknown"
	Reachable   Reach = "yes"
	Unreachable Reach = "no"
)

// Reaches lists the states.
var Reaches = []Reach{NotKnown, Reachable, Unreachable}

// A Page is what the server knows about the page of a bookmark. It changes
// without an edit of the bookmark.
type Page struct {
	Owner ID `json:"-"`
	ID    ID `json:"-"` // of the bookmark

	Key  ID     `json:"Key"`  // the same for all addresses of the page
	Host uint64 `json:"Host"` // the same for all pages of the host

	Due   time.Time `json:"Due"`             // the next check, by the clock for retries
	Fill  bool      `json:"Fill,omitempty"`  // the bookmark lacks data from the page
	Tries int       `json:"Tries,omitempty"` // checks since then that did not provide it

	State    Reach     `json:"State,omitempty"`    // "" is NotKnown
	Checked  time.Time `json:"Checked,omitzero"`   // the latest check with a result
	Failures int       `json:"Failures,omitempty"` // failed checks in a row
	Failing  time.Time `json:"Failing,omitzero"`   // the first of these
	Gone     time.Time `json:"Gone,omitzero"`      // since when it is Unreachable

	Icon ID `json:"Icon,omitzero"` // the site whose icon the page has; zero if unknown

	SignIn bool `json:"SignIn,omitempty"` // at the latest check the site wanted people to sign in or agree first
}

// NewPage is a page that was never checked.
func NewPage(owner, id ID, address string, due time.Time) *Page {
	return &Page{Owner: owner, ID: id, Key: PageKey(address), Host: hostKey(address), Due: due, Fill: true}
}

// PageKey is the same for all addresses that SamePage treats as one page.
func PageKey(address string) ID {
	sum := sha256.Sum256([]byte(SamePage(address)))
	return ID(sum[:16])
}

// SiteKey is the same for all addresses of a site, which is a scheme, host and
// port.
func SiteKey(u *url.URL) ID {
	scheme := strings.ToLower(u.Scheme)
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[scheme])
	sum := sha256.Sum256([]byte(scheme + "://" + hostName(u) + ":" + port))
	return ID(sum[:16])
}

func hostName(u *url.URL) string {
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
}

func hostKey(address string) uint64 {
	h := fnv.New64a()
	if u, err := field.ParseURL(address); err == nil {
		_, _ = h.Write([]byte(hostName(u))) // cannot fail
	}
	return h.Sum64()
}

// Verdict is the result of a check.
type Verdict byte

// The verdicts.
const (
	Answers Verdict = iota + 1 // the site answered, and did not say that the page is gone
	Fails                      // the page is missing, or nobody answers for it
	Offline                    // the server could not reach anybody
	Barred                     // the server must not contact this host
)

// A Look is the outcome of one check of a page.
type Look struct {
	Verdict Verdict
	Wait    time.Duration // the wait that the site asks for

	Read               bool // the page's own data was read
	Title, Description string
	Image              string // address of a picture of the page
	SignIn             bool   // another page came, where people sign in or agree; its data is not that of the page

	Icon ID // with Answers: the site whose icon the page has; zero if it has no icon
}

// Times between two checks.
const (
	checkEvery = 14 * 24 * time.Hour // the longest
	checkEarly = 2 * 24 * time.Hour  // at most this much earlier, to spread pages that were added together
	failEvery  = 36 * time.Hour      // while it fails
	filledIn   = 24 * time.Hour      // at most, until a page added with a title is checked

	goneLooks = 3 // failed checks, and their duration, until the page counts as gone
	goneTime  = 3 * 24 * time.Hour
)

// fillTries are the waits after each check that did not provide what the
// bookmark lacks. After the last, the server gives up.
var fillTries = []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour}

// Record records the outcome of a check at the time now of the clock for
// retries. It reports whether the page is now found to be gone.
func (p *Page) Record(l Look, now time.Time) (gone bool) {
	switch l.Verdict {
	case Answers:
		p.State, p.Checked, p.Failures, p.Failing, p.Gone = Reachable, now, 0, time.Time{}, time.Time{}
		p.Icon, p.SignIn = l.Icon, l.SignIn
	case Fails:
		p.Checked = now
		if p.Failures == 0 {
			p.Failing = now
		}
		p.Failures++
		gone = p.State != Unreachable && p.Failures >= goneLooks && now.Sub(p.Failing) >= goneTime
		if gone {
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

// Refill makes the page due at once, to get data that the bookmark lacks.
func (p *Page) Refill(now time.Time) { p.Fill, p.Tries, p.Due = true, 0, now }

// Settle sets the first check of an imported bookmark's page if the bookmark has a
// title. It spreads such checks over filledIn.
func (p *Page) Settle(now time.Time) { p.Due = now.Add(p.spread(filledIn)) }

// Postpone postpones the next check by the usual time between two checks.
func (p *Page) Postpone(now time.Time) { p.Due = now.Add(checkEvery - p.spread(checkEarly)) }

// spread is a duration below limit that differs between bookmarks.
func (p *Page) spread(limit time.Duration) time.Duration {
	return time.Duration(binary.BigEndian.Uint64(p.ID[8:]) % uint64(limit)).Truncate(time.Millisecond)
}

// Take fills in missing fields of the bookmark from the page's own data. It reports
// whether it filled in anything.
func (b *Bookmark) Take(l Look) bool {
	before := *b
	b.Name = cmp.Or(b.Name, Cut(l.Title, MaxName))
	b.Description = cmp.Or(b.Description, Cut(l.Description, MaxDescription))
	b.ImageURL = cmp.Or(b.ImageURL, l.Image)
	return *b != before
}
