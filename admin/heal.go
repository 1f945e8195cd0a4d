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

	"kist/blobs"
	"kist/kv"
)

// Healed is what restore --missing did.
type Healed struct {
	Source  string `json:"source"`
	Files   int    `json:"files"`   // contents that were put back
	Bytes   int64  `json:"bytes"`   // of those
	Missing []Lost `json:"missing"` // files whose bytes are still missing or damaged
}

// content is what the handler tells of one content that records have.
type content struct {
	Ref   string
	Size  int64
	Files []Lost `json:",omitempty"` // that have it, if it is missing or damaged
	End   bool   `json:",omitempty"` // there are no more contents
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
			return missing("backup at", cmd.Source)
		} else if err != nil {
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
	if n := len(out.Missing); out.Files > 0 || n > 0 {
		text = fmt.Sprintf("Restored the content of %s (%s) from %s.", count(out.Files, "file"), size(out.Bytes), cmd.Source)
	}
	for _, m := range out.Missing {
		text += fmt.Sprintf("\nFile %s (%s): %s, and %s does not have them.", m.ID, printable(m.Name), m.Why, cmd.Source)
	}
	if err := c.say(out, "%s", text); err != nil || len(out.Missing) == 0 {
		return err
	}
	n := len(out.Missing)
	return &found{count(n, "file") + word(n == 1, " is", " are") + " still missing or damaged; try another backup, or upload the same " + word(n == 1, "file", "files") + " again"}
}

func (cmd *restoreCommand) healWith(ctx context.Context, c *Call, client *client) (*Healed, error) {
	out := &Healed{Source: cmd.Source, Missing: []Lost{}}
	wanted, total, err := c.unsound(ctx, client)
	if err != nil || len(wanted) == 0 {
		return out, err
	}
	p := c.progress("Fetching the files", total)
	defer p.end()
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
// missing or damaged, and how many bytes those contents should have.
func (c *Call) unsound(ctx context.Context, client *client) (wanted map[blobs.Ref][]Lost, total int64, err error) {
	res, err := client.do(ctx, http.MethodGet, "/contents", http.NoBody)
	if err != nil {
		return nil, 0, err
	}
	defer res.Body.Close()
	p := c.progress("Reading the files", 0)
	defer p.end()
	wanted = map[blobs.Ref][]Lost{}
	for d := json.NewDecoder(res.Body); ; {
		var one content
		if err := d.Decode(&one); err != nil {
			return nil, 0, fmt.Errorf("the stored files could not all be read: %w", err)
		}
		if one.End {
			return wanted, total, nil
		}
		p.add(one.Size)
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
		return missing("folder with stored files at", filepath.Join(source, "blobs"))
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
		if _, is := wanted[ref]; !is {
			continue
		}
		sent[ref] = true
		if err := put(ref, h.Size, t); err != nil {
			return err
		}
	}
}

// listContents reads the bytes of all contents that records have, and says
// which are missing or damaged. Those that this process has hashed are not read
// again.
func (v verbs) listContents(w http.ResponseWriter, r *http.Request) {
	var all []content
	err := v.store.View(func(tx *kv.Tx) error {
		for ref, n := range tx.Contents() {
			all = append(all, content{Ref: blobs.Ref(ref).String(), Size: n})
		}
		return nil
	})
	if err != nil {
		answerWith(w, nil, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	err = v.contents(func(store *blobs.Store) error {
		for _, one := range all {
			if err := r.Context().Err(); err != nil {
				return err
			}
			ref, err := blobs.ParseRef(one.Ref)
			if err != nil {
				return err
			}
			why := ""
			switch err := store.Prove(ref); {
			case errors.Is(err, fs.ErrNotExist):
				why = "its bytes are missing"
			case errors.Is(err, blobs.ErrDamaged):
				why = "its bytes are damaged"
			case err != nil:
				return err
			}
			if why != "" {
				if err := v.store.View(func(tx *kv.Tx) error {
					for _, h := range tx.Having(ref) {
						one.Files = append(one.Files, Lost{ID: h.ID, Name: h.Name, Content: one.Ref, Why: why})
					}
					return nil
				}); err != nil {
					return err
				}
			}
			if err := out.Encode(one); err != nil {
				return err
			}
		}
		return out.Encode(content{End: true})
	})
	if err != nil {
		panic(http.ErrAbortHandler) // the end is missing, which the client sees
	}
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
