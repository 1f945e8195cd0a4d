package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kist/embed"
	"kist/kv/record"
)

// ContentOrigin checks the address of an origin that stored bytes are to be
// served from, beside a server at base, and returns it as [Config] takes it.
// The error says what such an address must be.
func ContentOrigin(address, base string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	of, err := url.Parse(base)
	if err != nil {
		return "", fmt.Errorf("is beside a base address that cannot be read: %w", err)
	}
	origin := u.Scheme + "://" + canonicalHost(u.Scheme, u.Host)
	switch {
	case u.Hostname() == "", u.User != nil, u.Path != "" && u.Path != "/", u.RawQuery != "", u.ForceQuery, u.Fragment != "", !embed.IsOrigin(origin):
		return "", fmt.Errorf("must be an absolute http or https address without path, query and fragment, such as https://kist-content.example.org; it is %q", address)
	case canonicalHost(u.Scheme, u.Host) == canonicalHost(u.Scheme, of.Host), canonicalHost(of.Scheme, u.Host) == canonicalHost(of.Scheme, of.Host):
		return "", fmt.Errorf("must have another host than the base URL, %s: the point is that what is stored has an origin of its own", base)
	case of.Scheme == "https" && u.Scheme == "http":
		return "", errors.New("must be an https address as the base URL is: browsers show nothing of http in pages of https")
	}
	return origin, nil
}

// canonicalHost is a host with its port as origins compare them (RFC 6454,
// section 4): in lower case, without a port that is the scheme's own.
func canonicalHost(scheme, host string) string {
	port := ":80"
	if scheme == "https" {
		port = ":443"
	}
	return strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(host), port), ":")
}

// atContent reports whether a request came to the origin for content, if there
// is one apart.
func (s *site) atContent(r *http.Request) bool {
	return s.Content != "" && canonicalHost(s.contentScheme, s.host(r)) == s.contentHost
}

// atContentOrigin reports whether the call came to the origin for content, if there is
// one apart. Nothing but content is there, and nobody is known there but by
// grants.
func (c *request) atContentOrigin() bool { return c.w.away }

// redirectToContent sends the caller on to the origin for content, with what the caller
// has a right to here and for no longer.
func (c *request) redirectToContent(r *record.Record, owned bool, at string) error {
	rights, err := c.contentGrants(r, owned, false)
	if err != nil {
		return err
	}
	return c.redirectWithGrants(at, rights, openToAll(r))
}

// redirectToRemovedFile is redirectToContent for a file whose record is removed.
func (c *request) redirectToRemovedFile(p removedFile, at string) error {
	p.Visitor = c.visitor()
	text, err := c.s.grants.sealRemovedFile(p)
	if err != nil {
		return err
	}
	return c.redirectWithGrants(at, []string{"." + text}, false)
}

// redirectWithGrants redirects to the same name at a path of the origin for content.
func (c *request) redirectWithGrants(at string, rights []string, open bool) error {
	q := url.Values{}
	if len(rights) > 0 {
		q[grantParam] = rights
	}
	if c.asDownload() {
		q.Set(saveParam, "1")
	}
	to := c.s.Content + at + url.PathEscape(c.arg("slug"))
	if len(q) > 0 {
		to += "?" + q.Encode()
	}
	return c.redirectContent(to, open)
}

// redirectContent redirects from an address of content to another address.
func (c *request) redirectContent(to string, open bool) error {
	h := c.w.Header()
	hostile(h, "text/plain", "", false, open)
	h.Del("Content-Type") // there is none
	h.Set("Cache-Control", "private, no-store")
	h.Set("Location", to)
	c.w.WriteHeader(http.StatusFound)
	return nil
}

// contentGrants are grants, for an address of content, of what the caller has a right
// to; paid says that this request is a view. What a grant that was shown gave
// ends when that does, however often it is passed on.
func (c *request) contentGrants(r *record.Record, owned, paid bool) ([]string, error) {
	now := c.s.Store.Now()
	ends := map[grant]time.Time{}
	separate := c.s.Content != "" // where the session and the cookie of the password are not
	read, reads := c.grantEnds(toRead, r)
	unlocked, unlocks := c.grantEnds(toUnlock, r)
	switch {
	case owned && separate:
		ends[toOwn] = now.Add(ownTime)
	case owned:
	case reads:
		ends[toRead] = read
	case paid:
		ends[toRead] = now.Add(readTime)
	case r.Password != "" && !unlocks: // the password itself was sent
		ends[toUnlock] = now.Add(readTime)
	}
	if separate && !owned && unlocks {
		ends[toUnlock] = unlocked
	}
	var all []string
	add := func(kind grant, ends time.Time, visitor string) error {
		text, err := c.newAddressGrant(kind, r, ends, visitor)
		all = append(all, text)
		return err
	}
	for _, kind := range []grant{toOwn, toRead, toUnlock} {
		at, ok := ends[kind]
		var err error
		if ok && separate && roams(r) {
			soon := now.Add(readTime)
			if at.Before(soon) {
				soon = at
			}
			err = add(kind, soon, anywhere)
			ok = at.After(soon) // for who comes from one network: a film is not over by then
		}
		if ok && err == nil {
			err = add(kind, at, c.visitor())
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// backToPage sends a person who opens an address at the origin for content
// that does not hold any more to the item's page, which asks for what is
// missing or says what is wrong.
func (c *request) backToPage(err error) error {
	_, status := clientError(err)
	slug := c.arg("slug")
	if slug == "" || status != http.StatusNotFound && status != http.StatusUnauthorized || c.r.Header.Get("Sec-Fetch-Dest") != "document" {
		return err
	}
	return c.redirectContent(c.s.Base+"/v/"+url.PathEscape(slug), false)
}
