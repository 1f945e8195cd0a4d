package record

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"kist/kv/field"
)

// Event is something that a webhook can report.
type Event string

// Events that do not belong to one kind.
const (
	LimitReached   Event = "limit.reached"
	ShareOpened    Event = "share.opened"
	ItemExpired    Event = "item.expired"
	PageGone       Event = "bookmark.unreachable"
	UploadReceived Event = "upload_request.received"
	UploadApproved Event = "upload_request.approved"
	UploadRejected Event = "upload_request.rejected"
	WebhookTest    Event = "webhook.test"
)

// Created, Edited, Removed and Restored name the changes of a record.
func (k *Kind) Created() Event {
	if k == Files {
		return "file.uploaded"
	}
	return Event(k.Name + ".created")
}

// Edited is the event of a change.
func (k *Kind) Edited() Event { return Event(k.Name + ".updated") }

// Removed is the event of a removal.
func (k *Kind) Removed() Event { return Event(k.Name + ".deleted") }

// Restored is the event of a record that comes back from the trash.
func (k *Kind) Restored() Event { return Event(k.Name + ".restored") }

// AllEvents stands for every event in a webhook's list.
const AllEvents Event = "*"

// Events lists every event that a webhook can ask for.
func Events() []Event {
	var all []Event
	for _, k := range Kinds {
		all = append(all, k.Created(), k.Edited(), k.Removed(), k.Restored())
	}
	return append(all, PageGone, UploadReceived, UploadApproved, UploadRejected, LimitReached, ShareOpened, ItemExpired, WebhookTest)
}

// CleanEvent is the rule for the events in a webhook's list.
func CleanEvent(t string) (string, error) {
	all := append(Events(), AllEvents)
	if !slices.Contains(all, Event(t)) {
		return "", errors.New("must be one of: " + strings.Join(field.Words(all), ", "))
	}
	return t, nil
}

// Format is the form of a webhook's messages.
type Format string

// The formats.
const (
	FormatJSON    Format = "json"
	FormatDiscord Format = "discord"
	FormatNtfy    Format = "ntfy"
	FormatGotify  Format = "gotify"
	FormatSlack   Format = "slack"
)

// Formats lists the formats.
var Formats = []Format{FormatJSON, FormatDiscord, FormatNtfy, FormatGotify, FormatSlack}

// Webhook is a target of an owner's events.
type Webhook struct {
	ID      ID        `json:"ID"`
	Owner   ID        `json:"Owner"`
	Name    string    `json:"Name"`
	URL     string    `json:"URL"`
	Format  Format    `json:"Format"`
	Secret  string    `json:"Secret"` // "" signs nothing
	Events  []Event   `json:"Events"`
	Enabled bool      `json:"Enabled"`
	Created time.Time `json:"Created"`

	Former     string    `json:"Former,omitempty"` // the previous secret
	FormerEnds time.Time `json:"FormerEnds"`       // until when Former also signs

	// The result of the latest tries.
	LastStatus    int           `json:"LastStatus"`
	LastError     string        `json:"LastError"`
	LastTried     time.Time     `json:"LastTried"`
	LastTook      time.Duration `json:"LastTook"`
	LastDelivered time.Time     `json:"LastDelivered"`
	Failures      int           `json:"Failures"`      // failed tries in a row
	Failing       time.Time     `json:"Failing"`       // when the current run of failures started; zero if the last try succeeded
	Tried         time.Time     `json:"Tried"`         // the last try, by the same clock as Failing
	Held          time.Time     `json:"Held,omitzero"` // until when the target wants nothing, by the same clock
	Paused        time.Time     `json:"Paused"`        // since when nothing is sent after a long run of failures; zero if it is not paused
}

// Wants reports whether the webhook wants the event e.
func (w *Webhook) Wants(e Event) bool {
	return w.Enabled && (slices.Contains(w.Events, e) || slices.Contains(w.Events, AllEvents))
}

// secretOverlap is how long the previous secret signs beside a new one.
const secretOverlap = 24 * time.Hour

// SetSecret changes the secret; "" removes it and the previous one.
func (w *Webhook) SetSecret(secret string, now time.Time) {
	if secret == w.Secret {
		return
	}
	w.Former, w.FormerEnds = "", time.Time{}
	if secret != "" && w.Secret != "" {
		w.Former, w.FormerEnds = w.Secret, now.Add(secretOverlap)
	}
	w.Secret = secret
}

// Forget drops the previous secret when it no longer signs.
func (w *Webhook) Forget(now time.Time) {
	if !now.Before(w.FormerEnds) {
		w.Former, w.FormerEnds = "", time.Time{}
	}
}

// Secrets returns the secrets that sign at the given time, the current one first.
func (w *Webhook) Secrets(now time.Time) []string {
	switch {
	case w.Secret == "":
		return nil
	case w.Former != "" && now.Before(w.FormerEnds):
		return []string{w.Secret, w.Former}
	}
	return []string{w.Secret}
}

// secretPrefix begins a secret in the form of Standard Webhooks.
const secretPrefix = "whsec_"

// CheckSecret is the rule for a webhook's secret: whsec_ and 24 to 64 bytes in
// base64, as in Standard Webhooks, or any other text.
func CheckSecret(t string) error {
	if !strings.HasPrefix(t, secretPrefix) {
		return nil
	}
	if n := len(SecretKey(t)); n < 24 || n > 64 || string(SecretKey(t)) == t {
		return errors.New("must have 24 to 64 bytes in base64 after whsec_")
	}
	return nil
}

// SecretKey is the signing key of a secret in Standard Webhooks.
func SecretKey(t string) []byte {
	if text, ok := strings.CutPrefix(t, secretPrefix); ok {
		if key, err := base64.StdEncoding.DecodeString(text); err == nil {
			return key
		}
	}
	return []byte(t)
}

// SecretKeys are the signing keys of a secret: SecretKey, and the decoded bytes
// of a secret that is base64 without whsec_, because the libraries of Standard
// Webhooks use those as the key.
func SecretKeys(t string) [][]byte {
	keys := [][]byte{SecretKey(t)}
	if key, err := base64.StdEncoding.DecodeString(t); err == nil && len(key) > 0 && !strings.HasPrefix(t, secretPrefix) {
		keys = append(keys, key)
	}
	return keys
}

// DeliveryState is the state of a delivery.
type DeliveryState string

// The states of a delivery.
const (
	Waiting DeliveryState = "waiting"
	Done    DeliveryState = "done"
	Parked  DeliveryState = "parked" // given up; it can be sent again by hand
)

// Delivery is one event on its way to one webhook.
type Delivery struct {
	ID      ID            `json:"ID"`
	Hook    ID            `json:"Hook"`
	Owner   ID            `json:"Owner"`
	Subject ID            `json:"Subject"` // what the event is about; deliveries about one subject arrive in order
	Event   Event         `json:"Event"`
	At      time.Time     `json:"At"`   // of the event
	Size    int64         `json:"Size"` // of the notice, in bytes
	State   DeliveryState `json:"State"`
	Due     time.Time     `json:"Due"`   // the next try; zero while an earlier one of the subject waits
	Tries   int           `json:"Tries"` // since it was queued, or sent again by hand
	Noted   time.Time     `json:"Noted"` // the last try, or when it was parked; zero: never tried

	// The last try.
	Try
}

// Notice is the content of a delivery: a record as it was, or something else.
type Notice struct {
	// Of a record.
	Key    []byte `json:"Key,omitempty"`
	Row    []byte `json:"Row,omitempty"`
	Views  int64  `json:"Views,omitempty"`
	Tags   []Tag  `json:"Tags,omitempty"`
	Folder string `json:"Folder,omitempty"`
	Page   *Page  `json:"Page,omitempty"` // of a bookmark

	Inside     *Inside `json:"Inside,omitempty"`     // of a collection
	NeverStrip bool    `json:"NeverStrip,omitempty"` // of a file: Shown.NeverStrip

	// Of anything else.
	Title string          `json:"Title,omitempty"` // in one line
	Path  string          `json:"Path,omitempty"`  // of a page about it, below the server's address
	Data  json.RawMessage `json:"Data,omitempty"`  // a JSON object
}

// NoticeOf returns a notice with the current state of a record.
func NoticeOf(v *Shown) Notice {
	n := Notice{Key: v.Key(), Row: v.AppendRow(nil), Views: v.Views, Tags: v.TagList, Folder: v.FolderName, NeverStrip: v.NeverStrip}
	switch v.Kind {
	case Bookmarks:
		page := v.Page
		n.Page = &page
	case Collections:
		inside := v.Collected.Inside
		n.Inside = &inside
	}
	return n
}

// Shown is the record of the notice.
func (n *Notice) Shown() (*Shown, error) {
	r, err := ParseRow(n.Key, n.Row)
	if err != nil {
		return nil, fmt.Errorf("notice: %w", err)
	}
	v := &Shown{Record: *r, Views: n.Views, TagList: n.Tags, FolderName: n.Folder, NeverStrip: n.NeverStrip}
	if n.Page != nil {
		v.Page = *n.Page
	}
	if r.Kind == Collections {
		body, err := r.Decode()
		if err != nil {
			return nil, fmt.Errorf("notice: %w", err)
		}
		v.Collected.Collection = *body.(*Collection)
		if n.Inside != nil { // earlier versions left it out
			v.Collected.Inside = *n.Inside
		}
	}
	return v, nil
}

// A Change is a place in the feed of changes, where the record was last written
// or was removed.
type Change struct {
	Seq    uint64
	Owner  ID
	Kind   *Kind
	ID     ID
	Record *Record // nil: it was removed
}

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
	ItemShared      ActivityEvent = "item_shared"
	ItemSpent       ActivityEvent = "limit_reached"
	ItemRestored    ActivityEvent = "restored"
	FileReceived    ActivityEvent = "request_received"
	ImportFinished  ActivityEvent = "import_finished"
)

// ActivityEvents lists what happens in an account. Those from ItemShared on concern only
// its owner; administrators see the others.
var ActivityEvents = []ActivityEvent{
	SignedIn, SessionRevoked, DeviceConnected, DeviceRevoked, KeyCreated, KeyUsed, KeyRevoked,
	AccountCreated, AccountChanged, AccountRemoved, SettingsChanged, LoginLinked, LoginUnlinked,
	CodesOn, CodesOff, RecoveryMade, RecoveryUsed, PasskeyAdded, PasskeyRemoved, PasskeyRefused, StepFailed, LoginReset,
	ItemShared, ItemSpent, ItemRestored, FileReceived, ImportFinished,
}

// ForAdmins reports whether administrators see the event in every account.
func (e ActivityEvent) ForAdmins() bool {
	return slices.Index(ActivityEvents, e) < slices.Index(ActivityEvents, ItemShared)
}

// Activity is an entry in the history of an account. Without an owner, it is about the
// whole instance.
type Activity struct {
	ID      ID            `json:"ID"`
	Owner   ID            `json:"Owner"`
	At      time.Time     `json:"At"`
	Event   ActivityEvent `json:"Event"`
	Name    string        `json:"Name,omitempty"`    // of the browser, key, device, item, file or account
	By      string        `json:"By,omitempty"`      // the user who did it, if not the owner
	Address string        `json:"Address,omitempty"` // of the client
	Network string        `json:"Network,omitempty"` // of a key that was used
	Key     ID            `json:"Key,omitzero"`      // the session or API key
	Kind    string        `json:"Kind,omitempty"`    // of the item
	Item    ID            `json:"Item,omitzero"`
	Changes []string      `json:"Changes,omitempty"` // the fields
	More    int64         `json:"More,omitempty"`    // how often it happened again
}

// Bounds of the activity of an account.
const (
	MaxActivity  = 10_000
	ActivityTime = 400 * 24 * time.Hour
	againWithin  = time.Hour
)

// Repeats reports whether the activity is the same as an earlier one, and soon after it.
func (a *Activity) Repeats(earlier *Activity) bool {
	x, y := *a, *earlier
	x.ID, x.At, x.More = y.ID, y.At, y.More
	return reflect.DeepEqual(x, y) && a.At.Sub(earlier.At) < againWithin
}
