package inbox

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
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

	Uncollected catalog.Uncollected `json:"Uncollected,omitzero"` // why the file is not in the request's collection
}

// Decide decides about the item; Taken unless it is pending.
func (i *Item) Decide(to State, now time.Time) error {
	if i.State != Pending {
		text := "This file was " + string(i.State) + " already."
		return &record.Error{Fault: record.Taken, Code: "already_decided", Text: text}
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
	field.Choice(s, "status", &i.State, States).
		Says("Whether the file waits for a decision, was approved or was rejected.", `"pending"`)
	s.Text("fileName", &i.Name, record.MaxFileName).Says("The file's name, cleaned.", `"IMG_0042.jpg"`)
	s.Number("fileSize", &i.Size, 0, 1<<53).Says("Size in bytes.", `48213`)
	s.Text("mimeType", &i.MimeType, record.MaxMediaType).
		Says("Media type, worked out from the bytes and the name.", `"image/jpeg"`)
	s.Text("uploaderName", &i.Sender, MaxSenderName).Says("Name that the sender gave.", `"Bob"`)
	s.Text("message", &i.Message, MaxMessage).Says("Message from the sender.", `"From the second roll"`)
	s.Time("createdAt", &i.Created, field.Always).Says("When the file was received.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("decidedAt", &i.Decided).Says("When the owner decided; null while the file waits.", `null`)
	s.ID("fileId", &i.File).Says("Id of the file that approval made; null before that.", `null`)
	s.Shown("fileSlug", field.Schema{Type: "string", Nullable: true}, func(dst []byte) []byte {
		if i.FileSlug == "" {
			return append(dst, "null"...)
		}
		return field.AppendString(dst, i.FileSlug)
	}).Says("Slug of that file.", `null`)
	field.MaybeChoice(s, "notCollected", &i.Uncollected, catalog.UncollectedReasons).
		Says("Why the file did not go into the collection of its upload request: full, the collection has 5000 items; "+
			"gone, it was deleted or shows a folder or a tag now. The file was made all the same. Otherwise null.", `"full"`)
}

// Receipt is an item as its sender sees it, with the secret to take it back.
type Receipt struct {
	*Item
	Secret string
}

// Fields is the shape of a receipt: everything that the sender may know.
func (r Receipt) Fields(s *field.Set) {
	s.ID("itemId", &r.ID, field.Always).Says("Id of the item.", `"01890a5d-ac96-774b-bcce-b302099a8057"`)
	field.Choice(s, "status", &r.State, States).
		Says("Whether the file waits for approval, was approved or was rejected.", `"pending"`)
	s.Text("fileName", &r.Name, record.MaxFileName).Says("The file's name, cleaned.", `"IMG_0042.jpg"`)
	s.Number("fileSize", &r.Size, 0, 1<<53).Says("Size in bytes.", `48213`)
	s.Text("takeBack", &r.Secret, 255).
		Says("Secret to see the file again and to take it back, for an hour.", `"wFq3…"`)
}

// SenderForm is a sender's input in addition to the files.
type SenderForm struct{ Name, Message string }

// Fields is the shape of the input.
func (f *SenderForm) Fields(s *field.Set) {
	s.Name("name", &f.Name, MaxSenderName).Says("Name of the sender.", `"Bob"`)
	s.Ruled("message", &f.Message, cleanMessage, "", MaxMessage).
		Says("Message to the owner; a line break counts as one character.", `"From the second roll"`)
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
	field.Choice(s, "action", &d.Action, Verdicts, field.Required).
		Says("Whether to approve or reject the file.", `"approve"`)
	s.Bool("isPublic", &d.Public).Says("Whether others can see the file; false if absent.", `false`)
	s.Name("folderName", &d.FolderName, record.MaxName).Says("Folder to use instead of the request's.", `"Wedding"`)
	s.Texts("tags", &d.Tags, record.CleanTag, record.MaxTags, record.MaxTag).Says("Tag names for the file.", `["wedding"]`)
}

func itemKey(owner, request record.ID, rest ...byte) []byte {
	return append(kv.OwnedKey(owner, request[:]...), rest...)
}

// ItemRows is the queue of files that came in through upload requests.
var ItemRows = func() *table.Table[Item] {
	key := func(i *Item) []byte { return itemKey(i.Owner, i.Request, i.ID[:]...) }
	t := kv.JsonTable(
		itemBucket, key,
		table.Index[Item]{Bucket: itemState, Keys: func(i *Item, file func([]byte)) {
			file(append(append(kv.OwnedKey(i.Owner, i.State[0]), i.ID[:]...), i.Request[:]...))
		}},
		table.Index[Item]{Bucket: itemBlob, Keys: func(i *Item, file func([]byte)) {
			if i.State == Pending {
				file(append(bytes.Clone(i.Ref[:]), key(i)...))
			}
		}},
	)
	t.Bytes = func(i *Item, length int) (table.Bucket, []byte, int) { return kv.TextSum(i.Owner, length) }
	t.Sums = kv.SumBucket
	t.Tally = func(i *Item, add func([]byte, int64)) {
		add(inState(i.Owner, i.State), 1)
		add(inRequest(i.Owner, i.Request, i.State), 1)
		add(receivedBytes(i.Owner, i.Request), i.Size)
		if i.State == Pending {
			add(pendingBytes(i.Owner), i.Size)
		}
	}
	return t
}()

// ItemTable keeps the files that senders left.
var ItemTable = kv.Table{
	Buckets: []table.Bucket{itemBucket, itemState, itemBlob},
	Check: kv.CheckRows(ItemRows, func(a *kv.Audit, i *Item) {
		a.Refers(kv.RequestBucket, requestKey(i.Owner, i.Request), "upload", i.ID)
	}),
	Refill: kv.RefillRows(ItemRows, kv.Mending[Item]{
		Mend: func(r *kv.Refill, i *Item) error { return standInRequest(r, i) },
	}),
	Contents: kv.IndexContents(itemBlob, ItemRows, func(i *Item) int64 { return i.Size }, func(i *Item) kv.Holder {
		return kv.Holder{ID: i.ID, Name: i.Name, Owner: i.Owner}
	}),
	Bytes: func(tx *kv.Tx, owner record.ID) (stored, _ int64) { return ItemRows.Sum(tx.Tx, pendingBytes(owner)), 0 },
	Text:  kv.RowText(itemBucket),
}

// standInRequest creates a closed upload request for an item whose request is lost.
func standInRequest(r *kv.Refill, i *Item) error {
	if r.Get(kv.RequestBucket, requestKey(i.Owner, i.Request)) == nil {
		q := NewRequest()
		q.ID, q.Owner, q.Slug, q.Title, q.Active = i.Request, i.Owner, catalog.NewSlug(r.Tx), "Recovered", false
		q.Created, q.Updated = i.Created, i.Created
		r.Lost(fmt.Errorf("upload request %s is lost; a closed one takes its place for the files sent to it", q.ID))
		if err := people.StandIn(r, q.Owner); err != nil {
			return err
		}
		if err := RequestRows.Put(r.Tx.Tx, &q); err != nil {
			return err
		}
	}
	return people.StandIn(r, i.Owner)
}

// A Queue says which items to list.
type Queue struct {
	Owner         record.ID
	Request       record.ID // zero: all requests; State must be set then
	State         State     // "": any
	Limit, Offset int
	After         record.ID // start after this item; zero: at the oldest
}

// ListQueue lists items, oldest first, and says how many there are in all. For one
// request in one state it walks the items of the request or the owner's items in that
// state, whichever are fewer.
func ListQueue(tx *kv.Tx, q Queue) (page []*Item, total int64, err error) {
	byState := q.Request == uuid.Nil
	if byState {
		total = ItemRows.Sum(tx.Tx, inState(q.Owner, q.State))
	} else {
		received := int64(0)
		for _, s := range States {
			n := ItemRows.Sum(tx.Tx, inRequest(q.Owner, q.Request, s))
			received += n
			if q.State == "" || q.State == s {
				total += n
			}
		}
		byState = q.State != "" && ItemRows.Sum(tx.Tx, inState(q.Owner, q.State)) < received
	}
	wanted := int(min(int64(q.Limit), max(0, total-int64(q.Offset))))
	var after []byte
	if q.After != uuid.Nil {
		after = q.After[:]
	}
	read := func(key []byte) error {
		if q.Offset > 0 {
			q.Offset--
			return nil
		}
		i, err := ItemRows.Get(tx.Tx, key)
		if err != nil {
			return fmt.Errorf("item %x: %w", key, err)
		}
		page = append(page, i)
		return nil
	}
	if byState {
		prefix := kv.OwnedKey(q.Owner, q.State[0])
		if after != nil { // past the request, which follows the id in this index
			after = append(bytes.Clone(after), uuid.Max[:]...)
		}
		for k := range tx.Walk(itemState, prefix, after, false) {
			if len(page) == wanted {
				break
			}
			id, request := k[len(prefix):len(prefix)+16], record.ID(k[len(prefix)+16:])
			if q.Request != uuid.Nil && request != q.Request {
				continue
			}
			if err := read(itemKey(q.Owner, request, id...)); err != nil {
				return nil, 0, err
			}
		}
		return page, total, nil
	}
	for k, row := range tx.Walk(itemBucket, itemKey(q.Owner, q.Request), after, false) {
		if len(page) == wanted {
			break
		}
		if q.State != "" {
			i, err := ItemRows.Decode(k, row)
			if err != nil {
				return nil, 0, err
			}
			if i.State != q.State {
				continue
			}
		}
		if err := read(k); err != nil {
			return nil, 0, err
		}
	}
	return page, total, nil
}

// PendingCount is how many items wait for the owner's decision.
func PendingCount(tx *kv.Tx, owner record.ID) int64 {
	return ItemRows.Sum(tx.Tx, inState(owner, Pending))
}

// What happens to a file that came in through an upload link: it waits in the queue or
// becomes a file at once, and its owner decides.

// A Received is a file that came in. Its content is stored and pinned.
type Received struct {
	Name, MimeType string
	Ref            [32]byte
	Size           int64
}

// Receive adds the files that a sender left to the queue, and makes them the owner's
// files at once if the request needs no approval. It replaces the reservation with
// the actual counts. It fails as Reserve does, but not because the owner's text has
// grown since.
func Receive(tx *kv.Tx, r *Reservation, f *SenderForm, came []Received) ([]*Item, error) {
	promises.Of(tx.Store()).drop(r) // from here on the files count as received, or not at all
	size := int64(0)
	for _, c := range came {
		size += c.Size
	}
	q, room, err := checkReservation(tx, r, people.ContentBytes, int64(len(came)), size, size)
	if err == ErrWait { //nolint:errorlint // exactly this value
		return nil, ErrNoRoom
	}
	if err != nil {
		return nil, err
	}
	if room < size {
		return nil, ErrNoRoom
	}

	var all []*Item
	for _, c := range came {
		i := &Item{
			ID: tx.NewID(), Owner: q.Owner, Request: q.ID, State: Pending, Name: c.Name, MimeType: c.MimeType, Size: c.Size,
			Ref: c.Ref, Sender: f.Name, Message: f.Message, Created: tx.Now,
		}
		if q.Approval {
			if err := tx.Delete(catalog.UnreferencedBucket, bytes.Clone(c.Ref[:])); err != nil {
				return nil, err
			}
		} else if err := approve(tx, q, i, &Decision{}); err != nil {
			return nil, err
		}
		all = append(all, i)
	}
	if err := collect(tx, q, all); err != nil {
		return nil, err
	}

	for _, i := range all {
		if err := ItemRows.Put(tx.Tx, i); err != nil {
			return nil, err
		}
		if err := emitItem(tx, jobs.UploadReceived, i); err != nil {
			return nil, err
		}
		a := people.Activity{Owner: q.Owner, Event: people.FileReceived, Name: q.Title, Item: q.ID}
		if err := people.Note(tx, a); err != nil {
			return nil, err
		}
		if q.PerSender > 0 {
			key := append(itemKey(q.Owner, q.ID, r.sender[:]...), i.ID[:]...)
			if err := tx.Put(senderBucket, key, tx.Instant()); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// approve turns an item into one of the owner's files.
func approve(tx *kv.Tx, q *Request, i *Item, d *Decision) error {
	f := record.NewForm(record.Files)
	f.Public, f.Tags, f.FolderName = d.Public, d.Tags, d.FolderName
	f.FolderName = cmp.Or(f.FolderName, q.FolderName)
	f.Body = &record.File{
		OriginalName: i.Name, MimeType: i.MimeType, SHA256: hex.EncodeToString(i.Ref[:]), Size: i.Size, Uploader: i.Sender,
	}
	content := &record.Content{Ref: i.Ref, Size: i.Size}
	if err := i.Decide(Approved, tx.Now); err != nil {
		return err
	}
	r, err := catalog.Add(tx, catalog.Draft{
		Owner: i.Owner, Kind: record.Files, Form: f, Content: content, Charged: true,
	})
	if err != nil {
		return err
	}
	i.File, i.FileSlug = r.ID, r.Slug
	return nil
}

// ReadItem reads an item of the owner's queue.
func ReadItem(tx *kv.Tx, owner, request, id record.ID) (*Item, error) {
	i, err := ItemRows.Get(tx.Tx, itemKey(owner, request, id[:]...))
	return i, kv.UserError(err, "upload")
}

// collect puts the items that have become files into the collection of their request, in this order, and notes at those
// that did not get into it why.
func collect(tx *kv.Tx, q *Request, items []*Item) error {
	var made []*Item
	var files []record.ID
	for _, i := range items {
		if i.State == Approved {
			made, files = append(made, i), append(files, i.File)
		}
	}
	if q.Collection == uuid.Nil || len(files) == 0 {
		return nil
	}
	put, why, err := catalog.Collect(tx, q.Owner, q.Collection, files)
	if err != nil {
		return err
	}
	for _, i := range made[put:] {
		i.Uncollected = why
		if err := ItemRows.Put(tx.Tx, i); err != nil {
			return err
		}
	}
	return nil
}

// Decide is DecideAll for one item.
func Decide(tx *kv.Tx, owner, request, id record.ID, d *Decision) (*Item, error) {
	all, err := DecideAll(tx, owner, request, []record.ID{id}, d)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// DecideAll approves or rejects pending items of one request: all of them, or none if one is missing or, with Taken, was
// decided. Approved items become files and go into the collection of the request. A rejected item keeps only its row,
// and a later sweep unlinks its content unless a file also uses it.
func DecideAll(tx *kv.Tx, owner, request record.ID, ids []record.ID, d *Decision) ([]*Item, error) {
	all, refs := make([]*Item, 0, len(ids)), make([][32]byte, 0, len(ids))
	var q *Request
	for _, id := range ids {
		i, err := ReadItem(tx, owner, request, id)
		if err != nil {
			return nil, err
		}
		all, refs = append(all, i), append(refs, i.Ref)
		if q == nil {
			q, err = ReadRequest(tx, owner, request)
			if err != nil {
				return nil, err
			}
		}
		if d.Approves() {
			err = approve(tx, q, i, d)
		} else {
			err = i.Decide(Rejected, tx.Now)
		}
		if err != nil {
			return nil, err
		}
		if err := ItemRows.Put(tx.Tx, i); err != nil { // now, in case it is named twice
			return nil, err
		}
	}
	if q == nil {
		return all, nil
	}
	if err := collect(tx, q, all); err != nil {
		return nil, err
	}

	event := jobs.UploadRejected
	if d.Approves() {
		event = jobs.UploadApproved
	}
	for n, i := range all {
		if !d.Approves() {
			if err := catalog.MarkUnreferenced(tx, refs[n]); err != nil {
				return nil, err
			}
		}
		if err := emitItem(tx, event, i); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// emitItem sends an event about an item, as the queue shows it, to the owner's webhooks.
func emitItem(tx *kv.Tx, e jobs.Event, i *Item) error {
	n := jobs.Notice{Title: i.Name, Path: "/upload-requests", Data: field.AppendJSON(nil, i)}
	return jobs.Emit(tx, i.Owner, e, i.ID, n)
}
