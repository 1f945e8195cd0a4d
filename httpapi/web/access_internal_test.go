package web

import (
	"fmt"
	"testing"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/record"
)

// TestDoorErrors holds what errors are answered with against the table.
func TestDoorErrors(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for fault := record.Malformed; fault <= record.Full; fault++ {
		is.True(Statuses[fault] >= 400)
	}
	_, status := ClientError(&record.Error{Code: "forgotten", Text: "No class."})
	is.Equal(status, 500)
	_, status = ClientError(fmt.Errorf("wrapped: %w", kv.ErrClosed))
	is.Equal(status, 503)
}
