package format

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"kist/kv/media"
	"kist/kv/record"
)

// The directory of a zip may have maxDirectory bytes, and that of an export of
// kist from the operator maxOwnDirectory. Each byte costs several bytes of memory.
// An export needs 116 bytes for a file, so the bounds are enough for about 70 000
// and half a million files.
const (
	maxDirectory    = 8 << 20
	maxOwnDirectory = 64 << 20
)

// budget is a source that limits how many bytes may be read, until it is freed.
type budget struct {
	io.ReaderAt
	left int64
	over error // says that it was more
	free bool
}

func (b *budget) ReadAt(p []byte, at int64) (int, error) {
	if !b.free {
		b.left -= int64(len(p))
		if b.left < 0 {
			return 0, b.over
		}
	}
	return b.ReaderAt.ReadAt(p, at)
}

// A zip may unpack to unpackedRatio times its size plus unpackedSlack bytes. Text and
// pictures stay far below that. A larger one was made to fill disks.
const (
	unpackedRatio = 200
	unpackedSlack = 256 << 20
)

var errDirectory = unreadable("The zip has too many entries; unpack it yourself and import the folder, or a tar of it.")

var errFiles = unreadable("The export has too many files. Ask the operator of the server to import it: " +
	"the command kist import takes about 500 000 files.")

var errBomb = unreadable("The zip would unpack to more than %d times its size; "+
	"unpack it yourself and import the folder, or a tar of it.", unpackedRatio)

func openZip(s Source) (*zip.Reader, error) {
	b := &budget{ReaderAt: s.R, left: maxDirectory, over: errDirectory}
	if beginsAsExport(s) {
		b.over = errFiles
		if s.Operator {
			b.left = maxOwnDirectory
		}
	}
	z, err := zip.NewReader(b, s.Size)
	if known, ok := errors.AsType[Unreadable](err); ok {
		return nil, known
	}
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // no path in it is used as a path
		return nil, unreadable("It is not a complete zip.")
	}
	b.free = true
	limit := unpackedRatio*uint64(s.Size) + unpackedSlack // for all files, because entries may share their bytes
	for _, f := range z.File {                            // archive/zip reads no more of a file than its header says
		if f.UncompressedSize64 > limit {
			return nil, errBomb
		}
		limit -= f.UncompressedSize64
	}
	return z, nil
}

// beginsAsExport reports whether the first file of a zip is the manifest of kist.
func beginsAsExport(s Source) bool {
	const header = 30 // bytes before the name of a file
	head := make([]byte, header+len(ManifestName))
	_, err := s.R.ReadAt(head, 0)
	return err == nil && string(head[header:]) == ManifestName
}

func isZip(s Source) bool {
	var head [2]byte
	_, err := s.R.ReadAt(head[:], 0)
	return err == nil && string(head[:]) == "PK"
}

func detectZip(s Source) (Format, error) {
	z, err := openZip(s)
	if err != nil {
		return "", err
	}
	for _, f := range z.File {
		if f.Name == ManifestName {
			return Kist, nil
		}
	}
	looked := 0
	var census Census
	var recipes Format
	for _, f := range z.File {
		if !f.FileInfo().IsDir() {
			census.Add(f.Name)
		}
		switch {
		case pocketPart(f):
			return Pocket, nil
		case omnivorePart(f):
			return Omnivore, nil
		case path.Ext(f.Name) == ".paprikarecipe":
			recipes = Paprika
		case f.Name == "recipe.json":
			recipes = Tandoor
		}
		if looked == maxLooked || recipes != "" {
			continue
		}
		switch path.Ext(f.Name) {
		case ".zip":
			looked++
			if beginsWith(f, "recipe.json") {
				recipes = Tandoor
			}
		case ".json":
			looked++
			if beginsWith(f, `"recipe_ingredient"`, `"recipeIngredient"`, `"recipe_instructions"`) {
				recipes = Mealie
			}
			if beginsWith(f, `"userEditedTimestampUsec"`) {
				return Keep, nil
			}
		}
	}
	if recipes != "" && hasOnly(z, recipes) {
		return recipes, nil
	}
	return census.Format(), nil
}

// hasOnly reports whether a zip has nothing but what a program of recipes writes. One recipe among other files, such as
// photos, is no reason to leave these out.
func hasOnly(z *zip.Reader, recipes Format) bool {
	for _, f := range z.File {
		way := strings.Split(f.Name, "/")
		if f.FileInfo().IsDir() || hiddenAt(way) >= 0 || way[0] == "__MACOSX" {
			continue
		}
		ext := path.Ext(f.Name)
		picture := strings.HasPrefix(media.OfName(f.Name), "image/")
		belongs := false
		switch recipes {
		case Paprika:
			belongs = ext == ".paprikarecipe"
		case Tandoor:
			belongs = ext == ".zip" || ext == ".json" || strings.HasPrefix(f.Name, "image")
		case Mealie: // pictures are in the folders of recipes
			belongs = ext == ".json" || picture && len(way) > 1
		}
		if !belongs {
			return false
		}
	}
	return true
}

// maxLooked is into how many files of a zip its detection looks.
const maxLooked = 20

// beginsWith reports whether the beginning of a file in a zip has one of the texts.
func beginsWith(f *zip.File, some ...string) bool {
	r, err := f.Open()
	if err != nil {
		return false
	}
	defer r.Close()
	head, _ := io.ReadAll(io.LimitReader(r, detected)) // what is damaged is reported when it is read
	return slices.ContainsFunc(some, func(text string) bool { return bytes.Contains(head, []byte(text)) })
}

// pocketPart reports whether a file in a zip belongs to Pocket's export.
func pocketPart(f *zip.File) bool {
	name := path.Base(f.Name)
	return strings.HasPrefix(name, "part_") && path.Ext(name) == ".csv"
}

// omnivorePart reports whether a file in a zip is a list of Omnivore's export.
func omnivorePart(f *zip.File) bool {
	return strings.HasPrefix(f.Name, "metadata_") && path.Ext(f.Name) == ".json"
}

// inZip reads a zip.
func inZip(s Source, read func(*zip.Reader) Rows) Rows {
	return func(yield func(Row, error) bool) {
		z, err := openZip(s)
		if err != nil {
			yield(Row{}, err)
			return
		}
		read(z)(yield)
	}
}

// eachPart reads the files of a zip that which selects, one after another. They
// are texts, each in a charset of its own.
func eachPart(z *zip.Reader, which func(*zip.File) bool, read func(io.Reader) Rows) Rows {
	return func(yield func(Row, error) bool) {
		for _, f := range z.File {
			if !which(f) {
				continue
			}
			charset, err := charsetOf(f)
			if err != nil {
				yield(Row{}, unreadable("%q in the zip is damaged.", f.Name))
				return
			}
			note := ofCharset(charset)
			if note != "" && !yield(Row{At: path.Base(f.Name), Whole: true, Notes: []string{note}}, nil) {
				return
			}
			r, err := f.Open()
			if err != nil {
				yield(Row{}, unreadable("%q in the zip cannot be read.", f.Name))
				return
			}
			for row, err := range read(charset.NewReader(r)) {
				row.At = path.Base(f.Name) + ", " + row.At
				var known Unreadable
				if err != nil && !errors.As(err, &known) {
					err = unreadable("%q in the zip is damaged.", f.Name)
				}
				if !yield(row, err) || err != nil {
					_ = r.Close() // the file was only read
					return
				}
			}
			_ = r.Close() // the file was only read
		}
	}
}

func charsetOf(f *zip.File) (media.Charset, error) {
	r, err := f.Open()
	if err != nil {
		return media.Charset{}, err
	}
	defer r.Close()
	return media.CharsetOf(r, "")
}

// folder reads files from a tar or a zip. They keep the names of their folders;
// a nested folder keeps its whole path.
func folder(s Source) Rows {
	if !isZip(s) {
		return Tar(s.stream())
	}
	return inZip(s, func(z *zip.Reader) Rows { return filesIn(zipFiles(z)) })
}

// Tar reads files from a tar stream.
func Tar(r io.Reader) Rows { return filesIn(tarFiles(r)) }

func filesIn(files iter.Seq2[file, error]) Rows {
	return func(yield func(Row, error) bool) {
		for f, err := range files {
			if err != nil {
				yield(Row{}, err)
				return
			}
			if !yield(f.row(), nil) {
				return
			}
		}
	}
}

// zipFiles are the files in a zip.
func zipFiles(z *zip.Reader) iter.Seq2[file, error] {
	return func(yield func(file, error) bool) {
		for _, f := range z.File {
			if !f.FileInfo().IsDir() && !yield(file{f.Name, f.Mode(), f.Modified, f.Open}, nil) {
				return
			}
		}
	}
}

// tarFiles are the files in a tar. Each is open until the next one.
func tarFiles(r io.Reader) iter.Seq2[file, error] {
	return func(yield func(file, error) bool) {
		t := tar.NewReader(r)
		for {
			h, err := t.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				if errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, io.ErrUnexpectedEOF) {
					err = unreadable("It is not a complete tar.")
				}
				yield(file{}, err)
				return
			}
			mode := h.FileInfo().Mode()
			if mode.IsDir() || h.Typeflag == tar.TypeXGlobalHeader {
				continue
			}
			if h.Typeflag == tar.TypeLink {
				mode |= fs.ModeIrregular
			}
			open := func() (io.ReadCloser, error) { return io.NopCloser(t), nil }
			if !yield(file{h.Name, mode, h.ModTime, open}, nil) {
				return
			}
		}
	}
}

// fileRow is a row for a file. Its name is a path with either kind of slash.
func fileRow(name string, mode fs.FileMode, changed time.Time, open func() (io.ReadCloser, error)) Row {
	way := strings.FieldsFunc(strings.ReplaceAll(clean(media.Name(name)), `\`, "/"), func(r rune) bool { return r == '/' })
	way = slices.DeleteFunc(way, func(part string) bool { return part == "." || part == ".." })
	at := strings.Join(way, "/")
	switch {
	case len(way) == 0:
		return Row{At: fmt.Sprintf("%.100q", name), Refused: "It has no name."}
	case !mode.IsRegular():
		return Row{At: at, Name: way[len(way)-1], Refused: "It is a link or a special file, not a regular file."}
	}
	b := build(record.Files, at)
	b.Name = way[len(way)-1]
	b.Fields["originalName"] = b.Name
	b.Folder = b.folder(strings.Join(way[:len(way)-1], "/"))
	if changed.Year() > 1970 && changed.Year() < 10_000 {
		b.Past.Created = changed.UTC().Truncate(time.Millisecond)
	}
	b.Open = open
	return b.Row
}

// folder fits a folder's name to the rule for such names.
func (b *builder) folder(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, clean(name))
	if runes := []rune(name); len(runes) > record.MaxName {
		b.note("The folder's name was cut to %d characters.", record.MaxName)
		name = string(runes[:record.MaxName])
	}
	short, err := record.CleanName(name)
	if err != nil {
		b.note("The folder's name cannot be kept: it %v.", err)
		return ""
	}
	return short
}
