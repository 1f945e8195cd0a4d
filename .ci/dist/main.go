// Dist makes the files of a release: see .ci/release. Whatever it writes depends on the commit, the version and the
// pinned tools alone: times are the commit's, lists are sorted, and no name of a machine or a folder gets in.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	from := flag.String("from", ".", "where a relative OUT begins")
	only := flag.String("targets", "", "such as linux/amd64,linux/armv7, instead of all")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, "usage: .ci/release [-targets OS/ARCH,...] VERSION OUT") }
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}

	out := flag.Arg(1)
	if !filepath.IsAbs(out) {
		out = filepath.Join(*from, out)
	}
	err := run(flag.Arg(0), out, *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "There is no release:", err)
		os.Exit(1)
	}
}

// release is one version of kist, on its way.
type release struct {
	version string
	notes   string // what changes.md says of it
	targets []target
	out     string // the folder of the finished files
	scratch string // a folder for the rest
	source  string // in scratch: a clone of the commit, without anything else
	commit  string
	date    time.Time // of the commit

	programs map[target]string // the path of each compiled program
	printed  map[string][]byte // what the program itself makes, by the name of its file
}

func run(version, out, only string) (err error) {
	if !regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9a-z]+(\.[0-9a-z]+)*)?$`).MatchString(version) {
		return fmt.Errorf("%q is no version such as 1.2.3 or 1.2.3-rc.1", version)
	}
	r := &release{version: version, out: out}
	r.targets, err = choose(only)
	if err != nil {
		return err
	}

	key, err := signingKey()
	if err != nil {
		return err
	}
	for _, secret := range []string{"KIST_SIGN_KEY", "KIST_SIGN_PASSWORD"} { // programs that run below need no key
		err := os.Unsetenv(secret)
		if err != nil {
			return err
		}
	}
	err = makeEmpty(out)
	if err != nil {
		return err
	}
	r.scratch, err = os.MkdirTemp("", "kist-release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.scratch)) }()
	err = r.checkOut()
	if err != nil {
		return err
	}
	changes, err := os.ReadFile(filepath.Join(r.source, "embed", "help", "changes.md"))
	if err != nil {
		return err
	}
	r.notes, err = section(string(changes), version)
	if err != nil {
		return err
	}

	fmt.Printf("kist %s, commit %s of %s\n", version, r.commit, r.date.Format(time.RFC3339))
	for _, step := range []func() error{
		r.compile, r.print, r.archives, r.packages, r.extensions, r.image, r.parts, r.latest, r.sums,
		func() error { return r.sign(key) },
	} {
		err := step()
		if err != nil {
			return err
		}
	}
	return nil
}

// makeEmpty makes the folder of the finished files. One that has files already is refused, because they would look
// like parts of this release.
func makeEmpty(dir string) error {
	err := os.MkdirAll(dir, 0o755)
	if err != nil {
		return err
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(there) > 0 {
		return fmt.Errorf("the folder %s is not empty", dir)
	}
	return nil
}

// checkOut clones the commit that is checked out. Files that are not committed do not get into a release, and tags,
// which a clone may lack, do not change its bytes.
func (r *release) checkOut() error {
	top, err := output(exec.Command("git", "rev-parse", "--show-toplevel"))
	if err != nil {
		return err
	}
	r.source = filepath.Join(r.scratch, "source")
	_, err = output(exec.Command("git", "clone", "--quiet", "--no-tags", strings.TrimSpace(top), r.source))
	if err != nil {
		return err
	}
	said, err := output(exec.Command("git", "-C", r.source, "show", "--no-patch", "--format=%H %ct", "HEAD"))
	if err != nil {
		return err
	}

	commit, seconds, _ := strings.Cut(strings.TrimSpace(said), " ")
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("the time of the commit cannot be read: %w", err)
	}
	r.commit, r.date = commit, time.Unix(at, 0).UTC()
	return nil
}

// section is what the list of changes says of one version, without the heading.
func section(changes, version string) (string, error) {
	for _, part := range strings.Split(changes, "\n## ")[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		if strings.Fields(heading)[0] == version {
			return strings.TrimSpace(text) + "\n", nil
		}
	}
	return "", fmt.Errorf("embed/help/changes.md has no section \"## %s\" that says what users notice", version)
}

// write makes a finished file.
func (r *release) write(name string, data []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), data, 0o644)
}

// finished are the names of the files that are done, sorted.
func (r *release) finished() ([]string, error) {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names, nil
}

// output runs a command and returns what it prints. An error says what it said.
func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	failed := (*exec.ExitError)(nil)
	if errors.As(err, &failed) {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, failed.Stderr)
	}
	return string(out), err
}

// file is one file of an archive, with its path there.
type file struct {
	name string
	mode fs.FileMode
	data []byte
}
