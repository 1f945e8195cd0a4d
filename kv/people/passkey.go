package people

import (
	"time"

	"kist/kv/record"
)

// Passkey is a credential of WebAuthn.
type Passkey struct {
	ID         record.ID `json:"ID"`
	Owner      record.ID `json:"Owner"`
	Name       string    `json:"Name"`
	Credential []byte    `json:"Credential"` // its id, which the authenticator chose
	Key        []byte    `json:"Key"`        // the public key (COSE)
	Count      int64     `json:"Count"`      // the authenticator's latest counter; 0 if it has none
	Flags      int64     `json:"Flags"`      // the authenticator's flags when it was added
	Transports []string  `json:"Transports,omitempty"`
	Created    time.Time `json:"Created"`
	LastUsed   time.Time `json:"LastUsed,omitzero"`
}
