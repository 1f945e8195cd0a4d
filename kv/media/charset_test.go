package media

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/matryer/is"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

// encoded is a text in a charset.
func encoded(t testing.TB, name, text string) string {
	t.Helper()
	e, err := htmlindex.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.NewEncoder().String(text)
	if err != nil {
		t.Fatal(name, text, err)
	}
	return out
}

func utf16le(text string) string {
	out, _ := unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM).NewEncoder().String(text)
	return out
}

func utf16be(text string) string {
	out, _ := unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM).NewEncoder().String(text)
	return out
}

func page(name string) string {
	return "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n" +
		`<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=` + name + `">` + "\n"
}

const mixed = "Größe – 5 €, Crème brûlée"

// TestCharset: a byte order mark comes first, then what is declared, then UTF-8,
// and then the likeliest of the others.
func TestCharset(t *testing.T) {
	for name, row := range map[string]struct {
		text, media string
		want        string // the name, "?" if guessed, and what the text becomes
	}{
		"nothing":                     {"", "", "utf-8 "},
		"ASCII":                       {"plain", "", "utf-8 plain"},
		"ASCII that declares another": {page("windows-1251") + "plain", "", "utf-8 plain"},
		"UTF-8":                       {mixed, "", "utf-8 " + mixed},
		"UTF-8 with its mark":         {"\ufeff" + mixed, "text/csv; charset=windows-1252", "utf-8 " + mixed},
		"UTF-8 as Latin-1":            {page("iso-8859-1") + "Grün", "", "utf-8 Grün"},
		"UTF-8 as GB18030":            {page("gb18030") + "中文标题", "", "utf-8 中文标题"},
		"UTF-8 with a broken byte":    {mixed + "\xff!", "", "utf-8 " + mixed + "\ufffd!"},
		"UTF-8 that ends too early":   {mixed + "\xc3", "", "utf-8 " + mixed + "\ufffd"},
		"1252 by the page": {
			page("windows-1252") + encoded(t, "windows-1252", mixed), "", "windows-1252 " + mixed,
		},
		"1252 by the page, short": {
			"<meta charset=latin1>" + encoded(t, "windows-1252", mixed), "", "windows-1252 " + mixed,
		},
		"1252 by the type": {
			encoded(t, "windows-1252", mixed), "text/html; charset=iso-8859-1", "windows-1252 " + mixed,
		},
		"1252 as UTF-8": {page("UTF-8") + encoded(t, "windows-1252", mixed), "", "windows-1252? " + mixed},
		"1252 as a word": {
			page("klingon") + encoded(t, "windows-1252", mixed), "text/html; charset=klingon", "windows-1252? " + mixed,
		},
		"1252 as UTF-16": {page("UTF-16") + encoded(t, "windows-1252", mixed), "", "windows-1252? " + mixed},
		"1251 by the type": {
			"<meta charset=latin1>" + encoded(t, "windows-1251", "Привет"), "text/html; charset=windows-1251",
			"windows-1251 Привет",
		},
		"KOI8-R by the page":    {page("koi8-r") + encoded(t, "koi8-r", "Привет"), "", "koi8-r Привет"},
		"GB18030 by the page":   {page("gb2312") + encoded(t, "gb18030", "中文标题"), "", "gbk 中文标题"},
		"Shift_JIS by the page": {page("Shift_JIS") + encoded(t, "shift_jis", "日本語"), "", "shift_jis 日本語"},
		"7 bits by the page":    {page("iso-2022-jp") + encoded(t, "iso-2022-jp", "日本語"), "", "iso-2022-jp 日本語"},
		"Latin-1 by XML": {
			"<?xml version=\"1.0\" encoding=\"iso-8859-1\"?>" + encoded(t, "windows-1252", "Grün"), "", "windows-1252 Grün",
		},
		"UTF-16":                    {"\xff\xfe" + utf16le("a,Æblegrød"), "", "utf-16le a,Æblegrød"},
		"UTF-16, the other way":     {"\xfe\xff" + utf16be("a,Æblegrød"), "", "utf-16be a,Æblegrød"},
		"UTF-16 without a mark":     {utf16le("url,title\n中文标题"), "", "utf-16le? url,title\n中文标题"},
		"UTF-16 the other way, too": {utf16be("url,title\n中文标题"), "", "utf-16be? url,title\n中文标题"},
		"a NUL":                     {"a\x00b", "", "utf-8 a\x00b"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			c, err := CharsetOf(iotest.OneByteReader(strings.NewReader(row.text)), row.media)
			is.NoErr(err)
			all, err := io.ReadAll(c.NewReader(strings.NewReader(row.text)))
			is.NoErr(err)
			got := c.Name
			if c.Guessed {
				got += "?"
			}
			text := string(all)
			if i := strings.LastIndexByte(text, '>'); i >= 0 {
				text = strings.TrimPrefix(text[i+1:], "\n")
			}
			is.Equal(got+" "+text, row.want)
		})
	}
}

// TestGuess: texts of people in the charsets that they used before UTF-8, as
// lines of a list of bookmarks.
func TestGuess(t *testing.T) {
	for charset, texts := range map[string][]string{
		"windows-1252": {
			"Größe", "Übermut", "Crème brûlée", "5 €", "“quoted”", "Straße in Köln – ÄÖÜ", "São Paulo à noite", "El Niño ¿qué?", "Ærø på dansk", "Ísland er fagurt", "naïve café",
			"Die Prüfung der Größe", "È così perché", "Où êtes-vous ? « Là-bas »", "© 2004 Foo", "Århus", "Zoë",
			"MÜLLER", "BÜRO", "RECHNUNG FÜR MÄRZ", "CAFÉ", "NIÑO", "250 g Mehl, ½ TL Salz", "Cost £5", "3 × 4", "5 µg", "21 m²",
		},
		"windows-1251": {
			"Привет мир", "Новости дня", "НОВОСТИ России и мира", "Как сварить борщ – рецепт", "Це українська мова її", "мир",
		},
		"koi8-r":       {"Привет мир", "Новости дня на сегодня", "Как сварить борщ"},
		"windows-1250": {"Zażółć gęślą jaźń", "Książka, żółw i śnieg", "Příliš žluťoučký kůň úpěl ďábelské ódy"},
		"windows-1254": {"Türkçe ışık ve şeker bağ", "İstanbul'da güneşli"},
		"windows-1253": {"Καλημέρα κόσμε, τι κάνεις", "Ελληνική γλώσσα και ιστορία"},
		"windows-1255": {"שלום עולם, מה שלומך היום"},
		"windows-1256": {"مرحبا بالعالم كيف حالك اليوم"},
		"windows-874":  {"สวัสดีชาวโลก วันนี้เป็นอย่างไร"},
		"shift_jis":    {"日本語のテキスト", "東京タワー", "これはテストです。", "ニュース速報"},
		"euc-jp":       {"日本語のテキスト", "これはテストファイルです。"},
		"gb18030":      {"中文标题", "这是一个普通的文本文件，用于测试编码。", "新闻中心", "使用Go语言"},
		"big5":         {"中文標題", "這是一個普通的文字檔案，用於測試編碼。", "台灣新聞"},
		"euc-kr":       {"안녕하세요 세계", "한국어 뉴스와 날씨", "서울"},
		"macintosh":    {"Größe der Übung für Äpfel"},
		"ibm866":       {"Привет мир, новости дня"},
	} {
		for _, text := range texts {
			t.Run(charset+"/"+text, func(t *testing.T) {
				is := is.New(t)
				data := encoded(t, charset, `<DT><A HREF="https://example.org/" TAGS="a">`+text+"</A>\n")
				c, err := CharsetOf(strings.NewReader(data), "")
				is.NoErr(err)
				got, _ := io.ReadAll(c.NewReader(strings.NewReader(data)))
				if !strings.Contains(string(got), text) {
					t.Errorf("taken as %s: %s", c.Name, got)
				}
			})
		}
	}
}

// Only a sample of a text is in memory.
func TestCharsetMemory(t *testing.T) {
	is := is.New(t)
	var s survey
	line := []byte(strings.Repeat("Gr\xfc\xdfe ", 1000))
	for range 100 {
		is.Equal(len(s.add(line, false)), 0)
	}
	is.True(len(s.head) < maxHead+utf8.UTFMax)
	is.True(len(s.sample) < maxSample+utf8.UTFMax+2)
	is.Equal(s.charset("").Name, "windows-1252")
}

// Whatever the bytes are, they become valid UTF-8, and UTF-8 stays as it is.
func FuzzCharset(f *testing.F) {
	for _, text := range []string{
		"", "\xff", "\xff\xfea\x00", "\ufeffa", "Gr\xfc\xdfe", "\xd6\xd0\xce\xc4", page("gbk") + "\x81\x30",
		page("iso-2022-jp") + "\x1b$B", "a\x00b\x00", mixed,
	} {
		f.Add([]byte(text), "text/html")
	}
	f.Add([]byte("\x84\x31\x95\x33a"), "text/plain; charset=gb18030")
	f.Fuzz(func(t *testing.T, text []byte, media string) {
		is := is.New(t)
		c, err := CharsetOf(bytes.NewReader(text), media)
		is.NoErr(err)
		is.True(c.Name != "")
		again, err := CharsetOf(iotest.OneByteReader(bytes.NewReader(text)), media)
		is.NoErr(err)
		is.Equal(again, c) // however it is read
		got, err := io.ReadAll(c.NewReader(bytes.NewReader(text)))
		is.NoErr(err)
		is.True(utf8.Valid(got))
		if c.Name == "utf-8" && utf8.Valid(text) {
			is.Equal(c.Bad, int64(0))
			is.Equal(string(got), strings.TrimPrefix(string(text), "\ufeff"))
		}
	})
}
