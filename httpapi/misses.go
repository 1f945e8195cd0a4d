package httpapi

import (
	"path"
	"strings"

	"kist/httpapi/grant"
	"kist/httpapi/limit"
	"kist/httpapi/public"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
)

// hasGrant reports whether the visitor has a grant for the item with the name, which is a
// slug, possibly with an extension.
func hasGrant(c *web.Request, name string) bool {
	for _, slug := range []string{name, strings.TrimSuffix(name, path.Ext(name))} {
		var r *record.Record
		err := c.Site.Store.View(func(tx *kv.Tx) (err error) { r, err = catalog.Slug(tx, slug); return err })
		if err != nil {
			continue
		}
		if public.Granted(c, grant.ToRead, r) || public.Granted(c, grant.ToUnlock, r) {
			return true
		}
		if c.AtContentOrigin() && public.Granted(c, grant.ToEnter, r) {
			return true
		}
	}
	if q, err := upload.OpenRequest(c, name); err == nil && public.Granted(c, grant.ToUnlock, upload.Lock(q)) {
		return true
	}
	_, err := public.RemovedFileAt(c, name)
	return err == nil
}

// serveCounted serves an address in which the name of an item could be guessed. A visitor with too many misses
// can only see items for which they have a grant, until the window is over.
func (s *Server) serveCounted(c *web.Request, name string, serve func(*web.Request) error) error {
	network, now := limit.Network(c.Addr), s.Store.Now()
	if wait := s.Limits.Misses.Wait(network, now); wait > 0 && !hasGrant(c, name) {
		return &record.Error{
			Fault: record.TooMany, Code: "too_many_misses", Retry: wait,
			Text: "You opened too many links that do not exist. Try again " + record.In(wait) + ".",
		}
	}
	err := serve(c)
	if kv.Missing(err) {
		s.Limits.Misses.Count(network, name, s.Store.Now())
	}
	return err
}
