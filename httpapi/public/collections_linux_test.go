package public_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"golang.org/x/sys/unix"

	"kist/httpapi/apitest"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/kvtest/needs"
	"kist/kv/record"
)

// proc reads a number from a file about this process.
func proc(t *testing.T, file, name string) (n int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/" + file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), name+":")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestCollectionZipMemory sends a zip of 1.5 GiB from the disk, in a process of its own with its client, and has to
// compute every checksum. Its anonymous memory grows by less than 64 MiB.
func TestCollectionZipMemory(t *testing.T) {
	needs.Alone(t)
	is := is.New(t)
	if os.Getenv(apitest.MemoryChild) == "" {
		if !*apitest.Long {
			needs.LeaveOut(t, "the memory that a zip of 1.5 GiB takes", "no -long")
		}
		_, text, _ := strings.Cut(apitest.Again(t), "growth=")
		var growth, read, size, ms int64
		_, err := fmt.Sscanf(text, "%d read=%d size=%d ms=%d.", &growth, &read, &size, &ms)
		is.NoErr(err)
		t.Logf(
			"%d MiB of zip in %d ms, %d MiB read from the disk: the process grew by %d KiB", size>>20, ms, read>>20, growth,
		)
		is.True(growth < 64<<10)
		is.True(read >= 1<<30) // not from the memory
		return
	}
	a := apitest.Start(t)
	rnd := rand.NewChaCha8([32]byte{18})
	add := func(i int, size int64) {
		stage, err := a.Server.Blobs.Stage()
		is.NoErr(err)
		_, err = io.CopyN(stage, rnd, size)
		is.NoErr(err)
		kept, err := stage.Keep()
		is.NoErr(err)
		defer kept.Release()
		form := record.NewForm(record.Files)
		form.FolderName = "all"
		form.Body = &record.File{OriginalName: fmt.Sprint(i, ".bin"), MimeType: "application/octet-stream", Size: size}
		is.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
			_, err := catalog.Add(tx, catalog.Draft{
				Owner: a.User.ID, Kind: record.Files, Form: form, Content: &record.Content{Ref: kept.Ref, Size: size},
			})
			return err
		}))
		name := kept.Ref.String()
		f, err := os.Open(filepath.Join(a.Server.Store.Dir(), "blobs", name[:2], name))
		is.NoErr(err)
		is.NoErr(unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
		is.NoErr(f.Close())
	}
	for i := range 1024 {
		add(i, 1<<20)
	}
	add(1024, 512<<20)
	folder := a.Get("/api/v1/files?limit=1").Want(200).Text("data.0.folder.id")
	a.Post(
		"/api/v1/collections", `{"title":"All","slug":"all","isPublic":true,"source":{"folderId":"`+folder+`"}}`,
	).Want(201)
	debug.FreeOSMemory()
	base, before, begun := proc(t, "status", "RssAnon"), proc(t, "io", "read_bytes"), time.Now()
	most := base
	got, err := http.Get(a.URL + "/x/all.zip")
	is.NoErr(err)
	defer got.Body.Close()
	buffer, size := make([]byte, 64<<10), int64(0)
	for err == nil {
		var n int
		n, err = io.ReadFull(got.Body, buffer)
		if size>>20 != (size+int64(n))>>20 {
			most = max(most, proc(t, "status", "RssAnon"))
		}
		size += int64(n)
	}
	is.True(err == io.EOF || err == io.ErrUnexpectedEOF && size == got.ContentLength)
	is.Equal(size, got.ContentLength)
	t.Logf(
		"growth=%d read=%d size=%d ms=%d.", most-base, proc(t, "io", "read_bytes")-before, size,
		time.Since(begun).Milliseconds(),
	)
}
