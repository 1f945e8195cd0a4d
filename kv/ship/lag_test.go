package ship

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
)

// The log says once that the store is behind, and once that it has caught up.
func TestLagIsLogged(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var out bytes.Buffer
	s := New(Options{Log: slog.New(slog.NewTextHandler(&out, nil))})
	for _, one := range []struct {
		waits time.Duration // of the oldest record; 0 for none
		says  string
	}{
		{time.Second, ""},
		{time.Hour, "is behind"},
		{2 * time.Hour, ""},
		{time.Second, "has caught up"},
		{time.Hour, "is behind"},
		{0, "has caught up"},
		{0, ""},
	} {
		out.Reset()
		s.mu.Lock()
		since := time.Now().Add(-one.waits)
		if one.waits == 0 {
			since = time.Time{}
		}
		s.waits(since)
		s.behind.Stop() // it may have called warn already
		s.mu.Unlock()
		s.warn()

		s.mu.Lock()
		text := out.String()
		s.mu.Unlock()
		is.Equal(text != "", one.says != "")
		is.True(strings.Contains(text, one.says))
		is.Equal(strings.Count(text, "msg="), min(1, len(one.says)))
	}
}
