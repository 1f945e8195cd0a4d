package httpapi_test

import (
	"testing"

	"github.com/matryer/is"
)

// TestBrowserPeople: a user hides with a switch, and an administrator closes the list.
func TestBrowserPeople(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	const find = `[...document.querySelectorAll('label.check')].find((e) => e.textContent === 'Others on this server can find me')`
	b.open("/account")
	b.until(find + `?.querySelector('[role=switch]').checked`)
	b.js(find + `.click()`)
	b.says("Saved")
	is.Equal(b.Get("/api/v1/me").At("data.hidden"), true)
	b.open("/account")
	b.until(find + `?.querySelector('[role=switch]').checked === false`)
	b.js(find + `.click()`)
	b.says("Saved")
	is.Equal(b.Get("/api/v1/me").At("data.hidden"), false)

	b.open("/admin")
	b.until(`!!document.querySelector('[name=listPeople]')`)
	b.js(`(() => {
		const box = document.querySelector('[name=listPeople]');
		box.click();
		box.form.requestSubmit();
	})()`)
	b.says("Saved")
	is.Equal(b.Get("/api/v1/admin/settings").At("data.listPeople"), false)
}
