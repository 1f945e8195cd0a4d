package httpapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
)

// drag takes the middle of one element with the mouse and drops it on a part of another one, from 0 at its top to 1 at
// its bottom.
func (b *tab) drag(from, to string, part float64) {
	b.Helper()
	place := func(selector string, part float64) (x, y float64) {
		v := b.js(fmt.Sprintf(
			`(() => { const at = document.querySelector(%q).getBoundingClientRect(); return [at.x + at.width / 3, at.y + at.height * %g]; })()`,
			selector, part,
		)).([]any)
		return v[0].(float64), v[1].(float64)
	}
	taken := make(chan *input.DragData, 1)
	chromedp.ListenTarget(b.ctx, func(e any) {
		if e, ok := e.(*input.EventDragIntercepted); ok {
			select {
			case taken <- e.Data:
			default:
			}
		}
	})
	x, y := place(from, 0.5)
	mouse := func(what input.MouseType, y float64) chromedp.Action {
		return input.DispatchMouseEvent(what, x, y).WithButton(input.Left).WithButtons(1).WithClickCount(1)
	}
	b.do(
		input.SetInterceptDrags(true), mouse(input.MousePressed, y), mouse(input.MouseMoved, y+3),
		mouse(input.MouseMoved, y+9),
	)
	select {
	case data := <-taken:
		x, y = place(to, part)
		for _, what := range []input.DispatchDragEventType{input.DragEnter, input.DragOver, input.Drop} {
			b.do(input.DispatchDragEvent(what, x, y, data))
		}
	case <-time.After(patience):
		b.Fatal("nothing is dragged")
	}
	b.do(input.SetInterceptDrags(false), mouse(input.MouseReleased, y))
}

// TestBrowserArrange: the items of a collection are moved with the mouse, by buttons and by keys, one becomes the cover,
// and one is taken out. A change that the server refuses is taken back.
func TestBrowserArrange(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	one, two := b.App.Note("one", ""), b.App.Note("two", "")
	photo := b.Upload(nil, apitest.File("sea.png", "image/png", apitest.Picture(t))).Want(201).Text("id")
	at := "/api/v1/collections/" + b.Collect("all", "", one, two, photo)
	names := map[string]string{one: "one", two: "two", photo: "sea.png"}
	ordered := func(want ...string) {
		b.Helper()
		b.App.Until(at+"/items", func(g *apitest.Answer) bool { return slices.Equal(g.IDs(), want) })
		var shown []string
		for _, id := range want {
			shown = append(shown, names[id])
		}
		b.until(`[...document.querySelectorAll('.arrange .grow')].map((e) => e.textContent).join() === ` + quoted(strings.Join(shown, ",")))
	}
	row := func(id string) string { return fmt.Sprintf(`.arrange [data-id="%s"]`, id) }
	enter := func(label string) { // as a person with a keyboard
		b.Helper()
		b.until(`(() => { const e = document.querySelector('[aria-label=' + ` + quoted(quoted(label)) + ` + ']'); e?.focus(); return e && document.activeElement === e; })()`)
		b.keys(kb.Enter)
	}
	focused := func(label string) {
		b.Helper()
		b.until(`document.activeElement.getAttribute('aria-label') === ` + quoted(label))
	}
	b.open("/collections")
	b.press("More for All of it")
	b.press("Items and order")
	ordered(one, two, photo)

	b.drag(row(photo), row(one), 0.2)
	ordered(photo, one, two)
	b.drag(row(photo), row(two), 0.9)
	ordered(one, two, photo)
	b.drag(row(one), row(one), 0.9) // onto itself
	enter("Move two up")
	ordered(two, one, photo)
	focused("Move two up")
	b.shows("Position 1 of 3")
	down := chromedp.KeyEvent(kb.ArrowDown, chromedp.KeyModifiers(input.ModifierAlt))
	b.do(down, down, down) // once too often
	ordered(one, photo, two)
	focused("Move two up")
	b.do(chromedp.KeyEvent(kb.ArrowUp, chromedp.KeyModifiers(input.ModifierAlt)))
	ordered(one, two, photo)

	b.press("Use sea.png as the cover")
	b.App.Until(at, func(g *apitest.Answer) bool { return g.At("data.cover") == photo })
	b.until(`document.querySelector('.arrange .star').getAttribute('aria-pressed') === 'true'`)
	b.press("Use sea.png as the cover")
	b.App.Until(at, func(g *apitest.Answer) bool { return g.At("data.cover") == nil })
	b.until(`document.querySelector('.arrange .star').getAttribute('aria-pressed') === 'false'`)

	enter("Remove two from the collection")
	ordered(one, photo)
	focused("Remove sea.png from the collection")
	enter("Remove sea.png from the collection")
	ordered(one)
	focused("Remove one from the collection")
	b.press("Close")
	is.Equal(b.Get(at).Want(200).At("data.itemCount"), 1.0)

	b.App.Post(at+"/items", `{"add":["`+two+`"]}`).Want(200)
	b.press("More for All of it")
	b.press("Items and order")
	ordered(one, two)
	b.App.Delete(at).Want(200) // somewhere else
	b.press("Move two up")
	b.until(`[...document.querySelectorAll('.arrange .grow')].map((e) => e.textContent).join() === 'one,two'`)
	b.press("Remove one from the collection")
	b.until(`[...document.querySelectorAll('.arrange .grow')].map((e) => e.textContent).join() === 'one,two'`)
	is.True(b.Sound())
}
