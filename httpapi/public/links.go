package public

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/history"
	"kist/kv/people"
	"kist/kv/record"
)

var FollowLink = web.Operation{
	Tag: "public", Reply: web.Reply{Status: 302}, Fails: []int{200, 401, 404, 410, 429, 503}, Slugs: true,
	Serve: followLink,
}.Found(findsLink)

// findsLink fails with Missing if no short link that the caller may follow has the slug.
func findsLink(c *web.Request) error {
	_, _, err := Find(c, c.Arg("slug"), []*record.Kind{record.Links})
	return err
}

// followLink redirects to the target of a short link.
func followLink(c *web.Request) error {
	r, who, err := shared(c, c.Arg("slug"), record.Links)
	if err != nil {
		return RefuseLink(c, r, err)
	}
	return RedirectLink(c, r, who)
}

// RefuseLink is RefuseItem for a short link. A client that takes no pages gets the error.
func RefuseLink(c *web.Request, r *record.Record, err error) error {
	if !web.TakesPage(c.W, c.R) {
		return err
	}
	return refuse(c, r, thenLink, err)
}

// RedirectLink redirects a short link (RFC 9110, section 15.4.3) and counts the click. The
// target of a link with a limit is shown only in exchange for a click.
func RedirectLink(c *web.Request, r *record.Record, who viewer) error {
	b, err := r.Decode()
	if err != nil {
		return err
	}
	target := b.(*record.Link).URL // the kind is checked
	if linkAt(c.Site, target) != "" {
		var back bool
		if err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
			back, err = leadsBack(c.Site, tx, r.Slug, target)
			return err
		}); err != nil {
			return err
		}
		if back { // a loop, maybe because the server's address changed
			return View(c, r, who)
		}
	}
	h := c.W.Header()
	h["Cache-Control"] = web.HeadNoStore
	if r.Limit > 0 && !who.inside() && c.R.Method == http.MethodHead {
		c.W.WriteHeader(http.StatusOK)
		return nil
	}
	counts, err := counts(c, r, who)
	if err == errCard { //nolint:errorlint // never wrapped
		return card(c, r)
	}
	if err != nil {
		return err
	}
	if counts {
		if err := see(c, r, history.VisitRedirect); err != nil {
			return err
		}
	}
	h["Location"] = []string{field.SentURL(target)}
	c.W.WriteHeader(http.StatusFound)
	return nil
}

// linkAt is the slug if the address is a short link of this server, otherwise "".
func linkAt(s *web.Site, address string) string {
	name := strings.TrimPrefix(pathAt(s.BaseURL, address), "s/")
	if strings.Contains(name, "/") {
		return ""
	}
	return name
}

// pathAt is the path of an address below a base of this server's addresses; "" for an address elsewhere, or of a
// folder. It considers how addresses vary: HTTP may redirect to HTTPS, and a proxy may merge slashes.
func pathAt(base *url.URL, address string) string {
	if !strings.Contains(strings.ToLower(address), strings.ToLower(base.Hostname())) { // usually not
		return ""
	}
	u, err := field.ParseURL(address)
	if err != nil || strings.TrimSuffix(
		web.CanonicalHost(u.Scheme, u.Host), ".",
	) != web.CanonicalHost(base.Scheme, base.Host) || strings.HasSuffix(u.Path, "/") {
		return ""
	}
	below, ok := strings.CutPrefix(path.Clean(u.Path), strings.TrimSuffix(base.Path, "/")+"/")
	if !ok {
		return ""
	}
	return below
}

// maxHops is how many short links in a row are followed, about as many as browsers follow.
const maxHops = 20

// leadsBack reports whether the target of the slug's short link is that link itself, or leads
// to it through others that anyone may follow at any time. It does not follow links with a
// password or a limit.
func leadsBack(s *web.Site, tx *kv.Tx, slug, target string) (bool, error) {
	for range maxHops {
		next := linkAt(s, target)
		if next == slug || next == "" {
			return next != "", nil
		}
		r, err := catalog.Slug(tx, next)
		if kv.Missing(err) || err == nil && (r.Kind != record.Links || !r.OpenToAll() || r.Open(tx.Now) != nil) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if shut, err := people.Disabled(tx, r.Owner); shut || err != nil {
			return false, err
		}
		b, err := r.Decode()
		if err != nil {
			return false, err
		}
		target = b.(*record.Link).URL // the kind is checked
	}
	return false, nil
}

// LinkTarget is the slug and the target in a short link's form. Other forms have no target.
func LinkTarget(f *record.Form) (a [2]string) {
	if link, ok := f.Body.(*record.Link); ok {
		a = [2]string{f.Slug, link.URL}
	}
	return a
}

// CheckTarget refuses a form of a short link that would lead back to itself, unless it did so
// before. before is the previous LinkTarget. A slug that is still to be chosen needs no
// check, because nobody can know it yet.
func CheckTarget(s *web.Site, tx *kv.Tx, f *record.Form, before [2]string) error {
	now := LinkTarget(f)
	if now[0] == "" {
		now[0] = before[0]
	}
	if now == before || now[0] == "" || now[1] == "" {
		return nil
	}
	back, err := leadsBack(s, tx, now[0], now[1])
	if back {
		err = field.Problems{"originalUrl": "must not lead back to this short link"}
	}
	return err
}
