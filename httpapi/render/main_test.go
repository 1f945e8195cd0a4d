package render

import (
	"testing"

	"kist/kv/kvtest/needs"
)

func TestMain(m *testing.M) { needs.Run(m) }
