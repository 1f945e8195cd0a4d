package metadata

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// profileWith is a colour profile with these tags, each a name of four letters and what it says.
func profileWith(says string, tags ...string) string {
	number := func(n int) string { return string(binary.BigEndian.AppendUint32(nil, uint32(n))) }
	table, data := number(len(tags)), ""
	for _, t := range tags {
		table += t[:4] + number(profileHead+4+profileEntry*len(tags)+len(data)) + number(len(t)-4)
		data += t[4:]
	}
	head := strings.Repeat("\x00", 24) + says + strings.Repeat("\x00", 12-len(says)) + "acsp"
	return head + strings.Repeat("\x00", profileHead-len(head)) + table + data
}

const redTag = "rXYZXYZ \x00\x00\x00\x00\x00\x00\xc7\x96\x00\x00\x49\xc9\x00\x00\x00\x00"

// profileOf is a colour profile with this description.
func profileOf(text string) string { return profileWith("", redTag, "desc"+text) }

func TestPlainProfile(t *testing.T) {
	t.Parallel()
	zeros := func(n int) string { return strings.Repeat("\x00", n) }
	plain, maker := profileWith("", redTag), profileWith("", redTag, "mmodsecret!!")
	for name, c := range map[string]struct{ profile, want string }{
		"a plain one": {plain, plain},
		"a time":      {profileWith("secret", redTag), plain},
		"a text":      {profileOf("text\x00\x00\x00\x00secret\x00"), profileOf("text" + zeros(11))},
		"texts in languages": {
			profileOf("mluc\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x0cenUSsecret"),
			profileOf("mluc" + zeros(11) + "\x0c" + zeros(10)),
		},
		"an old description": {
			profileOf("desc\x00\x00\x00\x00\x00\x00\x00\x07secret\x00"), profileOf("desc" + zeros(7) + "\x01" + zeros(7)),
		},
		"a maker's tag":    {maker, maker[:131] + "\x01" + maker[132:144] + zeros(12) + redTag[4:] + zeros(8)},
		"bytes at the end": {plain + "secret", plain + zeros(6)},
		"a tag that is outside": {
			plain[:140] + "\xff" + plain[141:],
			zeros(36) + "acsp" + zeros(len(plain)-40),
		},
		"not a profile": {"secret", zeros(6)},
		"a wrong table": {plain[:128] + "\xff" + plain[129:], zeros(len(plain))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			got := string(plainProfile([]byte(c.profile)))
			is.Equal(got, c.want)
			is.Equal(string(plainProfile([]byte(got))), got)
		})
	}
}

// TestProfiles: every format that can have a colour profile loses its texts and keeps its colours.
func TestProfiles(t *testing.T) {
	t.Parallel()
	full := "\x00\x00\x00\x00"
	segment := func(number, all byte, part string) string {
		data := string(iccHead) + string([]byte{number, all}) + part
		return "\xff\xe2" + string(binary.BigEndian.AppendUint16(nil, uint16(2+len(data)))) + data
	}
	jpeg := func(segments ...string) string { return "\xff\xd8" + strings.Join(segments, "") + "\xff\xd9" }
	webp := func(profile string) string {
		length := func(n int) string { return string(binary.LittleEndian.AppendUint32(nil, uint32(n))) }
		chunks := "WEBP" + "VP8X\x0a\x00\x00\x00\x20" + strings.Repeat("\x00", 9) + "ICCP" + length(len(profile)) + profile
		return "RIFF" + length(len(chunks)) + chunks
	}
	entry := func(profile string) string {
		return describedAs("vide", boxed("avc1", strings.Repeat("\x00", 78), boxed("colr", "prof", profile)))
	}
	heic := func(profile string) string {
		return boxed("ftyp", "heic", full) + boxed(
			"meta", full, boxed("hdlr", full, full, "pict", full, full, full, "\x00"),
			boxed("iprp", boxed("ipco", boxed("colr", "prof", profile))),
		)
	}
	secret, plain := profileOf("text\x00\x00\x00\x00secret!\x00"), profileOf("text"+strings.Repeat("\x00", 12))
	for name, c := range map[string]struct{ file, want string }{
		"JPEG": {jpeg(segment(1, 1, secret)), jpeg(segment(1, 1, plain))},
		"JPEG in parts": {
			jpeg(segment(1, 2, secret[:190]), segment(2, 2, secret[190:])),
			jpeg(segment(1, 2, plain[:190]), segment(2, 2, plain[190:])),
		},
		"a second of JPEG": {jpeg(segment(1, 1, secret), segment(1, 1, secret)), jpeg(segment(1, 1, plain))},
		"WebP":             {webp(secret), webp(plain)},
		"HEIC":             {heic(secret), heic(plain)},
		"a film":           {entry(secret), entry(plain)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			out, p, err := cleaned([]byte(c.file), "")
			is.NoErr(err)
			is.Equal(string(out), c.want)
			is.True(slices.Contains(p.Found, Text))
			again, q, err := cleaned(out, "")
			is.NoErr(err)
			is.True(bytes.Equal(again, out))
			is.Equal(q.Found, nil)
		})
	}
}

func FuzzPlainProfile(f *testing.F) {
	f.Add([]byte(profileOf("text\x00\x00\x00\x00secret\x00")))
	f.Add([]byte(profileWith("secret", redTag, "mmodsecret!!")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(plainProfile(b)) != len(b) {
			t.Fatal("another length")
		}
	})
}
