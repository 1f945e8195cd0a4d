package serve

import (
	"fmt"
	"log/slog"
	"path/filepath"

	"kist/blobs"
)

// OpenContent opens the files of a data directory for a server. It logs when files
// can no longer be stored, when they can be stored again, and when stored bytes
// turn out to be damaged.
func OpenContent(dir string, log *slog.Logger) (*blobs.Store, error) {
	content, err := blobs.OpenIn(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the content: %w", err)
	}
	content.OnFailure(func(err error) {
		if err == nil {
			log.Warn("files can be stored again")
			return
		}
		log.Error("files cannot be stored; what is stored can be read",
			"folder", filepath.Join(dir, "blobs"), "error", err)
	})
	content.Damaged.OnDamage(func(ref blobs.Ref, reason error) {
		log.Warn("the stored bytes of a file are damaged; upload the same file again, "+
			"or run kist restore --missing with a backup", "sha256", ref.String(), "error", reason)
	})
	return content, nil
}
