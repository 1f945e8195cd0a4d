package record_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/record"
)

var monday = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// A page that answers is checked every 12 to 14 days.
func TestPageThatAnswers(t *testing.T) {
	is := is.New(t)
	for i := range byte(200) {
		p := record.NewPage(record.ID{1}, record.ID{8: i, 9: 17 * i}, "https://example.org/", monday)
		is.Equal(p.Due, monday)
		is.True(p.Fill)
		now := monday
		for range 3 {
			is.True(!p.Record(record.Look{Verdict: record.Answers, Read: true}, now))
			is.Equal(p.State, record.Reachable)
			is.Equal(p.Checked, now)
			is.True(!p.Fill && p.Failures == 0 && p.Gone.IsZero())
			wait := p.Due.Sub(now)
			is.True(wait > 12*day && wait <= 14*day)
			now = p.Due
		}
	}
}

// The latest answer decides which icon a page has. A failure leaves it.
func TestPageIcon(t *testing.T) {
	is := is.New(t)
	p := record.NewPage(record.ID{1}, record.ID{2}, "https://example.org/", monday)
	p.Record(record.Look{Verdict: record.Answers, Icon: record.ID{3}}, monday)
	is.Equal(p.Icon, record.ID{3})
	p.Record(record.Look{Verdict: record.Fails}, monday)
	is.Equal(p.Icon, record.ID{3})
	p.Record(record.Look{Verdict: record.Answers}, monday)
	is.Equal(p.Icon, record.ID{})
}

// Three failed checks over at least three days are reported once. The next
// check that succeeds repairs that.
func TestPageThatIsGone(t *testing.T) {
	is := is.New(t)
	p := record.NewPage(record.ID{1}, record.ID{2}, "https://example.org/", monday)
	is.True(!p.Record(record.Look{Verdict: record.Answers, Read: true}, monday))
	now := p.Due
	first := now
	for n := 1; ; n++ {
		gone := p.Record(record.Look{Verdict: record.Fails}, now)
		is.Equal(p.Failures, n)
		if gone {
			is.Equal(n, 3)
			break
		}
		is.Equal(p.State, record.Reachable) // not yet
		is.Equal(p.Due.Sub(now), 36*time.Hour)
		now = p.Due
	}
	is.Equal(now.Sub(first), 3*day)
	is.Equal(p.State, record.Unreachable)
	is.Equal(p.Gone, first)
	for range 2 { // once
		now = p.Due
		is.True(!p.Record(record.Look{Verdict: record.Fails}, now))
		is.Equal(p.State, record.Unreachable)
		is.True(p.Due.Sub(now) > 12*day)
	}
	now = p.Due
	is.True(!p.Record(record.Look{Verdict: record.Answers}, now))
	is.Equal(p.State, record.Reachable)
	is.True(p.Gone.IsZero())
}

// While the server itself is offline, a page that lacks nothing is checked
// again after six hours, and at its usual time otherwise.
func TestPageWhileOffline(t *testing.T) {
	is := is.New(t)
	p := record.NewPage(record.ID{1}, record.ID{2}, "https://example.org/", monday)
	is.True(!p.Record(record.Look{Verdict: record.Answers, Read: true}, monday))
	for range 3 {
		now := p.Due
		is.True(!p.Record(record.Look{Verdict: record.Offline}, now))
		is.Equal(p.Due.Sub(now), 6*time.Hour)
	}
	now := p.Due
	is.True(!p.Record(record.Look{Verdict: record.Barred}, now))
	is.True(p.Due.Sub(now) > 12*day)
}

// Failures in a short time are not enough, however many, nor are those before
// an answer. A failure of the server itself says nothing about a page.
func TestPageThatIsNotGone(t *testing.T) {
	is := is.New(t)
	p := record.NewPage(record.ID{1}, record.ID{2}, "https://example.org/", monday)
	for i := range 50 {
		is.True(!p.Record(record.Look{Verdict: record.Fails}, monday.Add(time.Duration(i)*time.Hour)))
	}
	is.Equal(p.State, record.Reach("")) // never reached
	is.True(!p.Record(record.Look{Verdict: record.Answers}, monday.Add(71*time.Hour)))
	for i := range 3 {
		is.True(!p.Record(record.Look{Verdict: record.Fails}, monday.Add(time.Duration(72+i)*time.Hour)))
	}
	q := record.NewPage(record.ID{1}, record.ID{2}, "https://example.org/", monday)
	for i := range 50 {
		for _, v := range []record.Verdict{record.Offline, record.Barred} {
			is.True(!q.Record(record.Look{Verdict: v}, monday.Add(time.Duration(i)*day)))
		}
	}
	is.True(q.Checked.IsZero())
}

// The server asks for missing data five times, later each time, and then gives
// up. A check while the server is offline does not count.
func TestPageFill(t *testing.T) {
	is := is.New(t)
	for _, v := range []record.Verdict{record.Fails, record.Answers} {
		p := record.NewPage(record.ID{1}, record.ID{2}, "https://example.org/", monday)
		now, tries := monday, 0
		for p.Fill {
			p.Record(record.Look{Verdict: v}, now)
			tries++
			if p.Fill {
				is.True(p.Due.Sub(now) >= time.Minute && p.Due.Sub(now) <= 6*time.Hour)
			}
			now = p.Due
		}
		is.Equal(tries, 5)
		is.Equal(p.Tries, 0)
	}
	p := record.NewPage(record.ID{1}, record.ID{2}, "https://example.org/", monday)
	now := monday
	for range 20 {
		p.Record(record.Look{Verdict: record.Offline}, now)
		is.True(p.Fill)
		is.True(p.Due.Sub(now) <= 6*time.Hour)
		now = p.Due
	}
	p.Record(record.Look{Verdict: record.Answers, Read: true}, now)
	is.True(!p.Fill)
	p.Refill(now)
	is.True(p.Fill)
	is.Equal(p.Due, now)
	p.Record(record.Look{Verdict: record.Barred}, now) // asking again would not help
	is.True(!p.Fill)
}

// A site that asks for time gets it, within reason.
func TestPageWaits(t *testing.T) {
	is := is.New(t)
	p := record.NewPage(record.ID{1}, record.ID{2}, "https://example.org/", monday)
	p.Record(record.Look{Verdict: record.Answers, Wait: 5 * time.Hour}, monday)
	is.Equal(p.Due, monday.Add(5*time.Hour))
	p.Record(record.Look{Verdict: record.Fails, Read: true, Wait: 1000 * day}, monday)
	is.Equal(p.Due, monday.Add(14*day))
}

// Data of the page is used where the bookmark has none.
func TestBookmarkTakes(t *testing.T) {
	is := is.New(t)
	l := record.Look{Title: "Title", Description: "Text"}
	b := record.Bookmark{URL: "https://example.org/"}
	is.True(b.Take(l))
	is.Equal(b, record.Bookmark{URL: "https://example.org/", Name: "Title", Description: "Text"})
	is.True(!b.Take(record.Look{Title: "Other", Description: "Other"}))
	is.Equal(b.Name, "Title")
	b.Description = ""
	is.True(b.Take(record.Look{Title: "Other", Description: "Other"}))
	is.Equal(b, record.Bookmark{URL: "https://example.org/", Name: "Title", Description: "Other"})
	is.True(!b.Take(record.Look{}))
}

func TestSiteKey(t *testing.T) {
	is := is.New(t)
	of := func(address string) record.ID {
		u, err := url.Parse(address)
		is.NoErr(err)
		return record.SiteKey(u)
	}
	for _, same := range []string{"https://EXAMPLE.org/a?b#c", "HTTPS://example.org:443", "https://example.org./"} {
		is.Equal(of(same), of("https://example.org/"))
	}
	for _, other := range []string{
		"http://example.org/", "https://example.org:8443/", "https://www.example.org/", "https://example.com/",
	} {
		is.True(of(other) != of("https://example.org/"))
	}
}
