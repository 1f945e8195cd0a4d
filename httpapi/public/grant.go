package public

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	"kist/httpapi/grant"
	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
)

// How long grants are valid.
const (
	ReadTime   = 10 * time.Minute // after a counted view
	UnlockTime = 12 * time.Hour   // after the right password
	OwnTime    = 12 * time.Hour   // for the owner, at the origin for content
)

// rawPath begins the addresses of raw content.
const rawPath = "/x/"

// grantParam is the parameter for grants in addresses that a page embeds. Only the first
// maxGrants values are read.
const (
	grantParam = "g"
	maxGrants  = 2
)

// visitor is what a grant in an address is bound to.
func visitor(c *web.Request) string { return "from " + limit.Network(c.Addr).String() }

// anywhere is what a roaming grant in an address is bound to.
const anywhere = "anywhere"

// roams reports whether grants for the item in addresses of the origin for content are valid
// from any network, for at most ReadTime. A visitor may reach the two origins from different
// networks, such as by IPv4 and IPv6.
//
// Anyone who gets such an address can use its grant. So a grant roams only if the item has no
// limit and no password, which must protect every byte, and it ends once the item gets one.
// For a public item, a read grant opens nothing and only avoids a second count. For a private
// item, the owner's grant opens the bytes. Therefore it is short and ends with the session.
// Other sites cannot learn the address: only the owner sees it, no Referer has it, and stored
// bytes run no scripts. Binding to the network would not stop scripts in the visitor's own
// browser.
func roams(r *record.Record) bool { return r.Limit == 0 && r.Password == "" }

// CookieName is the name of the cookie with a grant for the item with the slug. It has a hash
// because slugs may contain characters that cookie names may not.
func CookieName(kind grant.Kind, slug string) string {
	digest := sha256.Sum256([]byte(slug))
	return CookiePrefix(kind) + hex.EncodeToString(digest[:8])
}

func CookiePrefix(kind grant.Kind) string { return "kist_" + string(kind) + "_" }

// How many grants of a kind a visitor keeps as cookies, and their total size in bytes.
// Browsers send all of them with every request, whose head may have at most headBytes.
const (
	MaxCookies     = 40
	MaxCookieBytes = 10 << 10
)

// excess are the names of the cookies with grants of the kind that must be removed for
// another one: those that end first, so that expired and invalid ones are removed first.
func excess(have []*http.Cookie, kind grant.Kind, another *http.Cookie) (names []string) {
	type held struct {
		*http.Cookie
		ends uint32
	}
	var all []held
	for _, c := range have {
		if strings.HasPrefix(c.Name, CookiePrefix(kind)) && c.Name != another.Name {
			text, _, _ := strings.Cut(c.Value, ".")
			h := held{Cookie: c}
			if b, err := grant.GrantText.DecodeString(text); err == nil && len(b) == grant.GrantSize {
				h.ends = binary.BigEndian.Uint32(b)
			}
			all = append(all, h)
		}
	}
	slices.SortStableFunc(all, func(a, b held) int { return cmp.Compare(b.ends, a.ends) })
	n, size := 1, len(another.Name)+len(another.Value)
	for _, h := range all {
		n, size = n+1, size+len(h.Name)+len(h.Value)
		if n > MaxCookies || size > MaxCookieBytes {
			names = append(names, h.Name)
		}
	}
	return names
}

// grantsInRequest yields the texts in the request that may be grants for the item with the
// slug, and what each is bound to.
func grantsInRequest(c *web.Request, kind grant.Kind, slug string) func(func(text, visitor string) bool) {
	return func(yield func(text, visitor string) bool) {
		if c.R.URL.RawQuery != "" {
			all := c.R.URL.Query()[grantParam]
			for _, text := range all[:min(len(all), maxGrants)] {
				if !yield(text, visitor(c)) {
					return
				}
			}
		}
		if cookie, err := c.R.Cookie(CookieName(kind, slug)); err == nil {
			yield(cookie.Value, "")
		}
	}
}

// Granted reports whether the visitor has a grant for the item.
func Granted(c *web.Request, kind grant.Kind, r *record.Record) bool {
	_, ok := grantEnds(c, kind, r)
	return ok
}

// grantEnds is when the visitor's grant for the item ends; the latest time if there are
// several.
func grantEnds(c *web.Request, kind grant.Kind, r *record.Record) (ends time.Time, ok bool) {
	now := c.Site.Store.Now()
	for text, visitor := range grantsInRequest(c, kind, r.Slug) {
		text, _, _ = strings.Cut(text, ".")
		end, by, holds := c.Site.Grants.Holds(text, kind, r, now, visitor)
		if !holds && visitor != "" && roams(r) {
			end, by, holds = c.Site.Grants.Holds(text, kind, r, now, anywhere)
		}
		if holds && kind == grant.ToEnter {
			who, err := insiderWith(c, by, r)
			holds = err == nil && who.inside()
		}
		if holds {
			ok = true
			if end.After(ends) {
				ends = end
			}
		}
	}
	return ends, ok
}

// resumed is the grant for content at the slug that the visitor's network and program got within the
// last minutes. It is for requests of a part of raw content only, and "" for others.
func resumed(c *web.Request, slug string) string {
	if c.R.Method != http.MethodGet || !strings.HasPrefix(c.R.Header.Get("Range"), "bytes=") ||
		!strings.HasPrefix(c.R.URL.Path, rawPath) {
		return ""
	}
	return c.Site.Resumes.Of(slug, c.Addr, c.R.UserAgent())
}

// resumes reports whether the request goes on with content whose view was counted. Unlike a grant
// of the visitor's own, it opens no password.
func resumes(c *web.Request, r *record.Record) bool {
	text, _, _ := strings.Cut(resumed(c, r.Slug), ".")
	_, _, holds := c.Site.Grants.Holds(text, grant.ToRead, r, c.Site.Store.Now(), "")
	return holds
}

// removedFileOf returns the file that the visitor may continue to read although the visitor's
// own view has removed it.
func removedFileOf(c *web.Request, slug string) (grant.RemovedFile, error) {
	opens := func(text, visitor string) (grant.RemovedFile, error) {
		_, text, _ = strings.Cut(text, ".")
		return c.Site.Grants.OpenRemovedFile(text, slug, c.Site.Store.Now(), visitor)
	}
	var found []grant.RemovedFile
	for text, visitor := range grantsInRequest(c, grant.ToRead, slug) {
		if p, err := opens(text, visitor); err == nil {
			found = append(found, p)
		}
	}
	if p, err := opens(resumed(c, slug), ""); err == nil {
		found = append(found, p)
	}

	for _, p := range found {
		var spent bool // removed by its limit, not by its owner
		err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
			spent, err = catalog.Spent(tx, p.Owner, p.ID, p.Terms)
			return err
		})
		if err == nil && spent {
			return p, nil
		}
	}
	return grant.RemovedFile{}, grant.ErrNotSealed
}

// SetGrantCookie gives the visitor a grant as a cookie.
func SetGrantCookie(c *web.Request, kind grant.Kind, r *record.Record) error {
	limit := ReadTime
	if kind == grant.ToUnlock {
		limit = UnlockTime
	}
	text, err := newAddressGrant(c, kind, r, c.Site.Store.Now().Add(limit), "")
	if err != nil {
		return err
	}
	at, secure := c.Site.Prefix()+"/", c.Secure()
	if c.AtContentOrigin() {
		at = "/"
	}
	cookie := &http.Cookie{ // #nosec G124 -- it is Secure on https
		Name: CookieName(kind, r.Slug), Value: text, Path: at,
		MaxAge: int(limit.Seconds()), HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: secure,
	}
	http.SetCookie(c.W, cookie)
	if kind == grant.ToRead && r.Limit > 0 {
		if r.Password != "" { // a removed file could be read on without it
			text, _, _ = strings.Cut(text, ".")
		}
		c.Site.Resumes.Keep(r.Slug, c.Addr, c.R.UserAgent(), text)
	}
	for _, name := range excess(c.R.Cookies(), kind, cookie) {
		http.SetCookie(c.W, &http.Cookie{Name: name, Path: at, MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: secure}) // #nosec G124 -- it is Secure on https
	}
	return nil
}

// newAddressGrant makes a grant for the item. If the item's limit may delete it, the grant also
// has a sealed RemovedFile, with which it can be read to the end.
func newAddressGrant(
	c *web.Request, kind grant.Kind, r *record.Record, ends time.Time, visitor string,
) (string, error) {
	var by grant.Credential
	if kind == grant.ToEnter {
		by = grant.Credential{Account: c.Owner(), ID: c.Caller.Key.ID} // the only thing that identifies the caller there
	}
	text := c.Site.Grants.Make(kind, r, ends, by, visitor)
	if kind != grant.ToRead || r.AtLimit != record.Delete || r.Limit == 0 || r.Bytes == nil {
		return text, nil
	}
	b, err := r.Decode()
	if err != nil {
		return "", err
	}
	f := b.(*record.File) // nothing else has bytes
	if !r.Expires.IsZero() && r.Expires.Before(ends) {
		ends = r.Expires
	}
	p, err := c.Site.Grants.SealRemovedFile(grant.RemovedFile{
		RemovedFileHead: grant.RemovedFileHead{
			ID: r.ID, Owner: r.Owner, Ref: r.Bytes.Ref, Size: r.Bytes.Size, Ends: uint32(ends.Unix()), Terms: r.Terms(),
			KeepMetadata: r.KeepMetadata,
		}, Media: f.MimeType, Name: f.OriginalName, Slug: r.Slug, Visitor: visitor,
	})
	return text + "." + p, err
}
