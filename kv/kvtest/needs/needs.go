// Package needs leaves out tests for which a machine or a run has not enough, and
// says which, so that nobody takes them for passed.
//
// A test needs a program, which is not on every machine, or time: floods, kills,
// browsers and long scripts run only on request. TestMain of a package with such
// tests calls Run.
package needs

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Tools is the variable that makes a test fail if a program that it needs is
// missing, if its value is "required".
const Tools = "KIST_TEST_TOOLS"

// Tests is the variable with which tests that take long run too, if its value is
// "all".
const Tests = "KIST_TESTS"

// ToolsRequired reports whether a missing program is a failure.
func ToolsRequired() bool { return os.Getenv(Tools) == "required" }

// left is what this run could not test, and why, without duplicates.
var left struct {
	sync.Mutex
	lines []string
	long  int
}

// Note adds to what is left out. Part of a test may be.
func Note(what, why string) {
	left.Lock()
	defer left.Unlock()
	if line := what + " (" + why + ")"; !slices.Contains(left.lines, line) {
		left.lines = append(left.lines, line)
	}
}

// Run runs the tests of a package, prints what was left out, and ends the process.
func Run(m *testing.M) {
	code := m.Run()
	Print()
	os.Exit(code)
}

// Print prints one line with everything that was not tested, or nothing.
func Print() {
	left.Lock()
	defer left.Unlock()
	lines := slices.Sorted(slices.Values(left.lines))
	if left.long > 0 {
		lines = append(lines, fmt.Sprintf("%d tests that take long (no %s=all)", left.long, Tests))
	}
	if len(lines) > 0 {
		fmt.Println("left out: " + strings.Join(lines, ", "))
	}
}

// LeaveOut ends a test that cannot run here.
func LeaveOut(t testing.TB, what, why string) {
	t.Helper()
	Note(what, why)
	t.Skipf("left out: %s (%s)", what, why)
}

// Lacks ends a test for which a tool is missing. The test fails if all tools are
// required.
func Lacks(t testing.TB, what, why string) {
	t.Helper()
	if ToolsRequired() {
		t.Fatalf("cannot test %s (%s), and %s=required", what, why, Tools)
	}
	LeaveOut(t, what, why)
}

// Programs ends a test if one of the programs that it needs is missing.
func Programs(t testing.TB, what string, programs ...string) {
	t.Helper()
	if why := Missing(programs...); why != "" {
		Lacks(t, what, why)
	}
}

// Missing names the programs that are not on the PATH; "" if all of them are.
func Missing(programs ...string) string {
	var all []string
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			all = append(all, "no "+program)
		}
	}
	return strings.Join(all, ", ")
}

// Alone marks a test that must not run beside others: it measures time or memory,
// changes what the whole process has, or runs a program that it has just written,
// which a process that another test starts may still hold open. Tests that are not
// parallel run one at a time, before the parallel ones go on. Setting a variable
// makes package testing refuse t.Parallel in this test.
func Alone(t *testing.T) {
	t.Helper()
	t.Setenv("KIST_TEST_ALONE", "yes")
}

// Time ends a test that takes long, unless all tests are to run. It is the first
// line of tests that flood, kill, cut the power, drive a browser, or run the program
// for many seconds.
func Time(t testing.TB) {
	t.Helper()
	if os.Getenv(Tests) == "all" {
		return
	}
	left.Lock()
	left.long++
	left.Unlock()
	t.Skipf("left out: it takes long (no %s=all)", Tests)
}

// RaiseParallel lets more tests run at once than there are cores, unless the command line says how many. It is for
// packages whose tests wait for a disk, a timer or another program. It comes after flag.Parse.
func RaiseParallel() {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
}
