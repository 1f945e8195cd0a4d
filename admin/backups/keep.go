package backups

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"kist/kv/datadir"
)

// Keep says how many backups stay: the newest of each of so many days, weeks, months and years
// that have any. Days without a backup do not count, so that a machine that was off for a month
// loses none of them.
type Keep struct{ Days, Weeks, Months, Years int }

// maxKept bounds each number of a Keep.
const maxKept = 1000

// UnmarshalText reads a list such as 7d,4w,6m.
func (k *Keep) UnmarshalText(text []byte) error {
	var read Keep
	units := map[string]*int{"d": &read.Days, "w": &read.Weeks, "m": &read.Months, "y": &read.Years}
	for part := range strings.SplitSeq(string(text), ",") {
		part = strings.TrimSpace(part)
		digits := strings.TrimRight(part, "dwmy")
		n, err := strconv.Atoi(digits)
		count := units[part[len(digits):]]
		if err != nil || count == nil || *count != 0 || n < 1 || n > maxKept {
			return fmt.Errorf("%q must be numbers of days, weeks, months and years such as 7d,4w,6m", text)
		}
		*count = n
	}
	*k = read
	return nil
}

// String writes the list as UnmarshalText reads it.
func (k Keep) String() string {
	var parts []string
	for i, n := range []int{k.Days, k.Weeks, k.Months, k.Years} {
		if n > 0 {
			parts = append(parts, strconv.Itoa(n)+"dwmy"[i:i+1])
		}
	}
	return strings.Join(parts, ",")
}

// periods are how the moments of backups are grouped: the name of the day, week, month and year.
func (k Keep) periods() []period {
	return []period{
		{k.Days, func(t time.Time) string { return t.Format("2006-01-02") }},
		{k.Weeks, func(t time.Time) string {
			year, week := t.ISOWeek()
			return fmt.Sprint(year, "/", week)
		}},
		{k.Months, func(t time.Time) string { return t.Format("2006-01") }},
		{k.Years, func(t time.Time) string { return t.Format("2006") }},
	}
}

type period struct {
	most int
	of   func(time.Time) string
}

// Beyond returns those of the backups, the newest first, that need not be kept, the oldest first.
// Days and weeks begin as the zone has it. In each period a good backup goes before one that is
// not. The newest and the newest good one are always kept. It asks no clock: callers leave out what a
// wrong clock has put into the future.
func (k Keep) Beyond(all []datadir.Backup, zone *time.Location) []datadir.Backup {
	kept := map[time.Time]bool{}
	if len(all) > 0 {
		kept[all[0].At] = true
	}
	if i := slices.IndexFunc(all, datadir.Backup.OK); i >= 0 {
		kept[all[i].At] = true
	}
	for _, p := range k.periods() {
		p.choose(all, zone, kept)
	}

	var beyond []datadir.Backup
	for _, b := range slices.Backward(all) {
		if !kept[b.At] {
			beyond = append(beyond, b)
		}
	}
	return beyond
}

// choose marks the newest backup of each of the latest periods, a good one if there is one.
func (p period) choose(all []datadir.Backup, zone *time.Location, kept map[time.Time]bool) {
	best := map[string]datadir.Backup{}
	for _, b := range all {
		name := p.of(b.At.In(zone))
		had, there := best[name]
		if !there && len(best) == p.most {
			continue
		}
		if !there || !had.OK() && b.OK() {
			best[name] = b
		}
	}
	for _, b := range best {
		kept[b.At] = true
	}
}

// TimeOfDay is a time of each day, such as 03:30.
type TimeOfDay struct{ Hour, Minute int }

// UnmarshalText reads HH:MM.
func (d *TimeOfDay) UnmarshalText(text []byte) error {
	t, err := time.Parse("15:04", strings.TrimSpace(string(text)))
	if err != nil {
		return errors.New(strconv.Quote(string(text)) + " must be a time of the day such as 03:30")
	}
	d.Hour, d.Minute = t.Hour(), t.Minute()
	return nil
}

// String writes HH:MM.
func (d TimeOfDay) String() string { return fmt.Sprintf("%02d:%02d", d.Hour, d.Minute) }

// After returns the next moment after t at which it is that time in t's zone. One that is
// left out in spring counts as an hour beside it, one that comes twice in autumn counts once.
func (d TimeOfDay) After(t time.Time) time.Time {
	for day := t.Day(); ; day++ {
		at := time.Date(t.Year(), t.Month(), day, d.Hour, d.Minute, 0, 0, t.Location())
		if at.After(t) {
			return at
		}
	}
}
