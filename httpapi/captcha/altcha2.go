package captcha

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"strings"
	"time"
)

// powPrefix is the beginning of a key that solves a challenge of version 2. One key in
// 65 536 has it.
const powPrefix = "0000"

// Parameters2 are the parameters of a challenge of ALTCHA's version 2. The signature is of
// their JSON, with the names in this order.
type Parameters2 struct {
	Algorithm string `json:"algorithm"`
	Cost      int    `json:"cost"`
	ExpiresAt int64  `json:"expiresAt"`
	KeyLength int    `json:"keyLength"`
	KeyPrefix string `json:"keyPrefix"`
	Nonce     string `json:"nonce"`
	Salt      string `json:"salt"`
}

// Challenge2 is a challenge of ALTCHA's version 2. A client has to find the counter (32
// bits, big-endian) for which the SHA-256 of salt, nonce and counter begins with the prefix.
type Challenge2 struct {
	Parameters Parameters2 `json:"parameters"`
	Signature  string      `json:"signature"`
}

func (p *Issuer) sign2(v Parameters2) string {
	text, _ := json.Marshal(v) // cannot fail: texts and numbers
	return p.sign(string(text))
}

func (p *Issuer) Challenge2(now time.Time) Challenge2 {
	var random [32]byte
	_, _ = rand.Read(random[:]) // cannot fail
	v := Parameters2{
		Algorithm: "SHA-256", Cost: 1, ExpiresAt: now.Add(PowTime).Unix(), KeyLength: sha256.Size, KeyPrefix: powPrefix,
		Nonce: hex.EncodeToString(random[:16]), Salt: hex.EncodeToString(random[16:]),
	}
	return Challenge2{v, p.sign2(v)}
}

// Key is the SHA-256 for the counter; "" if the parameters are malformed.
func (v *Parameters2) Key(counter uint32) string {
	salt, err := hex.DecodeString(v.Salt)
	if err != nil {
		return ""
	}
	nonce, err := hex.DecodeString(v.Nonce)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint32(append(salt, nonce...), counter))
	return hex.EncodeToString(sum[:])
}

// solved2 checks a payload of ALTCHA's version 2, as Solved does.
func (p *Issuer) solved2(payload []byte, now time.Time) error {
	var in struct {
		Challenge Challenge2
		Solution  struct {
			Counter    int64
			DerivedKey string
		}
	}
	if json.Unmarshal(payload, &in) != nil || in.Solution.Counter < 0 || in.Solution.Counter > math.MaxUint32 {
		return ErrBadCaptcha
	}
	v := in.Challenge.Parameters
	if subtle.ConstantTimeCompare([]byte(in.Challenge.Signature), []byte(p.sign2(v))) != 1 || now.Unix() >= v.ExpiresAt {
		return ErrBadCaptcha
	}
	key := v.Key(uint32(in.Solution.Counter))
	if key != strings.ToLower(in.Solution.DerivedKey) || !strings.HasPrefix(key, v.KeyPrefix) {
		return ErrBadCaptcha
	}
	return p.spend(in.Challenge.Signature, v.ExpiresAt, now)
}
