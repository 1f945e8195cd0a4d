package grant

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"kist/kv/record"
)

// TicketTime is how long a ticket is valid.
const TicketTime = 5 * time.Minute

// Bounds of the tickets that are remembered as used: in all, and of one account. Only people
// who sign in use one.
const (
	maxUsed      = 10_000
	MaxUsedByOne = 100
)

// A Purpose is what a ticket is for.
type Purpose byte

const (
	ForSecondStep Purpose = '2' // the password was right
	ForPasskey    Purpose = 'k' // to sign in without a name
	ForConfirming Purpose = 'c' // of a session
	ForAdding     Purpose = 'a' // of a passkey
	ForJoining    Purpose = 'j' // with a passkey; the owner is the account to be made
)

// A Ticket connects the two requests of a sign-in. The client keeps it, sealed.
type Ticket struct {
	For       Purpose
	Owner     record.ID // with ForPasskey none, until the passkey says who it is
	Ends      int64     // milliseconds since 1970
	Challenge [32]byte  // that a passkey has to sign
	Password  [32]byte  // digest of the account's password hash
	Network   [32]byte  // digest of the network of the client
}

// Tickets seals tickets. A ticket is valid once, for one network, and ends with the
// process.
type Tickets struct {
	seal cipher.AEAD
	mu   sync.Mutex
	used map[[32]byte]usedTicket // by challenge
}

type usedTicket struct {
	owner record.ID
	ends  int64
}

func NewTickets() (*Tickets, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	return &Tickets{seal: seal, used: map[[32]byte]usedTicket{}}, err
}

// Issue seals a ticket and returns it with its end and challenge.
func (t *Tickets) Issue(k Ticket, now time.Time) (string, Ticket) {
	k.Ends = now.Add(TicketTime).UnixMilli()
	_, _ = rand.Read(k.Challenge[:])                                      // never fails
	plain, _ := binary.Append(nil, binary.BigEndian, &k)                  // fixed sizes: cannot fail
	return GrantText.EncodeToString(t.seal.Seal(nil, nil, plain, nil)), k // #nosec G407 -- NewGCMWithRandomNonce makes the nonce
}

// ErrTicket is the error for a ticket that is not valid.
var ErrTicket = &record.Error{
	Fault: record.Unauthorized, Code: "ticket_ended",
	Text: "This sign-in took too long or was completed already. Begin again.",
}

// Open reads a ticket that is valid for a purpose.
func (t *Tickets) Open(text string, purpose Purpose, network [32]byte, now time.Time) (Ticket, error) {
	var k Ticket
	b, err := GrantText.DecodeString(text)
	if err != nil {
		return k, ErrTicket
	}
	plain, err := t.seal.Open(nil, nil, b, nil)
	if err != nil {
		return k, ErrTicket
	}
	if _, err := binary.Decode(plain, binary.BigEndian, &k); err != nil || k.For != purpose || k.Network != network ||
		now.UnixMilli() >= k.Ends {
		return k, ErrTicket
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, used := t.used[k.Challenge]; used {
		return k, ErrTicket
	}
	return k, nil
}

// Use uses a ticket up. Of several calls with one ticket, one succeeds.
func (t *Tickets) Use(k Ticket, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, used := t.used[k.Challenge]; used {
		return ErrTicket
	}
	ofOwner, ends := 0, k.Ends
	for challenge, other := range t.used {
		switch {
		case now.UnixMilli() >= other.ends:
			delete(t.used, challenge)
		case other.owner == k.Owner:
			ofOwner, ends = ofOwner+1, min(ends, other.ends)
		}
	}
	switch {
	case ofOwner >= MaxUsedByOne:
		wait := time.UnixMilli(ends).Sub(now)
		return &record.Error{
			Fault: record.TooMany, Code: "too_many_sign_ins",
			Text: "This account has signed in too often in the last minutes. Try again " + record.In(wait) + ".", Retry: wait,
		}
	case len(t.used) >= maxUsed:
		return &record.Error{
			Fault: record.Busy, Code: "busy", Text: "Too many people are signing in. Try again in a moment.", Retry: time.Minute,
		}
	}
	t.used[k.Challenge] = usedTicket{k.Owner, k.Ends}
	return nil
}
