package history_test

import (
	"testing"
	"time"

	"kist/kv/history"
)

// Versions become fewer as they get older.
func TestKeepVersions(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 20, 12, 0, 0, 0, time.UTC)
	for name, row := range map[string]struct {
		at   []string // latest first
		size int
		want string
	}{
		"none": {},
		"all of a day": {
			[]string{"2026-03-20 11:59", "2026-03-20 11:54", "2026-03-19 13:00", "2026-03-19 12:01"}, 1, "yyyy",
		},
		"one a day": {
			[]string{"2026-03-18 23:59", "2026-03-18 12:00", "2026-03-17 12:00", "2026-03-17 11:00", "2026-02-28 12:00"},
			1,
			"ynyny",
		},
		"the day of the last": {[]string{"2026-03-19 13:00", "2026-03-19 11:00", "2026-03-18 12:00"}, 1, "yny"},
		"one a month": {
			[]string{
				"2026-02-10 12:00", "2026-02-01 12:00", "2026-01-31 12:00", "2025-02-10 12:00", "2025-02-09 12:00",
				"2024-02-10 12:00",
			},
			1, "ynyyny",
		},
		"the month of the day": {[]string{"2026-02-19 12:00", "2026-02-18 12:00", "2026-01-01 12:00"}, 1, "yny"},
		"too many bytes": {
			[]string{"2026-03-20 11:59", "2026-03-20 11:54", "2026-03-20 11:49"}, history.MaxVersionBytes / 2, "yyn",
		},
		"one of all the bytes": {[]string{"2026-03-20 11:59", "2026-03-20 11:54"}, history.MaxVersionBytes, "yn"},
		"in the future":        {[]string{"2027-03-20 11:59", "2027-03-20 11:54"}, 1, "yy"},
	} {
		var all []history.VersionAge
		for _, at := range row.at {
			v, err := time.Parse("2006-01-02 15:04", at)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, history.VersionAge{At: v, Size: row.size})
		}
		got := ""
		for _, keep := range history.KeepVersions(all, now) {
			got += map[bool]string{true: "y", false: "n"}[keep]
		}
		if got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
	many := make([]history.VersionAge, 300)
	for i := range many {
		many[i] = history.VersionAge{At: now.Add(-time.Duration(i) * time.Minute), Size: 1}
	}
	n := 0
	for _, keep := range history.KeepVersions(many, now) {
		if keep {
			n++
		}
	}
	if n != history.MaxVersions {
		t.Errorf("%d versions are kept", n)
	}
}
