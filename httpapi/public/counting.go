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
// limit the last fail: with errCard for a preview, otherwise with errAhead. A redirect
// counts each time.
func counts(c *web.Request, r *record.Record, owned bool) (bool, error) {
	switch {
	case owned, c.R.Method == http.MethodHead, r.Kind != record.Links && (Granted(c, grant.ToRead, r) || resumes(c, r)):
		return false, nil
	case r.Limit > 0 && isPreview(c):
		return false, errCard
	case r.Limit > 0 && isPrefetch(c):
		return false, errAhead
	}
	return !IsPrefetchOrPreview(c), nil
}

// errCard says that the answer must show only the title of the item.
var errCard = errors.New("a card instead of the item")

// IsPrefetchOrPreview reports whether no person has asked for the item yet: a browser fetches
// it in advance, or a messenger fetches a preview.
func IsPrefetchOrPreview(c *web.Request) bool { return isPrefetch(c) || isPreview(c) }

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

// isPreview reports whether a messenger fetches a preview of the link.
func isPreview(c *web.Request) bool {
	agent := strings.ToLower(c.R.UserAgent())
	return slices.ContainsFunc(previewers, func(name string) bool { return strings.Contains(agent, name) })
}

// previewers are parts of the User-Agent of programs that fetch link previews.
var previewers = []string{
	"slackbot", "slack-imgproxy", "discordbot", "telegrambot", "whatsapp", "facebookexternalhit", "facebot", "twitterbot",
	"linkedinbot", "skypeuripreview", "pinterestbot", "redditbot", "mastodon", "bluesky", "cardyb", "iframely", "embedly",
	"google-pagerenderer", "bingpreview", "viber", "vkshare", "mattermost-bot", "rocket.chat", "synapse", "zulip",
}

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
