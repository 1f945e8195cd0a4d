package admin

import (
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
