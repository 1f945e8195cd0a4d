package format

import (
	"archive/zip"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kist/kv/field"
	"kist/kv/record"
)

// Names of entries in an export of kist, in their order in the zip. The entries
// of the kinds come between the folders and the bytes. DESIGN.md of package
// transfer describes them.
const (
	ManifestName = "kist.json"
	TagsName     = "tags.jsonl"
	FoldersName  = "folders.jsonl"
	VersionsName = "versions.jsonl" // after the kinds
)

// KindName is the name of the entry with the records of a kind.
func KindName(k *record.Kind) string { return k.Path + ".jsonl" }

// BlobName is the name of the entry with the content that has this SHA-256.
func BlobName(ref [32]byte) string { return "blobs/" + hex.EncodeToString(ref[:]) }

// version is the version of new exports; older versions can be read.
const version = 1

// AppendManifest appends the manifest of an export.
func AppendManifest(dst []byte, user string) []byte {
	dst = strconv.AppendInt(append(dst, `{"format":"kist","version":`...), version, 10)
	return append(field.AppendString(append(dst, `,"user":`...), user), "}\n"...)
}

// AppendLabel appends the line of a tag or a folder.
func AppendLabel(dst []byte, name, color string) []byte {
	dst = field.AppendString(append(dst, `{"name":`...), name)
	return append(field.AppendString(append(dst, `,"color":`...), color), "}\n"...)
}

// Carried is what a collection refers to. Ids mean nothing elsewhere, so items are named by their slugs.
type Carried struct {
	Cover, Folder, Tag string
	Items              []string
}

func (v *Carried) Fields(s *field.Set) {
	s.Text("coverSlug", &v.Cover, record.MaxSlug)
	s.Text("sourceFolder", &v.Folder, record.MaxName)
	s.Text("sourceTag", &v.Tag, record.MaxTag)
	s.Texts("items", &v.Items, func(t string) (string, error) { return t, nil }, record.MaxPicked, record.MaxSlug)
}

// AppendRecord appends the line of a record; used is the number of views
// against its limit. c is for collections.
func AppendRecord(dst []byte, v *record.Shown, used int64, c *Carried) []byte {
	p := record.Past{
		Created: v.Created, Updated: v.Updated, Password: v.Password,
		Views: v.Views, Used: used, Reached: v.Reached,
	}
	if v.Bytes != nil {
		p.Taken = v.Bytes.Photo.Taken
	}
	l := &line{v, past{Past: &p}, c}
	if v.Kind == record.Files {
		l.past.file = &ofFile{FileID(v.Slug), v.FolderName, v.Attached}
	}
	return append(field.AppendJSON(dst, l), '\n')
}

// FileID is the id of a file in an export, by which texts show it. It is made from the slug, because the ids of an
// instance mean nothing elsewhere, and an export that was imported is exported with the same bytes again.
func FileID(slug string) record.ID {
	sum := sha256.Sum256([]byte("kist file " + slug))
	id := record.ID(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of version 8
	return id
}

// AppendVersion appends the line of an earlier text of a record.
func AppendVersion(dst []byte, r *record.Record, v *record.Version) []byte {
	return append(field.AppendJSON(dst, &versionLine{r.Kind, r.Kind.Name, r.Slug, v.VersionHead, v.Body}), '\n')
}

// versionLine is an earlier text in an export.
type versionLine struct {
	of         *record.Kind
	kind, slug string
	record.VersionHead
	body []byte
}

func (l *versionLine) Fields(s *field.Set) {
	s.Text("kind", &l.kind, 32)
	s.Ruled("slug", &l.slug, record.CleanSlug, "", record.MaxSlug)
	s.Time("at", &l.At)
	s.Text("by", &l.By, 255)
	if l.of != nil {
		s.Splice(&l.body, l.of.New())
	}
}

func versionRow(left *unread) func(string, field.Object) Row {
	known := members(&versionLine{})
	for _, k := range record.Kinds {
		if k.Versioned() {
			maps.Copy(known, members(k.New()))
		}
	}
	return func(at string, o field.Object) Row {
		l := new(versionLine)
		if err := field.Create(l, o); err != nil {
			return Row{At: at, Name: text(o, "slug"), Refused: sentence(err)}
		}
		i := slices.IndexFunc(record.Kinds, func(k *record.Kind) bool { return k.Name == l.kind && k.Versioned() })
		if i < 0 || l.slug == "" || l.At.IsZero() {
			return Row{At: at, Name: l.slug, Refused: "It does not say of what it is a version."}
		}
		b := record.Kinds[i].New()
		if err := field.Create(b, o); err != nil {
			return Row{At: at, Name: l.slug, Refused: sentence(err)}
		}
		leftOver(left, "versions.", o, known)
		version := &Version{l.slug, l.VersionHead, field.AppendJSON(nil, b)}
		return Row{At: at, Name: l.slug, Kind: record.Kinds[i], Version: version}
	}
}

// line is a record in an export: the input of a create, and its past.
type line struct {
	*record.Shown
	past    past
	carried *Carried // of a collection
}

func (l *line) Fields(s *field.Set) {
	text := field.Schema{Type: "string"}
	s.Ruled("slug", &l.Slug, record.CleanSlug, "", record.MaxSlug)
	if l.Kind == record.Collections {
		l.Collected.ForExport(s)
		l.carried.Fields(s)
	} else {
		s.Splice(&l.Body, l.Kind.New())
	}
	s.Bool("isPublic", &l.Public)
	s.Bool("isFavorite", &l.Favorite)
	s.Shown("tags", field.Schema{Type: "array", Items: &text}, l.AppendTagNames)
	s.Count(l.Kind.Limit, &l.Limit)
	s.Shown("maxViewsAction", text, func(dst []byte) []byte {
		if l.AtLimit == "" {
			return append(dst, "null"...)
		}
		return field.AppendString(dst, string(l.AtLimit))
	})
	s.Time("expiresAt", &l.Expires)
	if l.EndDeletes {
		s.Shown("expiryAction", text, func(dst []byte) []byte {
			return field.AppendString(dst, string(record.DeleteAtEnd))
		})
	}
	if l.Logged {
		s.Bool("logVisits", &l.Logged)
	}
	if l.KeepMetadata {
		s.Not("stripMetadata", &l.KeepMetadata)
	}
	l.past.Fields(s)
}

// past has the members of a line that a create does not have.
type past struct {
	*record.Past
	file  *ofFile // nil for other kinds
	reads bool    // an export is read; else what nobody has set is left out
}

// ofFile has the members of a line that only files have.
type ofFile struct {
	id       record.ID // see FileID
	folder   string
	attached bool
}

func (p past) Fields(s *field.Set) {
	if p.file != nil {
		s.ID("id", &p.file.id)
		s.Name("folderName", &p.file.folder, record.MaxName)
		if p.reads || p.file.attached {
			s.Bool("attach", &p.file.attached)
		}
	}
	if p.reads || !p.Taken.IsZero() {
		s.Time("takenAt", &p.Taken)
	}
	s.Time("createdAt", &p.Created)
	s.Time("updatedAt", &p.Updated)
	s.Text("passwordHash", &p.Password, 256)
	s.Number("views", &p.Views, 0, 1<<53)
	s.Number("viewsOfLimit", &p.Used, 0, 1<<53)
	s.Bool("limitReached", &p.Reached)
}

func kist(s Source) Rows {
	left := notRead("member")
	return left.after(func(yield func(Row, error) bool) {
		z, err := openZip(s)
		if err != nil {
			yield(Row{}, err)
			return
		}
		err = readKist(z, left, func(row Row) bool { return yield(row, nil) })
		if err != nil && !errors.Is(err, errStop) {
			yield(Row{}, err)
		}
	})
}

func readKist(z *zip.Reader, left *unread, yield func(Row) bool) error {
	files := make(map[string]*zip.File, len(z.File))
	others := notRead("file")
	for _, f := range z.File {
		if !strings.HasPrefix(f.Name, "blobs/") && !slices.Contains(kistNames, f.Name) {
			others.add(f.Name)
		}
		if files[f.Name] != nil {
			return unreadable("%.100q is in it twice.", f.Name)
		}
		files[f.Name] = f
	}
	if err := checkManifest(files[ManifestName]); err != nil {
		return err
	}

	each := func(name string, row func(at string, o field.Object) Row) error {
		if files[name] == nil {
			return nil
		}
		return eachLine(files[name], row, yield)
	}
	if err := each(TagsName, labelRow(false, left)); err != nil {
		return err
	}
	if err := each(FoldersName, labelRow(true, left)); err != nil {
		return err
	}
	for _, k := range record.Kinds {
		r := record.Record{Kind: k, KeepMetadata: true, Share: record.Share{Logged: true}}
		past := past{Past: new(record.Past)}
		if k == record.Files {
			past.file, past.reads = new(ofFile), true
		}
		known := members(&line{&record.Shown{Record: r}, past, new(Carried)})
		if err := each(KindName(k), func(at string, o field.Object) Row {
			row := kistRow(at, k, o, files)
			if row.Refused == "" {
				leftOver(left, k.Path+".", o, known)
			}
			return row
		}); err != nil {
			return err
		}
	}
	if err := each(VersionsName, versionRow(left)); err != nil {
		return err
	}
	if !others.tell(func(row Row, _ error) bool { return yield(row) }) {
		return errStop
	}
	return nil
}

// kistNames are the names of the entries of an export, without the contents.
var kistNames = func() []string {
	names := []string{ManifestName, TagsName, FoldersName, VersionsName}
	for _, k := range record.Kinds {
		names = append(names, KindName(k))
	}
	return names
}()

// members returns the names in a shape.
func members(v field.Shaped) map[string]bool {
	names := map[string]bool{}
	for _, f := range field.Of(v).Members() {
		names[f.Name] = true
	}
	return names
}

// leftOver counts the unknown members of a line.
func leftOver(left *unread, path string, o field.Object, known map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if !known[name] && says(o[name]) {
			left.add(path + name)
		}
	}
}

func checkManifest(f *zip.File) error {
	if f == nil {
		return unreadable("It is not an export of kist: %s is not in it.", ManifestName)
	}
	r, err := f.Open()
	if err != nil {
		return unreadable("%s in it cannot be read.", ManifestName)
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, 64<<10))
	if err != nil {
		return unreadable("%s in it is damaged.", ManifestName)
	}
	o, err := field.Parse(text)
	if err != nil || text == nil || o["format"] != "kist" {
		return unreadable("It is not an export of kist.")
	}
	if n, err := strconv.Atoi(number(o, "version")); err != nil || n < 1 || n > version {
		return unreadable("It is an export of version %s, and this kist reads up to %d; use a newer kist.",
			number(o, "version"), version)
	}
	return nil
}

// eachLine reads JSON lines. A line that is too long, or is not an object,
// becomes a refused row.
func eachLine(f *zip.File, row func(at string, o field.Object) Row, yield func(Row) bool) error {
	r, err := f.Open()
	if err != nil {
		return unreadable("%s in it cannot be read.", f.Name)
	}
	defer r.Close()

	in := bufio.NewReaderSize(r, 64<<10)
	var text []byte
	for n := 1; n <= maxRows; n++ {
		var long bool
		text, long, err = nextLine(in, text[:0])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return unreadable("%s in it is damaged after line %d.", f.Name, n-1)
		}
		at := f.Name + ", line " + strconv.Itoa(n)
		refused := Row{At: at, Refused: "It is longer than " + strconv.Itoa(MaxEntry) + " bytes."}
		if !long {
			o, err := field.Parse(text)
			if err != nil {
				refused.Refused = forEntry(err)
			} else {
				refused = row(at, o)
			}
		}
		if !yield(refused) {
			return errStop
		}
	}
	return nil
}

// nextLine reads a line into text. One that is longer than MaxEntry is cut. The error is io.EOF
// after the last one.
func nextLine(in *bufio.Reader, text []byte) (line []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		long = long || len(text)+len(part) > MaxEntry
		if !long {
			text = append(text, part...)
		}
		switch {
		case err == nil, errors.Is(err, io.EOF) && len(text) > 0:
			return text, long, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return text, long, err
		}
	}
}

func labelRow(isFolder bool, left *unread) func(string, field.Object) Row {
	known, path := members(record.TagForm(record.Tag{})), "tags."
	if isFolder {
		known, path = members(record.FolderForm(record.Folder{})), "folders."
	}
	return func(at string, o field.Object) Row {
		form := record.TagForm(record.Tag{})
		if isFolder {
			form = record.FolderForm(record.Folder{})
		}
		if err := field.Create(form, o); err != nil {
			return Row{At: at, Name: text(o, "name"), Refused: sentence(err)}
		}
		leftOver(left, path, o, known)
		return Row{At: at, Name: form.Name, Label: &Label{Folder: isFolder, Name: form.Name, Color: form.Color}}
	}
}

func kistRow(at string, k *record.Kind, o field.Object, files map[string]*zip.File) Row {
	name := or(or(text(o, "title"), text(o, "originalName")), text(o, "slug"))
	row := Row{At: at, Name: name, Kind: k, Fields: o, Exact: true}
	var file ofFile
	if err := field.Create(past{&row.Past, &file, true}, o); err != nil {
		return Row{At: at, Name: row.Name, Refused: sentence(err)}
	}
	if k == record.Collections {
		row.Carried = new(Carried)
		if err := field.Create(row.Carried, o); err != nil {
			return Row{At: at, Name: row.Name, Refused: sentence(err)}
		}
	}
	if k != record.Files {
		return row
	}
	var ref [32]byte
	sum := text(o, "sha256")
	if n, err := hex.Decode(ref[:], []byte(sum)[:min(len(sum), 64)]); err != nil || n != len(ref) || len(sum) != 64 {
		return Row{At: at, Name: row.Name, Refused: "It does not name the file's bytes."}
	}
	f := files[BlobName(ref)]
	if f == nil {
		return Row{At: at, Name: row.Name, Refused: "Its bytes are not in the export."}
	}
	row.Sum, row.Open = &ref, f.Open
	row.FileID, row.Folder, row.Attached = file.id, file.folder, file.attached
	return row
}

// sentence turns an error of fields into a sentence for people.
func sentence(err error) string {
	if problems, ok := errors.AsType[field.Problems](err); ok {
		err = record.Bad(problems)
	}
	return err.Error()
}

// forEntry rewords an error of field.Parse, which mentions a body, for a
// report.
func forEntry(err error) string { return strings.Replace(err.Error(), "The body", "The entry", 1) }
