package upload

import (
	"bytes"
	"encoding/base64"
	"io"
	"mime/multipart"
	"mime/quotedprintable"
	"net/textproto"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// TestTransferEncoding: a part's bytes are those that its sender encoded.
func TestTransferEncoding(t *testing.T) {
	t.Parallel()
	all := make([]byte, 1024)
	for i := range all {
		all[i] = byte(i)
	}
	in64 := base64.StdEncoding.EncodeToString(all)
	lines := ""
	for rest := in64; rest != ""; rest = rest[min(76, len(rest)):] {
		lines += rest[:min(76, len(rest))] + "\r\n"
	}
	var quoted bytes.Buffer
	w := quotedprintable.NewWriter(&quoted)
	w.Binary = true
	_, err := w.Write(all)
	is.New(t).NoErr(err)
	is.New(t).NoErr(w.Close())

	for name, c := range map[string]struct {
		encoding, sent string
		bytes          []byte // nil if the part is refused
	}{
		"none":                         {"", string(all), all},
		"7bit":                         {"7bit", "abc", []byte("abc")},
		"8bit":                         {"8Bit", "\xff", []byte("\xff")},
		"binary":                       {" BINARY ", string(all), all},
		"base64 in one line":           {"base64", in64, all},
		"base64 in lines":              {"Base64", lines, all},
		"base64 of nothing":            {"base64", "", []byte{}},
		"base64 with other characters": {"base64", "YWJj!!!!", nil},
		"base64 that is cut off":       {"base64", "YWJjZ", nil},
		"quoted-printable":             {"Quoted-Printable", quoted.String(), all},
		"quoted-printable, lenient":    {"quoted-printable", "=zz", []byte("=zz")},
		"a compression":                {"gzip", "abc", nil},
		"an unknown one":               {"x-uuencode", "abc", nil},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			body := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n"
			if c.encoding != "" {
				body += "Content-Transfer-Encoding: " + c.encoding + "\r\n"
			}
			raw, err := multipart.NewReader(strings.NewReader(body+"\r\n"+c.sent+"\r\n--b--\r\n"), "b").NextRawPart()
			is.NoErr(err)
			part, err := decode(raw)
			var got []byte
			if err == nil {
				got, err = io.ReadAll(part)
			}
			is.Equal(err == nil, c.bytes != nil)
			if c.bytes != nil {
				is.Equal(got, c.bytes)
			}
		})
	}
}

// TestFileName: the name of a file in a form, in the forms that programs write it.
func TestFileName(t *testing.T) {
	t.Parallel()
	for params, want := range map[string]string{
		`filename="a b.txt"`:                                           "a b.txt",
		`filename="say %22hi%22.txt"`:                                  `say "hi".txt`,
		`filename="Größe.txt"`:                                         "Größe.txt",
		"filename=\"Caf\xe9 M\xfcller.txt\"":                           "Café Müller.txt",
		"filename=\"\xce\xf2\xf7\xb8\xf2.txt\"":                        "Отчёт.txt",
		"filename=\"\x83e\x83X\x83g.txt\"":                             "テスト.txt",
		`filename="a.txt"; filename*=UTF-8''%E2%82%AC%20rates.txt`:     "€ rates.txt",
		`filename*=utf-8''%E2%82%AC.txt; filename=a.txt`:               "€.txt",
		`filename*=iso-8859-1''caf%E9.pdf`:                             "café.pdf",
		`filename*=windows-1251'ru'%CE%F2%F7%B8%F2.txt`:                "Отчёт.txt",
		`filename*="GBK''%D6%D0%CE%C4.txt"`:                            "中文.txt",
		`filename="=?utf-8?B?w5xidW5nLnR4dA==?="`:                      "Übung.txt",
		`filename="=?utf-8?B?eA==?="; filename*=utf-8''%C3%9Cbung.txt`: "Übung.txt",
		`filename="=?utf-8?Q?=C3=9Cbung?= =?utf-8?Q?_1.txt?="`:         "Übung 1.txt",
		`filename="=?no.txt"`:                                          "=?no.txt",
		`filename=""`:                                                  "file",
		`filename="..\..\x.txt"`:                                       "x.txt",
	} {
		part := &multipart.Part{Header: textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; ` + params}}}
		if got := FileName(part); got != want {
			t.Errorf("%s: got %q, want %q", params, got, want)
		}
	}
}
