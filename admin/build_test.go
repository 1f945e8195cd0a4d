package admin

import (
	"runtime/debug"
	"testing"

	"github.com/matryer/is"
)

// TestBuild: a release has a name, a checkout a commit, and a copy of the source neither.
func TestBuild(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	checkout := []debug.BuildSetting{
		{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "17f9375b"}, {Key: "vcs.time", Value: "2026-11-27T22:58:44Z"},
	}
	clean := append(checkout, debug.BuildSetting{Key: "vcs.modified", Value: "false"})
	changed := append(checkout[:3:3], debug.BuildSetting{Key: "vcs.modified", Value: "true"})
	named := func(version string, settings []debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Path: "kist", Version: version}, Settings: settings}
	}
	for _, row := range []struct {
		linked string
		info   *debug.BuildInfo
		want   Build
	}{
		{"1.2.3", named("v1.2.3", clean), Build{"1.2.3", "17f9375b", "2026-11-27T22:58:44Z"}},
		{"1.2.3", named("(devel)", nil), Build{"1.2.3", "", ""}},
		{"", named("v1.2.4", clean), Build{"1.2.4", "17f9375b", "2026-11-27T22:58:44Z"}},
		{"", named("(devel)", changed), Build{"dev", "17f9375b+", "2026-11-27T22:58:44Z"}},
		{"", named("", nil), Build{"dev", "", ""}},
		{"", nil, Build{"dev", "", ""}},
	} {
		is.Equal(buildOf(row.linked, row.info), row.want)
	}
}
