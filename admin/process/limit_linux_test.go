package process

import (
	"io/fs"
	"testing"

	"github.com/matryer/is"
)

func TestGroupLimit(t *testing.T) {
	t.Parallel()
	const v1 = "30 25 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
	const v2 = "30 25 0:26 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
	const none = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
	for name, test := range map[string]struct {
		groups, mounts string
		files          map[string]string
		want           int64 // 0 for no limit
	}{
		"no cgroups": {"", none, nil, 0},
		"version 1": {"5:cpu:/x\n4:memory:/a/b\n", none + v1, map[string]string{
			"/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "9223372036854771712\n",
			"/sys/fs/cgroup/memory/a/memory.limit_in_bytes":   "1000000\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712\n",
		}, 1_000_000},
		"version 2": {"0::/system.slice/kist.service\n", none + v2, map[string]string{
			"/sys/fs/cgroup/system.slice/kist.service/memory.max": "2000000\n",
			"/sys/fs/cgroup/system.slice/memory.max":              "max\n",
		}, 2_000_000},
		"version 2, none": {"0::/a\n", v2, map[string]string{"/sys/fs/cgroup/a/memory.max": "max\n"}, 0},
		"a container that sees the path of the host": {
			"4:memory:/docker/abc\n", v1,
			map[string]string{"/sys/fs/cgroup/memory/memory.limit_in_bytes": "3000000\n"},
			3_000_000,
		},
		"a mount of a part": {
			"4:memory:/docker/abc/x\n", "30 25 0:26 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
			map[string]string{"/sys/fs/cgroup/memory/x/memory.limit_in_bytes": "4000000\n"},
			4_000_000,
		},
		"both": {
			"4:memory:/a\n0::/b\n", v1 + "31 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			map[string]string{"/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "5000000\n"},
			5_000_000,
		},
		"nonsense": {
			"::\n\n4:memory\n", "x\n - \n1 2 3 4 5 - cgroup2\n" + v2, map[string]string{"/sys/fs/cgroup/memory.max": "-7\n"}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			got, ok := groupLimit(test.groups, test.mounts, func(path string) ([]byte, error) {
				if text, ok := test.files[path]; ok {
					return []byte(text), nil
				}
				return nil, fs.ErrNotExist
			})
			is.Equal(ok && got < 1<<60, test.want > 0)
			if test.want > 0 {
				is.Equal(got, test.want)
			}
		})
	}
}
