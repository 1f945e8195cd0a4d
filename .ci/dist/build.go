package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// target is what a program is compiled for. Its name is the one in the names of files.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

// all are the targets of a release.
var all = []target{
	{"linux", "amd64"},
	{"linux", "arm64"},
	{"linux", "armv7"},
	{"linux", "riscv64"},
	{"darwin", "amd64"},
	{"darwin", "arm64"},
	{"windows", "amd64"},
	{"freebsd", "amd64"},
}

// choose reads a list of targets; "" is all.
func choose(only string) ([]target, error) {
	if only == "" {
		return all, nil
	}
	var chosen []target
	for _, name := range strings.Split(only, ",") {
		i := slices.IndexFunc(all, func(t target) bool { return t.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("%q is not among the targets %v", name, all)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// environment is for go build. It names everything that changes the bytes of a program.
func (t target) environment() []string {
	arch := t.arch
	if arch == "armv7" {
		arch = "arm"
	}
	return []string{
		"GOOS=" + t.os, "GOARCH=" + arch, "GOARM=7", "GOAMD64=v1", "GOARM64=v8.0", "GORISCV64=rva20u64",
		"CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off",
	}
}

// build compiles the program. Go reads commit and date from the clone.
func (r *release) build(t target, to string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=true",
		"-ldflags", "-s -w -X main.version="+r.version, "-o", to, ".")
	cmd.Dir = r.source
	cmd.Env = append(os.Environ(), t.environment()...)
	_, err := output(cmd)
	return err
}

func (r *release) compile() error {
	r.programs = map[target]string{}
	for _, t := range r.targets {
		fmt.Println("program for", t)
		to := filepath.Join(r.scratch, "programs", t.os+"-"+t.arch, "kist")
		err := r.build(t, to)
		if err != nil {
			return err
		}
		r.programs[t] = to
	}
	return nil
}

// print collects what the program itself makes: the manual page, the completions, the unit and the extension. It is
// run here, so it may have to be compiled for this machine too.
func (r *release) print() error {
	here := target{runtime.GOOS, runtime.GOARCH}
	kist, there := r.programs[here]
	if !there {
		kist = filepath.Join(r.scratch, "kist")
		err := r.build(here, kist)
		if err != nil {
			return err
		}
	}

	r.printed = map[string][]byte{}
	for name, words := range map[string]string{
		"kist.1":       "man",
		"kist.bash":    "completion bash",
		"_kist":        "completion zsh",
		"kist.fish":    "completion fish",
		"kist.service": "install systemd",
		"extension":    "extension " + filepath.Join(r.scratch, "extension"),
	} {
		cmd := exec.Command(kist, strings.Fields(words)...)
		cmd.Dir = r.scratch
		cmd.Env = []string{} // variables that begin with KIST_ are its flags
		text, err := output(cmd)
		if err != nil {
			return err
		}
		r.printed[name] = []byte(text)
	}
	return nil
}
