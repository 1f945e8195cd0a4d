package archive

import (
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"kist/kv/record"
)

// maxName bounds a name in bytes, so that it fits file systems with a number added.
const maxName = 200

// devices are names that Windows does not accept, with any extension.
var devices = map[string]bool{"con": true, "prn": true, "aux": true, "nul": true}

func init() {
	for _, digit := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³"} {
		devices["com"+digit], devices["lpt"+digit] = true, true
	}
}

// Safe makes a name that can be a file on Windows, macOS and Linux.
func Safe(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`<>:"/\|?*`, r) || r == utf8.RuneError || r == 0x7f ||
			unicode.Is(unicode.Bidi_Control, r) {
			return '_'
		}
		return r
	}, name)
	ext := path.Ext(name)
	if len(ext) > 20 {
		ext = ""
	}
	base := strings.TrimSuffix(name, ext)
	for len(base)+len(ext) > maxName {
		_, size := utf8.DecodeLastRuneInString(base)
		base = base[:len(base)-size]
	}
	name = strings.TrimRight(strings.TrimLeft(base+ext, " "), ". ")
	first, _, _ := strings.Cut(name, ".")
	if devices[strings.ToLower(strings.TrimRight(first, " "))] {
		name = "_" + name
	}
	if name == "" {
		return "_"
	}
	return name
}

// Names makes safe names that differ also for systems that ignore case. The first of
// several with the same name keeps it.
type Names struct {
	used map[string]int // how many numbers were tried, by folded name
}

// Unique returns the name, or another one if it was returned before.
func (n *Names) Unique(name string) string {
	if n.used == nil {
		n.used = map[string]int{}
	}
	name = Safe(name)
	ext := path.Ext(name)
	base := strings.TrimSuffix(name, ext)
	if base == "" { // .profile
		base, ext = name, ""
	}
	for first := record.Fold(name); ; name = base + " (" + strconv.Itoa(n.used[first]) + ")" + ext {
		if key := record.Fold(name); n.used[key] == 0 {
			n.used[key] = 1
			return name
		}
		n.used[first]++
	}
}
