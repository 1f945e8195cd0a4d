package backups

import (
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // of the tests alone

	"github.com/matryer/is"

	"kist/kv/datadir"
)

func TestKeepText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Keep{
		"7d,4w,6m": {7, 4, 6, 0}, "1d": {Days: 1}, "2y, 3d": {Days: 3, Years: 2}, "1000m": {Months: 1000},
	} {
		is := is.New(t)
		var k, again Keep
		is.NoErr(k.UnmarshalText([]byte(text)))
		is.Equal(k, want)
		is.NoErr(again.UnmarshalText([]byte(k.String())))
		is.Equal(again, want)
	}
	for _, text := range []string{"", "7", "d", "0d", "-1d", "7d,", "7d,7d", "7h", "7dd", "1001d", "7d 4w", "+"} {
		if (&Keep{}).UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// list makes backups of moments in a zone. A moment that ends in ! has a backup that is not good.
func list(t *testing.T, zone *time.Location, moments string) (all []datadir.Backup) {
	t.Helper()
	for word := range strings.SplitSeq(moments, ",") {
		word = strings.TrimSpace(word)
		text, bad := strings.CutSuffix(word, "!")
		at, err := time.ParseInLocation("2006-01-02 15:04", text, zone)
		if err != nil {
			t.Fatal(err)
		}
		b := datadir.Backup{At: at.UTC()}
		if bad {
			b.Error = "It is damaged."
		}
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b datadir.Backup) int { return b.At.Compare(a.At) })
	return all
}

// daily is a moment of each of so many days from a first one on.
func daily(first string, days int) string {
	at, _ := time.Parse("2006-01-02 15:04", first)
	var all []string
	for n := range days {
		all = append(all, at.AddDate(0, 0, n).Format("2006-01-02 15:04"))
	}
	return strings.Join(all, ",")
}

func TestBeyond(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keep, zone, have, stay string
	}{
		"fewer than are kept": {
			"7d", "UTC", "2026-01-01 03:30, 2026-01-02 03:30", "2026-01-01 03:30, 2026-01-02 03:30",
		},
		"the newest days": {"2d", "UTC", daily("2026-01-01 03:30", 5), "2026-01-04 03:30, 2026-01-05 03:30"},
		"several a day": {
			"2d", "UTC", "2026-01-01 03:30, 2026-01-02 03:30, 2026-01-02 09:00, 2026-01-02 10:00",
			"2026-01-01 03:30, 2026-01-02 10:00",
		},
		"gaps do not count": {
			"3d", "UTC", "2025-01-01 03:30, 2025-06-01 03:30, 2026-01-01 03:30, 2026-01-02 03:30",
			"2025-06-01 03:30, 2026-01-01 03:30, 2026-01-02 03:30",
		},
		"days, weeks and months": {
			"2d,2w,2m", "UTC", daily("2026-01-01 03:30", 40),
			"2026-01-31 03:30, 2026-02-08 03:30, 2026-02-09 03:30",
		},
		"years": {"1d,2y", "UTC", daily("2024-12-30 03:30", 400), "2025-12-31 03:30, 2026-02-02 03:30"},
		"the week of new year": {
			"1d,2w", "UTC", "2025-12-28 03:30, 2025-12-29 03:30, 2026-01-01 03:30, 2026-01-04 03:30, 2026-01-05 03:30",
			"2026-01-04 03:30, 2026-01-05 03:30",
		},
		// 23:30 and 00:30 in Berlin are one day in UTC.
		"the day is the zone's": {
			"2d", "Europe/Berlin", "2026-07-01 23:30, 2026-07-02 00:30, 2026-07-02 23:30",
			"2026-07-01 23:30, 2026-07-02 23:30",
		},
		"the hour that comes twice": {
			"1d", "Europe/Berlin", "2026-10-24 02:30, 2026-10-25 01:30, 2026-10-25 03:30", "2026-10-25 03:30",
		},
		"the hour that is left out": {
			"2d", "Europe/Berlin", "2026-03-28 02:30, 2026-03-29 03:30, 2026-03-30 02:30",
			"2026-03-29 03:30, 2026-03-30 02:30",
		},
		"a clock that was behind": {
			"2d", "UTC", "1970-01-01 00:10, 2026-01-01 03:30, 2026-01-02 03:30", "2026-01-01 03:30, 2026-01-02 03:30",
		},
		"the last good one": {
			"2d", "UTC", "2025-01-01 03:30, 2026-01-01 03:30!, 2026-01-02 03:30!, 2026-01-03 03:30!",
			"2025-01-01 03:30, 2026-01-02 03:30!, 2026-01-03 03:30!",
		},
		"a good one of the day": {
			"1d,1w", "UTC", "2026-01-01 03:30, 2026-01-01 04:30!", "2026-01-01 03:30, 2026-01-01 04:30!",
		},
		"none is good": {"1d", "UTC", "2026-01-01 03:30!, 2026-01-02 03:30!", "2026-01-02 03:30!"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			zone, err := time.LoadLocation(c.zone)
			is.NoErr(err)
			var keep Keep
			is.NoErr(keep.UnmarshalText([]byte(c.keep)))

			all := list(t, zone, c.have)
			beyond := keep.Beyond(all, zone)
			is.True(slices.IsSortedFunc(beyond, func(a, b datadir.Backup) int { return a.At.Compare(b.At) }))
			stay := slices.DeleteFunc(slices.Clone(all), func(b datadir.Backup) bool { return slices.Contains(beyond, b) })
			is.Equal(stay, list(t, zone, c.stay))
			is.Equal(len(keep.Beyond(stay, zone)), 0) // nothing more the next time
		})
	}
	if len(Keep{Days: 1}.Beyond(nil, time.UTC)) != 0 {
		t.Error("something of nothing")
	}
}

// A year of nights keeps what is promised, whatever the rule, and never loses the newest.
func TestKeepYear(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	keep := Keep{Days: 7, Weeks: 4, Months: 6}
	var all []datadir.Backup
	for _, b := range slices.Backward(list(t, time.UTC, daily("2025-01-01 03:30", 400))) {
		all = slices.Insert(all, 0, b)
		beyond := keep.Beyond(all, time.UTC)
		all = slices.DeleteFunc(all, func(b datadir.Backup) bool { return slices.Contains(beyond, b) })
		is.Equal(all[0].At, b.At)
	}
	is.True(len(all) >= 7+2+4 && len(all) <= 7+4+6)
	is.True(all[0].At.Sub(all[len(all)-1].At) > 120*24*time.Hour)
}

func TestTimeOfDay(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ at, now, want string }{
		{"03:30", "2026-01-01 03:29", "2026-01-01 03:30"},
		{"03:30", "2026-01-01 03:30", "2026-01-02 03:30"},
		{"00:00", "2026-12-31 23:59", "2027-01-01 00:00"},
		{"23:59", "2026-02-28 23:59", "2026-03-01 23:59"},
		{"02:30", "2026-03-29 04:00", "2026-03-30 02:30"}, // that day has no 02:30
		{"02:30", "2026-10-25 03:00", "2026-10-26 02:30"}, // that day had two
	} {
		is := is.New(t)
		var at TimeOfDay
		is.NoErr(at.UnmarshalText([]byte(c.at)))
		is.Equal(at.String(), c.at)
		now, err := time.ParseInLocation("2006-01-02 15:04", c.now, berlin)
		is.NoErr(err)
		is.Equal(at.After(now).Format("2006-01-02 15:04"), c.want)
	}
	for _, text := range []string{"", "24:00", "3", "03:60", "-1:00", "03:30:00", "noon"} {
		if (&TimeOfDay{}).UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q was taken", text)
		}
	}
	// Each time of each day of a year comes once, also where clocks are changed.
	for _, at := range []TimeOfDay{{2, 30}, {3, 30}, {0, 0}} {
		days := map[string]int{}
		last := time.Date(2026, 1, 1, 0, 0, 0, 0, berlin)
		for range 300 {
			last = at.After(last)
			days[last.Format("2006-01-02")]++
		}
		if len(days) != 300 {
			t.Errorf("%s: %d days", at, len(days))
		}
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	at := TimeOfDay{3, 30}
	moment := func(text string) time.Time {
		m, err := time.Parse("2006-01-02 15:04", text)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for name, c := range map[string]struct {
		plan            plan
		last, now, want string
	}{
		"a start, the last is of tonight": {
			plan{since: moment("2026-01-05 12:00")}, "2026-01-05 03:30", "2026-01-05 12:00", "2026-01-06 03:30",
		},
		"a start after a missed night": {
			plan{since: moment("2026-01-05 12:00")}, "2026-01-04 03:30", "2026-01-05 12:00", "2026-01-05 12:00",
		},
		"a start after 26 hours exactly": {
			plan{since: moment("2026-01-05 05:30")}, "2026-01-04 03:30", "2026-01-05 05:30", "2026-01-06 03:30",
		},
		"a first start": {
			plan{since: moment("2026-01-05 12:00")}, "0001-01-01 00:00", "2026-01-05 12:00", "2026-01-05 12:00",
		},
		"after a night": {
			plan{since: moment("2026-01-05 03:31"), ran: true}, "2026-01-05 03:30", "2026-01-05 09:00", "2026-01-06 03:30",
		},
		"a machine that slept": {
			plan{since: moment("2026-01-05 03:31"), ran: true}, "2026-01-05 03:30", "2026-01-08 09:00", "2026-01-06 03:30",
		},
		"one failure": {
			plan{since: moment("2026-01-05 03:31"), ran: true, failed: 1},
			"2026-01-04 03:30", "2026-01-05 03:31", "2026-01-05 04:31",
		},
		"three failures": {
			plan{since: moment("2026-01-05 06:31"), ran: true, failed: 3},
			"2026-01-04 03:30", "2026-01-05 06:31", "2026-01-05 10:31",
		},
		"many failures": {
			plan{since: moment("2026-01-05 16:31"), ran: true, failed: 99},
			"2026-01-04 03:30", "2026-01-05 16:31", "2026-01-06 03:30",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			is.Equal(c.plan.next(at, moment(c.last), moment(c.now)), moment(c.want))
		})
	}
}
