package limit

import (
	"testing"

	"github.com/matryer/is"
)

// One has its part, and all together have theirs. What is given back is there for others.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := AtOnce[string]{All: 10, Each: 6}
	for _, row := range []struct {
		key  string
		n    int // given back if it is negative
		want error
	}{
		{"a", 7, ErrEach},
		{"a", 6, nil},
		{"a", 1, ErrEach},
		{"b", 5, ErrAll},
		{"b", 4, nil},
		{"a", -2, nil},
		{"c", 3, ErrAll},
		{"c", 2, nil},
		{"a", -4, nil},
		{"b", -4, nil},
		{"c", -2, nil},
	} {
		if row.n < 0 {
			a.Give(row.key, -row.n)
			continue
		}
		is.Equal(a.Take(row.key, row.n), row.want)
	}
	is.Equal(a.n, 0)
	is.Equal(len(a.of), 0)
}
