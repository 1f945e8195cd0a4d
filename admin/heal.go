package admin

import (
	"archive/tar"
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"kist/admin/console"
	"kist/admin/exit"
	"kist/blobs"
	"kist/kv"
)

// Healed is what restore --missing did.
type Healed struct {
	Source  string `json:"source"`
	Files   int    `json:"files"`   // contents that were put back
	Bytes   int64  `json:"bytes"`   // of those
	Missing []Lost `json:"missing"` // files whose bytes are still missing or damaged
	// Unreadable are files whose bytes could not be looked at, at most
	// mostUnreadable; UnreadableTotal is how many there are.
	Unreadable      []Lost `json:"unreadable"`
	UnreadableTotal int    `json:"unreadableTotal"`
}

const mostUnreadable = 1000

// content is what the handler tells of one content that records have.
type content struct {
	Ref    string
	Size   int64
	Files  []Lost `json:",omitempty"` // that have it, if it is missing or damaged, or cannot be read
	Unread bool   `json:",omitempty"` // it cannot be read: whether it is damaged is not known
	End    bool   `json:",omitempty"` // there are no more contents
}

// putBack is what the handler tells of contents that were sent to it.
type putBack struct {
	Refs  []string
	Bytes int64
}

// heal fetches the contents that are missing or damaged. No record changes, and
// the server may be running.
func (cmd *restoreCommand) heal(c *Call) error {
	if cmd.Source != "-" {
		if _, err := os.Stat(cmd.Source); errors.Is(err, fs.ErrNotExist) {
			return exit.Absent("backup at", cmd.Source)
		} else if err != nil {
			return err
		}
		if err := looksLikeBackup(cmd.Source); err != nil {
			return err
		}
	}
	ctx := context.Background()
	client, err := c.connect(ctx, false)
	if err != nil {
		return err
	}
	out, err := cmd.healWith(ctx, c, client)
	if err = errors.Join(err, client.close()); err != nil {
		return err
	}
	text := "No file is missing or damaged. Nothing was changed."
	if out.UnreadableTotal > 0 {
		text = "No file that could be read is missing or damaged. Nothing was changed."
	}
	if n := len(out.Missing); out.Files > 0 || n > 0 {
		text = fmt.Sprintf("Restored the content of %s (%s) from %s.", console.Count(out.Files, "file"), console.Bytes(out.Bytes), cmd.Source)
	}
	for _, m := range out.Missing {
		text += fmt.Sprintf("\nFile %s (%s): %s, and %s does not have them.", m.ID, console.Printable(m.Name), m.Why, cmd.Source)
	}
	for i, u := range out.Unreadable {
		if i == mostTold {
			text += fmt.Sprintf("\n… and %s more; --json lists up to %d", console.Count(out.UnreadableTotal-i, "file"), mostUnreadable)
			break
		}
		text += fmt.Sprintf("\nFile %s (%s) was skipped: %s.", u.ID, console.Printable(u.Name), console.Printable(u.Why))
	}
	if err := c.say(out, "%s", text); err != nil {
		return err
	}
	var bad []string
	if n := len(out.Missing); n > 0 {
		bad = append(bad, console.Count(n, "file")+console.Word(n == 1, " is", " are")+" still missing or damaged; try another backup, or upload the same "+console.Word(n == 1, "file", "files")+" again")
	}
	if n := out.UnreadableTotal; n > 0 {
		bad = append(bad, console.Count(n, "file")+" could not be read and "+console.Word(n == 1, "was", "were")+" skipped; let the user who runs kist read the data directory, then run this again")
	}
	if len(bad) == 0 {
		return nil
	}
	return exit.Found("%s", strings.Join(bad, ". "))
}

// looksLikeBackup refuses a source that has neither a journal nor stored files,
// before it is known whether anything is to be fetched from it.
func looksLikeBackup(source string) error {
	errNone := fmt.Errorf("there is no backup of kist at %s: it has neither a journal nor stored files", source)
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		for _, name := range []string{"journal", "blobs"} {
			if info, err := os.Stat(filepath.Join(source, name)); err == nil && info.IsDir() {
				return nil
			}
		}
		return errNone
	}
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if err != nil {
			return errNone
		}
		if name := path.Clean(h.Name); contentEntry.MatchString(name) || path.Base(path.Dir(name)) == "journal" {
			return nil
		}
	}
}

func (cmd *restoreCommand) healWith(ctx context.Context, c *Call, client *client) (*Healed, error) {
	out := &Healed{Source: cmd.Source, Missing: []Lost{}, Unreadable: []Lost{}}
	wanted, total, err := c.unsound(ctx, client, out)
	if err != nil || len(wanted) == 0 {
		return out, err
	}
	p := c.progress("Fetching the files", total)
	defer p.End()
	client.progress = p
	from, to := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := cmd.send(c, to, wanted)
		_ = to.CloseWithError(err) // never fails
		sent <- err
	}()
	var done putBack
	err = client.send(ctx, http.MethodPost, "/contents", from, &done)
	_ = from.Close() // ends the sending, should the handler have failed
	if e := <-sent; e != nil && !errors.Is(e, io.ErrClosedPipe) {
		err = e // the cause of the other
	}
	if err != nil {
		return nil, fmt.Errorf("not all files were fetched; what was put back stays: %w", err)
	}
	for _, text := range done.Refs {
		if ref, err := blobs.ParseRef(text); err == nil {
			delete(wanted, ref)
		}
	}
	out.Files, out.Bytes = len(done.Refs), done.Bytes
	for _, ref := range sortedRefs(wanted) {
		out.Missing = append(out.Missing, wanted[ref]...)
	}
	return out, nil
}

func sortedRefs(all map[blobs.Ref][]Lost) []blobs.Ref {
	return slices.SortedFunc(maps.Keys(all), func(a, b blobs.Ref) int { return slices.Compare(a[:], b[:]) })
}

// unsound has all contents read, and returns the files of those that are
// missing or damaged, and how many bytes those contents should have. Files that
// cannot be read are noted in out.
func (c *Call) unsound(ctx context.Context, client *client, out *Healed) (wanted map[blobs.Ref][]Lost, total int64, err error) {
	res, err := client.do(ctx, http.MethodGet, "/contents", http.NoBody)
	if err != nil {
		return nil, 0, err
	}
	defer res.Body.Close()
	p := c.progress("Reading the files", 0)
	defer p.End()
	wanted = map[blobs.Ref][]Lost{}
	for d := json.NewDecoder(res.Body); ; {
		var one content
		if err := d.Decode(&one); err != nil {
			return nil, 0, fmt.Errorf("the stored files could not all be read: %w", err)
		}
		if one.End {
			return wanted, total, nil
		}
		p.Add(one.Size)
		if one.Unread {
			out.UnreadableTotal += len(one.Files)
			out.Unreadable = append(out.Unreadable, one.Files[:min(len(one.Files), mostUnreadable-len(out.Unreadable))]...)
			continue
		}
		if len(one.Files) == 0 {
			continue
		}
		ref, err := blobs.ParseRef(one.Ref)
		if err != nil {
			return nil, 0, err
		}
		wanted[ref] = one.Files
		total += one.Size
	}
}

// send writes a tar with those of the contents that the source has. A content
// is in it once, with its ref as its name.
func (cmd *restoreCommand) send(c *Call, w io.Writer, wanted map[blobs.Ref][]Lost) error {
	b := bufio.NewWriterSize(w, 256<<10)
	t := tar.NewWriter(b)
	put := func(ref blobs.Ref, n int64, r io.Reader) error {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: ref.String(), Size: n, Mode: 0o600}); err != nil {
			return err
		}
		_, err := io.Copy(t, r)
		return err
	}
	info, err := os.Stat(cmd.Source)
	if cmd.Source != "-" && err == nil && info.IsDir() {
		err = sendFolder(cmd.Source, wanted, put)
	} else {
		err = cmd.sendTar(c, wanted, put)
	}
	if err != nil {
		return err
	}
	return errors.Join(t.Close(), b.Flush())
}

type putFunc func(ref blobs.Ref, n int64, r io.Reader) error

func sendFolder(source string, wanted map[blobs.Ref][]Lost, put putFunc) error {
	from, err := blobs.Read(filepath.Join(source, "blobs"))
	if errors.Is(err, fs.ErrNotExist) {
		return exit.Absent("folder with stored files at", filepath.Join(source, "blobs"))
	}
	if err != nil {
		return err
	}
	defer from.Close()
	for _, ref := range sortedRefs(wanted) {
		// Read twice: what is damaged here, too, must not end the rest.
		if from.Check(ref) != nil {
			continue
		}
		f, err := from.Get(ref)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err == nil {
			err = put(ref, info.Size(), f)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (cmd *restoreCommand) sendTar(c *Call, wanted map[blobs.Ref][]Lost, put putFunc) error {
	in := io.ReadCloser(c.Stdin)
	if cmd.Source != "-" {
		var err error
		if in, err = os.Open(cmd.Source); err != nil {
			return err
		}
		defer in.Close()
	}
	sent := map[blobs.Ref]bool{}
	for t := tar.NewReader(in); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read the tar: %w", err)
		}
		m := contentEntry.FindStringSubmatch(path.Clean(h.Name))
		if m == nil || h.Typeflag != tar.TypeReg {
			continue
		}
		ref, err := blobs.ParseRef(m[2])
		if err != nil || sent[ref] {
			continue
		}
		if _, got := wanted[ref]; !got {
			continue
		}
		sent[ref] = true
		if err := put(ref, h.Size, t); err != nil {
			return err
		}
	}
}

// listedAtOnce is how many contents are looked up in one transaction: reading
// them all may take hours.
const listedAtOnce = 256

// listContents reads the bytes of all contents that records have, and says
// which are missing or damaged, or cannot be read. Those that this process has
// hashed are not read again.
func (v verbs) listContents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	begun := false
	err := v.contents(func(store *blobs.Store) error {
		var last []byte
		for {
			page, err := view(v, func(tx *kv.Tx) (page []content, err error) {
				for ref, n := range tx.ContentsAfter(last) {
					page, last = append(page, content{Ref: blobs.Ref(ref).String(), Size: n}), ref[:]
					if len(page) == listedAtOnce {
						break
					}
				}
				return page, nil
			})
			if err != nil {
				return err
			}
			begun = true
			if len(page) == 0 {
				return out.Encode(content{End: true})
			}
			for _, one := range page {
				if err := r.Context().Err(); err != nil {
					return err
				}
				if err := v.look(store, &one); err != nil {
					return err
				}
				if err := out.Encode(one); err != nil {
					return err
				}
			}
		}
	})
	if err != nil && !begun {
		answerWith(w, nil, err)
	} else if err != nil {
		panic(http.ErrAbortHandler) // the end is missing, which the client sees
	}
}

// look reads a content, and notes the files that have it if something is wrong.
func (v verbs) look(store *blobs.Store, one *content) error {
	ref, err := blobs.ParseRef(one.Ref)
	if err != nil {
		return err
	}
	why := ""
	switch err := store.Prove(ref); {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		why = "its bytes are missing"
	case errors.Is(err, blobs.ErrDamaged):
		why = "its bytes are damaged"
	default:
		one.Unread, why = true, "its bytes cannot be read: "+err.Error()
	}
	one.Files, err = view(v, func(tx *kv.Tx) (all []Lost, err error) {
		for _, h := range tx.Having(ref) {
			all = append(all, Lost{ID: h.ID, Name: h.Name, Content: one.Ref, Why: why})
		}
		return all, nil
	})
	return err
}

// putContents keeps the contents of a tar, each proven by its hash, that records
// have.
func (v verbs) putContents(r *http.Request) (out putBack, err error) {
	err = v.contents(func(store *blobs.Store) error {
		for t := tar.NewReader(r.Body); ; {
			h, err := t.Next()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return fmt.Errorf("cannot read what was sent: %w", err)
			}
			ref, err := blobs.ParseRef(h.Name)
			if err != nil {
				return err
			}
			needed, err := view(v, func(tx *kv.Tx) (bool, error) { return tx.Referenced(ref), nil })
			if err != nil {
				return err
			}
			if !needed { // its records were removed meanwhile
				continue
			}
			if err := keep(store, ref, t); errors.Is(err, blobs.ErrDamaged) {
				continue // it is still missing
			} else if err != nil {
				return err
			}
			out.Refs = append(out.Refs, ref.String())
			out.Bytes += h.Size
		}
	})
	return out, err
}
