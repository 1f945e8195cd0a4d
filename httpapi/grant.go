package httpapi

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
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
// and ends by itself, when the item's password changes, and, if it is for
// reading, when its limit does.
//
// A cookie is its own proof of who the visitor is. In an address, where a page
// embeds the item, it is bound to the visitor's network, so that the address
// is of no use to those it is passed on to.
type grant byte

const (
	toRead   grant = 'r'
	toUnlock grant = 'u'
	toOwn    grant = 'o' // the owner, at the origin for content, which gets no credentials
)

// grants makes and checks grants.
type grants struct {
	key  [32]byte
	seal cipher.AEAD
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
	return &grants{[32]byte(derive("kist grants")), seal}, nil
}

const (
	grantMAC  = 16
	grantSize = 4 + grantMAC // when it ends, in seconds since 1970; MAC
)

var grantText = base64.RawURLEncoding

// mac signs a grant. Every part has a fixed length or is the last.
func (g *grants) mac(kind grant, r *record.Record, ends uint32, visitor string) []byte {
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
	b = append(append(b, password[:]...), visitor...)
	h.Write(b)
	return h.Sum(nil)[:grantMAC]
}

// make makes a grant that ends at the given instant.
func (g *grants) make(kind grant, r *record.Record, ends time.Time, visitor string) string {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, grantSize), uint32(ends.Unix()))
	return grantText.EncodeToString(append(b, g.mac(kind, r, uint32(ends.Unix()), visitor)...))
}

// holds reports whether the text is a grant for the item at the instant now,
// and when it ends.
func (g *grants) holds(text string, kind grant, r *record.Record, now time.Time, visitor string) (ends time.Time, ok bool) {
	b, err := grantText.DecodeString(text)
	if err != nil || len(b) != grantSize {
		return time.Time{}, false
	}
	at := binary.BigEndian.Uint32(b)
	if now.Unix() >= int64(at) || subtle.ConstantTimeCompare(b[4:], g.mac(kind, r, at, visitor)) != 1 {
		return time.Time{}, false
	}
	return time.Unix(int64(at), 0), true
}

// A passing is what a removed file's last visitor needs to go on reading it:
// the view that was counted last has removed the record, and its bytes stay
// for a while.
type passing struct {
	ID      record.ID `json:"i"`
	Owner   record.ID `json:"o"`
	Slug    string    `json:"s"`
	Ref     [32]byte  `json:"r"`
	Size    int64     `json:"n"`
	Media   string    `json:"m"`
	Name    string    `json:"f"`
	Ends    int64     `json:"e"` // seconds since 1970
	Visitor string    `json:"v"`
	Terms   [16]byte  `json:"t"` // of the record
}

// passed seals a passing. It is encrypted, as it tells what nobody may know
// who has but the address.
func (g *grants) passed(p passing) (string, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, g.seal.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return grantText.EncodeToString(g.seal.Seal(nonce, nonce, text, nil)), nil
}

var errNoPassing = errors.New("not a passing")

// passing opens what passed sealed, if it holds for the visitor at the instant
// now.
func (g *grants) passing(text, slug string, now time.Time, visitor string) (passing, error) {
	var p passing
	b, err := grantText.DecodeString(text)
	if err != nil || len(b) < g.seal.NonceSize()+grantMAC {
		return p, errNoPassing
	}
	n := g.seal.NonceSize()
	plain, err := g.seal.Open(nil, b[:n], b[n:], nil)
	if err != nil || json.Unmarshal(plain, &p) != nil || p.Slug != slug || p.Visitor != visitor || now.Unix() >= p.Ends {
		return p, errNoPassing
	}
	return p, nil
}

// grantParam carries a grant in the addresses that a page embeds, or several,
// of which no more than maxGrants are looked at.
const (
	grantParam = "g"
	maxGrants  = 2
)

// visitor is what a grant in an address is bound to.
func (c *call) visitor() string { return "from " + network(c.addr).String() }

// cookieName is the name of the cookie with a grant for the item of the slug,
// which has characters that names of cookies may not have.
func cookieName(kind grant, slug string) string {
	digest := sha256.Sum256([]byte(slug))
	return "kist_" + string(kind) + "_" + hex.EncodeToString(digest[:8])
}

// carried are the texts of grants for the item of the slug that the request
// carries, and what each is bound to.
func (c *call) carried(kind grant, slug string) func(func(text, visitor string) bool) {
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
func (c *call) granted(kind grant, r *record.Record) bool {
	_, ok := c.grantEnds(kind, r)
	return ok
}

// grantEnds is when the visitor's grant for the item ends, of several the last.
func (c *call) grantEnds(kind grant, r *record.Record) (ends time.Time, ok bool) {
	for text, visitor := range c.carried(kind, r.Slug) {
		text, _, _ = strings.Cut(text, ".")
		if end, holds := c.s.grants.holds(text, kind, r, c.s.Store.Now(), visitor); holds {
			ok = true
			if end.After(ends) {
				ends = end
			}
		}
	}
	return ends, ok
}

// passed is what a visitor may go on reading of a file that the visitor's own
// view has removed.
func (c *call) passed(slug string) (passing, error) {
	for text, visitor := range c.carried(toRead, slug) {
		_, text, _ = strings.Cut(text, ".")
		p, err := c.s.grants.passing(text, slug, c.s.Store.Now(), visitor)
		if err != nil {
			continue
		}
		var spent bool // and not deleted by its owner
		err = c.s.Store.View(func(tx *kv.Tx) (err error) { spent, err = tx.Spent(p.Owner, p.ID, p.Terms); return err })
		if err == nil && spent {
			return p, nil
		}
	}
	return passing{}, errNoPassing
}

// proven reports whether the visitor has a grant for the item of an address's
// name, which is a slug and may carry an extension.
func (c *call) proven(name string) bool {
	for _, slug := range []string{name, strings.TrimSuffix(name, path.Ext(name))} {
		var r *record.Record
		err := c.s.Store.View(func(tx *kv.Tx) (err error) { r, err = tx.Slug(slug); return err })
		if err == nil && (c.granted(toRead, r) || c.granted(toUnlock, r) || c.away() && c.granted(toOwn, r)) {
			return true
		}
	}
	if q, err := c.request(name); err == nil && c.granted(toUnlock, lock(q)) {
		return true
	}
	_, err := c.passedFile(name)
	return err == nil
}

// give gives the visitor a grant as a cookie.
func (c *call) give(kind grant, r *record.Record) error {
	most := readTime
	if kind == toUnlock {
		most = unlockTime
	}
	text, err := c.pledge(kind, r, c.s.Store.Now().Add(most), "")
	if err != nil {
		return err
	}
	at, secure := c.s.prefix()+"/", c.s.secure()
	if c.away() {
		at, secure = "/", c.s.contentScheme == "https"
	}
	http.SetCookie(c.w, &http.Cookie{
		Name: cookieName(kind, r.Slug), Value: text, Path: at,
		MaxAge: int(most.Seconds()), HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: secure,
	})
	return nil
}

// pledge makes a grant for the item, with a passing, by which it is read to
// the end, if its limit may delete it.
func (c *call) pledge(kind grant, r *record.Record, ends time.Time, visitor string) (string, error) {
	text := c.s.grants.make(kind, r, ends, visitor)
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
	p, err := c.s.grants.passed(passing{r.ID, r.Owner, r.Slug, r.Bytes.Ref, r.Bytes.Size, f.MimeType, f.OriginalName, ends.Unix(), visitor, r.Terms()})
	return text + "." + p, err
}
