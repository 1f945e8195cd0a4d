package console

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
)

// Long work says how far it is, how fast it goes and how long it will take: on
// a terminal in one line, elsewhere in a line every ten seconds.
func TestProgress(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		terminal bool
		total    int64
		each     int64         // bytes a step
		step     time.Duration // each of ten
		want     string
	}{
		"terminal": {true, 10 << 20, 1 << 20, time.Second, "\rReading: 1 MB of 10.5 MB (10 %), 1 MB/s, 9s left\x1b[K" +
			"\rReading: 2.1 MB of 10.5 MB (20 %), 1 MB/s, 8s left\x1b[K…\rReading: 10.5 MB of 10.5 MB (100 %), 1 " +
			"MB/s\x1b[K\r\x1b[K"},
		"in quick steps": {true, 1 << 20, 1 << 10, 110 * time.Millisecond, "\rReading: 2 kB of 1 MB (0 %), 9.3 kB/s, 1m52s left\x1b[K" +
			"\rReading: 4.1 kB of 1 MB (0 %), 9.3 kB/s, 1m52s left\x1b[K…\r\x1b[K"},
		"plain": {false, 10 << 20, 1 << 20, 4 * time.Second, "Reading: 3.1 MB of 10.5 MB (30 %), 262.1 kB/s, 28s left\n" +
			"Reading: 6.3 MB of 10.5 MB (60 %), 262.1 kB/s, 16s left\n…"},
		"of unknown length": {
			false, 0, 1 << 20, 10 * time.Second, "Reading: 1 MB, 104.9 kB/s\n…Reading: 10.5 MB, 104.9 kB/s\n",
		},
		"of what has grown": {true, 5 << 20, 1 << 20, time.Second, "\rReading: 1 MB of 5.2 MB (20 %), 1 MB/s, 4s left\x1b[K" +
			"\rReading: 2.1 MB of 5.2 MB (40 %), 1 MB/s, 3s left\x1b[K…\rReading: 10.5 MB of 5.2 MB (100 %), 1 " +
			"MB/s\x1b[K\r\x1b[K"},
		"hardly begun": {true, 1 << 60, 1, time.Second, "\rReading: 1 B of 1.2 EB (0 %), 1 B/s\x1b[K…"},
		"soon over":    {false, 10, 1, time.Millisecond, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				var out strings.Builder
				p := NewProgress(&out, "Reading", row.total)
				is.True(!p.terminal) // a file of another kind
				p.terminal = row.terminal
				for range 10 {
					time.Sleep(row.step)
					p.Add(row.each)
				}
				p.End()
				begin, end, cut := strings.Cut(row.want, "…")
				if !strings.HasPrefix(out.String(), begin) || !strings.HasSuffix(out.String(), end) ||
					!cut && out.String() != begin {
					t.Errorf("%q", out.String())
				}
			})
		})
	}
}
