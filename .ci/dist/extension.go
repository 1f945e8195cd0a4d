package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// extensions packs the browser extension for each browser. The one manifest that kist serves is for both, and each
// browser warns of what the other needs: here each gets its own.
func (r *release) extensions() error {
	for _, browser := range []struct {
		name    string
		foreign func(manifest, background map[string]any)
	}{
		{"chromium.zip", func(manifest, background map[string]any) {
			delete(manifest, "browser_specific_settings")
			delete(background, "scripts")
		}},
		{"firefox.xpi", func(manifest, background map[string]any) {
			delete(manifest, "minimum_chrome_version")
			delete(background, "service_worker")
		}},
	} {
		files, err := readTree(filepath.Join(r.scratch, "extension"))
		if err != nil {
			return err
		}
		for i, f := range files {
			if f.name != "manifest.json" {
				continue
			}
			var manifest map[string]any
			err := json.Unmarshal(f.data, &manifest)
			if err != nil {
				return err
			}
			background, ok := manifest["background"].(map[string]any)
			if !ok {
				return fmt.Errorf("the manifest of the extension has no background")
			}
			browser.foreign(manifest, background)
			// Browsers take numbers alone.
			manifest["version"], _, _ = strings.Cut(r.version, "-")
			files[i].data, err = json.MarshalIndent(manifest, "", "  ")
			if err != nil {
				return err
			}
		}

		data, err := zipped(files, "", r.date)
		if err != nil {
			return err
		}
		err = r.write(fmt.Sprintf("kist-%s-%s", r.version, browser.name), data)
		if err != nil {
			return err
		}
	}
	return nil
}
