package process

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memory returns how many bytes this process may use: the smallest limit of its
// memory cgroup and the cgroups around it, or the memory of the machine. ok is
// false if neither is known.
func memory() (bytes int64, limited, ok bool) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	mounts, err2 := os.ReadFile("/proc/self/mountinfo")
	if err == nil && err2 == nil {
		bytes, limited = groupLimit(string(groups), string(mounts), os.ReadFile)
	}
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) != nil {
		return bytes, limited, limited
	}
	total := int64(uint64(s.Totalram) * uint64(s.Unit)) //nolint:unconvert // its type differs between systems
	if !limited || total <= bytes {
		return total, false, true
	}
	return bytes, true, true
}

// groupLimit reads the limit of a memory cgroup, given the text of
// /proc/self/cgroup and /proc/self/mountinfo; see cgroups(7). A container may see
// its own group as the root of the mount while the path is the host's, so the
// root is always read.
func groupLimit(groups, mounts string, read func(string) ([]byte, error)) (bytes int64, ok bool) {
	for line := range strings.Lines(mounts) {
		before, after, cut := strings.Cut(strings.TrimSpace(line), " - ")
		at, kind := strings.Fields(before), strings.Fields(after)
		if !cut || len(at) < 5 || len(kind) < 3 {
			continue
		}
		controller, file := "", "memory.max"
		switch {
		case kind[0] == "cgroup2":
		case kind[0] == "cgroup" && slices.Contains(strings.Split(kind[2], ","), "memory"):
			controller, file = "memory", "memory.limit_in_bytes"
		default:
			continue
		}
		root, mount := at[3], at[4]
		for path := groupPath(groups, controller, root); ; path = filepath.Dir(path) {
			n, limited := readLimit(read, filepath.Join(mount, path, file))
			if limited && (!ok || n < bytes) {
				bytes, ok = n, true
			}
			if path == "/" {
				break
			}
		}
	}
	return bytes, ok
}

// readLimit reads the limit in a file of a group. "max", or a number beyond any memory, means no limit.
func readLimit(read func(string) ([]byte, error), path string) (bytes int64, ok bool) {
	text, err := read(path)
	if err != nil {
		return 0, false
	}
	bytes, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return bytes, err == nil && bytes > 0
}

// groupPath returns the path of this process's group below a mount of root.
func groupPath(groups, controller, root string) string {
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), controller) {
			path := parts[2]
			if root != "/" {
				path = strings.TrimPrefix(path, root)
			}
			return filepath.Join("/", path)
		}
	}
	return "/"
}
