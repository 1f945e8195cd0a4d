package jobs

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

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
	ID      record.ID `json:"ID"`
	Owner   record.ID `json:"Owner"`
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
	Failing       time.Time     `json:"Failing"`       // when they started; zero if the last try succeeded
	Tried         time.Time     `json:"Tried"`         // the last try, by the same clock as Failing
	Held          time.Time     `json:"Held,omitzero"` // until when the target wants nothing, by the same clock
	Paused        time.Time     `json:"Paused"`        // since when nothing is sent, after many failures; may be zero
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

// Record records the result of a try.
func (w *Webhook) Record(t Try, now, monotonic time.Time) {
	w.Forget(now)
	w.LastStatus, w.LastError, w.LastTried, w.LastTook = t.Status, t.Error, now, t.Took
	if held := monotonic.Add(t.hold()); held.After(w.Held) {
		w.Held = held
	}
	if t.Error == "" {
		w.LastDelivered = now
		w.Resume()
		return
	}
	w.Failures++
	if w.Failing.IsZero() || monotonic.Sub(w.Tried) > maxGap {
		w.Failing = monotonic // an old failure says nothing about the time since
	}
	w.Tried = monotonic
	if w.Paused.IsZero() && monotonic.Sub(w.Failing) >= pauseAfter {
		w.Paused = now
	}
}

// Resume ends a pause and forgets failures.
func (w *Webhook) Resume() {
	w.Failures, w.Failing, w.Paused = 0, time.Time{}, time.Time{}
}

// MaxWebhooks is how many webhooks an owner may have: each event is stored for every one that wants it.
const MaxWebhooks = 50

// webhookRows is the table of webhooks.
var webhookRows = kv.JsonTable(hookBucket, func(h *Webhook) []byte { return kv.OwnedKey(h.Owner, h.ID[:]...) })

// WebhookTable keeps webhooks.
var WebhookTable = kv.Table{
	Buckets: []table.Bucket{hookBucket},
	Check:   people.CheckOwned(webhookRows, "webhook"), Refill: people.RefillOwned(webhookRows),
	Drop: dropWebhooks,
}

// Webhooks lists the owner's webhooks, oldest first.
func Webhooks(tx *kv.Tx, owner record.ID) ([]Webhook, error) {
	return kv.Collect(webhookRows, tx, owner[:])
}

// Webhook reads one of the owner's webhooks.
func ReadWebhook(tx *kv.Tx, owner, id record.ID) (*Webhook, error) {
	h, err := webhookRows.Get(tx.Tx, kv.OwnedKey(owner, id[:]...))
	return h, kv.UserError(err, "webhook")
}

// AddWebhook adds a webhook. It gets later changes of the same transaction and all
// changes of later ones. An owner has MaxWebhooks at most.
func AddWebhook(tx *kv.Tx, h Webhook) (Webhook, error) {
	if err := people.RequireOwner(tx, h.Owner); err != nil {
		return h, err
	}
	n := 0
	for range tx.Walk(hookBucket, h.Owner[:], nil, false) {
		n++
	}
	if n >= MaxWebhooks {
		text := fmt.Sprintf("You have %d webhooks already, and more are not possible.", n)
		return h, &record.Error{Fault: record.Denied, Code: "too_many_webhooks", Text: text}
	}
	h.ID, h.Created = tx.NewID(), tx.Now
	return h, webhookRows.Put(tx.Tx, &h)
}

// SaveWebhook changes a webhook, which must have been read in the same
// transaction. A change ends a pause and a hold: waiting deliveries are tried again.
func SaveWebhook(tx *kv.Tx, h *Webhook) error {
	h.Resume()
	h.Held = time.Time{}
	h.Forget(tx.Now)
	deliveriesDue.Raise(tx)
	return webhookRows.Put(tx.Tx, h)
}

// dropBatch is how many deliveries of a removed webhook are deleted in one
// transaction.
const dropBatch = 500

// RemoveWebhook deletes a webhook and its deliveries. It turns the webhook off first
// and deletes the deliveries in several transactions, so that other writers are not
// kept waiting. If it is interrupted, calling it again continues.
func RemoveWebhook(s *kv.Store, owner, id record.ID) error {
	err := s.Update(func(tx *kv.Tx) error {
		h, err := ReadWebhook(tx, owner, id)
		if err != nil {
			return err
		}
		h.Enabled = false
		return SaveWebhook(tx, h)
	})
	if err != nil {
		return err
	}

	for {
		done := false
		err := s.Update(func(tx *kv.Tx) (err error) {
			done, err = dropWebhook(tx, owner, id, dropBatch)
			return err
		})
		if err != nil || done {
			return err
		}
	}
}

// dropWebhook deletes up to limit of a webhook's deliveries, and the webhook itself
// once none is left. It deletes the latest first: if it is interrupted, the remaining
// deliveries of a subject still start with the one that is due.
func dropWebhook(tx *kv.Tx, owner, id record.ID, limit int) (done bool, err error) {
	var some [][]byte
	for k := range tx.Walk(deliveryBucket, id[:], nil, true) {
		some = append(some, slices.Clone(k))
		if len(some) == limit {
			break
		}
	}
	for _, k := range some {
		if err := dropDelivery(tx, k); err != nil {
			return false, err
		}
	}
	if len(some) == limit {
		return false, nil
	}
	_, err = webhookRows.Delete(tx.Tx, kv.OwnedKey(owner, id[:]...))
	return true, kv.UserError(err, "webhook")
}

// dropWebhooks deletes up to dropBatch deliveries of one of the owner's webhooks, and
// the webhook itself once none is left. done reports that the owner had no webhook.
func dropWebhooks(tx *kv.Tx, owner record.ID) (done bool, err error) {
	all, err := Webhooks(tx, owner)
	if err != nil {
		return false, err
	}
	if len(all) == 0 {
		return true, nil
	}
	_, err = dropWebhook(tx, owner, all[0].ID, dropBatch)
	return false, err
}
