package httpapi_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv/datadir"
	"kist/kv/people"
)

// kept are backups by schedule of a test.
type kept struct {
	mu     sync.Mutex
	status datadir.BackupStatus
	all    []datadir.Backup
}

func (k *kept) Status() *datadir.BackupStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	st := k.status
	return &st
}

func (k *kept) List() []datadir.Backup {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all
}

func (k *kept) Begin() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.status.Running {
		return false
	}
	k.status.Running = true
	return true
}

func someBackups(why string) *kept {
	at := time.Date(2026, 1, 2, 3, 30, 0, 0, time.UTC)
	return &kept{
		status: datadir.BackupStatus{
			Folder: "/mnt/backup/kist", At: "03:30", Keep: "7d,4w,6m", Last: at, Next: at.Add(24 * time.Hour),
			Error: why, Failures: 2,
		},
		all: []datadir.Backup{
			{
				At: at.Add(24 * time.Hour), Path: "/mnt/backup/kist/2026-01-03T03-30-00Z", Size: 1_500_000_000,
				Checked: at.Add(24*time.Hour + time.Minute), Error: "1 file is not in it.",
			},
			{At: at, Path: "/mnt/backup/kist/2026-01-02T03-30-00Z", Size: 1_400_000_000, Checked: at.Add(time.Minute)},
		},
	}
}

// Administrators see the backups by schedule, how they are doing, and their figures; others see nothing.
func TestBackupsBySchedule(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	made := someBackups("There is no room left.")
	a := apitest.Start(t, func(c *web.Config) { c.Backups, c.Metrics = made, true })
	got := a.Get("/api/v1/admin/backups").Want(200)
	is.Equal(got.At("total"), 2.0)
	is.Equal(got.Text("data.0.at"), "2026-01-03T03:30:00.000Z")
	is.Equal(got.At("data.0.ok"), false)
	is.Equal(got.Text("data.0.error"), "1 file is not in it.")
	is.Equal(got.At("data.1.ok"), true)
	is.Equal(got.At("data.1.size"), 1.4e9)
	is.Equal(got.Text("data.1.checkedAt"), "2026-01-02T03:31:00.000Z")
	is.Equal(got.Text("data.1.path"), "/mnt/backup/kist/2026-01-02T03-30-00Z")

	got = a.Get("/api/v1/admin/health").Want(200)
	is.Equal(got.At("data.backup.ok"), false)
	is.Equal(got.Text("data.backup.error"), "There is no room left.")
	is.Equal(got.Text("data.backup.lastAt"), "2026-01-02T03:30:00.000Z")
	is.Equal(got.Text("data.backup.nextAt"), "2026-01-03T03:30:00.000Z")
	a.Get("/readyz").Want(200) // a server without backups serves
	text := string(a.Get("/metrics").Want(200).Body)
	is.True(strings.Contains(text, "\nkist_backup_last_success_timestamp_seconds 1.7673246e+09\n"))
	is.True(strings.Contains(text, "\nkist_backup_failures_total 2\n"))

	ben := a.As(a.AddKey(a.AddUser("ben", people.Member), people.ScopeAll))
	ben.Get("/api/v1/admin/backups").Want(403)

	none := apitest.Start(t, func(c *web.Config) { c.Metrics = true })
	is.Equal(none.Get("/api/v1/admin/backups").Want(200).At("total"), 0.0)
	is.Equal(none.Get("/api/v1/admin/health").Want(200).At("data.backup"), nil)
	is.True(!strings.Contains(string(none.Get("/metrics").Want(200).Body), "kist_backup"))
}

// An administrator has a backup made now, one at a time. It copies nobody's access, so it asks for no fresh sign-in.
func TestMakeBackup(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	made := someBackups("")
	a := apitest.Start(t, func(c *web.Config) { c.Backups = made })
	got := a.Post("/api/v1/admin/backups", nil).Want(202)
	is.Equal(got.At("data.running"), true)
	is.Equal(a.Post("/api/v1/admin/backups", nil).Want(409).Text("code"), "backup_running")
	is.Equal(a.Get("/api/v1/admin/health").Want(200).At("data.backup.running"), true)

	ben := a.As(a.AddKey(a.AddUser("ben", people.Member), people.ScopeAll))
	ben.Post("/api/v1/admin/backups", "").Want(403)
	none := apitest.Start(t)
	is.Equal(none.Post("/api/v1/admin/backups", "").Want(409).Text("code"), "no_schedule")
}
