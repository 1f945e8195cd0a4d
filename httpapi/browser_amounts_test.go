package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// TestBrowserAmounts scales the lines of ingredients. A line whose amount is not certain stays as it is.
func TestBrowserAmounts(t *testing.T) {
	b := openBrowser(t)
	slug := b.Post(
		"/api/v1/recipes", map[string]any{"title": "x", "ingredients": "- 1 x", "isPublic": true},
	).Want(201).Text("data.slug")
	b.open("/v/" + slug)
	const unclear = "unclear"
	lines := []struct {
		line  string
		times float64
		want  string
	}{
		{"3/4 l", 2, "1½ l"},
		{"1½ tbsp sugar", 2, "3 tbsp sugar"},
		{"1 1/2 cups", 2, "3 cups"},
		{"2–3 apples", 3, "6–9 apples"},
		{"ca. 200 g", 0.5, "ca. 100 g"},
		{"125 ml", 3, "375 ml"},
		{"250 g", 1, "250 g"},
		{"salt to taste", 2, "salt to taste"},
		{"", 2, ""},
		{"250 g flour", 2, "500 g flour"},
		{"250g flour", 2, "500g flour"},
		{"1,000 g flour", 2, "2,000 g flour"},
		{"1,000 g", 0.5, "500 g"},
		{"10,000 ml water", 2, "20,000 ml water"},
		{"1.000 g Mehl", 2, "2.000 g Mehl"},
		{"1 000 g", 2, "2 000 g"},
		{"1'500 g", 2, "3'000 g"},
		{"1.250 kg", 2, "2.500 kg"},
		{"1.250 kg", 0.5, unclear},
		{"0.125 l", 2, "¼ l"},
		{"1,125 l", 2, "2,250 l"},
		{"2-1/2 cups", 2, "5 cups"},
		{"1-1/2 cups", 2, "3 cups"},
		{"1 and 1/2 cups", 2, "3 cups"},
		{"1&1/2 cups", 2, "3 cups"},
		{"1 1⁄2 cups", 2, "3 cups"},
		{"1⁄2 cup", 2, "1 cup"},
		{".5 cup", 2, "1 cup"},
		{"1 to 2 cups", 3, "3 to 6 cups"},
		{"1/2 to 1 cup", 3, "1½ to 3 cup"},
		{"2 bis 3 Eier", 3, "6 bis 9 Eier"},
		{"1 or 2 onions", 3, "3 or 6 onions"},
		{"2—3 eggs", 3, "6—9 eggs"},
		{"2 à 3 oeufs", 2, "4 à 6 oeufs"},
		{"⅜ cup", 2, "¾ cup"},
		{"⅕ l", 2, "⅖ l"},
		{"⅞ cup", 2, "1¾ cup"},
		{"1/8 tsp", 2, "¼ tsp"},
		{"3/4 cup", 2, "1½ cup"},
		{"1½ cups", 2, "3 cups"},
		{"½–1 tsp", 2, "1–2 tsp"},
		{"1-2.5 l", 2, "2-5 l"},
		{"4 - 5 eggs", 2, "8 - 10 eggs"},
		{"1,5 kg", 2, "3 kg"},
		{"1,2 kg", 2, "2,4 kg"},
		{"ca. 500 g", 2, "ca. 1000 g"},
		{"70% chocolate", 2, unclear},
		{"28-oz can", 2, unclear},
		{"200 °C", 2, unclear},
		{"1 400g can", 2, unclear},
		{"1 28-oz can", 2, unclear},
		{"2 x 400 g cans", 2, "4 x 400 g cans"},
		{"2x400g cans", 2, "4x400g cans"},
		{"20 x 30 cm pan", 2, unclear},
		{"1 (400 g) can", 2, "2 (400 g) can"},
		{"1 (14.5-oz) can tomatoes", 2, "2 (14.5-oz) can tomatoes"},
		{"2 cans (400 g each)", 2, "4 cans (400 g each)"},
		{"2 Dosen à 400 g", 2, "4 Dosen à 400 g"},
		{"2 cans (400 g)", 2, unclear},
		{"2 cups (500 ml) milk", 2, "4 cups (1000 ml) milk"},
		{"8 oz/225 g butter", 2, "16 oz/450 g butter"},
		{"1 cup/240 ml/8 oz milk", 2, "2 cup/480 ml/16 oz milk"},
		{"1 cup (about 1½ oz) x", 2, "2 cup (about 3 oz) x"},
		{"2 cups (500–600 ml)", 2, "4 cups (1000–1200 ml)"},
		{"1 cup plus 2 tbsp sugar", 2, unclear},
		{"1 lb 4 oz beef", 2, unclear},
		{"1 Ei und 2 Eigelb", 2, unclear},
		{"1 cup to 2 cups", 2, unclear},
		{"250 g bis 300 g", 2, unclear},
		{"200 g Mehl (Type 405)", 2, "400 g Mehl (Type 405)"},
		{"500 ml Milch (3,5 %)", 2, "1000 ml Milch (3,5 %)"},
		{"250 g butter, cut into 2 cm cubes", 2, "500 g butter, cut into 2 cm cubes"},
		{"100 g chocolate, 70% cocoa", 2, "200 g chocolate, 70% cocoa"},
		{"1. Teig", 2, unclear},
		{"2) x", 2, unclear},
		{"405er Mehl", 2, unclear},
		{"00 flour", 2, unclear},
		{"5-spice powder", 2, unclear},
		{"5 Spice", 2, "10 Spice"},
		{"Zest of 1 lemon", 2, unclear},
		{"salt", 2, "salt"},
		{"one onion", 2, unclear},
		{"Eine Zwiebel", 2, unclear},
		{"flour type 405", 2, unclear},
		{"11/2 cups", 2, unclear},
		{"1/0 cup", 2, unclear},
		{"3-1 eggs", 2, unclear},
		{"1 - 1/2 cup", 2, unclear},
		{"24/12", 2, unclear},
		{"1/2/3 x", 2, unclear},
		{"1.2.3", 2, unclear},
		{"-1 cup", 2, unclear},
		{"٢ cups", 2, unclear},
		{"1 egg", 0.5, "½ egg"},
		{"125 g", 0.5, "62.5 g"},
		{"0.5 l", 0.5, "¼ l"},
		{"0.005 g saffron", 2, "0.01 g saffron"},
		{"1234 g", 2, "2468 g"},
		{"12,50 g", 2, "25 g"},
		{"1,000,000 g", 2, "2,000,000 g"},
		{"1 EL Öl", 3, "3 EL Öl"},
		{"2EL Öl", 0.5, "1EL Öl"},
		{"1 inch piece ginger", 2, unclear},
		{"30 Minuten", 2, unclear},
		{"2 eggs", 2, "4 eggs"},
		{"2", 2, "4"},
		{"½ Bund Petersilie", 3, "1½ Bund Petersilie"},
		{"about 2–3 tbsp. oil", 2, "about 4–6 tbsp. oil"},
		{"1½-2 cups", 2, "3-4 cups"},
		{"1 1/2-2 cups", 2, "3-4 cups"},
		{"1-1½ cups", 2, "2-3 cups"},
		{"1 cup + 2 tbsp", 2, unclear},
		{"1 (or 2) eggs", 2, unclear},
		{"2 eggs (1 beaten)", 2, unclear},
		{"100 g 00 flour", 2, unclear},
		{"1 pkg. (8 oz.) cheese", 2, unclear},
		{"1/3 cup", 3, "1 cup"},
		{"2/3 cup", 0.5, "⅓ cup"},
		{"5/6 x", 2, "1⅔ x"},
		{"1 12-ounce jar", 2, unclear},
		{"2 l Wasser", 0.5, "1 l Wasser"},
		{"2 fl oz/60 ml rum", 2, "4 fl oz/120 ml rum"},
		{"4 x", 2, "8 x"},
		{"2 10-inch tortillas", 2, "4 10-inch tortillas"},
		{"6 ½ cups", 2, "13 cups"},
		{"1½½", 2, unclear},
		{"1 2/3 1/2", 2, unclear},
	}
	var ask strings.Builder
	for _, c := range lines {
		fmt.Fprintf(&ask, "[%s, %v],", quoted(c.line), c.times)
	}
	got := b.js(`import(document.querySelector('script[data-copy]').src).then((m) => [` + ask.String() + `].map(([line, times]) =>
		(m.changes(line, times) ? m.scaled(line, times) : m.scaled(line, times) === line ? '` + unclear + `' : 'unclear, but changed')))`).([]any)
	for i, c := range lines {
		t.Run(fmt.Sprint(c.line, " x ", c.times), func(t *testing.T) {
			is := is.New(t)
			is.Equal(got[i], c.want)
		})
	}
}

// TestBrowserAmountsShown: a line that is not scaled says so, on the page and in the app, and its markup stays.
func TestBrowserAmountsShown(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	const ingredients = "- **1½** cups flour\n- 28-oz can of *tomatoes*\n- 1 **to** 2 eggs\n- salt"
	slug := b.Post(
		"/api/v1/recipes", map[string]any{"title": "Pie", "ingredients": ingredients, "isPublic": true},
	).Want(201).Text("data.slug")
	for _, at := range []string{"/v/" + slug, "/recipes/" + slug} {
		b.open(at)
		b.until(`document.querySelectorAll('.field-ingredients .tick input').length === 4`)
		const shown = `[...document.querySelectorAll('.tick')].map((li) => li.innerText.trim()).join('; ')`
		b.press("2×")
		b.press("2×")
		is.Equal(b.js(shown), "3 cups flour; 28-oz can of tomatoesamount not changed; 1 to 2 eggsamount not changed; salt")
		is.Equal(
			b.js(`[...document.querySelectorAll('.tick :is(strong, em)')].map((e) => e.textContent).join(' ')`), "3 tomatoes to",
		)
		b.press("1×")
		is.Equal(b.js(shown), "1½ cups flour; 28-oz can of tomatoes; 1 to 2 eggs; salt")
	}
}
