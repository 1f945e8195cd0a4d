package admin_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// TestBashCompletes: bash splits words in its own way.
func TestBashCompletes(t *testing.T) {
	t.Parallel()
	needs.Programs(t, "completion in bash", "bash", "cut")
	const script = `PATH=$1:$PATH; shift; source <(kist completion bash)
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kist; printf '%s ' "${COMPREPLY[@]}"`
	for _, row := range []struct {
		words []string
		want  string
	}{
		{[]string{"kist", "user", "re"}, "remove reset-login "},
		{[]string{"kist", "user", "passwd", "ann", "--rev"}, "--revoke "},
		{[]string{"kist", "user", "passwd", "ann", "--revoke", ""}, "devices all none "},
		{[]string{"kist", "user", "passwd", "ann", "--revoke", "="}, "devices all none "},
		{[]string{"kist", "user", "passwd", "ann", "--revoke", "=", "a"}, "all "},
		{[]string{"kist", "--log-format", "=", "json", "key", "cr"}, "create "},
		{[]string{"kist", "backup", ""}, " "},
	} {
		is := is.New(t)
		args := append([]string{"-c", script, "bash", filepath.Dir(binary)}, row.words...)
		out, err := exec.Command("bash", args...).Output()
		is.NoErr(err)
		is.Equal(string(out), row.want)
	}
}
