package public

// Which requests count as views of an item. What a view does to a limit is in catalog.Seen.

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"kist/httpapi/grant"
	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv/catalog"
	"kist/kv/history"
	"kist/kv/record"
)

// counts reports whether the request is a view of an item or a collection with the
// conditions r. Its owner's requests, those without content and repeated ones of a visitor
// who was counted are not, and neither are those that no person has made. For an item with a
// limit the last fail: with errCard for a program that fetches links, otherwise with errAhead.
// A visitor who has typed the password of the item is a person. A redirect counts each time.
func counts(c *web.Request, r *record.Record, who viewer) (bool, error) {
	switch {
	case who.inside(), c.R.Method == http.MethodHead, r.Kind != record.Links && (Granted(c, grant.ToRead, r) || resumes(c, r)):
		return false, nil
	case c.R.Method == http.MethodPost: // the form of a card
		return true, nil
	case r.Limit > 0 && (isFetcher(c) || r.Password == "" && isDisguised(c)):
		return false, errCard
	case r.Limit > 0 && isPrefetch(c):
		return false, errAhead
	}
	return !IsPrefetchOrFetcher(c), nil
}

// countsPage is counts for a page, which only a browser is believed to open for a person.
func countsPage(c *web.Request, r *record.Record, who viewer) (bool, error) {
	counts, err := counts(c, r, who)
	if counts && r.Limit > 0 && r.Password == "" && c.R.Method == http.MethodGet && !navigates(c) {
		return false, errCard
	}
	return counts, err
}

// errCard says that the answer must show only the title of the item.
var errCard = errors.New("a card instead of the item")

// navigates reports whether a browser goes to the address. Browsers say so on https and to their own computer
// (Fetch Metadata); what fetches links for mail and chat programs does not, even if it calls itself a browser.
func navigates(c *web.Request) bool { return c.R.Header.Get("Sec-Fetch-Mode") == "navigate" }

// isDisguised reports whether a program calls itself a browser and does not send what browsers do. Other programs, such
// as curl, are believed: somebody has started them. PowerShell calls itself a browser too.
func isDisguised(c *web.Request) bool {
	agent := strings.ToLower(c.R.UserAgent())
	return strings.HasPrefix(agent, "mozilla/") && !strings.Contains(agent, "powershell") &&
		c.R.Header.Get("Sec-Fetch-Mode") == ""
}

// IsPrefetchOrFetcher reports whether no person has asked for the item yet: a browser fetches
// it in advance, or a program because it has read the link.
func IsPrefetchOrFetcher(c *web.Request) bool { return isPrefetch(c) || isFetcher(c) }

// isPrefetch reports whether a browser fetches the item in advance.
func isPrefetch(c *web.Request) bool {
	for _, name := range purposes {
		for _, v := range c.R.Header[name] {
			v = strings.ToLower(v)
			if strings.Contains(v, "prefetch") || strings.Contains(v, "preview") {
				return true
			}
		}
	}
	return false
}

// purposes are the headers that say so, in the form of http.Header.
var purposes = []string{"Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"}

// isFetcher reports whether the program says that it fetches links which others have sent or published: for previews,
// searches and checks.
func isFetcher(c *web.Request) bool {
	agent := strings.ToLower(c.R.UserAgent())
	for _, name := range noFetchers {
		agent = strings.ReplaceAll(agent, name, "")
	}
	return slices.ContainsFunc(fetchers, func(name string) bool { return strings.Contains(agent, name) })
}

// fetchers are parts of the User-Agent of fetchers. First is what they call themselves, and the address of somebody who
// answers for them. Then come those that say neither.
var fetchers = []string{
	"bot", "crawl", "spider", "preview", "embedly", "embedder", "scanner", "+http", "; http", "meta-external",
	"imageproxy", "mailproxy",
	"facebookexternalhit", "slack-imgproxy", "whatsapp", "mastodon", "bluesky", "cardyb", "iframely", "google-pagerenderer",
	"viber", "vkshare", "rocket.chat", "synapse", "dendrite", "zulip", "lemmy", "tumblr/", "conversations/", "movim",
	"webexteams", "dingtalk", "larkurl", "outlookmobilecloud", "barracuda", "urldefense",
}

// noFetchers are parts of the User-Agent of others that would be taken for fetchers: a maker of phones, and what
// scripts fetch with.
var noFetchers = []string{"cubot", "node-fetch/1.0 (+https://github.com/bitinn/node-fetch)"}

// errAhead refuses to fetch an item with a limit in advance.
var errAhead = &record.Error{Fault: record.Busy, Code: "no_prefetch", Text: "This item cannot be fetched in advance."}

// see counts a view of an item or a collection with the conditions r. Each counted view of one
// with a limit is written to the disk at once, so a network may cause only so many.
func see(c *web.Request, r *record.Record, what history.Delivered) error {
	if r.Limit > 0 && c.Addr.IsValid() {
		if wait := c.Site.Limits.Opens.Take(limit.Network(c.Addr), 1, c.Site.Store.Now()); wait > 0 {
			return &record.Error{
				Fault: record.TooMany, Code: "too_many_views", Retry: wait,
				Text: "You opened too many items with a limit of views. Try again " + record.In(wait) + ".",
			}
		}
	}
	return catalog.Seen(c.Site.Store, r, visit(c, r, what))
}

// visit is the request as a visit of the item. The visitor's network is only for the log.
func visit(c *web.Request, r *record.Record, what history.Delivered) history.Visit {
	v := history.Visit{What: what, Device: history.DeviceOf(c.R.UserAgent())}
	if host := history.ReferringHost(c.R.Referer()); !c.Site.IsOwnHost(host) {
		v.Referrer = host
	}
	if r.Logged {
		bits := 24
		if c.Addr.Is6() {
			bits = 48
		}
		if p, err := c.Addr.Prefix(bits); err == nil { // a socket without a proxy has no address
			v.Network = p.String()
		}
	}
	return v
}
