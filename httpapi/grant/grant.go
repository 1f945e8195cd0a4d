// Package grant signs and checks what visitors get from the server and send back: grants
// for items, deletion addresses, and marks of known browsers.
package grant

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"kist/kv/people"
	"kist/kv/record"
)

// DeletionMAC is the size of the MAC in a deletion token, which follows the record's key.
const DeletionMAC = 16

func (g *Signer) DeletionMAC(key []byte) []byte {
	h := hmac.New(sha256.New, g.deletion[:])
	h.Write(key)
	return h.Sum(nil)[:DeletionMAC]
}

func (g *Signer) DeletionToken(r *record.Record) string {
	key := r.Key()
	return GrantText.EncodeToString(append(key, g.DeletionMAC(key)...))
}

// A Kind is a kind of grant. A grant proves that the visitor may see an item because a view
// was counted or the password was right. It is signed and valid for one item. It ends at
// its time, when the item's password changes and, for reading, when the item's limit does.
//
// A grant in a cookie identifies the visitor. A grant in an address, with which a page
// embeds the item, is bound to the visitor's network, so that the address is useless to
// others; but see roams in package public.
//
// The grant of an owner or a member names the session or API key that received it and ends with it.
type Kind byte

const (
	ToRead   Kind = 'r'
	ToUnlock Kind = 'u'
	ToEnter  Kind = 'o' // for owners and members at the origin for content, which gets no credentials
)

// A Credential is a session or an API key of an account.
type Credential struct{ Account, ID record.ID }

func (c Credential) bytes() []byte { return append(c.Account[:], c.ID[:]...) }

// credentialSize is the size of a credential in a grant.
const credentialSize = 2 * len(record.ID{})

// Signer makes and checks grants.
type Signer struct {
	key      [32]byte
	seal     cipher.AEAD
	deletion [32]byte // for deletion addresses
	device   [32]byte // for device cookies
	sent     cipher.AEAD
	sentKey  [32]byte // for the nonces of sent
}

func NewSigner(secret [32]byte) (*Signer, error) {
	derive := func(what string) []byte {
		h := hmac.New(sha256.New, secret[:])
		h.Write([]byte(what))
		return h.Sum(nil)
	}
	seal, err := newSeal(derive("kist removed items"))
	if err != nil {
		return nil, err
	}
	sent, err := newSeal(derive("kist sent files"))
	if err != nil {
		return nil, err
	}
	return &Signer{
		[32]byte(derive("kist grants")), seal, [32]byte(derive("kist deletion addresses")),
		[32]byte(derive("kist device cookies")), sent, [32]byte(derive("kist sent files, nonces")),
	}, nil
}

func newSeal(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("grants: %w", err)
	}
	seal, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("grants: %w", err)
	}
	return seal, nil
}

// DeviceMAC signs a device cookie of the account. It changes with the account's password.
func (g *Signer) DeviceMAC(b []byte, u *people.User) []byte {
	h := hmac.New(sha256.New, g.device[:])
	password := sha256.Sum256([]byte(u.Password))
	h.Write(password[:])
	h.Write(b)
	return h.Sum(nil)[:GrantMAC]
}

const (
	GrantMAC  = 16
	GrantSize = 4 + GrantMAC // end in seconds since 1970; MAC; for ToEnter, the credential follows
)

var GrantText = base64.RawURLEncoding

// mac signs a grant. Every part has a fixed length or is the last.
func (g *Signer) mac(kind Kind, r *record.Record, ends uint32, by Credential, visitor string) []byte {
	h := hmac.New(sha256.New, g.key[:])
	b := make([]byte, 0, 128)
	b = append(append(b, byte(kind)), r.ID[:]...)
	b = binary.BigEndian.AppendUint32(b, ends)
	limit := int64(0)
	if kind == ToRead {
		limit = r.Limit
	}
	b = binary.BigEndian.AppendUint64(b, uint64(limit))
	password := sha256.Sum256([]byte(r.Password))
	b = append(b, password[:]...)
	if kind == ToEnter {
		b = append(b, by.bytes()...)
	}
	h.Write(append(b, visitor...))
	return h.Sum(nil)[:GrantMAC]
}

// Make makes a grant that ends at the given time. by is the credential of an owner or a
// member, only for ToEnter.
func (g *Signer) Make(kind Kind, r *record.Record, ends time.Time, by Credential, visitor string) string {
	at := uint32(ends.Unix())
	b := binary.BigEndian.AppendUint32(make([]byte, 0, GrantSize+credentialSize), at)
	b = append(b, g.mac(kind, r, at, by, visitor)...)
	if kind == ToEnter {
		b = append(b, by.bytes()...)
	}
	return GrantText.EncodeToString(b)
}

// Holds reports whether the text is a valid grant for the item at the time now, when it
// ends and, for ToEnter, which credential it names. The caller must check that credential.
func (g *Signer) Holds(
	text string, kind Kind, r *record.Record, now time.Time, visitor string,
) (ends time.Time, by Credential, ok bool) {
	b, err := GrantText.DecodeString(text)
	size := GrantSize
	if kind == ToEnter {
		size += credentialSize
	}
	if err != nil || len(b) != size {
		return time.Time{}, by, false
	}
	if kind == ToEnter {
		by = Credential{record.ID(b[GrantSize : GrantSize+len(record.ID{})]), record.ID(b[GrantSize+len(record.ID{}):])}
	}
	at := binary.BigEndian.Uint32(b)
	if now.Unix() >= int64(at) || subtle.ConstantTimeCompare(b[4:GrantSize], g.mac(kind, r, at, by, visitor)) != 1 {
		return time.Time{}, by, false
	}
	return time.Unix(int64(at), 0), by, true
}

// A RemovedFile lets the last visitor of a removed file continue reading it. The last
// counted view has removed the record, and the bytes stay for a while.
type RemovedFile struct {
	RemovedFileHead
	Media, Name   string
	Slug, Visitor string // sealed with it but not contained in it
}

type RemovedFileHead struct {
	ID, Owner record.ID
	Ref       [32]byte
	Size      int64
	Ends      uint32   // seconds since 1970
	Terms     [16]byte // of the record

	KeepMetadata bool // see record.Record
}

// sealedFor is the additional data of the seal. A slug has no NUL.
func sealedFor(slug, visitor string) []byte { return []byte(slug + "\x00" + visitor) }

// SealRemovedFile encrypts p, because someone who only has the address must not learn what
// is in it.
func (g *Signer) SealRemovedFile(p RemovedFile) (string, error) {
	plain, err := binary.Append(nil, binary.BigEndian, p.RemovedFileHead)
	if err != nil {
		return "", err
	}
	plain = binary.BigEndian.AppendUint16(plain, uint16(len(p.Media)))
	plain = append(append(plain, p.Media...), p.Name...)
	nonce := make([]byte, g.seal.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return GrantText.EncodeToString(g.seal.Seal(nonce, nonce, plain, sealedFor(p.Slug, p.Visitor))), nil
}

var ErrNotSealed = errors.New("not a sealed file")

// OpenRemovedFile decrypts what SealRemovedFile made, if it is valid for the visitor at the
// time now.
func (g *Signer) OpenRemovedFile(text, slug string, now time.Time, visitor string) (RemovedFile, error) {
	p := RemovedFile{Slug: slug, Visitor: visitor}
	b, err := GrantText.DecodeString(text)
	n := g.seal.NonceSize()
	if err != nil || len(b) < n {
		return p, ErrNotSealed
	}
	plain, err := g.seal.Open(nil, b[:n], b[n:], sealedFor(slug, visitor))
	if err != nil {
		return p, ErrNotSealed
	}
	n, err = binary.Decode(plain, binary.BigEndian, &p.RemovedFileHead)
	if err != nil || len(plain) < n+2 || now.Unix() >= int64(p.Ends) {
		return p, ErrNotSealed
	}
	plain = plain[n:]
	n = 2 + int(binary.BigEndian.Uint16(plain))
	if len(plain) < n {
		return p, ErrNotSealed
	}
	p.Media, p.Name = string(plain[2:n]), string(plain[n:])
	return p, nil
}

// A SentFile is a file that a sender left at an upload link.
type SentFile struct{ Owner, Request, Item record.ID }

// SealSent is the secret with which its sender finds a file. It is always the same for one file, so that a repeated
// answer is too, and tells nobody what is in it.
func (g *Signer) SealSent(f SentFile) string {
	plain, _ := binary.Append(nil, binary.BigEndian, &f) // fixed sizes: cannot fail
	nonce := g.sentNonce(plain)
	return GrantText.EncodeToString(g.sent.Seal(nonce, nonce, plain, nil))
}

// OpenSent decrypts what SealSent made.
func (g *Signer) OpenSent(text string) (f SentFile, ok bool) {
	b, err := GrantText.Strict().DecodeString(text)
	n := g.sent.NonceSize()
	if err != nil || len(b) < n {
		return f, false
	}
	plain, err := g.sent.Open(nil, b[:n], b[n:], nil)
	if err != nil {
		return f, false
	}
	_, err = binary.Decode(plain, binary.BigEndian, &f)
	return f, err == nil
}

// sentNonce derives the nonce from what it is for: two files have different ones.
func (g *Signer) sentNonce(plain []byte) []byte {
	h := hmac.New(sha256.New, g.sentKey[:])
	h.Write(plain)
	return h.Sum(nil)[:g.sent.NonceSize()]
}
