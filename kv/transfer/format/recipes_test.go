package format

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"
)

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

const paprikaJSON = `{"uid":"5A","name":"Pancakes","description":"For Sunday","ingredients":"Batter:\n2 eggs\n- 250 ml milk\n\n","directions":"Whisk.\n2. Fry in\tbutter.",` +
	`"notes":"Good with jam","nutritional_info":"","servings":"4","prep_time":"10 min","cook_time":"","total_time":"","difficulty":"Easy","rating":4,"categories":["Sweet","Kids"],` +
	`"source":"Grandma","source_url":"https://example.org/pancakes","image_url":"https://example.org/p.jpg","photo":"5A.jpg","photo_data":"aGVsbG8=","photos":[{"filename":"b.PNG","name":"1","data":"eA=="},{"filename":"c.png","data":"?"}],"created":"2020-01-02 03:04:05","hash":"AB"}`

const paprikaTold = `recipe {"description":"For Sunday\n\nServings: 4\n\nPreparation: 10 min\n\nGood with jam\n\nSource: Grandma\n\nhttps://example.org/pancakes","imageUrl":"https://example.org/p.jpg",` +
	`"ingredients":"### Batter\n\n- 2 eggs\n- 250 ml milk","instructions":"1. Whisk.\n2. Fry in\tbutter.","tags":["Sweet","Kids"],"title":"Pancakes"} 2020-01-02T03:04:05Z (A picture of it is damaged.)`

const tandoorJSON = `{"name":"Soup","description":"Warm","keywords":[{"name":"winter","description":""}],"servings":2,"servings_text":"bowls","working_time":15,"waiting_time":0,"internal":true,"nutrition":null,"source_url":"https://example.org/soup",
 "steps":[{"name":"Stock","instruction":"Boil **it**.","time":20,"order":0,"ingredients":[{"food":{"name":"water"},"unit":{"name":"l"},"amount":1.5,"note":"cold","is_header":false,"no_amount":false},{"food":null,"unit":null,"amount":0,"note":"To serve","is_header":true},{"food":{"name":"bread"},"unit":null,"amount":0,"note":"","no_amount":true}]},
 {"name":"","instruction":"Serve.","ingredients":[{"food":null,"unit":null,"amount":0,"note":"","original_text":"a pinch of salt"}]}]}`

const tandoorTold = `recipe {"description":"Warm\n\nServings: 2 bowls\n\nPreparation: 15 min\n\nSource: https://example.org/soup","ingredients":"### Stock\n\n- 1.5 l water, cold\n\n### To serve\n\n- bread\n- a pinch of salt",` +
	`"instructions":"### Stock\n\n\nBoil **it**.\n\n20 min\n\nServe.","tags":["winter"],"title":"Soup"}`

const mealieJSON = `{"id":"8c","name":"Bread","slug":"bread","image":"abc","description":"Sour","recipeYield":"1 loaf","prepTime":"15 minutes","performTime":null,"totalTime":"1 day","recipeCategory":[{"name":"Baking"}],"tags":[{"name":"sourdough"}],
 "recipeIngredient":[{"title":"Dough","note":"sifted","unit":{"name":"g"},"food":{"name":"flour"},"quantity":500.0,"display":""},{"title":"","note":"3 spoons of salt","unit":null,"food":null,"disableAmount":true,"quantity":1.0},{"note":"","display":"2 eggs"}],
 "recipeInstructions":[{"id":"1","title":"Dough","text":"Mix.\nWait."},{"id":"2","title":"","text":"Bake."}],"notes":[{"title":"Tip","text":"Rye works too"}],"orgURL":"https://example.org/bread","createdAt":"2020-01-02T03:04:05","dateUpdated":"2020-01-03T03:04:05.000Z","rating":5}`

const mealieTold = `recipe {"description":"Sour\n\nServings: 1 loaf\n\nPreparation: 15 minutes\n\nTotal time: 1 day\n\nTip\n\nRye works too\n\nSource: https://example.org/bread",` +
	`"ingredients":"### Dough\n\n- 500 g flour, sifted\n- 3 spoons of salt\n- 2 eggs","instructions":"### Dough\n\n1. Mix.\n   Wait.\n2. Bake.","tags":["sourdough","Baking"],"title":"Bread"} 2020-01-02T03:04:05Z`

const mealieOld = `{"name":"Tea","recipe_ingredient":["water","leaves"],"recipe_instructions":[{"text":"Pour."}],"tags":["hot"],"org_url":null,"date_added":"2020-01-02"}`

var (
	paprikaSample = zipped("Pancakes.paprikarecipe", gzipped(paprikaJSON), "Bad.paprikarecipe", "no gzip", ".more.txt", "x")
	tandoorSample = zipped("Soup.zip", zipped("recipe.json", tandoorJSON, "image.png", "hello"), "Bad.zip", "PK", "Empty.zip", zipped("x", ""))
	mealieSample  = zipped("recipes/bread/bread.json", mealieJSON, "recipes/bread/images/original.webp", "hello",
		"recipes/bread/images/min-original.webp", "x", "recipes/tea/tea.json", mealieOld, "bad.json", "[]")
)

func pictures(program string, n string) string {
	return `pictures: A recipe has only the address of a picture, so the pictures became files in the folder "` + program + `": ` + n + "."
}

// TestRecipes: the recipes of other programs keep ingredients and steps as lists, and their pictures.
func TestRecipes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		format Format
		data   string
		want   []string // the first rows
		whole  string
	}{
		{"Paprika", Paprika, paprikaSample, []string{
			"Pancakes.paprikarecipe: " + paprikaTold,
			`Pancakes.paprikarecipe, picture: file {"originalName":"Pancakes.jpg"} 2020-01-02T03:04:05Z in Paprika "hello"`,
			`Pancakes.paprikarecipe, picture: file {"originalName":"Pancakes 2.png"} 2020-01-02T03:04:05Z in Paprika "x"`,
			`Bad.paprikarecipe: "Bad.paprikarecipe" refused: It is not valid gzip.`,
			`file ".more.txt": ` + once,
		}, pictures("Paprika", "2")},
		{"one of Paprika", Paprika, gzipped(paprikaJSON), []string{"entry 1: " + paprikaTold}, pictures("Paprika", "2")},
		{"Paprika in JSON", Paprika, "[" + paprikaJSON + "]", []string{"entry 1: " + paprikaTold}, pictures("Paprika", "2")},
		{"Tandoor", Tandoor, tandoorSample, []string{
			"Soup.zip: " + tandoorTold,
			`Soup.zip, picture: file {"originalName":"Soup.png"} in Tandoor "hello"`,
			`Bad.zip: "Bad.zip" refused: It is not a complete zip.`,
			`Empty.zip: "Empty.zip" refused: There is no recipe.json in it.`,
		}, pictures("Tandoor", "1")},
		{"one of Tandoor", Tandoor, zipped("recipe.json", tandoorJSON), []string{"recipe.json: " + tandoorTold}, ""},
		{"Tandoor in JSON", Tandoor, tandoorJSON, []string{"entry 1: " + tandoorTold}, `member "internal": ` + once},
		{"Mealie", Mealie, mealieSample, []string{
			"recipes/bread/bread.json: " + mealieTold,
			`recipes/bread/bread.json, picture: file {"originalName":"Bread.webp"} 2020-01-02T03:04:05Z in Mealie "hello"`,
			`recipes/tea/tea.json: recipe {"ingredients":"- water\n- leaves","instructions":"1. Pour.","tags":["hot"],"title":"Tea"} 2020-01-02T00:00:00Z`,
			`bad.json: "" refused: The entry must be a JSON object.`,
			`file "recipes/bread/images/min-original.webp": ` + once,
		}, pictures("Mealie", "1")},
		{"Mealie in JSON", Mealie, "\ufeff" + mealieJSON, []string{"entry 1: " + mealieTold}, `member "rating": ` + once},
	} {
		t.Run(c.name, func(t *testing.T) {
			is := is.New(t)
			found, err := Detect(source(c.data))
			is.NoErr(err)
			is.Equal(found, c.format)
			got := rowsOf(c.format, source(c.data))
			if len(got) < len(c.want) || strings.Join(got[:len(c.want)], "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			if c.whole != "" && !strings.Contains(strings.Join(got, "\n"), c.whole) {
				t.Errorf("got\n%s\nwithout\n%s", strings.Join(got, "\n"), c.whole)
			}
		})
	}
	is := is.New(t)
	backup := rowsOf(Mealie, source(zipped("database.json", "{}")))
	is.Equal(len(backup), 1)
	is.True(strings.HasPrefix(backup[0], "error: It is a backup of Mealie."))
}

// TestRecipeBombs: what is packed twice may not unpack to more than what is packed once.
func TestRecipeBombs(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("0", 40<<20)
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	for name, text := range map[string]string{"recipe.json": tandoorJSON, "image.png": zeros} {
		w, err := z.Create(name) // compresses
		is.New(t).NoErr(err)
		_, _ = io.WriteString(w, text)
	}
	_ = z.Close()
	one, sheet := packed.String(), gzipped(zeros)
	var book, sheets []string
	for i := range 9 {
		book = append(book, strings.Repeat("x", i+1)+".zip", one)
		sheets = append(sheets, strings.Repeat("x", i+1)+".paprikarecipe", sheet)
	}
	for format, data := range map[Format]string{Tandoor: zipped(book...), Paprika: zipped(sheets...)} {
		is := is.New(t)
		got := rowsOf(format, source(data))
		said := strings.Join(got, "\n")
		is.True(len(said) < 10<<10)
		is.True(strings.Contains(said, errBomb.Error()) || strings.Contains(said, "It is longer than 16777216 bytes."))
		is.True(!strings.Contains(said, "picture: file")) // a larger one is not read
	}
}

// TestRecipesStop: nothing more is unpacked for a caller who wants no more.
func TestRecipesStop(t *testing.T) {
	t.Parallel()
	one := zipped("recipe.json", tandoorJSON)
	data := zipped("a.zip", one, "b.zip", one, "c.zip", one)
	is := is.New(t)
	from := &reads{ReaderAt: strings.NewReader(data)}
	before := 0
	for range Read(Tandoor, Source{R: from, Size: int64(len(data))}) {
		before = from.n
		break
	}
	is.True(before > 0)
	is.Equal(from.n, before)
}

// reads counts how often a source is read.
type reads struct {
	io.ReaderAt
	n int
}

func (r *reads) ReadAt(b []byte, at int64) (int, error) {
	r.n++
	return r.ReaderAt.ReadAt(b, at)
}

func FuzzPaprika(f *testing.F) {
	fuzz(f, Paprika, paprikaSample, gzipped(paprikaJSON), "["+paprikaJSON+"]", gzipped("{}"), "\x1f\x8b\b", `[{"photos":[{"data":"eA=="}],"name":""}]`)
}

func FuzzTandoor(f *testing.F) {
	fuzz(f, Tandoor, tandoorSample, tandoorJSON, zipped("recipe.json", "{}", "image", "x"), `{"steps":[{"ingredients":[{"amount":1e300,"food":"x"}]}]}`)
}

func FuzzMealie(f *testing.F) {
	fuzz(f, Mealie, mealieSample, mealieJSON, mealieOld, `{"recipes":[{"name":1}]}`, `{"recipeIngredient":[{"quantity":-1,"unit":"x"}]}`)
}

// TestMixedZips: one recipe, or one note of Keep, does not decide what becomes of the other files in a zip.
func TestMixedZips(t *testing.T) {
	t.Parallel()
	const keep = `{"textContent":"x","userEditedTimestampUsec":1577934245000000}`
	for _, row := range []struct {
		name  string
		files []string
		want  Format
	}{
		{"Paprika", []string{"a.paprikarecipe", "x", "__MACOSX/._a.paprikarecipe", "x"}, Paprika},
		{"Paprika and photos", []string{"a.paprikarecipe", "x", "b.jpg", "x"}, Folder},
		{"Mealie", []string{"recipes/a/a.json", mealieJSON, "recipes/a/images/b.webp", "x"}, Mealie},
		{"Mealie and photos", []string{"a.json", mealieJSON, "b.jpg", "x"}, Folder},
		{"Mealie and letters", []string{"recipes/a/a.json", mealieJSON, "letter.docx", "x"}, Folder},
		{"Tandoor", []string{"a.zip", zipped("recipe.json", tandoorJSON)}, Tandoor},
		{"one of Tandoor", []string{"recipe.json", tandoorJSON, "image.jpg", "x"}, Tandoor},
		{"Tandoor and photos", []string{"a.zip", zipped("recipe.json", tandoorJSON), "b.jpg", "x"}, Folder},
	} {
		is := is.New(t)
		got, err := Detect(source(zipped(row.files...)))
		is.NoErr(err)
		if got != row.want {
			t.Errorf("%s: %s", row.name, got)
		}
	}

	is := is.New(t)
	got := rowsOf(Keep, source(zipped(
		"Keep/a.json", keep, "Keep/a.html", "x", "web/index.html", "x", "web/data.json", `{"a":1}`, "letter.txt", "x",
	)))
	is.Equal(len(got), 5)
	is.True(strings.HasPrefix(got[0], "Keep/a.json: note "))
	is.True(strings.HasPrefix(got[1], "web/index.html: file "))
	is.True(strings.HasPrefix(got[2], "web/data.json: file ") && strings.HasSuffix(got[2], strconv.Quote(`{"a":1}`)))
	is.True(strings.HasPrefix(got[3], "letter.txt: file "))
	is.Equal(got[4], `file "*.html": `+once)
}

func TestHeading(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"# A\nb": "A", "# C#": "C#", "# A ##": "A", "# #": "", "#A": "", "\n\n # x #": "x", "a\n# b": "", "# A#b #": "A#b",
	} {
		if got := heading(text); got != want {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}
