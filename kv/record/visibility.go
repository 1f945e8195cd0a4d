package record

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Share is who may see an item and how often.
type Share struct {
	Slug     string
	Public   bool
	Favorite bool
	Password string // PHC string; "" means none
	Limit    int64  // views by others; 0 is no limit
	AtLimit  Action
	Reached  bool      // made private by the limit, not by its owner
	Expires  time.Time // zero: never
	Ended    bool      // its expiry was reported
	Logged   bool      // each visit is logged for its owner
}

// ErrMissing is the answer for all items that are unknown, private, or another
// owner's.
var ErrMissing = NotFound("item")

// Open says whether a visitor may have the item at the given instant, ignoring
// the password: nil, Missing or Gone.
func (s *Share) Open(now time.Time) error {
	switch {
	case s.Reached:
		return &Error{Fault: Gone, Code: "limit_reached", Text: "This link has reached its view limit."}
	case !s.Public:
		return ErrMissing
	case s.Expired(now):
		return &Error{Fault: Gone, Code: "expired", Text: "This item has expired."}
	}
	return nil
}

// Expired reports whether the item has expired. It expires at the instant
// Expires.
func (s *Share) Expired(now time.Time) bool {
	return !s.Expires.IsZero() && !now.Before(s.Expires)
}

// Terms is a digest of the owner's conditions for visitors: the password, the
// limit and the expiry. Access that was granted on other terms does not count.
func (s *Share) Terms() (digest [16]byte) {
	text := fmt.Appendf(nil, "%d %d %s", s.Limit, s.Expires.UnixMilli(), s.Password)
	sum := sha256.Sum256(text)
	return [16]byte(sum[:])
}

// Publish sets the visibility that the owner wants and clears Reached. It reports
// whether the count against the limit starts again: it does when the item becomes
// public.
func (s *Share) Publish(public bool) (restart bool) {
	restart = public && !s.Public
	s.Public, s.Reached = public, false
	return restart
}

// Spend counts one view by a visitor against the limit. used is how many were
// counted before. It returns the new count, and whether the action is due now:
// after the last view that the limit allows. It refuses a count that is already
// over the limit with Gone.
func (s *Share) Spend(used int64) (after int64, due bool, err error) {
	if s.Limit == 0 {
		return used + 1, false, nil
	}
	if used >= s.Limit {
		return used, true, &Error{Fault: Gone, Code: "limit_reached", Text: "This link has reached its view limit."}
	}
	return used + 1, used+1 == s.Limit, nil
}

// Close makes the item private because its limit is used up. It changes nothing
// else.
func (s *Share) Close() { s.Public, s.Reached = false, true }

// Exclusion is why visitors of a collection do not see an item in it; "" if they do.
type Exclusion string

// The reasons: conditions of the item's own, which a collection must not get around.
const (
	OwnPassword Exclusion = "password"
	OwnLimit    Exclusion = "limit"
	OwnEnd      Exclusion = "end"
)

// Exclusions lists the reasons.
var Exclusions = []Exclusion{OwnPassword, OwnLimit, OwnEnd}

// Through is the rule for what visitors see through a collection that is open to them.
// Only items of the collection's owner are in it, and no collections. among says whether
// its owner picked the item. The item's own visibility does not matter.
func (b *Collection) Through(c, item *Record, among bool) (in bool, why Exclusion) {
	switch {
	case item.Owner != c.Owner || item.Kind == Collections:
		return false, ""
	case b.Folder != ID{}:
		in = item.Kind == Files && item.Folder == b.Folder
	case b.Tag != ID{}:
		in = slices.Contains(item.Tags, b.Tag)
	default:
		in = among
	}
	switch {
	case !in:
	case item.Password != "":
		why = OwnPassword
	case item.Limit > 0:
		why = OwnLimit
	case !item.Expires.IsZero():
		why = OwnEnd
	}
	return in, why
}

// DeviceClass is a coarse class of what opened an item.
type DeviceClass string

// The classes of devices.
const (
	Phone   DeviceClass = "phone" // or a tablet
	Desktop DeviceClass = "desktop"
	Program DeviceClass = "program"
)

// DeviceClasses lists the classes.
var DeviceClasses = []DeviceClass{Phone, Desktop, Program}

// programs are parts of the User-Agent of programs that call themselves browsers, in
// lower case.
var programs = []string{"bot", "crawl", "spider", "preview", "headless", "monitor", "compatible;", "externalhit"}

// phones are parts of the User-Agent of phones and tablets.
var phones = []string{"Mobi", "Android", "iPhone", "iPad", "iPod"}

// DeviceOf is the class of the device that a User-Agent names. Browsers call themselves Mozilla or
// Opera; everything else is a program.
func DeviceOf(agent string) DeviceClass {
	in := func(text string) func(string) bool {
		return func(part string) bool { return strings.Contains(text, part) }
	}
	switch {
	case !strings.HasPrefix(agent, "Mozilla/") && !strings.HasPrefix(agent, "Opera/"), slices.ContainsFunc(programs, in(strings.ToLower(agent))):
		return Program
	case slices.ContainsFunc(phones, in(agent)):
		return Phone
	}
	return Desktop
}

// maxHost is the longest name of a host (RFC 1035, section 2.3.4).
const maxHost = 253

// ReferringHost is the host in a Referer header, in lower case and without a port; "" if
// the header does not name a web page.
func ReferringHost(referer string) string {
	if referer == "" { // usually
		return ""
	}
	u, err := url.Parse(referer)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if len(host) > maxHost || strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-._:") != "" {
		return ""
	}
	return host
}

// Delivered is what a visit delivered.
type Delivered string

// What visits deliver.
const (
	VisitPage     Delivered = "page"
	VisitFile     Delivered = "file"
	VisitZip      Delivered = "zip"
	VisitRedirect Delivered = "redirect"
)

// AllDelivered lists what visits deliver.
var AllDelivered = []Delivered{VisitPage, VisitFile, VisitZip, VisitRedirect}

// Visit is one counted view of an item.
type Visit struct {
	At       time.Time   `json:"At"`
	What     Delivered   `json:"What"`
	Device   DeviceClass `json:"Device"`
	Referrer string      `json:"Referrer,omitempty"` // a host
	Network  string      `json:"Network,omitempty"`  // of the visitor: /24 of IPv4, /48 of IPv6
}

// Bounds of the visits that are kept for an item.
const (
	VisitDays    = 400                 // days with counts
	VisitLogSize = 1000                // visits in the log
	VisitLogTime = 30 * 24 * time.Hour // in the log
	ShownHosts   = 20                  // of a day, in answers
	keptHosts    = 2 * ShownHosts      // of a day
)

// Day is a number of days since 1970, in UTC.
type Day uint32

// DayOf is the day of an instant.
func DayOf(t time.Time) Day { return Day(max(t.Unix(), 0) / (24 * 60 * 60)) }

// Start is the first instant of the day.
func (d Day) Start() time.Time { return time.Unix(int64(d)*24*60*60, 0).UTC() }

func (d Day) String() string { return d.Start().Format(time.DateOnly) }

// ParseDay reads a day in the form 2006-01-02.
func ParseDay(t string) (Day, bool) {
	at, err := time.Parse(time.DateOnly, t)
	return DayOf(at), err == nil && at.Unix() >= 0
}

// VisitDay counts the visits of an item on one day.
type VisitDay struct {
	Item [KeySize]byte `json:"-"` // the key of the record
	Day  Day           `json:"-"`

	Phone   int64            `json:"Phone,omitempty"`
	Desktop int64            `json:"Desktop,omitempty"`
	Program int64            `json:"Program,omitempty"`
	Hosts   map[string]int64 `json:"Hosts,omitempty"` // the commonest that refer to it, about
	Last    time.Time        `json:"Last"`
}

// Views is the number of visits.
func (d *VisitDay) Views() int64 { return d.Phone + d.Desktop + d.Program }

// Count adds a visit.
func (d *VisitDay) Count(v Visit) {
	switch v.Device {
	case Phone:
		d.Phone++
	case Desktop:
		d.Desktop++
	default:
		d.Program++
	}
	if v.Referrer != "" {
		d.refer(v.Referrer, 1)
	}
	d.Last = later(d.Last, v.At)
}

// Merge adds the visits of another row of the same item.
func (d *VisitDay) Merge(o *VisitDay) {
	d.Phone, d.Desktop, d.Program = d.Phone+o.Phone, d.Desktop+o.Desktop, d.Program+o.Program
	for host, n := range o.Hosts {
		d.refer(host, n)
	}
	d.Last = later(d.Last, o.Last)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// refer counts a host. Of more than keptHosts, one of the rarest is forgotten, at random,
// so that hosts that a visitor makes up do not keep real ones out.
func (d *VisitDay) refer(host string, n int64) {
	if d.Hosts == nil {
		d.Hosts = map[string]int64{}
	}
	if d.Hosts[host] += n; len(d.Hosts) <= keptHosts {
		return
	}
	rarest := host
	for other, m := range d.Hosts { // in random order
		if m < d.Hosts[rarest] || rarest == host && m == d.Hosts[host] {
			rarest = other
		}
	}
	delete(d.Hosts, rarest)
}

// Referrers are the commonest hosts of the day, ShownHosts at most.
func (d *VisitDay) Referrers() []string {
	all := slices.SortedFunc(maps.Keys(d.Hosts), func(a, b string) int {
		return cmp.Or(cmp.Compare(d.Hosts[b], d.Hosts[a]), cmp.Compare(a, b))
	})
	return all[:min(len(all), ShownHosts)]
}

// LoggedVisit is a visit in the log of an item.
type LoggedVisit struct {
	Item [KeySize]byte `json:"-"` // the key of the record
	ID   ID            `json:"-"`
	Visit
	Told bool `json:"Told,omitempty"` // there was an event for it
}
