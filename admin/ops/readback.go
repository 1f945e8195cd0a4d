package ops

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"kist/blobs"
	"kist/kv/journal"
	"kist/kv/workcopy"
)

// check reads a copy of the journal back and compares its state.
func (b *snapshot) check(path string) error {
	j, err := journal.Read(path, workcopy.Format)
	if err != nil {
		return err
	}
	defer j.Close()
	done, err := j.Replay(b.job.ended, func([]journal.Op) error { return b.job.ended() })
	if err != nil {
		return err
	}
	if done.State != b.state.State {
		return errors.New("the copy of the journal is not what was written")
	}
	return nil
}

// checkTar reads a tar back.
func (b *snapshot) checkTar(r io.Reader) error {
	source := Source{Path: "-", Stdin: r, Key: b.job.Key, Sealed: b.job.Key != nil}
	tar, err := source.open()
	if err != nil {
		return err
	}
	aside := filepath.Join(b.scratch, "check")
	if err := os.Mkdir(aside, 0o700); err != nil {
		return err
	}
	files := 0
	if err := unpack(tar, "the tar", filepath.Join(aside, "journal"), func(ref blobs.Ref, r io.Reader) error {
		files++
		return blobs.CheckBytes(ref, r)
	}); err != nil {
		return err
	}
	if err := tar.end(); err != nil {
		return err
	}
	if files != b.result.Files {
		return fmt.Errorf("the tar has %d files and should have %d", files, b.result.Files)
	}
	return b.check(filepath.Join(aside, "journal"))
}
