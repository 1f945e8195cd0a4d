package kv_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/journal"
	"kist/kv/kvtest"
	"kist/kv/tables"
	"kist/kv/workcopy"
)

// A start that changes the format keeps the state before, notes the change and says so. Later
// starts say nothing, and a store that was begun with the present format knows of no change.
func TestFormerStateIsKept(t *testing.T) {
	t.Parallel()
	for name, format := range map[string]uint32{"first": 2, "third": 3, "fourth": 4, "": workcopy.Format} {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dir := t.TempDir()
			if name != "" {
				dir = unpack(t, filepath.Join("..", "admin", "testdata", name, "data.tar.gz"))
			}
			before, seq, err := kv.Origin(dir)
			if name != "" {
				is.NoErr(err)
			}

			start := func() (said string) {
				var log bytes.Buffer
				s, err := kv.Open(dir, kv.Options{
					Schema: tables.All, Space: kvtest.SmallDisk, Log: slog.New(slog.NewTextHandler(&log, nil)),
					Now: func() time.Time { return madeAt.Add(240 * time.Hour) },
				})
				is.NoErr(err)
				is.NoErr(s.View(func(tx *kv.Tx) error {
					change, known := tx.Changed()
					is.Equal(known, format < workcopy.Format)
					if known {
						is.Equal(change, kv.FormatChange{From: format, Seq: seq, At: change.At})
						is.True(!change.At.Before(madeAt))
					}
					return nil
				}))
				is.NoErr(s.Close())
				return log.String()
			}
			said := start()
			is.Equal(strings.Contains(said, "kist rollback"), format < workcopy.Format)
			is.True(!strings.Contains(start(), "kist rollback"))

			j, err := journal.Read(filepath.Join(dir, "journal"), workcopy.Format)
			is.NoErr(err)
			defer j.Close()
			former, err := j.Former()
			is.Equal(err == nil, format < workcopy.Format)
			if err != nil {
				return
			}
			is.Equal(former.Seq, seq)
			is.Equal(former.Format, format)
			is.True(strings.Contains(said, former.Name))
			is.True(strings.Contains(said, former.Until().UTC().Format(time.DateOnly)))
			now, _, err := kv.Origin(dir)
			is.NoErr(err)
			is.Equal(now, before)
		})
	}
}
