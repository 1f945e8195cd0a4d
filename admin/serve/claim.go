package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"kist/kv"
	"kist/kv/datadir"
	"kist/kv/people"
	"kist/kv/record"
)

// claimFile is the file in the data directory that keeps the claim link while the
// link can be used.
const claimFile = "CLAIM"

// ClaimLink returns the link that creates the first administrator, or "" if there
// is an administrator. The link stays the same over restarts until it is used.
func ClaimLink(store *kv.Store, base string) (link string, err error) {
	token, err := openClaim(store)
	if err != nil {
		return "", err
	}
	if token == "" {
		if err := store.Update(func(tx *kv.Tx) (err error) { token, err = people.Claim(tx); return err }); err != nil {
			return "", err
		}
	}
	if token == "" { // there is an administrator
		return "", nil
	}
	link = base + "/claim/" + token
	if err := keepClaim(store.Dir(), link+"\n"); err != nil {
		return "", fmt.Errorf("cannot keep the claim link: %w", err)
	}
	return link, nil
}

// WatchClaim removes the file of the claim link as soon as there is an administrator, however
// made, until ctx ends.
func WatchClaim(ctx context.Context, store *kv.Store, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-people.Claimed.Of(store):
		}
		if err := TidyClaim(store); err != nil {
			log.Error("the file of the claim link stays", "error", err)
		}
	}
}

// TidyClaim removes the file of the claim link if the link can no longer be used.
func TidyClaim(store *kv.Store) error {
	_, err := openClaim(store)
	return err
}

// openClaim returns the token in the claim file of the data directory, or "" if
// there is no open claim. It removes the file of a claim that is over.
func openClaim(store *kv.Store) (token string, err error) {
	name := filepath.Join(store.Dir(), claimFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the claim link: %w", err)
	}
	token = path.Base(strings.TrimSpace(string(text)))
	err = store.View(func(tx *kv.Tx) error {
		all, err := people.Users(tx)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(u people.User) bool { return u.Role == people.Admin }) {
			return record.NotFound("claim")
		}
		return people.Claimable(tx, token)
	})
	if kv.Missing(err) {
		if err := os.Remove(name); err != nil {
			return "", fmt.Errorf("cannot remove the claim link: %w", err)
		}
		return "", nil
	}
	return token, err
}

// keepClaim writes the claim file in one step, because half a file would lose the
// link.
func keepClaim(dir, text string) error {
	if now, err := os.ReadFile(filepath.Join(dir, claimFile)); err == nil && string(now) == text {
		return nil
	}
	return datadir.WriteFile(dir, claimFile, []byte(text))
}
