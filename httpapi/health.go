package httpapi

import (
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"kist/blobs"
	"kist/blobs/disk"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

// maxListed is how many damaged and how many missing files are listed. The rest is only
// counted.
const maxListed = 200

// damagedFile is a file, or an upload waiting for approval, whose bytes are damaged or
// missing.
type damagedFile struct {
	id          record.ID
	name, owner string
	sha256      string
	found       time.Time
}

func (v *damagedFile) Fields(s *field.Set) {
	s.ID("id", &v.id, field.Always).Says("Id of the file.", `"01890a5d-ac96-774b-bcce-b302099a8057"`)
	s.LongText("name", &v.name, record.MaxContent).Says("Its name.", `"beach.jpg"`)
	s.LongText("owner", &v.owner, record.MaxContent).Says("Name of the account that owns it.", `"ann"`)
	s.LongText("sha256", &v.sha256, 64).Says("Expected hash of its bytes.", `"`+strings.Repeat("9f", 32)+`"`)
	s.Time("foundAt", &v.found, field.Always).Says("When the damage was found.", `"2026-01-02T03:04:05.678Z"`)
}

type filesHealth struct {
	checked           time.Time
	damaged, missing  []damagedFile
	nDamaged, nAbsent int64
}

func (v *filesHealth) Fields(s *field.Set) {
	one := field.ObjectOf(new(damagedFile))
	list := field.Schema{Type: "array", MaxItems: maxListed, Items: &one}
	s.Time("checkedAt", &v.checked).
		Says("When all stored files were last read and checked; null if never.", `"2026-01-02T03:04:05.678Z"`)
	s.Shown("damaged", list, func(dst []byte) []byte { return appendDamaged(dst, v.damaged) }).
		Says("The first files whose stored bytes are damaged. Their owner gets 503, others get 410. To repair one, "+
			"upload the same file again or run kist restore --missing.", `[]`)
	s.Number("damagedTotal", &v.nDamaged, 0, 1<<53).Says("Number of damaged files.", `0`)
	s.Shown("missing", list, func(dst []byte) []byte { return appendDamaged(dst, v.missing) }).
		Says("The first files whose bytes are missing. The server checks this once a day and when it starts.", `[]`)
	s.Number("missingTotal", &v.nAbsent, 0, 1<<53).Says("Number of missing files.", `0`)
}

func appendDamaged(dst []byte, all []damagedFile) []byte {
	return field.AppendList(dst, all, func(dst []byte, f damagedFile) []byte { return field.AppendJSON(dst, &f) })
}

type journalHealth struct{ kv.JournalHealth }

func (v *journalHealth) Fields(s *field.Set) {
	s.Time("checkedAt", &v.Checked).
		Says("When the journal was last read completely since the server started; null if not yet.",
			`"2026-01-02T03:04:05.678Z"`)
	names := field.Schema{Type: "array", Items: &field.Schema{Type: "string"}}
	s.Shown("damaged", names, func(dst []byte) []byte { return field.AppendStrings(dst, v.Damaged) }).
		Says("The damage that was found last.", `[]`)
	s.Time("healedAt", &v.Healed).
		Says("When the damaged files were replaced; null if there was no damage or replacing them failed.", `null`)
}

type diskHealth struct{ free, total, reserve int64 }

func (v *diskHealth) Fields(s *field.Set) {
	s.Number("freeBytes", &v.free, 0, 1<<62).
		Says("Bytes that are free on the disk of the data directory; 0 if that is unknown, as totalBytes is.", `60000000000`)
	s.Number("totalBytes", &v.total, 0, 1<<62).Says("Size of the disk; 0 if unknown.", `250000000000`)
	s.Number("reserveBytes", &v.reserve, 0, 1<<62).Says("Uploads are refused while fewer bytes are free.", `1000000000`)
}

type clockHealth struct {
	doubted bool
	ahead   int64 // seconds
}

func (v *clockHealth) Fields(s *field.Set) {
	s.Bool("doubted", &v.doubted).Says("Whether the machine's clock jumped and is not trusted yet.", `false`)
	s.Number("aheadSeconds", &v.ahead, 0, 1<<53).
		Says("How far the server's time is ahead of the machine's clock, because the clock was ahead earlier.", `0`)
}

// connectionHealth is how this request arrived.
type connectionHealth struct{ forwarded, trusted bool }

func (v *connectionHealth) Fields(s *field.Set) {
	s.Bool("forwarded", &v.forwarded).Says("Whether this request has headers of a proxy.", `true`)
	s.Bool("trusted", &v.trusted).Says("Whether it came from a trusted proxy.", `true`)
}

// storeHealth is how far the server is with its object store.
type storeHealth struct {
	lag, commits   int64 // of what is not there; the lag is in seconds
	slot, snapshot time.Time
	oldest         time.Time
	complete       bool
	exact          bool
	problem        string
}

func (v *storeHealth) Fields(s *field.Set) {
	s.Number("lagSeconds", &v.lag, 0, 1<<53).
		Says("For how many seconds a commit has been missing from the object store; 0 if all are there. "+
			"A restore gives what was stored before.", `0`)
	s.Number("lagCommits", &v.commits, 0, 1<<53).Says("Number of commits that are not there.", `0`)
	s.Time("lastSlotAt", &v.slot).
		Says("When this server last wrote commits there; null if never since it started.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("lastSnapshotAt", &v.snapshot).
		Says("When the latest snapshot was written; null if never.", `"2026-01-02T03:00:00.000Z"`)
	s.Time("oldestAt", &v.oldest).
		Says("The oldest moment that a restore can give; null if that is not known yet.", `"2025-12-03T03:00:00.000Z"`)
	s.Bool("complete", &v.complete).
		Says("Whether everything else is there. If not, it is still being copied, "+
			"and a restore may give less or nothing.", `true`)
	s.Bool("exact", &v.exact).
		Says("Whether the object store lets one of several writers win. If not, no other server can take over.", `true`)
	s.LongText("problem", &v.problem, record.MaxContent).
		Says("Why the latest attempt failed, in English; empty if it did not.", `""`)
}

type shownHealth struct {
	version    string
	commit     string
	date       string // of the commit
	backup     time.Time
	scheduled  *backupHealth // nil without backups by schedule
	store      *storeHealth  // nil without an object store
	disk       diskHealth
	clock      clockHealth
	connection connectionHealth
	journal    journalHealth
	files      filesHealth
}

func (v *shownHealth) Fields(s *field.Set) {
	s.Text("version", &v.version, record.MaxName).Says("Version of the server.", `"1.2.3"`)
	s.Text("commit", &v.commit, record.MaxName).
		Says("Commit that the server was made from; empty if unknown.", `"3e58d5ce5b6f2a7c0d1e2f3a4b5c6d7e8f901234"`)
	s.Text("commitDate", &v.date, record.MaxName).
		Says("Date of that commit; empty if unknown.", `"2026-01-02T03:04:05Z"`)
	s.Time("lastBackupAt", &v.backup).
		Says("Up to when the latest backup has everything: one made by kist backup, downloaded, "+
			"or a copy by another tool that kist verify has found whole; null if none is known.", `"2026-01-02T03:04:05.678Z"`)
	scheduled := field.ObjectOf(new(backupHealth))
	scheduled.Nullable = true
	s.Shown("backup", scheduled, func(dst []byte) []byte {
		if v.scheduled == nil {
			return append(dst, "null"...)
		}
		return field.AppendJSON(dst, v.scheduled)
	}).Says("The backups that the server makes by schedule; null without a schedule.", `null`)
	store := field.ObjectOf(new(storeHealth))
	store.Nullable = true
	s.Shown("store", store, func(dst []byte) []byte {
		if v.store == nil {
			return append(dst, "null"...)
		}
		return field.AppendJSON(dst, v.store)
	}).Says("The object store that everything is copied to; null without one.", `null`)
	s.Shown("disk", field.ObjectOf(&v.disk), func(dst []byte) []byte { return field.AppendJSON(dst, &v.disk) }).
		Says("The disk of the data directory.",
			`{"freeBytes":60000000000,"totalBytes":250000000000,"reserveBytes":1000000000}`)
	s.Shown("clock", field.ObjectOf(&v.clock), func(dst []byte) []byte { return field.AppendJSON(dst, &v.clock) }).
		Says("The clock.", `{"doubted":false,"aheadSeconds":0}`)
	connection := func(dst []byte) []byte { return field.AppendJSON(dst, &v.connection) }
	s.Shown("connection", field.ObjectOf(&v.connection), connection).
		Says("How this request arrived.", `{"forwarded":true,"trusted":true}`)
	s.Shown("journal", field.ObjectOf(&v.journal), func(dst []byte) []byte { return field.AppendJSON(dst, &v.journal) }).
		Says("The records.", `{"checkedAt":"2026-01-02T03:04:05.678Z","damaged":[],"healedAt":null}`)
	s.Shown("files", field.ObjectOf(&v.files), func(dst []byte) []byte { return field.AppendJSON(dst, &v.files) }).
		Says("The stored files.", `{"checkedAt":null,"damaged":[],"damagedTotal":0,"missing":[],"missingTotal":0}`)
}

// assessHealth collects the known problems of the data. It reads no file contents.
func assessHealth(s *web.Site) (*shownHealth, error) {
	v := &shownHealth{journal: journalHealth{s.Store.JournalHealth()}}
	if s.Scrubbed != nil {
		v.files.checked = s.Scrubbed()
	}
	var refs []blobs.Ref
	var files int
	var looked time.Time
	if s.Absent != nil {
		refs, files, looked = s.Absent()
	}
	return v, s.Store.View(func(tx *kv.Tx) error {
		owners := map[record.ID]string{}
		f := &v.files
		for _, d := range s.Blobs.Damaged.List() {
			some, n, err := filesOf(tx, owners, d.Ref, d.Found, maxListed-len(f.damaged))
			if err != nil {
				return err
			}
			f.damaged, f.nDamaged = append(f.damaged, some...), f.nDamaged+n
		}

		back := 0 // files whose bytes exist again
		for _, ref := range refs {
			if _, err := s.Blobs.Stat(ref); !errors.Is(err, fs.ErrNotExist) {
				back += len(tx.Having(ref))
				continue
			}
			some, n, err := filesOf(tx, owners, ref, looked, maxListed-len(f.missing))
			if err != nil {
				return err
			}
			f.missing, f.nAbsent = append(f.missing, some...), f.nAbsent+n
		}
		f.nAbsent = max(f.nAbsent, int64(files-back))
		return nil
	})
}

// filesOf returns the first files that have a content, and how many have it. owners has the names
// of accounts that are known already.
func filesOf(
	tx *kv.Tx, owners map[record.ID]string, ref blobs.Ref, found time.Time, most int,
) (some []damagedFile, n int64, err error) {
	all := tx.Having(ref)
	for _, h := range all[:min(len(all), most)] {
		if _, known := owners[h.Owner]; !known {
			u, err := people.ReadUser(tx, h.Owner)
			if err != nil {
				return nil, 0, err
			}
			owners[h.Owner] = u.Name
		}
		some = append(some, damagedFile{h.ID, h.Name, owners[h.Owner], ref.String(), found})
	}
	return some, int64(len(all)), nil
}

var readHealthOp = web.ReadOp("admin",
	"Lists known problems of the instance's data.", "The known problems.", "Health", readHealth)

func readHealth(c *web.Request) error {
	v, err := assessHealth(c.Site)
	if err != nil {
		return err
	}
	v.version, v.commit, v.date = c.Site.Version, c.Site.Commit, c.Site.Date
	v.backup = c.Site.LastBackup()
	v.scheduled = backupHealthOf(c.Site.Backups)
	if c.Site.Ship != nil {
		st := c.Site.Ship.Status()
		v.store = &storeHealth{
			int64(st.Lag.Seconds()), int64(min(st.Records, 1<<53)),
			st.LastPut, st.LastSnapshot, st.Oldest, st.Complete, st.Exact, st.Damage,
		}
		if st.Failure != nil {
			v.store.problem = st.Failure.Error()
		}
	}
	if room, err := disk.Space(c.Site.Store.Dir()); err == nil { // else unknown
		v.disk = diskHealth{int64(min(room.Free, 1<<62)), int64(min(room.Total, 1<<62)), int64(kv.Reserve(room.Total))}
	}
	_, v.clock.doubted = c.Site.Store.ClockDoubt()
	v.clock.ahead = max(0, int64(time.Until(c.Site.Store.Now()).Seconds()))
	v.connection = connectionHealth{isForwarded(c.R), c.Site.ByProxy(c.R)}
	return c.RespondData(http.StatusOK, v)
}

var readBackupOp = web.Operation{
	Tag: "admin",
	Summary: "A backup of the whole instance as a tar, which kist restore takes. Only one is made at a time. " +
		"It contains everything of everyone, so keep it private.",
	Reply: web.Reply{
		Status: 200, Doc: "The backup. If the connection is cut off, the tar is not complete.",
		Body: &web.Content{Media: "application/x-tar"},
	},
}

// readBackup streams a backup to an administrator. If the client goes away, the next write
// fails, and the backup removes its temporary files.
func (s *Server) readBackup(c *web.Request) error {
	h := c.W.Header()
	web.SetContentHeaders(h, "application/x-tar", "", "kist-backup-"+s.Store.Now().Format("2006-01-02")+".tar", true, false)
	h.Set("Cache-Control", "private, no-store")
	if c.R.Method == http.MethodHead {
		c.W.WriteHeader(http.StatusOK)
		return nil
	}
	if !s.backups.Try() {
		return &record.Error{
			Fault: record.Busy, Code: "busy", Retry: backupRetry,
			Text: "Another backup is being made. Try again in a moment.",
		}
	}
	defer s.backups.Give()
	return s.Backup(c.W)
}

// backupRetry is when clients should try again while another backup is made.
const backupRetry = 30 * time.Second
