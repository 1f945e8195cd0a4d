package main

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

const description = "Keeps and shares files, bookmarks, notes, snippets, recipes, games and short links"

// packageFiles are the scripts that run when a package is installed, updated or removed, and its settings.
//
//go:embed package
var packageFiles embed.FS

// packaged are the names that nfpm has for the architectures of packages.
var packaged = map[target]string{
	{"linux", "amd64"}:   "amd64",
	{"linux", "arm64"}:   "arm64",
	{"linux", "armv7"}:   "arm7",
	{"linux", "riscv64"}: "riscv64",
}

// packages makes a deb and an rpm for each architecture of Linux.
func (r *release) packages() error {
	unit, err := packageUnit(string(r.printed["kist.service"]))
	if err != nil {
		return err
	}
	r.printed["package.service"] = []byte(unit)
	for _, t := range r.targets {
		if packaged[t] == "" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			err := r.pack(t, format)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// packageUnit is the unit that kist install systemd prints, changed for a package: the program is in /usr/bin, the
// user stays the same, and a file that updates leave alone may change the settings.
func packageUnit(printed string) (string, error) {
	_, unit, _ := strings.Cut(printed, "[Unit]\n")
	var kept []string
	for line := range strings.Lines(unit) {
		if !strings.HasPrefix(line, "Environment=KIST_BASE_URL=") {
			kept = append(kept, line)
		}
	}
	head := "# Settings are in /etc/kist/kist.env; \"systemctl edit kist\" changes the rest.\n[Unit]\n"
	unit = head + strings.Join(kept, "")
	for _, change := range [][2]string{
		{"\nExecStart=/usr/local/bin/kist serve\n", "\nExecStart=/usr/bin/kist serve\n"},
		{"\nDynamicUser=yes\n", "\nUser=kist\nGroup=kist\n"},
		{"\nRestart=always\n", "\nEnvironmentFile=-/etc/kist/kist.env\nRestart=always\n"},
	} {
		if strings.Count(unit, change[0]) != 1 {
			return "", fmt.Errorf("the unit of kist install systemd has no line %q", strings.TrimSpace(change[0]))
		}
		unit = strings.Replace(unit, change[0], change[1], 1)
	}
	return unit, nil
}

func (r *release) pack(t target, format string) error {
	contents, err := r.contents(t, format)
	if err != nil {
		return err
	}
	scripts, err := r.scripts(format)
	if err != nil {
		return err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "kist", Arch: packaged[t], Platform: "linux", Version: r.version, MTime: r.date, DisableGlobbing: true,
		Maintainer: "Kist <kist@kist.invalid>", Description: description, License: "MIT", Section: "web",
		Priority: "optional",
		Overridables: nfpm.Overridables{
			Contents: contents, Scripts: scripts, Umask: 0o022, Recommends: []string{"ca-certificates"},
			RPM: nfpm.RPM{BuildHost: "kist.invalid", Summary: description},
		},
	})
	if format == "deb" {
		info.Depends = []string{"passwd"}
	} else {
		info.Depends = []string{"/usr/sbin/useradd"}
	}
	err = nfpm.Validate(info)
	if err != nil {
		return err
	}
	err = nfpm.PrepareForPackager(info, format)
	if err != nil {
		return err
	}

	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	name := packager.ConventionalFileName(info)
	fmt.Println("package", name)
	var b bytes.Buffer
	err = packager.Package(info, &b)
	if err != nil {
		return err
	}
	return r.write(name, b.Bytes())
}

// contents are the files of a package. The folder of the data is not among them: it must survive the package.
func (r *release) contents(t target, format string) (files.Contents, error) {
	documents, err := r.documents()
	if err != nil {
		return nil, err
	}
	changes, err := os.ReadFile(filepath.Join(r.source, "embed", "help", "changes.md"))
	if err != nil {
		return nil, err
	}
	changes, err = gzipped(changes)
	if err != nil {
		return nil, err
	}
	manual, err := gzipped(r.printed["kist.1"])
	if err != nil {
		return nil, err
	}
	settings, err := packageFiles.ReadFile("package/kist.env")
	if err != nil {
		return nil, err
	}

	licence, zsh := "/usr/share/doc/kist/copyright", "/usr/share/zsh/vendor-completions/_kist"
	if format == "rpm" {
		licence, zsh = "/usr/share/licenses/kist/LICENSE", "/usr/share/zsh/site-functions/_kist"
	}
	staged := files.Contents{{
		Source: r.programs[t], Destination: "/usr/bin/kist",
		FileInfo: &files.ContentFileInfo{Mode: 0o755, MTime: r.date},
	}}
	for _, f := range []file{
		{"/etc/kist/kist.env", 0o600, settings}, // it may hold secrets; systemd reads it as root
		{"/usr/lib/systemd/system/kist.service", 0o644, r.printed["package.service"]},
		{"/usr/share/man/man1/kist.1.gz", 0o644, manual},
		{"/usr/share/bash-completion/completions/kist", 0o644, r.printed["kist.bash"]},
		{zsh, 0o644, r.printed["_kist"]},
		{"/usr/share/fish/vendor_completions.d/kist.fish", 0o644, r.printed["kist.fish"]},
		{licence, 0o644, documents[0].data},
		{"/usr/share/doc/kist/README.md", 0o644, documents[1].data},
		{"/usr/share/doc/kist/changelog.gz", 0o644, changes},
	} {
		at, err := r.stage(format, f)
		if err != nil {
			return nil, err
		}
		content := &files.Content{
			Source: at, Destination: f.name, FileInfo: &files.ContentFileInfo{Mode: f.mode, MTime: r.date},
		}
		if strings.HasPrefix(f.name, "/etc/") {
			content.Type = files.TypeConfigNoReplace
		}
		staged = append(staged, content)
	}
	return staged, nil
}

// stage writes a file of a package where nfpm can read it.
func (r *release) stage(format string, f file) (string, error) {
	at := filepath.Join(r.scratch, format, filepath.FromSlash(f.name))
	err := os.MkdirAll(filepath.Dir(at), 0o755)
	if err != nil {
		return "", err
	}
	return at, os.WriteFile(at, f.data, 0o644)
}

// scripts are those of one format. The one that runs after the files are there begins with making the user.
func (r *release) scripts(format string) (scripts nfpm.Scripts, err error) {
	user, err := packageFiles.ReadFile("package/user.sh")
	if err != nil {
		return scripts, err
	}
	for name, to := range map[string]*string{
		"postinstall": &scripts.PostInstall, "preremove": &scripts.PreRemove, "postremove": &scripts.PostRemove,
	} {
		text, err := packageFiles.ReadFile("package/" + format + "/" + name + ".sh")
		if err != nil {
			return scripts, err
		}
		if name == "postinstall" {
			text = append(user[:len(user):len(user)], text...)
		}
		*to, err = r.stage(format, file{"scripts/" + name, 0o755, text})
		if err != nil {
			return scripts, err
		}
	}
	return scripts, nil
}
