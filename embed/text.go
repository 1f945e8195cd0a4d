package embed

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// packedTexts are the files of the folder text in the order of their names, each after its name without the ending,
// with a zero byte between them, in a third of the size. The test that compares them makes them.
//
//go:embed text.gz
var packedTexts []byte

// A Lang is a language that the texts are available in: a file of the folder text.
type Lang string

// English is used if none of a reader's languages is available.
const English Lang = "en"

// Langs lists the languages.
func Langs() []Lang { return slices.Sorted(maps.Keys(texts())) }

// Preferred is the language of a request with the Accept-Language header (RFC 9110, section 12.5.4), for people whose
// account has not chosen one: see langOf in httpapi/web/lang.go. A region is ignored.
func Preferred(header string) Lang {
	best, weight := English, 0.0
	for part := range strings.SplitSeq(header, ",") {
		tag, params, _ := strings.Cut(part, ";")
		primary, _, _ := strings.Cut(strings.TrimSpace(tag), "-")
		l := Lang(strings.ToLower(primary))
		q := 1.0
		if _, value, ok := strings.Cut(params, "q="); ok {
			q, _ = strconv.ParseFloat(strings.TrimSpace(value), 64) // an invalid weight is 0
		}
		if texts()[l] != nil && q > weight {
			best, weight = l, q
		}
	}
	return best
}

// A message is a text, or one for each plural category. Names in braces are replaced.
type message map[string]string

// UnmarshalJSON implements json.Unmarshaler.
func (m *message) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*m = message{"": text}
		return nil
	}
	return json.Unmarshal(b, (*map[string]string)(m))
}

// MarshalJSON implements json.Marshaler.
func (m message) MarshalJSON() ([]byte, error) {
	if text, ok := m[""]; ok {
		return marshal(text)
	}
	return marshal(map[string]string(m))
}

// marshal is json.Marshal without escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// texts reads the files on first use. Each has groups of messages. They are part of the binary, so a panic means that
// the build is broken.
var texts = sync.OnceValue(func() map[Lang]map[string]map[string]message {
	all := make(map[Lang]map[string]map[string]message)
	for pair := range slices.Chunk(bytes.Split(unpacked(packedTexts), []byte{0}), 2) {
		var groups map[string]map[string]message
		_ = must(0, json.Unmarshal(pair[1], &groups))
		all[Lang(pair[0])] = groups
	}
	return all
})

// find returns the message with a key such as "home.recent", or nil.
func (l Lang) find(key string) message {
	group, name, _ := strings.Cut(key, ".")
	return texts()[l][group][name]
}

// Has reports whether the language has a text of its own for the key. English has none for the texts whose English is
// in the code: the groups kinds, errors, problems and setups.
func (l Lang) Has(key string) bool { return l.find(key) != nil }

// Keys are the names in a group that begin with a prefix, without it.
func (l Lang) Keys(group, prefix string) []string {
	var names []string
	for name := range texts()[l][group] {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			names = append(names, rest)
		}
	}
	return names
}

// T returns a text. The arguments are names and values in turn. Whole numbers are written as people of the language
// write them. The value of n chooses among the plural forms. An unknown key is returned as it is.
func (l Lang) T(key string, args ...any) string {
	return l.fill(key, args, func(s string) string { return s })
}

// Problem is what the API says is wrong with a field, in English, for a page. It is returned as it is if the language
// has no text for it.
func (l Lang) Problem(english string) string {
	if m := texts()[l]["problems"][english]; m != nil {
		return m[""]
	}
	for key, m := range texts()[l]["problems"] { // the others have one number in them
		before, after, _ := strings.Cut(key, "{n}")
		n, found := strings.CutPrefix(english, before)
		n, ends := strings.CutSuffix(n, after)
		_, err := strconv.Atoi(n)
		if found && ends && err == nil {
			return strings.Replace(m[""], "{n}", n, 1)
		}
	}
	return english
}

// HTML is T for a text with elements in it: values of the type [template.HTML] are not escaped.
func (l Lang) HTML(key string, args ...any) template.HTML {
	return template.HTML(l.fill(key, args, template.HTMLEscapeString)) // #nosec G203 -- fill escapes everything else
}

var placeholder = regexp.MustCompile(`\{[a-zA-Z]+\}`)

func (l Lang) fill(key string, args []any, escape func(string) string) string {
	values := make(map[string]string, len(args)/2)
	form := "other"
	for i := 0; i+1 < len(args); i += 2 {
		name := fmt.Sprint(args[i])
		switch v := args[i+1].(type) {
		case template.HTML:
			values[name] = string(v)
		case int, int64:
			n, _ := strconv.ParseInt(fmt.Sprint(v), 10, 64)
			values[name] = escape(l.Number(n))
			if name == "n" && n == 1 { // the rule of English and of German
				form = "one"
			}
		default:
			values[name] = escape(fmt.Sprint(v))
		}
	}
	m := l.find(key)
	text := cmp.Or(m[""], m[form], key)
	var b strings.Builder
	at := 0
	for _, found := range placeholder.FindAllStringIndex(text, -1) {
		value, ok := values[text[found[0]+1:found[1]-1]]
		if ok {
			b.WriteString(escape(text[at:found[0]]) + value)
			at = found[1]
		}
	}
	return b.String() + escape(text[at:])
}

// Number writes a whole number.
func (l Lang) Number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	start := len(digits) - len(strings.TrimPrefix(digits, "-"))
	for i := len(digits) - 3; i > start; i -= 3 {
		digits = digits[:i] + l.find("format.thousands")[""] + digits[i:]
	}
	return digits
}

// Size writes a number of bytes in decimal units, like file managers.
func (l Lang) Size(n int64) string {
	if n < 1000 {
		return l.T("format.bytes", "n", n)
	}
	value, unit := float64(n), -1
	for unit < 0 || value >= 999.5 && unit < len("kMGTP")-1 {
		value /= 1000
		unit++
	}
	digits := 0
	if value < 99.95 {
		digits = 1
	}
	text := strings.TrimSuffix(strconv.FormatFloat(value, 'f', digits, 64), ".0")
	return strings.Replace(text, ".", l.find("format.decimal")[""], 1) + "\u00a0" + "kMGTP"[unit:unit+1] + "B"
}

// Date writes a day, and Time a day and the time of day, both in UTC.
func (l Lang) Date(t time.Time) string {
	t = t.UTC()
	month := strings.Split(l.find("format.months")[""], " ")[t.Month()-1]
	return l.T("format.date", "day", strconv.Itoa(t.Day()), "month", month, "year", strconv.Itoa(t.Year()))
}

// Time writes a day and the time of day in UTC.
func (l Lang) Time(t time.Time) string {
	return l.T("format.time", "date", l.Date(t), "time", t.UTC().Format("15:04"))
}

// Wait writes a waiting time, rounded up: "in 4 minutes".
func (l Lang) Wait(wait time.Duration) string {
	switch n := int(math.Ceil(wait.Seconds())); {
	case n < 90:
		return l.T("wait.seconds", "n", max(n, 1))
	case n < 90*60:
		return l.T("wait.minutes", "n", (n+59)/60)
	default:
		return l.T("wait.hours", "n", (n+3599)/3600)
	}
}

// laterText is the suffix of scripts with texts that the app loads later. The part before it is the name of the module.
const laterText = "-later"

// scriptTexts are the groups of texts that the scripts of pages use, by the name of the script that has them. A script
// that the app loads later has those of its imports too.
var scriptTexts = map[string][]string{
	"app-text": {
		"add", "app", "bookmark", "common", "editor", "errors", "folder", "format", "forms", "home", "kind", "list",
		"metadata", "offline", "problems", "reader", "search", "share", "tags", "tiles", "uploads", "viewer",
	},
	"account-later":     {"account", "sessions"},
	"activity-later":    {"activity", "events", "sessions"},
	"admin-later":       {"account", "admin", "backups", "instance", "settings"},
	"backups-later":     {"backups"},
	"board-later":       {"board", "guests"},
	"cards-later":       {"people"},
	"collections-later": {"collections"},
	"conflict-later":    {"conflict"},
	"help-later":        {"shortcuts"},
	"house-later":       {"house"},
	"keys-later":        {"account", "keys", "sessions", "setups"},
	"own-later":         {"own", "pictures"},
	"picker-later":      {"board"},
	"pictures-later":    {"pictures", "tray"},
	"moving-later":      {"import", "remarks"},
	"remote-later":      {"remote"},
	"news-later":        {"news"},
	"replace-later":     {"replace", "sessions", "trash", "versions"},
	"requests-later":    {"guests", "requests"},
	"security-later":    {"account", "activity", "events", "identities", "keys", "security", "sessions", "setups"},
	"settings-later":    {"settings"},
	"ticks-later":       {"ticks"},
	"trash-later":       {"sessions", "trash"},
	"uploads-later":     {"tray"},
	"versions-later":    {"sessions", "versions"},
	"waiting-later":     {"waiting"},
	"webhooks-later":    {"webhooks"},
	"welcome-later":     {"welcome"},
	// What a sender may be told. English comes with the answer.
	"up-text": {
		"errors.already_decided", "errors.body_cut_off", "errors.busy", "errors.captcha_unavailable", "errors.disk_full",
		"errors.expired", "errors.internal", "errors.limit_reached", "errors.name_required", "errors.no_inodes",
		"errors.not_found", "errors.quota_exceeded", "errors.sender_limit", "errors.storage_failed", "errors.too_large",
		"errors.too_late", "errors.too_many_uploads", "errors.too_many_writes", "errors.type_not_allowed",
		"errors.unavailable", "errors.upload_expired", "format", "up",
	},
	"extension": {"extension", "format", "problems"},
}

// manifestTexts are the texts of the extension's manifest, which the browser reads, in its format.
func (l Lang) manifestTexts() ([]byte, error) {
	all := make(map[string]map[string]string)
	for name, m := range texts()[l]["manifest"] {
		all[name] = map[string]string{"message": m[""]}
	}
	return marshal(all)
}

// extensionTexts is a script for the browser extension, with the texts of every language. It chooses by the language of
// the browser.
func extensionTexts() ([]byte, error) {
	all := make(map[Lang]map[string]message)
	for _, l := range Langs() {
		all[l] = l.groups(scriptTexts["extension"])
	}
	b, err := marshal(all)
	return fmt.Appendf(nil, "const texts = %s;\n"+
		"const lang = [...navigator.languages, '%s'].map((l) => l.split('-')[0]).find((l) => texts[l]);\n"+
		"globalThis.kist = { lang, texts: texts[lang] };\n", b, English), err
}

// groups are the messages of some groups, by key. A group may be a single key, which the language may lack.
func (l Lang) groups(groups []string) map[string]message {
	all := make(map[string]message)
	for _, key := range groups {
		group, one, single := strings.Cut(key, ".")
		for name, m := range texts()[l][group] {
			if !single || name == one {
				all[group+"."+name] = m
			}
		}
	}
	return all
}

// scriptName is the logical name of a script of scriptTexts.
func (l Lang) scriptName(name string) string { return name + "-" + string(l) + ".js" }

// pageScripts are the names of the scripts of scriptTexts that pages load, without that of the browser extension.
func pageScripts() []string {
	names := slices.Sorted(maps.Keys(scriptTexts))
	return slices.DeleteFunc(names, func(name string) bool { return name == "extension" })
}

// ModuleTexts are the served names of the scripts with the texts of modules of the app, by module. The app loads such a
// script before the module. The other modules need only the texts that come with the page.
func (l Lang) ModuleTexts() map[string]string {
	all := make(map[string]string)
	for _, name := range pageScripts() {
		if module, later := strings.CutSuffix(name, laterText); later {
			all[module] = must(Name(l.scriptName(name)))
		}
	}
	return all
}

// script is the script of scriptTexts with the name, in a language.
func (l Lang) script(name string) ([]byte, error) {
	all := l.groups(scriptTexts[name])
	if strings.HasSuffix(name, laterText) {
		b, err := marshal(all)
		return fmt.Appendf(nil, "Object.assign(globalThis.kist.texts,%s);\n", b), err
	}
	b, err := marshal(map[string]any{"lang": l, "texts": all})
	// A browser's first use of Intl takes as long as drawing a page. Here it does not
	// wait for the larger script, and what came with the HTML is drawn before.
	return fmt.Appendf(nil, "globalThis.kist=%s;\n"+
		"requestAnimationFrame(() => setTimeout(() => new Intl.NumberFormat('%s')));\n", b, l), err
}
