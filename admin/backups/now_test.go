package backups

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kist/admin/ops"
	"kist/kv/datadir"
)

// A backup that is asked for is made at once, beside those of the schedule, and only one at a time.
func TestBackUpNow(t *testing.T) {
	p := newPlace(t)
	synctest.Test(t, func(t *testing.T) {
		o := p.options()
		o.Clock = SystemClock()
		s := New(o)
		going, goOn := make(chan struct{}), make(chan struct{})
		s.step = func(step string) error {
			if step == "make" {
				going <- struct{}{}
				<-goOn
			}
			return nil
		}
		ctx, stop := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { s.Run(ctx) })
		<-going // the first one
		p.True(!s.Begin())
		_, err := s.Make(ctx)
		p.True(errors.Is(err, ErrRunning))
		goOn <- struct{}{}
		synctest.Wait()
		p.Equal(len(s.List()), 1)
		night := s.Status().Next

		time.Sleep(time.Hour)
		p.True(s.Begin())
		p.True(s.Status().Running)
		p.True(!s.Begin())
		<-going
		goOn <- struct{}{}
		synctest.Wait()
		p.True(!s.Status().Running)
		p.Equal(s.Status().Next, night)
		p.Equal(len(s.List()), 1) // the newest of the day
		p.True(time.Since(s.Status().Last) < time.Minute)

		time.Sleep(time.Hour)
		var done *ops.BackedUp
		work.Go(func() { done, err = s.Make(ctx) })
		<-going
		goOn <- struct{}{}
		synctest.Wait()
		p.NoErr(err)
		p.Equal(done.Dest, s.List()[0].Path)

		work.Go(func() { _, err = s.Make(t.Context()) }) // the server stops meanwhile
		<-going
		stop()
		goOn <- struct{}{}
		work.Wait()
		p.True(errors.Is(err, context.Canceled))
	})
}

// Who asks while the server stops gets an answer.
func TestBackUpNowAtTheEnd(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := New(p.options())
	ctx, stop := context.WithCancel(t.Context())
	stop()
	result, begun := s.ask()
	p.True(begun)
	s.Run(ctx)
	p.True((<-result).err != nil)
}

// A command makes one as the server does. It removes none, and refuses what the server refuses.
func TestMake(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	job := p.options().Job
	for range 5 {
		done, err := Make(p.folder, job)
		p.NoErr(err)
		p.True(done.Files == 3 && strings.HasPrefix(done.Dest, p.folder))
	}
	all := p.list()
	p.Equal(len(all), 5)
	p.True(sameFile(at(all[0].Path, "a"), at(all[4].Path, "a")))
	last, err := ops.LastBackup(p.data)
	p.NoErr(err)
	p.True(last.Equal(all[0].At))
	p.Equal(usedBefore(p.data), "")

	release, err := hold(p.folder)
	p.NoErr(err)
	_, err = Make(p.folder, job)
	p.True(err != nil && strings.Contains(err.Error(), "another backup is being made"))
	release()
	p.NoErr(os.Remove(at(p.data, "b")))
	p.NoErr(os.RemoveAll(at(all[0].Path, "b")))
	done, err := Make(p.folder, job)
	p.NoErr(err)
	p.Equal(len(done.Missing), 1)
}

// After a restore the data directory knows what the folder knows. Backups of another instance count for nothing.
func TestKnownAfterRestore(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.NoErr(p.night(t.Context(), nil))
	made := p.now
	job := p.options().Job
	p.NoErr(os.RemoveAll(p.data))
	_, err := job.Restore(ops.Source{Path: p.list()[0].Path})
	p.NoErr(err)
	_, err = ops.LastBackup(p.data)
	p.NoErr(err)
	p.NoErr(os.Remove(filepath.Join(p.data, "BACKUP"))) // as after a copy by another tool

	s := New(p.options())
	s.look()
	last, err := ops.LastBackup(p.data)
	p.NoErr(err)
	p.True(last.Equal(made) && s.Status().Last.Equal(made))

	p.NoErr(datadir.WriteInstance(p.data, "other"))
	p.NoErr(os.Remove(filepath.Join(p.data, "BACKUP")))
	s = New(p.options())
	s.look()
	_, err = ops.LastBackup(p.data)
	p.True(err != nil && s.Status().Last.IsZero())
}
