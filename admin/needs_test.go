package admin_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// needTools is the variable that makes a test fail if a program that it needs is
// missing, if its value is "required".
const needTools = "KIST_TEST_TOOLS"

func toolsRequired() bool { return os.Getenv(needTools) == "required" }

// leftOut is what this machine could not test, and why, without duplicates.
var leftOut struct {
	sync.Mutex
	lines []string
}

func noteLeftOut(what, why string) {
	leftOut.Lock()
	defer leftOut.Unlock()
	if line := what + " (" + why + ")"; !slices.Contains(leftOut.lines, line) {
		leftOut.lines = append(leftOut.lines, line)
	}
}

// printLeftOut prints one line with everything that was not tested.
func printLeftOut() {
	leftOut.Lock()
	defer leftOut.Unlock()
	if len(leftOut.lines) > 0 {
		slices.Sort(leftOut.lines)
		fmt.Println("left out: " + strings.Join(leftOut.lines, ", "))
	}
}

// leaveOut ends a test that cannot run here.
func leaveOut(t testing.TB, what, why string) {
	t.Helper()
	noteLeftOut(what, why)
	t.Skipf("left out: %s (%s)", what, why)
}

// lacks ends a test for which a tool is missing. The test fails if all tools are
// required.
func lacks(t testing.TB, what, why string) {
	t.Helper()
	if toolsRequired() {
		t.Fatalf("cannot test %s (%s), and %s=required", what, why, needTools)
	}
	leaveOut(t, what, why)
}

// needs ends a test if one of the programs that it needs is missing.
func needs(t testing.TB, what string, programs ...string) {
	t.Helper()
	if why := missing(programs...); why != "" {
		lacks(t, what, why)
	}
}

// missing names the programs that are not on the PATH; "" if all of them are.
func missing(programs ...string) string {
	var all []string
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			all = append(all, "no "+program)
		}
	}
	return strings.Join(all, ", ")
}
