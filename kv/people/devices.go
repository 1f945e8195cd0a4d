package people

import (
	"crypto/sha256"
	"errors"
	"time"

	"kist/kv"
	"kist/kv/record"
	"kist/kv/table"
)

// Bounds of the device flow (RFC 8628).
const (
	DeviceTime     = 10 * time.Minute // in which a request must be approved
	DeviceInterval = 5 * time.Second  // between two polls
	maxDevices     = 200              // waiting requests in all
	maxDevicesFrom = 5                // waiting requests from one network
)

var deviceRows = kv.JsonTable(deviceBucket, func(d *record.Device) []byte { return append([]byte{}, d.Digest[:]...) },
	table.Index[record.Device]{Bucket: deviceCode, Name: "code", Unique: true, Keys: func(d *record.Device, file func([]byte)) {
		file([]byte(d.Code))
	}})

// DeviceTable keeps devices that wait for approval.
var DeviceTable = kv.Table{
	Buckets: []table.Bucket{deviceBucket, deviceCode},
	Check:   kv.CheckRows(deviceRows, nil),
	Refill:  kv.RefillRows(deviceRows, kv.Mending[record.Device]{}),
	Redate: kv.RedateRows(deviceRows, func(r *kv.Redate, v *record.Device) bool {
		changed := r.Past(&v.Created, &v.Polled)
		return r.Limit(&v.Expires, DeviceTime) || changed
	}),
}

// AddDevice stores a client's request for access. The client polls with the secret,
// and the user types d.Code. The secret is returned only here.
func AddDevice(tx *kv.Tx, client, address, network string) (d *record.Device, secret string, err error) {
	all, err := kv.Collect(deviceRows, tx, nil)
	if err != nil {
		return nil, "", err
	}
	waiting, from := 0, 0
	var room, roomFrom time.Time // when the first of them expires
	for i := range all {
		d := &all[i]
		if !tx.Now.Before(d.Expires) {
			if _, err := deviceRows.Delete(tx.Tx, d.Digest[:]); err != nil {
				return nil, "", err
			}
			continue
		}
		if waiting++; room.IsZero() || d.Expires.Before(room) {
			room = d.Expires
		}
		if d.Network == network && d.State == record.DeviceWaits {
			if from++; roomFrom.IsZero() || d.Expires.Before(roomFrom) {
				roomFrom = d.Expires
			}
		}
	}
	if from >= maxDevicesFrom && roomFrom.After(room) {
		room = roomFrom
	}
	if waiting >= maxDevices || from >= maxDevicesFrom {
		return nil, "", &record.Error{Fault: record.TooMany, Code: "slow_down", Text: "Too many devices wait to be let in.", Retry: room.Sub(tx.Now)}
	}
	secret = NewSecret()[len(KeyPrefix):]
	d = &record.Device{
		Digest: sha256.Sum256([]byte(secret)), Client: client, Address: address, Network: network,
		Created: tx.Now, Expires: tx.Now.Add(DeviceTime), Interval: DeviceInterval,
	}
	for d.Code == "" || tx.Get(deviceCode, []byte(d.Code)) != nil {
		d.Code = record.NewUserCode(kv.Random)
	}
	return d, secret, deviceRows.Put(tx.Tx, d)
}

// DeviceFor reads the waiting request for a code that a user typed, in any case,
// with or without its hyphen.
func DeviceFor(tx *kv.Tx, code string) (*record.Device, error) {
	d, err := deviceRows.Find(tx.Tx, deviceCode, []byte(record.CleanUserCode(code)))
	if err = kv.UserError(err, "code"); err != nil {
		return nil, err
	}
	if !tx.Now.Before(d.Expires) || d.State != record.DeviceWaits {
		return nil, record.NotFound("code")
	}
	return d, nil
}

// DecideDevice gives a waiting client access for the owner, or refuses it. While API
// keys are turned off an approval fails with Denied, and the client keeps waiting.
func DecideDevice(tx *kv.Tx, code string, owner record.ID, approve bool) (*record.Device, error) {
	d, err := DeviceFor(tx, code)
	if err != nil {
		return nil, err
	}
	d.Owner, d.State = owner, record.DeviceDenied
	if approve {
		u, err := User(tx, owner)
		if err != nil {
			return nil, err
		}
		set, err := Settings(tx)
		if err != nil {
			return nil, err
		}
		if set.TokensOff || u.TokensOff {
			return nil, &record.Error{Fault: record.Denied, Code: "api_tokens_disabled", Text: "API keys are turned off."}
		}
		d.State = record.DeviceApproved
	}
	return d, deviceRows.Put(tx.Tx, d)
}

// PollDevice handles one poll of a client. Once its request is approved, the client
// gets the API key a single time. Otherwise wait says why there is no key, or how to
// go on polling.
func PollDevice(tx *kv.Tx, secret string) (key string, wait *record.DeviceError, err error) {
	digest := sha256.Sum256([]byte(secret))
	d, err := deviceRows.Get(tx.Tx, digest[:])
	if errors.Is(err, table.ErrMissing) {
		return "", &record.DeviceError{Code: "invalid_grant", Text: "This device code is not known or was used."}, nil
	}
	if err != nil {
		return "", nil, err
	}
	set, err := Settings(tx)
	if err != nil {
		return "", nil, err
	}
	off := &record.DeviceError{Code: "access_denied", Text: "API keys are turned off.", Off: true}
	switch {
	case !tx.Now.Before(d.Expires):
		return "", &record.DeviceError{Code: "expired_token", Text: "The code has expired; begin again."}, nil
	case d.State == record.DeviceDenied:
		return "", &record.DeviceError{Code: "access_denied", Text: "The request was denied."}, nil
	case set.TokensOff:
		return "", off, nil
	case d.State == record.DeviceApproved:
		u, err := UserRows.Get(tx.Tx, d.Owner[:])
		if errors.Is(err, table.ErrMissing) {
			return "", &record.DeviceError{Code: "access_denied", Text: "The account is gone."}, nil
		}
		if err != nil {
			return "", nil, err
		}
		if u.Disabled || u.TokensOff {
			return "", off, nil
		}
		_, key, err = AddKey(tx, record.Key{
			Owner: d.Owner, Name: record.ClientName(d.Client), Scopes: []record.Scope{record.ScopeRead, record.ScopeWrite, record.ScopeUpload},
			Device: d.Client, Slides: record.SlideTime, Expires: tx.Now.Add(record.SlideTime),
		})
		if e, ok := errors.AsType[*record.Error](err); ok && e.Fault == record.Denied {
			return "", &record.DeviceError{Code: "access_denied", Text: e.Text}, nil
		}
		if err == nil {
			_, err = deviceRows.Delete(tx.Tx, digest[:])
		}
		return key, nil, err
	}
	early := !d.Polled.IsZero() && tx.Now.Sub(d.Polled) < d.Interval-pollSlack
	d.Polled = tx.Now
	wait = &record.DeviceError{Code: "authorization_pending", Text: "The request was not decided yet."}
	if early {
		d.Interval += DeviceInterval
		wait = &record.DeviceError{Code: "slow_down", Text: "Ask less often."}
	}
	wait.Interval = d.Interval
	return "", wait, deviceRows.Put(tx.Tx, d)
}

// pollSlack allows for network jitter, so that a client that polls at exactly the
// interval is not told to slow down.
const pollSlack = time.Second
