package ops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"kist/admin/console"
	"kist/blobs"
	"kist/blobs/s3"
	"kist/kv"
	"kist/kv/record"
	"kist/kv/ship"
	"kist/kv/tables"
	"kist/kv/workcopy"
)

// RemoteVerified is what VerifyRemote found.
type RemoteVerified struct {
	Source   string    `json:"source"`
	Seq      uint64    `json:"seq"`
	Digest   string    `json:"digest"`
	Last     time.Time `json:"last"` // when the last commit was made; zero if a snapshot has it
	Slots    int       `json:"slots"`
	Contents int       `json:"contents"`
	Bytes    int64     `json:"bytes"` // of the contents
	Read     int       `json:"read"`  // contents that were read
	Problems []string  `json:"problems"`
}

// sampled is about how many contents VerifyRemote reads unless it reads all.
const sampled = 20

// VerifyRemote checks an object store: that its history is whole, that it leads to the
// digest that it names, and that each content is there with its size. It reads some
// contents, or all.
func (j Job) VerifyRemote(ctx context.Context, remote blobs.Remote, full bool) (*RemoteVerified, error) {
	dir, err := os.MkdirTemp(j.Scratch, "kist-verify-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a folder for temporary files: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder for temporary files
	v := &RemoteVerified{Problems: []string{}}
	problem := func(err error) { v.Problems = append(v.Problems, err.Error()) }

	p := j.progress("Reading the object store", 0)
	defer p.End()
	got, err := ship.Fetch(ctx, remote, time.Time{}, workcopy.Format, dir)
	if err != nil {
		return nil, err
	}
	for _, bad := range got.Bad {
		problem(errors.New(bad))
	}
	if got.Damage != nil {
		problem(fmt.Errorf("a restore gives %s", ship.Gives(got, nil)))
	}
	v.Seq, v.Digest, v.Last = got.State.Seq, fmt.Sprintf("%016x", uint64(got.State.Digest)), got.Last
	v.Slots, err = ship.Check(ctx, remote, workcopy.Format, got.Instance, problem)
	if err != nil {
		return nil, err
	}

	state, err := tables.All.Inspect(dir, dir, func(int64) {}, problem)
	if err != nil {
		return nil, err
	}
	defer state.Close()
	if err := got.Confirm(state.State); err != nil {
		problem(err)
	}
	return v, state.View(func(tx *kv.Tx) error { return v.contents(ctx, tx, remote, full, problem) })
}

// Remote checks an object store at an address: that it can be written to and read, how
// fast it is, its clock, whether one writer wins, and whether it removes objects. ends are the store by each of
// its addresses, and b is the bucket. It returns false if the store must not be used as it was named.
func (d *Checkup) Remote(
	ctx context.Context, address string, store blobs.Remote, ends []blobs.Remote, b *s3.Bucket,
) (usable bool) {
	what := "object store"
	const small, large, slow, skew = 1 << 10, 8 << 20, time.Second, time.Minute
	few, err := ship.Probe(ctx, store, small)
	unfit := (*blobs.Unfit)(nil)
	if errors.As(err, &unfit) {
		problem, change, _ := strings.Cut(unfit.Text, "; ")
		d.Add(Problem, what, fmt.Sprintf("%s: %s", address, problem), change)
		return false
	}
	if err != nil {
		d.Add(Problem, what, fmt.Sprintf("%s: %v", address, err),
			"look at --store, --store-endpoint and the key; kist must list, read, write and remove objects there")
		return true
	}

	text := fmt.Sprintf("%s takes 1 kB in %s and returns it in %s",
		address, few.Put.Round(time.Millisecond), few.Get.Round(time.Millisecond))
	if few.Put > slow {
		d.Add(Warning, what, text, "in sync mode each change waits for that; use a nearer store")
	} else {
		d.OK(what, "%s", text)
	}
	if many, err := ship.Probe(ctx, store, large); err != nil {
		d.Add(Problem, what, fmt.Sprintf("it does not take %s: %v", console.Bytes(large), err),
			"make room there; the protocol does not say how much is left")
	} else {
		d.OK(what, "it took %s in %s; the protocol does not say how much room is left",
			console.Bytes(large), many.Put.Round(time.Millisecond))
	}

	if few.Ahead.Abs() > skew {
		d.Add(Problem, what,
			fmt.Sprintf("its clock differs by %s; stores refuse requests from 15 minutes on",
				few.Ahead.Abs().Round(time.Second)),
			"set both clocks (timedatectl set-ntp true)")
	} else {
		d.OK(what, "its clock differs by less than a minute")
	}

	switch exact, err := ship.Race(ctx, ends...); {
	case err != nil:
		d.Add(Problem, what, fmt.Sprintf("it failed when 16 writers wrote one object at once: %v", err),
			"look at each address of --store-endpoint")
	case !exact:
		d.Add(Warning, what, "if 16 writers write one object at once, several win, so no other server can take over",
			"use it as a backup only, or another version of the store")
	default:
		d.OK(what, "if 16 writers write one object at once, one wins, through %d %s",
			len(ends), console.Word(len(ends) == 1, "address", "addresses"))
	}

	switch rules, err := b.Removes(ctx); {
	case err != nil:
		d.Add(Warning, what, "it does not say whether a lifecycle rule removes objects",
			"look at the lifecycle rules of the bucket; none may remove objects of kist")
	case len(rules) > 0:
		d.Add(Problem, what, "it removes objects that kist needs, by the lifecycle rule "+strings.Join(rules, ", "),
			"remove that rule, or leave the prefix out of it")
	default:
		d.OK(what, "no lifecycle rule removes objects")
	}
	return true
}

// History reads everything in an object store that a restore would read, and says what a
// restore gives. It lists the files there, and reads the rest of the history.
func (d *Checkup) History(ctx context.Context, address string, remote blobs.Remote) {
	const what = "restore"
	change := "a server that still has its data directory puts again what is missing: " +
		"start it, and look here again in a minute; " +
		"if you have a copy of the bucket, put the object back from there"
	holders := tables.All.Holders()
	got, err := ship.Rehearse(ctx, remote, workcopy.Format, holders.Begin, holders.Note)
	gives := fmt.Sprintf("a restore from %s gives ", address)
	switch {
	case err != nil && !ship.IsDamage(err):
		d.Add(Problem, what, fmt.Sprintf("%s cannot be read: %v", address, err), "look at the object store")
		return
	case err != nil || got.Damage != nil:
		d.Add(Problem, what, gives+ship.Gives(got, err), change)
		if err != nil {
			return
		}
	default:
		d.OK(what, "%s up to %s", gives+ship.Gives(got, nil), got.Reached().Local().Format("2006-01-02 15:04:05"))
	}

	lost, first, err := absentThere(ctx, remote, holders)
	switch {
	case err != nil:
		d.Add(Problem, what,
			fmt.Sprintf("the files in %s cannot be listed: %v", address, err), "look at the object store")
	case lost > 0:
		d.Add(Problem, what,
			fmt.Sprintf("%s not in %s, such as the one with the SHA-256 %s",
				record.Plural(lost, "file")+console.Word(lost == 1, " is", " are"), address, first),
			"the server sends it again within a day if it has it; kist verify "+address+" names all")
	default:
		d.OK(what, "%s there", record.Plural(holders.Len(), "file")+console.Word(holders.Len() == 1, " is", " are"))
	}

	found := 0
	if _, err := ship.Check(ctx, remote, workcopy.Format, got.Instance, func(err error) {
		found++
		if found <= mostProblems {
			d.Add(Problem, "history in the object store", err.Error(),
				"if you have a copy of the bucket, put the object back from there; "+
					"a restore without --at does not need it if it gives everything")
		}
	}); err != nil {
		d.Add(Problem, what, fmt.Sprintf("%s cannot be read: %v", address, err), "look at the object store")
	}
}

// mostProblems is how many problems of one kind a Checkup names.
const mostProblems = 20

// absentThere counts the files whose content a remote lacks, and returns one of those contents.
func absentThere(ctx context.Context, remote blobs.Remote, holders *kv.Holders) (n int, first blobs.Ref, err error) {
	wanted := map[blobs.Ref]int{}
	for sum := range holders.Refs() {
		wanted[sum]++
	}
	all := list(ctx, remote)
	defer all.close()
	for _, ref := range SortedRefs(wanted) {
		_, err := all.find(ref)
		if errors.Is(err, fs.ErrNotExist) {
			if n == 0 {
				first = ref
			}
			n += wanted[ref]
			continue
		}
		if err != nil {
			return 0, first, err
		}
	}
	return n, first, nil
}

// contents checks the contents. Both lists have the same order.
func (v *RemoteVerified) contents(
	ctx context.Context, tx *kv.Tx, remote blobs.Remote, full bool, problem func(error),
) error {
	for range tx.Contents() {
		v.Contents++
	}

	all := list(ctx, remote)
	defer all.close()
	for sum, size := range tx.Contents() {
		ref := blobs.Ref(sum)
		there, err := all.find(ref)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		v.Bytes += size

		why := ""
		switch {
		case err != nil:
			why = "its bytes are missing in the object store"
		case there.Size != size:
			why = fmt.Sprintf("the object store has %d bytes of it in place of %d", there.Size, size)
		case full || rand.IntN(v.Contents) < sampled: // #nosec G404 -- a sample, no secret
			v.Read++
			err := checkThere(ctx, remote, ref)
			if err != nil && !errors.Is(err, blobs.ErrDamaged) {
				return err
			}
			if err != nil {
				why = "its bytes in the object store are damaged"
			}
		}
		if why == "" {
			continue
		}
		for _, r := range tx.Having(ref) {
			problem(fmt.Errorf("file %s (%s): %s", r.ID, r.Name, why))
		}
	}
	return nil
}

// checkThere reads a content in a remote. It fails with blobs.ErrDamaged if its bytes are wrong.
func checkThere(ctx context.Context, remote blobs.Remote, ref blobs.Ref) error {
	return ship.Again(ctx, func() error {
		r, err := remote.Get(ctx, ref.RemoteName(), 0, -1)
		if err != nil {
			return err
		}
		defer r.Close()
		return blobs.CheckBytes(ref, r)
	})
}

// A listing looks for blobs in the list of a blobs.Remote. It asks for the list when it
// needs it, a page at a time, and goes on where a failure has ended it.
type listing struct {
	ctx    context.Context
	remote blobs.Remote
	next   func() (blobs.Object, error, bool) // nil if the list must be asked for
	stop   func()
	there  blobs.Object
	end    bool // nothing follows
}

// list returns a listing of the blobs of a remote. The caller must call close.
func list(ctx context.Context, remote blobs.Remote) *listing {
	return &listing{ctx: ctx, remote: remote}
}

// find describes a blob. Calls must be in the order of the refs. The error is
// fs.ErrNotExist if the remote does not have the blob.
func (l *listing) find(ref blobs.Ref) (blobs.Object, error) {
	for name := ref.RemoteName(); !l.end && l.there.Name < name; {
		if err := ship.Again(l.ctx, l.advance); err != nil {
			return blobs.Object{}, err
		}
	}
	if l.end || l.there.Name != ref.RemoteName() {
		return blobs.Object{}, fs.ErrNotExist
	}
	return l.there, nil
}

// advance takes the next blob from the list.
func (l *listing) advance() error {
	if l.next == nil {
		l.next, l.stop = iter.Pull2(l.remote.After(l.ctx, "blobs/", l.there.Name))
	}
	o, err, more := l.next()
	if err != nil {
		l.close()
		return err
	}
	l.end = !more
	if more {
		l.there = o
	}
	return nil
}

// close ends the list.
func (l *listing) close() {
	if l.next != nil {
		l.stop()
		l.next = nil
	}
}
