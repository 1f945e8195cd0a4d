package kv

import (
	"testing"
	"time"

	"github.com/matryer/is"
)

// hours24 is a day of the pure tests.
const hours24 = 24 * time.Hour

// TestJudgeClock: which wall clock is believed. The store's time stood at noon
// when it was opened; each step is the time since then and what the wall clock
// shows beyond that.
func TestJudgeClock(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	type step struct {
		at, ahead time.Duration
		believed  bool
		stands    time.Duration // of the store's time, beyond noon and what has passed
	}
	const year = 365 * hours24
	for name, row := range map[string]struct {
		start time.Time
		steps []step
	}{
		"a right clock": {
			noon, []step{{0, 0, true, 0}, {time.Hour, 0, true, 0}, {9 * hours24, 0, true, 0}},
		},
		"a correction": {
			noon, []step{{time.Hour, 0, true, 0}, {time.Hour, time.Minute, true, time.Minute}},
		},
		"an hour too far": {
			noon,
			[]step{
				{time.Hour, 0, true, 0},
				{time.Hour, time.Hour, false, 0},
				{90 * time.Minute, time.Hour, false, 0},
				{100 * time.Minute, 0, true, 0},
			},
		},
		"an hour too far, for an hour": {
			noon,
			[]step{
				{time.Hour, time.Hour, false, 0},
				{2 * time.Hour, time.Hour, true, time.Hour},
				{3 * time.Hour, 0, true, 6 * time.Minute},
				{4 * time.Hour, 0, true, 0},
			},
		},
		"paused for five minutes": {
			noon,
			[]step{
				{time.Hour, 5 * time.Minute, false, 0},
				{64 * time.Minute, 5 * time.Minute, false, 0},
				{65 * time.Minute, 5 * time.Minute, true, 5 * time.Minute},
			},
		},
		"off for a week": {noon, []step{{0, 7 * hours24, true, 7 * hours24}}},
		"off for a year": {noon, []step{{0, 399 * hours24, true, 399 * hours24}}},
		"off for two years": {
			noon, []step{{0, 2 * year, false, 0}, {59 * time.Minute, 2 * year, false, 0}, {time.Hour, 2 * year, true, 2 * year}},
		},
		"off for a week, set late": {
			noon, []step{{0, -56 * year, true, 0}, {2 * time.Minute, 7 * hours24, true, 7 * hours24}},
		},
		"off for a week, set very late": {
			noon,
			[]step{
				{0, time.Minute, true, time.Minute},
				{time.Hour, 7 * hours24, false, time.Minute},
				{2 * time.Hour, 7 * hours24, true, 7 * hours24},
			},
		},
		"wrong at the start, then set": {
			noon, []step{{0, 73 * year, false, 0}, {time.Minute, 7 * hours24, true, 7 * hours24}},
		},
		"2099 once": {
			noon, []step{{time.Hour, 0, true, 0}, {time.Hour, 73 * year, false, 0}, {time.Hour + time.Second, 0, true, 0}},
		},
		"2099 for 59 minutes": {
			noon,
			[]step{
				{time.Hour, 73 * year, false, 0}, {119 * time.Minute, 73 * year, false, 0}, {120*time.Minute - 1, 0, true, 0},
			},
		},
		"2099 for an hour": {
			noon, []step{{time.Hour, 73 * year, false, 0}, {2 * time.Hour, 73 * year, true, 73 * year}},
		},
		"a minute is no leap, a bit more is": {
			noon,
			[]step{
				{time.Hour, time.Minute, true, time.Minute}, {time.Hour, 2*time.Minute + time.Millisecond, false, time.Minute},
			},
		},
		"a clock that leaps about": {
			noon,
			[]step{
				{time.Hour, 5 * hours24, false, 0},
				{90 * time.Minute, 20 * hours24, false, 0},
				{125 * time.Minute, 20 * hours24, false, 0},
				{150 * time.Minute, 20 * hours24, true, 20 * hours24},
			},
		},
		"forward and back again twice": {
			noon,
			[]step{
				{time.Hour, 5 * hours24, false, 0},
				{90 * time.Minute, 0, true, 0},
				{91 * time.Minute, 5 * hours24, false, 0},
				{150 * time.Minute, 5 * hours24, false, 0},
				{151 * time.Minute, 5 * hours24, true, 5 * hours24},
			},
		},
		"back by a year": {
			noon,
			[]step{
				{time.Hour, 0, true, 0},
				{2 * time.Hour, -year, true, -54 * time.Minute},
				{12 * time.Hour, -year, true, -594 * time.Minute},
			},
		},
		"begun before its clock was set":     {time.UnixMilli(0), []step{{0, 56 * year, true, 56 * year}}},
		"idle for a week, both clocks agree": {noon, []step{{time.Hour, 0, true, 0}, {8 * hours24, 0, true, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			const booted = 17 * time.Hour // the monotonic clock starts anywhere
			start := reading{row.start, booted}
			b, last := belief{start: start, sure: start}, row.start
			for i, s := range row.steps {
				now := reading{row.start.Add(s.at + s.ahead), booted + s.at}
				at, next := b.judge(last, now)
				if believed := next.doubt.wall.IsZero(); believed != s.believed {
					t.Fatalf("step %d: believed is %v", i, believed)
				}
				is.True(at.Equal(row.start.Add(s.at + s.stands)))
				b, last = next, at
			}
		})
	}
}

// TestResumeDoubt: a doubt outlives a restart where the clock is as it was.
func TestResumeDoubt(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, row := range map[string]struct {
		ahead    time.Duration // of the doubted clock
		now      time.Duration // what the clock shows at the start, beyond noon
		believed bool
		wait     time.Duration // until it is believed
	}{
		"still ahead":               {30 * hours24, 30*hours24 + time.Minute, false, 20 * time.Minute},
		"still far ahead":           {9000 * hours24, 9000*hours24 + time.Minute, false, 20 * time.Minute},
		"set right":                 {30 * hours24, time.Minute, true, 0},
		"set right after a week":    {30 * hours24, 7 * hours24, true, 0},
		"later than what it showed": {30 * hours24, 40 * hours24, false, 20 * time.Minute},
		"elsewhere altogether":      {30 * hours24, 9000 * hours24, false, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			now := reading{noon.Add(row.now), 5 * time.Second}
			start := reading{noon, now.elapsed}
			b := belief{start: start, sure: start}.resume(noon.Add(row.ahead), 40*time.Minute, now)
			_, b = b.judge(noon, now)
			is.Equal(b.doubt.wall.IsZero(), row.believed)
			if row.believed {
				return
			}
			after := func(d time.Duration) reading { return reading{now.wall.Add(d), now.elapsed + d} }
			_, early := b.judge(noon, after(row.wait-time.Second))
			is.True(!early.doubt.wall.IsZero())
			_, late := b.judge(noon, after(row.wait))
			is.True(late.doubt.wall.IsZero())
		})
	}
}
