package linkcheck

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"kist/httpapi/thumb"
	"kist/kv/record"
)

// Bounds for fetching an icon.
const (
	maxLinks  = 32 // links to icons that are read from a page
	maxHref   = 2 << 10
	maxLinked = 3                // linked pictures that are requested, in addition to /favicon.ico
	iconTime  = 12 * time.Second // for all requests
)

// An iconLink is a page's link to an icon (HTML, section 4.6.7.8).
type iconLink struct {
	href  string
	edge  int  // in pixels; the most suitable if there are several; 0 if unknown
	ico   bool // probably contains several pictures
	png   bool
	touch bool // meant for the home screens of phones
}

// readIconLink reads the attributes of a link. It returns false if the link is not to an icon that
// can be shown.
func readIconLink(attributes iter.Seq2[string, string]) (l iconLink, got bool) {
	media, sizes := "", ""
	for key, value := range attributes {
		switch key {
		case "rel":
			for word := range strings.FieldsSeq(strings.ToLower(value)) {
				switch word {
				case "icon":
					got = true
				case "apple-touch-icon", "apple-touch-icon-precomposed":
					got, l.touch = true, true
				}
			}
		case "href":
			l.href = strings.TrimSpace(value)
		case "type":
			media, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(value)), ";")
		case "sizes":
			sizes = value
		}
	}
	if !got || l.href == "" || len(l.href) > maxHref {
		return l, false
	}
	end, _, _ := strings.Cut(l.href, "?")
	end, _, _ = strings.Cut(strings.ToLower(end), "#")
	switch ext := path.Ext(end); {
	case media == "image/svg+xml", media == "" && (ext == ".svg" || ext == ".svgz"):
		return l, false
	case media == "image/png", media == "" && ext == ".png":
		l.png = true
	case media == "image/x-icon", media == "image/vnd.microsoft.icon", media == "" && ext == ".ico":
		l.ico = true
	case media != "" && media != "image/jpeg" && media != "image/gif" && media != "image/webp":
		return l, false
	}
	for word := range strings.FieldsSeq(strings.ToLower(sizes)) {
		w, h, _ := strings.Cut(word, "x")
		across, err := strconv.ParseUint(w, 10, 16)
		down, err2 := strconv.ParseUint(h, 10, 16)
		if err != nil || err2 != nil {
			continue
		}
		if other := (iconLink{edge: int(max(across, down))}); l.edge == 0 || compareIcons(other, l) < 0 {
			l.edge = other.edge
		}
	}
	return l, true
}

// suits ranks an icon; less is better. Icons are shown 32 pixels wide, or 64 on fine screens, and
// look best if they were drawn for that size.
func (l iconLink) suits() int {
	switch edge := l.edge; {
	case edge == 0 && l.touch: // usually 180
		return 1
	case edge == 0:
		return 2
	case edge < thumb.IconEdge/2:
		return 3
	case edge <= thumb.IconEdge:
		return 0
	case edge <= 256:
		return 1
	}
	return 4
}

// compareIcons is negative if a is more suitable than b.
func compareIcons(a, b iconLink) int {
	larger := cmp.Compare(b.edge, a.edge)
	if a.edge > thumb.IconEdge {
		larger = -larger
	}
	got := func(b bool) int {
		if b {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(a.suits(), b.suits()), got(a.png)-got(b.png), got(!a.touch)-got(!b.touch), larger, got(a.ico)-got(b.ico),
	)
}

// iconsOf are the addresses where the icon of page p may be, best first. at is the page's address.
func iconsOf(p page, at *url.URL) (all []*url.URL) {
	base := p.baseAt(at)
	add := func(u *url.URL) {
		u.Fragment, u.RawFragment = "", ""
		if (u.Scheme == "http" || u.Scheme == "https") && !slices.ContainsFunc(all, func(x *url.URL) bool {
			return *x == *u
		}) {
			all = append(all, u)
		}
	}
	links := slices.Clone(p.icons)
	slices.SortStableFunc(links, compareIcons)
	for _, l := range links {
		if u, err := base.Parse(l.href); err == nil && len(all) < maxLinked {
			add(u)
		}
	}
	add(&url.URL{Scheme: at.Scheme, Host: at.Host, Path: "/favicon.ico"})
	return all
}

// icon ensures that the icon of the site that answered for a page is stored, if it has one. It
// returns the site, or zero if there is no icon. It calls read, which reads the page, only if the
// icon must be fetched.
func (c *client) icon(ctx context.Context, by response, read func() response) record.ID {
	site := record.SiteKey(by.at)
	if !by.busy && c.icons.Wants(site) {
		if p := read(); p.at != nil && !p.busy && record.SiteKey(p.at) == site {
			// only the page names other hosts, so do not extend what is allowed
			owned := &client{c.Only(p.at.Hostname()), c.icons, c.log}
			owned.fetch(ctx, site, iconsOf(p.page, p.at))
		}
	}
	if _, got := c.icons.Get(site); !got {
		return record.ID{}
	}
	return site
}

// fetch stores the first of the pictures that can be shown.
func (c *client) fetch(ctx context.Context, site record.ID, from []*url.URL) {
	ctx, cancel := context.WithTimeout(ctx, iconTime)
	defer cancel()
	for _, u := range from {
		data, err := c.picture(ctx, u, thumb.MaxIcon)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			continue
		}
		err = c.icons.Put(ctx, site, data)
		if errors.Is(err, thumb.ErrNone) && ctx.Err() == nil {
			continue
		}
		if err != nil && ctx.Err() == nil {
			c.log.Error("cannot store an icon", "error", err)
		}
		return
	}
}

var errNoPicture = errors.New("linkcheck: no picture")

// picture fetches what may be a picture of at most so many bytes, to be judged by its bytes.
func (c *client) picture(ctx context.Context, at *url.URL, most int64) ([]byte, error) {
	res, err := c.send(ctx, http.MethodGet, at.String(), "image/png, image/*;q=0.8, */*;q=0.1")
	if err != nil {
		return nil, errNoPicture
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, errNoPicture
	}
	data, err := io.ReadAll(io.LimitReader(decoded(res), most+1))
	if err != nil || int64(len(data)) > most {
		return nil, errNoPicture
	}
	return data, nil
}
