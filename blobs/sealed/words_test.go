package sealed

import (
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/blobs"
)

func TestWords(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(crc32.ChecksumIEEE([]byte(wordList)), uint32(0xc1dbd296)) // of the list of BIP-39
	list := strings.Fields(wordList)
	is.Equal(len(list), 1<<wordBits)
	is.True(slices.IsSorted(list))
	for i := range 300 {
		s := NewSecret()
		if i == 0 {
			s = Secret{}
		}
		words := s.Words()
		is.Equal(len(words), Words)
		got, err := FromWords(strings.Join(words, " "))
		is.NoErr(err)
		is.Equal(got, s)
	}
}

// A key file and a sheet can be read by later versions.
func TestWordsStay(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := Secret{}
	for i := range s {
		s[i] = byte(i)
	}
	is.Equal(s.Text(), "kist-store-key-1:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")
	is.Equal(strings.Join(s.Words(), " "), "abandon amount liar amount expire adjust cage candy arch gather drum bullet "+
		"absurd math era live bid rhythm alien crouch range attend journey twelve mule stereo")
	k, err := NewKey(s)
	is.NoErr(err)
	is.Equal(k.ID(), "caa85977")
	name := k.inner(blobs.Ref{1}.RemoteName())
	is.Equal(name, "sealed/blobs/1f/1fe1dc336e21113abbdd11f113cfbcb430afd0377d0254cb6475834cfd77e73f")
}

// People type words in other ways than the sheet has them.
func TestFromWords(t *testing.T) {
	t.Parallel()
	s := Secret(sha256.Sum256([]byte("a sheet")))
	words := s.Words()
	numbered, short := "", ""
	for i, w := range words {
		numbered += strings.Repeat(" ", i%3) + string(rune('0'+(i+1)/10)) + string(rune('0'+(i+1)%10)) + ". " + w + "\t"
		short += w[:min(len(w), prefix)] + "\n"
	}
	with := func(i int, word string) string {
		other := slices.Clone(words)
		other[i] = word
		return strings.Join(other, " ")
	}
	swapped := slices.Clone(words)
	swapped[3], swapped[4] = swapped[4], swapped[3]
	for _, c := range []struct{ name, text, wrong string }{
		{"as printed", strings.Join(words, " "), ""},
		{"numbered", numbered, ""},
		{"upper case", strings.ToUpper(strings.Join(words, "\r\n")), ""},
		{"four letters", short, ""},
		{"in rows with numbers", numberedIn(words, 1, 4), ""},
		{"in columns with numbers", numberedIn(words, 7, 4), ""},
		{"tabs and odd spaces", strings.Join(words, "\t\u00a0\u3000"), ""},
		{"as a list in Markdown", "- [ ] **1)** " + strings.Join(words, "\n- [ ] "), ""},
		{"commas", strings.Join(words, ", "), ""},
		{"the line of the QR code", "\n" + s.Text() + "\n", ""},
		{"nothing", "", "has 26 words, and these are 0"},
		{"one is missing", strings.Join(words[1:], " "), "has 26 words, and these are 25"},
		{"one too many", strings.Join(words, " ") + " zoo", "these are 27"},
		{"no word of the list", with(6, "kist"), `word 7, "kist", is not one`},
		{"a letter too many", with(0, words[0]+"x"), "did you mean " + words[0] + "?"},
		{"a letter is wrong", with(9, "zono"), `did you mean zone or zoo?`},
		{"another word", with(11, "zoo"), "word 12 is wrong: it is zoo, and should be " + words[11]},
		{
			"two in the wrong order", strings.Join(swapped, " "),
			"words 4 and 5 are in the wrong order: it should be " + words[3],
		},
		{"two other words", strings.Replace(with(11, "zoo"), words[1], "zebra", 1), "at least two"},
		{"a cut line", s.Text()[:40], "not a key file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			got, err := FromWords(c.text)
			if c.wrong == "" {
				is.NoErr(err)
				is.Equal(got, s)
				return
			}
			is.True(err != nil)
			is.True(strings.Contains(err.Error(), c.wrong))
		})
	}
}

func FuzzFromWords(f *testing.F) {
	s := Secret{1, 2, 3}
	f.Add(strings.Join(s.Words(), " "))
	f.Add(s.Text())
	f.Add("1. zoo 2. ZEBRA ünter")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := FromWords(text)
		if err != nil {
			return
		}
		again, err := FromWords(strings.Join(got.Words(), " "))
		if err != nil || again != got {
			t.Fatal(again, got, err)
		}
	})
}

// numberedIn writes words with their numbers in rows. Between neighbours in a row there are step words.
func numberedIn(words []string, step, columns int) string {
	var b strings.Builder
	rows := (len(words) + columns - 1) / columns
	for row := range rows {
		for column := range columns {
			i := row*columns + column
			if step > 1 {
				i = row + column*step
			}
			if i < len(words) {
				fmt.Fprintf(&b, "%2d. %-10s", i+1, words[i])
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
