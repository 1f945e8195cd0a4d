// Package kvtest has helpers shared by the tests of the store.
package kvtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kist/blobs/disk"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/datadir"
	"kist/kv/field"
	"kist/kv/history"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/journal"
	"kist/kv/kvtest/needs"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/repair"
	"kist/kv/table"
	"kist/kv/tables"
	"kist/kv/transfer"
	"kist/kv/workcopy"
)

// Key makes an API key for the owner.
func Key(t testing.TB, s *kv.Store, owner record.ID, k people.Key) (made *people.Key, secret string) {
	t.Helper()
	k.Owner = owner
	Update(t, s, func(tx *kv.Tx) (err error) {
		made, secret, err = people.AddKey(tx, k)
		return err
	})
	return made, secret
}

// Limit is a limit of five tries.
func Limit(of string) people.Limit { return people.Limit{Kind: 'p', Of: of, Most: 5} }

// Clock is a wall clock set by tests.
type Clock struct{ Ms atomic.Int64 }

// NewClock returns a clock set to the beginning of 2026.
func NewClock() *Clock {
	c := new(Clock)
	c.Ms.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli())
	return c
}

// Now returns what the clock shows.
func (c *Clock) Now() time.Time { return time.UnixMilli(c.Ms.Load()) }

// Add moves the clock forward or back.
func (c *Clock) Add(d time.Duration) { c.Ms.Add(d.Milliseconds()) }

// Quiet logs nothing.
var Quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// OpenAt opens a store and closes it when the test ends.
func OpenAt(t testing.TB, dir string, now func() time.Time) *kv.Store {
	t.Helper()
	return Opened(t, dir, kv.Options{Schema: tables.All, Now: now, Log: Quiet})
}

// SmallDisk is a disk with room for all that tests store, however full the machine's own is. On a small one a store
// keeps little ballast: the 8 MiB of a real one, which each test would write and sync, cost more than most tests do.
func SmallDisk() (disk.Room, error) { return disk.Room{Free: 1 << 40, Total: 1 << 20}, nil }

// Opened opens a store with options and closes it when the test ends. Its disk is a small one unless they say more.
func Opened(t testing.TB, dir string, o kv.Options) *kv.Store {
	t.Helper()
	if o.Space == nil {
		o.Space = SmallDisk
	}
	s, err := kv.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Open opens a new store and closes it when the test ends.
func Open(t testing.TB) *kv.Store {
	t.Helper()
	return OpenAt(t, filepath.Join(t.TempDir(), "data"), nil)
}

// CopyOf opens a copy of the store's journal as it is on the disk now, like the one
// left by a process killed at this moment.
func CopyOf(t testing.TB, s *kv.Store) *kv.Store {
	t.Helper()
	return OpenAt(t, LeftOf(t, s), s.Now)
}

// LeftOf makes the same copy as CopyOf without opening it.
func LeftOf(t testing.TB, s *kv.Store) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	from, to := filepath.Join(s.Dir(), "journal"), filepath.Join(dir, "journal")
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if strings.HasPrefix(e.Name(), ".new-") {
			continue // unfinished; it may be gone by now
		}
		if e.Name() == journal.RecentName {
			continue // the log alone suffices unless the power fails
		}
		if e.IsDir() { // some tests put a folder in the place of a file
			if err := os.CopyFS(filepath.Join(to, e.Name()), os.DirFS(filepath.Join(from, e.Name()))); err != nil {
				t.Fatal(err)
			}
			continue
		}
		text, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		err = os.WriteFile(filepath.Join(to, e.Name()), text, 0o600) // #nosec G703 -- folders of a test
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Update runs a transaction and ends the test if it fails.
func Update(t testing.TB, s *kv.Store, fn func(*kv.Tx) error) {
	t.Helper()
	if err := s.Update(fn); err != nil {
		t.Fatal(err)
	}
}

// View runs a reading transaction and ends the test if it fails.
func View(t testing.TB, s *kv.Store, fn func(*kv.Tx) error) {
	t.Helper()
	if err := s.View(fn); err != nil {
		t.Fatal(err)
	}
}

// Form reads JSON into the form of a new record.
func Form(t testing.TB, k *record.Kind, text string) *record.Form {
	t.Helper()
	f := record.NewForm(k)
	var shape field.Shaped = f
	if k == record.Files {
		shape = record.Upload{Form: f}
	}
	in, err := field.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := field.Create(shape, in); err != nil {
		t.Fatal(err)
	}
	return f
}

// Patch reads JSON into the form of a stored record.
func Patch(r *record.Record, text string) (*record.Form, error) {
	f, err := r.Form()
	if err != nil {
		return nil, err
	}
	in, err := field.Parse([]byte(text))
	if err != nil {
		return nil, err
	}
	return f, f.Patch(in)
}

// User makes an administrator.
func User(t testing.TB, s *kv.Store, name string) *people.User {
	t.Helper()
	var u *people.User
	Update(t, s, func(tx *kv.Tx) (err error) {
		u, err = people.AddUser(tx, people.User{Name: name, Role: people.Admin, Quota: -1})
		return err
	})
	return u
}

// TextNow returns how many bytes of text count against the owner's quota now.
func TextNow(t testing.TB, s *kv.Store, owner record.ID) (n int64) {
	t.Helper()
	View(t, s, func(tx *kv.Tx) error { n = tx.Text(owner); return nil })
	return n
}

// Add makes a record.
func Add(t testing.TB, s *kv.Store, owner record.ID, k *record.Kind, text string) *record.Record {
	t.Helper()
	f := Form(t, k, text)
	var r *record.Record
	Update(t, s, func(tx *kv.Tx) (err error) {
		r, err = catalog.Add(tx, catalog.Draft{Owner: owner, Kind: k, Form: f, Content: Content(k, 0, 0)})
		return err
	})
	return r
}

// Content returns content for a file, nil for other kinds.
func Content(k *record.Kind, ref byte, size int64) *record.Content {
	if k != record.Files {
		return nil
	}
	return &record.Content{Ref: [32]byte{ref}, Size: size}
}

// AsError finds the record.Error in err.
func AsError(err error, e **record.Error) bool { return errors.As(err, e) }

// Code returns the code of a record.Error; "" for other errors.
func Code(err error) string {
	var e *record.Error
	if AsError(err, &e) {
		return e.Code
	}
	return ""
}

// Commits returns how many commits the journal has.
func Commits(t testing.TB, s *kv.Store) int {
	t.Helper()
	_, n, err := kv.Origin(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// Tick calls the Tick function of all tables.
func Tick(s *kv.Store) {
	for _, row := range tables.All.Tables {
		if row.Tick != nil {
			row.Tick(s)
		}
	}
}

// Viewed returns the stored counter of a record: all views, and views against its limit.
func Viewed(tx *kv.Tx, r *record.Record) (n [2]int64) {
	if row := tx.Get(Bucket("view"), r.ID[:]); len(row) == 16 {
		n = [2]int64{int64(binary.BigEndian.Uint64(row)), int64(binary.BigEndian.Uint64(row[8:]))}
	}
	return n
}

// keyOfRequest returns the key of an upload request.
func keyOfRequest(owner, id record.ID) []byte { return slices.Concat(owner[:], []byte{0}, id[:]) }

// Bucket finds a bucket by its name.
func Bucket(name string) table.Bucket {
	for b := range tables.All.Buckets().All() {
		if b.Name == name {
			return b
		}
	}
	panic("there is no bucket " + name)
}

// Dump returns everything in the store, by bucket and key.
func Dump(tx *kv.Tx) map[string]string {
	out := map[string]string{}
	for b := range tables.All.Buckets().All() {
		for k, v := range tx.Walk(b, nil, nil, false) {
			out[fmt.Sprintf("%s %x", b.Name, k)] = string(v)
		}
	}
	return out
}

// LeftOver finds the entries that name the account, except marks in the feed of
// changes.
func LeftOver(tx *kv.Tx, id record.ID) []string {
	var out []string
	for b := range tables.All.Buckets().All() {
		for k, v := range tx.Walk(b, nil, nil, false) {
			if b == Bucket("change") {
				continue
			}
			if bytes.Contains(k, id[:]) || bytes.Contains(v, id[:]) || bytes.Contains(v, []byte(id.String())) {
				out = append(out, fmt.Sprintf("%s %x", b.Name, k))
			}
		}
	}
	slices.Sort(out)
	return out
}

// DeliveriesOf lists all deliveries of a webhook, oldest first.
func DeliveriesOf(t testing.TB, tx *kv.Tx, hook record.ID) []jobs.Delivery {
	t.Helper()
	all, err := kv.Collect(jobs.DeliveryRows, tx, hook[:])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ErrPlanned is an error that tests return on purpose.
var ErrPlanned = errors.New("planned")

// OpenEnv is the environment variable that makes the test binary only open a store.
const OpenEnv = "KIST_TEST_OPEN"

// RunTests runs the tests of a package. In a process that a test started, it does the
// work of that process instead.
func RunTests(m *testing.M) {
	if os.Getenv(HangEnv) != "" && os.Getenv(workcopy.ChildEnv) != "" {
		misbehave(os.Getenv(HangEnv))
	}
	workcopy.Child()
	dir := os.Getenv(OpenEnv)
	if dir == "" {
		// The race detector would make each process of a test wait a second at its end.
		if err := os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0"); err != nil {
			panic(err)
		}
		needs.Run(m)
	}
	start := time.Now()
	_, err := kv.Open(dir, kv.Options{Schema: tables.All})
	var used *datadir.InUse
	if !errors.As(err, &used) || time.Since(start) > 2*time.Second {
		fmt.Printf("%v after %v\n", err, time.Since(start))
		os.Exit(1)
	}
	fmt.Print(used.PID)
}

// SetFormat writes another format version into a store and closes it.
func SetFormat(t testing.TB, s *kv.Store, n uint32) {
	t.Helper()
	Update(t, s, func(tx *kv.Tx) error {
		return tx.Put(Bucket("meta"), []byte("format"), binary.BigEndian.AppendUint32(nil, n))
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// FilesIn returns the contents of all files in a folder by path.
func FilesIn(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path) // #nosec G122 -- a folder of a test
		all[path] = string(b)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// FirstError returns the first error that is not nil.
func FirstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// RequestForm returns the form of a new upload request.
func RequestForm(set func(*inbox.RequestForm)) *inbox.RequestForm {
	f := &inbox.RequestForm{Request: inbox.NewRequest()}
	f.Title = "Photos"
	if set != nil {
		set(f)
	}
	return f
}

// AddRequest makes an upload request.
func AddRequest(t testing.TB, s *kv.Store, owner record.ID, set func(*inbox.RequestForm)) *inbox.Request {
	t.Helper()
	var q *inbox.Request
	Update(t, s, func(tx *kv.Tx) (err error) {
		q, err = inbox.AddRequest(tx, owner, RequestForm(set), "")
		return err
	})
	return q
}

// Came returns a received file.
func Came(ref byte, size int64) inbox.Received {
	return inbox.Received{
		Name: fmt.Sprintf("f%d.bin", ref), MimeType: "application/octet-stream", Ref: [32]byte{ref}, Size: size,
	}
}

// Leave makes one complete transfer by a sender.
func Leave(s *kv.Store, q *inbox.Request, from string, files ...inbox.Received) ([]*inbox.Item, error) {
	size := int64(0)
	for _, f := range files {
		size += f.Size
	}
	r, err := inbox.Reserve(s, context.Background(), q, from, size/2, size+3) // as estimated from the length of a body
	if err != nil {
		return nil, err
	}
	got, err := leave(s, r, size, files)
	return got, errors.Join(err, r.Release())
}

func leave(s *kv.Store, r *inbox.Reservation, size int64, files []inbox.Received) (got []*inbox.Item, err error) {
	for range len(files) - 1 {
		if err := r.Another(); err != nil {
			return nil, err
		}
	}
	if r.Bytes() < size {
		return nil, inbox.ErrNoRoom
	}
	err = s.Update(func(tx *kv.Tx) (err error) {
		got, err = inbox.Receive(tx, r, &inbox.SenderForm{Name: "Bob", Message: "hello"}, files)
		return err
	})
	return got, err
}

// HangEnv is the environment variable that makes a process reading a working copy for
// a repair misbehave as a torn file would.
const HangEnv = "KIST_TEST_CHILD"

func misbehave(how string) {
	switch how {
	case "panic":
		panic("torn")
	case "hang":
		select {}
	case "memory":
		var all [][]byte
		go workcopy.Guard()
		for {
			all = append(all, make([]byte, 1<<20))
			all[len(all)-1][0] = 1
			time.Sleep(100 * time.Microsecond)
		}
	case "nothing":
		os.Exit(0)
	case "full":
		os.Exit(workcopy.ExitNoRoom)
	}
}

// Flip flips a bit of a file. A negative place counts from the end.
func Flip(t *testing.T, path string, at int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if at < 0 {
		at += int64(len(b))
	}
	b[at] ^= 4
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(b[at:at+1], at)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// NewestFile returns the path of the newest log or snapshot of a data directory.
func NewestFile(t *testing.T, dir, kind string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "journal", kind+"-*"))
	all = slices.DeleteFunc(all, func(path string) bool { return filepath.Base(path) == journal.RecentName })
	if err != nil || len(all) == 0 {
		t.Fatal("there is no "+kind, err)
	}
	return all[len(all)-1]
}

// Anyone returns the id of a user of the store.
func Anyone(t *testing.T, s *kv.Store) (id record.ID) {
	t.Helper()
	View(t, s, func(tx *kv.Tx) error {
		all, err := people.Users(tx)
		id = all[0].ID
		return err
	})
	return id
}

// BeginSent begins an upload by a sender.
func BeginSent(s *kv.Store, q *inbox.Request, from string, length int64) (*inbox.Upload, string, error) {
	u := inbox.Upload{Length: length, Name: "Bob", Message: "hello"}
	return inbox.BeginSenderUpload(s, context.Background(), q, u, from, "")
}

// Receive ends an upload by a sender.
func Receive(s *kv.Store, u *inbox.Upload, ref byte) error {
	return s.Update(func(tx *kv.Tx) error { return inbox.ReceiveUpload(tx, u, Came(ref, u.Length)) })
}

// StoredJSON has the structs that are stored as JSON, by the name of their bucket or
// file.
var StoredJSON = map[string]any{
	"user":           people.User{},
	"key":            people.Key{},
	"tag":            record.Tag{},
	"folder":         record.Folder{},
	"webhook":        jobs.Webhook{},
	"device":         people.Device{},
	"login":          people.Login{},
	"passkey":        people.Passkey{},
	"identity":       people.Identity{},
	"membership":     catalog.Membership{},
	"delivery":       jobs.Delivery{},
	"notice":         jobs.Notice{},
	"request":        inbox.Request{},
	"item":           inbox.Item{},
	"import":         transfer.ImportRun{},
	"import.remarks": []transfer.Remark{},
	"fetch":          jobs.Fetch{},
	"page":           record.Page{},
	"activity":       people.Activity{},
	"visit":          history.VisitDay{},
	"visit.log":      history.LoggedVisit{},
	"trash":          record.Removal{},
	"version":        record.VersionHead{},
	"upload":         inbox.Upload{},
	"answer":         jobs.StoredAnswer{},
	"meta.settings":  people.Settings{},
	"CLEAN":          datadir.Proof{},
	"INSTANCE":       datadir.InstanceFile{},
	"report":         repair.Repaired{},
}

// BeginUpload begins an upload by an owner.
func BeginUpload(s *kv.Store, u inbox.Upload) (made *inbox.Upload, err error) {
	err = s.Update(func(tx *kv.Tx) error { made, err = inbox.AddUpload(tx, u); return err })
	return made, err
}

// Inhabited returns a closed store with some of everything, and an owner in it.
func Inhabited(t *testing.T) (dir string, owner record.ID) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	s := OpenAt(t, dir, nil)
	u := User(t, s, "ann")
	Update(t, s, func(tx *kv.Tx) error {
		if _, _, err := people.AddKey(tx, people.Key{Owner: u.ID, Name: "k"}); err != nil {
			return err
		}
		hook := jobs.Webhook{Owner: u.ID, Events: []jobs.Event{jobs.AllEvents}, Enabled: true}
		if _, err := jobs.AddWebhook(tx, hook); err != nil {
			return err
		}
		if _, _, err := people.AddDevice(tx, "extension", "192.0.2.1", "192.0.2.1/32"); err != nil {
			return err
		}
		phone := people.Passkey{Owner: u.ID, Name: "phone", Credential: []byte("id"), Key: []byte("key")}
		if _, _, err := people.AddPasskey(tx, phone); err != nil {
			return err
		}
		return people.AddIdentity(tx, u.ID, "https://id.example.org", "248289761001", "ann", "")
	})

	q := AddRequest(t, s, u.ID, func(f *inbox.RequestForm) { f.PerSender = 5 })
	if _, err := Leave(s, q, "here", Came(2, 3), Came(3, 3)); err != nil {
		t.Fatal(err)
	}
	inbox.RequestSeen(s, q)
	sent, _ := Due(t, s)
	Tried(t, s, sent[0], "")

	gone := Add(t, s, u.ID, record.Notes, `{"content":"gone"}`)
	for _, text := range []string{
		`{"content":"one","tags":["a","b"],"isPublic":true,"logVisits":true}`,
		`{"content":"two","tags":["b"],"isFavorite":true,"expiresAt":"2999-01-01T00:00:00Z"}`,
	} {
		r := Add(t, s, u.ID, record.Notes, text)
		if !r.Public {
			continue
		}
		if err := catalog.Seen(s, r, history.Visit{Referrer: "example.org"}); err != nil {
			t.Fatal(err)
		}
	}
	Add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/"}`)
	Update(t, s, func(tx *kv.Tx) error {
		f := Form(t, record.Files, `{}`)
		f.FolderName = "folder"
		file, err := catalog.Add(tx, catalog.Draft{
			Owner: u.ID, Kind: record.Files, Form: f, Content: &record.Content{Ref: [32]byte{1}, Size: 5},
		})
		if err != nil {
			return err
		}
		if _, err := inbox.AddUpload(tx, inbox.Upload{Owner: u.ID, Length: 7, Slug: "to-come"}); err != nil {
			return err
		}
		if _, _, err := inbox.AddSenderUpload(tx, q, inbox.Upload{Length: 5}, "a", 1<<30); err != nil {
			return err
		}
		fetch := jobs.Fetch{Owner: u.ID, URL: "https://go.dev", Slug: "to-fetch"}
		if _, err := jobs.AddFetch(tx, fetch); err != nil {
			return err
		}
		r, err := catalog.Record(tx, u.ID, record.Notes, gone.ID.String())
		if err != nil {
			return err
		}
		for _, source := range []string{
			`{"folderId":"` + file.Folder.String() + `"}`, `{"tag":"b"}`, `{"items":["` + file.ID.String() + `"]}`,
		} {
			if _, err := catalog.Add(tx, catalog.Draft{
				Owner: u.ID, Kind: record.Collections, Form: Form(t, record.Collections, `{"title":"c","source":`+source+`}`),
			}); err != nil {
				return err
			}
		}
		return catalog.Remove(tx, r)
	})
	shareSomething(t, s, u)

	deleted := Add(t, s, u.ID, record.Notes, `{"content":"deleted","tags":["a"],"isPublic":true}`)
	if err := catalog.Seen(s, deleted, history.Visit{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	Edit(t, s, Add(t, s, u.ID, record.Notes, `{"content":"before"}`), `{"content":"after"}`)
	link := Add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/deleted"}`)
	Update(t, s, func(tx *kv.Tx) error {
		file, err := catalog.Add(tx, catalog.Draft{
			Owner: u.ID, Kind: record.Files, Form: Form(t, record.Files, `{}`),
			Content: &record.Content{Ref: [32]byte{7}, Size: 5},
		})
		if err != nil {
			return err
		}
		other := &record.File{OriginalName: "other", Size: 6}
		if err := catalog.Replace(tx, file, other, &record.Content{Ref: [32]byte{6}, Size: 6}, "test"); err != nil {
			return err
		}
		for _, r := range []*record.Record{deleted, link, file} {
			if err := catalog.Trash(tx, r, "test"); err != nil {
				return err
			}
		}
		return nil
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, u.ID
}

// shareSomething makes two people share: each has a collection in which the other has put a note.
func shareSomething(t *testing.T, s *kv.Store, ann *people.User) {
	t.Helper()
	bob := User(t, s, "bob")
	for owner, member := range map[record.ID]record.ID{ann.ID: bob.ID, bob.ID: ann.ID} {
		c := Add(t, s, owner, record.Collections, `{"title":"shared"}`)
		note := Add(t, s, member, record.Notes, `{"content":"of a member"}`)
		Update(t, s, func(tx *kv.Tx) error {
			if err := catalog.Invite(tx, c, member, record.RoleAdd, "owner"); err != nil {
				return err
			}
			return catalog.Pick(tx, c, record.Asker{ID: member, Role: record.RoleAdd}, []string{note.ID.String()}, nil)
		})
	}
}

// ContentOf returns everything in the store except what a repair may change in meta.
func ContentOf(t *testing.T, s *kv.Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	View(t, s, func(tx *kv.Tx) error {
		for b := range tables.All.Buckets().All() {
			for k, v := range tx.Walk(b, nil, nil, false) {
				if b != Bucket("meta") || bytes.Equal(k, []byte("seq")) {
					all[b.Name+string(k)] = string(v)
				}
			}
		}
		return nil
	})
	return all
}

// Edit applies a JSON patch object to a record.
func Edit(t testing.TB, s *kv.Store, r *record.Record, text string) *record.Record {
	t.Helper()
	return EditBy(t, s, r, "", text)
}

// EditBy is Edit in the name of somebody who has seen the record as it is.
func EditBy(t testing.TB, s *kv.Store, r *record.Record, by, text string) *record.Record {
	t.Helper()
	var now *record.Record
	Update(t, s, func(tx *kv.Tx) (err error) {
		now, err = catalog.Record(tx, r.Owner, r.Kind, r.ID.String())
		if err != nil {
			return err
		}
		f, err := Patch(now, text)
		if err != nil {
			return err
		}
		f.By, f.Seen = by, true
		return catalog.Save(tx, now, f, "")
	})
	return now
}

// HookFor makes a webhook.
func HookFor(t testing.TB, s *kv.Store, owner record.ID, events ...jobs.Event) (h jobs.Webhook) {
	t.Helper()
	Update(t, s, func(tx *kv.Tx) (err error) {
		h, err = jobs.AddWebhook(tx, jobs.Webhook{Owner: owner, URL: "https://example.org/", Events: events, Enabled: true})
		return err
	})
	return h
}

// Due lists the deliveries that may be sent, without bounds.
func Due(t testing.TB, s *kv.Store) (found []jobs.Place, wait time.Duration) {
	t.Helper()
	View(t, s, func(tx *kv.Tx) error {
		room := func(*jobs.Webhook) int { return 1 << 20 }
		turns, left, err := jobs.DueDeliveries(tx, room, func(jobs.Due) bool { return false })
		for _, next := range turns {
			found = append(found, next.Place)
		}
		wait = left
		return err
	})
	return found, wait
}

// Tried records a delivery attempt; problem is why it failed, "" if it succeeded.
func Tried(t testing.TB, s *kv.Store, p jobs.Place, problem string) {
	t.Helper()
	Update(t, s, func(tx *kv.Tx) error { return jobs.Tried(tx, p, jobs.Try{Error: problem}) })
}
