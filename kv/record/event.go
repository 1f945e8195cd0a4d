package record

import (
	"slices"
	"time"
)

// Event is something that a webhook can be told of.
type Event string

// Events that are not of one kind.
const (
	LimitReached Event = "limit.reached"
	ItemExpired  Event = "item.expired"
)

// Created, Edited and Removed name the three changes of a record.
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

// Webhook is where an owner's events are delivered to.
type Webhook struct {
	ID, Owner ID
	Name, URL string
	Format    string
	Secret    string
	Events    []Event // "*" is all
	Enabled   bool
	Created   time.Time
}

// Wants reports whether the webhook is to be told of e.
func (w *Webhook) Wants(e Event) bool {
	return w.Enabled && (slices.Contains(w.Events, e) || slices.Contains(w.Events, "*"))
}

// Delivery is one event on its way to one webhook, with the record as it was.
type Delivery struct {
	ID, Hook, Owner ID
	Event           Event
	At              time.Time
	Key, Row        []byte // the record's key and row
	Views           int64
	Tags            []Tag
	Folder          string
}

// A Change is a place in the feed of changes: the record was written there for
// the last time, or removed.
type Change struct {
	Seq    uint64
	Owner  ID
	Kind   *Kind
	ID     ID
	Record *Record // nil: it is not there any more
}
