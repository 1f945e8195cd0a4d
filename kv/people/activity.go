package people

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/record"
	"kist/kv/table"
)

// ActivityEvent is something that happened in an account.
type ActivityEvent string

// What happens in an account.
const (
	SignedIn        ActivityEvent = "signed_in"
	SessionRevoked  ActivityEvent = "session_revoked"
	DeviceConnected ActivityEvent = "device_connected"
	DeviceRevoked   ActivityEvent = "device_revoked"
	KeyCreated      ActivityEvent = "key_created"
	KeyUsed         ActivityEvent = "key_used" // from a network that it was not used from before
	KeyRevoked      ActivityEvent = "key_revoked"
	AccountCreated  ActivityEvent = "account_created"
	AccountChanged  ActivityEvent = "account_changed"
	AccountRemoved  ActivityEvent = "account_removed"
	SettingsChanged ActivityEvent = "settings_changed"
	CodesOn         ActivityEvent = "codes_on"
	CodesOff        ActivityEvent = "codes_off"
	RecoveryMade    ActivityEvent = "recovery_codes_created"
	RecoveryUsed    ActivityEvent = "recovery_code_used"
	PasskeyAdded    ActivityEvent = "passkey_added"
	PasskeyRemoved  ActivityEvent = "passkey_removed"
	PasskeyRefused  ActivityEvent = "passkey_refused" // its counter went back: there may be a copy of it
	StepFailed      ActivityEvent = "second_step_failed"
	LoginReset      ActivityEvent = "login_reset"
	LoginLinked     ActivityEvent = "login_linked"
	LoginUnlinked   ActivityEvent = "login_unlinked"

	InvitationMade    ActivityEvent = "invitation_created"
	InvitationRevoked ActivityEvent = "invitation_revoked"

	ItemShared     ActivityEvent = "item_shared"
	ItemSpent      ActivityEvent = "limit_reached"
	ItemRestored   ActivityEvent = "restored"
	FileReceived   ActivityEvent = "request_received"
	FileTakenBack  ActivityEvent = "request_taken_back" // by its sender
	ImportFinished ActivityEvent = "import_finished"

	CollectionShared    ActivityEvent = "collection_shared" // with a person
	CollectionLeft      ActivityEvent = "collection_left"
	CollectionPublished ActivityEvent = "collection_published" // it became public
	CollectionAdded     ActivityEvent = "collection_item_added"
	ItemEdited          ActivityEvent = "item_edited" // by somebody else
)

// ActivityEvents lists what happens in an account. Those from ItemShared on concern only
// its owner; administrators see the others.
var ActivityEvents = []ActivityEvent{
	SignedIn, SessionRevoked, DeviceConnected, DeviceRevoked, KeyCreated, KeyUsed, KeyRevoked,
	AccountCreated, AccountChanged, AccountRemoved, SettingsChanged, LoginLinked, LoginUnlinked,
	CodesOn, CodesOff, RecoveryMade, RecoveryUsed, PasskeyAdded, PasskeyRemoved, PasskeyRefused, StepFailed, LoginReset,
	InvitationMade, InvitationRevoked,
	ItemShared, ItemSpent, ItemRestored, FileReceived, FileTakenBack, ImportFinished,
	CollectionShared, CollectionLeft, CollectionPublished, CollectionAdded, ItemEdited,
}

// ForAdmins reports whether administrators see the event in every account.
func (e ActivityEvent) ForAdmins() bool {
	return slices.Index(ActivityEvents, e) < slices.Index(ActivityEvents, ItemShared)
}

// Activity is an entry in the history of an account. Without an owner, it is about the
// whole instance.
type Activity struct {
	ID      record.ID     `json:"ID"`
	Owner   record.ID     `json:"Owner"`
	At      time.Time     `json:"At"`
	Event   ActivityEvent `json:"Event"`
	Name    string        `json:"Name,omitempty"`    // of the browser, key, device, item, file or account
	By      string        `json:"By,omitempty"`      // the user who did it, if not the owner
	Address string        `json:"Address,omitempty"` // of the client
	Network string        `json:"Network,omitempty"` // of a key that was used
	Key     record.ID     `json:"Key,omitzero"`      // the session or API key
	Kind    string        `json:"Kind,omitempty"`    // of the item
	Item    record.ID     `json:"Item,omitzero"`
	Changes []string      `json:"Changes,omitempty"` // the fields
	More    int64         `json:"More,omitempty"`    // how often it happened again
}

// Bounds of the activity of an account.
const (
	MaxActivity  = 10_000
	ActivityTime = 400 * 24 * time.Hour
	againWithin  = time.Hour

	maxByOthers = 50  // rows of an hour about what others did with the items of an account, or share with it
	maxRecent   = 500 // rows in which these are looked for
)

// Repeats reports whether the activity is the same as an earlier one, and soon after it.
func (a *Activity) Repeats(earlier *Activity) bool {
	x, y := *a, *earlier
	x.ID, x.At, x.More = y.ID, y.At, y.More
	return reflect.DeepEqual(x, y) && a.At.Sub(earlier.At) < againWithin
}

// The kinds of entries of HistoryIndex. The bytes are stored.
const (
	agedActivity   byte = 'a'
	adminsActivity byte = 'A' // those that administrators see
	keyPlace       byte = 'k' // a key and a network that it was used from
	AgedVisits     byte = 'd'
	AgedVisitLog   byte = 'l'
	AgedTrash      byte = 't'
)

// ActivityRows is the table of what happened in accounts. Rows without an owner are about
// the whole instance.
var ActivityRows = func() *table.Table[Activity] {
	index := table.Index[Activity]{Bucket: HistoryIndex, Keys: func(a *Activity, file func([]byte)) {
		key := activityKey(a)
		file(AgeKey(agedActivity, a.At, key))
		if a.Event.ForAdmins() {
			file(slices.Concat([]byte{adminsActivity}, a.ID[:], a.Owner[:])) // in the order in which it happened
		}
		if a.Event == KeyUsed {
			file(append(placeKey(a.Key, a.Network), key...))
		}
	}}
	t := kv.JsonTable(activityBucket, activityKey, index)
	t.Sums = kv.SumBucket
	t.Tally = func(a *Activity, add func([]byte, int64)) {
		add(activitySum(a.Owner), 1)
		if a.Event.ForAdmins() {
			add(adminsSum, 1)
		}
	}
	return t
}()

func activityKey(a *Activity) []byte { return kv.OwnedKey(a.Owner, a.ID[:]...) }

// activitySum is the key of the number of an owner's rows, and adminsSum of those that
// administrators see.
func activitySum(owner record.ID) []byte { return kv.OwnedKey(owner, 0, 'a') }

var adminsSum = kv.OwnedKey(uuid.Nil, 0, 'A')

// placeKey is the prefix of the entries for the use of a key from a network.
func placeKey(key record.ID, network string) []byte {
	h := fnv.New64a()
	_, _ = io.WriteString(h, network) // cannot fail
	return h.Sum(append([]byte{keyPlace}, key[:]...))
}

// ActivityTable keeps what happened in accounts.
var ActivityTable = kv.Table{
	Buckets: []table.Bucket{activityBucket, HistoryIndex},
	Check: kv.CheckRows(ActivityRows, func(a *kv.Audit, v *Activity) {
		if v.Owner != uuid.Nil {
			a.Refers(UserBucket, v.Owner[:], "activity", v.ID)
		}
	}),
	Refill: kv.RefillRows(ActivityRows, kv.Mending[Activity]{Mend: func(r *kv.Refill, v *Activity) error {
		if v.Owner == uuid.Nil {
			return nil
		}
		return StandIn(r, v.Owner)
	}}),
	Drop: kv.DropRows(ActivityRows),
	Tick: func(s *kv.Store) {
		DropAged(s, agedActivity, ActivityTime, func(tx *kv.Tx, key []byte) error {
			_, err := ActivityRows.Delete(tx.Tx, key)
			return err
		})
	},
	Flush: flushPlaces,
}

// AgeKey is the entry of HistoryIndex for a row of an age.
func AgeKey(what byte, at time.Time, key []byte) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{what}, kv.Signed(at)), key...)
}

const ageSize = 1 + 8 // of an entry of HistoryIndex, before the key of the row

// DropAged calls drop with the keys of the oldest rows of the kind that are older than
// age, up to kv.RemoveBatch, in one transaction. An error is logged.
func DropAged(s *kv.Store, what byte, age time.Duration, drop func(tx *kv.Tx, key []byte) error) {
	if err := dropAged(s, what, age, drop); err != nil {
		s.Log().Error("cannot delete what is too old; will retry", "error", err)
	}
}

func dropAged(s *kv.Store, what byte, age time.Duration, drop func(tx *kv.Tx, key []byte) error) error {
	aged := func(tx *kv.Tx, limit int) (keys [][]byte) {
		last := AgeKey(what, tx.Now.Add(-age), nil)
		for k := range tx.Walk(HistoryIndex, []byte{what}, nil, false) {
			if len(keys) == limit || bytes.Compare(k[:ageSize], last) >= 0 {
				break
			}
			keys = append(keys, bytes.Clone(k[ageSize:]))
		}
		return keys
	}

	due := false
	err := s.View(func(tx *kv.Tx) error { due = len(aged(tx, 1)) > 0; return nil })
	if err != nil || !due {
		return err
	}
	return s.Update(func(tx *kv.Tx) error {
		for _, key := range aged(tx, kv.RemoveBatch) {
			if err := drop(tx, key); err != nil {
				return err
			}
		}
		return nil
	})
}

// Note adds a row to the activity of an account, in the transaction of what it reports.
// If the latest row is the same and less than an hour old, it counts there. So does what
// somebody else did, in a row that becomes the latest: see recentBy. The oldest rows beyond
// MaxActivity are deleted. For an account that is gone Note does nothing.
func Note(tx *kv.Tx, a Activity) error {
	if a.Owner != uuid.Nil && tx.Get(UserBucket, a.Owner[:]) == nil {
		return nil
	}
	a.At, a.Name = tx.Now, record.Cut(a.Name, maxNoted)
	if a.By != "" && !a.Event.ForAdmins() {
		earlier, again, err := recentBy(tx, &a)
		if err != nil {
			return err
		}
		if again {
			_, err := ActivityRows.Delete(tx.Tx, activityKey(earlier))
			if err != nil {
				return err
			}
			a.More += earlier.More + 1
		}
	}
	for key := range tx.Walk(activityBucket, a.Owner[:], nil, true) {
		latest, err := ActivityRows.Get(tx.Tx, bytes.Clone(key))
		if err != nil {
			return err
		}
		if a.Repeats(latest) {
			latest.More += a.More + 1
			return ActivityRows.Put(tx.Tx, latest)
		}
		break
	}
	a.ID = tx.NewID()
	if err := ActivityRows.Put(tx.Tx, &a); err != nil {
		return err
	}
	if ActivityRows.Sum(tx.Tx, activitySum(a.Owner)) > MaxActivity {
		for key := range tx.Walk(activityBucket, a.Owner[:], nil, false) {
			_, err := ActivityRows.Delete(tx.Tx, bytes.Clone(key))
			return err
		}
	}
	return nil
}

// recentBy finds the row of the last hour in which what somebody else did counts: that of the same person, event and
// item, or, if there are maxByOthers, the latest of the same event. So nobody fills the activity of another.
func recentBy(tx *kv.Tx, a *Activity) (found *Activity, again bool, err error) {
	rows, looked := 0, 0
	for key := range tx.Walk(activityBucket, a.Owner[:], nil, true) {
		x, err := ActivityRows.Get(tx.Tx, bytes.Clone(key))
		if err != nil {
			return nil, false, err
		}
		looked++
		if a.At.Sub(x.At) >= againWithin || looked > maxRecent {
			break
		}
		if x.By == "" || x.Event.ForAdmins() {
			continue
		}
		rows++
		if x.Event != a.Event {
			continue
		}
		if x.Item == a.Item && x.By == a.By {
			return x, true, nil
		}
		if found == nil {
			found = x
		}
	}
	return found, found != nil && rows >= maxByOthers, nil
}

// maxNoted is how many characters of a name are kept.
const maxNoted = 200

// An ActivityPage is a part of the activity, latest first.
type ActivityPage struct {
	Rows  []Activity
	Total int64
	Next  []byte // where the next page begins; nil at the end
}

// ActivityOf reads up to limit rows of an account after the place after, nil for the
// latest.
func ActivityOf(tx *kv.Tx, owner record.ID, after []byte, limit int) (ActivityPage, error) {
	p := ActivityPage{Total: ActivityRows.Sum(tx.Tx, activitySum(owner))}
	return p, p.read(tx, activityBucket, owner[:], after, limit, func(k []byte) []byte { return k })
}

// AdminActivity is ActivityOf for the events of all accounts and of the instance that
// administrators see.
func AdminActivity(tx *kv.Tx, after []byte, limit int) (ActivityPage, error) {
	p := ActivityPage{Total: ActivityRows.Sum(tx.Tx, adminsSum)}
	rest := func(k []byte) []byte { return slices.Concat(k[17:], k[1:17]) }
	return p, p.read(tx, HistoryIndex, []byte{adminsActivity}, after, limit, rest)
}

func (p *ActivityPage) read(tx *kv.Tx, b table.Bucket, prefix, after []byte, limit int, key func([]byte) []byte) error {
	var last []byte
	for k := range tx.Walk(b, prefix, after, true) {
		if len(p.Rows) == limit {
			p.Next = last
			break
		}
		a, err := ActivityRows.Get(tx.Tx, key(k))
		if err != nil {
			return err
		}
		p.Rows, last = append(p.Rows, *a), bytes.Clone(k[len(prefix):])
	}
	return nil
}

// A place is a network that a key is used from.
type place struct {
	owner, key record.ID
	network    netip.Prefix
}

// places are the places of the latest requests.
type places struct {
	sync.Mutex
	known   map[place]struct{}
	waiting map[place]netip.Addr // until the next flush
}

// Bounds of the places in memory. A place that is not there is looked up in the store.
const (
	maxPlaces    = 10_000
	maxNewPlaces = 1000
)

var keyPlaces kv.Slot[places]

// UsedFrom notes that an API key was used from an address of a network. If that is new,
// the activity has it within a second.
func UsedFrom(s *kv.Store, k *Key, address netip.Addr, network netip.Prefix) {
	at, p := place{k.Owner, k.ID, network}, keyPlaces.Of(s)
	p.Lock()
	defer p.Unlock()
	if _, known := p.known[at]; known || len(p.waiting) >= maxNewPlaces {
		return
	}
	if p.known == nil || len(p.known) >= maxPlaces {
		p.known = map[place]struct{}{}
	}
	if p.waiting == nil {
		p.waiting = map[place]netip.Addr{}
	}
	p.known[at], p.waiting[at] = struct{}{}, address
}

func flushPlaces(s *kv.Store) (write func(*kv.Tx) error, giveBack func()) {
	p := keyPlaces.Of(s)
	p.Lock()
	defer p.Unlock()
	if len(p.waiting) == 0 {
		return nil, nil
	}
	waiting := p.waiting
	p.waiting = nil
	return func(tx *kv.Tx) error {
			for at, address := range waiting {
				if err := notePlace(tx, at, address); err != nil {
					return err
				}
			}
			return nil
		}, func() {
			p.Lock()
			defer p.Unlock()
			for at := range waiting { // the next request notes it again
				delete(p.known, at)
			}
		}
}

func notePlace(tx *kv.Tx, at place, address netip.Addr) error {
	for range tx.Walk(HistoryIndex, placeKey(at.key, at.network.String()), nil, false) {
		return nil
	}
	k, err := KeyRows.Get(tx.Tx, kv.OwnedKey(at.owner, at.key[:]...))
	if errors.Is(err, table.ErrMissing) {
		return nil // revoked meanwhile
	}
	if err != nil {
		return err
	}
	return Note(tx, Activity{
		Owner: at.owner, Event: KeyUsed, Name: k.Name, Key: k.ID, Address: address.String(), Network: at.network.String(),
	})
}
