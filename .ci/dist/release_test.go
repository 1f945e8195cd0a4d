package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"aead.dev/minisign"
	"github.com/blakesmith/ar"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestRelease makes the release of this commit twice, in two folders. Both have the same bytes, and in them is what
// those expect who install it.
func TestRelease(t *testing.T) {
	changes, err := os.ReadFile("../../embed/help/changes.md")
	ok(t, err)
	version := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+)`).FindStringSubmatch(string(changes))[1]
	public, private, err := minisign.GenerateKey(rand.Reader)
	ok(t, err)
	secret, err := private.MarshalText()
	ok(t, err)
	key := filepath.Join(t.TempDir(), "key")
	ok(t, os.WriteFile(key, secret, 0o600))

	outs := []string{t.TempDir(), t.TempDir()}
	said := make([][]byte, 2)
	failed := make([]error, 2)
	var both sync.WaitGroup
	for i, folder := range []string{"kist", "another/place"} {
		clone := filepath.Join(t.TempDir(), folder)
		out, err := exec.Command("git", "clone", "--quiet", "../..", clone).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		both.Go(func() {
			cmd := exec.Command(filepath.Join(clone, ".ci", "release"), "-targets", "linux/amd64", version, outs[i])
			cmd.Env = append(os.Environ(), "KIST_SIGN_KEY_FILE="+key)
			said[i], failed[i] = cmd.CombinedOutput()
		})
	}
	both.Wait()
	for i, err := range failed {
		if err != nil {
			t.Fatalf("%v: %s", err, said[i])
		}
	}
	one, other := readAll(t, outs[0]), readAll(t, outs[1])
	var names []string
	for name, data := range one {
		names = append(names, name)
		if !bytes.Equal(data, other[name]) {
			t.Errorf("%s differs", name)
		}
	}
	slices.Sort(names)
	base := "kist-" + version
	same(t, names, []string{
		"SHA256SUMS", "SHA256SUMS.minisig",
		base + "-1.x86_64.rpm", base + "-chromium.zip", base + "-firefox.xpi", base + "-linux-amd64.tar.gz",
		base + "-oci.tar", base + ".cdx.json", "kist_" + version + "_amd64.deb", "latest.json", "latest.json.minisig",
	})
	same(t, len(other), len(names))

	t.Run("signatures", func(t *testing.T) {
		for _, name := range []string{"SHA256SUMS", "latest.json"} {
			same(t, minisign.Verify(public, one[name], one[name+".minisig"]), true)
			same(t, minisign.Verify(public, append(one[name], 'x'), one[name+".minisig"]), false)
		}
		var sums strings.Builder
		for _, name := range names {
			if !strings.HasPrefix(name, "SHA256SUMS") && !strings.HasSuffix(name, ".minisig") {
				fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(one[name]), name)
			}
		}
		same(t, string(one["SHA256SUMS"]), sums.String())
		var latest struct{ Version, Notes string }
		ok(t, json.Unmarshal(one["latest.json"], &latest))
		same(t, latest.Version, version)
		same(t, strings.Contains(string(changes), "\n\n"+latest.Notes), true)
	})
	t.Run("archive", func(t *testing.T) {
		top := base + "-linux-amd64/"
		files := untar(t, gunzip(t, one[base+"-linux-amd64.tar.gz"]))
		for _, name := range []string{
			"LICENSE", "README.md", "kist.1", "completions/kist.bash", "completions/_kist", "completions/kist.fish",
			"kist.service",
		} {
			same(t, len(files[top+name].data) > 0, true)
		}
		program := filepath.Join(t.TempDir(), "kist")
		ok(t, os.WriteFile(program, files[top+"kist"].data, 0o755))
		says, err := exec.Command(program, "version").Output()
		ok(t, err)
		commit, err := exec.Command("git", "rev-parse", "HEAD").Output()
		ok(t, err)
		begins := "kist " + version + ", commit " + strings.TrimSpace(string(commit)) + " of "
		same(t, strings.HasPrefix(string(says), begins), true)
	})
	t.Run("deb", func(t *testing.T) { testDeb(t, version, one["kist_"+version+"_amd64.deb"]) })
	t.Run("image", func(t *testing.T) { testImage(t, version, one[base+"-oci.tar"]) })
	t.Run("extension", func(t *testing.T) {
		for name, lacks := range map[string][]string{
			"-chromium.zip": {"browser_specific_settings", "scripts"},
			"-firefox.xpi":  {"minimum_chrome_version", "service_worker"},
		} {
			files, err := zip.NewReader(bytes.NewReader(one[base+name]), int64(len(one[base+name])))
			ok(t, err)
			f, err := files.Open("manifest.json")
			ok(t, err)
			var manifest map[string]any
			ok(t, json.NewDecoder(f).Decode(&manifest))
			same(t, manifest["version"], any(version))
			background := manifest["background"].(map[string]any)
			same(t, len(background), 2) // the script and its type
			for _, field := range lacks {
				same(t, manifest[field], nil)
				same(t, background[field], nil)
			}
		}
	})
	t.Run("parts", func(t *testing.T) {
		text := string(one[base+".cdx.json"])
		same(t, strings.Contains(text, `"name": "go.etcd.io/bbolt"`), true)
		same(t, strings.Contains(text, os.TempDir()), false)
	})
}

// testDeb: the package has the files, and scripts that delete no data.
func testDeb(t *testing.T, version string, deb []byte) {
	parts := map[string][]byte{}
	archive := ar.NewReader(bytes.NewReader(deb))
	for {
		head, err := archive.Next()
		if err == io.EOF {
			break
		}
		ok(t, err)
		data, err := io.ReadAll(archive)
		ok(t, err)
		parts[strings.TrimSuffix(head.Name, "/")] = data
	}
	control := untar(t, gunzip(t, parts["control.tar.gz"]))
	files := untar(t, gunzip(t, parts["data.tar.gz"]))

	for name, mode := range map[string]int64{
		"./usr/bin/kist": 0o755, "./etc/kist/kist.env": 0o600, "./usr/lib/systemd/system/kist.service": 0o644,
		"./usr/share/man/man1/kist.1.gz": 0o644, "./usr/share/bash-completion/completions/kist": 0o644,
		"./usr/share/zsh/vendor-completions/_kist":        0o644,
		"./usr/share/fish/vendor_completions.d/kist.fish": 0o644,
		"./usr/share/doc/kist/copyright":                  0o644,
		"./usr/share/doc/kist/README.md":                  0o644,
		"./usr/share/doc/kist/changelog.gz":               0o644,
	} {
		f, there := files[name]
		same(t, there, true)
		same(t, f.mode, mode)
	}
	unit := string(files["./usr/lib/systemd/system/kist.service"].data)
	for _, line := range []string{
		"ExecStart=/usr/bin/kist serve", "User=kist", "Environment=KIST_LISTEN=127.0.0.1:7080",
		"EnvironmentFile=-/etc/kist/kist.env", "StateDirectory=kist",
		"ProtectSystem=strict",
	} {
		same(t, strings.Count(unit, "\n"+line+"\n"), 1)
	}
	same(t, strings.Contains(unit, "kist.example.org"), false)

	same(t, string(control["./conffiles"].data), "/etc/kist/kist.env\n")
	said := string(control["./control"].data)
	for _, line := range []string{"Package: kist", "Version: " + version, "Architecture: amd64", "Depends: passwd"} {
		same(t, strings.Contains(said, line+"\n"), true)
	}
	for _, name := range []string{"./postinst", "./prerm", "./postrm"} {
		same(t, strings.HasPrefix(string(control[name].data), "#!/bin/sh\nset -e\n"), true)
		for line := range strings.Lines(string(control[name].data)) {
			if strings.Contains(line, "rm -") && !strings.Contains(line, "echo") {
				t.Errorf("%s deletes: %s", name, line)
			}
		}
	}
}

// testImage: the layout is whole, and its image runs the program as kist install docker says.
func testImage(t *testing.T, version string, archive []byte) {
	dir := t.TempDir()
	for name, f := range untar(t, archive) {
		at := filepath.Join(dir, filepath.FromSlash(name))
		ok(t, os.MkdirAll(filepath.Dir(at), 0o755))
		ok(t, os.WriteFile(at, f.data, 0o644))
	}
	top, err := layout.ImageIndexFromPath(dir)
	ok(t, err)
	ok(t, validate.Index(top))
	manifest, err := top.IndexManifest()
	ok(t, err)
	same(t, len(manifest.Manifests), 1)
	same(t, manifest.Manifests[0].Annotations["io.containerd.image.name"], imageName+version)
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	ok(t, err)
	manifest, err = index.IndexManifest()
	ok(t, err)
	same(t, len(manifest.Manifests), 1)
	same(t, manifest.Manifests[0].Platform.String(), "linux/amd64")
	image, err := index.Image(manifest.Manifests[0].Digest)
	ok(t, err)

	about, err := image.ConfigFile()
	ok(t, err)
	same(t, about.Config.Labels["org.opencontainers.image.version"], version)
	testDockerfile(t, about.Config)
	layers, err := image.Layers()
	ok(t, err)
	all := map[string]entry{}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		ok(t, err)
		data, err := io.ReadAll(content)
		ok(t, err)
		for name, f := range untar(t, data) {
			all[name] = f
		}
	}
	same(t, all["kist"].mode, int64(0o755))
	same(t, all["data/"], entry{mode: 0o700, user: imageUser})
	same(t, strings.Count(string(all["etc/ssl/certs/ca-certificates.crt"].data), "BEGIN CERTIFICATE") > 100, true)

	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	ok(t, err)
	var docker []struct {
		Config           string
		RepoTags, Layers []string
	}
	ok(t, json.Unmarshal(text, &docker))
	same(t, docker[0].RepoTags, []string{"kist:" + version + "-amd64"})
	for _, name := range append(docker[0].Layers, docker[0].Config) {
		_, err := os.Stat(filepath.Join(dir, name))
		ok(t, err)
	}
}

// testDockerfile: the image does what the printed Dockerfile makes.
func testDockerfile(t *testing.T, config v1.Config) {
	text, err := os.ReadFile("../../admin/testdata/install/docker")
	ok(t, err)
	for _, line := range []string{
		"USER " + config.User, "ENV " + strings.Join(config.Env, " "), "VOLUME /data", "EXPOSE 7080",
		`ENTRYPOINT ["/kist"]`, `CMD ["serve"]`,
		`HEALTHCHECK --interval=30s --timeout=10s --start-period=10m CMD ["/kist", "healthcheck"]`,
	} {
		same(t, strings.Contains(string(text), "\n# "+line+"\n"), true)
	}
	same(t, config.Volumes, map[string]struct{}{"/data": {}})
	same(t, config.ExposedPorts, map[string]struct{}{"7080/tcp": {}})
	same(t, config.Entrypoint, []string{"/kist"})
	same(t, config.Cmd, []string{"serve"})
	same(t, config.Healthcheck.Test, []string{"CMD", "/kist", "healthcheck"})
	same(t, config.Healthcheck.Interval.String(), "30s")
	same(t, config.Healthcheck.Timeout.String(), "10s")
	same(t, config.Healthcheck.StartPeriod.String(), "10m0s")
}

// TestRefused: what cannot become a release is refused with one sentence, and leaves no file.
func TestRefused(t *testing.T) {
	full := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(full, "old"), nil, 0o600))
	for _, row := range []struct{ version, out, only, want string }{
		{"9.99.9", "", "", `embed/help/changes.md has no section "## 9.99.9" that says what users notice`},
		{"v1.0.0", "", "", `"v1.0.0" is no version such as 1.2.3 or 1.2.3-rc.1`},
		{"1.0", "", "", `"1.0" is no version such as 1.2.3 or 1.2.3-rc.1`},
		{"1.0.0", "", "plan9/amd64", `"plan9/amd64" is not among the targets [linux/amd64`},
		{"1.0.0", full, "", "the folder " + full + " is not empty"},
	} {
		out := row.out
		if out == "" {
			out = t.TempDir()
		}
		err := run(row.version, out, row.only)
		if err == nil || !strings.HasPrefix(err.Error(), row.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", row.version, err)
		}
		if row.out == "" {
			same(t, len(readAll(t, out)), 0)
		}
	}
	t.Setenv("KIST_SIGN_KEY", "untrusted comment: x\nRWQ")
	err := run("1.0.0", t.TempDir(), "")
	same(t, strings.HasPrefix(err.Error(), "KIST_SIGN_KEY holds no secret key of minisign"), true)
}

// TestSection: a version has the text below its own heading alone.
func TestSection(t *testing.T) {
	changes := "# Changes\n\n## 1.10.0 of May\n\nNew.\n\n### Breaking\n\n- x\n\n## 1.1.0\n\nOld.\n"
	for version, want := range map[string]string{
		"1.10.0": "New.\n\n### Breaking\n\n- x\n", "1.1.0": "Old.\n", "1.1": "", "x": "",
	} {
		got, err := section(changes, version)
		same(t, got, want)
		same(t, err != nil, want == "")
	}
}

// TestPackageUnit: a unit that kist prints in another way is not changed by half.
func TestPackageUnit(t *testing.T) {
	printed, err := os.ReadFile("../../admin/testdata/install/systemd")
	ok(t, err)
	_, err = packageUnit(string(printed))
	ok(t, err)
	for _, line := range []string{"ExecStart=/usr/local/bin/kist serve\n", "DynamicUser=yes\n"} {
		_, err := packageUnit(strings.Replace(string(printed), line, "", 1))
		same(t, err != nil, true)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same[T any](t *testing.T, got, want T) {
	t.Helper()
	if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
		t.Errorf("%#v, not %#v", got, want)
	}
}

// readAll reads the files of a folder.
func readAll(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files, err := readTree(dir)
	ok(t, err)
	all := map[string][]byte{}
	for _, f := range files {
		all[f.name] = f.data
	}
	return all
}

// entry is a member of a tar.
type entry struct {
	mode int64
	user int
	data []byte
}

func untar(t *testing.T, archive []byte) map[string]entry {
	t.Helper()
	all := map[string]entry{}
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		head, err := r.Next()
		if err == io.EOF {
			return all
		}
		ok(t, err)
		e := entry{mode: head.Mode, user: head.Uid}
		if head.Typeflag == tar.TypeReg {
			e.data, err = io.ReadAll(r)
			ok(t, err)
		}
		all[head.Name] = e
	}
}

func gunzip(t *testing.T, data []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	ok(t, err)
	data, err = io.ReadAll(r)
	ok(t, err)
	return data
}
