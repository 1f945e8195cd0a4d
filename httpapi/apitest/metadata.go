package apitest

import (
	"bytes"
	"io"
	"os"
	"testing"

	"kist/httpapi/metadata"
)

// photo is a picture that says where it was taken, and what visitors get of it.
func Photo(t testing.TB, name string) (original, clean string) {
	t.Helper()
	b, err := os.ReadFile("../metadata/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := metadata.Clean(bytes.NewReader(b), int64(len(b)), "")
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Over(bytes.NewReader(b)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b), string(out)
}
