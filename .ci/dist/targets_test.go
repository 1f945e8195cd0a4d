package main

import (
	"os"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestTargets: the program is right Go for each target. Its packages are checked from their sources. Compiling all they
// import takes a minute for each.
func TestTargets(t *testing.T) {
	for _, target := range all[1:] { // the first is made
		loaded, err := packages.Load(&packages.Config{
			Mode: packages.LoadAllSyntax, Dir: "../..", Env: append(os.Environ(), target.environment()...),
		}, "./...")
		if err != nil {
			t.Fatal(err)
		}
		if len(loaded) < 50 {
			t.Errorf("%s: %d packages", target, len(loaded))
		}
		packages.Visit(loaded, nil, func(p *packages.Package) {
			for _, err := range p.Errors {
				t.Errorf("%s: %v", target, err)
			}
		})
	}
}
