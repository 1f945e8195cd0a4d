package blobs

import (
	"encoding/hex"
	"errors"
	"fmt"
)

// Ref names content: it is the SHA-256 of the bytes. Equal content has equal
// refs, so a Ref may be compared with == and used as the key of a map.
type Ref [32]byte

// ParseRef reads the text form of a Ref: exactly 64 lower-case hex digits.
// It refuses everything else, upper case included, so that one Ref has one
// text form.
func ParseRef(s string) (Ref, error) {
	var r Ref
	if len(s) != hex.EncodedLen(len(r)) {
		return Ref{}, fmt.Errorf("blobs: a ref has 64 hex digits, this text has %d bytes", len(s))
	}
	if _, err := hex.Decode(r[:], []byte(s)); err != nil {
		return Ref{}, fmt.Errorf("blobs: reading a ref: %w", err)
	}
	if r.String() != s {
		return Ref{}, errors.New("blobs: a ref is written in lower case")
	}
	return r, nil
}

// String returns the 64 lower-case hex digits that ParseRef accepts.
func (r Ref) String() string { return hex.EncodeToString(r[:]) }

// folder is the name of the folder that holds r, below the store's folder.
func (r Ref) folder() string { return hex.EncodeToString(r[:1]) }

// path is the name of r's file below the store's folder. It is made of hex
// digits and one slash, whatever the content and no matter who sent it.
func (r Ref) path() string { return r.folder() + "/" + r.String() }
