package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"kist/embed"
	"kist/kv/record"
)

type extensionCommand struct {
	Dir string `arg:"" help:"The folder to write. It must be new, empty, or hold the extension already."`
}

// Run writes the browser extension to the folder. A folder that holds the extension
// is brought up to date, and other files in it stay.
func (cmd *extensionCommand) Run(c *Call) error {
	files := embed.Extension("", record.Views())
	if err := takesExtension(cmd.Dir, files[manifestFile]); err != nil {
		return err
	}
	// The manifest comes first, because it shows that the folder is kist's: if
	// writing fails on the way, the command can run again.
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(name string) bool { return name == manifestFile })
	for _, name := range slices.Insert(names, 0, manifestFile) {
		at := filepath.Join(cmd.Dir, filepath.FromSlash(name))
		if err := writeShared(at, files[name]); err != nil {
			return fmt.Errorf("cannot write the extension: %w", err)
		}
	}
	answer := struct {
		Dir   string `json:"dir"`
		Files int    `json:"files"`
	}{cmd.Dir, len(files)}
	return c.say(answer, "The extension is in %s. In Chromium, open chrome://extensions, turn on Developer mode, "+
		"press Load unpacked and choose that folder; in Firefox, open about:debugging#/runtime/this-firefox, "+
		"press Load Temporary Add-on and choose its manifest.json.", cmd.Dir)
}

// writeShared writes a file, and the folder it is in. Others may read both, as far as the umask lets them.
func writeShared(at string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil { // #nosec G301 -- see above
		return err
	}
	return os.WriteFile(at, text, 0o666) // #nosec G306 -- see above
}

const manifestFile = "manifest.json"

// takesExtension refuses a folder that holds anything but the extension.
func takesExtension(dir string, manifest []byte) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("cannot write the extension: %w", err)
	case len(entries) == 0:
		return nil
	}
	there, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err == nil && sameExtension(there, manifest) {
		return nil
	}
	return fmt.Errorf("the folder %s is not empty, and what is in it is not the extension of kist; "+
		"choose another folder (nothing was changed)", dir)
}

// sameExtension compares manifests by the extension's id for Firefox, which is the
// same in all versions.
func sameExtension(x, y []byte) bool {
	id := func(b []byte) string {
		var m struct {
			Settings struct {
				Gecko struct {
					ID string `json:"id"`
				} `json:"gecko"`
			} `json:"browser_specific_settings"`
		}
		if json.Unmarshal(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), &m) != nil {
			return ""
		}
		return m.Settings.Gecko.ID
	}
	return id(x) != "" && id(x) == id(y)
}
