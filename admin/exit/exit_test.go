package exit_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/matryer/is"

	"kist/admin/exit"
)

func TestCode(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		err  error
		want int
	}{
		"done":        {nil, 0},
		"failed":      {errors.New("no space"), 1},
		"misused":     {exit.Misused("--expires must be a time"), 2},
		"help shown":  {exit.Misused(""), 2},
		"absent":      {exit.Absent("backup at", "/x"), 3},
		"found":       {exit.Found("2 problems were found"), 4},
		"wrapped":     {fmt.Errorf("nothing was restored: %w", exit.Absent("backup at", "/x")), 3},
		"joined":      {errors.Join(exit.Found("1 problem was found"), errors.New("no space")), 4},
		"two of them": {errors.Join(exit.Absent("backup at", "/x"), exit.Misused("--user is missing")), 2},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			is.Equal(exit.Code(row.err), row.want)
		})
	}
}
