package grant_test

import (
	"net/netip"
	"strconv"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/grant"
)

// TestResumes: a grant is found for the same item, network and program, and the oldest are forgotten.
func TestResumes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var s grant.Resumes
	ann, bob := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	is.Equal(s.Of("a", ann, "wget"), "")
	s.Keep("a", ann, "wget", "first")
	s.Keep("a", ann, "wget", "second")
	is.Equal(s.Of("a", ann, "wget"), "second")
	is.Equal(s.Of("b", ann, "wget"), "")
	is.Equal(s.Of("a", bob, "wget"), "")
	is.Equal(s.Of("a", ann, "curl"), "")

	home := netip.MustParseAddr("2001:db8:1:2::3") // a household has a /64
	s.Keep("a", home, "wget", "home")
	is.Equal(s.Of("a", netip.MustParseAddr("2001:db8:1:2:9::9"), "wget"), "home")
	is.Equal(s.Of("a", netip.MustParseAddr("2001:db8:1:3::3"), "wget"), "")

	s.Keep("a", netip.Addr{}, "wget", "nobody's")
	is.Equal(s.Of("a", netip.Addr{}, "wget"), "")

	for round := range 2 {
		for i := range grant.MaxResumes {
			s.Keep(strconv.Itoa(i), ann, "wget", strconv.Itoa(round))
		}
	}
	is.Equal(s.Of("a", ann, "wget"), "")
	is.Equal(s.Of("0", ann, "wget"), "1")
	is.Equal(s.Of(strconv.Itoa(grant.MaxResumes-1), ann, "wget"), "1")
	s.Keep("z", ann, "wget", "new")
	is.Equal(s.Of("0", ann, "wget"), "") // the oldest
	is.Equal(s.Of("1", ann, "wget"), "1")
	is.Equal(s.Of("z", ann, "wget"), "new")
}
