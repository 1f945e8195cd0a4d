package admin

import (
	"runtime"
	"runtime/debug"
	"strings"

	"kist/kv/workcopy"
)

// A Build says what a program was made from. Commit and Date are "" if the source was no checkout.
type Build struct {
	Version string // such as 1.2.3; "dev" if nobody has named one
	Commit  string // the commit in hexadecimal, with a + if files had been changed since
	Date    string // of the commit, by RFC 3339
}

// BuildOf is what the running program was made from. linked is the version that was set when it was linked, or "".
func BuildOf(linked string) Build {
	info, _ := debug.ReadBuildInfo() // nil in a program that was built without modules
	return buildOf(linked, info)
}

func buildOf(linked string, info *debug.BuildInfo) Build {
	b := Build{Version: "dev"}
	if info == nil {
		info = &debug.BuildInfo{}
	}
	if named := strings.TrimPrefix(info.Main.Version, "v"); named != "" && named != "(devel)" {
		b.Version = named
	}
	if linked != "" {
		b.Version = linked
	}

	changed := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Commit = s.Value
		case s.Key == "vcs.time":
			b.Date = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+"
		}
	}
	if b.Commit != "" {
		b.Commit += changed
	}
	return b
}

type versionCommand struct{}

func (versionCommand) Run(c *Call) error {
	v := struct {
		Version string `json:"version"`
		Commit  string `json:"commit,omitempty"`
		Date    string `json:"date,omitempty"`
		Format  int    `json:"dataFormat"`
		Go      string `json:"go"`
	}{c.Build.Version, c.Build.Commit, c.Build.Date, workcopy.Format, runtime.Version()}
	if v.Commit == "" {
		return c.say(v, "kist %s, data format %d, %s", v.Version, v.Format, v.Go)
	}
	return c.say(v, "kist %s, commit %s of %s, data format %d, %s", v.Version, v.Commit, v.Date, v.Format, v.Go)
}
