package people

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"strings"
	"sync"
	"time"

	"kist/kv"
	"kist/kv/record"
	"kist/kv/table"
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
		random(b[:])
		if int(b[0]) >= 256/len(userCodeLetters)*len(userCodeLetters) {
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

// Bounds of the device flow (RFC 8628).
const (
	DeviceTime     = 10 * time.Minute // in which a request must be approved
	DeviceInterval = 5 * time.Second  // between two polls
	maxDevices     = 200              // waiting requests in all; half of them for networks that have signed in
	maxDevicesFrom = 5                // waiting requests from one network
)

var deviceRows = kv.JsonTable(deviceBucket, func(d *Device) []byte { return append([]byte{}, d.Digest[:]...) },
	table.Index[Device]{Bucket: deviceCode, Name: "code", Unique: true, Keys: func(d *Device, file func([]byte)) {
		file([]byte(d.Code))
	}})

// DeviceTable keeps devices that wait for approval.
var DeviceTable = kv.Table{
	Buckets: []table.Bucket{deviceBucket, deviceCode},
	Check:   kv.CheckRows(deviceRows, nil),
	Refill:  kv.RefillRows(deviceRows, kv.Mending[Device]{}),
}

// AddDevice stores a client's request for access. The client polls with the secret,
// and the user types d.Code. The secret is returned only here. If too many wait from all
// networks, the oldest request of the network that has most is dropped.
func AddDevice(tx *kv.Tx, client, address, network string) (d *Device, secret string, err error) {
	all, err := kv.Collect(deviceRows, tx, nil)
	if err != nil {
		return nil, "", err
	}
	var there []Device
	var room time.Time // when the first request of this network expires
	from := 0
	for _, d := range all {
		if !tx.Now.Before(d.Expires) {
			if _, err := deviceRows.Delete(tx.Tx, d.Digest[:]); err != nil {
				return nil, "", err
			}
			continue
		}
		there = append(there, d)
		if d.Network != network || d.State != DeviceWaits {
			continue
		}
		from++
		if room.IsZero() || d.Expires.Before(room) {
			room = d.Expires
		}
	}
	if from >= maxDevicesFrom {
		return nil, "", tooManyDevices(room.Sub(tx.Now))
	}
	if len(there) >= maxDevices {
		over := leastOf(there, func(network string) bool { return TriesOf(tx.Store()).Familiar(network, tx.Now) })
		if over == nil {
			return nil, "", tooManyDevices(DeviceTime)
		}
		if _, err := deviceRows.Delete(tx.Tx, over.Digest[:]); err != nil {
			return nil, "", err
		}
	}

	secret = NewSecret()[len(KeyPrefix):]
	d = &Device{
		Digest: sha256.Sum256([]byte(secret)), Client: client, Address: address, Network: network,
		Created: tx.Now, Expires: tx.Now.Add(DeviceTime), Interval: DeviceInterval,
	}
	for d.Code == "" || tx.Get(deviceCode, []byte(d.Code)) != nil {
		d.Code = NewUserCode(kv.Random)
	}
	return d, secret, deviceRows.Put(tx.Tx, d)
}

// leastOf is the request to drop for a new one: the oldest of the network that has most. It
// leaves out requests that somebody has approved, and those of networks that have signed in
// while they are at most half. It is nil if none is left.
func leastOf(all []Device, familiar func(network string) bool) *Device {
	of, known, kept := map[string]int{}, map[string]bool{}, 0
	for i := range all {
		network := all[i].Network
		if of[network] == 0 {
			known[network] = familiar(network)
		}
		of[network]++
		if known[network] {
			kept++
		}
	}

	var least *Device
	for i := range all {
		d := &all[i]
		if d.State == DeviceApproved || known[d.Network] && kept <= len(all)/2 {
			continue
		}
		n := 0
		if least != nil {
			n = of[least.Network]
		}
		if of[d.Network] > n || of[d.Network] == n && d.Created.Before(least.Created) {
			least = d
		}
	}
	return least
}

// DeviceFor reads the waiting request for a code that a user typed, in any case,
// with or without its hyphen.
func DeviceFor(tx *kv.Tx, code string) (*Device, error) {
	d, err := deviceRows.Find(tx.Tx, deviceCode, []byte(CleanUserCode(code)))
	if err != nil {
		return nil, kv.UserError(err, "code")
	}
	if !tx.Now.Before(d.Expires) || d.State != DeviceWaits {
		return nil, record.NotFound("code")
	}
	return d, nil
}

// DecideDevice gives a waiting client access for the owner, or refuses it. While API
// keys are turned off an approval fails with Denied, and the client keeps waiting.
func DecideDevice(tx *kv.Tx, code string, owner record.ID, approve bool) (*Device, error) {
	d, err := DeviceFor(tx, code)
	if err != nil {
		return nil, err
	}
	d.Owner, d.State = owner, DeviceDenied
	if approve {
		u, err := ReadUser(tx, owner)
		if err != nil {
			return nil, err
		}
		set, err := ReadSettings(tx)
		if err != nil {
			return nil, err
		}
		if set.TokensOff || u.TokensOff {
			return nil, &record.Error{Fault: record.Denied, Code: "api_tokens_disabled", Text: "API keys are turned off."}
		}
		d.State = DeviceApproved
	}
	return d, deviceRows.Put(tx.Tx, d)
}

// PollDevice handles one poll of a client. Once its request is approved, the client
// gets the API key a single time. Otherwise wait says why there is no key, or how to
// go on polling. Only the poll that gets the key writes to the disk.
func PollDevice(s *kv.Store, secret string) (key string, wait *DeviceError, err error) {
	digest := sha256.Sum256([]byte(secret))
	approved := false
	err = s.View(func(tx *kv.Tx) error {
		d, refused, err := polledDevice(tx, digest)
		wait = refused
		if err != nil || refused != nil {
			return err
		}
		approved = d.State == DeviceApproved
		if !approved {
			wait = polling.Of(s).next(d, tx.Now)
		}
		return nil
	})
	if err != nil || !approved {
		return "", wait, err
	}

	err = s.Update(func(tx *kv.Tx) (err error) { key, wait, err = takeKey(tx, digest); return err })
	return key, wait, err
}

// polledDevice reads a request that waits or is approved. Otherwise refused says why it gets no
// key.
func polledDevice(tx *kv.Tx, digest [32]byte) (d *Device, refused *DeviceError, err error) {
	d, err = deviceRows.Get(tx.Tx, digest[:])
	if errors.Is(err, table.ErrMissing) {
		return nil, &DeviceError{Code: "invalid_grant", Text: "This device code is not known or was used."}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	set, err := ReadSettings(tx)
	switch {
	case err != nil:
		return nil, nil, err
	case !tx.Now.Before(d.Expires):
		return nil, &DeviceError{Code: "expired_token", Text: "The code has expired; begin again."}, nil
	case d.State == DeviceDenied:
		return nil, &DeviceError{Code: "access_denied", Text: "The request was denied."}, nil
	case set.TokensOff:
		return nil, keysOff, nil
	}
	return d, nil, nil
}

var keysOff = &DeviceError{Code: "access_denied", Text: "API keys are turned off.", Off: true}

// takeKey makes the key of an approved request and removes the request.
func takeKey(tx *kv.Tx, digest [32]byte) (key string, refused *DeviceError, err error) {
	d, refused, err := polledDevice(tx, digest)
	if err != nil || refused != nil {
		return "", refused, err
	}
	u, err := UserRows.Get(tx.Tx, d.Owner[:])
	if errors.Is(err, table.ErrMissing) {
		return "", &DeviceError{Code: "access_denied", Text: "The account is gone."}, nil
	}
	if err != nil {
		return "", nil, err
	}
	if u.Disabled || u.TokensOff {
		return "", keysOff, nil
	}
	_, key, err = AddKey(tx, Key{
		Owner: d.Owner, Name: ClientName(d.Client), Scopes: []Scope{ScopeRead, ScopeWrite, ScopeUpload},
		Device: d.Client, Slides: SlideTime, Expires: tx.Now.Add(SlideTime),
	})
	if e, ok := errors.AsType[*record.Error](err); ok && e.Fault == record.Denied {
		return "", &DeviceError{Code: "access_denied", Text: e.Text}, nil
	}
	if err != nil {
		return "", nil, err
	}
	_, err = deviceRows.Delete(tx.Tx, digest[:])
	return key, nil, err
}

// pollSlack allows for network jitter, so that a client that polls at exactly the
// interval is not told to slow down.
const pollSlack = time.Second

// polls remembers when the clients polled whose requests wait. It is only in memory, so that
// polls cost no write. When it is full or the server starts again, it forgets all, and a
// client may ask early once.
type polls struct {
	sync.Mutex
	of map[[32]byte]polled
}

type polled struct {
	at       time.Time
	interval time.Duration
}

var polling kv.Slot[polls]

// next answers a poll for a request that waits.
func (p *polls) next(d *Device, now time.Time) *DeviceError {
	p.Lock()
	defer p.Unlock()
	last, again := p.of[d.Digest]
	if !again {
		last.interval = d.Interval
	}
	if p.of == nil || !again && len(p.of) >= 2*maxDevices {
		p.of = map[[32]byte]polled{}
	}
	wait := &DeviceError{Code: "authorization_pending", Text: "The request was not decided yet."}
	if again && now.Sub(last.at) < last.interval-pollSlack {
		last.interval += DeviceInterval
		wait = &DeviceError{Code: "slow_down", Text: "Ask less often."}
	}
	p.of[d.Digest] = polled{now, last.interval}
	wait.Interval = last.interval
	return wait
}

// tooManyDevices is the error while too many devices wait.
func tooManyDevices(retry time.Duration) error {
	return &record.Error{
		Fault: record.TooMany, Code: "slow_down", Text: "Too many devices wait to be let in.", Retry: retry,
	}
}
