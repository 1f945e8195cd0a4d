package archive_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/archive"
)

var large = flag.Bool("large", false, "read a zip of more than 4 GiB")

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// entry is an entry with these bytes.
func entry(name string, content []byte) archive.Entry {
	return archive.Entry{
		Name: name, Modified: time.Date(2024, 7, 8, 9, 10, 11, 0, time.UTC), Size: int64(len(content)), Content: sha256.Sum256(content),
		CRC:  func() (uint32, error) { return crc32.ChecksumIEEE(content), nil },
		Open: func() (io.ReadSeekCloser, error) { return memory{bytes.NewReader(content)}, nil },
	}
}

func sample() []archive.Entry {
	rnd := rand.New(rand.NewPCG(3, 4))
	var all []archive.Entry
	for i, size := range []int{0, 1, 5000, 70_000, 33} {
		content := make([]byte, size)
		for j := range content {
			content[j] = byte(rnd.Uint32())
		}
		all = append(all, entry(fmt.Sprintf("Größe %d 写真.bin", i), content))
	}
	return all
}

// Other programs read the zip, and find names, dates and bytes.
func TestArchive(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, entries := range [][]archive.Entry{nil, sample()[:1], sample()} {
		a := archive.New(entries)
		whole, err := io.ReadAll(a)
		is.NoErr(err)
		is.NoErr(a.Close())
		is.Equal(int64(len(whole)), a.Size())
		z, err := zip.NewReader(bytes.NewReader(whole), a.Size())
		is.NoErr(err)
		is.Equal(len(z.File), len(entries))
		for i, f := range z.File {
			is.Equal(f.Name, entries[i].Name)
			is.True(f.Modified.Equal(entries[i].Modified))
			r, err := f.Open()
			is.NoErr(err)
			got, err := io.ReadAll(r) // compares the CRC
			is.NoErr(err)
			is.Equal(sha256.Sum256(got), entries[i].Content)
		}
		path := filepath.Join(t.TempDir(), "a.zip")
		is.NoErr(os.WriteFile(path, whole, 0o600))
		if program, err := exec.LookPath("unzip"); err == nil && len(entries) > 0 {
			out, err := exec.Command(program, "-tq", path).CombinedOutput()
			t.Log(string(out))
			is.NoErr(err)
		}
	}
}

// A zip that was cut anywhere continues with the same bytes.
func TestArchiveFromAnywhere(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	whole, err := io.ReadAll(archive.New(sample()))
	is.NoErr(err)
	rnd := rand.New(rand.NewPCG(5, 6))
	for i := range 200 {
		a := archive.New(sample())
		from, whence := rnd.Int64N(a.Size()+1), i%3
		offset := map[int]int64{io.SeekStart: from, io.SeekCurrent: from - 5, io.SeekEnd: from - a.Size()}[whence]
		_, err := a.Seek(5, io.SeekStart)
		is.NoErr(err)
		at, err := a.Seek(offset, whence)
		is.NoErr(err)
		is.Equal(at, from)
		rest, err := io.ReadAll(io.MultiReader(io.LimitReader(a, rnd.Int64N(9000)), a))
		is.NoErr(err)
		is.True(bytes.Equal(rest, whole[from:]))
		is.NoErr(a.Close())
	}
	_, err = archive.New(nil).Seek(-1, io.SeekStart)
	is.True(err != nil)
}

// The tag tells zips apart, and only those.
func TestTag(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	first := archive.New(sample()).Tag()
	is.Equal(archive.New(sample()).Tag(), first)
	for _, change := range []func(*archive.Entry){
		func(e *archive.Entry) { e.Name = "x" },
		func(e *archive.Entry) { e.Modified = e.Modified.Add(time.Second) },
		func(e *archive.Entry) { e.Content[0]++ },
	} {
		other := sample()
		change(&other[2])
		is.True(archive.New(other).Tag() != first)
	}
	is.True(archive.New(sample()[1:]).Tag() != first)
}

// Beyond the bounds of 16 and 32 bits the layout is that of zip64, and only there.
func TestLayout(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		n       int
		size    int64
		version uint16 // that is needed for the last entry
		ends64  bool
	}{
		{"small", 3, 10, 20, false},
		{"just below 4 GiB", 1, 1<<32 - 2, 20, true}, // the directory begins above
		{"4 GiB less a byte", 1, 1<<32 - 1, 45, true},
		{"above 4 GiB", 1, 5 << 30, 45, true},
		{"together above 4 GiB", 3, 2 << 30, 20, true},
		{"most without zip64", 65_534, 1, 20, false},
		{"very many", 65_535, 1, 20, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			all := make([]archive.Entry, test.n)
			for i := range all {
				all[i] = archive.Entry{Name: fmt.Sprint(i), Size: test.size, CRC: func() (uint32, error) {
					return 7, nil
				}, Open: func() (io.ReadSeekCloser, error) { return &zeros{size: test.size}, nil }}
			}
			a := archive.New(all)
			z, err := zip.NewReader(at{a}, a.Size())
			is.NoErr(err)
			is.Equal(len(z.File), test.n)
			last := z.File[test.n-1]
			is.Equal(last.UncompressedSize64, uint64(test.size))
			is.Equal(last.CRC32, uint32(7))
			is.Equal(last.ReaderVersion, test.version)
			start, err := last.DataOffset() // reads the local header
			is.NoErr(err)
			is.True(start > int64(test.n-1)*test.size)
			tail := make([]byte, 98)
			_, err = at{a}.ReadAt(tail, max(0, a.Size()-98))
			is.NoErr(err)
			is.Equal(bytes.Contains(tail, []byte("PK\x06\x07")), test.ends64)
		})
	}
}

type at struct{ a *archive.Archive }

func (r at) ReadAt(p []byte, off int64) (int, error) {
	if _, err := r.a.Seek(off, io.SeekStart); err != nil {
		return 0, err
	}
	return io.ReadFull(r.a, p)
}

// zeros is a content of zeros.
type zeros struct{ at, size int64 }

func (z *zeros) Read(p []byte) (int, error) {
	n := min(int64(len(p)), z.size-z.at)
	clear(p[:n])
	z.at += n
	return int(n), nil
}
func (z *zeros) Seek(offset int64, _ int) (int64, error) { z.at = offset; return offset, nil }
func (z *zeros) Close() error                            { return nil }

// A zip of more than 4 GiB passes unzip.
func TestLargeArchive(t *testing.T) {
	if !*large {
		t.Skip("left out: -large reads and writes 10 GiB")
	}
	is := is.New(t)
	const size = 1<<32 + 5
	h := crc32.NewIEEE()
	_, err := io.CopyN(h, &zeros{size: size}, size)
	is.NoErr(err)
	big := archive.Entry{
		Name: "big", Modified: time.Now(), Size: size, CRC: func() (uint32, error) { return h.Sum32(), nil },
		Open: func() (io.ReadSeekCloser, error) { return &zeros{size: size}, nil },
	}
	path := filepath.Join(t.TempDir(), "large.zip")
	f, err := os.Create(path)
	is.NoErr(err)
	_, err = io.Copy(f, archive.New([]archive.Entry{entry("first", []byte("1")), big, entry("last", []byte("3"))}))
	is.NoErr(err)
	is.NoErr(f.Close())
	out, err := exec.Command("unzip", "-tq", path).CombinedOutput()
	t.Log(string(out))
	is.NoErr(err)
}

// A content that is shorter than it was, or cannot be opened, ends the reading with an
// error.
func TestArchiveBroken(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	short := entry("a", []byte("hello"))
	short.Size = 9
	_, err := io.ReadAll(archive.New([]archive.Entry{short}))
	is.Equal(err, io.ErrUnexpectedEOF)
	gone := entry("a", []byte("hello"))
	gone.Open = func() (io.ReadSeekCloser, error) { return nil, os.ErrNotExist }
	_, err = io.ReadAll(archive.New([]archive.Entry{gone}))
	is.Equal(err, os.ErrNotExist)
}

func TestNames(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a.txt": "a.txt", "": "_", "...": "_", " a. ": "a", `a/b\c:d*e?f"g<h>i|j`: "a_b_c_d_e_f_g_h_i_j", "CON": "_CON", "con.txt": "_con.txt", "Lpt1.tar.gz": "_Lpt1.tar.gz",
		"console": "console", "com¹": "_com¹", "a\x00b\nc": "a_b_c", "写真.jpg": "写真.jpg", ".profile": ".profile", "nul .txt": "_nul .txt", "a\u202egpj.exe": "a_gpj.exe",
		strings.Repeat("ä", 300) + ".jpeg": strings.Repeat("ä", 97) + ".jpeg",
	} {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			is.New(t).Equal(archive.Safe(in), want)
		})
	}
	var n archive.Names
	var got []string
	for _, name := range []string{"a.txt", "A.TXT", "a (1).txt", "a.txt", ".x", ".x", "con", "_con"} {
		got = append(got, n.Unique(name))
	}
	is.New(t).Equal(got, []string{"a.txt", "A (2).TXT", "a (1).txt", "a (3).txt", ".x", ".x (2)", "_con", "_con (2)"})
}

// However bad a name is, the result is safe and new.
func FuzzNames(f *testing.F) {
	f.Add("a.txt", "A.txt")
	f.Add("CON", "\x00")
	f.Add(strings.Repeat("x", 400), "...")
	f.Fuzz(func(t *testing.T, one, two string) {
		var n archive.Names
		a, b := n.Unique(one), n.Unique(two)
		if strings.EqualFold(a, b) {
			t.Fatalf("%q and %q are the same", a, b)
		}
		for _, name := range []string{a, b} {
			if name == "" || len(name) > 210 || strings.ContainsAny(name, `<>:"/\|?*`+"\x00\n") ||
				strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") {
				t.Fatalf("%q is not safe", name)
			}
		}
	})
}
