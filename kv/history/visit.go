package history

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"kist/kv"
	"kist/kv/record"
)

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
	Item [record.KeySize]byte `json:"-"` // the key of the record
	Day  Day                  `json:"-"`

	Phone   int64            `json:"Phone,omitempty"`
	Desktop int64            `json:"Desktop,omitempty"`
	Program int64            `json:"Program,omitempty"`
	Hosts   map[string]int64 `json:"Hosts,omitempty"` // the most frequent referring hosts, approximately
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
	d.Last = kv.Later(v.At, d.Last)
}

// Merge adds the visits of another row of the same item.
func (d *VisitDay) Merge(o *VisitDay) {
	d.Phone, d.Desktop, d.Program = d.Phone+o.Phone, d.Desktop+o.Desktop, d.Program+o.Program
	for host, n := range o.Hosts {
		d.refer(host, n)
	}
	d.Last = kv.Later(o.Last, d.Last)
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
	Item [record.KeySize]byte `json:"-"` // the key of the record
	ID   record.ID            `json:"-"`
	Visit
	Told bool `json:"Told,omitempty"` // there was an event for it
}
