package web

import (
	"fmt"
	"html/template"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"kist/embed"
)

// A text is rendered once, two are rendered at a time, and what is kept is
// bounded in bytes and in time.
func TestRenders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		r := NewRenders()
		var running, most, made atomic.Int32
		one := func(i int, size int, takes time.Duration) (embed.CodeView, error) {
			return r.get(keyOf(fmt.Sprint(i)), func() (embed.CodeView, error) {
				made.Add(1)
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(takes) // on the clock of the test
				running.Add(-1)
				return embed.CodeView{Body: template.HTML(strings.Repeat("x", size))}, nil
			})
		}
		errs := make(chan error)
		for i := range 8 {
			go func() { _, err := one(i%4, 10, time.Second/2); errs <- err }()
		}
		for range 8 {
			is.NoErr(<-errs)
		}
		is.Equal(most.Load(), int32(rendersAtOnce))
		is.True(made.Load() <= 8)
		before := made.Load()
		for i := range 4 {
			v, err := one(i, 10, 0)
			is.NoErr(err)
			is.Equal(string(v.Body), "xxxxxxxxxx")
		}
		is.Equal(made.Load(), before) // all are kept
		time.Sleep(rendersKept)
		_, err := one(0, 10, 0)
		is.NoErr(err)
		is.Equal(made.Load(), before+1) // it was too old

		for i := range 2 { // which take all turns for long
			go func() { _, err := one(100+i, 10, time.Minute); errs <- err }()
		}
		synctest.Wait()
		_, err = one(200, 10, 0)
		is.Equal(err, errBusy)
		_, err = one(0, 10, 0) // what is kept needs no turn
		is.NoErr(err)
		is.NoErr(<-errs)
		is.NoErr(<-errs)

		for i := range 40 {
			_, err := one(1000+i, 1<<20, 0)
			is.NoErr(err)
			is.True(r.bytes <= rendersBytes)
		}
		is.Equal(len(r.kept), r.used.Len())
		is.True(len(r.kept) >= 15 && len(r.kept) <= 16)
		before = made.Load()
		for range 2 { // too long to be kept
			_, err := one(2000, rendersLong+1, 0)
			is.NoErr(err)
		}
		is.Equal(made.Load(), before+2)
	})
}

// Parts that run into each other are other texts.
func TestRenderKeys(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	r := NewRenders()
	first, err := r.Code("b", "a", "")
	is.NoErr(err)
	second, err := r.Code("", "a", "b")
	is.NoErr(err)
	is.True(first.Body != second.Body)
	note, err := r.Markdown("*b*")
	is.NoErr(err)
	is.True(strings.Contains(string(note), "<em>b</em>"))
	code, err := r.Code("*b*", "", "")
	is.NoErr(err)
	is.True(!strings.Contains(string(code.Body), "<em>"))
	nothing, err := r.Markdown(" \n")
	is.NoErr(err)
	is.Equal(string(nothing), "")
}
