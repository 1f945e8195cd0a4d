package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"

	"kist/embed"
	"kist/httpapi/public"
	"kist/httpapi/session"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/record"
)

// viewAnything answers at the root with whatever has the slug.
func viewAnything(c *web.Request) error {
	r, who, err := public.Find(c, c.Arg("slug"), record.Kinds)
	if kv.Missing(err) {
		if q, err := upload.OpenRequest(c, c.Arg("slug")); err == nil {
			return session.Redirect(c, "/up/"+url.PathEscape(q.Slug))
		}
	}
	if err != nil {
		return public.NotOpen(c, err) // it needs no password then
	}
	refuse, show := public.RefuseItem, public.View
	if r.Kind == record.Links {
		refuse, show = public.RefuseLink, public.RedirectLink
	}
	if err := public.Unlock(c, r, who); err != nil {
		return refuse(c, r, err)
	}
	return show(c, r, who)
}

var viewAnythingOp = web.PageOp(viewAnything, 302, 303, 401, 404, 410, 429, 503).ForVisitors().Found(findsAnything)

// findsAnything fails with Missing if nothing that the caller may see has the slug.
func findsAnything(c *web.Request) error {
	_, _, err := public.Find(c, c.Arg("slug"), record.Kinds)
	if kv.Missing(err) {
		_, err = upload.OpenRequest(c, c.Arg("slug"))
	}
	return err
}

func readReference(c *web.Request) error { return c.RespondPage(http.StatusOK, embed.ReferencePage{}) }

// readAsset answers with a file for the pages. Its name changes with its content, so it
// may be cached forever.
func readAsset(c *web.Request) error {
	a, ok := embed.Static(c.Arg("name"))
	if !ok {
		return record.NotFound("file")
	}
	h := c.W.Header()
	h.Set("Content-Type", a.Type)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body, tag := a.Bytes, a.ETag
	if a.GzipETag != "" && web.TakesGzip(c.R) {
		h.Set("Content-Encoding", "gzip")
		body, tag = a.Gzip, a.GzipETag
	}
	return c.UnlessUnchanged(tag, body)
}

// readRobots asks search engines to stay away from the API. Pages say for themselves that they are not to be listed.
func readRobots(c *web.Request) error {
	c.W.Header().Set("Content-Type", "text/plain; charset=utf-8")
	return c.UnlessUnchanged(`"1"`, func() []byte {
		return []byte("User-agent: *\nDisallow: " + c.Site.Prefix() + "/api/\n")
	})
}

// readFavicon redirects programs that ask for the icon at its old address.
func readFavicon(c *web.Request) error {
	name, err := embed.Name("app-192.png")
	if err != nil {
		return err
	}
	return session.Redirect(c, "/static/"+name)
}

// readKinds answers with the views of the kinds, in the language that the client prefers.
func readKinds(c *web.Request) error {
	h := c.W.Header()
	h.Set("Content-Type", web.JSONType)
	h.Set("Cache-Control", "public, no-cache")
	h.Set("Vary", "Accept-Language")
	views := web.Views(embed.Preferred(c.R.Header.Get("Accept-Language")))
	sum := sha256.Sum256(views)
	return c.UnlessUnchanged(`"`+hex.EncodeToString(sum[:10])+`"`, func() []byte { return views })
}

// readExtension answers with the browser extension. Its address stays when it
// changes, so that it is asked for again each time, at the cost of its tag.
func (s *Server) readExtension(c *web.Request) error {
	archive, err := s.extension()
	if err != nil {
		return err
	}
	h := c.W.Header()
	h.Set("Content-Type", "application/zip")
	h.Set("Content-Disposition", `attachment; filename="kist-extension.zip"`)
	h.Set("Cache-Control", "public, no-cache")
	return c.UnlessUnchanged(archive.ETag, func() []byte { return archive.Bytes })
}
