package inbox

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"kist/kv/field"
	"kist/kv/record"
)

// State is the state of a received file.
type State string

// The states. Only a pending one can be decided.
const (
	Pending  State = "pending"
	Approved State = "approved"
	Rejected State = "rejected"
)

// States lists the states.
var States = []State{Pending, Approved, Rejected}

// Item is a file that arrived by a request. It owns its content only while it
// is pending: an approved one has become a file, and a rejected one has no
// content.
type Item struct {
	ID       record.ID `json:"ID"`
	Owner    record.ID `json:"Owner"`
	Request  record.ID `json:"Request"`
	State    State     `json:"State"`
	Name     string    `json:"Name"`
	MimeType string    `json:"MimeType"`
	Size     int64     `json:"Size"`
	Ref      [32]byte  `json:"Ref"` // of the content; zero unless pending
	Sender   string    `json:"Sender"`
	Message  string    `json:"Message"`
	Created  time.Time `json:"Created"`
	Decided  time.Time `json:"Decided"` // zero: not yet
	File     record.ID `json:"File"`    // the file that it became
	FileSlug string    `json:"FileSlug"`
}

// Decide decides about the item; Taken unless it is pending.
func (i *Item) Decide(to State, now time.Time) error {
	if i.State != Pending {
		return &record.Error{Fault: record.Taken, Code: "already_decided", Text: "This file was " + string(i.State) + " already."}
	}
	i.State, i.Decided, i.Ref = to, now, [32]byte{}
	return nil
}

// Fields is the shape of an item in its owner's queue.
func (i *Item) Fields(s *field.Set) {
	const id = `"01890a5d-ac96-774b-bcce-b302099a8057"`
	s.ID("itemId", &i.ID, field.Always).Says("Id of the item.", id)
	s.ID("id", &i.ID, field.Always).Says("The same as itemId.", id)
	s.ID("uploadRequestId", &i.Request, field.Always).Says("Id of the upload request.", id)
	field.Choice(s, "status", &i.State, States).Says("Whether the file waits for a decision, was approved or was rejected.", `"pending"`)
	s.Text("fileName", &i.Name, record.MaxFileName).Says("The file's name, cleaned.", `"IMG_0042.jpg"`)
	s.Number("fileSize", &i.Size, 0, 1<<53).Says("Size in bytes.", `48213`)
	s.Text("mimeType", &i.MimeType, record.MaxMediaType).Says("Media type, worked out from the bytes and the name.", `"image/jpeg"`)
	s.Text("uploaderName", &i.Sender, MaxSenderName).Says("Name that the sender gave.", `"Bob"`)
	s.Text("message", &i.Message, MaxMessage).Says("Message from the sender.", `"From the second roll"`)
	s.Time("createdAt", &i.Created, field.Always).Says("When the file was received.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("decidedAt", &i.Decided).Says("When the owner decided; null if not yet.", `null`)
	s.ID("fileId", &i.File).Says("Id of the approved file; null if there is none.", `null`)
	s.Shown("fileSlug", field.Schema{Type: "string", Nullable: true}, func(dst []byte) []byte {
		if i.FileSlug == "" {
			return append(dst, "null"...)
		}
		return field.AppendString(dst, i.FileSlug)
	}).Says("Slug of that file.", `null`)
}

// Receipt is an item as its sender sees it.
type Receipt struct{ *Item }

// Fields is the shape of a receipt: everything that the sender may know.
func (r Receipt) Fields(s *field.Set) {
	s.ID("itemId", &r.ID, field.Always).Says("Id of the item.", `"01890a5d-ac96-774b-bcce-b302099a8057"`)
	field.Choice(s, "status", &r.State, States).Says("Whether the file waits for approval, was approved or was rejected.", `"pending"`)
	s.Text("fileName", &r.Name, record.MaxFileName).Says("The file's name, cleaned.", `"IMG_0042.jpg"`)
	s.Number("fileSize", &r.Size, 0, 1<<53).Says("Size in bytes.", `48213`)
}

// SenderForm is a sender's input in addition to the files.
type SenderForm struct{ Name, Message string }

// Fields is the shape of the input.
func (f *SenderForm) Fields(s *field.Set) {
	s.Name("name", &f.Name, MaxSenderName).Says("Name of the sender.", `"Bob"`)
	s.Ruled("message", &f.Message, cleanMessage, "", MaxMessage).Says("Message to the owner; a line break counts as one character.", `"From the second roll"`)
}

// cleanMessage is the rule for messages. Browsers count a line end as one
// character and send two (HTML standard, multipart/form-data encoding).
func cleanMessage(t string) (string, error) {
	t = strings.ReplaceAll(t, "\r\n", "\n")
	if utf8.RuneCountInString(t) > MaxMessage {
		return "", fmt.Errorf("must be at most %d characters long", MaxMessage)
	}
	return t, nil
}

// Decision is an owner's decision about a pending item.
type Decision struct {
	Action     string // approve or reject
	Public     bool
	FolderName string // "" means the request's folder
	Tags       []string
}

// Approves reports whether the item is to become a file.
func (d *Decision) Approves() bool { return d.Action == "approve" }

// Verdicts lists the actions.
var Verdicts = []string{"approve", "reject"}

// Fields is the shape of a decision.
func (d *Decision) Fields(s *field.Set) {
	field.Choice(s, "action", &d.Action, Verdicts, field.Required).Says("Whether to approve or reject the file.", `"approve"`)
	s.Bool("isPublic", &d.Public).Says("Whether others can see the file; false if absent.", `false`)
	s.Name("folderName", &d.FolderName, record.MaxName).Says("Folder to use instead of the request's.", `"Wedding"`)
	s.Texts("tags", &d.Tags, record.CleanTag, record.MaxTags, record.MaxTag).Says("Tag names for the file.", `["wedding"]`)
}
