package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"aead.dev/minisign"
)

// inventory lists the modules of a program, with their licences. Its own modules would be many among those of this
// one, so it is run by its name.
const inventory = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"

// parts writes the bill of materials: which modules the first program was made from.
func (r *release) parts() error {
	at := filepath.Join(r.scratch, "parts.json")
	cmd := exec.Command("go", "run", inventory, "bin", "-json", "-licenses", "-std", "-noserial", "-notimestamp",
		"-version", r.version, "-output", at, r.programs[r.targets[0]])
	cmd.Dir = r.scratch
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	_, err := output(cmd)
	if err != nil {
		return err
	}

	text, err := os.ReadFile(at)
	if err != nil {
		return err
	}
	var all map[string]any
	err = json.Unmarshal(text, &all)
	if err != nil {
		return err
	}
	// The tool names its own digests, which differ from machine to machine.
	metadata, _ := all["metadata"].(map[string]any)
	tools, _ := metadata["tools"].([]any)
	for _, tool := range tools {
		fields, ok := tool.(map[string]any)
		if ok {
			delete(fields, "hashes")
		}
	}
	text, err = json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return r.write("kist-"+r.version+".cdx.json", append(text, '\n'))
}

// latest writes what kist doctor --check-update reads.
func (r *release) latest() error {
	text, err := json.Marshal(map[string]string{"version": r.version, "notes": r.notes})
	if err != nil {
		return err
	}
	return r.write("latest.json", append(text, '\n'))
}

// sums writes the digests of all files in the form of sha256sum.
func (r *release) sums() error {
	names, err := r.finished()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), name)
	}
	return r.write("SHA256SUMS", b.Bytes())
}

// signingKey reads the secret key from the environment. Without one it returns none, and nothing is signed.
func signingKey() (*minisign.PrivateKey, error) {
	text := os.Getenv("KIST_SIGN_KEY")
	name := os.Getenv("KIST_SIGN_KEY_FILE")
	if text != "" && name != "" {
		return nil, errors.New("KIST_SIGN_KEY and KIST_SIGN_KEY_FILE are both set; give one of them")
	}
	if name != "" {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		text = string(data)
	}
	key := new(minisign.PrivateKey)
	text = strings.TrimSpace(text)
	if text == "" {
		return key, nil
	}

	if minisign.IsEncrypted([]byte(text)) {
		open, err := minisign.DecryptKey(os.Getenv("KIST_SIGN_PASSWORD"), []byte(text))
		if err != nil {
			return nil, fmt.Errorf("the key cannot be opened with KIST_SIGN_PASSWORD: %w", err)
		}
		return &open, nil
	}
	err := key.UnmarshalText([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("KIST_SIGN_KEY holds no secret key of minisign: %w", err)
	}
	return key, nil
}

// sign writes the signatures of the two files that vouch for all others. An empty key signs nothing.
func (r *release) sign(key *minisign.PrivateKey) error {
	if key.Equal(minisign.PrivateKey{}) {
		fmt.Println("not signed: there is no KIST_SIGN_KEY")
		return nil
	}
	for _, name := range []string{"SHA256SUMS", "latest.json"} {
		data, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		trusted := fmt.Sprintf("timestamp:%d\tfile:%s\tversion:%s", r.date.Unix(), name, r.version)
		err = r.write(name+".minisig", minisign.SignWithComments(*key, data, trusted, "signature of kist "+r.version))
		if err != nil {
			return err
		}
	}
	return nil
}
