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
	"kist/kv/people"
)

// drag takes the middle of one element with the mouse and drops it on a part of another one, from 0 at its left to 1 at
// its right.
func (b *tab) drag(from, to string, part float64) {
	b.Helper()
	place := func(selector string, part float64) (x, y float64) {
		v := b.js(fmt.Sprintf(
			`(() => { const at = document.querySelector(%q).getBoundingClientRect(); return [at.x + at.width * %g, at.y + at.height / 3]; })()`,
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

// TestBrowserBoard: the items of a collection are moved with the mouse, by buttons and by keys, one becomes the cover,
// one is taken out and another one is added. A change that the server refuses is taken back, and what others change shows.
func TestBrowserBoard(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	one, two, three := b.App.Note("one", ""), b.App.Note("two", ""), b.App.Note("three", "")
	photo := b.Upload(nil, apitest.File("sea.png", "image/png", apitest.Picture(t))).Want(201).Text("id")
	id := b.Collect("all", "", one, two, three)
	at := "/api/v1/collections/" + id
	names := map[string]string{one: "one", two: "two", three: "three"}
	ordered := func(want ...string) {
		b.Helper()
		b.App.Until(at+"/items", func(g *apitest.Answer) bool { return slices.Equal(g.IDs(), want) })
		var shown []string
		for _, id := range want {
			shown = append(shown, names[id])
		}
		b.until(`[...document.querySelectorAll('.place .things .name')].map((e) => e.textContent).join() === ` + quoted(strings.Join(shown, ",")))
	}
	tile := func(id string) string { return fmt.Sprintf(`.place [data-id="%s"]`, id) }
	enter := func(label string) { // as a person with a keyboard
		b.Helper()
		b.until(`(() => { const e = document.querySelector('[aria-label=' + ` + quoted(quoted(label)) + ` + ']'); e?.focus(); return e && document.activeElement === e; })()`)
		b.keys(kb.Enter)
	}
	focused := func(label string) {
		b.Helper()
		b.until(`document.activeElement.getAttribute('aria-label') === ` + quoted(label))
	}
	b.open("/collections/" + id)
	ordered(one, two, three)

	b.drag(tile(three), tile(one), 0.2)
	ordered(three, one, two)
	b.drag(tile(three), tile(two), 0.9)
	ordered(one, two, three)
	b.drag(tile(one), tile(one), 0.9) // onto itself
	b.press("Arrange")
	enter("Move two back")
	ordered(two, one, three)
	focused("Move two back")
	b.shows("Position 1 of 3")
	on := chromedp.KeyEvent(kb.ArrowRight, chromedp.KeyModifiers(input.ModifierAlt))
	b.do(on, on, on) // once too often
	ordered(one, three, two)
	focused("Move two back")
	b.do(chromedp.KeyEvent(kb.ArrowUp, chromedp.KeyModifiers(input.ModifierAlt)))
	ordered(one, two, three)

	enter("Take two out of the collection")
	ordered(one, three)
	focused("Take three out of the collection")
	b.press("Undo")
	ordered(one, two, three)

	b.press("Add")
	b.until(`document.querySelectorAll('.picks input:disabled').length === 3`)
	b.press("sea.png")
	b.press("Add 1 item")
	b.App.Until(at+"/items", func(g *apitest.Answer) bool { return slices.Equal(g.IDs(), []string{one, two, three, photo}) })
	b.until(`document.querySelector('.place .album ` + fmt.Sprintf(`[data-id="%s"]`, photo) + ` img')?.naturalWidth > 0`)
	b.press("Use sea.png as the cover")
	b.App.Until(at, func(g *apitest.Answer) bool { return g.At("data.cover") == photo })
	b.until(`document.querySelector('.place .star').getAttribute('aria-pressed') === 'true' && document.querySelector('.place .cover img') !== null`)
	b.press("Use sea.png as the cover")
	b.App.Until(at, func(g *apitest.Answer) bool { return g.At("data.cover") == nil })
	b.until(`document.querySelector('.place .star').getAttribute('aria-pressed') === 'false'`)

	b.App.Patch("/api/v1/notes/"+one, `{"title":"changed elsewhere"}`).Want(200)
	b.do(chromedp.Evaluate(`document.activeElement.blur(), document.dispatchEvent(new Event('visibilitychange'))`, nil))
	b.shows("changed elsewhere")

	// A person of the house, and the board after the user comes back to it.
	bob := b.App.AddUser("bob", people.Member)
	choose := func(label, value string) {
		b.Helper()
		b.until(fmt.Sprintf(`(() => {
			const e = document.querySelector('.house [aria-label=%q]');
			if (!e) return false;
			e.focus();
			e.value = %q;
			e.dispatchEvent(new Event('change'));
			return true;
		})()`, label, value))
	}
	role := func(want string) {
		b.Helper()
		b.App.Until(at, func(g *apitest.Answer) bool {
			members := g.At("data.members").([]any)
			return len(members) == 1 && members[0].(map[string]any)["role"] == want
		})
	}
	b.press("Share")
	choose("Share with a person …", bob.ID.String())
	role("see")
	choose("What bob may do", "edit")
	role("edit")
	focused("What bob may do")
	b.press("Close")
	b.press("Home")
	b.until(`document.querySelector('h2') !== null && !document.querySelector('.place')`)
	b.do(chromedp.NavigateBack())
	b.shows("changed elsewhere")
	b.App.Patch("/api/v1/notes/"+one, `{"title":"changed again"}`).Want(200)
	b.until(`(document.dispatchEvent(new Event('visibilitychange')), document.querySelector('.place')?.textContent.includes('changed again') === true)`)
	is.True(b.Sound())

	b.App.Delete(at).Want(200) // somewhere else
	b.press("Take three out of the collection")
	b.until(`document.querySelector('.toast.bad') !== null`)
}

// TestBrowserLive: a list shows what was added, changed and deleted elsewhere when the user comes back to the window.
func TestBrowserLive(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	one, two := b.App.Note("one", ""), b.App.Note("two", "")
	b.open("/notes")
	names := func(want string) {
		b.Helper()
		b.until(`[...document.querySelectorAll('#main .item .name')].map((e) => e.textContent).join() === ` + quoted(want))
	}
	names("two,one")
	b.until(`(window.dispatchEvent(new Event('focus')), true)`) // nothing has changed
	b.App.Note("three", "")
	b.App.Patch("/api/v1/notes/"+one, `{"title":"first"}`).Want(200)
	b.App.Delete("/api/v1/notes/" + two).Want(200)
	b.until(`(window.dispatchEvent(new Event('focus')), [...document.querySelectorAll('#main .item .name')].map((e) => e.textContent).join() === 'three,first')`)
	is.True(b.Sound())
}
