package backups

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kist/admin/ops"
)

// copied is a place whose data directory is a copy, and whose folder is the same.
func (p *place) copied() *place {
	p.Helper()
	q := &place{T: p.T, I: p.I, data: filepath.Join(p.TempDir(), "data"), folder: p.folder, user: p.user, now: p.now}
	p.NoErr(os.CopyFS(q.data, os.DirFS(p.data)))
	return q
}

// Of a server and its copy on one folder, the second that comes is refused, whichever that is. Neither removes a backup
// that the other has made.
func TestCopiedDataDirectory(t *testing.T) {
	t.Parallel()
	for name, copyFirst := range map[string]bool{"the copy comes first": true, "the copy comes second": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			for range 3 { // as many as are kept
				p.NoErr(p.night(t.Context(), nil))
			}
			first, second := p, p.copied()
			if copyFirst {
				first, second = second, first
			}
			second.put("only here")
			for range 4 {
				p.NoErr(first.night(t.Context(), nil))
				second.now = first.now
				before := p.names()
				err := second.night(t.Context(), nil)
				p.True(err != nil && strings.Contains(err.Error(), "a copy of its data directory"))
				p.True(strings.Contains(err.Error(), "kist backup init "+p.folder))
				_, err = Make(p.folder, second.options().Job) // asked for by hand
				p.True(err != nil && strings.Contains(err.Error(), "a copy of its data directory"))
				p.Equal(p.names(), before)
			}

			// The other goes on if that is wanted.
			p.NoErr(Adopt(second.data))
			p.NoErr(second.night(t.Context(), nil))
			first.now = second.now
			p.True(first.night(t.Context(), nil) != nil)
			for _, b := range p.list() {
				p.True(b.OK())
				p.restores(b)
			}
		})
	}
}

// What is no copy goes on: a data directory that was restored from any of the backups, one that is used in turns with
// another folder, one that a kill has left, and one whose clock was ahead for a while.
func TestNotCopied(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for range 3 {
		p.NoErr(p.night(t.Context(), nil))
	}
	var restored []*place
	for _, b := range p.list() {
		q := &place{T: t, I: p.I, data: filepath.Join(t.TempDir(), "data"), folder: p.folder}
		_, err := q.options().Job.Restore(ops.Source{Path: b.Path})
		p.NoErr(err)
		restored = append(restored, q)
	}
	for _, q := range restored {
		q.now = p.now
		p.NoErr(q.night(t.Context(), nil))
		p.NoErr(q.night(t.Context(), nil))
		p.now = q.now
	}
	p.NoErr(Adopt(p.data))

	elsewhere := filepath.Join(t.TempDir(), "other")
	_, err := Init(elsewhere, p.data)
	p.NoErr(err)
	for range 2 {
		here := p.folder
		p.folder = elsewhere
		p.NoErr(p.night(t.Context(), nil))
		p.folder = here
		p.NoErr(p.night(t.Context(), nil))
	}

	right := p.now
	p.now = p.now.Add(100 * 24 * time.Hour)
	p.NoErr(p.night(t.Context(), nil))
	p.now = right
	p.NoErr(p.night(t.Context(), nil))
	p.NoErr(p.night(t.Context(), nil))
}

// If the data directory cannot be written to, the backup is made, and the next one too.
func TestNotNoted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.NoErr(p.night(t.Context(), nil))
	note := filepath.Join(p.data, madeName)
	p.NoErr(os.Remove(note))
	p.NoErr(os.Mkdir(note, 0o700)) // it can be neither replaced nor removed
	p.NoErr(os.WriteFile(filepath.Join(note, "x"), nil, 0o600))
	for range 2 {
		p.NoErr(p.night(t.Context(), nil))
	}
	p.True(strings.Contains(p.logged.String(), "the backup is not noted in the data directory"))
	p.Equal(len(p.list()), 3)
}
