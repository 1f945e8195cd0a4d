package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"kist/httpapi/web"
	"kist/kv/datadir"
	"kist/kv/field"
	"kist/kv/record"
)

// backupHealth is how the backups by schedule are doing.
type backupHealth struct {
	datadir.BackupStatus
	ok bool
}

func (v *backupHealth) Fields(s *field.Set) {
	s.Time("lastAt", &v.Last).
		Says("When the last good one was made; null if never.", `"2026-01-02T03:30:00.000Z"`)
	s.Time("nextAt", &v.Next).Says("When the next one is made.", `"2026-01-03T03:30:00.000Z"`)
	s.Bool("ok", &v.ok).Says("Whether the last one was good and is not too old.", `true`)
	s.LongText("error", &v.Error, record.MaxContent).
		Says("What is wrong, in English; empty if nothing is.", `""`)
	s.Bool("running", &v.Running).Says("Whether one is being made now.", `false`)
	s.LongText("folder", &v.Folder, record.MaxContent).Says("The folder that they are in.", `"/mnt/backup/kist"`)
	s.Text("at", &v.At, record.MaxName).Says("The time of the day, in the server's zone.", `"03:30"`)
	s.Text("keep", &v.Keep, record.MaxName).
		Says("How many stay: the newest of each of so many days, weeks, months and years.", `"7d,4w,6m"`)
}

// backupHealthOf describes the backups by schedule; nil without any.
func backupHealthOf(b web.Backups) *backupHealth {
	if b == nil {
		return nil
	}
	st := b.Status()
	return &backupHealth{*st, st.Error == ""}
}

// shownBackup is a backup as administrators see it.
type shownBackup struct {
	datadir.Backup
	ok bool
}

func (v *shownBackup) Fields(s *field.Set) {
	s.Time("at", &v.At, field.Always).Says("It has everything up to then.", `"2026-01-02T03:30:00.000Z"`)
	s.Number("size", &v.Size, 0, 1<<62).
		Says("Size of everything in it, in bytes; files that other backups have as well take space only once.", `1500000000`)
	s.Time("checkedAt", &v.Checked).
		Says("When it was last read and found as it should be, or not; null if that is not known.", `"2026-01-02T03:31:00.000Z"`)
	s.Bool("ok", &v.ok).Says("Whether nothing is known to be wrong with it.", `true`)
	s.LongText("error", &v.Error, record.MaxContent).
		Says("What is wrong with it, in English; empty if nothing is.", `""`)
	s.LongText("path", &v.Path, record.MaxContent).
		Says("Its folder, which kist restore takes.", `"/mnt/backup/kist/2026-01-02T03-30-00Z"`)
}

var listBackupsOp = web.Operation{
	Tag: "admin",
	Summary: "Lists the backups that the server makes by schedule, the newest first. " +
		"Without a schedule the list is empty.",
	Reply: web.Reply{Status: 200, Doc: "All backups in the folder.", Body: web.ListOf("Backup")},
	Serve: listBackups,
}

func listBackups(c *web.Request) error {
	all := []*shownBackup{}
	if c.Site.Backups != nil {
		for _, b := range c.Site.Backups.List() {
			all = append(all, &shownBackup{b, b.OK()})
		}
	}
	return c.Respond(http.StatusOK, func(dst []byte) ([]byte, error) {
		dst = web.AppendAll(append(dst, `{"data":`...), all)
		dst = append(dst, `,"total":`...)
		dst = strconv.AppendInt(dst, int64(len(all)), 10)
		return append(dst, `,"nextCursor":null}`...), nil
	})
}

var makeBackupOp = web.Operation{
	Tag: "admin",
	Summary: "Has a backup made now, in the folder of those by schedule. It is made in the background: " +
		"\"backup\" of the instance's health tells when it is done. Only one is made at a time.",
	Reply: web.Reply{Status: 202, Doc: "How the backups are doing: one is being made.", Body: web.DataOf("BackupHealth")},
	Fails: []int{409}, Serve: makeBackup,
}

func makeBackup(c *web.Request) error {
	all := c.Site.Backups
	if all == nil {
		return &record.Error{
			Fault: record.Taken, Code: "no_schedule",
			Text: "The server makes no backups by schedule. Start it with --backup-to.",
		}
	}
	if !all.Begin() {
		return &record.Error{
			Fault: record.Taken, Code: "backup_running",
			Text: "A backup is being made already. Wait until it is done.",
		}
	}
	return c.RespondData(http.StatusAccepted, backupHealthOf(all))
}

// backups writes the figures about backups by schedule.
func (f *figures) backups(st *datadir.BackupStatus) {
	f.gauge("backup_last_success_timestamp_seconds",
		"When the last good backup by schedule was made, in Unix time; 0 if never. Only with --backup-to.",
		unixTime(st.Last))
	f.counter("backup_failures_total", "Backups by schedule that failed since the start.", float64(st.Failures))
}

// unixTime is a time in seconds; 0 for none.
func unixTime(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.Unix())
}
