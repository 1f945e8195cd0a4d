package embed

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"flag"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/matryer/is"
)

var update = flag.Bool("update", false, "rewrite what is packed from its files")

// The handbook in the binary is that of the files.
func TestHandbookIsPacked(t *testing.T) {
	is := is.New(t)
	files, err := filepath.Glob("help/*.md")
	is.NoErr(err)
	translations, err := filepath.Glob("help/*/*.md")
	is.NoErr(err)
	files = append(files, translations...)
	slices.SortStableFunc(files, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	var parts []string
	for _, file := range files { // what is alike is near each other
		text, err := os.ReadFile(file)
		is.NoErr(err)
		name := strings.TrimSuffix(filepath.ToSlash(file), ".md")
		parts = append(parts, strings.TrimPrefix(name, "help/"), string(text))
	}
	isPacked(t, "help.gz", packedHelp, strings.Join(parts, "\x00"))
}

// The texts in the binary are those of the files.
func TestTextsArePacked(t *testing.T) {
	is := is.New(t)
	var parts []string
	files, err := filepath.Glob("text/*.json")
	is.NoErr(err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		is.NoErr(err)
		parts = append(parts, strings.TrimSuffix(filepath.Base(name), ".json"), string(text))
	}
	isPacked(t, "text.gz", packedTexts, strings.Join(parts, "\x00"))
}

// The files that are served are made from those of the folder.
func TestStaticIsPacked(t *testing.T) {
	is := is.New(t)
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, flate.BestCompression)
	})
	files := os.DirFS("static")
	scripts := packedScripts(t, files)
	is.NoErr(fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, joined := scripts[name]
		if path.Ext(name) != ".js" {
			content, err = fs.ReadFile(files, name)
		} else if !joined { // it is in another script
			return nil
		}
		if err != nil {
			return err
		}
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate}) // without times, which differ
		if err != nil {
			return err
		}
		_, err = f.Write(content)
		return err
	}))
	is.NoErr(w.Close())
	if *update {
		is.NoErr(os.WriteFile("static.zip", packed.Bytes(), 0o644))
		return
	}
	want := must(zip.NewReader(bytes.NewReader(packed.Bytes()), int64(packed.Len())))
	var names [2][]string
	for i, each := range []fs.FS{want, staticFiles()} {
		is.NoErr(fs.WalkDir(each, ".", func(name string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				names[i] = append(names[i], name)
			}
			return err
		}))
	}
	is.Equal(names[0], names[1])
	for _, name := range names[0] {
		if string(must(staticFile(name))) != string(must(fs.ReadFile(want, name))) {
			t.Fatalf("embed/static.zip is not what its files make; run: go test ./embed -run Packed -update")
		}
	}
}

// isPacked compares what is embedded of a file with what it should have. With -update it writes the file.
func isPacked(t *testing.T, name string, embedded []byte, want string) {
	t.Helper()
	is := is.New(t)
	if *update {
		var packed bytes.Buffer
		w := must(gzip.NewWriterLevel(&packed, gzip.BestCompression))
		must(w.Write([]byte(want)))
		is.NoErr(w.Close())
		is.NoErr(os.WriteFile(name, packed.Bytes(), 0o644))
		return
	}
	if string(unpacked(embedded)) != want {
		t.Fatalf("embed/%s is not what its files make; run: go test ./embed -run Packed -update", name)
	}
}

// The index lists every page once, under its title.
func TestTopics(t *testing.T) {
	is := is.New(t)
	files, err := filepath.Glob("help/*.md")
	is.NoErr(err)
	is.Equal(len(files), len(Topics(English))+1) // and the index
	seen := map[string]bool{}
	for _, topic := range Topics(English) {
		is.True(!seen[topic.Name])
		seen[topic.Name] = true
		is.True(strings.HasPrefix(topic.Text, "# "+topic.Title+"\n\n"))
		is.True(strings.HasSuffix(topic.Text, "\n"))
		found, ok := HelpTopic(English, topic.Name)
		is.True(ok)
		is.Equal(found, topic)
	}
	_, ok := HelpTopic(English, "index")
	is.True(!ok)
}

// What people read who use the app is in every language.
func TestTranslatedTopics(t *testing.T) {
	is := is.New(t)
	used, _, _ := strings.Cut(HelpIndex(English), "\n## Run\n")
	used, scripts, found := strings.Cut(used, "\n## For other programs and scripts\n")
	is.True(found)
	is.True(strings.Contains(scripts, "webhooks.md"))
	is.Equal(len(entriesOf(used)), 11)
	for _, l := range Langs() {
		for _, line := range entriesOf(used) {
			topic, ok := HelpTopic(l, line[2])
			is.True(ok)
			if topic.Lang != l {
				t.Errorf("%s is not there in %s", line[2], l)
			}
		}
		is.True(l == English || HelpIndex(l) != HelpIndex(English))
		for _, topic := range Topics(l) { // a page has one title, in the index, on the page and in links
			is.True(strings.HasPrefix(topic.Text, "# "+topic.Title+"\n\n"))
		}
		_, ok := HelpTopic(l, "index")
		is.True(!ok)
		_, ok = HelpTopic(l, "de/sharing")
		is.True(!ok)
	}
}

// A translation says what the English page says: it has the same headings, lists, tables, code and links in the same
// order of sections, so that a change of one alone is found.
func TestTranslationsFollow(t *testing.T) {
	is := is.New(t)
	files, err := filepath.Glob("help/*/*.md")
	is.NoErr(err)
	is.True(len(files) > 11)
	for _, file := range files {
		text, err := os.ReadFile(file)
		is.NoErr(err)
		english, err := os.ReadFile("help/" + filepath.Base(file))
		is.NoErr(err)
		own, theirs := sectionsOf(string(text)), sectionsOf(string(english))
		if len(own) != len(theirs) {
			t.Errorf("%s has %d sections, the English page %d", file, len(own), len(theirs))
			continue
		}
		for i := range own {
			if got, want := outline(own[i]), outline(theirs[i]); !slices.Equal(got, want) {
				t.Errorf("%s differs from the English page:\n%q\n%q", file, got, want)
			}
		}
	}
}

// A translation names what people press as the app does.
func TestTranslationsNameButtons(t *testing.T) {
	is := is.New(t)
	files, err := filepath.Glob("help/*/*.md")
	is.NoErr(err)
	strong := regexp.MustCompile(`\*\*([^*]+)\*\*`)
	count := 0
	for _, file := range files {
		l := Lang(filepath.Base(filepath.Dir(file)))
		text, err := os.ReadFile(file)
		is.NoErr(err)
		english, err := os.ReadFile("help/" + filepath.Base(file))
		is.NoErr(err)
		named := make(map[string]bool)
		for _, words := range strong.FindAllStringSubmatch(string(text), -1) {
			named[strings.Join(strings.Fields(words[1]), " ")] = true
		}
		for _, words := range strong.FindAllStringSubmatch(string(english), -1) {
			label := strings.Join(strings.Fields(words[1]), " ")
			if own := labelsOf(l, label); len(own) > 0 {
				count++
				if !slices.ContainsFunc(own, func(s string) bool { return named[s] }) {
					t.Errorf("%s: what is called %s is one of %q in the app", file, label, own)
				}
			}
		}
	}
	is.True(count > 25)
}

// labelsOf are the texts of a language for what is called so in English.
func labelsOf(l Lang, english string) (all []string) {
	for group, messages := range texts()[English] {
		for name, m := range messages {
			if m[""] == english {
				all = append(all, l.T(group+"."+name))
			}
		}
	}
	return all
}

func sectionsOf(text string) []string {
	code := fences.FindAllString(text, -1)
	text = fences.ReplaceAllString(text, "@fence")
	sections := regexp.MustCompile(`(?m)^#`).Split(text, -1)[1:]
	for i, section := range sections {
		for strings.Contains(section, "@fence") {
			section = strings.Replace(section, "@fence", code[0], 1)
			code = code[1:]
		}
		sections[i] = section
	}
	return sections
}

// outline is what a section has whatever its language is.
func outline(section string) (all []string) {
	level := len(section) - len(strings.TrimLeft(section, "#"))
	indented := regexp.MustCompile(`(?m)^ {4}.*$`)
	code := slices.Concat(fences.FindAllString(section, -1), indented.FindAllString(section, -1))
	section = fences.ReplaceAllString(section, "")
	count := func(pattern string) string {
		return strconv.Itoa(len(regexp.MustCompile(pattern).FindAllString(section, -1)))
	}
	all = append(all, "level "+strconv.Itoa(level), count(`(?m)^- `)+" entries", count(`(?m)^\|`)+" rows")
	for _, name := range regexp.MustCompile("`[^`]+`").FindAllString(section, -1) {
		name = strings.Join(strings.Fields(name), " ")
		if own, ok := examples[name]; ok {
			name = own
		}
		all = append(all, name)
	}
	for _, link := range regexp.MustCompile(`\]\(([^)]*)\)`).FindAllStringSubmatch(section, -1) {
		all = append(all, link[1])
	}
	slices.Sort(all[3:]) // a sentence may have another order
	return append(all, code...)
}

// examples are what people write, in German, with the English.
var examples = map[string]string{
	"`sommer meer`": "`summer sea`", "`\"am meer\"`": "`\"by the sea\"`", "`tag:reise`": "`tag:travel`",
	"`tag:\"lange reise\"`": "`tag:\"long trip\"`", "`-entwurf`": "`-draft`", "`-tag:alt`": "`-tag:old`",
	"`QuartalsBericht.pdf`": "`QuarterlyReport.pdf`", "`bericht`": "`report`", "`Reise / Tag 1`": "`Trip / Day 1`",
	"`- [ ] Milch`": "`- [ ] milk`", "`/g/<dein Name>`": "`/g/<your name>`",
}

// fences are blocks of code, which can hold what looks like a heading.
var fences = regexp.MustCompile("(?ms)^```.*?^```$")

// anchors are the ids that forges give the headings of a page.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, h := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
		all[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, h[1])] = true
	}
	return all
}

// Every link of the README, the handbook and the documents for contributors leads to a file and a heading that
// are there.
func TestDocumentLinks(t *testing.T) {
	is := is.New(t)
	files, err := filepath.Glob("help/*.md")
	is.NoErr(err)
	others, err := filepath.Glob("../.github/*.md")
	is.NoErr(err)
	is.Equal(len(others), 2)
	count := 0
	for _, file := range slices.Concat(files, others, []string{"../README.md"}) {
		text, err := os.ReadFile(file)
		is.NoErr(err)
		for _, link := range regexp.MustCompile(`\]\(([^)]*)\)`).FindAllStringSubmatch(
			fences.ReplaceAllString(string(text), ""), -1,
		) {
			if strings.HasPrefix(link[1], "https://") {
				continue
			}
			count++
			path, anchor, _ := strings.Cut(link[1], "#")
			if path == "" {
				path = filepath.Base(file)
			}
			if !strings.HasPrefix(file, "..") {
				is.Equal(path, filepath.Base(path)) // the server has the pages and nothing else
			}
			target, err := os.ReadFile(filepath.Join(filepath.Dir(file), path))
			if err != nil || anchor != "" && !anchors(string(target))[anchor] {
				t.Errorf("%s: %s leads nowhere: %v", file, link[1], err)
			}
		}
	}
	is.True(count > 80)
}

// The changes are in a form that programs read: a section for each version, the newest first, under a heading that
// begins with the version; in it what breaks comes before the rest.
func TestChanges(t *testing.T) {
	is := is.New(t)
	topic, ok := HelpTopic(English, "changes")
	is.True(ok)
	version := regexp.MustCompile(`^(\d+)\.(\d+)\.(\d+)( .+)?$`)
	var newer []int
	for i, section := range strings.Split(topic.Text, "\n## ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		is.True(len(strings.Fields(text)) > 5) // it says something
		if i == 0 && name == "Unreleased" {
			continue
		}
		parts := version.FindStringSubmatch(name)
		if parts == nil {
			t.Fatalf("%q does not begin with a version", name)
		}
		var numbers []int
		for _, part := range parts[1:4] {
			n, err := strconv.Atoi(part)
			is.NoErr(err)
			numbers = append(numbers, n)
		}
		is.True(newer == nil || slices.Compare(numbers, newer) < 0)
		newer = numbers
		before, _, found := strings.Cut(text, "\n### Breaking\n")
		is.True(!found || !strings.Contains(before, "\n### "))
	}
	is.True(newer != nil)
}

func TestREADMEIsShort(t *testing.T) {
	is := is.New(t)
	text, err := os.ReadFile("../README.md")
	is.NoErr(err)
	is.True(strings.Count(string(text), "\n") <= 150)
	picture, err := os.Stat("help/kist.webp")
	is.NoErr(err)
	is.True(picture.Size() < 120_000)
}

func TestFindHelp(t *testing.T) {
	is := is.New(t)
	hits := FindHelp(English, "FAIL2BAN")
	is.Equal(hits[0], HelpHit{
		"signing-in", English, "Signing in", English, "passwords, sessions and fail2ban",
	})
	for query, want := range map[string]string{
		"retry-after discord": "webhooks", "dns rebinding": "proxy-and-tls", "content_damaged journal": "repair", "prefetch messengers": "sharing",
	} {
		hits := FindHelp(English, query)
		is.Equal(len(hits), 1)
		is.Equal(hits[0].Name, want)
		is.True(hits[0].Line != "")
	}
	is.Equal(len(FindHelp(English, "nosuchword")), 0)
	is.Equal(len(FindHelp(English, "discord nosuchword")), 0)
	is.Equal(len(FindHelp(English, "  ")), 0)
	is.Equal(len(FindHelp(English, "proxy-and-tls.md")), 0) // where links lead is not text
	for _, hit := range FindHelp(English, "kist") {
		is.True(hit.Line != "")
	}
	is.Equal(len(FindHelp(English, "kist")), len(Topics(English)))
}

// A reader finds the words of their language, and the English ones of what has not been translated.
func TestFindTranslatedHelp(t *testing.T) {
	is := is.New(t)
	is.Equal(FindHelp("de", "PAPIERKORB versionen")[0], HelpHit{
		"deleted", "de", "Papierkorb und Versionen", "de", "Gelöschtes und Geändertes zurückholen",
	})
	hits := FindHelp("de", "mailfilter")
	is.Equal(len(hits), 1)
	is.Equal(hits[0].Name, "sharing")
	is.Equal(hits[0].LineLang, Lang("de"))
	hits = FindHelp("de", "dns rebinding")
	is.Equal(len(hits), 1)
	is.Equal(hits[0].Lang, English)
	is.Equal(hits[0].LineLang, English)
	is.Equal(FindHelp("de", "Zertifikate hostnamen")[0].Name, "proxy-and-tls") // by its summary
	is.Equal(len(FindHelp(English, "mailfilter")), 0)
}

// The page of single sign-on says for each of five services what to enter there and here.
func TestSingleSignOnServices(t *testing.T) {
	topic, _ := HelpTopic(English, "single-sign-on")
	for _, name := range []string{"Authelia", "Authentik", "Keycloak", "Pocket ID", "Kanidm"} {
		_, section, _ := strings.Cut(topic.Text, "\n## "+name+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, want := range []string{
			"https://kist.example.org/login/oidc/callback", "`--oidc-issuer https://", "`--oidc-scopes openid,profile",
		} {
			if !strings.Contains(section, want) {
				t.Errorf("%s: there is no %s", name, want)
			}
		}
	}
}
