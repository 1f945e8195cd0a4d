package embed

import (
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"
)

func TestCommonPassword(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	all := strings.Split(strings.TrimSuffix(passwords(), "\n"), "\n")
	is.Equal(len(all), 10_000)
	is.True(len(passwords()) < 100_000)
	is.True(slices.IsSorted(all))
	for _, one := range all {
		is.True(len(one) >= 8 && one == strings.ToLower(one))
	}
	for _, one := range []string{
		all[0], all[9999], "password", "12345678", "iloveyou", "trustno1", "letmein123", "p@ssw0rd2024", "!!password",
		"dragon99!",
	} {
		if !CommonPassword(one) {
			t.Errorf("%q is common", one)
		}
	}
	for _, one := range []string{
		"", "\n", "password\n", "password by the lake", "password-4711-0815", "password\n12345678", "correct horse", "123456",
	} {
		is.True(!CommonPassword(one))
	}
}
