package admin

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/term"

	"kist/admin/console"
	"kist/admin/control"
	"kist/admin/exit"
	"kist/admin/ops"
	"kist/kv/field"
	"kist/kv/record"
	"kist/kv/transfer"
	"kist/kv/transfer/format"
)

type importCommand struct {
	Source string `arg:"" placeholder:"SRC" help:"An export of another program or of kist, a folder of files, or - for standard input."`
	User   string `required:"" placeholder:"NAME" help:"The user who gets the imported items."`
	Format string `placeholder:"FORMAT" help:"netscape (bookmarks in HTML, of browsers and others), firefox, chrome, linkding, karakeep, linkwarden, wallabag, omnivore, pocket, raindrop, instapaper, csv (any with a column url), shlink, yourls, kutt, bitly, shortlinks (any CSV with a slug and a target), grouvee, playnite, mealie, tandoor, paprika, markdown (a folder of notes, also in a zip), keep (Google Takeout), folder (files, also in a tar or zip) or kist. Without this flag it is detected from the content."`
	DryRun bool   `help:"Say what would be imported, and change nothing."`
	Update bool   `help:"Fill in empty fields of items that exist already, and add tags. Nothing is overwritten."`
}

type exportCommand struct {
	Dest   string `arg:"" placeholder:"DEST" help:"The file to write, or - for standard output. The file must not exist yet."`
	User   string `required:"" placeholder:"NAME" help:"The user whose items to export."`
	Format string `placeholder:"FORMAT" help:"zip (everything, for kist), or the bookmarks for other programs: html (browsers, linkding and most others) or json (Karakeep). Without this flag the name of the file says it."`
}

func (cmd *importCommand) Run(c *Call) error {
	if cmd.Format != "" {
		if err := format.Check(cmd.Format); err != nil {
			return exit.Misused("--format %v", err)
		}
	}
	done, err := cmd.load(c)
	if err != nil {
		return err
	}
	if err := c.say(done, "%s", importReport(done.Moved)); err != nil || done.Problem == "" {
		return err
	}
	return fmt.Errorf("the import stopped early: %s What was imported stays. Importing again creates no duplicates",
		console.Sentence(done.Problem))
}

// load imports the source and, unless it is a dry run, waits until what it brought can be found.
func (cmd *importCommand) load(c *Call) (done control.Imported, err error) {
	ctx := context.Background()
	client, err := c.connect(ctx, false)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()

	if err := cmd.send(ctx, c, client, &done); err != nil {
		return done, err
	}
	if !cmd.DryRun {
		client.Settle(ctx, c.progress)
	}
	return done, nil
}

// send sends the source to the handler, which imports it.
func (cmd *importCommand) send(ctx context.Context, c *Call, to *control.Client, done *control.Imported) error {
	ask := url.Values{"user": {cmd.User}, "format": {cmd.Format}}
	if cmd.DryRun {
		ask.Set("dryRun", "true")
	}
	if cmd.Update {
		ask.Set("update", "true")
	}
	to.Progress = c.progress("Importing", 0)
	defer to.Progress.End()

	if cmd.Source == "-" {
		return to.Send(ctx, http.MethodPost, "/import?"+ask.Encode(), c.Stdin, done)
	}
	f, err := os.Open(cmd.Source)
	if errors.Is(err, fs.ErrNotExist) {
		return exit.Absent("file or folder at", cmd.Source)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.IsDir() {
		to.Progress.Total = info.Size()
		return to.Send(ctx, http.MethodPost, "/import?"+ask.Encode(), f, done)
	}
	kind := format.Format(cmd.Format)
	switch kind {
	case "":
		kind, err = detectFolder(cmd.Source)
		if err != nil {
			return fmt.Errorf("cannot read the folder: %w", err)
		}
	case format.Folder, format.Markdown, format.Keep:
	default:
		return exit.Misused("%s is a folder, whose files would be imported; --format %s is for a file",
			cmd.Source, cmd.Format)
	}
	ask.Set("format", string(kind))
	ask.Set("stream", "true")
	return cmd.sendFolder(ctx, c, to, "/import?"+ask.Encode(), done)
}

// detectFolder detects what a folder is by the names of its files.
func detectFolder(dir string) (format.Format, error) {
	var census format.Census
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // pack reports what cannot be read
		}
		if d.Type().IsRegular() {
			census.Add(name)
		}
		return nil
	})
	return census.Format(), err
}

// sendFolder sends the source as a tar to a path of the handler.
func (cmd *importCommand) sendFolder(
	ctx context.Context, c *Call, to *control.Client, path string, done *control.Imported,
) error {
	r, w := io.Pipe()
	unread := make(chan error, 1)
	go func() {
		err := pack(w, cmd.Source, func(name string, err error) {
			fmt.Fprintln(c.Stderr, console.Printable(fmt.Sprintf("%s cannot be read: %v", name, err)))
		})
		_ = w.CloseWithError(err) // never fails
		unread <- err
	}()
	err := to.Send(ctx, http.MethodPost, path, r, done)
	_ = r.Close() // ends pack if the handler stopped reading
	if failed := <-unread; failed != nil && !errors.Is(failed, io.ErrClosedPipe) {
		return fmt.Errorf("cannot read the folder: %w", failed)
	}
	return err
}

// pack writes a folder as a tar. It calls skip for files that it cannot open and
// leaves them out.
func pack(w io.Writer, dir string, skip func(string, error)) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	t := tar.NewWriter(w)
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			skip(name, err)
			return nil
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			return err
		}
		h, err := tar.FileInfoHeader(info, "elsewhere")
		if err != nil { // for example a socket
			h = &tar.Header{Typeflag: tar.TypeFifo}
		}
		h.Name = name
		if !info.Mode().IsRegular() {
			h.Size = 0
			return t.WriteHeader(h)
		}

		f, err := root.Open(name)
		if err != nil {
			skip(name, err)
			return nil
		}
		defer f.Close()
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		n, err := io.Copy(t, io.LimitReader(f, h.Size))
		if err != nil {
			return err
		}
		if n < h.Size {
			return fmt.Errorf("the file %s became shorter while it was read", name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return t.Close()
}

func importReport(m transfer.Moved) string {
	verb := "Imported"
	if m.DryRun {
		verb = "This would import"
	}
	var made []string
	for _, kind := range slices.Sorted(maps.Keys(m.Made)) {
		n := m.Made[kind]
		made = append(made, record.Plural(n, cmp.Or(map[string]string{"shortlink": "short link"}[kind], kind)))
	}
	if m.Entries == 0 {
		return fmt.Sprintf("It has no entries in the format %s.", m.Format)
	}

	filled := ""
	if m.Updated > 0 {
		filled = fmt.Sprintf(" (%d %sfilled in)", m.Updated, console.Word(m.DryRun, "would be ", ""))
	}
	text := fmt.Sprintf("%s (%s): %s. Of %d %s, %d %s there already%s and %d %s skipped.",
		verb, m.Format, cmp.Or(strings.Join(made, ", "), "nothing"),
		m.Entries, console.Word(m.Entries == 1, "entry", "entries"),
		m.There, console.Word(m.There == 1, "was", "were"), filled,
		m.Refused, console.Word(m.Refused == 1, "is", "are"))
	for _, r := range m.Remarks {
		text += fmt.Sprintf("\n%s %s%s: %s", console.Word(r.Refused, "Skipped:", "Note:"), r.At,
			console.Word(r.Name == "", "", ", "+console.Printable(r.Name)), console.Printable(r.Text))
	}
	if m.More > 0 {
		text += fmt.Sprintf("\n… and %d more.", m.More)
	}
	return text
}

func (cmd *exportCommand) Run(c *Call) error {
	form, err := cmd.form()
	if err != nil {
		return err
	}
	if cmd.Dest == "-" && form == transfer.Zip {
		if f, ok := c.Stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return exit.Misused("a zip is not for the terminal; send it somewhere, "+
				"such as: kist export --user %s - > kist.zip", cmd.User)
		}
	}
	if cmd.Dest != "-" {
		if err := unused(cmd.Dest); err != nil {
			return err
		}
	}
	x, err := cmd.fetch(context.Background(), c, form)
	if err != nil {
		return err
	}
	if cmd.Dest == "-" {
		return nil
	}
	if form != transfer.Zip {
		return c.say(x, "Exported %s of %s to %s, for other programs.",
			record.Plural(x.Records, "bookmark"), x.User, cmd.Dest)
	}
	err = c.say(x, "Exported %s to %s: %s and the bytes of %s (%s). It was read back and is intact. "+
		"It contains the password hashes of locked items: keep it private.",
		x.User, cmd.Dest, record.Plural(x.Records, "item"), record.Plural(x.Files, "file"), console.Bytes(x.Bytes))
	if err != nil || x.Missing == 0 {
		return err
	}
	return bytesMissing(x.Missing)
}

// form is the form of the export: what --format says, or else the name of the file.
func (cmd *exportCommand) form() (transfer.Form, error) {
	if cmd.Format != "" {
		form := transfer.Form(cmd.Format)
		if !slices.Contains(transfer.Forms, form) {
			return "", exit.Misused("--format must be one of: %s", strings.Join(field.Words(transfer.Forms), ", "))
		}
		return form, nil
	}
	switch strings.ToLower(filepath.Ext(cmd.Dest)) {
	case ".html", ".htm":
		return transfer.HTML, nil
	case ".json":
		return transfer.JSON, nil
	}
	return transfer.Zip, nil
}

// fetch writes the export of the handler and reads it back.
func (cmd *exportCommand) fetch(
	ctx context.Context, c *Call, form transfer.Form,
) (x transfer.Exported, err error) {
	from, err := c.connect(ctx, false)
	if err != nil {
		return x, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()

	p := c.progress("Exporting", 0)
	defer p.End()
	ask := url.Values{"user": {cmd.User}, "format": {string(form)}}
	res, err := from.Do(ctx, http.MethodGet, "/export?"+ask.Encode(), nil)
	if err != nil {
		return x, err
	}
	defer res.Body.Close()

	if cmd.Dest == "-" {
		_, err := io.Copy(io.MultiWriter(c.Stdout, p), res.Body)
		return x, err
	}
	err = ops.WriteFile(cmd.Dest, func(f *os.File) error {
		_, err := io.Copy(io.MultiWriter(f, p), res.Body)
		return err
	}, func(f *os.File) error {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		x, err = readBack(format.Source{R: f, Size: info.Size(), Operator: true}, form)
		if err != nil {
			return err
		}
		return unused(cmd.Dest) // still
	})
	if err != nil {
		return x, fmt.Errorf("no export was made: %w", err)
	}
	x.User = cmd.User
	return x, nil
}

// unused fails if there is anything at the path.
func unused(path string) error {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("there is already a file at %s; name another one", path)
}

// written are the formats of exports as imports call them.
var written = map[transfer.Form]format.Format{
	transfer.Zip: format.Kist, transfer.HTML: format.Netscape, transfer.JSON: format.Karakeep,
}

// readBack reads an export from end to end.
func readBack(s format.Source, form transfer.Form) (x transfer.Exported, err error) {
	seen := map[[32]byte]bool{}
	for row, err := range format.Read(written[form], s) {
		switch {
		case err != nil:
			return x, err
		case row.Whole:
			continue
		case row.Refused != "":
			x.Missing++
			continue
		case row.Label != nil || row.Version != nil:
			continue
		}
		x.Records++
		if row.Open == nil || seen[*row.Sum] {
			continue
		}
		sum, n, err := sumOf(row.Open)
		if err != nil {
			return x, err
		}
		if sum != *row.Sum {
			x.Missing++
			continue
		}
		seen[*row.Sum] = true
		x.Files++
		x.Bytes += n
	}
	return x, nil
}

// sumOf reads a file that open opens. It returns its SHA-256 and how many bytes it has.
func sumOf(open func() (io.ReadCloser, error)) (sum [32]byte, n int64, err error) {
	r, err := open()
	if err != nil {
		return sum, 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	h := sha256.New()
	n, err = io.Copy(h, r)
	return [32]byte(h.Sum(nil)), n, err
}
