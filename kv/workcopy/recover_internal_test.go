package workcopy

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/matryer/is"
)

// A snapshot that is damaged at its beginning is given up before anything was written,
// and the rebuild starts with the next one at once.
func TestBuilderBeginsAnew(t *testing.T) {
	is := is.New(t)
	b := &Builder{Buckets: layout, Path: filepath.Join(t.TempDir(), "kist.db")}
	ended := make(chan error, 1)
	go func() {
		var err error
		for range 10 {
			if err == nil {
				err = b.Start()
			}
		}
		if err == nil {
			err = b.Finish()
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		is.NoErr(err)
		is.NoErr(b.Close())
	case <-time.After(10 * time.Second):
		t.Fatal("it hangs")
	}
}
