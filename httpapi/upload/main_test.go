package upload_test

import (
	"os"
	"testing"

	"kist/httpapi/apitest"
)

func TestMain(m *testing.M) { os.Exit(apitest.Run(m)) }
