package admin

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
)

// Late lines wait, for a moment and for others; a line that may not wait takes
// them along, so that no two change places, and a normal stop loses none.
func TestLogWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		var out strings.Builder
		w := newLogWriter(&out)
		late := w.late()
		write := func(to interface{ Write(p []byte) (int, error) }, line string) {
			n, err := to.Write([]byte(line))
			is.NoErr(err)
			is.Equal(n, len(line))
		}
		write(w, "1\n")
		is.Equal(out.String(), "1\n")
		write(late, "2\n")
		write(late, "3\n")
		is.Equal(out.String(), "1\n")
		write(w, "4\n")
		is.Equal(out.String(), "1\n2\n3\n4\n")
		write(late, "5\n")
		time.Sleep(logWait + time.Millisecond) // of the bubble's clock
		synctest.Wait()
		is.Equal(out.String(), "1\n2\n3\n4\n5\n")

		out.Reset()
		long := strings.Repeat("x", logBytes-1) + "\n"
		write(late, long) // as many as that do not wait
		is.Equal(out.String(), long)
		out.Reset()
		write(late, "6\n")
		w.Close()
		is.Equal(out.String(), "6\n")
		write(late, "7\n")
		is.Equal(out.String(), "6\n7\n")
	})
}

// A line of the log is the same, byte by byte, as the standard library's.
func TestTextHandler(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var got, want strings.Builder
	fast, slow := newTextHandler(&got, nil), slog.NewTextHandler(&want, nil)
	at := time.Date(2026, 12, 31, 23, 59, 58, 1e6, time.UTC)
	texts := []string{"", "plain", "/a/b.c?d", "two words", "a=b", `"`, `\`, "\n", "\x00", "\x7f", "é", "\u00a0", "\u202e", "\xff", "\ufffd", "日本", "'", "{}", "€", "\u2028"}
	for i, zone := range []*time.Location{time.UTC, time.FixedZone("", 5400), time.FixedZone("", -3600), time.Local} {
		for j, ns := range []int{0, 1, 999_999, 1_000_000, 99_999_999, 999_999_999} {
			r := slog.NewRecord(at.In(zone).Add(time.Duration(ns+j/3*1e9)), slog.Level(4*i-4), texts[i+j], 0)
			for k, text := range texts {
				r.AddAttrs(slog.String("k", text), slog.Int("n", k-3), slog.Float64("ms", float64(k)/7))
			}
			switch j {
			case 3:
				r.AddAttrs(slog.String("a key", "x"), slog.Any("error", io.EOF))
			case 4:
				r.AddAttrs(slog.Group("g", slog.Int("n", 1)))
			case 5:
				r.AddAttrs(slog.Any("time", at), slog.Duration("took", time.Second), slog.Bool("b", true))
			}
			for _, h := range []slog.Handler{fast, fast.WithAttrs([]slog.Attr{slog.Int("n", 1)}), fast.WithGroup("g")} {
				is.NoErr(h.Handle(t.Context(), r))
			}
			for _, h := range []slog.Handler{slow, slow.WithAttrs([]slog.Attr{slog.Int("n", 1)}), slow.WithGroup("g")} {
				is.NoErr(h.Handle(t.Context(), r))
			}
			is.Equal(got.String(), want.String())
		}
	}
	empty := slog.NewRecord(time.Time{}, slog.LevelWarn, "no time", 0)
	is.NoErr(fast.Handle(t.Context(), empty))
	is.NoErr(slow.Handle(t.Context(), empty))
	is.Equal(got.String(), want.String())
	is.Equal(fast.Enabled(t.Context(), slog.LevelDebug), slow.Enabled(t.Context(), slog.LevelDebug))
}

func BenchmarkAccessLine(b *testing.B) {
	for _, h := range []slog.Handler{slog.NewTextHandler(io.Discard, nil), newTextHandler(io.Discard, nil)} {
		b.Run(strings.TrimPrefix(fmt.Sprintf("%T", h), "*"), func(b *testing.B) {
			log := slog.New(h)
			b.ReportAllocs()
			for b.Loop() {
				log.LogAttrs(b.Context(), slog.LevelInfo, "request", slog.String("method", "GET"), slog.String("path", "/s/golink"), slog.Int("status", 302),
					slog.Int64("bytes", 0), slog.Float64("ms", 0.123), slog.String("client", "127.0.0.1"), slog.String("requestId", "0123456789abcdef01234567"), slog.String("op", "follow"))
			}
		})
	}
}
