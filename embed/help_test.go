package embed

import (
	"bytes"
	"compress/gzip"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/matryer/is"
)

var update = flag.Bool("update", false, "rewrite help.gz from help/*.md")

// The handbook in the binary is that of the files.
func TestHandbookIsPacked(t *testing.T) {
	is := is.New(t)
	read := func(name string) string {
		text, err := os.ReadFile("help/" + name + ".md")
		is.NoErr(err)
		return string(text)
	}
	pages := []string{read("index")}
	for _, line := range entriesOf(pages[0]) {
		pages = append(pages, read(line[2]))
	}
	all := strings.Join(pages, "\x00")
	isPacked(t, "help.gz", packedHelp, all)
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
	is.Equal(len(files), len(Topics())+1) // and the index
	seen := map[string]bool{}
	for _, topic := range Topics() {
		is.True(!seen[topic.Name])
		seen[topic.Name] = true
		is.True(strings.HasPrefix(topic.Text, "# "+topic.Title+"\n\n"))
		is.True(strings.HasSuffix(topic.Text, "\n"))
		found, ok := HelpTopic(topic.Name)
		is.True(ok)
		is.Equal(found, topic)
	}
	_, ok := HelpTopic("index")
	is.True(!ok)
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
	topic, ok := HelpTopic("changes")
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
	hits := FindHelp("FAIL2BAN")
	is.Equal(hits[0], HelpHit{"signing-in", "Signing in", "passwords, sessions and fail2ban"})
	for query, want := range map[string]string{
		"retry-after discord": "webhooks", "dns rebinding": "proxy-and-tls", "content_damaged journal": "repair", "prefetch messengers": "sharing",
	} {
		hits := FindHelp(query)
		is.Equal(len(hits), 1)
		is.Equal(hits[0].Name, want)
		is.True(hits[0].Line != "")
	}
	is.Equal(len(FindHelp("nosuchword")), 0)
	is.Equal(len(FindHelp("discord nosuchword")), 0)
	is.Equal(len(FindHelp("  ")), 0)
	is.Equal(len(FindHelp("proxy-and-tls.md")), 0) // where links lead is not text
	for _, hit := range FindHelp("kist") {
		is.True(hit.Line != "")
	}
	is.Equal(len(FindHelp("kist")), len(Topics()))
}

// The page of single sign-on says for each of five services what to enter there and here.
func TestSingleSignOnServices(t *testing.T) {
	topic, _ := HelpTopic("single-sign-on")
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
