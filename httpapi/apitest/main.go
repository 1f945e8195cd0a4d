package apitest

import (
	"flag"
	goruntime "runtime"
	"strconv"
	"testing"

	"kist/kv/kvtest/needs"
)

// Run runs the tests of a package, prints what was left out, and returns the exit status. Call it in TestMain.
func Run(m *testing.M) int {
	flag.Parse()
	raiseParallel()
	code := m.Run()
	needs.Print()
	return code
}

// raiseParallel lets more tests run at once than there are cores, unless the command
// line says how many. Many wait a second for the store to write what it has counted.
func raiseParallel() {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(4*goruntime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
}
