package apitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
)

// A softKey is an authenticator with one passkey (WebAuthn, ES256, no attestation). Its
// fields can be set to what a wrong one would send.
type SoftKey struct {
	Key    *ecdsa.PrivateKey
	ID     []byte
	User   []byte
	Count  uint32
	Flags  byte // of authenticator data: 1 user present, 4 verified
	Rp     string
	Origin string
}

func NewSoftKey(a *App) *SoftKey {
	a.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.NoErr(err)
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	return &SoftKey{Key: key, ID: id, Flags: 5, Rp: "kist.example.org", Origin: "https://kist.example.org"}
}

var URLText = base64.RawURLEncoding.EncodeToString

func (k *SoftKey) client(kind string, challenge any) []byte {
	return fmt.Appendf(
		nil, `{"type":"webauthn.%s","challenge":%q,"origin":%q,"crossOrigin":false}`, kind, challenge, k.Origin,
	)
}

func (k *SoftKey) data(flags byte) []byte {
	rp := sha256.Sum256([]byte(k.Rp))
	return binary.BigEndian.AppendUint32(append(rp[:], flags), k.Count)
}

// Create answers the options of navigator.credentials.create.
func (k *SoftKey) Create(t testing.TB, options map[string]any) string {
	t.Helper()
	user, err := base64.RawURLEncoding.DecodeString(options["user"].(map[string]any)["id"].(string))
	if err != nil {
		t.Fatal(err)
	}
	k.User = user
	pub, err := k.Key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		t.Fatal(err)
	}
	cose := slices.Concat(
		[]byte{0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32}, pub[1:33], []byte{0x22, 0x58, 32}, pub[33:],
	)
	data := slices.Concat(k.data(k.Flags|0x40), make([]byte, 16), []byte{0, byte(len(k.ID))}, k.ID, cose)
	object := slices.Concat([]byte("\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x58"), []byte{byte(len(data))}, data)
	return fmt.Sprintf(`{"id":%q,"rawId":%q,"type":"public-key","response":{"clientDataJSON":%q,"attestationObject":%q,"transports":["internal"]}}`,
		URLText(k.ID), URLText(k.ID), URLText(k.client("create", options["challenge"])), URLText(object))
}

// Get answers the options of navigator.credentials.get, with the next count.
func (k *SoftKey) Get(t testing.TB, options map[string]any) string {
	t.Helper()
	k.Count++
	client, data := k.client("get", options["challenge"]), k.data(k.Flags)
	hash := sha256.Sum256(client)
	sum := sha256.Sum256(append(slices.Clone(data), hash[:]...))
	sig, err := ecdsa.SignASN1(rand.Reader, k.Key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"id":%q,"rawId":%q,"type":"public-key","response":{"clientDataJSON":%q,"authenticatorData":%q,"signature":%q,"userHandle":%q}}`,
		URLText(k.ID), URLText(k.ID), URLText(client), URLText(data), URLText(sig), URLText(k.User))
}
