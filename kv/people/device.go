package people

import (
	"cmp"
	"strings"
	"time"

	"kist/kv/record"
)

// clientNames are the names of clients that identify themselves by an id.
var clientNames = map[string]string{
	"cgdfgoapmfgdjapeehbgcnldocokgbae": "Swush extension",
	"swush-cli":                        "Swush command line",
}

// ClientName is the name that people see for a client.
func ClientName(id string) string { return cmp.Or(clientNames[id], id) }

// Device is a client's sign-in request by the device flow (RFC 8628).
type Device struct {
	Digest   [32]byte      `json:"Digest"`  // of the device code
	Code     string        `json:"Code"`    // the user code, XXXX-XXXX
	Client   string        `json:"Client"`  // what the client calls itself
	Address  string        `json:"Address"` // where it asks from; "" if unknown
	Network  string        `json:"Network"` // the network of the address; few requests of one network may wait
	Created  time.Time     `json:"Created"`
	Expires  time.Time     `json:"Expires"`
	Interval time.Duration `json:"Interval"` // between two polls
	Polled   time.Time     `json:"Polled"`   // the last poll, in rows of earlier versions
	State    DeviceState   `json:"State"`
	Owner    record.ID     `json:"Owner"` // who decided
}

// DeviceState is the state of a sign-in request.
type DeviceState string

// The states of a request. An approved request is removed once its key was
// fetched.
const (
	DeviceWaits    DeviceState = ""
	DeviceApproved DeviceState = "approved"
	DeviceDenied   DeviceState = "denied"
)

// DeviceError is the answer to a poll that gets no key (RFC 8628, section 3.5).
type DeviceError struct {
	Code     string
	Text     string
	Interval time.Duration // between polls, if the client may poll again
	Off      bool          // API keys are turned off
}

func (e *DeviceError) Error() string { return e.Text }

// userCodeLetters have no vowels, so that they form no words, and no letters
// that look alike (RFC 8628, section 6.1).
const userCodeLetters = "BCDFGHJKLMNPQRSTVWXZ"

// NewUserCode makes a code of eight letters, 34.5 bits.
func NewUserCode(random func([]byte)) string {
	code := make([]byte, 0, 9)
	for len(code) < 9 {
		var b [1]byte
		if random(b[:]); int(b[0]) >= 256/len(userCodeLetters)*len(userCodeLetters) {
			continue // each letter must be equally likely
		}
		code = append(code, userCodeLetters[int(b[0])%len(userCodeLetters)])
		if len(code) == 4 {
			code = append(code, '-')
		}
	}
	return string(code)
}

// CleanUserCode brings a typed code into its original form.
func CleanUserCode(t string) string {
	var b strings.Builder
	for _, r := range strings.ToUpper(t) {
		if strings.ContainsRune(userCodeLetters, r) {
			if b.Len() == 4 {
				b.WriteByte('-')
			}
			b.WriteRune(r)
		}
		if b.Len() > 9 {
			return ""
		}
	}
	return b.String()
}
