package ship_test

import (
	"testing"

	"kist/kv/kvtest"
)

func TestMain(m *testing.M) { kvtest.RunTests(m) }
