package format

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strconv"
	"strings"

	"kist/kv/field"
	"kist/kv/record"
)

// A dish is a recipe of another program on its way to a row.
type dish struct {
	about        []string // parts of the description
	ingredients  markdown
	instructions markdown
}

// markdown writes a list in Markdown: items with a dash, or numbered steps.
type markdown struct {
	text   strings.Builder
	number int
}

// heading begins a part of the list.
func (m *markdown) heading(t string) {
	t = oneLine(t)
	if t == "" {
		return
	}
	if m.text.Len() > 0 {
		m.text.WriteByte('\n')
	}
	m.text.WriteString("### " + strings.TrimSuffix(t, ":") + "\n\n")
	m.number = 0
}

func (m *markdown) item(t string) {
	t = strings.TrimLeft(oneLine(t), "-*•– ")
	if t != "" {
		m.text.WriteString("- " + t + "\n")
	}
}

func (m *markdown) step(t string) {
	t = clean(t)
	number, rest, numbered := strings.Cut(t, ". ")
	if numbered && isNumber(number) {
		t = clean(rest)
	}
	if t == "" {
		return
	}
	m.number++
	m.text.WriteString(strconv.Itoa(m.number) + ". " + strings.ReplaceAll(t, "\n", "\n   ") + "\n")
}

func isNumber(t string) bool {
	_, err := strconv.Atoi(t)
	return err == nil
}

// block is a text that is Markdown already.
func (m *markdown) block(t string) {
	t = clean(t)
	if t == "" {
		return
	}
	if m.text.Len() > 0 {
		m.text.WriteByte('\n')
	}
	m.text.WriteString(t + "\n")
}

// lines are the lines of a text, each an item or a step; one that ends with a colon is a heading.
func (m *markdown) lines(t string, each func(string)) {
	for line := range strings.Lines(t) {
		if m.text.Len() > record.MaxContent { // the rest is cut
			return
		}
		line = clean(line)
		if strings.HasSuffix(line, ":") {
			m.heading(line)
			continue
		}
		each(line)
	}
}

// tell adds a fact to the description.
func (d *dish) tell(label, value string) {
	value = clean(value)
	if value != "" {
		d.about = append(d.about, label+": "+value)
	}
}

func (d *dish) into(b *builder) {
	b.text("description", join(d.about...), record.MaxDescription)
	for _, part := range []struct {
		name string
		from *markdown
	}{{"ingredients", &d.ingredients}, {"instructions", &d.instructions}} {
		text := clean(part.from.text.String())
		if len(text) > record.MaxContent {
			text = strings.ToValidUTF8(text[:record.MaxContent], "")
			b.note("The %s were cut to %d bytes.", part.name, record.MaxContent)
		}
		if text != "" {
			b.Fields[part.name] = text
		}
	}
}

// minutes is a time for people; "" for no time.
func minutes(n string) string {
	if n == "" || n == "0" {
		return ""
	}
	return n + " min"
}

// paprikaRow reads a recipe of Paprika. Its pictures are in it.
func paprikaRow(at string, e *entry) (Row, []picture) {
	b, d := build(record.Recipes, at), new(dish)
	b.title(e.text("name"))
	d.about = append(d.about, e.text("description"))
	d.tell("Servings", e.text("servings"))
	d.tell("Preparation", e.text("prep_time"))
	d.tell("Cooking", e.text("cook_time"))
	d.tell("Total time", e.text("total_time"))
	d.about = append(d.about, e.text("notes"), e.text("nutritional_info"))
	d.tell("Source", join(e.text("source"), e.text("source_url")))
	d.ingredients.lines(e.text("ingredients"), d.ingredients.item)
	d.instructions.lines(e.text("directions"), d.instructions.step)
	d.into(b)
	b.pictureOf(e, "image_url", "photo_url")
	b.tags(e.texts("categories")...)
	b.set("isFavorite", e.yes("on_favorites"))
	b.Past.Created = e.when("created")

	var pictures []picture
	add := func(name, data string) {
		content, err := base64.StdEncoding.DecodeString(data)
		switch {
		case err != nil:
			b.note("A picture of it is damaged.")
		case len(content) > 0:
			pictures = append(pictures, inMemory(or(name, "photo.jpg"), content))
		}
	}
	add(e.text("photo"), e.text("photo_data"))
	for _, p := range e.objects("photos") {
		add(p.text("filename"), p.text("data"))
	}
	return b.Row, pictures
}

// tandoorRow reads a recipe of Tandoor. Its steps are Markdown.
func tandoorRow(at string, e *entry) Row {
	b, d := build(record.Recipes, at), new(dish)
	b.title(e.text("name"))
	d.about = append(d.about, e.text("description"))
	d.tell("Servings", strings.TrimSpace(e.number("servings")+" "+e.text("servings_text")))
	d.tell("Preparation", minutes(e.number("working_time")))
	d.tell("Waiting", minutes(e.number("waiting_time")))
	d.tell("Source", e.text("source_url"))
	for _, s := range e.objects("steps") {
		name := s.text("name")
		d.instructions.heading(name)
		d.instructions.block(s.text("instruction"))
		parts := s.objects("ingredients")
		if len(parts) > 0 {
			d.ingredients.heading(name)
		}
		for _, i := range parts {
			header, bare := i.yes("is_header"), i.yes("no_amount")
			amount := amountOf(i, "amount")
			if bare {
				amount = ""
			}
			unit, food, note := nameIn(i, "unit"), nameIn(i, "food"), i.text("note")
			if header {
				d.ingredients.heading(note)
				continue
			}
			text := oneLine(amount + " " + unit + " " + food)
			if note != "" {
				text = strings.TrimPrefix(text+", "+note, ", ")
			}
			original := i.text("original_text")
			d.ingredients.item(or(text, original))
		}
		if t := minutes(s.number("time")); t != "" {
			d.instructions.block(t)
		}
	}
	d.into(b)
	for _, k := range e.objects("keywords") {
		b.tags(k.text("name"))
	}
	b.Past.Created, b.Past.Updated = e.when("created_at"), e.when("updated_at")
	return b.Row
}

// nameIn is the name of an object in a member, or the text of the member.
func nameIn(e *entry, member string) string {
	if t := e.text(member); t != "" {
		return t
	}
	return e.object(member).text("name")
}

// amountOf is a number as people write it; "" if it is 0 or missing.
func amountOf(e *entry, member string) string {
	n, _ := e.o[member].(json.Number)
	amount, err := n.Float64()
	if err != nil {
		return ""
	}
	delete(e.o, member)
	if amount <= 0 || amount > 1e9 {
		return ""
	}
	return strconv.FormatFloat(math.Round(amount*1000)/1000, 'f', -1, 64)
}

// mealieRow reads a recipe of Mealie, whose members have names in one of two
// styles, or one in the form of schema.org.
func mealieRow(at string, e *entry) Row {
	b, d := build(record.Recipes, at), new(dish)
	b.title(e.text("name"))
	d.about = append(d.about, e.text("description"))
	d.tell("Servings", or(e.first("recipe_yield", "recipeYield"), e.number("recipeServings")))
	d.tell("Preparation", e.first("prep_time", "prepTime"))
	d.tell("Cooking", e.first("perform_time", "performTime", "cook_time", "cookTime"))
	d.tell("Total time", e.first("total_time", "totalTime"))
	for _, n := range e.objects("notes") {
		d.about = append(d.about, join(n.text("title"), n.text("text")))
	}
	d.tell("Source", e.first("org_url", "orgURL", "orgUrl", "url"))
	for _, name := range []string{"recipe_ingredient", "recipeIngredient"} {
		for _, t := range e.texts(name) {
			d.ingredients.item(t)
		}
		for _, i := range e.objects(name) {
			d.ingredients.heading(i.text("title"))
			d.ingredients.item(mealieIngredient(i))
		}
	}
	for _, name := range []string{"recipe_instructions", "recipeInstructions"} {
		for _, t := range e.texts(name) {
			d.instructions.step(t)
		}
		for _, s := range e.objects(name) {
			d.instructions.heading(s.text("title"))
			d.instructions.step(s.text("text"))
		}
	}
	d.into(b)
	for _, name := range []string{"tags", "recipe_category", "recipeCategory", "categories"} {
		b.tags(e.texts(name)...)
		for _, t := range e.objects(name) {
			b.tags(t.text("name"))
		}
	}
	b.pictureOf(e, "image")
	b.Past.Created = e.when("created_at", "createdAt", "date_added", "dateAdded", "dateCreated")
	b.Past.Updated = e.when("update_at", "updateAt", "updatedAt", "date_updated", "dateUpdated", "dateModified")
	return b.Row
}

func mealieIngredient(i *entry) string {
	display, original := i.text("display"), i.first("original_text", "originalText")
	amount := amountOf(i, "quantity")
	if i.yes("disable_amount") || i.yes("disableAmount") {
		amount = ""
	}
	unit, food, note := nameIn(i, "unit"), nameIn(i, "food"), i.text("note")
	text := oneLine(amount + " " + unit + " " + food)
	switch {
	case display != "":
		return display
	case food == "" && note != "":
		return strings.TrimSpace(strings.TrimSpace(amount+" "+unit) + " " + note)
	case note != "":
		return text + ", " + note
	}
	return or(text, original)
}

// A picture is a picture of a recipe in an export.
type picture struct {
	name string
	size uint64
	open func() (io.ReadCloser, error)
}

func inMemory(name string, data []byte) picture {
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	return picture{name, uint64(len(data)), open}
}

// recipeBook reads recipes of one program, one at a time.
type recipeBook struct {
	program  string // also the folder of the pictures
	row      func(at string, e *entry) (Row, []picture)
	left     *unread
	room     uint64 // bytes that may still be unpacked
	pictures int
	yield    func(Row, error) bool
	stopped  bool // the caller wants no more, and yield does nothing
}

// maxPicture is the largest picture of a recipe in an export.
const maxPicture = 16 << 20

// recipe yields the recipe in a text, with the pictures beside it.
func (k *recipeBook) recipe(at string, text []byte, beside []picture) {
	o, err := field.Parse(bytes.TrimPrefix(text, []byte("\ufeff")))
	if err != nil {
		k.yield(Row{At: at, Refused: forEntry(err)}, nil)
		return
	}
	k.entry(at, o, beside)
}

// entry yields a recipe and its pictures. It reports false if the caller wants no more.
func (k *recipeBook) entry(at string, o field.Object, beside []picture) bool {
	e := &entry{o: o, unread: k.left}
	row, pictures := k.row(at, e)
	e.done()
	pictures = append(pictures, beside...)
	for i := range pictures {
		if pictures[i].size > maxPicture {
			row.Notes = append(row.Notes, fmt.Sprintf("A picture of it is larger than %d MiB.", maxPicture>>20))
		}
	}
	if !k.yield(row, nil) {
		return false
	}
	for i, p := range pictures {
		if p.size > maxPicture || p.size == 0 {
			continue
		}
		name := strings.NewReplacer("/", "-", `\`, "-").Replace(record.Cut(row.Name, 100))
		if i > 0 {
			name += " " + strconv.Itoa(i+1)
		}
		file := fileRow(k.program+"/"+name+strings.ToLower(path.Ext(p.name)), 0o600, row.Past.Created, p.open)
		file.At = at + ", picture"
		k.pictures++
		if !k.yield(file, nil) {
			return false
		}
	}
	return true
}

// end says what became of the pictures.
func (k *recipeBook) end() {
	if k.pictures == 0 {
		return
	}
	note := fmt.Sprintf("A recipe has only the address of a picture, so the pictures became files in the folder %q: %d.",
		k.program, k.pictures)
	k.yield(Row{At: "pictures", Whole: true, Notes: []string{note}}, nil)
}

// unpack counts bytes that are unpacked. It fails if they are more than the source
// may have.
func (k *recipeBook) unpack(n uint64) error {
	if n > k.room {
		return errBomb
	}
	k.room -= n
	return nil
}

// recipes makes a reader of the recipes of a program: a zip that parts reads, or
// JSON with one recipe or a list of them.
func recipes(
	program string, row func(at string, e *entry) (Row, []picture), parts func(*recipeBook, Source, *zip.Reader) error,
) func(Source) Rows {
	return func(s Source) Rows {
		left := notRead("member")
		return left.after(func(yield func(Row, error) bool) {
			k := &recipeBook{
				program: program, row: row, left: left, room: unpackedRatio*uint64(s.Size) + unpackedSlack,
			}
			k.yield = func(r Row, err error) bool {
				k.stopped = k.stopped || !yield(r, err)
				return !k.stopped
			}
			err := k.read(s, parts)
			switch {
			case k.stopped:
			case err != nil:
				yield(Row{}, err)
			default:
				k.end()
			}
		})
	}
}

func (k *recipeBook) read(s Source, parts func(*recipeBook, Source, *zip.Reader) error) error {
	if isZip(s) {
		z, err := openZip(s)
		if err != nil {
			return err
		}
		return parts(k, s, z)
	}
	if isGzip(s) {
		text, err := k.gunzip(s.stream())
		if err != nil {
			return err
		}
		k.recipe("entry 1", text, nil)
		return nil
	}
	first, err := firstByte(bufio.NewReader(s.text()))
	if err == nil && first == '{' {
		text, err := io.ReadAll(io.LimitReader(s.text(), MaxEntry+1))
		if err != nil {
			return err
		}
		if len(text) > MaxEntry {
			return unreadable("An entry is longer than %d bytes.", MaxEntry)
		}
		k.recipe("entry 1", text, nil)
		return nil
	}
	err = entries(s.text(), "recipes", func(string, any) {}, func(n int, o field.Object, wrong error) bool {
		at := fmt.Sprintf("entry %d", n)
		if wrong != nil {
			return k.yield(Row{At: at, Refused: forEntry(wrong)}, nil)
		}
		return k.entry(at, o, nil)
	})
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

func isGzip(s Source) bool {
	var head [2]byte
	_, err := s.R.ReadAt(head[:], 0)
	return err == nil && head == [2]byte{0x1f, 0x8b}
}

// gunzip unpacks a recipe of at most MaxEntry bytes.
func (k *recipeBook) gunzip(r io.Reader) ([]byte, error) {
	in, err := gzip.NewReader(r)
	if err != nil {
		return nil, unreadable("It is not valid gzip.")
	}
	text, err := io.ReadAll(io.LimitReader(in, int64(min(MaxEntry, k.room))+1))
	if err != nil {
		return nil, unreadable("It is not complete gzip.")
	}
	if len(text) > MaxEntry {
		return nil, unreadable("It is longer than %d bytes.", MaxEntry)
	}
	return text, k.unpack(uint64(len(text)))
}

// member reads a file of a zip, of at most MaxEntry bytes.
func member(f *zip.File) ([]byte, error) {
	if f.UncompressedSize64 > MaxEntry {
		return nil, unreadable("It is longer than %d bytes.", MaxEntry)
	}
	r, err := f.Open()
	if err != nil {
		return nil, unreadable("It is damaged.")
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, MaxEntry))
	if err != nil {
		return nil, unreadable("It is damaged.")
	}
	return text, nil
}

// refuse yields a row for a part that cannot be read. An error other than
// Unreadable ends the reading.
func (k *recipeBook) refuse(f *zip.File, err error) error {
	var why Unreadable
	if !errors.As(err, &why) || errors.Is(err, errBomb) {
		return err
	}
	k.yield(Row{At: shown(clean(f.Name)), Name: clean(path.Base(f.Name)), Refused: string(why)}, nil)
	return nil
}

// paprikaParts reads a zip of recipes, each of them gzip.
func paprikaParts(k *recipeBook, _ Source, z *zip.Reader) error {
	others := notRead("file")
	for _, f := range z.File {
		if k.stopped {
			return nil
		}
		if path.Ext(f.Name) != ".paprikarecipe" {
			if !f.FileInfo().IsDir() {
				others.add(f.Name)
			}
			continue
		}
		packed, err := member(f)
		var text []byte
		if err == nil {
			text, err = k.gunzip(bytes.NewReader(packed))
		}
		if err != nil {
			if err := k.refuse(f, err); err != nil {
				return err
			}
			continue
		}
		k.recipe(clean(f.Name), text, nil)
	}
	others.tell(k.yield)
	return nil
}

// tandoorParts reads a zip of zips, or one of these.
func tandoorParts(k *recipeBook, s Source, z *zip.Reader) error {
	others := notRead("file")
	for _, f := range z.File {
		switch {
		case k.stopped:
			return nil
		case f.Name == "recipe.json":
			return k.tandoor("recipe.json", z)
		case path.Ext(f.Name) != ".zip":
			if !f.FileInfo().IsDir() {
				others.add(f.Name)
			}
			continue
		}
		inner, err := k.inner(s, f)
		if err == nil {
			err = k.tandoor(clean(f.Name), inner)
		}
		if err != nil {
			if err := k.refuse(f, err); err != nil {
				return err
			}
		}
	}
	others.tell(k.yield)
	return nil
}

// inner opens a zip in a zip, and counts what it may unpack to.
func (k *recipeBook) inner(s Source, f *zip.File) (*zip.Reader, error) {
	packed := Source{Size: int64(min(f.UncompressedSize64, math.MaxInt64))}
	if f.Method == zip.Store {
		at, err := f.DataOffset()
		if err != nil || f.CompressedSize64 != f.UncompressedSize64 {
			return nil, unreadable("It is damaged.")
		}
		packed.R = io.NewSectionReader(s.R, at, packed.Size)
	} else {
		all, err := member(f)
		if err != nil {
			return nil, err
		}
		packed.R, packed.Size = bytes.NewReader(all), int64(len(all))
	}
	z, err := openZip(packed)
	if err != nil {
		return nil, err
	}
	for _, part := range z.File {
		if err := k.unpack(part.UncompressedSize64); err != nil {
			return nil, err
		}
	}
	return z, nil
}

// tandoor reads the zip of one recipe.
func (k *recipeBook) tandoor(at string, z *zip.Reader) error {
	var recipe *zip.File
	var pictures []picture
	for _, f := range z.File {
		switch {
		case f.Name == "recipe.json":
			recipe = f
		case strings.HasPrefix(f.Name, "image"):
			pictures = append(pictures, picture{f.Name, f.UncompressedSize64, f.Open})
		}
	}
	if recipe == nil {
		return unreadable("There is no recipe.json in it.")
	}
	text, err := member(recipe)
	if err != nil {
		return err
	}
	k.recipe(at, text, pictures)
	return nil
}

// mealieParts reads a zip of recipes in JSON with their pictures beside them.
func mealieParts(k *recipeBook, _ Source, z *zip.Reader) error {
	pictures := map[string]*zip.File{} // by the folder of the recipe
	for _, f := range z.File {
		if f.Name == "database.json" {
			return unreadable("It is a backup of Mealie. Export the recipes instead: in Mealie, open Manage data, " +
				"choose the recipes, and export them.")
		}
		base := path.Base(f.Name)
		if strings.HasPrefix(base, "original.") {
			pictures[strings.TrimSuffix(path.Dir(f.Name), "/images")] = f
		}
	}
	others := notRead("file")
	for _, f := range z.File {
		if k.stopped {
			return nil
		}
		if path.Ext(f.Name) != ".json" {
			if pictures[strings.TrimSuffix(path.Dir(f.Name), "/images")] != f && !f.FileInfo().IsDir() {
				others.add(f.Name)
			}
			continue
		}
		text, err := member(f)
		if err == nil {
			err = k.unpack(uint64(len(text)))
		}
		if err != nil {
			if err := k.refuse(f, err); err != nil {
				return err
			}
			continue
		}
		var beside []picture
		if p := pictures[path.Dir(f.Name)]; p != nil {
			beside = append(beside, picture{p.Name, p.UncompressedSize64, p.Open})
		}
		k.recipe(clean(f.Name), text, beside)
	}
	others.tell(k.yield)
	return nil
}

// alone makes a function of one row that has no pictures in it.
func alone(row func(at string, e *entry) Row) func(at string, e *entry) (Row, []picture) {
	return func(at string, e *entry) (Row, []picture) { return row(at, e), nil }
}
