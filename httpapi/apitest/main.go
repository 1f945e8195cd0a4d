package apitest

import (
	"flag"
	"testing"

	"kist/kv/kvtest/needs"
)

// Run runs the tests of a package, prints what was left out, and returns the exit status. Call it in TestMain.
func Run(m *testing.M) int {
	flag.Parse()
	needs.RaiseParallel()
	code := m.Run()
	needs.Print()
	return code
}
