package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// A commit writes a few pages, not all of recent. It does not run beside other
// tests, because the system counts what the process writes.
func TestAppendWritesLittle(t *testing.T) {
	is := is.New(t)
	defer func(was int64) { recentSize = was }(recentSize)
	recentSize = 1 << 20
	written := func() (n int64) {
		text, err := os.ReadFile("/proc/self/io")
		is.NoErr(err)
		_, line, found := strings.Cut(string(text), "\nwrite_bytes: ")
		is.True(found)
		_, err = fmt.Sscan(line, &n)
		is.NoErr(err)
		return n
	}
	j, err := Open(filepath.Join(t.TempDir(), "journal"), format)
	is.NoErr(err)
	defer func() { is.NoErr(j.Close()) }()
	is.NoErr(j.Begin(State{}))
	var r Record
	var at State
	add := func() {
		r.Reset(at.Digest)
		r.Add(Op{1, fmt.Appendf(nil, "key %d", at.Seq), make([]byte, 900)}, nil)
		at = State{at.Seq + 1, r.Digest()}
		is.NoErr(j.Append(&r, at))
	}
	add() // makes recent
	is.True(j.recent != nil)
	before := written()
	const commits = 50
	for range commits {
		add()
	}
	if each := (written() - before) / commits; each > 20<<10 {
		t.Errorf("each commit of 0.9 kB writes %d bytes to the disk", each)
	}
}
