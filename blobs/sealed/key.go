package sealed

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// A Secret is what a key file has. All keys are made of it.
type Secret [32]byte

// NewSecret returns a random Secret.
func NewSecret() (s Secret) {
	_, _ = rand.Read(s[:]) // it cannot fail
	return s
}

// secretMark begins the line of a key file that has the secret.
const secretMark = "kist-store-key-1:" // #nosec G101 -- no secret, but what stands before one

// Text is the line of a key file: what ParseSecret reads.
func (s Secret) Text() string { return secretMark + hex.EncodeToString(s[:]) }

// ParseSecret reads a key file: lines that begin with # are comments, and one line is a Text.
func ParseSecret(text string) (s Secret, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		digits, ok := strings.CutPrefix(line, secretMark)
		if !ok || len(digits) != 2*len(s) {
			return s, errNoKey
		}
		if _, err := hex.Decode(s[:], []byte(digits)); err != nil {
			return s, errNoKey
		}
		return s, nil
	}
	return s, errNoKey
}

var errNoKey = errors.New("it is not a key file; kist store key FILE makes one, " +
	"and kist store key FILE --from-words makes it again from the words of its recovery sheet")

// ReadKey reads the key file at a path.
func ReadKey(path string) (*Key, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the key file: %w; if it is lost, "+
			"kist store key FILE --from-words makes it again from the words of its recovery sheet", err)
	}
	defer f.Close()
	const most = 4 << 10
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil, fmt.Errorf("cannot read the key file: %w", err)
	}
	s, err := ParseSecret(string(b))
	if err != nil {
		return nil, fmt.Errorf("the key file %s cannot be used: %w", path, err)
	}
	return NewKey(s)
}

// A Key seals objects and their names. It may be used by any number of goroutines at once.
type Key struct {
	id    [idBytes]byte
	seal  []byte // makes the key of an object from its salt and its name
	salts []byte // makes the salt of a content
	names [rounds][]byte
}

const (
	idBytes  = 4
	keyBytes = 32 // AES-256
	rounds   = 4  // of the permutation of names
	half     = 16 // of a ref
)

// NewKey makes the keys of a secret, one for each purpose.
func NewKey(s Secret) (*Key, error) {
	purpose := func(name string, n int) ([]byte, error) {
		b, err := hkdf.Key(sha256.New, s[:], nil, "kist store "+name, n)
		if err != nil {
			return nil, fmt.Errorf("cannot make a key: %w", err)
		}
		return b, nil
	}
	k := &Key{}
	id, err := purpose("id", idBytes)
	if err != nil {
		return nil, err
	}
	k.id = [idBytes]byte(id)
	k.seal, err = purpose("objects", keyBytes)
	if err != nil {
		return nil, err
	}
	k.salts, err = purpose("salts", keyBytes)
	if err != nil {
		return nil, err
	}
	for i := range k.names {
		k.names[i], err = purpose(fmt.Sprintf("names %d", i), keyBytes)
		if err != nil {
			return nil, err
		}
	}
	return k, nil
}

// ID tells keys apart. It is in each sealed object, and says nothing about the secret.
func (k *Key) ID() string { return hex.EncodeToString(k.id[:]) }

// object returns the key of the object with a salt and a name.
func (k *Key) object(salt [saltBytes]byte, name string) ([]byte, error) {
	b, err := hkdf.Expand(sha256.New, k.seal, string(salt[:])+name, keyBytes)
	if err != nil {
		return nil, fmt.Errorf("cannot make a key: %w", err)
	}
	return b, nil
}

// contentSalt is the salt of the content with a name. Since the name is the hash of the bytes, the same
// salt never seals other bytes, and a put that is made again sends what the first one has sent.
func (k *Key) contentSalt(name string) (salt [saltBytes]byte) {
	h := hmac.New(sha256.New, k.salts)
	h.Write([]byte(name))
	h.Sum(salt[:0])
	return salt
}

// hide returns what a ref is in the name of a sealed content. It is a permutation of all refs: a
// Feistel network of four rounds with HMAC-SHA256. Without the key it looks random.
func (k *Key) hide(ref [32]byte) [32]byte {
	l, r := ref[:half], ref[half:]
	for i := range rounds {
		l, r = r, k.round(i, l, r)
	}
	return [32]byte(append(bytes.Clone(l), r...))
}

// reveal is the inverse of hide.
func (k *Key) reveal(name [32]byte) [32]byte {
	l, r := name[:half], name[half:]
	for i := rounds - 1; i >= 0; i-- {
		l, r = k.round(i, r, l), l
	}
	return [32]byte(append(bytes.Clone(l), r...))
}

// round returns l xor the first half of a HMAC of r.
func (k *Key) round(i int, l, r []byte) []byte {
	h := hmac.New(sha256.New, k.names[i])
	h.Write(r)
	sum := h.Sum(nil)[:half]
	for n := range sum {
		sum[n] ^= l[n]
	}
	return sum
}
