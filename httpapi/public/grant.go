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
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
)

// How long grants hold.
const (
	ReadTime   = 10 * time.Minute // after a view that was counted
	UnlockTime = 12 * time.Hour   // after the right password
	OwnTime    = 12 * time.Hour   // for the owner, at the origin for content
)

// grantParam carries a grant in the addresses that a page embeds, or several,
// of which no more than maxGrants are looked at.
const (
	grantParam = "g"
	maxGrants  = 2
)

// visitor is what a grant in an address is bound to.
func visitor(c *web.Request) string { return "from " + grant.Network(c.Addr).String() }

// anywhere is what a grant in an address is bound to that roams.
const anywhere = "anywhere"

// roams reports whether grants for the item in addresses of the origin for
// content may hold whatever network they come from, for readTime at most: the
// visitor may reach the two origins by different ones, such as IPv4 and IPv6.
//
// Anyone who is given such an address has what its grant opens. That is nothing
// of what its owner limits or locks, which counts and passwords must guard to
// the byte: the grant does not hold once the item has either. Of what is public
// besides, a read grant opens nothing, and only spares a count. Of what is
// private, the owner's opens the bytes, which is why it is short, and ends with
// the session. Other sites learn no such address: it is told to the owner
// alone, is in no Referer, and stored bytes have no scripts. Against scripts
// in the visitor's own browser the network was no guard.
func roams(r *record.Record) bool { return r.Limit == 0 && r.Password == "" }

// CookieName is the name of the cookie with a grant for the item of the slug,
// which has characters that names of cookies may not have.
func CookieName(kind grant.Kind, slug string) string {
	digest := sha256.Sum256([]byte(slug))
	return CookiePrefix(kind) + hex.EncodeToString(digest[:8])
}

func CookiePrefix(kind grant.Kind) string { return "kist_" + string(kind) + "_" }

// How many grants of a kind a visitor keeps as cookies, and how many bytes
// they may be: browsers send all of them with every request, whose head has at
// most headBytes.
const (
	MaxCookies     = 40
	MaxCookieBytes = 10 << 10
)

// excess are the names of the cookies with grants of the kind that a visitor
// has to give up for another: the oldest, by when they end, so that those that
// have ended and those that are none go first.
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

// grantsInRequest are the texts of grants for the item of the slug that the request
// carries, and what each is bound to.
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

// grantEnds is when the visitor's grant for the item ends, of several the last.
func grantEnds(c *web.Request, kind grant.Kind, r *record.Record) (ends time.Time, ok bool) {
	now := c.Site.Store.Now()
	for text, visitor := range grantsInRequest(c, kind, r.Slug) {
		text, _, _ = strings.Cut(text, ".")
		end, by, holds := c.Site.Grants.Holds(text, kind, r, now, visitor)
		if !holds && visitor != "" && roams(r) {
			end, by, holds = c.Site.Grants.Holds(text, kind, r, now, anywhere)
		}
		if holds && (kind != grant.ToOwn || c.Site.Owns(by, r)) {
			ok = true
			if end.After(ends) {
				ends = end
			}
		}
	}
	return ends, ok
}

// removedFileOf is what a visitor may go on reading of a file that the visitor's own
// view has removed.
func removedFileOf(c *web.Request, slug string) (grant.RemovedFile, error) {
	for text, visitor := range grantsInRequest(c, grant.ToRead, slug) {
		_, text, _ = strings.Cut(text, ".")
		p, err := c.Site.Grants.OpenRemovedFile(text, slug, c.Site.Store.Now(), visitor)
		if err != nil {
			continue
		}
		var spent bool // and not deleted by its owner
		err = c.Site.Store.View(func(tx *kv.Tx) (err error) { spent, err = catalog.Spent(tx, p.Owner, p.ID, p.Terms); return err })
		if err == nil && spent {
			return p, nil
		}
	}
	return grant.RemovedFile{}, grant.ErrNoPassing
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
	for _, name := range excess(c.R.Cookies(), kind, cookie) {
		http.SetCookie(c.W, &http.Cookie{Name: name, Path: at, MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: secure}) // #nosec G124 -- it is Secure on https
	}
	return nil
}

// newAddressGrant makes a grant for the item, with a passing, by which it is read to
// the end, if its limit may delete it.
func newAddressGrant(c *web.Request, kind grant.Kind, r *record.Record, ends time.Time, visitor string) (string, error) {
	var by record.ID
	if kind == grant.ToOwn {
		by = c.Caller.Key.ID // who has it is known by that here, and by nothing else
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
		RemovedFileHead: grant.RemovedFileHead{ID: r.ID, Owner: r.Owner, Ref: r.Bytes.Ref, Size: r.Bytes.Size, Ends: uint32(ends.Unix()), Terms: r.Terms()}, Media: f.MimeType, Name: f.OriginalName, Slug: r.Slug, Visitor: visitor,
	})
	return text + "." + p, err
}
