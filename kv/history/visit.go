package history

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
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
	case !strings.HasPrefix(agent, "Mozilla/") && !strings.HasPrefix(agent, "Opera/"),
		slices.ContainsFunc(programs, in(strings.ToLower(agent))):
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
	d.Hosts[host] += n
	if len(d.Hosts) <= keptHosts {
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

var (
	visitBucket   = table.Bucket{No: 54, Name: "visit"}
	visitLog      = table.Bucket{No: 55, Name: "visit.log"}
	versionBucket = table.Bucket{No: 58, Name: "version"}

	// TrashBucket has the rows of catalog.TrashRows.
	TrashBucket = table.Bucket{No: 56, Name: "trash"}
)

// VisitRows is the table of the visits of items, by day. VisitLogRows has each visit of
// the items that are logged.
var (
	VisitRows = &table.Table[VisitDay]{
		Rows:   visitBucket,
		Key:    func(d *VisitDay) []byte { return visitKey(d.Item, d.Day) },
		Encode: func(d *VisitDay) ([]byte, error) { return json.Marshal(d) },
		Decode: func(key, row []byte) (*VisitDay, error) {
			if len(key) != record.KeySize+4 {
				return nil, errVisitKey
			}
			d := &VisitDay{Item: [record.KeySize]byte(key), Day: Day(binary.BigEndian.Uint32(key[record.KeySize:]))}
			return d, json.Unmarshal(row, d)
		},
		Indexes: []table.Index[VisitDay]{{Bucket: people.HistoryIndex, Keys: func(d *VisitDay, file func([]byte)) {
			file(people.AgeKey(people.AgedVisits, d.Day.Start(), visitKey(d.Item, d.Day)))
		}}},
	}
	VisitLogRows = &table.Table[LoggedVisit]{
		Rows:   visitLog,
		Key:    logKey,
		Encode: func(v *LoggedVisit) ([]byte, error) { return json.Marshal(v) },
		Decode: func(key, row []byte) (*LoggedVisit, error) {
			if len(key) != record.KeySize+16 {
				return nil, errVisitKey
			}
			v := &LoggedVisit{Item: [record.KeySize]byte(key), ID: record.ID(key[record.KeySize:])}
			return v, json.Unmarshal(row, v)
		},
		Indexes: []table.Index[LoggedVisit]{{Bucket: people.HistoryIndex, Keys: func(v *LoggedVisit, file func([]byte)) {
			file(people.AgeKey(people.AgedVisitLog, v.At, logKey(v)))
		}}},
		Sums:  kv.SumBucket,
		Tally: func(v *LoggedVisit, add func([]byte, int64)) { add(logSum(v.Item), 1) },
	}
	errVisitKey = errors.New("the key is damaged")
)

func visitKey(item [record.KeySize]byte, day Day) []byte {
	return binary.BigEndian.AppendUint32(bytes.Clone(item[:]), uint32(day))
}

func logKey(v *LoggedVisit) []byte { return slices.Concat(v.Item[:], v.ID[:]) }

// logSum is the key of the number of logged visits of an item.
func logSum(item [record.KeySize]byte) []byte {
	return append(kv.OwnedKey(record.ID(item[:16]), 0, 'L'), item[16:]...)
}

// VisitTable keeps visits. Visitors cause them, so owners do not pay for the writes.
var VisitTable = kv.Table{
	Buckets: []table.Bucket{visitBucket, visitLog},
	Check: func(a *kv.Audit) {
		kv.CheckRows(VisitRows, func(a *kv.Audit, d *VisitDay) {
			refersToItem(a, d.Item, "visits", record.ID(d.Item[17:]))
		})(a)
		kv.CheckRows(VisitLogRows, func(a *kv.Audit, v *LoggedVisit) {
			refersToItem(a, v.Item, "visit", v.ID)
		})(a)
	},
	Refill: func(r *kv.Refill) error { // those of lost records are lost with them
		if err := kv.CopyRows(r, VisitRows, kv.Mending[VisitDay]{Then: func(r *kv.Refill, d *VisitDay) error {
			return dropOrphan(r, VisitRows, d.Item, d)
		}}); err != nil {
			return err
		}
		return kv.CopyRows(r, VisitLogRows, kv.Mending[LoggedVisit]{Then: func(r *kv.Refill, v *LoggedVisit) error {
			return dropOrphan(r, VisitLogRows, v.Item, v)
		}})
	},
	Drop: func(tx *kv.Tx, owner record.ID) (bool, error) {
		if done, err := kv.DropRows(VisitRows)(tx, owner); err != nil || !done {
			return false, err
		}
		return kv.DropRows(VisitLogRows)(tx, owner)
	},
	Tick: func(s *kv.Store) {
		people.DropAged(s, people.AgedVisits, VisitDays*24*time.Hour, DropRow(VisitRows))
		people.DropAged(s, people.AgedVisitLog, VisitLogTime, DropRow(VisitLogRows))
	},
}

// refersToItem is Audit.Refers for a record that may be in the trash.
func refersToItem(a *kv.Audit, item [record.KeySize]byte, from string, id record.ID) {
	if a.Get(TrashBucket, item[:]) == nil {
		a.Refers(kv.RecordBucket, item[:], from, id)
	}
}

// DropRow returns a function that deletes the row at a key.
func DropRow[T any](t *table.Table[T]) func(*kv.Tx, []byte) error {
	return func(tx *kv.Tx, key []byte) error {
		_, err := t.Delete(tx.Tx, key)
		return err
	}
}

func dropOrphan[T any](r *kv.Refill, t *table.Table[T], item [record.KeySize]byte, v *T) error {
	if r.Get(kv.RecordBucket, item[:]) != nil || r.Get(TrashBucket, item[:]) != nil {
		return nil
	}
	return DropRow(t)(r.Tx, t.Key(v))
}

// AddDay adds visits to those of the same day, or to today's if their day is in the
// future.
func AddDay(tx *kv.Tx, d *VisitDay) error {
	sum := *d
	sum.Day, sum.Hosts = min(d.Day, DayOf(tx.Now)), nil
	before, err := VisitRows.Get(tx.Tx, VisitRows.Key(&sum))
	switch {
	case errors.Is(err, table.ErrMissing):
		sum.Hosts = d.Hosts
	case err != nil:
		return err
	default:
		sum = *before
		sum.Merge(d)
	}
	if sum.Last.After(tx.Now) {
		sum.Last = tx.Now
	}
	return VisitRows.Put(tx.Tx, &sum)
}

// openedEvery is the least time between two events jobs.ShareOpened of an item.
const openedEvery = 10 * time.Minute

// LoggedEvery is the least time between two logged visits of an item from one network. What
// follows sooner, such as the file after its page, belongs to the same visit.
const LoggedEvery = time.Minute

// LogVisits adds visits, in order, to the log of the record, unless one from the same
// network was just logged. It reports whether the event jobs.ShareOpened is due.
func LogVisits(tx *kv.Tx, r *record.Record, all []Visit) (tell bool, err error) {
	if !r.Logged || len(all) == 0 { // turned off meanwhile
		return false, nil
	}
	item := [record.KeySize]byte(r.Key())
	told, err := lastTold(tx, r)
	if err != nil {
		return false, err
	}
	logged, err := lastLogged(tx, r)
	if err != nil {
		return false, err
	}
	for _, v := range all[max(0, len(all)-VisitLogSize):] {
		row := &LoggedVisit{Item: item, ID: tx.NewID(), Visit: v}
		if row.At.After(tx.Now) {
			row.At = tx.Now
		}
		if at, there := logged[v.Network]; there && row.At.Sub(at) < LoggedEvery {
			continue
		}
		logged[v.Network] = row.At
		if row.At.Sub(told) >= openedEvery {
			row.Told, told, tell = true, row.At, true
		}
		if err := VisitLogRows.Put(tx.Tx, row); err != nil {
			return false, err
		}
		if VisitLogRows.Sum(tx.Tx, logSum(item)) > VisitLogSize {
			if err := dropFirst(tx, visitLog, item[:], DropRow(VisitLogRows)); err != nil {
				return false, err
			}
		}
	}
	return tell, nil
}

// dropFirst calls drop with the first key that begins with prefix.
func dropFirst(tx *kv.Tx, b table.Bucket, prefix []byte, drop func(*kv.Tx, []byte) error) error {
	for key := range tx.Walk(b, prefix, nil, false) {
		return drop(tx, bytes.Clone(key))
	}
	return nil
}

// lastTold is when the last event for a visit of the record was, if that is less than
// openedEvery ago.
func lastTold(tx *kv.Tx, r *record.Record) (at time.Time, err error) {
	for key, row := range tx.Walk(visitLog, r.Key(), nil, true) {
		v, err := VisitLogRows.Decode(key, row)
		switch {
		case err != nil:
			return at, err
		case v.Told:
			return v.At, nil
		case tx.Now.Sub(v.At) >= openedEvery:
			return at, nil
		}
	}
	return at, nil
}

// lastLogged is when visits of the record from each network were last logged, if that is less
// than LoggedEvery ago.
func lastLogged(tx *kv.Tx, r *record.Record) (map[string]time.Time, error) {
	last := map[string]time.Time{}
	for key, row := range tx.Walk(visitLog, r.Key(), nil, true) {
		v, err := VisitLogRows.Decode(key, row)
		if err != nil {
			return nil, err
		}
		if tx.Now.Sub(v.At) >= LoggedEvery {
			break
		}
		if _, there := last[v.Network]; !there {
			last[v.Network] = v.At
		}
	}
	return last, nil
}

// Drop deletes the visits and the versions of a record.
func Drop(tx *kv.Tx, r *record.Record) error {
	for _, one := range []struct {
		b    table.Bucket
		drop func(*kv.Tx, []byte) error
	}{{visitBucket, DropRow(VisitRows)}, {visitLog, DropRow(VisitLogRows)}, {versionBucket, DropRow(versionRows)}} {
		var keys [][]byte
		for key := range tx.Walk(one.b, r.Key(), nil, false) {
			keys = append(keys, bytes.Clone(key))
		}
		for _, key := range keys {
			if err := one.drop(tx, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// Visits are the visits of an item.
type Visits struct {
	Days []*VisitDay    // those with visits, oldest first
	Last time.Time      // the last visit of all; zero if none is known
	Log  []*LoggedVisit // latest first
}

// VisitsOf reads the visits of a record on the days from the first to the last. Visits
// of the last second may be missing.
func VisitsOf(tx *kv.Tx, r *record.Record, first, last Day) (v Visits, err error) {
	for d, err := range VisitRows.All(tx.Tx, r.Key()) {
		if err != nil {
			return v, err
		}
		v.Last = d.Last
		if d.Day >= first && d.Day <= last {
			v.Days = append(v.Days, d)
		}
	}
	for key, row := range tx.Walk(visitLog, r.Key(), nil, true) {
		one, err := VisitLogRows.Decode(key, row)
		if err != nil {
			return v, err
		}
		if day := DayOf(one.At); day >= first && day <= last {
			v.Log = append(v.Log, one)
		}
	}
	return v, nil
}
