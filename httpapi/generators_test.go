package httpapi_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/kvtest/needs"
)

// The programs that the document is tried with. They are fetched when a test
// asks for them.
const (
	npmLinters    = "@redocly/cli@2.77.0 @stoplight/spectral-cli@6.16.3"
	npmGenerators = "openapi-typescript@7.13.0 openapi-fetch@0.17.0 @hey-api/openapi-ts@0.95.0 orval@7.13.2 " +
		"typescript@5.9.3"
	oapiCodegen = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
	oapiRuntime = "github.com/oapi-codegen/runtime@v1.8.0"
)

// fetches ends a test that fetches programs, from npm or the Go module proxy, unless
// all tools are required: other runs need no network.
func fetches(t *testing.T, what string) {
	t.Helper()
	needs.Time(t)
	if !needs.ToolsRequired() {
		needs.LeaveOut(t, what, "fetched only with "+needs.Tools+"=required")
	}
}

// workshop is a directory in which programs run.
type workshop struct {
	*testing.T
	dir string
	env []string
}

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	return &workshop{T: t, dir: t.TempDir()}
}

// run runs a program to its end, which must be a good one.
func (w *workshop) run(name string, args ...string) {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), name, args...)
	cmd.Dir = w.dir
	cmd.Env = append(append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "NO_COLOR=1"), w.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// npm fetches packages.
func (w *workshop) npm(packages string) {
	w.Helper()
	w.write("package.json", []byte(`{"private":true,"type":"module"}`))
	w.run("npm", append([]string{
		"install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline",
	}, strings.Fields(packages)...)...)
}

// tool runs a program of a package that npm has fetched.
func (w *workshop) tool(name string, args ...string) {
	w.Helper()
	w.run(filepath.Join(w.dir, "node_modules", ".bin", name), args...)
}

func (w *workshop) write(name string, text []byte) {
	w.Helper()
	path := filepath.Join(w.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o644)); err != nil {
		w.Fatal(err)
	}
}

// copies copies the files of a directory of testdata.
func (w *workshop) copies(from string) {
	w.Helper()
	if err := os.CopyFS(w.dir, os.DirFS(filepath.Join("testdata", "clients", from))); err != nil {
		w.Fatal(err)
	}
}

// TestLinters: the linters that strangers use find no error in the document that
// is served.
func TestLinters(t *testing.T) {
	fetches(t, "the linters redocly and spectral")
	t.Parallel()
	a := apitest.Start(t, apitest.AtHome)
	w := newWorkshop(t)
	w.write("openapi.json", a.Get("/api/v1/openapi").Want(200).Body)
	w.write(".spectral.yaml", []byte("extends: [\"spectral:oas\"]\n"))
	w.npm(npmLinters)
	t.Run("redocly", func(t *testing.T) {
		(&workshop{t, w.dir, nil}).tool("redocly", "lint", "openapi.json", "--extends=recommended")
	})
	t.Run("spectral", func(t *testing.T) {
		(&workshop{t, w.dir, nil}).tool("spectral", "lint", "openapi.json", "--fail-severity=error")
	})
}

// TestTypeScriptClient: what three generators make from the document compiles under the strictest
// rules, and a program with each works. The one with openapi-fetch uses every kind.
func TestTypeScriptClient(t *testing.T) {
	fetches(t, "a client in TypeScript")
	t.Parallel()
	a := apitest.Start(t, apitest.AtHome)
	w := newWorkshop(t)
	w.env = []string{"KIST_URL=" + a.URL, "KIST_KEY=" + a.Key}
	w.write("openapi.json", a.Get("/api/v1/openapi").Want(200).Body)
	w.npm(npmGenerators)
	w.copies("ts")
	w.tool("openapi-typescript", "openapi.json", "-o", "schema.d.ts")
	w.tool("openapi-ts", "-i", "openapi.json", "-o", "hey-api", "-c", "@hey-api/client-fetch")
	w.tool("orval", "--input", "./openapi.json", "--output", "./orval/kist.ts", "--client", "fetch")
	w.tool("tsc", "-p", ".")
	for _, program := range []string{"drive.js", "hey-api.js", "orval.js"} {
		w.run("node", program)
	}
}

// TestGoClient: a client that is generated from the document compiles, and uses
// every kind.
func TestGoClient(t *testing.T) {
	fetches(t, "a client in Go")
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.AtHome)
	w := newWorkshop(t)
	w.env = []string{"KIST_URL=" + a.URL, "KIST_KEY=" + a.Key}
	w.write("openapi.json", a.Get("/api/v1/openapi").Want(200).Body)
	w.copies("go")
	is.NoErr(os.Mkdir(filepath.Join(w.dir, "kist"), 0o755))
	w.run("go", "mod", "init", "drive")
	w.run(
		"go", "run", oapiCodegen, "-generate", "types,client", "-package", "kist", "-o", "kist/kist.gen.go", "openapi.json",
	)
	w.run("go", "get", oapiRuntime)
	w.run("go", "mod", "tidy")
	w.run("go", "build", "-o", "drive", ".")
	w.run(filepath.Join(w.dir, "drive"))
}
