package public

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"kist/embed"
	"kist/httpapi/grant"
	"kist/httpapi/web"
	"kist/kv/record"
)

// ContentOrigin checks the address of a separate origin for stored bytes, for a server at
// base, and returns it in the form that web.Config needs. The error says what the address
// must be.
func ContentOrigin(address, base string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	of, err := url.Parse(base)
	if err != nil {
		return "", fmt.Errorf("cannot be compared with the base URL: %w", err)
	}
	origin := u.Scheme + "://" + web.CanonicalHost(u.Scheme, u.Host)
	switch {
	case u.Hostname() == "", u.User != nil, u.Path != "" && u.Path != "/", u.RawQuery != "", u.ForceQuery, u.Fragment != "", !embed.IsOrigin(origin):
		return "", fmt.Errorf(
			"must be an absolute http or https address without path, query and fragment, such as "+
				"https://kist-content.example.org; it is %q",
			address,
		)
	case web.CanonicalHost(u.Scheme, u.Host) == web.CanonicalHost(u.Scheme, of.Host), web.CanonicalHost(of.Scheme, u.Host) == web.CanonicalHost(of.Scheme, of.Host):
		return "", fmt.Errorf(
			"must have another host than the base URL, %s, so that stored bytes have a separate origin", base,
		)
	case of.Scheme == "https" && u.Scheme == "http":
		return "", errors.New("must be an https address like the base URL, because browsers block http content in https pages")
	}
	return origin, nil
}

// redirectToContent redirects to the origin for content with grants for what the caller may
// see here, which end when the caller's rights end.
func redirectToContent(c *web.Request, r *record.Record, who viewer, at string) error {
	rights, err := contentGrants(c, r, who, false)
	if err != nil {
		return err
	}
	return redirectWithGrants(c, at, rights, r.OpenToAll())
}

// redirectToRemovedFile is redirectToContent for a file whose record is removed.
func redirectToRemovedFile(c *web.Request, p grant.RemovedFile) error {
	p.Visitor = visitor(c)
	text, err := c.Site.Grants.SealRemovedFile(p)
	if err != nil {
		return err
	}
	return redirectWithGrants(c, "/x/", []string{"." + text}, false)
}

// redirectWithGrants redirects to a path at the origin for content, with the same slug.
func redirectWithGrants(c *web.Request, at string, rights []string, open bool) error {
	q := url.Values{}
	if len(rights) > 0 {
		q[grantParam] = rights
	}
	if AsDownload(c) {
		q.Set(saveParam, "1")
	}
	if size := c.R.URL.Query().Get(sizeParam); size != "" {
		q.Set(sizeParam, size)
	}
	if items := c.R.URL.Query()[itemsParam]; len(items) > 0 {
		q[itemsParam] = items
	}
	to := c.Site.Content + at + url.PathEscape(c.Arg("slug"))
	for _, below := range []string{c.Arg("item"), c.Arg("file")} {
		if below != "" {
			to += "/" + url.PathEscape(below)
		}
	}
	if len(q) > 0 {
		to += "?" + q.Encode()
	}
	return redirectContent(c, to, open)
}

// redirectContent redirects from an address of content to another address.
func redirectContent(c *web.Request, to string, open bool) error {
	h := c.W.Header()
	web.SetContentHeaders(h, "text/plain", web.UTF8, "", false, open)
	h.Del("Content-Type") // no body
	h.Set("Cache-Control", "private, no-store")
	h.Set("Location", to)
	c.W.WriteHeader(http.StatusFound)
	return nil
}

// contentGrants are the grants for an address of content. They cover what the caller may
// see. paid says that this request is a view. A grant based on another one ends at the same
// time, however often this is repeated.
func contentGrants(c *web.Request, r *record.Record, who viewer, paid bool) ([]string, error) {
	now := c.Site.Store.Now()
	ends := map[grant.Kind]time.Time{}
	separate := c.Site.Content != "" // which gets neither the session nor the password's cookie
	read, reads := grantEnds(c, grant.ToRead, r)
	unlocked, unlocks := grantEnds(c, grant.ToUnlock, r)
	switch {
	case who.inside() && separate:
		ends[grant.ToEnter] = now.Add(OwnTime)
	case who.inside():
	case reads:
		ends[grant.ToRead] = read
	case paid:
		ends[grant.ToRead] = now.Add(ReadTime)
	case r.Password != "" && !unlocks: // the password itself was sent
		ends[grant.ToUnlock] = now.Add(ReadTime)
	}
	if separate && !who.inside() && unlocks {
		ends[grant.ToUnlock] = unlocked
	}
	var all []string
	add := func(kind grant.Kind, ends time.Time, visitor string) error {
		text, err := newAddressGrant(c, kind, r, ends, visitor)
		all = append(all, text)
		return err
	}
	for _, kind := range []grant.Kind{grant.ToEnter, grant.ToRead, grant.ToUnlock} {
		at, ok := ends[kind]
		if !ok {
			continue
		}
		if separate && roams(r) {
			soon := now.Add(ReadTime)
			if at.Before(soon) {
				soon = at
			}
			if err := add(kind, soon, anywhere); err != nil {
				return nil, err
			}
			if !at.After(soon) {
				continue
			}
			// A longer one for the same network follows, since a film takes longer.
		}
		if err := add(kind, at, visitor(c)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// BackToPage handles an address at the origin for content that is no longer valid and that a
// person opens. It redirects to the item's page, which asks for what is missing or says what
// is wrong.
func BackToPage(c *web.Request, err error) error {
	_, status := web.ClientError(err)
	slug := c.Arg("slug")
	if slug == "" || status != http.StatusNotFound && status != http.StatusUnauthorized ||
		c.R.Header.Get("Sec-Fetch-Dest") != "document" {
		return err
	}
	return redirectContent(c, c.Site.Base+"/v/"+url.PathEscape(slug), false)
}
