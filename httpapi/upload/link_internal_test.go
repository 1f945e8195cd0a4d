package upload

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/kv/inbox"
	"kist/kv/jobs"
)

// TestStoredReceipts: what is stored of an answer to a form's sender keeps its form, so that a later
// version can repeat the answer.
func TestStoredReceipts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const stored = `[{"ID":"01890a5d-ac96-774b-bcce-b302099a8057","State":"pending","Name":"a.txt","Size":3},{"ID":"01890a5d-ac96-774b-bcce-b302099a8058","State":"approved","Name":"b.txt","Size":4}]`
	q := &inbox.Request{ID: uuid.UUID{1}, Owner: uuid.UUID{2}}
	items := []*inbox.Item{
		{ID: uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057"), State: inbox.Pending, Name: "a.txt", Size: 3, Owner: q.Owner, Request: q.ID},
		{ID: uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8058"), State: inbox.Approved, Name: "b.txt", Size: 4, Owner: q.Owner, Request: q.ID},
	}
	b, err := json.Marshal(receiptsOf(items))
	is.NoErr(err)
	is.Equal(string(b), stored)
	back, err := itemsOf(q, &jobs.IdempotentAnswer{Request: []byte("request"), Body: []byte(stored)}, []byte("request"))
	is.NoErr(err)
	is.Equal(back, items)
	_, err = itemsOf(q, &jobs.IdempotentAnswer{Request: []byte("request"), Body: []byte(stored)}, []byte("another"))
	is.True(err != nil)
}
