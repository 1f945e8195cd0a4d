package media

import (
	"strings"
	"testing"
	"testing/iotest"
	"unicode"
	"unicode/utf8"

	"github.com/matryer/is"
)

// texts are what people write, by the charsets that have their letters.
var texts = map[string][]string{
	"Plain English, as PowerShell writes it.\r\n": {"utf-8", "windows-1252", "utf-8 with its mark"},
	"Größe, Übermut, Äpfel – 5 €, ganz normaler Text.\r\n": {
		"utf-8", "windows-1252", "utf-16le", "utf-16be", "utf-16le with its mark", "utf-16be with its mark", "utf-8 with its mark",
	},
	"Привет, это обычный текстовый файл.\r\n": {"utf-8", "windows-1251", "koi8-r", "ibm866", "utf-16le with its mark"},
	"日本語のテキストです。これはテストファイルです。\r\n":            {"utf-8", "shift_jis", "euc-jp", "utf-16be with its mark"},
	"这是一个普通的文本文件，用于测试编码。\r\n":                 {"utf-8", "gb18030", "gbk", "utf-16le with its mark"},
	"這是一個普通的文字檔案，用於測試編碼。\r\n":                 {"utf-8", "big5"},
	"안녕하세요 세계, 한국어 뉴스와 날씨\r\n":                {"utf-8", "euc-kr"},
	"Zażółć gęślą jaźń, książka i śnieg\r\n":  {"utf-8", "windows-1250"},
	"Καλημέρα κόσμε, τι κάνεις\r\n":           {"utf-8", "windows-1253"},
	"שלום עולם, מה שלומך היום\r\n":            {"utf-8", "windows-1255"},
}

// inCharset is the text in a charset of texts.
func inCharset(t testing.TB, name, text string) string {
	t.Helper()
	charset, marked := strings.CutSuffix(name, " with its mark")
	if marked {
		text = "\ufeff" + text
	}
	switch charset {
	case "utf-16le":
		return utf16le(text)
	case "utf-16be":
		return utf16be(text)
	}
	return encoded(t, charset, text)
}

// textsInCharsets has one text in each charset of texts.
func textsInCharsets(t testing.TB) map[string]string {
	all := map[string]string{}
	for text, charsets := range texts {
		for _, name := range charsets {
			all[name] = inCharset(t, name, strings.Repeat(text, 20))
		}
	}
	return all
}

// TestText: a text of any charset is read, whole or cut within a character.
func TestText(t *testing.T) {
	t.Parallel()
	for text, charsets := range texts {
		long := strings.Repeat(text, 20)
		for _, name := range charsets {
			is := is.New(t)
			b := inCharset(t, name, long)
			got, ok := Text([]byte(b), false)
			is.True(ok)
			is.Equal(got, long) // in the charset name
			for cut := range 8 {
				got, ok := Text([]byte(b[:len(b)-cut]), true)
				is.True(ok)
				if !strings.HasPrefix(long, got) || len(got) < len(long)-3*cut-utf8.UTFMax {
					t.Errorf("%s, cut by %d bytes: %q", name, cut, got[max(0, len(got)-20):])
				}
			}
		}
	}
}

// TestTextOrNot: a few characters may be strange, and those that control
// terminals are left out.
func TestTextOrNot(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		bytes, want string
		ok          bool
	}{
		"nothing":            {"", "", true},
		"ASCII":              {"a\tb\r\n", "a\tb\r\n", true},
		"colours":            {"\x1b[31merror\x1b[0m: x\n", "error: x\n", true},
		"bells and feeds":    {"page\f\x0b\x1b[1mbold\x1b[0m\x07\n", "page\f\x0bbold\n", true},
		"a NUL":              {"line 1\nline\x00 2\n", "line 1\nline\x00 2\n", true},
		"many NULs":          {strings.Repeat("a\x00\x00\x00", 9), "", false},
		"an old umlaut":      {"x\xe4", "xä", true},
		"a broken character": {"Größe und Übermut für alle\xff", "Größe und Übermut für alle\ufffd", true},
		"a picture":          {"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x01", "", false},
		"two bytes":          {"\x00\x01", "", false},
		"one byte":           {"\xff", "ÿ", true},
		"a mark":             {"\xff\xfe", "", true},
	} {
		got, ok := Text([]byte(row.bytes), false)
		if ok != row.ok || got != row.want {
			t.Errorf("%s: got %q, %t, want %q, %t", name, got, ok, row.want, row.ok)
		}
	}
}

// TestCharsetAtStart: the beginning is enough, wherever it ends.
func TestCharsetAtStart(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for before := range 4 {
		c, err := CharsetAtStart(strings.NewReader(strings.Repeat("x", MaxSurveyed-before) + "é, and more"))
		is.NoErr(err)
		is.Equal(c, utf8Text)
	}
	c, err := CharsetAtStart(iotest.OneByteReader(strings.NewReader("Gr\xfc\xdfe")))
	is.NoErr(err)
	is.Equal(c.Name, "windows-1252")
	_, err = CharsetAtStart(iotest.ErrReader(iotest.ErrTimeout))
	is.Equal(err, iotest.ErrTimeout)
}

// TestName: names of files in the charsets of old systems.
func TestName(t *testing.T) {
	t.Parallel()
	for charset, names := range map[string][]string{
		"utf-8":        {"a.txt", "Größe.txt", "日本語.txt", ""},
		"windows-1252": {"Café Müller.txt", "señal.txt", "Größe.pdf", "naïve café.docx", "Übung.txt", "€ 5.txt", "São Paulo.jpg", "FÜR MÄRZ.txt"},
		"windows-1251": {"Отчёт.txt", "Привет.docx", "Новый документ.doc", "Фото.jpg"},
		"koi8-r":       {"Привет мир.txt"},
		"windows-1250": {"Zażółć gęślą jaźń.txt"},
		"shift_jis":    {"テスト.txt", "日本語のファイル.txt", "ソフト.txt"},
		"euc-jp":       {"日本語のファイル.txt"},
		"gbk":          {"新建文本文档.txt", "中文标题.docx"},
		"big5":         {"中文標題.txt"},
		"euc-kr":       {"새 텍스트 문서.txt"},
	} {
		for _, name := range names {
			if got := Name(encoded(t, charset, name)); got != name {
				t.Errorf("%s in %s: got %s", name, charset, got)
			}
		}
	}
	if got := Name("Größe und Übermut \xe6\x97"); got != "Größe und Übermut \xe6\x97" {
		t.Errorf("UTF-8 that was cut off: %q", got)
	}
}

// TestSeparator: what separates cells, in the forms that spreadsheets write.
func TestSeparator(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		start string
		want  rune
		rest  string // if it differs from the start
	}{
		{"", ',', ""},
		{"Name\nMüller\n", ',', ""},
		{"Name,Preis\r\nMüller,\"3,50\"\r\n", ',', ""},
		{"Name;Preis\r\nMüller;3,50\r\n", ';', ""},
		{"\ufeffName;Preis\n", ';', "Name;Preis\n"},
		{"Name\tPreis\r\nMüller\t3,50\r\n", '\t', ""},
		{"Name|Preis\nMüller|3,50\n", '|', ""},
		{"sep=;\r\nName,x;Preis\r\n", ';', "Name,x;Preis\r\n"},
		{"\"sep=\t\"\nName\tPreis\n", '\t', "Name\tPreis\n"},
		{"SEP=|\na|b", '|', "a|b"},
		{"\ufeffsep=,\na,b", ',', "a,b"},
		{"\"a;b;c\",d\n", ',', ""},
		{"\"a\nb;c;d\",e\n", ',', ""},
		{"Prices of 2026\n\nName;Preis\n", ';', ""},
		{"a,b;c\n", ',', ""},
		{"url\ttitle, tags\n", ',', ""},
	} {
		rest := c.rest
		if rest == "" {
			rest = c.start
		}
		if got, after := Separator(c.start); got != c.want || after != rest {
			t.Errorf("%q: got %q, %q", c.start, got, after)
		}
	}
}

// FuzzText: whatever the bytes are, a text is valid UTF-8 that controls no terminal.
func FuzzText(f *testing.F) {
	for _, b := range textsInCharsets(f) {
		f.Add([]byte(b[:min(len(b), 200)]), true)
	}
	f.Add([]byte("\x1b[31m\x00\x07"), false)
	f.Add([]byte("\xff\xfe\x00\xd8"), true)
	f.Fuzz(func(t *testing.T, b []byte, cut bool) {
		text, ok := Text(b, cut)
		if !utf8.ValidString(text) || !ok && text != "" {
			t.Errorf("%q: %q, %t", b, text, ok)
		}
		if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) && r != 0 }) {
			t.Errorf("%q: %q", b, text)
		}
		Separator(text)
		if name := Name(string(b)); utf8.Valid(b) && name != string(b) {
			t.Errorf("%q: %q", b, name)
		}
	})
}
