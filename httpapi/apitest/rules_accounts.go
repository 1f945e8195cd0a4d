package apitest

import (
	"testing"

	"kist/kv/record"
)

func MustID(t *testing.T, text string) [16]byte {
	t.Helper()
	var id record.ID
	if err := id.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return id
}
