package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kist/kv/field"
	"kist/kv/record"
)

// Event is something that a webhook can report.
type Event string

// Events that do not belong to one kind.
const (
	LimitReached Event = "limit.reached"
	ShareOpened  Event = "share.opened"
	ItemExpired  Event = "item.expired"

	CollectionShared Event = "collection.shared"     // with a person of this server
	CollectionAdded  Event = "collection.item_added" // by a member
	PageGone         Event = "bookmark.unreachable"
	UploadReceived   Event = "upload_request.received"
	UploadApproved   Event = "upload_request.approved"
	UploadRejected   Event = "upload_request.rejected"
	BackupFailed     Event = "backup.failed" // for administrators alone
	WebhookTest      Event = "webhook.test"
)

// Created is the event of a new record of the kind.
func Created(k *record.Kind) Event {
	if k == record.Files {
		return "file.uploaded"
	}
	return Event(k.Name + ".created")
}

// Edited is the event of a change.
func Edited(k *record.Kind) Event { return Event(k.Name + ".updated") }

// Removed is the event of a removal.
func Removed(k *record.Kind) Event { return Event(k.Name + ".deleted") }

// Restored is the event of a record that comes back from the trash.
func Restored(k *record.Kind) Event { return Event(k.Name + ".restored") }

// AllEvents stands for every event in a webhook's list.
const AllEvents Event = "*"

// Events lists every event that a webhook can ask for.
func Events() []Event {
	var all []Event
	for _, k := range record.Kinds {
		all = append(all, Created(k), Edited(k), Removed(k), Restored(k))
	}
	return append(all, PageGone, UploadReceived, UploadApproved, UploadRejected,
		LimitReached, ShareOpened, ItemExpired, CollectionShared, CollectionAdded, BackupFailed, WebhookTest)
}

// CleanEvent is the rule for the events in a webhook's list.
func CleanEvent(t string) (string, error) {
	all := append(Events(), AllEvents)
	if !slices.Contains(all, Event(t)) {
		return "", errors.New("must be one of: " + strings.Join(field.Words(all), ", "))
	}
	return t, nil
}

// Notice is the content of a delivery: a record as it was, or something else.
type Notice struct {
	// Of a record.
	Key    []byte       `json:"Key,omitempty"`
	Row    []byte       `json:"Row,omitempty"`
	Views  int64        `json:"Views,omitempty"`
	Used   int64        `json:"Used,omitempty"`
	Tags   []record.Tag `json:"Tags,omitempty"`
	Folder string       `json:"Folder,omitempty"`
	Page   *record.Page `json:"Page,omitempty"` // of a bookmark

	Inside     *record.Inside `json:"Inside,omitempty"`     // of a collection
	NeverStrip bool           `json:"NeverStrip,omitempty"` // of a file: Shown.NeverStrip

	// Of anything else.
	Title string          `json:"Title,omitempty"` // in one line
	Path  string          `json:"Path,omitempty"`  // of a page about it, below the server's address
	Data  json.RawMessage `json:"Data,omitempty"`  // a JSON object
}

// NoticeOf returns a notice with the current state of a record.
func NoticeOf(v *record.Shown) Notice {
	n := Notice{
		Key: v.Key(), Row: v.AppendRow(nil), Views: v.Views, Used: v.Used,
		Tags: v.TagList, Folder: v.FolderName, NeverStrip: v.NeverStrip,
	}
	switch v.Kind {
	case record.Bookmarks:
		page := v.Page
		n.Page = &page
	case record.Collections:
		inside := v.Collected.Inside
		n.Inside = &inside
	}
	return n
}

// Shown is the record of the notice.
func (n *Notice) Shown() (*record.Shown, error) {
	r, err := record.ParseRow(n.Key, n.Row)
	if err != nil {
		return nil, fmt.Errorf("notice: %w", err)
	}
	v := &record.Shown{
		Record: *r, Views: n.Views, Used: n.Used, TagList: n.Tags, FolderName: n.Folder, NeverStrip: n.NeverStrip,
	}
	if n.Page != nil {
		v.Page = *n.Page
	}
	if r.Kind == record.Collections {
		body, err := r.Decode()
		if err != nil {
			return nil, fmt.Errorf("notice: %w", err)
		}
		v.Collected.Collection = *body.(*record.Collection)
		if n.Inside != nil { // earlier versions left it out
			v.Collected.Inside = *n.Inside
		}
	}
	return v, nil
}
