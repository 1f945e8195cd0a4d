package httpapi_test

import (
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/matryer/is"

	"kist/httpapi/web"
	"kist/kv/datadir"
)

// TestBrowserBackups: one is made at once, the page shows that, and that it is done. Each has words to restore it.
func TestBrowserBackups(t *testing.T) {
	is := is.New(t)
	made := someBackups("")
	b := openBrowser(t, func(c *web.Config) { c.Backups = made })
	b.open("/admin")
	b.until(`document.querySelectorAll('#backups li').length === 2`)
	b.press("Back up now")
	b.until(`document.querySelector('[data-act="backup-now"]')?.disabled`)
	b.until(`document.querySelector('#backup')?.textContent.includes('One is being made now.')`)
	is.True(made.Status().Running)

	made.mu.Lock()
	newest := made.all[0]
	newest.At, newest.Error = newest.At.Add(24*time.Hour), ""
	made.all, made.status.Running = append([]datadir.Backup{newest}, made.all...), false
	made.mu.Unlock()
	b.until(`document.querySelectorAll('#backups li').length === 3`)
	b.until(`document.querySelector('[data-act="backup-now"]')?.disabled === false`)

	is.Equal(b.js(`document.querySelector('#backups li button').textContent`), "Restore")
	b.click(`#backups li button`)
	const command = "kist restore /mnt/backup/kist/2026-01-03T03-30-00Z"
	b.until(`document.querySelector('dialog [name=command]')?.value === '` + command + `'`)
	for _, width := range []int64{360, 1280} {
		b.do(emulation.SetDeviceMetricsOverride(width, 800, 1, false))
		is.Equal(b.js(`document.documentElement.scrollWidth <= innerWidth`), true)
	}
}

// TestBrowserFailedBackups: the home page of an administrator says that the backups fail, each time it is shown, and
// leads to the reason.
func TestBrowserFailedBackups(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t, func(c *web.Config) { c.Backups = someBackups("There is no room left.") })
	const note = `document.querySelector('#backup-note')?.textContent`
	said := note + `.includes('The server makes no good backups at the moment.')`
	b.open("/")
	b.until(said)
	b.click(`nav a[href="/notes"]`)
	b.until(note + ` === undefined`)
	b.js(`history.back()`)
	b.until(said)
	b.click(`#backup-note a`)
	b.until(`document.querySelector('#backup .warn')?.textContent === 'There is no room left.'`)
	is.Equal(b.js(note+` === undefined`), true)
}
