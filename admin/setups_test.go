package admin_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// A desk is a folder in which scripts are run, with a clipboard and programs of
// the test's.
type desk struct {
	*place
	shell string
	bin   string
	path  string
}

// desk makes a desk for a test, which may be a part of the place's.
func (p *place) desk(t *testing.T, shell string) *desk {
	t.Helper()
	needs.Programs(t, "setup scripts in "+shell, slices.Concat(bareSystem, []string{shell, "curl"})...)
	its := *p
	its.t = t
	d := &desk{&its, shell, t.TempDir(), ""}
	d.path = d.bin + ":" + os.Getenv("PATH")
	d.program("xclip", "cat > "+d.bin+"/clipboard\n")
	return d
}

// program puts a script of the name on the PATH.
func (d *desk) program(name, text string) {
	d.t.Helper()
	if err := writeProgram(d.bin+"/"+name, "#!/bin/sh\n"+text); err != nil {
		d.t.Fatal(err)
	}
}

// writeProgram writes a script that can be run at once: no process that another
// test forks meanwhile holds it open for writing.
func writeProgram(path, text string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, []byte(text), 0o700)
}

// bareSystem is the programs that every system has.
var bareSystem = []string{"sh", "cat", "mktemp", "rm", "sed", "head", "tail", "date"}

// without takes all programs but those of a bare system and the named off the PATH.
func (d *desk) without(but ...string) {
	d.t.Helper()
	bare := d.t.TempDir()
	for _, name := range slices.Concat(but, bareSystem) {
		from, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(from, bare+"/"+name)
		}
		if err != nil {
			d.t.Fatal(err)
		}
	}
	d.path = bare
}

// do runs a script in the place's folder.
func (d *desk) do(script, stdin string, args ...string) result {
	d.t.Helper()
	shell, err := exec.LookPath(d.shell)
	if err != nil {
		d.t.Fatal(err)
	}
	cmd := exec.CommandContext(d.t.Context(), shell, append([]string{d.bin + "/" + script}, args...)...)
	cmd.Dir, cmd.Stdin = d.bin, strings.NewReader(stdin)
	cmd.Env = []string{"PATH=" + d.path, "HOME=" + d.bin, "DISPLAY=:99", "TMPDIR=" + d.bin}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.t.Fatal(err)
	}
	return result{out: out.String(), err: errs.String(), code: cmd.ProcessState.ExitCode()}
}

func (d *desk) clipboard() string {
	d.t.Helper()
	b, err := os.ReadFile(d.bin + "/clipboard")
	if err != nil {
		d.t.Fatal(err)
	}
	return string(b)
}

// setUp fetches the script of a setup and puts it on the PATH.
func (d *desk) setUp(key, program, name string) (secret string) {
	d.t.Helper()
	var made struct {
		Data struct {
			Files []struct{ Name, Content string }
		}
	}
	text := d.send(
		http.MethodPost, "/api/v1/setups", key, "application/json",
		strings.NewReader(`{"program":"`+program+`","isPublic":true}`),
	)
	if err := json.Unmarshal([]byte(text), &made); err != nil || len(made.Data.Files) != 1 ||
		made.Data.Files[0].Name != name {
		d.t.Fatalf("%s: %v", text, err)
	}
	script := made.Data.Files[0].Content
	if err := writeProgram(d.bin+"/"+name, script); err != nil {
		d.t.Fatal(err)
	}
	_, secret, _ = strings.Cut(script, "key='")
	secret, _, _ = strings.Cut(secret, "'")
	return secret
}

// TestSetupScripts runs the scripts of setups in the shells that there are.
func TestSetupScripts(t *testing.T) {
	needs.Time(t)
	needs.Alone(t)
	p := newPlace(t)
	s := p.serve()
	p.key()
	key := strings.TrimSpace(p.must("key", "create", "--user", "ann", "--name", "setups", "--scope", "admin"))
	content := func(t *testing.T, address string) string {
		t.Helper()
		path, ok := strings.CutPrefix(address, "http://"+p.addr)
		if !ok {
			t.Fatalf("%q is no address of the server", address)
		}
		status, body := p.get(path, "")
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", address, status, body)
		}
		return body
	}
	for _, shell := range []string{"sh", "dash", "bash"} {
		t.Run(shell, func(t *testing.T) {
			is := is.New(t)
			d := p.desk(t, shell)
			secret := d.setUp(key, "shell", "kist-upload")

			// What shells and curl could take for something else.
			names := []string{
				"a b.txt", `q"uo\te'd.txt`, "semi;type=text,comma.txt", "$(touch no) *.txt", "ünï ☂.txt", "-dash.txt", "@at.txt",
			}
			var args []string
			for i, name := range names {
				is.NoErr(os.WriteFile(d.bin+"/"+name, []byte("content of "+name), 0o600))
				args = append(args, name)
				if i == 0 {
					args = append(args, "missing.txt")
				}
			}
			r := d.do("kist-upload", "", args...)
			is.Equal(r.code, 1) // one of them is not there
			is.True(strings.Contains(r.err, "missing.txt"))
			addresses := strings.Fields(r.out)
			is.Equal(len(addresses), len(names))
			for i, address := range addresses {
				is.Equal(content(t, address), "content of "+names[i])
				slug := address[strings.LastIndex(address, "/")+1:]
				var file struct{ Data struct{ OriginalName string } }
				is.NoErr(json.Unmarshal([]byte(p.send(http.MethodGet, "/api/v1/files/"+slug, key, "", http.NoBody)), &file))
				if !strings.ContainsAny(names[i], `\`) { // which begins a name, to the server
					is.Equal(file.Data.OriginalName, names[i])
				}
			}
			is.Equal(d.clipboard(), strings.TrimSuffix(r.out, "\n"))

			r = d.do("kist-upload", "piped\x00\n\n")
			is.Equal(r.code, 0)
			is.Equal(content(t, strings.TrimSpace(r.out)), "piped\x00\n\n")
			is.Equal(d.clipboard()+"\n", r.out)
			r = d.do("kist-upload", "named", "-", `n"a;me.log`)
			is.Equal(r.code, 0)
			is.True(strings.Contains(p.send(http.MethodGet, "/api/v1/files?limit=1", key, "", http.NoBody), `"na;me.log"`))

			for _, option := range []string{"--help", "-h"} {
				r = d.do("kist-upload", "piped", option)
				is.Equal(r.code, 0)
				is.Equal(r.err, "")
				is.True(strings.Contains(r.out, "kist-upload FILE..."))
			}
			is.NoErr(os.WriteFile(d.bin+"/--help", []byte("a file after all"), 0o600))
			r = d.do("kist-upload", "", "--", "--help", "a b.txt")
			is.Equal(r.code, 0)
			is.Equal(len(strings.Fields(r.out)), 2)
			is.Equal(content(t, strings.Fields(r.out)[0]), "a file after all")

			d.setUp(key, "flameshot", "kist-screenshot")
			d.program("flameshot", `printf '\211PNG\r\n\032\n%s' "$*"`)
			r = d.do("kist-screenshot", "")
			is.Equal(r.code, 0)
			is.Equal(content(t, strings.TrimSpace(r.out)), "\x89PNG\r\n\x1a\ngui --raw")
			is.Equal(d.clipboard()+"\n", r.out)
			d.program("flameshot", "echo screenshot aborted; exit 1")
			is.Equal(d.do("kist-screenshot", ""), result{})

			usual := d.path
			d.without("curl")
			is.Equal(d.do("kist-screenshot", ""), result{err: "flameshot is missing. Install it, and try again.\n", code: 1})
			d.without()
			is.Equal(d.do("kist-upload", "", "a b.txt"), result{err: "curl is missing. Install it, and try again.\n", code: 1})
			d.path = usual

			// Nothing is left behind, and a key that holds no more is said to be none.
			left, err := os.ReadDir(d.bin)
			is.NoErr(err)
			for _, f := range left {
				is.True(!strings.HasPrefix(f.Name(), "tmp."))
			}
			p.must("tokens", "disable", "--user", "ann")
			r = d.do("kist-upload", "x")
			is.Equal(r.code, 1)
			is.Equal(r.out, "")
			is.True(strings.HasPrefix(r.err, "-: ") && strings.Contains(r.err, "."))
			is.True(!strings.Contains(r.err, secret))
			p.must("tokens", "enable", "--user", "ann")
		})
	}
	s.stop()
}
