package httpapi

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"kist/kv"
	"kist/kv/record"
)

// How long grants hold.
const (
	readTime   = 10 * time.Minute // after a view that was counted
	unlockTime = 12 * time.Hour   // after the right password
	ownTime    = 12 * time.Hour   // for the owner, at the origin for content
)

// A grant says that the visitor who shows it has paid for an item already, by
// a view that was counted or by its password. It is signed, holds for one item
// and ends on its own, when the item's password changes, and, if it is for
// reading, when its limit does.
//
// A cookie is its own proof of who the visitor is. In an address, where a page
// embeds the item, it is bound to the visitor's network, so that the address
// is of no use to those it is passed on to; but see roams.
//
// The owner's names the session or the API key that it was given to, and holds
// no longer than that can be used.
type grant byte

const (
	toRead   grant = 'r'
	toUnlock grant = 'u'
	toOwn    grant = 'o' // the owner, at the origin for content, which gets no credentials
)

// grants makes and checks grants.
type grants struct {
	key      [32]byte
	seal     cipher.AEAD
	deletion [32]byte // of deletion addresses
	device   [32]byte // of device cookies
}

func newGrants(secret [32]byte) (*grants, error) {
	derive := func(what string) []byte {
		h := hmac.New(sha256.New, secret[:])
		h.Write([]byte(what))
		return h.Sum(nil)
	}
	block, err := aes.NewCipher(derive("kist removed items"))
	if err != nil {
		return nil, fmt.Errorf("grants: %w", err)
	}
	seal, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("grants: %w", err)
	}
	return &grants{[32]byte(derive("kist grants")), seal, [32]byte(derive("kist deletion addresses")), [32]byte(derive("kist device cookies"))}, nil
}

// deviceMAC signs a device cookie for the account, as long as its password
// stays.
func (g *grants) deviceMAC(b []byte, u *record.User) []byte {
	h := hmac.New(sha256.New, g.device[:])
	password := sha256.Sum256([]byte(u.Password))
	h.Write(password[:])
	h.Write(b)
	return h.Sum(nil)[:grantMAC]
}

const (
	grantMAC  = 16
	grantSize = 4 + grantMAC // when it ends, in seconds since 1970; MAC; of toOwn then the id of the credential
)

var grantText = base64.RawURLEncoding

// mac signs a grant. Every part has a fixed length or is the last.
func (g *grants) mac(kind grant, r *record.Record, ends uint32, by record.ID, visitor string) []byte {
	h := hmac.New(sha256.New, g.key[:])
	b := make([]byte, 0, 128)
	b = append(append(b, byte(kind)), r.ID[:]...)
	b = binary.BigEndian.AppendUint32(b, ends)
	limit := int64(0)
	if kind == toRead {
		limit = r.Limit
	}
	b = binary.BigEndian.AppendUint64(b, uint64(limit))
	password := sha256.Sum256([]byte(r.Password))
	b = append(b, password[:]...)
	if kind == toOwn {
		b = append(b, by[:]...)
	}
	h.Write(append(b, visitor...))
	return h.Sum(nil)[:grantMAC]
}

// make makes a grant that ends at the given instant. by is the credential of
// the owner, for toOwn alone.
func (g *grants) make(kind grant, r *record.Record, ends time.Time, by record.ID, visitor string) string {
	at := uint32(ends.Unix())
	b := binary.BigEndian.AppendUint32(make([]byte, 0, grantSize+len(by)), at)
	b = append(b, g.mac(kind, r, at, by, visitor)...)
	if kind == toOwn {
		b = append(b, by[:]...)
	}
	return grantText.EncodeToString(b)
}

// holds reports whether the text is a grant for the item at the instant now,
// when it ends, and, for toOwn, by which credential, which must be usable still.
func (g *grants) holds(text string, kind grant, r *record.Record, now time.Time, visitor string) (ends time.Time, by record.ID, ok bool) {
	b, err := grantText.DecodeString(text)
	size := grantSize
	if kind == toOwn {
		size += len(by)
	}
	if err != nil || len(b) != size {
		return time.Time{}, by, false
	}
	copy(by[:], b[grantSize:])
	at := binary.BigEndian.Uint32(b)
	if now.Unix() >= int64(at) || subtle.ConstantTimeCompare(b[4:grantSize], g.mac(kind, r, at, by, visitor)) != 1 {
		return time.Time{}, by, false
	}
	return time.Unix(int64(at), 0), by, true
}

// A removedFile is what a removed file's last visitor needs to go on reading it:
// the view that was counted last has removed the record, and its bytes stay
// for a while.
type removedFile struct {
	removedFileHead
	Media, Name   string
	Slug, Visitor string // that it is sealed for, and not in it
}

type removedFileHead struct {
	ID, Owner record.ID
	Ref       [32]byte
	Size      int64
	Ends      uint32   // seconds since 1970
	Terms     [16]byte // of the record
}

// sealedFor is what a passing is of use with alone. A slug has no NUL.
func sealedFor(slug, visitor string) []byte { return []byte(slug + "\x00" + visitor) }

// sealRemovedFile seals a passing. It is encrypted, as it tells what nobody may know
// who has but the address.
func (g *grants) sealRemovedFile(p removedFile) (string, error) {
	plain, err := binary.Append(nil, binary.BigEndian, p.removedFileHead)
	if err != nil {
		return "", err
	}
	plain = binary.BigEndian.AppendUint16(plain, uint16(len(p.Media)))
	plain = append(append(plain, p.Media...), p.Name...)
	nonce := make([]byte, g.seal.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return grantText.EncodeToString(g.seal.Seal(nonce, nonce, plain, sealedFor(p.Slug, p.Visitor))), nil
}

var errNoPassing = errors.New("not a passing")

// openRemovedFile opens what passed sealed, if it holds for the visitor at the instant
// now.
func (g *grants) openRemovedFile(text, slug string, now time.Time, visitor string) (removedFile, error) {
	p := removedFile{Slug: slug, Visitor: visitor}
	b, err := grantText.DecodeString(text)
	n := g.seal.NonceSize()
	if err != nil || len(b) < n {
		return p, errNoPassing
	}
	plain, err := g.seal.Open(nil, b[:n], b[n:], sealedFor(slug, visitor))
	if err != nil {
		return p, errNoPassing
	}
	n, err = binary.Decode(plain, binary.BigEndian, &p.removedFileHead)
	if err != nil || len(plain) < n+2 || now.Unix() >= int64(p.Ends) {
		return p, errNoPassing
	}
	plain = plain[n:]
	n = 2 + int(binary.BigEndian.Uint16(plain))
	if len(plain) < n {
		return p, errNoPassing
	}
	p.Media, p.Name = string(plain[2:n]), string(plain[n:])
	return p, nil
}

// grantParam carries a grant in the addresses that a page embeds, or several,
// of which no more than maxGrants are looked at.
const (
	grantParam = "g"
	maxGrants  = 2
)

// visitor is what a grant in an address is bound to.
func (c *request) visitor() string { return "from " + network(c.addr).String() }

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

// cookieName is the name of the cookie with a grant for the item of the slug,
// which has characters that names of cookies may not have.
func cookieName(kind grant, slug string) string {
	digest := sha256.Sum256([]byte(slug))
	return cookiePrefix(kind) + hex.EncodeToString(digest[:8])
}

func cookiePrefix(kind grant) string { return "kist_" + string(kind) + "_" }

// How many grants of a kind a visitor keeps as cookies, and how many bytes
// they may be: browsers send all of them with every request, whose head has at
// most headBytes.
const (
	maxCookies     = 40
	maxCookieBytes = 10 << 10
)

// excess are the names of the cookies with grants of the kind that a visitor
// has to give up for another: the oldest, by when they end, so that those that
// have ended and those that are none go first.
func excess(have []*http.Cookie, kind grant, another *http.Cookie) (names []string) {
	type held struct {
		*http.Cookie
		ends uint32
	}
	var all []held
	for _, c := range have {
		if strings.HasPrefix(c.Name, cookiePrefix(kind)) && c.Name != another.Name {
			text, _, _ := strings.Cut(c.Value, ".")
			h := held{Cookie: c}
			if b, err := grantText.DecodeString(text); err == nil && len(b) == grantSize {
				h.ends = binary.BigEndian.Uint32(b)
			}
			all = append(all, h)
		}
	}
	slices.SortStableFunc(all, func(a, b held) int { return cmp.Compare(b.ends, a.ends) })
	n, size := 1, len(another.Name)+len(another.Value)
	for _, h := range all {
		n, size = n+1, size+len(h.Name)+len(h.Value)
		if n > maxCookies || size > maxCookieBytes {
			names = append(names, h.Name)
		}
	}
	return names
}

// grantsInRequest are the texts of grants for the item of the slug that the request
// carries, and what each is bound to.
func (c *request) grantsInRequest(kind grant, slug string) func(func(text, visitor string) bool) {
	return func(yield func(text, visitor string) bool) {
		if c.r.URL.RawQuery != "" {
			all := c.r.URL.Query()[grantParam]
			for _, text := range all[:min(len(all), maxGrants)] {
				if !yield(text, c.visitor()) {
					return
				}
			}
		}
		if cookie, err := c.r.Cookie(cookieName(kind, slug)); err == nil {
			yield(cookie.Value, "")
		}
	}
}

// granted reports whether the visitor has a grant for the item.
func (c *request) granted(kind grant, r *record.Record) bool {
	_, ok := c.grantEnds(kind, r)
	return ok
}

// grantEnds is when the visitor's grant for the item ends, of several the last.
func (c *request) grantEnds(kind grant, r *record.Record) (ends time.Time, ok bool) {
	now := c.s.Store.Now()
	for text, visitor := range c.grantsInRequest(kind, r.Slug) {
		text, _, _ = strings.Cut(text, ".")
		end, by, holds := c.s.grants.holds(text, kind, r, now, visitor)
		if !holds && visitor != "" && roams(r) {
			end, by, holds = c.s.grants.holds(text, kind, r, now, anywhere)
		}
		if holds && (kind != toOwn || c.s.owns(by, r)) {
			ok = true
			if end.After(ends) {
				ends = end
			}
		}
	}
	return ends, ok
}

// owns reports whether the credential of the id can be used now and may see
// everything of r.
func (s *site) owns(id record.ID, r *record.Record) bool {
	caller, err := s.Store.Recognize(r.Owner, id)
	return err == nil && owns(caller, r)
}

// removedFileOf is what a visitor may go on reading of a file that the visitor's own
// view has removed.
func (c *request) removedFileOf(slug string) (removedFile, error) {
	for text, visitor := range c.grantsInRequest(toRead, slug) {
		_, text, _ = strings.Cut(text, ".")
		p, err := c.s.grants.openRemovedFile(text, slug, c.s.Store.Now(), visitor)
		if err != nil {
			continue
		}
		var spent bool // and not deleted by its owner
		err = c.s.Store.View(func(tx *kv.Tx) (err error) { spent, err = tx.Spent(p.Owner, p.ID, p.Terms); return err })
		if err == nil && spent {
			return p, nil
		}
	}
	return removedFile{}, errNoPassing
}

// hasGrant reports whether the visitor has a grant for the item of an address's
// name, which is a slug and may carry an extension.
func (c *request) hasGrant(name string) bool {
	for _, slug := range []string{name, strings.TrimSuffix(name, path.Ext(name))} {
		var r *record.Record
		err := c.s.Store.View(func(tx *kv.Tx) (err error) { r, err = tx.Slug(slug); return err })
		if err == nil && (c.granted(toRead, r) || c.granted(toUnlock, r) || c.atContentOrigin() && c.granted(toOwn, r)) {
			return true
		}
	}
	if q, err := c.openRequest(name); err == nil && c.granted(toUnlock, lock(q)) {
		return true
	}
	_, err := c.removedFileAt(name)
	return err == nil
}

// setGrantCookie gives the visitor a grant as a cookie.
func (c *request) setGrantCookie(kind grant, r *record.Record) error {
	limit := readTime
	if kind == toUnlock {
		limit = unlockTime
	}
	text, err := c.newAddressGrant(kind, r, c.s.Store.Now().Add(limit), "")
	if err != nil {
		return err
	}
	at, secure := c.s.prefix()+"/", c.secure()
	if c.atContentOrigin() {
		at = "/"
	}
	cookie := &http.Cookie{ // #nosec G124 -- it is Secure on https
		Name: cookieName(kind, r.Slug), Value: text, Path: at,
		MaxAge: int(limit.Seconds()), HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: secure,
	}
	http.SetCookie(c.w, cookie)
	for _, name := range excess(c.r.Cookies(), kind, cookie) {
		http.SetCookie(c.w, &http.Cookie{Name: name, Path: at, MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: secure}) // #nosec G124 -- it is Secure on https
	}
	return nil
}

// newAddressGrant makes a grant for the item, with a passing, by which it is read to
// the end, if its limit may delete it.
func (c *request) newAddressGrant(kind grant, r *record.Record, ends time.Time, visitor string) (string, error) {
	var by record.ID
	if kind == toOwn {
		by = c.caller.Key.ID // who has it is known by that here, and by nothing else
	}
	text := c.s.grants.make(kind, r, ends, by, visitor)
	if kind != toRead || r.AtLimit != record.Delete || r.Limit == 0 || r.Bytes == nil {
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
	p, err := c.s.grants.sealRemovedFile(removedFile{
		removedFileHead{r.ID, r.Owner, r.Bytes.Ref, r.Bytes.Size, uint32(ends.Unix()), r.Terms()}, f.MimeType, f.OriginalName, r.Slug, visitor,
	})
	return text + "." + p, err
}
