package jobs_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/jobs"
	"kist/kv/kvtest"
	"kist/kv/kvtest/needs"
	"kist/kv/record"
)

// Answers take a bounded space. When it is used up, those that are kept stay, and requests with
// another key are refused: those of senders when it is half full.
func TestAnswersAreBounded(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	clock := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), clock.Now)
	ann, bob := kvtest.User(t, s, "ann").ID, kvtest.User(t, s, "bob").ID
	find := func(owner record.ID, key string) (owners, senders string) {
		kvtest.View(t, s, func(tx *kv.Tx) error {
			_, err := jobs.FindAnswer(tx, owner, key)
			owners = kvtest.Code(err)
			_, err = jobs.FindSenderAnswer(tx, owner, key)
			senders = kvtest.Code(err)
			return nil
		})
		return owners, senders
	}
	body := bytes.Repeat([]byte("x"), 4<<20) // a third more as JSON
	n, half := 0, 0
	for owners, senders := "", ""; owners != "too_many_answers"; n++ {
		is.True(n < 13)
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			return jobs.SaveIdempotentAnswer(tx, ann, fmt.Sprint(n), jobs.IdempotentAnswer{Body: body})
		})
		owners, senders = find(ann, "another")
		if half == 0 && senders == "too_many_answers" {
			half = n + 1
		}
	}
	is.Equal([]int{half, n}, []int{6, 12})
	for i := range n {
		owners, senders := find(ann, fmt.Sprint(i))
		is.Equal(owners+senders, "")
	}
	owners, _ := find(bob, "another")
	is.Equal(owners, "not_found")
	clock.Add(25 * time.Hour)
	is.NoErr(jobs.DropIdempotentAnswers(s))
	owners, _ = find(ann, "another")
	is.Equal(owners, "not_found")
}
