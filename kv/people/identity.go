package people

import (
	"time"

	"kist/kv/record"
)

// Identity is a subject at an issuer of OpenID Connect that an account is linked to.
type Identity struct {
	ID       record.ID   `json:"ID"`
	Owner    record.ID   `json:"Owner"`
	Issuer   string      `json:"Issuer"`
	Subject  string      `json:"Subject"`
	Name     string      `json:"Name"` // as the issuer calls the user; it may change
	Created  time.Time   `json:"Created"`
	LastUsed time.Time   `json:"LastUsed,omitzero"`  // to the minute
	Sessions []record.ID `json:"Sessions,omitempty"` // that came from it; some may have ended
}
