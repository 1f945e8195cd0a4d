package record

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/net/idna"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"kist/kv/field"
)

// MaxSlug is the longest slug in bytes.
const MaxSlug = 128

// SlugPattern describes slugs to readers of the schema.
const SlugPattern = `^[A-Za-z0-9][A-Za-z0-9._~@-]{0,127}$`

// reserved are the first path segments that the server uses or may use later.
// No item may have such a slug.
var reserved = func() map[string]bool {
	words := map[string]bool{}
	for w := range strings.FieldsSeq(`about account admin api app apps assets auth backup bookmarks callback captcha
		claim collections css dashboard device docs download downloads edit embed error events extension
		extension.zip favicon.ico
		feed files folders g game games health healthz help home hook hooks i icon icons image images import export
		index index.html install integrations js keys link links live login logout manifest.json manifest.webmanifest
		me media metrics new note notes oauth openapi openapi.json p page pages password ping preview privacy public
		queue raw readyz recipe recipes reference register remote-upload reset robots.txt s search security.txt session
		sessions settings setup share shares sharex shorten signin signout signup sitemap.xml snippet snippets static
		stats status sw.js system t tag tags terms thumb thumbs tus up upload uploads upload-requests user users v
		version w webhook webhooks well-known www x`) {
		words[w] = true
	}
	return words
}()

var errSlug = errors.New("must be 1 to 128 characters of A-Z a-z 0-9 . _ ~ @ - and begin with a letter or digit")

// CleanSlug is the rule for slugs. Case counts. It refuses reserved words, in
// any case, and slugs that look like an id.
func CleanSlug(t string) (string, error) {
	if len(t) > MaxSlug {
		return "", errSlug
	}
	for i := range len(t) {
		c := t[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || strings.IndexByte("._~@-", c) < 0) {
			return "", errSlug
		}
	}
	if t == "" {
		return "", errSlug
	}
	if reserved[strings.ToLower(t)] {
		return "", fmt.Errorf("is an address of the site itself; choose another, such as my-%s", t)
	}
	if _, err := uuid.Parse(t); err == nil {
		return "", errors.New("must not look like an id")
	}
	return t, nil
}

// slugLetters are the letters and digits without those that are easily
// confused: 0 O, 1 l I.
const slugLetters = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// SlugLength is the length of a generated slug in characters. With 57 letters
// to choose from, that is 58 bits.
const SlugLength = 10

// NewSlug makes a slug from random bytes. fill must supply them from a
// cryptographic source.
func NewSlug(fill func([]byte)) string {
	var slug [SlugLength]byte
	var random [SlugLength * 2]byte
	for n := 0; n < SlugLength; {
		fill(random[:])
		for _, b := range random {
			// Bytes past the last whole multiple would favour some letters.
			if int(b) >= 256/len(slugLetters)*len(slugLetters) {
				continue
			}
			slug[n] = slugLetters[int(b)%len(slugLetters)]
			n++
			if n == SlugLength {
				return string(slug[:])
			}
		}
	}
	return string(slug[:])
}

// Bounds of tags.
const (
	MaxTag  = 64 // characters of a name
	MaxTags = 64 // tags of one record

	MaxOwnTags = 10_000 // tags of one owner: all of them are in one answer
)

// CleanTag is the rule for tag names: one line of 1 to MaxTag characters, white
// space trimmed and folded, NFC, without control characters and commas. Something of it can be seen.
func CleanTag(t string) (string, error) {
	t = norm.NFC.String(strings.Join(strings.Fields(t), " "))
	switch n := utf8.RuneCountInString(t); {
	case !utf8.ValidString(t): // its index key would differ from its stored name
		return "", errors.New("must be valid UTF-8")
	case n == 0:
		return "", errors.New("must not be empty")
	case n > MaxTag:
		return "", fmt.Errorf("must be at most %d characters long", MaxTag)
	case strings.ContainsFunc(t, unprintable):
		return "", errors.New("must not contain control characters")
	case !strings.ContainsFunc(t, visible):
		return "", errors.New("must have a character that can be seen")
	case strings.Contains(t, ","):
		return "", errors.New("must not contain a comma")
	}
	return t, nil
}

// Fold is the form in which names and words are compared: NFC, without regard
// to case (Unicode case folding).
func Fold(t string) string {
	for i := range len(t) {
		if t[i] >= utf8.RuneSelf {
			return norm.NFC.String(cases.Fold().String(norm.NFC.String(t)))
		}
	}
	return strings.ToLower(t)
}

// SamePage is a key that is equal for all addresses of one page. It starts from
// field.CleanURL and ignores the scheme's default port, slashes at the end of
// the path, tracking parameters, the order of parameters with different names,
// how characters are escaped, and the fragment. A fragment that looks like the
// route of a script-made page (#/ and #!) counts. Text that is not an address is
// its own key. Keys are stored: another rule needs a migration of pages.
func SamePage(address string) string {
	u, err := field.ParseURL(address)
	if err != nil || u.Host == "" {
		return address
	}
	u.Scheme = strings.ToLower(u.Scheme)
	port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	u.Host = strings.TrimSuffix(strings.ToLower(u.Host), port)
	for _, path := range []*string{&u.Path, &u.RawPath} {
		*path = strings.TrimRight(*path, "/")
	}
	if !strings.HasPrefix(u.Fragment, "/") && !strings.HasPrefix(u.Fragment, "!") {
		u.Fragment, u.RawFragment = "", ""
	}
	var kept []string
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		if part != "" && !tracks(part) {
			kept = append(kept, part)
		}
	}
	slices.SortStableFunc(kept, func(a, b string) int {
		one, _, _ := strings.Cut(a, "=")
		other, _, _ := strings.Cut(b, "=")
		return strings.Compare(one, other)
	})
	u.RawQuery, u.ForceQuery = strings.Join(kept, "&"), false
	return evenEscapes(u.String())
}

// evenEscapes escapes the characters of an address in one way: RFC 3986, sections 6.2.2.1 and 6.2.2.2. Letters, digits and
// -._~ are not escaped, bytes outside of ASCII are, and the hexadecimal digits are capitals.
func evenEscapes(address string) string {
	const unreserved = "-._~"
	var b strings.Builder
	for i := 0; i < len(address); i++ {
		c := address[i]
		escaped := false
		if c == '%' && i+2 < len(address) {
			code, err := hex.DecodeString(address[i+1 : i+3])
			if err == nil {
				c, escaped = code[0], true
				i += 2
			}
		}
		plain := c < utf8.RuneSelf && (unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c)) || strings.IndexByte(unreserved, c) >= 0)
		if plain || !escaped && c < utf8.RuneSelf {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// Spellings are the addresses of the same page with the host in letters of its own
// script and in punycode, the given one first. They have keys of their own.
func Spellings(address string) []string {
	u, err := field.ParseURL(address)
	if err != nil {
		return []string{address}
	}
	all := []string{address}
	for _, spell := range []func(string) (string, error){idna.Lookup.ToASCII, idna.Lookup.ToUnicode} {
		host, err := spell(u.Hostname())
		if err != nil || host == u.Hostname() {
			continue
		}
		other := *u
		other.Host = host
		if port := u.Port(); port != "" {
			other.Host += ":" + port
		}
		if SamePage(other.String()) != SamePage(address) {
			all = append(all, other.String())
		}
	}
	return all
}

// tracking are parameters by which advertisers and senders of mail recognise
// who follows a link.
var tracking = func() map[string]bool {
	names := map[string]bool{}
	for n := range strings.FieldsSeq(`fbclid gclid gclsrc dclid gbraid wbraid msclkid yclid twclid ttclid
		li_fat_id igshid igsh mc_cid mc_eid mkt_tok vero_id oly_anon_id oly_enc_id _hsenc _hsmi __hstc __hssc __hsfp
		srsltid _openstat wickedid rb_clickid s_cid ml_subscriber ml_subscriber_hash`) {
		names[n] = true
	}
	return names
}()

// tracks reports whether a parameter says who shares or follows a link. One called si is such a mark of video and music
// sites, unless it is a number: that can choose a page.
func tracks(part string) bool {
	name, value, _ := strings.Cut(part, "=")
	name = strings.ToLower(name)
	if name == "si" {
		return strings.Trim(value, "0123456789") != ""
	}
	return tracking[name] || strings.HasPrefix(name, "utm_")
}

// visible reports characters that draw something: no blanks, no fillers, and nothing that only joins or shapes others.
func visible(r rune) bool {
	return unicode.IsGraphic(r) && !unicode.IsSpace(r) && r != '\u2800' && // the blank pattern of Braille
		!unicode.In(r, unicode.Mn, unicode.Me, unicode.Other_Default_Ignorable_Code_Point)
}

// unprintable reports characters that control a terminal, the lines or the
// direction of text.
func unprintable(r rune) bool {
	return unicode.IsControl(r) || field.Bidi(r) || r == '\u2028' || r == '\u2029'
}

// CleanTitle is the rule for titles: one line of at most MaxName characters.
// Line breaks and tabs become spaces. Other control characters, and those that
// change the direction of text, are removed, as in file names.
func CleanTitle(t string) (string, error) {
	t = printable(t)
	if utf8.RuneCountInString(t) > MaxName {
		return "", fmt.Errorf("must be at most %d characters long", MaxName)
	}
	return t, nil
}

// printable turns any text into one line, like a title.
func printable(t string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r) && unprintable(r):
			return ' '
		case unprintable(r):
			return -1
		}
		return r
	}, strings.ReplaceAll(t, "\r\n", "\n"))
}

// MaxFileName is the longest file name in bytes.
const MaxFileName = 255

// CleanFileName turns any text into a name that is safe to save under. It takes
// the last part of a path (with either kind of slash), NFC, without control and
// direction characters, and at most MaxFileName bytes including the extension.
// An empty name becomes "file". A name that Windows gives to devices gets a "_"
// in front. It never fails.
func CleanFileName(t string) (string, error) {
	t = strings.ToValidUTF8(t, "\uFFFD")
	if i := strings.LastIndexAny(t, `/\`); i >= 0 {
		t = t[i+1:]
	}
	t = norm.NFC.String(strings.Map(func(r rune) rune {
		if unprintable(r) {
			return -1
		}
		return r
	}, t))
	t = trimEnd(strings.TrimSpace(t))
	if len(t) > MaxFileName {
		ext := path.Ext(t)
		if len(ext) > 32 {
			ext = ""
		}
		stem := t[:MaxFileName-len(ext)]
		for !utf8.ValidString(stem) {
			stem = stem[:len(stem)-1]
		}
		t = trimEnd(stem) + ext
	}
	if t == "" {
		return "file", nil
	}
	if device(t) {
		return CleanFileName("_" + t)
	}
	return t, nil
}

// trimEnd removes what Windows does not keep at the end of a name.
func trimEnd(t string) string {
	return strings.TrimRightFunc(t, func(r rune) bool { return r == '.' || unicode.IsSpace(r) })
}

// device reports whether Windows treats the name as a device, whatever its
// extension.
func device(t string) bool {
	stem, _, _ := strings.Cut(strings.ToUpper(t), ".")
	stem = strings.TrimSpace(stem)
	switch stem {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	port, got := strings.CutPrefix(stem, "COM")
	if !got {
		port, got = strings.CutPrefix(stem, "LPT")
	}
	return got && len([]rune(port)) == 1 && strings.Contains("0123456789¹²³", port)
}

var errColor = errors.New("must be a colour of the form #RRGGBB")

// ColorPattern describes colours to readers of the schema.
const ColorPattern = `^#[0-9A-F]{6}$`

// CleanColor is the rule for colours: #RRGGBB, in upper case. The # may be left
// out, and three digits stand for six (#abc is #AABBCC).
func CleanColor(t string) (string, error) {
	t = strings.ToUpper(strings.TrimPrefix(t, "#"))
	if strings.Trim(t, "0123456789ABCDEF") != "" {
		return "", errColor
	}
	switch len(t) {
	case 3:
		return "#" + string([]byte{t[0], t[0], t[1], t[1], t[2], t[2]}), nil
	case 6:
		return "#" + t, nil
	}
	return "", errColor
}

// CleanName is the rule for the visible names of accounts, keys and folders:
// the rule of Name fields. The name may be empty.
func CleanName(t string) (string, error) {
	if !utf8.ValidString(t) {
		return "", errors.New("must be valid UTF-8")
	}
	t, err := oneLine(t)
	if err != nil {
		return "", err
	}
	return t, nil
}

var oneLine = field.CleanName(MaxName)

// UserNamePattern describes user names to readers of the schema.
const UserNamePattern = `^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`

// CleanUserName is the rule for user names. They are compared ignoring case.
func CleanUserName(t string) (string, error) {
	for i := range len(t) {
		c := t[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '_' && c != '-') || i == 64 {
			t = ""
			break
		}
	}
	if t == "" {
		return "", errors.New("must be 1 to 64 characters of A-Z a-z 0-9 . _ - and begin with a letter or digit")
	}
	return t, nil
}

// Tag is an owner's label for all kinds of content.
type Tag struct {
	ID      ID        `json:"ID"`
	Owner   ID        `json:"Owner"`
	Name    string    `json:"Name"`
	Color   string    `json:"Color"`
	Created time.Time `json:"Created"`
}

// labelColors can be told from a light and from a dark page.
var labelColors = [...]string{
	"#D34141", "#BD582C", "#A36926", "#8C7321", "#667F1E", "#208820", "#1F8653", "#1F8470",
	"#208289", "#277DA8", "#3775D0", "#626ADA", "#835FD9", "#A74BD5", "#C82FBE", "#D13980",
}

// ColorOf is the colour of a tag or folder of this name unless somebody chose another. It ignores case.
func ColorOf(name string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.ToLower(name))) // cannot fail
	return labelColors[h.Sum32()%uint32(len(labelColors))]
}

// Folder is a folder of files.
type Folder struct {
	ID      ID        `json:"ID"`
	Owner   ID        `json:"Owner"`
	Name    string    `json:"Name"`
	Color   string    `json:"Color"`
	Created time.Time `json:"Created"`
}

// LabelForm is a caller's input for a tag or a folder.
type LabelForm struct {
	Name, Color string
	rule        field.Rule
	max         int
}

// TagForm is the form of a tag.
func TagForm(t Tag) *LabelForm { return &LabelForm{t.Name, t.Color, CleanTag, MaxTag} }

// FolderForm is the form of a folder.
func FolderForm(f Folder) *LabelForm {
	return &LabelForm{f.Name, f.Color, CleanName, MaxName}
}

// Fields is the shape of a create and a patch.
func (f *LabelForm) Fields(s *field.Set) {
	s.Ruled("name", &f.Name, f.rule, "", f.max, field.Required, field.Filled).
		Says("Name; unique, ignoring case.", `"travel"`)
	s.Ruled("color", &f.Color, CleanColor, `^#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$`, 7).
		Says("Colour; # may be left out and three digits stand for six.", `"#3B82F6"`)
}
