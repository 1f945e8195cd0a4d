package jobs

import (
	"testing"
	"time"

	"github.com/matryer/is"
)

// A delivery that succeeds ends the count of failures and a pause.
func TestWebhookRecovers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w := &Webhook{}
	w.Record(Try{Status: 500, Error: "It failed."}, now, now)
	w.Record(Try{Status: 500, Error: "It failed."}, now.Add(time.Minute), now.Add(time.Minute))
	is.Equal(w.Failures, 2)
	is.True(w.Failing.Equal(now))
	w.Paused = now
	w.Record(Try{Status: 200}, now.Add(2*time.Minute), now.Add(2*time.Minute))
	is.Equal(w.Failures, 0)
	is.True(w.Failing.IsZero() && w.Paused.IsZero())
	is.True(w.LastDelivered.Equal(now.Add(2 * time.Minute)))
}
